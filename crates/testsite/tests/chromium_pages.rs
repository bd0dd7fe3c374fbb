//! The pages in a real browser without any rules: what the table says about them has to be so, or tests that rest on
//! them show nothing. Above all, each probe does reach the other host when nobody hinders it.

#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use capataz_cdp::{Browser, LaunchOptions, Session, find, passed_environment};
use capataz_testsite::{BIG_PAGE_ELEMENTS, Host, PROBES, Probe, Site};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

/// How long a condition may take to come true before the test fails, on a machine that stands still for a while, too.
const DEADLINE: Duration = Duration::from_secs(120);

/// How long a probe that Chromium itself refuses is watched.
const WATCHED: Duration = Duration::from_secs(2);

async fn launch(folder: &TempDir) -> Browser {
    let (named, path) = (std::env::var_os("CAPATAZ_CHROMIUM"), std::env::var_os("PATH"));
    let program = match find::chromium(named.as_deref().map(Path::new), path.as_deref()).await {
        Ok(found) => found.program,
        Err(error) => panic!("these tests need a Chromium: {error}"),
    };
    let mut options = LaunchOptions::new(program, folder.path().join("profile"));
    options.environment = passed_environment(true, |name| std::env::var_os(name));
    options.answer_limit = DEADLINE;
    Browser::launch(options).await.unwrap()
}

/// A new tab, with its dialogs accepted.
async fn tab(browser: &Browser) -> Session {
    let session = browser.connection().browser();
    let created: Value = session.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
    let page = session.attach(created["targetId"].as_str().unwrap()).await.unwrap();
    page.call::<Value>("Page.enable", ()).await.unwrap();
    let mut dialogs = page.subscribe(&["Page.javascriptDialogOpening"]);
    let answering = page.clone();
    tokio::spawn(async move {
        while dialogs.next().await.is_ok() {
            drop(answering.send::<Value>("Page.handleJavaScriptDialog", json!({ "accept": true })));
        }
    });
    page
}

/// Begins to load the document, and waits until it is parsed.
async fn open(page: &Session, url: &str) {
    open_until(page, url, "Page.domContentEventFired").await;
}

async fn open_until(page: &Session, url: &str, event: &'static str) {
    let opened = timeout(DEADLINE, page.navigate(url, event)).await;
    opened.unwrap_or_else(|_| panic!("{url}: no {event}")).unwrap();
}

async fn evaluate(page: &Session, expression: &str) -> Value {
    let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
    let answer: Value = page.call("Runtime.evaluate", params).await.unwrap();
    assert!(answer.get("exceptionDetails").is_none(), "{answer}");
    answer["result"]["value"].clone()
}

/// Input at the middle of the element, whatever lies there.
async fn click(page: &Session, id: &str) {
    let middle = format!(
        "new Promise(resolve => requestAnimationFrame(() => {{ \
         const r = document.querySelector('[data-testid={id}]').getBoundingClientRect(); \
         resolve([r.x + r.width / 2, r.y + r.height / 2]); }}))"
    );
    let middle = evaluate(page, &middle).await;
    for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params =
            json!({ "type": kind, "x": middle[0], "y": middle[1], "button": button, "clickCount": 1 });
        // The page may go away by it.
        let _ = page.call::<Value>("Input.dispatchMouseEvent", params).await;
    }
}

#[tokio::test]
async fn every_page_is_parsed_without_a_script_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let browser = launch(&folder).await;
    let site = Site::start().await.unwrap();
    let home = tab(&browser).await;
    open(&home, &site.url("/")).await;
    let paths = evaluate(&home, "Array.from(document.links, link => link.pathname)").await;
    let paths: Vec<&str> = paths.as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.len() > 70, "{} pages", paths.len());
    for path in paths {
        let page = tab(&browser).await;
        let mut failures = page.subscribe(&["Runtime.exceptionThrown"]);
        page.call::<Value>("Runtime.enable", ()).await.unwrap();
        open(&page, &site.url(path)).await;
        if let Some(failure) = failures.try_next().unwrap() {
            panic!("{path}: {}", failure.parse::<Value>().unwrap());
        }
        let _ = page.call::<Value>("Page.close", ()).await;
    }
    browser.close(DEADLINE).await;
}

