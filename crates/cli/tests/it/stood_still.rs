//! A daemon that is stopped for a while, as by a debugger or a closed lid: its clients have not been silent meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use capataz_client::{Client, RetryOptions};
use capataz_contracts::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::served::Served;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);
/// The bytes of a request that the daemon has when it is stopped. Its head and its first kilobytes are among them.
const PART: usize = 20_000;
/// A minute and more: longer than any limit on how long a client is waited for.
const STOPPED_SECONDS: i64 = 100;

/// A way to a daemon that passes on a part of what a client says, and the rest when it is told to.
struct Way {
    url: String,
    /// The part has been passed on.
    part: oneshot::Receiver<()>,
    rest: oneshot::Sender<()>,
}

impl Way {
    async fn to(daemon: &Served) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (passed, part) = oneshot::channel();
        let (rest, told) = oneshot::channel();
        let daemon = daemon.address().to_owned();
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let (mut says, mut hears) = client.into_split();
            let (mut answers, mut asked) = TcpStream::connect(daemon).await.unwrap().into_split();
            tokio::spawn(async move { copy(&mut answers, &mut hears).await });
            let mut passed_on = 0;
            let mut buffer = vec![0; 4_096];
            while passed_on < PART {
                let length = says.read(&mut buffer).await.unwrap();
                asked.write_all(&buffer[..length]).await.unwrap();
                passed_on += length;
            }
            passed.send(()).unwrap();
            told.await.unwrap();
            let _ = copy(&mut says, &mut asked).await;
        });
        Self { url, part, rest }
    }

    /// A client that asks once.
    async fn client(&self) -> Client {
        Client::connect(&self.url).await.unwrap().with_retry(RetryOptions::never())
    }
}

/// Has a daemon say of itself that it stood still for as long as the file says. Returns the commands before its start.
fn stoppable(folder: &Path, seconds: &Path) -> String {
    let (source, library) = (folder.join("stood_still.c"), folder.join("stood_still.so"));
    fs::write(&source, include_str!("stood_still.c")).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let built = build.output().unwrap();
    assert!(built.status.success(), "{built:?}");
    format!("export STOOD_STILL='{}' LD_PRELOAD='{}'", seconds.display(), library.display())
}

/// A request of many kilobytes.
fn large() -> v1::StartRunRequest {
    let input = v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(format!("\"{}\"", "x".repeat(30_000)).into())),
    };
    let task =
        v1::Task { name: "t".to_owned(), agent: "a".to_owned(), input: Some(input), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    v1::StartRunRequest::of_plan(plan)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_on_its_way_goes_on_where_the_daemon_itself_was_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = folder.path().join("seconds");
    fs::write(&seconds, 0_i64.to_ne_bytes()).unwrap();
    let daemon = Served::start_after(folder.path(), "", &stoppable(folder.path(), &seconds));
    let (of_upload, of_request) = (Way::to(&daemon).await, Way::to(&daemon).await);
    let (uploads, starts) = (of_upload.client().await, of_request.client().await);
    let upload = tokio::spawn(async move { uploads.put_blob(Bytes::from(vec![7; 8 * PART])).await });
    let request = tokio::spawn(async move { starts.start_run(large()).await });
    of_upload.part.await.unwrap();
    of_request.part.await.unwrap();
    let other = daemon.client().await;
    other.list_runs(v1::ListRunsRequest::default()).await.unwrap();

    daemon.signal("STOP");
    fs::write(&seconds, STOPPED_SECONDS.to_ne_bytes()).unwrap();
    daemon.signal("CONT");
    // It has looked at what is due since.
    other.list_runs(v1::ListRunsRequest::default()).await.unwrap();
    of_upload.rest.send(()).unwrap();
    of_request.rest.send(()).unwrap();

    let blob = tokio::time::timeout(PATIENCE, upload).await.unwrap().unwrap().unwrap();
    assert_eq!(blob.size, 8 * PART as u64);
    // Nobody serves the agent: the request was read as a whole, and refused for that.
    let refusal = tokio::time::timeout(PATIENCE, request).await.unwrap().unwrap().unwrap_err();
    assert_eq!(refusal.code(), Some("AGENT_NOT_FOUND"), "{refusal:?}");
}
