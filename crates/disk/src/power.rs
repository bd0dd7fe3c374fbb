//! The campaign of power cuts: the store works under the recorder, and its folder is built as it may be after a cut at many
//! moments.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde::Serialize;
use tempfile::TempDir;

use crate::Failure;
use crate::cut::Cut;
use crate::disk::Disk;
use crate::facts::{Fact, Known};
use crate::look::{Violation, look};
use crate::preload::{Recorder, Setting};
use crate::record::{self, Record};
use crate::served::{self, Capataz};

/// Cuts within the work of one seed.
const POINTS_PER_ROUND: u64 = 250;

/// After one of so many cuts under a daemon the daemon itself is started, unless somebody wants more of them.
pub const STARTS: u64 = 20;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `disk`, which also does the work.
    pub program: PathBuf,
    /// The first seed; each round of work has the next one.
    pub seed: u64,
    pub points: u64,
    /// Steps of the work in each round.
    pub steps: u64,
    /// A pattern of paths whose syncs are not made, to show that the campaign finds it.
    pub dropped: Option<String>,
    /// The program `capataz`: it does the work instead of the store alone.
    pub capataz: Option<PathBuf>,
    /// After one of so many cuts under a daemon the daemon itself is started; 1 is each.
    pub starts: u64,
    /// End after so many violations.
    pub violations: usize,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub rounds: u64,
    pub points: u64,
    pub by_cut: BTreeMap<Cut, u64>,
    /// Cuts at a moment at which something was not durable.
    pub in_doubt: u64,
    /// Cuts after which the daemon itself was started.
    pub started: u64,
    pub records: u64,
    /// What was acknowledged, and was looked for after each later cut.
    pub facts: u64,
    pub violations: Vec<Found>,
}

/// A folder on which a promise does not hold.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub seed: u64,
    /// The number of records before the cut.
    pub at: u64,
    pub cut: Cut,
    pub what: String,
}

/// Folders of one piece of work.
#[derive(Debug)]
pub struct Scratch {
    _folder: TempDir,
    pub base: PathBuf,
    /// What is recorded: an empty folder at the beginning.
    pub root: PathBuf,
    pub record: PathBuf,
    /// Where a folder after a cut is built.
    pub rebuilt: PathBuf,
}

/// The data folder below the root: the store makes the folder above it as well.
pub const DATA: &str = "above/data";

impl Scratch {
    /// # Errors
    /// There is no place for it.
    pub fn new() -> Result<Self, Failure> {
        // In memory, where there is such a place: what a sync does is in the record, and need not be waited for.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => TempDir::with_prefix_in("capataz-disk-", memory)?,
            false => TempDir::with_prefix("capataz-disk-")?,
        };
        let base = folder.path().canonicalize()?;
        let (root, record, rebuilt) = (base.join("root"), base.join("record"), base.join("rebuilt"));
        fs::create_dir(&root)?;
        Ok(Self { _folder: folder, base, root, record, rebuilt })
    }

    /// An empty folder and record for the next piece of work.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn begin(&self) -> std::io::Result<()> {
        fs::remove_dir_all(&self.root)?;
        fs::create_dir(&self.root)?;
        if self.record.exists() {
            fs::remove_file(&self.record)?;
        }
        Ok(())
    }
}

/// Carries the campaign out; `tell` hears of every round.
///
/// # Errors
/// The work cannot be done or recorded. What the store does wrong is in the report.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&Report)) -> Result<Report, Failure> {
    let scratch = Scratch::new()?;
    let recorder = Recorder::build(&scratch.base)?;
    let capataz = plan.capataz.as_ref().map(|program| Capataz::new(program, &scratch.base)).transpose()?;
    let mut report = Report::default();
    while report.points < plan.points && report.violations.len() < plan.violations {
        let seed = plan.seed + report.rounds;
        scratch.begin()?;
        let setting = Setting { dropped: plan.dropped.clone(), ..Setting::default() };
        match &capataz {
            Some(capataz) => capataz.work(&recorder, &scratch, seed, &setting)?,
            None => {
                let work = Work { seed, steps: plan.steps, stop_at_failure: false };
                let status = do_work(&plan.program, &recorder, &scratch, &work, &setting)?;
                if !status.success() {
                    return Err(format!("the work of seed {seed} ended with {status}").into());
                }
            }
        }
        let records = record::read(&scratch.record)?;
        let points = POINTS_PER_ROUND.min(plan.points - report.points);
        let capataz = capataz.as_ref();
        let (starts, most) = (plan.starts, plan.violations);
        let mut round = Round { scratch: &scratch, capataz, seed, starts, most, report: &mut report };
        round.cuts(&records, points)?;
        report.rounds += 1;
        tell(&report);
    }
    Ok(report)
}

