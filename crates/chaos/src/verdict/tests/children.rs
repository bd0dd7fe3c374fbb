//! The verdict on runs that are tasks of other runs: of plans, and calls of tools of executions.

use std::collections::BTreeMap;

use capataz_client::v1::{self, event::Body};

use super::world::{accepted, events, finished};
use super::{KEY, RUN, check, leased, lost};
use crate::records::{Work, WorkerRecord};
use crate::verdict::{Log, Verdict, runs, work};
use crate::workloads::{KEY_LABEL, Kind};

/// The child, and its key, which is its plan's name.
const CHILD: &str = "r2";
const CHILD_KEY: &str = "k1/0";
const TASK: &str = "plan.run.0";

fn log(tasks: &[&str], bodies: Vec<Body>) -> Log {
    let events = events(bodies);
    let outcome = match events.last().and_then(|event| event.body.as_ref()) {
        Some(Body::RunFinished(body)) => Some(body.outcome),
        _ => None,
    };
    let status = if outcome.is_some() { v1::RunStatus::Finished } else { v1::RunStatus::Running };
    let task = |name: &&str| v1::TaskView { name: (*name).to_owned(), ..Default::default() };
    let view = v1::Run {
        status: status.into(),
        outcome,
        seq: events.len() as u64,
        waves: vec![v1::WaveView { tasks: tasks.iter().map(task).collect(), ..Default::default() }],
        ..Default::default()
    };
    Log { view, events }
}

fn plan(effect: v1::Effect) -> v1::Plan {
    let task = v1::Task { name: "a".to_owned(), effect: Some(effect.into()), ..Default::default() };
    let waves = vec![v1::Wave { tasks: vec![task], ..Default::default() }];
    v1::Plan { name: CHILD_KEY.to_owned(), waves, ..Default::default() }
}

fn settled(lease: Option<u64>, output: &str) -> Body {
    let data = Some(v1::payload::Data::Inline(output.to_owned().into()));
    let output = Some(v1::Payload { media_type: "application/json".to_owned(), data });
    let status = v1::ResultStatus::Success.into();
    Body::TaskSettled(Box::new(v1::TaskSettled {
        activation: 1,
        lease,
        status,
        output,
        ..Default::default()
    }))
}

