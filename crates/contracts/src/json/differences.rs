//! Where two JSON values differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// One place at which two values differ: its path, and what stands there on either side.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference<'a> {
    /// As in `waves[0].tasks[lint].state`: elements of lists by their names where all of them have one that no other has,
    /// else by their numbers from 0; empty for the whole.
    pub path: String,
    pub left: Option<&'a Value>,
    pub right: Option<&'a Value>,
}

/// Where the values differ, in the order of the paths' keys: the innermost places, at most so many of them.
#[must_use]
pub fn differences<'a>(left: &'a Value, right: &'a Value, most: usize) -> Vec<Difference<'a>> {
    let mut found = Found { places: Vec::new(), most };
    found.compare(String::new(), Some(left), Some(right));
    found.places
}

struct Found<'a> {
    places: Vec<Difference<'a>>,
    most: usize,
}

impl<'a> Found<'a> {
    fn compare(&mut self, path: String, left: Option<&'a Value>, right: Option<&'a Value>) {
        if self.places.len() >= self.most || left == right {
            return;
        }
        let whole = (left, right);
        match whole {
            (Some(Value::Object(left)), Some(Value::Object(right))) => {
                let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
                for key in keys {
                    let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.compare(place, left.get(key), right.get(key));
                }
            }
            (Some(Value::Array(left)), Some(Value::Array(right))) => match (by_name(left), by_name(right)) {
                (Some(left), Some(right)) => {
                    let before = self.places.len();
                    let names: BTreeSet<&String> = left.keys().chain(right.keys()).copied().collect();
                    for name in names {
                        let [left, right] = [&left, &right].map(|side| side.get(name).copied());
                        self.compare(format!("{path}[{name}]"), left, right);
                    }
                    if self.places.len() == before {
                        // The same elements in another order.
                        self.places.push(Difference { path, left: whole.0, right: whole.1 });
                    }
                }
                _ => {
                    for place in 0..left.len().max(right.len()) {
                        self.compare(format!("{path}[{place}]"), left.get(place), right.get(place));
                    }
                }
            },
            _ => self.places.push(Difference { path, left, right }),
        }
    }
}

/// The elements by their names; `None` where one has none, or one that another one has as well.
fn by_name(elements: &[Value]) -> Option<BTreeMap<&String, &Value>> {
    let mut named = BTreeMap::new();
    for element in elements {
        let Some(Value::String(name)) = element.as_object().and_then(name_of) else { return None };
        if named.insert(name, element).is_some() {
            return None;
        }
    }
    (!named.is_empty()).then_some(named)
}

fn name_of(element: &Map<String, Value>) -> Option<&Value> {
    element.get("name")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(left: &Value, right: &Value) -> Vec<String> {
        differences(left, right, 100).into_iter().map(|difference| difference.path).collect()
    }

    #[test]
    fn the_innermost_places_are_named_with_both_values() {
        let left = json!({ "a": { "b": 1, "c": [1, 2] }, "only": true });
        let right = json!({ "a": { "b": 2, "c": [1, 2, 3] } });
        let found = differences(&left, &right, 100);
        let shown: Vec<(&str, Option<Value>, Option<Value>)> =
            found.iter().map(|found| (&*found.path, found.left.cloned(), found.right.cloned())).collect();
        assert_eq!(
            shown,
            [
                ("a.b", Some(json!(1)), Some(json!(2))),
                ("a.c[2]", None, Some(json!(3))),
                ("only", Some(json!(true)), None),
            ]
        );
        assert!(differences(&left, &left, 100).is_empty());
    }

    #[test]
    fn elements_are_compared_by_their_names_and_without_them_by_their_places() {
        let left = json!([{ "name": "lint", "state": "FAILED" }, { "name": "test", "state": "INIT" }]);
        let right = json!([{ "name": "test", "state": "INIT" }, { "name": "lint", "state": "ACTIVE" }]);
        assert_eq!(paths(&left, &right), ["[lint].state"]);
        let [first, second] = left.as_array().and_then(|all| all.first_chunk()).unwrap();
        assert_eq!(paths(&left, &json!([second, first])), [""], "another order alone");
        let twice = json!([{ "name": "lint", "state": "FAILED" }, { "name": "lint", "state": "INIT" }]);
        assert_eq!(paths(&left, &twice), ["[1].name"]);
        assert_eq!(paths(&json!([]), &left), ["[0]", "[1]"]);
    }

    #[test]
    fn a_value_of_another_type_differs_as_a_whole_and_there_are_at_most_so_many() {
        assert_eq!(paths(&json!({ "a": [1] }), &json!({ "a": { "b": 1 } })), ["a"]);
        assert_eq!(paths(&json!(1), &json!(null)), [""]);
        let (left, right) = (json!(vec![0; 500]), json!(vec![1; 500]));
        assert_eq!(differences(&left, &right, 3).len(), 3);
    }
}
