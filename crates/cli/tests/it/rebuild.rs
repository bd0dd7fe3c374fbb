//! `capataz rebuild`: rows that somebody has changed are named and made again, and a folder in use is left alone.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use capataz_contracts::v1;
use rusqlite::Connection;
use serde_json::Value;

use crate::served::{Served, rebuild};

/// A run id that no daemon has given.
const STRANGER: &str = "01890000-0000-7000-8000-00000000abcd";
const AGENTS: &str = "
[[agents]]
name = \"echo\"
command = [\"echo\", \"1\"]

[[agents]]
name = \"slow\"
command = [\"sleep\", \"1000\"]
";

fn request(agent: &str, parent: Option<&str>) -> v1::StartRunRequest {
    let task = v1::Task { name: "t".to_owned(), agent: agent.to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    let parent = parent.map(|run| v1::ParentRef {
        run_id: run.to_owned(),
        task: "t".to_owned(),
        ..Default::default()
    });
    v1::StartRunRequest { parent, ..v1::StartRunRequest::of_plan(plan) }
}

/// A folder with a run that has ended, its child, and another child that is at work; the daemon is gone.
async fn family(folder: &Path) -> [String; 3] {
    let daemon = Served::start(folder, AGENTS);
    let client = daemon.client().await;
    let parent = client.execute_run(request("echo", None), None).await.unwrap().run_id;
    let child = client.execute_run(request("echo", Some(&parent)), None).await.unwrap().run_id;
    let waiting = client.start_run(request("slow", Some(&parent))).await.unwrap().run_id;
    [parent, child, waiting]
}

fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("data/capataz.db")).unwrap()
}

fn id(run: &str) -> [u8; 16] {
    *uuid::Uuid::parse_str(run).unwrap().as_bytes()
}

/// What the program said, line by line; the last line is about all runs.
fn said(output: &Output) -> (Vec<Value>, Value) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.pop().expect("it says something");
    (lines, last)
}

