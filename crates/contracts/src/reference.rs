//! References from a task's JSON input to the outputs of earlier tasks.
//!
//! `${tasks.NAME.output}` is the whole output, `${tasks.NAME.output.a.0}` a value within it: objects by key, lists by
//! index from 0. NAME ends at the first `.output`, so a task whose own name holds `.output` cannot be referred to.
//! Every `${` begins a reference; `$${` stands for the characters `${`. Only strings are looked at, not keys.
//!
//! Phases of pipelines have a grammar of their own ([`Grammar::Phases`]): `${input}`, `${item}`, `${phases.NAME.summary}` and
//! `${phases.NAME.output}`, each of them with a path.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::braces::{self, Piece};
use crate::json::{depth_is_within, is_json};
use crate::path::{Path, shown};
use crate::v1;
use crate::violation::{Violation, Violations};

/// A piece of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Characters that stand for themselves, escapes already undone.
    Text(&'a str),
    /// A value of another task's output.
    Ref { task: &'a str, path: Vec<&'a str> },
}

/// What a reference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// Outputs of tasks, by the names of the tasks.
    Tasks,
    /// What a phase of a pipeline may be given: `input`, `item`, `NAME.summary` and `NAME.output`.
    Phases,
}

/// A `${` that begins no reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedReference {
    /// The reference as written, cut where it is long.
    pub text: String,
    reason: &'static str,
    grammar: Grammar,
}

impl fmt::Display for MalformedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, reason, grammar } = self;
        let right = match grammar {
            Grammar::Tasks => "${tasks.NAME.output}",
            Grammar::Phases => "${input}, ${item}, ${phases.NAME.summary} or ${phases.NAME.output}",
        };
        write!(
            f,
            "`{text}` is not a reference: {reason}; write {right}, or $${{ for the characters themselves"
        )
    }
}

impl std::error::Error for MalformedReference {}

/// How deep the value is nested at most that [`resolve`] gives: what a JSON reader with the usual limit still reads.
const DEEPEST: usize = 126;

/// The template that resolves to this value, whatever characters are in it. Walks without recursion.
#[must_use]
pub fn escaped(mut value: Value) -> Value {
    let mut open = vec![&mut value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.contains("${") => *text = text.replace("${", "$${"),
            Value::Array(items) => open.extend(items),
            Value::Object(object) => open.extend(object.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    value
}

/// Splits a string into text and references. The empty string has no segments.
///
/// # Errors
/// The first `${` that is neither escaped nor the beginning of a reference.
pub fn scan(text: &str) -> Result<Vec<Segment<'_>>, MalformedReference> {
    scan_as(text, Grammar::Tasks)
}

/// As [`scan`], in this grammar.
///
/// # Errors
/// As [`scan`].
pub fn scan_as(text: &str, grammar: Grammar) -> Result<Vec<Segment<'_>>, MalformedReference> {
    let malformed = |written, reason| MalformedReference { text: shown(written), reason, grammar };
    let parse = match grammar {
        Grammar::Tasks => parse_inner,
        Grammar::Phases => parse_phase,
    };
    let segments = braces::pieces(text).into_iter().map(|piece| match piece {
        Piece::Text(text) => Ok(Segment::Text(text)),
        Piece::Braced { inner, written } => parse(inner).map_err(|reason| malformed(written, reason)),
        Piece::Open(opening) => Err(malformed(opening, "the `}` is missing")),
    });
    segments.collect()
}

fn parse_inner(inner: &str) -> Result<Segment<'_>, &'static str> {
    let inner = inner.strip_prefix("tasks.").ok_or("it does not begin with `tasks.`")?;
    // A name has at least one character, so an `output` at the very beginning belongs to it.
    let (name_end, after) = inner
        .match_indices(".output")
        .map(|(start, found)| (start, start + found.len()))
        .find(|(start, end)| *start > 0 && matches!(inner.as_bytes().get(*end), None | Some(b'.')))
        .ok_or("`.output` is missing after the task's name")?;
    let task = inner.get(..name_end).unwrap_or_default();
    if !is_task_name(task) {
        return Err("the task's name has other characters than letters, digits, `.`, `_` and `-`");
    }
    Ok(Segment::Ref { task, path: path_of(inner.get(after..).unwrap_or_default())? })
}

