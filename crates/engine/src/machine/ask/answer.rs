//! The answers that an ask gets: to its query, a spec; to its call, a SpecResponse, a failure, or none in time.

use capataz_contracts::spec as contract;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes::{self, Code};
use capataz_policy::retry;
use capataz_policy::transition;

use super::request::spec_request;
use super::state::AskState;
use super::transition::{self as transitions, Considered};
use super::{considered, document_of, excerpt_of, last_end};
use crate::decide::Refusal;
use crate::fold::activity::End;
use crate::fold::state::{Moment, RunState};
use crate::input::{Routed, RoutedSpec, TaskRef};
use crate::machine::{Meaning, Step, Verdict};
use crate::plan::Plan;

/// The time that a call waits for a worker of its agent if none is connected. Milliseconds.
const UNAVAILABLE_AFTER_MS: i64 = 5_000;

/// The router has found the spec that was asked for, or not.
pub(super) fn routed(
    ask: &AskState,
    run: &RunState,
    routed: Routed,
    reason: v1::CallReason,
    now: Moment,
) -> Result<Vec<Step>, Refusal> {
    let mut steps = Vec::new();
    if reason == v1::CallReason::Transition {
        let end = last_end(run).ok_or(Refusal::Outdated)?;
        let Considered::Proposed { transition, acts } = transitions::after_answer(ask, end) else {
            return Err(Refusal::Outdated);
        };
        let target = routed.target.as_ref().map(|_| ());
        let transition = transitions::decided(ask, transition, acts, target);
        let is_taken = transition.verdict() == v1::TransitionVerdict::Taken;
        steps.push(considered(transition));
        if !is_taken {
            return Ok(steps);
        }
    }
    let reason = if routed.rerouted { v1::CallReason::Routed } else { reason };
    steps.extend(call(ask, run, routed, reason, now));
    Ok(steps)
}

/// Calls a spec: a wave of one task, whose input is the SpecRequest.
fn call(
    ask: &AskState,
    run: &RunState,
    routed: Routed,
    reason: v1::CallReason,
    now: Moment,
) -> impl Iterator<Item = Step> {
    let number = u32::try_from(ask.calls.len()).unwrap_or(u32::MAX);
    let (agent, routing, absent, failure) = match routed.target {
        Ok(RoutedSpec { agent, routing, absent, unavailable }) => {
            (agent, Some(*routing), absent, unavailable)
        }
        Err(error) => (String::new(), None, true, Some(error)),
    };
    let request = routing.as_ref().map(|routing| spec_request(ask, run, routing, now.wall.0));
    let failure = request.as_deref().and_then(invalid_request).or(failure);
    let input = request.map(|request| v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(request.into())),
    });
    let spec = routing.as_ref().map_or(routed.spec, |routing| routing.spec.clone());
    let (timeouts, retry) = call_policies(absent);
    let task = v1::Task {
        name: spec.clone(),
        agent,
        input,
        effect: Some(v1::Effect::AtLeastOnce.into()),
        timeouts: Some(timeouts),
        retry: Some(retry),
        ..v1::Task::default()
    };
    let mut wave = v1::Wave { name: Some(format!("call-{}", number + 1)), tasks: vec![task], policy: None };
    Plan::fill_policies(&mut wave);
    let begin = Step::Begin(Body::AskRouted(v1::AskRouted {
        call: number,
        reason: reason.into(),
        spec,
        routing,
        wave: Some(wave),
        default_spec: routed.default_spec.unwrap_or_default(),
    }));
    [begin].into_iter().chain(failure.map(Step::FailBegun))
}

/// Why a request is not sent: it breaks the contract, and no spec is to find that out. All violations are listed.
fn invalid_request(request: &[u8]) -> Option<v1::Error> {
    let violations = contract::parse_request(request).err()?;
    let message = format!("the request breaks the contract in {} places and was not sent", violations.len());
    let of = |violation: &capataz_contracts::Violation| {
        codes::error(codes::INVALID_REQUEST, violation.to_string())
    };
    let details = violations.iter().map(of).collect();
    Some(v1::Error { details, ..codes::error(codes::INVALID_REQUEST, message) })
}

