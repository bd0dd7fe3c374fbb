//! Databases that are damaged, foreign, newer, full or out of reach. Each gives an error that says so, never a panic,
//! and never a fresh database in place of the old one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod format_2;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_store::conformance::{
    ALL, SHARD, Shape, accept, claim, creation, everything, finish, ids, keep, listed, memory_row, more,
    remembered, run_id, updated, whole_log,
};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{
    Append, AppendOutcome, BlobHash, LogRow, Mark, MemoryChange, Mended, Millis, Place, Position, Quarantine,
    QuarantineReason, Removal, Retention, RunId, RunQuery, ShardWriter, Snapshot, SqliteOptions, SqliteStore,
    Store, StoreError, Swept, entry_id,
};
use format_2::BACK_TO_FORMAT_2;
use tempfile::{TempDir, tempdir};

const PAGE: u64 = 4096;

fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(folder, SqliteOptions::default())
}

/// A closed database with `runs` runs, so that it has pages to lose.
fn filled(runs: u64) -> TempDir {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let appends: Vec<_> =
        (0..runs).map(|number| creation(number).label("team", "a").events(vec![7; 1_000])).collect();
    accept(&mut *writer, &appends);
    folder
}

/// The result as text, for comparison: the kind of error and its message.
fn refusal(result: Result<SqliteStore, StoreError>) -> String {
    match result.unwrap_err() {
        StoreError::Corrupt { detail } => format!("corrupt: {detail}"),
        StoreError::TooNew { found, supported } => format!("too new: {found} > {supported}"),
        StoreError::Io { operation, source } => format!("io: {operation}: {source}"),
        StoreError::Closed => "closed".to_owned(),
    }
}

#[track_caller]
fn check(result: Result<SqliteStore, StoreError>, expected: &str) {
    let refusal = refusal(result);
    assert!(refusal.starts_with(expected), "{refusal}");
}

fn execute(folder: &Path, sql: &str) {
    rusqlite::Connection::open(folder.join(DATABASE_FILE)).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn an_empty_file_is_a_fresh_database() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join(DATABASE_FILE), "").unwrap();
    let store = open(folder.path()).unwrap();
    accept(&mut *claim(&store), &[creation(1)]);
}

#[test]
fn a_missing_folder_is_made() {
    let folder = tempdir().unwrap();
    let deep = folder.path().join("a/b");
    drop(open(&deep).unwrap());
    assert!(deep.join(DATABASE_FILE).is_file());
}

#[test]
fn garbage_is_no_database() {
    for content in ["x", "no database", &"no database ".repeat(10_000)] {
        let folder = tempdir().unwrap();
        let file = folder.path().join(DATABASE_FILE);
        fs::write(&file, content).unwrap();
        check(open(folder.path()), "corrupt: the file");
        assert_eq!(fs::read_to_string(&file).unwrap(), *content, "it was not touched");
    }
}

#[test]
fn a_database_of_another_program_is_left_alone() {
    let folder = tempdir().unwrap();
    execute(folder.path(), "CREATE TABLE theirs (x); PRAGMA user_version = 1");
    check(open(folder.path()), "corrupt: it is the database of another program");
}

#[test]
fn a_file_that_lost_its_end_is_damaged() {
    let whole = filled(200);
    let length = fs::metadata(whole.path().join(DATABASE_FILE)).unwrap().len();
    for kept in [50, 100, PAGE - 1, PAGE, length / 2, length - PAGE, length - 1] {
        let folder = tempdir().unwrap();
        let file = folder.path().join(DATABASE_FILE);
        fs::copy(whole.path().join(DATABASE_FILE), &file).unwrap();
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(kept).unwrap();
        check(open(folder.path()), "corrupt: the file");
    }
}

#[test]
fn a_write_ahead_log_without_its_database_is_kept() {
    let folder = tempdir().unwrap();
    let wal = folder.path().join("capataz.db-wal");
    fs::write(&wal, vec![1; 10_000]).unwrap();
    check(open(folder.path()), "corrupt: the file is empty, but its write-ahead log is not");
    assert_eq!(fs::metadata(wal).unwrap().len(), 10_000);
}

/// Changes columns of one row behind the store's back: none of them is believed any more.
#[test]
fn a_row_with_a_changed_column_is_damaged() {
    let whole = filled(3);
    let rows = whole_log(&open(whole.path()).unwrap());
    for change in [
        "events = x'00'",
        "events = zeroblob(1000)",
        "events = 'text'",
        "first_seq = 5",
        "first_seq = -1",
        "count = 1",
        "count = -1",
        "count = 'x'",
        "run = (SELECT max(run) FROM runs)||x''",
        "run = x'07'",
        "run = 'text'",
        "checksum = NULL",
        "checksum = checksum + 1",
        "checksum = 'x'",
        "position = 9",
        "inherited = 1",
    ] {
        let folder = tempdir().unwrap();
        fs::copy(whole.path().join(DATABASE_FILE), folder.path().join(DATABASE_FILE)).unwrap();
        execute(folder.path(), &format!("UPDATE log SET {change} WHERE position = 1"));
        let store = open(folder.path()).unwrap();
        let read = whole_log(&store);
        assert_eq!(read.len(), rows.len(), "{change}");
        let (damaged, others): (Vec<LogRow>, Vec<LogRow>) =
            read.into_iter().partition(|row| row.events.is_none());
        assert_eq!(damaged.len(), 1, "{change}");
        assert_eq!(others, rows[1..], "{change}");
        // Whoever reads the run sees that not all is there.
        let of_run = store.read_run(run_id(0), 0, ALL, ALL).unwrap();
        assert!(of_run.iter().any(|row| row.events.is_none()), "{change}: {of_run:?}");
        assert_eq!(store.read_run(run_id(1), 0, ALL, ALL).unwrap(), [rows[1].clone()], "{change}");
    }
}

