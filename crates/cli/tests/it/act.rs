//! `capataz act` and related commands, as far as they need no browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// An address where no daemon listens: the discard port of this machine.
const NOBODY: &str = "http://127.0.0.1:9";

struct Said {
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).expect("stdout is one JSON document")
    }
}

/// Runs the command, with `stdin` if it is given.
#[track_caller]
fn check(arguments: &[&str], stdin: Option<&str>, exit: i32) -> Said {
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.env("LC_ALL", "C");
    command.args(arguments).env("CAPATAZ_ADDR", NOBODY).stdin(Stdio::null());
    if let Some(text) = stdin {
        let file = folder.path().join("stdin");
        fs::write(&file, text).expect("a file");
        command.stdin(fs::File::open(file).expect("the file"));
    }
    let output = command.output().expect("the command starts");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(exit), "{command:?}\n{out}\n{err}");
    Said { out, err }
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts");
    let entries = fs::read_dir(folder).expect("the examples are there");
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

const BROKEN: &str = r#"
name = "broken"
[policy]
allowlist = ["shop.example"]
[[actions]]
id = "open"
kind = "navigate"
url = "ftp://shop.example/"
[[actions]]
id = "buy"
kind = "click"
target = { text = "Buy", match = "contains" }
[[actions]]
id = "third"
kind = "click"
target = { css = "button", nth = 2 }
[[actions]]
id = "send"
kind = "submit"
target = { testid = "form" }
"#;

const VALID: &str = r#"
name = "valid"
[policy]
allowlist = ["shop.example"]
[[actions]]
id = "open"
kind = "navigate"
url = "https://shop.example/"
[[actions]]
id = "user"
kind = "fill"
target = { label = "User" }
value = "${var:user}"
"#;

#[test]
fn every_example_is_a_valid_script() {
    let files = examples();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let said = check(&["act", "check", &file.to_string_lossy()], None, 0);
        assert!(said.out.contains("a valid "), "{}", said.out);
    }
}

#[test]
fn violations_are_all_told_before_anything_is_started() {
    for arguments in [&["act", "check", "-"][..], &["act", "-"]] {
        let said = check(arguments, Some(BROKEN), 2);
        for expected in [
            "stdin: 4 violations",
            "actions[0].url (open): ",
            "(U2)",
            "actions[2]",
            "(U3)",
            "(send): ",
            "(U5)",
        ] {
            assert!(said.err.contains(expected), "{expected} in\n{}", said.err);
        }
        assert_eq!(said.out, "");
    }
}

#[test]
fn a_refusal_is_one_document_whoever_refuses() {
    for arguments in [&["act", "check", "-", "--json"][..], &["act", "-", "--json"]] {
        let answer = check(arguments, Some(BROKEN), 2).json();
        assert_eq!(answer["valid"], Value::Bool(false), "{answer}");
        assert_eq!(answer["error_code"], "INVALID_ACTIONSPEC", "{answer}");
        let violations = answer["violations"].as_array().cloned().unwrap_or_default();
        let rules: Vec<&str> = violations.iter().filter_map(|found| found["rule"].as_str()).collect();
        assert_eq!(rules, ["url", "U2", "U3", "U5"], "{answer}");
        assert_eq!(violations[3]["action_id"], "send", "{answer}");
    }
    let answer = check(&["act", "check", "-", "--json", "--var", "user=marta"], Some(VALID), 0).json();
    assert_eq!(answer["valid"], Value::Bool(true), "{answer}");
    assert_eq!(answer["violations"], Value::Array(Vec::new()), "{answer}");
}

