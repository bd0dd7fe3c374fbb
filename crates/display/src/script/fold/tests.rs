use super::*;
use crate::script::tests::*;

#[test]
fn every_try_at_an_action_is_there_with_what_came_of_it() {
    let run = fold(&story());
    let of_buy: Vec<(v1::BrowserActivity, usize)> =
        run.activities_of(1).map(|activity| (activity.kind, activity.tries.len())).collect();
    use v1::BrowserActivity::{Action, Recovery};
    assert_eq!(of_buy, [(Action, 1), (Recovery, 1), (Action, 2)]);
    let last = run.activities_of(1).last().map(|activity| activity.tries.clone()).unwrap_or_default();
    assert_eq!(last.first().and_then(|first| first.delay_ms), Some(500));
    assert_eq!(last.get(1).map(|second| second.stages.len()), Some(3));
    assert_eq!(run.outputs.get("total").map(|total| total.value.as_str()), Some("\"12 €\""));
    assert_eq!(run.browser, "Chrome/148.0.1.2");
}

#[test]
fn each_action_has_a_state() {
    let all = story();
    let states = |run: &ScriptRun| -> Vec<State> { (0..4).map(|step| run.state_of(step)).collect() };
    use State::{Failed, NotReached, Running, Succeeded};
    assert_eq!(states(&fold(&all)), [Succeeded, Succeeded, Succeeded, Failed]);
    assert_eq!(states(&fold(&all[..12])), [Succeeded, Running, NotReached, NotReached]);
    assert_eq!(states(&fold(&all[..1])), [NotReached; 4]);
    let why = fold(&all).error().and_then(|failed| failed.error.clone()).unwrap_or_default();
    assert_eq!(why.error_code, "POSTCONDITION_FAILED");
}

#[test]
fn an_action_that_a_limit_stops_before_it_begins_has_failed() {
    let halt = error("POLICY_HALT", v1::ActionStage::Policy, 1, "max_steps: 1");
    let run = fold(&events([accepted(script()), failed(halt, v1::AfterFailure::Halt)]));
    assert_eq!(run.state_of(1), State::Failed);
    assert_eq!(run.activities.first().and_then(|activity| activity.wave), None);
}

#[test]
fn an_error_of_opening_belongs_to_the_opening_and_to_no_action() {
    let lost = error("BROWSER_LOST", v1::ActionStage::Execution, 0, "it did not start");
    let open = v1::BrowserActivity::Open as i32;
    let failed = v1::ActionFailed {
        error: Some(lost),
        next: v1::AfterFailure::Halt as i32,
        activity: open,
        ..v1::ActionFailed::default()
    };
    let opening = started(0, v1::BrowserActivity::Open, None, None);
    let run =
        fold(&events([accepted(script()), opening, leased(0, 1), Body::ActionFailed(Box::new(failed))]));
    assert_eq!(run.activities.len(), 1);
    assert_eq!(run.error().map(step_of), Some(None));
    assert_eq!(run.state_of(0), State::NotReached);
}

#[test]
fn a_limit_on_top_of_a_failure_belongs_to_the_same_try() {
    let own = error("OVERLAY_BLOCKING", v1::ActionStage::Precondition, 1, "covered");
    let halt = error("POLICY_HALT", v1::ActionStage::Policy, 1, "retry_limit: 2");
    let run = fold(&events([
        accepted(script()),
        started(0, v1::BrowserActivity::Action, Some(1), None),
        leased(0, 1),
        failed(own, v1::AfterFailure::Halt),
        failed(halt, v1::AfterFailure::Halt),
        settled(0, Some("OVERLAY_BLOCKING")),
    ]));
    let failures: Vec<usize> = run.activities.iter().map(|activity| activity.failures().count()).collect();
    assert_eq!(failures, [2]);
    let why = run.error().and_then(|failed| failed.error.clone()).unwrap_or_default();
    assert_eq!(why.error_code, "POLICY_HALT");
}

#[test]
fn a_host_that_does_not_come_back_is_an_end_without_the_executors_words() {
    let lost = Body::TaskSettled(Box::new(v1::TaskSettled {
        status: v1::ResultStatus::Timeout as i32,
        error: Some(v1::Error { code: "TASK_TIMEOUT".to_owned(), ..v1::Error::default() }),
        ..v1::TaskSettled::default()
    }));
    let run = fold(&events([
        accepted(script()),
        started(0, v1::BrowserActivity::Action, Some(0), None),
        leased(0, 1),
        lost,
    ]));
    assert_eq!(run.state_of(0), State::Failed);
    let code = run.activities[0].tries[0].settled.as_ref().map(|error| error.code.as_str());
    assert_eq!(code, Some("TASK_TIMEOUT"));
}
