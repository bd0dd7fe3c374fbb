//! The places of a document that know a key which stands where it is unknown.

use std::collections::{BTreeSet, VecDeque};

use super::schema::{MessageShape, Multiplicity, Schema, Shape};
use super::{payload, well_known};

/// The most places that are told.
const MOST: usize = 2;

/// The most fields on the way from the top level to a place that is told. A place further down is seldom meant.
const DEPTH: usize = 3;

/// The places of the message `root` that know the key, for a message to people; those nearest to the top level first.
pub fn places(schema: &Schema, root: &str, key: &str) -> Vec<String> {
    let mut places = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut open = VecDeque::from([(root, String::new(), 0)]);
    while let Some((name, place, depth)) = open.pop_front() {
        let Some(shape) = schema.message(name).filter(|_| places.len() < MOST) else { continue };
        if knows(shape, key) {
            places.push(if place.is_empty() { "the top level".to_owned() } else { format!("`{place}`") });
        }
        if depth == DEPTH {
            continue;
        }
        for field in shape.fields.iter().filter(|field| !field.output_only) {
            let Shape::Message(inner) = &field.shape else { continue };
            // The keys of these are values of their own.
            if inner == payload::FULL_NAME || well_known::is(inner) || !seen.insert(inner.as_str()) {
                continue;
            }
            let many = match field.multiplicity {
                Multiplicity::One => "",
                Multiplicity::List => "[]",
                Multiplicity::Map(_) => ".*",
            };
            // A message that is a list has no key for its items.
            let below = match (shape.is_list, place.is_empty()) {
                (true, _) => format!("{place}{many}"),
                (false, true) => format!("{}{many}", field.printed),
                (false, false) => format!("{place}.{}{many}", field.printed),
            };
            open.push_back((inner.as_str(), below, depth + 1));
        }
    }
    places
}

fn knows(shape: &MessageShape, key: &str) -> bool {
    let field = shape.keys.get(key).and_then(|(index, _)| shape.fields.get(*index));
    !shape.is_list && field.is_some_and(|field| !field.output_only)
}
