//! The migration of a database of format 2: stopped after every step, killed at any moment, and by several at once. What
//! was written before is then whole, and found damaged where it is not.

#![expect(clippy::disallowed_types, reason = "starts itself as a program, to kill it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "it starts processes and ends them")]

mod format_2;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use capataz_store::conformance::{
    ALL, SHARD, Shape, accept, claim, commit_one, creation, everything, finish, keep, more, run_id, whole_log,
};
use capataz_store::sqlite::DATABASE_FILE;
use capataz_store::{
    AppendOutcome, LogRow, Mark, Migrated, Millis, Position, Retention, RunRow, Snapshot, SqliteOptions,
    SqliteStore, Store, StoreError,
};
use format_2::BACK_TO_FORMAT_2;
use tempfile::{TempDir, tempdir};

/// The environment variable with the child's data folder.
const FOLDER: &str = "CAPATAZ_STORE_TEST_MIGRATION";
const STEP: &str = "step ";

fn options(migration_rows: u32) -> SqliteOptions {
    SqliteOptions { migration_rows, ..SqliteOptions::default() }
}

fn database(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.join(DATABASE_FILE)).unwrap()
}

/// A folder of format 2 and what is in it.
struct Earlier {
    folder: TempDir,
    log: Vec<LogRow>,
    runs: Vec<RunRow>,
}

impl Earlier {
    /// Runs of two rows each; every second one is finished, and the first of these are removed.
    fn new(runs: u64) -> Self {
        let folder = tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
        let mut writer = claim(&store);
        for first in (0..runs).step_by(500) {
            let appends: Vec<_> = (first..runs.min(first + 500))
                .flat_map(|number| {
                    let end = if number % 2 == 0 { finish(number, 3, 10) } else { more(number, 3, 2) };
                    [creation(number).key(&format!("k{number}"), 1).label("team", "a"), end]
                })
                .collect();
            accept(&mut *writer, &appends);
        }
        let snapshot = Snapshot { seq: 3, format: 1, state: b"state".as_slice().into() };
        writer.put_snapshot(run_id(1), &snapshot).unwrap();
        let retention = Retention { finished_before: Some(Millis(11)), batch: 2, ..keep() };
        writer.sweep(&retention).unwrap();
        let (log, runs) = (whole_log(&store), store.list_runs(&everything()).unwrap());
        drop((store, writer));
        database(folder.path()).execute_batch(BACK_TO_FORMAT_2).unwrap();
        Self { folder, log, runs }
    }

    /// A copy of the folder, also while it is half migrated.
    fn copy(&self) -> TempDir {
        let copy = tempdir().unwrap();
        for name in [DATABASE_FILE, "capataz.db-wal"] {
            if self.folder.path().join(name).exists() {
                fs::copy(self.folder.path().join(name), copy.path().join(name)).unwrap();
            }
        }
        copy
    }

    /// Checks that a migrated folder has what was there before, and goes on.
    #[track_caller]
    fn check(&self, store: &SqliteStore) {
        assert_eq!(whole_log(store), self.log);
        assert_eq!(store.list_runs(&everything()).unwrap(), self.runs);
        for row in &self.runs {
            let rows = store.read_run(row.run, 0, ALL, ALL).unwrap();
            assert!(rows.iter().all(|row| row.events.is_some()));
            assert_eq!(rows.last().map(|row| row.first_seq + u64::from(row.count) - 1), Some(row.last_seq));
        }
        assert_eq!(store.snapshot(run_id(1)).unwrap(), None, "it has no checksum");
        let newest = store.bounds(SHARD).unwrap().newest;
        assert_eq!(store.history(SHARD).unwrap().mark_of(newest), Some(Mark::NONE));
        let mut writer = store.claim(SHARD, Mark(77)).unwrap();
        let history = store.history(SHARD).unwrap();
        assert!(history.contains(Mark::NONE, newest) && !history.contains(Mark(77), newest));
        let next = accept(&mut *writer, &[more(1, 5, 1)])[0];
        assert_eq!(next, Position(newest.0 + 1));
        assert!(history.contains(Mark(77), next) && !history.contains(Mark::NONE, next));
        let taken = AppendOutcome::KeyTaken { run: run_id(1), same_request: true };
        assert_eq!(commit_one(&mut *writer, creation(999_999).key("k1", 1)), taken);
    }
}

