//! What a script's run did, as its events tell it: every activity of its browser, every try at it, and how each ended.
//!
//! Pure, and total: an event that does not fit what came before changes what it can and is otherwise ignored.

use std::collections::BTreeMap;

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

/// A script's run.
#[derive(Clone, Debug, Default)]
pub struct ScriptRun {
    pub script: v1::Script,
    pub labels: BTreeMap<String, String>,
    pub accepted_at_ms: i64,
    /// Name and version; empty before it is open.
    pub browser: String,
    /// In the order in which they began.
    pub activities: Vec<Activity>,
    /// What the actions gave, by name.
    pub outputs: BTreeMap<String, String>,
    /// Of a session: why it ends, where that was asked for.
    pub close_requested: bool,
    pub closed_by_idleness: bool,
    pub finished: Option<Finished>,
    /// Number and time of the newest event.
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
    /// Of an action and of a recovery: the action's place in the script, from 0.
    pub step: Option<u32>,
    /// With variables and outputs in their places.
    pub action: Option<v1::Action>,
    /// The wave that it is, from 0; absent for an action that was stopped before it began.
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
    /// What the executor did not say itself: that it took too long, that nobody knows what became of it.
    pub settled: Option<v1::Error>,
    /// Until the next try.
    pub delay_ms: Option<i64>,
}

#[derive(Clone, Debug)]
pub enum Ending {
    /// Boxed, because most tries of a script that goes on have none.
    Succeeded(Box<v1::ActionFinished>),
    /// Several where a limit of the policy came on top of what it is about.
    Failed(Vec<v1::ActionFailed>),
    /// Of opening and closing.
    Done,
}

/// The action that has failed; none where the browser was opened or closed, whose errors name the nearest one.
pub fn step_of(failed: &v1::ActionFailed) -> Option<u32> {
    let of_browser = matches!(failed.activity(), v1::BrowserActivity::Open | v1::BrowserActivity::Close);
    failed.error.as_ref().filter(|_| !of_browser).and_then(|error| error.step_index)
}

/// How an action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    NotReached,
    Running,
    Succeeded,
    /// It failed, and the script went on.
    PassedOver,
    Failed,
}

impl ScriptRun {
    /// Takes up the next event of the run.
    pub fn apply(&mut self, event: &v1::Event) {
        self.seq = event.seq;
        self.at_ms = event.at_ms;
        let Some(body) = &event.body else { return };
        match body {
            Body::RunAccepted(accepted) => {
                self.accepted_at_ms = event.at_ms;
                self.labels.clone_from(&accepted.labels);
                self.script = accepted.script.clone().unwrap_or_default();
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
            Body::BrowserClosed(_) => self.end(event.at_ms, Ending::Done),
            Body::StageFinished(stage) => {
                let current = self.activities.last_mut().map(Activity::current);
                if let (Some(current), Some(record)) = (current, stage.record) {
                    current.stages.push(record);
                }
            }
            Body::ActionFinished(finished) => {
                if let Some(output) = &finished.output {
                    self.outputs.insert(output.name.clone(), output.value.clone());
                }
                self.end(event.at_ms, Ending::Succeeded(Box::new(finished.clone())));
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

    /// The action as it was written; that of a session as it was proposed.
    pub fn declared(&self, step: u32) -> Option<&v1::Action> {
        self.script.actions.get(step as usize)
    }

    /// The activities that were for the action at `step`: itself, and recoveries of it.
    pub fn activities_of(&self, step: u32) -> impl Iterator<Item = &Activity> {
        self.activities.iter().filter(move |activity| activity.step == Some(step))
    }

    /// How the action at `step` stands.
    pub fn state_of(&self, step: u32) -> State {
        let actions = self.activities_of(step).filter(|activity| activity.is_action());
        let Some(last) = actions.last() else { return State::NotReached };
        match last.tries.last().and_then(|last| last.ending.as_ref()) {
            Some(Ending::Succeeded(_) | Ending::Done) => State::Succeeded,
            Some(Ending::Failed(failures)) => match failures.last().map(v1::ActionFailed::next) {
                // In a session there is nothing else that it could stop.
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

    /// Why the script ended, where it did not end well.
    pub fn error(&self) -> Option<&v1::ActionFailed> {
        let failures = self.activities.iter().flat_map(Activity::failures);
        failures.filter(|failed| failed.next() == v1::AfterFailure::Halt).last()
    }

    /// The activity in work.
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
        // A failure of what never began is an activity of its own.
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

    /// Every failure of its tries, in order.
    pub fn failures(&self) -> impl Iterator<Item = &v1::ActionFailed> {
        self.tries.iter().flat_map(|one| match &one.ending {
            Some(Ending::Failed(failures)) => failures.as_slice(),
            _ => &[],
        })
    }

    /// The try in work; one that was never leased begins with what is known of it.
    fn current(&mut self) -> &mut Try {
        if self.tries.is_empty() {
            self.tries.push(Try { started_at_ms: self.started_at_ms, ..Try::default() });
        }
        let last = self.tries.len() - 1;
        &mut self.tries[last]
    }
}

impl Try {
    /// The task's own end says more only where the executor said nothing.
    fn settle(&mut self, at_ms: i64, error: Option<&v1::Error>) {
        self.ended_at_ms.get_or_insert(at_ms);
        if self.ending.is_none() {
            self.settled = error.cloned();
        }
    }
}

#[cfg(test)]
pub mod tests;
