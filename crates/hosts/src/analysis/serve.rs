//! The built-in agents as work of a host.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::{json, v1};
use capataz_policy::codes;
use capataz_store::Store;
use tokio::sync::mpsc;

use super::{AGENTS, OUTPUT_SCHEMAS, analyse};
use crate::payloads;
use crate::port::Clock;
use crate::serve::{Answer, Order, Reporter, Serve};

/// What the ids of workers of the built-in agents begin with.
pub const ANALYSIS_HOST: &str = "capataz-analysis-host";

/// Analyses of one agent at a time.
const SLOTS: u32 = 4;

/// The most bytes of an input: the paths and manifests of several sources.
const INPUT_MAX: usize = 16 * 1024 * 1024;

/// Serves the built-in agents.
pub struct Analysts {
    store: Arc<dyn Store>,
    clock: Clock,
}

impl Analysts {
    /// Inputs are read from `store`, and outputs put there, where they are large. The clock is the store's alone.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Clock) -> Arc<Self> {
        Arc::new(Self { store, clock })
    }
}

impl fmt::Debug for Analysts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Analysts").finish_non_exhaustive()
    }
}

/// The output as text.
///
/// # Errors
/// The input is not JSON, or not what the agent reads.
fn answer(agent: &str, input: &[u8]) -> Result<Bytes, Box<v1::Error>> {
    let input = json::from_slice(input).map_err(|violation| {
        Box::new(codes::error(
            codes::VALIDATION_ERROR,
            format!("the input is not JSON: {}", violation.message),
        ))
    })?;
    analyse(agent, &input).map(|output| output.to_string().into())
}

/// The built-in agents, as they are known before anything connects.
#[must_use]
pub fn agents() -> Vec<v1::Agent> {
    let agent = |(name, schema): (&str, &str)| v1::Agent {
        name: name.to_owned(),
        category: "built-in".to_owned(),
        kind: v1::AgentKind::Task as i32,
        output_schema: schema.to_owned(),
        max_concurrency: SLOTS,
        ..v1::Agent::default()
    };
    AGENTS.into_iter().zip(OUTPUT_SCHEMAS).map(agent).collect()
}

impl Serve for Analysts {
    fn name(&self) -> &'static str {
        ANALYSIS_HOST
    }

    fn agents(&self) -> Vec<v1::Agent> {
        agents()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        _: mpsc::Receiver<Order>,
        _: Reporter,
    ) -> Answer {
        let input = match payloads::read(&self.store, assignment.input, INPUT_MAX).await {
            Ok(input) => input,
            Err((code, message)) => return Answer::failed(code, message),
        };
        let agent = assignment.agent;
        // The paths of a large source take longer than other work should wait.
        let output = match tokio::task::spawn_blocking(move || answer(&agent, &input)).await {
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
