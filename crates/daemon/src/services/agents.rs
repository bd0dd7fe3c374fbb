//! AgentService.

use capataz_contracts::v1::agent_service_server::AgentService;
use capataz_contracts::validate::NAME_MAX;
use capataz_contracts::{Violation, v1};
use capataz_runtime::Runtime;
use tonic::{Request, Response, Status};

use super::probes::in_time;
use super::starts::refuse;
use crate::status;

/// Names in one check.
const MAX_NAMES: usize = 10_000;
/// Agents in one page.
const MAX_PAGE: u32 = 500;

pub(super) struct Agents {
    runtime: Runtime,
}

impl Agents {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

/// Names of a list that nothing can have, because they are too long.
fn too_long(list: &str, what: &str, names: &[String]) -> impl Iterator<Item = Violation> {
    let long = names.iter().enumerate().filter(|(_, name)| name.chars().nth(NAME_MAX).is_some());
    long.map(move |(place, _)| {
        let message = format!("{what} is longer than {NAME_MAX} characters");
        Violation::new(format!("{list}[{place}]"), "length", message)
    })
}

#[tonic::async_trait]
impl AgentService for Agents {
    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let v1::ListAgentsRequest { page_size, page_token } = request.into_inner();
        if page_token.chars().nth(NAME_MAX).is_some() {
            return Err(status::invalid_field("page_token", "token", "is not a page token"));
        }
        // A page ends with the name that the next one begins after.
        let after = Some(page_token).filter(|token| !token.is_empty());
        let size = if page_size == 0 { MAX_PAGE } else { page_size.min(MAX_PAGE) };
        let (agents, more) = in_time(self.runtime.agents(after, size)).await?;
        let last = agents.last().map(|agent| agent.known.agent.name.clone());
        let agents = agents.into_iter().map(|agent| v1::AgentStatus {
            agent: Some(agent.known.agent),
            source: agent.known.source as i32,
            workers: agent.workers,
            running: agent.running,
            queued: agent.queued,
            last_seen_ms: agent.known.last_seen.map(|at| at.0),
            held_for_ms: agent.held_for_ms,
        });
        let next_page_token = last.filter(|_| more).unwrap_or_default();
        Ok(Response::new(v1::ListAgentsResponse { agents: agents.collect(), next_page_token }))
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
        let named = [
            ("agents", "the agent's name", &agents),
            ("commands", "the command's name", &commands),
            ("resources", "the resource's name", &resources),
        ];
        let long: Vec<Violation> =
            named.into_iter().flat_map(|(list, what, names)| too_long(list, what, names)).collect();
        refuse(&long)?;
        let batch = in_time(self.runtime.check_agents(agents, commands, resources)).await?;
        Ok(Response::new(batch.to_proto()))
    }
}
