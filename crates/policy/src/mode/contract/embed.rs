//! Schemas of tools as parts of a contract.

use serde_json::{Map, Value};

/// Keywords whose values are no schemas.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords whose values are schemas by names, which may be words of the language themselves.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// What is told of a schema to make it part of a larger one.
pub(super) struct Embedding {
    /// Where it stands in that one: a JSON pointer.
    at: String,
    /// What its anchors begin with, since those of all parts are of one document.
    anchors: String,
    /// The name that it has as a document, which its references may use.
    id: Option<String>,
    /// Whether its dialect has lists in `items`, and anchors in `$id`. The larger one is of the newest.
    is_old: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Schema,
    /// Schemas by names.
    Named,
}

impl Embedding {
    /// Makes `schema` part of a larger one, where it stands at `at`: only the larger one is a document with a name and a dialect.
    /// `anchors` is what no other part's anchors begin with.
    pub(super) fn apply(schema: &mut Value, at: String, anchors: String) {
        let Some(top) = schema.as_object_mut() else { return };
        let dialect = top.remove("$schema");
        let dialect = dialect.as_ref().and_then(Value::as_str).unwrap_or_default();
        let is_old = ["draft-06", "draft-07", "2019-09"].iter().any(|name| dialect.contains(name));
        let text = |id: &Value| id.as_str().map(str::to_owned);
        let id = top.get("$id").and_then(text);
        if !(is_old && id.as_ref().is_some_and(|id| id.starts_with('#'))) {
            top.remove("$id");
        }
        Self { at, anchors, id, is_old }.walk(schema);
    }

    fn walk(&self, schema: &mut Value) {
        let mut open = vec![(schema, Kind::Schema)];
        while let Some((value, kind)) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items.iter_mut().map(|item| (item, Kind::Schema))),
                Value::Object(object) => {
                    let is_schema = kind == Kind::Schema;
                    if is_schema {
                        self.rename(object);
                    }
                    for (key, inner) in object.iter_mut() {
                        match key.as_str() {
                            key if is_schema && VALUES.contains(&key) => {}
                            key if is_schema && NAMED.contains(&key) => open.push((inner, Kind::Named)),
                            _ => open.push((inner, Kind::Schema)),
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }

    /// Words and names of places, as the larger one has them.
    fn rename(&self, object: &mut Map<String, Value>) {
        if self.is_old {
            modernise(object);
        }
        for key in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = object.get_mut(key) {
                anchor.insert_str(0, &self.anchors);
            }
        }
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(Value::String(reference)) = object.get_mut(key) else { continue };
            let fragment = match reference.split_once('#') {
                Some((base, fragment)) if base.is_empty() || Some(base) == self.id.as_deref() => fragment,
                None if Some(&*reference) == self.id.as_ref() => "",
                // It leads out of the schema, which none may.
                _ => continue,
            };
            let is_pointer = fragment.is_empty() || fragment.starts_with('/');
            let before = if is_pointer { &self.at } else { &self.anchors };
            *reference = format!("#{before}{fragment}");
        }
    }
}

/// What older dialects write differently, as the newest one does.
fn modernise(object: &mut Map<String, Value>) {
    fn rename(object: &mut Map<String, Value>, from: &str, to: &str) {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
    if object.get("items").is_some_and(Value::is_array) {
        rename(object, "items", "prefixItems");
        rename(object, "additionalItems", "items");
    }
    let anchor = object.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'));
    if let Some(anchor) = anchor.map(str::to_owned) {
        object.remove("$id");
        object.insert("$anchor".to_owned(), anchor.into());
    }
}