#[test]
fn rows_that_are_missing_from_a_run_are_a_row_without_events() {
    let folder = filled(2);
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    accept(&mut *writer, &[more(0, 3, 4), more(0, 7, 1), more(0, 8, 3)]);
    let read = |after, max_rows| -> Vec<(u64, u64, u32, bool)> {
        let rows = store.read_run(run_id(0), after, max_rows, ALL).unwrap();
        let told = |row: LogRow| (row.position.0, row.first_seq, row.count, row.events.is_some());
        rows.into_iter().map(told).collect()
    };
    let whole = [(1, 1, 2, true), (3, 3, 4, true), (4, 7, 1, true), (5, 8, 3, true)];
    assert_eq!(read(0, ALL), whole);
    execute(folder.path(), "DELETE FROM log WHERE position = 3");
    assert_eq!(read(0, ALL), [whole[0], (0, 3, 4, false), whole[2], whole[3]]);
    assert_eq!(read(4, ALL), [(0, 5, 2, false), whole[2], whole[3]]);
    assert_eq!(read(6, ALL), [whole[2], whole[3]]);
    execute(folder.path(), "DELETE FROM log WHERE position = 5");
    assert_eq!(read(6, ALL), [whole[2], (0, 8, 3, false)]);
    assert_eq!(read(6, 1), [whole[2]]);
    assert_eq!(read(7, 1), [(0, 8, 3, false)]);
    assert_eq!(read(10, ALL), []);
    execute(folder.path(), "DELETE FROM log WHERE run = (SELECT min(run) FROM runs)");
    assert_eq!(read(0, ALL), [(0, 1, 10, false)]);
}

/// No row of a removed run is ever there for somebody again, wherever among its rows damage has put one.
#[test]
fn a_run_with_a_row_out_of_its_order_is_removed_with_all_its_rows() {
    for first_seq in ["9", "-1", "'text'", "x'00'"] {
        let folder = filled(2);
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        accept(&mut *writer, &[finish(0, 3, 10)]);
        execute(folder.path(), &format!("UPDATE log SET first_seq = {first_seq} WHERE position = 1"));
        let all = Retention { finished_before: Some(Millis(11)), ..keep() };
        assert_eq!(writer.sweep(&all).unwrap().runs, 1);
        let left: Vec<u64> = whole_log(&store).iter().map(|row| row.position.0).collect();
        assert_eq!(left, [2], "{first_seq}");
        assert_eq!(store.bounds(SHARD).unwrap().removed, Position(3));
    }
}

#[test]
fn a_removed_row_that_damage_had_made_longer_makes_no_log_too_large() {
    let folder = filled(1);
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    accept(&mut *writer, &[finish(0, 3, 10)]);
    execute(folder.path(), "UPDATE log SET events = zeroblob(9000) WHERE position = 1");
    let older_than = |at| Retention { finished_before: Some(Millis(at)), ..keep() };
    assert_eq!(writer.sweep(&older_than(11)).unwrap().runs, 1);
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 0);
    accept(&mut *writer, &[creation(1), finish(1, 3, 20)]);
    let smaller = Retention { max_log_bytes: Some(1_000_000), ..keep() };
    assert_eq!(writer.sweep(&smaller).unwrap().runs, 0);
    assert_eq!(writer.sweep(&older_than(21)).unwrap().runs, 1);
}

/// No checksum covers it.
#[test]
fn a_size_of_the_log_that_cannot_be_is_counted_anew_and_removes_no_run() {
    for wrong in ["appended + (1 << 50)", "-1", "'text'"] {
        let folder = with_ended(3, 0..3);
        let store = open(folder.path()).unwrap();
        let (rows, bytes) = (whole_log(&store), store.bounds(SHARD).unwrap().bytes);
        drop(store);
        execute(folder.path(), &format!("UPDATE log SET appended = {wrong} WHERE position = 6"));
        for number in 3..6 {
            let store = open(folder.path()).unwrap();
            let mut writer = claim(&store);
            let bytes = bytes + (number - 3) * 1_000;
            assert_eq!(store.bounds(SHARD).unwrap().bytes, bytes, "{wrong}");
            let smaller = Retention { max_log_bytes: Some(bytes), ..keep() };
            assert_eq!(writer.sweep(&smaller).unwrap().runs, 0, "{wrong}");
            assert_eq!(whole_log(&store)[..6], rows, "{wrong}");
            accept(&mut *writer, &[creation(number).events(vec![7; 1_000])]);
        }
    }
}

