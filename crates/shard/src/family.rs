//! Runs and the runs that are their tasks. Parent and child may live in two shards, which are joined by messages that may
//! come late, twice or never ([`Kin`]).
//!
//! The parent's log names a child before anybody hears of it. From then on the parent's shard says that it wants the child,
//! again and again, until the parent's log says that it has ended: so no order of deaths loses an end, and the log makes
//! that it counts once. The child's shard creates what is not there, cancels what is to end, and says how it has ended what
//! is over: by itself at its end, and whenever it is asked. Creating and cancelling are one message, so that a child that
//! was cancelled before it was there cannot come into being later: it is created, and ends at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_engine::planted::{self, Fault};
use capataz_engine::{self as engine, ChildNews, RunState, TaskRef};
use capataz_policy::codes;
use capataz_store::{RunId, Store};

use crate::api::{Answer, Declined, StartReply, StartRequest};
use crate::load::{Damage, LoadError, load};
use crate::outbox::Deferred;
use crate::requests::Caller;
use crate::resting::Wanted;
use crate::shard::{Mode, Origin, Output, Shard};
use crate::spans;
use crate::timers::Timer;

/// Children that are looked for in the store at the same time.
const FINDS: usize = 16;
/// Bytes of a child's result that its parent keeps as the task's output; without its tasks' outputs where it has more.
const MAX_OUTPUT: usize = capataz_contracts::validate::INLINE_MAX;
/// The time after which a child is asked for again, at first and at most. Milliseconds.
const ASK_AGAIN_MS: (i64, i64) = (1_000, 10_000);
/// Clients may start runs until there are as many as may be unfinished; children may be created until there are so many
/// times more.
const ROOM_FOR_CHILDREN: usize = 4;
/// The id of the request by which a parent cancels its child, without force and by force.
const CANCEL_REQUESTS: (&str, &str) = ("capataz.parent.cancel", "capataz.parent.force");

/// What the shards of a parent and a child say to each other.
#[derive(Clone, Debug)]
pub enum Kin {
    /// Said to the child's shard.
    Wanted(Box<WantedRun>),
    /// Said to the parent's shard: nobody knows the child. What it is to do has to be said.
    Unknown { parent: RunId, task: String, child: RunId },
    /// Said to the parent's shard.
    News { parent: RunId, task: String, child: RunId, news: Box<ChildNews> },
}

/// A child that its parent wants to be there.
#[derive(Clone, Debug)]
pub struct WantedRun {
    pub child: RunId,
    pub parent: RunId,
    /// Name of the parent's task.
    pub task: String,
    /// The parent wants to know that it is there, and nothing more.
    pub detached: bool,
    /// It is to end; by force where that is true.
    pub cancel: Option<bool>,
    /// What it is to do; `None` where it should be there already.
    pub start: Option<StartRequest>,
}

/// What the store says of a run that nobody in memory knows.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub enum FoundRun {
    /// The store could not be read.
    Unread,
    Nowhere,
    There(Box<RunState>),
    Damaged(Damage),
}

/// Looks for a run that nobody in memory knows.
#[must_use]
pub fn find(store: &dyn Store, run: RunId) -> FoundRun {
    let found = store.get_run(run).map_err(LoadError::from).and_then(|row| match row {
        None => Ok(FoundRun::Nowhere),
        Some(row) => match row.quarantine {
            Some(quarantine) => Ok(FoundRun::Damaged(Damage::of_quarantine(run, &quarantine))),
            None => load(store, run).map(|state| FoundRun::There(Box::new(state))),
        },
    });
    match found {
        Ok(found) => found,
        Err(LoadError::Damaged(damage)) => FoundRun::Damaged(damage),
        Err(LoadError::Store(error)) => {
            tracing::error!(%run, error = &error as &dyn std::error::Error, "a run cannot be looked for");
            FoundRun::Unread
        }
    }
}

impl Kin {
    /// The run whose shard is to hear it.
    #[must_use]
    pub fn to(&self) -> RunId {
        match self {
            Self::Wanted(wanted) => wanted.child,
            Self::Unknown { parent, .. } | Self::News { parent, .. } => *parent,
        }
    }

