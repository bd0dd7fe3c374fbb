//! What a run takes over from the one that it continues.

use capataz_contracts::v1::{self, payload::Data};
use capataz_engine::TaskRef;

use super::log::{RunModel, place};
use crate::invariant::{Invariant, Violation};

impl RunModel {
    /// A task is settled by what it gave before where that stands, and only there.
    pub(super) fn settled_as_before(&mut self, event: &v1::TaskSettled) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let text = self.at(format!("{task} settles, taken over: {}", event.taken_over));
        let before = self.stands(task);
        Invariant::TakenOver.check(event.taken_over == before.is_some(), || text.clone())?;
        let Some(before) = before else { return Ok(()) };
        let is_success = event.status == v1::ResultStatus::Success as i32 && event.lease.is_none();
        Invariant::TakenOver.check(is_success && event.output == before.output, || text)?;
        self.enters(task, v1::TaskState::Active as i32)?;
        self.in_work(task)?.taken_over = true;
        Ok(())
    }

    /// What has succeeded before is not at work again.
    pub(super) fn is_not_done_before(&self, task: TaskRef) -> Result<(), Violation> {
        Invariant::TakenOver.check(self.stands(task).is_none(), || {
            self.at(format!("{task} is done again, which succeeded before"))
        })
    }

    /// What the task gave before, where it was never taken back and its input refers to nothing that was done again.
    fn stands(&self, task: TaskRef) -> Option<v1::TakenOver> {
        let declared = self.declared(task)?;
        let before = declared.taken_over.clone()?;
        let input = match declared.input.as_ref().and_then(|input| input.data.as_ref()) {
            Some(Data::Inline(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            Some(Data::Blob(_)) | None => String::new(),
        };
        let is_first = self.task(task)?.activation == 1;
        let waves = self.plan.waves.iter().zip(0..).flat_map(|(wave, number)| {
            wave.tasks.iter().zip(0..).map(move |(other, index)| (other, place(number, index)))
        });
        let mut referred =
            waves.filter(|(other, _)| input.contains(&format!("${{tasks.{}.output", other.name)));
        let as_before = referred.all(|(_, other)| self.task(other).is_some_and(|other| other.taken_over));
        (is_first && as_before).then_some(before)
    }
}