/// One piece of work.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub seed: u64,
    pub steps: u64,
    pub stop_at_failure: bool,
}

/// Has another process do the work under the recorder.
///
/// # Errors
/// The program cannot be started.
pub fn do_work(
    program: &Path,
    recorder: &Recorder,
    scratch: &Scratch,
    work: &Work,
    setting: &Setting,
) -> Result<ExitStatus, Failure> {
    let mut command = Command::new(program);
    command.arg("work").arg("--data").arg(scratch.root.join(DATA)).arg("--record").arg(&scratch.record);
    command.args(["--seed", &work.seed.to_string(), "--steps", &work.steps.to_string()]);
    if work.stop_at_failure {
        command.arg("--stop-at-failure");
    }
    recorder.load(&mut command, &scratch.root, &scratch.record, setting);
    Ok(command.status()?)
}

/// The cuts within one record.
struct Round<'a> {
    scratch: &'a Scratch,
    capataz: Option<&'a Capataz>,
    seed: u64,
    starts: u64,
    most: usize,
    report: &'a mut Report,
}

impl Round<'_> {
    fn cuts(&mut self, records: &[Record], points: u64) -> Result<(), Failure> {
        let mut chance = fastrand::Rng::with_seed(self.seed);
        let all = records.len() as u64;
        // One in each part of the record, so that no part is left out.
        let mut moments =
            (0..points).map(|point| (point * all + chance.u64(..all.max(1))) / points).collect::<Vec<u64>>();
        moments.sort_unstable();
        let mut moments = moments.into_iter().peekable();
        let mut disk = Disk::new(&self.scratch.root.to_string_lossy());
        let (mut known, mut lost) = (Known::default(), fastrand::Rng::with_seed(self.seed));
        for (at, record) in (0..).zip(records) {
            disk.take(record, &mut lost)?;
            if let Record::Note(fact) = record {
                known.take(fact);
                if let Fact::Failed { error, .. } = fact {
                    return Err(format!("a call of the store failed, and nothing was wrong: {error}").into());
                }
            }
            while moments.next_if(|moment| *moment == at).is_some() {
                let cut = Cut::ALL[usize::try_from(self.report.points).unwrap_or_default() % Cut::ALL.len()];
                self.report.points += 1;
                self.report.in_doubt += u64::from(disk.is_in_doubt());
                *self.report.by_cut.entry(cut).or_default() += 1;
                if let Some(what) = self.after(&disk, cut, &mut chance, &known)? {
                    self.report.violations.push(Found { seed: self.seed, at, cut, what });
                    if self.report.violations.len() == self.most {
                        return Ok(());
                    }
                }
            }
        }
        self.report.records += all;
        self.report.facts += known.facts;
        Ok(())
    }

    fn after(
        &mut self,
        disk: &Disk,
        cut: Cut,
        chance: &mut fastrand::Rng,
        known: &Known,
    ) -> Result<Option<String>, Failure> {
        let Some(capataz) = self.capataz else {
            return after(disk, cut, chance, known, &self.scratch.rebuilt);
        };
        rebuild(disk, cut, chance, &self.scratch.rebuilt)?;
        let data = self.scratch.rebuilt.join(DATA);
        let found = contained(&mut || served::look(&data, known));
        if found.is_some() || !self.report.points.is_multiple_of(self.starts) {
            return Ok(found);
        }
        self.report.started += 1;
        Ok(capataz.is_served(&data, known).err().map(|error| error.to_string()))
    }
}

/// Builds the folder after a cut and looks at it; the violation, if there is one.
///
/// # Errors
/// The folder cannot be built.
pub fn after(
    disk: &Disk,
    cut: Cut,
    chance: &mut fastrand::Rng,
    known: &Known,
    rebuilt: &Path,
) -> Result<Option<String>, Failure> {
    rebuild(disk, cut, chance, rebuilt)?;
    Ok(looked_at(&rebuilt.join(DATA), known))
}

fn rebuild(disk: &Disk, cut: Cut, chance: &mut fastrand::Rng, rebuilt: &Path) -> Result<(), Failure> {
    if rebuilt.exists() {
        fs::remove_dir_all(rebuilt)?;
    }
    cut.build(disk, chance, rebuilt)
}

/// What does not hold in a folder; a panic does not hold either.
#[must_use]
pub fn looked_at(data: &Path, known: &Known) -> Option<String> {
    contained(&mut || look(data, known))
}

fn contained(look: &mut dyn FnMut() -> Result<(), Violation>) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(look)) {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation.0),
        Err(_) => Some("the store panicked".to_owned()),
    }
}
