//! What the outcomes of appends lead to: states that are cached, prompts that rest on what is durable, and refusals that cannot
//! be of what was appended.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_crew::Now;
use capataz_engine::{Input as Ask, Query, QueryId, Work, materialise_mode};
use capataz_shard::journal::MAX_SNAPSHOT_BYTES;
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, Declined, Driver, ImportSession, Input, Output, ReplyId, Request, StartRequest, Touched,
    session_stream,
};
use capataz_store::{AppendOutcome, MemoryChange, MemoryRow, Place, Position, RunId};

use crate::support::{SHARD, one_task, plan, recovered, run, start, task};

/// A core, and a disk that answers when the test says so.
struct World {
    core: Driver,
    /// Appends that are on their way.
    waiting: u64,
    /// The newest position of the log.
    newest: u64,
}

impl World {
    fn new(config: &Config) -> Self {
        let mut world = Self { core: Driver::new(config, vec![SHARD]), waiting: 0, newest: 0 };
        world.hears(recovered(1, None));
        world
    }

    fn hears(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(1_000), input, &mut outputs);
        let appends = outputs.iter().filter(|output| matches!(output, Output::Append { .. }));
        self.waiting += appends.count() as u64;
        outputs
    }

    /// All that is on its way is durable.
    fn commits(&mut self) -> Vec<Output> {
        let first = self.newest + 1;
        self.newest += self.waiting;
        self.waiting = 0;
        let outcomes = (first..=self.newest).map(|at| AppendOutcome::Committed(Position(at)));
        let outcomes = outcomes.collect();
        self.hears(Input::Committed { shard: SHARD, outcomes })
    }

    /// The only append that is on its way is refused so.
    fn refuses(&mut self, outcome: AppendOutcome) -> Vec<Output> {
        assert_eq!(self.waiting, 1);
        self.waiting = 0;
        self.hears(Input::Committed { shard: SHARD, outcomes: vec![outcome] })
    }

    fn asks(&mut self, reply: u64, request: Request) -> Vec<Output> {
        self.hears(Input::Request { reply: ReplyId(reply), request })
    }

    fn starts(&mut self, run: RunId, work: Work) -> Vec<Output> {
        let request = StartRequest { agents: BTreeSet::new(), ..start(run, work) };
        self.asks(1, Request::Start(Box::new(request)))
    }

    fn tells(&mut self, run: RunId, input: Ask) -> Vec<Output> {
        self.asks(2, Request::Command { run, if_seq: None, input: Box::new(input) })
    }

    fn pauses(&mut self, run: RunId) -> Vec<Output> {
        self.tells(run, Ask::Pause { request_id: "pause".to_owned() })
    }

    /// The execution is to be able to go back to where it is.
    fn marks(&mut self, run: RunId, reason: &str) -> Vec<Output> {
        let request_id = format!("mark {reason}");
        self.tells(run, Ask::Checkpoint { reason: reason.to_owned(), request_id })
    }

    /// The execution goes back to its first checkpoint.
    fn goes_back(&mut self, run: RunId, request_id: &str) -> Vec<Output> {
        let (checkpoint, request_id) = ("c1".to_owned(), request_id.to_owned());
        self.tells(run, Ask::RollbackExecution { checkpoint, request_id })
    }
}

/// The numbers of the events after which states were cached.
fn cached(outputs: &[Output]) -> Vec<u64> {
    let cached = outputs.iter().filter_map(|output| match output {
        Output::PutSnapshot { snapshot, .. } => Some(snapshot.seq),
        _ => None,
    });
    cached.collect()
}

#[test]
fn the_state_of_a_run_is_cached_as_soon_as_it_has_grown_by_the_configured_number_of_events() {
    // It is accepted and begins with its events 1 and 2, and is paused with event 3.
    for (every, expected) in [(1, vec![2, 3]), (2, vec![2]), (3, vec![3]), (4, vec![])] {
        let mut world = World::new(&Config { snapshot_every: every, ..Config::default() });
        world.starts(run(1), one_task("a"));
        let mut outputs = world.commits();
        world.pauses(run(1));
        outputs.extend(world.commits());
        assert_eq!(cached(&outputs), expected, "after {every} events");
    }
}

/// The bytes of the cached state of a run whose input has so many; `None` where it is not cached.
fn bytes_cached(input: usize) -> Option<usize> {
    let mut world = World::new(&Config { snapshot_every: 1, ..Config::default() });
    let data = Some(v1::payload::Data::Inline(vec![0; input].into()));
    let input = v1::Payload { media_type: "application/octet-stream".to_owned(), data };
    world.starts(run(1), Work::Plan(plan([v1::Task { input: Some(input), ..task("t", "a") }])));
    world.commits().into_iter().find_map(|output| match output {
        Output::PutSnapshot { snapshot, .. } => Some(snapshot.state.len()),
        _ => None,
    })
}

#[test]
fn the_largest_state_of_a_run_that_is_cached_has_16_mib_and_not_a_byte_more() {
    // What a state has beside its input does not depend on it: lengths from 2 MiB to 256 MiB take as many bytes.
    let less = MAX_SNAPSHOT_BYTES - 64 * 1024;
    let beside = bytes_cached(less).unwrap() - less;
    let most = MAX_SNAPSHOT_BYTES - beside;
    assert_eq!(bytes_cached(most), Some(16 * 1024 * 1024));
    assert_eq!(bytes_cached(most + 1), None);
}

