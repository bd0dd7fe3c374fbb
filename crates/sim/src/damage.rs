//! A disk that damages what lies on it: a row of a plan's log, until the bytes are restored, or a snapshot, for good.
//!
//! The run is LOG_DAMAGED from the moment at which somebody reads it until the first claim after its bytes were restored.
//! Nothing else notices anything: every invariant holds of all other runs as ever, and of this one afterwards.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::connect_response::Frame;
use capataz_shard::{Answer, CommandReply, Declined, Input, Recovered, ReplyId, Request, Touched, WaitReply};
use capataz_store::{LogRow, Position, RunId, ShardId, Store};

use crate::daemon::home;
use crate::disk::store_failed;
use crate::invariant::{Invariant, Violation};
use crate::model::RunModel;
use crate::model::frames::parse;
use crate::world::World;

/// What is wrong with the disk of a world.
#[derive(Debug, Default)]
pub struct Damages {
    /// The damaged row of each of these runs.
    rows: BTreeMap<RunId, (ShardId, Position)>,
    /// Runs of which a row was ever damaged.
    ever: BTreeSet<RunId>,
}

impl Damages {
    /// Whether a row of any run is damaged now.
    #[must_use]
    pub fn is_any(&self) -> bool {
        !self.rows.is_empty()
    }

    #[must_use]
    pub fn was_damaged(&self, run: RunId) -> bool {
        self.ever.contains(&run)
    }
}

impl World {
    /// The disk damages something now and then, and somebody restores the bytes later.
    pub(crate) fn wear_out(&mut self) -> Result<(), Violation> {
        if !self.scenario.damages || self.is_calm() {
            return Ok(());
        }
        if self.rng.percent(12) {
            self.restore_bytes();
        }
        if self.rng.percent(30) {
            self.damage_row();
        }
        if self.rng.percent(10) {
            self.damage_snapshot();
        }
        if self.rng.percent(25) { self.try_again() } else { Ok(()) }
    }

    /// Somebody has a run tried again that was damaged once, and looks at it later.
    fn try_again(&mut self) -> Result<(), Violation> {
        let runs: Vec<RunId> = self.damages.ever.iter().copied().collect();
        let Some(run) = self.rng.pick(&runs).copied() else { return Ok(()) };
        if self.daemon.core.is_none() || self.stands_still() {
            return Ok(());
        }
        let reply = ReplyId(self.draw_id());
        self.forgotten.insert(reply);
        self.deliver(Input::Request { reply, request: Request::Release { run } })
    }

    /// The daemon is down, and the disk is not.
    pub(crate) fn wear_out_while_down(&mut self) {
        if self.scenario.damages && !self.is_calm() && self.rng.percent(60) {
            self.damage_row();
        }
    }

    /// Damages a row of a run that has not ended. Only of plans that are not another run's task: what an ask's session, a
    /// script's page or a parent would have to go through meanwhile does not concern the log.
    fn damage_row(&mut self) {
        let is_alone = |run: &&RunModel| run.is_plan_of_its_own();
        let plans = self.model.unfinished().filter(is_alone);
        let plans: Vec<RunId> =
            plans.map(|run| run.run).filter(|run| !self.damages.rows.contains_key(run)).collect();
        let Some(run) = self.rng.pick(&plans).copied() else { return };
        let Ok(rows) = self.disk.store.read_run(run, 0, usize::MAX, usize::MAX) else { return };
        let Some(position) = self.rng.pick(&rows).map(|row| row.position) else { return };
        let shard = home(run, &self.scenario.shards());
        if self.disk.store.damage(shard, position) {
            self.line(|| format!("-- row {} of run {run} is damaged", position.0));
            self.damages.rows.insert(run, (shard, position));
            self.damages.ever.insert(run);
        }
    }

    /// A damaged snapshot is none, and costs nobody anything.
    fn damage_snapshot(&mut self) {
        let runs: Vec<RunId> = self.model.unfinished().map(|run| run.run).collect();
        if let Some(run) = self.rng.pick(&runs).copied()
            && self.disk.store.damage_snapshot(run)
        {
            self.line(|| format!("-- the snapshot of run {run} is damaged"));
        }
    }

    /// The bytes of all rows are again what was written.
    pub(crate) fn restore_bytes(&mut self) {
        for (run, (shard, position)) in std::mem::take(&mut self.damages.rows) {
            self.line(|| format!("-- row {} of run {run} is whole again", position.0));
            self.disk.store.damage(shard, position);
        }
    }

