//! What runs want to know of payloads: verdicts on values, inputs of phases and of tasks, summaries of outputs, prompts. Pure
//! but for the contents of blobs, and alike for the shell, the simulator and tests; a thread beside the shards' computes it.

mod compose;
mod correct;
mod mode;
mod resolve;
mod summarize;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use capataz_contracts::json;
use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, OutputCheck, SchemaViolation, payload::Data};
use capataz_contracts::validate::{INLINE_MAX, PIPELINE_INPUT_MAX};
use capataz_engine::{Computed, Judgement, Query, Rule, UNJUDGED, Verdict, Wanted};
use capataz_judge::{JUDGED_MAX, Schema};
use capataz_policy::codes;
use capataz_policy::surfaces;
use serde_json::Value;

/// The most bytes of the summary of a phase: it is the payload of its checkpoint (CONTRACTS §4).
pub const CHECKPOINT_MAX: usize = 32 * 1024;
/// The most bytes of what the tasks of one phase are given together.
pub const INPUTS_MAX: usize = 16 * 1024 * 1024;
/// The most bytes that one query reads.
const READ_MAX: usize = 16 * 1024 * 1024;
/// The most values, the inner ones included, of all that one query reads.
const VALUES_MAX: usize = 1_000_000;

pub use mode::{Entry, recall};

/// Contents of payloads that are not inline, and what else only the store and the shell know.
pub trait Contents {
    /// The contents of a blob of at most so many bytes.
    ///
    /// # Errors
    /// Why there are none.
    fn read(&self, blob: &v1::BlobRef, most: usize) -> Result<Vec<u8>, Unread>;

    /// Keeps contents as a blob.
    ///
    /// # Errors
    /// [`Unread::Unavailable`].
    fn keep(&self, contents: &[u8]) -> Result<v1::BlobRef, Unread>;

    /// The entries of a session's memory that may be told, in their order.
    ///
    /// # Errors
    /// [`Unread::Unavailable`].
    fn recall(&self, wanted: &Wanted) -> Result<Vec<Entry>, Unread>;

    /// The tokens of a text, as models count them.
    fn tokens(&self, text: &str) -> u32;

    /// Microseconds since some moment, by a clock that only goes forward; for measuring.
    fn now(&self) -> u64;

    /// A schema that can judge; the same ones are asked for again and again.
    ///
    /// # Errors
    /// The violation of every value by a text that is no schema.
    fn compiled(&self, schema: &str) -> Result<Arc<Schema>, SchemaViolation> {
        capataz_judge::compiled(schema).map(Arc::new)
    }
}

/// Why there are no contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    Missing,
    TooLarge {
        size: u64,
    },
    /// It may be there later.
    Unavailable,
}

/// The contents cannot be read or kept now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the contents of a blob cannot be read or written now")]
pub struct Unavailable;

/// Why nothing was computed.
enum Failed {
    Unavailable,
    With(Box<v1::Error>),
}

impl From<v1::Error> for Failed {
    fn from(error: v1::Error) -> Self {
        Self::With(Box::new(error))
    }
}

/// Computes what a phase wants to know; `None` where the query asks for something else.
///
/// # Errors
/// [`Unavailable`]: it may be computed later.
pub fn compute(query: &Query, contents: &dyn Contents) -> Result<Option<Computed>, Unavailable> {
    let computed = match query {
        Query::Compose(composition) => compose::inputs(composition, contents).map(Computed::Inputs),
        Query::Resolve(resolving) => resolve::inputs(resolving, contents).map(Computed::Resolved),
        Query::Summarize(summing) => summarize::summary(summing, contents).map(Computed::Summary),
        Query::Prompt(prompting) => {
            // Whether somebody serves them is known where the answer arrives.
            let absent = prompting.tools.clone();
            mode::prompt(prompting, contents).map(|(prompt, recalled)| Computed::Prompt {
                prompt,
                recalled,
                absent,
            })
        }
        Query::Observe(seen) => mode::observe(seen, contents).map(Computed::Observed),
        Query::Route { .. } | Query::Judge(_) => return Ok(None),
    };
    match computed {
        Ok(computed) => Ok(Some(computed)),
        Err(Failed::With(error)) => Ok(Some(Computed::Failed(*error))),
        Err(Failed::Unavailable) => Err(Unavailable),
    }
}

