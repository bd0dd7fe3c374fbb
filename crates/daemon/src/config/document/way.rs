//! Ways into a document, and what is at their ends.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A way into the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Item(usize),
}

pub(super) fn with(path: &[Step], key: &str) -> Vec<Step> {
    path.iter().cloned().chain([Step::Key(key.to_owned())]).collect()
}

/// The key of the document, or the item of its array, that the path is within.
pub(super) fn whole(path: &[Step]) -> &[Step] {
    let steps = if matches!(path.get(1), Some(Step::Item(_))) { 2 } else { 1 };
    path.get(..steps).unwrap_or(path)
}

/// The way to the innermost key or value that the span is, or is within. That a key is missing is said of a table; of the whole
/// document it is said without a place.
pub(super) fn way(table: &DeTable<'_>, span: &Range<usize>, is_of_a_table: bool) -> Vec<Step> {
    let mut path = Vec::new();
    if *span != (0..0) {
        within(table, span, is_of_a_table, &mut path);
    }
    path
}

fn within(table: &DeTable<'_>, span: &Range<usize>, is_of_a_table: bool, path: &mut Vec<Step>) -> bool {
    for (key, value) in table {
        path.push(Step::Key(key.get_ref().to_string()));
        if (!is_of_a_table && key.span() == *span) || value_within(value, span, is_of_a_table, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn value_within(
    value: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    is_of_a_table: bool,
    path: &mut Vec<Step>,
) -> bool {
    let inner = match value.get_ref() {
        DeValue::Table(table) => within(table, span, is_of_a_table, path),
        DeValue::Array(items) => items.iter().enumerate().any(|(place, item)| {
            path.push(Step::Item(place));
            let found = value_within(item, span, is_of_a_table, path);
            if !found {
                path.pop();
            }
            found
        }),
        _ => false,
    };
    let own = value.span();
    // The header of a table may be around the name of the one that it is in.
    let is_own = || match is_of_a_table {
        true => own == *span && matches!(value.get_ref(), DeValue::Table(_)),
        false => own.start <= span.start && span.end <= own.end,
    };
    inner || is_own()
}

/// The table at this path.
pub(super) fn table_at<'r, 't>(table: &'r mut DeTable<'t>, path: &[Step]) -> Option<&'r mut DeTable<'t>> {
    if path.is_empty() {
        return Some(table);
    }
    match value_at(table, path)?.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// The value at this path.
pub(super) fn value_at<'r, 't>(
    table: &'r mut DeTable<'t>,
    path: &[Step],
) -> Option<&'r mut Spanned<DeValue<'t>>> {
    let (first, rest) = path.split_first()?;
    let mut value = of_key(table, first)?;
    for step in rest {
        value = match (value.get_mut(), step) {
            (DeValue::Table(table), step) => of_key(table, step)?,
            (DeValue::Array(items), Step::Item(place)) => items.get_mut(*place)?,
            _ => return None,
        };
    }
    Some(value)
}

fn of_key<'r, 't>(table: &'r mut DeTable<'t>, step: &Step) -> Option<&'r mut Spanned<DeValue<'t>>> {
    let Step::Key(name) = step else { return None };
    let key = table.keys().find(|key| key.get_ref() == name).cloned()?;
    table.get_mut(&key)
}

/// Where what there is of a path begins, such as `agents[0].command`.
pub(super) fn offset_of(table: &DeTable<'_>, path: &str) -> Option<usize> {
    let (mut offset, mut at) = (None, Some(table));
    for part in path.split('.') {
        let (key, items) = part.split_once('[').map_or((part, None), |(key, items)| (key, Some(items)));
        let Some((found, value)) = at?.iter().find(|(known, _)| known.get_ref() == key) else { break };
        offset = Some(found.span().start);
        let mut value = value;
        for item in items.into_iter().flat_map(|items| items.split('[')) {
            let place: usize = item.trim_end_matches(']').parse().ok()?;
            let Some(item) = value.get_ref().get(place) else { return offset };
            offset = Some(item.span().start);
            value = item;
        }
        at = value.get_ref().as_table();
        if at.is_none() {
            break;
        }
    }
    offset
}

pub(super) fn shown(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.push_str(&format!(".{key}")),
            Step::Item(place) => text.push_str(&format!("[{place}]")),
        }
    }
    text
}
