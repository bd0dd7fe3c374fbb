//! The ask machine: its turn has come, a spec was found, a spec has answered; what comes next?

use capataz_contracts::spec as contract;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::{codes, retry, transition};

use super::turn::Turn;
use super::{Refusal, advance, report, settle};
use crate::ask::{self, AskStep};
use crate::effect::Effect;
use crate::input::{Routed, RoutedSpec, TaskRef};
use crate::plan::Plan;

/// How long a call waits for a worker of its agent, where none is there. Milliseconds.
const UNAVAILABLE_AFTER_MS: i64 = 5_000;

/// It is this ask's turn in its session.
pub(super) fn begin(turn: &mut Turn<'_>, context: v1::SessionContext) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    match turn.state.ask_step() {
        Some(AskStep::AwaitTurn { .. }) => {}
        _ => return Err(Refusal::Outdated),
    }
    turn.emit(Body::AskBegun(v1::AskBegun { context: Some(context) }));
    advance::advance(turn)
}

/// The router has found the spec that was asked for, or not.
pub(super) fn routed(turn: &mut Turn<'_>, routed: Routed) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let Some(AskStep::Route { reason, .. }) = turn.state.ask_step() else { return Err(Refusal::Outdated) };
    if reason == v1::CallReason::Transition {
        let Some(mut considered) = turn.state.automatic_transition() else { return Err(Refusal::Outdated) };
        let tried = turn
            .state
            .ask
            .as_ref()
            .is_some_and(|ask| ask.calls.iter().any(|call| call.spec == considered.to));
        if routed.target.is_err() || tried {
            considered.verdict = v1::TransitionVerdict::Ignored as i32;
            considered.note = match &routed.target {
                Err(error) => error.message.clone(),
                Ok(_) => "that spec was called for this text before".to_owned(),
            };
            turn.emit(Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(considered) }));
            return advance::advance(turn);
        }
        considered.verdict = v1::TransitionVerdict::Taken as i32;
        turn.emit(Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(considered) }));
    }
    let reason = if routed.rerouted { v1::CallReason::Routed } else { reason };
    call(turn, routed, reason)
}

/// Calls a spec: a wave of one task, whose input is the SpecRequest.
fn call(turn: &mut Turn<'_>, routed: Routed, reason: v1::CallReason) -> Result<(), Refusal> {
    let Some(ask) = &turn.state.ask else { return Err(Refusal::Outdated) };
    let number = u32::try_from(ask.calls.len()).unwrap_or(u32::MAX);
    let (agent, routing, absent, failure) = match routed.target {
        Ok(RoutedSpec { agent, routing, absent, unavailable }) => {
            (agent, Some(*routing), absent, unavailable)
        }
        Err(error) => (String::new(), None, true, Some(error)),
    };
    let input = routing.as_ref().map(|routing| v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(turn.state.spec_request(routing, turn.now.0).into())),
    });
    let spec = routing.as_ref().map_or(routed.spec, |routing| routing.spec.clone());
    let mut wave = v1::Wave {
        name: Some(format!("call-{}", number + 1)),
        tasks: vec![v1::Task { name: spec.clone(), agent, input, ..v1::Task::default() }],
        policy: None,
    };
    Plan::materialise_wave(&mut wave, absent);
    turn.emit(Body::AskRouted(v1::AskRouted {
        call: number,
        reason: reason as i32,
        spec,
        routing,
        wave: Some(wave),
        default_spec: routed.default_spec.unwrap_or_default(),
    }));
    let task = TaskRef { wave: number, task: 0 };
    if let Some(error) = failure {
        return settle::fail(turn, task, ResultStatus::Error, error, None);
    }
    if turn.state.may_lease() {
        turn.effect(Effect::Enqueue { task });
    }
    Ok(())
}

/// The policies of every call. A spec that did not answer in time is not waited for any longer.
pub(crate) fn call_policies(absent: bool) -> (v1::TimeoutPolicy, v1::RetryPolicy) {
    let wait = if absent { UNAVAILABLE_AFTER_MS } else { transition::ANSWER_WITHIN_MS };
    let timeouts = v1::TimeoutPolicy {
        grace_ms: Some(0),
        schedule_to_start_ms: Some(wait),
        ..v1::TimeoutPolicy::default()
    };
    let retry = v1::RetryPolicy {
        max_attempts: Some(transition::MAX_ATTEMPTS),
        timeout_per_attempt_ms: Some(transition::ANSWER_WITHIN_MS),
        ..v1::RetryPolicy::default()
    };
    (timeouts, retry)
}

