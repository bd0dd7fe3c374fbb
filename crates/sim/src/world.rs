//! One simulated world: virtual time, one daemon, its disk, its network, and everybody who uses it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_crew::{ConnectionId, Mono, Now};
use capataz_engine::{QueryId, TaskRef};
use capataz_shard::{Found, Input, ReplyId};
use capataz_store::{MemoryStore, Millis, RunId, ShardId};

use crate::asks::Catalogue;
use crate::client::{Asked, Op};
use crate::coverage::Coverage;
use crate::daemon::Daemon;
use crate::damage::Damages;
use crate::disk::Disk;
use crate::invariant::{Invariant, Violation};
use crate::model::Model;
use crate::network::Link;
use crate::reader::Subscriber;
use crate::rng::Rng;
use crate::scenario::{CALM_MS, EPOCH_MS, Naming, Scenario};
use crate::schedule::{Action, Schedule};
use crate::sweeps::Round;
use crate::trace::{Fact, Trace};
use crate::worker::{Job, Worker};

/// How often people look after runs that wait for them. Milliseconds.
const OPERATE_EVERY: i64 = 700;
/// Leases that somebody may still speak of, right or wrong.
const REMEMBERED_LEASES: usize = 24;

/// When the daemon's process stands still.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    since: i64,
    pub(crate) until: i64,
    /// How long it stood still before, in all.
    before: i64,
    /// It is too short for the daemon to be sure of it.
    is_short: bool,
}

impl Stall {
    /// A daemon is woken every `heartbeat` milliseconds at least: a stall that is longer it knows of.
    pub(crate) fn begin(&mut self, now: i64, length: i64, heartbeat: i64) {
        let is_short = length <= heartbeat + 100;
        *self = Self { since: now, until: now + length, before: self.so_far(now), is_short };
    }

    /// The process is dead.
    pub(crate) fn end(&mut self, now: i64) {
        *self = Self { since: now, until: now, before: self.so_far(now), is_short: false };
    }

    /// How long processes have stood still so far, in all, as far as they can know.
    fn so_far(&self, now: i64) -> i64 {
        self.before + if self.is_short { 0 } else { now.min(self.until) - self.since }
    }

    /// What a clock says that stands still with the process.
    pub(crate) fn listened(&self, now: i64) -> i64 {
        now - self.so_far(now)
    }
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) scenario: Scenario,
    pub(crate) now: i64,
    /// What the clock on the wall of the daemon's machine shows beside the true time.
    pub(crate) skew: i64,
    /// By how much the clock on the wall was set forward, in all.
    pub(crate) set_forward: i64,
    /// The daemon's process stands, or stood last, still.
    pub(crate) stall: Stall,
    /// What the daemon has read of the specs.
    pub(crate) specs: Catalogue,
    pub(crate) schedule: Schedule,
    /// Number of the present process.
    pub(crate) generation: u64,
    pub(crate) daemon: Daemon,
    pub(crate) disk: Disk,
    pub(crate) links: BTreeMap<ConnectionId, Link>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) ops: Vec<Op>,
    pub(crate) asked: BTreeMap<ReplyId, Asked>,
    pub(crate) forgotten: BTreeSet<ReplyId>,
    pub(crate) subscribers: Vec<Subscriber>,
    pub(crate) model: Model,
    pub(crate) trace: Trace,
    pub(crate) coverage: Coverage,
    /// Inputs that were delivered to the core.
    pub(crate) inputs: u64,
    /// What the disk held when its machine was copied last, and what the model says of that.
    pub(crate) backup: Option<Box<(MemoryStore, Model)>>,
    pub(crate) damages: Damages,
    pub(crate) calm_since: Option<i64>,
    pub(crate) next_id: u64,
    /// Sweeps of retention so far, also those that a restored disk knows nothing of.
    pub(crate) sweeps: u64,
    pub(crate) leases: VecDeque<(RunId, TaskRef, u64)>,
    /// What was written when: the true time of each append, by the stream and the number of its first event.
    pub(crate) written: BTreeMap<RunId, BTreeMap<u64, i64>>,
    /// How old what each sweep removes has to be, and the true time at which the shard let it go.
    pub(crate) sweep_ages: BTreeMap<ShardId, VecDeque<(i64, i64)>>,
    /// The sweep that somebody waits for.
    pub(crate) round: Option<Round>,
    /// By how much the clock on the wall was set while no daemon looked at it: since the last one died, and before, with the
    /// true times at which the next ones began.
    pub(crate) set_unwatched: i64,
    /// What the configuration says of an agent that it does not always name.
    pub(crate) naming: Naming,
    pub(crate) unwatched_jumps: Vec<(i64, i64)>,
    /// The newest answer that each ask has got to what it wanted to know.
    pub(crate) answered: BTreeMap<RunId, (QueryId, Found)>,
    /// The runs' own clocks, at the first event of each decision.
    pub(crate) clocks: BTreeMap<RunId, BTreeMap<u64, ClockSeen>>,
}

