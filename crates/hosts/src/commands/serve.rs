//! Process agents: one command for each assignment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_policy::codes;
use capataz_store::Store;
use tokio::sync::mpsc;

use super::{Call, Output, ProcessAgent, ProcessContext, ProcessOutcome, ProgressUpdate, run};
use crate::payloads;
use crate::port::Clock;
use crate::serve::{Answer, Order, Report, Reporter, Serve};

/// Serves the process agents of the configuration.
pub struct ProcessAgents {
    agents: BTreeMap<String, Arc<ProcessAgent>>,
    context: ProcessContext,
    store: Arc<dyn Store>,
    clock: Clock,
}

impl fmt::Debug for ProcessAgents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProcessAgents")
            .field("agents", &self.agents)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

impl ProcessAgents {
    /// The agents were validated. Inputs are read from `store`, and outputs put there, where they are large.
    #[must_use]
    pub fn new(
        agents: Vec<ProcessAgent>,
        context: ProcessContext,
        store: Arc<dyn Store>,
        clock: Clock,
    ) -> Arc<Self> {
        let agents = agents.into_iter().map(|agent| (agent.name.clone(), Arc::new(agent))).collect();
        Arc::new(Self { agents, context, store, clock })
    }

    async fn payload(&self, output: Output) -> Result<v1::Payload, String> {
        payloads::write(&self.store, output.media_type, output.bytes, (self.clock)()).await
    }

    /// Runs the command of one assignment.
    async fn execute(
        &self,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        let Some(agent) = self.agents.get(&assignment.agent) else {
            let message = format!("agent {:?} is not configured any more", assignment.agent);
            return Answer::failed(codes::AGENT_COMMAND_NOT_STARTED, message);
        };
        let input = match payloads::read(&self.store, assignment.input, usize::MAX).await {
            Ok(input) => input,
            Err((code, message)) => return Answer::failed(code, message),
        };
        let report = move |ProgressUpdate { line: message, tail: partial_tail, log }| {
            reporter.report(Report { message, partial_tail, log });
        };
        let call = Call { input, traceparent: assignment.traceparent, lease: assignment.lease };
        match run(agent, &self.context, call, orders, report).await {
            ProcessOutcome::Completed { output, log } => match self.payload(output).await {
                Ok(output) => Answer::Completed { output, log: text(&log), usage: None },
                Err(message) => {
                    let error = v1::Error { code: codes::API_ERROR.into(), message, ..v1::Error::default() };
                    Answer::Failed { error: Box::new(error), log: text(&log), usage: None }
                }
            },
            ProcessOutcome::Failed { error, log } => Answer::Failed { error, log: text(&log), usage: None },
            ProcessOutcome::Cancelled { partial, log } => {
                let partial_output = match partial {
                    Some(partial) => self.payload(partial).await.ok(),
                    None => None,
                };
                Answer::Cancelled { partial_output, log: text(&log) }
            }
        }
    }
}

/// What the ids of workers of process agents begin with.
pub const PROCESS_HOST: &str = "capataz-process-host";

impl Serve for ProcessAgents {
    fn name(&self) -> &'static str {
        PROCESS_HOST
    }

    fn agents(&self) -> Vec<v1::Agent> {
        self.agents.values().map(|agent| agent.described()).collect()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        self.execute(assignment, orders, reporter).await
    }
}

fn text(log: &Bytes) -> String {
    String::from_utf8_lossy(log).into_owned()
}
