//! Scripted workers: honest ones, and every other kind.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{
    self, connect_request::Frame as Said, connect_response::Frame as Told, payload::Data,
};
use capataz_crew::ConnectionId;
use capataz_engine::TaskRef;
use capataz_store::RunId;

use crate::conduct::Conduct;
use crate::host::Work;
use crate::invariant::{Invariant, Violation};
use crate::model::frames::parse;
use crate::model::settle::signature;
use crate::modes;
use crate::scenario::{WorkerShape, agent};
use crate::schedule::Action;
use crate::world::World;

/// An assignment by its lease.
pub type Key = (RunId, TaskRef, u64);

/// What a worker is going to do.
#[derive(Clone, Debug)]
pub enum Job {
    Connect,
    Heartbeat(ConnectionId),
    /// Acknowledge, and begin.
    Ack(Key),
    Progress(Key),
    /// The work is done, or has failed.
    End(Key),
    /// Stop, because the daemon asked for it.
    Stop(Key),
    /// Stop, because nobody asked for it.
    GiveUp(Key),
    Return(Key),
    /// Send a result of a lease that may be anybody's, live or not.
    Stale(Key),
    /// Hang up after a drain.
    Leave(ConnectionId),
}

#[derive(Debug)]
pub struct Holding {
    conduct: Conduct,
    work: Work,
    /// Sent and not confirmed.
    result: Option<Said>,
    /// It was done, as the worker has said by the way: whoever has heard that need not confirm it first.
    was_told: bool,
    cancelled: bool,
    deadline_ms: i64,
}

#[derive(Debug)]
pub struct Worker {
    pub id: String,
    shape: WorkerShape,
    link: Option<ConnectionId>,
    heartbeat_ms: i64,
    /// Hangs until then.
    mute_until: i64,
    holdings: BTreeMap<Key, Holding>,
    /// Scripts whose page it has.
    pub pages: BTreeSet<RunId>,
    /// Scripts of whose pages it has kept the state, on its disk.
    pub kept: BTreeSet<RunId>,
}

impl Worker {
    /// What it says it serves: a host goes by the configuration.
    fn serves(&self, unnamed: Option<&str>) -> Vec<v1::Agent> {
        let named = self.shape.agents.iter().filter(|name| !self.shape.is_host || Some(&***name) != unnamed);
        named.map(|name| agent(name, self.shape.max_concurrency)).collect()
    }

    pub fn new(index: usize, shape: WorkerShape) -> Self {
        Self {
            id: format!("worker-{index}"),
            shape,
            link: None,
            heartbeat_ms: 1_000,
            mute_until: 0,
            holdings: BTreeMap::new(),
            pages: BTreeSet::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Results that nobody has confirmed.
    pub fn unconfirmed(&self) -> impl Iterator<Item = Key> {
        self.holdings.iter().filter(|(_, holding)| holding.result.is_some()).map(|(key, _)| *key)
    }

    /// Assignments that take a slot: those whose result was not sent.
    fn in_work(&self) -> usize {
        self.holdings.values().filter(|holding| holding.result.is_none() && !holding.was_told).count()
    }
}

pub(crate) fn reference((run, task, lease): Key) -> Option<v1::LeaseRef> {
    Some(v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease })
}

/// The output of a worker for a lease: whoever reads the log can tell whose it is.
pub(crate) fn output(key: Key, worker: &str, as_text: bool) -> v1::Payload {
    let media_type = if as_text { "text/plain" } else { "application/json" };
    v1::Payload {
        media_type: media_type.to_owned(),
        data: Some(Data::Inline(format!("{{{}}}", signature(key.2, worker)).into())),
    }
}

impl World {
    pub(crate) fn job(&mut self, worker: usize, delay: i64, job: Job) {
        self.after(delay, Action::Work { worker, job });
    }

