//! The tables and their migrations. Migrations are only ever added.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::error::failed;
use super::{SqliteOptions, checksums, connection};
use crate::port::StoreError;

/// The migrations. Number `n` (from 0) leads from format `n` to `n + 1`; `PRAGMA user_version` contains the format's
/// number.
const MIGRATIONS: &[&str] = &[FIRST, EVENTS_OF_FORMAT_2, WHOLE_OR_NOT, FORKS, MEMORY, VOTES, REMOVING];

/// The format of stored events that this version reads; see `min_reader` in `meta`.
const READER: u32 = 3;

/// The value of `PRAGMA application_id`: "CPTZ".
const APPLICATION: i64 = 0x4350_545A;

/// The cost of writing determines the tables: a run's creation and its end touch each table and index once.
/// - `log` grows at its end; its only index serves the reading of one run. `appended` is the number of event bytes that
///   were ever appended, up to and including the row, so that the size of the log is known without a scan.
/// - `runs` is a single tree. Ids grow with time, so that rows are inserted at its end. `labels` repeats the content of
///   `run_labels`, which serves searches, so that a row is read whole. `key` is the run's idempotency key while the key
///   is valid.
/// - `runs_finished` has two ranges, runs with a key and runs without one; retention asks for the oldest of both.
/// - `retired_keys` contains keys that outlive their runs.
/// - `blobs.refs` counts the rows of `blob_refs`, so that unreferenced blobs are found without a scan.
const FIRST: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('min_reader', 1);

