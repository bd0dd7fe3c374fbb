//! Actions: which fields each kind has, and what they mean.

use std::time::Duration;

use capataz_contracts::placeholder::{Place, is_placeholder_name};
use capataz_contracts::v1;
use capataz_contracts::v1::{ActionKind, Criticality, ExtractKind, WaitUntil};
use capataz_contracts::validate::script_limits::RETRIES_MAX;
use capataz_policy::executor::{
    self as tables, ACTION_TIMEOUT, KindTraits, NAVIGATION_TIMEOUT, Targeted, kind_traits,
};
use url::Url;

use super::condition::{Condition, Conditions};
use super::reader::{Form, Reader};
use super::target::Purpose;
use crate::keys::{Chord, Modifier};
use crate::page::{Offset, PAGE_MASK, Query};
use crate::redact::MASK;

const OPTIONS_MAX: usize = 256;
const FILES_MAX: usize = 32;
/// The longest distance of a drag, and into an element, in CSS pixels.
const DISTANCE_MAX: f64 = 10_000.0;
const RATIONALE_MAX_BYTES: usize = 8 * 1024;

/// An action that keeps every rule, ready to be performed.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) spec: v1::Action,
    pub(crate) kind: ActionKind,
    pub(crate) traits: KindTraits,
    pub(crate) criticality: Criticality,
    /// A postcondition is strong (rule U5).
    pub(crate) has_strong_postcondition: bool,
    pub(crate) target: Option<Query>,
    /// What the target is dropped on.
    pub(crate) to: Option<Query>,
    pub(crate) modifiers: Vec<Modifier>,
    pub(crate) pre: Vec<Condition>,
    pub(crate) post: Vec<Condition>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) wait_until: WaitUntil,
    pub(crate) extract: ExtractKind,
    pub(crate) dialogs: Option<v1::DialogAnswer>,
}

impl Action {
    /// The place within the target that the pointer goes to.
    pub(crate) fn at(&self) -> Option<Offset> {
        self.spec.at.as_ref().map(offset)
    }

    /// How far the target is dragged.
    pub(crate) fn by(&self) -> Option<Offset> {
        self.spec.by.as_ref().map(offset)
    }
}

fn offset(offset: &v1::Offset) -> Offset {
    Offset { x: offset.x, y: offset.y }
}

/// The fields that a kind has beyond those that all have.
fn fields_of(kind: ActionKind) -> &'static [&'static str] {
    match kind {
        ActionKind::Unspecified => &[],
        ActionKind::Navigate => &["url", "wait_until"],
        ActionKind::Back | ActionKind::Forward | ActionKind::Reload => &["wait_until"],
        ActionKind::Click | ActionKind::DoubleClick | ActionKind::RightClick => {
            &["target", "at", "modifiers"]
        }
        ActionKind::Hover => &["target", "at"],
        ActionKind::Drag => &["target", "at", "modifiers", "to", "by"],
        ActionKind::Check | ActionKind::Uncheck | ActionKind::Submit | ActionKind::ScrollTo => &["target"],
        ActionKind::Fill | ActionKind::Type => &["target", "value"],
        ActionKind::Press => &["target", "key"],
        ActionKind::Select => &["target", "options"],
        ActionKind::Upload => &["target", "files"],
        ActionKind::Download => &["target", "url", "output"],
        ActionKind::WaitFor | ActionKind::Assert => &["conditions"],
        ActionKind::Extract => &["target", "extract", "attribute", "output"],
        ActionKind::Screenshot => &["full_page"],
    }
}

/// The fields that a kind must have besides its target.
fn required_of(kind: ActionKind) -> &'static [&'static str] {
    match kind {
        ActionKind::Navigate => &["url"],
        ActionKind::Fill | ActionKind::Type => &["value"],
        ActionKind::Press => &["key"],
        ActionKind::Select => &["options"],
        ActionKind::Upload => &["files"],
        ActionKind::WaitFor | ActionKind::Assert => &["conditions"],
        ActionKind::Extract => &["extract", "output"],
        _ => &[],
    }
}

