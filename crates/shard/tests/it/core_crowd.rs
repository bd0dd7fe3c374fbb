//! Workers that mean harm or do not work, beside one that does: the core by itself, in a time that the test moves on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{CloseReason, ConnectionId, Known, KnownAgent, Mono, Now, Reserved};
use capataz_engine::Work;
use capataz_shard::shard::Config;
use capataz_shard::{Answer, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest};
use capataz_store::{MemoryStore, ShardWriter, Store};

use crate::support::{SHARD, claim, plan, run, start, task};

const AGENT: &str = "a";
const SECOND: i64 = 1_000;

/// What a worker does with an assignment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Completes,
    HandsBack,
    /// Heartbeats, and nothing else.
    Ignores,
    /// Acknowledges what it was given, and goes on with it.
    Works,
}

struct Worker {
    id: String,
    does: Does,
    assigned: usize,
    closed: Option<CloseReason>,
}

/// A core over a disk that takes everything at once, and workers that answer at once.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    now: i64,
    workers: BTreeMap<ConnectionId, Worker>,
    said: VecDeque<(ConnectionId, Say)>,
    results: BTreeMap<ReplyId, v1::RunResult>,
    /// What workers are at work on.
    held: Vec<(ConnectionId, v1::LeaseRef)>,
    /// What was shown of work that goes on, and when.
    shown: Vec<(i64, v1::ProgressFrame)>,
    events: usize,
    forgotten: Vec<String>,
    next: u64,
}

