//! A task's time is over: a person may say what becomes of it as long as its grace lasts (seed 000, contract 3).

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::TaskState;
use capataz_policy::timeout;

use super::lease::milliseconds;
use super::turn::Turn;
use super::{Refusal, advance, cancel, extend, question, retry, settle};
use crate::fold::state::{AskedQuestion, Phase, RunState};
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
    let mut error = settle::timeout_error(turn, task, observed)?;
    error.severity = settle::classify(turn, task, &error)?.severity.to_proto().into();
    let offered = timeout::OPTIONS.iter().filter(|option| !is_final || **option != EXTEND);
    error.options = offered.map(|option| (*option).to_owned()).collect();
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
            // A plan may declare the end of its time CRITICAL, which ends the run.
            if matches!(turn.state.phase, Phase::Running) {
                retry::reactivate(turn, task, String::new())?;
            }
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
    let asked = asked(turn.state, task).and_then(|asked| asked.question.answer.as_deref());
    if asked == Some(TERMINATE) {
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
    let open = turn.state.open_questions().find(|asked| is_about(asked, task));
    if let Some(question_id) = open.map(|asked| asked.question.question_id.clone()) {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: answer.to_owned(),
            ..v1::QuestionAnswered::default()
        }));
    }
}

/// The newest question about the deadline of the task's present life.
fn asked(state: &RunState, task: TaskRef) -> Option<&AskedQuestion> {
    let activation = state.activity(task)?.activation;
    let of_this_life = |asked: &&AskedQuestion| {
        is_about(asked, task) && asked.subject().is_some_and(|subject| subject.activation == activation)
    };
    state.questions.iter().rev().find(of_this_life)
}

fn is_about(asked: &AskedQuestion, task: TaskRef) -> bool {
    asked.task == Some(task) && asked.question.purpose() == v1::QuestionPurpose::Timeout
}