#[tokio::test]
async fn every_probe_reaches_the_other_host_when_nobody_hinders_it() {
    let folder = tempfile::tempdir().unwrap();
    let browser = launch(&folder).await;
    let mut wrong = Vec::new();
    for probe in PROBES {
        let site = Site::start().await.unwrap();
        let page = tab(&browser).await;
        open(&page, &site.url(&format!("/probe/{}", probe.name))).await;
        if probe.needs_click {
            click(&page, "go").await;
        }
        let limit = if probe.reaches { DEADLINE } else { WATCHED };
        let reached = timeout(limit, site.until_other_hits(1)).await.is_ok();
        if reached != probe.reaches {
            wrong.push(format!("{}: {}", probe.name, if reached { "reached it" } else { "did not" }));
        }
        let _ = page.call::<Value>("Page.close", ()).await;
    }
    assert_eq!(wrong, Vec::<String>::new());
    browser.close(DEADLINE).await;
}

#[tokio::test]
async fn probes_that_begin_by_themselves_say_when_they_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let browser = launch(&folder).await;
    let site = Site::start().await.unwrap();
    let leaves =
        |probe: &Probe| ["script-location", "meta-refresh", "document-redirect"].contains(&probe.name);
    for probe in PROBES.iter().filter(|probe| !probe.needs_click && !leaves(probe)) {
        let page = tab(&browser).await;
        open(&page, &site.url(&format!("/probe/{}", probe.name))).await;
        let done = "new Promise(resolve => { const look = () => \
                    document.title === 'done' ? resolve(true) : requestAnimationFrame(look); look(); })";
        let done = timeout(DEADLINE, evaluate(&page, done)).await;
        assert_eq!(done.unwrap_or_else(|_| panic!("{} is not done", probe.name)), json!(true));
        let _ = page.call::<Value>("Page.close", ()).await;
    }
    browser.close(DEADLINE).await;
}

#[tokio::test]
async fn the_big_page_has_as_many_elements_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let browser = launch(&folder).await;
    let site = Site::start().await.unwrap();
    let page = tab(&browser).await;
    open(&page, &site.url("/big")).await;
    assert_eq!(evaluate(&page, "document.querySelectorAll('*').length").await, json!(BIG_PAGE_ELEMENTS));
    assert_eq!(evaluate(&page, "document.querySelectorAll('tbody tr').length").await, json!(42));
    browser.close(DEADLINE).await;
}

/// What the page asks for is held until it is let go on, so that a click does come before it.
const HELD: &str = "{ const real = window.fetch; const gone = new Promise(resolve => { \
    window.goOn = () => { window.fetch = real; resolve(); }; }); \
    window.fetch = (...asked) => gone.then(() => real(...asked)); }";

/// What a click without any checks does: each of these is what the executor has to notice.
#[tokio::test]
async fn careless_clicks_do_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let browser = launch(&folder).await;
    for (path, hit) in [
        ("/button/plain", "target"),
        ("/overlay/banner", "overlay"),
        ("/overlay/at-pointerdown", "overlay"),
        ("/overlay/at-pointermove", "overlay"),
        ("/overlay/transparent", "overlay"),
        ("/overlay/passes-through", "target"),
        ("/overlay/iframe", "overlay"),
        ("/overlay/partial", "overlay"),
        ("/button/replaced-on-hover", "replacement"),
        ("/button/replaced-on-mousedown", "replacement"),
        ("/button/shifts", "wrong"),
    ] {
        let site = Site::start().await.unwrap();
        let page = tab(&browser).await;
        open_until(&page, &site.url(path), "Page.loadEventFired").await;
        click(&page, "target").await;
        let counted = format!("/hit/{hit}");
        timeout(DEADLINE, site.until_hits(&counted, 1))
            .await
            .unwrap_or_else(|_| panic!("{path}: no /hit/{hit}"));
        let _ = page.call::<Value>("Page.close", ()).await;
    }
    let site = Site::start().await.unwrap();
    let page = tab(&browser).await;
    let held = json!({ "source": HELD });
    page.call::<Value>("Page.addScriptToEvaluateOnNewDocument", held).await.unwrap();
    open(&page, &site.url("/hydration")).await;
    click(&page, "target").await;
    evaluate(&page, "goOn()").await;
    evaluate(&page, "new Promise(r => { const l = () => document.body.dataset.hydrated ? r() : requestAnimationFrame(l); l(); })").await;
    assert_eq!(
        (site.hits("/hit/target"), site.connections(Host::Other)),
        (0, 0),
        "a click before hydration counts"
    );
    click(&page, "target").await;
    timeout(DEADLINE, site.until_hits("/hit/target", 1)).await.unwrap();
    browser.close(DEADLINE).await;
}
