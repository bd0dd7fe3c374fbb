//! Pipelines that clients start, and what workers give back for their phases.

use std::collections::BTreeSet;

use capataz_contracts::v1::{self, payload::Data};
use capataz_engine::{Wanted, materialise_pipeline};
use capataz_shard::phases::{self, Contents, Entry, Unread};
use capataz_store::{MemoryStore, Millis, Store};

use crate::rng::Rng;
use crate::scenario::{Scenario, agent_name};
use crate::worker::Key;

/// What every phase wants of an output. The model has a rule of its own.
const SCHEMA: &str = r#"{"type":"object","required":["grade"],"properties":{"grade":{"type":"integer","minimum":0,"maximum":6}}}"#;
/// The worst grade that passes.
pub const WORST: u64 = 6;
/// What names of tasks begin with that belong to phases.
pub const PHASE: &str = "phase-";

/// Draws a pipeline, and the agents that it names.
pub fn draw(rng: &mut Rng, scenario: &Scenario, number: u64) -> (v1::Pipeline, BTreeSet<String>) {
    let mut agents = BTreeSet::new();
    let mut phases = Vec::new();
    for place in 0..=rng.below(4) {
        let agent = agent_name(rng.below(scenario.agents));
        agents.insert(agent.clone());
        let max_attempts = [None, Some(1), Some(2)][rng.below(3)];
        phases.push(v1::Phase {
            name: format!("{PHASE}{place}"),
            agent,
            for_each: rng.percent(40).then(|| "${input.items}".to_owned()),
            output: Some(v1::OutputRule { schema: Some(SCHEMA.to_owned()), checks: Vec::new() }),
            summary: vec!["grade".to_owned()],
            retry: Some(v1::RetryPolicy { max_attempts, ..v1::RetryPolicy::default() }),
            timeouts: Some(v1::TimeoutPolicy {
                timeout_ms: Some(120_000),
                grace_ms: Some(2_000),
                ..Default::default()
            }),
            ..v1::Phase::default()
        });
    }
    let items: Vec<u64> = (0..rng.below(4) as u64).map(|item| item * 10 + 1).collect();
    let mut pipeline = v1::Pipeline {
        name: format!("pipeline-{number}"),
        phases,
        input: Some(json(&format!("{{\"items\":{items:?}}}").replace(", ", ","))),
        ..v1::Pipeline::default()
    };
    // What is drawn keeps the rules of policies.
    let _ = materialise_pipeline(&mut pipeline);
    (pipeline, agents)
}

/// What the worker gives back: often a grade that is too bad, seldom once it was told so.
pub fn output(rng: &mut Rng, key: Key, worker: &str, corrected: bool, calm: bool) -> v1::Payload {
    let bad = !calm && rng.percent(if corrected { 25 } else { 45 });
    let grade = if bad { WORST + 1 + rng.below(3) as u64 } else { rng.below(7) as u64 };
    let text = match bad && rng.percent(20) {
        true => format!("{{{}}}", crate::model::settle::signature(key.2, worker)),
        false => format!("{{{},\"grade\":{grade}}}", crate::model::settle::signature(key.2, worker)),
    };
    json(&text)
}

pub fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(Data::Inline(text.to_owned().into_bytes().into())),
    }
}

/// The text of a payload.
pub fn text(payload: Option<&v1::Payload>) -> &str {
    match payload.and_then(|payload| payload.data.as_ref()) {
        Some(Data::Inline(text)) => std::str::from_utf8(text).unwrap_or_default(),
        Some(Data::Blob(_)) | None => "",
    }
}

/// What the store knows. Of blobs there are only those that are made of what others have said.
pub struct Stored<'a> {
    pub store: &'a MemoryStore,
    pub at: Millis,
}

impl Contents for Stored<'_> {
    fn read(&self, _: &v1::BlobRef, _: usize) -> Result<Vec<u8>, Unread> {
        Err(Unread::Missing)
    }

    fn keep(&self, contents: &[u8]) -> Result<v1::BlobRef, Unread> {
        let hash = self.store.put_blob(contents, self.at).map_err(|_| Unread::Unavailable)?;
        Ok(v1::BlobRef { blake3: hash.to_string(), size: contents.len() as u64, answer: None })
    }

    fn recall(&self, wanted: &Wanted) -> Result<Vec<Entry>, Unread> {
        phases::recall(self.store, wanted).map_err(|_| Unread::Unavailable)
    }

    fn tokens(&self, text: &str) -> u32 {
        u32::try_from(text.split_whitespace().count()).unwrap_or(u32::MAX)
    }

    fn now(&self) -> u64 {
        0
    }
}
