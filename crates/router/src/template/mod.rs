//! The built-in agent `template`, which answers a request from the spec's own templates (seed 001, "Spec Contract &
//! Integration").
//!
//! The agent is pure and total: the same spec, request and time give the same answer, and any JSON gets an answer.
//!
//! - **Pattern**: `context.suggested_pattern`, else the first of `context.patterns_matched`, else the pattern of the
//!   detected intent, else the spec's `fallback_pattern`, else its first pattern. The first one of these that can answer
//!   is used.
//! - **Language**: `user.preferences.language`, else the language of the text's most common words, else that of the
//!   user's previous text, else the spec's first language.
//! - **Template**: if there are several, one is chosen by a hash of the request's id.
//! - **Confidence**: that of routing, because a template adds no evidence; half of it if only the fallback answers. A
//!   refusal has 0.

pub(crate) mod placeholder;
mod request;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::placeholder::{Markup, fill};
use self::request::Asked;
use crate::spec::{Language, Pattern, Refusal, Spec, Template, Transition};
use crate::{fold, language};

/// Makes the `SpecResponse` of `spec` to the `SpecRequest`; `now_ms` is Unix time in milliseconds.
///
/// `metadata.processing_time_ms` is the time from the request's `timestamp` to `now_ms`. Errors: `INVALID_REQUEST` for
/// a request that is invalid or for another spec; `VALIDATION_ERROR` for a text beyond the spec's limits;
/// `CAPABILITY_NOT_SUPPORTED` if no pattern has a template; and the error that the spec file declares if a pattern
/// refuses.
#[must_use]
pub fn answer(spec: &Spec, request: &Value, now_ms: i64) -> Value {
    let asked = match Asked::read(spec, request) {
        Ok(asked) => asked,
        Err(problems) => return refuse_invalid(spec, request, &problems, now_ms),
    };
    let language = choose_language(spec, &asked);
    let envelope = Envelope { spec, asked: &asked, now_ms };
    if let Some(error) = beyond_limits(spec, &asked, language) {
        return envelope.failure(&error);
    }
    let chosen = choose_pattern(spec, &asked);
    if let Some(refusal) = chosen.and_then(|(pattern, _)| refusal_of(pattern, &asked)) {
        return envelope.failure(&refused(refusal, spec, &asked, language));
    }
    let template = chosen.and_then(|(pattern, is_fallback)| {
        Some((pattern, choose_template(spec, pattern, language, asked.id)?, is_fallback))
    });
    match template {
        Some((pattern, template, is_fallback)) => envelope.success(pattern, template, is_fallback),
        None => envelope.failure(&json!({
            "code": "CAPABILITY_NOT_SUPPORTED",
            "message": Message::Unsupported.say(language),
            "details": "No pattern of the spec has a template",
            "recoverable": false,
            "fallback_spec": null,
        })),
    }
}

struct Envelope<'a> {
    spec: &'a Spec,
    asked: &'a Asked<'a>,
    now_ms: i64,
}

impl Envelope<'_> {
    fn processing_time_ms(&self) -> i64 {
        self.now_ms.saturating_sub(self.asked.timestamp).max(0)
    }

    fn failure(&self, error: &Value) -> Value {
        json!({
            "success": false,
            "spec": self.spec.id,
            "request_id": self.asked.id,
            "timestamp": self.now_ms.max(0),
            "error": error,
            "metadata": {
                "processing_time_ms": self.processing_time_ms(),
                "pattern_used": null,
                "confidence": 0.0,
            },
        })
    }

    fn success(&self, pattern: &Pattern, template: &Template, is_fallback: bool) -> Value {
        let markup = Markup::of_format(&template.format);
        let value = |slot| self.asked.value(slot);
        let mut response = Map::new();
        response.insert("text".to_owned(), fill(&template.text, markup, &value).into());
        response.insert("format".to_owned(), template.format.as_str().into());
        if let Some(structured) = &template.structured {
            response.insert("structured".to_owned(), fill_all(structured, markup, self.asked));
        }
        let confidence = if is_fallback { self.asked.confidence / 2.0 } else { self.asked.confidence };
        let mut answer = Map::new();
        answer.insert("success".to_owned(), true.into());
        answer.insert("spec".to_owned(), self.spec.id.as_str().into());
        answer.insert("request_id".to_owned(), self.asked.id.into());
        answer.insert("timestamp".to_owned(), self.now_ms.max(0).into());
        answer.insert("response".to_owned(), Value::Object(response));
        answer.insert(
            "metadata".to_owned(),
            json!({
                "processing_time_ms": self.processing_time_ms(),
                "pattern_used": pattern.name,
                "confidence": confidence,
            }),
        );
        if let Some(transition) = pattern.transition.as_ref().filter(|it| applies(it, self.asked)) {
            answer.insert(
                "transition".to_owned(),
                json!({
                    "suggest_spec": transition.suggest_spec,
                    "reason": transition.reason,
                    "confidence": transition.confidence.clamp(0.0, 1.0),
                    "auto_transition": transition.auto_transition,
                }),
            );
        }
        if let Some(update) = &pattern.context_update {
            answer.insert("context_update".to_owned(), fill_all(update, Markup::None, self.asked));
        }
        Value::Object(answer)
    }
}

