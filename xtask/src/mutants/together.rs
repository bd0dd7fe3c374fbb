//! Many mutants in one build, each tried by the tests that are built already, with a variable that turns it on.
//!
//! The build is in a copy of its own, and holds all chosen mutants, whether they are to be tried or not: it stays the same from
//! one call to the next, and so is built once for each commit. What a compile error is about is taken out again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::killers::{Killer, Killers};
use super::switches::{self, Switched, Wanted};
use super::{
    ALL, FOLDER, Mutant, PACKAGES, Profile, Search, Verdict, cargo_in, checked_out, digest, git, tested_by,
};
use crate::Outcome;

const TREE: &str = "tree-together";

/// Builds until every mutant that does not compile is out. An error of one kind hides those of the next.
const ROUNDS: usize = 60;

/// How long nextest may take to end the tests that it runs before it is killed itself.
const GRACE: Duration = Duration::from_secs(30);

/// Exit codes of nextest.
const PASSED: i32 = 0;
const FAILED: i32 = 100;

/// Tries those of the open mutants that one build can hold. The others are given back.
pub(super) fn search(
    search: &Search<'_>,
    pristine: &Path,
    chosen: &[Mutant],
    open: Vec<Mutant>,
    jobs: u8,
) -> Result<Vec<Mutant>, Box<dyn Error>> {
    let Some(built) = build(search, pristine, chosen, &open)? else { return Ok(open) };
    let (together, alone): (Vec<Mutant>, Vec<Mutant>) =
        open.into_iter().partition(|mutant| built.numbers.contains_key(&mutant.name));
    if together.is_empty() {
        return Ok(alone);
    }
    println!("mutants: {} are in one build, {} are not", together.len(), alone.len());
    built.is_green(&together)?;
    let mut queue: Vec<&Mutant> = together.iter().collect();
    // What has survived before takes the longest, and tells the least that is new.
    queue.sort_by_key(|mutant| (search.is_known(mutant), &mutant.package, &mutant.file));
    let work = Work {
        built: &built,
        search,
        all: together.len(),
        queue: Mutex::new(queue.into()),
        killers: Killers::default(),
        done: Mutex::new(0),
        begun: Instant::now(),
    };
    let work = &work;
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..jobs)
            .map(|job| scope.spawn(move || work.work(job).map_err(|error| error.to_string())))
            .collect();
        jobs.into_iter().try_for_each(|job| job.join().map_err(|_| "a job has panicked".to_owned())?)
    })?;
    Ok(alone)
}

/// What the jobs share.
struct Work<'a> {
    built: &'a Built,
    search: &'a Search<'a>,
    all: usize,
    queue: Mutex<VecDeque<&'a Mutant>>,
    killers: Killers,
    done: Mutex<usize>,
    begun: Instant,
}

impl Work<'_> {
    /// Tries one mutant after the other, until none is left. A job that fails leaves nothing to the others.
    fn work(&self, job: u8) -> Outcome {
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(mutant) = next else { return Ok(()) };
            let tried = self.built.attempt(mutant, &self.killers.likely(mutant), self.search.patience, job);
            let found = tried.and_then(|(verdict, killer)| {
                killer.into_iter().for_each(|killer| self.killers.note(mutant, &killer));
                self.found(mutant, verdict)
            });
            if let Err(error) = found {
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                return Err(error);
            }
        }
    }

    fn found(&self, mutant: &Mutant, verdict: Verdict) -> Outcome {
        if let Some(key) = self.search.keys.get(mutant) {
            self.search.found(key, verdict)?;
        }
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        *done += 1;
        let each = self.begun.elapsed().as_secs_f64() / *done as f64;
        let minutes = each * self.all.saturating_sub(*done) as f64 / 60.0;
        println!(
            "mutants: {} of {}, about {minutes:.0} min left: {} {}",
            *done,
            self.all,
            verdict.word(),
            mutant.name
        );
        Ok(())
    }
}

/// The tests with the switches in them.
struct Built {
    tree: PathBuf,
    /// What nextest has to know of them, so that it asks no cargo for each mutant.
    binaries: PathBuf,
    metadata: PathBuf,
    /// The numbers of the mutants that are in, by their names.
    numbers: BTreeMap<String, u32>,
}

impl Built {
    /// The tests succeed where no mutant is on: a test that fails anyway notices nothing.
    fn is_green(&self, mutants: &[Mutant]) -> Outcome {
        let of_each = mutants.iter().flat_map(|mutant| tested_by(&mutant.package));
        let tested: BTreeSet<&str> = of_each.map(|(tests, _)| *tests).collect();
        let packages: Vec<String> = tested.into_iter().map(of_package).collect();
        let status = self.nextest(&packages.join(" | "), ALL).arg("--status-level=fail").status()?;
        if status.success() { Ok(()) } else { Err("the tests fail without any change".into()) }
    }

