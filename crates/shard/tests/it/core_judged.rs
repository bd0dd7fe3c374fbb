//! Answers of people whose values are judged: they wait for the verdict, and nothing of them counts before.

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame};
use capataz_crew::{ConnectionId, Now};
use capataz_engine::{
    Answer as Told, Computed, Input as Ask, Judgement, Query, QueryId, Refusal, Verdict, Work,
    materialise_mode,
};
use capataz_shard::journal;
use capataz_shard::shard::Config;
use capataz_shard::{
    Answer, CommandReply, Declined, Driver, Input, Output, ReplyId, Request, StartRequest, Touched,
};
use capataz_store::{MemoryStore, RunId, ShardWriter};

use crate::support::{self, SHARD, chance, claim, plan, run, task};

const SCHEMA: &str = r#"{"type":"integer"}"#;

/// A core over a disk that takes everything at once, with one run that asks what its lost worker has given back.
struct World {
    store: MemoryStore,
    writer: Box<dyn ShardWriter>,
    core: Driver,
    run: RunId,
    question: String,
    answers: Vec<(ReplyId, Answer)>,
    asked: Vec<(QueryId, Judgement)>,
    next: u64,
    now: i64,
    frames: Vec<Frame>,
    touched: Option<Touched>,
    /// What is to be written is lost.
    disk_is_away: bool,
    /// What is to be written is written, and nobody hears of it.
    word_is_lost: bool,
}

impl World {
    fn new() -> Self {
        let mut world = Self::leased();
        world.hears(Input::Disconnected { connection: ConnectionId(1) });
        // It comes back without its lease, and declares something else by now.
        world.connects(2, "true");
        world.question = world.only_question();
        world
    }

    /// The worker has the task.
    fn leased() -> Self {
        let mut world = Self::empty();
        world.connects(1, SCHEMA);
        world.asks(Request::Start(Box::new(start(world.run))));
        world
    }

