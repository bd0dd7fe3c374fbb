//! A commit whose outcome is unknown costs what it may have changed, and nothing else: neither other runs nor workers'
//! streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{ConnectionId, Mono, Now};
use capataz_engine as engine;
use capataz_shard::journal::{self, Errand, Job, Queue, Scribe, Told, Work as Writing, errands};
use capataz_shard::shard::Config;
use capataz_shard::{
    Ages, Answer, CommandReply, Declined, Driver, Input, Output, ReplyId, Request, StartReply, StartRequest,
};
use capataz_store::builders::keep;
use capataz_store::memory::Fault;
use capataz_store::{Epoch, Mark, MemoryStore, Millis, Retention, RunId, Store, Unfinished};

use crate::support::{SHARD, chances, hello, one_task, run, start};
use crate::watched::{Asked, Watched};

const WORKER: ConnectionId = ConnectionId(1);
const AGENT: &str = "echo";

/// A daemon whose disk does at once what it is told, unless it is held.
struct World {
    store: MemoryStore,
    asked: Asked,
    scribe: Scribe,
    core: Driver,
    now: i64,
    inbox: VecDeque<Input>,
    queue: Queue,
    /// The disk does nothing meanwhile.
    is_held: bool,
    answers: BTreeMap<u64, Answer>,
    frames: Vec<Hear>,
    closed: usize,
    next: u64,
    /// Claims that could not be read.
    unreadable: usize,
}

impl World {
    /// A daemon with nothing in it but a worker that has so many slots.
    fn new(slots: u32) -> Self {
        let (store, asked) = (MemoryStore::new(), Asked::default());
        let watched = Watched { store: store.clone(), asked: asked.clone() };
        let mut world = Self {
            scribe: Scribe::new(Arc::new(watched), chances(1)),
            store,
            asked,
            core: Driver::new(&Config::default(), vec![SHARD]),
            now: 1_000_000,
            inbox: VecDeque::new(),
            queue: Queue::default(),
            is_held: false,
            answers: BTreeMap::new(),
            frames: Vec::new(),
            closed: 0,
            next: 0,
            unreadable: 0,
        };
        world.queue.push(Writing::Claim { shard: SHARD, touched: None });
        world.goes_on();
        world.hears(hello(WORKER, AGENT, slots));
        world
    }

    fn hears(&mut self, input: Input) {
        self.inbox.push_back(input);
        self.goes_on();
    }

    fn says(&mut self, frame: Say) {
        self.hears(Input::Frame { connection: WORKER, frame });
    }

    fn passes(&mut self, milliseconds: i64) {
        self.now += milliseconds;
        self.hears(Input::Wake);
    }

    fn clock(&self) -> Now {
        Now { wall: Millis(self.now), mono: Mono(self.now) }
    }

    /// Does all that there is to do, in order.
    fn goes_on(&mut self) {
        loop {
            while let Some(input) = self.inbox.pop_front() {
                let mut outputs = Vec::new();
                self.core.handle(self.clock(), input, &mut outputs);
                for errand in errands(outputs.into_iter()) {
                    match errand {
                        Errand::Write(work) => {
                            self.queue.push(work);
                        }
                        Errand::Leave(output) => self.leaves(output),
                    }
                }
            }
            if self.is_held {
                return;
            }
            let Some(job) = self.queue.next(usize::MAX) else { return };
            self.carries_out(job);
        }
    }

    fn carries_out(&mut self, job: Job) {
        let mut told = Vec::new();
        self.scribe.carry_out(job, &mut told);
        for told in told {
            self.inbox.extend(match told {
                Told::Committed { shard, outcomes } => Some(Input::Committed { shard, outcomes }),
                Told::Failed { shard, .. } => Some(Input::CommitFailed { shard }),
                Told::Claimed { shard, recovered, .. } => Some(Input::Recovered { shard, recovered }),
                Told::Swept { shard, .. } => Some(Input::Swept { shard }),
                Told::Unreadable { shard, touched, .. } => {
                    self.unreadable += 1;
                    *self.asked.gone.lock().unwrap() = false;
                    self.queue.push(Writing::Claim { shard, touched });
                    None
                }
                other => panic!("{other:?}"),
            });
        }
    }

