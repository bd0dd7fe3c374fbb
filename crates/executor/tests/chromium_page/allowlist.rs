//! What the allowlist refuses never reaches the server that it is about, whatever way a page takes.

use capataz_contracts::v1;
use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Answer, Opened, Server, css, open};

/// Serves one page, and what it needs: a redirect to the other server, and workers that ask it.
async fn server(other: &Server, page: &str) -> Server {
    let page = page.replace("OTHER", &other.entry());
    let other = other.url("");
    Server::start(move |request| {
        let asks = |path: &str| Answer::script(format!("fetch('{other}{path}', {{ mode: 'no-cors' }}).catch(() => 0)"));
        Some(match request.path.as_str() {
            "/" => Answer::html(page.as_str()),
            "/blank" => Answer::html("blank"),
            "/hop" => Answer::redirect("/hop2"),
            "/hop2" => Answer::redirect(&format!("{other}/hop3")),
            "/worker.js" => asks("/worker"),
            "/shared.js" => Answer::script(format!(
                "onconnect = ({{ ports: [port] }}) => fetch('{other}/shared', {{ mode: 'no-cors' }}).catch(() => 0)\
                 .then(() => port.postMessage('asked'))"
            )),
            "/service.js" => Answer::script(format!(
                "addEventListener('install', (event) => event.waitUntil(fetch('{other}/service', {{ mode: 'no-cors' }})\
                 .catch(() => 0)));"
            )),
            _ => return None,
        })
    })
    .await
}

/// The page does something that asks the other server; the other one hears nothing, and the caller is told.
async fn check(ways: &[(&str, &str, &str)]) {
    let other = Server::with(&[]).await;
    let mut opened: Option<(Server, Opened)> = None;
    for (page, kind, path) in ways {
        let ours = server(&other, page).await;
        let mut page = open(&[&ours]).await;
        page.go(&ours.url("/")).await.unwrap();
        let host = |request: &v1::BlockedRequest| request.host.starts_with("127.0.0.1");
        let changes = page
            .changes(|changes| changes.blocked.iter().any(|request| request.kind == *kind && host(request)))
            .await;
        if !path.is_empty() {
            let expected =
                other.url(path).replace("http:", if *kind == "websocket" { "ws:" } else { "http:" });
            assert!(changes.blocked.iter().any(|request| request.url == expected), "{kind}: {changes:?}");
        }
        opened = Some((ours, page));
    }
    drop(opened);
    let seen = other.seen();
    assert_eq!((seen.connections, seen.requests.len()), (0, 0), "{seen:?}");
}

#[tokio::test]
async fn what_a_document_asks_for_is_refused() {
    check(&[
        ("<img src='http://OTHER/image'>", "image", "/image"),
        ("<img src=/hop>", "image", "/hop3"),
        ("<script>fetch('http://OTHER/fetch', { mode: 'no-cors' }).catch(() => 0)</script>", "xhr", "/fetch"),
        ("<script>navigator.sendBeacon('http://OTHER/beacon', 'x')</script>", "ping", "/beacon"),
        ("<iframe src='http://OTHER/frame'></iframe>", "iframe", "/frame"),
        ("<iframe src=/hop></iframe>", "iframe", "/hop3"),
    ])
    .await;
}

#[tokio::test]
async fn what_workers_ask_for_is_refused() {
    check(&[
        ("<script>new Worker('/worker.js')</script>", "xhr", "/worker"),
        ("<script>navigator.serviceWorker.register('/service.js')</script>", "xhr", "/service"),
    ])
    .await;
}

#[tokio::test]
async fn what_a_shared_worker_asks_for_is_refused() {
    let other = Server::with(&[]).await;
    let page = "<p id=said></p><script>const worker = new SharedWorker('/shared.js'); \
                worker.port.onmessage = ({ data }) => { document.getElementById('said').textContent = data }</script>";
    let ours = server(&other, page).await;
    let mut page = open(&[&ours]).await;
    page.go(&ours.url("/")).await.unwrap();
    // Only its own word tells that it ran at all.
    page.reads("#said", "asked").await;
    let expected = other.url("/shared");
    page.changes(|changes| changes.blocked.iter().any(|request| request.url == expected)).await;
    let seen = other.seen();
    assert_eq!((seen.connections, seen.requests.len()), (0, 0), "{seen:?}");
}

#[tokio::test]
async fn connections_that_are_no_requests_meet_the_floor() {
    check(&[
        ("<script>new WebSocket('ws://OTHER/socket')</script>", "websocket", "/socket"),
        ("<link rel=preconnect href='http://OTHER/'>", "connection", ""),
        (
            "<script>new Worker(window.URL.createObjectURL(new Blob([\"new WebSocket('ws://OTHER/w')\"])))</script>",
            "websocket",
            "/w",
        ),
    ])
    .await;
}

