//! The parts of a `SpecRequest` that the agent uses (seed 001, "Formato de Entrada").

use serde_json::Value;

use super::placeholder::Slot;
use crate::fold;
use crate::spec::Spec;

/// The maximum number of characters of a text that an answer repeats.
const REPEATED_CHARACTERS: usize = 200;
/// The maximum number of characters of `{topic}`.
const TOPIC_CHARACTERS: usize = 80;
/// The number of words below which a text after another one counts as a follow-up.
const FOLLOW_UP_WORDS: usize = 5;
/// The name of an unrecognised intent.
pub(super) const UNCLEAR: &str = "unclear";

/// A request with the parts that an answer needs.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub id: &'a str,
    /// The Unix time in milliseconds.
    pub timestamp: i64,
    /// The text without white space at its ends; not empty.
    pub text: &'a str,
    /// The confidence from 0 to 1.
    pub confidence: f64,
    /// The intent; `None` if it is `unclear`.
    pub intent: Option<&'a str>,
    pub keywords: Vec<&'a str>,
    pub patterns_matched: Vec<&'a str>,
    pub suggested_pattern: Option<&'a str>,
    pub preferred_language: Option<&'a str>,
    previous_user_text: Option<&'a str>,
    emotional_state: &'a str,
    spec_title: &'a str,
}

impl<'a> Asked<'a> {
    /// Reads a request to `spec`.
    ///
    /// # Errors
    /// All errors of the request, in English: the rules of the seed's `validateRequest`, and that the request is for
    /// this spec.
    pub(super) fn read(spec: &'a Spec, request: &'a Value) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        for field in ["id", "timestamp", "text", "spec", "routing", "context"] {
            if request.get(field).is_none_or(Value::is_null) {
                problems.push(format!("Missing required field: {field}"));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let id = request.get("id").and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() {
            problems.push("id must be a non-empty string".to_owned());
        }
        let timestamp = request.get("timestamp").and_then(Value::as_i64).filter(|time| *time >= 0);
        if timestamp.is_none() {
            problems.push("timestamp must be integer milliseconds".to_owned());
        }
        let text = request.get("text").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        if text.is_empty() {
            problems.push("Text must be a non-empty string".to_owned());
        }
        if request.get("spec").and_then(Value::as_str) != Some(spec.id.as_str()) {
            problems.push(format!("The request is not for the spec {}", spec.id));
        }
        let confidence = request.pointer("/routing/confidence").and_then(Value::as_f64);
        let confidence = confidence.filter(|number| (0.0..=1.0).contains(number));
        if confidence.is_none() {
            problems.push("Confidence must be between 0 and 1".to_owned());
        }
        if !request.get("context").is_some_and(Value::is_object) {
            problems.push("context must be an object".to_owned());
        }
        let (Some(timestamp), Some(confidence), true) = (timestamp, confidence, problems.is_empty()) else {
            return Err(problems);
        };
        let string = |pointer: &str| request.pointer(pointer).and_then(Value::as_str);
        Ok(Self {
            id,
            timestamp,
            text,
            // `abs` removes a negative zero, which must not appear in the answer.
            confidence: confidence.abs(),
            intent: string("/context/detected_intent")
                .filter(|intent| !intent.is_empty() && *intent != UNCLEAR),
            keywords: strings(request, "/context/keywords_matched"),
            patterns_matched: strings(request, "/context/patterns_matched"),
            suggested_pattern: string("/context/suggested_pattern"),
            preferred_language: string("/user/preferences/language"),
            previous_user_text: previous_user_text(request),
            emotional_state: string("/user/emotional_state").unwrap_or_default(),
            spec_title: &spec.title,
        })
    }

    /// The length of the text, in characters.
    pub(super) fn characters(&self) -> usize {
        self.text.chars().count()
    }

    /// The text, and the previous text if it is known: evidence of the user's language, the best first.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.text).chain(self.previous_user_text)
    }

    /// The value of a placeholder, in plain text; empty if the request has none.
    pub(super) fn value(&self, slot: Slot) -> String {
        match slot {
            Slot::Text => shortened(self.text, REPEATED_CHARACTERS),
            Slot::Keyword => {
                self.keywords.first().map(|word| shortened(word, REPEATED_CHARACTERS)).unwrap_or_default()
            }
            Slot::Keywords => shortened(&self.keywords.join(", "), REPEATED_CHARACTERS),
            Slot::Intent => {
                shortened(&self.intent.unwrap_or_default().replace('_', " "), REPEATED_CHARACTERS)
            }
            Slot::Topic => self.topic(),
            Slot::PreviousUserText => {
                shortened(self.previous_user_text.unwrap_or_default(), REPEATED_CHARACTERS)
            }
            Slot::EmotionalState => shortened(self.emotional_state, REPEATED_CHARACTERS),
            Slot::SpecTitle => self.spec_title.to_owned(),
        }
    }

    fn topic(&self) -> String {
        let beginning = fold::beginning(self.text, REPEATED_CHARACTERS);
        let follows_up = beginning == self.text && fold::words(beginning).len() < FOLLOW_UP_WORDS;
        let text = self.previous_user_text.filter(|_| follows_up).unwrap_or(self.text);
        let bare = text.trim_matches(|letter: char| letter.is_whitespace() || "¿?¡!.,;:…".contains(letter));
        shortened(if bare.is_empty() { text } else { bare }, TOPIC_CHARACTERS)
    }
}

fn strings<'a>(request: &'a Value, pointer: &str) -> Vec<&'a str> {
    let list = request.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).filter(|text| !text.trim().is_empty()).collect()
}

fn previous_user_text(request: &Value) -> Option<&str> {
    let history = request.pointer("/conversation/history").and_then(Value::as_array)?;
    let said =
        history.iter().rev().filter(|message| message.get("role").and_then(Value::as_str) == Some("user"));
    said.filter_map(|message| message.get("text").and_then(Value::as_str))
        .map(str::trim)
        .find(|text| !text.is_empty())
}

/// The text in one line, without control characters, and cut after `limit` characters.
fn shortened(text: &str, limit: usize) -> String {
    let mut line = String::new();
    let mut characters = 0;
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        if characters > 0 {
            line.push(' ');
            characters += 1;
        }
        for letter in word.chars() {
            if characters >= limit {
                line.push('…');
                return line;
            }
            line.push(letter);
            characters += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_text_is_one_line_of_bounded_length() {
        assert_eq!(shortened("  two\n\twords\u{7} ", 80), "two words");
        assert_eq!(shortened("abcdef", 3), "abc…");
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("", 3), "");
    }
}
