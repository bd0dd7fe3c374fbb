//! Mutants that no build holds beside others: `cargo-mutants` writes one after the other into a copy, and builds it each time.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use super::{Mutant, Profile, Search, Verdict, cargo_in, git, tested_by};
use crate::Outcome;

/// Mutants of one call of cargo-mutants: what is lost at most when it is interrupted.
const BATCH: usize = 20;

/// Tries these mutants, in as many copies at a time as there are.
pub(super) fn search(
    search: &Search<'_>,
    trees: &[PathBuf],
    packages: &[String],
    open: &[Mutant],
) -> Outcome {
    for package in packages {
        let mut of_package: Vec<&Mutant> = open.iter().filter(|mutant| mutant.package == *package).collect();
        if of_package.is_empty() {
            continue;
        }
        of_package.sort_by(|one, other| one.file.cmp(&other.file));
        let of_files = of_package.chunk_by(|one, other| one.file == other.file);
        let batches = Mutex::new(of_files.flat_map(|of_file| of_file.chunks(BATCH)).collect());
        let work = Work { search, package };
        thread::scope(|scope| {
            let jobs = trees.iter().map(|tree| {
                let (work, batches) = (&work, &batches);
                scope.spawn(move || work.work(tree, batches).map_err(|error| error.to_string()))
            });
            let jobs: Vec<_> = jobs.collect();
            jobs.into_iter().try_for_each(|job| job.join().map_err(|_| "a job has panicked".to_owned())?)
        })?;
    }
    Ok(())
}

/// The search through the mutants of one package.
struct Work<'a> {
    search: &'a Search<'a>,
    package: &'a str,
}

impl Work<'_> {
    /// Tries one batch after the other in this copy, until none is left.
    fn work(&self, tree: &Path, batches: &Mutex<Vec<&[&Mutant]>>) -> Outcome {
        are_green(tree, self.package)?;
        loop {
            let Some(batch) = batches.lock().unwrap_or_else(PoisonError::into_inner).pop() else {
                return Ok(());
            };
            let tried = self.attempt(tree, batch)?;
            for (name, verdict) in tried {
                let known = self.search.keys.iter().find(|(mutant, _)| mutant.name == name);
                if let Some((_, key)) = known {
                    self.search.found(key, verdict)?;
                }
            }
            self.search.summary();
        }
    }

    /// The verdicts on these mutants, which are of one file, by their names. What the tests of one crate miss is tried with
    /// those of the next: most are caught by the tests beside them, whose build is the shortest.
    fn attempt(&self, tree: &Path, batch: &[&Mutant]) -> Result<BTreeMap<String, Verdict>, Box<dyn Error>> {
        let mut verdicts = BTreeMap::new();
        let mut open = batch.to_vec();
        for tests in tested_by(self.package) {
            let tried = attempt(tree, self.package, *tests, self.search.patience, &open)?.into_iter();
            // Of what nobody has asked for, a mutant that other tests have caught may be among these.
            verdicts.extend(tried.filter(|(name, verdict)| {
                *verdict == Verdict::Caught || open.iter().any(|mutant| mutant.name == *name)
            }));
            open.retain(|mutant| verdicts.get(&mutant.name) == Some(&Verdict::Missed));
            if open.is_empty() {
                break;
            }
        }
        // cargo-mutants tries every field that may be left out, whatever it is asked for: what nobody has tried with all
        // tests is not known to survive.
        verdicts.retain(|name, verdict| {
            *verdict != Verdict::Missed || batch.iter().any(|mutant| mutant.name == *name)
        });
        Ok(verdicts)
    }
}

/// The tests succeed where nothing is changed: a test that fails anyway notices nothing.
fn are_green(tree: &Path, package: &str) -> Outcome {
    let mut cargo = cargo_in(tree);
    cargo.args(["nextest", "run", "--status-level=none"]);
    for (tested, _) in tested_by(package) {
        cargo.args(["--package", tested]);
    }
    if cargo.status()?.success() { Ok(()) } else { Err("the tests fail without any change".into()) }
}

/// Tries these mutants, which are of one file, with the tests of one crate.
fn attempt(
    tree: &Path,
    package: &str,
    (tests, profile): (&str, Profile),
    patience: u32,
    batch: &[&Mutant],
) -> Result<Vec<(String, Verdict)>, Box<dyn Error>> {
    let folder = tree.with_extension("out");
    let output = folder.join("mutants.out/outcomes.json");
    let _ = fs::remove_file(&output);
    let name = format!("capataz-{package}");
    let mut cargo = cargo_in(tree);
    cargo.env("NEXTEST_PROFILE", profile).args([
        "mutants",
        "--in-place",
        "--no-shuffle",
        "--colors=never",
        "--package",
        &name,
        "--baseline=skip",
        "--timeout",
        &patience.to_string(),
        "--test-tool=nextest",
        "--test-package",
        tests,
        "--output",
    ]);
    cargo.arg(&folder);
    if let Some(mutant) = batch.first() {
        cargo.args(["--file", &mutant.file]);
        // The fields that may be left out heed no `--re`, but they heed this.
        let touched = folder.with_extension("diff");
        fs::write(&touched, diff(&mutant.file, &fs::read_to_string(tree.join(&mutant.file))?, batch))?;
        cargo.arg("--in-diff").arg(touched);
    }
    for mutant in batch {
        cargo.arg("--re").arg(format!("^{}$", escaped(&mutant.name)));
    }
    // Survivors are a result, and so is the exit code that tells of them.
    cargo.status()?;
    git(tree, &["checkout", "--force", "."])?;
    let outcomes: Value = serde_json::from_slice(&fs::read(&output)?)?;
    let verdicts = outcomes["outcomes"].as_array().into_iter().flatten().filter_map(|outcome| {
        let name = outcome["scenario"]["Mutant"]["name"].as_str()?;
        Some((name.to_owned(), Verdict::read(outcome["summary"].as_str()?)?))
    });
    let verdicts: Vec<_> = verdicts.collect();
    if verdicts.is_empty() { Err("cargo-mutants has tried nothing; see above".into()) } else { Ok(verdicts) }
}

/// A diff of the file that touches the lines at which these mutants begin.
fn diff(file: &str, text: &str, batch: &[&Mutant]) -> String {
    let lines: BTreeSet<usize> = batch.iter().filter_map(|mutant| mutant.line()).collect();
    let mut diff = format!("--- a/{file}\n+++ b/{file}\n");
    for number in lines {
        let Some(line) = text.lines().nth(number.saturating_sub(1)) else { continue };
        diff.push_str(&format!("@@ -{number},1 +{number},1 @@\n-\n+{line}\n"));
    }
    diff
}

/// The name as a regular expression that it alone matches.
fn escaped(name: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$#&-~".contains(c);
    name.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::mutant;
    use super::*;

    #[test]
    fn a_diff_touches_the_lines_at_which_mutants_begin_each_once() {
        let (one, two) = (mutant("a.rs", 1, "x"), mutant("a.rs", 3, "y"));
        let beyond = mutant("a.rs", 9, "z");
        assert_eq!(
            diff("a.rs", "fn f() {\n    g()\n}\n", &[&two, &one, &two, &beyond]),
            "--- a/a.rs\n+++ b/a.rs\n@@ -1,1 +1,1 @@\n-\n+fn f() {\n@@ -3,1 +3,1 @@\n-\n+}\n"
        );
    }

    #[test]
    fn a_name_matches_itself_alone() {
        assert_eq!(escaped("a.rs:1:2: replace + with -"), r"a\.rs:1:2: replace \+ with \-");
    }
}
