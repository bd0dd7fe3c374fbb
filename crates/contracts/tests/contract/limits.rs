//! Hostile and huge input: answered, without a panic and within bounds.

use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::validate::{PlanLimits, plan};
use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use crate::in_short;

#[test]
fn deep_text_is_a_syntax_violation() {
    for text in
        ["[".repeat(100_000), r#"{"a":"#.repeat(100_000), format!("{}{}", "[".repeat(200), "]".repeat(200))]
    {
        assert_eq!(json::from_str(&text).unwrap_err().rule, "syntax");
    }
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{ a = ".repeat(100_000)),
        format!("[{}]", vec!["a"; 100_000].join(".")),
        format!("{} = 1", vec!["a"; 100_000].join(".")),
    ] {
        let violations = plan_file::parse(&text, Format::Toml).unwrap_err();
        assert_eq!(in_short(&violations), [" syntax"]);
    }
}

#[test]
fn deep_toml_within_the_parsers_limit_is_answered() {
    // Tables, keys and values each have a limit of their own.
    let keys = vec!["a"; 75].join(".");
    let text = format!("[{keys}]\n{keys} = {}1{}", "[".repeat(75), "]".repeat(75));
    let violations = plan_file::parse(&text, Format::Toml).unwrap_err();
    assert_eq!(in_short(&violations), ["a unknown_key"]);
    let violations = plan_file::parse(&format!("[[tasks]]\n[tasks.input.{keys}]"), Format::Toml).unwrap_err();
    assert!(
        matches!(in_short(&violations).as_slice(), [one] if one == "tasks[0].input depth" || one == " syntax")
    );
}

#[test]
fn deep_values_are_a_depth_violation() {
    let nested = |levels: usize| (0..levels).fold(json!({"code": "X"}), |inner, _| json!({ "cause": inner }));
    let parse = |value: &Value| json::parse::<v1::Error>("capataz.v1.Error", value);
    let violations = parse(&nested(500)).unwrap_err();
    assert_eq!(violations.len(), 1);
    assert!(violations.iter().all(|violation| violation.rule == "depth"));
    let deepest = parse(&nested(json::MAX_DEPTH)).unwrap();
    assert_eq!(json::print("capataz.v1.Error", &deepest), nested(json::MAX_DEPTH));

    let lists = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let parse = |value: &Value| json::parse::<v1::Payload>("capataz.v1.Payload", value);
    assert_eq!(in_short(&parse(&lists(500)).unwrap_err()), [" depth"]);
    assert!(parse(&lists(json::MAX_DEPTH)).is_ok());
}

#[test]
fn a_deep_json_payload_from_the_wire_is_printed_as_text() {
    let text = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let data = Some(v1::payload::Data::Inline(text.clone().into()));
    let payload = v1::Payload { media_type: "application/json".to_owned(), data };
    let printed = json::print("capataz.v1.Payload", &payload);
    assert_eq!(printed, json!({"$media_type": "application/json", "$text": text}));
    assert_eq!(json::parse::<v1::Payload>("capataz.v1.Payload", &printed).unwrap(), payload);
}

#[test]
fn ten_megabytes() {
    let text = "x".repeat(10 * 1024 * 1024);
    for format in [Format::Toml, Format::Json] {
        assert_eq!(in_short(&plan_file::parse(&text, format).unwrap_err()), [" size"]);
        assert_eq!(in_short(&plan_file::parse_bytes(text.as_bytes(), format).unwrap_err()), [" size"]);
    }
    let violations = json::parse::<v1::Plan>("capataz.v1.Plan", &json!({(&text): 1, "name": 3})).unwrap_err();
    assert_eq!(violations.len(), 2);
    assert!(violations.iter().all(|violation| violation.path.len() + violation.message.len() < 1_000));
    let named = v1::Plan { name: text, ..Default::default() };
    assert_eq!(in_short(&plan(&named, &PlanLimits::default())), ["name length", "waves required"]);
}

#[test]
fn a_hundred_thousand_violations_are_counted() {
    let waves: Vec<Value> = (0..100_000).map(|number| json!({ "key": number })).collect();
    let violations = json::parse::<v1::Plan>("capataz.v1.Plan", &json!({ "waves": waves })).unwrap_err();
    assert_eq!(violations.len(), 101);
    assert_eq!(violations.last().unwrap().to_string(), "… and 99900 more (truncated)");
}

#[test]
fn a_hundred_thousand_tasks() {
    let task = |number: usize| {
        json!({
            "name": format!("task-{number}"),
            "agent": "a",
            "input": {"from": "${tasks.first.output.files.0}", "number": number},
            "retry": {"base_delay": "2s"},
        })
    };
    let tasks: Vec<Value> = (0..100_000).map(task).collect();
    let document = json!({
        "name": "large",
        "waves": [{"tasks": [{"name": "first", "agent": "a"}]}, {"tasks": tasks}],
    });
    let large: v1::Plan = json::parse("capataz.v1.Plan", &document).unwrap();
    let generous = PlanLimits { max_tasks: 200_000, ..PlanLimits::default() };
    assert_eq!(plan(&large, &generous), []);
    assert_eq!(in_short(&plan(&large, &PlanLimits::default())), ["waves limit"]);
}
