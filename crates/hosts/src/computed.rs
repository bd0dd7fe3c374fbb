//! An agent whose answers are computed at once, such as the built-in `template` agent.

use std::fmt;
use std::sync::Arc;

use capataz_contracts::{spec, v1};
use tokio::sync::mpsc;

use crate::serve::{Answer, Order, Reporter, Serve};

type Compute = dyn Fn(&v1::Assignment) -> Result<v1::Payload, Box<v1::Error>> + Send + Sync;

/// Serves one agent by a function.
pub struct Computed {
    name: &'static str,
    agent: v1::Agent,
    compute: Box<Compute>,
}

impl Computed {
    /// `compute` gives the output of an assignment, or why there is none. It must not block.
    pub fn new(
        name: &'static str,
        agent: v1::Agent,
        compute: impl Fn(&v1::Assignment) -> Result<v1::Payload, Box<v1::Error>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { name, agent, compute: Box::new(compute) })
    }
}

impl fmt::Debug for Computed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Computed").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Serve for Computed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn agents(&self) -> Vec<v1::Agent> {
        vec![self.agent.clone()]
    }

    /// Who has asked decides what becomes of a large one.
    fn inline_max(&self) -> usize {
        spec::MAX_BYTES
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        _: mpsc::Receiver<Order>,
        _: Reporter,
    ) -> Answer {
        match (self.compute)(&assignment) {
            Ok(output) => Answer::Completed { output, log: String::new(), usage: None },
            Err(error) => Answer::Failed { error, log: String::new(), usage: None },
        }
    }
}
