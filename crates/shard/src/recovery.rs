//! After a start, or after a commit whose outcome is unknown: memory is rebuilt from what the store holds.

use capataz_contracts::v1;
use capataz_crew::Mono;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{RunState, TaskRef};
use capataz_store::{BlobHash, Millis, Rest, RunId};

use crate::api::{Answer, Declined};
use crate::outbox::AppendId;
use crate::requests::OVERLOADED;
use crate::resting::{Wanted, Wish, Woken};
use crate::shard::{Mode, Output, Recovered, Shard};
use crate::timers::Timer;

impl Shard {
    pub(crate) fn recovered(&mut self, recovered: Recovered) {
        if self.mode == Mode::Fenced {
            return;
        }
        self.mode = Mode::Running;
        self.history = recovered.history;
        for (run, state) in recovered.runs {
            if !state.is_finished() {
                self.take_up(run, state);
            }
        }
        self.claimed_at = self.now;
        for (run, rest) in recovered.resting {
            let ahead = self.runs.ahead_of(run);
            self.resting.insert(run, ahead, Vec::new());
            let due = self.due(rest).filter(|_| !planted::is(Fault::RestForgetsItsDeadline));
            if let Some(due) = due {
                self.timers.set(Timer::Run(run), due);
            }
        }
        self.runs.all_taken_up();
        self.recover_sessions(recovered.sessions);
        if self.mode == Mode::Running {
            self.open();
        }
    }

    fn take_up(&mut self, run: RunId, state: RunState) {
        let leases: Vec<(TaskRef, u64, String)> =
            state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
        let open_query = state.open_query();
        let quiet_until = self.quiet_after_recovery(!leases.is_empty());
        let slot = self.runs.take_up(run, state, self.now);
        slot.quiet_until = quiet_until;
        slot.snapshot_seq = slot.state.seq();
        for (task, token, worker) in leases {
            self.leases.recover(run, task, token, &worker);
            self.detach(run, task);
        }
        self.enqueue_all(run);
        if let Some((query, asked)) = open_query {
            self.out(Output::Query { run, query, asked });
        }
        self.arm(run);
    }

    /// When a run that rests has to be looked at, by what the store says of it: never later than was asked for.
    fn due(&self, rest: Rest) -> Option<Mono> {
        let due_at = rest.due_at?;
        let left = due_at.0.saturating_sub(self.now.wall.0).clamp(0, rest.due_in.max(0));
        Some(self.now.mono.plus(left))
    }

    /// Why a run need not be in memory, and until when; `None` where something of it is in work. A browser waits for its
    /// script, and a session for its ask.
    pub(crate) fn rest_of(&self, run: RunId) -> Option<Rest> {
        let slot = self.runs.get(run)?;
        let is_bound = slot.state.session().is_some() || slot.state.uses_browser();
        if is_bound || slot.state.is_finished() || self.leases.has(run) || !slot.state.owes_nothing() {
            return None;
        }
        let now = slot.clock(self.now.mono);
        let Some(due) = slot.state.next_deadline() else { return Some(Rest::ON_INPUT) };
        let due_in = due.since(now);
        let due_at = Some(Millis(self.now.wall.0.saturating_add(due_in)));
        (due_in >= self.config.rest_after_ms).then_some(Rest { due_at, due_in })
    }

    /// Nothing of the run is in work after its newest append, which is durable: it leaves memory, but for its deadline.
    pub(crate) fn lay_to_rest(&mut self, run: RunId, last: AppendId) {
        let Some(slot) = self.runs.get(run) else { return };
        if slot.last_append != last || self.outbox.has_batch(run) {
            return;
        }
        let Some(slot) = self.runs.remove(run) else { return };
        self.queues.drop_run(run);
        self.resting.insert(run, Some(slot.ahead), slot.waiters);
    }

    /// Something is wanted of a run that is not in memory. Whether it rests, and is read now.
    pub(crate) fn want(&mut self, run: RunId, wanted: Wanted) -> Result<(), Wanted> {
        if !self.resting.contains(run) {
            return Err(wanted);
        }
        match self.resting.want(run, wanted, self.config.max_waiters_per_run) {
            Some(Wish::Load(load)) => self.out(Output::LoadRun { run, load }),
            Some(Wish::Full(wanted)) => self.decline_wanted(wanted, &OVERLOADED),
            Some(Wish::Waits) | None => {}
        }
        Ok(())
    }

    /// The shell has read a run that rested.
    pub(crate) fn run_loaded(&mut self, run: RunId, load: u64, state: Option<Box<RunState>>) {
        let Some(Woken { ahead, wanted, waiters }) = self.resting.loaded(run, load) else { return };
        let Some(state) = state else {
            // Whoever wants something of it again has it read again.
            self.resting.insert(run, ahead, waiters);
            for wanted in wanted {
                self.decline_wanted(wanted, &Declined::Unavailable);
            }
            return;
        };
        let slot = self.runs.wake(run, *state, ahead, self.claimed_at);
        slot.snapshot_seq = slot.state.seq();
        slot.waiters = waiters;
        self.arm(run);
        for wanted in wanted {
            match wanted {
                Wanted::Command { reply, if_seq, input } => self.command(reply, run, if_seq, *input),
                Wanted::Tick => self.tick_run(run),
            }
        }
    }

    pub(crate) fn decline_wanted(&mut self, wanted: Wanted, declined: &Declined) {
        match wanted {
            Wanted::Command { reply, .. } => self.reply(reply, Answer::Command(Err(declined.clone()))),
            Wanted::Tick => {}
        }
    }

    /// Timers of a recovered run stand still for the reattach window, where it has leases.
    fn quiet_after_recovery(&self, has_leases: bool) -> Mono {
        if planted::is(Fault::TimerNotRearmed) {
            return Mono::NEVER;
        }
        if has_leases { self.now.mono.plus(self.config.reattach_ms) } else { Mono::default() }
    }
}

/// The hash that a reference names; `None` where it is not a hash.
#[must_use]
pub fn blob_hash(blob: &v1::BlobRef) -> Option<BlobHash> {
    blob.blake3.parse().ok()
}