/// The answer where nothing could be computed for too long.
#[must_use]
pub fn not_computed() -> Computed {
    Computed::Failed(codes::error(codes::SERVICE_UNAVAILABLE, Unavailable.to_string()))
}

/// Judges, and says what was judged.
///
/// # Errors
/// [`Unavailable`]: it may be judged later.
pub fn verdict(judged: Judgement, contents: &dyn Contents) -> Result<Verdict, Unavailable> {
    if !judged.found.is_empty() {
        let found = judged.found.clone();
        let text = match &judged.value.data {
            None => None,
            Some(_) => match text_of(&judged.value, JUDGED_MAX, contents) {
                Ok(text) => Some(text.into_owned()),
                Err(Unread::Unavailable) => return Err(Unavailable),
                Err(Unread::Missing | Unread::TooLarge { .. }) => None,
            },
        };
        return rejected(judged, text.as_deref(), found, contents);
    }
    let text = match text_of(&judged.value, JUDGED_MAX, contents) {
        Ok(text) => text.into_owned(),
        Err(Unread::Unavailable) => return Err(Unavailable),
        Err(Unread::Missing) => {
            let violation = violation("blob", "a blob that is there", "one that is not".to_owned());
            return Ok(Verdict::on(judged, vec![violation]));
        }
        Err(Unread::TooLarge { size }) => {
            let expected = format!("at most {JUDGED_MAX} bytes");
            let violations = vec![violation("size", &expected, format!("{size} bytes"))];
            return rejected(judged, None, violations, contents);
        }
    };
    let mut schemas = Vec::with_capacity(judged.schemas.len());
    for schema in &judged.schemas {
        match contents.compiled(schema) {
            Ok(schema) => schemas.push(schema),
            Err(violation) => return Ok(Verdict::on(judged, vec![violation])),
        }
    }
    let judge = |text: &[u8]| {
        let found =
            schemas.iter().map(|schema| capataz_judge::judge_by(schema, &judged.value.media_type, text));
        found.into_iter().find(|violations| !violations.is_empty()).unwrap_or_default()
    };
    let Some(rule) = judged.rule.clone() else {
        let violations = judge(&text);
        return Ok(Verdict::on(judged, violations));
    };
    let lowered = lowered(&schemas, &text);
    let counted = lowered.as_deref().unwrap_or(&text);
    let mut violations = match schemas.as_slice() {
        [] => capataz_judge::judge("true", &judged.value.media_type, counted),
        _ => judge(counted),
    };
    if violations.is_empty() && !rule.checks.is_empty() {
        violations = checked(&rule, counted, contents)?;
    }
    if !violations.is_empty() {
        return rejected(judged, Some(&text), violations, contents);
    }
    let value = match lowered {
        Some(lowered) => match payload_of(&lowered, contents) {
            Ok(payload) => Some(payload),
            Err(_) => return Err(Unavailable),
        },
        None => None,
    };
    Ok(Verdict { value, ..Verdict::on(judged, Vec::new()) })
}

/// The verdict where nothing could be judged for too long.
#[must_use]
pub fn unjudged(judged: Judgement) -> Verdict {
    let violation = violation(UNJUDGED, "a value that can be judged", Unavailable.to_string());
    Verdict::on(judged, vec![violation])
}

/// The text with everything in lower case that its schemas mark; `None` where that is the text itself.
fn lowered(schemas: &[Arc<Schema>], text: &[u8]) -> Option<Vec<u8>> {
    let mut lowered: Option<Vec<u8>> = None;
    for schema in schemas {
        if let Some(changed) = schema.lowered(lowered.as_deref().unwrap_or(text)) {
            lowered = Some(changed);
        }
    }
    lowered
}

/// What a schema cannot say.
fn checked(rule: &Rule, text: &[u8], contents: &dyn Contents) -> Result<Vec<SchemaViolation>, Unavailable> {
    // It has passed a schema, or is JSON at least.
    let Ok(output) = json::from_slice(text) else { return Ok(Vec::new()) };
    let input = match rule
        .input
        .as_ref()
        .map(|input| value_of(input, PIPELINE_INPUT_MAX, &mut Budget::default(), contents))
    {
        Some(Ok(input)) => Some(input),
        Some(Err(Failed::Unavailable)) => return Err(Unavailable),
        // The task was given it as it is.
        Some(Err(Failed::With(_))) | None => None,
    };
    for check in &rule.checks {
        let violations = match OutputCheck::try_from(*check) {
            Ok(OutputCheck::SourceContext) => surfaces::check_source_context(&output, input.as_ref()),
            Ok(OutputCheck::Unspecified) | Err(_) => Vec::new(),
        };
        if !violations.is_empty() {
            return Ok(violations);
        }
    }
    Ok(Vec::new())
}

