//! Answers whose values have to pass a schema.

use super::*;
use crate::query::{Judgement, Purpose, UNJUDGED, Verdict};

const SCHEMA: &str = r#"{"type":"integer"}"#;

fn leases(bench: Bench, name: &str, schema: Option<&str>) -> Bench {
    let task = bench.at(name);
    let output_schema = schema.map(Into::into);
    bench.does(Input::Lease { output_schema, cancel_is_final: false, mark: 0, task, worker: "w1".to_owned() })
}

/// A run whose only task's outcome is unknown, and whose worker had declared its output.
fn unknown() -> Bench {
    leases(Bench::plan("a@once"), "a", Some(SCHEMA)).loses("a")
}

/// As [`unknown`], and the worker has come back too late and said this.
fn heard(output: &str) -> Bench {
    let bench = leases(Bench::plan("a@once"), "a", Some(SCHEMA));
    let (task, lease) = (bench.at("a"), bench.token("a"));
    bench.loses("a").does(reported(task, lease, "w1", Report::Completed(json(output))))
}

fn answer(bench: &Bench, option: &str, value: Option<&str>) -> Input {
    let [question_id] = bench.open().try_into().unwrap();
    let answer = Answer { value: value.map(json), ..Answer::from(option) };
    Input::Resolve { question_id, answer, request_id: "r1".to_owned() }
}

#[track_caller]
fn judgement(bench: &Bench, input: &Input) -> Judgement {
    bench.state.to_judge(input).expect("it has to be judged")
}

/// The answer again, with a verdict on this.
fn with(input: &Input, judged: Judgement, violations: &[&str]) -> Input {
    let violation = |rule: &&str| v1::SchemaViolation {
        path: "/a".to_owned(),
        rule: (*rule).to_owned(),
        ..v1::SchemaViolation::default()
    };
    let violations = violations.iter().map(violation).collect();
    let mut input = input.clone();
    let Input::Resolve { answer, .. } = &mut input else { panic!() };
    answer.verdict = Some(Box::new(Verdict::on(judged, violations)));
    input
}

#[test]
fn a_value_counts_once_it_has_passed_its_schema_and_not_before() {
    let bench = unknown();
    let told = answer(&bench, "succeeded", Some("7"));
    let judged = judgement(&bench, &told);
    let [question_id] = bench.open().try_into().unwrap();
    assert_eq!(judged.purpose, Purpose::Answer { question_id, revision: 1 });
    assert_eq!((&judged.schemas, &judged.value), (&vec![SCHEMA.to_owned()], &json("7")));
    let bench = bench.input(told.clone());
    assert_eq!(bench.clone_run().expect_refusal(), Refusal::Unjudged);
    let passed = with(&told, judged, &[]);
    assert_eq!(bench.state.judge(&passed), Ok(()));
    assert_eq!(bench.state.to_judge(&passed), None);
    let bench = bench.does(passed.clone()).expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").output, Some(json("7")));
    // Who repeats it is not judged again.
    assert_eq!(bench.state.to_judge(&told), None);
    bench.does(told).expect_kinds(&[]);
}

#[test]
fn a_value_that_breaks_its_schema_is_refused_and_the_question_stays_open() {
    let bench = unknown();
    let told = answer(&bench, "succeeded", Some("\"seven\""));
    let refused = with(&told, judgement(&bench, &told), &["type", "required"]);
    // Before anything else is looked at, so that `if_seq` and the revision do not hide it.
    let Err(Refusal::BreaksSchema { violations }) = bench.state.judge(&refused) else { panic!() };
    assert_eq!(violations.len(), 2);
    let bench = bench.input(refused);
    assert_eq!(bench.clone_run().expect_refusal(), Refusal::BreaksSchema { violations });
    assert_eq!(bench.open().len(), 1);
    bench.expect_status(v1::RunStatus::Waiting);
}

