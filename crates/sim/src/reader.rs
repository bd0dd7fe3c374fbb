//! Subscribers: they read history and live events at any moment, are cut after any event, and resume by cursor.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_shard::feed::{Begin, Cursor, Filter, Placed, Reader, Ring, Start, Step, Topic, Unservable};
use capataz_store::{History, Position, Removals, RunId, ShardId, Store};

use crate::daemon::home;
use crate::invariant::{Invariant, Violation};
use crate::model::{Entry, Model};
use crate::rng::Rng;
use crate::schedule::Action;
use crate::trace::Fact;
use crate::world::World;

/// What a subscriber wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taste {
    Everything,
    /// Events of this severity or higher.
    Severe(i32),
    /// Runs with the label `team = red`.
    Red,
    /// One run after the other, each until it has finished.
    OneRun(Option<RunId>),
}

#[derive(Debug)]
pub struct Subscriber {
    /// The shard whose events it reads; that of the run, where it reads one.
    shard: ShardId,
    taste: Taste,
    max_batch: usize,
    reader: Option<Reader>,
    /// What it goes on after, as it left the daemon; `None` before anything did.
    cursor: Option<Placed>,
    /// The sweeps that had been when its stream began: what they have removed it need not get, and all else it has to.
    knows: u64,
    /// Its cursor may speak of what a restored disk has lost.
    misled: bool,
    /// Index of the next event that it may get.
    next: usize,
    /// The log has to be read from; the ring's newest position at that decision.
    log_next: Option<Position>,
    /// Number of the present stream; older ones are cut.
    stream: u64,
    /// Whether it waits for what it wants, or looks at everything.
    waits: bool,
    awaited: Option<(ShardId, Topic)>,
    /// Runs that were read to their end.
    read: Vec<RunId>,
    begun: bool,
}

impl Subscriber {
    pub fn draw(rng: &mut Rng, shards: &[ShardId]) -> Self {
        let shard = rng.pick(shards).copied().unwrap_or(ShardId(0));
        let taste = match rng.below(8) {
            0..=2 => Taste::Everything,
            3 => Taste::Severe(if rng.percent(50) {
                v1::Severity::High as i32
            } else {
                v1::Severity::Medium as i32
            }),
            4 => Taste::Red,
            _ => Taste::OneRun(None),
        };
        let max_batch = if rng.percent(60) { 1 + rng.below(6) } else { 256 };
        Self {
            shard,
            taste,
            max_batch,
            reader: None,
            cursor: None,
            knows: 0,
            misled: false,
            next: 0,
            log_next: None,
            stream: 0,
            waits: !rng.percent(25),
            awaited: None,
            read: Vec::new(),
            begun: false,
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        match self.taste {
            Taste::Everything => entry.shard == self.shard && !entry.inherited,
            Taste::Severe(least) => entry.shard == self.shard && entry.severity >= least && !entry.inherited,
            Taste::Red => entry.shard == self.shard && entry.team == 1 && !entry.inherited,
            Taste::OneRun(run) => run == Some(entry.run),
        }
    }

    fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        match self.taste {
            Taste::Everything => {}
            Taste::Severe(least) => filter.min_severity = least,
            Taste::Red => {
                filter.labels.insert("team".to_owned(), "red".to_owned());
            }
            Taste::OneRun(run) => filter.run = run,
        }
        filter
    }

    /// Whether it has everything that it wants.
    pub fn is_at_end(&self, model: &Model) -> bool {
        match self.taste {
            Taste::OneRun(_) => model.runs().all(|run| run.removed || self.read.contains(&run.run)),
            _ => !model
                .entries()
                .iter()
                .skip(self.next)
                .any(|entry| self.wants(entry) && entry.removed.is_none()),
        }
    }

    /// Ends the present stream.
    fn cut(&mut self) {
        self.reader = None;
        self.log_next = None;
        self.stream += 1;
    }

    /// Chooses where to begin, or goes on after its cursor.
    fn begin(
        &mut self,
        model: &Model,
        shards: &[ShardId],
        store: &dyn Store,
        sweeps: u64,
        rng: &mut Rng,
    ) -> Result<(), Violation> {
        if let Taste::OneRun(None) = self.taste {
            let unread =
                model.runs().find(|run| !run.removed && !self.read.contains(&run.run)).map(|run| run.run);
            let Some(run) = unread else { return Ok(()) };
            self.shard = home(run, shards);
            self.taste = Taste::OneRun(unread);
            self.cursor = None;
            self.next = 0;
        }
        let bounds = store.bounds(self.shard).unwrap_or_default();
        let history = store.history(self.shard).unwrap_or_default();
        let of_one_run = matches!(self.taste, Taste::OneRun(_));
        let begin = match self.cursor {
            Some(placed) => Begin::After(placed),
            None if !self.begun && !of_one_run && rng.percent(30) => Begin::Now,
            None => Begin::Oldest,
        };
        self.begun = true;
        let checked = begin.check(bounds, &history, of_one_run);
        if !matches!(begin, Begin::After(_)) {
            self.knows = sweeps;
        }
        if let (Begin::Now, Ok(Start { cursor, removals })) = (begin, &checked) {
            self.cursor = Some(Placed::new(*cursor, &history, *removals));
            self.next = model
                .entries()
                .iter()
                .rposition(|entry| entry.shard == self.shard && entry.position <= bounds.newest)
                .map_or(0, |last| last + 1);
        }
        let start = match checked {
            Ok(start) => start,
            Err(unservable) => {
                self.is_refused(&unservable, model, sweeps)?;
                let works = self.cursor.map_or(Begin::Oldest, Begin::After);
                match works.check(bounds, &history, of_one_run) {
                    Ok(start) => start,
                    Err(unservable) => {
                        return Invariant::ExactlyOnce.broken(format!("what works does not: {unservable}"));
                    }
                }
            }
        };
        self.misled = false;
        self.reader = Some(Reader::new(self.shard, self.filter(), start, self.max_batch));
        Ok(())
    }

