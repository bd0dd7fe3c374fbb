//! Gaps: where a document has a wrong form, so that nobody knows what is meant there, and what rules must not say because of it.
//!
//! What could not be read is absent from the message. So a rule that misses something, or that reads a default, may speak of
//! the gap and not of the document. What is in doubt is left out: it is told once the form is right.

use std::collections::BTreeSet;

use crate::violation::{TRUNCATED, Violations};

/// Where nobody knows what a document means, by the names of the fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    places: BTreeSet<String>,
    /// There are more than are listed.
    is_cut: bool,
}

/// Rules that miss something at a field, where a sibling of it may say that nothing has to be there: the rule, the field, the
/// sibling. Rules of the executor are among them.
const BY_SIBLING: &[(&str, &str, &str)] = &[
    ("required", "agent", "run"),
    ("required", "actions", "interactive"),
    ("fields", "idle_timeout_ms", "interactive"),
    ("range", "quorum_threshold", "kind"),
    ("only_one", "target", "url"),
    ("only_one", "to", "by"),
    ("fields", "attribute", "extract"),
    ("fields", "prompt_text", "dialogs"),
    ("U5", "post", "criticality"),
    ("critical", "on_failure", "criticality"),
    ("fields", "name", "role"),
    ("fields", "match", "label"),
    ("fields", "match", "text"),
];

/// Rules that miss something of a message that the place is in: the rule, and the field of that message.
const ABOVE: &[(&str, &str)] = &[
    ("unknown_item", "for_each"),
    ("variable", "variables"),
    ("ref", "interactive"),
    // The text of an ask may be the input of its task.
    ("blank", "input"),
];

/// Rules that miss something anywhere in the document: the rule, and the fields of which each may be what it misses.
const ANYWHERE: &[(&str, &[&str])] = &[
    ("unknown_task", &["tasks.name", "tasks", "waves"]),
    ("unknown_phase", &["phases.name", "phases"]),
    // A policy's critical agents are those of the tasks that it judges.
    ("known", &["agent", "tasks", "waves", "run", "policy"]),
    ("output", &["output", "actions"]),
];

/// Rules that read the text of an action with the values of variables in it.
const OF_VALUES: &[&str] = &["variable", "placeholder", "limit", "url", "regex", "U5"];

/// The texts of which a rule says that they are empty with the values of variables in them (rule `required`).
const NEVER_EMPTY: &[&str] = &["testid", "role", "label", "css", "xpath", "text", "near", "files"];

impl Gaps {
    pub fn add(&mut self, place: String) {
        self.places.insert(place);
    }

    pub fn add_places_of(&mut self, violations: &Violations) {
        self.places.extend(violations.places().iter().cloned());
        self.is_cut |= violations.is_cut();
    }

    /// There are gaps that are not added.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns whether what the rule says of this place may follow from a gap.
    pub fn explain(&self, path: &str, rule: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        self.is_cut
            // Nobody knows how many of those follow that were only counted.
            || rule == TRUNCATED
            || self.places.iter().any(|gap| is_within(path, gap) || is_within(gap, path))
            || self.explain_by_sibling(path, rule)
            || self.explain_from_above(path, rule)
            || self.explain_from_anywhere(rule)
            || self.explain_by_values(path, rule)
            || rule == "duplicate" && self.explain_duplicate(path)
            || rule == "U3" && self.has_any_in_first_item(path)
    }

    fn explain_by_sibling(&self, path: &str, rule: &str) -> bool {
        let mut rules = BY_SIBLING.iter().filter(|(of, field, _)| *of == rule && *field == last_key(path));
        rules.any(|(_, _, sibling)| self.places.contains(&with_last_key(path, sibling)))
    }

    fn explain_from_above(&self, path: &str, rule: &str) -> bool {
        let mut fields = ABOVE.iter().filter(|(of, _)| *of == rule).map(|(_, field)| *field);
        fields.any(|field| {
            let mut messages = self.places.iter().filter_map(|gap| gap.strip_suffix(field));
            messages
                .any(|message| (message.is_empty() || message.ends_with('.')) && path.starts_with(message))
        })
    }

    fn explain_from_anywhere(&self, rule: &str) -> bool {
        let mut fields = ANYWHERE.iter().filter(|(of, _)| *of == rule).flat_map(|(_, fields)| *fields);
        fields.any(|field| self.places.iter().any(|gap| is_of_field(gap, field)))
    }

    /// The texts of an action have the values of variables in them.
    fn explain_by_values(&self, path: &str, rule: &str) -> bool {
        let reads_values =
            OF_VALUES.contains(&rule) || rule == "required" && NEVER_EMPTY.contains(&last_key(path));
        let is_value = |gap: &String| gap.contains("variables.") || gap.contains("variables[");
        reads_values && path.contains("actions[") && self.places.iter().any(is_value)
    }

    fn explain_duplicate(&self, path: &str) -> bool {
        if let Some(list) = list_of(path) {
            // What could not be read is a default, which another item may be as well.
            return self.places.iter().any(|gap| list_of(gap) == Some(list));
        }
        // A wave without a name has one by its place.
        let is_wave = path.rsplit_once('.').is_some_and(|(item, _)| last_key(item) == "waves");
        is_wave && self.places.iter().any(|gap| is_of_field(gap, "waves.name") || is_of_field(gap, "waves"))
    }

    /// Where a place is counted depends on all locators of the target, and on the action's reason.
    fn has_any_in_first_item(&self, path: &str) -> bool {
        let item = path.find(']').and_then(|end| path.get(..=end)).unwrap_or_default();
        self.places.iter().any(|gap| is_within(gap, item))
    }
}

/// Returns whether `inner` is the place `outer`, or one in it.
fn is_within(inner: &str, outer: &str) -> bool {
    let below = inner.strip_prefix(outer);
    // Places in a schema continue with `/`.
    outer.is_empty() || below.is_some_and(|below| below.is_empty() || below.starts_with(['.', '[', '/']))
}

/// Returns whether the gap is a field of this name, or an item of it; `list.field` is the field of an item of that list.
fn is_of_field(gap: &str, field: &str) -> bool {
    let Some((list, field)) = field.split_once('.') else { return last_key(gap) == field };
    let item = gap.rsplit_once('.').filter(|(_, key)| *key == field).map(|(item, _)| item);
    item.and_then(list_of).is_some_and(|place| last_key(place) == list)
}

/// The list that an item is in.
fn list_of(place: &str) -> Option<&str> {
    place.strip_suffix(']').and_then(|place| place.rsplit_once('[')).map(|(list, _)| list)
}

/// The last key of a place; of an item, that of its list.
fn last_key(place: &str) -> &str {
    let place = list_of(place).unwrap_or(place);
    place.rsplit_once('.').map_or(place, |(_, key)| key)
}

/// The place of another field of the same message.
fn with_last_key(place: &str, key: &str) -> String {
    match place.rsplit_once('.') {
        Some((parent, _)) => format!("{parent}.{key}"),
        None => key.to_owned(),
    }
}
