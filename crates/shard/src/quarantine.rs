//! Runs that cannot be worked on: they are dropped from memory, who waits for them is told, and all others go on.

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_crew::ToCrew;
use capataz_engine::TaskRef;
use capataz_store::{Millis, QuarantineReason, Removal, RunId};

use crate::api::{Answer, Declined};
use crate::load::Damage;
use crate::outbox::{Deferred, Pending};
use crate::runs::Waiter;
use crate::sessions::{Load, session_stream};
use crate::shard::{Mode, Output, ReplyId, Shard};
use crate::timers::Timer;

impl Shard {
    /// Puts a run into quarantine, whatever becomes of it in memory.
    pub(crate) fn quarantine(&mut self, damage: &Damage) {
        let run = damage.run;
        tracing::error!(%run, seq = damage.seq, detail = damage.detail, "a run is quarantined");
        // What this turn has decided for it rests on a state that is worth nothing.
        for deferred in self.outbox.discard(run) {
            self.void(deferred, damage);
        }
        self.tell_parent_of_damage(damage);
        if let Some(slot) = self.runs.get_mut(run) {
            let waiters = std::mem::take(&mut slot.waiters);
            let uses_browser = slot.state.uses_browser();
            let leases: Vec<(TaskRef, u64)> =
                slot.state.leases().map(|(task, token, _)| (task, token)).collect();
            // What it has said in its session may never be stored: nobody may begin on it.
            let spoke = slot.state.session().filter(|_| slot.state.has_spoken()).map(session_stream);
            self.decline_waiters(waiters, damage);
            for (task, lease) in leases {
                self.revoke(run, task, lease);
            }
            if uses_browser {
                self.out(Output::ScriptOver { run });
            }
            if let Some(stream) = spoke {
                self.reread_session(stream);
            }
            self.forget_run(run);
        }
        if let Some(woken) = self.resting.remove(run) {
            self.timers.cancel(Timer::Run(run));
            self.forget_returns(run);
            self.decline_waiters(woken.waiters, damage);
            for wanted in woken.wanted {
                self.decline_wanted(wanted, &Declined::Damaged(Box::new(damage.clone())));
            }
        }
        self.put_down(damage);
    }

    fn decline_waiters(&mut self, waiters: Vec<Waiter>, damage: &Damage) {
        for waiter in waiters {
            let declined = Declined::Damaged(Box::new(damage.clone()));
            let answer = match waiter.started_it {
                true => Answer::Start(Err(declined)),
                false => Answer::Wait(Err(declined)),
            };
            self.reply(waiter.reply, answer);
        }
    }

    fn put_down(&mut self, damage: &Damage) {
        let quarantine = damage.quarantine(Millis(self.now.wall.0));
        self.out(Output::Quarantine { run: damage.run, quarantine });
    }

    fn revoke(&mut self, run: RunId, task: TaskRef, lease: u64) {
        let Some(connection) = self.leases.connection_of(run, task, lease) else { return };
        let lease = v1::LeaseRef { run_id: run.to_string(), wave: task.wave, task: task.task, lease };
        let frame = Frame::LeaseRevoked(v1::LeaseRevoked { lease: Some(lease) });
        self.tell(ToCrew::Tell { connection, frame });
    }

    /// What was to leave never does.
    fn void(&mut self, deferred: Deferred, damage: &Damage) {
        match deferred {
            Deferred::Return(vacated) => self.tell(ToCrew::Returned { offer: vacated.offer }),
            other => self.decline(other.into_reply(), &Declined::Damaged(Box::new(damage.clone()))),
        }
    }

    /// An append does not fit the log. Whether the shard has to be read again: the second time in a row, the stream is what
    /// is wrong.
    pub(crate) fn conflicts(&mut self, stream: RunId) -> bool {
        self.conflicts.insert(stream)
    }

    /// The stream's appends fit its log.
    pub(crate) fn fits(&mut self, stream: RunId) {
        if !self.conflicts.is_empty() {
            self.conflicts.remove(&stream);
        }
    }

