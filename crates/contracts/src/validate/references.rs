//! References between tasks: they exist and point back in time.

use serde_json::Value;

use super::plan::WaveOfTask;
use crate::json::is_json;
use crate::path::Path;
use crate::reference::{Segment, scan};
use crate::v1;
use crate::v1::payload::Data;
use crate::violation::Violations;

/// Where the references of one task may point.
struct Scope<'p> {
    task: &'p str,
    wave: usize,
    wave_of_task: &'p WaveOfTask<'p>,
}

/// `path` is that of the waves.
pub fn check(plan: &v1::Plan, wave_of_task: &WaveOfTask<'_>, path: &Path<'_>, violations: &mut Violations) {
    for (wave_index, wave) in plan.waves.iter().enumerate() {
        let path = &path.index(wave_index);
        let path = &path.key("tasks");
        for (task_index, task) in wave.tasks.iter().enumerate() {
            let Some(input) = task.input.as_ref().and_then(json_input) else { continue };
            let path = &path.index(task_index);
            let scope = Scope { task: &task.name, wave: wave_index, wave_of_task };
            scope.value(&input, &path.key("input"), violations);
        }
    }
}

/// The input where it is JSON and may hold a reference. What does not parse has been reported already, and what is too
/// large is not looked at.
fn json_input(payload: &v1::Payload) -> Option<Value> {
    match &payload.data {
        Some(Data::Inline(bytes)) if is_json(&payload.media_type) && bytes.len() <= super::INLINE_MAX => {
            // `$` and `{` may also be written as \u0024 and \u007b.
            let may_refer = bytes.windows(2).any(|pair| pair == b"${" || pair == b"\\u");
            may_refer.then(|| serde_json::from_slice(bytes).ok()).flatten()
        }
        _ => None,
    }
}

impl Scope<'_> {
    fn value(&self, value: &Value, path: &Path<'_>, violations: &mut Violations) {
        match value {
            Value::String(text) => self.text(text, path, violations),
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

    fn text(&self, text: &str, path: &Path<'_>, violations: &mut Violations) {
        let segments = match scan(text) {
            Ok(segments) => segments,
            Err(error) => {
                violations.push(path, "malformed_reference", error.to_string());
                return;
            }
        };
        for segment in segments {
            let Segment::Ref { task, .. } = segment else { continue };
            match self.wave_of_task.get(task) {
                None => {
                    violations.push(path, "unknown_task", format!("there is no task `{task}` in the plan"))
                }
                Some(_) if task == self.task => {
                    violations.push(path, "cyclic", "a task cannot refer to its own output");
                }
                Some(wave) if *wave >= self.wave => {
                    let place = if *wave == self.wave { "the same" } else { "a later" };
                    let message = format!("`{task}` is in {place} wave; only earlier waves have outputs");
                    violations.push(path, "cyclic", message);
                }
                Some(_) => {}
            }
        }
    }
}
