//! Plan files: reading them, and every check that needs no daemon.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use capataz_contracts::plan_file::{self, Format, MAX_BYTES};
use capataz_contracts::{InPart, Violation, v1};

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
    read: InPart<T>,
}

impl<T> Looked<T> {
    pub fn of(subject: String, read: InPart<T>) -> Self {
        Self { subject, read }
    }

    /// As much of it as could be read.
    pub fn document(&self) -> &T {
        &self.read.document
    }

    pub fn is_valid(&self) -> bool {
        self.read.is_valid()
    }

    /// Adds what somebody else has found wrong with it.
    pub fn add(&mut self, violations: impl IntoIterator<Item = Violation>) {
        self.read.add(violations);
    }

    /// # Errors
    /// All that is wrong with it.
    pub fn checked(self) -> Result<T, Failure> {
        let Self { subject, read } = self;
        read.whole().map_err(|violations| Failure::Violations { subject, violations })
    }
}

/// Reads the plan in `file`.
///
/// # Errors
/// The file cannot be read, or is neither TOML nor JSON. What is wrong with its plan stands in the answer.
pub fn look(file: &Path, format: Option<Format>) -> Result<Looked<v1::Plan>, Failure> {
    let bytes = read(file).map_err(|error| {
        let message = fill(words().contract.cannot_read, &[&name_of(file), &error.to_string()]);
        Failure::invalid(message)
    })?;
    let format = format.unwrap_or_else(|| format_of(file, &bytes));
    match of_bytes(&bytes, format) {
        Ok(plan) => Ok(Looked::of(name_of(file), plan)),
        Err(violations) => Err(Failure::Violations { subject: name_of(file), violations }),
    }
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
    of_bytes(bytes, format)?.whole()
}

fn of_bytes(bytes: &[u8], format: Format) -> Result<InPart<v1::Plan>, Vec<Violation>> {
    let mut plan = plan_file::parse_in_part(bytes, format)?;
    plan.add(capataz_daemon::check_plan(&plan.document));
    Ok(plan)
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
    fn a_duration_out_of_its_range_is_named_as_the_file_has_it() {
        let told = |text: &str, format: Format| -> Vec<String> {
            let violations = parse(text.as_bytes(), format).err().unwrap_or_default();
            violations.iter().map(|violation| format!("{}: {}", violation.path, violation.message)).collect()
        };
        let plan = "name = \"p\"\n[timeouts]\ntimeout = \"31d\"\n[retry]\nbase_delay = \"25h\"\nmax_delay = \"1d\"\n\
                    [[tasks]]\nname = \"a\"\nagent = \"b\"\ntimeouts = { timeout = \"31d\" }\n";
        let expected = [
            "retry.base_delay: must be from 0ms to 1d, not 25h",
            "tasks[0].timeouts.timeout: must be from 1ms to 30d, not 31d",
            "timeouts.timeout: must be from 1ms to 30d, not 31d",
        ];
        let mut found = told(plan, Format::Toml);
        found.sort();
        assert_eq!(found, expected);
        let plan = r#"{"name": "p", "retry": {"baseDelay": "25h"}, "timeouts": {"timeout_ms": 2678400000},
                       "waves": [{"tasks": [{"name": "a", "agent": "b"}]}]}"#;
        let expected = [
            "retry.baseDelay: must be from 0ms to 1d, not 25h",
            "timeouts.timeout_ms: must be from 1ms to 30d, not 2678400000 ms",
        ];
        let mut found = told(plan, Format::Json);
        found.sort();
        assert_eq!(found, expected);
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
