//! The contents of a spec file after its checks.

use std::collections::BTreeMap;

use serde_json::Value;

/// A language code: `es`, `en`, ….
pub type Language = String;

/// A word or phrase that indicates a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyword {
    /// The text as written in the file. Matching ignores case, accents and punctuation.
    pub text: String,
    /// The weight, above 0 and at most 10; 1 if the file sets none.
    pub weight: f64,
}

/// A named pattern, which matches if one of its phrases or regular expressions does.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    pub name: String,
    pub phrases: Vec<String>,
    /// The regular expressions, compiled with a bound on their size and matched against the folded text.
    pub expressions: Vec<regex::Regex>,
    /// The answers of the built-in agent `template`, by language.
    pub templates: BTreeMap<Language, Vec<Template>>,
    /// The transition that the `template` agent proposes with its answer.
    pub transition: Option<Transition>,
    /// The `context_update` of the answer, an object whose strings may contain placeholders.
    pub context_update: Option<Value>,
    /// The refusal that the `template` agent gives instead of an answer.
    pub refusal: Option<Refusal>,
}

/// A transition to another spec that a pattern proposes (seed 001, "Reglas de Transición entre Specs").
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    pub suggest_spec: String,
    pub reason: String,
    /// The confidence from 0 to 1.
    pub confidence: f64,
    pub auto_transition: bool,
    /// If the list is not empty, the transition is proposed only for texts that contain one of the keywords.
    pub keywords: Vec<String>,
}

/// A pattern's refusal and its error (seed 001, "Errores de Validación").
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub code: String,
    /// The messages by language; they may contain placeholders.
    pub message: BTreeMap<Language, String>,
    pub recoverable: bool,
    pub fallback_spec: Option<String>,
    /// The length in characters below which a text is refused; without it, all texts are.
    pub below_characters: Option<usize>,
}

/// The lengths of texts that the `template` agent accepts. Other texts are a `VALIDATION_ERROR`.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The minimum length in characters, not counting white space at the ends.
    pub min_characters: usize,
    /// The maximum length in characters, not counting white space at the ends.
    pub max_characters: usize,
    /// The message for the user, by language. If it is empty, the program's own text is used.
    pub too_short: BTreeMap<Language, String>,
    /// Like `too_short`.
    pub too_long: BTreeMap<Language, String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_characters: 1,
            max_characters: 20_000,
            too_short: BTreeMap::new(),
            too_long: BTreeMap::new(),
        }
    }
}

/// One answer of the built-in agent `template`.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub text: String,
    /// The format: `text`, `markdown` or `html`.
    pub format: String,
    /// The `structured` part of the response. Like `text`, its strings may contain placeholders.
    pub structured: Option<Value>,
}

/// A user's goal with example utterances, which is a class of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    pub name: String,
    /// The examples with their languages, where the file declares them.
    pub examples: Vec<(Option<Language>, String)>,
    /// The pattern that answers the intent, if there is one.
    pub pattern: Option<String>,
}

/// One spec, as its file describes it.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub id: String,
    pub title: String,
    pub description: String,
    pub languages: Vec<Language>,
    pub tone: String,
    pub response_style: String,
    /// The version (semver) of the spec contract that the spec supports.
    pub contract_version: String,
    pub capabilities: Vec<String>,
    pub keywords: Vec<Keyword>,
    pub patterns: Vec<Pattern>,
    pub intents: Vec<Intent>,
    /// The agent that serves the spec; `template` is built in.
    pub agent: String,
    /// The error codes that the spec declares itself.
    pub error_codes: Vec<String>,
    pub default: bool,
    /// The pattern that answers if neither routing nor an intent names one.
    pub fallback_pattern: Option<String>,
    pub limits: Limits,
}

/// All specs by id, at most one of which is the default.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    specs: Vec<Spec>,
}

impl Catalogue {
    /// Makes a catalogue, sorted by id.
    #[must_use]
    pub fn new(mut specs: Vec<Spec>) -> Self {
        specs.sort_by(|one, other| one.id.cmp(&other.id));
        Self { specs }
    }

    /// The specs in the order of their ids.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Spec> {
        let place = self.specs.binary_search_by(|spec| spec.id.as_str().cmp(id)).ok()?;
        self.specs.get(place)
    }

    /// The spec that answers if no other spec should.
    #[must_use]
    pub fn default_spec(&self) -> Option<&Spec> {
        self.specs.iter().find(|spec| spec.default)
    }
}
