//! Totals of a campaign, kept by commit, so that a campaign goes on where the last call has stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::verdict::Verdict;

/// What the legs of a campaign add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// From which the seed of each leg follows.
    pub(crate) seed: u64,
    /// Storms that were judged.
    pub(crate) legs: u64,
    pub(crate) seconds: u64,
    /// How often each fault came.
    pub(crate) faults: BTreeMap<String, u64>,
    /// Runs whose start was acknowledged, those of them that have finished, and those that retention has removed.
    pub(crate) acknowledged: u64,
    pub(crate) finished: u64,
    pub(crate) removed: u64,
    /// What executions have come to, without which the findings say less.
    #[serde(default)]
    pub(crate) occasions: BTreeMap<String, u64>,
    /// Findings by their kind, also those of which there are none.
    pub(crate) findings: BTreeMap<String, u64>,
    /// The two longest turns of all daemons.
    pub(crate) longest_turns_ms: [i64; 2],
    pub(crate) peak_memory_kib: u64,
    /// What could not take part: faults that need it may be missing.
    pub(crate) absent: BTreeSet<Need>,
    /// Legs that speak against the daemon, or in which somebody did not do its part.
    pub(crate) failures: Vec<Failure>,
}

/// What a fault needs of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Need {
    Browser,
    /// Runs that the daemon works on in processes of its own, under shims: plans and scripts.
    Shims,
    /// The library for the daemon's clock and its disk.
    Weather,
}

impl Need {
    fn of(fault: &str) -> Option<Self> {
        match fault {
            "browser killed" => Some(Self::Browser),
            "shim killed" | "daemon killed with shims" => Some(Self::Shims),
            "clock set" | "disk failed" => Some(Self::Weather),
            _ => None,
        }
    }
}

/// A leg that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) leg: u64,
    pub(crate) seed: u64,
    /// Where its journals and logs are.
    pub(crate) folder: PathBuf,
    pub(crate) problems: Vec<String>,
}

/// The fault by which the length of a campaign is measured.
pub(crate) const KILLS: &str = "daemon killed";

impl Totals {
    /// Those of one leg.
    pub(crate) fn of(
        verdict: &Verdict,
        longest_turns_ms: [i64; 2],
        seconds: u64,
        absent: BTreeSet<Need>,
    ) -> Self {
        let named = |figures: &[(&str, u64)]| {
            figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect::<BTreeMap<_, _>>()
        };
        Self {
            seed: 0,
            legs: 1,
            seconds,
            faults: named(&verdict.faults()),
            acknowledged: verdict.acknowledged,
            finished: verdict.acknowledged_finished,
            removed: verdict.removed,
            occasions: named(&verdict.occasions()),
            findings: named(&verdict.findings().map(|(name, found)| (name, found.len() as u64))),
            longest_turns_ms,
            peak_memory_kib: verdict.peak_memory_kib,
            absent,
            failures: Vec::new(),
        }
    }

    /// Adds a leg's.
    pub(crate) fn add(&mut self, leg: &Self) {
        self.legs += leg.legs;
        self.seconds += leg.seconds;
        self.acknowledged += leg.acknowledged;
        self.finished += leg.finished;
        self.removed += leg.removed;
        self.absent.extend(&leg.absent);
        for (figures, added) in [
            (&mut self.faults, &leg.faults),
            (&mut self.occasions, &leg.occasions),
            (&mut self.findings, &leg.findings),
        ] {
            for (name, figure) in added {
                *figures.entry(name.clone()).or_default() += figure;
            }
        }
        let mut turns = [self.longest_turns_ms, leg.longest_turns_ms].concat();
        turns.sort_unstable_by(|one, other| other.cmp(one));
        if let &[longest, second, ..] = turns.as_slice() {
            self.longest_turns_ms = [longest, second];
        }
        self.peak_memory_kib = self.peak_memory_kib.max(leg.peak_memory_kib);
    }

    pub(crate) fn kills(&self) -> u64 {
        self.faults.get(KILLS).copied().unwrap_or_default()
    }

