//! A user runs a failed task again: a new activation.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::lifecycle::TaskState;

use super::turn::Turn;
use super::{Refusal, pause};
use crate::apply::digest;
use crate::effect::Effect;
use crate::input::TaskRef;
use crate::state::Phase;

pub(super) fn handle(turn: &mut Turn<'_>, name: &str, request_id: String) -> Result<(), Refusal> {
    let task = turn.find(name)?;
    if turn.repeats(&request_id, &digest::retry(task))? {
        return Ok(());
    }
    turn.refuse_finished()?;
    let state = turn.state.activity(task).map_or(TaskState::Init, |activity| activity.state);
    let stopping = turn.state.waves.last().is_some_and(|wave| wave.stopping);
    let in_work = task.wave == turn.state.current_wave() && matches!(turn.state.phase, Phase::Running) && !stopping;
    if state != TaskState::Failed || !in_work {
        return Err(Refusal::transition(state, TaskState::Active));
    }
    // The question about this failure is answered by the retry.
    let open = turn.state.open_questions().find(|asked| asked.task == Some(task));
    let open = open.map(|asked| asked.question.question_id.clone());
    reactivate(turn, task, request_id);
    if let Some(question_id) = open {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: "retry".to_owned(),
            request_id: String::new(),
        }));
        pause::release(turn);
    }
    Ok(())
}

pub(super) fn reactivate(turn: &mut Turn<'_>, task: TaskRef, request_id: String) {
    let activation = turn.state.activity(task).map_or(1, |activity| activity.activation) + 1;
    turn.emit_request(Body::TaskReactivated(v1::TaskReactivated {
        wave: task.wave,
        task: task.task,
        activation,
        request_id,
    }));
    if turn.state.may_lease() {
        turn.effect(Effect::Enqueue { task });
    }
}
