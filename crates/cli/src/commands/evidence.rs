//! `capataz evidence`: lists what proves the actions of a run, and saves or opens a piece of it.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use serde_json::{Value, json};

use super::report::{self, STDOUT, for_each_event};
use super::{Daemon, Outcome, fetch};
use crate::args::{EvidenceArgs, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use capataz_display::format::utc;
use capataz_display::paint::Tone;
use capataz_display::script::describe::bytes;
use capataz_display::table::Table;
use capataz_display::words::{fill, words};

/// Characters of an id that are shown in a list, and that are in the name of a file.
const ID_LENGTH: usize = 12;
/// Pieces that a refusal names.
const MOST_NAMED: usize = 5;
const HTML: &str = "text/html";
/// What opens a file with the program that the desktop has for it.
const OPENER: &str = "xdg-open";

/// A piece of evidence, and the action that it is of.
struct Piece {
    evidence: v1::EvidenceRef,
    /// Id of the action; empty where it belongs to none.
    action: String,
    succeeded: bool,
    at_ms: i64,
}

pub async fn evidence(args: EvidenceArgs, global: &Global, out: &mut Output) -> Outcome {
    if let Some(file) = &args.output {
        report::refuse_existing(file, args.force)?;
    }
    let daemon = Daemon::connect(global).await?;
    let run_id = fetch::run_id(&daemon, &args.run).await?;
    let mut pieces = Vec::new();
    for_each_event(&daemon, &run_id, u64::MAX, |event| pieces.extend(of_event(event))).await?;
    match &args.id {
        None => list(&run_id, &pieces, out),
        Some(id) => {
            let piece = named(&run_id, &pieces, id)?;
            keep(&daemon, &run_id, piece, &args, out).await
        }
    }
}

/// The evidence that an event names.
fn of_event(event: &v1::Event) -> Vec<Piece> {
    let (pieces, action, succeeded) = match &event.body {
        Some(Body::ActionFinished(finished)) => (&finished.evidence, &finished.action_id, true),
        Some(Body::ActionFailed(failed)) => match &failed.error {
            Some(error) => (&error.evidence_refs, &error.action_id, false),
            None => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let of_action = |evidence: &v1::EvidenceRef| Piece {
        evidence: evidence.clone(),
        action: action.clone(),
        succeeded,
        at_ms: event.at_ms,
    };
    pieces.iter().map(of_action).collect()
}

fn list(run_id: &str, pieces: &[Piece], out: &mut Output) -> Outcome {
    let texts = &words().evidence;
    if out.json {
        let listed: Vec<Value> = pieces.iter().map(Piece::to_json).collect();
        out.document(&json!({ "run_id": run_id, "evidence": listed }));
        return Ok(Exit::Ok);
    }
    if pieces.is_empty() {
        out.line(&fill(texts.none, &[run_id]));
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(texts.head);
    for piece in pieces {
        let evidence = &piece.evidence;
        let action = if piece.action.is_empty() { texts.of_browser } else { piece.action.as_str() };
        let tone = if piece.succeeded { Tone::Plain } else { Tone::Bad };
        table.row([
            (in_short(&evidence.id), Tone::Strong),
            (evidence.kind.clone(), Tone::Plain),
            (bytes(evidence.bytes), Tone::Plain),
            (action.to_owned(), tone),
            (utc(piece.at_ms), Tone::Faint),
            (if evidence.redacted { texts.masked.to_owned() } else { String::new() }, Tone::Faint),
        ]);
    }
    out.line(&table.render(out.paint));
    out.line(&fill(texts.save_with, &[run_id]));
    Ok(Exit::Ok)
}

/// The piece that the text names: by its id, the beginning of it, or its kind.
fn named<'p>(run_id: &str, pieces: &'p [Piece], text: &str) -> Result<&'p Piece, Failure> {
    let texts = &words().evidence;
    let fits = |piece: &&Piece| piece.evidence.id.starts_with(text) || piece.evidence.kind == text;
    // The same content may prove several actions.
    let found: BTreeMap<&str, &Piece> =
        pieces.iter().filter(fits).map(|piece| (piece.evidence.id.as_str(), piece)).collect();
    let mut pieces = found.values();
    match (pieces.next(), found.len()) {
        (Some(piece), 1) if !text.is_empty() => Ok(piece),
        (Some(_), _) if !text.is_empty() => {
            let some: Vec<String> = found.keys().take(MOST_NAMED).map(|id| in_short(id)).collect();
            Err(Failure::failed(fill(texts.ambiguous, &[text, &some.join(", ")])))
        }
        _ => Err(Failure::failed(fill(texts.no_such, &[run_id, text]))),
    }
}

/// Writes the content to a file, or to stdout, or opens it.
async fn keep(
    daemon: &Daemon,
    run_id: &str,
    piece: &Piece,
    args: &EvidenceArgs,
    out: &mut Output,
) -> Outcome {
    let evidence = &piece.evidence;
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(file_name(evidence)));
    if args.open {
        may_be_opened(run_id, evidence)?;
    } else {
        report::refuse_existing(&file, args.force)?;
    }
    let content = match &evidence.inline {
        Some(text) => Bytes::from(text.clone()),
        None => {
            let read = daemon.client.get_blob(&evidence.id).await;
            read.map_err(|error| daemon.failure(error).about(run_id))?
        }
    };
    let (file, told) = if args.open {
        (opened(Path::new(OPENER), run_id, evidence, &content)?, words().evidence.opened)
    } else if file.as_os_str() == STDOUT {
        out.raw(&content);
        return Ok(Exit::Ok);
    } else {
        report::keep(&file, &content, args.force)?;
        (file, words().evidence.saved)
    };
    let place = file.display().to_string();
    if out.json {
        let mut document = piece.to_json();
        if let Some(object) = document.as_object_mut() {
            object.insert("run_id".to_owned(), run_id.into());
            object.insert("file".to_owned(), place.into());
        }
        out.document(&document);
    } else {
        let size = bytes(content.len() as u64);
        let values = [place.as_str(), &size, &evidence.media_type, &evidence.id];
        out.line(&fill(told, &values));
    }
    Ok(Exit::Ok)
}

/// Refuses what its type says nothing of, such as a download: a desktop looks into that for what it is, and a page has chosen it.
fn may_be_opened(run_id: &str, evidence: &v1::EvidenceRef) -> Result<(), Failure> {
    if extension_of(&evidence.media_type).is_some() {
        return Ok(());
    }
    let id = in_short(&evidence.id);
    Err(Failure::failed(fill(words().evidence.of_no_type, &[&evidence.media_type, run_id, &id])))
}

/// Opens the content with what the desktop has for it, and returns the file that it is in. That stays: whoever shows it may
/// read it at any time.
#[expect(clippy::disallowed_types, reason = "the user starts it, by this command")]
fn opened(
    opener: &Path,
    run_id: &str,
    evidence: &v1::EvidenceRef,
    content: &[u8],
) -> Result<PathBuf, Failure> {
    let texts = &words().evidence;
    let (program, id) = (opener.display().to_string(), in_short(&evidence.id));
    let not_opened = |why: &str| Failure::failed(fill(texts.not_opened, &[&program, run_id, &id, why]));
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("capataz-").permissions(private).tempdir();
    let folder = folder.map_err(|error| not_opened(&error.to_string()))?;
    let mut name = PathBuf::from(file_name(evidence));
    // The page of a stranger: nothing of it is to run.
    if evidence.media_type == HTML {
        name.set_extension("txt");
    }
    let file = folder.path().join(&name);
    report::keep(&file, content, false)?;
    let mut command = std::process::Command::new(opener);
    match command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(folder.keep().join(name)),
        Ok(status) => Err(not_opened(&status.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::failed(fill(texts.no_opener, &[&program, run_id, &id])))
        }
        Err(error) => Err(not_opened(&error.to_string())),
    }
}

