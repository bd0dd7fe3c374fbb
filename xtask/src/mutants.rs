//! `cargo xtask mutants`: changes one place of the rules after the other, and sees whether a test notices.
//!
//! `cargo-mutants` names the changes; it is installed by `cargo install cargo-mutants --locked`. All mutants of the fold,
//! lifecycle, retry, aggregation and commits are tried, and a sample of the rest, which a seed draws. Most are compiled into
//! one build, each behind a switch (`switches`), and tried by tests that are built already (`together`); `cargo-mutants` tries
//! the others, each by a build of its own (`alone`). All that is done in copies of the commit that is checked out, below
//! `target/mutants`, and each result is written down at once in `xtask/mutants.tsv`: a search that was interrupted goes on, on
//! another machine as well, and the result of a mutant counts as long as its function stays the same, but for one that
//! survived, which is tried again on each commit. A survivor either gets a test, or a line with its reason in
//! `xtask/mutants.txt`.

mod alone;
mod killers;
mod switches;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use serde_json::Value;

use crate::Outcome;
use crate::codegen::project_root;

/// The crates whose rules are changed.
const PACKAGES: [&str; 4] = ["policy", "engine", "shard", "store"];

/// The places where every mutant is tried.
const WHOLE: [&str; 6] = [
    "crates/engine/src/fold/",
    "crates/policy/src/lifecycle.rs",
    "crates/policy/src/retry/",
    "crates/policy/src/aggregation/",
    "crates/shard/src/commits.rs",
    "crates/shard/src/journal.rs",
];

/// Tests for other crates, and what these are made of: nothing tests them in turn.
const TESTS: [&str; 2] = ["crates/store/src/builders.rs", "crates/store/src/conformance/"];

/// Mutants that are tried elsewhere.
const SAMPLE: usize = 300;

/// A profile of nextest.
type Profile = &'static str;

/// Every test.
const ALL: Profile = "default";

/// Those that take no seconds: a mutant that they miss is tried with all.
const QUICK: Profile = "quick";

const FOLDER: &str = "target/mutants";
/// What was found so far, in the repository: a search goes on from there on every machine.
const RESULTS: &str = "xtask/mutants.tsv";
const REASONS: &str = "xtask/mutants.txt";

#[derive(Args)]
pub struct Options {
    /// Change these crates only: policy, engine, shard, store
    #[arg(long, short)]
    package: Vec<String>,
    /// Try so many mutants at most, and go on from there at the next call
    #[arg(long)]
    most: Option<usize>,
    /// What the sample is drawn by
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try so many at a time; what needs a build of its own, each in a copy of its own
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,
    /// Seconds that the tests of one mutant may take before it counts as one that never ends; more on a busy machine
    #[arg(long, default_value_t = 120)]
    patience: u32,
    /// Try only what fits into one build, and leave the others, which take a build each, for another time
    #[arg(long)]
    together: bool,
    /// Try nothing; print what there is
    #[arg(long)]
    summary: bool,
}

/// One change of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mutant {
    file: String,
    /// What cargo-mutants calls it, with line and column.
    name: String,
    package: String,
    /// The first and the last line of the function that it changes, from 1; those of the change where it is in none.
    function: (usize, usize),
    /// The kind, in the word of cargo-mutants.
    genre: String,
    /// What it writes there; nothing where something is left out.
    replacement: String,
}

impl Mutant {
    fn is_of_the_whole(&self) -> bool {
        WHOLE.iter().any(|place| self.file.starts_with(place))
    }

    /// The line at which it begins, from 1.
    fn line(&self) -> Option<usize> {
        self.name.strip_prefix(&self.file)?.split(':').nth(1)?.parse().ok()
    }

    /// The column at which it begins, from 1.
    fn column(&self) -> Option<usize> {
        self.name.strip_prefix(&self.file)?.split(':').nth(2)?.parse().ok()
    }

    /// What a result is known by: a digest of the function in this text of its file, and the change with its place in there.
    fn key(&self, text: &str) -> Key {
        let (first, last) = self.function;
        let function: Vec<&str> = text.lines().take(last).skip(first.saturating_sub(1)).collect();
        let line = self.line().unwrap_or_default().saturating_sub(first);
        let column = self.column().unwrap_or_default();
        (format!("{:016x}", digest(&function)), format!("{} +{line}:{column}", self.change()))
    }

