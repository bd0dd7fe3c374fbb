//! The shape of a pipeline: names, sizes, enums, and references that point back in time. Whether a schema is one, and whether
//! its policies are sensible, others say.

use std::collections::BTreeMap;

use prost::Message;
use serde_json::Value;

use super::script::required_enum;
use super::{NAME_MAX, name, optional_enum, payload};
use crate::json::{self, is_json};
use crate::path::{Path, shown};
use crate::reference::{Grammar, Segment, scan_as};
use crate::v1;
use crate::v1::payload::Data;
use crate::violation::{Violation, Violations};

/// Phases of one pipeline.
pub const PHASES_MAX: usize = 64;
/// Bytes of one pipeline with its schemas, encoded, without its input.
pub const PIPELINE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of what a phase's input is made of.
pub const PHASE_INPUT_MAX: usize = 32 * 1024;
/// Keys in the summary of a phase.
pub const SUMMARY_KEYS_MAX: usize = 32;
/// Items of one phase.
pub const PHASE_ITEMS_MAX: usize = 1_000;

/// Bytes of the input of a pipeline.
pub const PIPELINE_INPUT_MAX: usize = 8 * 1024 * 1024;

const CHECKS_MAX: usize = 8;
const PHASE_NAME_MAX: usize = 64;
const KEY_MAX: usize = 128;
const VERSION_MAX: usize = 32;

/// Checks the shape of a pipeline. Where it is larger than it may be, only that is reported.
#[must_use]
pub fn pipeline(pipeline: &v1::Pipeline) -> Vec<Violation> {
    let mut violations = Violations::default();
    check(pipeline, &Path::Root, &mut violations);
    violations.into_vec()
}

pub fn check(pipeline: &v1::Pipeline, path: &Path<'_>, violations: &mut Violations) {
    if !size(pipeline, path, violations) {
        return;
    }
    name(&pipeline.name, "the pipeline's name", &path.key("name"), violations);
    if let Some(product) = &pipeline.product_id
        && (product.trim().is_empty() || product.len() > NAME_MAX)
    {
        let message = format!("the product has 1 to {NAME_MAX} bytes, and is not blank");
        violations.push(&path.key("product_id"), "length", message);
    }
    if let Some(version) = &pipeline.checkpoint_version
        && !(1..=VERSION_MAX).contains(&version.len())
    {
        let message = format!("a version has 1 to {VERSION_MAX} bytes");
        violations.push(&path.key("checkpoint_version"), "length", message);
    }
    if let Some(input) = &pipeline.input {
        check_input(input, &path.key("input"), violations);
    }
    let path = &path.key("phases");
    if pipeline.phases.is_empty() {
        violations.push(path, "required", "a pipeline has at least one phase");
    }
    let mut earlier = BTreeMap::new();
    for (index, phase) in pipeline.phases.iter().enumerate() {
        check_phase(phase, &earlier, &path.index(index), violations);
        if earlier.insert(phase.name.as_str(), index).is_some() && !phase.name.is_empty() {
            let message = format!("there is another phase `{}`", shown(&phase.name));
            violations.push(&path.index(index).key("name"), "duplicate", message);
        }
    }
}

fn size(pipeline: &v1::Pipeline, path: &Path<'_>, violations: &mut Violations) -> bool {
    let phases = pipeline.phases.len();
    if phases > PHASES_MAX {
        let message = format!("{phases} phases; at most {PHASES_MAX} are allowed");
        violations.push(&path.key("phases"), "limit", message);
        return false;
    }
    let bytes: usize = pipeline.phases.iter().map(Message::encoded_len).sum();
    if bytes > PIPELINE_BYTES_MAX {
        let message = format!(
            "the phases have {bytes} bytes with their schemas; at most {PIPELINE_BYTES_MAX} are allowed"
        );
        violations.push(&path.key("phases"), "size", message);
        return false;
    }
    true
}

fn check_phase(
    phase: &v1::Phase,
    earlier: &BTreeMap<&str, usize>,
    path: &Path<'_>,
    violations: &mut Violations,
) {
    phase_name(&phase.name, &path.key("name"), violations);
    name(&phase.agent, "the agent", &path.key("agent"), violations);
    let references = References { own: &phase.name, has_items: phase.for_each.is_some(), earlier };
    if let Some(input) = &phase.input {
        references.template(input, &path.key("input"), violations);
    }
    if let Some(list) = &phase.for_each {
        References { has_items: false, ..references }.list(list, &path.key("for_each"), violations);
    }
    if let Some(output) = &phase.output {
        check_output(output, &path.key("output"), violations);
    }
    summary(phase, path, violations);
    optional_enum::<v1::Effect>(phase.effect, &path.key("effect"), violations);
}

/// Letters, digits, `_`, `-`: a dot would end the name in a reference and in the name of a task.
fn phase_name(name: &str, path: &Path<'_>, violations: &mut Violations) {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !(1..=PHASE_NAME_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
        let message = format!(
            "the name of a phase has 1 to {PHASE_NAME_MAX} letters, digits, `_` and `-`; not `{}`",
            shown(name)
        );
        violations.push(path, "name", message);
    }
}

