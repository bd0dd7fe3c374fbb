//! Runs that are tasks of other runs: named before they are created, created once, and heard once.

use capataz_contracts::v1;
use capataz_engine::TaskRef;
use capataz_store::RunId;

use super::Model;
use super::log::{RunModel, Step, place};
use crate::invariant::{Invariant, Violation};

/// A run that is a task, as its parent's log tells it.
#[derive(Clone, Debug)]
pub struct ChildModel {
    pub task: TaskRef,
    pub activation: u32,
    pub attempt: u32,
    pub detached: bool,
    pub cancelled: bool,
    pub heard: bool,
}

impl RunModel {
    pub(super) fn child_named(&mut self, event: v1::ChildNamed) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let held = self.is_held() || self.ending.is_some();
        Invariant::NoLeaseWhileHeld
            .check(!held, || self.at(format!("the run of {task} begins while this one is held")))?;
        self.is_not_done_before(task)?;
        let most = self.max_attempts(task);
        let text = self.at(format!("the run of {task} is named as attempt {} of {most}", event.attempt));
        let declared = self.declared(task).and_then(|task| task.run.as_ref());
        let Some(detached) = declared.map(|run| run.detached) else {
            return Invariant::ChildrenHeardOnce.broken(format!("{text}, which is no run"));
        };
        let elapsed = self.elapsed;
        self.enters(task, v1::TaskState::Active as i32)?;
        let model = self.in_work(task)?;
        let step = model.step;
        Invariant::ChildrenHeardOnce.check(step == Step::Queued, || format!("{text}, in step {step:?}"))?;
        let counted = event.attempt == model.attempt
            && event.attempt <= most
            && event.deadline_in_ms.is_some() == model.deadline.is_none();
        Invariant::AttemptsCounted.check(counted, || format!("{text}, expected {}", model.attempt))?;
        model.step = Step::Child;
        model.told = None;
        model.deadline = model.deadline.or(event.deadline_ms);
        model.due = model.due.or(event.deadline_in_ms.map(|ahead| elapsed + ahead));
        let (activation, attempt) = (model.activation, event.attempt);
        let child = ChildModel { task, activation, attempt, detached, cancelled: false, heard: false };
        let is_new = self.children.insert(event.run_id, child).is_none();
        Invariant::ChildrenHeardOnce.check(is_new, || text)
    }

    pub(super) fn child_cancelled(&mut self, event: &v1::ChildCancelRequested) -> Result<(), Violation> {
        let text = self.at(format!("cancel of {}", event.run_id));
        let child = self.children.get_mut(&event.run_id).filter(|child| !child.heard && !child.detached);
        let Some(child) = child else { return Invariant::ChildrenHeardOnce.broken(text) };
        child.cancelled = true;
        Ok(())
    }

    /// The end of a task's run is heard. `told` is the severity of the error that the run has ended with.
    pub(super) fn hears_of_failure(
        &mut self,
        event: &v1::ChildEnded,
        told: Option<i32>,
    ) -> Result<(), Violation> {
        let failed = matches!(
            event.outcome.map(v1::RunOutcome::try_from),
            Some(Ok(v1::RunOutcome::Failed | v1::RunOutcome::Blocked))
        );
        let is_cancelled = self.children.get(&event.run_id).is_some_and(|child| child.cancelled);
        self.in_work(place(event.wave, event.task))?.told = told.filter(|_| failed && !is_cancelled);
        Ok(())
    }

    pub(super) fn child_ended(&mut self, event: &v1::ChildEnded) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let text = self.at(format!("{} of {task} has ended", event.run_id));
        let child = self.children.get_mut(&event.run_id).filter(|child| child.task == task && !child.heard);
        let Some(child) = child else { return Invariant::ChildrenHeardOnce.broken(text) };
        child.heard = true;
        let (cancelled, detached) = (child.cancelled, child.detached);
        let well = matches!(
            event.outcome.map(v1::RunOutcome::try_from),
            Some(Ok(v1::RunOutcome::Succeeded | v1::RunOutcome::SucceededWithFailures))
        );
        let model = self.in_work(task)?;
        Invariant::ChildrenHeardOnce.check(model.step == Step::Child, || text)?;
        model.step = Step::Heard { may_succeed: detached || well && !cancelled };
        Ok(())
    }

    /// Children that the log names, and of whose end it does not know.
    pub fn awaited_children(&self) -> impl Iterator<Item = &String> {
        self.children.iter().filter(|(_, child)| !child.heard).map(|(run, _)| run)
    }
}

impl Model {
    /// A run that says that it is a task of another one is named there, and what is heard of one is true.
    pub(super) fn check_family(&self, run: RunId, body: Option<&v1::event::Body>) -> Result<(), Violation> {
        match body {
            Some(v1::event::Body::RunAccepted(event)) => {
                let Some(parent) = &event.parent else { return Ok(()) };
                let named =
                    parent.run_id.parse().ok().and_then(|parent| self.run(parent)).is_some_and(|of| {
                        of.children.get(&run.to_string()).is_some_and(|child| {
                            child.activation == parent.activation && child.attempt == parent.attempt
                        })
                    });
                Invariant::ChildrenAreNamed.check(named, || format!("run {run} is created, {parent:?}"))?;
                self.check_child_span(run, parent, event)
            }
            Some(v1::event::Body::ChildEnded(event)) => {
                let child = event.run_id.parse().ok().and_then(|child| self.run(child));
                let named = self.run(run).and_then(|of| of.children.get(&event.run_id));
                let is_so = match child {
                    Some(child) => {
                        named.is_some_and(|named| named.detached) || child.finished == event.outcome
                    }
                    // It was to end before it was there.
                    None => event.outcome.is_none() && named.is_some_and(|named| named.cancelled),
                };
                Invariant::ChildrenHeardOnce
                    .check(is_so, || format!("run {run} hears {event:?}, which is not so"))
            }
            _ => Ok(()),
        }
    }
}
