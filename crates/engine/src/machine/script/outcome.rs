//! What became of an activity, as the browser's host says it: another attempt, a recovery, the next action, or the end
//! (CONTRACTS §3, policies)?

use capataz_contracts::v1::{self, AfterFailure, BrowserActivity, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes as common;
use capataz_policy::executor as codes;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;
use prost::Message;

use super::activity::{may_repeat, task_name};
use super::limits::Limits;
use super::state::{BrowserWork, ScriptState};
use super::{failure, last_end};
use crate::decide::Ending;
use crate::fold::state::{Moment, RunState};
use crate::input::TaskRef;
use crate::machine::host_error::{self, Asked};
use crate::machine::own_browser::OwnBrowser;
use crate::machine::{Meaning, Step, Verdict};

/// The meaning of the host's report on the activity in work.
pub(super) fn reported(
    script: &ScriptState,
    run: &RunState,
    task: TaskRef,
    output: &v1::Payload,
    now: Moment,
) -> Verdict {
    let outcome = match &output.data {
        Some(v1::payload::Data::Inline(bytes)) => v1::BrowserOutcome::decode(bytes.clone()).ok(),
        Some(v1::payload::Data::Blob(_)) | None => None,
    };
    let (Some(mut outcome), Some(work)) = (outcome, script.activities.last().copied()) else {
        return invalid(Vec::new(), "the browser's host gave no outcome");
    };
    let action_id = script.action(work.step).map(|action| action.id.clone()).unwrap_or_default();
    let stages = std::mem::take(&mut outcome.stages).into_iter().map(|record| {
        Body::StageFinished(v1::StageFinished {
            step_index: work.step,
            action_id: action_id.clone(),
            record: Some(record),
        })
    });
    let mut record: Vec<Body> = stages.collect();
    match outcome.error.take() {
        // Nothing was performed, so nothing can have succeeded.
        None if work.decided => invalid(record, "the browser's host gave no error for what has failed"),
        Some(error) => failed(script, run, work, record, error, outcome, now),
        None => {
            let worker = run.lease_of(task).map(|(_, worker)| worker.to_owned()).unwrap_or_default();
            record.push(succeeded(script, work, action_id, worker, outcome, now));
            Verdict { record, meaning: Meaning::Done(None) }
        }
    }
}

/// What is recorded of the action in work where a person says that it is done. Nobody has seen its page, so that it has neither
/// states nor evidence, and no output.
pub(super) fn given(script: &ScriptState, now: Moment) -> Option<Body> {
    let work = script.activities.last().copied()?;
    if work.activity != BrowserActivity::Action || work.decided {
        return None;
    }
    let action_id = script.action(work.step).map(|action| action.id.clone()).unwrap_or_default();
    Some(succeeded(script, work, action_id, String::new(), v1::BrowserOutcome::default(), now))
}

fn invalid(record: Vec<Body>, message: &str) -> Verdict {
    let error = common::error(common::INVALID_OUTPUT, message.to_owned());
    Verdict { record, meaning: Meaning::Failed(error) }
}

/// The blobs that an outcome names: its evidence and downloads. Empty if the payload is not an outcome.
pub(in crate::machine) fn evidence_blobs(output: &v1::Payload) -> Vec<v1::BlobRef> {
    let Some(v1::payload::Data::Inline(bytes)) = &output.data else { return Vec::new() };
    let Ok(outcome) = v1::BrowserOutcome::decode(bytes.clone()) else { return Vec::new() };
    let of_error = outcome.error.into_iter().flat_map(|error| error.evidence_refs);
    let evidence = outcome.evidence.into_iter().chain(of_error);
    let downloads = outcome.changes.into_iter().flat_map(|changes| changes.downloads);
    let downloads = downloads.filter_map(|download| download.blob);
    // What a reference holds itself is in no blob.
    let evidence = evidence.filter(|piece| piece.inline.is_none());
    evidence.map(|piece| v1::BlobRef::new(piece.id, piece.bytes)).chain(downloads).collect()
}

fn succeeded(
    script: &ScriptState,
    work: BrowserWork,
    action_id: String,
    worker: String,
    outcome: v1::BrowserOutcome,
    now: Moment,
) -> Body {
    match work.activity {
        BrowserActivity::Open => {
            let idle_in_ms = script.idle_after(work.step);
            let idle_at_ms = idle_in_ms.map(|wait| now.wall_at(now.clock.plus(wait)).0);
            Body::BrowserOpened(v1::BrowserOpened {
                browser: outcome.browser,
                idle_at_ms,
                idle_in_ms,
                worker,
                restored: matches!(script.browser, OwnBrowser::Kept { .. }),
                keep_after_ms: outcome.keeps.then(|| script.idle_timeout_ms()),
                attached: outcome.attached,
            })
        }
        BrowserActivity::Close => Body::BrowserClosed(v1::BrowserClosed::default()),
        BrowserActivity::Action
        | BrowserActivity::Recovery
        | BrowserActivity::Observe
        | BrowserActivity::Unspecified => {
            let is_action = work.activity == BrowserActivity::Action;
            let idle_in_ms = is_action.then(|| script.idle_after(work.step.saturating_add(1))).flatten();
            let idle_at_ms = idle_in_ms.map(|wait| now.wall_at(now.clock.plus(wait)).0);
            Body::ActionFinished(Box::new(v1::ActionFinished {
                step_index: work.step,
                action_id,
                activity: work.activity.into(),
                state_before: outcome.state_before,
                state_after: outcome.state_after,
                evidence: outcome.evidence,
                resolution: outcome.resolution,
                changes: outcome.changes,
                output: outcome.output,
                idle_at_ms,
                idle_in_ms,
            }))
        }
    }
}

fn failed(
    script: &ScriptState,
    run: &RunState,
    work: BrowserWork,
    mut record: Vec<Body>,
    mut error: v1::ExecutorError,
    outcome: v1::BrowserOutcome,
    now: Moment,
) -> Verdict {
    let activity = work.activity;
    let is_action = activity == BrowserActivity::Action;
    if matches!(activity, BrowserActivity::Open | BrowserActivity::Close) {
        let id = task_name(activity, None);
        failure::name_activity(&mut error, activity, id, script.script.actions.len());
    }
    let says_lost = error.error_code == codes::code::BROWSER_LOST;
    // Whoever has the browser says that it is gone.
    if says_lost
        && !work.decided
        && let Some(bound) = script.browser.binding().filter(|bound| bound.is_live)
    {
        record.extend(script.browser.lost_by(bound.worker, v1::BrowserLossReason::Ended));
    }
    let asked = Asked {
        run_id: &script.script.run_id,
        step: work.step,
        action: script.action(work.step),
        last_state: script.last_state.as_ref(),
        now,
    };
    // A failure is recorded under the number of its own event.
    let number = |record: &[Body]| run.seq().saturating_add(record.len() as u64).saturating_add(1);
    error.seq = number(&record);
    error.retryable = Some(false);
    // The log holds only whole errors (seed 002), whoever the worker is that has told them.
    let mut error = host_error::recorded(error, &asked);
    // The loss of the browser ends the script, and so does a failure that the engine has decided.
    let ends = says_lost || work.decided;
    let (next, exceeded) = what_follows(script, work, &error, ends, outcome.touched);
    error.retryable = Some(next == AfterFailure::Retry && is_action);
    let halt = exceeded.map(|(reason, observed)| failure::halt_after(script, reason, observed, &error, now));
    let message = settled_error(&error);
    let passes = next == AfterFailure::Continue;
    let idle_in_ms = passes.then(|| script.idle_after(work.step.saturating_add(1))).flatten();
    let idle_at_ms = idle_in_ms.map(|wait| now.wall_at(now.clock.plus(wait)).0);
    let failures = [(Some(error), outcome.resolution, outcome.changes), (halt, None, None)];
    for (error, resolution, changes) in failures {
        let Some(mut error) = error else { continue };
        error.seq = number(&record);
        record.push(Body::ActionFailed(Box::new(v1::ActionFailed {
            error: Some(error),
            next: next.into(),
            activity: activity.into(),
            resolution,
            changes,
            idle_at_ms,
            idle_in_ms,
        })));
    }
    if next == AfterFailure::Retry && is_action {
        let meaning = Meaning::AttemptFailed { error: message, output: None, may_pass: Some(true) };
        return Verdict { record, meaning };
    }
    let ending = Ending {
        state: TaskState::Failed,
        status: ResultStatus::Error,
        output: None,
        severity: Severity::from_proto(message.severity),
        error: Some(message),
        lease: None,
        taken_over: false,
    };
    Verdict { record, meaning: Meaning::Settled(Box::new(ending)) }
}

/// The consequence of a failure; and the limit that prevents another try, with the count.
fn what_follows(
    script: &ScriptState,
    work: BrowserWork,
    error: &v1::ExecutorError,
    ends: bool,
    touched: bool,
) -> (AfterFailure, Option<(&'static str, u32)>) {
    let limits = Limits::of(script);
    let code = error.error_code.as_str();
    // The criticality in force is the error's: the policy, or the page, may have raised what the script declares.
    let is_critical = error.criticality() == v1::Criticality::Critical;
    let declared = script.action(work.step).cloned().unwrap_or_default();
    let is_action = work.activity == BrowserActivity::Action;
    if work.activity == BrowserActivity::Recovery && !ends {
        // A recovery that failed does not decide about the action: the action is tried again, and fails with its own error.
        return (AfterFailure::Retry, None);
    }
    // Input that was sent to the page is sent again only if that does no harm.
    let may_be = codes::lookup(code).is_some_and(|code| code.may_be_retried);
    let again = is_action && !ends && may_be && (!touched || (!is_critical && may_repeat(&declared)));
    let recovers = again && limits.recovery_for(code).is_some();
    let retries = again && !recovers && limits.is_retried(&declared, code);
    let (recovery_limit, retry_limit) = (limits.recovery_limit(), limits.retry_limit_of(&declared));
    if recovers && script.recoveries < recovery_limit {
        return (AfterFailure::Recover, None);
    }
    if retries && script.retries < retry_limit {
        return (AfterFailure::Retry, None);
    }
    let exceeded = match (recovers && recovery_limit > 0, retries && retry_limit > 0) {
        (true, _) => Some(("recovery_limit", script.recoveries)),
        (_, true) => Some(("retry_limit", script.retries)),
        (false, false) => None,
    };
    let passed_over = !is_critical && declared.on_failure() == v1::OnFailure::Continue;
    // A limit that is reached is a halt, which nothing passes over (CONTRACTS §3, policies).
    let passes = is_action && !ends && exceeded.is_none() && (script.script.interactive || passed_over);
    (if passes { AfterFailure::Continue } else { AfterFailure::Halt }, exceeded)
}

/// The same failure as the error of a task.
pub(in crate::machine) fn settled_error(error: &v1::ExecutorError) -> v1::Error {
    let severity = codes::severity(error.severity()).unwrap_or(Severity::High);
    v1::Error {
        code: error.error_code.clone(),
        message: error.message.clone(),
        severity: severity.to_proto().into(),
        can_continue: Some(severity.flags().can_continue),
        ..v1::Error::default()
    }
}

/// How the script ends.
pub(super) fn finish(script: &ScriptState, run: &RunState) -> Step {
    let recorded = script.error.as_ref().map(settled_error);
    let last = last_end(run).filter(|end| end.status != ResultStatus::Success);
    let error = recorded.or_else(|| last.and_then(|end| end.error.clone()));
    let outcome = match (&error, script.failed) {
        (Some(_), _) => v1::RunOutcome::Failed,
        (None, 0) => v1::RunOutcome::Succeeded,
        (None, _) => v1::RunOutcome::SucceededWithFailures,
    };
    Step::Finish { outcome, error }
}
