//! What people read of what a daemon has answered, as boxes whole.
//!
//! The boxes of a scenario are files in `tests/it/boxes`, one for each language, which were compared with the drawings of the
//! seed by hand. `CAPATAZ_WRITE_BOXES=1` writes those that are not there yet.

use capataz_contracts::v1;
use capataz_display::error::{self, Context};
use capataz_display::paint::Paint;
use capataz_display::refusal;
use capataz_display::words::Language;
use tonic::Status;
use tonic_types::StatusExt;

/// Stands for the id of a run, with as many columns.
pub const RUN: &str = "01234567-89ab-7cde-8f01-23456789abcd";

/// Holds the boxes against those of the file with this name, in this language.
#[track_caller]
pub fn check(name: &str, language: Language, shown: &[String]) {
    let file = format!("{}/tests/it/boxes/{name}.{}.txt", env!("CARGO_MANIFEST_DIR"), language.tag());
    let shown = shown.join("\n\n") + "\n";
    #[expect(clippy::disallowed_methods, reason = "whoever adds a scenario says so")]
    let writes = std::env::var("CAPATAZ_WRITE_BOXES").is_ok();
    match std::fs::read_to_string(&file) {
        Ok(expected) => assert!(shown == expected, "{file} has\n{expected}\nand not\n{shown}"),
        Err(_) if writes => {
            let _ = std::fs::create_dir(std::path::Path::new(&file).parent().unwrap());
            std::fs::write(&file, shown).unwrap();
        }
        Err(error) => panic!("{file}: {error}; the boxes are\n{shown}"),
    }
}

pub const LANGUAGES: [Language; 2] = [Language::English, Language::Spanish];

/// The boxes in the text, each whole, with [`RUN`] for the id of the run.
pub fn boxes(text: &str, run_id: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.replace(run_id, RUN).lines() {
        let is_of_box = line.starts_with(['|', '+']);
        match found.last_mut().filter(|_| open && is_of_box) {
            Some(shown) => {
                shown.push('\n');
                shown.push_str(line);
            }
            None if is_of_box => found.push(line.to_owned()),
            None => {}
        }
        open = is_of_box;
    }
    found
}

/// The refusal as the command line draws it, of a call about this run.
pub fn refused(refusal: &Status, language: Language, about: Option<(&str, &str)>) -> String {
    let details = refusal.get_error_details();
    let info = details.error_info().expect("a refusal has a code");
    let metadata = info.metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let violations: Vec<refusal::Violation> = details
        .bad_request()
        .map(|bad| bad.field_violations.clone())
        .unwrap_or_default()
        .into_iter()
        .map(|violation| refusal::Violation {
            path: violation.field,
            message: violation.description,
            code: violation.reason,
        })
        .collect();
    let error = refusal::refusal(&info.reason, refusal.message(), &metadata, &violations);
    let (run, task) = about.unzip();
    let context = Context { run, task, goes_on: run.is_some(), ..Context::default() };
    language.within(|| error::error(&refusal::in_words(error), &context, Paint::OFF))
}

pub fn drawn(error: &v1::Error, language: Language, context: &Context<'_>) -> String {
    language.within(|| error::error(error, context, Paint::OFF))
}