    pub(crate) fn work(&mut self, index: usize, job: Job) -> Result<(), Violation> {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(index) else { return Ok(()) };
        if now < worker.mute_until {
            let wait = worker.mute_until - now;
            self.job(index, wait, job);
            return Ok(());
        }
        let link = worker.link;
        match job {
            Job::Connect => self.worker_connects(index),
            Job::Heartbeat(id) if link == Some(id) => {
                let pause = worker.heartbeat_ms;
                self.say(index, Said::Heartbeat(v1::Heartbeat {}));
                self.job(index, pause, Job::Heartbeat(id));
                self.page_ends(index);
                self.check_told(index, id)?;
            }
            Job::Leave(id) if link == Some(id) => self.cut(id),
            Job::Heartbeat(_) | Job::Leave(_) => {}
            Job::Ack(key) => {
                if worker.holdings.contains_key(&key) && link.is_some() {
                    self.say(index, Said::Ack(v1::Ack { lease: reference(key) }));
                    self.model.begun(key.0, key.1, key.2)?;
                }
            }
            Job::Progress(key) => {
                if worker.holdings.get(&key).is_some_and(|holding| holding.result.is_none()) {
                    let partial = output(key, &worker.id, true);
                    let partial_output = self.rng.percent(50).then_some(partial);
                    let progress = v1::Progress {
                        lease: reference(key),
                        fraction: Some(0.5),
                        message: None,
                        partial_output,
                        partial_tail: None,
                        log: Some(v1::LogTail { lines: 1, text: signature(key.2, &worker.id) + "\n" }),
                    };
                    self.say(index, Said::Progress(progress));
                }
            }
            Job::End(key) => self.end(index, key)?,
            Job::Stop(key) if worker.holdings.get(&key).is_some_and(|holding| !holding.cancelled) => {}
            Job::Stop(key) | Job::GiveUp(key) => {
                let partial = output(key, &worker.id, true);
                let partial_output = self.rng.percent(60).then_some(partial);
                self.report(
                    index,
                    key,
                    Said::Cancelled(v1::Cancelled {
                        lease: reference(key),
                        partial_output,
                        log: String::new(),
                    }),
                );
            }
            Job::Return(key) => {
                // An assignment that came twice may have been worked on meanwhile.
                let is_untouched = |holding: &Holding| holding.result.is_none();
                if worker.holdings.get(&key).is_some_and(is_untouched)
                    && worker.holdings.remove(&key).is_some()
                {
                    self.say(index, Said::Returned(v1::Returned { lease: reference(key) }));
                }
            }
            Job::Stale(key) => {
                let output = output(key, &worker.id, false);
                self.model.gave(key.0, key.1, key.2, &output);
                let output = Some(output);
                if let Some(holding) = self.workers.get_mut(index).and_then(|own| own.holdings.get_mut(&key))
                {
                    holding.was_told = true;
                }
                self.say(
                    index,
                    Said::Completed(v1::Completed {
                        lease: reference(key),
                        output,
                        ..v1::Completed::default()
                    }),
                );
            }
        }
        Ok(())
    }

    /// Sends a result, and keeps it until somebody confirms it.
    pub(crate) fn report(&mut self, index: usize, key: Key, result: Said) {
        let Some(holding) = self.workers.get_mut(index).and_then(|worker| worker.holdings.get_mut(&key))
        else {
            return;
        };
        if holding.result.is_some() {
            return;
        }
        holding.result = Some(result.clone());
        let twice = holding.conduct == Conduct::Twice;
        self.say(index, result.clone());
        if twice {
            self.say(index, result);
        }
    }

    pub(crate) fn say(&mut self, index: usize, frame: Said) {
        if let Some(link) = self.workers.get(index).and_then(|worker| worker.link) {
            self.send_up(link, frame);
        }
    }

    fn worker_connects(&mut self, index: usize) {
        if self.workers.get(index).is_none_or(|worker| worker.link.is_some()) {
            return;
        }
        let Some(id) = self.connect(index) else {
            let delay = self.rng.between(200, 1_500);
            return self.job(index, delay, Job::Connect);
        };
        let Some(worker) = self.workers.get_mut(index) else { return };
        worker.link = Some(id);
        let hello = v1::Hello {
            worker_id: worker.id.clone(),
            agents: worker.serves(self.naming.unnamed()),
            slots: worker.shape.slots,
            held: worker.holdings.keys().filter_map(|key| reference(*key)).collect(),
            protocol: 1,
            browsers: worker.pages.iter().map(ToString::to_string).collect(),
        };
        let pause = worker.heartbeat_ms;
        self.say(index, Said::Hello(hello));
        self.job(index, pause, Job::Heartbeat(id));
    }

    /// On the streams that they have, with what they hold.
    pub(crate) fn hosts_say_hello_again(&mut self) {
        for index in 0..self.workers.len() {
            let Some(worker) = self.workers.get(index).filter(|worker| worker.shape.is_host) else {
                continue;
            };
            let hello = v1::Hello {
                worker_id: worker.id.clone(),
                agents: worker.serves(self.naming.unnamed()),
                slots: worker.shape.slots,
                protocol: 1,
                ..v1::Hello::default()
            };
            self.say(index, Said::Hello(hello));
        }
    }