    /// The commits that wait fail; in truth they are stored or not. The shard is not claimed yet.
    fn fails(&mut self, fault: Fault) {
        self.store.fail_next_commit(fault);
        while let Some(job) = self.queue.next(usize::MAX) {
            self.carries_out(job);
        }
        self.asked.read.lock().unwrap().clear();
        self.is_held = true;
        self.goes_on();
    }

    /// The disk does what it is told again.
    fn is_let_go(&mut self) {
        self.is_held = false;
        self.goes_on();
    }

    fn leaves(&mut self, output: Output) {
        match output {
            Output::Reply { reply, answer } => {
                self.answers.insert(reply.0, answer);
            }
            Output::Frame { connection: WORKER, frame } => self.frames.push(frame),
            Output::Close { .. } => self.closed += 1,
            Output::LoadRun { run, load } => {
                let watched = Watched { store: self.store.clone(), asked: self.asked.clone() };
                let state = journal::load(&watched, run).ok().map(Box::new);
                self.inbox.push_back(Input::RunLoaded { run, load, state: Ok(state) });
            }
            _ => {}
        }
    }

    fn asks(&mut self, request: Request) -> u64 {
        self.next += 1;
        self.hears(Input::Request { reply: ReplyId(self.next), request });
        self.next
    }

    fn starts(&mut self, wait: bool) -> (RunId, u64) {
        let run = run(7_000 + u128::from(self.next));
        let request = StartRequest { wait, ..start(run, one_task(AGENT)) };
        (run, self.asks(Request::Start(Box::new(request))))
    }

    fn pauses(&mut self, run: RunId) -> u64 {
        let input = Box::new(engine::Input::Pause { request_id: format!("p{}", self.next) });
        self.asks(Request::Command { run, if_seq: None, input })
    }

    fn assigned(&self) -> Vec<v1::LeaseRef> {
        let lease = |frame: &Hear| match frame {
            Hear::Assignment(assignment) => assignment.lease.clone(),
            _ => None,
        };
        self.frames.iter().filter_map(lease).collect()
    }

    fn completes(&mut self, lease: &v1::LeaseRef) {
        self.says(Say::Completed(v1::Completed { lease: Some(lease.clone()), ..Default::default() }));
    }

    fn accepted(&self, lease: &v1::LeaseRef) -> usize {
        let is_it =
            |frame: &&Hear| matches!(frame, Hear::ResultAccepted(of) if of.lease.as_ref() == Some(lease));
        self.frames.iter().filter(is_it).count()
    }

    fn read(&self) -> BTreeSet<RunId> {
        self.asked.read.lock().unwrap().iter().copied().collect()
    }

    /// Everything that is unfinished is in memory as the log has it.
    #[track_caller]
    fn check(&self) {
        let unfinished = self.store.unfinished(SHARD, None, usize::MAX).unwrap();
        assert_eq!(self.core.run_count(), unfinished.len());
        for Unfinished { run, .. } in unfinished {
            let Some(state) = self.core.run(run) else { continue };
            let mut state = state.clone();
            state.loaded();
            assert_eq!(state, journal::load(&self.store, run).unwrap());
        }
        assert_eq!(self.closed, 0, "no worker's stream was closed");
    }
}

fn is_unavailable(answer: Option<Answer>) -> bool {
    matches!(
        answer,
        Some(
            Answer::Start(Err(Declined::Unavailable))
                | Answer::Wait(Err(Declined::Unavailable))
                | Answer::Command(Err(Declined::Unavailable))
        )
    )
}

