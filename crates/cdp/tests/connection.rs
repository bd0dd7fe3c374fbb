//! The client against a browser's side that the tests play.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use capataz_cdp::{
    CallError, Connection, Done, EventError, Loss, MESSAGE_LIMIT, NavigateError, QUEUE_BYTES, QUEUE_EVENTS,
    REQUEST_LIMIT,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(120);

/// The other side.
struct Peer {
    commands: BufReader<DuplexStream>,
    messages: DuplexStream,
}

fn connected() -> (Connection, Peer) {
    let (reader, messages) = duplex(1024 * 1024);
    let (commands, writer) = duplex(1024 * 1024);
    (Connection::new(reader, writer), Peer { commands: BufReader::new(commands), messages })
}

impl Peer {
    async fn command(&mut self) -> Value {
        let mut command = Vec::new();
        timeout(DEADLINE, self.commands.read_until(0, &mut command)).await.unwrap().unwrap();
        assert_eq!(command.pop(), Some(0));
        serde_json::from_slice(&command).unwrap()
    }

    async fn say(&mut self, message: &Value) {
        self.messages.write_all(format!("{message}\0").as_bytes()).await.unwrap();
    }

    /// Answers one call, so that the reader is known to have read everything before.
    async fn settle(&mut self, connection: &Connection) {
        let reply = connection.browser().send::<Done>("Settle.now", ());
        let id = self.command().await["id"].clone();
        self.say(&json!({ "id": id, "result": {} })).await;
        reply.await.unwrap();
    }
}

#[tokio::test]
async fn a_command_names_its_session_and_answers_find_their_callers_in_any_order() {
    let (connection, mut peer) = connected();
    let session = connection.session("S1");
    let first = session.send::<u32>("A.first", json!({ "x": 1 }));
    let second = connection.browser().send::<u32>("A.second", ());
    let (one, two) = (peer.command().await, peer.command().await);
    assert_eq!(one, json!({ "id": one["id"], "method": "A.first", "sessionId": "S1", "params": { "x": 1 } }));
    assert_eq!(two, json!({ "id": two["id"], "method": "A.second", "params": {} }));
    peer.say(&json!({ "id": 9999, "result": 0 })).await;
    peer.say(&json!({ "id": two["id"], "result": 2 })).await;
    peer.say(&json!({ "id": one["id"], "result": 1, "sessionId": "S1" })).await;
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
}

#[tokio::test]
async fn a_subscriber_gets_what_it_asked_for() {
    let (connection, mut peer) = connected();
    let (one, browser) = (connection.session("S1"), connection.browser());
    let mut ones = one.subscribe(&["A.a", "A.b"]);
    let mut all_ones = one.subscribe(&[]);
    let mut own = browser.subscribe(&[]);
    let mut everywhere = connection.subscribe(&["A.a"]);
    for (session, method) in
        [(Some("S1"), "A.a"), (Some("S2"), "A.a"), (None, "A.a"), (Some("S1"), "A.c"), (Some("S1"), "A.b")]
    {
        let mut event = json!({ "method": method, "params": { "new": [{}] } });
        if let Some(session) = session {
            event["sessionId"] = session.into();
        }
        peer.say(&event).await;
    }
    peer.settle(&connection).await;
    let mut taken = [&mut ones, &mut all_ones, &mut own, &mut everywhere].map(|events| {
        std::iter::from_fn(|| events.try_next().unwrap())
            .map(|event| format!("{} {}", event.session.as_deref().unwrap_or("-"), event.method))
            .collect::<Vec<_>>()
    });
    assert_eq!(taken[0], ["S1 A.a", "S1 A.b"]);
    assert_eq!(taken[1], ["S1 A.a", "S1 A.c", "S1 A.b"]);
    assert_eq!(taken[2], ["- A.a"]);
    taken[3].sort();
    assert_eq!(taken[3], ["- A.a", "S1 A.a", "S2 A.a"]);
}

#[tokio::test]
async fn a_queue_holds_so_many_events_and_says_what_it_left_out() {
    let (connection, mut peer) = connected();
    let mut events = connection.subscribe(&["A.a"]);
    for number in 0..QUEUE_EVENTS + 10 {
        peer.say(&json!({ "method": "A.a", "params": number })).await;
    }
    peer.settle(&connection).await;
    for number in 0..QUEUE_EVENTS {
        assert_eq!(events.next().await.unwrap().parse::<usize>().unwrap(), number);
    }
    // The gap is told where it is, even if nothing comes after it.
    assert_eq!(events.next().await, Err(EventError::Lagged(10)));
    assert_eq!(events.try_next(), Ok(None));
    peer.say(&json!({ "method": "A.a", "params": 7 })).await;
    assert_eq!(events.next().await.unwrap().parse::<usize>().unwrap(), 7);
}