    /// The rows of a shard as they were written, whatever the disk makes of them.
    pub(crate) fn written_rows(&self, shard: ShardId) -> Result<Vec<LogRow>, Violation> {
        let damaged = || self.damages.rows.values().filter(|(of, _)| *of == shard);
        for (_, position) in damaged() {
            self.disk.store.damage(shard, *position);
        }
        let rows = self.disk.store.read_log(shard, Position(0), usize::MAX, usize::MAX);
        for (_, position) in damaged() {
            self.disk.store.damage(shard, *position);
        }
        rows.map_err(|error| store_failed(&error))
    }

    /// A run goes into quarantine.
    pub(crate) fn check_quarantine(&self, run: RunId) -> Result<(), Violation> {
        Invariant::OnlyDamagedAreQuarantined
            .check(self.damages.was_damaged(run), || format!("run {run} goes into quarantine"))
    }

    /// After a claim, in quarantine is what is damaged and was read, and nothing else.
    pub(crate) fn check_quarantined(
        &self,
        shard: ShardId,
        touched: Option<&Touched>,
        recovered: &Recovered,
    ) -> Result<(), Violation> {
        let quarantined = self.disk.store.quarantined(shard, None, usize::MAX);
        let quarantined = quarantined.map_err(|error| store_failed(&error))?;
        for (run, quarantine) in &quarantined {
            Invariant::OnlyDamagedAreQuarantined.check(self.damages.rows.contains_key(run), || {
                format!("run {run} is whole, and in quarantine: {quarantine:?}")
            })?;
        }
        // Whoever is worked on was read as it was written, which is looked at for all runs.
        let works = |run: &RunId| {
            recovered.runs.iter().any(|(of, _)| of == run)
                || recovered.resting.iter().any(|(of, _)| of == run)
        };
        for run in self.damages.rows.iter().filter(|(_, (of, _))| *of == shard).map(|(run, _)| run) {
            let unfinished = self.model.run(*run).is_some_and(|run| run.finished.is_none());
            let is_read = touched.is_none_or(|touched| touched.runs.contains(run));
            let known = works(run) || quarantined.iter().any(|(of, _)| of == run);
            Invariant::OnlyDamagedAreQuarantined.check(!unfinished || !is_read || known, || {
                format!("run {run} is neither worked on nor in quarantine")
            })?;
        }
        Ok(())
    }

    /// Whether the run may be missing from the core: it was damaged, and is in quarantine or about to be.
    pub(crate) fn is_quarantined(&self, run: RunId) -> Result<bool, Violation> {
        if !self.damages.was_damaged(run) {
            return Ok(false);
        }
        let row = self.disk.store.get_run(run).map_err(|error| store_failed(&error))?;
        Ok(row.is_some_and(|row| row.quarantine.is_some()) || self.disk.is_about_to_quarantine(run))
    }

    /// Whether a client is told that the run is damaged, which it is; the service beside the core looks into the store where
    /// the core does not know the run any more.
    pub(crate) fn says_damaged(&self, answer: &Answer) -> Result<bool, Violation> {
        let declined = match answer {
            Answer::Start(Err(declined)) | Answer::Wait(Err(declined)) | Answer::Command(Err(declined)) => {
                declined
            }
            Answer::Wait(Ok(WaitReply::NotActive { run }))
            | Answer::Command(Ok(CommandReply::NotActive { run })) => {
                let unfinished = self.model.run(*run).is_some_and(|run| run.finished.is_none());
                return Ok(unfinished && self.is_quarantined(*run)?);
            }
            _ => return Ok(false),
        };
        let Declined::Damaged(damage) = declined else { return Ok(false) };
        self.check_quarantine(damage.run)?;
        Ok(true)
    }

    /// Whether the frame tells a worker that a damaged run does not need it any more.
    pub(crate) fn is_of_damaged(&self, frame: &Frame) -> bool {
        let lease = match frame {
            Frame::LeaseRevoked(revoked) => revoked.lease.as_ref(),
            Frame::ResultRefused(refused) => refused.lease.as_ref(),
            _ => None,
        };
        parse(lease).is_some_and(|(run, ..)| self.damages.was_damaged(run))
    }
}