    /// An execution asks whether a tool may be called; one worker serves the tool and the planner.
    fn before_a_call() -> Self {
        let mut world = Self::empty();
        let agents = ["brain", "ask"].map(|name| v1::Agent { name: name.to_owned(), ..v1::Agent::default() });
        let (worker_id, agents) = ("w".to_owned(), agents.to_vec());
        let hello = v1::Hello { worker_id, agents, slots: 1, ..v1::Hello::default() };
        world.hears(Input::Frame { connection: ConnectionId(1), frame: Say::Hello(hello) });
        let tool = v1::ModeTool {
            name: "ask".to_owned(),
            undoable: true,
            needs_approval: true,
            ..v1::ModeTool::default()
        };
        let mut execution = v1::ModeRun {
            query: "tidy up".to_owned(),
            mode: Some(v1::ExecutionMode::Simple.into()),
            planner: "brain".to_owned(),
            tools: vec![tool],
            run_id: world.run.to_string(),
            ..v1::ModeRun::default()
        };
        materialise_mode(&mut execution).unwrap();
        let work = Work::Mode(Box::new(execution));
        world.asks(Request::Start(Box::new(support::start(world.run, work))));
        // A prompt has the number of the decisions before it, of which the only one is that the execution begins.
        let recalled = v1::Recalled::default();
        let computed = Computed::Prompt { prompt: json("{}"), recalled, absent: Vec::new() };
        world.hears(Input::Computed { run: world.run, query: QueryId(1), computed });
        let action = r#"{"tool":"ask","parameters":{"path":"a"}}"#;
        let said = format!(r#"{{"action":{action},"reasoning":"because","continue":true,"confidence":0.5}}"#);
        world.completes(1, &said);
        let (query, judged) = world.asked_for();
        world.judged(query, judged, true);
        world.question = world.only_question();
        world
    }

    /// Nothing has happened yet.
    fn empty() -> Self {
        let store = MemoryStore::new();
        let (writer, recovered) = claim(&store, 1);
        let run = run(1);
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut world = Self {
            store,
            writer,
            core,
            run,
            question: String::new(),
            answers: Vec::new(),
            asked: Vec::new(),
            next: 0,
            now: 1_000,
            frames: Vec::new(),
            touched: None,
            disk_is_away: false,
            word_is_lost: false,
        };
        world.hears(recovered);
        world
    }

    /// What the run asks.
    fn only_question(&self) -> String {
        let options = capataz_engine::ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
        let view = journal::load(&self.store, self.run).unwrap().view(String::new(), options);
        view.questions.first().unwrap().question_id.clone()
    }

    fn connects(&mut self, connection: u64, schema: &str) {
        self.connects_with(connection, schema, Vec::new());
    }

    /// The worker comes, and says which leases it has.
    fn connects_with(&mut self, connection: u64, schema: &str, held: Vec<v1::LeaseRef>) {
        let agent =
            v1::Agent { name: "a".to_owned(), output_schema: schema.to_owned(), ..v1::Agent::default() };
        let worker_id = "w".to_owned();
        let hello = v1::Hello { worker_id, agents: vec![agent], slots: 1, held, ..v1::Hello::default() };
        self.hears(Input::Frame { connection: ConnectionId(connection), frame: Say::Hello(hello) });
    }

    fn hears(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        let (mut appends, mut loads) = (Vec::new(), Vec::new());
        for output in outputs {
            match output {
                Output::Append { append, .. } => appends.push(append),
                Output::LoadRun { run, load } => loads.push((run, load)),
                Output::Reply { reply, answer } => self.answers.push((reply, answer)),
                Output::Frame { frame, .. } => self.frames.push(frame),
                Output::Restart { touched, .. } => self.touched = Some(touched),
                Output::Query { query, asked: Query::Judge(asked), .. } => self.asked.push((query, *asked)),
                _ => {}
            }
        }
        // A run that waits for a person is not in memory.
        for (run, load) in loads {
            let state = Ok(Some(Box::new(journal::load(&self.store, run).unwrap())));
            self.hears(Input::RunLoaded { run, load, state });
        }
        if !appends.is_empty() && !self.disk_is_away {
            let outcomes = self.writer.commit(&appends).unwrap();
            self.hears(if self.word_is_lost {
                Input::CommitFailed { shard: SHARD }
            } else {
                Input::Committed { shard: SHARD, outcomes }
            });
        }
    }

    fn asks(&mut self, request: Request) -> ReplyId {
        self.next += 1;
        let reply = ReplyId(self.next);
        self.hears(Input::Request { reply, request });
        reply
    }

    /// Somebody says that the task is done and has given this back.
    fn resolves(&mut self, value: &str, if_seq: Option<u64>) -> ReplyId {
        let answer = Told { value: Some(json(value)), ..Told::from("succeeded") };
        let request_id = format!("says {value}");
        let input = Ask::Resolve { question_id: self.question.clone(), answer, request_id };
        self.asks(Request::Command { run: self.run, if_seq, input: Box::new(input) })
    }

    /// What the worker was given last.
    fn lease(&self) -> Option<v1::LeaseRef> {
        self.frames.iter().rev().find_map(|frame| match frame {
            Frame::Assignment(assignment) => assignment.lease.clone(),
            _ => None,
        })
    }

    /// The worker says that it is done.
    fn completes(&mut self, connection: u64, output: &str) {
        let completed =
            v1::Completed { lease: self.lease(), output: Some(json(output)), ..v1::Completed::default() };
        self.hears(Input::Frame { connection: ConnectionId(connection), frame: Say::Completed(completed) });
    }

    /// What a failed commit may have changed is read again.
    fn claimed_again(&mut self) {
        let touched = self.touched.take().unwrap();
        let mut known = Some(self.writer.epoch());
        let (writer, recovered, _) =
            journal::claim_again(&self.store, SHARD, &mut chance(2), Some(&touched), &mut known).unwrap();
        self.writer = writer;
        self.hears(Input::Recovered { shard: SHARD, recovered });
    }

    /// So many seconds pass, in which the worker is heard.
    fn passes(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.now += 1_000;
            let frame = Say::Heartbeat(v1::Heartbeat::default());
            self.hears(Input::Frame { connection: ConnectionId(1), frame });
            self.hears(Input::Wake);
        }
    }

    fn was_told_to_stop(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::Cancel(_)))
    }

    /// Whether the worker was told that its result counts.
    fn was_accepted(&self) -> bool {
        self.frames.iter().any(|frame| matches!(frame, Frame::ResultAccepted(_)))
    }

    fn outcome(&self) -> Option<v1::RunOutcome> {
        journal::load(&self.store, self.run).unwrap().outcome()
    }

    /// The only value that is to be judged.
    #[track_caller]
    fn asked_for(&mut self) -> (QueryId, Judgement) {
        let [only] = std::mem::take(&mut self.asked).try_into().unwrap();
        only
    }

    fn judged(&mut self, query: QueryId, judged: Judgement, passes: bool) {
        let violation = || v1::SchemaViolation { rule: "type".to_owned(), ..v1::SchemaViolation::default() };
        let violations = if passes { Vec::new() } else { vec![violation()] };
        self.hears(Input::Judged { run: self.run, query, verdict: Verdict::on(judged, violations) });
    }

    /// What the caller hears, if anything; once.
    fn told(&mut self, reply: ReplyId) -> Option<Result<CommandReply, Declined>> {
        let place = self.answers.iter().position(|(to, _)| *to == reply)?;
        match self.answers.remove(place).1 {
            Answer::Command(told) => Some(told),
            other => panic!("{other:?}"),
        }
    }

    fn is_over(&self) -> bool {
        journal::load(&self.store, self.run).unwrap().is_finished()
    }
}

