//! A daemon that has no descriptor left for a while: what fails then has failed for that while, and nothing else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use capataz_client::{Client, ClientError, RetryOptions};
use capataz_contracts::v1;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes from a daemon every descriptor that it does not have yet, and gives them back.
struct Descriptors {
    process: Pid,
    before: Rlimit,
}

impl Descriptors {
    fn of(daemon: &Served) -> Self {
        let process = Pid::from_raw(daemon.process_id().try_into().unwrap()).unwrap();
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.as_raw_nonzero())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
        let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
        let before = Rlimit { current: numbers.next().unwrap(), maximum: numbers.next().unwrap() };
        Self { process, before }
    }

    /// It keeps what it has open, and can open nothing else: the three that are left are its standard streams.
    fn take(&self) {
        prlimit(Some(self.process), Resource::Nofile, Rlimit { current: Some(3), ..self.before }).unwrap();
    }

    fn give_back(&self) {
        prlimit(Some(self.process), Resource::Nofile, self.before).unwrap();
    }
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn starts(folder: &Path) -> usize {
    fs::read_to_string(folder.join("journal")).unwrap_or_default().lines().count()
}

/// An agent that writes a line into the journal, waits for the file `go`, and then gives 100,000 bytes back. It needs a
/// secret from a file.
fn agent(folder: &Path) -> String {
    fs::create_dir(folder.join("secrets")).unwrap();
    fs::write(folder.join("secrets/KEY"), "open sesame\n").unwrap();
    let script = r#"
        cat > /dev/null
        [ "$KEY" = "open sesame" ] || exit 9
        echo start >> "$JOURNAL"
        while [ ! -e "$GO" ]; do sleep 0.02; done
        head -c 100000 /dev/zero | tr '\0' x
    "#;
    format!(
        "secrets_dir = {:?}\n[[agents]]\nname = \"large\"\noutput = \"text\"\ncommand = {}\n\
         env = {{ KEY = \"${{secret:KEY}}\", JOURNAL = {:?}, GO = {:?} }}\n",
        folder.join("secrets").display().to_string(),
        serde_json::to_string(&["sh", "-c", script]).unwrap(),
        folder.join("journal").display().to_string(),
        folder.join("go").display().to_string(),
    )
}

fn one_task(effect: v1::Effect, input: Option<v1::BlobRef>) -> v1::StartRunRequest {
    let retry = v1::RetryPolicy {
        max_attempts: Some(10),
        base_delay_ms: Some(200),
        max_delay_ms: Some(1_000),
        ..Default::default()
    };
    let input = input.map(|blob| v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Blob(blob)),
    });
    let task = v1::Task {
        name: "t".to_owned(),
        agent: "large".to_owned(),
        effect: Some(effect as i32),
        retry: Some(retry),
        input,
        ..Default::default()
    };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    v1::StartRunRequest::of_plan(plan)
}

/// The run's end, with the output of its task, which has to be a whole blob.
async fn check_end(client: &Client, run: &str) -> v1::TaskView {
    let result = client.wait_run(run, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let request = v1::GetRunRequest { run_id: run.to_owned(), include_outputs: true, ..Default::default() };
    let view = client.get_run(request).await.unwrap().run.unwrap();
    let task = view.waves[0].tasks[0].clone();
    let Some(v1::payload::Data::Blob(blob)) = task.output.clone().and_then(|output| output.data) else {
        unreachable!("{task:?}");
    };
    assert_eq!(client.get_blob(&blob.blake3).await.unwrap(), vec![b'x'; 100_000]);
    task
}

/// Ends the daemon and looks its data folder through.
fn check_whole(daemon: Served, folder: &Path) {
    daemon.killed();
    let verified =
        Command::new(env!("CARGO_BIN_EXE_capataz")).arg("verify").arg(folder.join("data")).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[tokio::test]
async fn what_a_command_has_done_is_kept_when_there_are_descriptors_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), &agent(folder.path()));
    let client = daemon.client().await;
    let run = client.start_run(one_task(v1::Effect::AtMostOnce, None)).await.unwrap().run_id;
    eventually("the command runs", || starts(folder.path()) == 1).await;
    let descriptors = Descriptors::of(&daemon);
    descriptors.take();
    fs::write(folder.path().join("go"), "").unwrap();
    eventually("its output cannot be kept", || daemon.said().contains("the store is asked again")).await;
    descriptors.give_back();
    let task = check_end(&client, &run).await;
    assert_eq!((task.attempt, starts(folder.path())), (1, 1), "it was not begun again");
    check_whole(daemon, folder.path());
}