#[test]
fn what_has_no_form_and_what_breaks_rules_is_told_at_once() {
    // The kind of the first action cannot be read, so that nobody knows what it needs.
    let script = r#"
name = "s"
[policy]
allowlist = ["shop.example"]
[[actions]]
id = "open"
kind = "navigaet"
[[actions]]
id = "buy"
kind = "click"
timeout = 5
target = { text = "Buy", match = "contains" }
[[actions]]
id = "no spaces"
kind = "fill"
target = { label = "User" }
"#;
    let expected = [
        ("actions[0].kind", "open", "enum"),
        ("actions[1].timeout", "buy", "duration"),
        ("actions[2].id", "no spaces", "characters"),
        ("actions[1].target.match", "buy", "U2"),
        ("actions[2].value", "no spaces", "required"),
    ];
    for arguments in [&["act", "check", "-"][..], &["act", "-"]] {
        let said = check(arguments, Some(script), 2);
        assert!(said.err.contains("stdin: 5 violations"), "{}", said.err);
        for (path, id, rule) in expected {
            let line = said.err.lines().find(|line| line.contains(&format!("{path} ({id}): ")));
            assert!(line.is_some_and(|line| line.contains(&format!("({rule})"))), "{path} in\n{}", said.err);
        }
    }
    for arguments in
        [&["act", "check", "-", "--json"][..], &["contract", "check", "-", "--kind", "script", "--json"]]
    {
        let answer = check(arguments, Some(script), 2).json();
        let violations = answer["violations"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let found: Vec<_> = violations
            .iter()
            .map(|one| (text(&one["path"]), text(&one["action_id"]), text(&one["rule"])))
            .collect();
        let expected = expected.map(|(path, id, rule)| (path.to_owned(), id.to_owned(), rule.to_owned()));
        assert_eq!(found, expected, "{answer}");
    }
}

#[test]
fn an_action_for_a_session_is_told_all_of_its_form_and_its_shape() {
    let action = r#"{"id": "no spaces", "kind": "clik", "timeout": 5}"#;
    let said = check(&["browser", "do", "no-such-run", "-"], Some(action), 2);
    for expected in
        ["stdin: 3 violations", "kind: ", "(enum)", "timeout: ", "(duration)", "id: ", "(characters)"]
    {
        assert!(said.err.contains(expected), "{expected} in\n{}", said.err);
    }
}

#[test]
fn variables_come_from_the_command_line() {
    let said = check(&["act", "check", "-"], Some(VALID), 2);
    assert!(said.err.contains("actions[1].value (user)"), "{}", said.err);
    check(&["act", "check", "-", "--var", "user=marta"], Some(VALID), 0);
    let said = check(&["act", "check", "-", "--var", "user"], Some(VALID), 2);
    assert!(said.err.contains("a variable is NAME=VALUE"), "{}", said.err);
}

#[test]
fn what_is_no_script_says_where() {
    let said = check(&["act", "check", "-"], Some("name = "), 2);
    assert!(said.err.contains("(syntax)") && said.err.contains("line 1"), "{}", said.err);
    let said = check(&["act", "no-such-script.toml"], None, 2);
    assert!(said.err.contains("cannot read no-such-script.toml"), "{}", said.err);
    check(&["act"], None, 2);
}

#[test]
fn a_valid_script_needs_a_daemon() {
    let said = check(&["act", "-", "--var", "user=marta"], Some(VALID), 3);
    assert!(said.err.contains("capataz serve"), "{}", said.err);
    check(&["browser", "list"], None, 3);
    check(&["runs", "report", "latest", "-o", "-"], None, 3);
}

#[test]
fn a_session_says_what_it_may_reach() {
    let said = check(&["browser", "open"], None, 2);
    assert!(said.err.contains("no host may be reached"), "{}", said.err);
    let said = check(&["browser", "open", "--allow", "https://shop.example/"], None, 2);
    assert!(said.err.contains("policy.allowlist[0]"), "{}", said.err);
    let said = check(&["browser", "open", "-"], Some(&VALID.replace("${var:user}", "marta")), 2);
    assert!(said.err.contains("not an interactive script"), "{}", said.err);
    let interactive = "name = \"s\"\ninteractive = true\n[policy]\nallowlist = [\"shop.example\"]\n";
    check(&["browser", "open", "-"], Some(interactive), 3);
}

#[test]
fn an_action_that_is_none_is_refused_with_its_path() {
    let said = check(&["browser", "do", "latest", "-"], Some("{\"id\": \"a\", \"kind\": \"clic\"}"), 2);
    assert!(said.err.contains("kind: "), "{}", said.err);
    let said = check(&["browser", "do", "latest", "-"], Some("{"), 2);
    assert!(said.err.contains("(syntax)"), "{}", said.err);
}

#[test]
fn a_browser_that_is_not_there_is_said_with_what_to_install() {
    let doctor = ["browser", "doctor", "--program", "/no/such/chromium"];
    let said = check(&doctor, None, 1);
    assert!(said.out.contains("/no/such/chromium: does not exist"), "{}", said.out);
    assert!(said.out.contains("apt install chromium"), "{}", said.out);
    let answer = check(&[&doctor[..], &["--json"]].concat(), None, 1).json();
    assert_eq!((&answer["found"], &answer["starts"]), (&Value::Bool(false), &Value::Bool(false)), "{answer}");
}

#[test]
fn a_program_that_is_no_browser_does_not_start() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("chromium");
    fs::write(&program, "#!/bin/sh\n[ \"$1\" = --version ] && echo Chromium 140.1.2.3\nexit 7\n")
        .expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may be executed");
    let data = folder.path().join("data");
    let program = program.to_string_lossy();
    let data = data.to_string_lossy();
    let doctor = ["browser", "doctor", "--program", &program, "--data-dir", &data];
    let said = check(&doctor, None, 1);
    assert!(said.out.contains("version    140.1.2.3") && said.out.contains("does not start"), "{}", said.out);
    assert!(!Path::new(&*data).exists(), "looking leaves nothing behind");
    let answer = check(&[&doctor[..], &["--json"]].concat(), None, 1).json();
    assert_eq!((&answer["found"], &answer["starts"]), (&Value::Bool(true), &Value::Bool(false)), "{answer}");
    assert!(answer["problem"].as_str().is_some_and(|problem| !problem.is_empty()), "{answer}");
}
