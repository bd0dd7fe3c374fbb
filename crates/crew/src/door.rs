//! Who is let in: the daemon's own names are for its own hosts, a worker that was sent away stays away for a while, and
//! only so many agents are remembered.

use std::collections::BTreeSet;
use std::sync::Arc;

use capataz_contracts::{Violation, v1};

use crate::ConnectionId;
use crate::crew::{CloseReason, Crew, Output};

/// Names that only the daemon's own hosts may use.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Reserved {
    /// Ids of workers.
    pub workers: BTreeSet<String>,
    /// Agents that the daemon serves itself.
    pub agents: BTreeSet<String>,
}

/// Agents that are remembered, whoever has served them, beside those of the configuration.
pub const REMEMBERED_AGENTS: usize = 10_000;
/// Bytes of their descriptions.
pub const REMEMBERED_BYTES: usize = 32 * 1024 * 1024;

impl Reserved {
    /// All names of a hello that are not the worker's to use.
    fn violations(&self, hello: &v1::Hello) -> Vec<Violation> {
        let mut violations = Vec::new();
        if self.workers.contains(&hello.worker_id) {
            let message =
                format!("{:?} is the id of a worker of the daemon itself; choose another", hello.worker_id);
            violations.push(Violation::new("worker_id", "reserved", message));
        }
        let own = hello.agents.iter().enumerate().filter(|(_, agent)| self.agents.contains(&agent.name));
        violations.extend(own.map(|(index, agent)| {
            let message = format!(
                "the daemon serves {:?} itself; serve it under another name, or set `shared = true` for it in [[agents]]",
                agent.name
            );
            Violation::new(format!("agents[{index}].name"), "reserved", message)
        }));
        violations
    }
}

impl Crew {
    /// Why a worker is not let in; `None` where it is. The daemon's own hosts always are.
    pub(crate) fn refuses(&mut self, id: ConnectionId, hello: &v1::Hello) -> Option<CloseReason> {
        if self.hosts.contains(&id) {
            return None;
        }
        let violations = self.reserved.violations(hello);
        if !violations.is_empty() {
            return Some(CloseReason::Reserved(violations));
        }
        let agents = hello.agents.iter().map(|agent| agent.name.as_str());
        if let Some(until) = self.standings.comes(&hello.worker_id, agents, self.now.mono) {
            return Some(CloseReason::SentAway { retry_after_ms: until.since(self.now.mono) });
        }
        (!self.make_room(&hello.agents)).then_some(CloseReason::TooManyAgents)
    }

    /// Whether these agents can be remembered, once those are forgotten that nobody serves and nothing waits for: those that
    /// were seen last the longest ago.
    pub(crate) fn make_room(&mut self, agents: &[v1::Agent]) -> bool {
        let room = (REMEMBERED_AGENTS, REMEMBERED_BYTES);
        if self.agents.fits(agents, room) {
            return true;
        }
        let waits = |name: &Arc<str>| self.queues.waiting(name) > 0;
        let forgotten = self.agents.forget_for(agents, room, waits);
        if !forgotten.is_empty() {
            self.outputs.push(Output::ForgetAgents(forgotten));
        }
        self.agents.fits(agents, room)
    }
}