    /// It waits for what it wants, and no longer for what it wanted before: some subscribers do, and the others look at everything.
    fn waits_for_its_topic(&mut self, rings: &mut BTreeMap<ShardId, Ring>) {
        if let Some((shard, topic)) = self.awaited.take()
            && let Some(ring) = rings.get_mut(&shard)
        {
            ring.no_longer_awaits(&topic);
        }
        self.awaited = self.filter().topic().filter(|_| self.waits).map(|topic| (self.shard, topic));
        if let Some((shard, topic)) = &self.awaited
            && let Some(ring) = rings.get_mut(shard)
        {
            ring.awaits(topic.clone());
        }
    }

    /// It is told that it cannot go on after its cursor, which has to be true, and what works.
    fn is_refused(&mut self, unservable: &Unservable, model: &Model, sweeps: u64) -> Result<(), Violation> {
        match unservable {
            Unservable::OtherHistory { valid } => {
                Invariant::ExactlyOnce.check(self.misled, || {
                    format!("the cursor {:?} is refused, and nothing was lost", self.cursor)
                })?;
                self.goes_on_after(*valid, model);
            }
            Unservable::TooOld { works } => {
                let since = |entry: &Entry| {
                    entry.shard == self.shard && entry.removed.is_some_and(|sweep| sweep > self.knows)
                };
                let is_too_old = self.misled || model.entries().iter().any(since);
                Invariant::KeptIsDelivered.check(is_too_old, || {
                    format!("the cursor {:?} is too old, and nothing was removed since", self.cursor)
                })?;
                if works.cursor == Cursor::default() {
                    self.goes_on_after(*works, model);
                }
                self.cursor = Some(*works);
            }
        }
        self.knows = sweeps;
        Ok(())
    }

    /// It is told what still works, and begins there.
    fn goes_on_after(&mut self, valid: Placed, model: &Model) {
        self.cursor = Some(valid);
        let seen = |entry: &Entry| entry.shard == self.shard && entry.position <= valid.cursor.position;
        self.next = match self.taste {
            _ if valid.cursor == Cursor::default() => 0,
            _ => model.entries().iter().rposition(seen).map_or(0, |last| last + 1),
        };
    }

    /// The disk was restored while no stream was open: what this subscriber has seen may be lost.
    pub fn is_misled(&mut self, model: &Model) {
        self.misled = true;
        self.next = self.next.min(model.entries().len());
        self.read.retain(|run| model.run(*run).is_some_and(|run| run.finished.is_some()));
        if let Taste::OneRun(Some(run)) = self.taste
            && model.run(run).is_none()
        {
            self.taste = Taste::OneRun(None);
        }
    }

    /// Compares what was delivered with the log; `keep` events of it arrive.
    fn take(&mut self, step: &Step, keep: usize, model: &Model, history: &History) -> Result<(), Violation> {
        let removals = self.reader.as_ref().map(Reader::removals).unwrap_or_default();
        for delivered in step.events.iter().take(keep) {
            let entries = model.entries();
            let is_it = |entry: &Entry| {
                (entry.run, &entry.event, entry.inherited)
                    == (delivered.run, &delivered.event, delivered.inherited)
            };
            let has_to_be = |entry: &Entry| entry.removed.is_none_or(|sweep| sweep > self.knows);
            let may_be = |entry: &Entry| self.wants(entry) && (has_to_be(entry) || is_it(entry));
            let skipped = entries.iter().skip(self.next).position(may_be);
            let expected =
                skipped.and_then(|skipped| Some((self.next + skipped, entries.get(self.next + skipped)?)));
            let same = expected.is_some_and(|(_, entry)| is_it(entry));
            let invariant = match expected {
                Some((_, entry)) if !is_it(entry) && entry.removed.is_some() => Invariant::KeptIsDelivered,
                _ => Invariant::ExactlyOnce,
            };
            invariant.check(same, || {
                let got = entries
                    .iter()
                    .position(|entry| entry.event == delivered.event && entry.run == delivered.run);
                let index = expected.map(|(index, _)| index);
                format!("{:?} gets event {got:?} of the shard where {index:?} is next", self.taste)
            })?;
            self.next = expected.map_or(self.next, |(index, _)| index + 1);
            self.cursor = Some(Placed::new(delivered.cursor, history, removals));
        }
        Ok(())
    }
}