    /// The worker's stream is over: it comes back with what it holds.
    pub(crate) fn hung_up(&mut self, index: usize, id: ConnectionId) {
        // Some stay away until the daemon no longer waits for them.
        let away = self.strikes(50);
        let delay = if away { self.rng.between(20_000, 120_000) } else { self.rng.delay(400, 20_000) };
        let Some(worker) = self.workers.get_mut(index) else { return };
        if worker.link == Some(id) {
            worker.link = None;
            self.job(index, delay, Job::Connect);
        }
    }

    /// A frame of the daemon reaches the worker.
    pub(crate) fn told(&mut self, index: usize, id: ConnectionId, frame: Told) -> Result<(), Violation> {
        let Some(worker) = self.workers.get_mut(index) else { return Ok(()) };
        if worker.link != Some(id) {
            return Ok(());
        }
        match frame {
            Told::Welcome(welcome) => self.welcomed(index, &welcome),
            Told::Assignment(assignment) => return self.assigned(index, &assignment),
            Told::Cancel(cancel) => {
                let Some(key) = parse(cancel.lease.as_ref()) else { return Ok(()) };
                let Some(holding) = worker.holdings.get_mut(&key) else { return Ok(()) };
                holding.cancelled = true;
                let deaf = holding.conduct == Conduct::IgnoresCancel;
                let is_timeout = cancel.reason == v1::CancelReason::Timeout as i32;
                if !deaf && !self.strikes(150) {
                    let usual = if is_timeout { 1_500 } else { 200 };
                    let delay = self.rng.delay(usual, 8_000);
                    self.job(index, delay, Job::Stop(key));
                }
                if is_timeout {
                    self.answer_deadline(key.0);
                }
            }
            Told::DeadlineExtended(extended) => {
                let Some(key) = parse(extended.lease.as_ref()) else { return Ok(()) };
                if let Some(holding) = worker.holdings.get_mut(&key) {
                    holding.deadline_ms = extended.deadline_ms;
                    holding.cancelled &= !extended.cancel_withdrawn;
                }
            }
            Told::ResultAccepted(v1::ResultAccepted { lease })
            | Told::ResultRefused(v1::ResultRefusedFrame { lease, .. })
            | Told::LeaseRevoked(v1::LeaseRevoked { lease }) => {
                let Some(key) = parse(lease.as_ref()) else { return Ok(()) };
                worker.holdings.remove(&key);
                if self.strikes(120) {
                    let delay = self.rng.between(0, 6_000);
                    self.job(index, delay, Job::Stale(key));
                }
            }
            Told::KeepBrowser(keep) => {
                let Ok(run) = keep.run_id.parse() else { return Ok(()) };
                if worker.pages.remove(&run) {
                    worker.kept.insert(run);
                }
            }
            // This worker sees at once that its stream is dead.
            Told::Heartbeat(_) | Told::Drain(_) => {}
        }
        Ok(())
    }

    /// Results that nobody confirmed are sent again; work that is no longer wanted is dropped.
    fn welcomed(&mut self, index: usize, welcome: &v1::Welcome) {
        let late = !self.is_calm() && self.rng.percent(30);
        let Some(worker) = self.workers.get_mut(index) else { return };
        worker.heartbeat_ms = (welcome.heartbeat_interval_ms / 2).max(1);
        let goes_on: Vec<Key> = welcome.reattached.iter().filter_map(|lease| parse(Some(lease))).collect();
        let mut again = Vec::new();
        let mut dropped = Vec::new();
        for (key, holding) in &worker.holdings {
            match &holding.result {
                Some(result) => again.push(result.clone()),
                None if !goes_on.contains(key) => dropped.push(*key),
                None => {}
            }
        }
        for key in dropped {
            worker.holdings.remove(&key);
        }
        let stale = late.then(|| self.leases.back().copied()).flatten();
        for result in again {
            self.say(index, result);
        }
        if let Some(key) = stale {
            self.job(index, 500, Job::Stale(key));
        }
    }

