//! What fails beneath the page: the browser, its tab, and the place that keeps evidence (our own codes beside those of
//! seed 002).
#![expect(clippy::disallowed_types, reason = "a test ends processes of the browser that it has started")]

use std::fs;

use capataz_contracts::v1::ActionStage::{Evidence, Execution, Postcondition};
use capataz_contracts::v1::BrowserLossReason;
use capataz_contracts::v1::event::Body;

use crate::bench::Bench;
use crate::session::Session;

/// Opens a page that never comes, so that something can happen meanwhile: once the site was asked for it, the action is in
/// its stage `execution`.
const WAITS: &str = r#"
    name = "waits"
    [[actions]]
    id = "open"
    kind = "navigate"
    url = "http://{site}/plain"
    [[actions]]
    id = "beacon"
    kind = "navigate"
    url = "http://{site}/button/plain"
    [[actions]]
    id = "wait"
    kind = "navigate"
    url = "http://{site}/navigate/never"
    timeout_ms = 120000
    "#;

fn kill(process: u32) {
    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
    assert!(killed.success());
}

/// Processes that show pages, of all that belong to this browser.
fn renderers(browser: u32) -> Vec<u32> {
    let mut family = vec![browser];
    let mut found = Vec::new();
    // Children have greater numbers than their parents as long as the numbers do not begin anew.
    let mut all: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    all.sort_unstable();
    for process in all {
        let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        let after_name = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        let parent = after_name.split(' ').nth(1).and_then(|parent| parent.parse().ok());
        if !parent.is_some_and(|parent| family.contains(&parent)) {
            continue;
        }
        family.push(process);
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if command.contains("--type=renderer") {
            found.push(process);
        }
    }
    found
}

#[tokio::test]
async fn browser_lost_when_the_browser_dies_in_the_midst_of_an_action() {
    let bench = Bench::start().await;
    let run_id = bench.try_start(bench.script(WAITS)).await.unwrap();
    bench.site.until_hits("/navigate/never", 1).await;
    let process = bench.browsers().await[0].process_id;
    kill(process);
    let ended = bench.ended(run_id).await;
    let proven = bench.expect_error(&ended, "BROWSER_LOST", Execution).await;
    assert!(proven.details["reason"].is_string(), "{}", proven.details);
    assert_eq!(proven.error.action_id, "wait");
    assert_eq!(proven.error.state_before.as_ref().unwrap().title, "Button");
    assert!(proven.evidence.contains_key("dom_snapshot_partial"), "of what was seen last");
    assert_eq!(bench.browsers().await, []);
}

#[tokio::test]
async fn browser_lost_when_the_tab_crashes() {
    let bench = Bench::start().await;
    let run_id = bench.try_start(bench.script(WAITS)).await.unwrap();
    bench.site.until_hits("/navigate/never", 1).await;
    let process = bench.browsers().await[0].process_id;
    let renderers = renderers(process);
    assert!(!renderers.is_empty());
    for renderer in renderers {
        kill(renderer);
    }
    let ended = bench.ended(run_id).await;
    let proven = bench.expect_error(&ended, "BROWSER_LOST", Execution).await;
    assert_eq!(proven.error.action_id, "wait");
    assert_eq!(proven.error.state_before.as_ref().unwrap().title, "Button");
}

#[tokio::test]
async fn evidence_failed_when_nothing_can_be_kept_any_more() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/no-effect\"").await;
    // Blobs are written there before they are moved to their place.
    let temporary = bench.data_dir().join("blobs/tmp");
    fs::rename(&temporary, bench.data_dir().join("moved")).unwrap();
    fs::write(&temporary, "a file in the place of a folder").unwrap();

    let click = r#"
        kind = "click"
        timeout_ms = 3000
        target = { testid = "target" }
        [[actions.post]]
        kind = "text_equals"
        target = { testid = "status" }
        value = "saved"
        "#;
    let error = session.fails(click).await;
    let events = bench.export(&session.run_id).await;
    let proven = bench.prove(&session.run_id, &events, error, "EVIDENCE_FAILED", Evidence).await;
    assert_eq!(proven.details["original_code"], "POSTCONDITION_FAILED");
    assert!(proven.error.cause.is_some(), "{:?}", proven.error);

    fs::remove_file(&temporary).unwrap();
    fs::rename(bench.data_dir().join("moved"), &temporary).unwrap();
    let error = session.fails(click).await;
    let events = bench.export(&session.run_id).await;
    bench.prove(&session.run_id, &events, error, "POSTCONDITION_FAILED", Postcondition).await;
    session.close().await;
}

#[tokio::test]
async fn browser_lost_between_two_proposals_ends_the_session_at_once() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/plain\"").await;
    kill(bench.browsers().await[0].process_id);
    // Nobody proposes anything.
    let ended = bench.ended(session.run_id.clone()).await;
    let lost = ended.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::BrowserLost(lost) => Some(lost.clone()),
        _ => None,
    });
    let opened = ended.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::BrowserOpened(opened) => Some(opened.clone()),
        _ => None,
    });
    let (lost, opened) = (lost.expect("the loss is an event"), opened.unwrap());
    assert_eq!((lost.worker.as_str(), lost.reason()), (&*opened.worker, BrowserLossReason::Ended));
    assert!(opened.worker.starts_with("capataz-browser-host-"), "{opened:?}");
    let proven = bench.expect_error(&ended, "BROWSER_LOST", Execution).await;
    assert_eq!(proven.error.action_id, "browser:close");
    assert!(proven.evidence.contains_key("dom_snapshot_partial"), "of what was seen last");
    assert_eq!(proven.error.state_before.as_ref().unwrap().title, "Plain page");
    let late = session.propose("kind = \"click\"\ntarget = { css = \"h1\" }").await.unwrap_err();
    assert_eq!(late.code(), tonic::Code::FailedPrecondition, "{late:?}");
}
