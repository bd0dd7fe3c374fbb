//! A browser that runs already: what we have in it goes with us, however we go, and nothing else does.

use std::process::Stdio;

use capataz_cdp::attach::{AttachOptions, Attached, Endpoint, discover};
use capataz_cdp::{CallError, Loss, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::{Bench, DEADLINE, HOST, evaluate, program};

/// A browser as a person starts it, with one tab.
struct Persons {
    process: Child,
    endpoint: Endpoint,
    _bench: Bench,
}

impl Persons {
    async fn start() -> Self {
        let bench = Bench::new();
        let mut command = Command::new(program().await);
        command
            .args(["--remote-debugging-port=0", "--headless=new", "--no-first-run", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", bench.profile().display()))
            .args(capataz_cdp::probe::user().1.then_some("--no-sandbox"))
            .arg("data:text/html,<title>theirs</title>")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let endpoint = loop {
            let line = timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
            let port = line.strip_prefix("DevTools listening on ws://127.0.0.1:");
            if let Some((port, _)) = port.and_then(|rest| rest.split_once('/')) {
                break format!("http://127.0.0.1:{port}").parse().unwrap();
            }
        };
        // Whoever reads nothing would stop it some day.
        let mut rest = lines.into_inner();
        tokio::spawn(async move { rest.read_to_end(&mut Vec::new()).await });
        Self { process, endpoint, _bench: bench }
    }

    async fn attach(&self) -> Attached {
        let options = AttachOptions {
            endpoint: self.endpoint,
            proxy: None,
            download_folder: None,
            answer_limit: DEADLINE,
        };
        Attached::attach(options).await.unwrap()
    }

    fn is_alive(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

/// The tabs of all contexts.
async fn tabs(attached: &Attached) -> Vec<String> {
    let all: Value = attached.connection().browser().call("Target.getTargets", ()).await.unwrap();
    let pages = all["targetInfos"].as_array().unwrap().iter().filter(|target| target["type"] == "page");
    pages.map(|target| target["url"].as_str().unwrap().to_owned()).collect()
}

/// Waits until there are these tabs and no others.
async fn await_tabs(attached: &Attached, expected: &[String]) {
    timeout(DEADLINE, async { while tabs(attached).await != expected {} }).await.unwrap();
}

async fn open(attached: &Attached, url: &str) -> Session {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        target_id: String,
    }
    let browser = attached.connection().browser();
    let tab = json!({ "url": url, "browserContextId": attached.context() });
    let created: Created = browser.call("Target.createTarget", tab).await.unwrap();
    browser.attach(&created.target_id).await.unwrap()
}

#[tokio::test]
async fn what_is_ours_in_a_persons_browser_goes_and_the_browser_stays() {
    let mut persons = Persons::start().await;
    let watcher = persons.attach().await;
    let theirs = tabs(&watcher).await;
    let ours = persons.attach().await;
    let page = open(&ours, "about:blank").await;
    // Longer than one read, and than a frame with a short length.
    assert_eq!(evaluate(&page, "'a'.repeat(3000000).length").await, 3_000_000);
    let long = evaluate(&page, "'b'.repeat(3000000)").await;
    assert_eq!(long.as_str().map(str::len), Some(3_000_000));
    assert_eq!(tabs(&watcher).await.len(), theirs.len() + 1);
    let connection = ours.connection().clone();
    ours.close(DEADLINE).await;
    assert_eq!(tabs(&watcher).await, theirs);
    let called = connection.browser().call::<Value>("Browser.getVersion", ()).await;
    assert!(matches!(called, Err(CallError::Lost { loss: Loss::Closed, .. })), "{called:?}");

    // Without a word, too.
    let ours = persons.attach().await;
    open(&ours, "about:blank").await;
    drop(ours);
    await_tabs(&watcher, &theirs).await;
    assert!(persons.is_alive());
}

#[tokio::test]
async fn what_is_ours_in_a_persons_browser_goes_when_we_are_killed() {
    let mut persons = Persons::start().await;
    let watcher = persons.attach().await;
    let theirs = tabs(&watcher).await;
    let mut command = Command::new(HOST);
    command.arg("attach").arg(persons.endpoint.to_string()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut host = command.spawn().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    assert_eq!(timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().as_deref(), Some("ready"));
    assert!(tabs(&watcher).await.contains(&"data:text/html,ours".to_owned()));
    host.kill().await.unwrap();
    await_tabs(&watcher, &theirs).await;
    assert!(persons.is_alive());
}

#[tokio::test]
async fn a_persons_browser_that_ends_is_gone_and_so_is_its_port() {
    let mut persons = Persons::start().await;
    let attached = persons.attach().await;
    let page = open(&attached, "about:blank").await;
    persons.process.kill().await.unwrap();
    timeout(DEADLINE, attached.ended()).await.unwrap();
    let called = page.call::<Value>("Page.enable", ()).await;
    assert!(matches!(called, Err(CallError::Lost { .. })), "{called:?}");
    let error = discover(persons.endpoint).await.unwrap_err().to_string();
    for part in ["nobody listens there", "--remote-debugging-port=9222 --user-data-dir="] {
        assert!(error.contains(part), "{error}");
    }
}