fn rejected(
    judged: Judgement,
    text: Option<&[u8]>,
    violations: Vec<SchemaViolation>,
    contents: &dyn Contents,
) -> Result<Verdict, Unavailable> {
    let corrected = match &judged.rule {
        Some(rule) => correct::input(rule, text, &violations, contents)?,
        None => None,
    };
    Ok(Verdict { corrected, ..Verdict::on(judged, violations) })
}

fn violation(rule: &str, expected: &str, found: String) -> SchemaViolation {
    SchemaViolation { path: String::new(), rule: rule.to_owned(), expected: expected.to_owned(), found }
}

/// What is left of what one query may read.
struct Budget {
    bytes: usize,
    values: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: READ_MAX, values: VALUES_MAX }
    }
}

impl Budget {
    /// Takes so much; `None` where it is more than there is.
    fn take(&mut self, bytes: usize, values: usize) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        self.values = self.values.checked_sub(values)?;
        Some(())
    }
}

/// The text of a payload.
fn text_of<'p>(
    payload: &'p v1::Payload,
    most: usize,
    contents: &dyn Contents,
) -> Result<Cow<'p, [u8]>, Unread> {
    match &payload.data {
        None => Ok(Cow::Borrowed(b"null")),
        Some(Data::Inline(text)) => Ok(Cow::Borrowed(text)),
        Some(Data::Blob(blob)) => contents.read(blob, most).map(Cow::Owned),
    }
}

/// The value of a payload of JSON.
fn value_of(
    payload: &v1::Payload,
    most: usize,
    budget: &mut Budget,
    contents: &dyn Contents,
) -> Result<Value, Failed> {
    let text = text_to_read(payload, most, contents)?;
    // Before each value but the first there is one of these.
    let values = 1 + text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if budget.take(text.len(), values).is_none() {
        return Err(unresolved(format!(
            "it is made of more than {READ_MAX} bytes or {VALUES_MAX} values of JSON; refer to less"
        )));
    }
    json::from_slice(&text).map_err(|violation| unresolved(format!("no JSON: {}", violation.message)))
}

/// The text of a payload that is no JSON, as a value.
fn text_value_of(
    payload: &v1::Payload,
    most: usize,
    budget: &mut Budget,
    contents: &dyn Contents,
) -> Result<Value, Failed> {
    let text = text_to_read(payload, most, contents)?;
    if budget.take(text.len(), 1).is_none() {
        return Err(unresolved(format!("it is made of more than {READ_MAX} bytes; refer to less")));
    }
    match std::str::from_utf8(&text) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(unresolved("an output that is referred to is neither JSON nor text".to_owned())),
    }
}

/// The text of what an input is made of.
fn text_to_read<'p>(
    payload: &'p v1::Payload,
    most: usize,
    contents: &dyn Contents,
) -> Result<Cow<'p, [u8]>, Failed> {
    text_of(payload, most, contents).map_err(|unread| match unread {
        Unread::Unavailable => Failed::Unavailable,
        Unread::Missing => unresolved("a blob is gone that an input is made of".to_owned()),
        Unread::TooLarge { size } => {
            unresolved(format!("an input is made of a blob of {size} bytes, and of at most {most}"))
        }
    })
}

fn unresolved(message: String) -> Failed {
    Failed::from(codes::error(codes::INPUT_UNRESOLVED, message))
}

/// A payload of JSON: inline where it is small enough, else a blob.
fn payload_of(text: &[u8], contents: &dyn Contents) -> Result<v1::Payload, Failed> {
    payload_within(text, INLINE_MAX, contents)
}

/// A payload of JSON: inline where it has at most so many bytes, else a blob.
fn payload_within(text: &[u8], most: usize, contents: &dyn Contents) -> Result<v1::Payload, Failed> {
    let data = if text.len() <= most {
        Data::Inline(text.to_vec().into())
    } else {
        Data::Blob(contents.keep(text).map_err(|_| Failed::Unavailable)?)
    };
    Ok(v1::Payload { media_type: JSON_MEDIA_TYPE.to_owned(), data: Some(data) })
}