fn agent(name: &str, bytes: usize) -> v1::Agent {
    v1::Agent {
        name: name.to_owned(),
        max_concurrency: 1_000,
        input_schema: "x".repeat(bytes),
        ..v1::Agent::default()
    }
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self {
            store,
            writer,
            core,
            now: 1_000_000,
            workers: BTreeMap::new(),
            said: VecDeque::new(),
            results: BTreeMap::new(),
            held: Vec::new(),
            shown: Vec::new(),
            events: 0,
            forgotten: Vec::new(),
            next: 0,
        };
        let known = KnownAgent { agent: agent(AGENT, 0), source: v1::AgentSource::Declared, last_seen: None };
        let reserved = Reserved {
            workers: BTreeSet::from(["host-7".to_owned()]),
            agents: BTreeSet::from(["own".to_owned()]),
        };
        world.hears(Input::Configure(Known { agents: vec![known], reserved, ..Known::default() }));
        world.hears(recovered);
        world
    }

    fn hears(&mut self, input: Input) {
        self.turn(input);
        while let Some((connection, frame)) = self.said.pop_front() {
            self.turn(Input::Frame { connection, frame });
        }
    }

    fn turn(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        let mut appends = Vec::new();
        for output in outputs {
            match output {
                Output::Append { append, .. } => {
                    self.events += append.count as usize;
                    appends.push(append);
                }
                Output::Frame { connection, frame } => self.told(connection, frame),
                Output::Close { connection, reason } => {
                    self.workers.get_mut(&connection).unwrap().closed = Some(reason);
                }
                Output::Reply { reply, answer: Answer::Start(Ok(StartReply::Finished { result, .. })) } => {
                    self.results.insert(reply, *result);
                }
                Output::Progress(progress) => self.shown.push((self.now, progress)),
                Output::PutAgents(agents) => self.writer.put_agents(&agents).unwrap(),
                Output::ForgetAgents(names) => {
                    self.writer.forget_agents(&names).unwrap();
                    self.forgotten.extend(names);
                }
                _ => {}
            }
        }
        if !appends.is_empty() {
            let outcomes = self.writer.commit(&appends).unwrap();
            self.turn(Input::Committed { shard: SHARD, outcomes });
        }
    }

    fn told(&mut self, connection: ConnectionId, frame: Hear) {
        let worker = self.workers.get_mut(&connection).unwrap();
        let Hear::Assignment(v1::Assignment { lease, .. }) = frame else { return };
        worker.assigned += 1;
        match worker.does {
            Does::Completes => {
                self.said
                    .push_back((connection, Say::Completed(v1::Completed { lease, ..Default::default() })));
            }
            Does::HandsBack => self.said.push_back((connection, Say::Returned(v1::Returned { lease }))),
            Does::Ignores => {}
            Does::Works => {
                self.held.push((connection, lease.clone().unwrap()));
                self.said.push_back((connection, Say::Ack(v1::Ack { lease })));
            }
        }
    }

    fn connects(&mut self, id: &str, does: Does, slots: u32) -> ConnectionId {
        self.says_hello(id, does, slots, vec![agent(AGENT, 0)], false)
    }

    fn says_hello(
        &mut self,
        id: &str,
        does: Does,
        slots: u32,
        agents: Vec<v1::Agent>,
        is_host: bool,
    ) -> ConnectionId {
        self.next += 1;
        let connection = ConnectionId(self.next);
        let worker = Worker { id: id.to_owned(), does, assigned: 0, closed: None };
        self.workers.insert(connection, worker);
        if is_host {
            self.hears(Input::Hosted { connection });
        }
        let hello = v1::Hello { worker_id: id.to_owned(), agents, slots, protocol: 1, ..Default::default() };
        self.hears(Input::Frame { connection, frame: Say::Hello(hello) });
        connection
    }

    fn closed(&self, connection: ConnectionId) -> Option<&CloseReason> {
        self.workers[&connection].closed.as_ref()
    }

    /// Moves the time on; every worker says once a second that it is there, but for the quiet.
    fn pass_but(&mut self, milliseconds: i64, quiet: &str) {
        let until = self.now + milliseconds;
        while self.now < until {
            let second = self.now - self.now % SECOND + SECOND;
            let wake = self.core.next_wake().map_or(i64::MAX, |Mono(at)| at);
            self.now = second.min(wake.max(self.now)).min(until);
            if wake <= self.now {
                self.hears(Input::Wake);
            }
            if self.now == second {
                let there = self.workers.iter().filter(|(_, one)| one.closed.is_none() && one.id != quiet);
                let there: Vec<ConnectionId> = there.map(|(connection, _)| *connection).collect();
                for connection in there {
                    self.hears(Input::Frame { connection, frame: Say::Heartbeat(v1::Heartbeat {}) });
                }
            }
        }
    }

    fn pass(&mut self, milliseconds: i64) {
        self.pass_but(milliseconds, "");
    }

    /// A run of one wave with so many tasks.
    fn starts(&mut self, tasks: usize) -> ReplyId {
        self.next += 1;
        let reply = ReplyId(self.next);
        let plan = plan((0..tasks).map(|number| task(&format!("t{number}"), AGENT)));
        let start = start(run(7_000 + u128::from(self.next)), Work::Plan(plan));
        let request = Request::Start(Box::new(StartRequest { wait: true, ..start }));
        self.hears(Input::Request { reply, request });
        reply
    }

    fn outcome(&self, reply: ReplyId) -> Option<v1::RunOutcome> {
        self.results.get(&reply).map(v1::RunResult::outcome)
    }

    fn known(&self, name: &str) -> bool {
        self.core.crew().check(&[name.to_owned()], &[], &[]).can_proceed
    }
}

/// The seed's interval: an ACTIVE task is checked every 5 s, which everybody who watches is shown, until it has ended.
// S000-C3-04, S000-CL-17
#[test]
fn a_task_at_work_is_checked_every_5_s_and_no_more_when_it_has_ended() {
    let mut world = World::new();
    world.connects("w", Does::Works, 1);
    world.starts(1);
    world.pass(60 * SECOND);
    assert_eq!(world.shown.len(), 12);
    for pair in world.shown.windows(2) {
        let [(before, earlier), (at, later)] = pair else { panic!("two frames") };
        assert_eq!(at - before, 5_000);
        assert_eq!(earlier.remaining_ms - later.remaining_ms, 5_000);
        assert_eq!(later.health_checks - earlier.health_checks, 1);
    }
    // Half an hour is the seed's timeout.
    let (_, first) = &world.shown[0];
    assert_eq!(first.elapsed_ms + first.remaining_ms, 30 * 60 * SECOND);

    let (connection, lease) = world.held.pop().unwrap();
    let completed = v1::Completed { lease: Some(lease), ..Default::default() };
    world.hears(Input::Frame { connection, frame: Say::Completed(completed) });
    world.pass(60 * SECOND);
    assert_eq!(world.shown.len(), 12);
}

