//! The states of a task, as its events tell them, by the table of seed 000, contract 2.

use capataz_contracts::v1::TaskState;
use capataz_engine::TaskRef;

use super::log::RunModel;
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
