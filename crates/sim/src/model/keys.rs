//! Which run a key names: by the log, and by what clients were told.

use std::collections::{BTreeMap, BTreeSet};

use capataz_store::RunId;

use super::RunModel;
use crate::invariant::{Invariant, Violation};

/// What is known of all keys.
#[derive(Clone, Debug)]
pub struct KeyModel {
    keys: BTreeMap<String, Named>,
    /// The latest time before which retention was to forget keys.
    kept_from: i64,
}

impl Default for KeyModel {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), kept_from: i64::MIN }
    }
}

/// The runs of one key.
#[derive(Clone, Debug)]
struct Named {
    run: RunId,
    /// There is a run of this id. Without it somebody was told of it: whoever repeats the first request makes it.
    is_made: bool,
    /// Runs of which retention was to forget that the key names them.
    before: BTreeSet<RunId>,
}

impl KeyModel {
    /// Retention is to forget keys of runs that ended before this time.
    pub fn kept_from(&mut self, time: i64) {
        self.kept_from = self.kept_from.max(time);
    }

    /// A run with this key has become durable.
    pub(super) fn is_made(
        &mut self,
        key: &str,
        run: RunId,
        runs: &BTreeMap<RunId, RunModel>,
    ) -> Result<(), Violation> {
        let Some(named) = self.keys.get_mut(key) else {
            self.keys.insert(key.to_owned(), Named { run, is_made: true, before: BTreeSet::new() });
            return Ok(());
        };
        if named.run != run || named.is_made {
            let forgotten = named.is_forgotten(runs, self.kept_from);
            let again = named.before.contains(&run) || named.run == run;
            Invariant::OneRunPerKey.check(forgotten && !again, || format!("{key}: {named:?} and {run}"))?;
            named.before.insert(named.run);
            named.run = run;
        }
        named.is_made = true;
        Ok(())
    }

    /// A client is told that the key names this run, which may not be made yet.
    pub(super) fn is_told(
        &mut self,
        key: &str,
        run: RunId,
        runs: &BTreeMap<RunId, RunModel>,
    ) -> Result<(), Violation> {
        let named = Named { run, is_made: false, before: BTreeSet::new() };
        let named = self.keys.entry(key.to_owned()).or_insert(named);
        if named.run == run || named.before.contains(&run) {
            return Ok(());
        }
        let forgotten = named.is_forgotten(runs, self.kept_from);
        Invariant::OneRunPerKey.check(forgotten, || format!("{key}: {named:?}, told {run}"))?;
        named.before.insert(named.run);
        named.run = run;
        named.is_made = runs.contains_key(&run);
        Ok(())
    }
}

impl Named {
    /// Retention that forgets keys from before this time may have forgotten that the key names this run.
    fn is_forgotten(&self, runs: &BTreeMap<RunId, RunModel>, kept_from: i64) -> bool {
        let ended = || runs.get(&self.run).filter(|run| run.finished.is_some()).map(|run| run.last_at);
        // A key that no run has counts from the time at which its run was to begin.
        let since = if self.is_made { ended() } else { Some(drawn_at(self.run)) };
        since.is_some_and(|since| since < kept_from)
    }
}

/// The time in a UUIDv7.
fn drawn_at(run: RunId) -> i64 {
    i64::try_from(run.0.as_u128() >> 80).unwrap_or(i64::MAX)
}
