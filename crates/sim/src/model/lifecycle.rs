//! The states of a task, as its events tell them, by the table of seed 000, contract 2.

use capataz_contracts::v1::TaskState;
use capataz_engine::TaskRef;

use super::log::{RunModel, Step, TaskModel, place};
use crate::invariant::{Invariant, Violation};

/// What may follow each state.
const FOLLOWS: &[(TaskState, &[TaskState])] = &[
    (TaskState::Init, &[TaskState::Active, TaskState::Failed, TaskState::Deleted]),
    (TaskState::Active, &[TaskState::Complete, TaskState::Failed, TaskState::RolledBack]),
    (TaskState::Complete, &[TaskState::RolledBack]),
    (TaskState::Failed, &[TaskState::Active, TaskState::Deleted]),
    (TaskState::RolledBack, &[TaskState::Init]),
    (TaskState::Deleted, &[]),
];

/// Whether the second state may follow the first.
pub(super) fn follows(from: TaskState, to: TaskState) -> bool {
    FOLLOWS.iter().any(|(before, next)| *before == from && next.contains(&to))
}

impl RunModel {
    /// A task of the newest wave that waits, and that nobody was ever given.
    #[must_use]
    pub fn never_given(&self) -> Option<TaskRef> {
        let (tasks, wave) = (&self.waves.last()?.tasks, self.waves.len() - 1);
        let waits = |task: &TaskModel| {
            task.state == TaskState::Init && task.activation <= 1 && task.step == Step::Queued
        };
        let index = tasks.iter().position(waits)?;
        Some(place(u32::try_from(wave).ok()?, u32::try_from(index).ok()?))
    }

    /// The task has entered this state, or stays in it.
    pub(super) fn enters(&mut self, task: TaskRef, to: i32) -> Result<(), Violation> {
        let text = self.at(format!("{task} enters state {to}"));
        let model = self.in_work(task)?;
        let from = model.state;
        let to = TaskState::try_from(to).unwrap_or_default();
        model.state = to;
        Invariant::LifecycleIsKept.check(from == to || follows(from, to), || format!("{text} after {from:?}"))
    }
}