    fn nextest(&self, tests: &str, profile: Profile) -> Command {
        let mut cargo = cargo_in(&self.tree);
        cargo.env_remove(switches::VARIABLE);
        cargo.args(["nextest", "run", "--binaries-metadata"]).arg(&self.binaries);
        cargo.arg("--cargo-metadata").arg(&self.metadata);
        cargo.args(["--profile", profile, "--filterset", tests]);
        cargo.args(["--final-status-level=none", "--show-progress=none"]);
        cargo
    }

    /// The verdict on this mutant, and what has caught it. What the likely tests miss is tried with those of its crate, and what
    /// those miss with the tests of the next.
    fn attempt(
        &self,
        mutant: &Mutant,
        likely: &BTreeSet<Killer>,
        patience: u32,
        job: u8,
    ) -> Result<(Verdict, Option<Killer>), Box<dyn Error>> {
        let number = self.numbers.get(&mutant.name).ok_or("a mutant is not in the build")?;
        let log = self.tree.with_extension(format!("{job}.log"));
        let likely: Vec<String> = likely.iter().map(Killer::filter).collect();
        let first = (!likely.is_empty()).then(|| (likely.join(" | "), ALL));
        let by_crates =
            tested_by(&mutant.package).iter().map(|(tests, profile)| (of_package(tests), *profile));
        for (tests, profile) in first.into_iter().chain(by_crates) {
            let output = File::create(&log)?;
            let mut cargo = self.nextest(&tests, profile);
            cargo
                .args(["--max-fail=1:immediate", "--status-level=fail"])
                .env(switches::VARIABLE, number.to_string());
            cargo.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
            let Some(status) = within(&mut cargo, Duration::from_secs(patience.into()))? else {
                return Ok((Verdict::Timeout, None));
            };
            let told = || fs::read_to_string(&log).unwrap_or_default();
            match status.code() {
                Some(PASSED) => {}
                Some(FAILED) => return Ok((Verdict::Caught, Killer::told(&told()))),
                _ => {
                    let told = told();
                    return Err(format!("{}: nextest ended with {status}:\n{told}", mutant.name).into());
                }
            }
        }
        Ok((Verdict::Missed, None))
    }
}

/// The tests of this package, in nextest's words.
fn of_package(name: &str) -> String {
    format!("package(={name})")
}

/// Waits so long; what has not ended by then is ended.
fn within(command: &mut Command, patience: Duration) -> Result<Option<ExitStatus>, io::Error> {
    let mut child = command.spawn()?;
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more where the search has ended.
        let _ = sender.send(child.wait());
    });
    match ended.recv_timeout(patience) {
        Ok(status) => return status.map(Some),
        Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("nobody waits for nextest")),
        Err(RecvTimeoutError::Timeout) => {}
    }
    // Nextest ends its tests when it is asked to end.
    signal("-TERM", id)?;
    if ended.recv_timeout(GRACE).is_err() {
        signal("-KILL", id)?;
        let _ = ended.recv();
    }
    Ok(None)
}

fn signal(name: &str, id: u32) -> Result<(), io::Error> {
    Command::new("kill").args([name, &id.to_string()]).stderr(Stdio::null()).status().map(drop)
}

/// A file of the four crates.
#[derive(Default)]
struct Source {
    original: String,
    /// Its mutants with their numbers.
    mutants: Vec<(u32, Mutant)>,
    switched: Switched,
}

impl Source {
    /// Puts in all mutants but these.
    fn switch(&mut self, file: &str, left_out: &BTreeSet<u32>) {
        let wanted = self.mutants.iter().filter(|(number, _)| !left_out.contains(number));
        let wanted: Vec<Wanted<'_>> = wanted
            .filter_map(|(number, mutant)| {
                let place = (mutant.line()?, mutant.column()?);
                let (genre, replacement) = (&*mutant.genre, &*mutant.replacement);
                Some(Wanted { number: *number, genre, replacement, place })
            })
            .collect();
        let switched = switches::put_in(&self.original, &wanted);
        self.switched = switched.unwrap_or_else(|_| Switched::unchanged(&self.original));
        if file.ends_with("/src/lib.rs") {
            let switched = std::mem::take(&mut self.switched);
            self.switched = switched.framed(switches::TOP, &switches::module());
        }
    }

