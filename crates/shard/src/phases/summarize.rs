//! What of the outputs of a phase goes on to the phases after: the payload of its checkpoint.

use capataz_contracts::v1::{self, SummaryRule};
use capataz_engine::Summing;
use capataz_judge::JUDGED_MAX;
use capataz_policy::codes;
use capataz_policy::surfaces;
use serde_json::{Map, Value};

use super::{Budget, CHECKPOINT_MAX, Contents, Failed, READ_MAX, compose, payload_of, value_of};

/// Keys that a refusal names.
const KEYS_TOLD: usize = 3;

pub(super) fn summary(summing: &Summing, contents: &dyn Contents) -> Result<v1::Payload, Failed> {
    let mut outputs = Vec::with_capacity(summing.outputs.len());
    // Where keys go on, one output is in memory at a time; where a rule reads all of them, all are.
    let mut budget = Budget::default();
    for output in &summing.outputs {
        outputs.push(match summing.rule {
            SummaryRule::Surfaces => value_of(output, JUDGED_MAX, &mut budget, contents)?,
            SummaryRule::Unspecified => {
                let output = value_of(output, JUDGED_MAX, &mut Budget::default(), contents)?;
                let kept = Value::Object(of_keys(output, &summing.keys));
                let bytes = kept.to_string().len();
                if budget.take(bytes, 1).is_none() {
                    return Err(too_large(&Value::Array(outputs), READ_MAX));
                }
                kept
            }
        });
    }
    let summary = match summing.rule {
        SummaryRule::Surfaces => of_surfaces(summing, &outputs, contents)?,
        SummaryRule::Unspecified if summing.has_items => Value::Array(outputs),
        SummaryRule::Unspecified => outputs.into_iter().next().unwrap_or_default(),
    };
    let text = summary.to_string();
    if text.len() > CHECKPOINT_MAX {
        return Err(too_large(&summary, text.len()));
    }
    payload_of(text.as_bytes(), contents)
}

fn of_keys(output: Value, keys: &[String]) -> Map<String, Value> {
    let Value::Object(mut output) = output else { return Map::new() };
    keys.iter().filter_map(|key| output.remove_entry(key)).collect()
}

fn of_surfaces(summing: &Summing, outputs: &[Value], contents: &dyn Contents) -> Result<Value, Failed> {
    let inputs = match &summing.inputs {
        Some(composition) => compose::values(composition, contents)?,
        None => Vec::new(),
    };
    let entries = inputs.iter().zip(outputs).map(|(input, output)| surfaces::entry(input, output));
    surfaces::summarize(&Value::Array(entries.collect())).map_err(|violations| {
        let shown = violations.first().map(capataz_judge::shown).unwrap_or_default();
        Failed::from(codes::error(
            codes::VALIDATION_ERROR,
            format!("the surfaces cannot be summarized: {shown}"),
        ))
    })
}

/// The refusal of a summary that is no checkpoint, with its largest keys.
fn too_large(summary: &Value, bytes: usize) -> Failed {
    let objects = match summary {
        Value::Array(items) => items.iter().filter_map(Value::as_object).collect(),
        Value::Object(object) => vec![object],
        _ => Vec::new(),
    };
    let mut sizes: Map<String, Value> = Map::new();
    for (key, value) in objects.into_iter().flatten() {
        let before = sizes.get(key).and_then(Value::as_u64).unwrap_or(0);
        sizes.insert(key.clone(), (before + value.to_string().len() as u64).into());
    }
    let mut sizes: Vec<(u64, String)> =
        sizes.into_iter().map(|(key, size)| (size.as_u64().unwrap_or(0), key)).collect();
    sizes.sort_by(|one, other| other.cmp(one));
    let keys = sizes.iter().take(KEYS_TOLD).map(|(size, key)| format!("{key:?} {size}"));
    let keys = keys.collect::<Vec<_>>().join(", ");
    let message = format!(
        "the summary of the phase has {bytes} bytes, and a checkpoint at most {CHECKPOINT_MAX}; its largest keys: {keys}"
    );
    Failed::from(codes::error(codes::CHECKPOINT_TOO_LARGE, message))
}
