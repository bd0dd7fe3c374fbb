use std::time::Duration;

use capataz_contracts::v1::NavigationKind;
use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Answer, LIMIT, SHORT_LIMITS, Server, css, open};

async fn site() -> Server {
    Server::start(|request| {
        Some(match request.path.as_str() {
            "/" => Answer::html("<title>home</title><a id=next href=/next>next</a><a id=part href=#part>part</a><p id=part>home</p>"),
            "/next" => Answer::html("<title>next</title>next"),
            "/one" => Answer::redirect("/two"),
            "/two" => Answer::redirect("/next"),
            "/script" => Answer::html("<script>location.replace('/next')</script>"),
            "/secret" => Answer::html("").status(401).header("www-authenticate: Basic realm=x"),
            "/refused" => Answer::html("<p>no</p>").status(401),
            "/missing" => Answer::html("<p>missing</p>").status(404),
            "/nothing" => Answer::html("").status(204),
            "/hangs" => Answer::never(),
            "/loading" => Answer::html("<p id=here>here</p><img src=/hangs>"),
            "/busy" => Answer::html("<p>busy</p><script>for (;;);</script>"),
            _ => return None,
        })
    })
    .await
}

#[tokio::test]
async fn a_navigation_is_followed_to_its_document() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/one")).await.unwrap();
    assert_eq!(page.page.location().await.unwrap(), (server.url("/next"), "next".to_owned()));
    let changes = page.page.take_changes();
    assert_eq!(changes.navigation(), NavigationKind::Document);
    assert_eq!(changes.redirects, [server.url("/one"), server.url("/two")]);
    assert_eq!(changes.status, Some(200));
    assert_eq!(page.page.take_changes().navigation(), NavigationKind::None);

    // It may lead on by itself.
    page.go(&server.url("/script")).await.unwrap();
    page.reads("body", "next").await;

    page.go(&server.url("/")).await.unwrap();
    page.page.take_changes();
    page.go(&server.url("/#part")).await.unwrap();
    assert_eq!(page.page.take_changes().navigation(), NavigationKind::SameDocument);
    page.go(&server.url("/next")).await.unwrap();
    page.act(Act::Back, WaitUntil::Load).await.unwrap();
    page.act(Act::Back, WaitUntil::Load).await.unwrap();
    assert_eq!(page.page.location().await.unwrap().0, server.url("/"));
    let asked = server.hits("/");
    page.act(Act::Reload, WaitUntil::Load).await.unwrap();
    assert_eq!(server.hits("/"), asked + 1);
}

#[tokio::test]
async fn a_click_leads_to_a_document_that_is_read_without_a_mistake() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    for _ in 0..10 {
        page.go(&server.url("/")).await.unwrap();
        page.click("#next").await.unwrap();
        page.looked(&css("body"), |look| look.element.as_ref().is_some_and(|body| body.facts.text == "next"))
            .await;
    }
    page.go(&server.url("/")).await.unwrap();
    page.page.take_changes();
    page.click("#next").await.unwrap();
    let changes = page.changes(|changes| changes.navigation() == NavigationKind::Document).await;
    assert_eq!(changes.status, Some(200));
}

#[tokio::test]
async fn there_is_nothing_before_the_first_page() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let back = page.act(Act::Back, WaitUntil::Load).await;
    assert!(matches!(back, Err(PageError::NotLoaded { .. })), "{back:?}");
}

#[tokio::test]
async fn the_status_is_told_and_a_document_with_any_is_one() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    for (path, status) in [("/refused", 401), ("/secret", 401), ("/missing", 404)] {
        page.go(&server.url(path)).await.unwrap();
        assert_eq!(page.page.take_changes().status, Some(status), "{path}");
        page.act(Act::Reload, WaitUntil::Load).await.unwrap();
        assert_eq!(page.page.take_changes().status, Some(status), "{path}");
    }
}

#[tokio::test]
async fn what_does_not_come_is_told_in_the_browsers_words() {
    let server = site().await;
    let gone = Server::with(&[]).await;
    let mut page = open(&[&server, &gone]).await;
    let url = gone.url("/");
    drop(gone);
    page.go(&server.url("/")).await.unwrap();
    for (url, expected) in [(server.url("/nothing"), "net::ERR_ABORTED"), (url.clone(), "net::ERR_")] {
        let result = page.go(&url).await;
        assert!(
            matches!(&result, Err(PageError::NotLoaded { reason, .. }) if reason.starts_with(expected)),
            "{result:?}"
        );
    }
    let reloaded = page.act(Act::Reload, WaitUntil::Load).await;
    assert!(matches!(reloaded, Err(PageError::NotLoaded { .. })), "{reloaded:?}");
    page.go(&server.url("/next")).await.unwrap();
}

#[tokio::test]
async fn what_is_too_slow_is_stopped_and_the_page_stays_usable() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let is_too_slow = |result: Result<(), PageError>| {
        assert!(matches!(result, Err(PageError::TooSlow { .. })), "{result:?}");
    };
    let hangs = Act::Navigate { url: server.url("/hangs") };
    is_too_slow(page.page.act(hangs, WaitUntil::Commit, Duration::from_millis(500)).await);
    for limit in SHORT_LIMITS {
        let loading = Act::Navigate { url: server.url("/loading") };
        is_too_slow(page.page.act(loading, WaitUntil::Load, limit).await);
        if page.page.location().await.unwrap().0 == server.url("/loading") {
            break;
        }
    }
    page.reads("#here", "here").await;
    for until in [WaitUntil::Commit, WaitUntil::Dom] {
        // The image is still to come.
        page.page.act(Act::Navigate { url: server.url("/loading") }, until, LIMIT).await.unwrap();
    }
    page.go(&server.url("/next")).await.unwrap();
}

#[tokio::test]
async fn a_script_that_never_ends_is_waited_for_no_longer_than_the_limit() {
    let server = site().await;
    let mut page = open(&[&server]).await;
    let limit = Duration::from_millis(500);
    let result = page.page.act(Act::Navigate { url: server.url("/busy") }, WaitUntil::Load, limit).await;
    assert!(matches!(result, Err(PageError::TooSlow { .. })), "{result:?}");
}
