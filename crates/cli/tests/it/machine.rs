//! What the daemon takes of the machine and lets others have: descriptors, connections, files.

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use capataz_client::Client;
use capataz_contracts::v1;

use crate::served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// The output of a run of one task for the agent `a`, which writes text.
async fn run(client: &Client) -> String {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    let run = client.start_run(v1::StartRunRequest::of_plan(plan)).await.unwrap().run_id;
    let result = client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let output = result.tasks[0].output.clone().unwrap();
    match output.data {
        Some(v1::payload::Data::Inline(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

/// The configuration of the agent `a`, which runs a script and gives its text back.
fn agent(script: &str) -> String {
    let command = serde_json::to_string(&["sh", "-c", script]).unwrap();
    format!("[[agents]]\nname = \"a\"\noutput = \"text\"\ncommand = {command}\n")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything below the folder, with what it is.
fn everything(folder: &Path) -> Vec<(std::path::PathBuf, u32)> {
    let mut found = vec![(folder.to_owned(), mode(folder))];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(everything(&path)),
            false => found.push((path.clone(), mode(&path))),
        }
    }
    found
}

#[tokio::test]
async fn the_data_folder_is_its_owners_alone_and_what_commands_make_is_as_they_want_it() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("made");
    let script = format!("touch '{}'; umask; head -c 100000 /dev/zero", made.display());
    let daemon = Served::start_after(folder.path(), &agent(&script), "umask 0027");
    let client = daemon.client().await;
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    let run = client.start_run(v1::StartRunRequest::of_plan(plan)).await.unwrap().run_id;
    client.wait_run(&run, Some(PATIENCE)).await.unwrap().expect("it ends");
    let all = everything(&folder.path().join("data"));
    assert!(all.iter().any(|(path, _)| path.ends_with("capataz.db-wal")), "{all:?}");
    assert!(all.iter().any(|(path, _)| path.components().any(|part| part.as_os_str() == "blobs")), "{all:?}");
    let open: Vec<_> = all.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(mode(&made), 0o640, "a command has the umask that the daemon was started with");
}

#[tokio::test]
async fn a_data_folder_that_others_may_read_is_narrowed_and_one_that_they_may_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let mut daemon = Served::start(folder.path(), "");
    assert_eq!(mode(&data), 0o700);
    assert!(daemon.said().contains("could read the data folder"), "{}", daemon.said());
    daemon.signal("KILL");
    assert!(!daemon.ended().success());
    fs::set_permissions(&data, Permissions::from_mode(0o770)).unwrap();
    let mut refused = Command::new(env!("CARGO_BIN_EXE_capataz"));
    refused.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    let refused = refused.current_dir(folder.path()).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("mode 770") && said.contains("chmod 700"), "{said}");
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn idle_connections_leave_descriptors_for_work_and_the_next_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let limits = "ulimit -Sn 64; ulimit -Hn 256";
    let daemon = Served::start_after(folder.path(), &agent("ulimit -Sn"), limits);
    let client = daemon.client().await;
    assert_eq!(run(&client).await.trim(), "64", "commands have the limit that the daemon was given");
    // All at once, for who says nothing is sent away after a while.
    let mut connections: Vec<TcpStream> =
        (0..160).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    let is_told = |connection: &mut TcpStream| {
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = Vec::new();
        let _ = connection.read_to_end(&mut heard);
        String::from_utf8_lossy(&heard).contains("too many connections")
    };
    // Half of 256 descriptors are for connections: the soft limit was raised. One of them is the client's.
    assert!(connections.drain(127..).any(|mut connection| is_told(&mut connection)), "somebody is told");
    assert_eq!(run(&client).await.trim(), "64", "there are descriptors for commands and the database");
    drop(connections);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while Client::connect(&daemon.url()).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "in time: there is room again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
