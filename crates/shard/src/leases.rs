//! The live leases of all runs, and where their workers are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_contracts::v1;
use capataz_crew::{ConnectionId, Mono, OfferId};
use capataz_engine::{Observed, TaskRef, Timestamp};
use capataz_store::RunId;

type Key = (RunId, TaskRef);

/// The worker's end of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) connection: ConnectionId,
    pub(crate) offer: OfferId,
}

/// The slot of a lease that is over, until that is durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacated {
    pub(crate) task: TaskRef,
    pub(crate) token: u64,
    pub(crate) offer: OfferId,
    /// `None` once the worker has left, and its slots with it.
    pub(crate) connection: Option<ConnectionId>,
    ack_by: Option<Mono>,
}

/// A live lease.
pub(crate) struct Held {
    pub(crate) token: u64,
    pub(crate) worker: Arc<str>,
    /// `None` while its worker is away.
    seat: Option<Seat>,
    /// Until when the worker has to acknowledge it; `None` once it has, and before the assignment has left.
    ack_by: Option<Mono>,
    /// When the worker was heard last since it has the lease.
    last_frame: Option<Mono>,
    pub(crate) progress: Option<v1::Progress>,
}

impl Held {
    fn new(token: u64, worker: Arc<str>, seat: Option<Seat>) -> Self {
        Self { token, worker, seat, ack_by: None, last_frame: None, progress: None }
    }

    /// When its worker was heard last.
    pub(crate) fn last_frame(&self) -> Option<Mono> {
        self.last_frame
    }

    pub(crate) fn seat(&self) -> Option<Seat> {
        self.seat
    }

    /// What is left of the lease until its end is durable; `None` where its worker is away.
    pub(crate) fn vacated(&self, task: TaskRef) -> Option<Vacated> {
        let Seat { connection, offer } = self.seat?;
        Some(Vacated { task, token: self.token, offer, connection: Some(connection), ack_by: self.ack_by })
    }

    /// The lease as it was before it was over, where its worker is still there.
    pub(crate) fn reseated(vacated: &Vacated) -> Option<Self> {
        let seat = Seat { connection: vacated.connection?, offer: vacated.offer };
        let held = Self::new(vacated.token, Arc::from(""), Some(seat));
        Some(Self { ack_by: vacated.ack_by, ..held })
    }

    /// What was seen of it; `clock` is the run's own.
    pub(crate) fn observed(&self, clock: impl Fn(Mono) -> Timestamp) -> Observed {
        Observed {
            last_frame: self.last_frame.map(clock),
            partial_output: self.progress.as_ref().and_then(|progress| progress.partial_output.clone()),
        }
    }
}

/// All leases. A lease is listed at its connection while it has one, else under its worker.
#[derive(Default)]
pub(crate) struct Leases {
    held: BTreeMap<Key, Held>,
    seated: BTreeMap<ConnectionId, BTreeSet<Key>>,
    away: BTreeMap<Arc<str>, BTreeSet<Key>>,
}

impl Leases {
    /// A lease of a worker that is there.
    pub(crate) fn grant(&mut self, run: RunId, task: TaskRef, token: u64, worker: Arc<str>, seat: Seat) {
        self.seated.entry(seat.connection).or_default().insert((run, task));
        self.held.insert((run, task), Held::new(token, worker, Some(seat)));
    }

    /// A lease that was read from the log; its worker is away.
    pub(crate) fn recover(&mut self, run: RunId, task: TaskRef, token: u64, worker: &str) {
        let worker: Arc<str> = Arc::from(worker);
        self.away.entry(Arc::clone(&worker)).or_default().insert((run, task));
        self.held.insert((run, task), Held::new(token, worker, None));
    }

    /// Takes the run's leases out, with what there is of them.
    pub(crate) fn take(&mut self, run: RunId) -> Vec<(TaskRef, Held)> {
        let first = TaskRef { wave: 0, task: 0 };
        let leases = self.held.range((run, first)..).take_while(|((of, _), _)| *of == run);
        let leases: Vec<(TaskRef, u64)> = leases.map(|((_, task), held)| (*task, held.token)).collect();
        let release = |(task, token)| Some((task, self.release(run, task, token)?));
        leases.into_iter().filter_map(release).collect()
    }

    /// A lease that was read from the log again, with what there was of it before.
    pub(crate) fn put_back(&mut self, run: RunId, task: TaskRef, worker: &str, held: Held) {
        let key = (run, task);
        let worker: Arc<str> = Arc::from(worker);
        match held.seat {
            Some(seat) => self.seated.entry(seat.connection).or_default().insert(key),
            None => self.away.entry(Arc::clone(&worker)).or_default().insert(key),
        };
        self.held.insert(key, Held { worker, ..held });
    }

    /// The worker is back and says that it still has this lease. Whether it goes on.
    pub(crate) fn reattach(
        &mut self,
        (run, task, token): (RunId, TaskRef, u64),
        worker: &Arc<str>,
        seat: Seat,
        now: Mono,
    ) -> bool {
        let key = (run, task);
        let Some(held) = self.held.get_mut(&key) else { return false };
        if held.token != token || held.worker != *worker || held.seat.is_some() {
            return false;
        }
        held.seat = Some(seat);
        held.last_frame = Some(now);
        remove_from(&mut self.away, worker, &key);
        self.seated.entry(seat.connection).or_default().insert(key);
        true
    }

