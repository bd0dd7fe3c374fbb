//! The campaign of failing calls: each call of the store to the file system fails once, in each way in which it can.
//!
//! A call that fails gives an error of the store, and no other kind of error. The store goes on without being opened again,
//! or, in half of the cases, the process ends at the error as if killed and the next one goes on. Either way everything that
//! was acknowledged is there afterwards, also when the power goes: what a failed sync was to write is lost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::Failure;
use crate::cut::Cut;
use crate::disk::Disk;
use crate::facts::{ErrorKind, Known};
use crate::power::{DATA, Scratch, Work, after, do_work, looked_at};
use crate::preload::{Fault, Recorder, Setting};
use crate::record::{self, Call, Record};
use crate::work::STOPPED;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `disk`, which also does the work.
    pub program: PathBuf,
    pub seed: u64,
    pub steps: u64,
    /// One of so many calls fails, each in turn.
    pub every: usize,
    /// So many calls are left out at first.
    pub skip: usize,
    /// Only calls of this name fail, such as `sync`.
    pub only: Option<String>,
    /// The most cases.
    pub cases: u64,
    /// End after so many violations.
    pub violations: usize,
    /// A folder for the records of cases with violations.
    pub keep: Option<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The calls of the work, without any fault.
    pub calls: u64,
    /// Pieces of work with one failing call each.
    pub cases: u64,
    /// Those in which the call was made; the number of a call depends on threads.
    pub met: u64,
    /// Those by call and way of failing.
    pub by_fault: BTreeMap<String, u64>,
    /// Those in which an operation of the store failed; in the others the store did without the call.
    pub told: u64,
    /// Those in which the process ended at the error and another one went on.
    pub restarted: u64,
    pub cuts: u64,
    /// The calls up to the last one that was made to fail.
    pub last: usize,
    pub violations: Vec<Found>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub fault: Fault,
    /// The path of the call, if it was met.
    pub path: String,
    pub stop_at_failure: bool,
    pub what: String,
}

/// The operations of a shard, as the work names them: whatever fails of them, it claims the shard again.
const OF_SHARD: [&str; 6] =
    ["claim", "commit", "write a snapshot", "put something down", "take something back", "sweep"];

/// How a call can fail.
fn kinds_of(call: &str) -> &'static [&'static str] {
    match call {
        "write" => &["eio", "enospc", "eintr", "short"],
        "read" | "truncate" => &["eio", "eintr"],
        "open" => &["eio", "emfile", "eintr"],
        "create" => &["eio", "enospc", "emfile"],
        "sync" => &["eio", "enospc", "eintr"],
        "rename" | "remove" | "make folder" | "link" => &["eio", "enospc"],
        "map" => &["enomem"],
        _ => &["eio"],
    }
}

/// Carries the campaign out; `tell` hears of every case.
///
/// # Errors
/// The work cannot be done or recorded. What the store does wrong is in the report.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&Report)) -> Result<Report, Failure> {
    let scratch = Scratch::new()?;
    let recorder = Recorder::build(&scratch.base)?;
    let mut campaign = Campaign { plan, scratch: &scratch, recorder: &recorder, report: Report::default() };
    let calls = campaign.calls()?;
    campaign.report.calls = calls.len() as u64;
    let chosen =
        calls.iter().enumerate().filter(|(_, call)| plan.only.as_ref().is_none_or(|name| *name == call.name));
    'calls: for (place, call) in chosen.skip(plan.skip).step_by(plan.every) {
        for kind in kinds_of(&call.name) {
            let report = &campaign.report;
            if report.cases >= plan.cases || report.violations.len() >= plan.violations {
                break 'calls;
            }
            let stop_at_failure = report.cases % 2 == 1;
            campaign.report.last = place + 1;
            campaign.case(Fault { name: call.name.clone(), number: call.number, kind }, stop_at_failure)?;
            tell(&campaign.report);
        }
    }
    Ok(campaign.report)
}

struct Campaign<'a> {
    plan: &'a Plan,
    scratch: &'a Scratch,
    recorder: &'a Recorder,
    report: Report,
}

