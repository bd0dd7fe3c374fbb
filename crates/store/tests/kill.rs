//! Processes that are killed, and disks that lose data that was not synced.

#![expect(clippy::disallowed_types, reason = "starts itself as a program, to kill it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "it starts processes and ends them")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use capataz_store::conformance::{
    ALL, SHARD, Shape, accept, claim, creation, everything, more, run_id, whole_log,
};
use capataz_store::{AppendOutcome, LogRow, SqliteOptions, SqliteStore, Store};
use tempfile::tempdir;

/// The environment variable with the child's data folder.
const FOLDER: &str = "CAPATAZ_STORE_TEST_FOLDER";
const ACKNOWLEDGED: &str = "acknowledged ";
/// The numbers of acknowledgements after which the child is killed. Each round continues on the same folder.
const ROUNDS: [usize; 6] = [1, 40, 7, 300, 2, 120];

fn options() -> SqliteOptions {
    // The limit is small, so that the child is also killed within checkpoints.
    SqliteOptions { checkpoint_bytes: 100 << 10, ..SqliteOptions::default() }
}

/// The child's work until it is killed; not a test of its own.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = SqliteStore::open(Path::new(&folder), options()).unwrap();
    let mut writer = claim(&store);
    let first = store.list_runs(&everything()).unwrap().len() as u64;
    let mut output = std::io::stdout();
    for number in first.. {
        let appends =
            [creation(number).key(&format!("k{number}"), 1), more(number, 3, 2), more(number / 2, 5, 1)];
        let outcomes = writer.commit(&appends).unwrap();
        for (append, outcome) in appends.iter().zip(outcomes) {
            if let AppendOutcome::Committed(position) = outcome {
                // Each line is one write, so that no half line is left.
                let line = format!("\n{ACKNOWLEDGED}{} {} {}\n", append.run, append.last_seq(), position.0);
                output.write_all(line.as_bytes()).unwrap();
                output.flush().unwrap();
            }
        }
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let folder = tempdir().unwrap();
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut last_position = 0;
    for round in ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = 0;
        // The test reads until the pipe is empty and closed, which includes acknowledgements sent while the signal was
        // on its way.
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(words) = line.strip_prefix(ACKNOWLEDGED) else { continue };
            let [run, last_seq, position] = words.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            acknowledged.insert(run.to_owned(), last_seq.parse().unwrap());
            let position: u64 = position.parse().unwrap();
            assert!(position > last_position, "position {position} was used before");
            last_position = position;
            lines += 1;
            if lines == round {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success());
        assert!(lines >= round);

        let store = SqliteStore::open(folder.path(), options()).unwrap();
        for (run, last_seq) in &acknowledged {
            let row = store.get_run(run.parse().unwrap()).unwrap().unwrap();
            assert!(row.last_seq >= *last_seq, "run {run} ends at {}, not at {last_seq}", row.last_seq);
        }
        check_whole(&store);
        assert!(store.bounds(SHARD).unwrap().newest.0 >= last_position);
        last_position = store.bounds(SHARD).unwrap().newest.0;
    }
}

/// Checks that positions and sequence numbers have no gaps, and that the run list agrees.
#[track_caller]
fn check_whole(store: &SqliteStore) -> Vec<LogRow> {
    let rows = whole_log(store);
    let mut ends = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row.position.0, number as u64 + 1);
        assert!(row.events.is_some(), "a row is damaged");
        let end = ends.entry(row.run).or_insert(0);
        assert_eq!(row.first_seq, *end + 1);
        *end += u64::from(row.count);
    }
    let listed: BTreeMap<_, _> =
        store.list_runs(&everything()).unwrap().into_iter().map(|row| (row.run, row.last_seq)).collect();
    assert_eq!(listed, ends);
    let unfinished = store.unfinished(SHARD, None, ALL).unwrap();
    let runs: Vec<_> = unfinished.into_iter().map(|unfinished| unfinished.run).collect();
    assert_eq!(runs, listed.into_keys().collect::<Vec<_>>());
    rows
}

/// A power failure may leave any beginning of the part of the write-ahead log that was not synced. The remainder
/// consists of whole commits, starting with the first.
#[test]
fn a_cut_write_ahead_log_leaves_whole_commits() {
    const COMMITS: u64 = 30;
    const BATCH: u64 = 3;
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let mut writer = claim(&store);
    for commit in 0..COMMITS {
        let batch: Vec<_> =
            (0..BATCH).map(|number| creation(commit * BATCH + number).events(vec![7; 700])).collect();
        accept(&mut *writer, &batch);
    }
    let wal = fs::read(folder.path().join("capataz.db-wal")).unwrap();
    let mut seen = Vec::new();
    for cut in (0..=wal.len()).rev().step_by(wal.len() / 40) {
        let copy = tempdir().unwrap();
        fs::copy(folder.path().join("capataz.db"), copy.path().join("capataz.db")).unwrap();
        fs::write(copy.path().join("capataz.db-wal"), &wal[..cut]).unwrap();
        let Ok(store) = SqliteStore::open(copy.path(), SqliteOptions::default()) else {
            panic!("cut at {cut} of {}", wal.len());
        };
        let rows = check_whole(&store).len() as u64;
        assert_eq!(rows % BATCH, 0, "a part of a commit is visible");
        seen.push(rows);
        let mut writer = claim(&store);
        accept(&mut *writer, &[creation(1_000)]);
        assert_eq!(store.get_run(run_id(1_000)).unwrap().unwrap().last_seq, 2);
    }
    assert_eq!(seen.first(), Some(&(COMMITS * BATCH)));
    assert!(seen.is_sorted_by(|longer, shorter| longer >= shorter));
    assert!(seen.last() < seen.first());
}
