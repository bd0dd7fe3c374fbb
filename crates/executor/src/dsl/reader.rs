//! The reader that every part of a script is read with: its path, the violations so far, and what texts mean there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capataz_contracts::placeholder::{Place, Placeholder, Segment, TEXT_MAX_BYTES, insert, placeholders};
use regex::{Regex, RegexBuilder};

use super::findings::Findings;
use crate::text::shortened;

/// The longest limit of time that a script may set.
pub(crate) const LONGEST_LIMIT: Duration = Duration::from_secs(60 * 60);

/// A regular expression that needs more memory than this is refused.
const PATTERN_BYTES: usize = 1 << 20;

/// The state of an action's texts before they are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// The texts are as their author wrote them, with placeholders: variables are known, outputs not yet.
    Written { variables: &'a BTreeMap<String, String>, outputs: &'a BTreeSet<String> },
    /// All placeholders are replaced but those of secrets.
    Ready,
    /// The text does not belong to an action and takes no placeholders.
    Fixed,
}

#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) form: Form<'a>,
    pub(crate) interactive: bool,
    /// The prefix of every path, such as `actions[2].`.
    pub(crate) prefix: String,
    pub(crate) action_id: String,
    /// True if the action gives a reason, which `nth` needs.
    pub(crate) has_rationale: bool,
    pub(crate) findings: Findings,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(form: Form<'a>) -> Self {
        Self {
            form,
            interactive: false,
            prefix: String::new(),
            action_id: String::new(),
            has_rationale: false,
            findings: Findings::default(),
        }
    }

    pub(crate) fn refuse(&mut self, path: &str, rule: &str, message: impl Into<String>) {
        let path = format!("{}{path}", self.prefix);
        self.findings.push(path, &self.action_id, rule, message.into());
    }

    /// The text as the page will get it. `None` if the text is refused, or is not known yet.
    pub(crate) fn text(&mut self, path: &str, text: &str, place: Place) -> Option<String> {
        if !self.is_clean(path, text) {
            return None;
        }
        match self.form {
            Form::Ready if place != Place::Fill => self.ready(path, text),
            Form::Ready => match insert(text, place, &BTreeMap::new(), &BTreeMap::new()) {
                Ok(text) => Some(text),
                Err((rule, message)) => {
                    self.refuse(path, rule, message);
                    None
                }
            },
            Form::Fixed if !text.contains("${") => Some(text.to_owned()),
            Form::Fixed => {
                self.refuse(path, "placeholder", "policies take no placeholders");
                None
            }
            Form::Written { variables, outputs } => self.written(path, text, place, variables, outputs),
        }
    }

    /// Refuses a reference to an output that has no value: the action that was to give the value has failed, or found
    /// nothing. Nobody means the characters of the reference themselves.
    fn ready(&mut self, path: &str, text: &str) -> Option<String> {
        let output = placeholders(text).unwrap_or_default().into_iter().find_map(|segment| match segment {
            Segment::Placeholder(Placeholder::Output(name)) => Some(name),
            _ => None,
        });
        if let Some(name) = output {
            self.refuse(path, "output", format!("the output `{name}` has no value"));
            return None;
        }
        Some(text.to_owned())
    }

    fn written(
        &mut self,
        path: &str,
        text: &str,
        place: Place,
        variables: &BTreeMap<String, String>,
        outputs: &BTreeSet<String>,
    ) -> Option<String> {
        let segments = match placeholders(text) {
            Ok(segments) => segments,
            Err(error) => {
                self.refuse(path, "placeholder", error.to_string());
                return None;
            }
        };
        let mut known = true;
        for segment in segments {
            let Segment::Placeholder(placeholder) = segment else { continue };
            if place == Place::Xpath {
                self.refuse(path, "placeholder", "an xpath takes no placeholders");
                return None;
            }
            match placeholder {
                Placeholder::Secret(_) => {}
                Placeholder::Variable(name) if variables.contains_key(name) => {}
                Placeholder::Variable(name) => {
                    self.refuse(path, "variable", format!("there is no variable `{name}`"));
                    known = false;
                }
                Placeholder::Output(name) => {
                    if !outputs.contains(name) {
                        self.refuse(path, "output", format!("no earlier action gives the output `{name}`"));
                    }
                    known = false;
                }
            }
            if matches!(placeholder, Placeholder::Secret(_)) && place != Place::Fill {
                self.refuse(path, "secret", "a secret may stand only in the value of fill");
                known = false;
            }
        }
        if !known {
            return None;
        }
        match insert(text, place, variables, &BTreeMap::new()) {
            // A value may have characters that a text of an action may not.
            Ok(text) => self.is_clean(path, &text).then_some(text),
            Err((rule, message)) => {
                self.refuse(path, rule, message);
                None
            }
        }
    }

    /// True if the text is within the limits that every text has; else a violation is noted.
    pub(crate) fn is_clean(&mut self, path: &str, text: &str) -> bool {
        if text.len() > TEXT_MAX_BYTES {
            self.refuse(path, "limit", format!("has {} bytes; at most {TEXT_MAX_BYTES}", text.len()));
            return false;
        }
        if text.contains('\0') {
            self.refuse(path, "limit", "has a null character");
            return false;
        }
        true
    }

    /// A regular expression, compiled.
    pub(crate) fn pattern(&mut self, path: &str, source: &str) -> Option<Regex> {
        match RegexBuilder::new(source).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build() {
            Ok(pattern) => Some(pattern),
            Err(error) => {
                let reason = shortened(&error.to_string(), 300);
                self.refuse(path, "regex", format!("cannot be read as a regular expression: {reason}"));
                None
            }
        }
    }

    /// A limit of time: 1 ms to an hour.
    pub(crate) fn limit(&mut self, path: &str, milliseconds: Option<i64>, default: Duration) -> Duration {
        let Some(milliseconds) = milliseconds else { return default };
        let limit = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        match limit.filter(|limit| !limit.is_zero() && *limit <= LONGEST_LIMIT) {
            Some(limit) => limit,
            None => {
                self.refuse(path, "range", format!("must be from 1 ms to 1 h, not {milliseconds} ms"));
                default
            }
        }
    }

    /// An enum that may be absent; `None` for the unspecified value and for those that the contract does not have.
    pub(crate) fn optional_enum<E: TryFrom<i32>>(&mut self, path: &str, value: Option<i32>) -> Option<E> {
        match value {
            None => None,
            Some(0) => {
                self.refuse(path, "enum", "set, but to no value; leave it out");
                None
            }
            Some(number) => match E::try_from(number) {
                Ok(value) => Some(value),
                Err(_) => {
                    self.refuse(path, "enum", format!("there is no value {number}"));
                    None
                }
            },
        }
    }
}