/// Then the log counts as empty, and grows from there.
#[test]
fn a_size_of_the_log_that_can_neither_be_nor_be_counted_removes_no_run() {
    let folder = with_ended(60, 0..30);
    execute(folder.path(), "UPDATE log SET appended = appended + (1 << 50) WHERE position = 90");
    Wound::of(folder.path());
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    accept(&mut *writer, &[creation(1_000).events(vec![7; 1_000])]);
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 1_000);
    let smaller = Retention { max_log_bytes: Some(1_000), ..keep() };
    assert_eq!(writer.sweep(&smaller).unwrap().runs, 0);
}

/// Where the events of the log's only large row go on, there is nothing.
fn cut_the_large_row(folder: &Path) {
    let file = folder.join(DATABASE_FILE);
    let sql = "SELECT pageno FROM dbstat WHERE name = 'log' AND path LIKE '%+000000'";
    let database = rusqlite::Connection::open(&file).unwrap();
    let goes_on: u32 = database.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(database);
    // The number of the page stands behind the events that have room beside it.
    let pointer = [&[7; 4][..], &goes_on.to_be_bytes()[..]].concat();
    let mut content = fs::read(&file).unwrap();
    let is_there = |at: &usize| content[*at..].starts_with(&pointer);
    let places: Vec<usize> = (0..content.len()).filter(is_there).collect();
    assert!(!places.is_empty());
    for at in places {
        content[at + 4..at + 8].fill(0xA5);
    }
    fs::write(&file, content).unwrap();
}

/// Its size can be counted and not be corrected, because the row cannot be written again.
#[test]
fn a_newest_row_that_is_garbage_lets_the_store_be_claimed_and_costs_only_its_run() {
    for wrong in ["appended + (1 << 50)", "-1", "'text'"] {
        let folder = with_ended(40, 0..20);
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        assert_eq!(accept(&mut *writer, &[creation(40).events(vec![7; 10_000])]), [Position(61)]);
        let (rows, bytes) = (whole_log(&store), store.bounds(SHARD).unwrap().bytes);
        drop((store, writer));
        execute(folder.path(), &format!("UPDATE log SET appended = {wrong} WHERE position = 61"));
        cut_the_large_row(folder.path());
        for number in 1_000..1_003 {
            let store = open(folder.path()).unwrap();
            let mut writer = claim(&store);
            let bytes = bytes + (number - 999) * 1_000;
            let appended = accept(&mut *writer, &[creation(number).events(vec![7; 1_000])]);
            assert_eq!(appended, [Position(number - 938)], "{wrong}");
            assert_eq!(store.bounds(SHARD).unwrap().bytes, bytes, "{wrong}");
            let smaller = Retention { max_log_bytes: Some(bytes), ..keep() };
            assert_eq!(writer.sweep(&smaller).unwrap().runs, 0, "{wrong}");
            let read = store.read_run(run_id(40), 0, ALL, ALL);
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{wrong}: {read:?}");
            assert_eq!(store.read_log(SHARD, Position(0), 60, ALL).unwrap(), rows[..60], "{wrong}");
            assert_eq!(store.read_log(SHARD, Position(61), 1, ALL).unwrap()[0].run, run_id(1_000), "{wrong}");
        }
        let damaged = Quarantine {
            reason: QuarantineReason::Damaged,
            seq: 0,
            position: None,
            detail: String::new(),
            at: Millis(50),
        };
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        writer.quarantine(run_id(40), &damaged).unwrap();
        assert_eq!(store.get_run(run_id(40)).unwrap().unwrap().quarantine, Some(damaged), "{wrong}");
    }
}

#[test]
fn a_snapshot_with_a_changed_column_is_none() {
    let folder = filled(2);
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let snapshot = Snapshot { seq: 2, format: 3, state: b"state".as_slice().into() };
    for change in [
        "state = x'00'",
        "state = 'text'",
        "seq = 1",
        "seq = -1",
        "format = 4",
        "format = -1",
        "checksum = NULL",
    ] {
        writer.put_snapshot(run_id(0), &snapshot).unwrap();
        assert_eq!(store.snapshot(run_id(0)).unwrap().as_ref(), Some(&snapshot));
        execute(folder.path(), &format!("UPDATE snapshots SET {change}"));
        assert_eq!(store.snapshot(run_id(0)).unwrap(), None, "{change}");
    }
    // It is another run's, with a checksum that fits.
    writer.put_snapshot(run_id(0), &snapshot).unwrap();
    execute(folder.path(), "UPDATE snapshots SET run = (SELECT max(run) FROM runs)");
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
}

