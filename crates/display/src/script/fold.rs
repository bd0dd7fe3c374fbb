//! The fold of a script's run: every activity of its browser, every try at an activity, and the end of each.
//!
//! The fold is pure and total: if an event does not fit the state, it changes as much as it can and the rest is
//! ignored.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

/// A script's run.
#[derive(Clone, Debug, Default)]
pub struct ScriptRun {
    pub script: v1::Script,
    pub labels: BTreeMap<String, String>,
    pub accepted_at_ms: i64,
    /// The browser's name and version; empty before the browser is open.
    pub browser: String,
    /// The activities, in the order in which they began.
    pub activities: Vec<Activity>,
    /// The outputs of the actions, by name.
    pub outputs: BTreeMap<String, v1::ActionOutput>,
    /// True when the closing of an interactive session was requested.
    pub close_requested: bool,
    pub closed_by_idleness: bool,
    pub finished: Option<Finished>,
    /// The number of the newest event.
    pub seq: u64,
    pub at_ms: i64,
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub at_ms: i64,
    pub outcome: v1::RunOutcome,
    pub error: Option<v1::Error>,
}

/// One activity of the browser.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    pub kind: v1::BrowserActivity,
    /// The action's place in the script, from 0; set for actions and recoveries.
    pub step: Option<u32>,
    /// The action with its variables and outputs filled in.
    pub action: Option<v1::Action>,
    /// The number of the activity's wave, from 0; `None` for an action that was stopped before it began.
    pub wave: Option<u32>,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    pub tries: Vec<Try>,
}

/// One try at an activity.
#[derive(Clone, Debug, Default)]
pub struct Try {
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    pub stages: Vec<v1::StageRecord>,
    pub ending: Option<Ending>,
    /// An error that the engine recorded because the executor reported none, for example a timeout or an unknown
    /// outcome.
    pub settled: Option<v1::Error>,
    /// The delay before the next try.
    pub delay_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum Ending {
    /// The result of an action. It is boxed because most tries of a running script have none.
    Succeeded(Box<v1::ActionFinished>),
    /// The failures of the try. There are several if a limit of the policy adds a failure to the action's own.
    Failed(Vec<v1::ActionFailed>),
    /// The end of an opening or a closing.
    Done,
}

/// The place of the failed action; `None` if opening or closing failed, because such errors name the nearest action.
pub fn step_of(failed: &v1::ActionFailed) -> Option<u32> {
    let of_browser = matches!(failed.activity(), v1::BrowserActivity::Open | v1::BrowserActivity::Close);
    failed.error.as_ref().filter(|_| !of_browser).and_then(|error| error.step_index)
}

/// The state of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    NotReached,
    Running,
    Succeeded,
    /// The action failed, and the script went on.
    PassedOver,
    Failed,
}

impl ScriptRun {
    /// Applies the next event of the run.
    pub fn apply(&mut self, event: &v1::Event) {
        self.seq = event.seq;
        self.at_ms = event.at_ms;
        let Some(body) = &event.body else { return };
        match body {
            Body::RunAccepted(accepted) => {
                self.accepted_at_ms = event.at_ms;
                self.labels.clone_from(&accepted.labels);
                self.script = accepted.script().cloned().unwrap_or_default();
            }
            // What follows is this run's own, from here on.
            Body::RunForked(forked) => {
                self.accepted_at_ms = event.at_ms;
                self.labels.clone_from(&forked.labels);
            }
            Body::BrowserActivityStarted(started) => self.activities.push(Activity {
                kind: started.activity(),
                step: started.step_index,
                action: started.action.clone(),
                wave: Some(started.number),
                started_at_ms: event.at_ms,
                ..Activity::default()
            }),
            Body::ActionProposed(proposed) => self.script.actions.extend(proposed.action.clone()),
            Body::TaskLeased(leased) => {
                if let Some(activity) = self.of_wave(leased.wave) {
                    activity.tries.push(Try { started_at_ms: event.at_ms, ..Try::default() });
                }
            }
            Body::BrowserOpened(opened) => {
                self.browser.clone_from(&opened.browser);
                self.end(event.at_ms, Ending::Done);
            }
            // Whatever waits goes on when the browser is open again.
            Body::BrowserClosed(closed) if closed.kept => {}
            Body::BrowserClosed(_) => self.end(event.at_ms, Ending::Done),
            Body::StageFinished(stage) => {
                let current = self.activities.last_mut().map(Activity::current);
                if let (Some(current), Some(record)) = (current, stage.record) {
                    current.stages.push(record);
                }
            }
            Body::ActionFinished(finished) => {
                if let Some(output) = &finished.output {
                    self.outputs.insert(output.name.clone(), output.clone());
                }
                self.end(event.at_ms, Ending::Succeeded(finished.clone()));
            }
            Body::ActionFailed(failed) => self.failed(event.at_ms, failed),
            Body::TaskAttemptFailed(failed) => {
                if let Some(activity) = self.of_wave(failed.wave) {
                    let current = activity.current();
                    current.delay_ms = Some(failed.delay_ms);
                    current.settle(event.at_ms, failed.error.as_ref());
                }
            }
            Body::TaskSettled(settled) => {
                if let Some(activity) = self.of_wave(settled.wave) {
                    activity.ended_at_ms = Some(event.at_ms);
                    activity.current().settle(event.at_ms, settled.error.as_ref());
                }
            }
            Body::BrowserCloseRequested(requested) => {
                self.close_requested = true;
                self.closed_by_idleness |= requested.idle;
            }
            Body::RunFinished(finished) => {
                self.finished = Some(Finished {
                    at_ms: event.at_ms,
                    outcome: finished.outcome(),
                    error: finished.error.clone(),
                });
            }
            _ => {}
        }
    }

