//! Several stores on one folder, and the write-ahead log under steady load.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use capataz_store::conformance::{
    ALL, SHARD, Shape, accept, claim, commit_one, creation, finish, more, run_id, whole_log,
};
use capataz_store::{AppendOutcome, Mark, Millis, Position, SqliteOptions, SqliteStore, Store};
use tempfile::tempdir;

#[test]
fn many_may_open_a_new_folder_at_once() {
    let folder = tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..8_u64 {
            let folder = folder.path();
            scope.spawn(move || {
                let store = SqliteStore::open(folder, SqliteOptions::default()).unwrap();
                store.put_blob(&number.to_le_bytes(), Millis(1)).unwrap();
                let mut writer = store.claim(SHARD, Mark(1 + number as u32)).unwrap();
                commit_one(&mut *writer, creation(number));
            });
        }
    });
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    assert_eq!(claim(&store).epoch().0, 9);
}

#[test]
fn a_second_daemon_fences_the_first() {
    let folder = tempdir().unwrap();
    let first = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let mut old = claim(&first);
    accept(&mut *old, &[creation(1)]);
    let second = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    assert_eq!(commit_one(&mut *old, more(1, 3, 1)), AppendOutcome::Committed(Position(2)));
    let mut new = claim(&second);
    assert_eq!(commit_one(&mut *old, more(1, 4, 1)), AppendOutcome::Fenced);
    assert_eq!(commit_one(&mut *new, more(1, 4, 1)), AppendOutcome::Committed(Position(3)));
    assert_eq!(whole_log(&first).len(), 3);
    // The first store claims the shard again.
    let mut again = claim(&first);
    assert_eq!(commit_one(&mut *new, more(1, 5, 1)), AppendOutcome::Fenced);
    assert_eq!(commit_one(&mut *again, finish(1, 5, 9)), AppendOutcome::Committed(Position(4)));
    // One of the stores ends; the other continues.
    drop((second, new));
    assert_eq!(commit_one(&mut *again, creation(2)), AppendOutcome::Committed(Position(5)));
    assert_eq!(first.get_run(run_id(1)).unwrap().unwrap().last_seq, 5);
}

#[test]
fn the_write_ahead_log_stays_short_under_steady_load() {
    const STEP: u64 = 256 << 10;
    let folder = tempdir().unwrap();
    let options = SqliteOptions { checkpoint_bytes: STEP, wal_limit_bytes: STEP, ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut writer = claim(&store);
    let done = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cursor = Position(0);
            while !done.load(Ordering::Relaxed) {
                let rows = store.read_log(SHARD, cursor, 100, ALL).unwrap();
                cursor = rows.last().map_or(Position(0), |row| row.position);
            }
        });
        let mut longest = 0;
        for number in 0..3_000 {
            accept(&mut *writer, &[creation(number).events(vec![7; 8_000])]);
            longest = longest.max(fs::metadata(folder.path().join("capataz.db-wal")).unwrap().len());
        }
        done.store(true, Ordering::Relaxed);
        longest
    });
    // All that was written is 24 MB, twice as much as the log may have on a machine that has other things to do.
    let written = fs::metadata(folder.path().join("capataz.db")).unwrap().len();
    assert!(written > 8 << 20, "checkpoints wrote {written} bytes");
    assert!(longest < 48 * STEP, "the log grew to {longest} bytes");
}

#[test]
fn temporary_blobs_go_when_no_store_is_open() {
    let folder = tempdir().unwrap();
    let open = || SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let store = open();
    let left = folder.path().join("blobs/tmp/left");
    fs::write(&left, "half a blob").unwrap();
    drop(open());
    assert!(left.exists(), "it may be another store's");
    drop(store);
    drop(open());
    assert!(!left.exists());
}