/// However many runs there are, a failed commit reads those that it was about.
#[test]
fn of_20_000_runs_in_memory_only_touched_ones_are_read() {
    let mut world = World::new(0);
    let runs: Vec<RunId> = (0..20_000).map(|_| world.starts(false).0).collect();
    assert_eq!(world.core.run_count(), 20_000);
    let (waits, touched) = (runs[5], [runs[17], runs[4_242]]);
    let waiter = world.asks(Request::Wait { run: waits });
    for fault in [Fault::Lost, Fault::Kept] {
        world.is_held = true;
        let commands = touched.map(|run| world.pauses(run));
        let (created, creator) = world.starts(false);
        world.fails(fault);
        assert!(commands.iter().all(|command| is_unavailable(world.answers.remove(command))));
        assert!(is_unavailable(world.answers.remove(&creator)));
        world.is_let_go();
        let mut expected = BTreeSet::from(touched);
        let is_kept = fault == Fault::Kept;
        if is_kept {
            // They wait for a person now, and need not be read.
            expected.clear();
            expected.insert(created);
        }
        let read = world.read();
        assert!(
            read.is_subset(&expected.iter().chain(&touched).copied().collect()),
            "{} were read",
            read.len()
        );
        assert!(expected.is_subset(&read), "{read:?}");
        assert_eq!(world.core.run(created).is_some(), is_kept);
        assert!(!world.answers.contains_key(&waiter), "it still waits");
    }
    world.check();
}

/// Its answer was on its way when the commit failed. The worker need not come back, and need not say it again.
#[test]
fn a_result_is_answered_over_the_same_stream_whether_its_commit_was_stored_or_not() {
    for fault in [Fault::Lost, Fault::Kept] {
        let mut world = World::new(2);
        world.starts(false);
        let (other, creator) = world.starts(true);
        let leases = world.assigned();
        let [lease, still] = &leases[..] else { panic!("{leases:?}") };
        world.is_held = true;
        world.completes(lease);
        world.fails(fault);
        assert_eq!(world.accepted(lease), 0);
        world.is_let_go();
        let answered = |frame: &Hear| match frame {
            Hear::ResultAccepted(of) => of.lease.as_ref() == Some(lease),
            // The run is over, so that nobody reads it.
            Hear::ResultRefused(of) => of.lease.as_ref() == Some(lease) && fault == Fault::Kept,
            _ => false,
        };
        assert_eq!(world.frames.iter().filter(|frame| answered(frame)).count(), 1, "{:?}", world.frames);
        assert!(!world.frames.iter().any(|frame| matches!(frame, Hear::LeaseRevoked(_))));
        // The other one is not disturbed, and the slot of the first is free.
        assert!(world.core.run(other).is_some());
        let (_, next) = world.starts(true);
        assert_eq!(world.assigned().len(), 3);
        world.completes(still);
        assert_eq!(world.accepted(still), 1);
        assert!(matches!(
            world.answers.remove(&creator),
            Some(Answer::Start(Ok(StartReply::Finished { run, .. }))) if run == other
        ));
        assert!(!world.answers.contains_key(&next));
        world.check();
    }
}

#[test]
fn a_lease_whose_assignment_had_not_left_goes_on_where_it_was_stored() {
    for fault in [Fault::Lost, Fault::Kept] {
        let mut world = World::new(1);
        world.is_held = true;
        let (mut run, _) = world.starts(false);
        world.fails(fault);
        assert_eq!(world.assigned(), [], "nothing is known to be durable");
        world.is_let_go();
        if fault == Fault::Lost {
            // Nothing of it is there, and its slot is free.
            assert!(world.core.run(run).is_none() && world.assigned().is_empty());
            run = world.starts(false).0;
        }
        let leases = world.assigned();
        let [lease] = &leases[..] else { panic!("{leases:?}") };
        assert_eq!(lease.run_id, run.to_string());
        world.check();
        world.completes(lease);
        assert_eq!(world.accepted(lease), 1);
        assert!(world.core.run(run).is_none(), "it has finished");
    }
}

#[test]
fn what_comes_while_the_shard_is_claimed_is_heard_afterwards() {
    let mut world = World::new(1);
    world.starts(false);
    let (touched, _) = world.starts(false);
    let lease = world.assigned().pop().unwrap();
    world.is_held = true;
    world.pauses(touched);
    world.fails(Fault::Lost);
    world.completes(&lease);
    let refused = world.pauses(touched);
    assert!(is_unavailable(world.answers.remove(&refused)));
    assert_eq!(world.accepted(&lease), 0, "nothing can be stored");
    assert_eq!(world.core.next_wake().filter(|at| *at <= world.clock().mono), None);
    world.is_let_go();
    assert_eq!(world.accepted(&lease), 1);
    assert_eq!(world.assigned().len(), 2, "the slot is free for the other");
    world.check();
}

