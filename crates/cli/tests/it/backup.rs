//! `capataz backup`, `restore` and `verify`: a copy made beside a daemon at work is whole, and damage is named.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use capataz_client::{Client, Delivery};
use capataz_contracts::v1;
use serde_json::Value;

use crate::served::Served;

const AGENTS: &str = "
[[agents]]
name = \"echo\"
command = [\"cat\"]
output = \"text\"
max_concurrency = 4
";

fn capataz(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.env("LC_ALL", "C");
    command.args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn refused(output: &Output, reason: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(reason), "{told}");
}

fn request(input: v1::payload::Data) -> v1::StartRunRequest {
    let input = Some(v1::Payload { media_type: "text/plain".to_owned(), data: Some(input) });
    let task = v1::Task { name: "t".to_owned(), agent: "echo".to_owned(), input, ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    v1::StartRunRequest::of_plan(plan)
}

/// Executes one run, and returns its id when it has ended.
async fn execute(client: &Client, input: &str) -> String {
    let input = v1::payload::Data::Inline(input.to_owned().into());
    let done = client.execute_run(request(input), None).await.unwrap();
    assert_eq!(done.result.unwrap().outcome(), v1::RunOutcome::Succeeded);
    done.run_id
}

/// Executes a run whose input is a blob.
async fn execute_with_blob(client: &Client, content: &[u8]) -> (String, v1::BlobRef) {
    let blob = client.put_blob(content.to_vec().into()).await.unwrap();
    let run = client.execute_run(request(v1::payload::Data::Blob(blob.clone())), None).await.unwrap();
    (run.run_id, blob)
}

async fn run(client: &Client, run_id: &str) -> v1::Run {
    let request =
        v1::GetRunRequest { run_id: run_id.to_owned(), include_outputs: true, ..Default::default() };
    client.get_run(request).await.unwrap().run.unwrap()
}

fn blob_file(data: &Path, blob: &v1::BlobRef) -> PathBuf {
    data.join("blobs").join(&blob.blake3[..2]).join(&blob.blake3)
}

/// A file, or a folder, which has no content.
#[derive(PartialEq)]
struct Entry {
    mode: u32,
    written: SystemTime,
    content: Option<Vec<u8>>,
}

/// A folder and all that is in it.
fn entries(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let (mut found, mut paths) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(path) = paths.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let content = metadata.is_file().then(|| std::fs::read(&path).unwrap());
        let (mode, written) = (metadata.permissions().mode() & 0o777, metadata.modified().unwrap());
        found.insert(path, Entry { mode, written, content });
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_beside_a_daemon_at_work_has_all_that_was_acknowledged_and_begins_a_history_when_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let client = daemon.client().await;
    let mut before = Vec::new();
    for number in 0..20 {
        before.push(execute(&client, &format!("run {number}")).await);
    }
    let (with_blob, blob) = execute_with_blob(&client, &[7; 100_000]).await;
    before.push(with_blob);
    let expected = run(&client, &before[3]).await;

    let stops = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|_| {
            let (client, stops) = (client.clone(), Arc::clone(&stops));
            tokio::spawn(async move {
                while !stops.load(Ordering::Acquire) {
                    execute(&client, "busy").await;
                }
            })
        })
        .collect();
    let at = folder.to_owned();
    let backup = move || capataz(&at, &["backup", "saved", "--data-dir", "data", "--json"]);
    let made = tokio::task::spawn_blocking(backup).await.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let last = said(&made).pop().unwrap();
    assert!(last["runs"].as_u64().unwrap() >= 21 && last["left_alone"] == 0, "{last}");
    assert_eq!((&last["blobs"], &last["blob_bytes"]), (&1.into(), &100_000.into()));
    assert!(!folder.join("saved.partial").exists());
    stops.store(true, Ordering::Release);
    for busy in busy {
        busy.await.unwrap();
    }
    // What is behind the backup, and where its events end.
    let after = execute(&client, "after").await;
    let mut events = client.subscribe(v1::SubscribeRequest::default());
    let later = loop {
        let delivery = events.next().await.unwrap().unwrap();
        let Delivery::Event { run_id, cursor, .. } = delivery else { continue };
        if run_id == after {
            break cursor;
        }
    };
    drop(events);
    drop(daemon);

    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    assert!(capataz(folder, &["verify", "saved"]).status.success());
    let restored = capataz(folder, &["restore", "saved", "--data-dir", "other/data"]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let daemon = Served::start(&other, AGENTS);
    let client = daemon.client().await;
    assert_eq!(run(&client, &before[3]).await, expected);
    for run_id in &before {
        assert_eq!(run(&client, run_id).await.outcome(), v1::RunOutcome::Succeeded);
    }
    assert_eq!(client.get_blob(&blob.blake3).await.unwrap(), vec![7; 100_000]);
    let request = v1::GetRunRequest { run_id: after, ..Default::default() };
    assert_eq!(client.get_run(request).await.unwrap_err().code(), Some("RUN_NOT_FOUND"));
    let request = v1::SubscribeRequest { cursor: later, ..Default::default() };
    let refusal = client.subscribe(request).next().await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), Some("CURSOR_UNKNOWN"));
    execute(&client, "it goes on").await;
}