/// A page of some runs' events is garbage: only reads of these runs fail, also where the garbage was there before a
/// migration.
#[test]
fn a_damaged_page_fails_the_reads_that_meet_it_and_no_others() {
    const RUNS: u64 = 400;
    for is_older in [false, true] {
        let folder = filled(RUNS);
        let rows = whole_log(&open(folder.path()).unwrap());
        if is_older {
            execute(folder.path(), BACK_TO_FORMAT_2);
        }
        let file = folder.path().join(DATABASE_FILE);
        let mut content = fs::read(&file).unwrap();
        // A leaf of the log: three runs of a thousand bytes each.
        let is_leaf =
            |page: &&mut [u8]| page[0] == 0x0D && page.iter().filter(|byte| **byte == 7).count() > 2_900;
        content.chunks_mut(PAGE as usize).filter(is_leaf).nth(20).unwrap().fill(0xA5);
        fs::write(&file, content).unwrap();

        let options = SqliteOptions { migration_rows: 50, ..SqliteOptions::default() };
        let store = SqliteStore::open(folder.path(), options).unwrap();
        let mut failed = 0;
        for (number, row) in (0..RUNS).zip(&rows) {
            match store.read_run(run_id(number), 0, ALL, ALL) {
                Ok(read) => assert_eq!(read, std::slice::from_ref(row)),
                Err(StoreError::Corrupt { .. }) => failed += 1,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert!((1..=3).contains(&failed), "{failed} runs are on one page");
        assert!(matches!(store.read_log(SHARD, Position(0), ALL, ALL), Err(StoreError::Corrupt { .. })));
        assert_eq!(store.read_log(SHARD, Position(200), ALL, ALL).unwrap(), rows[200..]);
        let mut writer = claim(&store);
        accept(&mut *writer, &[creation(1_000), more(RUNS - 1, 3, 1)]);
    }
}

/// A page that is garbage.
struct Wound {
    file: PathBuf,
    number: u64,
    sound: Vec<u8>,
}

impl Wound {
    /// A leaf of the log, with some rows of a thousand bytes of events.
    fn of(folder: &Path) -> Self {
        let content = fs::read(folder.join(DATABASE_FILE)).unwrap();
        let is_leaf = |(_, page): &(u64, &[u8])| {
            page[0] == 0x0D && page.iter().filter(|byte| **byte == 7).count() > 2_900
        };
        let (number, _) = (0..).zip(content.chunks(PAGE as usize)).filter(is_leaf).nth(5).unwrap();
        Self::at(folder, number)
    }

    /// The leaf of a table or of an index that has the first of its keys.
    fn of_first_leaf(folder: &Path, of: &str) -> Self {
        let sql = "SELECT pageno - 1 FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path LIMIT 1";
        let database = rusqlite::Connection::open(folder.join(DATABASE_FILE)).unwrap();
        let number: u32 = database.query_row(sql, [of], |row| row.get(0)).unwrap();
        drop(database);
        Self::at(folder, u64::from(number))
    }

    fn at(folder: &Path, number: u64) -> Self {
        let file = folder.join(DATABASE_FILE);
        let content = fs::read(&file).unwrap();
        let sound = content.chunks(PAGE as usize).nth(usize::try_from(number).unwrap()).unwrap().to_vec();
        let wound = Self { file, number, sound };
        wound.write(&[0xA5; PAGE as usize]);
        wound
    }

    fn heal(&self) {
        self.write(&self.sound);
    }

    fn write(&self, page: &[u8]) {
        let mut file = fs::OpenOptions::new().write(true).open(&self.file).unwrap();
        file.seek(SeekFrom::Start(self.number * PAGE)).unwrap();
        file.write_all(page).unwrap();
    }

    /// Those of the first `runs` runs that have a row on the page.
    fn runs(&self, runs: u64) -> Vec<u64> {
        let has = |run: RunId| self.sound.windows(16).any(|bytes| bytes == run.0.as_bytes().as_slice());
        (0..runs).filter(|number| has(run_id(*number))).collect()
    }

    /// SQLite finds nothing wrong. The database is closed, and the page healed.
    #[track_caller]
    fn has_left_the_database_whole(&self) {
        let database = rusqlite::Connection::open(&self.file).unwrap();
        let whole: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}

/// Sweeps until nothing more is due, as the daemon does: the runs that are gone, and what the last part says.
fn sweep_all(writer: &mut dyn ShardWriter, mut rule: Retention) -> (u64, Swept) {
    let mut runs = 0;
    for _ in 0..100 {
        let swept = writer.sweep(&rule).unwrap();
        runs += swept.runs;
        if !swept.more {
            return (runs, swept);
        }
        rule.after = swept.next;
    }
    panic!("a sweep that has no end");
}

fn older_than(at: i64) -> Retention {
    Retention { finished_before: Some(Millis(at)), ..keep() }
}

/// A closed database with 60 runs, of which the first 30 have finished at 10, and a damaged page with three of these.
fn wounded() -> (TempDir, Wound) {
    let folder = with_ended(60, 0..30);
    let wound = Wound::of(folder.path());
    (folder, wound)
}

/// Rows of removed runs that cannot be read stay for now, and everything else goes on.
#[test]
fn a_damaged_page_of_removed_runs_is_passed_over_and_tried_again() {
    let (folder, wound) = wounded();
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let first = writer.sweep(&older_than(11)).unwrap();
    assert_eq!(
        (first.runs, first.bytes, first.more),
        (0, 0, true),
        "others have their turn before it goes on"
    );
    let (runs, swept) = sweep_all(&mut *writer, older_than(11));
    assert_eq!(runs, 30, "nobody reads any of them");
    assert!((0..30).all(|number| store.get_run(run_id(number)).unwrap().is_none()));
    // To remove a row beside the page, SQLite may have to read the page as well.
    let unreadable = swept.unreadable;
    assert!((3..20).contains(&unreadable), "{swept:?}");
    accept(&mut *writer, &[creation(1_000), finish(1_000, 3, 20)]);
    let swept = writer.sweep(&older_than(21)).unwrap();
    assert_eq!((swept.runs, swept.unreadable, swept.more), (1, unreadable, false));
    assert!(swept.bytes > 0);

    // It can be read again, which one of sixteen sweeps finds out.
    wound.heal();
    let left: Vec<u64> = (0..16).map(|_| writer.sweep(&keep()).unwrap().unreadable).collect();
    assert_eq!((left.first(), left.last()), (Some(&unreadable), Some(&0)), "{left:?}");
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 30 * 1_000);
    assert_eq!(whole_log(&store).len(), 30);
    drop((store, writer));
    wound.has_left_the_database_whole();
}

/// A closed database with so many runs, of which these have finished at 10.
fn with_ended(runs: u64, ended: impl IntoIterator<Item = u64>) -> TempDir {
    let folder = filled(runs);
    let ends: Vec<Append> = ended.into_iter().map(|number| finish(number, 3, 10)).collect();
    accept(&mut *claim(&open(folder.path()).unwrap()), &ends);
    folder
}

/// What a run has beside its log may be damaged, and what says where its log is.
#[test]
fn runs_that_are_due_and_cannot_be_removed_stay_for_now_and_everything_else_goes_on() {
    for of in ["log_run", "run_labels"] {
        let folder = with_ended(1_000, (0..10).chain(900..910));
        let wound = Wound::of_first_leaf(folder.path(), of);
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        let removed = writer.remove(run_id(0), None, Millis(50));
        assert!(matches!(removed, Err(StoreError::Corrupt { .. })), "{of}: {removed:?}");
        assert!(!writer.has_failed());
        let (runs, swept) = sweep_all(&mut *writer, older_than(11));
        assert!((1..=10).contains(&swept.unreadable), "{of}: {swept:?}");
        assert_eq!(runs + swept.unreadable, 20, "{of}");
        assert!((900..910).all(|number| store.get_run(run_id(number)).unwrap().is_none()), "{of}");
        accept(&mut *writer, &[creation(5_000)]);

        // They can be read again, which one of sixteen sweeps finds out.
        wound.heal();
        let removed: u64 = (0..17).map(|_| sweep_all(&mut *writer, older_than(11)).0).sum();
        assert_eq!(removed, swept.unreadable, "{of}");
        drop((store, writer));
        wound.has_left_the_database_whole();
    }
}

/// It is looked for rows of an era that has ended at its first position. Here that is the row of a run that is kept.
#[test]
fn damage_where_eras_keys_or_blobs_are_looked_for_keeps_no_run_from_going() {
    for of in ["log", "retired_keys", "blobs_unreferenced"] {
        let folder = with_ended(60, 40..50);
        Wound::of_first_leaf(folder.path(), of);
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        let before = store.history(SHARD).unwrap();
        let rule = Retention { blobs_before: Millis(2), ..older_than(11) };
        let swept = writer.sweep(&rule).unwrap();
        assert_eq!((swept.runs, swept.unreadable, swept.more), (10, 0, false), "{of}");
        assert_eq!(store.history(SHARD).unwrap(), before, "{of}");
        assert_eq!(writer.sweep(&rule).unwrap().runs, 0, "{of}");
        accept(&mut *writer, &[creation(1_000)]);
    }
}

/// To find what is due, the index of what has finished is read, and the rows that it names.
#[test]
fn a_sweep_that_does_not_find_what_is_due_for_damage_costs_nothing_but_itself() {
    for of in ["runs_finished", "runs"] {
        let folder = with_ended(1_000, 0..10);
        let wound = Wound::of_first_leaf(folder.path(), of);
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        for number in 5_000..5_003 {
            let swept = writer.sweep(&older_than(11));
            assert!(matches!(swept, Err(StoreError::Corrupt { .. })), "{of}: {swept:?}");
            assert!(!writer.has_failed());
            accept(&mut *writer, &[creation(number)]);
        }
        wound.heal();
        assert_eq!(writer.sweep(&older_than(11)).unwrap().runs, 10, "{of}");
    }
}

/// As sessions do, each of which has the same label again.
#[test]
fn a_run_begins_anew_under_its_labels_where_those_of_its_namesake_were_damaged() {
    for labels in ["x'09'", "CAST(labels || x'00' AS BLOB)", "NULL"] {
        let folder = with_ended(2, [0]);
        execute(folder.path(), &format!("UPDATE runs SET labels = {labels} WHERE finished_at IS NOT NULL"));
        let store = open(folder.path()).unwrap();
        let mut writer = claim(&store);
        assert_eq!(writer.sweep(&older_than(11)).unwrap().runs, 1, "{labels}");
        accept(&mut *writer, &[creation(0).label("team", "a"), creation(7)]);
        let labels_of_both = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let team = RunQuery { labels: labels_of_both, ..everything() };
        assert_eq!(listed(&store, &team), ids(&[1, 0]), "{labels}");
    }
}

/// However large it is, and however large the log may be.
#[test]
fn of_a_removed_run_with_a_damaged_page_only_what_is_beside_the_page_stays() {
    let folder = filled(1);
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let rows: Vec<Append> = (3..63).map(|seq| more(0, seq, 1).events(vec![7; 1_000])).collect();
    accept(&mut *writer, &rows);
    accept(&mut *writer, &[finish(0, 63, 10)]);
    drop((store, writer));
    let wound = Wound::of(folder.path());

    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let (runs, swept) = sweep_all(&mut *writer, older_than(11));
    assert_eq!((runs, swept.unreadable), (1, 1));
    let bytes = store.bounds(SHARD).unwrap().bytes;
    assert!((3_000..20_000).contains(&bytes), "{bytes} of 61,000");
    accept(&mut *writer, &[creation(1), finish(1, 3, 20)]);
    let smaller = Retention { max_log_bytes: Some(25_000), ..keep() };
    assert_eq!(sweep_all(&mut *writer, smaller).0, 0, "no other run makes room for it");
    wound.heal();
    // Each writer tries them.
    drop(writer);
    let mut writer = claim(&store);
    let bytes = store.bounds(SHARD).unwrap().bytes;
    let all = Swept { runs: 1, bytes, ..Swept::default() };
    assert_eq!(sweep_all(&mut *writer, older_than(21)), (1, all));
}

#[test]
fn a_run_with_a_damaged_page_is_removed_by_itself_and_its_rows_are_left_to_the_sweeps() {
    let (folder, wound) = wounded();
    let number = wound.runs(30)[0];
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    assert_eq!(writer.remove(run_id(number), None, Millis(50)).unwrap(), Removal::Removed { bytes: 0 });
    assert_eq!(store.get_run(run_id(number)).unwrap(), None);
    let before = store.bounds(SHARD).unwrap().bytes;
    let (runs, swept) = sweep_all(&mut *writer, keep());
    assert_eq!((runs, swept.unreadable), (0, 1));
    let end = finish(number, 3, 10).events.len() as u64;
    assert_eq!(before - store.bounds(SHARD).unwrap().bytes, end, "its last row is on another page");
    accept(&mut *writer, &[creation(1_000)]);
}

/// As those of sessions do.
#[test]
fn a_run_that_begins_anew_where_its_namesake_has_damaged_rows_is_refused_and_nothing_else_is() {
    let (folder, wound) = wounded();
    let number = wound.runs(30)[0];
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    sweep_all(&mut *writer, older_than(11));
    let committed = |at| AppendOutcome::Committed(Position(at));
    let outcomes = writer.commit(&[creation(1_000), creation(number)]).unwrap();
    assert_eq!(outcomes, [committed(91), AppendOutcome::Conflict]);
    let joined = [creation(1_001).joined(), creation(number), creation(1_002)];
    let outcomes = writer.commit(&joined).unwrap();
    assert_eq!(outcomes, [AppendOutcome::Conflict, AppendOutcome::Conflict, committed(92)]);
    // A writer that knows nothing of it finds it out.
    drop(writer);
    let mut writer = claim(&store);
    let outcomes = writer.commit(&[more(1_000, 3, 1), creation(number), more(1_000, 4, 1)]).unwrap();
    assert_eq!(outcomes, [committed(93), AppendOutcome::Conflict, committed(94)]);
    let bytes = store.bounds(SHARD).unwrap().bytes;

    wound.heal();
    for _ in 0..17 {
        writer.sweep(&keep()).unwrap();
    }
    assert!(store.bounds(SHARD).unwrap().bytes < bytes);
    assert_eq!(accept(&mut *writer, &[creation(number)]), [Position(95)]);
    assert_eq!(store.read_run(run_id(number), 0, ALL, ALL).unwrap(), [creation(number).row(95)]);
}

/// Overwrites every page of the file in turn. Reads fail or tell the truth, and so does everything else.
#[test]
fn a_damaged_page_never_panics() {
    let whole = filled(40);
    let sound = fs::read(whole.path().join(DATABASE_FILE)).unwrap();
    let original = whole_log(&open(whole.path()).unwrap());
    let mut detected = 0;
    for page in 0..sound.len() / PAGE as usize {
        for filling in [0x00, 0xA5, 0xFF] {
            let folder = tempdir().unwrap();
            let mut content = sound.clone();
            let begin = page * PAGE as usize;
            content[begin..begin + PAGE as usize].fill(filling);
            fs::write(folder.path().join(DATABASE_FILE), content).unwrap();
            if !all_works(folder.path(), &original) {
                detected += 1;
            }
        }
    }
    assert!(detected > 0);
}

/// Does everything, whatever comes of what is done before, and returns whether all of it worked.
fn all_works(folder: &Path, original: &[LogRow]) -> bool {
    let Ok(store) = open(folder) else { return false };
    let rows = store.read_log(SHARD, Position(0), ALL, ALL);
    if let Ok(rows) = &rows {
        assert_eq!(rows, original, "a damaged log was read as if it were whole");
    }
    let mut works = vec![
        rows.is_ok(),
        store.list_runs(&everything()).is_ok(),
        store.unfinished(SHARD, None, ALL).is_ok(),
        store.agents().is_ok(),
        store.put_blob(b"x", Millis(1)).is_ok(),
    ];
    for number in 0..40 {
        works.push(store.read_run(run_id(number), 0, ALL, ALL).is_ok());
        works.push(store.get_run(run_id(number)).is_ok());
        works.push(store.snapshot(run_id(number)).is_ok());
    }
    // A writer that fails is followed by another one.
    let mut writes = |mark, write: &dyn Fn(&mut dyn ShardWriter) -> Result<(), StoreError>| {
        let written = store.claim(SHARD, Mark(mark)).and_then(|mut writer| write(&mut *writer));
        works.push(written.is_ok());
    };
    let snapshot = Snapshot { seq: 2, format: 1, state: b"state".as_slice().into() };
    let new = creation(99).key("k", 1).label("team", "b");
    let all = Retention {
        finished_before: Some(Millis(11)),
        keys_before: Millis(11),
        blobs_before: Millis(2),
        ..keep()
    };
    writes(1_000, &|writer| writer.commit(&[finish(3, 3, 10), finish(30, 3, 10)]).map(drop));
    writes(1_001, &|writer| writer.commit(std::slice::from_ref(&new)).map(drop));
    writes(1_002, &|writer| writer.put_snapshot(run_id(5), &snapshot));
    writes(1_003, &|writer| writer.sweep(&all).map(drop));
    writes(1_004, &|writer| writer.sweep(&all).map(drop));
    writes(1_005, &|writer| writer.remove(run_id(30), None, Millis(11)).map(drop));
    works.into_iter().all(|works| works)
}

#[test]
fn a_newer_format_is_refused() {
    let folder = filled(1);
    execute(folder.path(), "PRAGMA user_version = 1000");
    check(open(folder.path()), "too new: 1000 > 7");
    execute(folder.path(), "PRAGMA user_version = 7; UPDATE meta SET value = 7");
    check(open(folder.path()), "too new: 7 > 3");
    execute(folder.path(), "UPDATE meta SET value = 3");
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_below_a_file_is_an_io_error() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    check(open(&file.join("data")), "io: make the data folder: ");
    check(open(&file), "io: make the data folder: ");
}

#[test]
fn a_database_that_is_a_folder_is_an_io_error() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join(DATABASE_FILE)).unwrap();
    let refusal = refusal(open(folder.path()));
    assert!(refusal.starts_with("io: "), "{refusal}");
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_an_io_error() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(folder.path().join("probe"), "").is_ok() {
        // For root, only the kernel's own folders are read-only.
        let kernel = Path::new("/proc/sys");
        if !kernel.is_dir() {
            println!("skipped: a_read_only_folder_is_an_io_error (the user may write everywhere)");
            return;
        }
        check(open(kernel), "io: open the database: ");
        return;
    }
    check(open(folder.path()), "io: open the database: ");
}