/// Returns whether a transition applies: always if it has no keywords, else if the text or the matched keywords contain
/// one.
fn applies(transition: &Transition, asked: &Asked<'_>) -> bool {
    if transition.confidence.is_nan() {
        return false;
    }
    if transition.keywords.is_empty() {
        return true;
    }
    let texts: Vec<Vec<String>> =
        std::iter::once(asked.text).chain(asked.keywords.iter().copied()).map(fold::words).collect();
    transition.keywords.iter().any(|keyword| {
        let keyword = fold::words(keyword);
        texts.iter().any(|text| fold::holds(text, &keyword))
    })
}

/// Fills the placeholders in the strings of a value. Keys stay unchanged.
fn fill_all(value: &Value, markup: Markup, asked: &Asked<'_>) -> Value {
    match value {
        Value::String(text) => fill(text, markup, &|slot| asked.value(slot)).into(),
        Value::Array(items) => items.iter().map(|item| fill_all(item, markup, asked)).collect(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), fill_all(value, markup, asked))).collect()
        }
        other => other.clone(),
    }
}

fn choose_language<'a>(spec: &'a Spec, asked: &Asked<'_>) -> &'a str {
    if let Some(preferred) = asked.preferred_language {
        let base = preferred.split(['-', '_']).next().unwrap_or_default();
        if let Some(language) = spec.languages.iter().find(|language| language.eq_ignore_ascii_case(base)) {
            return language;
        }
    }
    let detected = asked.texts().find_map(|text| language::detect(text, &spec.languages));
    detected.or_else(|| spec.languages.first().map(Language::as_str)).unwrap_or("en")
}

/// The pattern that answers, and whether it is only the last resort.
fn choose_pattern<'a>(spec: &'a Spec, asked: &Asked<'_>) -> Option<(&'a Pattern, bool)> {
    let answers = |pattern: &&Pattern| {
        refusal_of(pattern, asked).is_some()
            || pattern.templates.values().any(|templates| !templates.is_empty())
    };
    let named = |name: &str| spec.patterns.iter().find(|pattern| pattern.name == name).filter(answers);
    let of_intent = || {
        let intent = spec.intents.iter().find(|intent| Some(intent.name.as_str()) == asked.intent)?;
        named(intent.pattern.as_deref()?)
    };
    let routed = asked
        .suggested_pattern
        .and_then(named)
        .or_else(|| asked.patterns_matched.iter().find_map(|name| named(name)))
        .or_else(of_intent);
    if let Some(pattern) = routed {
        return Some((pattern, false));
    }
    let fallback = spec.fallback_pattern.as_deref().and_then(named);
    fallback.or_else(|| spec.patterns.iter().find(answers)).map(|pattern| (pattern, true))
}

fn refusal_of<'a>(pattern: &'a Pattern, asked: &Asked<'_>) -> Option<&'a Refusal> {
    let refusal = pattern.refusal.as_ref()?;
    refusal.below_characters.is_none_or(|least| asked.characters() < least).then_some(refusal)
}

fn choose_template<'a>(spec: &Spec, pattern: &'a Pattern, language: &str, id: &str) -> Option<&'a Template> {
    let languages = std::iter::once(language).chain(spec.languages.iter().map(Language::as_str));
    let templates = languages
        .filter_map(|language| pattern.templates.get(language))
        .chain(pattern.templates.values())
        .find(|templates| !templates.is_empty())?;
    let count = u64::try_from(templates.len()).ok()?;
    let place = usize::try_from(hash(id).checked_rem(count)?).ok()?;
    templates.get(place)
}

