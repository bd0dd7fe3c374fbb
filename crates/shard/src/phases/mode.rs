//! What an execution wants to know of payloads and of memory: its prompts, and what the results of its tools come to.

use capataz_contracts::validate::INLINE_MAX;
use capataz_contracts::{json, v1};
use capataz_engine::{Observation, Observing, Prompting, Wanted};
use capataz_judge::{JUDGED_MAX, same};
use capataz_policy::mode as policy;
use capataz_store::{FoundEntry, MemoryOrder, Millis, Recall, Store, StoreError};
use serde_json::{Map, Value, json};

use super::{Budget, Contents, Failed, payload_of, text_value_of, value_of};
use crate::projection::mode_name;

/// Bytes of a result that a prompt tells in whole.
const RESULT_MAX: usize = 16 * 1024;
/// Bytes of the content of an entry of memory.
const CONTENT_MAX: usize = 2_000;
/// Bytes of a value in a digest.
const VALUE_MAX: usize = 24;

/// An entry of a session's memory, as it is recalled.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub id: String,
    /// As a prompt tells it, without its content.
    pub told: Value,
    pub content: String,
    pub digest: String,
}

/// The entries that are wanted of a store (seed 004, `getRelevantMemory`).
///
/// # Errors
/// The store cannot be read.
pub fn recall(store: &dyn Store, wanted: &Wanted) -> Result<Vec<Entry>, StoreError> {
    let mode = mode_name(wanted.mode).unwrap_or_default();
    let order = match policy::recalls_by_relevance(wanted.mode) {
        true => MemoryOrder::MostRelevantFirst,
        false => MemoryOrder::NewestFirst,
    };
    let found = store.recall(&Recall {
        session: &wanted.session,
        mode,
        kinds: policy::recalled_types(wanted.mode),
        since: Millis(wanted.since_ms),
        order,
        limit: usize::try_from(wanted.entries).unwrap_or(usize::MAX),
    })?;
    Ok(found.into_iter().map(told_of).collect())
}

fn told_of(found: FoundEntry) -> Entry {
    let FoundEntry { id, relevance, entry, .. } = found;
    let told = json!({
        "id": &id,
        "type": entry.kind,
        "timestamp": entry.at.0,
        "tools": entry.tools,
        "files": entry.files,
        "relevance": relevance,
    });
    Entry { id, told, content: entry.content, digest: entry.digest }
}

/// The prompt, and what was recalled for it.
pub(super) fn prompt(
    prompting: &Prompting,
    contents: &dyn Contents,
) -> Result<(v1::Payload, v1::Recalled), Failed> {
    let mut prompt = json::from_slice(prompting.prompt.as_bytes()).map_err(|_| Failed::Unavailable)?;
    for (place, output) in &prompting.results {
        if let Some(hole) = prompt.pointer_mut(place) {
            *hole = told(output, contents)?;
        }
    }
    let begun = contents.now();
    let entries = contents.recall(&prompting.recall).map_err(|_| Failed::Unavailable)?;
    let (memory, mut recalled) = fitting(entries, prompting.recall.tokens, contents);
    recalled.took_us = contents.now().saturating_sub(begun);
    if let Some(hole) = prompt.get_mut("memory") {
        *hole = Value::Array(memory);
    }
    Ok((payload_of(prompt.to_string().as_bytes(), contents)?, recalled))
}

/// An output in a prompt: in whole where it is small, else how large it is.
fn told(output: &v1::Payload, contents: &dyn Contents) -> Result<Value, Failed> {
    let bytes = match &output.data {
        None => 0,
        Some(v1::payload::Data::Inline(text)) => text.len() as u64,
        Some(v1::payload::Data::Blob(blob)) => blob.size,
    };
    if bytes > RESULT_MAX as u64 {
        return Ok(json!({ "omitted": true, "bytes": bytes }));
    }
    match value_of(output, RESULT_MAX, &mut Budget::default(), contents) {
        Ok(value) => Ok(value),
        Err(Failed::Unavailable) => Err(Failed::Unavailable),
        // It is no JSON.
        Err(Failed::With(_)) => Ok(text_of(output)),
    }
}

fn text_of(output: &v1::Payload) -> Value {
    match &output.data {
        Some(v1::payload::Data::Inline(text)) => String::from_utf8_lossy(text).into_owned().into(),
        Some(v1::payload::Data::Blob(_)) | None => Value::Null,
    }
}

/// The entries that so many tokens have room for, in their order: in whole, else as their digest, else not at all (CONTRACTS §5).
fn fitting(entries: Vec<Entry>, most: u32, contents: &dyn Contents) -> (Vec<Value>, v1::Recalled) {
    let mut recalled = v1::Recalled::default();
    let mut memory = Vec::new();
    for entry in entries {
        let whole = contents.tokens(&entry.content);
        let room = most.saturating_sub(recalled.tokens);
        let (text, tokens) = if whole <= room {
            (entry.content, whole)
        } else {
            let digest = contents.tokens(&entry.digest);
            if digest > room || entry.digest.is_empty() {
                recalled.skipped.push(entry.id);
                continue;
            }
            recalled.digests.push(entry.id.clone());
            recalled.digest_tokens = recalled.digest_tokens.saturating_add(digest);
            recalled.digest_source_tokens = recalled.digest_source_tokens.saturating_add(whole);
            (entry.digest, digest)
        };
        recalled.tokens = recalled.tokens.saturating_add(tokens);
        recalled.source_tokens = recalled.source_tokens.saturating_add(whole);
        let mut told = entry.told;
        if let Some(told) = told.as_object_mut() {
            told.insert("content".to_owned(), text.into());
        }
        memory.push(told);
        recalled.entries.push(entry.id);
    }
    (memory, recalled)
}

