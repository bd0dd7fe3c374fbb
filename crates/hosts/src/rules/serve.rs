//! Planners that go by rules, as work of a host.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::{json, v1};
use capataz_policy::codes;
use capataz_store::Store;
use tokio::sync::mpsc;

use super::Rules;
use crate::payloads;
use crate::port::Clock;
use crate::serve::{Answer, Order, Reporter, Serve};

/// What the ids of workers of such planners begin with.
pub const RULES_HOST: &str = "capataz-rules-host";

/// Prompts of one planner at a time.
const SLOTS: u32 = 64;

/// The most bytes of a prompt.
const INPUT_MAX: usize = 4 * 1024 * 1024;

/// Serves planners, each by its rules.
pub struct Planners {
    planners: BTreeMap<String, Arc<Rules>>,
    store: Arc<dyn Store>,
    clock: Clock,
}

impl Planners {
    /// Prompts are read from `store`, and answers put there, where they are large. The clock is the store's alone.
    #[must_use]
    pub fn new(planners: BTreeMap<String, Arc<Rules>>, store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { planners, store, clock })
    }
}

impl fmt::Debug for Planners {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Planners").field("planners", &self.planners.keys()).finish_non_exhaustive()
    }
}

/// A planner of this name, as it is known before anything connects.
#[must_use]
pub fn described(name: &str) -> v1::Agent {
    v1::Agent {
        name: name.to_owned(),
        category: "built-in".to_owned(),
        kind: v1::AgentKind::Planner.into(),
        description: "goes by rules of a file, without a model".to_owned(),
        max_concurrency: SLOTS,
        ..v1::Agent::default()
    }
}

fn answer(rules: &Rules, prompt: &[u8]) -> Result<Bytes, Box<v1::Error>> {
    let prompt = json::from_slice(prompt).map_err(|violation| {
        let message = format!("the prompt is not JSON: {}", violation.message);
        Box::new(codes::error(codes::INVALID_ARGUMENT, message))
    })?;
    rules.answer(&prompt).map(|answer| answer.to_string().into())
}

impl Serve for Planners {
    fn name(&self) -> &'static str {
        RULES_HOST
    }

    fn agents(&self) -> Vec<v1::Agent> {
        self.planners.keys().map(|name| described(name)).collect()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        _: mpsc::Receiver<Order>,
        _: Reporter,
    ) -> Answer {
        let Some(rules) = self.planners.get(&assignment.agent).map(Arc::clone) else {
            let message = format!("the planner {:?} is not configured any more", assignment.agent);
            return Answer::failed(codes::SERVICE_UNAVAILABLE, message);
        };
        let prompt = match payloads::read(&self.store, assignment.input, INPUT_MAX).await {
            Ok(prompt) => prompt,
            Err((code, message)) => return Answer::failed(code, message),
        };
        // A query of 16 KiB against a thousand patterns takes longer than other work should wait.
        let output = match tokio::task::spawn_blocking(move || answer(&rules, &prompt)).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Answer::Failed { error, log: String::new(), usage: None },
            Err(error) => return Answer::failed(codes::SERVICE_UNAVAILABLE, error.to_string()),
        };
        let media_type = json::JSON_MEDIA_TYPE.to_owned();
        match payloads::write(&self.store, media_type, output, (self.clock)()).await {
            Ok(output) => Answer::Completed { output, log: String::new(), usage: None },
            Err(message) => Answer::failed(codes::API_ERROR, message),
        }
    }
}