    /// The mutants that are in, and in a function which has this line.
    fn at_line(&self, line: usize) -> BTreeSet<u32> {
        let at_line = self.mutants.iter().filter(|(number, mutant)| {
            self.switched.put_in.contains(number) && (mutant.function.0..=mutant.function.1).contains(&line)
        });
        at_line.map(|(number, _)| *number).collect()
    }
}

/// Builds the tests with all chosen mutants that can be in one build; none where no open one can.
fn build(
    search: &Search<'_>,
    pristine: &Path,
    chosen: &[Mutant],
    open: &[Mutant],
) -> Result<Option<Built>, Box<dyn Error>> {
    let mut sources = sources(pristine, chosen)?;
    let tree = copy(search.root, search.commit)?;
    let names: Vec<&str> = chosen.iter().map(|mutant| &*mutant.name).collect();
    let known = LeftOut {
        file: search.root.join(FOLDER).join("together.left"),
        build: format!("{:016x}", digest(&names)),
    };
    let mut left_out = known.read();
    for _ in 0..ROUNDS {
        for (name, source) in &mut sources {
            source.switch(name, &left_out);
        }
        let numbers: BTreeMap<String, u32> = sources
            .values()
            .flat_map(|source| {
                source.mutants.iter().filter(move |(number, _)| source.switched.put_in.contains(number))
            })
            .map(|(number, mutant)| (mutant.name.clone(), *number))
            .collect();
        if !open.iter().any(|mutant| numbers.contains_key(&mutant.name)) {
            return Ok(None);
        }
        for (name, source) in &sources {
            write(&tree.join(name), &source.switched.text)?;
        }
        println!("mutants: {} in one build", numbers.len());
        let errors = compile(&tree)?;
        if errors.is_empty() {
            return listed(tree, numbers).map(Some);
        }
        let blamed: BTreeSet<u32> = errors.iter().flat_map(|error| blamed(&sources, error)).collect();
        println!("mutants: {} errors, {} mutants taken out", errors.len(), blamed.len());
        if blamed.is_empty() {
            let texts = errors.iter().filter_map(|error| error["rendered"].as_str());
            println!(
                "{}\nmutants: these errors are of no mutant; each is tried by a build of its own",
                texts.collect::<Vec<_>>().join("\n")
            );
            return Ok(None);
        }
        left_out.extend(blamed);
        known.write(&left_out)?;
    }
    println!("mutants: there are still errors after {ROUNDS} builds; each is tried by a build of its own");
    Ok(None)
}

/// The texts of the crates, with the mutants of each.
fn sources(pristine: &Path, chosen: &[Mutant]) -> Result<BTreeMap<String, Source>, Box<dyn Error>> {
    let folders = PACKAGES.map(|package| format!("crates/{package}/src"));
    let mut arguments = vec!["ls-files", "--"];
    arguments.extend(folders.iter().map(String::as_str));
    let files = git(pristine, &arguments)?;
    let mut sources = BTreeMap::new();
    for file in files.lines().filter(|file| file.ends_with(".rs")) {
        let original = fs::read_to_string(pristine.join(file))?;
        sources.insert(file.to_owned(), Source { original, ..Source::default() });
    }
    for (number, mutant) in (1..).zip(chosen) {
        if let Some(source) = sources.get_mut(&mutant.file) {
            source.mutants.push((number, mutant.clone()));
        }
    }
    Ok(sources)
}

/// The copy that is built. What is in it already stays, so that it is not built again.
fn copy(root: &Path, commit: &str) -> Result<PathBuf, Box<dyn Error>> {
    let tree = root.join(FOLDER).join(TREE);
    if tree.join(".git").exists() && git(&tree, &["rev-parse", "--short=12", "HEAD"])? == commit {
        return Ok(tree);
    }
    checked_out(root, TREE)
}

/// Cargo builds again what has another time, whatever is in it.
fn write(file: &Path, text: &str) -> Result<(), io::Error> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(file, text)
}

/// Builds the tests of the crates: the errors.
fn compile(tree: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut cargo = cargo_in(tree);
    cargo.args(["test", "--no-run", "--message-format=json"]).args(all_packages());
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let errors: Vec<Value> = text.lines().filter_map(error).collect();
    if errors.is_empty() { Err("the tests do not build; see above".into()) } else { Ok(errors) }
}

fn all_packages() -> impl Iterator<Item = String> {
    PACKAGES.into_iter().map(|package| format!("--package=capataz-{package}"))
}