#[test]
fn a_lone_worker_that_hands_back_for_ever_costs_few_leases_and_the_task_fails_in_the_end() {
    let mut world = World::new();
    let worker = world.connects("lone", Does::HandsBack, 10);
    let run = world.starts(1);
    world.pass(5 * SECOND);
    let assigned = world.workers[&worker].assigned;
    assert!((2..=8).contains(&assigned), "{assigned} leases in 5 s");
    world.pass(3_600 * SECOND);
    assert_eq!(world.outcome(run), Some(v1::RunOutcome::Failed));
    let [task] = &world.results[&run].tasks[..] else { panic!("one task") };
    assert_eq!(task.error.as_ref().unwrap().code, "WORKER_LOST");
    assert!(world.events < 100, "{} events", world.events);
}

#[test]
fn what_is_handed_back_goes_to_another_worker_at_once() {
    let mut world = World::new();
    let unwilling = world.connects("unwilling", Does::HandsBack, 4);
    world.connects("willing", Does::Completes, 1);
    for _ in 0..50 {
        let run = world.starts(4);
        assert_eq!(world.outcome(run), Some(v1::RunOutcome::Succeeded), "no time has passed");
    }
    assert!(world.workers[&unwilling].assigned <= 4, "it gets nothing for a while");
}

#[test]
fn a_worker_that_hands_back_gets_work_again_when_it_takes_it() {
    let mut world = World::new();
    let worker = world.connects("w", Does::HandsBack, 1);
    let run = world.starts(3);
    world.pass(SECOND);
    assert_eq!(world.outcome(run), None);
    world.workers.get_mut(&worker).unwrap().does = Does::Completes;
    world.pass(10 * SECOND);
    assert_eq!(world.outcome(run), Some(v1::RunOutcome::Succeeded));
    let next = world.starts(3);
    assert_eq!(world.outcome(next), Some(v1::RunOutcome::Succeeded), "nothing is held against it any more");
}

/// Two workers that hand a task to and fro are a lone one to the task.
#[test]
fn a_task_that_goes_round_in_a_circle_waits_longer_each_time_and_fails_in_the_end() {
    let mut world = World::new();
    let circle: Vec<ConnectionId> =
        (0..20).map(|number| world.connects(&format!("w{number}"), Does::HandsBack, 1)).collect();
    let run = world.starts(1);
    let assigned = |world: &World| -> usize { circle.iter().map(|one| world.workers[one].assigned).sum() };
    world.pass(5 * SECOND);
    assert!((2..=8).contains(&assigned(&world)), "{} leases in 5 s", assigned(&world));
    world.pass(3_600 * SECOND);
    assert_eq!(world.outcome(run), Some(v1::RunOutcome::Failed));
    let [task] = &world.results[&run].tasks[..] else { panic!("one task") };
    assert_eq!(task.error.as_ref().unwrap().code, "WORKER_LOST");
    // It may be handed back 16 times; each further time counts as a lost lease, and the fifth of these is the end.
    assert_eq!(assigned(&world), 16 + 5);
    assert!(world.events < 100, "{} events", world.events);
}

#[test]
fn a_worker_that_acknowledges_nothing_spoils_no_task_beside_one_that_does() {
    let mut world = World::new();
    let deaf = world.connects("deaf", Does::Ignores, 100);
    world.connects("healthy", Does::Completes, 2);
    let mut runs = Vec::new();
    for _ in 0..120 {
        runs.push(world.starts(2));
        world.pass(SECOND);
    }
    world.pass(60 * SECOND);
    let succeeded = runs.iter().filter(|run| world.outcome(**run) == Some(v1::RunOutcome::Succeeded)).count();
    assert_eq!(succeeded, runs.len());
    let assigned = world.workers[&deaf].assigned;
    assert!(assigned <= 30, "{assigned} tasks were held up");
    // It is told why, and stays away for a while.
    assert!(
        matches!(world.closed(deaf), Some(CloseReason::SentAway { retry_after_ms }) if *retry_after_ms > 0)
    );
}