#[test]
fn a_verdict_on_another_value_schema_or_revision_is_none() {
    let bench = unknown();
    let told = answer(&bench, "succeeded", Some("7"));
    let judged = judgement(&bench, &told);
    let [question_id]: [String; 1] = bench.open().try_into().unwrap();
    for other in [
        Judgement { value: json("8"), ..judged.clone() },
        Judgement { schemas: vec!["true".to_owned()], ..judged.clone() },
        Judgement { purpose: Purpose::Answer { question_id, revision: 2 }, ..judged.clone() },
        Judgement {
            purpose: Purpose::Answer { question_id: "q1".to_owned(), revision: 1 },
            ..judged.clone()
        },
        Judgement { purpose: Purpose::Output { task: bench.at("a"), lease: 3 }, ..judged.clone() },
    ] {
        let input = with(&told, other, &[]);
        assert_eq!(bench.state.to_judge(&input), Some(judged.clone()));
        assert!(matches!(bench.clone_run().input(input).last, Err(Refusal::Unjudged)));
    }
}

#[test]
fn a_question_that_changes_while_its_answer_is_judged_is_judged_anew() {
    let bench = leases(Bench::plan("a@once"), "a", Some(SCHEMA));
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let bench = bench.loses("a");
    let told = answer(&bench, "succeeded", None);
    let before = judgement(&bench, &told);
    assert_eq!(before.value, json("null"), "an answer without a value says null");
    let bench = bench.does(reported(task, lease, "w1", Report::Completed(json("9"))));
    let late = with(&told, before, &[]);
    let judged = judgement(&bench, &late);
    assert!(matches!(judged.purpose, Purpose::Answer { revision: 2, .. }));
    assert_eq!(judged.value, json("9"));
    let bench = bench.does(with(&told, judged, &[])).expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").output, Some(json("9")));
}

