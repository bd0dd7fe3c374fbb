//! Databases that are damaged, foreign, newer, full or out of reach. Each gives an error that says so, never a panic,
//! and never a fresh database in place of the old one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use capataz_store::conformance::{
    ALL, SHARD, Shape, accept, creation, everything, finish, keep, more, run_id, whole_log,
};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{Millis, Position, Retention, SqliteOptions, SqliteStore, Store, StoreError};
use tempfile::{TempDir, tempdir};

const PAGE: u64 = 4096;

fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(folder, SqliteOptions::default())
}

/// A closed database with `runs` runs, so that it has pages to lose.
fn filled(runs: u64) -> TempDir {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let mut writer = store.claim(SHARD).unwrap();
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
    accept(&mut *store.claim(SHARD).unwrap(), &[creation(1)]);
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

/// Overwrites every page of the file in turn. Reads fail or tell the truth.
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
            if use_everything(folder.path(), &original).is_err() {
                detected += 1;
            }
        }
    }
    assert!(detected > 0);
}

fn use_everything(folder: &Path, original: &[capataz_store::LogRow]) -> Result<(), StoreError> {
    let store = open(folder)?;
    let rows = store.read_log(SHARD, Position(0), ALL, ALL)?;
    assert_eq!(rows, original, "a damaged log was read as if it were whole");
    store.list_runs(&everything())?;
    store.unfinished(SHARD, None, ALL)?;
    for number in 0..40 {
        store.read_run(run_id(number), 0, ALL, ALL)?;
        store.get_run(run_id(number))?;
        store.snapshot(run_id(number))?;
    }
    store.agents()?;
    store.put_blob(b"x", Millis(1))?;
    let mut writer = store.claim(SHARD)?;
    writer.commit(&[finish(3, 3, 10), creation(99).key("k", 1).label("team", "b")])?;
    let all = Retention { finished_before: Some(Millis(11)), blobs_before: Millis(2), ..keep() };
    writer.sweep(&all)?;
    Ok(())
}

#[test]
fn a_newer_format_is_refused() {
    let folder = filled(1);
    execute(folder.path(), "PRAGMA user_version = 1000");
    check(open(folder.path()), "too new: 1000 > 2");
    execute(folder.path(), "PRAGMA user_version = 2; UPDATE meta SET value = 7");
    check(open(folder.path()), "too new: 7 > 2");
    execute(folder.path(), "UPDATE meta SET value = 2");
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
    let mut writer = store.claim(SHARD).unwrap();
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
    let mut writer = store.claim(SHARD).unwrap();
    let first = accept(&mut *writer, &[creation(2 * acknowledged), more(0, 3, 1)]);
    assert_eq!(first, [Position(2 * acknowledged + 1), Position(2 * acknowledged + 2)]);
}

#[test]
fn after_a_full_disk_the_same_store_serves_a_new_writer() {
    let folder = tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut writer = store.claim(SHARD).unwrap();
    accept(&mut *writer, &[creation(1), finish(1, 3, 10)]);
    writer.commit(&[creation(2).events(vec![7; 1_000_000])]).unwrap_err();
    let mut writer = store.claim(SHARD).unwrap();
    let retention = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert_eq!(writer.sweep(&retention).unwrap().runs, 1);
    assert_eq!(accept(&mut *writer, &[creation(2)]), [Position(3)]);
}

#[test]
fn there_is_one_shard() {
    let folder = tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let other = capataz_store::ShardId(1);
    assert!(matches!(store.claim(other), Err(StoreError::Io { operation: "claim the shard", .. })));
    assert_eq!(store.read_log(other, Position(0), ALL, ALL).unwrap(), []);
    assert_eq!(store.unfinished(other, None, ALL).unwrap(), []);
}
