//! After a commit whose outcome is unknown: only what it may have changed is thrown away and read again. Everything else
//! stays in memory as it is, and so do the streams of all workers.
//!
//! What is touched: the runs and sessions of which an append is in flight, or something is decided that is not on its way;
//! with a run its session, and all sessions that are being read. While the shard is claimed nothing is decided: callers are
//! turned away, timers stand still, and what the crew says is kept. The shard then goes on with what it has heard. A worker
//! whose confirmation was thrown away need not say its result again, for that is kept as well and heard again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_crew::{ConnectionId, Lease, Said, ToCrew, ToShard};
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::SessionState;
use capataz_engine::{QueryAnswer, QueryId, Report, TaskRef};
use capataz_store::RunId;

use crate::api::Declined;
use crate::leases::{Held, Seat};
use crate::outbox::Deferred;
use crate::resting::Wanted;
use crate::sessions::session_stream;
use crate::shard::{Mode, Output, Recovered, Shard};
use crate::timers::Timer;
use crate::workers::task_of;

/// What of a shard is to be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Touched {
    pub runs: BTreeSet<RunId>,
    /// By their streams.
    pub sessions: BTreeSet<RunId>,
}

/// What a worker has said of a lease and an append in flight rests on.
#[derive(Debug)]
pub(crate) struct Heard {
    connection: ConnectionId,
    worker: String,
    lease: Lease,
    what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Report(Box<Report>, String, Option<v1::Usage>),
    /// The worker has handed the task back.
    Returned,
}

/// What came while the shard was claimed.
pub(crate) enum Kept {
    Message(ToShard),
    Answered { run: RunId, query: QueryId, answer: Box<QueryAnswer> },
}

/// What waits for the end of a claim.
#[derive(Default)]
pub(crate) struct Restart {
    /// The leases that touched runs had in memory, and those whose ends were not durable yet.
    seats: BTreeMap<RunId, Vec<(TaskRef, Held)>>,
    /// Leases whose assignments have not left.
    unassigned: BTreeSet<(RunId, TaskRef, u64)>,
    heard: Vec<Heard>,
    kept: VecDeque<Kept>,
    /// A message of the crew never came, or there were too many to keep.
    link_is_broken: bool,
}

impl Shard {
    /// A worker has said something of which an event may follow.
    pub(crate) fn hear(&mut self, connection: ConnectionId, worker: &str, lease: Lease, what: What) {
        let heard = Heard { connection, worker: worker.to_owned(), lease, what };
        self.outbox.batch(lease.run).deferred.push(Deferred::Heard(Box::new(heard)));
    }

    /// Throws away what nobody knows to be durable, and asks for it to be read again.
    pub(crate) fn throw_touched(&mut self) {
        let thrown = self.outbox.throw();
        let (sessions, runs) = thrown.streams.into_iter().partition(|stream| self.sessions.contains(*stream));
        let mut touched = Touched { runs, sessions };
        touched.runs.append(&mut self.broken);
        touched.sessions.extend(thrown.sessions);
        touched.sessions.extend(self.sessions.begin_again());
        self.finds.clear();
        let mut restart = self.restart.take().unwrap_or_default();
        for (run, deferred) in thrown.deferred {
            match deferred {
                Deferred::Reply(..) => self.decline(deferred.into_reply(), &Declined::Unavailable),
                // Its creation was refused: nobody was told of the lease.
                Deferred::Return(vacated) if !self.runs.contains(run) => {
                    self.tell(ToCrew::Returned { offer: vacated.offer });
                }
                Deferred::Return(vacated) => {
                    let held = Held::reseated(&vacated).map(|held| (vacated.task, held));
                    restart.seats.entry(run).or_default().extend(held);
                }
                Deferred::Assign { task, lease, .. } => {
                    restart.unassigned.insert((run, task, lease));
                }
                Deferred::Heard(heard) => restart.heard.push(*heard),
                // Parents and children ask again, and so does whoever wants a key.
                Deferred::Frame(..)
                | Deferred::Child { .. }
                // Whoever folds the run asks again.
                | Deferred::Query(_)
                | Deferred::Kin(_)
                | Deferred::Key(_)
                | Deferred::Finish => {}
            }
        }
        for run in &touched.runs {
            let session = self.runs.get(*run).and_then(|slot| slot.state.session()).map(session_stream);
            touched.sessions.extend(session.filter(|stream| self.sessions.contains(*stream)));
            if !planted::is(Fault::TouchedRunNotFoldedAgain) {
                self.throw_run(*run, &mut restart);
            }
        }
        for stream in &touched.sessions {
            self.sessions.throw(*stream);
        }
        self.restart = Some(restart);
        self.out(Output::Restart { touched });
    }

