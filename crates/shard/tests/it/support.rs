//! What worlds of several tests are made of: claims, workers, plans and their starts, a router.

use capataz_contracts::v1::{self, connect_request::Frame as Say};
use capataz_crew::{ConnectionId, Known, KnownAgent};
use capataz_engine::{Plan, StartRun, Work};
use capataz_shard::journal::{self, Chance};
use capataz_shard::{Chosen, Input, Recovered, Route, StartRequest, Touched};
use capataz_store::{Epoch, Mark, MemoryStore, Millis, RunId, ShardId, ShardWriter};
use uuid::Uuid;

pub const SHARD: ShardId = ShardId(0);

pub fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

/// What a claim under this mark is made with.
pub fn chance(mark: u32) -> Chance {
    Chance { draw: Box::new(move || Mark(mark)), wall: Box::new(|| Millis(0)) }
}

/// The same for several claims: the first one has this mark, each other one the next.
pub fn chances(first: u32) -> Chance {
    let mut marks = (first..).map(Mark);
    Chance { draw: Box::new(move || marks.next().unwrap()), wall: Box::new(|| Millis(0)) }
}

/// Claims the shard under this mark: its writer, and what a core is told of it.
pub fn claim(store: &MemoryStore, mark: u32) -> (Box<dyn ShardWriter>, Input) {
    let (writer, recovered, _) = journal::claim(store, SHARD, &mut chance(mark)).unwrap();
    (writer, Input::Recovered { shard: SHARD, recovered })
}

/// What a core is told of a claim that has found nothing; of a later one, also what was read again.
pub fn recovered(epoch: u64, touched: Option<Touched>) -> Input {
    let recovered = Recovered { epoch: Epoch(epoch), touched, ..Recovered::default() };
    Input::Recovered { shard: SHARD, recovered }
}

/// The configuration names the agent.
pub fn knows(agent: &str) -> Input {
    let agent = v1::Agent { name: agent.to_owned(), ..v1::Agent::default() };
    let known = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    Input::Configure(Known { agents: vec![known], ..Known::default() })
}

/// The worker `w` comes, or comes back without what it had. It serves this agent with so many slots.
pub fn hello(connection: ConnectionId, agent: &str, slots: u32) -> Input {
    let agent = v1::Agent { name: agent.to_owned(), max_concurrency: slots, ..v1::Agent::default() };
    let hello = v1::Hello { worker_id: "w".to_owned(), agents: vec![agent], slots, ..v1::Hello::default() };
    Input::Frame { connection, frame: Say::Hello(hello) }
}

pub fn task(name: &str, agent: &str) -> v1::Task {
    v1::Task { name: name.to_owned(), agent: agent.to_owned(), ..v1::Task::default() }
}

/// A plan of one wave, with all defaults filled in.
pub fn plan(tasks: impl IntoIterator<Item = v1::Task>) -> v1::Plan {
    let wave = v1::Wave { tasks: tasks.into_iter().collect(), ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    plan
}

/// A plan of one task for this agent.
pub fn one_task(agent: &str) -> Work {
    Work::Plan(plan([task("t", agent)]))
}

/// The start of a run by somebody who says nothing but its work.
pub fn start(run: RunId, work: Work) -> StartRequest {
    StartRequest::new(run, StartRun { work, labels: Default::default(), parent: None, lineage: None })
}

/// A router that knows one spec: asks for `sage` wait for its agent, all others end in the turn in which they begin.
pub struct Sage;

impl Route for Sage {
    fn route(&self, ask: &v1::Ask, _: &v1::SessionContext, _: Option<&str>) -> Chosen {
        let routing = v1::Routing { spec: "sage".to_owned(), ..v1::Routing::default() };
        let missing = || v1::Error { code: "SPEC_NOT_AVAILABLE".to_owned(), ..v1::Error::default() };
        let known = ask.spec.as_deref() == Some("sage");
        let target = if known { Ok((Box::new(routing), "sage".to_owned())) } else { Err(missing()) };
        Chosen { target, default_spec: None }
    }
}