    /// The agents that a child needs that is to be created.
    pub(crate) fn agents(&self) -> impl Iterator<Item = &String> {
        let start = match self {
            Self::Wanted(wanted) => wanted.start.as_ref(),
            Self::Unknown { .. } | Self::News { .. } => None,
        };
        start.into_iter().flat_map(|start| &start.agents)
    }
}

impl WantedRun {
    fn news(&self, news: ChildNews) -> Kin {
        let (parent, task, child) = (self.parent, self.task.clone(), self.child);
        Kin::News { parent, task, child, news: Box::new(news) }
    }
}

/// A child that is looked for in the store.
#[derive(Debug)]
struct Find {
    number: u64,
    wanted: WantedRun,
    absent: BTreeSet<String>,
}

/// Children that nobody in memory knows, and of which the store is asked.
#[derive(Debug, Default)]
pub(crate) struct Finds {
    finds: BTreeMap<RunId, Find>,
    queue: VecDeque<RunId>,
    flying: BTreeSet<u64>,
    numbers: u64,
}

impl Finds {
    fn add(&mut self, wanted: WantedRun, absent: BTreeSet<String>) {
        if let Some(find) = self.finds.get_mut(&wanted.child) {
            // The newest wish counts; what the child is to do may have been said before.
            let start = wanted.start.clone().or(find.wanted.start.take());
            if wanted.start.is_some() {
                find.absent = absent;
            }
            find.wanted = WantedRun { start, ..wanted };
            return;
        }
        self.numbers += 1;
        self.queue.push_back(wanted.child);
        self.finds.insert(wanted.child, Find { number: self.numbers, wanted, absent });
    }

    fn next(&mut self) -> Option<(RunId, u64)> {
        if self.flying.len() >= FINDS {
            return None;
        }
        let child = self.queue.pop_front()?;
        let number = self.finds.get(&child)?.number;
        self.flying.insert(number);
        Some((child, number))
    }

    fn found(&mut self, child: RunId, number: u64) -> Option<Find> {
        self.flying.remove(&number);
        self.finds.get(&child).filter(|find| find.number == number)?;
        self.finds.remove(&child)
    }

    pub(crate) fn clear(&mut self) {
        self.finds.clear();
        self.queue.clear();
        self.flying.clear();
    }
}

impl Shard {
    /// Says what the run's log says of its task's child, durably.
    pub(crate) fn reach_child(&mut self, parent: RunId, task: TaskRef, child: &str, cancel: Option<bool>) {
        // The state may be ahead: of another child the log says nothing yet.
        let named = self.runs.get(parent).and_then(|slot| slot.state.child(task));
        if named.is_none_or(|named| named.run != child) {
            return;
        }
        // One that is to end is there, as far as is known.
        self.say_wanted(parent, task, cancel, cancel.is_none());
        let first = self.now.mono.plus(ASK_AGAIN_MS.0);
        if let Some(slot) = self.runs.get_mut(parent)
            && !planted::is(Fault::ChildEndLost)
        {
            // However often others are named, those that are there are asked for in time.
            let timer = Timer::Children(parent);
            if self.timers.due(timer).is_none_or(|due| due > first) {
                slot.ask_children_ms = ASK_AGAIN_MS.0;
                self.timers.set(timer, first);
            }
        }
    }

    /// Asks for all children of the run that it waits for, and again later.
    pub(crate) fn ask_children(&mut self, parent: RunId) {
        let Some(slot) = self.runs.get_mut(parent) else { return };
        let children = slot.state.children().map(|(task, child)| (task, child.cancelled));
        let children: Vec<(TaskRef, Option<bool>)> = children.collect();
        if children.is_empty() || planted::is(Fault::ChildEndLost) {
            return;
        }
        slot.ask_children_ms = slot.ask_children_ms.saturating_mul(2).clamp(ASK_AGAIN_MS.0, ASK_AGAIN_MS.1);
        let again = self.now.mono.plus(slot.ask_children_ms);
        self.timers.set(Timer::Children(parent), again);
        // What the state says beyond the log is said when it is durable.
        if self.is_durable(parent) {
            for (task, cancel) in children {
                self.say_wanted(parent, task, cancel, false);
            }
        }
    }

