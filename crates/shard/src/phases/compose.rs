//! What the tasks of a phase are given.

use std::collections::BTreeMap;
use std::rc::Rc;

use capataz_contracts::reference::{self, Grammar, Room};
use capataz_contracts::validate::{INLINE_MAX, PHASE_ITEMS_MAX, PIPELINE_INPUT_MAX};
use capataz_contracts::{Violation, json, v1};
use capataz_engine::{Composition, KnownPhase};
use capataz_judge::JUDGED_MAX;
use capataz_policy::codes;
use serde_json::Value;

use super::{Budget, Contents, Failed, INPUTS_MAX, VALUES_MAX, payload_within, value_of};

/// The most bytes of all inputs that stay in the event by which their phase begins.
const INLINE_TOTAL: usize = 512 * 1024;

/// Violations that a refusal tells, and characters of them.
const TOLD: usize = 5;
const TOLD_CHARS: usize = 2_000;

/// One payload for each item that is wanted, or for the phase.
pub(super) fn inputs(composition: &Composition, contents: &dyn Contents) -> Result<Vec<v1::Payload>, Failed> {
    if let Some(given) = &composition.given {
        let wanted = composition.items.as_ref().map_or(1, Vec::len);
        // Nobody knows the items yet: it is a list of what each of them is given.
        if composition.for_each.is_some() && composition.items.is_none() {
            return listed(given, contents);
        }
        let given = match &given.data {
            Some(v1::payload::Data::Inline(text)) => payload_within(text, share_of(wanted), contents)?,
            Some(v1::payload::Data::Blob(_)) | None => given.clone(),
        };
        return Ok(vec![given; wanted]);
    }
    payloads(&values(composition, contents)?, contents)
}

/// The inputs that a person has listed.
fn listed(given: &v1::Payload, contents: &dyn Contents) -> Result<Vec<v1::Payload>, Failed> {
    match value_of(given, JUDGED_MAX, &mut Budget::default(), contents)? {
        Value::Array(inputs) if inputs.len() <= PHASE_ITEMS_MAX => payloads(&inputs, contents),
        _ => {
            let expected = format!("a list of at most {PHASE_ITEMS_MAX} inputs is needed, one for each item");
            Err(unresolved(format!("the items are not known yet; {expected}")))
        }
    }
}

/// Payloads of these values, of bounded size together.
fn payloads(values: &[Value], contents: &dyn Contents) -> Result<Vec<v1::Payload>, Failed> {
    let share = share_of(values.len());
    let (mut payloads, mut bytes) = (Vec::with_capacity(values.len()), 0_usize);
    for value in values {
        let text = value.to_string();
        bytes = bytes.saturating_add(text.len());
        if bytes > INPUTS_MAX {
            return Err(unresolved(format!(
                "the inputs of its tasks have more than {INPUTS_MAX} bytes together"
            )));
        }
        payloads.push(payload_within(text.as_bytes(), share, contents)?);
    }
    Ok(payloads)
}

/// The most bytes of one of so many inputs that stays in the event by which their phase begins.
fn share_of(inputs: usize) -> usize {
    (INLINE_TOTAL / inputs.max(1)).min(INLINE_MAX)
}

/// The same, as values.
pub(super) fn values(composition: &Composition, contents: &dyn Contents) -> Result<Vec<Value>, Failed> {
    let template = json::from_slice(composition.template.as_bytes())
        .map_err(|violation| unresolved(violation.message))?;
    let mut composing = Composing {
        composition,
        contents,
        known: BTreeMap::new(),
        failed: None,
        room: Room { bytes: INPUTS_MAX, values: VALUES_MAX },
        budget: Budget::default(),
    };
    let Some(list) = &composition.for_each else {
        // Its output counts already, and only its summary is made again.
        if composition.items.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        if let Some(given) = composition.overrides.get(&0) {
            return Ok(vec![value_of(given, JUDGED_MAX, &mut composing.budget, contents)?]);
        }
        return Ok(vec![composing.resolve(&template, None)?]);
    };
    let items = composing.list(list)?;
    let wanted: Vec<u32> = match &composition.items {
        Some(wanted) => wanted.clone(),
        None => (0u32..).take(items.len()).collect(),
    };
    let one = |item: u32| {
        if let Some(given) = composition.overrides.get(&item) {
            return value_of(given, JUDGED_MAX, &mut composing.budget, contents);
        }
        let value = items.get(item as usize).ok_or_else(|| unresolved(format!("there is no item {item}")))?;
        composing.resolve(&template, Some(Rc::new(value.clone())))
    };
    wanted.into_iter().map(one).collect()
}