/// The error in this line of cargo's, where it is one with a place.
fn error(line: &str) -> Option<Value> {
    let mut line: Value = serde_json::from_str(line).ok()?;
    let message = line.get_mut("message")?.take();
    let is_one = message["level"].as_str().is_some_and(|level| level.starts_with("error"));
    (is_one && message["spans"].as_array().is_some_and(|spans| !spans.is_empty())).then_some(message)
}

/// The mutants that an error is about: those whose own text it points at, or else all that it may be about.
fn blamed(sources: &BTreeMap<String, Source>, error: &Value) -> BTreeSet<u32> {
    let spans = |of: &Value| of["spans"].as_array().cloned().unwrap_or_default();
    let own = spans(error);
    let notes: Vec<Value> = error["children"].as_array().into_iter().flatten().flat_map(&spans).collect();
    let is_primary = |span: &&Value| span["is_primary"].as_bool() == Some(true);
    let primary: Vec<Place<'_>> =
        own.iter().filter(is_primary).filter_map(|span| place(sources, span)).collect();
    let all: Vec<Place<'_>> = own.iter().chain(&notes).filter_map(|span| place(sources, span)).collect();
    let guesses: [BTreeSet<u32>; 5] = [
        primary.iter().flat_map(|place| place.source.switched.around(&place.bytes)).collect(),
        all.iter().flat_map(|place| place.source.switched.around(&place.bytes)).collect(),
        primary.iter().flat_map(|place| place.source.switched.within(&place.bytes)).collect(),
        primary.iter().flat_map(|place| place.source.switched.behind(&place.bytes)).collect(),
        primary.iter().flat_map(|place| place.source.at_line(place.line)).collect(),
    ];
    guesses.into_iter().find(|guess| !guess.is_empty()).unwrap_or_default()
}

/// Where an error points at.
struct Place<'a> {
    source: &'a Source,
    bytes: Range<usize>,
    line: usize,
}

/// The place of a span in one of these files; what is inside of another crate's macro is where that is called.
fn place<'a>(sources: &'a BTreeMap<String, Source>, span: &Value) -> Option<Place<'a>> {
    let number = |key: &str| usize::try_from(span[key].as_u64()?).ok();
    if let Some(source) = sources.get(span["file_name"].as_str()?) {
        let bytes = number("byte_start")?..number("byte_end")?;
        return Some(Place { source, bytes, line: number("line_start")? });
    }
    place(sources, &span["expansion"]["span"])
}

/// What nextest has to know of the tests that were built.
fn listed(tree: PathBuf, numbers: BTreeMap<String, u32>) -> Result<Built, Box<dyn Error>> {
    let (binaries, metadata) = (tree.with_extension("binaries.json"), tree.with_extension("cargo.json"));
    let mut nextest = cargo_in(&tree);
    nextest.args(["nextest", "list", "--list-type=binaries-only", "--message-format=json"]);
    told(nextest.args(all_packages()), &binaries)?;
    told(cargo_in(&tree).args(["metadata", "--format-version=1", "--all-features", "--no-deps"]), &metadata)?;
    Ok(Built { tree, binaries, metadata, numbers })
}

/// Writes down what a command tells.
fn told(command: &mut Command, file: &Path) -> Outcome {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the tests that were built are not known; see above".into());
    }
    Ok(fs::write(file, output.stdout)?)
}

/// The numbers of those that did not compile, so that the next call need not find them again.
struct LeftOut {
    file: PathBuf,
    /// A digest of the mutants that were chosen. A change of what is around them leaves one out that might compile by now: it
    /// is tried by a build of its own, as before.
    build: String,
}

