use capataz_contracts::plan_file::{Format, parse, parse_bytes};
use capataz_contracts::{json, v1};
use serde_json::json;

use crate::in_short;

/// Parses a TOML plan; expects the violations as `path rule`.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let violations = parse(text, Format::Toml).err().unwrap_or_default();
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[track_caller]
fn syntax(text: &str, format: Format) -> String {
    let mut violations = parse(text, format).unwrap_err();
    assert_eq!(in_short(&violations), [" syntax"]);
    violations.remove(0).message
}

#[test]
fn toml_and_json_say_the_same() {
    let toml = r#"
        name = "review"
        on_high = "pause"
        resources = ["profile"]

        [policy]
        kind = "quorum"
        quorum_threshold = 0.6

        [timeouts]
        timeout = "1h 30m"

        [[waves]]
        name = "look"
        [[waves.tasks]]
        name = "a"
        agent = "explorer"
        input = { since = 2026-01-02T03:04:05Z, day = 2026-01-02, files = ["x"] }
        critical = true
        [[waves.tasks]]
        name = "b"
        agent = "explorer"
        retry = { max_attempts = 2, delays_ms = [5] }

        [[waves]]
        [[waves.tasks]]
        name = "c"
        agent = "verifier"
        input = { "$media_type" = "text/plain", "$text" = "hola" }
    "#;
    let json = json!({
        "name": "review",
        "on_high": "pause",
        "resources": ["profile"],
        "policy": {"kind": "quorum", "quorum_threshold": 0.6},
        "timeouts": {"timeout_ms": 5_400_000},
        "waves": [
            {"name": "look", "tasks": [
                {
                    "name": "a",
                    "agent": "explorer",
                    "input": {"since": "2026-01-02T03:04:05Z", "day": "2026-01-02", "files": ["x"]},
                    "critical": true,
                },
                {"name": "b", "agent": "explorer", "retry": {"max_attempts": 2, "delays_ms": [5]}},
            ]},
            {"tasks": [
                {"name": "c", "agent": "verifier", "input": {"$media_type": "text/plain", "$text": "hola"}},
            ]},
        ],
    });
    let plan = parse(toml, Format::Toml).unwrap();
    assert_eq!(plan, parse(&json.to_string(), Format::Json).unwrap());
    assert_eq!(json::print("capataz.v1.Plan", &plan), json);
}

#[test]
fn a_plan_of_one_wave_may_list_its_tasks_at_the_top() {
    let plan = parse("name = \"p\"\n[[tasks]]\nname = \"a\"\nagent = \"x\"", Format::Toml).unwrap();
    let task = v1::Task { name: "a".to_owned(), agent: "x".to_owned(), ..Default::default() };
    assert_eq!(plan.waves, [v1::Wave { tasks: vec![task], ..Default::default() }]);
    check("[[tasks]]\nnmae = 1\n", &["tasks[0].nmae unknown_key"]);
    let elsewhere = |text: &str| parse(text, Format::Toml).unwrap_err().remove(0).message;
    let message = "there is no key `agent` here; it is a key of";
    assert_eq!(elsewhere("[policy]\nagent = \"a\"\n"), format!("{message} `waves[].tasks[]`"));
    assert_eq!(elsewhere("[policy]\nagent = \"a\"\n[[tasks]]\n"), format!("{message} `tasks[]`"));
    check("tasks = 1", &["tasks type"]);
    check("tasks = []\nwaves = []", &["tasks duplicate_key"]);
}

#[test]
fn toml_numbers_that_json_does_not_have() {
    check(
        "[[tasks]]\ninput.x = [1, nan]\ninput.y = -inf",
        &["tasks[0].input.x[1] range", "tasks[0].input.y range"],
    );
}

#[test]
fn syntax_errors_name_their_place() {
    assert!(
        syntax("name = \"a\"\nwaves = [", Format::Toml).contains("line 2"),
        "{}",
        syntax("a = [", Format::Toml)
    );
    assert!(syntax("a = 1\na = 2", Format::Toml).contains("line 2 column 1"));
    assert!(syntax("{\"name\": }", Format::Json).contains("line 1 column 10"));
    assert!(syntax("{\"name\": 1, \"name\": 2}", Format::Json).contains("written twice"));
    let violations = parse_bytes(b"name = \"a\"\n# \xff", Format::Toml).unwrap_err();
    assert_eq!(violations.first().map(|violation| violation.message.as_str()), Some("not UTF-8 at line 2"));
    assert!(parse_bytes(b"name = \"a\"", Format::Toml).is_ok());
}