#[test]
fn a_worker_that_was_sent_away_comes_back_and_is_tried_with_one_task() {
    let mut world = World::new();
    let deaf = world.connects("deaf", Does::Ignores, 10);
    world.starts(40);
    world.pass(50 * SECOND);
    let Some(&CloseReason::SentAway { retry_after_ms }) = world.closed(deaf) else { panic!("it is there") };
    let early = world.connects("deaf", Does::Completes, 10);
    assert!(matches!(world.closed(early), Some(CloseReason::SentAway { .. })));
    world.pass(retry_after_ms);
    let back = world.connects("deaf", Does::Ignores, 10);
    assert_eq!((world.closed(back), world.workers[&back].assigned), (None, 1));
    world.pass(20 * SECOND);
    assert!(matches!(world.closed(back), Some(CloseReason::SentAway { .. })), "once is enough now");
    world.pass(30 * SECOND);
    let healed = world.connects("deaf", Does::Completes, 10);
    world.pass(SECOND);
    assert_eq!(world.closed(healed), None);
    assert!(world.workers[&healed].assigned > 10, "it has all of its slots again");
}

#[test]
fn what_a_worker_leaves_unread_ends_its_connection_and_its_work_goes_elsewhere() {
    let mut world = World::new();
    let stalled = world.connects("stalled", Does::Ignores, 1);
    let run = world.starts(1);
    assert_eq!(world.workers[&stalled].assigned, 1);
    world.hears(Input::Unread { connection: stalled });
    assert_eq!(world.closed(stalled), Some(&CloseReason::Unread));
    world.connects("healthy", Does::Completes, 1);
    world.pass(16 * SECOND);
    assert_eq!(world.outcome(run), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn names_of_the_daemon_itself_are_for_its_own_hosts_alone() {
    let mut world = World::new();
    let agents = || vec![agent("own", 0), agent("other", 0)];
    let outsider = world.says_hello("host-7", Does::Completes, 1, agents(), false);
    let Some(CloseReason::Reserved(violations)) = world.closed(outsider) else { panic!("it was let in") };
    let paths: Vec<&str> = violations.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["worker_id", "agents[0].name"]);
    assert!(violations[1].message.contains("\"own\"") && violations[1].message.contains("shared = true"));
    assert!(!world.known("other"), "it is refused whole");
    let host = world.says_hello("host-7", Does::Completes, 1, agents(), true);
    assert_eq!(world.closed(host), None);
    // An outsider with its id does not replace it.
    world.says_hello("host-7", Does::Completes, 1, vec![agent("third", 0)], false);
    assert_eq!(world.closed(host), None);
}

#[test]
fn a_host_of_the_daemon_is_never_silent() {
    let mut world = World::new();
    let host = world.says_hello("host-7", Does::Completes, 1, vec![agent("own", 0)], true);
    let guest = world.connects("guest", Does::Completes, 1);
    for connection in [host, guest] {
        world.workers.get_mut(&connection).unwrap().id = "quiet".to_owned();
    }
    world.pass_but(600 * SECOND, "quiet");
    assert_eq!((world.closed(host), world.closed(guest)), (None, Some(&CloseReason::Silent)));
}

#[test]
fn only_so_many_agents_are_remembered_and_the_oldest_that_nobody_serves_go_first() {
    let mut world = World::new();
    let batch = |of: usize| (0..1_000).map(|number| agent(&format!("{of}-{number}"), 0)).collect::<Vec<_>>();
    let mut connections = Vec::new();
    for of in 0..10 {
        connections.push(world.says_hello(&format!("w{of}"), Does::Completes, 1, batch(of), false));
        world.pass(10);
    }
    // All of them are served: there is room for no other.
    let more = world.says_hello("more", Does::Completes, 1, vec![agent("more", 0)], false);
    assert_eq!(world.closed(more), Some(&CloseReason::TooManyAgents));
    assert!(!world.known("more") && world.forgotten.is_empty());
    for gone in [3, 2] {
        world.hears(Input::Disconnected { connection: connections[gone] });
    }
    let more = world.says_hello("more", Does::Completes, 1, vec![agent("more", 0)], false);
    assert_eq!(world.closed(more), None);
    assert_eq!(world.forgotten, ["2-0"]);
    assert!(world.known("more") && world.known("3-0") && !world.known("2-0"));
    assert!(world.known(AGENT), "what the configuration names is not forgotten");
    // Workers who come again are not news.
    let again = world.says_hello("w3", Does::Completes, 1, batch(3), false);
    assert_eq!((world.closed(again), world.forgotten.len()), (None, 1));
    // Nor is more of them on the disk: those of ten workers and one more, without the one that was forgotten.
    let rows = world.store.agents().unwrap();
    assert_eq!(rows.len(), 10_000);
    let is_there = |name: &str| rows.iter().any(|row| row.name == name);
    assert!(is_there("more") && !is_there("2-0"));
}

#[test]
fn only_so_many_bytes_of_agents_are_remembered() {
    let mut world = World::new();
    for number in 0..600 {
        let large = vec![agent(&format!("large-{number}"), 1024 * 1024 - 1_000)];
        let connection = world.says_hello("w", Does::Completes, 1, large, false);
        assert_eq!(world.closed(connection), None);
        world.hears(Input::Disconnected { connection });
        world.now += 1;
    }
    let (mut after, mut bytes, mut pages) = (None::<String>, 0, 0);
    loop {
        let (page, more) = world.core.crew().agents(after.as_deref(), 500, 1024 * 1024);
        bytes += page.iter().map(|one| one.known.agent.input_schema.len()).sum::<usize>();
        pages += 1;
        after = page.last().map(|one| one.known.agent.name.clone());
        if !more {
            break;
        }
    }
    assert!((31..=32).contains(&(bytes / 1024 / 1000)), "{bytes} bytes");
    assert!(pages >= 32, "{pages} pages: each has at most 1 MiB");
    let rows = world.store.agents().unwrap().len();
    assert!((31..=32).contains(&rows), "{rows} agents are on the disk");
}

fn configured(names: &[(&str, u32)], own: &[&str]) -> Input {
    let known = |(name, max_concurrency): &(&str, u32)| KnownAgent {
        agent: v1::Agent { max_concurrency: *max_concurrency, ..agent(name, 0) },
        source: v1::AgentSource::Process,
        last_seen: None,
    };
    let reserved = Reserved {
        workers: BTreeSet::from(["host-7".to_owned()]),
        agents: own.iter().map(|name| (*name).to_owned()).collect(),
    };
    Input::Configure(Known { agents: names.iter().map(known).collect(), reserved, ..Known::default() })
}

fn serving(names: &[(&str, u32)], slots: u32) -> Say {
    let agents = names
        .iter()
        .map(|(name, max_concurrency)| v1::Agent { max_concurrency: *max_concurrency, ..agent(name, 0) });
    Say::Hello(v1::Hello {
        worker_id: "host-7".to_owned(),
        agents: agents.collect(),
        slots,
        protocol: 1,
        ..Default::default()
    })
}

#[test]
fn what_the_configuration_names_no_more_is_not_known_and_what_it_names_anew_is() {
    let mut world = World::new();
    world.connects("w", Does::Completes, 1);
    world.says_hello("other", Does::Completes, 1, vec![agent("served", 0)], false);
    world.hears(configured(&[("served", 1), ("idle", 1), ("kept", 1)], &[]));
    assert!(["served", "idle", "kept"].iter().all(|name| world.known(name)));
    world.hears(configured(&[("kept", 1), ("new", 1)], &[]));
    assert!(
        ["served", "kept", "new"].iter().all(|name| world.known(name)),
        "a worker still serves one of them"
    );
    assert!(!world.known("idle"));
    assert_eq!(world.forgotten, ["idle"], "nor does a later daemon know it");
    let names = world.core.crew().agents(None, 100, usize::MAX).0;
    let names: Vec<&str> = names.iter().map(|one| one.known.agent.name.as_str()).collect();
    assert_eq!(names, ["a", "kept", "new", "served"]);
    // The worker that served the agent of the tests was never configured away, for it is a worker's by now.
    let run = world.starts(3);
    assert_eq!(world.outcome(run), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn a_host_that_says_hello_again_keeps_its_leases_and_serves_what_it_says() {
    let mut world = World::new();
    world.hears(configured(&[(AGENT, 2)], &[AGENT]));
    let host = world.says_hello("host-7", Does::Ignores, 2, vec![agent(AGENT, 0)], true);
    let run = world.starts(3);
    assert_eq!(world.workers[&host].assigned, 2, "it has two slots");
    // One slot more, and the two leases are as they were.
    world.hears(Input::Frame { connection: host, frame: serving(&[(AGENT, 3)], 3) });
    assert_eq!((world.closed(host), world.workers[&host].assigned), (None, 3));
    // Nobody serves it now: nothing is lost, and what waits goes on waiting.
    let later = world.starts(1);
    world.hears(configured(&[], &[]));
    world.hears(Input::Frame { connection: host, frame: serving(&[], 1) });
    assert!(!world.known(AGENT), "no further plan may name it");
    let [waits] = &world.core.crew().agents(None, 100, usize::MAX).0[..] else { panic!("one agent") };
    assert_eq!((waits.workers, waits.queued, waits.running), (0, 1, 3), "it is told why a task waits");
    assert_eq!((world.outcome(run), world.outcome(later)), (None, None));
    // It comes back, and no more of it is at work than it may have, whatever was begun before.
    world.workers.get_mut(&host).unwrap().does = Does::Completes;
    world.hears(configured(&[(AGENT, 3)], &[AGENT]));
    world.hears(Input::Frame { connection: host, frame: serving(&[(AGENT, 3)], 3) });
    assert_eq!((world.workers[&host].assigned, world.outcome(later)), (3, None));
    world.hears(Input::Frame { connection: host, frame: serving(&[(AGENT, 4)], 4) });
    assert_eq!((world.workers[&host].assigned, world.outcome(later)), (4, Some(v1::RunOutcome::Succeeded)));
}

#[test]
fn a_worker_gets_no_more_of_an_agent_that_the_daemon_has_come_to_serve_itself() {
    let mut world = World::new();
    let guest = world.connects("guest", Does::Ignores, 1_000);
    let run = world.starts(1);
    world.hears(configured(&[(AGENT, 10)], &[AGENT]));
    let host = world.says_hello("host-7", Does::Completes, 10, vec![agent(AGENT, 0)], true);
    let later = world.starts(2);
    assert_eq!(world.outcome(later), Some(v1::RunOutcome::Succeeded));
    assert_eq!((world.workers[&guest].assigned, world.workers[&host].assigned), (1, 2));
    // What it has at work is its own, to the end.
    assert_eq!((world.closed(guest), world.outcome(run)), (None, None));
}

#[test]
fn a_worker_from_outside_that_says_hello_twice_is_sent_away() {
    let mut world = World::new();
    let guest = world.connects("guest", Does::Ignores, 1);
    world.hears(Input::Frame { connection: guest, frame: serving(&[(AGENT, 3)], 3) });
    assert_eq!(world.closed(guest), Some(&CloseReason::Protocol));
}

#[test]
fn a_worker_has_its_agent_back_when_the_daemon_serves_it_no_more() {
    let mut world = World::new();
    let guest = world.connects("guest", Does::Completes, 10);
    world.hears(configured(&[(AGENT, 10)], &[AGENT]));
    let run = world.starts(2);
    assert_eq!((world.workers[&guest].assigned, world.outcome(run)), (0, None));
    world.hears(configured(&[], &[]));
    assert!(world.known(AGENT), "the worker serves it");
    assert_eq!((world.workers[&guest].assigned, world.outcome(run)), (2, Some(v1::RunOutcome::Succeeded)));
    // Where the configuration allows both, both serve it.
    world.hears(configured(&[(AGENT, 1)], &[AGENT]));
    world.hears(configured(&[(AGENT, 1)], &[]));
    let later = world.starts(2);
    assert_eq!(world.outcome(later), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn what_is_at_work_of_an_agent_that_is_configured_no_more_is_listed_to_its_end() {
    let mut world = World::new();
    world.hears(configured(&[(AGENT, 1)], &[AGENT]));
    let host = world.says_hello("host-7", Does::Ignores, 1, vec![agent(AGENT, 0)], true);
    world.starts(1);
    world.hears(configured(&[], &[]));
    world.hears(Input::Frame { connection: host, frame: serving(&[], 1) });
    let listed = world.core.crew().agents(None, 100, usize::MAX).0;
    assert_eq!(listed.iter().map(|one| (one.workers, one.running)).collect::<Vec<_>>(), [(0, 1)]);
}
