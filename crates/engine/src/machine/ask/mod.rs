//! An ask: a text that is routed to a spec (seed 001). Each call of a spec is a wave of one task, whose retries,
//! deadlines and leases are those of every task; which spec is called is the answer to a query.

mod answer;
mod context;
mod failure;
mod request;
pub(crate) mod state;
mod transition;
mod turn;

use std::collections::BTreeSet;

use capataz_contracts::v1::{self, event::Body, run_result};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::retry;
use capataz_policy::transition as rules;
use serde_json::Value;

use super::{Command, Kind, Step, Verdict};
use crate::decide::{Refusal, not_a_session};
use crate::fold::activity::End;
use crate::fold::state::{Moment, RunState};
use crate::input::{QueryAnswer, TaskRef};
use crate::query::{Query, QueryId};
use state::AskState;
use transition::Considered;

/// What an ask does next.
enum Next {
    /// The ask waits for its turn in its session.
    AwaitTurn,
    /// A spec is to be found and called: the named one, or the one that the router chooses.
    Route { spec: Option<String>, reason: v1::CallReason },
    /// A spec works on it.
    Wait,
    /// What becomes of the transition in the last answer is recorded.
    Tell(v1::AskTransition),
    /// The ask is over.
    Finish,
}

impl AskState {
    fn request_id(&self) -> &str {
        self.ask.request_id.as_deref().unwrap_or_default()
    }

    /// The number of the next query. Between two calls, one may be about the transition in the answer of the first, and one
    /// after the decision about it.
    fn query_id(&self) -> QueryId {
        QueryId(2 * self.calls.len() as u64 + u64::from(self.considered.is_some()))
    }

    fn what_next(&self, run: &RunState) -> Next {
        if !self.begun {
            return Next::AwaitTurn;
        }
        let Some(wave) = run.waves.last() else { return self.first_call() };
        let Some(end) = wave.tasks.first().and_then(|activity| activity.end.as_ref()) else {
            return Next::Wait;
        };
        // A transition in a failed answer counts like any other: so a spec says that it cannot handle the request.
        if self.considered.is_none() {
            match transition::after_answer(self, end) {
                Considered::Nothing => {}
                Considered::Told(transition) => return Next::Tell(transition),
                Considered::Proposed { transition, .. } => {
                    return Next::Route { spec: Some(transition.to), reason: v1::CallReason::Transition };
                }
            }
        }
        let next = match end.status {
            ResultStatus::Success => Next::Finish,
            ResultStatus::Error | ResultStatus::Timeout | ResultStatus::Cancelled => self.after_failure(end),
        };
        match transition::of_the_router(self, end).filter(|_| matches!(next, Next::Finish)) {
            Some(transition) => Next::Tell(transition),
            None => next,
        }
    }

    /// An explicit choice takes precedence over the session's spec, and the session's spec over the router's choice.
    fn first_call(&self) -> Next {
        use v1::CallReason::{Continued, Explicit, Routed};
        let (spec, reason) = match (&self.ask.spec, &self.context.current_spec) {
            (Some(spec), _) => (Some(spec.clone()), Explicit),
            (None, Some(spec)) => (Some(spec.clone()), Continued),
            (None, None) => (None, Routed),
        };
        Next::Route { spec, reason }
    }

    /// A failed call: another spec, or the user.
    fn after_failure(&self, end: &End) -> Next {
        let code = end.error.as_ref().map_or("", |error| retry::original(error).code.as_str());
        let declared = response_of(end)
            .and_then(|response| response.pointer("/error/fallback_spec")?.as_str().map(str::to_owned));
        let tried: BTreeSet<&str> = self.calls.iter().map(|call| call.spec.as_str()).collect();
        let default = self.default_spec.clone().filter(|_| !rules::asks_the_user(code));
        let next = declared.into_iter().chain(default).find(|spec| !tried.contains(spec.as_str()));
        match next {
            Some(spec) => Next::Route { spec: Some(spec), reason: v1::CallReason::Fallback },
            None => Next::Finish,
        }
    }

