//! A browser of its own for each test, and what the tests ask of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use capataz_cdp::{
    Browser, LaunchError, LaunchOptions, NavigateError, Session, ShimOptions, find, passed_environment,
};
use capataz_shim::ShimCommand;
use rustix::process::{Pid, test_kill_process};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The helper executable.
pub const HOST: &str = env!("CARGO_BIN_EXE_cdp_host");

/// How long a condition may take to come true before the test fails, on a machine that stands still for a while, too.
/// Nothing waits for it in the good case.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Who the browser is a child of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    Shim,
    Us,
}

/// The folders of one browser.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    pub fn locks(&self) -> PathBuf {
        self.folder.path().join("locks")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn options(&self, program: impl Into<PathBuf>, under: Under) -> LaunchOptions {
        let mut options = LaunchOptions::new(program, self.profile());
        options.environment = passed_environment(true, |name| std::env::var_os(name));
        let command = ShimCommand { program: HOST.into(), args: vec!["__shim".into()] };
        options.shim = (under == Under::Shim).then(|| ShimOptions { command, locks_folder: self.locks() });
        options.answer_limit = DEADLINE;
        options
    }

    /// A program that is a shell script. Another process writes it: a file that this one had open could not be executed
    /// while a test on another thread starts a process.
    pub async fn script(&self, text: &str) -> PathBuf {
        let program = self.path("program");
        let mut writer = tokio::process::Command::new("sh");
        writer
            .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
            .arg(&program)
            .arg(text);
        assert!(writer.status().await.unwrap().success());
        program
    }

    /// A program that is not a browser is started as one, and waited for as long.
    pub async fn launch_script(&self, text: &str, under: Under, answer_limit: Duration) -> LaunchError {
        let mut options = self.options(self.script(text).await, under);
        options.answer_limit = answer_limit;
        Browser::launch(options).await.unwrap_err()
    }
}

pub async fn program() -> PathBuf {
    let (named, path) = (std::env::var_os("CAPATAZ_CHROMIUM"), std::env::var_os("PATH"));
    match find::chromium(named.as_deref().map(Path::new), path.as_deref()).await {
        Ok(found) => found.program,
        Err(error) => panic!("these tests need a Chromium: {error}"),
    }
}

pub async fn launch(bench: &Bench) -> Browser {
    Browser::launch(bench.options(program().await, Under::Shim)).await.unwrap()
}

pub async fn page(browser: &Browser) -> Session {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        target_id: String,
    }
    let session = browser.connection().browser();
    let created: Created =
        session.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
    session.attach(&created.target_id).await.unwrap()
}

pub async fn evaluate(page: &Session, expression: &str) -> Value {
    let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
    let answer: Value = page.call("Runtime.evaluate", params).await.unwrap();
    assert!(answer.get("exceptionDetails").is_none(), "{answer}");
    answer["result"]["value"].clone()
}

/// Loads the document to its end. The browser's words where it could not.
pub async fn navigate(page: &Session, url: &str) -> Result<(), String> {
    match page.navigate(url, "Page.loadEventFired").await {
        Err(NavigateError::NotLoaded { reason }) => Err(reason),
        loaded => {
            loaded.unwrap();
            Ok(())
        }
    }
}

/// The process ids of the browser, its own first.
pub async fn processes(browser: &Browser) -> Vec<i32> {
    let answer: Value = browser.connection().browser().call("SystemInfo.getProcessInfo", ()).await.unwrap();
    let mut processes = answer["processInfo"].as_array().unwrap().clone();
    processes.sort_by_key(|process| process["type"] != "browser");
    processes.iter().map(|process| i32::try_from(process["id"].as_i64().unwrap()).unwrap()).collect()
}

/// Whether there is a process with this id that has not ended.
pub fn is_alive(pid: i32) -> bool {
    let pid = Pid::from_raw(pid).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    test_kill_process(pid).is_ok() && state != Some('Z')
}

/// The processes that have this text on their command line.
pub fn processes_naming(text: &Path) -> Vec<i32> {
    let named = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text.to_str().unwrap())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(named).filter(|pid| is_alive(*pid)).collect()
}

pub async fn eventually(mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "the condition did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A web server that answers each request with the same response, and counts who came.
pub struct Server {
    pub port: u16,
    accepted: watch::Receiver<usize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn new(response: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, accepted) = watch::channel(0);
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let response = response.clone();
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        if client.read_buf(&mut request).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let _ = client.write_all(response.as_bytes()).await;
                });
            }
        });
        Self { port, accepted, serving }
    }

    pub async fn page(body: &str) -> Self {
        let length = body.len();
        let headers = "Content-Type: text/html\r\nAccess-Control-Allow-Origin: *\r\nConnection: close";
        Self::new(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{headers}\r\n\r\n{body}")).await
    }

    pub async fn redirect(to: &str) -> Self {
        let headers = "Content-Length: 0\r\nAccess-Control-Allow-Origin: *\r\nConnection: close";
        Self::new(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\n{headers}\r\n\r\n")).await
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        *self.accepted.borrow()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
