//! The verdict on scripts: what the site saw of one script, and what its log explains.

use capataz_client::v1::{self, event::Body};

use super::world::{accepted, finished, found, log};
use crate::records::SiteRecord;
use crate::verdict::Facts;
use crate::workloads::Kind;

const SCRIPT: &str = "run-s";

fn activity(action: &str, failure: Option<v1::DecidedFailure>) -> Body {
    let effect = Some(v1::Effect::AtMostOnce as i32);
    let task = v1::Task { name: action.to_owned(), effect, ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    Body::BrowserActivityStarted(Box::new(v1::BrowserActivityStarted {
        activity: v1::BrowserActivity::Action.into(),
        wave: Some(wave),
        failure,
        ..Default::default()
    }))
}

fn leased(wave: u32, lease: u64) -> Body {
    Body::TaskLeased(v1::TaskLeased { wave, attempt: 1, activation: 1, lease, ..Default::default() })
}

fn settled(wave: u32, lease: u64) -> Body {
    let status = v1::ResultStatus::Success as i32;
    Body::TaskSettled(Box::new(v1::TaskSettled {
        wave,
        activation: 1,
        lease: Some(lease),
        status,
        ..Default::default()
    }))
}

fn done(action: &str) -> Body {
    let (activity, action_id) = (v1::BrowserActivity::Action.into(), action.to_owned());
    Body::ActionFinished(Box::new(v1::ActionFinished { activity, action_id, ..Default::default() }))
}

fn asked() -> Body {
    let question =
        v1::Question { question_id: "q".to_owned(), task: Some("send".to_owned()), ..Default::default() };
    Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(question),
        wave: Some(0),
        task: Some(0),
    }))
}

fn answered(answer: &str) -> Body {
    let (question_id, answer) = ("q".to_owned(), answer.to_owned());
    Body::QuestionAnswered(v1::QuestionAnswered { question_id, answer, ..Default::default() })
}

/// A script with these events after its acceptance, of which the site saw these actions.
#[track_caller]
fn check_script(bodies: Vec<Body>, seen: &[&str], expected: [usize; 6]) {
    let script = accepted(v1::run_accepted::Work::Script(v1::Script::default()));
    let bodies = [script].into_iter().chain(bodies).chain([finished(v1::RunOutcome::Succeeded)]).collect();
    let mut facts = Facts::default();
    facts.logs.insert(SCRIPT.to_owned(), log("s", &["send", "send"], bodies));
    let act = |action: &&str| SiteRecord { key: "s".to_owned(), action: (*action).to_owned() };
    facts.site = seen.iter().map(act).collect();
    let (found, verdict) = found(&facts);
    assert_eq!(found, expected, "{verdict:#?}");
    let tally = verdict.kinds.get(&Kind::Scripts).copied().unwrap_or_default();
    assert_eq!(tally.executions, seen.len() as u64);
    assert_eq!(tally.unexplained, expected[4] as u64);
}

#[test]
fn an_action_is_seen_once_for_its_one_lease() {
    let script = || vec![activity("send", None), leased(0, 3), done("send"), settled(0, 3)];
    check_script(script(), &["send"], [0; 6]);
    check_script(script(), &["send", "send"], [0, 0, 0, 0, 1, 0]);
    // It has succeeded, and the site saw nothing.
    check_script(script(), &[], [1, 0, 0, 0, 0, 0]);
    // An action of which the log knows nothing.
    check_script(script(), &["send", "click"], [0, 0, 0, 0, 1, 0]);
}

#[test]
fn an_action_that_is_done_as_a_person_says_need_not_have_been_seen() {
    let given = || {
        let status = v1::ResultStatus::Success as i32;
        let settled = v1::TaskSettled { activation: 1, status, ..Default::default() };
        let settled = Body::TaskSettled(Box::new(settled));
        vec![activity("send", None), leased(0, 3), asked(), answered("succeeded"), done("send"), settled]
    };
    check_script(given(), &[], [0; 6]);
    check_script(given(), &["send"], [0; 6]);
    check_script(given(), &["send", "send"], [0, 0, 0, 0, 1, 0]);
}

#[test]
fn an_action_that_has_succeeded_twice() {
    let twice = vec![activity("send", None), leased(0, 3), done("send"), done("send"), settled(0, 3)];
    check_script(twice, &["send"], [0, 1, 0, 0, 0, 0]);
}

#[test]
fn an_action_that_must_run_at_most_once_is_done_again_only_where_somebody_said_so() {
    let again = |between: Vec<Body>| {
        let mut bodies = vec![activity("send", None), leased(0, 3)];
        bodies.extend(between);
        let lease = bodies.len() as u64 + 2;
        bodies.extend([leased(0, lease), done("send"), settled(0, lease)]);
        bodies
    };
    let lost = |reason: v1::LeaseLossReason| {
        Body::TaskLeaseLost(v1::TaskLeaseLost { lease: 3, reason: reason.into(), ..Default::default() })
    };
    check_script(again(vec![asked(), answered("retry")]), &["send", "send"], [0; 6]);
    check_script(again(vec![asked(), answered("failed")]), &["send", "send"], [0, 0, 0, 0, 1, 0]);
    let silently = again(vec![lost(v1::LeaseLossReason::Restarted)]);
    check_script(silently, &["send", "send"], [0, 0, 0, 0, 1, 0]);
    let returned = again(vec![lost(v1::LeaseLossReason::Returned)]);
    check_script(returned, &["send"], [0; 6]);
}

#[test]
fn what_only_explains_a_failure_performs_nothing() {
    let explains = vec![
        activity("send", None),
        leased(0, 3),
        asked(),
        answered("retry"),
        activity("send", Some(v1::DecidedFailure::default())),
        leased(1, 7),
    ];
    check_script(explains, &["send", "send"], [0, 0, 0, 0, 1, 0]);
}

#[test]
fn an_act_of_no_run() {
    let mut facts = Facts::default();
    facts.site.push(SiteRecord { key: "nobody".to_owned(), action: "send".to_owned() });
    let (found, verdict) = found(&facts);
    assert_eq!(found, [1, 0, 0, 0, 0, 0], "{verdict:#?}");
}
