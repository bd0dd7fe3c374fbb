use std::collections::BTreeMap;

use capataz_contracts::validate::{
    PlanLimits, accept_transition, event_filter, hello, labels, list_runs, start_run,
};
use capataz_contracts::{canonical, json, v1};
use serde_json::{Value, json};

use crate::in_short;

fn request(document: Value) -> v1::StartRunRequest {
    json::parse("capataz.v1.StartRunRequest", &document).unwrap()
}

fn a_plan() -> Value {
    json!({"name": "p", "waves": [{"tasks": [{"name": "a", "agent": "x", "input": {"k": [1, 2], "a": 0}}]}]})
}

/// Validates a request; expects the violations as `path rule`.
#[track_caller]
fn check(document: Value, expected: &[&str]) {
    let violations = start_run(&request(document), &PlanLimits::default());
    assert_eq!(in_short(&violations), expected, "{violations:#?}");
}

#[test]
fn requests_that_start_runs() {
    check(json!({"plan": a_plan()}), &[]);
    check(json!({}), &["plan required"]);
    check(json!({"plan": {"name": "p"}}), &["plan.waves required"]);
    check(json!({"plan": a_plan(), "idempotency_key": "x".repeat(256)}), &[]);
    check(json!({"plan": a_plan(), "idempotency_key": "x".repeat(257)}), &["idempotency_key length"]);
    check(json!({"plan": a_plan(), "idempotency_key": ""}), &["idempotency_key length"]);
    check(json!({"plan": a_plan(), "parent": {}}), &["parent.run_id required", "parent.task required"]);
}

#[test]
fn label_rules() {
    check(json!({"plan": a_plan(), "labels": {"team/a.b_c-1": "x".repeat(256)}}), &[]);
    check(
        json!({"plan": a_plan(), "labels": {"": "x", "Team": "x", "k": "x".repeat(257)}}),
        &["labels[\"\"] label", "labels.Team label", "labels.k length"],
    );
    let many: BTreeMap<String, String> =
        (0..33).map(|number| (format!("k{number}"), String::new())).collect();
    assert_eq!(in_short(&labels(&many)), ["labels limit"]);
    let long = BTreeMap::from([("k".repeat(64), String::new())]);
    assert_eq!(in_short(&labels(&long)).len(), 1);
}

#[test]
fn values_that_no_run_and_no_event_has_are_refused() {
    let list = |status, outcome, kind| {
        in_short(&list_runs(&v1::ListRunsRequest { status, outcome, kind, ..Default::default() }))
    };
    assert_eq!(list(None, None, None), [""; 0]);
    assert_eq!(list(Some(1), Some(1), Some(1)), [""; 0]);
    assert_eq!(list(Some(99), Some(-1), Some(0)), ["status enum", "outcome enum", "kind enum"]);
    let filter = |kind, min_severity| {
        in_short(&event_filter(&v1::EventFilter { kind, min_severity, ..Default::default() }))
    };
    assert_eq!(filter(Some(1), Some(1)), [""; 0]);
    assert_eq!(filter(Some(99), Some(99)), ["filter.kind enum", "filter.min_severity enum"]);
}

#[test]
fn an_accepted_transition_names_a_session_and_an_ask() {
    let accept = |session: &str, request_id: &str| {
        let request =
            v1::AcceptTransitionRequest { session: session.to_owned(), request_id: request_id.to_owned() };
        in_short(&accept_transition(&request))
    };
    assert_eq!(accept("s", &"r".repeat(128)), [""; 0]);
    assert_eq!(accept("a b", ""), ["session session", "request_id required"]);
    assert_eq!(accept("s", &"r".repeat(129)), ["request_id length"]);
}

fn a_hello() -> v1::Hello {
    let agent = |name: &str| v1::Agent { name: name.to_owned(), ..Default::default() };
    v1::Hello {
        worker_id: "w-1".to_owned(),
        agents: vec![agent("a"), agent("b")],
        slots: 1,
        held: vec![v1::LeaseRef::default(); 2],
        protocol: 1,
        browsers: vec![String::new(); 10_000],
    }
}

/// Validates a good hello with one change; expects the violations as `path rule`.
#[track_caller]
fn check_hello(change: impl FnOnce(&mut v1::Hello), expected: &[&str]) {
    let mut frame = a_hello();
    change(&mut frame);
    assert_eq!(in_short(&hello(&frame)), expected);
}

#[test]
fn hellos() {
    check_hello(|_| {}, &[]);
    check_hello(|frame| frame.protocol = 2, &["protocol incompatible_version"]);
    check_hello(|frame| frame.protocol = 0, &["protocol incompatible_version"]);
    check_hello(|frame| frame.worker_id = String::new(), &["worker_id characters"]);
    check_hello(|frame| frame.worker_id = "runner@build-3:4711".to_owned(), &[]);
    check_hello(|frame| frame.worker_id = "a b".to_owned(), &["worker_id characters"]);
    check_hello(|frame| frame.worker_id = "w".repeat(129), &["worker_id characters"]);
    check_hello(|frame| frame.slots = 0, &["slots range", "held limit"]);
    check_hello(|frame| frame.slots = 10_001, &["slots range"]);
    check_hello(|frame| frame.held.push(v1::LeaseRef::default()), &["held limit"]);
    check_hello(|frame| frame.browsers.push(String::new()), &["browsers limit"]);
    check_hello(|frame| frame.agents.clear(), &["agents required"]);
    check_hello(|frame| frame.agents = vec![frame.agents[0].clone(); 1_001], &["agents limit"]);
    check_hello(|frame| frame.agents[1].name = "a".to_owned(), &["agents[1].name duplicate"]);
    check_hello(|frame| frame.agents[1].name.clear(), &["agents[1].name required"]);
    check_hello(|frame| frame.agents[0].contract_version = "2.1.0-rc.1".to_owned(), &[]);
    check_hello(
        |frame| frame.agents[0].contract_version = "2".to_owned(),
        &["agents[0].contract_version semver"],
    );
    check_hello(|frame| frame.agents[0].kind = 77, &["agents[0].kind enum"]);
}

#[test]
fn equal_requests_have_one_encoding() {
    let one = request(json!({"plan": a_plan(), "labels": {"a": "1", "b": "2"}, "idempotency_key": "x"}));
    let mut two = request(json!({"plan": a_plan(), "labels": {"b": "2", "a": "1"}, "idempotency_key": "y"}));
    let spaced = r#" { "k" : [ 1 , 2 ] , "a" : 0 } "#;
    let mut gives = |text: String| {
        let Some(v1::start_run_request::Work::Plan(plan)) = &mut two.work else { panic!("a plan") };
        let input = plan.waves[0].tasks[0].input.as_mut().unwrap();
        input.data = Some(v1::payload::Data::Inline(text.into()));
        canonical(&two)
    };
    let same = gives(spaced.to_owned());
    assert_eq!(canonical(&one), same);
    assert_ne!(canonical(&one), gives(spaced.replace('2', "3")));
    let other = request(json!({"plan": a_plan(), "labels": {"a": "1"}}));
    assert_ne!(canonical(&one), canonical(&other));
}
