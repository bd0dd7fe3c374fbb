//! What happens to the daemon's process and its machine: a crash, a clock that is set, a stall; and retention's sweep, which
//! nobody asks for either.

use std::collections::{BTreeMap, BTreeSet};

use capataz_shard::{Ages, Input};
use capataz_store::{Millis, Retention, RunId, ShardId};

use crate::daemon::Daemon;
use crate::invariant::Violation;
use crate::scenario::{Naming, RECONFIGURED};
use crate::schedule::Action;
use crate::world::World;

const DAY_MS: i64 = 86_400_000;
const YEAR_MS: i64 = 365 * DAY_MS;
/// The share of an age for which nobody has to have watched the clock.
const UNWATCHED: i64 = 8;
/// What clocks that go alike may differ by, at the beginning and at the end of an age.
const CLOCKS_DIFFER_MS: i64 = 2_000;

impl World {
    /// The process is gone with all that it had in memory; another one starts.
    pub(crate) fn crash(&mut self) {
        self.lose_memory();
        self.model.crashed();
        self.generation += 1;
        self.daemon = Daemon::new(&self.scenario);
        self.cut_all_links();
        self.nobody_answers();
        self.cut_all_streams();
        let downtime = match self.rng.below(10) {
            0 if !self.is_calm() => self.rng.between(5_000, 40_000),
            1..=3 => self.rng.between(500, 5_000),
            _ => self.rng.between(5, 500),
        };
        self.stall.end(self.now);
        self.hosts_die();
        // The machine's clock may have been set while the daemon was down.
        let by = match self.rng.below(20) {
            0 => self.rng.between(-2_000, 2_000),
            1 if self.scenario.has_clock_jumps && !self.is_calm() => self.rng.between(-YEAR_MS, YEAR_MS),
            _ => 0,
        };
        self.set_wall(by);
        if self.scenario.restores && !self.is_calm() && self.rng.percent(30) {
            self.restore();
        }
        self.wear_out_while_down();
        self.after(downtime, Action::Boot);
    }

    /// Somebody copies the machine.
    pub(crate) fn back_up(&mut self) {
        if self.scenario.restores && self.rng.percent(20) {
            self.line(|| "-- the machine is copied".to_owned());
            self.backup = Some(Box::new((self.disk.store.checkpoint(), self.model.clone())));
        }
    }

    /// The machine is set back to its copy. What was acknowledged since is lost; nobody else knows.
    fn restore(&mut self) {
        let Some((store, model)) = self.backup.as_deref() else { return };
        let (store, model) = (store.checkpoint(), model.clone());
        self.line(|| "-- the machine is set back to its copy".to_owned());
        self.model = model;
        self.disk.restore(store);
        for subscriber in &mut self.subscribers {
            subscriber.is_misled(&self.model);
        }
    }

    /// The clock on the wall of the daemon's machine is set: a little, or by up to a year in either direction.
    pub(crate) fn set_clock(&mut self) -> Result<(), Violation> {
        if self.is_calm() {
            return Ok(());
        }
        let by = match self.rng.below(6) {
            0..=2 => self.rng.between(-3_000, 3_000),
            3 => self.rng.between(-3_600_000, 3_600_000),
            _ => self.rng.between(-YEAR_MS, YEAR_MS),
        };
        self.set_wall(by);
        self.line(|| format!("-- the clock is set by {by} ms"));
        // What the daemon sleeps for, it looks at every second.
        self.after(1_000, Action::Wake);
        let next = self.rng.between(10_000, 120_000);
        self.after(next, Action::SetClock);
        if by > DAY_MS && self.rng.percent(70) {
            return self.retain();
        }
        Ok(())
    }

    /// An agent is taken out of the configuration, comes back to it, or is the daemon's own. Then its hosts say anew what they
    /// serve.
    pub(crate) fn configure(&mut self) -> Result<(), Violation> {
        if self.stands_still() {
            self.after(1_000, Action::Configure);
            return Ok(());
        }
        if self.is_calm() {
            return self.name(Naming::Declared);
        }
        let next = self.rng.between(2_000, 40_000);
        self.after(next, Action::Configure);
        let naming = [Naming::Declared, Naming::Absent, Naming::Own][self.rng.below(3)];
        self.name(naming)
    }

