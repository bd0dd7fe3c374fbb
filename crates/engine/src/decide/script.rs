//! The script machine: the browser is open, an action has ended, somebody proposes one; what comes next?

pub use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
use capataz_contracts::script;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::executor as limits;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;
use capataz_policy::{codes, lifecycle};
use prost::Message;

use super::settle::Ending;
use super::turn::Turn;
use super::{Refusal, advance, report, script_failure, settle};
use crate::apply::digest;
use crate::effect::Effect;
use crate::input::TaskRef;
use crate::plan::Plan;
use crate::script::{BrowserWork, ScriptState, ScriptStep, milliseconds};

/// Opening may have to wait for a browser that is in use. Milliseconds.
const OPEN_TIMEOUT_MS: i64 = 5 * 60_000;
/// What a host may need beyond an action's own limits. Milliseconds.
const HOST_SLACK_MS: i64 = 60_000;

/// Somebody proposes an action to an interactive session.
pub(super) fn propose(turn: &mut Turn<'_>, action: v1::Action, request_id: String) -> Result<(), Refusal> {
    if repeats(turn, &action, &request_id)? {
        return Ok(());
    }
    turn.refuse_finished()?;
    let step_index = match (&turn.state.script, turn.state.script_step()) {
        (Some(script), Some(ScriptStep::AwaitProposal)) => {
            u32::try_from(script.script.actions.len()).unwrap_or(u32::MAX)
        }
        (Some(script), _) if script.script.interactive => {
            let message =
                "the session is not ready for an action: one is being performed, or it opens or closes";
            return Err(rule(codes::STEP_IN_PROGRESS, message));
        }
        _ => {
            return Err(rule(
                codes::SESSION_NOT_INTERACTIVE,
                "actions are proposed to interactive sessions only",
            ));
        }
    };
    turn.emit_request(Body::ActionProposed(v1::ActionProposed {
        step_index,
        action: Some(action),
        request_id,
    }));
    advance::advance(turn)
}

/// Whether the action was proposed before under this request id.
fn repeats(turn: &mut Turn<'_>, action: &v1::Action, request_id: &str) -> Result<bool, Refusal> {
    let actions =
        turn.state.script.as_ref().map(|script| script.script.actions.as_slice()).unwrap_or_default();
    let before = turn.state.requests.get(request_id).map(|(digest, _)| digest.clone()).unwrap_or_default();
    let mut numbered = actions.iter().zip(0u32..);
    let digest = match numbered.find(|(proposed, _)| *proposed == action).map(|(_, step)| step) {
        Some(step) if digest::propose(step) == before => before,
        _ => String::new(),
    };
    turn.repeats(request_id, &digest)
}

/// Somebody closes an interactive session.
pub(super) fn close(turn: &mut Turn<'_>, request_id: String) -> Result<(), Refusal> {
    if turn.repeats(&request_id, digest::CLOSE)? {
        return Ok(());
    }
    turn.refuse_finished()?;
    let Some(script) = turn.state.script.as_ref().filter(|script| script.script.interactive) else {
        return Err(rule(
            codes::SESSION_NOT_INTERACTIVE,
            "only interactive sessions are closed; others are cancelled",
        ));
    };
    if script.closing {
        turn.set_request_seq(Some(turn.state.seq()));
        return Ok(());
    }
    turn.emit_request(Body::BrowserCloseRequested(v1::BrowserCloseRequested { request_id, idle: false }));
    advance::advance(turn)
}

/// Nobody has proposed anything for too long.
pub(super) fn idle(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    turn.emit(Body::BrowserCloseRequested(v1::BrowserCloseRequested {
        request_id: String::new(),
        idle: true,
    }));
    advance::advance(turn)
}

fn rule(code: &'static str, message: &str) -> Refusal {
    Refusal::Rule(Box::new(codes::error(code, message.to_owned())))
}

/// Goes on by one step; whether another one may follow.
pub(super) fn step(turn: &mut Turn<'_>) -> Result<bool, Refusal> {
    use v1::BrowserActivity::{Action, Close, Open, Recovery};
    match turn.state.script_step() {
        Some(ScriptStep::Open) => begin(turn, Open, None, None),
        Some(ScriptStep::Act { step }) => {
            let halt = script_failure::halt_before(turn, step);
            begin(turn, Action, Some(step), halt);
        }
        Some(ScriptStep::Recover { step }) => begin(turn, Recovery, Some(step), None),
        Some(ScriptStep::Explain) => explain(turn),
        Some(ScriptStep::Close { .. }) => begin(turn, Close, None, None),
        Some(ScriptStep::Finish) => finish(turn),
        Some(ScriptStep::AwaitProposal | ScriptStep::Wait) | None => {}
    }
    Ok(false)
}

