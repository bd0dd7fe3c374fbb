//! What leaves when: a turn's decisions, by run, become appends, and what they let out waits for their commits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1::connect_response::Frame;
use capataz_crew::ConnectionId;
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::SessionDecision;
use capataz_engine::{Moment, QueryId, TaskRef, Wanted};
use capataz_store::{Append, BlobHash, Create, RunId};

use crate::ReplyId;
use crate::api::Answer;
use crate::family::Kin;
use crate::keys::KeyTalk;
use crate::leases::Vacated;
use crate::projection;
use crate::topics::Facts;
use crate::touched::Heard;

/// Names an append in flight; grows by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AppendId(pub u64);

/// What a run adds to its session, with events of its own.
pub(crate) struct SessionAppend {
    pub(crate) stream: RunId,
    pub(crate) decision: SessionDecision,
}

/// All that one turn does to one run.
pub(crate) struct Batch {
    pub(crate) run: RunId,
    pub(crate) first_seq: u64,
    pub(crate) count: u32,
    events: Vec<Bytes>,
    pub(crate) deferred: Vec<Deferred>,
    pub(crate) create: Option<Create>,
    pub(crate) blobs: Vec<BlobHash>,
    /// The caller that started the run and waits for its end.
    pub(crate) waiting_creator: Option<ReplyId>,
    /// What becomes durable together with the run's events.
    pub(crate) session: Option<SessionAppend>,
}

impl Batch {
    fn new(run: RunId) -> Self {
        Self {
            run,
            first_seq: 0,
            count: 0,
            events: Vec::new(),
            deferred: Vec::new(),
            create: None,
            blobs: Vec::new(),
            waiting_creator: None,
            session: None,
        }
    }

    /// Adds a decision's events.
    pub(crate) fn add(&mut self, first_seq: u64, count: u32, events: Bytes) {
        if count == 0 {
            return;
        }
        if self.count == 0 {
            self.first_seq = first_seq;
        }
        self.count += count;
        self.events.push(events);
    }

    /// Adds what the run has decided for its session.
    pub(crate) fn add_to_session(&mut self, stream: RunId, decision: SessionDecision) {
        match &mut self.session {
            Some(session) => session.decision.then(decision),
            None => self.session = Some(SessionAppend { stream, decision }),
        }
    }

    /// All events, one after the other.
    pub(crate) fn take_events(&mut self) -> Bytes {
        if self.events.len() == 1 {
            return self.events.swap_remove(0);
        }
        let mut joined = BytesMut::with_capacity(self.events.iter().map(Bytes::len).sum());
        for chunk in self.events.drain(..) {
            joined.extend_from_slice(&chunk);
        }
        joined.freeze()
    }
}

/// An append in flight, and what leaves when it is durable.
pub(crate) struct Pending {
    pub(crate) id: AppendId,
    pub(crate) run: RunId,
    pub(crate) first_seq: u64,
    pub(crate) count: u32,
    pub(crate) events: Bytes,
    pub(crate) facts: Option<Arc<Facts>>,
    pub(crate) creates: bool,
    /// Nothing of the run is in work after it.
    pub(crate) rests: bool,
    /// It changes a key, and nothing of a stream of this shard.
    pub(crate) of_key: bool,
    pub(crate) deferred: Vec<Deferred>,
    pub(crate) waiting_creator: Option<ReplyId>,
    /// Only for a planted fault.
    append: Option<Append>,
}

/// Something that leaves the shard.
#[derive(Debug)]
pub(crate) enum Deferred {
    Reply(ReplyId, Answer),
    Frame(ConnectionId, Frame),
    /// With the deadline of the time of the decision: a later one may not be durable yet, and is told in its turn.
    Assign {
        task: TaskRef,
        lease: u64,
        deadline: Option<Moment>,
    },
    /// A worker's slot is free.
    Return(Vacated),
    /// The child of the task has a name: it is created, or cancelled where that was decided by then.
    Child {
        task: TaskRef,
        /// Its id.
        child: String,
        cancel: Option<bool>,
    },
    /// The run wants to know something that follows from what is durable.
    Query(QueryId),
    /// A word to the shard of another run.
    Kin(Kin),
    /// A word to the shard of a run whose key is here.
    Key(KeyTalk),
    Finish,
    /// What a worker has said that this rests on. Nothing leaves; it is heard again where this is thrown away.
    Heard(Box<Heard>),
}