/// A reference of a phase. The name of a phase has no dots.
fn parse_phase(inner: &str) -> Result<Segment<'_>, &'static str> {
    let (named, rest) = match inner.strip_prefix("phases.") {
        Some(rest) => {
            let mut dots = rest.match_indices('.').map(|(dot, _)| dot);
            let (first, second) = (dots.next().ok_or("`.summary` or `.output` is missing")?, dots.next());
            let named = rest.split_at(second.unwrap_or(rest.len()));
            let what = named.0.get(first..).unwrap_or_default();
            if first == 0 || !matches!(what, ".summary" | ".output") {
                return Err("`.summary` or `.output` is missing after the phase's name");
            }
            named
        }
        None => inner.split_at(inner.find('.').unwrap_or(inner.len())),
    };
    if !inner.starts_with("phases.") && !matches!(named, "input" | "item") {
        return Err("it begins with none of `input`, `item` and `phases.`");
    }
    if !is_task_name(named) {
        return Err("the phase's name has other characters than letters, digits, `_` and `-`");
    }
    Ok(Segment::Ref { task: named, path: path_of(rest)? })
}

/// The parts of a path, each with a dot in front of it.
fn path_of(rest: &str) -> Result<Vec<&str>, &'static str> {
    let path: Vec<&str> = match rest.strip_prefix('.') {
        None => Vec::new(),
        Some(path) => path.split('.').collect(),
    };
    if path.iter().any(|segment| segment.is_empty()) {
        return Err("a part of its path is empty");
    }
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '{' | '$' | '"');
    if path.iter().any(|segment| segment.contains(forbidden)) {
        return Err("its path has white space, quotes, `{` or `$`");
    }
    Ok(path)
}

/// Letters, digits, `.`, `_`, `-`; 1 to 128 characters.
pub(crate) fn is_task_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// The names of the tasks that an input refers to, none where it is no JSON of its own.
#[must_use]
pub fn tasks_of(input: &v1::Payload) -> BTreeSet<String> {
    let Some(v1::payload::Data::Inline(bytes)) = input.data.as_ref().filter(|_| is_json(&input.media_type))
    else {
        return BTreeSet::new();
    };
    serde_json::from_slice(bytes).map_or_else(|_| BTreeSet::new(), |template| tasks(&template))
}

fn tasks(template: &Value) -> BTreeSet<String> {
    names(template, Grammar::Tasks)
}

/// What the references of a value are about.
#[must_use]
pub fn names(template: &Value, grammar: Grammar) -> BTreeSet<String> {
    let (mut tasks, mut open) = (BTreeSet::new(), vec![template]);
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                let named =
                    scan_as(text, grammar).into_iter().flatten().filter_map(|segment| match segment {
                        Segment::Ref { task, .. } => Some(task.to_owned()),
                        Segment::Text(_) => None,
                    });
                tasks.extend(named);
            }
            Value::Array(items) => open.extend(items),
            Value::Object(object) => open.extend(object.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    tasks
}

/// Returns whether [`resolve`] would change the value: it holds a reference, an escape, or a malformed reference.
pub fn needs_resolving(template: &Value) -> bool {
    let mut open = vec![template];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) if text.contains("${") => return true,
            Value::Array(items) => open.extend(items),
            Value::Object(object) => open.extend(object.values()),
            _ => {}
        }
    }
    false
}

/// The value of `template` with each reference replaced; `lookup` gives a task's output.
///
/// A string that is exactly one reference becomes the value itself. Elsewhere values become text: strings as they are,
/// others as compact JSON. What is put in is taken from `room`, also where it is too much. `lookup` is called once for each
/// reference, and not any more when there was no room for a value.
///
/// # Errors
/// All that cannot be replaced, with the path of the string. Rules: `malformed_reference`; `unknown_task` where
/// `lookup` knows no output; `missing_path` where the output has no such value; `size` where the values together are
/// larger than the room; `depth` where template or result are nested too deep for a JSON reader.
pub fn resolve(template: &Value, room: &mut Room, lookup: &mut Lookup<'_>) -> Result<Value, Vec<Violation>> {
    resolve_as(template, Grammar::Tasks, room, lookup)
}

/// As [`resolve`], in this grammar.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_as(
    template: &Value,
    grammar: Grammar,
    room: &mut Room,
    lookup: &mut Lookup<'_>,
) -> Result<Value, Vec<Violation>> {
    let mut resolver = Resolver { grammar, lookup, violations: Violations::default(), room, is_full: false };
    if !depth_is_within(template, DEEPEST) {
        resolver.violations.push(&Path::Root, "depth", "the input is nested too deep");
        return Err(resolver.violations.into_vec());
    }
    let value = resolver.value(template, &Path::Root);
    if resolver.violations.is_empty() && !depth_is_within(&value, DEEPEST) {
        let message = "the input with its references replaced is nested too deep";
        resolver.violations.push(&Path::Root, "depth", message);
    }
    if resolver.violations.is_empty() { Ok(value) } else { Err(resolver.violations.into_vec()) }
}