/// Begins an activity once more that has ended without a word of the host, for the host to say with what it failed.
fn explain(turn: &mut Turn<'_>) {
    let work = turn.state.script.as_ref().and_then(|script| script.activities.last()).cloned();
    let (Some(work), Some(end)) = (work, turn.state.last_end()) else { return };
    let failure = script_failure::unexplained(end);
    let activity = v1::BrowserActivity::try_from(work.activity).unwrap_or_default();
    let step_index = (activity == v1::BrowserActivity::Action).then_some(work.step);
    begin(turn, activity, step_index, Some(failure));
}

/// Begins an activity of the browser: a wave of one task. With a failure nothing is performed: the host says that the
/// activity fails with it.
fn begin(
    turn: &mut Turn<'_>,
    activity: v1::BrowserActivity,
    step_index: Option<u32>,
    failure: Option<v1::DecidedFailure>,
) {
    let Some(script) = &turn.state.script else { return };
    let number = u32::try_from(script.activities.len()).unwrap_or(u32::MAX);
    let action = match (activity, step_index) {
        (v1::BrowserActivity::Action, Some(step)) => {
            script.action(step).map(|action| script.filled_in(action))
        }
        (v1::BrowserActivity::Recovery, Some(step)) => script.recovery_for(step),
        _ => None,
    };
    let opens = activity == v1::BrowserActivity::Open;
    let task = v1::BrowserTask {
        activity: activity as i32,
        step_index,
        action: action.clone(),
        name: script.script.name.clone(),
        policy: if opens { script.script.policy.clone() } else { None },
        browser: if opens { script.script.browser.clone() } else { None },
        last_state: script.last_state.clone(),
        last_evidence: script.last_evidence.clone(),
        interactive: script.script.interactive,
        keep_storage: activity == v1::BrowserActivity::Close && script.error.is_none() && failure.is_none(),
        failure: failure.clone(),
    };
    let effect = match failure {
        // To say so has no effect.
        Some(_) => v1::Effect::AtLeastOnce,
        None => effect_of(activity, action.as_ref()),
    };
    let mut wave = v1::Wave {
        name: Some(wave_name(activity, step_index)),
        tasks: vec![v1::Task {
            name: task_name(activity, action.as_ref()),
            agent: BROWSER_AGENT.to_owned(),
            input: Some(v1::Payload {
                media_type: BROWSER_MEDIA_TYPE.to_owned(),
                data: Some(v1::payload::Data::Inline(task.encode_to_vec().into())),
            }),
            effect: Some(effect as i32),
            timeouts: Some(timeouts_of(activity, action.as_ref(), script)),
            retry: Some(retries_of(script, action.as_ref())),
            ..v1::Task::default()
        }],
        policy: None,
    };
    Plan::fill_policies(&mut wave);
    turn.emit(Body::BrowserActivityStarted(v1::BrowserActivityStarted {
        activity: activity as i32,
        step_index,
        action,
        wave: Some(wave),
        number,
        failure,
    }));
    if turn.state.may_lease() {
        turn.effect(Effect::Enqueue { task: TaskRef { wave: number, task: 0 } });
    }
}

fn wave_name(activity: v1::BrowserActivity, step_index: Option<u32>) -> String {
    let number = step_index.map_or(0, |step| step.saturating_add(1));
    match activity {
        v1::BrowserActivity::Action => format!("action-{number}"),
        v1::BrowserActivity::Recovery => format!("recovery-{number}"),
        v1::BrowserActivity::Close => "close".to_owned(),
        _ => "open".to_owned(),
    }
}

fn task_name(activity: v1::BrowserActivity, action: Option<&v1::Action>) -> String {
    let id = action.map_or("", |action| action.id.as_str());
    match activity {
        v1::BrowserActivity::Action => id.to_owned(),
        v1::BrowserActivity::Recovery => format!("recovery:{id}"),
        v1::BrowserActivity::Close => "browser:close".to_owned(),
        _ => "browser:open".to_owned(),
    }
}