impl Campaign<'_> {
    fn calls(&self) -> Result<Vec<Call>, Failure> {
        self.scratch.begin()?;
        let work = Work { seed: self.plan.seed, steps: self.plan.steps, stop_at_failure: false };
        let setting = Setting { calls: true, ..Setting::default() };
        let status = do_work(&self.plan.program, self.recorder, self.scratch, &work, &setting)?;
        if !status.success() {
            return Err(format!("the work without a fault ended with {status}").into());
        }
        let records = record::read(&self.scratch.record)?;
        Ok(records
            .into_iter()
            .filter_map(|record| if let Record::Called(call) = record { Some(call) } else { None })
            .collect())
    }

    fn case(&mut self, fault: Fault, stop_at_failure: bool) -> Result<(), Failure> {
        self.scratch.begin()?;
        let mut work = Work { seed: self.plan.seed, steps: self.plan.steps, stop_at_failure };
        let setting = Setting { fault: Some(fault.clone()), ..Setting::default() };
        let mut status = do_work(&self.plan.program, self.recorder, self.scratch, &work, &setting)?;
        if status.code() == Some(i32::from(STOPPED)) {
            self.report.restarted += 1;
            record::mend(&self.scratch.record)?;
            work = Work { seed: work.seed + 1, steps: work.steps / 3, stop_at_failure: false };
            status = do_work(&self.plan.program, self.recorder, self.scratch, &work, &Setting::default())?;
        }
        let records = record::read(&self.scratch.record)?;
        let failed = records
            .iter()
            .find_map(|record| if let Record::Failed(call) = record { Some(call) } else { None });
        self.report.cases += 1;
        if let Some(failed) = failed {
            self.report.met += 1;
            *self.report.by_fault.entry(format!("{} {}", failed.name, fault.kind)).or_default() += 1;
        }
        let mut found = Vec::new();
        if !status.success() {
            found.push(format!("the work ended with {status}"));
        }
        found.extend(self.cuts(&records, &fault)?);
        if let Some(folder) = self.plan.keep.as_ref().filter(|_| !found.is_empty()) {
            std::fs::create_dir_all(folder)?;
            let name = format!("{}-{}-{}-{stop_at_failure}", fault.name, fault.number, fault.kind);
            std::fs::copy(&self.scratch.record, folder.join(name))?;
        }
        for what in found {
            let path = failed.map(|call| call.path.clone()).unwrap_or_default();
            self.report.violations.push(Found { fault: fault.clone(), path, stop_at_failure, what });
        }
        Ok(())
    }

    /// What does not hold: in what was told, after a cut at two moments after the fault and at the end, and in the folder as
    /// it is.
    fn cuts(&mut self, records: &[Record], fault: &Fault) -> Result<Vec<String>, Failure> {
        let mut chance = fastrand::Rng::with_seed(self.plan.seed ^ fault.number << 20);
        let failed =
            records.iter().position(|record| matches!(record, Record::Failed(_))).unwrap_or_default();
        let last = records.len().saturating_sub(1);
        let moments = [chance.usize(failed..=last), chance.usize(failed..=last), last, last];
        let mut disk = Disk::new(&self.scratch.root.to_string_lossy());
        let (mut known, mut found) = (Known::default(), Vec::new());
        for (at, record) in records.iter().enumerate() {
            disk.take(record, &mut chance)?;
            if let Record::Note(fact) = record {
                known.take(fact);
            }
            let here = moments.iter().filter(|moment| **moment == at).count();
            for cut in [Cut::Lost, Cut::Scattered].into_iter().cycle().take(here) {
                self.report.cuts += 1;
                let what = after(&disk, cut, &mut chance, &known, &self.scratch.rebuilt)?;
                found.extend(what.map(|what| format!("after a cut ({cut:?} at {at} of {last}): {what}")));
            }
        }
        self.report.told += u64::from(!known.failures.is_empty());
        // SQLite takes a read that fails with EIO for damage. Where that could mislead anybody the store tries again.
        let is_read = fault.name == "read" && fault.kind == "eio";
        for (operation, kind, error) in &known.failures {
            let is_taken_for_damage =
                is_read && *kind == ErrorKind::Corrupt && OF_SHARD.contains(&operation.as_str());
            if *kind != ErrorKind::Io && !is_taken_for_damage {
                found.push(format!("{operation} failed as {kind:?}: {error}"));
            }
        }
        if known.reopened > 0 {
            found.push(format!("the store had to be opened again, after {:?}", known.failures));
        }
        if !known.ended {
            found.push("the work did not come to its end".to_owned());
        }
        found.extend(looked_at(&self.scratch.root.join(DATA), &known));
        Ok(found)
    }
}