    /// The name without line and column, by which a reason is found.
    fn change(&self) -> String {
        let rest = self.name.strip_prefix(&self.file).unwrap_or(&self.name);
        let change = rest.splitn(4, ':').nth(3).unwrap_or(rest);
        format!("{}:{change}", self.file)
    }
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Caught,
    Missed,
    Timeout,
    Unviable,
}

impl Verdict {
    const ALL: [(&'static str, Self); 4] = [
        ("caught", Self::Caught),
        ("missed", Self::Missed),
        ("timeout", Self::Timeout),
        ("unviable", Self::Unviable),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, verdict)| *verdict == self).map_or("", |(word, _)| word)
    }

    /// The verdict in this word, or in the word of cargo-mutants for it.
    fn read(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let word = word.strip_suffix("mutant").unwrap_or(&word);
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, verdict)| *verdict)
    }
}

/// A digest of the function, and the change of it.
type Key = (String, String);

/// Commits and verdicts.
type Results = BTreeMap<Key, (String, Verdict)>;

pub fn run(options: &Options) -> Outcome {
    let root = project_root()?;
    let packages = match options.package.as_slice() {
        [] => PACKAGES.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    if let Some(unknown) = packages.iter().find(|name| !PACKAGES.contains(&name.as_str())) {
        return Err(format!("{unknown:?} is not one of {}", PACKAGES.join(", ")).into());
    }
    require("mutants")?;
    require("nextest")?;
    fs::create_dir_all(root.join(FOLDER))?;
    let commit = git(&root, &["rev-parse", "--short=12", "HEAD"])?;
    let trees = (0..options.jobs)
        .map(|job| checked_out(&root, &format!("tree-{job}")))
        .collect::<Result<Vec<_>, _>>()?;
    let first = trees.first().ok_or("there is no copy to work in")?;
    let chosen = chosen(list(first, &packages)?, options.seed);
    let keys = keys(first, &chosen)?;
    let mut results = read_results(&root)?;
    if !options.summary {
        let open = |mutant: &&Mutant| match results.get(&keys[*mutant]) {
            Some((on, Verdict::Missed)) => *on != commit,
            Some(_) => false,
            None => true,
        };
        let open: Vec<Mutant> =
            chosen.iter().filter(open).take(options.most.unwrap_or(usize::MAX)).cloned().collect();
        println!("mutants: {} chosen, {} to be tried", chosen.len(), open.len());
        let known = Mutex::new(results);
        let search =
            Search { root: &root, commit: &commit, keys: &keys, patience: options.patience, results: &known };
        let alone = together::search(&search, first, &chosen, open, options.jobs)?;
        if options.together {
            println!("mutants: {} need a build of their own, and are left for another time", alone.len());
        } else {
            alone::search(&search, &trees, &packages, &alone)?;
        }
        results = known.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    summary(&keys, &results);
    without_reason(&root, &keys, &results)
}

/// What a search knows, whichever way a mutant is tried.
struct Search<'a> {
    root: &'a Path,
    commit: &'a str,
    keys: &'a BTreeMap<Mutant, Key>,
    /// Seconds.
    patience: u32,
    results: &'a Mutex<Results>,
}

impl Search<'_> {
    /// Writes a verdict down at once.
    fn found(&self, key: &Key, verdict: Verdict) -> Outcome {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        write_result(self.root, self.commit, key, verdict)?;
        results.insert(key.clone(), (self.commit.to_owned(), verdict));
        Ok(())
    }

    /// Whether there is a verdict, of whatever commit.
    fn is_known(&self, mutant: &Mutant) -> bool {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        self.keys.get(mutant).is_some_and(|key| results.contains_key(key))
    }

    fn summary(&self) {
        summary(self.keys, &self.results.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn require(tool: &str) -> Outcome {
    let version = crate::cargo::command().args([tool, "--version"]).output();
    if version.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(format!("cargo-{tool} is not installed: `cargo install cargo-{tool} --locked`").into())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
    let output = Command::new("git").current_dir(root).args(arguments).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A copy of the commit, in which places are changed: nobody's own files are. What was built in it stays.
fn checked_out(root: &Path, name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let tree = root.join(FOLDER).join(name);
    if tree.join(".git").exists() {
        git(&tree, &["checkout", "--force", "--detach", &git(root, &["rev-parse", "HEAD"])?])?;
    } else {
        git(root, &["worktree", "prune"])?;
        git(root, &["worktree", "add", "--force", "--detach", &tree.to_string_lossy(), "HEAD"])?;
    }
    Ok(tree)
}

/// All mutants of these crates.
fn list(tree: &Path, packages: &[String]) -> Result<Vec<Mutant>, Box<dyn std::error::Error>> {
    let mut mutants = Vec::new();
    for package in packages {
        let name = format!("capataz-{package}");
        let output = crate::cargo::command()
            .current_dir(tree)
            .args(["mutants", "--list", "--json", "--package", &name])
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let listed: Value = serde_json::from_slice(&output.stdout)?;
        let text = |mutant: &Value, key: &str| mutant[key].as_str().unwrap_or_default().to_owned();
        mutants.extend(listed.as_array().into_iter().flatten().map(|mutant| Mutant {
            file: text(mutant, "file"),
            name: text(mutant, "name"),
            package: package.clone(),
            function:
                lines(&mutant["function"]["span"]).or_else(|| lines(&mutant["span"])).unwrap_or_default(),
            genre: text(mutant, "genre"),
            replacement: text(mutant, "replacement"),
        }));
    }
    mutants.retain(|mutant| !TESTS.iter().any(|place| mutant.file.starts_with(place)));
    mutants.sort();
    mutants.dedup();
    Ok(mutants)
}

/// The first and the last line of a span.
fn lines(span: &Value) -> Option<(usize, usize)> {
    let line = |end: &str| usize::try_from(span[end]["line"].as_u64()?).ok();
    Some((line("start")?, line("end")?))
}

/// All mutants of the places that are tried as a whole, and the sample.
fn chosen(all: Vec<Mutant>, seed: u64) -> Vec<Mutant> {
    let (mut chosen, mut rest): (Vec<Mutant>, Vec<Mutant>) =
        all.into_iter().partition(Mutant::is_of_the_whole);
    rest.sort_by_key(|mutant| digest(&(seed, mutant.change())));
    chosen.extend(rest.into_iter().take(SAMPLE));
    chosen
}

/// The same on every machine, as long as the standard library stays: nobody else has to know it.
fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What the results of these mutants are known by.
fn keys(tree: &Path, mutants: &[Mutant]) -> Result<BTreeMap<Mutant, Key>, std::io::Error> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut keys = BTreeMap::new();
    for mutant in mutants {
        if !texts.contains_key(&*mutant.file) {
            texts.insert(&mutant.file, fs::read_to_string(tree.join(&mutant.file))?);
        }
        let text = texts.get(&*mutant.file).map_or("", String::as_str);
        keys.insert(mutant.clone(), mutant.key(text));
    }
    Ok(keys)
}

fn results_file(root: &Path) -> PathBuf {
    root.join(RESULTS)
}

fn read_results(root: &Path) -> Result<Results, std::io::Error> {
    let mut results = Results::new();
    if !results_file(root).exists() {
        return Ok(results);
    }
    for line in fs::read_to_string(results_file(root))?.lines() {
        let mut columns = line.splitn(4, '\t');
        let (Some(commit), Some(digest), Some(word), Some(name)) =
            (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        if let Some(verdict) = Verdict::read(word) {
            results.insert((digest.to_owned(), name.to_owned()), (commit.to_owned(), verdict));
        }
    }
    Ok(results)
}

fn write_result(root: &Path, commit: &str, (digest, name): &Key, verdict: Verdict) -> Outcome {
    let mut file = OpenOptions::new().create(true).append(true).open(results_file(root))?;
    Ok(writeln!(file, "{commit}\t{digest}\t{}\t{name}", verdict.word())?)
}

/// Cargo in a copy. What a search builds needs no lines to look at.
fn cargo_in(tree: &Path) -> Command {
    let mut cargo = crate::cargo::command();
    cargo.current_dir(tree).env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_TEST_DEBUG", "0");
    cargo
}

/// The crates whose tests have to notice: rules are tested where they are, and in the crate above, since `shard` drives the
/// engine, and the engine the policies.
fn tested_by(package: &str) -> &'static [(&'static str, Profile)] {
    match package {
        "policy" => &[("capataz-policy", ALL), ("capataz-engine", QUICK), ("capataz-engine", ALL)],
        "engine" => &[("capataz-engine", QUICK), ("capataz-engine", ALL), ("capataz-shard", ALL)],
        "shard" => &[("capataz-shard", QUICK), ("capataz-shard", ALL)],
        _ => &[("capataz-store", ALL)],
    }
}

fn summary(keys: &BTreeMap<Mutant, Key>, results: &Results) {
    for (name, is_whole) in [("whole", true), ("sample", false)] {
        let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
        let mut open = 0;
        for (_, key) in keys.iter().filter(|(mutant, _)| mutant.is_of_the_whole() == is_whole) {
            match results.get(key) {
                Some((_, verdict)) => *counts.entry(*verdict).or_default() += 1,
                None => open += 1,
            }
        }
        let count = |verdict| counts.get(&verdict).copied().unwrap_or_default();
        // A test that never ends has noticed, too.
        let caught = count(Verdict::Caught) + count(Verdict::Timeout);
        let viable = caught + count(Verdict::Missed);
        let share = 100.0 * caught as f64 / viable.max(1) as f64;
        println!(
            "mutants: {name}: {caught} of {viable} viable ones caught ({share:.1} %), {} do not compile, {open} open",
            count(Verdict::Unviable)
        );
    }
}

/// The survivors for which there is no reason.
fn without_reason(root: &Path, keys: &BTreeMap<Mutant, Key>, results: &Results) -> Outcome {
    let reasons = fs::read_to_string(root.join(REASONS))?;
    let known: BTreeSet<&str> =
        reasons.lines().filter_map(|line| line.split_once(" # ")).map(|(name, _)| name).collect();
    let survives = |mutant: &Mutant, key: &Key| {
        matches!(results.get(key), Some((_, Verdict::Missed))) && !known.contains(&*mutant.change())
    };
    let survivors = keys.iter().filter(|(mutant, key)| survives(mutant, key));
    let lines: Vec<&str> = survivors.map(|(mutant, _)| &*mutant.name).collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(format!("{} survive, and no line of {REASONS} says why:\n  {}", lines.len(), lines.join("\n  "))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn mutant(file: &str, line: u32, change: &str) -> Mutant {
        let name = format!("{file}:{line}:9: {change}");
        let line = line as usize;
        Mutant {
            file: file.to_owned(),
            name,
            package: "engine".to_owned(),
            function: (line, line + 1),
            genre: "BinaryOperator".to_owned(),
            replacement: "-".to_owned(),
        }
    }

    #[test]
    fn a_result_counts_wherever_its_function_has_gone_and_until_that_is_another_one() {
        let key = |text: &str, first: u32| {
            let change = mutant("a.rs", first + 1, "replace + with -");
            let first = first as usize;
            Mutant { function: (first, first + 2), ..change }.key(text)
        };
        let early = key("fn f() {\n    1 + 1\n}\n", 1);
        assert_eq!(early.1, "a.rs: replace + with - +1:9");
        assert_eq!(early, key("use b;\n\nfn f() {\n    1 + 1\n}\nfn g() {}\n", 3));
        assert_ne!(early, key("fn f() {\n    1 + 2\n}\n", 1));
        // The same change at another place of the same function is another mutant.
        let [one, other] = [2, 3].map(|line| Mutant { function: (1, 4), ..mutant("a.rs", line, "x") });
        assert_ne!(one.key("a\nb\nc\nd"), other.key("a\nb\nc\nd"));
    }

    #[test]
    fn a_mutant_is_known_by_its_change_wherever_its_line_has_gone() {
        let (early, late) = (
            mutant("a.rs", 7, "replace f -> bool with true"),
            mutant("a.rs", 70, "replace f -> bool with true"),
        );
        assert_eq!(early.change(), late.change());
        assert_eq!(early.change(), "a.rs: replace f -> bool with true");
    }

    #[test]
    fn what_is_tried_as_a_whole_is_no_sample_and_a_seed_draws_the_rest() {
        let mut all: Vec<Mutant> =
            (0..3).map(|line| mutant("crates/engine/src/fold/mod.rs", line, "x")).collect();
        all.extend(
            (0..1_000).map(|line| mutant("crates/engine/src/view.rs", line, &format!("replace {line}"))),
        );
        let (first, again, other) = (chosen(all.clone(), 1), chosen(all.clone(), 1), chosen(all, 2));
        assert_eq!(first.len(), 3 + SAMPLE);
        assert_eq!(first, again);
        assert_ne!(first, other);
    }

    #[test]
    fn verdicts_are_read_as_they_are_written_and_as_cargo_mutants_calls_them() {
        for (word, verdict) in Verdict::ALL {
            assert_eq!(Verdict::read(word), Some(verdict));
            assert_eq!(Verdict::read(verdict.word()), Some(verdict));
        }
        assert_eq!(Verdict::read("CaughtMutant"), Some(Verdict::Caught));
        assert_eq!(Verdict::read("Success"), None);
    }
}