#[test]
fn a_full_disk_fails_the_commit_and_loses_nothing_acknowledged() {
    let folder = tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut writer = claim(&store);
    let mut acknowledged = 0;
    let error = loop {
        let batch =
            [2 * acknowledged, 2 * acknowledged + 1].map(|number| creation(number).events(vec![7; 3_000]));
        match writer.commit(&batch) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(acknowledged > 3);
    assert_eq!(error.to_string(), "the store could not commit appends");
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("full"), "{error:?}");
    assert!(matches!(writer.commit(&[creation(999)]), Err(StoreError::Closed)));
    let rows = || whole_log(&store).len() as u64;
    assert_eq!(rows(), 2 * acknowledged, "reads go on");

    // Nothing of the failed commit is stored, and the next writer continues when the disk has room again.
    drop(writer);
    drop(store);
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let first = accept(&mut *writer, &[creation(2 * acknowledged), more(0, 3, 1)]);
    assert_eq!(first, [Position(2 * acknowledged + 1), Position(2 * acknowledged + 2)]);
}

#[test]
fn after_a_full_disk_the_same_store_serves_a_new_writer() {
    let folder = tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut writer = claim(&store);
    accept(&mut *writer, &[creation(1), finish(1, 3, 10)]);
    writer.commit(&[creation(2).events(vec![7; 1_000_000])]).unwrap_err();
    let mut writer = claim(&store);
    let retention = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert_eq!(writer.sweep(&retention).unwrap().runs, 1);
    assert_eq!(accept(&mut *writer, &[creation(2)]), [Position(3)]);
}

