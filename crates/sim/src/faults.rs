//! What happens to the daemon's process and its machine: a crash, a clock that is set, a stall; and retention's sweep, which
//! nobody asks for either.

use std::collections::BTreeSet;

use capataz_shard::Input;
use capataz_store::{Millis, Retention, ShardId};

use crate::daemon::Daemon;
use crate::invariant::Violation;
use crate::schedule::Action;
use crate::world::World;

const YEAR_MS: i64 = 365 * 86_400_000;

impl World {
    /// The process is gone with all that it had in memory; another one starts.
    pub(crate) fn crash(&mut self) {
        self.lose_memory();
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
        self.stalled_until = 0;
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
    pub(crate) fn set_clock(&mut self) {
        if self.is_calm() {
            return;
        }
        let by = match self.rng.below(6) {
            0..=2 => self.rng.between(-3_000, 3_000),
            3 | 4 => self.rng.between(-3_600_000, 3_600_000),
            _ => self.rng.between(-YEAR_MS, YEAR_MS),
        };
        self.set_wall(by);
        self.line(|| format!("-- the clock is set by {by} ms"));
        // What the daemon sleeps for, it looks at every second.
        self.after(1_000, Action::Wake);
        let next = self.rng.between(10_000, 120_000);
        self.after(next, Action::SetClock);
    }

    /// Retention is due, for what has ended some time ago or just now.
    pub(crate) fn retain(&mut self) -> Result<(), Violation> {
        if self.daemon.core.is_none() {
            return Ok(());
        }
        let age = if self.rng.percent(40) { 0 } else { self.rng.between(0, 60_000) };
        let forgets_keys = self.scenario.forgets_keys && self.rng.percent(70);
        let keys_before = if forgets_keys { self.now + self.skew - age } else { i64::MIN };
        let shard = ShardId(u32::try_from(self.rng.below(self.scenario.shards)).unwrap_or(0));
        let retention = Box::new(Retention {
            keep: BTreeSet::new(),
            held_by: None,
            finished_before: Some(Millis(self.now + self.skew - age)),
            max_log_bytes: None,
            keys_before: Millis(keys_before),
            blobs_before: Millis(i64::MIN),
            batch_bytes: if self.rng.percent(30) { 1_000 } else { u64::MAX },
            batch: if self.rng.percent(50) { 1 + u32::try_from(self.rng.below(3)).unwrap_or(0) } else { 256 },
        });
        self.deliver(Input::Sweep { shard, retention })
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
        self.stalled_until = self.now + length;
        self.line(|| format!("-- the daemon stands still for {length} ms"));
        let next = length + self.rng.between(10_000, 120_000);
        self.after(next, Action::Stall);
    }
}
