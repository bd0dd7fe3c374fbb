//! References between tasks: what a task is given is resolved when its wave begins; outside, before that, where it is much.

use std::collections::BTreeMap;
use std::rc::Rc;

use capataz_contracts::json::is_json;
use capataz_contracts::reference::{self, Room};
use capataz_contracts::v1::{self, event::Body};
use serde_json::Value;

use super::turn::Turn;
use crate::fold::state::RunState;
use crate::input::{ResolvedInput, TaskRef};
use crate::planted::{self, Fault};
use crate::query::{QueryId, Resolving};

/// Largest input inline, and largest sum of the inputs that a wave's references make. Bytes.
const MAX_INLINE: usize = 32 * 1024;
const MAX_RESOLVED: usize = 8 * 1024 * 1024;
/// Bytes of outputs that a wave's references read, each counted when it is read: what a shard reads without keeping others
/// waiting.
const MAX_READ: usize = 8 * 1024 * 1024;
/// Values, the inner ones included, of the outputs that a wave's references read, of the inputs with references, and of what
/// becomes of these. A value takes a shard as long as a hundred bytes of text.
const MAX_VALUES: usize = 250_000;
/// What the values that references put into one input may have by an estimate, which is at most four times what they have.
const ROUGHLY: usize = 4 * MAX_INLINE;
/// And those that are put into all inputs of a wave: the estimate has four bytes for each value beside its text.
const MAX_PUT_IN: usize = MAX_RESOLVED + 4 * MAX_VALUES;

/// What the references of one wave have in common.
#[derive(Default)]
pub(super) struct References {
    /// Bytes of the inputs so far.
    resolved: usize,
    /// The outputs that were read, by the names of their tasks.
    outputs: BTreeMap<String, Option<Rc<Value>>>,
    /// The values so far, the inner ones included.
    values: usize,
    /// Bytes that were read.
    read: usize,
    /// What was put into inputs by that estimate, also where it was too much for one.
    put_in: usize,
    /// An output was not read because too much was read before.
    is_denied: bool,
    /// No further input is resolved: nobody knows what it would take to find out that it is too much.
    is_spent: bool,
}