/// A critical action, or one that was not declared repeatable, is never repeated by itself where nobody knows what became
/// of it (CONTRACTS §3).
fn effect_of(activity: v1::BrowserActivity, action: Option<&v1::Action>) -> v1::Effect {
    match (activity, action) {
        (v1::BrowserActivity::Action, Some(action)) if !may_repeat(action) => v1::Effect::AtMostOnce,
        _ => v1::Effect::AtLeastOnce,
    }
}

fn may_repeat(action: &v1::Action) -> bool {
    let critical = action.criticality == Some(v1::Criticality::Critical as i32);
    !critical
        && action
            .repeatable
            .unwrap_or_else(|| limits::kind_traits(action.kind()).is_some_and(|traits| traits.repeatable))
}

/// Opening may have to wait for a browser that is in use. An action's own limits are the executor's; these are for a host
/// that does not come back.
fn timeouts_of(
    activity: v1::BrowserActivity,
    action: Option<&v1::Action>,
    script: &ScriptState,
) -> v1::TimeoutPolicy {
    let timeout_ms = match activity {
        v1::BrowserActivity::Open => OPEN_TIMEOUT_MS,
        _ => {
            let policy = script.policy();
            let own = action.and_then(|action| action.timeout_ms).unwrap_or_default();
            let longest = own
                .max(policy.action_timeout_ms.unwrap_or(milliseconds(limits::ACTION_TIMEOUT)))
                .max(policy.navigation_timeout_ms.unwrap_or(milliseconds(limits::NAVIGATION_TIMEOUT)));
            longest.saturating_mul(3).saturating_add(HOST_SLACK_MS)
        }
    };
    v1::TimeoutPolicy { timeout_ms: Some(timeout_ms), grace_ms: Some(5_000), schedule_to_start_ms: None }
}

fn retries_of(script: &ScriptState, action: Option<&v1::Action>) -> v1::RetryPolicy {
    let backoff = script.policy().backoff.unwrap_or_default();
    let limit = action.map_or(0, |action| script.retry_limit(action)).saturating_sub(script.retries);
    v1::RetryPolicy {
        max_attempts: Some(limit.saturating_add(1)),
        base_delay_ms: Some(backoff.base_delay_ms.unwrap_or(milliseconds(limits::BACKOFF_BASE))),
        backoff_multiplier: Some(backoff.multiplier.unwrap_or(limits::BACKOFF_MULTIPLIER)),
        max_delay_ms: Some(backoff.max_delay_ms.unwrap_or(milliseconds(limits::BACKOFF_LONGEST))),
        ..v1::RetryPolicy::default()
    }
}

impl ScriptState {
    fn retry_limit(&self, action: &v1::Action) -> u32 {
        let own = action.retry.as_ref().and_then(|retry| retry.limit);
        own.or(self.policy().retry_limit).unwrap_or(limits::RETRY_LIMIT)
    }

    fn is_retried(&self, action: &v1::Action, code: &str) -> bool {
        match &action.retry {
            Some(retry) if !retry.on.is_empty() => retry.on.iter().any(|listed| listed == code),
            _ => self.policy().retry_on.iter().any(|listed| listed == code),
        }
    }

    /// The action with variables and outputs in their places. What has no value stays as it is: the executor refuses it,
    /// with the state of the page as evidence.
    fn filled_in(&self, action: &v1::Action) -> v1::Action {
        let read = |(name, text): (&String, &String)| Some((name.clone(), serde_json::from_str(text).ok()?));
        let outputs = self.outputs.iter().filter_map(read).collect();
        script::substitute(action, &self.script.variables, &outputs).unwrap_or_else(|_| action.clone())
    }

    fn recovery_rule(&self, code: &str) -> Option<v1::Recovery> {
        self.policy().recovery.into_iter().find(|rule| rule.on.iter().any(|listed| listed == code))
    }

    /// What is done before the action is tried again, as an action.
    fn recovery_for(&self, step: u32) -> Option<v1::Action> {
        let rule = self.recovery_rule(&self.recovering_from)?;
        let kind = match rule.r#do() {
            v1::RecoveryKind::Reload => v1::ActionKind::Reload,
            v1::RecoveryKind::Back => v1::ActionKind::Back,
            _ => v1::ActionKind::Click,
        };
        Some(v1::Action {
            id: self.action(step)?.id.clone(),
            kind: kind as i32,
            target: rule.target,
            rationale: Some(format!("recovery from {}", self.recovering_from)),
            criticality: Some(v1::Criticality::Normal as i32),
            repeatable: Some(true),
            ..v1::Action::default()
        })
    }
}

