//! The timers of a run, kept in step with its state.

use super::activity::{Activity, Lease, Step};
use super::state::{Phase, RunState, Timer, Timestamp};
use crate::input::TaskRef;

impl RunState {
    /// The machine's own deadline runs while the run goes on and nothing is in work. What the run has elsewhere is put away
    /// before that.
    pub(super) fn keep_machine_timer(&mut self) {
        self.keep_put_away_timer();
        let rests = || self.waves.last().is_none_or(|wave| wave.tasks.iter().all(Activity::is_settled));
        let own = || self.machine.due_at().filter(|_| self.goes_on() && rests());
        let due = if self.put_away_at.is_some() { None } else { own() };
        if due == self.machine_timer {
            return;
        }
        let task = TaskRef { wave: self.current_wave(), task: 0 };
        if self.machine_timer.take().is_some() {
            self.timers.retain(|(_, _, timer)| *timer != Timer::Machine);
        }
        if let Some(due) = due {
            self.timers.insert((due, task, Timer::Machine));
            self.machine_timer = Some(due);
        }
    }

    fn keep_put_away_timer(&mut self) {
        let due = self.put_away();
        if due == self.put_away_at {
            return;
        }
        if self.put_away_at.is_some() {
            self.timers.retain(|(_, _, timer)| *timer != Timer::PutAway);
        }
        self.put_away_at = due;
        if let Some(due) = due {
            let task = TaskRef { wave: self.current_wave(), task: 0 };
            self.timers.insert((due, task, Timer::PutAway));
        }
    }

    /// When a run that waits for a person, and of which nothing is in work, has what it has elsewhere put away: as long
    /// after it began to wait so as its machine says.
    fn put_away(&self) -> Option<Timestamp> {
        let after = self.machine.keep_after()?;
        let works = || self.activities().any(|(_, activity)| activity.lease().is_some());
        if self.held_since.is_none() || !matches!(self.phase, Phase::Running) || works() {
            return None;
        }
        self.put_away_at.or_else(|| Some(self.last.clock.plus(after)))
    }

    /// Edits an activity and keeps the timers in step with it.
    pub(super) fn change(&mut self, task: TaskRef, edit: impl FnOnce(&mut Activity)) -> Option<()> {
        let activity = self.waves.get_mut(task.wave as usize)?.tasks.get_mut(task.task as usize)?;
        for (held, at, timer) in timers_of(activity).into_iter().flatten() {
            let timers = if held { &mut self.held_timers } else { &mut self.timers };
            timers.remove(&(at, task, timer));
        }
        let before = activity.bytes();
        edit(activity);
        self.bytes.replace(before, activity.bytes());
        for (held, at, timer) in timers_of(activity).into_iter().flatten() {
            let timers = if held { &mut self.held_timers } else { &mut self.timers };
            timers.insert((at, task, timer));
        }
        Some(())
    }
}

/// An activity's timers: whether they stand still while the run is held, when they are due, and what they are.
fn timers_of(activity: &Activity) -> [Option<(bool, Timestamp, Timer)>; 3] {
    let own = match &activity.step {
        Step::Queued { start_by } => start_by.map(|at| (true, at, Timer::StartBy)),
        Step::Backoff { retry_at } => Some((true, *retry_at, Timer::Retry)),
        Step::Leased(Lease { cancel: Some(cancel), .. }) => Some((false, cancel.grace_until, Timer::Grace)),
        Step::Leased(lease) => lease.attempt_deadline.map(|at| (false, at, Timer::AttemptDeadline)),
        Step::Child(child) => child.attempt_deadline.map(|at| (false, at, Timer::AttemptDeadline)),
        Step::Asking { .. } | Step::Settled => None,
    };
    // A child that is to end ends in its own time, and one that is detached is not waited for.
    if matches!(&activity.step, Step::Child(child) if child.detached || child.cancel.is_some() || child.ended)
    {
        return [None; 3];
    }
    let cancelled = matches!(&activity.step, Step::Leased(Lease { cancel: Some(_), .. }));
    if cancelled || matches!(activity.step, Step::Asking { .. } | Step::Settled) {
        return [own, None, None];
    }
    let deadline = activity.deadline.map(|at| (false, at.clock, Timer::Deadline));
    let imminent = activity
        .deadline
        .filter(|_| !activity.imminent_given)
        .zip(activity.warn_before)
        .map(|(at, before)| (false, at.clock.plus(before.saturating_neg()), Timer::Imminent));
    [own, deadline, imminent]
}