impl References {
    /// The value of a task's output, read once. `None` if there is no such value, or if too much was read before.
    fn output(&mut self, turn: &Turn<'_>, name: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.outputs.get(name) {
            return known.clone();
        }
        let output = output_of(turn.state, name)?;
        let Some(v1::payload::Data::Inline(bytes)) = &output.data else { return None };
        let read = self.read.saturating_add(bytes.len());
        if read > MAX_READ {
            self.is_denied = true;
            return None;
        }
        let value: Option<Value> = match is_json(&output.media_type) {
            true => match self.parse(bytes) {
                Some(parsed) => parsed.ok(),
                None => {
                    self.is_denied = true;
                    return None;
                }
            },
            false => std::str::from_utf8(bytes).ok().map(|text| Value::String(text.to_owned())),
        };
        self.read = read;
        let value = value.map(Rc::new);
        self.outputs.insert(name.to_owned(), value.clone());
        value
    }

    /// The value that these bytes are, counted. `None` where it may have more values than are left.
    fn parse(&mut self, json: &[u8]) -> Option<serde_json::Result<Value>> {
        if self.values.saturating_add(at_most(json)) > MAX_VALUES {
            self.is_spent = true;
            return None;
        }
        let parsed = serde_json::from_slice(json);
        self.values += parsed.as_ref().map_or_else(|_| at_most(json), count);
        Some(parsed)
    }

    /// The template with its references replaced, and what that took.
    fn replace(&mut self, turn: &Turn<'_>, template: &Value) -> Result<Value, String> {
        let before = Room { bytes: ROUGHLY, values: MAX_VALUES.saturating_sub(self.values) };
        let mut room = before;
        let replaced = reference::resolve(template, &mut room, &mut |name| self.output(turn, name));
        self.put_in = self.put_in.saturating_add(before.bytes - room.bytes);
        self.values = self.values.saturating_add(before.values - room.values);
        self.is_spent |= self.put_in >= MAX_PUT_IN || self.values >= MAX_VALUES;
        if std::mem::take(&mut self.is_denied) {
            return Err(too_much());
        }
        replaced
            .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// As many values as these bytes can be, found without reading them: before each but the first there is one of these.
fn at_most(json: &[u8]) -> usize {
    1 + json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

fn too_much() -> String {
    format!(
        "the references of the wave have to do with more than {MAX_READ} bytes of outputs, {MAX_RESOLVED} bytes of inputs or \
         {MAX_VALUES} values"
    )
}

/// How many values it is, the inner ones included.
fn count(value: &Value) -> usize {
    let (mut count, mut open) = (0_usize, vec![value]);
    while let Some(value) = open.pop() {
        count += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(object) => open.extend(object.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

/// Records the task's input with its references resolved, if it contains any.
pub(super) fn resolve(turn: &mut Turn<'_>, task: TaskRef, references: &mut References) -> Result<(), String> {
    if let Some(input) = resolve_input(turn, task, references)? {
        let (wave, task) = (task.wave, task.task);
        turn.emit(Body::TaskInputResolved(v1::TaskInputResolved { wave, task, input: Some(input) }));
    }
    Ok(())
}

/// The input with its references resolved; `None` if it contains no reference.
fn resolve_input(
    turn: &Turn<'_>,
    task: TaskRef,
    references: &mut References,
) -> Result<Option<v1::Payload>, String> {
    let Some(input) = turn.state.plan.task(task).and_then(|declared| declared.input.as_ref()) else {
        return Ok(None);
    };
    let Some(v1::payload::Data::Inline(bytes)) = &input.data else { return Ok(None) };
    if !is_json(&input.media_type) || !may_hold_references(bytes) {
        return Ok(None);
    }
    if references.is_spent {
        return Err(too_much());
    }
    let template = references.parse(bytes).ok_or_else(too_much)?.map_err(|error| error.to_string())?;
    if !reference::needs_resolving(&template) {
        return Ok(None);
    }
    // The whole input refers to one whole output, which is passed on unchanged, even if it is a blob.
    if let Some(name) = whole_output(&template) {
        let output = output_of(turn.state, name).ok_or_else(|| no_output(name))?;
        if let Some(v1::payload::Data::Inline(bytes)) = &output.data {
            take_room(&mut references.resolved, bytes.len())?;
        }
        return Ok(Some(output.clone()));
    }
    let value = references.replace(turn, &template)?;
    let bytes = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
    take_room(&mut references.resolved, bytes.len())?;
    Ok(Some(v1::Payload {
        media_type: input.media_type.clone(),
        data: Some(v1::payload::Data::Inline(bytes.into())),
    }))
}

/// Counts the bytes of one more resolved input.
fn take_room(resolved_bytes: &mut usize, bytes: usize) -> Result<(), String> {
    let all = resolved_bytes.saturating_add(bytes);
    if bytes > MAX_INLINE || all > MAX_RESOLVED {
        return Err(format!(
            "the resolved input has {bytes} bytes, at most {MAX_INLINE} for a task and {MAX_RESOLVED} for a wave"
        ));
    }
    *resolved_bytes = all;
    Ok(())
}

/// A cheap look before the input is parsed. `$` and `{` may also be written as \u0024 and \u007b.
fn may_hold_references(input: &[u8]) -> bool {
    let is_escaped = |four: &[u8]| four == b"0024" || four.eq_ignore_ascii_case(b"007b");
    input.windows(2).enumerate().any(|(place, pair)| match pair {
        b"${" => true,
        b"\\u" => input.get(place + 2..place + 6).is_some_and(is_escaped),
        _ => false,
    })
}

/// The task whose whole output the template is.
fn whole_output(template: &Value) -> Option<&str> {
    let segments = reference::scan(template.as_str()?).ok()?;
    match segments.as_slice() {
        [reference::Segment::Ref { task, path }] if path.is_empty() => Some(*task),
        _ => None,
    }
}

fn no_output(name: &str) -> String {
    format!("task {name:?} has no output")
}

/// The output of a task that succeeded, or that timed out and whose partial output a person has kept. That of another failed
/// or cancelled task does not count.
fn output_of<'a>(state: &'a RunState, name: &str) -> Option<&'a v1::Payload> {
    let task = state.plan.find(name)?;
    state.activity(task)?.end.as_ref()?.usable_output()
}

/// Records what was resolved outside.
pub(super) fn take(turn: &mut Turn<'_>, task: TaskRef, resolved: ResolvedInput) -> Result<(), String> {
    let Some(input) = resolved.input else { return Err(resolved.reason) };
    if !planted::is(Fault::InputReadOutsideIsLost) {
        let (wave, task) = (task.wave, task.task);
        turn.emit(Body::TaskInputResolved(v1::TaskInputResolved { wave, task, input: Some(input) }));
    }
    Ok(())
}

/// The inputs of a wave that have to be resolved outside, because their references read blobs, or more than fits an input
/// that is inline. `None` where there are none.
pub(crate) fn to_be_read(state: &RunState, wave: u32) -> Option<Resolving> {
    let mut resolving = Resolving { inputs: Vec::new(), outputs: BTreeMap::new() };
    let (mut parsed, mut sizes) = (References::default(), Sizes::default());
    for (index, task) in (0_u32..).zip(&state.plan.wave(wave)?.tasks) {
        let Some(v1::Payload { media_type, data: Some(v1::payload::Data::Inline(input)) }) = &task.input
        else {
            continue;
        };
        if !is_json(media_type) || !may_hold_references(input) {
            continue;
        }
        // What is no JSON, or too much of it, is told when the wave begins.
        let Some(Ok(template)) = parsed.parse(input) else { continue };
        if whole_output(&template).is_none()
            && let Some(outputs) = reads_much(state, &template, input.len(), &mut sizes)
        {
            resolving.inputs.push((index, input.clone()));
            resolving.outputs.extend(outputs.into_iter().map(|(name, output)| (name, output.clone())));
        }
    }
    (!resolving.inputs.is_empty()).then_some(resolving)
}

/// What outputs have within a text, as far as that was looked at.
#[derive(Default)]
struct Sizes {
    known: BTreeMap<String, usize>,
    /// Bytes that were looked at.
    read: usize,
}

impl Sizes {
    /// The most bytes that the task's output, or a part of it, has within a JSON text.
    fn of(&mut self, name: &str, output: &[u8]) -> usize {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        // More than that is not read when the wave begins either.
        if self.read > MAX_READ {
            return output.len();
        }
        self.read = self.read.saturating_add(output.len());
        let escaped = |byte: &u8| match byte {
            b'"' | b'\\' => 2,
            0..=0x1f => 6,
            _ => 1,
        };
        let bytes = output.iter().map(escaped).sum();
        self.known.insert(name.to_owned(), bytes);
        bytes
    }
}

/// The outputs that a template of so many bytes refers to, where one of them is a blob, or what becomes of it may be larger than
/// an input that is inline.
fn reads_much<'s>(
    state: &'s RunState,
    template: &Value,
    template_bytes: usize,
    sizes: &mut Sizes,
) -> Option<BTreeMap<String, &'s v1::Payload>> {
    let (mut outputs, mut bytes, mut is_much) = (BTreeMap::new(), template_bytes, false);
    let mut open = vec![template];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                for segment in reference::scan(text).into_iter().flatten() {
                    let reference::Segment::Ref { task, .. } = segment else { continue };
                    let known = outputs.get(task).copied();
                    let Some(output) = known.or_else(|| output_of(state, task)) else { continue };
                    if known.is_none() {
                        outputs.insert(task.to_owned(), output);
                    }
                    match &output.data {
                        // Nothing more is looked at than it takes to know.
                        Some(v1::payload::Data::Inline(text)) if !is_much => {
                            is_much = bytes.saturating_add(text.len()) > MAX_INLINE;
                            if !is_much {
                                bytes = bytes.saturating_add(sizes.of(task, text));
                                is_much = bytes > MAX_INLINE;
                            }
                        }
                        Some(v1::payload::Data::Blob(_)) => is_much = true,
                        Some(v1::payload::Data::Inline(_)) | None => {}
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Object(object) => open.extend(object.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    is_much.then_some(outputs)
}

/// A number for what is asked: another one where the tasks that it is about have ended anew, or others have outputs.
pub(crate) fn number_of(state: &RunState, wave: u32, resolving: &Resolving) -> QueryId {
    // FNV-1a: the same wherever a trace is run again.
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            number = (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&wave.to_le_bytes());
    for name in resolving.outputs.keys() {
        let activity = state.plan.find(name).and_then(|task| state.activity(task));
        add(name.as_bytes());
        // No name has this byte.
        add(&[0]);
        add(&activity.map_or(0, |activity| activity.activation).to_le_bytes());
    }
    QueryId(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nine values and the list itself. The estimate is of as many.
    const TEN: &[u8] = b"[1,2,3,4,5,6,7,8,9]";

    #[test]
    fn what_may_have_as_many_values_as_are_left_is_read_and_what_may_have_more_is_not() {
        let mut references = References { values: 249_990, ..References::default() };
        assert!(matches!(references.parse(TEN), Some(Ok(Value::Array(items))) if items.len() == 9));
        assert_eq!((references.values, references.is_spent), (250_000, false));
        let mut references = References { values: 249_991, ..References::default() };
        assert!(references.parse(TEN).is_none());
        assert_eq!((references.values, references.is_spent), (249_991, true));
        // A text with nine commas is one value, and might be ten for all that was looked at.
        let mut references = References { values: 249_991, ..References::default() };
        assert!(references.parse(b"\",,,,,,,,,\"").is_none());
        assert!(references.is_spent);
    }
}