    fn throw_run(&mut self, run: RunId, restart: &mut Restart) {
        let session = self.runs.get(run).and_then(|slot| slot.state.session()).map(session_stream);
        if let Some(stream) = session {
            self.sessions.leave(stream, run);
        }
        let seats = self.leases.take(run);
        for (task, held) in &seats {
            self.timers.cancel(Timer::Reattach(run, *task, held.token));
        }
        restart.seats.entry(run).or_default().extend(seats);
        self.timers.cancel(Timer::Run(run));
        self.timers.cancel(Timer::Children(run));
        self.queues.drop_run(run);
        self.forget_returns(run);
        let waiters = self.runs.throw(run);
        self.note_browser(run);
        self.turn_away(waiters);
    }

    /// Keeps what comes while the shard is claimed.
    pub(crate) fn keep(&mut self, kept: Kept) {
        let most = self.config.max_pending_appends;
        let Some(restart) = &mut self.restart else { return };
        match &kept {
            // It says nothing that counts later.
            Kept::Message(ToShard::Beat | ToShard::Pulse { .. }) => {}
            Kept::Message(ToShard::Said { said, .. }) if matches!(**said, Said::Progress(_)) => {}
            Kept::Message(_) if restart.link_is_broken => {}
            Kept::Message(_) if restart.kept.len() >= most => {
                self.link_is_broken();
                self.close();
            }
            Kept::Message(_) | Kept::Answered { .. } => restart.kept.push_back(kept),
        }
    }

    /// The crew has to begin anew when the shard has been read. Workers say again what they have said since.
    pub(crate) fn link_is_broken(&mut self) {
        let Some(restart) = &mut self.restart else { return };
        restart.link_is_broken = true;
        restart.kept.retain(|kept| matches!(kept, Kept::Answered { .. }));
    }

    /// What is touched was read again: the shard goes on.
    pub(crate) fn recovered_touched(&mut self, recovered: Recovered, touched: &Touched, restart: Restart) {
        let Restart { mut seats, unassigned, heard, mut kept, link_is_broken } = restart;
        self.mode = Mode::Running;
        self.history = recovered.history;
        // What a run that could not be read has at workers nobody knows before it is read: they come back and say it.
        let unknown = |run: &RunId| seats.get(run).is_some_and(|seats| !seats.is_empty());
        if link_is_broken || recovered.unread.iter().any(unknown) {
            seats.clear();
            self.open();
        }
        let mut again = BTreeSet::new();
        for (run, state) in recovered.runs {
            if state.is_finished() || self.runs.contains(run) {
                continue;
            }
            let had = seats.remove(&run).unwrap_or_default();
            seats.insert(run, self.take_up(run, state, had));
            again.insert(run);
        }
        let resting: Vec<RunId> = recovered.resting.iter().map(|(run, _)| *run).collect();
        self.take_up_resting(recovered.resting);
        for run in resting {
            // What was to leave with its rest, such as a word to the host of its browser, has not left.
            let _ = self.want(run, Wanted::Tick);
        }
        self.take_up_later(recovered.unread);
        self.runs.all_taken_up();
        self.runs.accepted(recovered.accepted);
        for (run, seats) in seats {
            for (task, held) in seats {
                // Others may say something of the lease as well.
                let answered = |heard: &Heard| {
                    let of = &heard.lease;
                    let said_it = held.seat().is_some_and(|seat| seat.connection == heard.connection);
                    said_it && (of.run, task_of(of), of.token) == (run, task, held.token)
                };
                let knows = !unassigned.contains(&(run, task, held.token)) && !heard.iter().any(answered);
                self.give_up(run, task, &held, knows);
            }
        }
        self.sessions_read_again(touched, recovered.sessions, &again);
        self.resting.ask_again();
        self.load_runs();
        for run in again {
            self.tell_again(run, &unassigned);
        }
        // A run that was read again has asked again. Of outputs it knows nothing: their verdicts are asked for once.
        kept.retain(|kept| match kept {
            Kept::Answered { run, answer, .. } => !touched.runs.contains(run) || is_of_output(answer),
            Kept::Message(_) => true,
        });
        self.go_on(heard.into(), kept);
        if self.draining {
            self.hand_back();
        }
    }

