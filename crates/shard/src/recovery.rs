//! After a start, or after a commit whose outcome is unknown: memory is rebuilt from what the store holds.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_crew::Mono;
use capataz_engine::planted::{self, Fault};
use capataz_engine::{RunState, TaskRef};
use capataz_store::{BlobHash, Millis, Rest, RunId};

use crate::api::{Answer, Declined};
use crate::family::Kin;
use crate::leases::Held;
use crate::outbox::AppendId;
use crate::requests::OVERLOADED;
use crate::resting::{Wanted, Woken};
use crate::runs::RunClock;
use crate::shard::{Mode, Output, Recovered, Shard};
use crate::timers::Timer;
use crate::workers::refusal;

/// After how long a run that could not be read is read again. Milliseconds.
const READ_AGAIN_MS: i64 = 1_000;

impl Shard {
    pub(crate) fn recovered(&mut self, mut recovered: Recovered) {
        if self.mode == Mode::Fenced {
            return;
        }
        self.follow_readings(std::mem::take(&mut recovered.earlier));
        self.have_tried(&Ok(()));
        match (self.restart.take(), recovered.touched.take()) {
            (Some(restart), Some(touched)) => return self.recovered_touched(recovered, &touched, restart),
            // Somebody else may have written: nothing that is in memory is certain.
            (Some(_), None) => self.abandon(),
            (None, _) => {}
        }
        self.mode = Mode::Running;
        self.history = recovered.history;
        for (run, state) in recovered.runs {
            if !state.is_finished() {
                self.take_up(run, state, Vec::new());
            }
        }
        self.take_up_resting(recovered.resting);
        self.take_up_later(recovered.unread);
        self.resting.all_found();
        self.runs.all_taken_up();
        self.runs.accepted(recovered.accepted);
        self.recover_sessions(recovered.sessions);
        if self.mode == Mode::Running {
            self.open();
        }
    }

    /// Runs that need not be in memory.
    pub(crate) fn take_up_resting(&mut self, resting: Vec<(RunId, Rest)>) {
        for (run, rest) in resting {
            self.resting.insert(run, self.runs.clock_of(run, self.now), Vec::new());
            let due = self.due(run, rest).filter(|_| !planted::is(Fault::RestForgetsItsDeadline));
            if let Some(due) = due {
                self.timers.set(Timer::Run(run), due);
            }
        }
    }

    /// Runs that could not be read: they are tried again soon.
    pub(crate) fn take_up_later(&mut self, unread: Vec<RunId>) {
        for run in unread {
            self.resting.insert_unread(run, self.runs.clock_of(run, self.now));
            self.timers.set(Timer::Run(run), self.now.mono.plus(READ_AGAIN_MS));
        }
    }

    /// A run that was read. `seats` are the leases of it that this process had, with their workers; those of the state's
    /// leases go on where they are.
    pub(crate) fn take_up(
        &mut self,
        run: RunId,
        state: RunState,
        mut seats: Vec<(TaskRef, Held)>,
    ) -> Vec<(TaskRef, Held)> {
        let leases: Vec<(TaskRef, u64, String)> =
            state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
        let open_query = state.open_query();
        let seat_of = |seats: &[(TaskRef, Held)], task: TaskRef, token: u64| {
            seats.iter().position(|(of, held)| *of == task && held.token == token && held.seat().is_some())
        };
        let is_away = |(task, token, _): &(TaskRef, u64, String)| seat_of(&seats, *task, *token).is_none();
        let quiet_until = self.quiet_after_recovery(leases.iter().any(is_away));
        let clock = self.runs.clock_of(run, self.now);
        let slot = self.runs.take_up(run, state, clock);
        slot.quiet_until = quiet_until;
        slot.snapshot_seq = slot.state.seq();
        for (task, token, worker) in leases {
            if let Some(place) = seat_of(&seats, task, token) {
                let (_, held) = seats.swap_remove(place);
                self.leases.put_back(run, task, &worker, held);
                continue;
            }
            self.leases.recover(run, task, token, &worker);
            self.detach(run, task);
        }
        self.enqueue_all(run);
        self.ask_children(run);
        self.note_browser(run);
        if let Some((query, asked)) = open_query {
            self.out(Output::Query { run, query, asked });
        }
        self.arm(run);
        seats
    }

    /// When a run that rests has to be looked at. Where this process has had the run, the clock on the wall has no say: it
    /// knows when the run was due, or looks at once.
    fn due(&self, run: RunId, rest: Rest) -> Option<Mono> {
        let due_at = rest.due_at?;
        if self.runs.knows_clock(run) {
            return Some(self.resting.was_due(run).unwrap_or(self.now.mono));
        }
        let left = due_at.0.saturating_sub(self.now.wall.0).clamp(0, rest.due_in.max(0));
        Some(self.now.mono.plus(left))
    }

