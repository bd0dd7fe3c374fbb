//! The demo's agents: `capataz __demo-agent ROLE PATH`. Like any process agent, they read JSON from stdin and write
//! JSON to stdout.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crew::TRY_AGAIN;
use capataz_display::words::{counted, fill, words};

/// The name of the hidden subcommand.
pub const MODE: &str = "__demo-agent";

/// How many attempts of the flaky agent fail.
const FAILURES: u64 = 2;
/// How long the slow agent would take if it were not stopped.
const SLOW: Duration = Duration::from_secs(30);
/// Maximum number of files in a scan, for any folder.
const MOST_FILES: usize = 20_000;
const LONGEST_SCAN: Duration = Duration::from_secs(4);
/// Maximum size of a file that counts as source text.
const MOST_BYTES: u64 = 1024 * 1024;
/// Folders of generated or downloaded files.
const SKIPPED: [&str; 4] = ["target", "node_modules", "dist", "__pycache__"];

pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let role = arguments.next().unwrap_or_default();
    let path = arguments.next().map(PathBuf::from).unwrap_or_default();
    let answer = match role.to_str() {
        Some("lines") => Ok(lines(&path)),
        Some("todos") => Ok(todos(&path)),
        Some("flaky") => flaky(&path),
        Some("slow") => {
            take_long();
            Ok(Value::Null)
        }
        Some("summary") => summary(),
        Some("note") => note(&path),
        _ => Err((ExitCode::from(2), "no such role".to_owned())),
    };
    match answer {
        Ok(answer) => match writeln!(io::stdout(), "{answer}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err((code, problem)) => {
            let _ = writeln!(io::stderr(), "{problem}");
            code
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an agent that takes long is what the demo needs")]
fn take_long() {
    std::thread::sleep(SLOW);
}

type Answer = Result<Value, (ExitCode, String)>;

/// Appends what it is given to a file.
fn note(file: &Path) -> Answer {
    let wrong = |error: io::Error| (ExitCode::FAILURE, error.to_string());
    let mut given = String::new();
    io::stdin().read_to_string(&mut given).map_err(wrong)?;
    let mut notes = OpenOptions::new().create(true).append(true).open(file).map_err(wrong)?;
    writeln!(notes, "{}", given.trim()).map_err(wrong)?;
    Ok(json!({ "noted": file.display().to_string() }))
}

fn lines(folder: &Path) -> Value {
    let mut by_kind: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let complete = for_each_text(folder, |kind, text| {
        let count = by_kind.entry(kind.to_owned()).or_default();
        count.0 += 1;
        count.1 += text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    });
    let mut kinds: Vec<(&String, &(u64, u64))> = by_kind.iter().collect();
    kinds.sort_by_key(|(_, (_, lines))| std::cmp::Reverse(*lines));
    let largest: Vec<Value> = kinds
        .iter()
        .take(5)
        .map(|(kind, (files, lines))| json!({ "kind": kind, "files": files, "lines": lines }))
        .collect();
    json!({
        "files": by_kind.values().map(|(files, _)| files).sum::<u64>(),
        "lines": by_kind.values().map(|(_, lines)| lines).sum::<u64>(),
        "largest": largest,
        "complete": complete,
    })
}

fn todos(folder: &Path) -> Value {
    let mut found: BTreeMap<&str, u64> = BTreeMap::new();
    let complete = for_each_text(folder, |_, text| {
        for marker in ["TODO", "FIXME", "HACK"] {
            *found.entry(marker).or_default() += text.matches(marker).count() as u64;
        }
    });
    json!({ "total": found.values().sum::<u64>(), "markers": found, "complete": complete })
}

/// Fails for the first [`FAILURES`] calls. A file keeps the count, as a real service would.
fn flaky(state: &Path) -> Answer {
    let problem = |error: io::Error| (ExitCode::FAILURE, error.to_string());
    let asked = fs::metadata(state).map(|file| file.len()).unwrap_or(0);
    let mut file = OpenOptions::new().append(true).create(true).open(state).map_err(problem)?;
    file.write_all(b".").map_err(problem)?;
    if asked < FAILURES {
        return Err((ExitCode::from(TRY_AGAIN), "the service is busy".to_owned()));
    }
    Ok(json!({ "answer": "all is well", "attempts": asked + 1 }))
}

fn summary() -> Answer {
    let mut input = String::new();
    io::stdin().lock().read_to_string(&mut input).map_err(|error| (ExitCode::FAILURE, error.to_string()))?;
    let input: Value =
        serde_json::from_str(&input).map_err(|error| (ExitCode::FAILURE, error.to_string()))?;
    let number = |pointer: &str| input.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let largest = input.pointer("/lines/largest/0/kind").and_then(Value::as_str).unwrap_or("nothing");
    let service = input.pointer("/service").and_then(Value::as_str).unwrap_or("nothing");
    let (files, lines, todos) = (number("/lines/files"), number("/lines/lines"), number("/todos/total"));
    let texts = &words().demo;
    let text = fill(
        texts.summary,
        &[
            &counted(lines, texts.lines_one, texts.lines_many),
            &counted(files, texts.files_one, texts.files_many),
            largest,
            &counted(todos, texts.markers_one, texts.markers_many),
            service,
        ],
    );
    Ok(Value::String(text))
}

/// Calls `see` for every text file below `folder`, with the file's extension and contents. Returns whether all files
/// were seen.
#[expect(clippy::disallowed_methods, reason = "a program of its own, which must end within its time")]
fn for_each_text(folder: &Path, mut see: impl FnMut(&str, &str)) -> bool {
    let began = Instant::now();
    let mut seen = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // Unreadable folders are skipped.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if name.starts_with('.') || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                if !SKIPPED.contains(&name.as_ref()) {
                    folders.push(entry.path());
                }
                continue;
            }
            if seen >= MOST_FILES || began.elapsed() > LONGEST_SCAN {
                return false;
            }
            seen += 1;
            let Some((_, extension)) = name.rsplit_once('.') else { continue };
            let is_small = kind.is_file() && entry.metadata().is_ok_and(|file| file.len() <= MOST_BYTES);
            if let Some(text) = is_small.then(|| fs::read_to_string(entry.path()).ok()).flatten() {
                see(extension, &text);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_scanned() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("a.rs"), "fn a() {}\n\n// TODO: more\n")?;
        fs::create_dir(folder.path().join("target"))?;
        fs::write(folder.path().join("target/b.rs"), "ignored\n")?;
        let found = lines(folder.path());
        assert_eq!((found.pointer("/files"), found.pointer("/lines")), (Some(&json!(1)), Some(&json!(2))));
        assert_eq!(todos(folder.path()).pointer("/total"), Some(&json!(1)));
        Ok(())
    }

    #[test]
    fn the_flaky_one_succeeds_at_the_third_attempt() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let state = folder.path().join("state");
        assert!(flaky(&state).is_err());
        assert!(flaky(&state).is_err());
        assert_eq!(flaky(&state).ok().and_then(|answer| answer.get("attempts").cloned()), Some(json!(3)));
        Ok(())
    }
}