    /// Everything is in the configuration, for everybody.
    pub(crate) fn name_again(&mut self) -> Result<(), Violation> {
        if self.stands_still() {
            // It reads what has changed when it goes on.
            self.after(1_000, Action::Configure);
            return Ok(());
        }
        self.name(Naming::Declared)
    }

    /// Without a daemon the next one reads it.
    fn name(&mut self, naming: Naming) -> Result<(), Violation> {
        if naming == self.naming {
            return Ok(());
        }
        self.naming = naming;
        self.line(|| format!("-- the configuration says of {RECONFIGURED}: {naming:?}"));
        if self.daemon.core.is_none() {
            return Ok(());
        }
        self.deliver(Input::Configure(self.scenario.known(naming)))?;
        self.hosts_say_hello_again();
        Ok(())
    }

    /// Retention is due, for what has ended some time ago or just now.
    pub(crate) fn retain(&mut self) -> Result<(), Violation> {
        if self.daemon.core.is_none() || self.stands_still() || self.round.is_some() {
            return Ok(());
        }
        let age = match self.rng.below(10) {
            0..=3 => 0,
            // Nothing of a world is ever so old, whatever its clock says.
            4..=6 if self.scenario.has_clock_jumps => self.rng.between(DAY_MS, YEAR_MS),
            _ => self.rng.between(0, 60_000),
        };
        let forgets_keys = self.scenario.forgets_keys && self.rng.percent(70);
        let shard = ShardId(u32::try_from(self.rng.below(self.scenario.shards)).unwrap_or(0));
        let is_whole = self.rng.percent(50);
        let rule = Retention {
            keep: BTreeSet::new(),
            held_by: None,
            finished_before: None,
            max_log_bytes: None,
            after: None,
            looked_at: if is_whole && self.rng.percent(30) { 3 } else { u32::MAX },
            keys_before: Millis(i64::MIN),
            blobs_before: Millis(i64::MIN),
            batch_bytes: if self.rng.percent(30) { 1_000 } else { u64::MAX },
            batch: if self.rng.percent(50) { 1 + u32::try_from(self.rng.below(3)).unwrap_or(0) } else { 256 },
        };
        let ages = Ages { finished_runs: Some(age), keys: forgets_keys.then_some(age), ..Ages::default() };
        self.sweep_begins(shard, rule, ages, is_whole)
    }

    /// The streams that are really so old at this moment, as far as a daemon can know: a clock that was set while none looked,
    /// by little beside the age, has passed for time.
    pub(crate) fn old_enough(&self, age: i64, at: i64) -> BTreeSet<RunId> {
        let is_old = |written: i64| {
            // A machine that is set back forgets what its clock has said since the copy.
            if self.scenario.restores && self.scenario.has_clock_jumps {
                return true;
            }
            let believed = |(_, by): &&(i64, i64)| (0..=age / UNWATCHED).contains(by);
            let since = self.unwatched_jumps.iter().filter(|(began, _)| *began >= written);
            let slack: i64 = since.filter(believed).map(|(_, by)| *by).sum();
            at - written + slack + CLOCKS_DIFFER_MS >= age
        };
        let last = |(stream, written): (&RunId, &BTreeMap<u64, i64>)| {
            let seq = self.model.run(*stream).map(|run| run.seq());
            let seq = seq.or_else(|| self.model.session(*stream).map(|session| session.seq()))?;
            let (_, written) = written.range(..=seq).next_back()?;
            is_old(*written).then_some(*stream)
        };
        self.written.iter().filter_map(last).collect()
    }

    /// The daemon's process stands still: everything that comes meanwhile reaches it at once.
    pub(crate) fn stall(&mut self) {
        if self.is_calm() {
            return;
        }
        let length = if self.rng.percent(50) {
            self.rng.between(20_000, 60_000)
        } else {
            self.rng.between(500, 20_000)
        };
        self.stall.begin(self.now, length, self.scenario.core.heartbeat_ms);
        self.line(|| format!("-- the daemon stands still for {length} ms"));
        let next = length + self.rng.between(10_000, 120_000);
        self.after(next, Action::Stall);
    }
}