/// The browser's host says what became of an activity.
pub(super) fn reported(
    turn: &mut Turn<'_>,
    task: TaskRef,
    output: &v1::Payload,
    lease: u64,
) -> Result<(), Refusal> {
    let Some(work) = turn.state.script.as_ref().and_then(|script| script.activities.last()).cloned() else {
        return Err(Refusal::Outdated);
    };
    let outcome = match &output.data {
        Some(v1::payload::Data::Inline(bytes)) => v1::BrowserOutcome::decode(bytes.clone()).ok(),
        _ => None,
    };
    let Some(mut outcome) = outcome else {
        let error = codes::error(codes::INVALID_OUTPUT, "the browser's host gave no outcome".to_owned());
        return settle::fail(turn, task, ResultStatus::Error, error, Some(lease));
    };
    let activity = v1::BrowserActivity::try_from(work.activity).unwrap_or_default();
    let action_id = outcome_action_id(turn, &work);
    for record in std::mem::take(&mut outcome.stages) {
        turn.emit(Body::StageFinished(v1::StageFinished {
            step_index: work.step,
            action_id: action_id.clone(),
            record: Some(record),
        }));
    }
    match outcome.error.take() {
        // Nothing was performed, so nothing can have succeeded.
        None if work.decided => {
            let message = "the browser's host gave no error for what has failed".to_owned();
            let error = codes::error(codes::INVALID_OUTPUT, message);
            settle::fail(turn, task, ResultStatus::Error, error, Some(lease))
        }
        Some(error) => failed(turn, task, activity, &work, error, outcome, lease),
        None => {
            succeeded(turn, activity, &work, action_id, outcome);
            settle::complete(turn, task, None, Some(lease))
        }
    }
}

/// The blobs that an outcome names: its evidence, and what was downloaded. None where it is no outcome.
#[must_use]
pub fn evidence_blobs(output: &v1::Payload) -> Vec<v1::BlobRef> {
    let Some(v1::payload::Data::Inline(bytes)) = &output.data else { return Vec::new() };
    let Ok(outcome) = v1::BrowserOutcome::decode(bytes.clone()) else { return Vec::new() };
    let of_error = outcome.error.into_iter().flat_map(|error| error.evidence_refs);
    let evidence = outcome.evidence.into_iter().chain(of_error);
    let downloads = outcome.changes.into_iter().flat_map(|changes| changes.downloads);
    let downloads = downloads.filter_map(|download| download.blob);
    evidence.map(|piece| v1::BlobRef { blake3: piece.id, size: piece.bytes }).chain(downloads).collect()
}

fn outcome_action_id(turn: &Turn<'_>, work: &BrowserWork) -> String {
    let script = turn.state.script.as_ref();
    script.and_then(|script| script.action(work.step)).map(|action| action.id.clone()).unwrap_or_default()
}

fn succeeded(
    turn: &mut Turn<'_>,
    activity: v1::BrowserActivity,
    work: &BrowserWork,
    action_id: String,
    outcome: v1::BrowserOutcome,
) {
    match activity {
        v1::BrowserActivity::Open => {
            turn.emit(Body::BrowserOpened(v1::BrowserOpened { browser: outcome.browser }));
        }
        v1::BrowserActivity::Close => turn.emit(Body::BrowserClosed(v1::BrowserClosed {})),
        _ => turn.emit(Body::ActionFinished(v1::ActionFinished {
            step_index: work.step,
            action_id,
            activity: activity as i32,
            state_before: outcome.state_before,
            state_after: outcome.state_after,
            evidence: outcome.evidence,
            resolution: outcome.resolution,
            changes: outcome.changes,
            output: outcome.output,
        })),
    }
}

