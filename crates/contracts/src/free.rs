//! The free parts of asks and sessions: JSON objects that are written in two fields, the entries whose values are texts in a
//! map, and all others in the text of an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::json;
use crate::v1;

/// The entries of both fields. A key that is in both has the value of the object.
#[must_use]
pub fn entries(texts: &BTreeMap<String, String>, object: Option<&str>) -> Map<String, Value> {
    let mut entries: Map<String, Value> =
        texts.iter().map(|(key, text)| (key.clone(), Value::String(text.clone()))).collect();
    entries.extend(object.and_then(object_of).unwrap_or_default());
    entries
}

/// The entries as the two fields have them; no object where every value is a text.
#[must_use]
pub fn divide(entries: Map<String, Value>) -> (BTreeMap<String, String>, Option<String>) {
    let mut texts = BTreeMap::new();
    let mut others = Map::new();
    for (key, value) in entries {
        match value {
            Value::String(text) => {
                texts.insert(key, text);
            }
            other => {
                others.insert(key, other);
            }
        }
    }
    (texts, (!others.is_empty()).then(|| Value::Object(others).to_string()))
}

/// Bytes of the name of a key that was left out, and of all of these names.
const NAME_BYTES: usize = 256;
const NAMES_BYTES: usize = 256 * 1024;

/// What a session has no room for, by the names of the keys, within bounds; `None` where there are none.
#[must_use]
pub fn left_out(names: impl IntoIterator<Item = String>) -> Option<v1::LeftOut> {
    let mut left_out = v1::LeftOut::default();
    let mut bytes = 0;
    for mut name in names {
        name.truncate(name.floor_char_boundary(NAME_BYTES));
        bytes += name.len();
        if bytes > NAMES_BYTES {
            left_out.more = left_out.more.saturating_add(1);
        } else {
            left_out.keys.push(name);
        }
    }
    (!left_out.keys.is_empty()).then_some(left_out)
}

/// Writes the free parts of the asks of a start in one way: each key once, in the field that its value belongs to.
pub fn tidy(request: &mut v1::StartRunRequest) {
    request.each_ask(&mut tidy_ask);
}

/// As [`tidy`]. What is no object stays as it is, for whoever checks it.
pub fn tidy_ask(ask: &mut v1::Ask) {
    tidy_part(&mut ask.preferences, &mut ask.preferences_json);
    tidy_part(&mut ask.custom, &mut ask.custom_json);
}

fn tidy_part(texts: &mut BTreeMap<String, String>, object: &mut Option<String>) {
    let Some(others) = object.as_deref().and_then(object_of) else { return };
    let mut all = entries(texts, None);
    all.extend(others);
    (*texts, *object) = divide(all);
}

fn object_of(text: &str) -> Option<Map<String, Value>> {
    match json::from_str(text) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_written_once_and_an_object_goes_before_a_text() {
        let mut ask = v1::Ask {
            preferences: [("language".to_owned(), "es".to_owned()), ("size".to_owned(), "s".to_owned())]
                .into(),
            preferences_json: Some(r#" {"size": 3, "tone": "calm", "none": null} "#.to_owned()),
            custom_json: Some(r#"{"a": "b"}"#.to_owned()),
            ..v1::Ask::default()
        };
        tidy_ask(&mut ask);
        assert_eq!(
            ask.preferences,
            [("language".to_owned(), "es".to_owned()), ("tone".to_owned(), "calm".to_owned())].into()
        );
        assert_eq!(ask.preferences_json.as_deref(), Some(r#"{"none":null,"size":3}"#));
        assert_eq!((ask.custom, ask.custom_json), ([("a".to_owned(), "b".to_owned())].into(), None));
    }

    #[test]
    fn what_is_no_object_stays_for_whoever_checks_it() {
        for text in ["[]", "{", "null", r#"{"a": 1, "a": 2}"#] {
            let mut ask = v1::Ask { custom_json: Some(text.to_owned()), ..v1::Ask::default() };
            tidy_ask(&mut ask);
            assert_eq!(ask.custom_json.as_deref(), Some(text));
        }
    }
}
