//! A run that continues another one takes over what succeeded there (seed 000, scenario 7).

use capataz_contracts::v1;

use super::turn::Turn;
use super::{Refusal, references, settle};
use crate::input::TaskRef;
use crate::planted::{self, Fault};

/// Settles the tasks of a wave that begins which have succeeded before, and whose inputs are what they were.
pub(super) fn of_wave(turn: &mut Turn<'_>, wave: u32) -> Result<(), Refusal> {
    if turn.state.plan.continues.is_none() {
        return Ok(());
    }
    let tasks = turn.state.queued().filter(|task| task.wave == wave);
    let stand: Vec<(TaskRef, v1::TakenOver)> =
        tasks.filter_map(|task| Some((task, standing(turn, task)?.clone()))).collect();
    for (task, before) in stand {
        settle::take_over(turn, task, before.output)?;
    }
    Ok(())
}

/// What the task has given before, where that still stands: neither the task nor one that its input refers to was at work in
/// this run, or was taken back in it.
fn standing<'t>(turn: &'t Turn<'_>, task: TaskRef) -> Option<&'t v1::TakenOver> {
    let before = turn.state.plan.task(task)?.taken_over.as_deref()?;
    let is_first = turn.state.activity(task)?.activation == 1;
    let is_taken_over = |name: String| {
        let referred = turn.state.plan.find(&name).and_then(|task| turn.state.activity(task));
        referred.is_some_and(|activity| activity.end.as_ref().is_some_and(|end| end.taken_over))
    };
    let as_before = planted::is(Fault::TakenOverWithNewInput)
        || references::of(turn, task).into_iter().all(is_taken_over);
    (is_first && as_before).then_some(before)
}