#[test]
fn a_snapshot_that_cannot_be_written_costs_nothing() {
    let folder = tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut writer = claim(&store);
    accept(&mut *writer, &[creation(1)]);
    let snapshot = |size| Snapshot { seq: 1, format: 1, state: vec![7; size].into() };
    writer.put_snapshot(run_id(1), &snapshot(10)).unwrap();
    for _ in 0..3 {
        writer.put_snapshot(run_id(1), &snapshot(1_000_000)).unwrap_err();
        assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot(10)));
    }
    assert_eq!(accept(&mut *writer, &[more(1, 3, 1), creation(2)]), [Position(2), Position(3)]);
    writer.put_snapshot(run_id(1), &snapshot(20)).unwrap();
    assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot(20)));
}

/// The file of a blob.
fn file_of(folder: &Path, blob: BlobHash) -> PathBuf {
    let name = blob.to_string();
    folder.join("blobs").join(&name[..2]).join(&name)
}

#[cfg(unix)]
#[test]
fn a_blob_that_cannot_be_put_leaves_no_file() {
    let folder = tempdir().unwrap();
    let options = SqliteOptions { busy_timeout: Duration::ZERO, ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let left = || fs::read_dir(folder.path().join("blobs/tmp")).unwrap().count();
    let other = rusqlite::Connection::open(folder.path().join(DATABASE_FILE)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.put_blob(b"result", Millis(1)).unwrap_err();
    assert_eq!(left(), 0);
    other.execute_batch("ROLLBACK").unwrap();
    let blob = store.put_blob(b"result", Millis(1)).unwrap();
    assert_eq!((store.blob_size(blob).unwrap(), left()), (Some(6), 0));
    // Where its folder is to be, there is something else.
    fs::remove_file(file_of(folder.path(), blob)).unwrap();
    fs::remove_dir(file_of(folder.path(), blob).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("nowhere", file_of(folder.path(), blob).parent().unwrap()).unwrap();
    store.put_blob(b"result", Millis(1)).unwrap_err();
    assert_eq!(left(), 0);
}

#[test]
fn a_blob_whose_file_cannot_be_removed_keeps_no_other_from_going() {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let stuck = store.put_blob(b"stuck", Millis(1)).unwrap();
    let others = [b"one", b"two"].map(|content| store.put_blob(content, Millis(2)).unwrap());
    let file = file_of(folder.path(), stuck);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let older_than = |at| Retention { blobs_before: Millis(at), batch: 1, ..keep() };
    let removed: Vec<u64> = (0..4).map(|_| writer.sweep(&older_than(10)).unwrap().blobs).collect();
    assert_eq!(removed, [0, 1, 1, 0]);
    assert!(others.iter().all(|blob| store.blob_size(*blob).unwrap().is_none()));

    fs::remove_dir(&file).unwrap();
    fs::write(&file, b"stuck").unwrap();
    assert_eq!(writer.sweep(&older_than(11)).unwrap().blobs, 1);
    assert_eq!(store.blob_size(stuck).unwrap(), None);
}

#[test]
fn a_damaged_blob_is_no_blob_until_it_is_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let blob = store.put_blob(b"result", Millis(1_000)).unwrap();
    std::fs::write(file_of(folder.path(), blob), b"resuLt").unwrap();
    assert_eq!(store.read_blob(blob, 0, usize::MAX).unwrap(), None);
    assert_eq!(store.read_blob(blob, 0, 6).unwrap(), None);
    assert_eq!(store.put_blob(b"result", Millis(2_000)).unwrap(), blob);
    assert_eq!(store.read_blob(blob, 0, 6).unwrap().as_deref(), Some(&b"result"[..]));
}

/// A power cut brings back a file whose removal was not durable, while that of its row was.
#[test]
fn a_file_that_no_row_knows_is_a_blob_again_once_it_is_named_and_else_is_swept() {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let put = store.put_blob(b"put", Millis(1_000)).unwrap();
    let back = |content: &[u8]| {
        let file = file_of(folder.path(), BlobHash::of(content));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        BlobHash::of(content)
    };
    let (named, stray) = (back(b"named"), back(b"stray"));
    assert_eq!(store.renew_blobs(&[named], Millis(1_000)).unwrap(), []);
    accept(&mut *writer, &[creation(1).names(named)]);
    let retention = Retention { blobs_before: Millis(1_000), ..keep() };
    for _ in 0..=u8::MAX {
        writer.sweep(&retention).unwrap();
    }
    let there = [put, named, stray].map(|blob| store.blob_size(blob).unwrap());
    assert_eq!(there, [Some(3), Some(5), None]);
    let retention = Retention { blobs_before: Millis(i64::MAX), ..keep() };
    writer.sweep(&retention).unwrap();
    assert_eq!([put, named].map(|blob| store.blob_size(blob).unwrap()), [None, Some(5)]);
}

#[test]
fn there_is_one_shard() {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let other = capataz_store::ShardId(1);
    assert!(matches!(store.claim(other, Mark(1)), Err(StoreError::Io { operation: "claim the shard", .. })));
    assert_eq!(store.read_log(other, Position(0), ALL, ALL).unwrap(), []);
    assert_eq!(store.unfinished(other, None, ALL).unwrap(), []);
    assert_eq!(store.quarantined(other, None, ALL).unwrap(), []);
    assert_eq!(store.history(other).unwrap().eras(), []);
}

// The simulator works on a store in memory, which has no sums of votes.
#[test]
fn a_sum_of_votes_that_is_wrong_is_told_and_counted_anew_where_its_entry_is_written_again() {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = claim(&store);
    let memory = vec![remembered(1, "success", 5)];
    accept(&mut *writer, &[Append { memory: memory.clone(), ..creation(1) }]);
    let entry = entry_id(run_id(1), Place { seq: 1, n: 0 });
    let vote = |seq| memory_row(seq, 0, MemoryChange::Vote { entry: entry.clone(), quarters: 2 });
    accept(&mut *writer, &[Append { memory: vec![vote(1), vote(2)], ..creation(2) }]);
    let relevance = || store.memory_entry(&entry).unwrap().unwrap().relevance.to_bits();
    for wrong in ["quarters = quarters + 1", "votes = votes + 1"] {
        assert!(store.memory_of(run_id(1)).unwrap().misjudged.is_empty());
        assert_eq!(relevance(), 2.0_f64.to_bits(), "1, and 4 quarters");
        execute(folder.path(), &format!("UPDATE memory_votes SET {wrong}"));
        assert_eq!(store.memory_of(run_id(1)).unwrap().misjudged, [entry.as_str()], "{wrong}");
        let again = Mended {
            run: run_id(1),
            last_seq: 2,
            summary: updated(5),
            rest: None,
            derived: Vec::new(),
            memory: memory.clone(),
        };
        writer.mend(&[again]).unwrap();
    }
    assert!(store.memory_of(run_id(1)).unwrap().misjudged.is_empty());
    assert_eq!(relevance(), 2.0_f64.to_bits());
}