/// Another attempt, a recovery, the next action, or the end (CONTRACTS §3, policies)?
fn failed(
    turn: &mut Turn<'_>,
    task: TaskRef,
    activity: v1::BrowserActivity,
    work: &BrowserWork,
    mut error: v1::ExecutorError,
    outcome: v1::BrowserOutcome,
    lease: u64,
) -> Result<(), Refusal> {
    use v1::AfterFailure::{Continue, Halt, Recover, Retry};
    let Some(script) = &turn.state.script else { return Err(Refusal::Outdated) };
    let declared = script.action(work.step).cloned().unwrap_or_default();
    let is_action = activity == v1::BrowserActivity::Action;
    if matches!(activity, v1::BrowserActivity::Open | v1::BrowserActivity::Close) {
        let id = task_name(activity, None);
        script_failure::name_activity(&mut error, activity, id, script.script.actions.len());
    }
    let code = error.error_code.clone();
    // A script does not outlive its browser, nor what the engine has decided.
    let lost = code == limits::code::BROWSER_LOST || work.decided;
    // What was sent to the page is sent again only where that does no harm.
    let again = is_action && !lost && (!outcome.touched || may_repeat(&declared));
    let recovers = again && script.recovery_rule(&code).is_some();
    let retries = again && !recovers && script.is_retried(&declared, &code);
    let recovery_limit = script.policy().recovery_limit.unwrap_or(limits::RECOVERY_LIMIT);
    let retry_limit = script.retry_limit(&declared);
    let goes_on = script.script.interactive || declared.on_failure == Some(v1::OnFailure::Continue as i32);
    let passes = is_action && !lost && goes_on;
    let (next, exceeded) = if activity == v1::BrowserActivity::Recovery && !lost {
        // A recovery that failed is no verdict on the action: that is tried again, and fails with its own error.
        (Retry, None)
    } else if recovers && script.recoveries < recovery_limit {
        (Recover, None)
    } else if retries && script.retries < retry_limit {
        (Retry, None)
    } else {
        let exceeded = match (recovers && recovery_limit > 0, retries && retry_limit > 0) {
            (true, _) => Some(("recovery_limit", script.recoveries)),
            (_, true) => Some(("retry_limit", script.retries)),
            _ => None,
        };
        (if passes { Continue } else { Halt }, exceeded)
    };
    error.retryable = Some(next == Retry && is_action);
    let halt =
        exceeded.map(|(reason, observed)| script_failure::halt_after(turn, script, reason, observed, &error));
    let message = settled_error(&error);
    fail(turn, error, next, activity, Some(outcome));
    if let Some(halt) = halt {
        fail(turn, halt, next, activity, None);
    }
    if next == Retry && is_action {
        return report::attempt_failed_as(turn, task, message, Some(lease), None, Some(true));
    }
    let ending = Ending {
        state: TaskState::Failed,
        status: ResultStatus::Error,
        output: None,
        severity: Severity::from_proto(message.severity),
        error: Some(message),
        lease: Some(lease),
    };
    settle::settle_without_advance(turn, task, ending)?;
    advance::advance(turn)
}

/// Records a failure under the number of its own event.
fn fail(
    turn: &mut Turn<'_>,
    mut error: v1::ExecutorError,
    next: v1::AfterFailure,
    activity: v1::BrowserActivity,
    outcome: Option<v1::BrowserOutcome>,
) {
    error.seq = turn.next_seq();
    let (resolution, changes) =
        outcome.map(|outcome| (outcome.resolution, outcome.changes)).unwrap_or_default();
    turn.emit(Body::ActionFailed(v1::ActionFailed {
        error: Some(error),
        next: next as i32,
        activity: activity as i32,
        resolution,
        changes,
    }));
}

/// The same failure in the words of every task.
fn settled_error(error: &v1::ExecutorError) -> v1::Error {
    let severity = limits::severity(error.severity()).unwrap_or(Severity::High);
    v1::Error {
        code: error.error_code.clone(),
        message: error.message.clone(),
        severity: severity.to_proto() as i32,
        can_continue: Some(severity.flags().can_continue),
        ..v1::Error::default()
    }
}

fn finish(turn: &mut Turn<'_>) {
    let Some(script) = &turn.state.script else { return };
    let recorded = script.error.as_ref().map(settled_error);
    let failures = script.failed;
    let last = turn.state.last_end().filter(|end| end.status != ResultStatus::Success);
    let error = recorded.or_else(|| last.and_then(|end| end.error.clone()));
    let outcome = match (&error, failures) {
        (Some(_), _) => v1::RunOutcome::Failed,
        (None, 0) => v1::RunOutcome::Succeeded,
        (None, _) => v1::RunOutcome::SucceededWithFailures,
    };
    advance::finish(turn, outcome, error);
}

/// Nothing of a script is run again by a person: an action that has ended is history.
pub(super) fn refuse_retry(name: &str) -> Refusal {
    let mut error = lifecycle::refused(TaskState::Failed, TaskState::Active);
    error.message =
        format!("{name:?} belongs to a script: start the script again, or propose the action again");
    error.suggested_action = None;
    error.options = vec!["abort".to_owned()];
    Refusal::Rule(Box::new(error))
}