/// The policies of every call. A spec that did not answer in time is not waited for any longer. `absent`: nobody serves
/// its agent now.
fn call_policies(absent: bool) -> (v1::TimeoutPolicy, v1::RetryPolicy) {
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

/// The meaning of an answer: whether it is valid, and what follows from it.
pub(super) fn completed(ask: &AskState, output: v1::Payload) -> Verdict {
    let spec = ask.calls.last().map(|call| call.spec.as_str()).unwrap_or_default();
    let response = match read_response(&output, spec, ask.request_id()) {
        Ok(response) => response,
        Err(message) => return breaks_the_contract(message, Some(output)),
    };
    let Some(failure) = response.error else { return Verdict::done(Some(output)) };
    let error = v1::Error { code: failure.code, message: failure.message, ..v1::Error::default() };
    attempt_failed(error, Some(output), Some(failure.recoverable))
}

/// The meaning of a failure that the agent reports, or of an answer that was refused before it reached the engine.
pub(super) fn failed(ask: &AskState, error: v1::Error) -> Verdict {
    let is_none =
        |code| matches!(code, codes::INVALID_OUTPUT | codes::OUTPUT_TOO_LARGE | codes::BLOB_NOT_FOUND);
    if !Code::named(&error.code).is_some_and(is_none) {
        let may_pass = retry::passes_for_a_spec(&error.code).then_some(true);
        return attempt_failed(error, None, may_pass);
    }
    // An answer that is too large to be stored, or is not there, breaks the contract, as an invalid one does.
    let spec = ask.calls.last().map_or("", |call| call.spec.as_str());
    breaks_the_contract(format!("{} {}", refusal_of(spec), error.message), None)
}

/// The answer is recorded, and counts for nothing.
fn breaks_the_contract(message: String, output: Option<v1::Payload>) -> Verdict {
    attempt_failed(codes::error(codes::FATAL_ERROR, message), output, Some(false))
}

/// How the message about an answer that breaks the contract begins.
fn refusal_of(spec: &str) -> String {
    format!("the answer of {spec:?} breaks the contract:")
}

/// Whether the answer of a failed call keeps the contract: it is a failure, and the one that the call has failed with.
pub(super) fn is_valid(answer: &[u8], end: &End) -> bool {
    let failed = end.error.as_ref().map(retry::original);
    let Ok(response) = contract::parse_response(answer) else { return false };
    let said = response.error.as_ref();
    failed.zip(said).is_some_and(|(failed, said)| {
        said.code.as_deref() == Some(&failed.code) && said.message.as_deref() == Some(&failed.message)
    })
}

fn attempt_failed(error: v1::Error, output: Option<v1::Payload>, may_pass: Option<bool>) -> Verdict {
    Verdict { record: Vec::new(), meaning: Meaning::AttemptFailed { error, output, may_pass } }
}

struct Response {
    error: Option<SpecFailure>,
}

struct SpecFailure {
    code: String,
    message: String,
    recoverable: bool,
}

/// Why an answer cannot be used, in words; every violation of the contract is named.
fn read_response(output: &v1::Payload, spec: &str, request_id: &str) -> Result<Response, String> {
    let Some(bytes) = document_of(output) else {
        let why = excerpt_of(output).map_or("nobody has read it", |excerpt| excerpt.broken.as_str());
        return Err(format!("{} {why}", refusal_of(spec)));
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
            format!("{} {}", refusal_of(spec), said.join("; "))
        })?;
    let error = response.error.map(|error| SpecFailure {
        code: error.code.unwrap_or_default(),
        message: error.message.unwrap_or_default(),
        recoverable: error.recoverable.unwrap_or_default(),
    });
    Ok(Response { error })
}

/// No worker took the call in time: none was there, or all of them were busy.
pub(super) fn not_taken(run: &RunState, task: TaskRef) -> v1::Error {
    let agent = run.plan.task(task).map(|declared| declared.agent.as_str()).unwrap_or_default();
    let waited = run.plan.timeouts_of(task).schedule_to_start().unwrap_or_default().as_millis();
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
