use std::fs;
use std::path::Path;

use capataz_contracts::script_file::{Format, parse, parse_bytes};
use capataz_contracts::validate::script;
use capataz_contracts::{json, v1};
use serde_json::json;

use crate::in_short;

/// Parses a TOML script; expects the violations as `path rule`.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let violations = parse(text, Format::Toml).err().unwrap_or_default();
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[test]
fn toml_and_json_say_the_same() {
    let toml = r#"
        name = "sign-in"

        [variables]
        shop = "https://shop.example"

        [policy]
        allowlist = ["shop.example"]
        blocked_requests = "record"
        max_steps = 10
        retry_on = ["NAVIGATION_TIMEOUT"]
        backoff = { base_delay = "250ms", multiplier = 1.5 }
        action_timeout = "5s"

        [[policy.recovery]]
        on = ["OVERLAY_BLOCKING"]
        do = "close_overlay"
        target = { role = "button", name = "Close" }

        [browser]
        width = 800
        storage_state = "shop"

        [[actions]]
        id = "open"
        kind = "navigate"
        url = "${var:shop}/login"
        wait_until = "dom"

        [[actions]]
        id = "send"
        kind = "submit"
        criticality = "critical"
        target = { testid = "send", css = "button", nth = 0, frame = [{ css = "iframe" }] }
        rationale = "the first of the two"
        post = [{ kind = "not", condition = { kind = "text_contains", value = "Wrong" } }]
        timeout = "1m 30s"
        on_failure = "halt"
        retry = { limit = 0 }
    "#;
    let json = json!({
        "name": "sign-in",
        "variables": {"shop": "https://shop.example"},
        "policy": {
            "allowlist": ["shop.example"],
            "blocked_requests": "record",
            "max_steps": 10,
            "retry_on": ["NAVIGATION_TIMEOUT"],
            "backoff": {"base_delay_ms": 250, "multiplier": 1.5},
            "recovery": [{
                "on": ["OVERLAY_BLOCKING"],
                "do": "close_overlay",
                "target": {"role": "button", "name": "Close"},
            }],
            "action_timeout_ms": 5_000,
        },
        "browser": {"width": 800, "storage_state": "shop"},
        "actions": [
            {"id": "open", "kind": "navigate", "url": "${var:shop}/login", "wait_until": "dom"},
            {
                "id": "send",
                "kind": "submit",
                "criticality": "critical",
                "target": {"testid": "send", "css": "button", "nth": 0, "frame": [{"css": "iframe"}]},
                "rationale": "the first of the two",
                "post": [{"kind": "not", "condition": {"kind": "text_contains", "value": "Wrong"}}],
                "timeout_ms": 90_000,
                "on_failure": "halt",
                "retry": {"limit": 0},
            },
        ],
    });
    let from_toml = parse(toml, Format::Toml).unwrap();
    assert_eq!(from_toml, parse(&json.to_string(), Format::Json).unwrap());
    assert_eq!(json::print("capataz.v1.Script", &from_toml), json);
    assert_eq!(script(&from_toml), []);
}

#[test]
fn what_is_no_script_is_told_with_its_place() {
    check(
        r#"
            nmae = "x"
            [policy]
            max_steps = -1
            backoff.base_delay = "soon"
            [[actions]]
            kind = "klick"
            timeout = 5
            target = { testid = 7, nth = 1.5 }
        "#,
        &[
            "actions[0].kind enum",
            "actions[0].target.nth type",
            "actions[0].target.testid type",
            "actions[0].timeout duration",
            "nmae unknown_key",
            "policy.backoff.base_delay duration",
            "policy.max_steps range",
        ],
    );
    check("[[actions]]\nid = \"a\"\n[[action]]\n", &["action unknown_key"]);
    check("name = [", &[" syntax"]);
    assert_eq!(in_short(&parse_bytes(b"\xff", Format::Toml).unwrap_err()), [" syntax"]);
    let long = "#".repeat(4 * 1024 * 1024 + 1);
    assert_eq!(in_short(&parse_bytes(long.as_bytes(), Format::Toml).unwrap_err()), [" size"]);
}

#[test]
fn every_example_is_a_script_of_the_right_shape() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let read: v1::Script = parse_bytes(&fs::read(&file).unwrap(), Format::Toml)
            .unwrap_or_else(|violations| panic!("{}: {violations:#?}", file.display()));
        assert_eq!(script(&read), [], "{}", file.display());
        names.push(read.name);
    }
    names.sort();
    assert_eq!(names, ["board", "download-report", "extract-prices", "sign-in", "upload-invoice"]);
}

/// Every block of TOML in the guide that has actions is a whole script.
#[test]
fn every_script_in_the_guide_is_of_the_right_shape() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/actions.md");
    let guide = fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut scripts = 0;
    for block in blocks {
        // A part of a script is read as one that has the rest.
        let head =
            if block.contains("name = \"") && block.starts_with("name") { "" } else { "name = \"part\"\n" };
        let read = parse(&format!("{head}{block}"), Format::Toml)
            .unwrap_or_else(|violations| panic!("{violations:#?}\n{block}"));
        let mut violations = script(&read);
        violations.retain(|violation| !(violation.path == "actions" && violation.rule == "required"));
        assert_eq!(violations, [], "{block}");
        scripts += usize::from(!read.actions.is_empty());
    }
    assert!(scripts >= 10, "{scripts}");
}