impl Deferred {
    /// The caller that waits for it, and what that was to hear.
    pub(crate) fn into_reply(self) -> Option<(ReplyId, Answer)> {
        match self {
            Self::Reply(reply, answer) => Some((reply, answer)),
            Self::Frame(..)
            | Self::Assign { .. }
            | Self::Return(_)
            | Self::Child { .. }
            | Self::Query(_)
            | Self::Kin(_)
            | Self::Key(_)
            | Self::Finish
            | Self::Heard(_) => None,
        }
    }
}

/// What was decided and is not known to be durable.
#[derive(Default)]
pub(crate) struct Thrown {
    pub(crate) streams: BTreeSet<RunId>,
    /// Sessions to which something was to be added with an ask's end.
    pub(crate) sessions: BTreeSet<RunId>,
    /// What was to leave, in order.
    pub(crate) deferred: Vec<(RunId, Deferred)>,
}

/// The decisions of this turn, and the appends in flight, oldest first, numbered without gaps.
pub(crate) struct Outbox {
    batches: Vec<Batch>,
    /// Where the batch of each run is.
    places: BTreeMap<RunId, usize>,
    pending: VecDeque<Pending>,
    next: AppendId,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { batches: Vec::new(), places: BTreeMap::new(), pending: VecDeque::new(), next: AppendId(1) }
    }
}

impl Outbox {
    /// This turn's batch of the run.
    pub(crate) fn batch(&mut self, run: RunId) -> &mut Batch {
        let batches = &mut self.batches;
        if batches.is_empty() {
            // Most turns are of one run.
            batches.reserve_exact(1);
        }
        let place = *self.places.entry(run).or_insert_with(|| {
            batches.push(Batch::new(run));
            batches.len() - 1
        });
        &mut self.batches[place]
    }

    fn batch_of(&self, run: RunId) -> Option<&Batch> {
        self.batches.get(*self.places.get(&run)?)
    }

    /// This turn's batches, which are appended next.
    pub(crate) fn take_batches(&mut self) -> Vec<Batch> {
        self.places.clear();
        std::mem::take(&mut self.batches)
    }

    fn put_batches(&mut self, batches: Vec<Batch>) {
        self.places = batches.iter().enumerate().map(|(place, batch)| (batch.run, place)).collect();
        self.batches = batches;
    }

    /// Whether something of this turn waits for its end, for the run.
    pub(crate) fn has_batch(&self, run: RunId) -> bool {
        self.places.contains_key(&run)
    }

    /// Throws away what this turn has decided for the run. What was to leave with it.
    pub(crate) fn discard(&mut self, run: RunId) -> Vec<Deferred> {
        let Some(place) = self.places.get(&run).copied() else { return Vec::new() };
        let mut batches = self.take_batches();
        let discarded = batches.remove(place).deferred;
        self.put_batches(batches);
        discarded
    }

    /// Whether this turn has decided something for the run that is not on its way yet.
    pub(crate) fn has_decided(&self, run: RunId) -> bool {
        self.batch_of(run).is_some_and(|batch| batch.count > 0)
    }

    /// Whether this turn has decided something for the session that is not on its way yet.
    pub(crate) fn has_decided_session(&self, stream: RunId) -> bool {
        let mut sessions = self.batches.iter().filter_map(|batch| batch.session.as_ref());
        sessions.any(|session| session.stream == stream)
    }

    /// Keeps what leaves when the append is durable. Its number.
    pub(crate) fn send(
        &mut self,
        append: &Append,
        facts: Option<Arc<Facts>>,
        deferred: Vec<Deferred>,
        waiting_creator: Option<ReplyId>,
    ) -> AppendId {
        let id = self.next;
        self.next = AppendId(id.0 + 1);
        self.pending.push_back(Pending {
            id,
            run: append.run,
            first_seq: append.first_seq,
            count: append.count,
            events: append.events.clone(),
            facts,
            creates: append.create.is_some(),
            rests: append.rest.is_some(),
            of_key: append.key.is_some(),
            deferred,
            waiting_creator,
            append: planted::is(Fault::AppendRepeatedAfterUnknown).then(|| append.clone()),
        });
        id
    }

    /// Keeps what rests on the append `last`; gives it back where that is durable already.
    pub(crate) fn rest_on(&mut self, last: AppendId, deferred: Vec<Deferred>) -> Option<Vec<Deferred>> {
        let oldest = self.pending.front().map_or(self.next, |pending| pending.id);
        let place = last.0.checked_sub(oldest.0).and_then(|place| usize::try_from(place).ok());
        match place.and_then(|place| self.pending.get_mut(place)) {
            Some(pending) => {
                pending.deferred.extend(deferred);
                None
            }
            None => Some(deferred),
        }
    }

    /// The oldest append in flight, whose outcome has come.
    pub(crate) fn settle(&mut self) -> Option<Pending> {
        self.pending.pop_front()
    }

