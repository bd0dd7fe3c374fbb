//! What becomes of calls when a tab crashes or the browser ends.

use std::time::Duration;

use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{LIMIT, Server, css, open};

fn is_lost<T>(result: &Result<T, PageError>) -> bool {
    matches!(result, Err(PageError::Lost { .. }))
}

#[tokio::test]
async fn every_call_after_the_browsers_death_is_lost_at_once() {
    let server = Server::with(&[("/", "<button id=go>Go</button>")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#go").await;
    let info = page.browser.info().clone();
    assert!(info.version.contains("Chrome/"), "{info:?}");
    kill(info.process_id);
    page.browser.ended().await;
    let act = Act::Click { node: node.clone(), how: Default::default() };
    assert!(is_lost(&page.act(act, WaitUntil::Load).await));
    assert!(is_lost(&page.page.look(&css("#go")).await));
    assert!(is_lost(&page.page.facts(&node, &[]).await));
    assert!(is_lost(&page.page.screenshot(false, &|_| Vec::new()).await));
    assert!(is_lost(&page.page.changed(LIMIT).await));
    assert!(is_lost(&page.page.location().await));
    assert!(is_lost(&page.page.downloads_ended(true, LIMIT).await));
    assert!(is_lost(&page.go(&server.url("/")).await));
}

#[tokio::test]
async fn a_call_that_waits_when_the_browser_dies_ends_with_it() {
    let server = Server::with(&[("/", "quiet")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let process = page.browser.info().process_id;
    let waiting = page.page.downloads_ended(true, Duration::from_secs(600));
    let (waited, ()) = tokio::join!(waiting, async { kill(process) });
    assert!(is_lost(&waited));
}

#[tokio::test]
async fn a_tab_that_crashes_is_lost_and_says_so() {
    let server = Server::with(&[("/", "<button id=go>Go</button>")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#go").await;
    let renderer = child_of(page.browser.info().process_id, "--type=renderer");
    for process in renderer {
        kill(process);
    }
    let lost = page.page.downloads_ended(true, LIMIT).await;
    assert!(is_lost(&lost), "{lost:?}");
    let clicked = page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await;
    assert_eq!(clicked, Err(PageError::Lost { reason: "the tab has crashed".to_owned() }));
    assert!(is_lost(&page.page.look(&css("#go")).await));
}

#[tokio::test]
async fn nothing_is_left_of_a_browser_that_was_closed() {
    let server = Server::with(&[("/", "page")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let process = page.browser.info().process_id;
    let profile = page.folder.path().join("profile");
    assert!(profile.exists());
    let crate::support::Opened { browser, page: mut lost, folder } = page;
    browser.close(LIMIT).await;
    assert!(!profile.exists());
    assert!(!std::path::Path::new(&format!("/proc/{process}/exe")).exists());
    assert!(is_lost(&lost.look(&css("p")).await));
    drop(folder);
}

fn kill(process: u32) {
    let process = rustix::process::Pid::from_raw(process.try_into().unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// Processes below this one with a word in their command line.
fn child_of(ancestor: u32, word: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Ok(process) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(word) && is_below(process, ancestor) {
            found.push(process);
        }
    }
    found
}

fn is_below(mut process: u32, ancestor: u32) -> bool {
    while process > 1 {
        if process == ancestor {
            return true;
        }
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        process = parent.and_then(|parent| parent.parse().ok()).unwrap_or(0);
    }
    false
}