/// Two claims that do not follow one another leave room for what somebody else has written.
#[test]
fn where_another_daemon_has_claimed_in_between_everything_is_read() {
    let mut world = World::new(0);
    let (untouched, _) = world.starts(false);
    let (touched, _) = world.starts(false);
    let waiter = world.asks(Request::Wait { run: untouched });
    world.is_held = true;
    world.pauses(touched);
    world.fails(Fault::Lost);
    world.store.claim(SHARD, Mark(77)).unwrap();
    world.is_let_go();
    assert_eq!(world.read(), BTreeSet::from([untouched, touched]));
    assert!(is_unavailable(world.answers.remove(&waiter)));
    world.check();
    // From then on everything is known again.
    world.is_held = true;
    world.pauses(touched);
    world.fails(Fault::Lost);
    world.is_let_go();
    assert_eq!(world.read(), BTreeSet::from([touched]));
    world.check();
}

#[test]
fn a_claim_that_could_not_be_read_forgets_nothing_that_was_known() {
    let mut world = World::new(0);
    let (untouched, _) = world.starts(false);
    let (touched, _) = world.starts(false);
    let waiter = world.asks(Request::Wait { run: untouched });
    world.is_held = true;
    world.pauses(touched);
    world.fails(Fault::Lost);
    *world.asked.gone.lock().unwrap() = true;
    world.is_let_go();
    assert_eq!(world.unreadable, 1);
    assert_eq!(world.read(), BTreeSet::from([touched]));
    assert!(!world.answers.contains_key(&waiter));
    world.check();
}

/// No commit of a caller has to find out that nothing can be written any more.
#[test]
fn a_sweep_that_fails_has_the_shard_claimed_again_and_costs_no_commit() {
    let mut world = World::new(1);
    let (before, _) = world.starts(false);
    world.asked.read.lock().unwrap().clear();
    world.store.fail_next_sweep();
    let retention = Box::new(Retention { batch: 1, batch_bytes: 1, ..keep() });
    world.hears(Input::Sweep { shard: SHARD, retention, ages: Ages::default() });
    assert!(world.scribe.has_claimed(SHARD));
    assert_eq!(world.read(), BTreeSet::new(), "nothing was under way");
    let (after, creator) = world.starts(false);
    assert!(matches!(world.answers.remove(&creator), Some(Answer::Start(Ok(_)))));
    assert!(world.core.run(before).is_some() && world.core.run(after).is_some());
    world.check();
}

#[test]
fn a_run_whose_rows_cannot_be_read_is_read_later_and_the_others_go_on() {
    let mut world = World::new(1);
    let (first, _) = world.starts(false);
    let (broken, _) = world.starts(false);
    let lease = world.assigned().pop().unwrap();
    world.asked.broken.lock().unwrap().insert(broken);
    world.is_held = true;
    world.pauses(broken);
    world.fails(Fault::Lost);
    world.is_let_go();
    assert_eq!(world.unreadable, 0);
    assert!(world.core.run(first).is_some() && world.core.rests(broken));
    for _ in 0..3 {
        world.passes(1_000);
        assert!(world.core.rests(broken));
    }
    world.asked.broken.lock().unwrap().clear();
    world.passes(1_000);
    assert!(world.core.run(broken).is_some(), "its task waits for a worker");
    world.completes(&lease);
    assert_eq!(world.assigned().len(), 2);
    let paused = world.pauses(broken);
    assert!(matches!(world.answers.remove(&paused), Some(Answer::Command(Ok(CommandReply::Done { .. })))));
    world.check();
}

#[test]
fn epochs_of_claims_that_follow_one_another_differ_by_one() {
    let store = MemoryStore::new();
    let first = store.claim(SHARD, Mark(1)).unwrap().epoch();
    assert_eq!(store.claim(SHARD, Mark(2)).unwrap().epoch(), Epoch(first.0 + 1));
}
