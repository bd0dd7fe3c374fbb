//! Tasks that are taken back, and the waves that are cut with them.

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::TaskState;

use super::activity::{Activity, Step};
use super::state::{Moment, RunState, Wall};
use super::{digest, task};

impl RunState {
    /// Tasks begin anew, and the waves after the first one's are as if they had not begun. What is known of their tasks is kept
    /// until they do.
    pub(super) fn roll_back(&mut self, event: v1::TaskRolledBack, at: Moment) -> Option<()> {
        let first = task(event.wave, event.task);
        let mut named = false;
        for back in event.taken_back {
            let states: Option<Vec<TaskState>> =
                back.states.iter().map(|state| TaskState::from_proto(*state)).collect();
            let (states, place) = (states?, task(back.wave, back.task));
            if place.wave < first.wave || (place.wave == first.wave && place != first) {
                return None;
            }
            named |= place == first;
            let was_settled = self.activity(place)?.is_settled();
            self.settled = self.settled.saturating_sub(u32::from(was_settled));
            self.change(place, |activity| {
                let mut fresh = Activity::scheduled(at.wall, back.activation);
                fresh.state = activity.state;
                fresh.history = std::mem::take(&mut activity.history);
                fresh.input = activity.input.take();
                for state in states {
                    fresh.enter(state, at.wall);
                }
                *activity = fresh;
            })?;
        }
        if !named {
            return None;
        }
        while self.waves.len() > first.wave as usize + 1 {
            self.cut_wave(at.wall)?;
        }
        self.change_wave(first.wave, |wave| {
            wave.stopping = false;
            wave.evaluation = None;
        })?;
        self.recount(first.wave)?;
        self.queue_again(first, at.clock, |_| ())?;
        self.remember_request(event.request_id, digest::rollback(first, event.cascade));
        Some(())
    }

    /// The last wave has not begun. Of its tasks, those that were at work, or that a person has given up, are kept as they are;
    /// one that only the wave's end has cancelled waits again.
    fn cut_wave(&mut self, at: Wall) -> Option<()> {
        let wave = self.current_wave();
        for index in 0..self.waves.last()?.tasks.len() {
            let place = task(wave, u32::try_from(index).ok()?);
            self.change(place, |activity| {
                activity.input = None;
                if let Step::Queued { start_by } = &mut activity.step {
                    *start_by = None;
                }
            })?;
        }
        let cut = self.waves.pop()?;
        self.bytes.replace(cut.bytes(), 0);
        for (mut activity, index) in cut.tasks.into_iter().zip(0u32..) {
            let before = activity.bytes();
            if activity.end.as_ref().is_some_and(|end| end.status == ResultStatus::Cancelled) {
                self.settled = self.settled.saturating_sub(1);
                activity = Activity::scheduled(at, activity.activation.saturating_add(1));
            }
            let is_fresh = !activity.is_settled() && activity.activation == 1;
            self.bytes.replace(before, if is_fresh { 0 } else { activity.bytes() });
            if !is_fresh {
                self.taken_back.insert(task(wave, index), activity);
            }
        }
        Some(())
    }
}
