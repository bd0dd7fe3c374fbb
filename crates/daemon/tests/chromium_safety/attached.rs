//! Scripts in a browser that a person runs: it is theirs before, meanwhile and afterwards.

use std::collections::BTreeSet;

use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::validate;
use tonic_types::StatusExt;

use crate::allowlist::{errors_of, is_blocked, probe_all};
use crate::bench::{Bench, Ended};
use crate::persons_browser::PersonsBrowser;
use crate::session::Session;
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

/// A sign-in, as far as the page for who is signed in.
const SIGN_IN: &str = r#"
    name = "sign-in"
    [browser]
    storage_state = "account"
    [[actions]]
    id = "open"
    kind = "navigate"
    url = "http://{site}/sign-in"
    [[actions]]
    id = "user"
    kind = "fill"
    target = { label = "User" }
    value = "ana"
    [[actions]]
    id = "password"
    kind = "fill"
    target = { label = "Password" }
    value = "correct horse"
    [[actions]]
    id = "send"
    kind = "submit"
    target = { testid = "sign-in" }
    [[actions.post]]
    kind = "title_equals"
    value = "Account"
"#;

/// Who opens `/account` without a sign-in is led to another page.
fn account(browser: &str) -> String {
    let action = "id = \"account\"\nkind = \"navigate\"\nurl = \"http://{site}/account\"";
    format!("name = \"account\"\n{browser}\n[[actions]]\n{action}\n")
}

fn title(ended: &Ended) -> String {
    let last = ended.finished().pop().and_then(|finished| finished.state_after);
    last.expect("the action has led to a page").title
}

#[tokio::test]
async fn a_sign_in_that_was_kept_is_there_again_and_the_person_has_nothing_of_it() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    bench.run(SIGN_IN).await.expect_success();
    let again = bench.run(&account("[browser]\nstorage_state = \"account\"")).await.expect_success();
    assert_eq!(title(&again), "Account");
    let without = bench.run(&account("")).await.expect_success();
    assert_eq!(title(&without), "Log in again");
    browser.open(&bench.site.url("/account?mine"), "Log in again").await;
}

#[tokio::test]
async fn a_run_has_the_language_and_the_time_zone_of_its_script_and_the_person_their_own() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    let script = r#"
        name = "languages"
        [browser]
        locale = "es-ES"
        timezone = "America/Bogota"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/locale"
        [[actions]]
        id = "read"
        kind = "extract"
        target = { testid = "said" }
        extract = "text"
        output = "said"
    "#;
    let ended = bench.run(script).await.expect_success();
    // Bogotá is five hours behind all the year.
    assert_eq!(ended.output("said"), "es-ES es-ES America/Bogota 7");
    browser.open(&bench.site.url("/locale?mine"), "Languages").await;
    let language = |query: Option<&str>| {
        let requests = bench.site.requests();
        let asked = requests.iter().find(|asked| asked.path == "/locale" && asked.query.as_deref() == query);
        asked.and_then(|asked| asked.header("accept-language")).expect("it says its language").to_owned()
    };
    assert!(language(None).starts_with("es-ES"), "{}", language(None));
    assert!(!language(Some("mine")).contains("es"), "{}", language(Some("mine")));
}

#[tokio::test]
async fn a_download_is_whole_and_is_the_runs() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    let script = r#"
        name = "download"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/downloads"
        [[actions]]
        id = "report"
        kind = "download"
        target = { testid = "ok" }
        output = "report"
        [[actions.post]]
        kind = "download_completed"
        value = "report.csv"
    "#;
    let ended = bench.run(script).await.expect_success();
    let report = ended.output("report");
    assert_eq!(report["file_name"], "report.csv");
    let content = bench.blob(report["blake3"].as_str().unwrap()).await;
    assert_eq!(content, b"number,customer\n17,Ana\n18,Berta\n");
}

#[tokio::test]
async fn back_and_forward_lead_through_the_pages_of_the_run() {
    let browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    let script = r#"
        name = "back"
        [[actions]]
        id = "first"
        kind = "navigate"
        url = "http://{site}/plain"
        [[actions]]
        id = "second"
        kind = "navigate"
        url = "http://{site}/text"
        [[actions]]
        id = "back"
        kind = "back"
        [[actions.post]]
        kind = "title_equals"
        value = "Plain page"
        [[actions]]
        id = "forward"
        kind = "forward"
        [[actions.post]]
        kind = "title_equals"
        value = "Texts"
    "#;
    bench.run(script).await.expect_success();
}

#[tokio::test]
async fn a_session_that_nobody_uses_is_closed_with_its_tabs_and_no_others() {
    let mut browser = PersonsBrowser::start().await;
    let bench = attached_to(&browser).await;
    browser.open(&bench.site.url("/plain?mine"), "Plain page").await;
    let before = browser.tabs().await;
    let session = Session::open(&bench, "idle_timeout_ms = 10000").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/plain\"").await;
    assert_eq!(browser.tabs().await.len(), before.len() + 1, "one is the session's");
    let ended = bench.ended(session.run_id.clone()).await.expect_success();
    let is_idle =
        |event: &v1::Event| matches!(&event.body, Some(Body::BrowserCloseRequested(closing)) if closing.idle);
    assert!(ended.events.iter().any(is_idle), "it was closed because nobody used it");
    browser.until_tabs(&before).await;
    assert_eq!(bench.browsers().await, []);
    assert!(browser.is_alive());
}