#[tokio::test]
async fn a_command_that_gets_no_descriptor_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let daemon = Served::start(folder.path(), &agent(folder.path()));
    let client = daemon.client().await;
    let input = client.put_blob(Bytes::from_static(b"\"input\"")).await.unwrap();
    let descriptors = Descriptors::of(&daemon);
    descriptors.take();
    let plain = client.start_run(one_task(v1::Effect::AtLeastOnce, None)).await.unwrap().run_id;
    let fed = client.start_run(one_task(v1::Effect::AtLeastOnce, Some(input))).await.unwrap().run_id;
    let failed = async || {
        let mut events = client.export_run(&plain).await.unwrap();
        while let Some(event) = events.next().await {
            if let Some(v1::event::Body::TaskAttemptFailed(failed)) = event.unwrap().body {
                return failed.error;
            }
        }
        None
    };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let error = loop {
        match failed().await {
            Some(error) => break error,
            None => assert!(tokio::time::Instant::now() < deadline, "in time: an attempt fails"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(error.code, "SERVICE_UNAVAILABLE", "{error:?}");
    assert!(error.message.contains("Too many open files"), "{error:?}");
    eventually("its input cannot be read", || daemon.said().contains("the store is asked again")).await;
    descriptors.give_back();
    assert!(check_end(&client, &plain).await.attempt > 1);
    assert_eq!(check_end(&client, &fed).await.attempt, 1, "it waited for its input");
    assert_eq!(starts(folder.path()), 2);
    check_whole(daemon, folder.path());
}

fn check_passing(error: &ClientError) {
    assert!(matches!(error.code(), Some("UNAVAILABLE" | "OVERLOADED")), "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn calls_without_a_descriptor_are_told_to_come_back_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let daemon = Served::start(folder.path(), &agent(folder.path()));
    let client = daemon.client().await;
    let (kept, refused) = (Bytes::from(vec![1; 50_000]), Bytes::from(vec![2; 50_000]));
    let kept_as = client.put_blob(kept.clone()).await.unwrap();
    let once = client.clone().with_retry(RetryOptions::never());
    let descriptors = Descriptors::of(&daemon);
    descriptors.take();
    check_passing(&once.put_blob(refused.clone()).await.unwrap_err());
    check_passing(&once.get_blob(&kept_as.blake3).await.unwrap_err());
    // More reads at once than there are open connections to the database.
    let reads = (0..64).map(|_| {
        let once = once.clone();
        tokio::spawn(async move { once.list_runs(v1::ListRunsRequest::default()).await })
    });
    for read in reads.collect::<Vec<_>>() {
        if let Err(error) = read.await.unwrap() {
            check_passing(&error);
        }
    }
    let started = client.start_run(one_task(v1::Effect::AtLeastOnce, None)).await.unwrap().run_id;
    descriptors.give_back();
    // A connection that was never accepted and a blob that was never kept are ones now.
    let other = daemon.client().await;
    assert_eq!(other.get_blob(&kept_as.blake3).await.unwrap(), kept);
    let refused_as = other.put_blob(refused.clone()).await.unwrap();
    assert_eq!(other.get_blob(&refused_as.blake3).await.unwrap(), refused);
    check_end(&other, &started).await;
    let listed = other.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs;
    assert_eq!(listed.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), [started]);
    check_whole(daemon, folder.path());
}

/// What a client says first: what every one of HTTP/2 begins with, and settings without a wish.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The kind of a frame with settings, and where the kind stands in the head of a frame.
const SETTINGS: (usize, u8) = (3, 4);

#[tokio::test]
async fn connections_that_cannot_be_accepted_are_tried_now_and_then_and_come_in_later() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let descriptors = Descriptors::of(&daemon);
    let tries = || daemon.said().matches("a connection was not accepted").count();
    let began = tokio::time::Instant::now();
    descriptors.take();
    // The system takes them, and the daemon cannot.
    let mut connections: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    for connection in &mut connections {
        connection.write_all(GREETING).unwrap();
    }
    eventually("it is tried again and again", || tries() >= 5).await;
    let (tries, passed) = (tries(), began.elapsed());
    // There are 100 ms between two of them, and more where there is much else to do.
    let most = usize::try_from(passed.as_millis() / 100).unwrap() + 2;
    assert!(tries <= most, "{tries} tries in {passed:?}");
    descriptors.give_back();
    for connection in &mut connections {
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = [0; 9];
        connection.read_exact(&mut head).unwrap();
        assert_eq!(head[SETTINGS.0], SETTINGS.1, "{head:?}");
    }
    drop(connections);
    let listed = daemon.client().await.list_runs(v1::ListRunsRequest::default()).await.unwrap();
    assert!(listed.runs.is_empty(), "{listed:?}");
    check_whole(daemon, folder.path());
}
