//! What becomes of an output that is not what it has to be: the next attempt is told what was wrong.

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, SchemaViolation, event::Body, payload::Data};
use capataz_contracts::validate::INLINE_MAX;
use capataz_policy::codes;
use serde_json::{Map, Value, json};

use super::{Meaning, Verdict};
use crate::decide::judge;
use crate::fold::state::RunState;
use crate::input::TaskRef;

/// Characters of what is told of an output that nobody could read.
const FOUND_MAX: usize = 200;
/// Bytes of an output that is given back with what is wrong with it.
const OUTPUT_MAX: usize = 16 * 1024;

/// A failed attempt, of which the next one is told nothing.
pub(super) fn failed(run: &RunState, task: TaskRef, violations: &[SchemaViolation]) -> Verdict {
    let error = judge::broken(violations);
    match judge::is_unjudged(violations) {
        true => judge::unjudged(error, run.plan.task(task).is_some_and(|declared| declared.at_most_once)),
        false => Verdict::attempt_failed(error),
    }
}

/// An output that breaks its schema. `corrected` is what the next attempt is given.
pub(super) fn judged(
    run: &RunState,
    task: TaskRef,
    violations: Vec<SchemaViolation>,
    corrected: Option<v1::Payload>,
) -> Verdict {
    // Nothing is wrong with what nobody could judge.
    if judge::is_unjudged(&violations) {
        return failed(run, task, &violations);
    }
    let error = judge::broken(&violations);
    let attempt = attempt_of(run, task);
    let input = corrected.filter(|_| attempt < run.plan.retry_of(task).max_attempts());
    let rejected = v1::OutputRejected { wave: task.wave, task: task.task, attempt, violations, input };
    Verdict {
        record: vec![Body::OutputRejected(rejected)],
        meaning: Meaning::AttemptFailed { error, output: None, may_pass: Some(true) },
    }
}

/// An output that passes its schema, and is wrong all the same.
pub(super) fn rejected(
    run: &RunState,
    task: TaskRef,
    violations: Vec<SchemaViolation>,
    output: Option<&v1::Payload>,
) -> Verdict {
    let corrected = corrected(run, task, &violations, output);
    judged(run, task, violations, corrected)
}

/// Returns whether the log has room for what the next attempt is given where this is wrong.
pub(crate) fn fits(
    run: &RunState,
    task: TaskRef,
    violations: &[SchemaViolation],
    output: Option<&v1::Payload>,
) -> bool {
    corrected(run, task, violations, output).is_some()
}

fn corrected(
    run: &RunState,
    task: TaskRef,
    violations: &[SchemaViolation],
    output: Option<&v1::Payload>,
) -> Option<v1::Payload> {
    let given = run.plan.task(task).and_then(|declared| declared.input.as_ref())?;
    let attempt = attempt_of(run, task);
    let whole = with_correction(given, attempt, violations, output);
    whole.or_else(|| with_correction(given, attempt, violations, None))
}

/// What is wrong with an output that is no JSON, so that nobody could judge it; none where the error is another one.
pub(super) fn of_unread(error: &v1::Error) -> Vec<SchemaViolation> {
    let violation = || SchemaViolation {
        path: String::new(),
        rule: "syntax".to_owned(),
        expected: "JSON".to_owned(),
        found: error.message.chars().take(FOUND_MAX).collect(),
    };
    (error.code == codes::INVALID_OUTPUT.as_str()).then(violation).into_iter().collect()
}

fn attempt_of(run: &RunState, task: TaskRef) -> u32 {
    run.activity(task).map_or(0, |activity| activity.attempt)
}

/// An input with what was wrong, where it is small enough to be in the log.
fn with_correction(
    given: &v1::Payload,
    attempt: u32,
    wrong: &[SchemaViolation],
    output: Option<&v1::Payload>,
) -> Option<v1::Payload> {
    let Some(Data::Inline(text)) = &given.data else { return None };
    let mut input = match serde_json::from_slice(text).ok()? {
        Value::Object(object) => object,
        other => Map::from_iter([("input".to_owned(), other)]),
    };
    let violations = wrong.iter().map(|violation| {
        let SchemaViolation { path, rule, expected, found } = violation;
        json!({ "path": path, "rule": rule, "expected": expected, "found": found })
    });
    let mut correction = Map::from_iter([
        ("attempt".to_owned(), json!(attempt)),
        ("violations".to_owned(), violations.collect()),
    ]);
    if let Some(Data::Inline(text)) = output.and_then(|output| output.data.as_ref())
        && text.len() <= OUTPUT_MAX
        && let Ok(output) = serde_json::from_slice::<Value>(text)
    {
        correction.insert("output".to_owned(), output);
    }
    input.insert("correction".to_owned(), Value::Object(correction));
    let text = Value::Object(input).to_string();
    (text.len() <= INLINE_MAX).then(|| v1::Payload {
        media_type: JSON_MEDIA_TYPE.to_owned(),
        data: Some(Data::Inline(text.into())),
    })
}
