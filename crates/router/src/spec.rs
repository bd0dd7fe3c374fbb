//! What a spec file says, after it was checked.

use std::collections::BTreeMap;

/// A language code: `es`, `en`, ….
pub type Language = String;

/// A word or phrase that speaks for a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyword {
    /// As written in the file; matched without regard to case, accents and punctuation.
    pub text: String,
    /// Above 0, at most 10; 1 where the file says nothing.
    pub weight: f64,
}

/// A named pattern: matches where one of its phrases or regular expressions does.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    pub name: String,
    pub phrases: Vec<String>,
    /// Compiled with a bound on their size; matched on the folded text.
    pub expressions: Vec<regex::Regex>,
    /// What the built-in `template` agent answers, by language.
    pub templates: BTreeMap<Language, Vec<Template>>,
}

/// One answer of the built-in `template` agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    pub text: String,
    /// `text`, `markdown` or `html`.
    pub format: String,
    /// The `structured` part of the response; strings in it may hold placeholders, as `text` may.
    pub structured: Option<serde_json::Value>,
}

/// Something that users want, with example utterances: a class of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    pub name: String,
    /// With their language, where the file says it.
    pub examples: Vec<(Option<Language>, String)>,
    /// The pattern that answers it, where one does.
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
    /// Semver of the spec contract that it supports.
    pub contract_version: String,
    pub capabilities: Vec<String>,
    pub keywords: Vec<Keyword>,
    pub patterns: Vec<Pattern>,
    pub intents: Vec<Intent>,
    /// The agent that serves it; `template` is built in.
    pub agent: String,
    /// Error codes of its own.
    pub error_codes: Vec<String>,
    pub default: bool,
}

/// All specs, by id; at most one is the default.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    specs: Vec<Spec>,
}

impl Catalogue {
    /// Sorts the specs by id.
    #[must_use]
    pub fn new(mut specs: Vec<Spec>) -> Self {
        specs.sort_by(|one, other| one.id.cmp(&other.id));
        Self { specs }
    }

    /// In the order of their ids.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Spec> {
        let place = self.specs.binary_search_by(|spec| spec.id.as_str().cmp(id)).ok()?;
        self.specs.get(place)
    }

    /// The spec that answers where no other one should.
    #[must_use]
    pub fn default_spec(&self) -> Option<&Spec> {
        self.specs.iter().find(|spec| spec.default)
    }
}