    /// The suggestion that the user may accept: of several answers' the most visible one, and of those the first. It survives
    /// fallbacks; what was suggested before the text was handed over does not count any more.
    fn suggestion(&self) -> Option<&v1::AskTransition> {
        let handed_over = |told: &v1::AskTransition| told.verdict() == v1::TransitionVerdict::Taken;
        let since = self.transitions.iter().rposition(handed_over).map_or(0, |last| last + 1);
        let suggested = self.transitions.iter().skip(since);
        let suggested = suggested.filter(|told| told.verdict() == v1::TransitionVerdict::Suggested);
        suggested.min_by_key(|told| told.band() != v1::TransitionBand::Prominent)
    }

    /// What became of the transitions in the answers, as the result tells it: the suggestion, else the decision about the
    /// last answer's.
    fn told(&self) -> Option<&v1::AskTransition> {
        self.suggestion().or(self.considered.as_ref())
    }

    /// What the session had no room for; nothing where the ask adds nothing to a session.
    fn left_out(&self, run: &RunState) -> Option<v1::LeftOut> {
        let adds = self.ask.session.is_some() && run.outcome() != Some(v1::RunOutcome::Cancelled);
        if !adds || self.calls.is_empty() {
            return None;
        }
        request::keeper(self, run).into_news().1
    }
}

fn considered(transition: v1::AskTransition) -> Step {
    Step::Record(Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(transition) }))
}

/// How the last call ended.
fn last_end(run: &RunState) -> Option<&End> {
    run.waves.last()?.tasks.first()?.end.as_ref()
}

/// What is gone by of an answer that is a blob.
fn excerpt_of(output: &v1::Payload) -> Option<&v1::AnswerExcerpt> {
    match output.data.as_ref()? {
        v1::payload::Data::Blob(blob) => blob.answer.as_deref(),
        v1::payload::Data::Inline(_) => None,
    }
}

/// The SpecResponse of an answer: as it was written, or what is gone by of it.
fn document_of(output: &v1::Payload) -> Option<&[u8]> {
    match output.data.as_ref()? {
        v1::payload::Data::Inline(bytes) => Some(bytes),
        v1::payload::Data::Blob(_) => {
            let excerpt = excerpt_of(output).filter(|excerpt| excerpt.broken.is_empty())?;
            Some(excerpt.response.as_bytes())
        }
    }
}

/// The response with which a call has ended. That of a success was validated on arrival. What a failed call has given back may
/// break the contract: then it is kept for whoever looks for the mistake, and says nothing here.
fn response_of(end: &End) -> Option<Value> {
    let bytes = document_of(end.output.as_ref()?)?;
    if end.error.is_some() && !answer::is_valid(bytes, end) {
        return None;
    }
    serde_json::from_slice(bytes).ok()
}

impl Kind for AskState {
    fn run_kind(&self) -> v1::RunKind {
        v1::RunKind::Ask
    }

    fn next(&self, run: &RunState, _now: Moment) -> Vec<Step> {
        match self.what_next(run) {
            Next::AwaitTurn | Next::Wait => vec![Step::Wait],
            Next::Route { spec, reason } => {
                vec![Step::Query(self.query_id(), Query::Route { spec, reason })]
            }
            Next::Tell(transition) => vec![considered(transition)],
            Next::Finish => {
                let error = last_end(run).and_then(|end| end.error.as_ref());
                let error = error.map(|error| retry::original(error).clone());
                let outcome =
                    if error.is_some() { v1::RunOutcome::Failed } else { v1::RunOutcome::Succeeded };
                vec![Step::Finish { outcome, error }]
            }
        }
    }

    fn completed(&self, _: &RunState, _: TaskRef, output: v1::Payload, _: Moment) -> Verdict {
        answer::completed(self, output)
    }

    fn failed(&self, _: &RunState, _: TaskRef, error: v1::Error) -> Verdict {
        answer::failed(self, error)
    }