    /// Why a run need not be in memory, and until when; `None` where something of it is in work.
    pub(crate) fn rest_of(&self, run: RunId) -> Option<Rest> {
        let slot = self.runs.get(run)?;
        let waits = self.queues.has(run) || self.returns.has(run);
        if self.leases.has(run) || waits || !may_rest(&slot.state) {
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
        self.rest(run);
    }

    /// The run leaves memory, but for its deadline, its clock and the callers that wait for its end.
    fn rest(&mut self, run: RunId) {
        let Some(slot) = self.runs.remove(run) else { return };
        self.queues.drop_run(run);
        self.note_browser(run);
        self.resting.insert(run, RunClock::Ahead(slot.ahead), slot.waiters);
    }

    /// Something is wanted of a run that is not in memory: where it rests, it is read.
    ///
    /// # Errors
    /// It does not rest.
    #[expect(clippy::result_large_err, reason = "the wish comes back where it is not granted")]
    pub(crate) fn want(&mut self, run: RunId, wanted: Wanted) -> Result<(), Wanted> {
        if !self.resting.contains(run) {
            return Err(wanted);
        }
        if let Err(wanted) = self.resting.want(run, wanted, self.config.max_waiters_per_run) {
            self.decline_wanted(wanted, &OVERLOADED);
        }
        self.load_runs();
        Ok(())
    }

    /// Has the next runs read that wait for it.
    pub(crate) fn load_runs(&mut self) {
        while let Some((run, load)) = self.resting.next_load() {
            self.out(Output::LoadRun { run, load });
        }
    }

    /// The shell has read a run that rested, or could not.
    pub(crate) fn run_loaded(&mut self, run: RunId, load: u64, state: Option<Box<RunState>>) {
        self.resting.answered(load);
        if let Some(woken) = self.resting.loaded(run, load) {
            match state {
                Some(state) => self.wake(run, *state, woken),
                None => self.not_read(run, woken),
            }
        }
        self.load_runs();
    }

    fn wake(&mut self, run: RunId, state: RunState, woken: Woken) {
        let Woken { clock, wanted, waiters, is_unread } = woken;
        if is_unread {
            self.runs.keep_clock(run, clock);
            self.take_up(run, state, Vec::new());
            self.runs.all_taken_up();
        } else {
            let slot = self.runs.take_up(run, state, clock);
            slot.snapshot_seq = slot.state.seq();
            self.arm(run);
            self.note_browser(run);
        }
        self.keep_again(run);
        if let Some(slot) = self.runs.get_mut(run) {
            slot.waiters = waiters;
        }
        self.woken.insert(run);
        for wanted in wanted {
            match wanted {
                Wanted::Command { reply, if_seq, input } => self.command(reply, run, if_seq, *input),
                Wanted::Report { connection, worker, lease, report, log, usage } => {
                    self.report(connection, &worker, lease, *report, log, usage);
                }
                Wanted::Kin(wanted) => self.kin(Kin::Wanted(wanted), BTreeSet::new()),
                Wanted::Tick => self.tick_run(run),
            }
        }
    }

    /// The store could not be read. Callers may ask again; what nobody else asks for again is tried again soon.
    fn not_read(&mut self, run: RunId, woken: Woken) {
        let mut woken = woken;
        let of_callers: Vec<Wanted> =
            woken.wanted.extract_if(.., |wanted| wanted.reply().is_some()).collect();
        if !woken.wanted.is_empty() || woken.is_unread {
            self.timers.set(Timer::Run(run), self.now.mono.plus(READ_AGAIN_MS));
        }
        self.resting.put_back(run, woken);
        for wanted in of_callers {
            self.decline_wanted(wanted, &Declined::Unavailable);
        }
    }

    /// Runs that were read in this turn, and of which nothing is in work, rest again.
    pub(crate) fn rest_again(&mut self) {
        for run in std::mem::take(&mut self.woken) {
            let settled = self.runs.get(run).is_some_and(|slot| slot.last_append < self.outbox.oldest());
            if settled && !self.outbox.has_batch(run) && self.rest_of(run).is_some() {
                self.rest(run);
            }
        }
    }

    pub(crate) fn decline_wanted(&mut self, wanted: Wanted, declined: &Declined) {
        match wanted {
            Wanted::Command { reply, .. } => self.reply(reply, Answer::Command(Err(declined.clone()))),
            // A worker whose shard is read again says it again; else the result counts no more.
            Wanted::Report { .. } if matches!(declined, Declined::Unavailable) => {}
            Wanted::Report { connection, lease, .. } => {
                let reason = v1::RefusalReason::StaleLease;
                self.tell(refusal(connection, &lease, reason));
            }
            Wanted::Kin(_) | Wanted::Tick => {}
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

/// Whether a run in this state need not be in memory until its next deadline. A browser waits for its script, unless its
/// state is kept, and a session for its ask.
pub(crate) fn may_rest(state: &RunState) -> bool {
    state.session().is_none() && !state.has_open_browser() && state.owes_nothing()
}

/// The hash that a reference names; `None` where it is not a hash.
#[must_use]
pub fn blob_hash(blob: &v1::BlobRef) -> Option<BlobHash> {
    blob.blake3.parse().ok()
}