/// A composition at work: what its references are about is read once.
struct Composing<'c> {
    composition: &'c Composition,
    contents: &'c dyn Contents,
    known: BTreeMap<String, Option<Rc<Value>>>,
    failed: Option<Failed>,
    room: Room,
    budget: Budget,
}

impl Composing<'_> {
    fn resolve(&mut self, template: &Value, item: Option<Rc<Value>>) -> Result<Value, Failed> {
        let mut room = self.room;
        let resolved = reference::resolve_as(template, Grammar::Phases, &mut room, &mut |name| match name {
            "item" => item.clone(),
            name => self.named(name),
        });
        self.room = room;
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        resolved.map_err(|violations| unresolved(told(&violations)))
    }

    fn list(&mut self, reference: &str) -> Result<Vec<Value>, Failed> {
        match self.resolve(&Value::String(reference.to_owned()), None)? {
            Value::Array(items) if items.len() <= PHASE_ITEMS_MAX => Ok(items),
            Value::Array(items) => Err(unresolved(format!(
                "{reference} has {} items; at most {PHASE_ITEMS_MAX} are allowed",
                items.len()
            ))),
            _ => Err(unresolved(format!("{reference} is no list"))),
        }
    }

    fn named(&mut self, name: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let value = match self.read(name) {
            Ok(value) => value.map(Rc::new),
            Err(failed) => {
                self.failed.get_or_insert(failed);
                None
            }
        };
        self.known.insert(name.to_owned(), value.clone());
        value
    }

    fn read(&mut self, name: &str) -> Result<Option<Value>, Failed> {
        if name == "input" {
            let input = &self.composition.input;
            return value_of(input, PIPELINE_INPUT_MAX, &mut self.budget, self.contents).map(Some);
        }
        let Some((phase, what)) = name.rsplit_once('.') else { return Ok(None) };
        let Some(phase) = self.composition.phases.get(phase) else { return Ok(None) };
        match what {
            "summary" => phase
                .summary
                .as_ref()
                .map(|summary| value_of(summary, JUDGED_MAX, &mut self.budget, self.contents))
                .transpose(),
            "output" => self.outputs(phase).map(Some),
            _ => Ok(None),
        }
    }

    fn outputs(&mut self, phase: &KnownPhase) -> Result<Value, Failed> {
        let mut outputs = Vec::with_capacity(phase.outputs.len());
        for output in &phase.outputs {
            outputs.push(value_of(output, JUDGED_MAX, &mut self.budget, self.contents)?);
        }
        match (phase.has_items, outputs.len()) {
            (false, 1) => Ok(outputs.remove(0)),
            _ => Ok(Value::Array(outputs)),
        }
    }
}

fn told(violations: &[Violation]) -> String {
    let shown: Vec<String> = violations.iter().take(TOLD).map(ToString::to_string).collect();
    let told: String = shown.join("; ").chars().take(TOLD_CHARS).collect();
    match violations.len().saturating_sub(TOLD) {
        0 => told,
        more => format!("{told}; and {more} more"),
    }
}

fn unresolved(message: String) -> Failed {
    Failed::from(codes::error(codes::INPUT_UNRESOLVED, format!("the input of the phase: {message}")))
}