fn json(text: &str) -> v1::Payload {
    let data = v1::payload::Data::Inline(text.to_owned().into());
    v1::Payload { media_type: "application/json".to_owned(), data: Some(data) }
}

fn start(run: RunId) -> StartRequest {
    let task = v1::Task {
        effect: Some(v1::Effect::AtMostOnce as i32),
        timeouts: Some(v1::TimeoutPolicy { timeout_ms: Some(10_000), ..v1::TimeoutPolicy::default() }),
        ..task("a", "a")
    };
    support::start(run, Work::Plan(plan([task])))
}

#[test]
fn an_answer_waits_for_its_verdict_and_counts_after_it() {
    let mut world = World::new();
    let reply = world.resolves("7", None);
    let (query, judged) = world.asked_for();
    assert_eq!((judged.schemas.as_slice(), &judged.value), (&[SCHEMA.to_owned()][..], &json("7")));
    assert!(world.told(reply).is_none() && !world.is_over());
    world.judged(query, judged, true);
    assert!(matches!(world.told(reply), Some(Ok(CommandReply::Done { .. }))));
    assert!(world.is_over());
}

#[test]
fn a_value_that_breaks_its_schema_is_refused_whatever_else_is_outdated() {
    let mut world = World::new();
    let reply = world.resolves("\"seven\"", Some(1));
    let (query, judged) = world.asked_for();
    world.judged(query, judged, false);
    let refused = world.told(reply);
    assert!(matches!(refused, Some(Ok(CommandReply::Refused(Refusal::BreaksSchema { .. })))), "{refused:?}");
    // One that passes is still too old.
    let reply = world.resolves("7", Some(1));
    let (query, judged) = world.asked_for();
    world.judged(query, judged, true);
    assert!(matches!(world.told(reply), Some(Ok(CommandReply::SeqMismatch { .. }))));
    assert!(!world.is_over());
}

#[test]
fn a_verdict_counts_once_and_for_the_value_that_was_judged() {
    let mut world = World::new();
    let bad = world.resolves("\"seven\"", None);
    let (of_bad, judged_bad) = world.asked_for();
    let good = world.resolves("7", None);
    let (of_good, judged_good) = world.asked_for();
    assert_ne!(of_bad, of_good);
    // Somebody gives the verdict on one value as that on the other one: it is judged again.
    world.judged(of_bad, judged_good.clone(), true);
    assert!(world.told(bad).is_none() && !world.is_over());
    let (of_bad_again, again) = world.asked_for();
    assert_eq!(again, judged_bad);
    // The first query is answered a second time, and nobody waits for it.
    world.judged(of_bad, judged_bad.clone(), true);
    assert!(world.told(bad).is_none() && !world.is_over());
    world.judged(of_bad_again, judged_bad, false);
    assert!(matches!(world.told(bad), Some(Ok(CommandReply::Refused(_)))));
    world.judged(of_good, judged_good, true);
    assert!(matches!(world.told(good), Some(Ok(CommandReply::Done { .. }))));
}

#[test]
fn of_two_that_pass_the_first_one_counts() {
    let mut world = World::new();
    let (one, other) = (world.resolves("7", None), world.resolves("8", None));
    let asked = std::mem::take(&mut world.asked);
    for (query, judged) in asked.into_iter().rev() {
        world.judged(query, judged, true);
    }
    assert!(matches!(world.told(other), Some(Ok(CommandReply::Done { .. }))));
    // The run has ended meanwhile.
    assert!(matches!(world.told(one), Some(Ok(CommandReply::NotActive { .. }))));
}

#[test]
fn nothing_happens_for_a_caller_who_has_gone() {
    let mut world = World::new();
    let reply = world.resolves("7", None);
    let (query, judged) = world.asked_for();
    world.hears(Input::Forget { reply, run: world.run });
    world.judged(query, judged, true);
    assert!(world.told(reply).is_none() && !world.is_over());
}

#[test]
fn a_verdict_that_comes_while_the_shard_is_read_again_leaves_the_answer_to_its_caller() {
    let mut world = World::new();
    let reply = world.resolves("7", None);
    let (query, judged) = world.asked_for();
    world.hears(Input::CommitFailed { shard: SHARD });
    world.judged(query, judged, true);
    assert!(matches!(world.told(reply), Some(Err(Declined::Unavailable))));
    assert!(!world.is_over());
}