    /// The append does not fit the log, as the one before the shard was read.
    pub(crate) fn conflicted_again(&mut self, pending: Pending) {
        let seq = pending.first_seq.saturating_sub(1);
        let detail = format!("what was decided after event {seq} does not fit the log, twice in a row");
        let damage = self.conflict(pending.run, seq, detail);
        for deferred in pending.deferred {
            self.void(deferred, &damage);
        }
        if self.sessions.contains(pending.run) {
            self.lose_session(damage);
        } else {
            self.quarantine(&damage);
        }
    }

    pub(crate) fn conflict(&mut self, run: RunId, seq: u64, detail: String) -> Damage {
        self.conflicts.remove(&run);
        Damage { run, reason: QuarantineReason::Conflicted, seq, position: None, detail }
    }

    /// The shell has found a run damaged that rested, and of which somebody wants something.
    pub(crate) fn run_damaged(&mut self, load: u64, damage: &Damage) {
        self.resting.answered(load);
        if self.resting.awaits(damage.run, load) {
            self.quarantine(damage);
        }
        self.load_runs();
    }

    /// The shell has found a session damaged. None of its asks can begin, or end, in it.
    pub(crate) fn session_damaged(&mut self, load: Load, damage: Damage) {
        if self.sessions.awaits(load) {
            self.lose_session(damage);
        }
    }

    fn lose_session(&mut self, damage: Damage) {
        let (asks, commands) = self.sessions.damaged(damage.clone());
        let declined = Declined::Damaged(Box::new(damage.clone()));
        for (reply, command) in commands {
            self.reply(reply, command.declined(declined.clone()));
        }
        for deferred in self.outbox.discard(damage.run) {
            self.void(deferred, &damage);
        }
        for run in asks {
            let seq = self.runs.get(run).map_or(0, |slot| slot.state.seq());
            let detail = format!("its session, {}: {}", damage.run, damage.detail);
            self.quarantine(&Damage { run, seq, detail, ..damage.clone() });
        }
        self.put_down(&damage);
    }

    /// What is wrong with the session that somebody asks something of.
    pub(crate) fn damage_of_session(&self, session: Option<&str>) -> Option<Declined> {
        let damage = self.sessions.damage(session_stream(session?))?;
        Some(Declined::Damaged(Box::new(damage.clone())))
    }

    /// Somebody wants a run removed, or a session. What is in work has to end first; what else there is to say against it
    /// the store knows.
    pub(crate) fn delete(&mut self, reply: ReplyId, run: RunId) {
        let in_use = self.sessions.contains(run) && self.sessions.damage(run).is_none();
        if self.runs.contains(run) || self.resting.contains(run) || in_use {
            return self.reply(reply, Answer::Deleted(Ok(Removal::Unfinished)));
        }
        self.out(Output::Remove { reply, run });
    }

    /// The run was removed, or could not be.
    pub(crate) fn removed(&mut self, reply: ReplyId, run: RunId, removal: Option<Removal>) {
        if let Some(Removal::Removed { .. }) = removal {
            self.conflicts.remove(&run);
            self.sessions.forget_damaged(run);
        }
        self.reply(reply, Answer::Deleted(removal.ok_or(Declined::Unavailable)));
    }

    /// Somebody wants a run in quarantine tried again, which each claim of the shard does.
    pub(crate) fn try_again(&mut self, reply: ReplyId, run: RunId) {
        if self.runs.contains(run) || self.resting.contains(run) {
            return self.reply(reply, Answer::Released(Ok(())));
        }
        self.out(Output::Release { run });
        self.tried.push(reply);
        self.broken.insert(run);
        self.commit_failed();
    }

    /// The shard was claimed, and has tried all that is in quarantine; or it never will.
    pub(crate) fn have_tried(&mut self, answer: &Result<(), Declined>) {
        for reply in std::mem::take(&mut self.tried) {
            self.reply(reply, Answer::Released(answer.clone()));
        }
    }

    /// A reader has found a run damaged. One that is in work goes on, for its state in memory is whole: the next claim
    /// finds what is wrong with its log.
    pub(crate) fn found_damaged(&mut self, damage: &Damage) {
        let works = self.runs.contains(damage.run) || self.sessions.contains(damage.run);
        if self.mode == Mode::Running && !works {
            self.quarantine(damage);
        }
    }
}

#[cfg(test)]
mod tests;