impl Reader<'_> {
    /// Reads an action. `None` if it breaks a rule, or has a text that is not known yet.
    pub(crate) fn action(&mut self, action: &v1::Action) -> Option<Action> {
        let before = self.findings.count();
        self.action_id.clone_from(&action.id);
        self.has_rationale = action.rationale.as_ref().is_some_and(|why| !why.trim().is_empty());
        if !is_placeholder_name(&action.id) {
            self.refuse("id", "id", "has 1 to 128 characters: letters, digits, `.`, `_`, `-`");
        }
        if let Some(rationale) = &action.rationale
            && (rationale.len() > RATIONALE_MAX_BYTES || rationale.contains('\0'))
        {
            self.refuse(
                "rationale",
                "limit",
                format!("has at most {RATIONALE_MAX_BYTES} bytes, none of them null"),
            );
        }
        let kind = ActionKind::try_from(action.kind).unwrap_or_default();
        let Some(traits) = kind_traits(kind) else {
            let rule = if action.kind == 0 { "required" } else { "enum" };
            self.refuse("kind", rule, format!("there is no kind of action {}", action.kind));
            return None;
        };
        self.check_fields(kind, &traits, action);
        let criticality = self
            .optional_enum::<Criticality>("criticality", action.criticality)
            .unwrap_or(traits.criticality);
        let on_failure = self.optional_enum::<v1::OnFailure>("on_failure", action.on_failure);
        if criticality == Criticality::Critical && on_failure == Some(v1::OnFailure::Continue) {
            self.refuse(
                "on_failure",
                "critical",
                "a script does not go on after a critical action has failed",
            );
        }
        let dialogs = self.optional_enum("dialogs", action.dialogs);
        let extract = self.optional_enum("extract", action.extract).unwrap_or_default();
        let wait_until = self.optional_enum("wait_until", action.wait_until).unwrap_or(WaitUntil::Load);
        let default = if traits.navigates { NAVIGATION_TIMEOUT } else { ACTION_TIMEOUT };
        let limit = self.limit("timeout_ms", action.timeout_ms, default);
        self.check_retry(action.retry.as_ref());
        self.check_texts(kind, action);

        let target = action.target.as_ref().map(|target| self.target("target", target, Purpose::Element));
        let to = action.to.as_ref().map(|target| self.target("to", target, Purpose::Element));
        let modifiers = self.modifiers(&action.modifiers);
        self.check_pointing(kind, action);
        if action.prompt_text.is_some() && dialogs != Some(v1::DialogAnswer::Accept) {
            self.refuse("prompt_text", "fields", "a prompt gets a text only where dialogs is accept");
        }
        let pre = self.conditions("pre", &action.pre);
        let post = self.conditions("post", &action.post);
        let conditions = self.conditions("conditions", &action.conditions);
        if criticality == Criticality::Critical && !post.strong {
            self.refuse("post", "U5", "a critical action needs a postcondition that proves its effect");
        }
        let known = |read: &Conditions, written: &[v1::Condition]| read.known.len() == written.len();
        if self.findings.count() > before
            || matches!(target, Some(None))
            || matches!(to, Some(None))
            || !known(&pre, &action.pre)
            || !known(&post, &action.post)
            || !known(&conditions, &action.conditions)
        {
            return None;
        }
        let mut target = target.flatten();
        if let (Some(target), Some(attribute)) = (&mut target, &action.attribute) {
            target.attributes.push(attribute.clone());
        }
        Some(Action {
            spec: action.clone(),
            kind,
            traits,
            criticality,
            has_strong_postcondition: post.strong,
            target,
            to: to.flatten(),
            modifiers,
            pre: pre.known,
            post: post.known,
            conditions: conditions.known,
            timeout: action.timeout_ms.map(|_| limit),
            wait_until,
            extract,
            dialogs,
        })
    }

    fn check_fields(&mut self, kind: ActionKind, traits: &KindTraits, action: &v1::Action) {
        let present = [
            ("target", action.target.is_some()),
            ("url", action.url.is_some()),
            ("value", action.value.is_some()),
            ("key", action.key.is_some()),
            ("options", !action.options.is_empty()),
            ("files", !action.files.is_empty()),
            ("conditions", !action.conditions.is_empty()),
            ("extract", action.extract.is_some()),
            ("attribute", action.attribute.is_some()),
            ("output", action.output.is_some()),
            ("wait_until", action.wait_until.is_some()),
            ("full_page", action.full_page),
            ("to", action.to.is_some()),
            ("by", action.by.is_some()),
            ("at", action.at.is_some()),
            ("modifiers", !action.modifiers.is_empty()),
        ];
        let name = traits.name;
        for (field, is_there) in present {
            if is_there && !fields_of(kind).contains(&field) {
                self.refuse(field, "fields", format!("{name} has no {field}"));
            }
            if !is_there && required_of(kind).contains(&field) {
                self.refuse(field, "required", format!("{name} needs {field}"));
            }
        }
        if traits.target == Targeted::Always && action.target.is_none() {
            self.refuse("target", "required", format!("{name} needs a target"));
        }
        if kind == ActionKind::Download && action.target.is_some() == action.url.is_some() {
            self.refuse("target", "only_one", "download has either a target that begins it, or a url");
        }
        let takes_attribute = action.extract == Some(ExtractKind::Attribute as i32);
        if kind == ActionKind::Extract && takes_attribute != action.attribute.is_some() {
            let (rule, message) = if takes_attribute {
                ("required", "extract of an attribute needs its name")
            } else {
                ("fields", "only extract of an attribute has one")
            };
            self.refuse("attribute", rule, message);
        }
    }

    fn modifiers(&mut self, written: &[i32]) -> Vec<Modifier> {
        let mut modifiers = Vec::new();
        for (index, modifier) in written.iter().enumerate() {
            let path = format!("modifiers[{index}]");
            let modifier = match self.optional_enum::<v1::KeyModifier>(&path, Some(*modifier)) {
                Some(v1::KeyModifier::Alt) => Modifier::Alt,
                Some(v1::KeyModifier::Control) => Modifier::Control,
                Some(v1::KeyModifier::Meta) => Modifier::Meta,
                Some(v1::KeyModifier::Shift) => Modifier::Shift,
                Some(v1::KeyModifier::Unspecified) | None => continue,
            };
            if modifiers.contains(&modifier) {
                self.refuse(&path, "duplicate", "is listed twice");
                return modifiers;
            }
            modifiers.push(modifier);
        }
        modifiers
    }

    fn check_pointing(&mut self, kind: ActionKind, action: &v1::Action) {
        if kind == ActionKind::Drag && action.to.is_some() == action.by.is_some() {
            self.refuse("to", "only_one", "drag has either an element to drop on, or a distance");
        }
        let far = |distance: f64| !distance.is_finite() || distance.abs() > DISTANCE_MAX;
        for (field, offset) in [("by", &action.by), ("at", &action.at)] {
            let Some(offset) = offset else { continue };
            if far(offset.x) || far(offset.y) {
                self.refuse(field, "range", format!("must be at most {DISTANCE_MAX} CSS pixels each way"));
            } else if field == "at" && (offset.x < 0.0 || offset.y < 0.0) {
                self.refuse(field, "range", "a place within an element has no negative distance");
            } else if field == "by" && offset.x == 0.0 && offset.y == 0.0 {
                self.refuse(field, "range", "is no distance");
            }
        }
    }

    fn check_texts(&mut self, kind: ActionKind, action: &v1::Action) {
        let masked = [("url", &action.url), ("value", &action.value), ("prompt_text", &action.prompt_text)];
        let masked = masked.into_iter().filter_map(|(field, text)| Some((field.to_owned(), text.as_ref()?)));
        let options = action.options.iter().take(OPTIONS_MAX).enumerate();
        let options = options.map(|(index, option)| (format!("options[{index}]"), option));
        for (field, text) in masked.chain(options) {
            // A mask that was read from a page stands for something else, which nobody can type.
            if let Some(mask) = [MASK, PAGE_MASK].into_iter().find(|mask| text.contains(mask)) {
                self.refuse(&field, "mask", format!("has {mask}, which stands for what was masked"));
            }
        }
        if let Some(url) = &action.url
            && let Some(url) = self.text("url", url, Place::Plain)
            && let Err(reason) = check_url(&url, !matches!(self.form, Form::Ready))
        {
            self.refuse("url", "url", reason);
        }
        if let Some(value) = &action.value {
            let place = if kind == ActionKind::Fill { Place::Fill } else { Place::Plain };
            self.text("value", value, place);
        }
        if let Some(text) = &action.prompt_text {
            self.text("prompt_text", text, Place::Plain);
        }
        if let Some(key) = &action.key
            && self.is_clean("key", key)
            && Chord::parse(key).is_none()
        {
            self.refuse(
                "key",
                "key",
                "is not a key; write a character, or a name such as `Enter` or `Control+A`",
            );
        }
        for (field, texts, most) in
            [("options", &action.options, OPTIONS_MAX), ("files", &action.files, FILES_MAX)]
        {
            if texts.len() > most {
                self.refuse(field, "limit", format!("{} of them; at most {most}", texts.len()));
                continue;
            }
            for (index, text) in texts.iter().enumerate() {
                let path = format!("{field}[{index}]");
                let text = self.text(&path, text, Place::Plain);
                if field == "files" && text.is_some_and(|text| text.is_empty()) {
                    self.refuse(&path, "required", "is empty");
                }
            }
        }
        if let Some(attribute) = &action.attribute {
            self.attribute("attribute", attribute);
        }
        if let Some(output) = &action.output
            && !is_placeholder_name(output)
        {
            self.refuse("output", "output", "has 1 to 128 characters: letters, digits, `.`, `_`, `-`");
        }
    }

    fn check_retry(&mut self, retry: Option<&v1::ActionRetry>) {
        let Some(retry) = retry else { return };
        if retry.limit.is_some_and(|limit| limit > RETRIES_MAX) {
            self.refuse("retry.limit", "range", format!("at most {RETRIES_MAX}"));
        }
        self.check_codes("retry.on", &retry.on);
    }

    /// Checks a list of codes after which something is done again.
    pub(super) fn check_codes(&mut self, path: &str, codes: &[String]) {
        if codes.len() > tables::EXECUTOR_CODES.len() {
            self.refuse(path, "limit", "lists more codes than there are");
            return;
        }
        for (index, code) in codes.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match tables::lookup(code) {
                None => {
                    let code = crate::text::shortened(code, 64);
                    self.refuse(&path, "code", format!("there is no code {code:?}"));
                }
                Some(entry) if !entry.may_be_retried => {
                    self.refuse(&path, "code", format!("after {code} nothing is ever tried again"));
                }
                Some(_) => {}
            }
        }
    }
}

/// Refuses a text that is not an absolute URL of http or https. A script that is about to be performed may have got
/// another scheme from a page: that scheme is for the policy stage to block.
fn check_url(text: &str, check_scheme: bool) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("is not an absolute URL: {error}"))?;
    if check_scheme && !matches!(url.scheme(), "http" | "https") {
        return Err(format!("leads to {}:, and only http and https are navigated to", url.scheme()));
    }
    Ok(())
}
