//! What tasks of a plan are given whose references read blobs, or more than fits an event.

use std::collections::BTreeMap;
use std::rc::Rc;

use capataz_contracts::json::is_json;
use capataz_contracts::reference::{self, Room};
use capataz_contracts::validate::INLINE_MAX;
use capataz_contracts::{json, v1};
use capataz_engine::{ResolvedInput, Resolving};
use serde_json::Value;

use super::{
    Budget, Contents, Failed, INPUTS_MAX, READ_MAX, VALUES_MAX, payload_within, text_value_of, value_of,
};

/// The most bytes of all inputs that stay in the events by which their wave begins.
const INLINE_OF_WAVE: usize = 8 * 1024 * 1024;

/// One input for each that is asked for, or the reason why there is none.
pub(super) fn inputs(resolving: &Resolving, contents: &dyn Contents) -> Result<Vec<ResolvedInput>, Failed> {
    let mut outputs =
        Outputs { resolving, contents, budget: Budget::default(), known: BTreeMap::new(), failed: None };
    let mut room = Room { bytes: INPUTS_MAX, values: VALUES_MAX };
    let mut inline_left = INLINE_OF_WAVE;
    let mut resolved = Vec::with_capacity(resolving.inputs.len());
    for (task, template) in &resolving.inputs {
        let input = match input(template, &mut room, &mut outputs) {
            Ok(text) => {
                let most = INLINE_MAX.min(inline_left);
                inline_left -= if text.len() <= most { text.len() } else { 0 };
                payload_within(text.as_bytes(), most, contents).map(Some)
            }
            Err(Failed::Unavailable) => Err(Failed::Unavailable),
            Err(Failed::With(error)) => {
                resolved.push(ResolvedInput { task: *task, input: None, reason: error.message });
                continue;
            }
        };
        resolved.push(ResolvedInput { task: *task, input: input?, reason: String::new() });
    }
    Ok(resolved)
}

fn input(template: &[u8], room: &mut Room, outputs: &mut Outputs<'_>) -> Result<String, Failed> {
    let template = json::from_slice(template).map_err(|violation| super::unresolved(violation.message))?;
    let replaced = reference::resolve(&template, room, &mut |name| outputs.value(name));
    match (outputs.failed.take(), replaced) {
        (Some(failed), _) => Err(failed),
        (None, Ok(value)) => Ok(value.to_string()),
        (None, Err(violations)) => {
            let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
            Err(super::unresolved(told.join("; ")))
        }
    }
}

/// The outputs that references read, each of them once.
struct Outputs<'a> {
    resolving: &'a Resolving,
    contents: &'a dyn Contents,
    budget: Budget,
    known: BTreeMap<String, Rc<Value>>,
    /// Why the input in work cannot be made.
    failed: Option<Failed>,
}

impl Outputs<'_> {
    fn value(&mut self, name: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.known.get(name) {
            return Some(Rc::clone(known));
        }
        let output = self.resolving.outputs.get(name)?;
        match self.read(output) {
            Ok(value) => {
                let value = Rc::new(value);
                self.known.insert(name.to_owned(), Rc::clone(&value));
                Some(value)
            }
            Err(failed) => {
                self.failed.get_or_insert(failed);
                None
            }
        }
    }

    fn read(&mut self, output: &v1::Payload) -> Result<Value, Failed> {
        match is_json(&output.media_type) {
            true => value_of(output, READ_MAX, &mut self.budget, self.contents),
            false => text_value_of(output, READ_MAX, &mut self.budget, self.contents),
        }
    }
}