/// An agent says that the call is done: is its answer a valid one, and what does it say?
pub(super) fn answered(
    turn: &mut Turn<'_>,
    task: TaskRef,
    output: v1::Payload,
    lease: u64,
) -> Result<(), Refusal> {
    let Some(ask) = &turn.state.ask else { return Err(Refusal::Outdated) };
    let spec = ask.calls.last().map(|call| call.spec.clone()).unwrap_or_default();
    let response = match read_response(&output, &spec, ask.request_id()) {
        Ok(response) => response,
        Err(message) => {
            let error = codes::error(codes::FATAL_ERROR, message);
            return report::attempt_failed_as(turn, task, error, Some(lease), None, Some(false));
        }
    };
    let Some(failure) = response.error else {
        return settle::complete(turn, task, Some(output), Some(lease));
    };
    let recoverable = transition::is_retried(&failure.code, failure.recoverable);
    let error = v1::Error { code: failure.code, message: failure.message, ..v1::Error::default() };
    report::attempt_failed_as(turn, task, error, Some(lease), Some(output), Some(recoverable))
}

/// The agent says that it has failed, or what it said was refused at the door.
pub(super) fn failed(
    turn: &mut Turn<'_>,
    task: TaskRef,
    error: v1::Error,
    lease: u64,
) -> Result<(), Refusal> {
    if !matches!(error.code.as_str(), codes::INVALID_OUTPUT | codes::OUTPUT_TOO_LARGE) {
        return report::attempt_failed(turn, task, error, Some(lease));
    }
    // An answer that cannot even be stored breaks the contract as one does that can be read.
    let spec = turn.state.ask.as_ref().and_then(|ask| ask.calls.last()).map_or("", |call| call.spec.as_str());
    let message = format!("the answer of {spec:?} breaks the contract: {}", error.message);
    let error = codes::error(codes::FATAL_ERROR, message);
    report::attempt_failed_as(turn, task, error, Some(lease), None, Some(false))
}

struct Response {
    error: Option<SpecFailure>,
}

struct SpecFailure {
    code: String,
    message: String,
    recoverable: bool,
}

/// Why an answer is none, in words; every violation of the contract is named.
fn read_response(output: &v1::Payload, spec: &str, request_id: &str) -> Result<Response, String> {
    let Some(v1::payload::Data::Inline(bytes)) = &output.data else {
        return Err(format!("the answer of {spec:?} is too large: at most {} bytes", ask::MAX_REQUEST));
    };
    let asked = v1::SpecRequest {
        id: Some(request_id.to_owned()),
        spec: Some(spec.to_owned()),
        ..v1::SpecRequest::default()
    };
    let response = contract::parse_response(bytes)
        .and_then(|response| contract::answers(&response, &asked).map(|()| response))
        .map_err(|violations| {
            let said: Vec<String> = violations.iter().map(ToString::to_string).collect();
            format!("the answer of {spec:?} breaks the contract: {}", said.join("; "))
        })?;
    let error = response.error.map(|error| SpecFailure {
        code: error.code.unwrap_or_default(),
        message: error.message.unwrap_or_default(),
        recoverable: error.recoverable.unwrap_or_default(),
    });
    Ok(Response { error })
}

/// No worker took the call in time: none was there, or all of them were busy.
pub(super) fn not_taken(turn: &Turn<'_>, task: TaskRef) -> v1::Error {
    let agent = turn.declared(task).map(|declared| declared.agent.as_str()).unwrap_or_default();
    let waited = turn.state.plan.timeouts_of(task).schedule_to_start().unwrap_or_default().as_millis();
    if waited == UNAVAILABLE_AFTER_MS.unsigned_abs().into() {
        let message = format!("no worker that serves {agent:?} came within {waited} ms");
        codes::error(codes::SPEC_NOT_AVAILABLE, message)
    } else {
        let message = format!("the workers that serve {agent:?} were busy for {waited} ms");
        codes::error(codes::PROCESSING_TIMEOUT, message)
    }
}

/// The spec did not answer in time.
pub(super) fn too_late() -> v1::Error {
    let seconds = transition::ANSWER_WITHIN_MS / 1000;
    codes::error(codes::PROCESSING_TIMEOUT, format!("no answer within {seconds} s"))
}

/// Goes on by one step; whether another one may follow.
pub(super) fn step(turn: &mut Turn<'_>) -> Result<bool, Refusal> {
    match turn.state.ask_step() {
        Some(AskStep::Route { spec, reason }) => turn.effect(Effect::Route { spec, reason }),
        Some(AskStep::Finish { transition }) => finish(turn, transition),
        Some(AskStep::AwaitTurn { .. } | AskStep::Wait) | None => {}
    }
    Ok(false)
}

fn finish(turn: &mut Turn<'_>, considered: Option<v1::AskTransition>) {
    if let Some(transition) = considered {
        turn.emit(Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(transition) }));
    }
    let end = turn.state.last_end();
    let error = end.and_then(|end| end.error.as_ref()).map(|error| retry::original(error).clone());
    let outcome = if error.is_some() { v1::RunOutcome::Failed } else { v1::RunOutcome::Succeeded };
    advance::finish(turn, outcome, error);
}