/// A name that no page and no agent has chosen: the kind is one of a few, and letters are all that is kept of it.
fn file_name(evidence: &v1::EvidenceRef) -> String {
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || *character == '_';
    let plain = |text: &str| text.chars().filter(is_plain).collect::<String>();
    let extension = extension_of(&evidence.media_type).unwrap_or("bin");
    format!("{}-{}.{extension}", plain(&evidence.kind), plain(&in_short(&evidence.id)))
}

/// What the names of files of this type end with; `None` where nobody knows what is in them.
fn extension_of(media_type: &str) -> Option<&'static str> {
    match media_type {
        "image/png" => Some("png"),
        "image/jpeg" => Some("jpg"),
        "image/webp" => Some("webp"),
        "application/json" => Some("json"),
        HTML => Some("html"),
        kind if kind.starts_with("text/") => Some("txt"),
        _ => None,
    }
}

fn in_short(id: &str) -> String {
    id.chars().take(ID_LENGTH).collect()
}

impl Piece {
    fn to_json(&self) -> Value {
        json!({
            "id": self.evidence.id,
            "kind": self.evidence.kind,
            "media_type": self.evidence.media_type,
            "bytes": self.evidence.bytes,
            "redacted": self.evidence.redacted,
            "action": self.action,
            "succeeded": self.succeeded,
            "at_ms": self.at_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, kind: &str) -> Piece {
        Piece {
            evidence: v1::EvidenceRef { id: id.to_owned(), kind: kind.to_owned(), ..Default::default() },
            action: String::new(),
            succeeded: true,
            at_ms: 0,
        }
    }

    #[test]
    fn a_piece_is_named_by_its_id_the_beginning_of_it_or_its_kind() {
        let pieces =
            [piece("ab1", "screenshot_before"), piece("ab2", "html_full"), piece("ab2", "html_full")];
        let id = |text: &str| named("r", &pieces, text).map(|piece| piece.evidence.id.clone()).ok();
        assert_eq!(id("ab1").as_deref(), Some("ab1"));
        assert_eq!(id("ab2").as_deref(), Some("ab2"), "the same content twice is one piece");
        assert_eq!(id("html_full").as_deref(), Some("ab2"));
        assert_eq!(id("ab"), None);
        assert_eq!(id("c"), None);
        assert_eq!(id(""), None);
    }

    /// A shell opens a file in that it does what the file says, which is told the path.
    fn opened_by_a_shell(media_type: &str, content: &str) -> Result<PathBuf, Failure> {
        let evidence = v1::EvidenceRef {
            id: "0123456789abcdef".to_owned(),
            kind: "html_full".to_owned(),
            media_type: media_type.to_owned(),
            ..v1::EvidenceRef::default()
        };
        opened(Path::new("/bin/sh"), "7f3a", &evidence, content.as_bytes())
    }

    #[test]
    fn what_is_opened_is_in_a_file_for_its_user_alone() {
        let content = "printf '%s' \"$0\" > \"$0.told\"";
        for (media_type, name) in [
            ("text/plain", "html_full-0123456789ab.txt"),
            ("application/json", "html_full-0123456789ab.json"),
            ("text/html", "html_full-0123456789ab.txt"),
        ] {
            let file = opened_by_a_shell(media_type, content).expect("it is opened");
            assert_eq!(file.file_name().and_then(|name| name.to_str()), Some(name));
            let folder = file.parent().expect("a folder");
            let told = std::fs::read_to_string(folder.join(format!("{name}.told"))).unwrap();
            assert_eq!(Path::new(&told), file);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
            // Nobody else comes to the file.
            assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn what_nothing_opens_is_not_kept_and_can_be_saved() {
        let told = |refused: Result<PathBuf, Failure>| match refused {
            Ok(file) => panic!("{} was opened", file.display()),
            Err(failure) => failure.to_json()["error"]["message"].as_str().unwrap_or_default().to_owned(),
        };
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        let content = format!("printf '%s' \"$0\" > '{}'; exit 3", place.display());
        let failed = told(opened_by_a_shell("text/plain", &content));
        let file = PathBuf::from(std::fs::read_to_string(&place).unwrap());
        assert!(file.is_absolute() && !file.exists() && !file.parent().unwrap().exists(), "{file:?}");
        assert!(failed.contains("exit status: 3"), "{failed}");
        assert!(failed.ends_with("save it with `capataz evidence 7f3a 0123456789ab -o FILE`"), "{failed}");
        let nowhere = Path::new("/nowhere/xdg-open");
        let none = told(opened(nowhere, "7f3a", &v1::EvidenceRef::default(), b""));
        assert!(none.contains("there is no /nowhere/xdg-open"), "{none}");
    }

    #[test]
    fn what_may_be_anything_is_not_opened() {
        let refused = |media_type: &str| {
            let evidence = v1::EvidenceRef {
                id: "0123456789abcdef".to_owned(),
                media_type: media_type.to_owned(),
                ..v1::EvidenceRef::default()
            };
            let failure = may_be_opened("7f3a", &evidence).err()?.to_json();
            Some(failure["error"]["message"].as_str().unwrap_or_default().to_owned())
        };
        for media_type in
            ["image/png", "application/json", "text/plain", "text/html", "text/html; charset=utf-8"]
        {
            assert_eq!(refused(media_type), None, "{media_type}");
        }
        for media_type in
            ["application/octet-stream", "application/xhtml+xml", "image/svg+xml", "TEXT/HTML", ""]
        {
            let told = refused(media_type).unwrap_or_default();
            assert!(told.contains(&format!("{media_type:?}")), "{media_type} {told}");
            assert!(told.ends_with("save it with `capataz evidence 7f3a 0123456789ab -o FILE`"), "{told}");
        }
    }

    #[test]
    fn the_name_of_a_file_has_nothing_of_a_path() {
        let evidence = v1::EvidenceRef {
            id: "../../0123456789abcdef".to_owned(),
            kind: "../evil/name".to_owned(),
            media_type: "image/png".to_owned(),
            ..v1::EvidenceRef::default()
        };
        assert_eq!(file_name(&evidence), "evilname-012345.png");
    }
}
