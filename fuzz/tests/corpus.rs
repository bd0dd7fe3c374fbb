//! The committed corpus, and damaged copies of it, under every target: what CI runs of the search.
//!
//! `corpus/TARGET` has the seeds, what was written by hand, and whatever `cargo xtask fuzz` has found. An input that is there
//! keeps being tried. The seeds are written by `CAPATAZ_WRITE_CORPUS=1 cargo test -p capataz-fuzz`, which overwrites nothing.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::path::PathBuf;

use capataz_fuzz::{TARGETS, find, seeds};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The damaged copies that a target is given.
const COPIES: u32 = 400;

/// The most beginnings that are tried of one input.
const BEGINNINGS: usize = 24;

/// The most memory that a decoder may have at once for an input of this corpus. The largest is 16 KiB long.
const MEMORY: u64 = 32 * 1024 * 1024;

macro_rules! targets {
    ($($target:ident),* $(,)?) => {
        mod target {
            $(#[test] fn $target() { super::check(stringify!($target)); })*
        }
        const CHECKED: &[&str] = &[$(stringify!($target)),*];
    };
}

targets!(
    plan,
    pipeline,
    script,
    configuration,
    session_state,
    spec_file,
    spec_request,
    spec_response,
    schema,
    storage_state,
    texts,
    start_request,
    worker_frames,
    planner_answer,
    devtools,
    web_socket,
    cursor,
    log,
    run_snapshot,
    session_snapshot,
);

#[test]
fn every_target_is_checked() {
    let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(CHECKED, targets);
}

/// One change of an input.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Set(Index, u8),
    Flip(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    /// A part of another input.
    Take(Index, Index, Index, usize),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (place(), prop::sample::select(b"\0\x01\x7f\x80\xff\"{}[],:\\n09-eE.$".to_vec()))
            .prop_map(|(at, byte)| Damage::Set(at, byte)),
        (place(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (place(), 1..32usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        (place(), 1..32usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        (place(), place(), place(), 1..256usize)
            .prop_map(|(at, other, from, length)| Damage::Take(at, other, from, length)),
        place().prop_map(Damage::Cut),
    ]
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        if bytes.is_empty() {
            return;
        }
        let end = bytes.len();
        match self {
            Self::Set(at, byte) => bytes[at.index(end)] = byte,
            Self::Flip(at, bit) => bytes[at.index(end)] ^= 1 << bit,
            Self::Remove(at, length) => {
                let at = at.index(end);
                bytes.drain(at..end.min(at + length));
            }
            Self::Repeat(at, length) => {
                let at = at.index(end);
                let part = bytes[at..end.min(at + length)].to_vec();
                bytes.splice(at..at, part);
            }
            Self::Take(at, other, from, length) => {
                let other = other.get(corpus);
                let from = from.index(other.len().max(1)).min(other.len());
                let part = other[from..other.len().min(from + length)].to_vec();
                let at = at.index(end);
                bytes.splice(at..at, part);
            }
            Self::Cut(at) => bytes.truncate(at.index(end)),
        }
    }
}

fn check(name: &str) {
    let target = find(name).unwrap();
    let check = |bytes: &[u8]| {
        let measured = allocation_counter::measure(|| (target.check)(bytes));
        assert!(measured.bytes_max <= MEMORY, "{} bytes at once for {}", measured.bytes_max, bytes.len());
    };
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has a corpus");
    for bytes in &corpus {
        check(bytes);
        for end in (0..bytes.len()).step_by(bytes.len() / BEGINNINGS + 1) {
            check(&bytes[..end]);
        }
    }
    let config = Config { cases: COPIES, failure_persistence: None, ..Config::default() };
    let chance = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, chance);
    let copies = (any::<Index>(), vec(damage(), 1..6));
    let outcome = runner.run(&copies, |(of, damages)| {
        let mut bytes = of.get(&corpus).clone();
        damages.into_iter().for_each(|damage| damage.apply(&mut bytes, &corpus));
        check(&bytes);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for the files to be written")]
fn is_to_be_written() -> bool {
    std::env::var_os("CAPATAZ_WRITE_CORPUS").is_some()
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    if is_to_be_written() {
        write_seeds(target);
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn write_seeds(target: &str) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::create_dir_all(folder(target)).unwrap();
    for (name, bytes) in seeds::of(target, &root).unwrap() {
        let file = folder(target).join(name);
        if !file.exists() {
            fs::write(file, bytes).unwrap();
        }
    }
}