/// How much may be put into a value in the places of its references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of text, and 4 for each value beside its characters.
    pub bytes: usize,
    /// Values, the inner ones included.
    pub values: usize,
}

impl Room {
    /// Takes as much as the value has; all that is left where it is too little. Returns whether it was enough.
    fn take(&mut self, value: &Value) -> bool {
        let Self { bytes, values } = size_of_value(value);
        let is_enough = bytes <= self.bytes && values <= self.values;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.values = self.values.saturating_sub(values);
        is_enough
    }
}

/// Gives a task's output, which many references may share.
pub type Lookup<'l> = dyn FnMut(&str) -> Option<Rc<Value>> + 'l;

struct Resolver<'l, 'f> {
    grammar: Grammar,
    lookup: &'l mut Lookup<'f>,
    violations: Violations,
    room: &'l mut Room,
    /// There was no room for a value.
    is_full: bool,
}

impl Resolver<'_, '_> {
    fn value(&mut self, template: &Value, path: &Path<'_>) -> Value {
        match template {
            Value::String(text) if text.contains("${") => self.text(text, path),
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| self.value(item, &path.index(index))).collect()
            }
            Value::Object(object) => Value::Object(
                object
                    .iter()
                    .map(|(key, item)| (key.clone(), self.value(item, &path.key(key))))
                    .collect::<Map<_, _>>(),
            ),
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, path: &Path<'_>) -> Value {
        let segments = match scan_as(text, self.grammar) {
            Ok(segments) => segments,
            Err(error) => {
                self.violations.push(path, "malformed_reference", error.to_string());
                return Value::Null;
            }
        };
        if let [Segment::Ref { task, path: within }] = segments.as_slice() {
            return self.find(task, within, path);
        }
        let mut result = String::with_capacity(text.len());
        for segment in &segments {
            match segment {
                Segment::Text(text) => result.push_str(text),
                Segment::Ref { task, path: within } => match self.find(task, within, path) {
                    Value::String(text) => result.push_str(&text),
                    other => result.push_str(&other.to_string()),
                },
            }
        }
        Value::String(result)
    }

    /// The value that a reference in the string at `path` stands for; `null` where there is none, which is recorded.
    fn find(&mut self, task: &str, within: &[&str], path: &Path<'_>) -> Value {
        if self.is_full {
            return Value::Null;
        }
        let Some(output) = (self.lookup)(task) else {
            let message = match self.grammar {
                Grammar::Tasks => format!("there is no output of the task `{task}`"),
                Grammar::Phases => format!("there is no `{task}`"),
            };
            self.violations.push(path, "unknown_task", message);
            return Value::Null;
        };
        let mut value = &*output;
        for segment in within {
            let Some(inner) = part(value, segment) else {
                let (segment, within) = (shown(segment), within.join("."));
                let message = match self.grammar {
                    Grammar::Tasks => {
                        format!("the output of the task `{task}` has no `{segment}` (in `{within}`)")
                    }
                    Grammar::Phases => format!("`{task}` has no `{segment}` (in `{within}`)"),
                };
                self.violations.push(path, "missing_path", message);
                return Value::Null;
            };
            value = inner;
        }
        if !self.room.take(value) {
            self.is_full = true;
            let message =
                "the values of the references are too large together; refer to parts of the outputs";
            self.violations.push(path, "size", message);
            return Value::Null;
        }
        value.clone()
    }
}

/// About as many bytes as the value takes as text, and how many values it is.
fn size_of_value(value: &Value) -> Room {
    // A number, a comma, a pair of brackets: what each value takes beside its characters.
    const EACH: usize = 4;
    let (mut size, mut values) = (0_usize, 0_usize);
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        values += 1;
        size = size.saturating_add(EACH);
        match value {
            Value::String(text) => size = size.saturating_add(text.len()),
            Value::Array(items) => open.extend(items),
            Value::Object(object) => {
                size = object.keys().fold(size, |size, key| size.saturating_add(key.len()));
                open.extend(object.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    Room { bytes: size, values }
}

/// What of a value one part of a path names.
fn part<'v>(value: &'v Value, segment: &str) -> Option<&'v Value> {
    match value {
        Value::Object(object) => object.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    }
}

/// A list index as it is written: `0`, `12`, not `+1` or `01`.
fn index(segment: &str) -> Option<usize> {
    let canonical = segment == "0" || !segment.starts_with(['0', '+']);
    if canonical { segment.parse().ok() } else { None }
}