    fn assigned(&mut self, index: usize, assignment: &v1::Assignment) -> Result<(), Violation> {
        let Some(key) = parse(assignment.lease.as_ref()) else { return Ok(()) };
        let drawn = self.draw_conduct();
        self.remember_lease(key.0, key.1, key.2);
        let work = Work::of(assignment);
        let doomed = drawn == Conduct::Completes && modes::is_doomed(assignment);
        let conduct = if doomed { Conduct::Fails } else { drawn };
        if let Work::Phase { corrected } = work {
            self.model.phase_given(key.0, key.1, key.2, corrected)?;
        }
        let Some(worker) = self.workers.get_mut(index) else { return Ok(()) };
        worker.holdings.insert(
            key,
            Holding {
                conduct,
                work,
                result: None,
                was_told: false,
                cancelled: false,
                deadline_ms: assignment.deadline_ms,
            },
        );
        let (in_work, slots) = (worker.in_work(), worker.shape.slots as usize);
        Invariant::SlotsMatchLeases.check(in_work <= slots, || {
            format!("{} has {slots} slots and {in_work} assignments: {:?}", worker.id, worker.holdings)
        })?;
        self.line(|| format!("worker {index} will {conduct:?} {key:?}"));
        self.set_out(index, key, conduct);
        Ok(())
    }

    /// Where everything rests, what the worker believes of its leases is what the log says.
    fn check_told(&self, index: usize, id: ConnectionId) -> Result<(), Violation> {
        let Some(worker) = self.workers.get(index).filter(|_| self.is_quiet(id)) else { return Ok(()) };
        for (key, holding) in worker.holdings.iter().filter(|(_, holding)| holding.result.is_none()) {
            let live = self.model.run(key.0).and_then(|run| run.live(key.1));
            let Some((_, lease)) = live.filter(|(token, lease)| *token == key.2 && lease.worker == worker.id)
            else {
                continue;
            };
            let told = holding.cancelled == lease.cancel.is_some()
                && lease.deadlines.last() == Some(&holding.deadline_ms);
            Invariant::WorkersAreTold
                .check(told, || format!("{} believes {holding:?} of {key:?}: {lease:?}", worker.id))?;
        }
        Ok(())
    }

    /// The worker's process dies: another one with the same id knows nothing.
    pub(crate) fn worker_crashes(&mut self, index: usize) {
        let Some(worker) = self.workers.get_mut(index) else { return };
        worker.holdings.clear();
        worker.pages.clear();
        let link = worker.link.take();
        self.line(|| format!("worker {index} crashes"));
        if let Some(id) = link {
            self.cut(id);
        }
        let delay = self.rng.between(50, 3_000);
        self.job(index, delay, Job::Connect);
    }

    pub(crate) fn hang(&mut self, index: usize, until: i64) {
        if let Some(worker) = self.workers.get_mut(index) {
            worker.mute_until = until;
        }
    }

    pub(crate) fn is_host(&self, index: usize) -> bool {
        self.workers.get(index).is_some_and(|worker| worker.shape.is_host)
    }

    pub(crate) fn link_of(&self, index: usize) -> Option<ConnectionId> {
        self.workers.get(index)?.link
    }

    /// What is a part of the daemon dies with it.
    pub(crate) fn hosts_die(&mut self) {
        for worker in self.workers.iter_mut().filter(|worker| worker.shape.is_host) {
            worker.holdings.clear();
            worker.pages.clear();
        }
    }

    pub(crate) fn work_of(&self, index: usize, key: Key) -> Work {
        let holding = self.workers.get(index).and_then(|worker| worker.holdings.get(&key));
        holding.map_or(Work::Plan, |holding| holding.work.clone())
    }

    pub(crate) fn holding(&self, index: usize, key: Key) -> Option<(Conduct, bool)> {
        let holding = self.workers.get(index)?.holdings.get(&key)?;
        Some((holding.conduct, holding.result.is_some()))
    }

    /// From now on every worker is honest, and what it has begun comes to its end.
    pub(crate) fn workers_calm_down(&mut self) {
        for index in 0..self.workers.len() {
            let Some(worker) = self.workers.get_mut(index) else { continue };
            worker.mute_until = 0;
            let mut open = Vec::new();
            for (key, holding) in &mut worker.holdings {
                holding.conduct = Conduct::Completes;
                if holding.result.is_none() {
                    open.push(*key);
                }
            }
            let link = worker.link;
            for key in open {
                self.job(index, 300, Job::Ack(key));
                self.job(index, 900, Job::End(key));
            }
            // One that said that it drains gets no work until it comes back.
            if let Some(id) = link {
                self.job(index, 2_000, Job::Leave(id));
            }
        }
    }
}