#[track_caller]
fn is_clean(folder: &Path, runs: u64) {
    let output = rebuild(folder, &["--check", "--json"]);
    let (found, last) = said(&output);
    assert_eq!(found, Vec::<Value>::new());
    assert_eq!(
        last,
        serde_json::json!({ "runs": runs, "differing": 0, "mended": 0, "left_alone": 0, "check": true })
    );
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test]
async fn changed_rows_are_named_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [parent, child, waiting] = family(folder).await;
    is_clean(folder, 3);
    let children = || -> BTreeSet<[u8; 16]> {
        let database = database(folder);
        let mut statement =
            database.prepare("SELECT run FROM derived WHERE kind = 1 AND key = ? ORDER BY run").unwrap();
        let rows = statement.query_map([id(&parent)], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(children(), BTreeSet::from([id(&child), id(&waiting)]));

    let change =
        |sql: &str, run: &str| assert_eq!(database(folder).execute(sql, [id(run)]).unwrap(), 1, "{sql}");
    change("UPDATE runs SET outcome = 4, tasks_settled = 9 WHERE run = ?", &parent);
    change("DELETE FROM derived WHERE run = ?", &child);
    change("UPDATE derived SET value = x'00' WHERE run = ?", &waiting);
    change("INSERT INTO derived (run, seq, n, kind, key, value) VALUES (?, 1, 0, 1, x'01', x'')", STRANGER);
    let expected: BTreeSet<(&str, &str)> = [
        (&*parent, "outcome"),
        (&parent, "tasks_settled"),
        (&child, "derived row 1.0"),
        (&waiting, "derived row 1.0"),
        (STRANGER, "derived rows"),
    ]
    .into();
    for (arguments, code, mended) in
        [(&["--check", "--json"][..], 1, 0), (&["--check", "--json"], 1, 0), (&["--json"], 0, 4)]
    {
        let output = rebuild(folder, arguments);
        let (found, last) = said(&output);
        let named = |line: &Value, field: &str| line[field].as_str().unwrap().to_owned();
        let found: BTreeSet<(String, String)> =
            found.iter().map(|line| (named(line, "run_id"), named(line, "column"))).collect();
        let found: BTreeSet<(&str, &str)> = found.iter().map(|(run, column)| (&**run, &**column)).collect();
        assert_eq!(found, expected, "{arguments:?}");
        assert_eq!((&last["differing"], &last["mended"]), (&4.into(), &mended.into()), "{last}");
        assert_eq!(output.status.code(), Some(code));
    }
    is_clean(folder, 3);
    assert_eq!(children(), BTreeSet::from([id(&child), id(&waiting)]));

    // People get lines, and a daemon goes on with what was written.
    change("UPDATE runs SET outcome = 4 WHERE run = ?", &parent);
    let output = rebuild(folder, &["--check"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        format!(
            "run {parent}: outcome is 4, and its log says 1\n\
             3 runs looked at; 1 run with rows that do not follow from its log\n"
        )
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(rebuild(folder, &[]).status.success());
    let daemon = Served::start(folder, AGENTS);
    let request = v1::GetRunRequest { run_id: parent.clone(), ..Default::default() };
    let run = daemon.client().await.get_run(request).await.unwrap().run.unwrap();
    assert_eq!(run.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_damaged_run_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [parent, child, _] = family(folder).await;
    for sql in [
        "UPDATE log SET events = zeroblob(length(events)) WHERE run = ? AND first_seq = 1",
        "UPDATE runs SET tasks_total = 7 WHERE run = ?",
    ] {
        assert_eq!(database(folder).execute(sql, [id(&child)]).unwrap(), 1);
    }
    let output = rebuild(folder, &["--json"]);
    let (found, last) = said(&output);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["run_id"], Value::from(child.clone()));
    let reason = found[0]["left_alone"].as_str().unwrap();
    assert!(reason.contains("is damaged") && !reason.contains(&parent), "{reason}");
    assert_eq!((&last["left_alone"], &last["mended"]), (&1.into(), &0.into()));
    assert_eq!(output.status.code(), Some(1));
    let total: u32 = database(folder)
        .query_row("SELECT tasks_total FROM runs WHERE run = ?", [id(&child)], |row| row.get(0))
        .unwrap();
    assert_eq!(total, 7);
}

#[tokio::test]
async fn a_folder_that_a_daemon_uses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), AGENTS);
    for arguments in [&["--check"][..], &[]] {
        let output = rebuild(folder.path(), arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        let process = format!("another daemon (process {}) uses the data folder", daemon.process_id());
        assert!(error.contains(&process), "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_folder_of_another_format_or_without_a_database_is_refused_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |what: &str| {
        for arguments in [&["--check"][..], &[]] {
            let output = rebuild(folder, arguments);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains(what), "{error}");
            assert_eq!(output.status.code(), Some(1));
        }
    };
    refused("there is no database at");
    assert!(!folder.join("data").exists(), "no folder is made");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data-format-2/data/capataz.db");
    std::fs::create_dir(folder.join("data")).unwrap();
    std::fs::copy(fixture, folder.join("data/capataz.db")).unwrap();
    let format =
        || -> u32 { database(folder).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap() };
    refused("it has format 2, and this version works on format 7; a daemon of this version migrates it");
    assert_eq!(format(), 2);
    database(folder).pragma_update(None, "user_version", 8).unwrap();
    refused("the database has format 8, this version reads up to 7");
    assert_eq!(format(), 8);
}

/// Runs of every kind and sessions, finished and not, as the version before left their rows.
#[test]
fn a_migrated_folder_has_every_row_after_a_rebuild() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data-format-2/data/capataz.db");
    std::fs::create_dir(folder.join("data")).unwrap();
    std::fs::copy(fixture, folder.join("data/capataz.db")).unwrap();
    Served::start(folder, AGENTS).killed();
    // A run that was behind its log, whatever the version before has left.
    let behind = "UPDATE runs SET tasks_settled = tasks_settled + 1 WHERE run = (SELECT max(run) FROM runs)";
    assert_eq!(database(folder).execute(behind, []).unwrap(), 1);
    let runs: u64 = database(folder)
        .query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0))
        .unwrap()
        .cast_unsigned();
    assert!(runs > 20);
    let output = rebuild(folder, &["--json"]);
    let (found, last) = said(&output);
    assert_eq!(output.status.code(), Some(0), "{last}");
    assert!(!found.is_empty() && last["runs"] == runs, "{last}");
    is_clean(folder, runs);
}

#[tokio::test]
async fn whoever_is_killed_in_the_middle_begins_again() {
    const STRAYS: u32 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [parent, ..] = family(folder).await;
    database(folder)
        .execute_batch(&format!(
            "UPDATE runs SET tasks_total = 7;
             WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {STRAYS})
             INSERT INTO derived (run, seq, n, kind, key, value)
             SELECT unhex(printf('%032x', n)), 1, 0, 1, x'01', x'' FROM number;"
        ))
        .unwrap();
    let left = || -> u32 {
        database(folder)
            .query_row("SELECT count(*) FROM derived WHERE key = x'01'", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(left(), STRAYS);
    for round in 1..=3 {
        let mut process = Command::new(env!("CARGO_BIN_EXE_capataz"))
            .env("LC_ALL", "C")
            .args(["rebuild", "--json", "--data-dir"])
            .arg(folder.join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It waits for its reader, so that it is not done when it is killed.
        let before = left();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(lines.take(1_000).filter(Result::is_ok).count(), 1_000);
        process.kill().unwrap();
        assert!(!process.wait().unwrap().success());
        assert!(left() < before && left() > 0, "round {round}: {} of {before}", left());
    }
    let output = rebuild(folder, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(left(), 0);
    is_clean(folder, 3);
    let total: u32 = database(folder)
        .query_row("SELECT tasks_total FROM runs WHERE run = ?", [id(&parent)], |row| row.get(0))
        .unwrap();
    assert_eq!(total, 1);
}
