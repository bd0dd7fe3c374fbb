//! Durations as a document has them. Rules name the field and its milliseconds, and people write a key without `_ms`, and units.

use serde_json::{Map, Value};

use crate::path::shown;
use crate::violation::Violation;
use crate::{duration, json};

/// Has a violation at a duration with units speak of it as the document does: by its key there, and by its text.
pub(crate) fn tell(violation: &mut Violation, document: &Value) {
    let Some((path, text)) = duration_at(document, &violation.path) else { return };
    violation.path = path;
    let Ok(milliseconds) = duration::parse(text) else { return };
    if let Some(said) = violation.message.strip_suffix(&format!("not {milliseconds} ms")) {
        violation.message = format!("{said}not {}", shown(text));
    }
}

/// The path of the duration in the document, and its text; `None` where the place has no text of a duration. A map's keys
/// that are not plain are not followed: no duration is below them.
fn duration_at<'d>(document: &'d Value, path: &str) -> Option<(String, &'d str)> {
    let (parents, field) =
        path.rsplit_once('.').map_or((None, path), |(parents, field)| (Some(parents), field));
    let (mut value, mut written) = (document, String::new());
    for part in parents.into_iter().flat_map(|parents| parents.split('.')) {
        let (name, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        let (key, below) = entry(value.as_object()?, name)?;
        value = below;
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            value = value.get(index.parse::<usize>().ok()?)?;
        }
        written.push_str(&format!("{key}{indices}."));
    }
    let (key, text) = entry(value.as_object()?, field.strip_suffix("_ms")?)?;
    Some((format!("{written}{key}"), text.as_str()?))
}

/// What an object has under the name of a field, or under its other name.
fn entry<'d>(object: &'d Map<String, Value>, name: &str) -> Option<(&'d str, &'d Value)> {
    let found = [name.to_owned(), json::camel_case(name)].into_iter().find_map(|name| {
        let (key, value) = object.get_key_value(&name)?;
        (!value.is_null()).then_some((key, value))
    });
    found.map(|(key, value)| (key.as_str(), value))
}