#[test]
fn the_result_of_a_worker_waits_for_its_verdict_and_its_deadline_stands_still_meanwhile() {
    let mut world = World::leased();
    world.completes(1, "7");
    let (query, judged) = world.asked_for();
    assert_eq!((judged.schemas.as_slice(), &judged.value), (&[SCHEMA.to_owned()][..], &json("7")));
    assert!(!world.was_accepted());
    // The judge takes longer than the task may take.
    world.passes(20);
    assert!(!world.was_told_to_stop() && !world.is_over());
    world.judged(query, judged, true);
    assert!(world.was_accepted());
    assert_eq!(world.outcome(), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn no_run_stands_still_for_ever_because_its_judge_says_nothing() {
    let mut world = World::leased();
    world.completes(1, "7");
    world.asked_for();
    world.passes(40);
    assert!(world.was_told_to_stop());
}

#[test]
fn a_result_that_breaks_its_schema_is_answered_and_counts_as_a_failure() {
    let mut world = World::leased();
    world.completes(1, "\"seven\"");
    let (query, judged) = world.asked_for();
    world.judged(query, judged, false);
    assert!(world.was_accepted(), "it is the end of the lease");
    assert_eq!(world.outcome(), Some(v1::RunOutcome::Failed));
}

#[test]
fn a_result_whose_verdict_comes_while_the_shard_is_read_again_is_heard_afterwards() {
    let mut world = World::leased();
    world.completes(1, "7");
    let (query, judged) = world.asked_for();
    // The run itself is read again, for something of it is lost.
    world.disk_is_away = true;
    let pause = Ask::Pause { request_id: "pause".to_owned() };
    world.asks(Request::Command { run: world.run, if_seq: None, input: Box::new(pause) });
    world.hears(Input::CommitFailed { shard: SHARD });
    world.judged(query, judged, true);
    assert!(!world.was_accepted() && !world.is_over());
    world.disk_is_away = false;
    assert!(world.touched.as_ref().is_some_and(|touched| touched.runs.contains(&world.run)));
    world.claimed_again();
    assert!(world.was_accepted());
    assert_eq!(world.outcome(), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn a_result_of_a_worker_that_has_come_back_meanwhile_is_answered_where_the_worker_is_now() {
    let mut world = World::leased();
    world.completes(1, "7");
    let (query, judged) = world.asked_for();
    let held = world.lease().into_iter().collect();
    world.hears(Input::Disconnected { connection: ConnectionId(1) });
    world.connects_with(2, SCHEMA, held);
    // The result is durable, but nobody hears of that: the shard reads what it has.
    world.word_is_lost = true;
    world.judged(query, judged, true);
    assert!(!world.was_accepted());
    world.word_is_lost = false;
    world.claimed_again();
    assert!(!world.frames.iter().any(|frame| matches!(frame, Frame::LeaseRevoked(_))), "{:?}", world.frames);
    // The run is over by that.
    let Some(Frame::ResultRefused(refused)) = world.frames.last() else { panic!("{:?}", world.frames) };
    assert_eq!(refused.reason(), v1::RefusalReason::AlreadySettled);
    assert_eq!(world.outcome(), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn a_result_that_is_said_twice_counts_once() {
    let mut world = World::leased();
    world.completes(1, "7");
    world.completes(1, "7");
    let (query, judged) = world.asked_for();
    world.judged(query, judged, true);
    let accepted = world.frames.iter().filter(|frame| matches!(frame, Frame::ResultAccepted(_))).count();
    assert_eq!(accepted, 1);
    assert_eq!(world.outcome(), Some(v1::RunOutcome::Succeeded));
}

#[test]
fn a_call_that_a_person_approves_is_given_to_a_worker_once_that_is_durable_and_not_before() {
    // What the planner was asked was given to it.
    for (disk_is_away, given) in [(true, 1), (false, 2)] {
        let mut world = World::before_a_call();
        world.disk_is_away = disk_is_away;
        let (question_id, request_id) = (world.question.clone(), "approves".to_owned());
        let input = Ask::Resolve { question_id, answer: Told::from("approve"), request_id };
        world.asks(Request::Command { run: world.run, if_seq: None, input: Box::new(input) });
        let assigned = world.frames.iter().filter(|frame| matches!(frame, Frame::Assignment(_)));
        assert_eq!(assigned.count(), given, "the disk is away: {disk_is_away}");
    }
}