#[tokio::test]
async fn a_queue_holds_so_many_bytes() {
    let (connection, mut peer) = connected();
    let mut events = connection.subscribe(&["A.a"]);
    // Each of them is more than half of what fits.
    let large = json!({ "method": "A.a", "params": "x".repeat(QUEUE_BYTES / 2 + 1) });
    peer.say(&large).await;
    peer.say(&large).await;
    peer.say(&json!({ "method": "A.a", "params": "small" })).await;
    peer.settle(&connection).await;
    assert!(events.next().await.is_ok());
    assert_eq!(events.next().await, Err(EventError::Lagged(1)));
    assert_eq!(events.next().await.unwrap().parse::<String>().unwrap(), "small");
    // One that is longer than the queue by itself is still told.
    peer.say(&json!({ "method": "A.a", "params": "x".repeat(QUEUE_BYTES + 1) })).await;
    assert!(timeout(DEADLINE, events.next()).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_backlog_is_cleared_when_the_subscriber_asks_for_the_event_after() {
    let (connection, mut peer) = connected();
    let mut events = connection.subscribe(&["A.a"]);
    let backlog = events.backlog();
    timeout(DEADLINE, backlog.cleared()).await.unwrap();
    peer.say(&json!({ "method": "A.a", "params": 1 })).await;
    peer.settle(&connection).await;
    let mut cleared = std::pin::pin!(backlog.cleared());
    let mut is_cleared =
        async || poll_fn(|context| Poll::Ready(cleared.as_mut().poll(context).is_ready())).await;
    assert!(!is_cleared().await, "it waits for its subscriber");
    assert!(events.try_next().unwrap().is_some());
    assert!(!is_cleared().await, "the subscriber may still be at it");
    // What comes later is not what was waited for.
    peer.say(&json!({ "method": "A.a", "params": 2 })).await;
    peer.settle(&connection).await;
    assert!(events.try_next().unwrap().is_some());
    assert!(is_cleared().await);
    drop(events);
    timeout(DEADLINE, backlog.cleared()).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_browser_ends_every_wait() {
    let (connection, mut peer) = connected();
    let waiting = connection.browser().send::<Done>("A.a", ());
    let mut events = connection.subscribe(&[]);
    peer.command().await;
    peer.say(&json!({ "method": "Last.words" })).await;
    drop(peer);
    let error = waiting.await.unwrap_err();
    assert!(matches!(error, CallError::Lost { method: "A.a", loss: Loss::BrowserGone }), "{error}");
    assert_eq!(&*events.next().await.unwrap().method, "Last.words");
    assert_eq!(events.next().await, Err(EventError::Lost(Loss::BrowserGone)));
    assert_eq!(events.next().await, Err(EventError::Lost(Loss::BrowserGone)));
    assert_eq!(connection.loss(), Some(Loss::BrowserGone));
    let called = connection.browser().call::<Done>("A.b", ()).await;
    assert!(matches!(called, Err(CallError::Lost { .. })));
    let sent = connection.browser().send::<Done>("A.b", ()).await;
    assert!(matches!(sent, Err(CallError::Lost { .. })));
}

#[tokio::test]
async fn a_session_that_ends_ends_its_own_waits() {
    let (connection, mut peer) = connected();
    let (gone, crashed, other) =
        (connection.session("gone"), connection.session("crashed"), connection.session("other"));
    let mut gone_events = gone.subscribe(&[]);
    let mut other_events = other.subscribe(&[]);
    let replies = [&gone, &crashed, &other].map(|session| session.send::<u32>("A.a", ()));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(peer.command().await["id"].clone());
    }
    peer.say(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "gone" } })).await;
    peer.say(&json!({ "method": "Inspector.targetCrashed", "sessionId": "crashed" })).await;
    peer.say(&json!({ "id": ids[2], "result": 3 })).await;
    let [gone, crashed, other] = replies;
    assert!(matches!(gone.await.unwrap_err(), CallError::Detached { .. }));
    assert!(matches!(crashed.await.unwrap_err(), CallError::Crashed { .. }));
    assert_eq!(other.await.unwrap(), 3);
    assert_eq!(gone_events.next().await, Err(EventError::Detached));
    assert_eq!(other_events.try_next(), Ok(None));
}

