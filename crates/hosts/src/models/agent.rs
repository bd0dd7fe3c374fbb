//! What an agent with a model behind it is, as `capataz.toml` declares it.

use capataz_contracts::validate::{DESCRIPTION_MAX, wrong_agent_name};
use capataz_contracts::{Violation, v1};
use capataz_model::{Endpoint, Protocol, Usage};
use serde::Deserialize;

use crate::commands::Kind;

/// Requests of one model at a time, where nobody says.
const CONCURRENCY: u32 = 4;
/// How long a model may say nothing, where nobody says. Milliseconds.
const SILENCE_MS: u64 = 120_000;
/// The longest that it may. Milliseconds.
const SILENCE_MAX_MS: u64 = 3_600_000;
/// Bytes of what a model is told to be.
const SYSTEM_MAX: usize = 64 * 1024;
/// The most that a million tokens cost.
const PRICE_MAX: f64 = 1_000_000.0;
const REFERENCE: (&str, &str) = ("${secret:", "}");

/// A model that serves tasks, or plans: one entry of `[[models]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelAgent {
    /// The name of the agent.
    pub name: String,
    #[serde(default)]
    pub category: String,
    /// What the agent is for: a task of plans, a tool of executions, or a planner of them.
    #[serde(default)]
    pub kind: Kind,
    /// What it does, for planners and people; at most 2,000 bytes.
    #[serde(default)]
    pub description: String,
    /// `openai` or `anthropic`.
    pub protocol: Protocol,
    /// Where the protocol's paths begin: `https://api.openai.com/v1`, `https://api.anthropic.com`.
    pub base_url: String,
    /// The model, as its server calls it.
    pub model: String,
    /// `${secret:NAME}`; absent: the server wants none.
    #[serde(default)]
    pub key: Option<String>,
    /// What the model is told to be, before its input.
    #[serde(default)]
    pub system: Option<String>,
    /// Tokens of an answer at most.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// 0 to 2; in the protocol `anthropic` 0 to 1.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Whether the server is given the JSON Schema that the answer has to pass. Where it knows no such thing, the model is told
    /// in words.
    #[serde(default = "yes")]
    pub structured: bool,
    /// How long the model may say nothing. Milliseconds, or a text such as `2m`.
    #[serde(default = "silence", deserialize_with = "crate::models::agent::duration")]
    pub silence_ms: u64,
    /// Most requests at one time, at least 1.
    #[serde(default = "concurrency")]
    pub max_concurrency: u32,
    /// What tokens cost; absent: nothing is said of costs.
    #[serde(default)]
    pub price: Option<Price>,
}

/// What a million tokens cost.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from a cache; absent: as `input`.
    #[serde(default)]
    pub cached: Option<f64>,
    /// ISO 4217, such as `USD`.
    pub currency: String,
}

fn yes() -> bool {
    true
}

fn silence() -> u64 {
    SILENCE_MS
}

fn concurrency() -> u32 {
    CONCURRENCY
}

/// Milliseconds, or a text with a unit.
fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(u64),
        Text(String),
    }
    match Given::deserialize(deserializer)? {
        Given::Number(ms) => Ok(ms),
        Given::Text(text) => {
            let ms = capataz_contracts::duration::parse(&text).map_err(serde::de::Error::custom)?;
            u64::try_from(ms).map_err(serde::de::Error::custom)
        }
    }
}

impl ModelAgent {
    /// All that is wrong with it.
    #[must_use]
    pub fn validate(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut wrong =
            |path: &str, rule, message: String| violations.push(Violation::new(path, rule, message));
        if let Some((rule, message)) = wrong_agent_name(&self.name) {
            wrong("name", rule, message);
        }
        if self.description.len() > DESCRIPTION_MAX {
            wrong("description", "length", format!("at most {DESCRIPTION_MAX} bytes"));
        }
        for problem in self.endpoint().check().err().unwrap_or_default() {
            wrong(problem.field, "endpoint", problem.message);
        }
        if self.key.is_some() && self.secret().is_none() {
            let message = "write ${secret:NAME}, and put the key where secrets are: it is not written here";
            wrong("key", "secret_reference", message.to_owned());
        }
        if self.system.as_ref().is_some_and(|system| system.len() > SYSTEM_MAX) {
            wrong("system", "length", format!("at most {SYSTEM_MAX} bytes"));
        }
        if !(1..=SILENCE_MAX_MS).contains(&self.silence_ms) {
            wrong("silence_ms", "range", "from 1 ms to 1 hour".to_owned());
        }
        if self.max_concurrency == 0 {
            wrong("max_concurrency", "range", "at least 1".to_owned());
        }
        if let Some(price) = &self.price {
            let all =
                [("input", Some(price.input)), ("output", Some(price.output)), ("cached", price.cached)];
            for (field, value) in all {
                if value.is_some_and(|value| !(0.0..=PRICE_MAX).contains(&value)) {
                    let message = format!("what a million tokens cost: from 0 to {PRICE_MAX}");
                    wrong(&format!("price.{field}"), "range", message);
                }
            }
            if price.currency.len() != 3 || !price.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
                wrong("price.currency", "currency", "three upper-case letters, such as USD".to_owned());
            }
        }
        violations
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            protocol: self.protocol,
            base_url: self.base_url.clone(),
            model: self.model.clone(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
        }
    }

    /// The name of the secret that is its key.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        let name = self.key.as_ref()?.strip_prefix(REFERENCE.0)?.strip_suffix(REFERENCE.1)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        (!name.is_empty() && name.bytes().all(plain)).then_some(name)
    }

    /// The agent, as it is known.
    #[must_use]
    pub fn described(&self) -> v1::Agent {
        v1::Agent {
            name: self.name.clone(),
            category: self.category.clone(),
            kind: self.kind.to_proto().into(),
            description: self.description.clone(),
            max_concurrency: self.max_concurrency,
            // What a model says can be said again.
            undoable: self.kind == Kind::Tool,
            ..v1::Agent::default()
        }
    }

    /// What the tokens were, and what they cost.
    pub(super) fn used(&self, usage: Usage) -> Option<v1::Usage> {
        let Usage { input_tokens, output_tokens, cached_tokens } = usage;
        if input_tokens.is_none() && output_tokens.is_none() {
            return None;
        }
        let cost = self.price.as_ref().map(|price| {
            let cached = cached_tokens.unwrap_or_default().min(input_tokens.unwrap_or_default());
            let read = input_tokens.unwrap_or_default() - cached;
            // A millionth of the price of a million, in billionths.
            let nanos = |tokens: u64, price: f64| as_nanos(tokens, price);
            let nanos = nanos(read, price.input)
                .saturating_add(nanos(cached, price.cached.unwrap_or(price.input)))
                .saturating_add(nanos(output_tokens.unwrap_or_default(), price.output));
            v1::Cost { nanos, currency: price.currency.clone() }
        });
        Some(v1::Usage { input_tokens, output_tokens, cached_tokens, cost })
    }
}

/// What so many tokens cost, in billionths, where a million of them cost `price`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of tokens are small, and prices are not negative"
)]
fn as_nanos(tokens: u64, price: f64) -> u64 {
    (tokens as f64 * price * 1_000.0).round() as u64
}
