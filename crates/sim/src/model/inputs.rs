//! What tasks are given: their inputs, with what their references read.

use capataz_contracts::v1::{self, payload::Data};
use capataz_engine::TaskRef;
use capataz_store::BlobHash;

use super::log::{RunModel, Step, place};
use crate::invariant::{Invariant, Violation};
use crate::plans::MANY;

impl RunModel {
    pub(super) fn input_resolved(&mut self, event: &v1::TaskInputResolved) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let queued = self.task(task).is_some_and(|task| task.step == Step::Queued);
        Invariant::WavesInOrder.check(queued, || self.at(format!("input of {task}, which does not wait")))?;
        if let Some(expected) = self.many(task) {
            let is_it = match event.input.as_ref().and_then(|input| input.data.as_ref()) {
                Some(Data::Blob(blob)) => blob.blake3 == BlobHash::of(expected.as_bytes()).to_string(),
                Some(Data::Inline(text)) => **text == *expected.as_bytes(),
                None => false,
            };
            Invariant::InputsAreResolved
                .check(is_it, || self.at(format!("{task} is given {:?}, not {expected:?}", event.input)))?;
        }
        self.in_work(task)?.resolved = true;
        Ok(())
    }

    /// Nobody is given a reference.
    pub(super) fn has_no_reference(&self, task: TaskRef) -> Result<(), Violation> {
        let input = self.declared(task).and_then(|declared| declared.input.as_ref());
        let refers = match input.and_then(|input| input.data.as_ref()) {
            Some(Data::Inline(text)) => text.windows(8).any(|part| part == b"${tasks."),
            Some(Data::Blob(_)) | None => false,
        };
        let resolved = self.task(task).is_some_and(|task| task.resolved);
        Invariant::InputsAreResolved
            .check(!refers || resolved, || self.at(format!("{task} is leased with references in its input")))
    }

    /// The input of a task that names one output many times; `None` where it is another one.
    fn many(&self, task: TaskRef) -> Option<String> {
        let declared = self.declared(task)?.input.as_ref()?;
        let Some(Data::Inline(text)) = &declared.data else { return None };
        let text = std::str::from_utf8(text).ok()?;
        let name = text.strip_prefix("\"${tasks.")?.split(".output}").next()?;
        if text.matches("${tasks.").count() != MANY {
            return None;
        }
        let output = self.output_of(name)?;
        Some(serde_json::Value::String(output.repeat(MANY)).to_string())
    }

    /// The output with which the task of this name has succeeded, as a text has it.
    fn output_of(&self, name: &str) -> Option<&str> {
        let (wave, task) = name.strip_prefix('w')?.split_once('t')?;
        let source = self.task(place(wave.parse().ok()?, task.parse().ok()?))?;
        match source.output.as_ref()?.data.as_ref()? {
            Data::Inline(text) => std::str::from_utf8(text).ok(),
            Data::Blob(_) => None,
        }
    }
}