#[tokio::test]
async fn what_is_damaged_or_missing_is_named_and_the_rest_is_in_the_backup() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let client = daemon.client().await;
    let kept = execute(&client, "kept").await;
    let (_, damaged) = execute_with_blob(&client, &[1; 50_000]).await;
    let (_, missing) = execute_with_blob(&client, &[2; 50_000]).await;
    let (_, whole) = execute_with_blob(&client, &[3; 50_000]).await;
    let mut bytes = std::fs::read(blob_file(&folder.join("data"), &damaged)).unwrap();
    bytes[40_000] ^= 1;
    std::fs::write(blob_file(&folder.join("data"), &damaged), bytes).unwrap();
    std::fs::remove_file(blob_file(&folder.join("data"), &missing)).unwrap();

    let named = |output: &Output| {
        let mut said = said(output);
        let last = said.pop().unwrap();
        assert_eq!((&last["damaged_blobs"], &last["missing_blobs"]), (&1.into(), &1.into()), "{last}");
        assert_eq!(said[0]["damaged_blob"], *damaged.blake3);
        assert_eq!(said[1]["missing_blob"], *missing.blake3);
        assert_eq!(output.status.code(), Some(1));
    };
    named(&capataz(folder, &["backup", "saved", "--data-dir", "data", "--json"]));
    assert!(blob_file(&folder.join("saved"), &whole).exists());
    assert!(!blob_file(&folder.join("saved"), &damaged).exists());
    drop(daemon);
    named(&capataz(folder, &["verify", "--data-dir", "data", "--json"]));

    // A log, too.
    let database = rusqlite::Connection::open(folder.join("data/capataz.db")).unwrap();
    let run = *uuid::Uuid::parse_str(&kept).unwrap().as_bytes();
    let changed =
        database.execute("UPDATE log SET events = zeroblob(9) WHERE run = ? AND first_seq = 1", [run]);
    assert_eq!(changed.unwrap(), 1);
    drop(database);
    let output = capataz(folder, &["verify", "--data-dir", "data", "--json"]);
    let found = said(&output);
    assert!(found.iter().any(|line| line["run_id"] == *kept && line["left_alone"].is_string()), "{found:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[tokio::test]
async fn nothing_is_overwritten_and_what_was_begun_and_not_finished_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    execute(&daemon.client().await, "x").await;
    let backup = |target: &str| capataz(folder, &["backup", target, "--data-dir", "data"]);
    // As a backup that was killed leaves it.
    std::fs::create_dir_all(folder.join("saved.partial/blobs")).unwrap();
    std::fs::write(folder.join("saved.partial/backup.lock"), "").unwrap();
    std::fs::write(folder.join("saved.partial/capataz.db"), "half").unwrap();
    refused(&capataz(folder, &["restore", "saved.partial", "--data-dir", "new"]), "is not a backup");
    assert!(backup("saved").status.success());
    assert!(!folder.join("saved.partial").exists() && !folder.join("saved/backup.lock").exists());
    refused(&backup("saved"), "is there already");
    refused(&capataz(folder, &["verify", "--data-dir", "data"]), "another daemon");
    refused(&capataz(folder, &["restore", "saved", "--data-dir", "data"]), "has a database already");
    refused(&capataz(folder, &["backup", "none", "--data-dir", "nowhere"]), "there is no database");
    for name in ["none", "none.partial", "nowhere"] {
        assert!(!folder.join(name).exists(), "{name}");
    }

    // As a restore that was killed leaves it.
    std::fs::create_dir_all(folder.join("new/restoring")).unwrap();
    std::fs::write(folder.join("new/restoring/backup.lock"), "").unwrap();
    std::fs::write(folder.join("new/restoring/capataz.db"), "half").unwrap();
    assert!(capataz(folder, &["restore", "saved", "--data-dir", "new"]).status.success());
    assert!(!folder.join("new/restoring").exists());
    refused(&capataz(folder, &["restore", "saved", "--data-dir", "new"]), "has a database already");
    assert!(capataz(folder, &["verify", "new"]).status.success());
}