#[tokio::test]
async fn a_navigation_ends_with_a_crash_of_its_page_before_or_after_the_document_is_there() {
    for is_there in [false, true] {
        let (connection, mut peer) = connected();
        let session = connection.session("S1");
        let navigation =
            tokio::spawn(async move { session.navigate("http://x/", "Page.loadEventFired").await });
        for domain in ["Inspector.enable", "Page.enable"] {
            let enable = peer.command().await;
            assert_eq!(enable["method"], domain);
            peer.say(&json!({ "id": enable["id"], "result": {} })).await;
        }
        let navigate = peer.command().await;
        assert_eq!(navigate["method"], "Page.navigate");
        if is_there {
            let params = json!({ "frame": { "loaderId": "L1" } });
            peer.say(&json!({ "method": "Page.frameNavigated", "sessionId": "S1", "params": params })).await;
        }
        peer.say(&json!({ "id": navigate["id"], "result": { "loaderId": "L1" } })).await;
        peer.settle(&connection).await;
        // Another page's crash is not this one's.
        peer.say(&json!({ "method": "Inspector.targetCrashed", "sessionId": "S2" })).await;
        peer.settle(&connection).await;
        assert!(!navigation.is_finished());
        peer.say(&json!({ "method": "Inspector.targetCrashed", "sessionId": "S1" })).await;
        let error = timeout(DEADLINE, navigation).await.unwrap().unwrap().unwrap_err();
        let crashed = CallError::Crashed { method: "Page.navigate" };
        assert!(matches!(&error, NavigateError::Call(CallError::Crashed { .. })), "{error}");
        assert_eq!(error.to_string(), crashed.to_string());
    }
}

#[tokio::test]
async fn what_is_no_message_ends_the_connection() {
    let (connection, mut peer) = connected();
    let waiting = connection.browser().send::<Done>("A.a", ());
    peer.messages.write_all(b"{\"method\":\"A.a\"}\0HTTP/1.1 200 OK\0").await.unwrap();
    let error = waiting.await.unwrap_err();
    assert!(matches!(error, CallError::Lost { loss: Loss::NoMessage, .. }), "{error}");
}

#[tokio::test]
async fn a_message_without_end_ends_the_connection_and_not_our_memory() {
    let (connection, mut peer) = connected();
    let mut events = connection.subscribe(&[]);
    let chunk = vec![b'x'; 1024 * 1024];
    let mut sent = 0;
    // Nobody reads any more where this fails.
    while peer.messages.write_all(&chunk).await.is_ok() {
        sent += chunk.len();
        assert!(sent <= MESSAGE_LIMIT + 8 * chunk.len(), "it goes on reading");
    }
    assert_eq!(events.next().await, Err(EventError::Lost(Loss::MessageTooLarge)));
}

#[tokio::test]
async fn what_cannot_be_sent_is_the_callers_error_and_nobody_elses() {
    let (connection, mut peer) = connected();
    let browser = connection.browser();
    let error = browser.call::<Done>("A.a", "x".repeat(REQUEST_LIMIT)).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { .. }), "{error}");
    let unspeakable = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = browser.call::<Done>("A.a", unspeakable).await.unwrap_err();
    assert!(matches!(error, CallError::Parameters { .. }), "{error}");
    peer.settle(&connection).await;
}

#[tokio::test]
async fn commands_that_nobody_reads_are_not_heaped_up() {
    let (connection, mut peer) = connected();
    let browser = connection.browser();
    let parameters = "x".repeat(64 * 1024);
    let mut sent = 0;
    let overloaded = loop {
        let mut reply = browser.send::<Done>("A.a", &parameters);
        match timeout(Duration::ZERO, &mut reply).await {
            Ok(answer) => break answer.unwrap_err(),
            Err(_) => sent += 1,
        }
    };
    assert!(matches!(overloaded, CallError::Overloaded { .. }), "{overloaded}");
    // A call waits for room instead. Its turn comes after all those that were sent.
    let session = browser.clone();
    let call = tokio::spawn(async move { session.call::<Done>("A.last", ()).await });
    for _ in 0..sent {
        assert_eq!(peer.command().await["method"], "A.a");
    }
    let last = peer.command().await;
    assert_eq!(last["method"], "A.last");
    peer.say(&json!({ "id": last["id"], "result": {} })).await;
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_browsers_input_ends_with_the_last_handle() {
    let (connection, mut peer) = connected();
    let session = connection.session("S1");
    drop(connection);
    let reply = session.send::<Done>("A.a", ());
    peer.command().await;
    drop(session);
    let mut rest = Vec::new();
    timeout(DEADLINE, peer.commands.read_until(0, &mut rest)).await.unwrap().unwrap();
    assert!(rest.is_empty());
    drop(peer);
    assert!(matches!(reply.await, Err(CallError::Lost { .. })));
}