    /// The log has no such lease: its slot is free, and a worker that knows of the lease is told.
    fn give_up(&mut self, run: RunId, task: TaskRef, held: &Held, knows: bool) {
        let Some(Seat { connection, offer }) = held.seat() else { return };
        if knows {
            let lease = Lease { run, wave: task.wave, task: task.task, token: held.token };
            let frame = Frame::LeaseRevoked(v1::LeaseRevoked { lease: Some(lease.reference()) });
            self.tell(ToCrew::Tell { connection, frame });
        }
        self.tell(ToCrew::Returned { offer });
    }

    /// Tells the workers of a run what was thrown away before it left.
    fn tell_again(&mut self, run: RunId, unassigned: &BTreeSet<(RunId, TaskRef, u64)>) {
        let Some(slot) = self.runs.get(run) else { return };
        let leases: Vec<(TaskRef, u64)> = slot.state.leases().map(|(task, token, _)| (task, token)).collect();
        let mut connections = BTreeSet::new();
        for (task, token) in leases {
            connections.extend(self.leases.connection_of(run, task, token));
            if unassigned.contains(&(run, task, token)) {
                let assignment = self.runs.get(run).and_then(|slot| slot.state.assignment(task));
                self.assign(run, task, token, assignment.and_then(|assignment| assignment.deadline));
            }
        }
        for connection in connections {
            self.resend(connection, run);
        }
        self.keep_again(run);
    }

    /// Sessions that were thrown away, and the asks of them that were.
    fn sessions_read_again(
        &mut self,
        touched: &Touched,
        read: Vec<(RunId, Option<SessionState>)>,
        again: &BTreeSet<RunId>,
    ) {
        let mut commands = Vec::new();
        for (stream, state) in read {
            if !self.sessions.contains(stream) {
                self.sessions.recover(stream, state);
            } else if let Some(waiting) = self.sessions.read_again(stream, state) {
                commands.extend(waiting.into_iter().map(|(reply, command)| (stream, reply, command)));
            }
        }
        for stream in &touched.sessions {
            self.sessions.read_later(*stream);
        }
        let mut turns = touched.sessions.clone();
        for run in again {
            turns.extend(self.place_in_session(*run));
        }
        self.load_sessions();
        for (stream, reply, command) in commands {
            self.carry_out_in_session(reply, stream, command);
        }
        for stream in turns {
            self.order_session(stream);
            self.next_turn(stream);
        }
    }

    /// The ask has its place in its session again, at work or in the queue. The session.
    fn place_in_session(&mut self, run: RunId) -> Option<RunId> {
        let slot = self.runs.get(run)?;
        let stream = slot.state.session().map(session_stream)?;
        match slot.state.awaited_session() {
            Some(_) => self.sessions.join(stream, run, slot.state.bytes()),
            None => self.sessions.resume(stream, run),
        }
        Some(stream)
    }

    /// Hears what came before the shard was claimed and meanwhile, until something fails again.
    fn go_on(&mut self, mut heard: VecDeque<Heard>, mut kept: VecDeque<Kept>) {
        while self.mode == Mode::Running
            && let Some(Heard { connection, worker, lease, what }) = heard.pop_front()
        {
            match what {
                What::Report(report, log, usage) => {
                    self.report(connection, &worker, lease, *report, log, usage);
                }
                What::Returned => self.said(connection, &worker, lease, Said::Returned),
            }
        }
        while self.mode == Mode::Running
            && let Some(kept) = kept.pop_front()
        {
            match kept {
                Kept::Message(message) => self.told(message),
                Kept::Answered { run, query, answer } => self.answered(run, query, *answer),
            }
        }
        if self.mode == Mode::Recovering {
            self.restart = Some(Restart { heard: heard.into(), kept, ..Restart::default() });
        }
    }
}

fn is_of_output(answer: &QueryAnswer) -> bool {
    matches!(answer, QueryAnswer::Judged(verdict) if verdict.judged.purpose.is_output())
}

#[cfg(test)]
mod tests {
    use capataz_store::ShardId;

    use super::*;
    use crate::shard::Config;

    #[test]
    fn what_the_crew_says_is_kept_while_the_shard_is_claimed_unless_their_link_is_broken() {
        let shard = ShardId(0);
        let mut shard = Shard::new(Config::default(), shard, vec![shard]);
        shard.restart = Some(Restart::default());
        let said = || Kept::Message(ToShard::BrowserGone { worker: "w".into(), run: RunId::MIN });
        let kept = |shard: &Shard| shard.restart.as_ref().map(|restart| restart.kept.len());
        shard.keep(said());
        assert_eq!(kept(&shard), Some(1));
        shard.link_is_broken();
        assert_eq!(kept(&shard), Some(0));
        shard.keep(said());
        assert_eq!(kept(&shard), Some(0), "the crew begins anew");
    }
}
