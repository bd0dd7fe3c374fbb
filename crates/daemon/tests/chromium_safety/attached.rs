//! Scripts in a browser that a person runs: it is theirs before, meanwhile and afterwards.

use std::collections::BTreeSet;

use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::validate;
use tonic_types::StatusExt;

use crate::allowlist::{errors_of, is_blocked, probe_all};
use crate::bench::{Bench, Ended};
use crate::persons_browser::PersonsBrowser;
use crate::support::details;

const ONE_PAGE: &str =
    "name = \"one\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{site}/plain\"\n";

/// A script that waits for what never comes, until it is ended.
const ENDLESS: &str = r#"
    name = "endless"
    [[actions]]
    id = "open"
    kind = "navigate"
    url = "http://{site}/plain"
    [[actions]]
    id = "wait"
    kind = "wait_for"
    conditions = [{ kind = "title_equals", value = "never" }]
"#;

/// Ways on which nothing fails an action: there is no request, and the floor refuses the connection where there is one.
const UNTOLD: [&str; 7] =
    ["web-transport", "webrtc-udp", "dns-prefetch", "speculation", "link-data", "preconnect", "webrtc-tcp"];

async fn attached_to(browser: &PersonsBrowser) -> Bench {
    let endpoint = browser.endpoint();
    Bench::start_with(|config, _| config.browser.attach = Some(endpoint)).await
}

fn opened(ended: &Ended) -> v1::BrowserOpened {
    let opened = ended.events.iter().find_map(|event| match event.body.as_ref()? {
        Body::BrowserOpened(opened) => Some(opened.clone()),
        _ => None,
    });
    opened.expect("a browser was opened")
}

#[tokio::test]
async fn a_script_in_a_persons_browser_leaves_the_browser_and_its_tabs_as_they_were() {
    let mut browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    browser.open(&bench.site.url("/tabs"), "Tabs").await;
    let before = browser.tabs().await;
    let ended = bench
        .run(
            r#"
            name = "form"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/button/plain"
            [[actions]]
            id = "click"
            kind = "click"
            target = { testid = "target" }
            [[actions]]
            id = "tabs"
            kind = "navigate"
            url = "http://{site}/tabs?ours"
            [[actions]]
            id = "popup"
            kind = "click"
            target = { testid = "open" }
            [[actions]]
            id = "save"
            kind = "click"
            target = { testid = "target" }
            "#,
        )
        .await;
    assert!(ended.script().error.is_none(), "{:?}", ended.script().error);
    let opened = opened(&ended);
    assert!(opened.attached, "the log says whose browser it was: {opened:?}");
    assert!(opened.browser.contains("Chrome/"), "{opened:?}");
    assert_eq!(bench.site.hits("/hit/target"), 1);
    assert_eq!(bench.site.hits("/hit/new-tab"), 1);
    browser.until_tabs(&before).await;
    assert_eq!(bench.site.hits("/tabs"), 2, "once for the person, once for the script");
    assert!(bench.browsers().await.is_empty());

    let described = bench.executor.clone().describe_browser(v1::DescribeBrowserRequest {}).await;
    let described = described.unwrap().into_inner();
    assert!(described.found && described.attached, "{described:?}");
    assert_eq!(described.program, browser.endpoint());
    drop(bench);
    assert!(browser.is_alive());
}

#[tokio::test]
async fn a_script_that_fails_and_one_that_is_cancelled_close_their_tabs_and_no_others() {
    let mut browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    browser.open(&bench.site.url("/plain?mine"), "Plain page").await;
    let before = browser.tabs().await;
    let failing = format!(
        "{ONE_PAGE}[[actions]]\nid = \"click\"\nkind = \"click\"\ntarget = {{ testid = \"nothing\" }}\ntimeout = \"1s\"\n"
    );
    let ended = bench.run(&failing).await;
    assert_eq!(ended.error().error_code, "TARGET_NOT_FOUND");
    browser.until_tabs(&before).await;

    let run_id = bench.try_start(bench.script(ENDLESS)).await.unwrap();
    bench.until_begun(&run_id, 1).await;
    assert_eq!(browser.tabs().await.len(), before.len() + 1, "one is the script's");
    let request_id = "cancel".to_owned();
    let cancel = v1::CancelRunRequest { run_id: run_id.clone(), request_id, ..Default::default() };
    bench.runs.clone().cancel_run(cancel).await.unwrap();
    bench.ended(run_id).await;
    browser.until_tabs(&before).await;
    assert!(browser.is_alive());
}

