use capataz_contracts::validate::{PlanLimits, payload, plan};
use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use crate::in_short;

/// Validates a plan that is written as JSON; expects the violations as `path rule`.
#[track_caller]
fn check(document: Value, expected: &[&str]) {
    check_typed(&json::parse("capataz.v1.Plan", &document).unwrap(), expected);
}

#[track_caller]
fn check_typed(typed: &v1::Plan, expected: &[&str]) {
    let violations = plan(typed, &PlanLimits::default());
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

/// A plan of these waves of tasks, each (name, input).
fn plan_of(waves: &[&[(&str, Value)]]) -> Value {
    let waves: Vec<Value> = waves
        .iter()
        .map(|tasks| {
            let tasks: Vec<Value> = tasks
                .iter()
                .map(|(name, input)| json!({"name": name, "agent": "x", "input": input}))
                .collect();
            json!({ "tasks": tasks })
        })
        .collect();
    json!({"name": "p", "waves": waves})
}

#[test]
fn a_good_plan() {
    check(
        plan_of(&[&[("a", Value::Null), ("b.1_x-Y", json!([]))], &[("c", json!("${tasks.b.1_x-Y.output}"))]]),
        &[],
    );
}

#[test]
fn names_and_counts() {
    check(json!({}), &["name required", "waves required"]);
    check(json!({"name": "x".repeat(128), "waves": [{}]}), &["waves[0].tasks required"]);
    check(json!({"name": "ñ".repeat(128), "waves": [{}]}), &["waves[0].tasks required"]);
    check(json!({"name": "x".repeat(129), "waves": [{}]}), &["name length", "waves[0].tasks required"]);
    check(
        json!({"name": "a\nb", "waves": [{"tasks": [{"name": "ñ", "agent": "\u{7f}"}, {}]}]}),
        &[
            "name characters",
            "waves[0].tasks[0].name characters",
            "waves[0].tasks[0].agent characters",
            "waves[0].tasks[1].name required",
            "waves[0].tasks[1].agent required",
        ],
    );
    check(
        json!({
            "name": "p",
            "commands": ["ok", ""],
            "resources": ["x".repeat(129)],
            "waves": [{"tasks": [{"name": "x".repeat(129), "agent": "x".repeat(129)}]}],
        }),
        &[
            "commands[1] required",
            "resources[0] length",
            "waves[0].tasks[0].name length",
            "waves[0].tasks[0].agent length",
        ],
    );
}

#[test]
fn names_are_unique_in_the_plan() {
    check(
        plan_of(&[&[("a", Value::Null), ("a", Value::Null)], &[("b", Value::Null), ("a", Value::Null)]]),
        &["waves[0].tasks[1].name duplicate", "waves[1].tasks[1].name duplicate"],
    );
    let task = |name: &str| json!([{"name": name, "agent": "x"}]);
    check(
        json!({"name": "p", "waves": [{"name": "wave-2", "tasks": task("a")}, {"tasks": task("b")}]}),
        &["waves[1].name duplicate"],
    );
    check(
        json!({"name": "p", "waves": [{"name": "w", "tasks": task("a")}, {"name": "w", "tasks": task("b")}]}),
        &["waves[1].name duplicate"],
    );
    check(json!({"name": "p", "waves": [{"name": "", "tasks": task("a")}]}), &["waves[0].name required"]);
}

#[test]
fn limits() {
    let waves: Vec<Value> =
        (0..1_001).map(|wave| json!({"tasks": [{"name": format!("t{wave}"), "agent": "x"}]})).collect();
    check(json!({"name": "p", "waves": waves}), &["waves limit"]);
    let typed: v1::Plan =
        json::parse("capataz.v1.Plan", &plan_of(&[&[("a", json!(1)), ("b", json!(1))]])).unwrap();
    let small = PlanLimits { max_tasks: 1, ..PlanLimits::default() };
    assert_eq!(in_short(&plan(&typed, &small)), ["waves limit"]);
    let named =
        json!({"policy": {"critical_agents": vec!["x"; 1_001]}, "tasks": [{"name": "a", "agent": "x"}]});
    check(
        json!({"name": "p", "policy": named["policy"], "waves": [named]}),
        &["policy.critical_agents limit", "waves[0].policy.critical_agents limit"],
    );
    let nameless = json!({"critical_agents": ["x", ""]});
    check(
        json!({"name": "p", "policy": nameless, "waves": [{"tasks": [{"name": "a", "agent": "x"}]}]}),
        &["policy.critical_agents[1] required"],
    );
}

#[test]
fn references_point_to_earlier_waves() {
    check(
        plan_of(&[
            &[
                ("a", json!({"files": [1, "${tasks.a.output}", "x ${tasks.b.output.k}"]})),
                ("b", json!("${tasks.c.output}")),
            ],
            &[("c", json!(["${tasks.a.output} ${tasks.nobody.output}", "${HOME}", "$${HOME}"]))],
        ]),
        &[
            "waves[0].tasks[0].input.files[1] cyclic",
            "waves[0].tasks[0].input.files[2] cyclic",
            "waves[0].tasks[1].input cyclic",
            "waves[1].tasks[0].input[0] unknown_task",
            "waves[1].tasks[0].input[1] malformed_reference",
        ],
    );
}

#[test]
fn references_are_found_however_they_are_escaped() {
    let mut typed: v1::Plan = json::parse("capataz.v1.Plan", &plan_of(&[&[("a", json!(1))]])).unwrap();
    let input = v1::Payload {
        media_type: "Application/JSON; charset=utf-8".to_owned(),
        data: Some(v1::payload::Data::Inline(r#"{"k": "\u0024\u007btasks.b.output}"}"#.into())),
    };
    typed.waves[0].tasks[0].input = Some(input);
    check_typed(&typed, &["waves[0].tasks[0].input.k unknown_task"]);
}

#[test]
fn an_enum_that_is_set_has_a_value() {
    let mut typed: v1::Plan = json::parse("capataz.v1.Plan", &plan_of(&[&[("a", json!(1))]])).unwrap();
    typed.on_high = Some(0);
    typed.policy = Some(v1::AggregationPolicy { kind: 99, ..Default::default() });
    typed.waves[0].policy = Some(v1::AggregationPolicy::default());
    typed.waves[0].tasks[0].effect = Some(0);
    typed.waves[0].tasks[0].severity = Some(17);
    check_typed(
        &typed,
        &[
            "policy.kind enum",
            "on_high enum",
            "waves[0].tasks[0].effect enum",
            "waves[0].tasks[0].severity enum",
        ],
    );
}

#[test]
fn payloads() {
    #[track_caller]
    fn check(media_type: &str, data: v1::payload::Data, expected: &[&str]) {
        let value = v1::Payload { media_type: media_type.to_owned(), data: Some(data) };
        assert_eq!(in_short(&payload(&value, 32 * 1024)), expected);
    }
    let inline = |text: &str| v1::payload::Data::Inline(text.to_owned().into());
    let blob = |hash: &str| v1::payload::Data::Blob(v1::BlobRef::new(hash.to_owned(), 1));
    check("application/json", inline("{}"), &[]);
    check("application/json", inline("{"), &[" payload"]);
    check("application/json", inline("\"\u{fffd}\""), &[]);
    check("application/json", inline("[null, true, -1, 1, 1.5, \"\\n\", {\"a\": [], \"a\": {}}]"), &[]);
    check("application/json", inline("{} {}"), &[" payload"]);
    check("application/json", inline("[1e400]"), &[" payload"]);
    check("application/json", v1::payload::Data::Inline(b"{\"\xff\": 1}"[..].into()), &[" payload"]);
    check("application/json", v1::payload::Data::Inline(b"\"\xff\""[..].into()), &[" payload"]);
    check("application/json", inline(&format!("{}{}", "[".repeat(200), "]".repeat(200))), &[" payload"]);
    check("text/plain", inline("{"), &[]);
    check("", inline("x"), &["$media_type media_type"]);
    check("text", inline("x"), &["$media_type media_type"]);
    check("/", inline("x"), &["$media_type media_type"]);
    check("text/plain", inline(&"x".repeat(32 * 1024)), &[]);
    check("text/plain", inline(&"x".repeat(32 * 1024 + 1)), &[" size"]);
    check("a/b", blob(&"0f".repeat(32)), &[]);
    check("a/b", blob(&"0F".repeat(32)), &["$blob.blake3 blob"]);
    check("a/b", blob("0f"), &["$blob.blake3 blob"]);
    assert_eq!(payload(&v1::Payload::default(), 0), []);
}

#[test]
fn at_most_a_hundred_violations_are_reported() {
    let tasks: Vec<(&str, Value)> = vec![("a b", Value::Null); 90];
    let typed: v1::Plan = json::parse("capataz.v1.Plan", &plan_of(&[&tasks])).unwrap();
    let violations = plan(&typed, &PlanLimits::default());
    assert_eq!(violations.len(), 101);
    // 90 names with a space, 89 of which are there already.
    assert_eq!(violations.last().unwrap().message, "… and 79 more");
}