    /// Whether the log says all that the run's state says.
    fn is_durable(&self, run: RunId) -> bool {
        let last = self.runs.get(run).map(|slot| slot.last_append);
        last.is_some_and(|last| last < self.outbox.oldest()) && !self.outbox.has_decided(run)
    }

    fn say_wanted(&mut self, parent: RunId, task: TaskRef, cancel: Option<bool>, with_work: bool) {
        let Some(slot) = self.runs.get(parent) else { return };
        let (Some(child), Some(declared)) = (slot.state.child(task), slot.state.plan().task(task)) else {
            return;
        };
        let Ok(run) = child.run.parse() else { return };
        let start = match with_work {
            true => {
                let waits = spans::of_waiting(parent, &slot.state, run).to_string();
                let start = slot.state.child_start(&parent.to_string(), task, waits);
                start.map(|start| StartRequest::new(run, start))
            }
            false => None,
        };
        let wanted = WantedRun {
            child: run,
            parent,
            task: declared.name.clone(),
            detached: child.detached,
            cancel,
            start,
        };
        self.out(Output::Kin(Kin::Wanted(Box::new(wanted))));
    }

    /// What the shard of a parent or of a child has said.
    pub(crate) fn kin(&mut self, kin: Kin, absent: BTreeSet<String>) {
        // Whoever needs an answer asks again.
        if self.mode != Mode::Running {
            return;
        }
        match kin {
            Kin::Wanted(wanted) => self.child_wanted(*wanted, absent),
            Kin::Unknown { parent, task, child } => {
                let Some(slot) = self.runs.get(parent) else { return };
                let Some(task) = slot.state.plan().find(&task) else { return };
                let wanted = slot.state.child(task).filter(|wanted| wanted.run == child.to_string());
                let Some(cancel) = wanted.map(|wanted| wanted.cancelled) else { return };
                if self.is_durable(parent) {
                    self.say_wanted(parent, task, cancel, true);
                }
            }
            Kin::News { parent, task, child, news } => {
                let Some(task) = self.runs.get(parent).and_then(|slot| slot.state.plan().find(&task)) else {
                    return;
                };
                if let ChildNews::Ended { blobs, .. } = &*news {
                    self.outbox.batch(parent).blobs.extend(blobs.iter().filter_map(crate::blob_hash));
                }
                let input = engine::Input::Child { task, run_id: child.to_string(), news: *news };
                self.input(parent, input, Origin::Shard);
            }
        }
    }

    fn child_wanted(&mut self, wanted: WantedRun, absent: BTreeSet<String>) {
        let child = wanted.child;
        if self.runs.contains(child) {
            // Its parent asks again.
            if let Some(force) = wanted.cancel.filter(|_| !self.overloaded()) {
                self.cancel_child(child, force);
            }
            if wanted.detached && self.runs.contains(child) {
                let news = Deferred::Kin(wanted.news(ChildNews::Started));
                self.outbox.batch(child).deferred.push(news);
            }
        } else if self.resting.contains(child) {
            if wanted.cancel.is_some() {
                let _ = self.want(child, Wanted::Kin(Box::new(wanted)));
            } else if wanted.detached {
                self.out(Output::Kin(wanted.news(ChildNews::Started)));
            }
        } else {
            self.finds.add(wanted, absent);
            self.find_children();
        }
    }

    fn cancel_child(&mut self, child: RunId, force: bool) {
        let request_id = if force { CANCEL_REQUESTS.1 } else { CANCEL_REQUESTS.0 }.to_owned();
        let reason = "the run whose task it is ends it".to_owned();
        self.input(child, engine::Input::Cancel { reason, force, request_id }, Origin::Shard);
    }

    fn find_children(&mut self) {
        while let Some((child, number)) = self.finds.next() {
            self.out(Output::FindChild { child, number });
        }
    }

    /// The shell has looked for a child.
    pub(crate) fn child_found(&mut self, child: RunId, number: u64, found: FoundRun) {
        if let Some(Find { wanted, absent, .. }) = self.finds.found(child, number)
            && self.mode == Mode::Running
        {
            if self.runs.contains(child) || self.resting.contains(child) {
                self.child_wanted(wanted, absent);
            } else {
                self.child_known(wanted, found, &absent);
            }
        }
        self.find_children();
    }