#[tokio::test]
async fn a_script_has_nothing_of_what_the_person_is_signed_in_to() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    // The page sets a cookie.
    browser.open(&bench.site.url("/secrets"), "Secrets").await;
    let ended = bench
        .run(
            r#"
            name = "headers"
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{site}/echo/headers"
            [[actions]]
            id = "no-cookie"
            kind = "extract"
            target = { css = "body" }
            extract = "text"
            output = "headers"
            "#,
        )
        .await;
    let headers = format!("{:?}", ended.script().outputs);
    assert!(headers.contains("accept-language"), "{headers}");
    assert!(!headers.contains("cookie"), "{headers}");
}

#[tokio::test]
async fn the_allowlist_holds_in_a_persons_browser_but_for_datagrams() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    let mut untold = BTreeSet::new();
    for (share, ended) in probe_all(&bench, "").await {
        for probe in share {
            let errors = errors_of(&ended, probe.name);
            for error in errors.iter().filter(|error| is_blocked(error)) {
                assert_eq!(details(error)["allowlist"], serde_json::json!([bench.site.host()]));
            }
            if !errors.into_iter().any(is_blocked) {
                untold.insert(probe.name);
            }
        }
    }
    // A browser of the daemon's own is started with a switch that keeps WebRTC to the proxy, and has no datagrams either.
    let seen = bench.site.other_hits() - bench.site.other_datagrams();
    assert_eq!(seen, 0, "{:#?}", bench.site.requests());
    assert_eq!(untold, UNTOLD.into_iter().collect());
}

#[tokio::test]
async fn a_persons_browser_that_ends_is_lost_and_the_next_script_says_how_to_start_one() {
    let mut browser = PersonsBrowser::start().await;
    let endpoint = browser.endpoint();
    let bench = Bench::start_with(|config, _| {
        config.browser.attach = Some(endpoint.clone());
        config.browser.max_open = 1;
    })
    .await;
    let run_id = bench.try_start(bench.script(ENDLESS)).await.unwrap();
    bench.until_begun(&run_id, 1).await;
    let waits = bench.start_until_message(bench.script(ONE_PAGE), "waits for a browser: 1 are open").await;
    browser.kill().await;

    let lost = bench.ended(run_id).await.error();
    assert_eq!(lost.error_code, "BROWSER_LOST", "{lost:?}");
    assert_eq!(validate::executor_error(&lost), [], "{lost:?}");
    let gone = bench.ended(waits).await.error();
    assert_eq!((gone.error_code.as_str(), gone.action_id.as_str()), ("BROWSER_LOST", "browser:open"));
    assert_eq!(validate::executor_error(&gone), [], "{gone:?}");
    assert_eq!(details(&gone)["original_code"], "BROWSER_NOT_FOUND", "{gone:?}");

    let refused = bench.try_start(bench.script(ONE_PAGE)).await.expect_err("no browser");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "BROWSER_NOT_FOUND");
    for part in [endpoint.as_str(), "nobody listens there", "--remote-debugging-port", "--user-data-dir"] {
        assert!(refused.message().contains(part), "{part}: {}", refused.message());
    }
}

#[tokio::test]
async fn what_answers_and_is_no_browser_is_refused() {
    let bench = Bench::start().await;
    let address = bench.site.url("");
    let attached = Bench::start_with(|config, _| config.browser.attach = Some(address)).await;
    let refused = attached.try_start(attached.script(ONE_PAGE)).await.expect_err("no browser");
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "BROWSER_NOT_FOUND");
    assert!(refused.message().contains("not the DevTools port of a browser"), "{}", refused.message());
}