fn check_output(output: &v1::OutputRule, path: &Path<'_>, violations: &mut Violations) {
    if output.checks.len() > CHECKS_MAX {
        let message = format!("{} checks; at most {CHECKS_MAX} are allowed", output.checks.len());
        violations.push(&path.key("checks"), "limit", message);
        return;
    }
    for (index, check) in output.checks.iter().enumerate() {
        if output.checks.iter().take(index).any(|before| before == check) {
            violations.push(&path.key("checks").index(index), "duplicate", "the check is there twice");
        }
        required_enum::<v1::OutputCheck>(*check, "the check", &path.key("checks").index(index), violations);
    }
}

fn summary(phase: &v1::Phase, path: &Path<'_>, violations: &mut Violations) {
    optional_enum::<v1::SummaryRule>(phase.summarize, &path.key("summarize"), violations);
    let list = &path.key("summary");
    if phase.summarize.is_some() && !phase.summary.is_empty() {
        violations.push(list, "exclusive", "a summary has keys or a rule, not both");
    }
    if phase.summary.len() > SUMMARY_KEYS_MAX {
        let message = format!("{} keys; at most {SUMMARY_KEYS_MAX} are allowed", phase.summary.len());
        violations.push(list, "limit", message);
        return;
    }
    for (index, key) in phase.summary.iter().enumerate() {
        if !(1..=KEY_MAX).contains(&key.len()) {
            violations.push(&list.index(index), "length", format!("a key has 1 to {KEY_MAX} bytes"));
        }
        if phase.summary.iter().take(index).any(|before| before == key) {
            violations.push(&list.index(index), "duplicate", format!("`{}` is there twice", shown(key)));
        }
    }
}

/// What the references of one phase may be about.
#[derive(Clone, Copy)]
struct References<'p> {
    own: &'p str,
    has_items: bool,
    earlier: &'p BTreeMap<&'p str, usize>,
}

impl References<'_> {
    fn template(&self, text: &str, path: &Path<'_>, violations: &mut Violations) {
        if text.len() > PHASE_INPUT_MAX {
            let message = format!("{} bytes; at most {PHASE_INPUT_MAX} are allowed", text.len());
            violations.push(path, "size", message);
            return;
        }
        match json::from_slice(text.as_bytes()) {
            Ok(value) if json::depth_is_within(&value, json::MAX_DEPTH) => {
                self.value(&value, path, violations)
            }
            Ok(_) => violations.push(path, "depth", "the input is nested too deep"),
            Err(violation) => violations.push(path, "syntax", violation.message),
        }
    }

    /// A text that is exactly one reference.
    fn list(&self, text: &str, path: &Path<'_>, violations: &mut Violations) {
        match scan_as(text, Grammar::Phases) {
            Ok(segments) => match segments.as_slice() {
                [Segment::Ref { task, .. }] => self.reference(task, path, violations),
                _ => {
                    violations.push(path, "reference", "a list is one reference, such as `${input.sources}`")
                }
            },
            Err(error) => violations.push(path, "malformed_reference", error.to_string()),
        }
    }

    fn value(&self, value: &Value, path: &Path<'_>, violations: &mut Violations) {
        match value {
            Value::String(text) => match scan_as(text, Grammar::Phases) {
                Ok(segments) => {
                    for segment in segments {
                        if let Segment::Ref { task, .. } = segment {
                            self.reference(task, path, violations);
                        }
                    }
                }
                Err(error) => violations.push(path, "malformed_reference", error.to_string()),
            },
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &path.index(index), violations);
                }
            }
            Value::Object(object) => {
                for (key, item) in object {
                    self.value(item, &path.key(key), violations);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn reference(&self, named: &str, path: &Path<'_>, violations: &mut Violations) {
        match named {
            "input" => {}
            "item" if self.has_items => {}
            "item" => {
                violations.push(path, "unknown_item", "there is an item only where the phase has `for_each`")
            }
            named => {
                let phase = named.rsplit_once('.').map_or(named, |(phase, _)| phase);
                if phase == self.own {
                    violations.push(path, "cyclic", "a phase cannot refer to itself");
                } else if !self.earlier.contains_key(phase) {
                    let message = format!("there is no phase `{}` before this one", shown(phase));
                    violations.push(path, "unknown_phase", message);
                }
            }
        }
    }
}

/// What a run of a pipeline works on: JSON.
pub(super) fn check_input(input: &v1::Payload, path: &Path<'_>, violations: &mut Violations) {
    payload::check(input, super::INLINE_MAX, path, violations);
    if let Some(Data::Blob(blob)) = &input.data
        && blob.size > PIPELINE_INPUT_MAX as u64
    {
        let message = format!("the input has {} bytes; at most {PIPELINE_INPUT_MAX} are allowed", blob.size);
        violations.push(path, "size", message);
    }
    if !is_json(&input.media_type) {
        let message = format!("the input is JSON, not {:?}", shown(&input.media_type));
        violations.push(&path.key("media_type"), "media_type", message);
    } else if let Some(Data::Inline(bytes)) = &input.data
        && bytes.len() <= super::INLINE_MAX
        && json::well_formed(bytes).is_ok()
        && let Err(violation) = json::from_slice(bytes)
    {
        // Such as a key that is there twice.
        violations.push(path, "syntax", violation.message);
    }
}
