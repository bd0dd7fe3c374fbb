//! Rules that parts of requests and responses share.

use super::MAX_ITEMS;
use crate::json;
use crate::path::{Path, shown};
use crate::version::ContractVersion;
use crate::violation::Violations;

/// Checks one object of a document: the path that it has, and where its violations go.
pub struct Checker<'c> {
    pub path: &'c Path<'c>,
    pub violations: &'c mut Violations,
}

impl Checker<'_> {
    /// Checks the object under `key`.
    pub fn within(&mut self, key: &str, check: impl FnOnce(&mut Checker<'_>)) {
        let path = &self.path.key(key);
        check(&mut Checker { path, violations: self.violations });
    }

    /// Checks the objects in the list under `key`.
    pub fn each<T>(&mut self, key: &str, items: &[T], check: impl Fn(&T, &mut Checker<'_>)) {
        self.count(key, items.len());
        let path = &self.path.key(key);
        for (index, item) in items.iter().take(MAX_ITEMS).enumerate() {
            let path = &path.index(index);
            check(item, &mut Checker { path, violations: self.violations });
        }
    }

    pub fn violation(&mut self, key: &str, rule: &'static str, message: impl Into<String>) {
        self.violations.push(&self.path.key(key), rule, message);
    }

    pub fn required<T>(&mut self, key: &str, value: Option<&T>) {
        if value.is_none() {
            self.violation(key, "required", format!("`{key}` is missing"));
        }
    }

    /// Names something: a spec, a request, a session, a code.
    pub fn id(&mut self, key: &str, id: Option<&String>) {
        if id.is_some_and(String::is_empty) {
            self.violation(key, "empty", format!("`{key}` is empty"));
        }
    }

    pub fn required_id(&mut self, key: &str, id: Option<&String>) {
        self.required(key, id);
        self.id(key, id);
    }

    /// A number between 0 and 1.
    pub fn confidence(&mut self, key: &str, confidence: Option<f64>) {
        if let Some(confidence) = confidence
            && !(0.0..=1.0).contains(&confidence)
        {
            self.violation(key, "range", format!("{confidence} is not between 0 and 1"));
        }
    }

    pub fn required_confidence(&mut self, key: &str, confidence: Option<f64>) {
        self.required(key, confidence.as_ref());
        self.confidence(key, confidence);
    }

    /// Unix milliseconds.
    pub fn timestamp(&mut self, key: &str, timestamp: Option<i64>) {
        if let Some(timestamp) = timestamp
            && timestamp < 0
        {
            self.violation(
                key,
                "range",
                format!("{timestamp} is before 1970; milliseconds since then go here"),
            );
        }
    }

    pub fn one_of(&mut self, key: &str, value: Option<&String>, allowed: &[&str]) {
        if let Some(value) = value
            && !allowed.contains(&value.as_str())
        {
            let message = format!("{:?} is not one of {}", shown(value), allowed.join(", "));
            self.violation(key, "enum", message);
        }
    }

    pub fn count(&mut self, key: &str, count: usize) {
        if count > MAX_ITEMS {
            self.violation(key, "limit", format!("{count} items; at most {MAX_ITEMS} are allowed"));
        }
    }

    /// A free part, the text of a JSON value: it must be an object.
    pub fn object(&mut self, key: &str, text: Option<&String>) {
        if let Some(Ok(other)) = text.map(|text| json::from_str(text))
            && !other.is_object()
        {
            self.violation(key, "type", format!("expected an object, found {}", json::describe(&other)));
        }
    }
}

/// Checks the version that a document declares, and with `check` the rest of it.
pub fn document(
    declared: Option<&String>,
    violations: &mut Violations,
    check: impl FnOnce(&mut Checker<'_>),
) {
    let path = &Path::Root;
    let mut checker = Checker { path, violations };
    // Another major version was refused before anything else was read.
    if let Some(Err(violation)) = declared.map(|declared| declared.parse::<ContractVersion>()) {
        checker.violation("contract_version", violation.rule, violation.message);
    }
    check(&mut checker);
}