/// What a run's own clock said, and what the world's clocks said then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockSeen {
    generation: u64,
    now: i64,
    set_forward: i64,
    elapsed: i64,
}

impl World {
    pub(crate) fn new(seed: u64, keep_lines: usize) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let specs = Catalogue::draw(&mut rng);
        let workers =
            scenario.workers.iter().enumerate().map(|(index, shape)| Worker::new(index, shape.clone()));
        let workers: Vec<Worker> = workers.collect();
        let daemon = Daemon::new(&scenario);
        let subscribers =
            (0..scenario.readers).map(|_| Subscriber::draw(&mut rng, &scenario.shards())).collect();
        let mut world = Self {
            rng,
            scenario,
            now: EPOCH_MS,
            skew: 0,
            set_forward: 0,
            stall: Stall::default(),
            specs,
            schedule: Schedule::default(),
            generation: 0,
            daemon,
            disk: Disk::new(),
            links: BTreeMap::new(),
            workers,
            ops: Vec::new(),
            asked: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            subscribers,
            model: Model::default(),
            trace: Trace::new(keep_lines),
            coverage: Coverage::default(),
            inputs: 0,
            backup: None,
            damages: Damages::default(),
            calm_since: None,
            next_id: 1,
            sweeps: 0,
            leases: VecDeque::new(),
            written: BTreeMap::new(),
            sweep_ages: BTreeMap::new(),
            round: None,
            set_unwatched: 0,
            naming: Naming::Declared,
            unwatched_jumps: Vec::new(),
            answered: BTreeMap::new(),
            clocks: BTreeMap::new(),
        };
        world.after(0, Action::Boot);
        for worker in 0..world.workers.len() {
            let delay = world.rng.between(10, 1_500);
            world.after(delay, Action::Work { worker, job: Job::Connect });
        }
        for reader in 0..world.subscribers.len() {
            world.after(50, Action::Read { reader, stream: 0 });
        }
        world.after(100, Action::Act);
        world.after(OPERATE_EVERY, Action::Operate);
        if world.scenario.has_clock_jumps {
            let delay = world.rng.between(1_000, 60_000);
            world.after(delay, Action::SetClock);
        }
        if world.scenario.reconfigures {
            let delay = world.rng.between(1_000, 30_000);
            world.after(delay, Action::Configure);
        }
        if world.scenario.stalls {
            let delay = world.rng.between(1_000, 60_000);
            world.after(delay, Action::Stall);
        }
        world
    }

    /// Runs until everything has ended.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        while let Some(scheduled) = self.schedule.pop() {
            self.now = self.now.max(scheduled.at);
            if let Some(since) = self.calm_since
                && self.now > since + CALM_MS
            {
                return self.overdue();
            }
            if self.stands_still() && scheduled.action.is_daemons() {
                // It happens all at once when the process goes on, in the order in which it came.
                if let Action::Up { link, index, .. } = &scheduled.action {
                    self.waits(*link, *index);
                }
                self.schedule.push(self.stall.until, scheduled.generation, scheduled.action);
                continue;
            }
            let alive = scheduled.generation == self.generation;
            let ends = matches!(scheduled.action, Action::Operate);
            self.act(scheduled.action, alive)?;
            if self.calm_since.is_none() && self.inputs >= self.scenario.inputs {
                self.calm_down()?;
            }
            if ends && self.calm_since.is_some() && self.has_ended() {
                return self.check_end();
            }
        }
        Ok(())
    }

    /// `alive`: the process that this belongs to has not died since it was scheduled.
    fn act(&mut self, action: Action, alive: bool) -> Result<(), Violation> {
        match action {
            Action::Wake if alive => self.wake(),
            Action::CarryOut if alive => self.carry_out(),
            Action::Write if alive => self.write(),
            Action::Written if alive => self.written(),
            Action::Reopened { shard, touched } if alive => self.reopened(shard, touched),
            Action::Answer { run, query, answer } if alive => {
                self.deliver(Input::Answered { run, query, answer: *answer })
            }
            Action::Judged { run, query, verdict } if alive => {
                self.deliver(Input::Judged { run, query, verdict: *verdict })
            }
            Action::Computed { run, query, computed } if alive => {
                self.deliver(Input::Computed { run, query, computed: *computed })
            }
            Action::ReadSession { stream, load } if alive => self.read_session(stream, load),
            Action::SessionRead { stream, load, state } if alive => {
                self.deliver(Input::SessionLoaded { stream, load, state: Ok(state) })
            }
            Action::ReadRun { run, load } if alive => self.read_run(run, load),
            Action::RunRead { run, load, state } if alive => {
                self.deliver(Input::RunLoaded { run, load, state })
            }
            Action::FindRun { run, number } if alive => self.find_run(run, number),
            Action::RunFound { run, number, found } if alive => {
                self.deliver(Input::ChildFound { child: run, number, found: *found })
            }
            Action::FindKeys { shard, number, query } if alive => self.find_keys(shard, number, &query),
            Action::KeysFound { shard, number, fact } if alive => {
                self.deliver(Input::KeysFound { shard, number, fact })
            }
            Action::Carried(carried) if alive => self.carried(carried),
            Action::Wake
            | Action::Carried(_)
            | Action::CarryOut
            | Action::Write
            | Action::Written
            | Action::Reopened { .. }
            | Action::Answer { .. }
            | Action::Judged { .. }
            | Action::Computed { .. }
            | Action::ReadSession { .. }
            | Action::SessionRead { .. }
            | Action::ReadRun { .. }
            | Action::RunRead { .. }
            | Action::FindRun { .. }
            | Action::RunFound { .. }
            | Action::FindKeys { .. }
            | Action::KeysFound { .. } => Ok(()),
            Action::SetClock => self.set_clock(),
            Action::Configure => self.configure(),
            Action::Stall => {
                self.stall();
                Ok(())
            }
            Action::Boot => self.boot(),
            Action::Up { link, index, frame } => self.up(link, index, *frame),
            Action::Down { link, index, frame } => self.down(link, index, *frame),
            Action::UpEnd { link } => self.up_end(link),
            Action::DownEnd { link } => self.down_end(link),
            Action::Work { worker, job } => self.work(worker, job),
            Action::Ask { op } => self.ask(op),
            Action::Heard { op, verdict } => self.heard(op, verdict),
            Action::GiveUp { op } => self.give_up(op),
            Action::Act => self.clients_act(),
            Action::Operate => {
                self.operate();
                self.back_up();
                self.after(OPERATE_EVERY, Action::Operate);
                self.wear_out()
            }
            Action::Read { reader, stream } => self.read(reader, stream),
        }
    }

    /// Whether the daemon's process is there and does nothing.
    pub(crate) fn stands_still(&self) -> bool {
        self.now < self.stall.until
    }

    /// What the daemon's clocks say. The one that nobody can set begins anew with each process.
    pub(crate) fn clocks(&self) -> Now {
        Now { wall: Millis(self.now + self.skew), mono: Mono(self.now - self.daemon_began()) }
    }

    /// The true time at which the daemon's clock says so.
    pub(crate) fn when(&self, mono: Mono) -> i64 {
        mono.0 + self.daemon_began()
    }

    /// The true time at which the clock of the daemon's process said 0.
    fn daemon_began(&self) -> i64 {
        EPOCH_MS - 1_000 * i64::try_from(self.generation % 1_000).unwrap_or(0)
    }

    /// Holds the clock of a run against the true time, which no core knows.
    pub(crate) fn check_clock(&mut self, run: RunId, seq: u64, elapsed: i64) -> Result<(), Violation> {
        let seen =
            ClockSeen { generation: self.generation, now: self.now, set_forward: self.set_forward, elapsed };
        let decisions = self.clocks.entry(run).or_default();
        // What had this number or a higher one was never stored.
        decisions.split_off(&seq);
        let before = decisions.last_key_value().map(|(_, before)| *before);
        decisions.insert(seq, seen);
        // The clock of a fork goes on where that of the other run stood, which the model looks at.
        let Some(before) = before else {
            return Invariant::ClockKeepsTime
                .check(elapsed == 0 || seq > 1, || format!("run {run} begins at {elapsed}"));
        };
        let (passed, true_time) = (elapsed - before.elapsed, self.now - before.now);
        // A run in quarantine is nobody's.
        let had_it = before.generation == self.generation && !self.damages.was_damaged(run);
        let holds = if had_it {
            passed == true_time
        } else {
            passed <= true_time + self.set_forward - before.set_forward
        };
        Invariant::ClockKeepsTime
            .check(holds, || format!("run {run}: {passed} ms by its clock, {true_time} ms in truth"))
    }

    /// The clock on the wall is set.
    pub(crate) fn set_wall(&mut self, by: i64) {
        self.skew += by;
        self.set_forward += by.max(0);
        if self.daemon.core.is_none() {
            self.set_unwatched += by;
        }
    }

    /// Schedules something `delay` milliseconds from now.
    pub(crate) fn after(&mut self, delay: i64, action: Action) {
        self.schedule.push(self.now + delay.max(0), self.generation, action);
    }

    pub(crate) fn at(&mut self, at: i64, action: Action) {
        self.schedule.push(at.max(self.now), self.generation, action);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm_since.is_some()
    }

    pub(crate) fn draw_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) {
        let now = self.now - EPOCH_MS;
        self.trace.line(|| format!("{:>6}.{:03} {}", now / 1000, now % 1000, text()));
    }

    /// Somebody may speak of this lease later on.
    pub(crate) fn remember_lease(&mut self, run: RunId, task: TaskRef, token: u64) {
        if self.leases.len() >= REMEMBERED_LEASES {
            self.leases.pop_front();
        }
        self.leases.push_back((run, task, token));
    }

    /// The faults stop: from here on everything has to come to its end.
    fn calm_down(&mut self) -> Result<(), Violation> {
        self.line(|| "-- the faults stop".to_owned());
        self.calm_since = Some(self.now);
        self.workers_calm_down();
        self.change_specs();
        self.restore_bytes();
        self.name_again()?;
        if self.daemon.draining || self.scenario.damages {
            self.line(|| "the daemon is replaced".to_owned());
            self.crash();
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.model.unfinished().next().is_none()
            && self.asked.is_empty()
            && self.ops.iter().all(|op| op.done)
            && self.disk.is_idle()
            && self.daemon.is_idle()
            && self.subscribers.iter().all(|subscriber| subscriber.is_at_end(&self.model))
            && self.workers.iter().all(|worker| worker.unconfirmed().next().is_none())
    }

    /// Virtual time is over: names what has not ended.
    fn overdue(&self) -> Result<(), Violation> {
        if let Some(run) = self.model.unfinished().next() {
            let steps: Vec<_> =
                run.waves.last().into_iter().flat_map(|wave| &wave.tasks).map(|task| task.step).collect();
            return Invariant::EndsInTime.broken(format!(
                "run {} does not end: {} events, paused {}, ending {}, {steps:?}",
                run.run,
                run.seq(),
                run.paused,
                run.ending.is_some()
            ));
        }
        if let Some(op) = self.ops.iter().find(|op| !op.done) {
            return Invariant::EveryRequestAnswered.broken(format!("no answer to {:?}", op.wish));
        }
        if let Some(key) = self.workers.iter().flat_map(Worker::unconfirmed).next() {
            return Invariant::EveryRequestAnswered.broken(format!("no answer to the result of {key:?}"));
        }
        if self.subscribers.iter().any(|subscriber| !subscriber.is_at_end(&self.model)) {
            return Invariant::ReadersReachEnd.broken("a subscriber stands still".to_owned());
        }
        Invariant::EndsInTime.broken("the daemon never rests".to_owned())
    }

    fn check_end(&mut self) -> Result<(), Violation> {
        self.check_store()?;
        self.check_rows()?;
        self.check_state()?;
        self.trace.fact(Fact::Delivered, self.inputs, self.model.entries().len() as u64);
        Ok(())
    }
}