    fn attempt_too_late(&self, _: &RunState, _: TaskRef) -> v1::Error {
        answer::too_late()
    }

    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error) {
        (ResultStatus::Error, answer::not_taken(run, task))
    }

    fn declares_tasks(&self) -> bool {
        false
    }

    /// An ask does not wait for long: another spec may answer.
    fn limits_hold(&self) -> bool {
        false
    }

    /// A spec's words do not decide about the run, for another spec may answer.
    fn aborts_when_critical(&self) -> bool {
        false
    }

    fn asks_when_high(&self) -> bool {
        false
    }

    fn asks_at_deadline(&self) -> bool {
        false
    }

    fn outcome_may_be_given(&self) -> bool {
        false
    }

    fn may_run_again(&self, run: &RunState, task: TaskRef, name: &str) -> Result<(), Refusal> {
        let activity = run.activity(task).filter(|activity| !activity.was_active());
        let error = activity.and_then(|activity| activity.end.as_ref()?.error.as_ref());
        if error.is_none_or(|error| error.code != codes::INVALID_REQUEST) {
            return Ok(());
        }
        let mut error = lifecycle::refused(TaskState::Failed, TaskState::Active);
        error.message = format!("the request to {name:?} breaks the contract, and is not sent: ask again");
        error.suggested_action = None;
        error.options = vec!["abort".to_owned()];
        Err(Refusal::Rule(Box::new(error)))
    }

    fn open_query(&self, run: &RunState) -> Option<(QueryId, Query)> {
        match self.what_next(run) {
            Next::Route { spec, reason } => Some((self.query_id(), Query::Route { spec, reason })),
            Next::AwaitTurn | Next::Wait | Next::Tell(_) | Next::Finish => None,
        }
    }

    fn answered(&self, run: &RunState, answer: QueryAnswer, now: Moment) -> Result<Vec<Step>, Refusal> {
        let QueryAnswer::Routed(routed) = answer else { return Err(Refusal::Outdated) };
        let Next::Route { spec, reason } = self.what_next(run) else { return Err(Refusal::Outdated) };
        // What was asked before a commit was lost may have had the same number.
        if !routed.rerouted && spec.is_some_and(|spec| spec != routed.spec) {
            return Err(Refusal::Outdated);
        }
        answer::routed(self, run, routed, reason, now)
    }

    fn digest(&self, _: &RunState, _: &str, _: &Command) -> String {
        String::new()
    }

    fn command(&self, _: &RunState, command: Command, _: String) -> Result<Vec<Step>, Refusal> {
        Err(not_a_session(&command))
    }

    fn overdue(&self) -> Vec<Step> {
        Vec::new()
    }

    fn turn_has_come(&self, _: &RunState, context: v1::SessionContext) -> Result<Vec<Step>, Refusal> {
        if self.begun {
            return Err(Refusal::Outdated);
        }
        Ok(vec![Step::Record(Body::AskBegun(v1::AskBegun { context: Some(context) }))])
    }

    fn session(&self) -> Option<&str> {
        self.ask.session.as_deref()
    }

    fn awaits_turn(&self) -> bool {
        !self.begun
    }

    fn session_turn(&self, run: &RunState, run_id: &str) -> Option<v1::SessionTurn> {
        turn::of(self, run, run_id)
    }

    fn uses_browser(&self) -> bool {
        false
    }

    fn blobs_of(&self, _: &v1::Payload) -> Vec<v1::BlobRef> {
        Vec::new()
    }

    fn result(&self, run: &RunState) -> Option<run_result::Work> {
        let last = self.calls.last();
        let end = last_end(run);
        let calls = self.calls.iter().zip(&run.waves).map(|(call, wave)| {
            let activity = wave.tasks.first();
            let end = activity.and_then(|activity| activity.end.as_ref());
            v1::AskCall {
                spec: call.spec.clone(),
                reason: call.reason.into(),
                attempts: activity.map_or(0, |activity| activity.attempt),
                error: end.and_then(|end| end.error.as_ref()).map(|error| retry::original(error).clone()),
            }
        });
        Some(run_result::Work::Ask(Box::new(v1::AskResult {
            spec: last.map(|call| call.spec.clone()).unwrap_or_default(),
            request_id: self.request_id().to_owned(),
            response: end.and_then(|end| match response_of(end) {
                Some(_) => end.output.clone(),
                None => failure::response(self, run, end),
            }),
            routing: last.and_then(|call| call.routing.clone()),
            transition: self.told().cloned().filter(|_| end.is_some()),
            calls: calls.collect(),
            left_out: self.left_out(run),
        })))
    }
}
