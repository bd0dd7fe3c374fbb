//! Rules for reading the log: order, pages, readers beside the writer.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::port::{BlobHash, Bounds, History, Position};

pub fn concurrent_readers_see_whole_commits_in_order<S: Subject>() {
    const COMMITS: u64 = 100;
    const BATCH: u64 = 8;
    let (_subject, store, mut writer) = claimed::<S>();
    let failed = AtomicBool::new(false);
    let follow = |pages: usize| {
        let mut cursor = Position(0);
        while cursor < Position(COMMITS * BATCH) && !failed.load(Ordering::Relaxed) {
            let rows = store.read_log(SHARD, cursor, pages, ALL).unwrap();
            if rows.len() < pages {
                // The reader saw everything, because it ended at the end of a commit.
                assert_eq!((cursor.0 + rows.len() as u64) % BATCH, 0);
            }
            for row in rows {
                assert_eq!(row.position.0, cursor.0 + 1, "a reader met a gap");
                assert_eq!(row.run, run_id(cursor.0));
                cursor = row.position;
            }
            assert!(store.bounds(SHARD).unwrap().newest >= cursor);
        }
    };
    std::thread::scope(|scope| {
        for pages in [5, ALL] {
            scope.spawn(move || follow(pages));
        }
        for commit in 0..COMMITS {
            let appends: Vec<_> = (0..BATCH).map(|number| creation(commit * BATCH + number)).collect();
            let done =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| accept(&mut *writer, &appends)));
            if let Err(panic) = done {
                failed.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(panic);
            }
        }
    });
}

pub fn log_pages_are_bounded<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let appends: Vec<_> = (0..5).map(|number| creation(number).events(vec![7; 100])).collect();
    accept(&mut *writer, &appends);
    let positions = |after, max_rows, max_bytes| -> Vec<u64> {
        let rows = store.read_log(SHARD, Position(after), max_rows, max_bytes).unwrap();
        rows.iter().map(|row| row.position.0).collect()
    };
    assert_eq!(positions(0, ALL, ALL), [1, 2, 3, 4, 5]);
    assert_eq!(positions(0, 2, ALL), [1, 2]);
    assert_eq!(positions(2, 2, ALL), [3, 4]);
    assert_eq!(positions(0, ALL, 0), [1], "the first row comes whatever its size");
    assert_eq!(positions(1, ALL, 199), [2]);
    assert_eq!(positions(1, ALL, 200), [2, 3]);
    assert_eq!(positions(5, ALL, ALL), [0; 0]);
    assert_eq!(positions(u64::MAX, ALL, ALL), [0; 0]);
    assert_eq!(positions(0, 0, ALL), [0; 0]);
    assert_eq!(positions(0, usize::MAX, usize::MAX), [1, 2, 3, 4, 5]);
}

pub fn run_pages_begin_where_asked<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // The run's rows are 1..=2, 3..=5, 6 and 7..=10, with another run in between.
    accept(
        &mut *writer,
        &[creation(1), creation(2), more(1, 3, 3), more(2, 3, 9), more(1, 6, 1), more(1, 7, 4)],
    );
    let rows = |after, max_rows, max_bytes| -> Vec<u64> {
        let rows = store.read_run(run_id(1), after, max_rows, max_bytes).unwrap();
        assert!(rows.iter().all(|row| row.run == run_id(1)));
        rows.iter().map(|row| row.first_seq).collect()
    };
    assert_eq!(rows(0, ALL, ALL), [1, 3, 6, 7]);
    assert_eq!(rows(1, ALL, ALL), [1, 3, 6, 7], "event 2 is beyond 1");
    assert_eq!(rows(2, ALL, ALL), [3, 6, 7]);
    assert_eq!(rows(4, ALL, ALL), [3, 6, 7]);
    assert_eq!(rows(5, 2, ALL), [6, 7]);
    assert_eq!(rows(5, ALL, 1), [6]);
    assert_eq!(rows(9, ALL, ALL), [7]);
    assert_eq!(rows(10, ALL, ALL), [0; 0]);
    assert_eq!(rows(u64::MAX, ALL, ALL), [0; 0]);
    assert_eq!(store.read_run(run_id(3), 0, ALL, ALL).unwrap(), []);
    assert_eq!(store.read_run(run_id(2), 2, ALL, ALL).unwrap(), [more(2, 3, 9).row(4)]);
}

pub fn nothing_is_found_in_an_empty_store<S: Subject>() {
    let subject = S::fresh();
    let store = subject.store();
    assert_eq!(whole_log(&store), []);
    assert_eq!(store.bounds(SHARD).unwrap(), Bounds::default());
    assert_eq!(store.get_run(run_id(1)).unwrap(), None);
    assert_eq!(store.list_runs(&everything()).unwrap(), []);
    assert_eq!(store.unfinished(SHARD, None, ALL).unwrap(), []);
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
    assert_eq!(store.agents().unwrap(), []);
    assert_eq!(store.quarantined(SHARD, None, ALL).unwrap(), []);
    assert_eq!(store.history(SHARD).unwrap(), History::default());
    assert_eq!(store.blob_size(BlobHash([0; 32])).unwrap(), None);
    assert_eq!(store.read_blob(BlobHash([0; 32]), 0, 1).unwrap(), None);
    let swept = claim(&store).sweep(&keep()).unwrap();
    assert_eq!(swept, Default::default());
}