    /// Why the campaign cannot count as passed: what was found, which legs went wrong, and what never happened.
    pub(crate) fn problems(&self, kills: u64) -> Vec<String> {
        let found = self.findings.iter().filter(|(_, count)| **count > 0);
        let mut problems: Vec<String> = found.map(|(name, count)| format!("{count} {name}")).collect();
        for Failure { leg, seed, folder, problems: found } in &self.failures {
            let folder = folder.display();
            problems.push(format!("leg {leg}, seed {seed}, {folder}: {}", found.join("; ")));
        }
        if self.kills() < kills {
            problems.push(format!("not enough happened: {} kills, {kills} are wanted", self.kills()));
        }
        for (fault, count) in &self.faults {
            let is_possible = Need::of(fault).is_none_or(|need| !self.absent.contains(&need));
            if *count == 0 && is_possible {
                problems.push(format!("not enough happened: {fault} never"));
            }
        }
        problems
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} legs in {} s, seed {}", self.legs, self.seconds, self.seed)?;
        for (name, figure) in self.faults.iter().chain(&self.occasions).chain(&self.findings) {
            writeln!(f, "  {name:<26}{figure:>8}")?;
        }
        let runs = format!("finished of {}, {} removed by retention", self.acknowledged, self.removed);
        writeln!(f, "  {:<26}{:>8}  {runs}", "runs", self.finished)?;
        let [longest, second] = self.longest_turns_ms;
        writeln!(f, "  {:<26}{longest:>8}  ms, and {second} ms", "longest turns")?;
        writeln!(f, "  {:<26}{:>8}  MiB", "peak memory", self.peak_memory_kib / 1024)?;
        for absent in &self.absent {
            writeln!(f, "  SKIPPED in some legs: what needs {absent:?}")?;
        }
        Ok(())
    }
}

/// The totals of all commits.
#[derive(Debug, Default)]
pub(crate) struct Book {
    path: PathBuf,
    commits: BTreeMap<String, Totals>,
}

impl Book {
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let commits = match fs::read(path) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        Ok(Self { path: path.to_owned(), commits })
    }

    pub(crate) fn of(&self, commit: &str) -> Option<&Totals> {
        self.commits.get(commit)
    }

    /// Writes the totals of a commit. The file has the old ones or the new ones, whenever the program ends.
    pub(crate) fn write(&mut self, commit: &str, totals: &Totals) -> Outcome<()> {
        self.commits.insert(commit.to_owned(), totals.clone());
        let next = self.path.with_extension("next");
        fs::write(&next, serde_json::to_vec_pretty(&self.commits)?)?;
        Ok(fs::rename(&next, &self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(kills: u64) -> Totals {
        let faults = ["daemon killed", "clock set", "browser killed"].map(|name| (name.to_owned(), kills));
        Totals { seed: 7, legs: 1, faults: faults.into(), ..Totals::default() }
    }

    #[test]
    fn totals_are_those_of_their_commit_and_go_on_where_they_were() -> Outcome<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("totals.json");
        let mut book = Book::open(&path)?;
        assert_eq!(book.of("one"), None);
        book.write("one", &campaign(28))?;
        book.write("other", &campaign(3))?;
        let mut totals = Book::open(&path)?.of("one").cloned().unwrap_or_default();
        assert_eq!(totals, campaign(28));
        totals.add(&campaign(12));
        book.write("one", &totals)?;
        let book = Book::open(&path)?;
        assert_eq!(book.of("one").map(Totals::kills), Some(40));
        assert_eq!(book.of("other").map(Totals::kills), Some(3));
        Ok(())
    }

    #[test]
    fn a_campaign_is_clean_only_where_enough_happened_and_no_leg_went_wrong() {
        assert_eq!(campaign(28).problems(28), Vec::<String>::new());
        assert_eq!(campaign(27).problems(28), ["not enough happened: 27 kills, 28 are wanted"]);
        let mut without = campaign(28);
        without.faults.insert("browser killed".to_owned(), 0);
        assert_eq!(without.problems(28), ["not enough happened: browser killed never"]);
        without.absent.insert(Need::Browser);
        assert_eq!(without.problems(28), Vec::<String>::new());
        let mut failed = campaign(28);
        let problems = vec!["the daemon had ended by itself".to_owned()];
        failed.failures.push(Failure { leg: 2, seed: 8, folder: "somewhere".into(), problems });
        assert_eq!(failed.problems(28), ["leg 2, seed 8, somewhere: the daemon had ended by itself"]);
    }
}
