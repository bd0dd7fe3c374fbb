//! What is left, and who is told, when a page, the browser or we come to a sudden end.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use capataz_cdp::{CallError, Done, EventError, Loss, NavigateError};
use capataz_shim::await_orphans;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::support::{
    Bench, DEADLINE, HOST, evaluate, eventually, is_alive, launch, page, processes, processes_naming, program,
};

#[tokio::test]
async fn a_page_that_crashes_ends_its_own_calls_only() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let (crashing, other) = (page(&browser).await, page(&browser).await);
    crashing.call::<Done>("Inspector.enable", ()).await.unwrap();
    let mut crashed = crashing.subscribe(&["Inspector.targetCrashed"]);
    let endless = json!({ "expression": "new Promise(() => {})", "awaitPromise": true });
    let waiting = crashing.send::<Value>("Runtime.evaluate", endless);
    let crash = crashing.send::<Value>("Page.crash", ());

    timeout(DEADLINE, crashed.next()).await.unwrap().unwrap();
    let error = timeout(DEADLINE, waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Crashed { .. }), "{error}");
    assert!(timeout(DEADLINE, crash).await.unwrap().is_err());
    assert_eq!(evaluate(&other, "1").await, 1);
    // The session lives on, and so may the page.
    let anew = json!({ "url": "data:text/html,<title>anew</title>" });
    timeout(DEADLINE, crashing.call::<Done>("Page.navigate", anew)).await.unwrap().unwrap();
    let title = "new Promise(done => document.readyState === 'complete' ? done(document.title) \
                 : addEventListener('load', () => done(document.title)))";
    assert_eq!(evaluate(&crashing, title).await, "anew");
}

#[tokio::test]
async fn a_page_that_crashes_while_it_loads_ends_its_navigation() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    page.call::<Done>("Page.enable", ()).await.unwrap();
    let mut loads = page.subscribe(&["Page.loadEventFired"]);
    let crashing = async {
        timeout(DEADLINE, loads.next()).await.unwrap().unwrap();
        drop(page.send::<Value>("Page.crash", ()));
    };
    // The document never says that it has come this far.
    let navigating = page.navigate("data:text/html,<title>doomed</title>", "Page.neverSaid");
    let (navigated, ()) = tokio::join!(timeout(DEADLINE, navigating), crashing);
    let error = navigated.unwrap().unwrap_err();
    assert!(matches!(error, NavigateError::Call(CallError::Crashed { .. })), "{error}");
}

#[tokio::test]
async fn a_page_that_is_closed_ends_its_calls_and_subscriptions() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let (closing, other) = (page(&browser).await, page(&browser).await);
    let mut loads = closing.subscribe(&["Page.loadEventFired"]);
    let endless = json!({ "expression": "new Promise(() => {})", "awaitPromise": true });
    let waiting = closing.send::<Value>("Runtime.evaluate", endless);
    let target: Value = closing.call("Target.getTargetInfo", ()).await.unwrap();
    let target = json!({ "targetId": target["targetInfo"]["targetId"] });
    browser.connection().browser().call::<Done>("Target.closeTarget", target).await.unwrap();

    assert!(timeout(DEADLINE, waiting).await.unwrap().is_err());
    assert_eq!(timeout(DEADLINE, loads.next()).await.unwrap(), Err(EventError::Detached));
    let error = timeout(DEADLINE, closing.call::<Done>("Page.enable", ())).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Protocol { code: -32001, .. }), "{error}");
    assert_eq!(evaluate(&other, "1").await, 1);
}

#[tokio::test]
async fn a_browser_that_dies_ends_every_waiting_call_at_once() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let page = page(&browser).await;
    let mut events = page.subscribe(&[]);
    let endless = json!({ "expression": "new Promise(() => {})", "awaitPromise": true });
    let waiting: Vec<_> = (0..10).map(|_| page.send::<Value>("Runtime.evaluate", endless.clone())).collect();
    let all = processes(&browser).await;
    let killed_at = Instant::now();
    kill_process(Pid::from_raw(all[0]).unwrap(), Signal::KILL).unwrap();
    for waiting in waiting {
        let error = timeout(DEADLINE, waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Lost { loss: Loss::BrowserGone, .. }), "{error}");
    }
    println!("lost after {:?}", killed_at.elapsed());
    while let Ok(event) = events.try_next() {
        assert!(event.is_some(), "the subscription goes on");
    }
    assert_eq!(events.next().await, Err(EventError::Lost(Loss::BrowserGone)));
    assert_eq!(page.subscribe(&[]).next().await, Err(EventError::Lost(Loss::BrowserGone)));
    let error = page.call::<Done>("Page.enable", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Lost { .. }), "{error}");

    let ended = browser.ended().await;
    assert_eq!(ended.status.unwrap().signal(), Some(9));
    assert!(all.iter().all(|pid| !is_alive(*pid)));
    assert!(!bench.profile().exists());
}

#[tokio::test]
async fn nothing_is_left_when_we_are_killed() {
    let bench = Bench::new();
    let mut host = tokio::process::Command::new(HOST)
        .arg("hold")
        .args([program().await, bench.profile(), bench.locks()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let host_pid = host.id().and_then(|pid| i32::try_from(pid).ok());
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("ready"));
    assert!(bench.profile().join("data").is_dir());
    let shim = shim_of(&bench);
    let processes: Vec<i32> = processes_naming(&bench.profile())
        .into_iter()
        .filter(|pid| *pid != shim && Some(*pid) != host_pid)
        .collect();
    // The browser and its own processes.
    assert!(processes.len() > 2, "{processes:?}");

    host.kill().await.unwrap();
    let locks = bench.locks();
    tokio::task::spawn_blocking(move || await_orphans(&locks, DEADLINE)).await.unwrap().unwrap();
    assert!(!processes.into_iter().any(is_alive));
    assert!(!bench.profile().exists());
    eventually(|| !is_alive(shim)).await;
}

#[tokio::test]
async fn a_killed_shim_takes_the_browser_with_it() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    kill_process(Pid::from_raw(shim_of(&bench)).unwrap(), Signal::KILL).unwrap();
    browser.ended().await;
    eventually(|| processes_naming(&bench.profile()).is_empty()).await;
    assert!(!bench.profile().exists());
}

fn shim_of(bench: &Bench) -> i32 {
    let shims = processes_naming(Path::new("__shim"));
    processes_naming(&bench.profile()).into_iter().find(|pid| shims.contains(pid)).unwrap()
}
