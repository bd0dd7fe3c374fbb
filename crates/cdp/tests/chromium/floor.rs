//! The proxy below the rules: whatever a page tries, another server sees nobody.

use capataz_cdp::proxy::{Destination, Floor};
use capataz_cdp::{Browser, Reply, Session};
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::support::{Bench, DEADLINE, Server, Under, evaluate, launch, navigate, page, program};

/// A browser that may go to `allowed` only.
async fn behind_a_floor(bench: &Bench, allowed: u16) -> (Floor, Browser) {
    let allowed = Destination { host: "127.0.0.1".to_owned(), port: allowed };
    let floor = Floor::start(move |destination| *destination == allowed).await.unwrap();
    let mut options = bench.options(program().await, Under::Shim);
    options.proxy = Some(floor.address());
    let browser = Browser::launch(options).await.unwrap();
    (floor, browser)
}

/// Each way to open a connection to this port, as a promise that says how it went.
fn attempts(port: u16) -> Vec<String> {
    let socket = "new Promise(done => { const socket = new WebSocket(URL); \
                  socket.onopen = () => done('open'); socket.onerror = () => done('refused'); })";
    let fetch = "fetch('http://HOST/').then(() => 'open', () => 'refused')";
    let worker = "new Promise(done => { const code = `fetch('http://HOST/').then(() => postMessage('open'), \
                  () => postMessage('refused'))`; \
                  const worker = new Worker(URL.createObjectURL(new Blob([code]))); \
                  worker.onmessage = message => done(message.data); })";
    let image = "new Promise(done => { const image = new Image(); image.onload = () => done('open'); \
                 image.onerror = () => done('refused'); image.src = 'http://HOST/'; })";
    let frame = "new Promise(done => { const frame = document.createElement('iframe'); \
                 frame.onload = () => done('refused'); frame.src = 'http://HOST/'; document.body.append(frame); })";
    let beacon = "(navigator.sendBeacon('http://HOST/'), 'refused')";
    [socket, fetch, worker, image, frame, beacon]
        .iter()
        .flat_map(|attempt| {
            ["127.0.0.1", "localhost", "[::1]", "127.1", "2130706433"].map(|host| {
                let host = format!("{host}:{port}");
                attempt.replace("(URL)", &format!("('ws://{host}/')")).replace("HOST", &host)
            })
        })
        .collect()
}

#[tokio::test]
async fn a_page_reaches_what_is_allowed_and_nothing_else() {
    let bench = Bench::new();
    let other = Server::page("other").await;
    let redirecting = Server::redirect(&other.url()).await;
    let allowed = Server::page("<title>allowed</title><body>").await;
    let (floor, browser) = behind_a_floor(&bench, allowed.port).await;
    let mut refused = floor.refused();
    let page = page(&browser).await;
    navigate(&page, &allowed.url()).await.unwrap();
    assert_eq!(evaluate(&page, "document.title").await, "allowed");

    for attempt in attempts(other.port) {
        assert_eq!(evaluate(&page, &attempt).await, "refused", "{attempt}");
    }
    let destination = timeout(DEADLINE, refused.recv()).await.unwrap().unwrap();
    assert_eq!(destination, Destination { host: "127.0.0.1".to_owned(), port: other.port });
    let error = navigate(&page, &other.url()).await.unwrap_err();
    assert_eq!(error, "net::ERR_SOCKS_CONNECTION_FAILED");
    let error = navigate(&page, &redirecting.url()).await.unwrap_err();
    assert_eq!(error, "net::ERR_SOCKS_CONNECTION_FAILED");
    assert_eq!((other.accepted(), redirecting.accepted()), (0, 0));
}

#[tokio::test]
async fn the_proxy_looks_names_up() {
    let bench = Bench::new();
    let server = Server::page("<title>by name</title>").await;
    let floor = Floor::start(|destination| destination.host == "localhost").await.unwrap();
    let mut options = bench.options(program().await, Under::Shim);
    options.proxy = Some(floor.address());
    let browser = Browser::launch(options).await.unwrap();
    let page = page(&browser).await;
    navigate(&page, &format!("http://localhost:{}/", server.port)).await.unwrap();
    assert_eq!(evaluate(&page, "document.title").await, "by name");
}

#[tokio::test]
async fn a_browser_goes_nowhere_by_itself() {
    let bench = Bench::new();
    let allowed = Server::page("<title>allowed</title><body>").await;
    let (floor, browser) = behind_a_floor(&bench, allowed.port).await;
    let mut refused = floor.refused();
    let page = page(&browser).await;
    navigate(&page, &allowed.url()).await.unwrap();
    assert!(browser.close(DEADLINE).await.status.unwrap().success());
    assert_eq!(refused.try_recv().ok(), None);
}

#[tokio::test]
async fn a_redirect_leads_nowhere_else() {
    let bench = Bench::new();
    let other = Server::page("other").await;
    let redirecting = Server::redirect(&other.url()).await;
    let (floor, browser) = behind_a_floor(&bench, redirecting.port).await;
    let mut refused = floor.refused();
    let error = navigate(&page(&browser).await, &redirecting.url()).await.unwrap_err();
    assert_eq!(error, "net::ERR_SOCKS_CONNECTION_FAILED");
    assert_eq!(refused.recv().await.unwrap().port, other.port);
    assert!(redirecting.accepted() > 0);
    assert_eq!(other.accepted(), 0);
}

/// The other side of the test above: without a floor each of these attempts does arrive.
#[tokio::test]
async fn without_a_floor_another_server_is_reached() {
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let allowed = Server::page("<body>").await;
    let page = page(&browser).await;
    navigate(&page, &allowed.url()).await.unwrap();
    for attempt in attempts(0).iter().filter(|attempt| attempt.contains("127.0.0.1:0")) {
        let other = Server::page("other").await;
        let attempt = attempt.replace("127.0.0.1:0", &format!("127.0.0.1:{}", other.port));
        evaluate(&page, &attempt).await;
        crate::support::eventually(|| other.accepted() > 0).await;
    }
}

/// Has the page look for its public address, which sends UDP to the server that it names. The reply comes when the page
/// has given up.
fn gather(page: &Session, port: u16) -> Reply<Value> {
    let script = format!(
        "new Promise(done => {{ \
           const connection = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{port}' }}] }}); \
           connection.onicegatheringstatechange = () => \
             connection.iceGatheringState === 'complete' && done('complete'); \
           connection.createDataChannel('x'); \
           connection.createOffer().then(offer => connection.setLocalDescription(offer)); }})"
    );
    page.send("Runtime.evaluate", json!({ "expression": script, "awaitPromise": true }))
}

#[tokio::test]
async fn no_datagram_leaves_a_browser_behind_a_floor() {
    let allowed = Server::page("<body>").await;
    let stun = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = stun.local_addr().unwrap().port();
    let mut datagram = [0; 1500];

    // Without a floor one does.
    let bench = Bench::new();
    let browser = launch(&bench).await;
    let open = page(&browser).await;
    navigate(&open, &allowed.url()).await.unwrap();
    drop(gather(&open, port));
    timeout(DEADLINE, stun.recv(&mut datagram)).await.unwrap().unwrap();

    let bench = Bench::new();
    let stun = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = stun.local_addr().unwrap().port();
    let (_floor, browser) = behind_a_floor(&bench, allowed.port).await;
    let page = page(&browser).await;
    navigate(&page, &allowed.url()).await.unwrap();
    let gathered = timeout(DEADLINE, gather(&page, port)).await.unwrap().unwrap();
    assert_eq!(gathered["result"]["value"], "complete");
    assert_eq!(stun.try_recv(&mut datagram).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