#[tokio::test]
async fn documents_are_refused_at_each_hop_and_the_page_stays_usable() {
    let other = Server::with(&[]).await;
    let page = "<a id=away href='http://OTHER/away'>away</a> <a id=hop href=/hop>hop</a> \
                <button id=window onclick=\"window.open('http://OTHER/window')\">window</button> \
                <button id=script onclick=\"location = 'http://OTHER/script'\">script</button>\
                <form action='http://OTHER/form' method=post><button id=form>form</button></form>";
    let ours = server(&other, page).await;
    let mut page = open(&[&ours]).await;

    let refused = page.go(&other.url("/direct")).await;
    assert!(
        matches!(&refused, Err(PageError::Blocked(request)) if request.kind == "document"),
        "{refused:?}"
    );
    let refused = page.go(&ours.url("/hop")).await;
    let Err(PageError::Blocked(request)) = refused else { panic!("{refused:?}") };
    assert_eq!((request.url.as_str(), request.host.as_str()), (other.url("/hop3").as_str(), "127.0.0.1"));
    let changes = page.changes(|changes| changes.redirects.len() == 2).await;
    assert_eq!(changes.redirects, [ours.url("/hop"), ours.url("/hop2")]);

    for (button, path) in [
        ("#away", "/away"),
        ("#hop", "/hop3"),
        ("#script", "/script"),
        ("#form", "/form"),
        ("#window", "/window"),
    ] {
        page.go(&ours.url("/")).await.unwrap();
        page.page.take_changes();
        page.click(button).await.unwrap();
        let refused = |changes: &v1::PageChanges| {
            changes.blocked.iter().any(|request| request.kind == "document" && request.url == other.url(path))
        };
        let changes = page.page.take_changes();
        assert!(refused(&changes), "{button}: {changes:?}");
    }
    page.go(&ours.url("/blank")).await.unwrap();
    let seen = other.seen();
    assert_eq!((seen.connections, seen.requests.len()), (0, 0), "{seen:?}");
}

#[tokio::test]
async fn what_leads_around_the_allowlist_is_refused() {
    let other = Server::with(&[]).await;
    let page = "<button id=blob onclick=\"location = window.URL.createObjectURL(new Blob(['<p id=mine>mine</p>'], \
                { type: 'text/html' }))\">blob</button> \
                <button id=window onclick=\"window.open(window.URL.createObjectURL(new Blob(['<p id=mine>mine</p>'], \
                { type: 'text/html' })))\">window</button><p id=here>here</p>";
    let ours = server(&other, page).await;
    let mut page = open(&[&ours]).await;
    for url in [
        "data:text/html,x",
        "blob:null/x",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "chrome://version",
        "view-source:http://127.0.0.1/",
        "about:blank",
    ] {
        let refused = page.go(url).await;
        let scheme = url.split_inclusive(':').next().unwrap();
        assert!(
            matches!(&refused, Err(PageError::Blocked(request)) if request.host == scheme),
            "{url}: {refused:?}"
        );
    }
    for button in ["#blob", "#window"] {
        page.go(&ours.url("/")).await.unwrap();
        let node = page.node(button).await;
        page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await.unwrap();
        page.changes(|changes| changes.blocked.iter().any(|request| request.host == "blob:")).await;
        page.looked(&css("#mine"), |look| look.count == 0).await;
    }
}

#[tokio::test]
async fn a_service_worker_of_an_allowed_host_may_answer() {
    let page = "<script>navigator.serviceWorker.register('/answers.js').then(() => navigator.serviceWorker.ready)\
                .then(() => document.body.append('ready'))</script>";
    let ours = Server::start(move |request| match request.path.as_str() {
        "/" => Some(Answer::html(page)),
        "/answers.js" => Some(Answer::script(
            "addEventListener('install', () => skipWaiting()); addEventListener('activate', (event) => \
             event.waitUntil(clients.claim())); addEventListener('fetch', (event) => { \
             if (event.request.url.endsWith('/made')) event.respondWith(new Response('<p id=made>made up</p>', \
             { headers: { 'content-type': 'text/html' } })); });",
        )),
        _ => None,
    })
    .await;
    let mut page = open(&[&ours]).await;
    page.go(&ours.url("/")).await.unwrap();
    page.reads("body", "ready").await;
    page.go(&ours.url("/made")).await.unwrap();
    page.reads("#made", "made up").await;
    assert_eq!(ours.hits("/made"), 0);
    assert!(page.changes(|_| true).await.blocked.is_empty());
}
