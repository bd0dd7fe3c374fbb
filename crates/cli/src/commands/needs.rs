//! What `capataz serve --check` says of what a configuration needs and does not find, and what to do about it.

use capataz_daemon::{Lack, Need};
use serde_json::Value;

use crate::output::Output;
use crate::problem::Problem;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::words::messages::placed_refusal;
use capataz_display::words::{counted, fill, words};

/// A need in words.
pub struct Said {
    code: &'static str,
    pub message: String,
    pub remedy: String,
}

/// The needs as JSON: where they are told, a code, and both texts.
pub fn to_json(needs: &[Need]) -> Value {
    needs.iter().map(|need| problem(need).to_json()).collect()
}

fn problem(need: &Need) -> Problem {
    let Said { code, message, remedy } = said(&need.lack);
    let told = match &need.lack {
        Lack::WrongSpec(error) => Problem::from(error),
        _ => {
            let (file, place) = need.place.clone().unzip();
            let (line, column) = place.unzip();
            Problem { file, line, column, path: need.key.clone(), message, ..Problem::default() }
        }
    };
    Problem { code: Some(code), remedy: Some(remedy), ..told }
}

/// Says all of them on stderr.
pub fn tell(needs: &[Need], out: &Output) {
    let texts = &words().needs;
    let (count, paint) = (needs.len() as u64, out.error_paint());
    out.note(&paint.text(Tone::Bad, &counted(count, texts.lacks_one, texts.lacks_many)));
    for need in needs {
        let Said { message, remedy, .. } = said(&need.lack);
        out.note(&format!("  {}: {}", paint.text(Tone::Strong, &visible(&need.key)), visible(&message)));
        out.note(&format!("    {}", visible(&fill(words().doctor.next, &[&remedy]))));
    }
}

pub fn said(lack: &Lack) -> Said {
    let texts = &words().needs;
    let with = |code, message: &str, remedy: &str, values: &[&str]| Said {
        code,
        message: fill(message, values),
        remedy: fill(remedy, values),
    };
    match lack {
        Lack::NoProgram(name) => with("PROGRAM_NOT_FOUND", texts.no_program, texts.no_program_next, &[name]),
        Lack::NotExecutable(path) => {
            let path = path.display().to_string();
            with("PROGRAM_NOT_EXECUTABLE", texts.not_executable, texts.not_executable_next, &[&path])
        }
        Lack::NoSecret(name) => with("SECRET_UNKNOWN", texts.no_secret, texts.no_secret_next, &[name]),
        Lack::UnreadSecret(name, error) => {
            let error = error.to_string();
            with("SECRET_NOT_READABLE", texts.unread_secret, texts.no_secret_next, &[name, &error])
        }
        Lack::NoFolder(path) => {
            let path = path.display().to_string();
            with("FOLDER_NOT_FOUND", texts.no_folder, texts.no_folder_next, &[&path])
        }
        Lack::Unreadable(path, error) => {
            let (path, error) = (path.display().to_string(), error.to_string());
            with("FOLDER_NOT_READABLE", texts.unreadable, texts.unreadable_next, &[&path, &error])
        }
        Lack::Unwritable(path, error) => {
            let (path, error) = (path.display().to_string(), error.to_string());
            with("FOLDER_NOT_WRITABLE", texts.unwritable, texts.unwritable_next, &[&path, &error])
        }
        Lack::OpenToOthers(path, mode) => {
            let (path, mode) = (path.display().to_string(), format!("{mode:o}"));
            with("FOLDER_OPEN_TO_OTHERS", texts.open, texts.open_next, &[&path, &mode])
        }
        Lack::WrongSpec(error) => wrong_specs(&error.to_string()),
        Lack::WrongSpecs(line) => wrong_specs(line),
    }
}

fn wrong_specs(line: &str) -> Said {
    Said {
        code: "SPEC_INVALID",
        message: placed_refusal(line).into_owned(),
        remedy: words().needs.wrong_spec_next.to_owned(),
    }
}