impl World {
    /// A subscriber does its next step.
    pub(crate) fn read(&mut self, index: usize, stream: u64) -> Result<(), Violation> {
        let Some(subscriber) =
            self.subscribers.get_mut(index).filter(|subscriber| subscriber.stream == stream)
        else {
            return Ok(());
        };
        // What a reader gets of a damaged row is a matter of the stream alone, and not of what happens around it.
        if !self.daemon.ready || self.damages.is_any() {
            return self.read_later(index, 400);
        }
        if let Taste::OneRun(Some(run)) = subscriber.taste
            && self.model.run(run).is_some_and(|run| run.removed)
        {
            subscriber.taste = Taste::OneRun(None);
            subscriber.cut();
            return self.read_later(index, 400);
        }
        if subscriber.reader.is_none() {
            let (shards, sweeps) = (self.scenario.shards(), self.sweeps);
            subscriber.begin(&self.model, &shards, &self.disk.store, sweeps, &mut self.rng)?;
            subscriber.waits_for_its_topic(&mut self.daemon.rings);
        }
        let Some(ring) = self.daemon.rings.get(&subscriber.shard) else {
            return self.read_later(index, 400);
        };
        let Some(reader) = &mut subscriber.reader else { return self.read_later(index, 900) };
        // The ring is asked at one moment and the log, where it has to be, at a later one.
        let step = match subscriber.log_next.take() {
            None => match reader.read_ring(ring) {
                Some(step) => step,
                None => {
                    subscriber.log_next = Some(ring.newest());
                    return self.read_later(index, 15);
                }
            },
            Some(newest) => {
                let step = reader.read_log(&self.disk.store, newest);
                let Ok(step) = step else { return Invariant::ExactlyOnce.broken("the log cannot be read") };
                step
            }
        };
        Self::check_step(&step, subscriber.max_batch)?;
        let (after, removals) = (reader.cursor(), reader.removals());
        if step.missed {
            let bounds = self.disk.store.bounds(subscriber.shard).unwrap_or_default();
            let history = self.disk.store.history(subscriber.shard).unwrap_or_default();
            let works = Placed::new(after, &history, bounds.removals);
            subscriber.is_refused(&Unservable::TooOld { works }, &self.model, self.sweeps)?;
            subscriber.cut();
            return self.read_later(index, 1_500);
        }
        self.arrive(index, &step, after, removals)
    }

    /// A step reaches the subscriber, whole or up to some event.
    fn arrive(
        &mut self,
        index: usize,
        step: &Step,
        after: Cursor,
        removals: Removals,
    ) -> Result<(), Violation> {
        let cut = self.strikes(60);
        let arrived = if cut { self.rng.below(step.events.len() + 1) } else { step.events.len() };
        let Some(subscriber) = self.subscribers.get_mut(index) else { return Ok(()) };
        let history = self.disk.store.history(subscriber.shard).unwrap_or_default();
        subscriber.take(step, arrived, &self.model, &history)?;
        self.trace.fact(Fact::Delivered, index as u64, subscriber.next as u64);
        if cut {
            subscriber.cut();
            return self.read_later(index, 1_500);
        }
        subscriber.cursor = Some(Placed::new(after, &history, removals));
        let of_one_run = matches!(subscriber.taste, Taste::OneRun(Some(_)));
        Invariant::ExactlyOnce.check(!step.finished || of_one_run, || {
            "a subscriber of many runs has nothing more to wait for".to_owned()
        })?;
        if let Taste::OneRun(Some(run)) = subscriber.taste {
            let finished = self.model.run(run).is_some_and(|run| run.finished.is_some());
            Invariant::ExactlyOnce
                .check(!step.finished || finished, || format!("run {run} is not finished"))?;
            if step.finished {
                let left = |entry: &Entry| entry.run == run && entry.removed.is_none();
                let wanted = self.model.entries().iter().skip(subscriber.next).any(left);
                Invariant::ExactlyOnce
                    .check(!wanted, || format!("the end of run {run} was not delivered"))?;
                subscriber.read.push(run);
                subscriber.taste = Taste::OneRun(None);
                subscriber.cut();
            }
        }
        let busy = !step.at_end;
        self.read_later(index, if busy { 20 } else { 600 })
    }

    fn read_later(&mut self, index: usize, within: i64) -> Result<(), Violation> {
        let Some(subscriber) = self.subscribers.get(index) else { return Ok(()) };
        let stream = subscriber.stream;
        let delay = self.rng.between(1, within);
        self.after(delay, Action::Read { reader: index, stream });
        Ok(())
    }

    /// The daemon died, and with it all streams.
    pub(crate) fn cut_all_streams(&mut self) {
        for index in 0..self.subscribers.len() {
            if let Some(subscriber) = self.subscribers.get_mut(index) {
                subscriber.cut();
                let stream = subscriber.stream;
                let delay = self.rng.between(50, 2_000);
                self.after(delay, Action::Read { reader: index, stream });
            }
        }
    }
}
