//! Placeholders in the texts of a script's actions, and what is put in their places.
//!
//! `${var:NAME}` is a variable of the script, `${output:NAME}` what an earlier action took, `${secret:NAME}` a secret
//! that only the executor resolves, at the moment in which it is typed. Every `${` begins a placeholder; `$${` stands
//! for the characters `${`.
//!
//! What is inserted is always text: in a CSS selector and in a regular expression it is escaped, so that a page whose
//! text was extracted cannot change what a later action means. XPath has no escape and takes no placeholders.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::braces::{self, Piece};
use crate::path::shown;
use crate::v1;

/// The longest text of an action, in bytes, after everything was put in its place.
pub const TEXT_MAX_BYTES: usize = 8 * 1024;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Characters that stand for themselves, escapes already undone.
    Text(&'a str),
    Placeholder(Placeholder<'a>),
}

/// What is to be put in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder<'a> {
    Variable(&'a str),
    Output(&'a str),
    Secret(&'a str),
}

/// A `${` that begins no placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedPlaceholder {
    /// As written, cut where it is long.
    pub text: String,
}

impl fmt::Display for MalformedPlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a placeholder; write ${{var:NAME}}, ${{output:NAME}} or ${{secret:NAME}}, or $${{ for the characters themselves",
            self.text
        )
    }
}

impl std::error::Error for MalformedPlaceholder {}

/// Splits a text into its segments. The empty text has none.
///
/// # Errors
/// The first `${` that is neither escaped nor the beginning of a placeholder.
pub fn placeholders(text: &str) -> Result<Vec<Segment<'_>>, MalformedPlaceholder> {
    let malformed = |written| MalformedPlaceholder { text: shown(written) };
    let segments = braces::pieces(text).into_iter().map(|piece| match piece {
        Piece::Text(text) => Ok(Segment::Text(text)),
        Piece::Braced { inner, written } => {
            placeholder(inner).map(Segment::Placeholder).ok_or_else(|| malformed(written))
        }
        Piece::Open(opening) => Err(malformed(opening)),
    });
    segments.collect()
}

fn placeholder(inner: &str) -> Option<Placeholder<'_>> {
    let (kind, name) = inner.split_once(':')?;
    if !is_placeholder_name(name) {
        return None;
    }
    match kind {
        "var" => Some(Placeholder::Variable(name)),
        "output" => Some(Placeholder::Output(name)),
        "secret" => Some(Placeholder::Secret(name)),
        _ => None,
    }
}

/// Letters, digits, `.`, `_`, `-`; 1 to 128 characters. Names of variables, outputs and secrets.
#[must_use]
pub fn is_placeholder_name(name: &str) -> bool {
    crate::reference::is_task_name(name)
}

/// What a text of an action is read as, which says how a value is written into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Characters that stand for themselves.
    Plain,
    Css,
    Xpath,
    Pattern,
    /// The value of fill: secrets stay references, so that what is written down never holds one.
    Fill,
}

/// Puts the values in their places.
///
/// For [`Place::Fill`], the result is again a text with placeholders, all of them secrets.
///
/// # Errors
/// What is wrong, with the word for its rule: `placeholder` (malformed, or in a place that takes none), `variable` and
/// `output` (not there, or nothing that has a text), `secret` (anywhere but in the value of fill), `limit`.
pub fn insert(
    text: &str,
    place: Place,
    variables: &BTreeMap<String, String>,
    outputs: &BTreeMap<String, Value>,
) -> Result<String, (&'static str, String)> {
    let segments = placeholders(text).map_err(|error| ("placeholder", error.to_string()))?;
    let mut done = String::with_capacity(text.len());
    // Text since the last secret. It is escaped as a whole: a `$` at the end of one piece and a `{` at the beginning of
    // the next must not make a placeholder together.
    let mut plain = String::new();
    for segment in segments {
        if done.len() + plain.len() > TEXT_MAX_BYTES {
            break;
        }
        let value: &str = match segment {
            Segment::Text(text) => {
                plain.push_str(text);
                continue;
            }
            Segment::Placeholder(Placeholder::Secret(name)) => {
                if place != Place::Fill {
                    return Err((
                        "secret",
                        format!("`${{secret:{name}}}` may stand only in the value of fill"),
                    ));
                }
                if plain.ends_with('$') {
                    let message = format!("a `$` cannot stand right before `${{secret:{name}}}`");
                    return Err(("placeholder", message));
                }
                done.push_str(&escape_placeholders(&plain));
                plain.clear();
                done.push_str(&format!("${{secret:{name}}}"));
                continue;
            }
            Segment::Placeholder(Placeholder::Variable(name)) => {
                variables.get(name).ok_or_else(|| ("variable", format!("there is no variable `{name}`")))?
            }
            Segment::Placeholder(Placeholder::Output(name)) => {
                let value = outputs
                    .get(name)
                    .ok_or_else(|| ("output", format!("no earlier action has given the output `{name}`")))?;
                match value {
                    Value::String(text) => text,
                    Value::Null => return Err(("output", format!("the output `{name}` has no value"))),
                    other => {
                        push_value(&mut plain, place, &other.to_string())?;
                        continue;
                    }
                }
            }
        };
        push_value(&mut plain, place, value)?;
    }
    done.push_str(&if place == Place::Fill { escape_placeholders(&plain) } else { plain });
    if done.len() > TEXT_MAX_BYTES {
        return Err(("limit", format!("with its values it has more than {TEXT_MAX_BYTES} bytes")));
    }
    Ok(done)
}

