//! Asks, and the specs that they are routed to.

use capataz_contracts::v1;
use capataz_shard::{Chosen, Route};
use serde_json::json;

use crate::rng::Rng;
use crate::scenario::{FOREIGN_SPEC, Scenario, spec_agent};

/// Confidences on both sides of every limit.
pub const CONFIDENCES: [f64; 8] = [0.1, 0.59, 0.6, 0.7, 0.8, 0.81, 0.9, 0.99];

#[must_use]
pub fn spec_name(index: usize) -> String {
    format!("spec-{index}")
}

/// One of the sessions.
pub fn session(rng: &mut Rng, scenario: &Scenario) -> String {
    format!("talk-{}", rng.below(scenario.sessions))
}

/// An ask of one of the sessions, or of none.
pub fn draw(rng: &mut Rng, scenario: &Scenario, number: u64) -> v1::Ask {
    let session = rng.percent(80).then(|| session(rng, scenario));
    // Some of these are in no catalogue.
    let spec = rng.percent(20).then(|| spec_name(rng.below(FOREIGN_SPEC + 3)));
    let mut ask = v1::Ask {
        text: format!("text {number}"),
        session,
        spec,
        request_id: Some(format!("ask-{number}")),
        ..v1::Ask::default()
    };
    if rng.percent(20) {
        ask.preferences.insert("language".to_owned(), ["es", "en"][rng.below(2)].to_owned());
    }
    if rng.percent(10) {
        let tones = [json!(null), json!(number), json!(["calm", { "at": number }]), json!("quiet")];
        ask.preferences_json = Some(json!({ "tone": rng.pick(&tones) }).to_string());
        ask.custom_json = Some(json!({ "origin": { "number": number } }).to_string());
    }
    // Three of these are more than a session keeps.
    if rng.percent(1) {
        let notes = "x".repeat(100_000);
        ask.preferences_json = Some(json!({ format!("notes-{}", rng.below(4)): [notes] }).to_string());
    }
    ask
}

/// The specs of one moment. The same text goes to the same spec, or to none.
#[derive(Clone, Debug)]
pub struct Catalogue {
    specs: Vec<usize>,
    default: Option<String>,
    salt: u64,
}

impl Catalogue {
    pub fn draw(rng: &mut Rng) -> Self {
        let specs: Vec<usize> = (0..=FOREIGN_SPEC).filter(|_| rng.percent(75)).collect();
        let default = rng.percent(60).then(|| rng.pick(&specs).copied().map(spec_name)).flatten();
        Self { specs, default, salt: rng.draw() }
    }

    /// The one of which every spec can answer.
    pub fn calm() -> Self {
        Self { specs: vec![0, 1, 2], default: Some(spec_name(0)), salt: 0 }
    }

    fn chosen(&self, text: &str) -> (Option<usize>, f64) {
        let mut rng =
            Rng::new(text.bytes().fold(self.salt, |sum, byte| sum.rotate_left(5) ^ u64::from(byte)));
        let confidence = rng.pick(&CONFIDENCES).copied().unwrap_or_default();
        let none = rng.percent(12);
        (rng.pick(&self.specs).copied().filter(|_| !none), confidence)
    }
}

impl Route for Catalogue {
    fn route(&self, ask: &v1::Ask, context: &v1::SessionContext, spec: Option<&str>) -> Chosen {
        let (chosen, confidence) = self.chosen(&ask.text);
        let alone = chosen.map(|index| v1::RouterChoice {
            spec: spec_name(index),
            confidence,
            reason: "as drawn".to_owned(),
        });
        let found = match spec {
            Some(name) => self.specs.iter().copied().find(|index| spec_name(*index) == name),
            None => chosen,
        };
        let target = match found {
            Some(index) => {
                // Now and then what no request may hold.
                let broken = spec.is_none() && ask.text.ends_with("13");
                let routing = v1::Routing {
                    spec: spec_name(index),
                    confidence: if broken { 1.5 } else { confidence },
                    reason: "as drawn".to_owned(),
                    detected_intent: "any".to_owned(),
                    language: ["", "en", "es"]
                        .get(ask.text.len() % 3)
                        .copied()
                        .unwrap_or_default()
                        .to_owned(),
                    alone: alone.filter(|_| spec.is_some() && spec == context.current_spec.as_deref()),
                    ..v1::Routing::default()
                };
                Ok((Box::new(routing), spec_agent(index)))
            }
            None => Err(v1::Error {
                code: "SPEC_NOT_AVAILABLE".to_owned(),
                message: format!("no spec for {spec:?}"),
                ..v1::Error::default()
            }),
        };
        Chosen { target, default_spec: self.default.clone() }
    }
}
