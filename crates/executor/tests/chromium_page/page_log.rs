//! What the page writes to its console, and its requests that fail.

use capataz_executor::page::{Page, PageLog};

use crate::support::{Answer, Server, open_with, within};

const NOISY: &str = "<!doctype html><p id=done>no</p><script>console.warn('first', 2, {a: 1}); console.error('x'.repeat(20000)); \
    for (let i = 0; i < 3; i += 1) console.log('same'); setTimeout(() => { null.x }); \
    Promise.allSettled([fetch('/missing?token=abc'), fetch('http://127.0.0.1:1/')]).then(() => done.textContent = 'yes')</script>\
    <iframe src=/in></iframe>";

async fn log_of(listens: bool) -> PageLog {
    let server = Server::start(|request| match request.path.as_str() {
        "/" => Some(Answer::html(NOISY)),
        "/in" => Some(Answer::html("<p id=in>in</p><script>console.info('from a frame')</script>")),
        _ => None,
    })
    .await;
    let mut page = open_with(&[&server], |options| options.page_log = listens).await;
    page.go(&server.url("/")).await.unwrap();
    page.reads("#done", "yes").await;
    page.found(&within(&["iframe"], "#in")).await;
    let log = page.page.take_log().await;
    assert_eq!(page.page.take_log().await, PageLog::default());
    log
}

// S002-EV-12
#[tokio::test]
async fn lines_exceptions_and_failed_requests_are_heard_where_somebody_listens() {
    let log = log_of(true).await;
    let lines: Vec<_> =
        log.console.iter().map(|line| (line.level.as_str(), line.text.as_str(), line.count)).collect();
    for expected in [
        ("warning", "first 2 Object", 1),
        ("error", "(too long)", 1),
        ("log", "same", 3),
        ("info", "from a frame", 1),
    ] {
        assert!(lines.contains(&expected), "{expected:?}: {lines:?}");
    }
    let is_thrown =
        |(level, text, _): &(&str, &str, u32)| *level == "exception" && text.contains("TypeError");
    assert!(lines.iter().any(is_thrown), "{lines:?}");
    let requests: Vec<_> =
        log.requests.iter().map(|request| (request.kind.as_str(), request.reason.as_str())).collect();
    assert!(requests.contains(&("fetch", "status 404")), "{requests:?}");
    let is_refused =
        |(kind, reason): &(&str, &str)| *kind == "fetch" && reason.starts_with("net::ERR_BLOCKED_BY_CLIENT");
    assert!(requests.iter().any(is_refused), "{requests:?}");
    assert!(log.console[0].url.starts_with("http://127.0.0.1") && log.console[0].line == 1, "{log:?}");
}

#[tokio::test]
async fn nothing_is_heard_where_nobody_listens() {
    assert_eq!(log_of(false).await, PageLog::default());
}

// S002-EV-12
#[tokio::test]
async fn a_page_that_writes_without_end_is_bounded_and_stays_usable() {
    let endless = "<button id=go onclick='this.textContent = 1'>Go</button><script>const write = () => { \
        for (let i = 0; i < 500; i += 1) console.log(i + 'y'.repeat(1000)); setTimeout(write) }; write()</script>";
    let server = Server::with(&[("/", endless)]).await;
    let mut page = open_with(&[&server], |options| options.page_log = true).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#go").await.unwrap();
    page.reads("#go", "1").await;
    let log = page.page.take_log().await;
    let bytes: usize = log.console.iter().map(|line| line.text.len()).sum();
    assert!(
        log.console.len() <= 200 && bytes <= 256 * 1024 && log.left_out > 0,
        "{} {bytes}",
        log.console.len()
    );
}