fn push_value(to: &mut String, place: Place, value: &str) -> Result<(), (&'static str, String)> {
    match place {
        Place::Plain | Place::Fill => to.push_str(value),
        Place::Css => to.push_str(&escape_css(value)),
        Place::Pattern => to.push_str(&escape_pattern(value)),
        Place::Xpath => return Err(("placeholder", "an xpath takes no placeholders".to_owned())),
    }
    Ok(())
}

fn escape_placeholders(text: &str) -> String {
    text.replace("${", "$${")
}

/// So that it means itself within a CSS string and within an identifier alike.
fn escape_css(text: &str) -> String {
    use fmt::Write;
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' || c == '-' || u32::from(c) >= 0x80 {
            escaped.push(c);
        } else {
            // A string takes any writing; the result is never used.
            let _ = write!(escaped, "\\{:x} ", u32::from(c));
        }
    }
    escaped
}

/// So that it means itself within a regular expression, in a class as well.
fn escape_pattern(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '_' && c != '<' && c != '>' || c == ' ' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns whether a condition's `value` is a regular expression.
#[must_use]
pub fn is_pattern(kind: v1::ConditionKind) -> bool {
    use v1::ConditionKind as Kind;
    matches!(
        kind,
        Kind::TextMatches
            | Kind::ValueMatches
            | Kind::AttributeMatches
            | Kind::UrlMatches
            | Kind::HostMatches
            | Kind::TitleMatches
    )
}

/// Calls `visit` with every text of the action that may have placeholders: its path, what it is read as, and itself.
///
/// Names, references, kinds and keys have none.
pub fn each_text(action: &mut v1::Action, visit: &mut impl FnMut(&str, Place, &mut String)) {
    let fills = action.kind == v1::ActionKind::Fill as i32;
    if let Some(url) = &mut action.url {
        visit("url", Place::Plain, url);
    }
    if let Some(value) = &mut action.value {
        visit("value", if fills { Place::Fill } else { Place::Plain }, value);
    }
    if let Some(text) = &mut action.prompt_text {
        visit("prompt_text", Place::Plain, text);
    }
    for (index, option) in action.options.iter_mut().enumerate() {
        visit(&format!("options[{index}]"), Place::Plain, option);
    }
    for (index, file) in action.files.iter_mut().enumerate() {
        visit(&format!("files[{index}]"), Place::Plain, file);
    }
    if let Some(target) = &mut action.target {
        texts_of_target("target", target, visit);
    }
    if let Some(target) = &mut action.to {
        texts_of_target("to", target, visit);
    }
    let lists =
        [("conditions", &mut action.conditions), ("pre", &mut action.pre), ("post", &mut action.post)];
    for (list, conditions) in lists {
        for (index, condition) in conditions.iter_mut().enumerate() {
            texts_of_condition(format!("{list}[{index}]"), condition, visit);
        }
    }
}

fn texts_of_target(path: &str, target: &mut v1::Target, visit: &mut impl FnMut(&str, Place, &mut String)) {
    let mut open = vec![(path.to_owned(), target)];
    while let Some((path, target)) = open.pop() {
        let texts = [
            ("testid", Place::Plain, &mut target.testid),
            ("name", Place::Plain, &mut target.name),
            ("label", Place::Plain, &mut target.label),
            ("css", Place::Css, &mut target.css),
            ("xpath", Place::Xpath, &mut target.xpath),
            ("text", Place::Plain, &mut target.text),
            ("near", Place::Plain, &mut target.near),
        ];
        for (field, place, text) in texts {
            if let Some(text) = text {
                visit(&format!("{path}.{field}"), place, text);
            }
        }
        let frames = target.frame.iter_mut().enumerate();
        open.extend(frames.map(|(index, frame)| (format!("{path}.frame[{index}]"), frame)));
        open.extend(target.within.as_deref_mut().map(|container| (format!("{path}.within"), container)));
    }
}

fn texts_of_condition(
    path: String,
    condition: &mut v1::Condition,
    visit: &mut impl FnMut(&str, Place, &mut String),
) {
    let (mut path, mut condition) = (path, condition);
    loop {
        let pattern = v1::ConditionKind::try_from(condition.kind).is_ok_and(is_pattern);
        if let Some(value) = &mut condition.value {
            let place = if pattern { Place::Pattern } else { Place::Plain };
            visit(&format!("{path}.value"), place, value);
        }
        if let Some(target) = &mut condition.target {
            texts_of_target(&format!("{path}.target"), target, visit);
        }
        let Some(inner) = &mut condition.condition else { return };
        path.push_str(".condition");
        condition = inner;
    }
}

/// The action with every variable and output in its place; secrets stay references. Paths are those of the action.
///
/// # Errors
/// Everything that cannot be put in its place; the rules are those of [`insert`].
pub fn substitute(
    action: &v1::Action,
    variables: &BTreeMap<String, String>,
    outputs: &BTreeMap<String, Value>,
) -> Result<v1::Action, Vec<v1::ScriptViolation>> {
    let mut done = action.clone();
    let mut violations = Vec::new();
    each_text(&mut done, &mut |path, place, text| match insert(text, place, variables, outputs) {
        Ok(inserted) => *text = inserted,
        Err((rule, message)) => violations.push(v1::ScriptViolation {
            path: path.to_owned(),
            action_id: action.id.clone(),
            rule: rule.to_owned(),
            message,
        }),
    });
    if violations.is_empty() { Ok(done) } else { Err(violations) }
}

#[cfg(test)]
mod tests;
