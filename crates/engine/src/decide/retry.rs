//! A user runs a failed task again: a new activation.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::lifecycle::TaskState;

use super::turn::Turn;
use super::{Refusal, advance, child, pause, references, rollback, settle};
use crate::fold::state::Phase;
use crate::input::TaskRef;

pub(super) fn handle(turn: &mut Turn<'_>, name: &str, request_id: String) -> Result<(), Refusal> {
    let task = turn.find(name)?;
    turn.refuse_finished()?;
    turn.state.rules().may_run_again(turn.state, task, name)?;
    let state = turn.state.known(task).map_or(TaskState::Init, |activity| activity.state);
    let stopping = turn.state.waves.last().is_some_and(|wave| wave.stopping);
    let in_work =
        task.wave == turn.state.current_wave() && matches!(turn.state.phase, Phase::Running) && !stopping;
    if state != TaskState::Failed || !in_work {
        let refusal = Refusal::transition(state, TaskState::Active, || match state {
            TaskState::Failed => format!("task {name:?} is FAILED for good: what came of it is decided"),
            _ => format!("task {name:?} is {state}: only a failed task is run again"),
        });
        return Err(rollback::offered(turn, task, refusal));
    }
    // The question about this failure is answered by the retry.
    let open = turn.state.open_questions().find(|asked| asked.task == Some(task));
    let open = open.map(|asked| asked.question.question_id.clone());
    reactivate(turn, task, request_id)?;
    // What the task needs may be missing still, and a CRITICAL failure withdraws every question.
    if let Some(question_id) = open.filter(|open| turn.state.unanswered.contains_key(open)) {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: "retry".to_owned(),
            ..v1::QuestionAnswered::default()
        }));
        pause::release(turn)?;
    }
    advance::advance(turn)
}

/// Begins the task anew. The next [`advance::advance`] decides whether its wave is over nevertheless.
pub(super) fn reactivate(turn: &mut Turn<'_>, task: TaskRef, request_id: String) -> Result<(), Refusal> {
    turn.enters(task, TaskState::Active)?;
    let activation = turn.state.activity(task).map_or(1, |activity| activity.activation).saturating_add(1);
    turn.emit_request(Body::TaskReactivated(v1::TaskReactivated {
        wave: task.wave,
        task: task.task,
        activation,
        request_id,
    }));
    // A reference that could not be resolved before cannot be resolved now. The template must never reach an agent.
    if turn.state.activity(task).is_some_and(|activity| activity.input.is_none())
        && let Err(message) = references::resolve(turn, task, &mut references::References::default())
    {
        return settle::fail_unresolved(turn, task, message);
    }
    child::enqueue(turn, task)
}
