//! Documents that are wrong in their form and by rules: both are told, and nothing that may follow from the form alone.

use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::validate::{self, PlanLimits};
use capataz_contracts::{InPart, Violation, json, pipeline_file, v1};
use serde_json::{Value, json};

use crate::in_short;

#[track_caller]
fn told<T>(mut read: InPart<T>, rules: impl FnOnce(&T) -> Vec<Violation>) -> Vec<Violation> {
    let broken = rules(&read.document);
    read.add(broken);
    read.whole().err().unwrap_or_default()
}

fn rules_of_plans(plan: &v1::Plan) -> Vec<Violation> {
    validate::plan(plan, &PlanLimits::default())
}

/// Reads a plan and checks its rules; expects the violations as `path rule`.
#[track_caller]
fn check(document: Value, expected: &[&str]) {
    let violations = told(json::parse_in_part("capataz.v1.Plan", &document), rules_of_plans);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[track_caller]
fn check_script(document: Value, expected: &[&str]) {
    let violations = told(json::parse_in_part("capataz.v1.Script", &document), validate::script);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[track_caller]
fn check_pipeline(document: Value, expected: &[&str]) {
    let violations = told(json::parse_in_part("capataz.v1.Pipeline", &document), validate::pipeline);
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

/// A plan of two waves of one task each.
fn two_waves(first: Value, second: Value) -> Value {
    json!({"name": "p", "waves": [{"tasks": [first]}, {"tasks": [second]}]})
}

fn task(name: &str) -> Value {
    json!({"name": name, "agent": "x"})
}

fn refers(to: &str) -> Value {
    json!({"name": "last", "agent": "x", "input": {"of": format!("${{tasks.{to}.output}}")}})
}

#[test]
fn form_and_rules_are_told_at_once() {
    check(
        json!({
            "name": "",
            "on_high": "explode",
            "waves": [{"tasks": [
                {"name": "a b", "agent": "x"},
                {"name": "c", "retry": {"max_attempts": "3"}},
            ]}],
        }),
        &[
            "on_high enum",
            "waves[0].tasks[1].retry.max_attempts type",
            "name required",
            "waves[0].tasks[0].name characters",
            "waves[0].tasks[1].agent required",
        ],
    );
    check_script(
        json!({"name": "", "actions": [{"id": "a", "kind": "clik"}, {"id": "a b", "kind": "click"}]}),
        &["actions[0].kind enum", "name required", "actions[1].id characters"],
    );
    check_pipeline(
        json!({"name": "", "phases": [{"name": "a", "agnet": "x"}, {"name": "b c", "agent": "y"}]}),
        &["phases[0].agnet unknown_key", "name required", "phases[1].name name"],
    );
}

#[test]
fn a_document_without_violations_is_whole() {
    let document = two_waves(task("a"), refers("a"));
    let read: InPart<v1::Plan> = json::parse_in_part("capataz.v1.Plan", &document);
    assert!(read.is_valid());
    assert_eq!(json::print("capataz.v1.Plan", &read.whole().unwrap()), document);
}

#[test]
fn what_is_wrong_is_absent_and_the_rest_is_in_its_place() {
    let document = json!({
        "name": 7,
        "commands": ["a", 1, "b"],
        "waves": [3, {"tasks": [null, {"name": "a", "critical": "yes", "retry": {"max_attempts": -1}}]}],
    });
    let read: InPart<v1::Plan> = json::parse_in_part("capataz.v1.Plan", &document);
    assert!(!read.is_valid());
    let expected = json!({
        "commands": ["a", "", "b"],
        "waves": [{}, {"tasks": [{}, {"name": "a", "retry": {}}]}],
    });
    assert_eq!(json::print("capataz.v1.Plan", &read.document), expected);
}

#[test]
fn what_has_a_wrong_type_is_not_missing() {
    check(json!({"name": 7, "waves": [{"tasks": [task("a")]}]}), &["name type"]);
    check(json!({"name": "p", "waves": {}}), &["waves type"]);
    check(json!([]), &[" type"]);
    // The others of the list are where they were.
    check(
        json!({"name": "p", "commands": [1, ""], "waves": [{"tasks": [task("a")]}]}),
        &["commands[0] type", "commands[1] required"],
    );
    check(
        json!({"name": "p", "waves": [3, {"tasks": [task("a b")]}]}),
        &["waves[0] type", "waves[1].tasks[0].name characters"],
    );
}

#[test]
fn what_an_unknown_key_may_be_meant_for_is_not_missing() {
    let waves = json!([{"tasks": [task("a")]}]);
    check(json!({"nmae": "p", "waves": waves}), &["nmae unknown_key"]);
    // It is near to nothing, so that it may be meant for anything.
    check(json!({"title": "p", "waves": waves}), &["title unknown_key"]);
    // What it is near to is there.
    check(json!({"name": "p", "names": "p"}), &["names unknown_key"]);
    // It is not meant for what another object misses, nor for anything else than what it is near to.
    check(
        json!({"name": "p", "zzzzzz": 1, "waves": [{"tasks": [{"name": "a"}]}]}),
        &["zzzzzz unknown_key", "waves[0].tasks[0].agent required"],
    );
    check(json!({"nmae": "p"}), &["nmae unknown_key", "waves required"]);
    // A task that is a run has no agent.
    check(
        two_waves(json!({"name": "a", "rnu": {"ask": {"text": "x"}}}), task("b")),
        &["waves[0].tasks[0].rnu unknown_key"],
    );
    // The text of an ask may be the input of its task.
    check(
        two_waves(json!({"name": "a", "run": {"ask": {}}, "inptu": "x"}), task("b")),
        &["waves[0].tasks[0].inptu unknown_key"],
    );
    check(
        two_waves(json!({"name": "a", "run": {"aks": {"text": "x"}}}), task("b")),
        &["waves[0].tasks[0].run.aks unknown_key"],
    );
}

#[test]
fn a_name_that_cannot_be_read_may_be_the_one_that_is_referred_to() {
    check(two_waves(json!({"name": 5, "agent": "x"}), refers("a")), &["waves[0].tasks[0].name type"]);
    check(
        two_waves(json!({"naem": "a", "agent": "x"}), refers("a")),
        &["waves[0].tasks[0].naem unknown_key"],
    );
    check(two_waves(json!(5), refers("a")), &["waves[0].tasks[0] type"]);
    check(json!({"name": "p", "waves": [5, {"tasks": [refers("a")]}]}), &["waves[0] type"]);
    check_pipeline(
        json!({"name": "p", "phases": [
            {"name": 5, "agent": "x"},
            {"name": "b", "agent": "x", "input": {"of": "${phases.a.summary}"}},
        ]}),
        &["phases[0].name type"],
    );
    // All names are known here.
    check(
        two_waves(json!({"name": "a", "agent": "x", "critical": "yes"}), refers("zz")),
        &["waves[0].tasks[0].critical type", "waves[1].tasks[0].input.of unknown_task"],
    );
    // What a wave is called no reference says.
    check(
        json!({"name": "p", "waves": [{"zzzzzz": 1, "tasks": [task("a")]}, {"tasks": [refers("zz")]}]}),
        &["waves[0].zzzzzz unknown_key", "waves[1].tasks[0].input.of unknown_task"],
    );
    let mut nameless = two_waves(task("a"), refers("zz"));
    nameless["name"] = json!(7);
    check(nameless, &["name type", "waves[1].tasks[0].input.of unknown_task"]);
}

#[test]
fn what_cannot_be_read_is_not_the_same_as_anything_else() {
    check(
        two_waves(json!({"name": 5, "agent": "x"}), json!({"name": "", "agent": "x"})),
        &["waves[0].tasks[0].name type", "waves[1].tasks[0].name required"],
    );
    // A wave without a name is `wave-1`, but this one has a name.
    check(
        json!({"name": "p", "waves": [
            {"name": 5, "tasks": [task("a")]},
            {"name": "wave-1", "tasks": [task("b")]},
        ]}),
        &["waves[0].name type"],
    );
    check(json!({"name": "p", "waves": [5, {"name": "wave-1", "tasks": [task("b")]}]}), &["waves[0] type"]);
    check_pipeline(
        json!({"name": "p", "phases": [{"name": "a", "agent": "x", "summary": [1, ""]}]}),
        &["phases[0].summary[0] type", "phases[0].summary[1] length"],
    );
    // Those that are read are the same, whatever else is wrong.
    check(
        two_waves(json!({"name": "a", "agent": 5}), task("a")),
        &["waves[0].tasks[0].agent type", "waves[1].tasks[0].name duplicate"],
    );
}

#[test]
fn what_depends_on_another_field_waits_for_it() {
    check_script(json!({"name": "s", "interactive": "yes"}), &["interactive type"]);
    check_script(json!({"name": "s", "interactive": "yes", "idle_timeout_ms": 5}), &["interactive type"]);
    let of_policy = |policy: Value| json!({"name": "s", "interactive": true, "policy": policy});
    check_script(of_policy(json!({"critical": [{"host": 5}]})), &["policy.critical[0].host type"]);
    check_script(of_policy(json!({"auth_failed": {"texts": 5}})), &["policy.auth_failed.texts type"]);
    // Rules have the names of the fields, whatever keys the document has.
    check_script(of_policy(json!({"authFailed": {"texts": 5}})), &["policy.authFailed.texts type"]);
    check_script(
        of_policy(json!({"recovery": [{"on": ["CLICK_FAILED"], "do": "dance"}]})),
        &["policy.recovery[0].do enum"],
    );
    check_pipeline(
        json!({"name": "p", "phases": [
            {"name": "a", "agent": "x", "for_each": 5, "input": {"of": "${item}"}},
        ]}),
        &["phases[0].for_each type"],
    );
    // The items of one phase are none of another's.
    check_pipeline(
        json!({"name": "p", "phases": [
            {"name": "a", "agent": "x", "zzzzzz": 1},
            {"name": "b", "agent": "x", "input": {"of": "${item}"}},
        ]}),
        &["phases[0].zzzzzz unknown_key", "phases[1].input.of unknown_item"],
    );
}

#[test]
fn a_payload_that_is_wrong_in_part_is_not_looked_into() {
    check(
        two_waves(json!({"name": "a", "agent": "x", "input": {"$text": "x"}}), task("b")),
        &["waves[0].tasks[0].input payload"],
    );
    check_pipeline(
        json!({"name": "p", "input": {"$media_type": 5, "$text": "{}"}, "phases": [task("a")]}),
        &["input.$media_type type"],
    );
}

#[test]
fn at_most_a_hundred_are_told() {
    let waves = |count: usize| (0..count).map(|number| json!({ "key": number })).collect::<Vec<_>>();
    let of = |count: usize| {
        let document = json!({"name": "", "commands": ["", ""], "waves": waves(count)});
        told(json::parse_in_part("capataz.v1.Plan", &document), rules_of_plans)
    };
    let violations = of(99);
    assert_eq!(violations.len(), 101);
    assert_eq!(in_short(&violations[99..]), ["name required", " truncated"]);
    assert_eq!(violations[100].message, "… and 2 more");
    // Where there are more of the form than are told, nobody knows what follows from them.
    let violations = of(101);
    assert_eq!(violations.len(), 101);
    assert_eq!(violations[100].message, "… and 1 more");
    assert!(violations[..100].iter().all(|violation| violation.rule == "unknown_key"));
}

#[test]
fn where_more_is_wrong_than_is_told_nothing_is_read() {
    let read = |count: usize| -> InPart<v1::Plan> {
        json::parse_in_part("capataz.v1.Plan", &json!({ "name": "p", "waves": vec![5; count] }))
    };
    assert_eq!(read(100).document.waves.len(), 100);
    let cut = read(101);
    assert_eq!(cut.document, v1::Plan::default());
    assert!(!cut.is_valid());
    assert_eq!(told(cut, rules_of_plans).len(), 101);
}

#[test]
fn of_schemas_that_cannot_be_read_at_most_a_hundred_are_told() {
    let phases = vec![json!({"output": {"schema": "away.json"}}); 150];
    let text = json!({ "name": "", "phases": phases }).to_string();
    let mut away = |_: &str| -> Result<Vec<u8>, String> { Err("there is none".to_owned()) };
    let read = pipeline_file::parse_in_part(text.as_bytes(), Format::Json, &mut away).unwrap();
    let violations = told(read, validate::pipeline);
    assert_eq!(violations.len(), 101);
    assert_eq!(in_short(&violations[99..]), ["phases[99].output.schema schema", " truncated"]);
    assert_eq!(violations[100].message, "… and 50 more");
}

#[test]
fn paths_are_those_of_the_file() {
    let check = |text: &str, expected: &[&str]| {
        let read = plan_file::parse_in_part(text.as_bytes(), Format::Toml).unwrap();
        assert_eq!(in_short(&told(read, rules_of_plans)), expected);
    };
    check(
        "name = \"p\"\n[[tasks]]\nname = 5\nagent = \"x\"\n[[tasks]]\nname = \"a b\"\nagent = \"x\"\n",
        &["tasks[0].name type", "tasks[1].name characters"],
    );
    // Which of both is meant nobody knows.
    check("tasks = []\nwaves = []\n", &["tasks duplicate_key", "name required"]);
    assert!(plan_file::parse_in_part(b"name = ", Format::Toml).is_err());
}

#[test]
fn an_unknown_key_may_be_meant_for_the_tasks_of_a_plan_of_one_wave() {
    let message = |text: &str| {
        let read = plan_file::parse_in_part(text.as_bytes(), Format::Toml).unwrap();
        told(read, rules_of_plans).remove(0).message
    };
    assert_eq!(message("name = \"p\"\n[[tassks]]\n"), "there is no key `tassks` here; did you mean `tasks`?");
    // Only there.
    let of_task = message("name = \"p\"\n[[tasks]]\nname = \"a\"\nagent = \"x\"\ntassks = 1\n");
    assert_eq!(of_task, "there is no key `tassks` here");
}

#[test]
fn a_schema_that_cannot_be_read_does_not_keep_the_rest() {
    let text = "name = \"\"\n[[phases]]\nname = \"a\"\noutput.schema = \"away.json\"\nagnet = \"x\"\n";
    let mut away = |_: &str| -> Result<Vec<u8>, String> { Err("there is none".to_owned()) };
    let read = pipeline_file::parse_in_part(text.as_bytes(), Format::Toml, &mut away).unwrap();
    let violations = told(read, validate::pipeline);
    assert_eq!(
        in_short(&violations),
        ["phases[0].agnet unknown_key", "phases[0].output.schema schema", "name required"]
    );
}