/// Whether a result is what was expected, and what is kept of it.
pub(super) fn observe(seen: &Observation, contents: &dyn Contents) -> Result<Observing, Failed> {
    let output = match &seen.output {
        None => Some(Value::Null),
        Some(output) => looked_at(output, contents)?,
    };
    let as_expected = is_expected(seen.expected.as_deref(), seen.error.as_ref(), output.as_ref(), contents);
    Ok(Observing {
        as_expected,
        content: content(seen, output.as_ref()),
        digest: digest(seen, output.as_ref(), contents),
    })
}

/// An output as a value; `None` where it is larger than what is looked at, or a blob that is neither JSON nor text.
fn looked_at(output: &v1::Payload, contents: &dyn Contents) -> Result<Option<Value>, Failed> {
    let value = value_of(output, JUDGED_MAX, &mut Budget::default(), contents);
    let value = match value {
        Err(Failed::With(_)) => text_value_of(output, JUDGED_MAX, &mut Budget::default(), contents),
        value => value,
    };
    match value {
        Ok(value) => Ok(Some(value)),
        Err(Failed::Unavailable) => Err(Failed::Unavailable),
        Err(Failed::With(_)) => Ok(Some(text_of(output)).filter(|text| !text.is_null())),
    }
}

/// Whether a result is what was expected (CONTRACTS §5): an error is only where it was to be one, and the tool has told it.
fn is_expected(
    expected: Option<&str>,
    error: Option<&v1::Error>,
    output: Option<&Value>,
    contents: &dyn Contents,
) -> bool {
    let Some(Ok(Value::Object(expected))) = expected.map(serde_json::from_str::<Value>) else {
        // Words mean success.
        return error.is_none();
    };
    match (expected.iter().next(), error) {
        (Some((key, value)), error) if key == "success" => {
            let is_to_fail = value == &Value::Bool(false);
            error.map_or(!is_to_fail, |error| is_to_fail && policy::is_told_by_tool(error))
        }
        (_, Some(_)) => false,
        (Some((key, value)), None) => fits(key, value, output, contents),
        (None, None) => true,
    }
}

/// Whether an output is what was expected. What cannot be looked at is nothing that is expected, and nothing contains no text.
fn fits(key: &str, expected: &Value, output: Option<&Value>, contents: &dyn Contents) -> bool {
    let Some(output) = output else { return false };
    match key {
        "equals" => same(expected, output),
        "contains" => {
            let part = expected.as_str().unwrap_or_default();
            match output {
                Value::Null => false,
                Value::String(text) => text.contains(part),
                other => other.to_string().contains(part),
            }
        }
        "schema" => contents
            .compiled(&expected.to_string())
            .is_ok_and(|schema| schema.judge(output.to_string().as_bytes()).is_empty()),
        _ => true,
    }
}

/// What a person reads of a result in memory.
fn content(seen: &Observation, output: Option<&Value>) -> String {
    let result = match (&seen.error, output) {
        (Some(error), _) => {
            json!({ "tool": seen.tool, "error": { "code": error.code, "message": error.message } })
        }
        (None, Some(output)) => json!({ "tool": seen.tool, "output": output }),
        (None, None) => json!({ "tool": seen.tool, "output": { "omitted": true } }),
    };
    let text = result.to_string();
    if text.len() <= CONTENT_MAX {
        return text;
    }
    let end = text.floor_char_boundary(CONTENT_MAX.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// The tool, what it was given, what came of it and the code of its error, in as many tokens as a digest may have: what does
/// not fit is left out, and nothing is cut (CONTRACTS §5).
fn digest(seen: &Observation, output: Option<&Value>, contents: &dyn Contents) -> String {
    let mut parts = vec![match &seen.error {
        Some(error) => format!("{} failed: {}", seen.tool, error.code),
        None => format!("{}: ok", seen.tool),
    }];
    let parameters: Value = serde_json::from_str(&seen.parameters).unwrap_or_default();
    let values = [parameters.as_object(), output.and_then(Value::as_object)];
    parts.extend(values.into_iter().flatten().flat_map(scalars));
    let mut digest = String::new();
    for part in parts {
        let longer = if digest.is_empty() { part } else { format!("{digest}; {part}") };
        if contents.tokens(&longer) <= seen.most_tokens {
            digest = longer;
        } else if digest.is_empty() {
            // Nothing is told without what it is about.
            break;
        }
    }
    digest
}

/// Entries of an object that are short.
fn scalars(object: &Map<String, Value>) -> impl Iterator<Item = String> {
    object.iter().filter_map(|(key, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        (key.len() <= VALUE_MAX && text.len() <= VALUE_MAX).then(|| format!("{key}={text}"))
    })
}

const _: () = assert!(RESULT_MAX < INLINE_MAX);