impl LeftOut {
    fn read(&self) -> BTreeSet<u32> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(&*self.build) {
            return BTreeSet::new();
        }
        lines.filter_map(|line| line.parse().ok()).collect()
    }

    fn write(&self, numbers: &BTreeSet<u32>) -> Result<(), io::Error> {
        let numbers = numbers.iter().map(u32::to_string);
        let lines: Vec<String> = [self.build.clone()].into_iter().chain(numbers).collect();
        fs::write(&self.file, lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "fn f() {\n    g(a + b)\n}\nfn h() {\n    !c\n}\n";

    fn mutant(genre: &str, place: &str, replacement: &str, function: (usize, usize)) -> Mutant {
        Mutant {
            file: "a.rs".to_owned(),
            name: format!("a.rs:{place}: {replacement}"),
            package: "engine".to_owned(),
            function,
            genre: genre.to_owned(),
            replacement: replacement.to_owned(),
        }
    }

    fn with_switches(left_out: &[u32]) -> BTreeMap<String, Source> {
        let mutants = [
            (1, mutant("BinaryOperator", "2:9", "-", (1, 3))),
            (2, mutant("BinaryOperator", "2:9", "*", (1, 3))),
            (3, mutant("UnaryOperator", "5:5", "", (4, 6))),
        ];
        let mut source = Source { original: TEXT.to_owned(), mutants: mutants.into(), ..Source::default() };
        source.switch("a.rs", &left_out.iter().copied().collect());
        BTreeMap::from([("a.rs".to_owned(), source)])
    }

    /// A span around these words.
    fn span(sources: &BTreeMap<String, Source>, words: &str, is_primary: bool) -> Value {
        let text = &sources["a.rs"].switched.text;
        let start = text.find(words).unwrap();
        json!({
            "file_name": "a.rs", "byte_start": start, "byte_end": start + words.len(),
            "line_start": text[..start].matches('\n').count() + 1, "is_primary": is_primary,
        })
    }

    #[test]
    fn mutants_are_put_in_but_for_those_that_are_left_out() {
        let put_in = |left_out: &[u32]| with_switches(left_out)["a.rs"].switched.put_in.clone();
        assert_eq!(put_in(&[]), BTreeSet::from([1, 2, 3]));
        assert_eq!(put_in(&[2]), BTreeSet::from([1, 3]));
        assert_eq!(with_switches(&[1, 2, 3])["a.rs"].switched.text, TEXT);
    }

    #[test]
    fn an_error_is_of_the_mutant_that_it_points_at_or_of_all_that_it_may_be_of() {
        let sources = with_switches(&[]);
        let of = |spans: Vec<Value>| blamed(&sources, &json!({ "spans": spans }));
        let span = |words: &str, is_primary| span(&sources, words, is_primary);
        assert_eq!(of(vec![span("a - b", true)]), BTreeSet::from([1]));
        // What it points at beside is better than what is around.
        assert_eq!(of(vec![span("a + b", true), span("a * b", false)]), BTreeSet::from([2]));
        assert_eq!(of(vec![span("a + b", true)]), BTreeSet::from([1, 2]));
        // The function has none but these two.
        assert_eq!(of(vec![span("fn f()", true)]), BTreeSet::from([1, 2]));
        assert_eq!(of(vec![span("fn h()", true)]), BTreeSet::from([3]));
        let note =
            json!({ "spans": [span("fn f()", true)], "children": [{ "spans": [span("a * b", true)] }] });
        assert_eq!(blamed(&sources, &note), BTreeSet::from([2]));
    }

    #[test]
    fn an_error_inside_of_a_macro_is_where_that_is_called() {
        let sources = with_switches(&[]);
        let inside = json!({
            "file_name": "/std/macros.rs", "byte_start": 1, "byte_end": 2, "line_start": 1, "is_primary": true,
            "expansion": { "span": span(&sources, "a - b", false) },
        });
        assert_eq!(blamed(&sources, &json!({ "spans": [inside] })), BTreeSet::from([1]));
        let nowhere = json!({ "file_name": "/std/macros.rs", "is_primary": true, "expansion": null });
        assert_eq!(blamed(&sources, &json!({ "spans": [nowhere] })), BTreeSet::new());
    }

    #[test]
    fn an_error_is_read_where_it_has_a_place_and_a_warning_is_none() {
        let line = |level: &str, spans: Value| {
            let message = json!({ "level": level, "spans": spans });
            json!({ "reason": "compiler-message", "message": message }).to_string()
        };
        assert!(error(&line("error", json!([{}]))).is_some());
        assert!(error(&line("error: internal compiler error", json!([{}]))).is_some());
        assert!(error(&line("error", json!([]))).is_none());
        assert!(error(&line("warning", json!([{}]))).is_none());
        assert!(error("{\"reason\":\"build-finished\",\"success\":false}").is_none());
        assert!(error("   Compiling").is_none());
    }

    #[test]
    fn what_did_not_compile_is_known_for_the_same_build_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |build: &str| LeftOut { file: folder.path().join("left"), build: build.to_owned() };
        assert_eq!(of("a").read(), BTreeSet::new());
        of("a").write(&BTreeSet::from([3, 14])).unwrap();
        assert_eq!(of("a").read(), BTreeSet::from([3, 14]));
        assert_eq!(of("b").read(), BTreeSet::new());
    }

    #[test]
    fn a_command_is_waited_for_and_ended_when_it_takes_too_long() {
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            shell
        };
        let status = within(&mut shell("exit 100"), Duration::MAX).unwrap().unwrap();
        assert_eq!(status.code(), Some(FAILED));
        assert!(within(&mut shell("exec sleep 3600"), Duration::ZERO).unwrap().is_none());
    }
}