fn output_of(key: &str, lease: u64) -> String {
    format!(r#"{{"key":"{key}","task":"a","lease":{lease}}}"#)
}

fn named(child: &str) -> Body {
    Body::ChildNamed(v1::ChildNamed { attempt: 1, run_id: child.to_owned(), ..Default::default() })
}

fn ended(child: &str) -> Body {
    let outcome = Some(v1::RunOutcome::Succeeded.into());
    Body::ChildEnded(v1::ChildEnded { run_id: child.to_owned(), outcome, ..Default::default() })
}

/// An execution whose tool is a plan, with these events after the call, and what has become of the plan.
fn family(after: Vec<Body>, child: Log) -> BTreeMap<String, Log> {
    let run = v1::ChildRun::of_plan(plan(v1::Effect::AtLeastOnce));
    let task = v1::Task { name: TASK.to_owned(), run: Some(Box::new(run)), ..Default::default() };
    let tasks = Some(v1::Wave { tasks: vec![task], ..Default::default() });
    let called = Body::ToolCalled(v1::ToolCalled { tasks, ..Default::default() });
    let begin = [accepted(v1::run_accepted::Work::Mode(v1::ModeRun::default())), called];
    let mut parent = log(&[TASK], begin.into_iter().chain(after).collect());
    parent.view.labels.insert(KEY_LABEL.to_owned(), KEY.to_owned());
    [(RUN.to_owned(), parent), (CHILD.to_owned(), child)].into()
}

fn good_child(effect: v1::Effect) -> Log {
    let begin = accepted(v1::run_accepted::Work::Plan(plan(effect)));
    let end = [settled(Some(4), &output_of(CHILD_KEY, 4)), finished(v1::RunOutcome::Succeeded)];
    let bodies = [begin, leased(2), lost(2), leased(4)].into_iter().chain(end);
    let mut child = log(&["a"], bodies.collect());
    let parent =
        v1::ParentRef { run_id: RUN.to_owned(), task: TASK.to_owned(), attempt: 1, activation: 1, lease: 0 };
    child.view.parent = Some(parent);
    child
}

/// What the parent has of it.
fn heard(key: &str) -> Vec<Body> {
    let output = format!(r#"{{"tasks":[{{"name":"a","output":{}}}]}}"#, output_of(key, 4));
    vec![named(CHILD), ended(CHILD), settled(None, &output), finished(v1::RunOutcome::Succeeded)]
}

#[track_caller]
fn check_family(logs: &BTreeMap<String, Log>, expected: [usize; 6]) -> Verdict {
    let mut verdict = Verdict::default();
    runs::judge(logs, &mut verdict);
    check(&verdict, expected);
    verdict
}

#[test]
fn what_a_tool_has_begun_has_a_key_of_its_own_and_counts_for_its_parents_kind() {
    let logs = family(heard(CHILD_KEY), good_child(v1::Effect::AtLeastOnce));
    let verdict = check_family(&logs, [0; 6]);
    assert_eq!(logs[CHILD].key(), CHILD_KEY);
    assert_eq!((verdict.children, verdict.kinds[&Kind::Modes].children), (1, 1));
}

#[test]
fn what_a_parent_has_of_its_child_is_what_the_child_has_given() {
    let child = || good_child(v1::Effect::AtLeastOnce);
    let with = |output: &str| {
        let mut after = heard(CHILD_KEY);
        after[2] = settled(None, output);
        family(after, child())
    };
    // Neither that of another key, nor that of another lease, nor none.
    check_family(&family(heard("k2/0"), child()), [0, 0, 0, 0, 0, 2]);
    let other = output_of(CHILD_KEY, 2);
    check_family(&with(&format!(r#"{{"tasks":[{{"name":"a","output":{other}}}]}}"#)), [0, 0, 0, 0, 0, 1]);
    check_family(&with(r#"{"tasks":[{"name":"a"}]}"#), [0, 0, 0, 0, 0, 1]);
    check_family(&with(r#"{"tasks":[]}"#), [0, 0, 0, 0, 0, 2]);
    // Of which a person has said that it has succeeded, that has given nothing.
    let mut logs = with(r#"{"tasks":[{"name":"a","output":null}]}"#);
    for event in &mut logs.get_mut(CHILD).unwrap().events {
        if let Some(Body::TaskSettled(body)) = &mut event.body {
            (body.lease, body.output) = (None, None);
        }
    }
    check_family(&logs, [0; 6]);
}

#[test]
fn a_child_that_was_made_twice_for_one_attempt() {
    let mut logs = family(heard(CHILD_KEY), good_child(v1::Effect::AtLeastOnce));
    logs.insert("r3".to_owned(), logs[CHILD].clone());
    check_family(&logs, [0, 1, 0, 0, 0, 0]);
    // The planner may call the same again.
    let again = logs.get_mut("r3").unwrap().view.parent.as_mut().unwrap();
    "plan.run.2".clone_into(&mut again.task);
    check_family(&logs, [0; 6]);
}

#[test]
fn another_child_after_one_that_succeeded() {
    let mut twice = vec![named(CHILD), ended(CHILD), named("r3"), ended("r3")];
    twice.extend(heard(CHILD_KEY).drain(2..));
    let mut logs = family(twice, good_child(v1::Effect::AtLeastOnce));
    let mut second = logs[CHILD].clone();
    second.view.parent.as_mut().unwrap().attempt = 2;
    logs.insert("r3".to_owned(), second);
    check_family(&logs, [0, 1, 0, 0, 0, 0]);
    // What a child gives back that was told to end is no success.
    let told = Body::ChildCancelRequested(v1::ChildCancelRequested {
        run_id: CHILD.to_owned(),
        ..Default::default()
    });
    let parent = logs.get_mut(RUN).unwrap();
    let mut bodies: Vec<Body> = parent.bodies().cloned().collect();
    bodies.insert(3, told);
    parent.events = events(bodies);
    parent.view.seq += 1;
    check_family(&logs, [0; 6]);
}

#[test]
fn a_task_of_a_child_is_repeated_only_where_its_lease_was_lost() {
    let began = |lease| {
        let (run, task) = (CHILD.to_owned(), "a".to_owned());
        WorkerRecord::Began { at: 1, work: Work { run, task, activation: 1, attempt: 1, lease } }
    };
    let check_work = |effect, leases: &[u64], expected| {
        let logs = family(heard(CHILD_KEY), good_child(effect));
        let journal: Vec<WorkerRecord> = leases.iter().map(|lease| began(*lease)).collect();
        let mut verdict = Verdict::default();
        work::judge(&journal, &logs, &mut verdict);
        check(&verdict, expected);
    };
    check_work(v1::Effect::AtLeastOnce, &[2, 4], [0; 6]);
    check_work(v1::Effect::AtLeastOnce, &[2, 4, 6], [0, 0, 0, 0, 1, 0]);
    check_work(v1::Effect::AtMostOnce, &[2, 4], [0, 0, 0, 0, 1, 0]);
    let mut verdict = Verdict::default();
    work::judge(&[began(2)], &BTreeMap::new(), &mut verdict);
    check(&verdict, [1, 0, 0, 0, 0, 0]);
}