    /// Puts the oldest append back: its outcome says nothing.
    pub(crate) fn unsettle(&mut self, pending: Pending) {
        self.pending.push_front(pending);
    }

    /// The oldest append in flight, or the next one.
    pub(crate) fn oldest(&self) -> AppendId {
        self.pending.front().map_or(self.next, |pending| pending.id)
    }

    /// Whether anything of the stream is in flight.
    pub(crate) fn is_in_flight(&self, stream: RunId) -> bool {
        self.pending.iter().any(|pending| pending.run == stream)
    }

    /// Whether an approval of a call of this run is in flight.
    pub(crate) fn approves(&self, run: RunId) -> bool {
        self.pending.iter().any(|pending| pending.run == run && projection::approves(&pending.events))
    }

    /// Whether anything of the run that is not known to be durable, with these events of its, changes what is recalled.
    pub(crate) fn changes_memory(&self, run: RunId, events: &Bytes, wanted: &Wanted) -> bool {
        let pending = self.pending.iter().filter(|pending| pending.run == run).map(|pending| &pending.events);
        let decided = self.batch_of(run).into_iter().flat_map(|batch| &batch.events);
        let rows =
            pending.chain(decided).chain([events]).flat_map(|events| projection::memory_of(run, events));
        rows.into_iter().any(|row| projection::is_recalled(&row.change, wanted))
    }

    /// Appends in flight.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Throws everything away. Callers that wait, and what they were to hear.
    pub(crate) fn abandon(&mut self) -> Vec<(ReplyId, Answer)> {
        let batches = self.take_batches();
        let pending = self.pending.drain(..).flat_map(|pending| pending.deferred);
        let batches = batches.into_iter().flat_map(|batch| batch.deferred);
        pending.chain(batches).filter_map(Deferred::into_reply).collect()
    }

    /// Throws away what is decided and not known to be durable. What rests on nothing of that stays, and leaves.
    pub(crate) fn throw(&mut self) -> Thrown {
        let mut thrown = Thrown::default();
        // What of a key is durable, whoever asks for it again hears.
        for pending in self.pending.drain(..).filter(|pending| !pending.of_key) {
            thrown.streams.insert(pending.run);
            thrown.deferred.extend(pending.deferred.into_iter().map(|deferred| (pending.run, deferred)));
        }
        let mut kept = Vec::new();
        for batch in self.take_batches() {
            if batch.count == 0 && batch.session.is_none() && !thrown.streams.contains(&batch.run) {
                kept.push(batch);
                continue;
            }
            thrown.streams.insert(batch.run);
            thrown.sessions.extend(batch.session.map(|session| session.stream));
            thrown.deferred.extend(batch.deferred.into_iter().map(|deferred| (batch.run, deferred)));
        }
        self.put_batches(kept);
        thrown
    }

    /// The worker has left, and its slots with it: none of them is used again.
    pub(crate) fn departed(&mut self, connection: ConnectionId) {
        for vacated in self.vacated().filter(|vacated| vacated.connection == Some(connection)) {
            vacated.connection = None;
        }
    }

    /// A session with the crew begins, which knows of no slot of the one before it.
    pub(crate) fn all_departed(&mut self) {
        for vacated in self.vacated() {
            vacated.connection = None;
        }
    }

    /// The slots that come free with what is not durable yet.
    fn vacated(&mut self) -> impl Iterator<Item = &mut Vacated> {
        let pending = self.pending.iter_mut().flat_map(|pending| &mut pending.deferred);
        let batches = self.batches.iter_mut().flat_map(|batch| &mut batch.deferred);
        pending.chain(batches).filter_map(|deferred| match deferred {
            Deferred::Return(vacated) => Some(vacated),
            _ => None,
        })
    }

    /// All appends in flight once more, for a planted fault.
    pub(crate) fn repeated(&self) -> Vec<(AppendId, Append)> {
        self.pending.iter().filter_map(|pending| Some((pending.id, pending.append.clone()?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_discarded_of_a_run_is_all_that_was_to_leave_with_it_and_nothing_of_others() {
        let [run, other] = [1, 2].map(|number| RunId(uuid::Uuid::from_u128(number)));
        let mut outbox = Outbox::default();
        outbox.batch(run).deferred.push(Deferred::Finish);
        outbox.batch(other).add(5, 1, Bytes::from_static(b"event"));
        let discarded = outbox.discard(run);
        assert!(matches!(discarded[..], [Deferred::Finish]), "{discarded:?}");
        assert!(!outbox.has_batch(run));
        assert!(outbox.has_decided(other));
        assert!(outbox.discard(run).is_empty(), "there is nothing left of it");
    }
}