CREATE TABLE shards (
    shard INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,
    removed INTEGER NOT NULL DEFAULT 0,
    removed_bytes INTEGER NOT NULL DEFAULT 0,
    appended INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE log (
    position INTEGER PRIMARY KEY,
    run BLOB NOT NULL,
    first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    appended INTEGER NOT NULL,
    events BLOB NOT NULL
);
CREATE UNIQUE INDEX log_run ON log (run, first_seq);

CREATE TABLE runs (
    run BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    status INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    tasks_total INTEGER NOT NULL,
    tasks_settled INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    key BLOB,
    name TEXT NOT NULL,
    labels BLOB
) WITHOUT ROWID;
CREATE INDEX runs_unfinished ON runs (run) WHERE finished_at IS NULL;
CREATE INDEX runs_finished ON runs ((key IS NULL), finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE run_labels (key TEXT, value TEXT, run BLOB, PRIMARY KEY (key, value, run)) WITHOUT ROWID;

CREATE TABLE keys (key BLOB PRIMARY KEY, request BLOB NOT NULL, run BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE retired_keys (
    finished_at INTEGER, run BLOB, key BLOB, PRIMARY KEY (finished_at, run, key)
) WITHOUT ROWID;

CREATE TABLE snapshots (
    id INTEGER PRIMARY KEY, run BLOB NOT NULL UNIQUE, seq INTEGER NOT NULL, format INTEGER NOT NULL, state BLOB NOT NULL
);

CREATE TABLE agents (name TEXT PRIMARY KEY, last_seen INTEGER NOT NULL, agent BLOB NOT NULL) WITHOUT ROWID;

CREATE TABLE blobs (
    hash BLOB PRIMARY KEY, size INTEGER NOT NULL, put_at INTEGER NOT NULL, refs INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX blobs_unreferenced ON blobs (put_at) WHERE refs = 0;
CREATE TABLE blob_refs (run BLOB, hash BLOB, PRIMARY KEY (run, hash)) WITHOUT ROWID;
CREATE INDEX blob_refs_hash ON blob_refs (hash);
";

/// From here on events of format 2 are written, which a version that reads format 1 alone must not fold.
const EVENTS_OF_FORMAT_2: &str = "UPDATE meta SET value = max(value, 2) WHERE name = 'min_reader';";

/// From here on rows say whether they are whole, claims have marks, and runs may be quarantined. Events of format 3 are
/// written.
/// - A column that is added at the end of a row changes no row. The rows that are there keep NULL in it, and their
///   checksums are in `earlier_checksums`, so that the log is not written again. They are computed afterwards, in batches
///   (`checksums.rs`); `meta` says up to which position they are.
/// - A snapshot is a cache: one without a checksum is none.
/// - A daemon of the version before that still works on the database is fenced, because its rows have no checksums.
/// - What is there belongs to an era with the mark 0, which ends with the next claim.
/// - `shards.removals` tells what retention has removed. What it had removed before, no cursor of an earlier version knows,
///   so any number other than theirs, 0, will do.
/// - `eras.last` is NULL for the era of the newest claim.
/// - `quarantined` is a table of its own, because it is almost always empty and `runs` is written with every append.
/// - `derived` is empty at first: the rows of runs that are there already are made by whoever rebuilds them. Its index
///   ends with the primary key, so that a query reads it in the order of its answer.
const WHOLE_OR_NOT: &str = "
UPDATE meta SET value = max(value, 3) WHERE name = 'min_reader';
ALTER TABLE log ADD COLUMN checksum INTEGER;
ALTER TABLE snapshots ADD COLUMN checksum INTEGER;
CREATE TABLE earlier_checksums (position INTEGER PRIMARY KEY, checksum INTEGER NOT NULL);
INSERT INTO meta (name, value) VALUES ('log_sealed', 0);

UPDATE shards SET epoch = epoch + 1;
ALTER TABLE shards ADD COLUMN removals INTEGER NOT NULL DEFAULT 0;
UPDATE shards SET removals = removed;
CREATE TABLE eras (
    shard INTEGER, first INTEGER, mark INTEGER NOT NULL, last INTEGER, PRIMARY KEY (shard, first)
) WITHOUT ROWID;
INSERT INTO eras (shard, first, mark)
SELECT shard, 1, 0 FROM shards WHERE removed > 0 OR EXISTS (SELECT 1 FROM log);

ALTER TABLE runs ADD COLUMN rest_in INTEGER;
ALTER TABLE runs ADD COLUMN rest_at INTEGER;
DROP INDEX runs_unfinished;
CREATE INDEX runs_unfinished ON runs (run, rest_in, rest_at, finished_at) WHERE finished_at IS NULL;

CREATE TABLE quarantined (
    run BLOB PRIMARY KEY, reason INTEGER NOT NULL, seq INTEGER NOT NULL, position INTEGER, detail TEXT NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE derived (
    run BLOB, seq INTEGER, n INTEGER, kind INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (run, seq, n)
) WITHOUT ROWID;
CREATE INDEX derived_key ON derived (kind, key, run, seq, n);
";

/// From here on a run may begin with the log of another one. The column is NULL in rows that are a run's own.
const FORKS: &str = "ALTER TABLE log ADD COLUMN inherited INTEGER;";

/// From here on what execution modes remember is found by queries (seed 004).
/// - `memory_entries` and the two indexes with `idx_` are the seed's. `created_at` and `timestamp` are the event's time, and
///   an entry of whose time nothing is known cannot be. `relevance_score` follows from `memory_marks`.
/// - The entries that are recalled lie together in `memory_newest` and `memory_best`, in the order of the answer.
/// - `memory_marks` has the votes of events on entries, in quarters, and NULL for an entry that a person wants forgotten: such
///   an entry is not written again.
const MEMORY: &str = "
CREATE TABLE memory_entries (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    type TEXT NOT NULL CHECK (type IN
        ('tool_result', 'error', 'success', 'plan', 'user_feedback', 'solution', 'pattern')),
    content TEXT NOT NULL,
    context_mode TEXT NOT NULL CHECK (context_mode IN ('simple', 'planner', 'supervised')),
    context_tools TEXT NOT NULL DEFAULT '[]',
    context_files TEXT NOT NULL DEFAULT '[]',
    relevance_score REAL NOT NULL DEFAULT 1.0,
    related_to TEXT NOT NULL DEFAULT '[]',
    created_at INTEGER NOT NULL,
    run BLOB NOT NULL, seq INTEGER NOT NULL, n INTEGER NOT NULL, digest TEXT NOT NULL
);
CREATE INDEX idx_session_mode_timestamp ON memory_entries (session_id, context_mode, timestamp);
CREATE INDEX idx_type_relevance ON memory_entries (type, relevance_score);
CREATE INDEX memory_newest ON memory_entries (session_id, context_mode, type, timestamp DESC, id);
CREATE INDEX memory_best ON memory_entries (session_id, context_mode, type, relevance_score DESC, id, timestamp);
CREATE INDEX memory_run ON memory_entries (run, seq, n);

CREATE TABLE memory_marks (
    run BLOB, seq INTEGER, n INTEGER, entry TEXT NOT NULL, quarters INTEGER, PRIMARY KEY (run, seq, n)
) WITHOUT ROWID;
CREATE INDEX memory_marks_entry ON memory_marks (entry, quarters);
";

/// The sums of votes on entries. One that is missing is made with the next vote on its entry: a migration takes no longer with
/// more votes.
const VOTES: &str = "
CREATE TABLE memory_votes (
    entry TEXT PRIMARY KEY, votes INTEGER NOT NULL, quarters INTEGER NOT NULL
) WITHOUT ROWID;
";

/// From here on the rows of a removed run go in parts. Rows up to `last` are nobody's, which a version before would read.
const REMOVING: &str = "CREATE TABLE removing (run BLOB PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;";

/// Migrates the tables to the format of this version. Each step is one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let supported = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
    refuse_foreign(connection)?;
    loop {
        let found = version(connection)?;
        if found > supported {
            return Err(StoreError::TooNew { found, supported });
        }
        let Some(migration) = migrations.get(found as usize) else { break };
        step(connection, found, migration).map_err(failed("migrate the database"))?;
    }
    let min_reader: u32 = connection
        .query_row("SELECT value FROM meta WHERE name = 'min_reader'", [], |row| row.get(0))
        .map_err(failed("read the format of the events"))?;
    if min_reader > READER {
        return Err(StoreError::TooNew { found: min_reader, supported: READER });
    }
    Ok(())
}

/// Refuses a database that is not there, or that this version would have to migrate.
pub(super) fn refuse_to_migrate(database: &Path, options: &SqliteOptions) -> Result<(), StoreError> {
    let refused = |source: String| StoreError::Io { operation: "open the database", source: source.into() };
    if !database.exists() {
        return Err(refused(format!("there is no database at {}", database.display())));
    }
    let connection = connection::open_reading(database, options)?;
    refuse_foreign(&connection)?;
    let (found, present) = (version(&connection)?, MIGRATIONS.len());
    if (found as usize) < present {
        return Err(refused(format!(
            "it has format {found}, and this version works on format {present}; a daemon of this version migrates it"
        )));
    }
    if found as usize == present && checksums::is_pending(&connection).map_err(failed("read the database"))? {
        return Err(refused(
            "its migration is not complete; a daemon of this version completes it".to_owned(),
        ));
    }
    Ok(())
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed("read the format of the database"))
}

/// Refuses a database with content that this program did not make.
fn refuse_foreign(connection: &Connection) -> Result<(), StoreError> {
    let read = failed("read the database");
    let application: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(&read)?;
    let objects: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(&read)?;
    if objects == 0 || application == APPLICATION {
        return Ok(());
    }
    Err(StoreError::Corrupt { detail: "it is the database of another program".to_owned() })
}

fn step(connection: &mut Connection, from: u32, migration: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated in the meantime.
    let now: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if now == from {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", from + 1)?;
    }
    transaction.commit()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn schema(connection: &Connection) -> Vec<String> {
        let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name").unwrap();
        let rows = statement.query_map([], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn migrating_again_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let fresh = schema(&connection);
        migrate(&mut connection).unwrap();
        assert_eq!(schema(&connection), fresh);
        assert_eq!(version(&connection).unwrap() as usize, MIGRATIONS.len());
    }

    #[test]
    fn a_migration_that_fails_leaves_the_format_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, &[FIRST]).unwrap();
        let before = schema(&connection);
        let broken = [FIRST, "CREATE TABLE next (x); SELECT no_such_function()"];
        assert!(migrate_with(&mut connection, &broken).is_err());
        assert_eq!(schema(&connection), before);
        assert_eq!(version(&connection).unwrap(), 1);
        migrate_with(&mut connection, &[FIRST, "CREATE TABLE next (x)"]).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_newer_format_is_refused_by_its_number_and_by_that_of_its_events() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.execute("UPDATE meta SET value = 4 WHERE name = 'min_reader'", []).unwrap();
        assert!(matches!(migrate(&mut connection), Err(StoreError::TooNew { found: 4, supported: 3 })));
        let newer = [
            FIRST,
            EVENTS_OF_FORMAT_2,
            WHOLE_OR_NOT,
            FORKS,
            MEMORY,
            VOTES,
            REMOVING,
            "CREATE TABLE next (x)",
        ];
        migrate_with(&mut connection, &newer).unwrap_err();
        assert!(matches!(migrate(&mut connection), Err(StoreError::TooNew { found: 8, supported: 7 })));
    }

    #[test]
    fn a_version_of_format_2_refuses_a_database_from_the_first_step_of_its_migration() {
        let format_2 = [FIRST, EVENTS_OF_FORMAT_2];
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, &format_2).unwrap();
        migrate_with(&mut connection, &format_2).unwrap();
        // The tables are changed, and no row has its checksum yet.
        migrate(&mut connection).unwrap();
        let refused = migrate_with(&mut connection, &format_2);
        assert!(matches!(refused, Err(StoreError::TooNew { found: 7, supported: 2 })), "{refused:?}");
    }

    #[test]
    fn what_was_written_before_marks_is_an_era_and_nothing_is_none() {
        let eras = |sql: &str| -> Vec<(u32, u32, u32, Option<u32>)> {
            let mut connection = Connection::open_in_memory().unwrap();
            migrate_with(&mut connection, &[FIRST, EVENTS_OF_FORMAT_2]).unwrap();
            connection.execute_batch(sql).unwrap();
            migrate(&mut connection).unwrap();
            let mut statement = connection.prepare("SELECT shard, first, mark, last FROM eras").unwrap();
            let era = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            statement.query_map([], era).unwrap().collect::<Result<_, _>>().unwrap()
        };
        assert_eq!(eras(""), []);
        assert_eq!(eras("INSERT INTO shards (shard, epoch) VALUES (0, 4)"), []);
        assert_eq!(eras("INSERT INTO shards (shard, epoch, removed) VALUES (0, 4, 9)"), [(0, 1, 0, None)]);
        let row = "INSERT INTO shards (shard, epoch) VALUES (0, 4);
            INSERT INTO log (run, first_seq, count, appended, events) VALUES (x'00', 1, 1, 0, x'')";
        assert_eq!(eras(row), [(0, 1, 0, None)]);
    }

    #[test]
    fn a_database_of_the_format_before_says_from_now_on_who_may_read_its_events() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate_with(&mut connection, &[FIRST]).unwrap();
        let reader = |connection: &Connection| -> u32 {
            connection
                .query_row("SELECT value FROM meta WHERE name = 'min_reader'", [], |row| row.get(0))
                .unwrap()
        };
        assert_eq!((reader(&connection), version(&connection).unwrap()), (1, 1));
        migrate(&mut connection).unwrap();
        assert_eq!((reader(&connection), version(&connection).unwrap()), (3, 7));
    }

    #[track_caller]
    fn check_plan(connection: &Connection, sql: &str, expected: &[&str]) {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let count = statement.parameter_count();
        let rows =
            statement.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get::<_, String>(3));
        let plan: Vec<String> = rows.unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(plan, expected, "{sql}");
    }

    #[test]
    fn retention_finds_what_it_removes_without_a_scan() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        check_plan(
            &connection,
            crate::sqlite::retention::FINISHED,
            &[
                "SEARCH runs USING COVERING INDEX runs_finished (<expr>=? AND finished_at>? AND finished_at<?)",
            ],
        );
        let blobs = "SELECT hash FROM blobs WHERE refs = 0 AND put_at < ? ORDER BY put_at, hash LIMIT ?";
        check_plan(&connection, blobs, &["SEARCH blobs USING COVERING INDEX blobs_unreferenced (put_at<?)"]);
        let keys =
            "SELECT key FROM retired_keys WHERE finished_at < ? ORDER BY finished_at, run, key LIMIT ?";
        check_plan(&connection, keys, &["SEARCH retired_keys USING PRIMARY KEY (finished_at<?)"]);
    }

    #[test]
    fn listings_follow_the_order_of_an_index() {
        use crate::port::{RunId, RunQuery};
        use crate::sqlite::reader::{listing, listing_floor};
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let all = RunQuery { before: Some(RunId::MAX), from: Some(RunId::MIN), ..RunQuery::default() };
        let unfinished = RunQuery { unfinished: true, status: Some(1), ..all.clone() };
        let labelled = RunQuery { labels: [("a".to_owned(), "b".to_owned())].into(), ..unfinished.clone() };
        let quarantine = "SEARCH quarantined USING PRIMARY KEY (run=?) LEFT-JOIN";
        let by_id = "SEARCH runs USING PRIMARY KEY (run>? AND run<?)";
        let by_end = "SEARCH runs USING INDEX runs_unfinished (run>? AND run<?)";
        let by_label = "USING PRIMARY KEY (key=? AND value=? AND run>? AND run<?)";
        check_plan(&connection, &listing(&all).0, &[by_id, quarantine]);
        check_plan(&connection, &listing(&unfinished).0, &[by_end, quarantine]);
        let of_label = format!("SEARCH l0 {by_label}");
        check_plan(
            &connection,
            &listing(&labelled).0,
            &[&of_label, "SEARCH runs USING PRIMARY KEY (run=?)", quarantine],
        );
        check_plan(&connection, &listing_floor(&all).0, &[by_id]);
        let by_end = "SEARCH runs USING COVERING INDEX runs_unfinished (run>? AND run<?)";
        check_plan(&connection, &listing_floor(&unfinished).0, &[by_end]);
        check_plan(&connection, &listing_floor(&labelled).0, &[&format!("SEARCH run_labels {by_label}")]);
    }

    #[test]
    fn derived_rows_are_found_by_their_keys_and_by_their_runs() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let by_key = crate::sqlite::derived::BY_KEY;
        let plan = "SEARCH derived USING INDEX derived_key (kind=? AND key=? AND (run,seq,n)>(?,?,?))";
        check_plan(&connection, by_key, &[plan]);
        let by_run = crate::sqlite::derived::BY_RUN;
        let plan = "SEARCH derived USING PRIMARY KEY (run=? AND (seq,n)>(?,?))";
        check_plan(&connection, by_run, &[plan]);
        check_plan(
            &connection,
            "DELETE FROM derived WHERE run = ?",
            &["SEARCH derived USING PRIMARY KEY (run=?)"],
        );
    }

    #[test]
    fn what_is_recalled_is_read_in_the_order_of_an_index() {
        use crate::port::{MemoryOrder, MemorySearch};
        use crate::sqlite::remembered::{of_one_kind, of_one_mode};
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let newest = "SEARCH memory_entries USING INDEX memory_newest (session_id=? AND context_mode=? AND type=? AND timestamp>?)";
        check_plan(&connection, &of_one_kind(MemoryOrder::NewestFirst), &[newest]);
        let best = "SEARCH memory_entries USING COVERING INDEX memory_best (session_id=? AND context_mode=? AND type=?)";
        check_plan(&connection, &of_one_kind(MemoryOrder::MostRelevantFirst), &[best]);
        let after = Some((crate::port::Millis(1), "id".to_owned()));
        let all = MemorySearch { after, ..MemorySearch::default() };
        let in_order = "SEARCH memory_entries USING INDEX idx_session_mode_timestamp (session_id=? AND context_mode=? AND timestamp<?)";
        check_plan(&connection, &of_one_mode(&all), &[in_order, "USE TEMP B-TREE FOR LAST TERM OF ORDER BY"]);
        let of_kind = MemorySearch { kind: Some("plan".to_owned()), ..all };
        let in_order = "SEARCH memory_entries USING COVERING INDEX memory_newest (session_id=? AND context_mode=? AND type=? AND timestamp<?)";
        check_plan(
            &connection,
            &of_one_mode(&of_kind),
            &[in_order, "USE TEMP B-TREE FOR LAST TERM OF ORDER BY"],
        );
        let of_run = "SEARCH memory_entries USING INDEX memory_run (run=? AND seq>?)";
        check_plan(&connection, "DELETE FROM memory_entries WHERE run = ? AND seq > ?", &[of_run]);
    }

    #[test]
    fn listings_are_read_in_the_order_of_an_index() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        check_plan(
            &connection,
            "SELECT run FROM runs WHERE status = ? ORDER BY run DESC LIMIT ?",
            &["SCAN runs"],
        );
        let labels = "SELECT runs.run FROM run_labels AS l0 CROSS JOIN run_labels AS l1 CROSS JOIN runs
            WHERE l0.key = ? AND l0.value = ? AND l1.key = ? AND l1.value = ? AND l1.run = l0.run
            AND runs.run = l0.run AND l0.run < ? ORDER BY l0.run DESC LIMIT ?";
        let expected = [
            "SEARCH l0 USING PRIMARY KEY (key=? AND value=? AND run<?)",
            "SEARCH l1 USING PRIMARY KEY (key=? AND value=? AND run=?)",
            "SEARCH runs USING PRIMARY KEY (run=?)",
        ];
        check_plan(&connection, labels, &expected);
        let unfinished = "SELECT run, rest_in, rest_at FROM runs WHERE finished_at IS NULL AND run > ? ORDER BY run LIMIT ?";
        check_plan(&connection, unfinished, &["SEARCH runs USING COVERING INDEX runs_unfinished (run>?)"]);
    }
}