    /// The lease's worker is away.
    pub(crate) fn detach(&mut self, run: RunId, task: TaskRef) {
        let key = (run, task);
        let Some(held) = self.held.get_mut(&key) else { return };
        held.ack_by = None;
        if let Some(seat) = held.seat.take() {
            remove_from(&mut self.seated, &seat.connection, &key);
            self.away.entry(Arc::clone(&held.worker)).or_default().insert(key);
        }
    }

    /// The lease is over. What there was of it.
    pub(crate) fn release(&mut self, run: RunId, task: TaskRef, token: u64) -> Option<Held> {
        let key = (run, task);
        self.get(run, task, token)?;
        let held = self.held.remove(&key)?;
        match held.seat {
            Some(seat) => remove_from(&mut self.seated, &seat.connection, &key),
            None => remove_from(&mut self.away, &held.worker, &key),
        }
        Some(held)
    }

    /// The live lease of a task, whatever its token.
    pub(crate) fn of_task(&self, run: RunId, task: TaskRef) -> Option<&Held> {
        self.held.get(&(run, task))
    }

    pub(crate) fn of_task_mut(&mut self, run: RunId, task: TaskRef) -> Option<&mut Held> {
        self.held.get_mut(&(run, task))
    }

    pub(crate) fn get(&self, run: RunId, task: TaskRef, token: u64) -> Option<&Held> {
        self.of_task(run, task).filter(|held| held.token == token)
    }

    /// The lease, where its worker is at the other end of this connection.
    pub(crate) fn at(
        &mut self,
        connection: ConnectionId,
        (run, task, token): (RunId, TaskRef, u64),
    ) -> Option<&mut Held> {
        let held = self.held.get_mut(&(run, task)).filter(|held| held.token == token)?;
        let seat = held.seat?;
        (seat.connection == connection).then_some(held)
    }

    pub(crate) fn connection_of(&self, run: RunId, task: TaskRef, token: u64) -> Option<ConnectionId> {
        Some(self.get(run, task, token)?.seat?.connection)
    }

    /// The assignment has left: it has to be acknowledged by then.
    pub(crate) fn assigned(&mut self, run: RunId, task: TaskRef, by: Mono) {
        if let Some(held) = self.held.get_mut(&(run, task)) {
            held.ack_by = Some(by);
        }
    }

    /// The worker has spoken of the lease. Whether it has it.
    pub(crate) fn heard(
        &mut self,
        connection: ConnectionId,
        lease: (RunId, TaskRef, u64),
        now: Mono,
    ) -> bool {
        let Some(held) = self.at(connection, lease) else { return false };
        held.ack_by = None;
        held.last_frame = Some(now);
        true
    }

    /// Whether the lease's worker owes it an acknowledgement for too long.
    pub(crate) fn is_overdue(&self, run: RunId, task: TaskRef, token: u64, now: Mono) -> bool {
        self.get(run, task, token).and_then(|held| held.ack_by).is_some_and(|by| by <= now)
    }

    /// A heartbeat interval has passed for the lease, and all is well: its worker was heard then.
    pub(crate) fn checked(&mut self, run: RunId, task: TaskRef, last_frame: Mono) {
        if let Some(held) = self.held.get_mut(&(run, task)) {
            held.last_frame = held.last_frame.max(Some(last_frame));
        }
    }

    /// Leases whose workers have been told of them, and have said nothing yet.
    pub(crate) fn unacknowledged(&self) -> Vec<(RunId, TaskRef, u64)> {
        let silent = self.held.iter().filter(|(_, held)| held.ack_by.is_some());
        silent.map(|((run, task), held)| (*run, *task, held.token)).collect()
    }

    /// Nobody was listened to for so long: acknowledgements may still be to come.
    pub(crate) fn forgive(&mut self, milliseconds: i64) {
        for held in self.held.values_mut() {
            held.ack_by = held.ack_by.map(|by| by.plus(milliseconds));
        }
    }

    /// What works at the other end of the connection.
    pub(crate) fn seated_at(&self, connection: ConnectionId) -> Vec<(RunId, TaskRef, u64)> {
        self.tokens(self.seated.get(&connection))
    }

    /// Leases of the worker that wait for it to come back.
    pub(crate) fn away_of(&self, worker: &str) -> Vec<(RunId, TaskRef, u64)> {
        self.tokens(self.away.get(worker))
    }

    /// Leases whose workers are there.
    pub(crate) fn seated(&self) -> impl Iterator<Item = (RunId, TaskRef, &Held)> {
        self.held
            .iter()
            .filter(|(_, held)| held.seat.is_some())
            .map(|((run, task), held)| (*run, *task, held))
    }

    /// Whether a lease of the run is live.
    pub(crate) fn has(&self, run: RunId) -> bool {
        let first = TaskRef { wave: 0, task: 0 };
        self.held.range((run, first)..).next().is_some_and(|((of, _), _)| *of == run)
    }

    /// Whether a lease of the run waits for its worker.
    pub(crate) fn waits_for_worker(&self, run: RunId) -> bool {
        let first = TaskRef { wave: 0, task: 0 };
        let mut leases = self.held.range((run, first)..).take_while(|((of, _), _)| *of == run);
        leases.any(|(_, held)| held.seat.is_none())
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn tokens(&self, keys: Option<&BTreeSet<Key>>) -> Vec<(RunId, TaskRef, u64)> {
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| Some((key.0, key.1, self.held.get(key)?.token))).collect()
    }
}

fn remove_from<K: Ord>(lists: &mut BTreeMap<K, BTreeSet<Key>>, list: &K, key: &Key) {
    if let Some(keys) = lists.get_mut(list) {
        keys.remove(key);
        if keys.is_empty() {
            lists.remove(list);
        }
    }
}