#[test]
fn what_the_worker_proposes_is_judged_like_what_a_person_says() {
    let bench = heard("\"nine\"");
    let told = answer(&bench, "succeeded", None);
    let judged = judgement(&bench, &told);
    assert_eq!(judged.value, json("\"nine\""));
    let bench = bench.input(with(&told, judged, &["type"]));
    assert!(matches!(bench.last, Err(Refusal::BreaksSchema { .. })));
    let told = answer(&bench, "succeeded", Some("9"));
    let judged = judgement(&bench, &told);
    bench.does(with(&told, judged, &[])).expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn only_an_answer_that_has_a_value_is_judged() {
    let bench = unknown();
    for option in ["failed", "retry", "abort"] {
        let told = answer(&bench, option, None);
        assert_eq!(bench.state.to_judge(&told), None, "{option}");
        bench.clone_run().does(told);
    }
    // What can be no answer is refused before anybody judges.
    let of_text = v1::Payload { media_type: "text/plain".to_owned(), ..json("7") };
    let mut told = answer(&bench, "succeeded", None);
    let Input::Resolve { answer: text, .. } = &mut told else { panic!() };
    text.value = Some(of_text);
    assert_eq!(bench.state.to_judge(&told), None);
    assert!(matches!(bench.input(told).last, Err(Refusal::WrongValue { .. })));
}

#[test]
fn a_schema_is_recorded_once_for_all_leases_that_have_it() {
    let schemas = |bench: &Bench| bench.state.schemas.clone();
    let bench = leases(Bench::plan("a b@once c@once d@once"), "a", Some(SCHEMA));
    assert_eq!(schemas(&bench), [SCHEMA], "the output of any task is judged by it");
    let bench = leases(bench, "b", Some(SCHEMA));
    let bench = leases(bench, "c", Some(SCHEMA));
    let bench = leases(bench, "d", None);
    assert_eq!(schemas(&bench), [SCHEMA]);
    let bench = bench.loses("c").loses("d");
    let asked = |bench: &Bench, place: usize| bench.run().questions[place].value.clone().unwrap();
    assert_eq!((&*asked(&bench, 0).schema, &*asked(&bench, 0).media_type), (SCHEMA, "application/json"));
    assert_eq!((&*asked(&bench, 1).schema, &*asked(&bench, 1).media_type), ("", "*/*"));
}

#[test]
fn the_schema_is_that_of_the_worker_whose_lease_was_lost() {
    let bench = unknown().answer("retry");
    let bench = leases(bench, "a", Some("true")).loses("a");
    assert_eq!(bench.run().questions[1].value.clone().unwrap().schema, "true");
    let bench = leases(bench.answer("retry"), "a", Some(SCHEMA)).loses("a");
    assert_eq!(bench.run().questions[2].value.clone().unwrap().schema, SCHEMA);
    assert_eq!(bench.state.schemas, [SCHEMA, "true"]);
}

/// The result of the task's worker, with a verdict on it that has violations of these rules.
fn result(bench: &Bench, name: &str, output: &str, rules: &[&str]) -> Input {
    let (task, lease) = (bench.at(name), bench.token(name));
    let output = json(output);
    let judged = bench.state.output_to_judge(task, lease, "w1", &output).expect("it has to be judged");
    let violation = |rule: &&str| v1::SchemaViolation {
        path: "/a".to_owned(),
        rule: (*rule).to_owned(),
        expected: "an integer".to_owned(),
        found: "\"x\"".to_owned(),
    };
    let verdict = Verdict::on(judged, rules.iter().map(violation).collect());
    reported(task, lease, "w1", Report::Judged(output, Box::new(verdict)))
}

#[test]
fn an_output_counts_once_it_has_passed_what_its_worker_has_declared() {
    let bench = leases(Bench::plan("a"), "a", Some(SCHEMA));
    let (task, lease) = (bench.at("a"), bench.token("a"));
    let judged = bench.state.output_to_judge(task, lease, "w1", &json("7")).unwrap();
    assert_eq!(judged.purpose, Purpose::Output { task, lease });
    assert_eq!((judged.schemas, judged.value), (vec![SCHEMA.to_owned()], json("7")));
    // Nothing is to be judged of what is not heard.
    assert_eq!(bench.state.output_to_judge(task, lease, "w2", &json("7")), None);
    assert_eq!(bench.state.output_to_judge(task, lease + 1, "w1", &json("7")), None);
    let unjudged = bench.clone_run().input(reported(task, lease, "w1", Report::Completed(json("7"))));
    assert_eq!(unjudged.expect_refusal(), Refusal::Unjudged);
    let passed = result(&bench, "a", "7", &[]);
    // A verdict on another output is none.
    let mut other = passed.clone();
    let Input::Report { report: Report::Judged(output, _), .. } = &mut other else { panic!() };
    *output = json("8");
    assert_eq!(bench.clone_run().input(other).expect_refusal(), Refusal::Unjudged);
    let bench = bench.does(passed).expect_outcome(v1::RunOutcome::Succeeded);
    assert_eq!(bench.task("a").output, Some(json("7")));
}

#[test]
fn an_output_that_breaks_its_schema_is_a_failed_attempt() {
    let bench = leases(Bench::plan("a"), "a", Some(SCHEMA));
    let broken = result(&bench, "a", "\"x\"", &["type"]);
    let bench = bench.does(broken).expect_outcome(v1::RunOutcome::Failed);
    let error = bench.task("a").error.unwrap();
    let error = capataz_policy::retry::original(&error).clone();
    assert_eq!(error.code, "VALIDATION_ERROR");
    assert_eq!(error.message, "the output breaks its schema: /a: type: expected an integer, found \"x\"");
    assert_eq!(bench.task("a").output, None);
}

#[test]
fn an_output_that_is_no_json_is_a_parse_error_and_one_that_nobody_could_judge_is_tried_again() {
    let bench = leases(Bench::plan("a"), "a", Some(SCHEMA));
    let unreadable = result(&bench, "a", "{", &["syntax"]);
    let ended = bench.clone_run().does(unreadable).expect_outcome(v1::RunOutcome::Failed);
    assert_eq!(capataz_policy::retry::original(&ended.task("a").error.unwrap()).code, "PARSE_ERROR");
    let unjudged = result(&bench, "a", "7", &[UNJUDGED]);
    let waits = bench.does(unjudged);
    assert_eq!(waits.state.kind(), v1::RunKind::Plan);
    assert!(!waits.state.is_finished());
    let event = waits.clone_run();
    assert!(event.state.next_deadline().is_some(), "the next attempt has its time");
}

#[test]
fn work_that_is_done_once_and_late_is_judged_as_well() {
    let bench = leases(Bench::plan("a@once"), "a", Some(SCHEMA));
    assert!(bench.state.output_to_judge(bench.at("a"), bench.token("a"), "w1", &json("7")).is_some());
    let broken = result(&bench, "a", "\"x\"", &["type"]);
    let bench = bench.does(broken).expect_outcome(v1::RunOutcome::Failed);
    assert_eq!(bench.task("a").output, None);
}