    fn child_known(&mut self, mut wanted: WantedRun, found: FoundRun, absent: &BTreeSet<String>) {
        let kin = match (found, wanted.start.take()) {
            // The parent asks again.
            (FoundRun::Unread, _) => return,
            (FoundRun::Nowhere, Some(start)) => return self.create_child(wanted, start, absent),
            (FoundRun::Nowhere, None) => {
                Kin::Unknown { parent: wanted.parent, task: wanted.task, child: wanted.child }
            }
            (FoundRun::There(_), _) if wanted.detached => wanted.news(ChildNews::Started),
            (FoundRun::There(state), _) => match state.ending(MAX_OUTPUT) {
                Some(news) => wanted.news(news),
                None => return,
            },
            (FoundRun::Damaged(damage), _) => {
                wanted.news(engine::never_ends(codes::LOG_DAMAGED, damage.to_string()))
            }
        };
        self.out(Output::Kin(kin));
    }

    fn create_child(&mut self, wanted: WantedRun, start: StartRequest, absent: &BTreeSet<String>) {
        let child = wanted.child;
        if self.run_count() >= self.config.max_unfinished_runs.saturating_mul(ROOM_FOR_CHILDREN) {
            let message = "there are too many unfinished runs for another child".to_owned();
            let news = engine::never_ends(codes::OVERLOADED, message);
            return self.out(Output::Kin(wanted.news(news)));
        }
        if planted::is(Fault::ChildStartedTwice) {
            let run = RunId(uuid::Uuid::from_u128(child.0.as_u128() ^ 1));
            let _ = self.start(Caller::Parent, StartRequest { run, ..start.clone() }, absent);
        }
        let news = match self.start(Caller::Parent, start, absent) {
            Ok(()) => {
                if wanted.detached {
                    let news = Deferred::Kin(wanted.news(ChildNews::Started));
                    self.outbox.batch(child).deferred.push(news);
                }
                if let Some(force) = wanted.cancel {
                    self.cancel_child(child, force);
                }
                return;
            }
            Err(Answer::Start(Err(Declined::Damaged(damage)))) => {
                engine::never_ends(codes::LOG_DAMAGED, damage.to_string())
            }
            Err(Answer::Start(Ok(StartReply::Refused(refusal)))) => {
                engine::never_ends(codes::UNKNOWN_ERROR, refusal.to_string())
            }
            // Not now. The parent asks again.
            Err(_) => return,
        };
        self.out(Output::Kin(wanted.news(news)));
    }

    /// Tells the run that waits for this one, if there is any, that it has ended, which is durable.
    pub(crate) fn tell_parent(&mut self, child: RunId) {
        let Some(slot) = self.runs.get(child) else { return };
        let news = slot.state.waiting_parent().is_some().then(|| slot.state.ending(MAX_OUTPUT)).flatten();
        if let Some(news) = news {
            self.send_to_parent(child, news);
        }
    }

    /// Tells the run that waits for this one, if there is any, that it cannot be worked on.
    pub(crate) fn tell_parent_of_damage(&mut self, damage: &Damage) {
        self.send_to_parent(damage.run, engine::never_ends(codes::LOG_DAMAGED, damage.to_string()));
    }

    fn send_to_parent(&mut self, child: RunId, news: ChildNews) {
        let Some(parent) = self.runs.get(child).and_then(|slot| slot.state.waiting_parent()) else { return };
        let (Ok(run), task) = (parent.run_id.parse(), parent.task.clone()) else { return };
        self.out(Output::Kin(Kin::News { parent: run, task, child, news: Box::new(news) }));
    }
}

impl StartRequest {
    /// The start of a run, and what follows from its work: its session, the agents that it needs, the blobs that it names,
    /// those of the runs among its tasks as well.
    #[must_use]
    pub fn new(run: RunId, mut start: engine::StartRun) -> Self {
        let engine::Needs { session, agents, commands, resources, blobs } = start.work.needs();
        if let Some(session) = &session {
            start.labels.insert(crate::SESSION_LABEL.to_owned(), session.clone());
        }
        let blobs = blobs.iter().filter_map(crate::blob_hash).collect();
        Self { run, start, session, agents, commands, resources, key: None, wait: false, blobs }
    }
}
