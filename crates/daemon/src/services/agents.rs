//! AgentService.

use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_server::AgentService;
use capataz_runtime::Runtime;
use tonic::{Request, Response, Status};

use crate::status;

/// Names in one check.
const MAX_NAMES: usize = 10_000;

pub(super) struct Agents {
    runtime: Runtime,
}

impl Agents {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    async fn list_agents(
        &self,
        _: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        match self.runtime.agents().await {
            Ok(agents) => {
                let agents = agents.into_iter().map(|agent| v1::AgentStatus {
                    agent: Some(agent.known.agent),
                    source: agent.known.source as i32,
                    workers: agent.workers,
                    running: agent.running,
                    queued: agent.queued,
                    last_seen_ms: agent.known.last_seen.map(|at| at.0),
                });
                Ok(Response::new(v1::ListAgentsResponse { agents: agents.collect() }))
            }
            Err(declined) => Err(status::declined(&declined)),
        }
    }

    async fn check_agents(
        &self,
        request: Request<v1::CheckAgentsRequest>,
    ) -> Result<Response<v1::CheckAgentsResponse>, Status> {
        let v1::CheckAgentsRequest { agents, commands, resources } = request.into_inner();
        if agents.len() + commands.len() + resources.len() > MAX_NAMES {
            return Err(status::invalid_field(
                "agents",
                "length",
                format!("at most {MAX_NAMES} names in all"),
            ));
        }
        match self.runtime.check_agents(agents, commands, resources).await {
            Ok(batch) => Ok(Response::new(batch.to_proto())),
            Err(declined) => Err(status::declined(&declined)),
        }
    }
}