/// Opens the folder and stops after some steps, if it is not complete before; returns how far it came.
fn steps(folder: &Path, most: usize) -> (Vec<Migrated>, Result<SqliteStore, StoreError>) {
    let mut told = Vec::new();
    let opened = SqliteStore::open_with_progress(folder, options(7), &mut |migrated| {
        told.push(migrated);
        if told.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    (told, opened)
}

#[test]
fn a_migration_that_is_stopped_after_any_step_goes_on_where_it_stood() {
    let earlier = Earlier::new(30);
    let total = earlier.log.len() as u64;
    let folder = earlier.copy();
    let (whole, opened) = steps(folder.path(), usize::MAX);
    earlier.check(&opened.unwrap());
    assert_eq!(whole.first(), Some(&Migrated { done: 0, total }));
    assert_eq!(whole.last(), Some(&Migrated { done: total, total }));
    assert_eq!(whole.len() as u64, 1 + total.div_ceil(7));
    for most in 1..=whole.len() {
        let folder = earlier.copy();
        let (told, stopped) = steps(folder.path(), most);
        assert_eq!(told, whole[..most]);
        assert!(matches!(stopped, Err(StoreError::Closed)));
        let format: u32 =
            database(folder.path()).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(format, 7, "an older version refuses it from the first step on");
        let (told, opened) = steps(folder.path(), usize::MAX);
        assert_eq!(told, whole[most - 1..]);
        earlier.check(&opened.unwrap());
        assert_eq!(steps(folder.path(), usize::MAX).0, [], "nothing is left to do");
    }
    // A new step is made each time.
    let folder = earlier.copy();
    for step in 0..whole.len() {
        assert_eq!(steps(folder.path(), 2).0.first(), whole.get(step));
    }
    earlier.check(&steps(folder.path(), usize::MAX).1.unwrap());
}

/// The folder that a daemon of format 2 has left behind; see its README.
#[test]
fn the_folder_of_a_daemon_is_migrated_with_a_stop_after_each_step() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/fixtures/data-format-2/data");
    let folder = tempdir().unwrap();
    fs::copy(fixture.join(DATABASE_FILE), folder.path().join(DATABASE_FILE)).unwrap();
    let rows: Vec<(u32, u32, u32, Vec<u8>)> = {
        let database = database(folder.path());
        let mut statement =
            database.prepare("SELECT position, first_seq, count, events FROM log ORDER BY position").unwrap();
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        statement.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert!(rows.len() > 1_000);
    let mut stops = 0;
    let store = loop {
        let mut told = 0;
        let opened = SqliteStore::open_with_progress(folder.path(), options(100), &mut |_| {
            told += 1;
            if told == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match opened {
            Ok(store) => break store,
            Err(StoreError::Closed) => stops += 1,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(stops, rows.len().div_ceil(100));
    let read = whole_log(&store);
    assert_eq!(read.len(), rows.len());
    for (row, (position, first_seq, count, events)) in read.iter().zip(rows) {
        assert_eq!((row.position.0, row.first_seq, row.count), (position.into(), first_seq.into(), count));
        assert_eq!(row.events.as_deref(), Some(&events[..]));
    }
    for row in store.list_runs(&everything()).unwrap() {
        let rows = store.read_run(row.run, 0, ALL, ALL).unwrap();
        assert!(rows.iter().all(|row| row.events.is_some()), "{row:?}");
    }
    let mut writer = claim(&store);
    accept(&mut *writer, &[creation(1)]);
}

#[test]
fn whoever_migrates_nothing_refuses_what_a_daemon_would_migrate() {
    let reason = |folder: &Path| {
        let refused = SqliteStore::open_as_it_is(folder, options(7)).unwrap_err();
        assert_eq!(refused.to_string(), "the store could not open the database");
        std::error::Error::source(&refused).unwrap().to_string()
    };
    let empty = tempdir().unwrap();
    assert!(reason(empty.path()).contains("there is no database"), "{}", reason(empty.path()));
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0, "nothing is made");
    let earlier = Earlier::new(30);
    let folder = earlier.folder.path();
    assert!(reason(folder).contains("it has format 2"), "{}", reason(folder));
    assert!(matches!(steps(folder, 2).1, Err(StoreError::Closed)));
    assert!(reason(folder).contains("is not complete"), "{}", reason(folder));
    earlier.check(&SqliteStore::open(folder, options(7)).unwrap());
    drop(SqliteStore::open_as_it_is(folder, options(7)).unwrap());
    database(folder).pragma_update(None, "user_version", 8).unwrap();
    let newer = SqliteStore::open_as_it_is(folder, options(7));
    assert!(matches!(newer, Err(StoreError::TooNew { found: 8, supported: 7 })), "{newer:?}");
}

#[test]
fn a_fresh_folder_has_nothing_to_migrate() {
    let folder = tempdir().unwrap();
    let (told, opened) = steps(folder.path(), usize::MAX);
    assert_eq!(told, []);
    assert_eq!(opened.unwrap().history(SHARD).unwrap().eras(), []);
}

#[test]
fn several_may_migrate_a_folder_at_once() {
    let earlier = Earlier::new(200);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| SqliteStore::open(earlier.folder.path(), options(7)).unwrap());
        }
    });
    earlier.check(&SqliteStore::open(earlier.folder.path(), options(7)).unwrap());
}

#[test]
fn a_row_from_before_that_changes_afterwards_is_damaged() {
    let earlier = Earlier::new(30);
    let folder = earlier.folder.path();
    drop(SqliteStore::open(folder, options(7)).unwrap());
    for change in [
        "UPDATE log SET events = zeroblob(length(events)) WHERE position = 10",
        "UPDATE log SET count = count + 1 WHERE position = 20",
        "UPDATE earlier_checksums SET checksum = checksum + 1 WHERE position = 30",
        "DELETE FROM earlier_checksums WHERE position = 31",
    ] {
        assert_eq!(database(folder).execute(change, []).unwrap(), 1);
    }
    let store = SqliteStore::open(folder, options(7)).unwrap();
    let damaged: Vec<u64> =
        whole_log(&store).iter().filter(|row| row.events.is_none()).map(|row| row.position.0).collect();
    assert_eq!(damaged, [10, 20, 30, 31]);
}

#[test]
fn checksums_of_removed_runs_go_with_them() {
    let earlier = Earlier::new(30);
    let folder = earlier.folder.path();
    let store = SqliteStore::open(folder, options(7)).unwrap();
    let mut writer = claim(&store);
    let retention = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert!(writer.sweep(&retention).unwrap().runs > 0);
    let count = |table: &str| -> u32 {
        let sql = format!("SELECT count(*) FROM {table}");
        database(folder).query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("earlier_checksums"), count("log"));
    assert_eq!(whole_log(&store).len() as u32, count("log"));
}

/// A writer of the version before, which would write rows without checksums.
#[test]
fn a_writer_of_the_version_before_is_fenced_by_the_migration() {
    let earlier = Earlier::new(2);
    let epoch = || -> u64 {
        database(earlier.folder.path())
            .query_row("SELECT epoch FROM shards", [], |row| row.get::<_, i64>(0))
            .unwrap()
            .cast_unsigned()
    };
    let before = epoch();
    drop(SqliteStore::open(earlier.folder.path(), options(7)).unwrap());
    assert_eq!(epoch(), before + 1);
    drop(SqliteStore::open(earlier.folder.path(), options(7)).unwrap());
    assert_eq!(epoch(), before + 1, "only a migration does so");
}

#[cfg(unix)]
#[test]
fn a_database_that_may_only_be_read_is_not_migrated() {
    use std::os::unix::fs::PermissionsExt;
    let earlier = Earlier::new(2);
    let file = earlier.folder.path().join(DATABASE_FILE);
    let content = fs::read(&file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(&file).is_ok() {
        println!("skipped: a_database_that_may_only_be_read_is_not_migrated (the user may write everywhere)");
        return;
    }
    let refused = SqliteStore::open(earlier.folder.path(), options(7)).unwrap_err();
    assert_eq!(refused.to_string(), "the store could not open the database");
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.contains("may only be read"), "{reason}");
    assert_eq!(fs::read(&file).unwrap(), content);
}

/// The child's work until it is killed; not a test of its own.
#[test]
fn child_that_migrates() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let mut output = std::io::stdout();
    let opened = SqliteStore::open_with_progress(Path::new(&folder), options(20), &mut |migrated| {
        // Each line is one write, so that no half line is left.
        output.write_all(format!("\n{STEP}{}\n", migrated.done).as_bytes()).unwrap();
        output.flush().unwrap();
        ControlFlow::Continue(())
    });
    opened.unwrap();
}

#[test]
fn a_migration_that_is_killed_at_any_moment_goes_on() {
    /// The number of steps after which the child is killed, each time on the same folder.
    const ROUNDS: [usize; 6] = [1, 2, 40, 7, 90, 3];
    let earlier = Earlier::new(5_000);
    let mut done = 0;
    for round in ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_migrates", "--nocapture"])
            .env(FOLDER, earlier.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut steps = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some(now) = line.strip_prefix(STEP) else { continue };
            let now: u64 = now.parse().unwrap();
            assert!(now >= done, "it went back from {done} to {now}");
            done = now;
            steps += 1;
            if steps == round {
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "it was done before it was killed");
        assert!(done < earlier.log.len() as u64);
        let copy = earlier.copy();
        earlier.check(&SqliteStore::open(copy.path(), options(2_000)).unwrap());
    }
    earlier.check(&SqliteStore::open(earlier.folder.path(), options(2_000)).unwrap());
}
