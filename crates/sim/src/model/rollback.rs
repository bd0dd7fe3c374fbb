//! Tasks that a person takes back (CONTRACTS §1.2).

use capataz_contracts::v1;
use capataz_engine::TaskRef;

use super::lifecycle::follows;
use super::log::{LeaseEnd, RunModel, Step, TaskModel, place};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};

impl RunModel {
    pub(super) fn rolled_back(&mut self, event: &v1::TaskRolledBack) -> Result<(), Violation> {
        let first = place(event.wave, event.task);
        let text = self.at(format!("{first} is taken back: {:?}", event.taken_back));
        let stops = self.ending.is_some() || self.waves.last().is_some_and(|wave| wave.decided);
        let may = matches!(self.kind, Kind::Plan { .. }) && !stops;
        Invariant::WavesInOrder.check(may, || text.clone())?;
        // With it goes whatever of later waves has begun and is not given up, and only on demand.
        let later = self.begun_after(event.wave);
        let on_demand = later.is_empty() || event.cascade;
        let expected: Vec<TaskRef> = std::iter::once(first).chain(later).collect();
        let named: Vec<TaskRef> =
            event.taken_back.iter().map(|taken| place(taken.wave, taken.task)).collect();
        Invariant::WavesInOrder.check(on_demand && named == expected, || text.clone())?;
        for taken in &event.taken_back {
            self.begins_anew(taken)?;
        }
        let kept = event.wave as usize + 1;
        for (wave, number) in self.waves.drain(kept..).zip(event.wave + 1..) {
            for (mut task, index) in wave.tasks.into_iter().zip(0..) {
                // What nobody has given up, and only the end of its wave has cancelled, waits again.
                let status = task.result.as_ref().map(|result| result.status);
                if status == Some(v1::ResultStatus::Cancelled as i32) {
                    let (activation, was_settled) = (task.activation + 1, task.was_settled);
                    let state = v1::TaskState::Init;
                    task = TaskModel { state, activation, attempt: 1, was_settled, ..TaskModel::default() };
                }
                if task.activation > 1 || task.step == Step::Settled {
                    self.taken_back.insert(place(number, index), task);
                }
            }
        }
        if let Some(wave) = self.waves.last_mut() {
            (wave.finished, wave.decided) = (None, false);
        }
        self.went_back_to.push(event.wave as usize);
        self.request(event.request_id.clone())
    }

    fn begun_after(&self, wave: u32) -> Vec<TaskRef> {
        let idle = [v1::TaskState::Init, v1::TaskState::Deleted];
        let waves = self.waves.iter().zip(0..).skip(wave as usize + 1);
        let tasks = waves.flat_map(|(wave, number)| {
            wave.tasks.iter().zip(0..).map(move |(task, index)| (place(number, index), task))
        });
        tasks.filter(|(_, task)| !idle.contains(&task.state)).map(|(place, _)| place).collect()
    }

    /// One task begins anew: by the states that the table allows, in the next activation, and no lease of it is left.
    fn begins_anew(&mut self, taken: &v1::TaskTakenBack) -> Result<(), Violation> {
        let task = place(taken.wave, taken.task);
        let text =
            self.at(format!("{task} goes back by {:?} to activation {}", taken.states, taken.activation));
        let wave = self.waves.get_mut(task.wave as usize);
        let Some(model) = wave.and_then(|wave| wave.tasks.get_mut(task.task as usize)) else {
            return Invariant::WavesInOrder.broken(text);
        };
        let mut state = model.state;
        for next in taken.states() {
            Invariant::LifecycleIsKept.check(follows(state, next), || text.clone())?;
            state = next;
        }
        let is_back = state == v1::TaskState::Init && taken.activation == model.activation + 1;
        Invariant::OneSettlement.check(is_back, || text.clone())?;
        let at_work = matches!(model.step, Step::Child | Step::Heard { .. });
        Invariant::ChildrenHeardOnce.check(!at_work, || text)?;
        let step = model.step;
        *model = TaskModel {
            state,
            activation: taken.activation,
            attempt: 1,
            was_settled: model.was_settled,
            resolved: model.resolved,
            ..TaskModel::default()
        };
        if let Step::Leased(token) = step {
            self.end_lease(token, LeaseEnd::TakenBack);
        }
        Ok(())
    }
}
