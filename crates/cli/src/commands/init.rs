//! `capataz init`: a small folder with a crew that works. It writes what is not there, and nothing else.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Outcome;
use crate::args::InitArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use capataz_display::error;
use capataz_display::words::{Language, fill, words};

/// The folder of the agents' programs.
const AGENTS: &str = "agents";
/// Permissions of a program, and of any other file, before those that the user's mask takes away.
const PROGRAM: u32 = 0o777;
const TEXT: u32 = 0o666;
/// What comes next, in the folder.
const NEXT: &str = "capataz run plan.toml --local";

/// A file that is written.
#[derive(Clone, Copy, Debug)]
struct Template {
    name: &'static str,
    text: &'static str,
    mode: u32,
}

/// The files of a crew. Comments are in the language, and everything else is the same.
fn templates(language: Language) -> [Template; 3] {
    let file = |name, mode, english, spanish| {
        let text = if language == Language::Spanish { spanish } else { english };
        Template { name, text, mode }
    };
    [
        file(
            "capataz.toml",
            TEXT,
            include_str!("../init/en/capataz.toml"),
            include_str!("../init/es/capataz.toml"),
        ),
        file("plan.toml", TEXT, include_str!("../init/en/plan.toml"), include_str!("../init/es/plan.toml")),
        file(
            "agents/report.sh",
            PROGRAM,
            include_str!("../init/en/report.sh"),
            include_str!("../init/es/report.sh"),
        ),
    ]
}

pub fn init(args: &InitArgs, out: &mut Output) -> Outcome {
    let texts = &words().init;
    let templates = templates(out.people);
    let folder = &args.folder;
    let there = already_there(folder, &templates);
    if !there.is_empty() {
        let (message, hint) = (texts.there.to_owned(), texts.there_hint.to_owned());
        return Err(Failure::Files { message, files: there, hint });
    }
    let written = write(folder, &templates).map_err(|(path, error)| {
        let path = path.display().to_string();
        Failure::failed(fill(texts.not_written, &[&path, &error.to_string()]))
    })?;
    let files: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    let place = folder.display().to_string();
    if out.json {
        out.document(&json!({ "folder": place, "files": files, "next": NEXT }));
        return Ok(Exit::Ok);
    }
    for file in files {
        out.line(&error::ok(&fill(texts.written, &[&file]), out.paint));
    }
    out.line("");
    out.line(texts.next);
    if folder != Path::new(".") {
        out.line(&format!("  cd {}", shell_word(&place)));
    }
    out.line(&format!("  {NEXT}"));
    Ok(Exit::Ok)
}

/// What is in the way, whatever it is: a file, a folder, a link that leads nowhere.
fn already_there(folder: &Path, templates: &[Template]) -> Vec<String> {
    let mut there = Vec::new();
    // The link may be of the folder itself, but a program is written into no other folder than it.
    let agents = within(folder, AGENTS);
    if fs::symlink_metadata(&agents).is_ok_and(|metadata| !metadata.is_dir()) {
        there.push(agents);
    }
    let files = templates.iter().map(|template| within(folder, template.name));
    there.extend(files.filter(|file| fs::symlink_metadata(file).is_ok()));
    there.iter().map(|path| path.display().to_string()).collect()
}

/// The path of a file in the folder, as a person writes it.
fn within(folder: &Path, name: &str) -> PathBuf {
    if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) }
}

/// Writes all files or none. What it has made is taken back at the first error, which names its path.
fn write(folder: &Path, templates: &[Template]) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut made = Made::default();
    made.folder(folder)?;
    made.folder(&folder.join(AGENTS))?;
    for template in templates {
        made.file(folder, template)?;
    }
    made.folders.clear();
    Ok(std::mem::take(&mut made.files))
}

/// What was made so far; it is removed where the rest cannot be made.
#[derive(Debug, Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Drop for Made {
    fn drop(&mut self) {
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        // The inner ones first; one that somebody else has put something into stays.
        for folder in self.folders.drain(..).rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Made {
    /// Makes the folder, and those around it, where they are not there.
    fn folder(&mut self, folder: &Path) -> Result<(), (PathBuf, io::Error)> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && fs::symlink_metadata(path).is_err();
        let mut missing: Vec<&Path> = folder.ancestors().take_while(missing).collect();
        missing.reverse();
        for path in missing {
            fs::create_dir(path).map_err(|error| (path.to_owned(), error))?;
            self.folders.push(path.to_owned());
        }
        match fs::metadata(folder) {
            _ if folder.as_os_str().is_empty() => Ok(()),
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err((folder.to_owned(), io::ErrorKind::NotADirectory.into())),
            Err(error) => Err((folder.to_owned(), error)),
        }
    }

    fn file(&mut self, folder: &Path, template: &Template) -> Result<(), (PathBuf, io::Error)> {
        let path = within(folder, template.name);
        let mut options = OpenOptions::new();
        // A file that somebody has made in this moment is not overwritten either.
        let opened = options.write(true).create_new(true).mode(template.mode).open(&path);
        let mut file = opened.map_err(|error| (path.clone(), error))?;
        self.files.push(path.clone());
        file.write_all(template.text.as_bytes()).map_err(|error| (path, error))
    }
}

/// The path as one word of a shell, which is no option.
pub fn shell_word(path: &str) -> String {
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    let is_plain = |character: char| character.is_alphanumeric() || "/._-+@%".contains(character);
    match !path.is_empty() && path.chars().all(is_plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_settings_and_differ_in_comments_alone() {
        let (english, spanish) = (templates(Language::English), templates(Language::Spanish));
        for (english, spanish) in english.iter().zip(&spanish) {
            assert_ne!(english.text, spanish.text, "{}", english.name);
            assert_eq!((english.name, english.mode), (spanish.name, spanish.mode));
            let lines = |text: &str| -> Vec<String> {
                let is_comment = |line: &&str| !line.starts_with("# ") && *line != "#";
                text.lines().filter(is_comment).map(str::to_owned).collect()
            };
            assert_eq!(lines(english.text), lines(spanish.text), "{}", english.name);
        }
    }

    #[test]
    fn every_setting_that_is_switched_off_is_valid_when_it_is_switched_on() {
        for language in [Language::English, Language::Spanish] {
            let [config, ..] = templates(language);
            let on: String = config
                .text
                .lines()
                .map(|line| match line.strip_prefix('#') {
                    Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("capataz.toml");
            fs::write(&file, on).unwrap();
            let loaded =
                capataz_daemon::Config::load(Some(&file), capataz_daemon::Overrides::default()).unwrap();
            assert_eq!((loaded.agents.len(), loaded.models.len()), (2, 1));
            assert_eq!(loaded.secrets_dir, Some(folder.path().join("secrets")));
            assert_eq!(loaded.agents[1].env["TOKEN"], "${secret:TOKEN}");
        }
    }

    #[test]
    fn what_was_made_before_an_error_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        let [config, plan, _] = templates(Language::English);
        // The second file is the first one again, which is there by then.
        let failed = write(&inner, &[config, plan, config]).unwrap_err();
        assert_eq!((failed.0, failed.1.kind()), (inner.join("capataz.toml"), io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_one_word_of_a_shell() {
        assert_eq!(shell_word("crews/first-1"), "crews/first-1");
        assert_eq!(shell_word("my crew"), "'my crew'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-x"), "./-x");
        assert_eq!(shell_word("$HOME"), "'$HOME'");
    }
}