    /// The action as the script declares it; in a session, as it was proposed.
    pub fn declared(&self, step: u32) -> Option<&v1::Action> {
        self.script.actions.get(step as usize)
    }

    /// The activities of the action at `step`: the action itself and its recoveries.
    pub fn activities_of(&self, step: u32) -> impl Iterator<Item = &Activity> {
        self.activities.iter().filter(move |activity| activity.step == Some(step))
    }

    /// The state of the action at `step`.
    pub fn state_of(&self, step: u32) -> State {
        let actions = self.activities_of(step).filter(|activity| activity.is_action());
        actions.last().map_or(State::NotReached, |last| self.state_after(last))
    }

    /// How many of its actions have ended, and how many of these have failed.
    pub fn ended(&self) -> (usize, usize) {
        let actions = self.activities.iter().filter(|activity| activity.is_action());
        // Of several activities of an action, the last one counts.
        let last: BTreeMap<u32, &Activity> =
            actions.filter_map(|activity| Some((activity.step?, activity))).collect();
        last.values().fold((0, 0), |(ended, failed), activity| match self.state_after(activity) {
            State::NotReached | State::Running => (ended, failed),
            State::Succeeded => (ended + 1, failed),
            State::PassedOver | State::Failed => (ended + 1, failed + 1),
        })
    }

    /// The state of an action whose last activity this is.
    fn state_after(&self, last: &Activity) -> State {
        match last.tries.last().and_then(|last| last.ending.as_ref()) {
            Some(Ending::Succeeded(_) | Ending::Done) => State::Succeeded,
            Some(Ending::Failed(failures)) => match failures.last().map(v1::ActionFailed::next) {
                // In a session, a failure has nothing further to stop.
                Some(v1::AfterFailure::Continue) if !self.script.interactive => State::PassedOver,
                Some(v1::AfterFailure::Retry | v1::AfterFailure::Recover) if self.finished.is_none() => {
                    State::Running
                }
                _ => State::Failed,
            },
            None if last.ended_at_ms.is_some() || self.finished.is_some() => State::Failed,
            None => State::Running,
        }
    }

    /// The failure that ended the script, if one did.
    pub fn error(&self) -> Option<&v1::ActionFailed> {
        let failures = self.activities.iter().flat_map(Activity::failures);
        failures.filter(|failed| failed.next() == v1::AfterFailure::Halt).last()
    }

    /// The running activity.
    pub fn current(&self) -> Option<&Activity> {
        self.activities.last().filter(|activity| activity.ended_at_ms.is_none())
    }

    fn of_wave(&mut self, wave: u32) -> Option<&mut Activity> {
        self.activities.iter_mut().rev().find(|activity| activity.wave == Some(wave))
    }

    fn end(&mut self, at_ms: i64, ending: Ending) {
        if let Some(activity) = self.activities.last_mut() {
            let current = activity.current();
            current.ended_at_ms = Some(at_ms);
            current.ending = Some(ending);
        }
    }

    fn failed(&mut self, at_ms: i64, failed: &v1::ActionFailed) {
        let step = step_of(failed);
        let fits = |activity: &&mut Activity| {
            activity.kind == failed.activity() && activity.step == step && activity.ended_at_ms.is_none()
        };
        if let Some(activity) = self.activities.last_mut().filter(fits) {
            let current = activity.current();
            current.ended_at_ms = Some(at_ms);
            match &mut current.ending {
                Some(Ending::Failed(failures)) => failures.push(failed.clone()),
                ending => *ending = Some(Ending::Failed(vec![failed.clone()])),
            }
            return;
        }
        // The failure of an action that never began becomes an activity of its own.
        let only = Try {
            started_at_ms: at_ms,
            ended_at_ms: Some(at_ms),
            ending: Some(Ending::Failed(vec![failed.clone()])),
            ..Try::default()
        };
        self.activities.push(Activity {
            kind: failed.activity(),
            step,
            action: step.and_then(|step| self.declared(step).cloned()),
            wave: None,
            started_at_ms: at_ms,
            ended_at_ms: Some(at_ms),
            tries: vec![only],
        });
    }
}

impl Activity {
    pub fn is_action(&self) -> bool {
        self.kind == v1::BrowserActivity::Action
    }

    /// All failures of the activity's tries, in order.
    pub fn failures(&self) -> impl Iterator<Item = &v1::ActionFailed> {
        self.tries.iter().flat_map(|one| match &one.ending {
            Some(Ending::Failed(failures)) => failures.as_slice(),
            _ => &[],
        })
    }

    /// The running try. An activity that was never leased gets a try that begins with the activity.
    fn current(&mut self) -> &mut Try {
        if self.tries.is_empty() {
            self.tries.push(Try { started_at_ms: self.started_at_ms, ..Try::default() });
        }
        let last = self.tries.len() - 1;
        &mut self.tries[last]
    }
}

impl Try {
    /// Records the end of the task. The task's error counts only where the executor reported none.
    fn settle(&mut self, at_ms: i64, error: Option<&v1::Error>) {
        self.ended_at_ms.get_or_insert(at_ms);
        if self.ending.is_none() {
            self.settled = error.cloned();
        }
    }
}

#[cfg(test)]
mod tests;
