//! Script files, and every check that needs no page.

use std::path::Path;

use capataz_contracts::plan_file::Format;
use capataz_contracts::{InPart, json, script_file, v1, validate};

use crate::failure::Failure;
use crate::plan_source::{format_of, name_of, read};
use capataz_display::words::{fill, words};

/// A parsed script with the violations that were found.
#[derive(Debug, Default)]
pub struct Given {
    pub script: v1::Script,
    pub violations: Vec<v1::ScriptViolation>,
}

/// Reads the script in `file`; `variables` override the script's own.
///
/// # Errors
/// The file cannot be read. Broken rules are not an error here: all of them are listed.
pub fn load(file: &Path, format: Option<Format>, variables: &[(String, String)]) -> Result<Given, Failure> {
    let bytes = contents(file)?;
    let format = format.unwrap_or_else(|| format_of(file, &bytes));
    Ok(parse(&bytes, format, variables))
}

/// Reads the file's bytes.
///
/// # Errors
/// The file cannot be read.
pub fn contents(file: &Path) -> Result<Vec<u8>, Failure> {
    read(file).map_err(|error| {
        Failure::invalid(fill(words().contract.cannot_read, &[&name_of(file), &error.to_string()]))
    })
}

/// Parses a script, and tells all that is wrong with it.
pub fn parse(bytes: &[u8], format: Format, variables: &[(String, String)]) -> Given {
    let mut read = match script_file::parse_in_part(bytes, format) {
        Ok(read) => read,
        Err(violations) => {
            let violations = violations.into_iter().map(|violation| of_contract(violation, None)).collect();
            return Given { violations, ..Given::default() };
        }
    };
    read.document.variables.extend(variables.iter().cloned());
    let mut rules = check(&read.document);
    rules.retain(|found| !read.explains(&found.path, &found.rule));
    let script = read.document.clone();
    let form = read.whole().err().unwrap_or_default();
    let form = form.into_iter().map(|violation| of_contract(violation, Some(&script)));
    let violations = form.chain(rules).collect();
    Given { script, violations }
}

/// All violations of the script: first those of its shape, then those of the rules for actions. A path that violates
/// the shape is not listed again.
pub fn check(script: &v1::Script) -> Vec<v1::ScriptViolation> {
    let shape = validate::script(script);
    let rules = capataz_executor::dsl::check_script(script);
    let rules: Vec<v1::ScriptViolation> = rules
        .into_iter()
        .filter(|violation| !shape.iter().any(|found| found.path == violation.path))
        .collect();
    shape.into_iter().map(|violation| of_contract(violation, Some(script))).chain(rules).collect()
}

/// Reads one action for a session. The daemon checks the rules, because its answer includes the state of the page as
/// evidence. Where the form is wrong, so that there is nothing to send, those of the shape are told as well.
///
/// # Errors
/// The file cannot be read, or does not contain an action.
pub fn action(file: &Path) -> Result<v1::Action, Failure> {
    let bytes = contents(file)?;
    let parsed = match json::from_slice(&bytes) {
        Ok(document) => {
            let mut action: InPart<v1::Action> = json::parse_in_part("capataz.v1.Action", &document);
            if !action.is_valid() {
                action.add(validate::action(&action.document));
            }
            action.whole()
        }
        Err(violation) => Err(vec![violation]),
    };
    parsed.map_err(|violations| Failure::Violations { subject: name_of(file), violations })
}

fn of_contract(violation: capataz_contracts::Violation, script: Option<&v1::Script>) -> v1::ScriptViolation {
    let action_id = script.and_then(|script| action_at(&violation.path, script)).unwrap_or_default();
    v1::ScriptViolation {
        action_id,
        path: violation.path,
        rule: violation.rule.to_owned(),
        message: violation.message,
    }
}

/// The id of the action that a path such as `actions[2].target` leads into.
fn action_at(path: &str, script: &v1::Script) -> Option<String> {
    let (index, _) = path.strip_prefix("actions[")?.split_once(']')?;
    let action = script.actions.get(index.parse::<usize>().ok()?)?;
    Some(action.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let given = parse(text.as_bytes(), Format::Toml, &[("user".to_owned(), "marta".to_owned())]);
        let found: Vec<String> = given
            .violations
            .iter()
            .map(|found| format!("{} {} {}", found.path, found.action_id, found.rule))
            .collect();
        assert_eq!(found, expected);
    }

    const VALID: &str = r#"
        name = "s"
        [policy]
        allowlist = ["example.com"]
        [[actions]]
        id = "a"
        kind = "navigate"
        url = "https://example.com/"
    "#;

    #[test]
    fn a_valid_script_has_no_violations() {
        check(VALID, &[]);
    }

    #[test]
    fn variables_of_the_command_line_count() {
        let uses = format!(
            "{VALID}\n[[actions]]\nid = \"b\"\nkind = \"fill\"\ntarget = {{ label = \"User\" }}\nvalue = \"${{var:user}}\""
        );
        check(&uses, &[]);
        check(&uses.replace("var:user", "var:other"), &["actions[1].value b variable"]);
    }

    #[test]
    fn a_variable_that_cannot_be_read_hides_nothing_but_what_its_value_is_in() {
        let broken = format!(
            "{VALID}\n[[actions]]\nid = \"no spaces\"\nkind = \"navigate\"\nurl = \"${{var:shop}}/\"\n[variables]\nshop = 7"
        );
        check(&broken, &["variables.shop  type", "actions[1].id no spaces characters"]);
    }

    #[test]
    fn shape_and_rules_are_told_at_once() {
        let broken = format!(
            "{VALID}\n[[actions]]\nid = \"no spaces\"\nkind = \"click\"\ntarget = {{ text = \"Buy\", match = \"contains\" }}"
        );
        let given = parse(broken.as_bytes(), Format::Toml, &[]);
        let rules: Vec<&str> = given.violations.iter().map(|found| found.rule.as_str()).collect();
        assert!(rules.contains(&"U2"), "{rules:?}");
        assert!(given.violations.iter().any(|found| found.path == "actions[1].id"), "{:?}", given.violations);
        let places: Vec<&str> = given.violations.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(places.iter().filter(|place| **place == "actions[1].id").count(), 1, "{places:?}");
    }

    #[test]
    fn what_is_no_script_says_where() {
        check("name = ", &["  syntax"]);
        // The name may be what is meant by the key; that there are no actions is so in any case.
        check("nome = \"s\"", &["nome  unknown_key", "actions  required"]);
    }
}