/// An execution in the mode simple, whose planner nobody serves.
fn execution(run: RunId) -> Work {
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(v1::ExecutionMode::Simple.into()),
        planner: "brain".to_owned(),
        run_id: run.to_string(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).unwrap();
    Work::Mode(Box::new(execution))
}

/// The numbers of the prompts that are to be made.
fn prompts(outputs: &[Output]) -> Vec<QueryId> {
    let prompts = outputs.iter().filter_map(|output| match output {
        Output::Query { query, asked: Query::Prompt(_), .. } => Some(*query),
        _ => None,
    });
    prompts.collect()
}

/// What is written of memory.
fn remembered(outputs: &[Output]) -> Vec<MemoryRow> {
    let appends = outputs.iter().filter_map(|output| match output {
        Output::Append { append, .. } => Some(&append.memory),
        _ => None,
    });
    appends.flatten().cloned().collect()
}

#[test]
fn what_an_execution_changes_in_memory_is_written_with_the_events_that_change_it() {
    let run = run(1);
    let mut world = World::new(&Config::default());
    // It is accepted with event 1 and begins with event 2; event 3 is its checkpoint.
    assert_eq!(remembered(&world.starts(run, execution(run))), []);
    world.commits();
    assert_eq!(remembered(&world.marks(run, "first")), []);
    world.commits();
    let back = MemoryRow { place: Place { seq: 4, n: 0 }, change: MemoryChange::Back { to_seq: 3 } };
    assert_eq!(remembered(&world.goes_back(run, "back")), [back]);
}

#[test]
fn a_prompt_waits_until_what_it_recalls_is_durable_and_is_not_made_where_another_one_is_wanted_by_then() {
    let run = run(1);
    let mut world = World::new(&Config::default());
    // A prompt has the number of the decisions before it, of which the first one is that the execution begins.
    assert_eq!(prompts(&world.starts(run, execution(run))), [QueryId(1)], "nothing is remembered yet");
    assert_eq!(prompts(&world.commits()), []);
    assert_eq!(prompts(&world.marks(run, "first")), [QueryId(2)], "a checkpoint changes nothing in memory");
    assert_eq!(prompts(&world.commits()), []);

    assert_eq!(prompts(&world.goes_back(run, "back")), [], "what is undone would be recalled");
    assert_eq!(prompts(&world.commits()), [QueryId(3)]);

    // The checkpoint comes while the way back is not durable.
    assert_eq!(prompts(&world.goes_back(run, "back again")), []);
    assert_eq!(prompts(&world.marks(run, "second")), []);
    assert_eq!(prompts(&world.commits()), [QueryId(5)], "nobody waits for the prompt 4");
}

/// What is read again of the shard, if anything.
fn read_again(outputs: &[Output]) -> Option<&Touched> {
    outputs.iter().find_map(|output| match output {
        Output::Restart { touched, .. } => Some(touched),
        _ => None,
    })
}

fn answers(outputs: &[Output]) -> Vec<(u64, &Answer)> {
    let answers = outputs.iter().filter_map(|output| match output {
        Output::Reply { reply, answer } => Some((reply.0, answer)),
        _ => None,
    });
    answers.collect()
}

/// No store refuses so what creates no run: the core and the store are not of one mind then, and the log is believed.
#[test]
fn an_append_that_creates_no_run_and_is_refused_as_if_it_did_has_its_stream_read_again() {
    let taken = |same_request| AppendOutcome::KeyTaken { run: run(7), same_request };
    for refused in [taken(true), taken(false), AppendOutcome::PastGone] {
        let mut world = World::new(&Config::default());
        world.starts(run(1), one_task("a"));
        world.commits();
        world.pauses(run(1));
        let outputs = world.refuses(refused.clone());
        let of_run = Touched { runs: BTreeSet::from([run(1)]), sessions: BTreeSet::new() };
        assert_eq!(read_again(&outputs), Some(&of_run), "{refused:?}");
        let told = answers(&outputs);
        assert!(
            matches!(told[..], [(2, Answer::Command(Err(Declined::Unavailable)))]),
            "{refused:?}: {told:?}"
        );

        let (mut world, stream) = (World::new(&Config::default()), session_stream("s"));
        let state = r#"{"notes":"n"}"#.to_owned();
        let import = ImportSession { session: "s".to_owned(), state, repairs: Vec::new() };
        let outputs = world.asks(3, Request::ImportSession(Box::new(import)));
        let load = outputs.iter().find_map(|output| match output {
            Output::LoadSession { load, .. } => Some(*load),
            _ => None,
        });
        world.hears(Input::SessionLoaded { stream, load: load.unwrap(), state: Ok(None) });
        let outputs = world.refuses(refused.clone());
        let of_session = Touched { runs: BTreeSet::new(), sessions: BTreeSet::from([stream]) };
        assert_eq!(read_again(&outputs), Some(&of_session), "{refused:?}");
        let told = answers(&outputs);
        assert!(
            matches!(told[..], [(3, Answer::Imported(Err(Declined::Unavailable)))]),
            "{refused:?}: {told:?}"
        );
    }
}
