//! Plan files: reading them, and every check that needs no daemon.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use capataz_contracts::plan_file::{self, Format, MAX_BYTES};
use capataz_contracts::{Violation, json, v1};

use crate::failure::Failure;
use capataz_display::words::{fill, words};

/// The name that stands for stdin.
const STDIN: &str = "-";

/// Reads and checks the plan in `file`.
///
/// # Errors
/// The file cannot be read, or the plan breaks rules. All violations are listed, including those of its policies.
pub fn load(file: &Path, format: Option<Format>) -> Result<v1::Plan, Failure> {
    look(file, format)?.checked()
}

/// A document as its file has it, with all that is wrong with it.
pub struct Looked<T> {
    subject: String,
    document: T,
    /// The file names no wave, so that paths name none either.
    has_tasks_at_the_top: bool,
    violations: Vec<Violation>,
}

impl<T> Looked<T> {
    /// Paths are those of the document.
    pub fn of(subject: String, document: T, violations: Vec<Violation>) -> Self {
        Self { subject, document, has_tasks_at_the_top: false, violations }
    }

    pub fn document(&self) -> &T {
        &self.document
    }

    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds what somebody else has found wrong with it.
    pub fn add(&mut self, violations: impl IntoIterator<Item = Violation>) {
        for mut violation in violations {
            if self.has_tasks_at_the_top
                && let Some(rest) = violation.path.strip_prefix("waves[0].")
            {
                violation.path = rest.to_owned();
            }
            self.violations.push(violation);
        }
    }

    /// # Errors
    /// All that is wrong with it.
    pub fn checked(self) -> Result<T, Failure> {
        let Self { subject, document, violations, .. } = self;
        if violations.is_empty() { Ok(document) } else { Err(Failure::Violations { subject, violations }) }
    }
}

/// Reads the plan in `file`.
///
/// # Errors
/// The file cannot be read, or is none of a plan. What is wrong with the plan that it is stands in the answer.
pub fn look(file: &Path, format: Option<Format>) -> Result<Looked<v1::Plan>, Failure> {
    let bytes = read(file).map_err(|error| {
        let message = fill(words().contract.cannot_read, &[&name_of(file), &error.to_string()]);
        Failure::invalid(message)
    })?;
    let format = format.unwrap_or_else(|| format_of(file, &bytes));
    of_bytes(&bytes, format, name_of(file))
        .map_err(|violations| Failure::Violations { subject: name_of(file), violations })
}

/// The file's name in messages.
pub fn name_of(file: &Path) -> String {
    if file.as_os_str() == STDIN { "stdin".to_owned() } else { file.display().to_string() }
}

pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Reading one byte beyond the limit is enough to notice that the file is too large.
    let most = MAX_BYTES as u64 + 1;
    if file.as_os_str() == STDIN {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(file)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The format by the file's extension, else by the first character of its contents.
pub fn format_of(file: &Path, bytes: &[u8]) -> Format {
    let extension = file.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_deref().and_then(|extension| extension.to_str()) {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ if bytes.trim_ascii_start().starts_with(b"{") => Format::Json,
        _ => Format::Toml,
    }
}

/// Parses the plan in `bytes`, with all checks that the daemon makes of a plan alone.
pub fn parse(bytes: &[u8], format: Format) -> Result<v1::Plan, Vec<Violation>> {
    let Looked { document, violations, .. } = of_bytes(bytes, format, String::new())?;
    if violations.is_empty() { Ok(document) } else { Err(violations) }
}

fn of_bytes(bytes: &[u8], format: Format, subject: String) -> Result<Looked<v1::Plan>, Vec<Violation>> {
    let plan = plan_file::parse_bytes(bytes, format)?;
    let violations = capataz_daemon::check_plan(&plan);
    let mut looked = Looked::of(subject, plan, Vec::new());
    if !violations.is_empty() {
        looked.has_tasks_at_the_top = has_tasks_at_the_top(bytes, format);
        looked.add(violations);
    }
    Ok(looked)
}

/// Returns whether the file lists its tasks outside of any wave, so that paths in messages name no wave.
fn has_tasks_at_the_top(bytes: &[u8], format: Format) -> bool {
    match format {
        Format::Json => json::from_slice(bytes).is_ok_and(|document| document.get("tasks").is_some()),
        Format::Toml => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| toml::from_str::<toml::Table>(text).ok())
            .is_some_and(|document| document.contains_key("tasks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, format: Format, expected: &[&str]) {
        let violations = parse(text.as_bytes(), format).err().unwrap_or_default();
        let found: Vec<String> =
            violations.iter().map(|violation| format!("{} {}", violation.path, violation.rule)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn structure_and_policies_are_checked_at_once() {
        check(
            r#"
            name = "p"
            [policy]
            kind = "quorum"
            quorum_threshold = 2.0
            [[waves]]
            [[waves.tasks]]
            name = "no spaces"
            agent = "a"
            "#,
            Format::Toml,
            &["waves[0].tasks[0].name characters", "policy.quorum_threshold range"],
        );
    }

    #[test]
    fn paths_are_those_of_the_file() {
        check("name = \"p\"\n[[tasks]]\nname = \"a\"\n", Format::Toml, &["tasks[0].agent required"]);
        check(r#"{"name": "p", "tasks": [{"name": "a"}]}"#, Format::Json, &["tasks[0].agent required"]);
        check(
            r#"{"name": "p", "waves": [{"tasks": [{"name": "a"}]}]}"#,
            Format::Json,
            &["waves[0].tasks[0].agent required"],
        );
    }

    #[test]
    fn the_format_is_told_by_name_or_contents() {
        #[track_caller]
        fn check(file: &str, contents: &str, expected: Format) {
            assert_eq!(format_of(Path::new(file), contents.as_bytes()), expected);
        }
        check("plan.JSON", "", Format::Json);
        check("plan.toml", "{", Format::Toml);
        check("-", " {", Format::Json);
        check("-", "name = 1", Format::Toml);
    }
}
