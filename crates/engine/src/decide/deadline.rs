//! A task's time is over: a person may say what becomes of it as long as its grace lasts (seed 000, contract 3).

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::timeout;

use super::lease::milliseconds;
use super::settle::Failure;
use super::turn::Turn;
use super::{Refusal, advance, cancel, extend, question, retry, settle};
use crate::fold::state::{AskedQuestion, RunState};
use crate::input::{Observed, TaskRef};
use crate::planted::{self, Fault};

/// The answers, beside the one that ends the run.
pub(super) const EXTEND: &str = "extend";
pub(super) const TERMINATE: &str = "terminate";
const RETRY: &str = "retry";

/// The work is told to end, and a person is asked what is to become of it.
pub(super) fn exceeded(turn: &mut Turn<'_>, task: TaskRef, observed: Observed) -> Result<(), Refusal> {
    cancel::request_cancel(turn, task, v1::CancelReason::Timeout);
    let grace = turn.state.plan.timeouts_of(task).grace();
    let Some(lease) = turn.state.activity(task).and_then(|activity| activity.lease()) else { return Ok(()) };
    let is_final = lease.cancel_is_final;
    if grace.is_zero() || !turn.state.rules().asks_at_deadline() || turn.state.stop_reason().is_some() {
        return Ok(());
    }
    let Failure { mut error, severity, aborts, .. } =
        Failure::of(turn, task, settle::timeout_error(turn, task, observed)?)?;
    error.severity = severity.to_proto().into();
    error.options = timeout::OPTIONS.iter().map(|option| (*option).to_owned()).collect();
    error.options.retain(|option| match option.as_str() {
        EXTEND => !is_final,
        // Its failure would end the run.
        RETRY => !aborts,
        _ => true,
    });
    question::deadline(turn, task, error);
    Ok(())
}

/// Whether the answer can be carried out, before it is recorded.
///
/// # Errors
/// Why not.
pub(super) fn may(turn: &Turn<'_>, task: TaskRef, answer: &str) -> Result<(), Refusal> {
    match answer {
        EXTEND => extend::may(turn, task),
        // What its wave has decided without it does not begin again.
        RETRY if turn.state.stop_reason().is_some() => {
            let name = &turn.declared(task)?.name;
            Err(Refusal::transition(TaskState::Failed, TaskState::Active, || {
                format!("task {name:?} does not begin again: what comes of its wave is decided")
            }))
        }
        _ => Ok(()),
    }
}

/// Carries out an answer other than the one that ends the run.
pub(super) fn answered(turn: &mut Turn<'_>, task: TaskRef, answer: &str) -> Result<(), Refusal> {
    let request_seq = turn.request_seq();
    match answer {
        EXTEND => extend::by(turn, task, milliseconds(timeout::EXTENSION), String::new())?,
        RETRY => {
            settle::time_out_without_advance(turn, task)?;
            retry::reactivate(turn, task, String::new())?;
            advance::advance(turn)?;
        }
        // It ends within its grace, as it would without an answer; what it has by then is kept.
        TERMINATE => {}
        _ => return Err(Refusal::Outdated),
    }
    turn.set_request_seq(request_seq);
    Ok(())
}

/// The task has ended: what was asked about its deadline is decided.
pub(super) fn over(turn: &mut Turn<'_>, task: TaskRef) {
    if !planted::is(Fault::DeadlineQuestionStays) {
        withdraw(turn, task, cancel::WITHDRAWN);
    }
    if is_terminated(turn.state, task) {
        keep_partial(turn, task);
    }
}

/// What there is of a timed-out task's output is its output.
pub(super) fn keep_partial(turn: &mut Turn<'_>, task: TaskRef) {
    let end = turn.state.activity(task).and_then(|activity| activity.end.as_ref());
    let Some(end) = end.filter(|end| end.status == ResultStatus::Timeout && end.output.is_none()) else {
        return;
    };
    let detail = end.error.as_ref().and_then(|error| error.timeout.as_ref());
    if detail.is_some_and(|detail| detail.partial_output.is_some()) {
        turn.emit(Body::PartialOutputKept(v1::PartialOutputKept { wave: task.wave, task: task.task }));
    }
}

/// Closes the open question about the task's deadline, if there is one.
pub(super) fn withdraw(turn: &mut Turn<'_>, task: TaskRef, answer: &str) {
    let open = asked(turn.state, task).filter(|asked| asked.is_open());
    if let Some(question_id) = open.map(|asked| asked.question.question_id.clone()) {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: answer.to_owned(),
            ..v1::QuestionAnswered::default()
        }));
    }
}

/// What the question about the task's deadline has shown of the work.
pub(super) fn shown(state: &RunState, task: TaskRef) -> Option<&v1::TimeoutDetail> {
    asked(state, task)?.question.error.as_ref()?.timeout.as_ref()
}

/// Whether a person has said that the task is to end with what it has.
pub(super) fn is_terminated(state: &RunState, task: TaskRef) -> bool {
    asked(state, task).is_some_and(|asked| asked.question.answer.as_deref() == Some(TERMINATE))
}

/// The newest question about the deadline of the task's present life.
fn asked(state: &RunState, task: TaskRef) -> Option<&AskedQuestion> {
    state.questions.get(state.activity(task)?.asked_at_deadline? as usize)
}
