//! Tasks that wait for a slot of their agent, run by run. The crew knows how many there are, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capataz_engine::TaskRef;
use capataz_store::RunId;

type Key = (RunId, Arc<str>);

/// All queues. No queue is empty; the crew has been told the length of each, but for those that changed since.
#[derive(Default)]
pub(crate) struct Queues {
    waiting: BTreeMap<Key, BTreeSet<TaskRef>>,
    changed: BTreeSet<Key>,
}

impl Queues {
    pub(crate) fn add(&mut self, run: RunId, agent: &str, task: TaskRef) {
        let key = (run, Arc::from(agent));
        if self.waiting.entry(key.clone()).or_default().insert(task) {
            self.changed.insert(key);
        }
    }

    /// The first waiting task of the run for this agent. The crew is told of it by whoever asks.
    pub(crate) fn next(&mut self, run: RunId, agent: &Arc<str>) -> Option<TaskRef> {
        let key = (run, Arc::clone(agent));
        let queue = self.waiting.get_mut(&key)?;
        let task = queue.pop_first();
        if queue.is_empty() {
            self.waiting.remove(&key);
        }
        task
    }

    /// The task waits no more.
    pub(crate) fn remove(&mut self, run: RunId, agent: &str, task: TaskRef) {
        let key = (run, Arc::from(agent));
        let Some(queue) = self.waiting.get_mut(&key) else { return };
        if !queue.remove(&task) {
            return;
        }
        if queue.is_empty() {
            self.waiting.remove(&key);
        }
        self.changed.insert(key);
    }

    /// Nothing of the run waits for the agent any more.
    pub(crate) fn drop_agent(&mut self, run: RunId, agent: &Arc<str>) {
        let key = (run, Arc::clone(agent));
        if self.waiting.remove(&key).is_some() {
            self.changed.insert(key);
        }
    }

    /// Nothing of the run waits any more.
    pub(crate) fn drop_run(&mut self, run: RunId) {
        let first = (run, Arc::default());
        let keys = self.waiting.range(first..).map(|(key, _)| key).take_while(|(of, _)| *of == run);
        let keys: Vec<Key> = keys.cloned().collect();
        for key in keys {
            self.waiting.remove(&key);
            self.changed.insert(key);
        }
    }

    /// Whether a task of the run waits for an agent.
    pub(crate) fn has(&self, run: RunId) -> bool {
        self.waiting.range((run, Arc::default())..).next().is_some_and(|((of, _), _)| *of == run)
    }

    /// Whether a task of the run waits for the agent.
    pub(crate) fn waits(&self, run: RunId, agent: &str) -> bool {
        self.length(run, &Arc::from(agent)) > 0
    }

    /// Tasks of the run that wait for the agent.
    pub(crate) fn length(&self, run: RunId, agent: &Arc<str>) -> u32 {
        let queue = self.waiting.get(&(run, Arc::clone(agent)));
        u32::try_from(queue.map_or(0, BTreeSet::len)).unwrap_or(u32::MAX)
    }

    /// The queues whose lengths the crew does not know; it is told now.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }

    /// What the crew knows of the run's tasks is not so any more.
    pub(crate) fn say_run(&mut self, run: RunId) {
        let first = (run, Arc::default());
        let keys = self.waiting.range(first..).map(|(key, _)| key).take_while(|(of, _)| *of == run);
        self.changed.extend(keys.cloned());
    }

    /// The crew knows nothing any more.
    pub(crate) fn say_all(&mut self) {
        self.changed = self.waiting.keys().cloned().collect();
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