#[tokio::test]
async fn what_is_left_of_an_earlier_database_is_never_taken_for_a_part_of_the_restored_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let client = daemon.client().await;
    execute(&client, "in the backup").await;
    assert!(capataz(folder, &["backup", "saved", "--data-dir", "data"]).status.success());
    execute(&client, "only in the write-ahead log").await;
    // Killed, so that its log stays; and without its database, as somebody leaves it who removes that alone.
    let new = folder.join("new");
    std::fs::create_dir(&new).unwrap();
    std::fs::copy(folder.join("data/capataz.db-wal"), new.join("capataz.db-wal")).unwrap();
    drop(daemon);
    let restore = || capataz(folder, &["restore", "saved", "--data-dir", "new"]);
    refused(&restore(), "new/capataz.db-wal is left of a database that is gone");
    assert!(!new.join("capataz.db").exists() && new.join("capataz.db-wal").exists());
    std::fs::remove_file(new.join("capataz.db-wal")).unwrap();
    for left in ["capataz.db-shm", "capataz.db-journal"] {
        std::fs::write(new.join(left), "").unwrap();
        refused(&restore(), left);
        std::fs::remove_file(new.join(left)).unwrap();
    }
    assert!(restore().status.success());
    assert!(capataz(folder, &["verify", "new"]).status.success());
}

#[tokio::test]
async fn a_folder_that_no_backup_has_begun_and_one_of_a_backup_at_work_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    execute(&daemon.client().await, "x").await;
    let backup = || capataz(folder, &["backup", "saved", "--data-dir", "data"]);
    let partial = folder.join("saved.partial");
    std::fs::create_dir(&partial).unwrap();
    std::fs::write(partial.join("mine"), "precious").unwrap();
    refused(&backup(), "is there and is not an unfinished backup");
    assert_eq!(std::fs::read(partial.join("mine")).unwrap(), b"precious");

    // As another backup of the same name holds it.
    let lock = std::fs::File::create(partial.join("backup.lock")).unwrap();
    lock.try_lock().unwrap();
    refused(&backup(), "another backup is being made");
    assert!(partial.join("mine").exists() && !folder.join("saved").exists());
    drop(lock);
    assert!(backup().status.success());
    assert!(!partial.exists() && !folder.join("saved/mine").exists());

    let restore = || capataz(folder, &["restore", "saved", "--data-dir", "new"]);
    let restoring = folder.join("new/restoring");
    std::fs::create_dir_all(&restoring).unwrap();
    std::fs::write(restoring.join("mine"), "precious").unwrap();
    refused(&restore(), "is there and is not an unfinished backup");
    assert!(restoring.join("mine").exists() && !folder.join("new/capataz.db").exists());
    std::fs::remove_file(restoring.join("mine")).unwrap();
    // A folder without anything in it is nobody's loss.
    assert!(restore().status.success());
    assert!(!restoring.exists());
}

