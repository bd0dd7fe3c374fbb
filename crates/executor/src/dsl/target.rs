//! Targets: which locators they have, in the order in which they are tried (rules U2, U3, U4).

use capataz_contracts::placeholder::Place;
use capataz_contracts::v1;

use super::reader::Reader;
use crate::page::{Locator, Query};
use crate::text::normalised;

/// The order in which locators are tried (rule U4), for `target_resolution_order`.
pub const RESOLUTION_ORDER: [&str; 6] = ["testid", "role", "label", "css", "xpath", "text"];

const FRAMES_MAX: usize = 8;

/// Containers, one in the other.
const WITHIN_MAX: usize = 4;

/// What a target is there for, as far as its rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Exactly one element.
    Element,
    /// All matches are counted, so `nth` makes no sense.
    Count,
}

impl Reader<'_> {
    /// The query that a target stands for. `None` if the target is refused, or has texts that are not known yet.
    pub(crate) fn target(&mut self, path: &str, target: &v1::Target, purpose: Purpose) -> Option<Query> {
        let before = self.findings.count();
        let mut query = self.place(path, target, purpose, 0);
        if target.frame.len() > FRAMES_MAX {
            let message = format!("{} frames; at most {FRAMES_MAX}", target.frame.len());
            self.refuse(&format!("{path}.frame"), "limit", message);
            return None;
        }
        for (index, frame) in target.frame.iter().enumerate() {
            let path = format!("{path}.frame[{index}]");
            if !frame.frame.is_empty() {
                self.refuse(
                    &format!("{path}.frame"),
                    "nested",
                    "frames are listed one after the other, outermost first",
                );
            }
            let frame = self.place(&path, frame, Purpose::Element, 0);
            match (&mut query, frame) {
                (Some(query), Some(frame)) => query.frame.push(frame),
                (query, _) => *query = None,
            }
        }
        query.filter(|_| self.findings.count() == before)
    }

    /// What is looked for in one document, with the containers around it.
    fn place(&mut self, path: &str, target: &v1::Target, purpose: Purpose, depth: usize) -> Option<Query> {
        let mut query = self.locators(path, target);
        self.check_match(path, target);
        self.check_nth(path, target, purpose);
        if let Some(near) = &target.near {
            let near = self.near(&format!("{path}.near"), target, near);
            query = query.and_then(|query| Some(Query { near: Some(near?), ..query }));
        }
        let Some(container) = &target.within else { return query };
        let path = format!("{path}.within");
        if depth == WITHIN_MAX {
            self.refuse(&path, "limit", format!("at most {WITHIN_MAX} containers, one in the other"));
            return None;
        }
        if !container.frame.is_empty() {
            self.refuse(
                &format!("{path}.frame"),
                "nested",
                "a container is in the same frame as what is in it",
            );
        }
        if container.r#ref.is_some() {
            self.refuse(&format!("{path}.ref"), "ref", "a reference stands alone");
            return None;
        }
        let container = self.place(&path, container, Purpose::Element, depth + 1);
        query.and_then(|query| Some(Query { within: Some(Box::new(container?)), ..query }))
    }

    fn near(&mut self, path: &str, target: &v1::Target, near: &str) -> Option<String> {
        if target.nth.is_some() {
            self.refuse(path, "only_one", "either nth or near says which of several is meant");
        }
        let near = normalised(&self.text(path, near, Place::Plain)?);
        if near.is_empty() {
            self.refuse(path, "required", "is empty");
            return None;
        }
        Some(near)
    }

    fn locators(&mut self, path: &str, target: &v1::Target) -> Option<Query> {
        let mut locators = Vec::new();
        let mut known = true;
        let texts = [
            ("testid", Place::Plain, &target.testid),
            ("role", Place::Plain, &target.role),
            ("name", Place::Plain, &target.name),
            ("label", Place::Plain, &target.label),
            ("css", Place::Css, &target.css),
            ("xpath", Place::Xpath, &target.xpath),
            ("text", Place::Plain, &target.text),
        ];
        let mut role_at = None;
        for (field, place, text) in texts {
            let Some(text) = text else { continue };
            let path = format!("{path}.{field}");
            let Some(text) = self.text(&path, text, place) else {
                known = false;
                continue;
            };
            // Characters that a testid, a selector or a path begins and ends with may matter to it.
            let text = if matches!(field, "testid" | "css" | "xpath") { text } else { normalised(&text) };
            // An empty name has a meaning: the element has no name.
            if text.trim().is_empty() && field != "name" {
                self.refuse(&path, "required", "is empty");
                continue;
            }
            match field {
                "testid" => locators.push(Locator::Testid { value: text }),
                "role" => {
                    role_at = Some(locators.len());
                    locators.push(Locator::Role { role: text.to_ascii_lowercase(), name: None });
                }
                "name" => {
                    if let Some(Locator::Role { name, .. }) = role_at.and_then(|at| locators.get_mut(at)) {
                        *name = Some(text);
                    }
                }
                "label" => locators.push(Locator::Label { value: text }),
                "css" => locators.push(Locator::Css { value: text }),
                "xpath" => locators.push(Locator::Xpath { value: text }),
                _ => locators.push(Locator::Text { value: text }),
            }
        }
        if target.name.is_some() && target.role.is_none() {
            self.refuse(&format!("{path}.name"), "fields", "a name belongs to a role; give the role too");
        }
        self.reference(path, target, &mut locators);
        let any = texts.iter().any(|(field, _, text)| *field != "name" && text.is_some());
        if !any && target.r#ref.is_none() {
            self.refuse(
                path,
                "required",
                format!("has no locator; give one of {}", RESOLUTION_ORDER.join(", ")),
            );
        }
        known.then(|| Query { locators, nth: target.nth, ..Query::default() })
    }

    fn reference(&mut self, path: &str, target: &v1::Target, locators: &mut Vec<Locator>) {
        let Some(reference) = &target.r#ref else { return };
        let path = format!("{path}.ref");
        if !self.is_clean(&path, reference) {
            return;
        }
        if !self.interactive {
            self.refuse(
                &path,
                "ref",
                "references are of what Observe showed: only in an interactive session",
            );
        }
        let is_placed = target.within.is_some() || target.near.is_some() || !target.frame.is_empty();
        if !locators.is_empty() || target.nth.is_some() || is_placed {
            self.refuse(&path, "ref", "a reference stands alone");
        }
        if reference.is_empty() {
            self.refuse(&path, "required", "is empty");
        }
        locators.insert(0, Locator::Ref { value: reference.clone() });
    }

    fn check_match(&mut self, path: &str, target: &v1::Target) {
        let path = format!("{path}.match");
        let Some(mode) = self.optional_enum::<v1::MatchMode>(&path, target.r#match) else { return };
        if target.label.is_none() && target.text.is_none() {
            self.refuse(&path, "fields", "concerns label and text, and the target has neither");
        } else if mode != v1::MatchMode::Exact {
            self.refuse(
                &path,
                "U2",
                "label and text are matched exactly, after normalisation, and no other way",
            );
        }
    }

    fn check_nth(&mut self, path: &str, target: &v1::Target, purpose: Purpose) {
        if target.nth.is_none() || target.r#ref.is_some() {
            return;
        }
        let path = format!("{path}.nth");
        if purpose == Purpose::Count {
            self.refuse(&path, "fields", "a count is of all that match");
        }
        // What is named inside a stable container is as stable (CONTRACTS §3, U3).
        let is_contained = target.within.as_deref().is_some_and(is_stable);
        let text_alone = v1::Target { text: None, ..target.clone() };
        let is_named = is_stable(target)
            || is_contained && target.text.is_some() && (is_stable(&text_alone) || !has_other(&text_alone));
        if !is_named {
            self.refuse(&path, "U3", "a place is counted only over testid, role with name, label or css, or over text within one of these");
        }
        if !self.has_rationale {
            self.refuse(&path, "U3", "a place needs a rationale that says why it is this one");
        }
    }
}

/// True if each locator of the target is one that `nth` may count over: it counts among the matches of whichever decides.
fn is_stable(target: &v1::Target) -> bool {
    let unstable =
        target.xpath.is_some() || target.text.is_some() || (target.role.is_some() && target.name.is_none());
    let stable =
        target.testid.is_some() || target.role.is_some() || target.label.is_some() || target.css.is_some();
    stable && !unstable
}

/// True if the target has a locator besides a text.
fn has_other(target: &v1::Target) -> bool {
    let others = [&target.testid, &target.role, &target.label, &target.css, &target.xpath];
    others.into_iter().any(Option::is_some)
}