/// The 64-bit FNV-1a hash, which is the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn refused(refusal: &Refusal, spec: &Spec, asked: &Asked<'_>, language: &str) -> Value {
    let message = in_language(&refusal.message, spec, language).map_or_else(
        || Message::TooShort.say(language).to_owned(),
        |message| fill(message, Markup::None, &|slot| asked.value(slot)),
    );
    let mut details = match refusal.below_characters {
        Some(least) => format!("Text length < {least} characters"),
        None => "Refused by the spec".to_owned(),
    };
    if asked.intent.is_none() {
        details.push_str(" and no clear intent detected");
    }
    json!({
        "code": refusal.code,
        "message": message,
        "details": details,
        "recoverable": refusal.recoverable,
        "fallback_spec": refusal.fallback_spec,
    })
}

fn beyond_limits(spec: &Spec, asked: &Asked<'_>, language: &str) -> Option<Value> {
    let (limits, characters) = (&spec.limits, asked.characters());
    let (messages, own, details) = if characters < limits.min_characters {
        (&limits.too_short, Message::TooShort, format!("Text length < {} characters", limits.min_characters))
    } else if characters > limits.max_characters {
        (&limits.too_long, Message::TooLong, format!("Text length > {} characters", limits.max_characters))
    } else {
        return None;
    };
    let message = in_language(messages, spec, language).unwrap_or_else(|| own.say(language));
    Some(json!({
        "code": "VALIDATION_ERROR",
        "message": message,
        "details": details,
        "recoverable": true,
        "fallback_spec": null,
    }))
}

/// The text in the language, else in the first of the spec's languages that has one.
fn in_language<'a>(texts: &'a BTreeMap<Language, String>, spec: &Spec, language: &str) -> Option<&'a str> {
    let languages = std::iter::once(language).chain(spec.languages.iter().map(Language::as_str));
    languages.filter_map(|language| texts.get(language)).chain(texts.values()).map(String::as_str).next()
}

fn refuse_invalid(spec: &Spec, request: &Value, problems: &[String], now_ms: i64) -> Value {
    let id = request.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let timestamp = request.get("timestamp").and_then(Value::as_i64).filter(|time| *time >= 0);
    let language = request.pointer("/user/preferences/language").and_then(Value::as_str);
    let language = language.or_else(|| spec.languages.first().map(Language::as_str)).unwrap_or("en");
    json!({
        "success": false,
        "spec": spec.id,
        // The contract requires a non-empty id.
        "request_id": id.unwrap_or("unknown"),
        "timestamp": now_ms.max(0),
        "error": {
            "code": "INVALID_REQUEST",
            "message": Message::Invalid.say(language),
            "details": problems.join("; "),
            "recoverable": false,
            "fallback_spec": null,
        },
        "metadata": {
            "processing_time_ms": timestamp.map_or(0, |time| now_ms.saturating_sub(time).max(0)),
            "pattern_used": null,
            "confidence": 0.0,
        },
    })
}

/// The program's own messages for users, for spec files without one.
#[derive(Clone, Copy, Debug)]
enum Message {
    Invalid,
    TooShort,
    TooLong,
    Unsupported,
}

impl Message {
    fn say(self, language: &str) -> &'static str {
        let spanish = language.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("es"));
        match (self, spanish) {
            (Self::Invalid, false) => "That message could not be read. Could you put it another way?",
            (Self::Invalid, true) => "No he podido leer ese mensaje. ¿Puedes decirlo de otra manera?",
            (Self::TooShort, false) => "That is very short. Could you say a little more?",
            (Self::TooShort, true) => "Es muy breve. ¿Puedes contar un poco más?",
            (Self::TooLong, false) => "That is very long. Could you say the essential part in fewer words?",
            (Self::TooLong, true) => "Es muy largo. ¿Puedes contar lo esencial con menos palabras?",
            (Self::Unsupported, false) => "There is nothing here yet that could answer this.",
            (Self::Unsupported, true) => "Todavía no hay aquí nada que pueda responder a esto.",
        }
    }
}

#[cfg(test)]
mod tests;