/// Somebody may copy it to a place where no folder keeps others out.
#[tokio::test]
async fn what_is_in_a_backup_or_restored_from_it_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let (_, blob) = execute_with_blob(&daemon.client().await, &[7; 50_000]).await;
    // An empty folder is taken for the backup's, whoever has made it.
    std::fs::create_dir(folder.join("saved.partial")).unwrap();
    std::fs::set_permissions(folder.join("saved.partial"), Permissions::from_mode(0o755)).unwrap();
    for arguments in ["backup saved --data-dir data", "restore saved --data-dir new"] {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("umask 022; exec \"$0\" {arguments}"));
        command.arg(env!("CARGO_BIN_EXE_capataz")).current_dir(folder);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for place in ["saved", "new"].map(|name| folder.join(name)) {
        let found = entries(&place);
        assert!(
            found.contains_key(&place.join("capataz.db")) && found.contains_key(&blob_file(&place, &blob))
        );
        for (path, entry) in found {
            let expected = if entry.content.is_some() { 0o600 } else { 0o700 };
            assert_eq!(entry.mode, expected, "{}", path.display());
        }
    }
    assert!(folder.join("saved/backup.json").exists());
}

#[tokio::test]
async fn a_backup_is_looked_through_as_it_lies_there_also_where_nobody_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let (_, blob) = execute_with_blob(&daemon.client().await, &[7; 50_000]).await;
    let name = "saved 50%?#";
    assert!(capataz(folder, &["backup", name, "--data-dir", "data"]).status.success());
    drop(daemon);
    let saved = folder.join(name);
    let permit = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    for (path, entry) in entries(&saved) {
        permit(&path, entry.mode & 0o555);
    }
    let before = entries(&saved);
    let verified = capataz(folder, &["verify", name, "--json"]);
    let after = entries(&saved);
    for (path, entry) in &after {
        permit(path, entry.mode | 0o200);
    }
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let last = said(&verified).pop().unwrap();
    assert!(last["runs"] == 1 && last["blobs"] == 1 && last["left_alone"] == 0, "{last}");
    let names = |found: &BTreeMap<PathBuf, Entry>| found.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    assert!(after == before, "permissions, times and contents are those of before");
    // It is looked at all the same.
    let mut content = std::fs::read(blob_file(&saved, &blob)).unwrap();
    content[40_000] ^= 1;
    std::fs::write(blob_file(&saved, &blob), content).unwrap();
    let verified = capataz(folder, &["verify", name, "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    assert_eq!(said(&verified)[0]["damaged_blob"], *blob.blake3);
}

/// A backup can be used as a data folder.
#[tokio::test]
async fn a_backup_that_a_daemon_has_worked_on_is_looked_through_with_all_that_it_has_left() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let daemon = Served::start(folder, AGENTS);
    let client = daemon.client().await;
    execute(&client, "in the backup").await;
    assert!(capataz(folder, &["backup", "saved", "--data-dir", "data"]).status.success());
    std::fs::copy(folder.join("saved/backup.json"), folder.join("data/backup.json")).unwrap();
    execute(&client, "only in the write-ahead log").await;
    let verify = || capataz(folder, &["verify", "data", "--json"]);
    let refusal = verify();
    let told = [refusal.stdout, refusal.stderr].concat();
    assert!(String::from_utf8_lossy(&told).contains("another daemon"));
    daemon.killed();
    let log = folder.join("data/capataz.db-wal");
    assert!(log.metadata().unwrap().len() > 0);
    // The first look plays the log into the database, and the second finds all of it there.
    for _ in 0..2 {
        let verified = verify();
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
        assert_eq!(said(&verified).pop().unwrap()["runs"], 2);
        assert!(!log.exists());
    }
    // Nobody else has it meanwhile, and who has it is named.
    let lock = std::fs::File::options().write(true).open(folder.join("data/daemon.lock")).unwrap();
    lock.lock().unwrap();
    std::fs::write(folder.join("data/daemon.lock"), std::process::id().to_string()).unwrap();
    refused(&capataz(folder, &["verify", "data"]), "another daemon");
}
