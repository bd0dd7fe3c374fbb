//! Subscriptions: every event exactly once, whatever happens to the connection.

use bytes::Bytes;
use capataz_client::{Client, Delivery, EventStream, v1};
use tonic::{Code, Status};

use super::daemon::{Daemon, Subscription, encoded_event, soon};

fn cursor(seq: u64) -> Bytes {
    Bytes::from(format!("after {seq}"))
}

/// The number of the event that a cursor stands after.
fn position(cursor: &Bytes) -> u64 {
    let text = std::str::from_utf8(cursor).unwrap();
    text.strip_prefix("after ").map_or(0, |seq| seq.parse().unwrap())
}

fn delivered(seq: u64) -> v1::DeliveredEvent {
    v1::DeliveredEvent {
        run_id: "run-1".to_owned(),
        event: encoded_event(seq),
        cursor: cursor(seq),
        ..Default::default()
    }
}

fn events(seqs: impl IntoIterator<Item = u64>) -> v1::SubscribeResponse {
    let events: Vec<_> = seqs.into_iter().map(delivered).collect();
    let cursor = events.last().map(|event| event.cursor.clone()).unwrap_or_default();
    v1::SubscribeResponse { events, cursor, ..v1::SubscribeResponse::default() }
}

impl Subscription {
    async fn send(&self, response: v1::SubscribeResponse) {
        self.responses.send(Ok(response)).await.unwrap();
    }

    async fn fail(self, status: Status) {
        self.responses.send(Err(status)).await.unwrap();
    }
}

async fn next(stream: &mut EventStream) -> Delivery {
    soon(stream.next()).await.expect("the stream ended").expect("an error")
}

async fn next_seq(stream: &mut EventStream) -> u64 {
    match next(stream).await {
        Delivery::Event { run_id, event, cursor: after, .. } => {
            assert_eq!(run_id, "run-1");
            assert_eq!(after, cursor(event.seq));
            assert_eq!(*stream.cursor(), after);
            event.seq
        }
        other => panic!("no event: {other:?}"),
    }
}

async fn reconnecting(stream: &mut EventStream) -> Code {
    match next(stream).await {
        Delivery::Reconnecting { error, .. } => error.grpc_code(),
        other => panic!("no reconnection: {other:?}"),
    }
}

#[tokio::test]
async fn a_cut_after_any_event_loses_and_repeats_none() {
    const EVENTS: u64 = 12;
    for batch in [1, 2, 5] {
        for cut_after in 0..=4 {
            let mut daemon = Daemon::start().await;
            let client = Client::connect(&daemon.endpoint()).await.unwrap();
            let mut stream = client.subscribe(v1::SubscribeRequest::default());
            let script = tokio::spawn(async move {
                // An empty connection now and then, so that the first one may be cut before anything came.
                let mut allowance = cut_after;
                loop {
                    let subscription = daemon.subscription().await;
                    let from = position(&subscription.request.cursor) + 1;
                    let to = EVENTS.min(from + allowance - u64::from(allowance > 0));
                    if allowance > 0 {
                        let seqs: Vec<u64> = (from..=to).collect();
                        for part in seqs.chunks(batch) {
                            subscription.send(events(part.iter().copied())).await;
                        }
                    }
                    if allowance > 0 && to == EVENTS {
                        return (daemon, subscription);
                    }
                    allowance = allowance.max(1);
                    subscription.fail(Status::unavailable("cut")).await;
                }
            });
            let mut seqs = Vec::new();
            while seqs.len() < usize::try_from(EVENTS).unwrap() {
                match next(&mut stream).await {
                    Delivery::Event { event, .. } => seqs.push(event.seq),
                    Delivery::Reconnecting { error, .. } => assert_eq!(error.message(), "cut"),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(seqs, (1..=EVENTS).collect::<Vec<_>>(), "cut after {cut_after}, batches of {batch}");
            drop(script.await);
        }
    }
}

#[tokio::test]
async fn a_killed_daemon_is_waited_for() {
    let mut daemon = Daemon::start().await;
    let address = daemon.address;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let mut stream = client.subscribe(v1::SubscribeRequest::default());
    let (subscription, first) = tokio::join!(
        async {
            let subscription = daemon.subscription().await;
            subscription.send(events([1])).await;
            subscription
        },
        next_seq(&mut stream)
    );
    assert_eq!(first, 1);
    daemon.kill().await;
    drop(subscription);
    assert_eq!(reconnecting(&mut stream).await, Code::Unavailable);
    let mut daemon = Daemon::start_on(address).await;
    let script = tokio::spawn(async move {
        let subscription = daemon.subscription().await;
        assert_eq!(subscription.request.cursor, cursor(1));
        subscription.send(events([2])).await;
        (daemon, subscription)
    });
    let second = loop {
        match next(&mut stream).await {
            Delivery::Event { event, .. } => break event.seq,
            Delivery::Reconnecting { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(second, 2);
    drop(script.await.unwrap());
}

#[tokio::test]
async fn a_lone_cursor_moves_the_place_to_resume() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let request = v1::SubscribeRequest { from_now: true, progress: true, ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(request.clone());
    let script = tokio::spawn(async move {
        let subscription = daemon.subscription().await;
        assert_eq!(subscription.request, request);
        subscription.fail(Status::internal("cut before anything came")).await;

        let subscription = daemon.subscription().await;
        assert_eq!(subscription.request, request);
        subscription.send(v1::SubscribeResponse { cursor: cursor(40), ..events([]) }).await;
        let progress = vec![v1::ProgressFrame::default()];
        subscription.send(v1::SubscribeResponse { caught_up: true, progress, ..events([]) }).await;
        subscription.fail(Status::unavailable("cut")).await;

        let subscription = daemon.subscription().await;
        let resumed = v1::SubscribeRequest { from_now: false, cursor: cursor(40), ..request };
        assert_eq!(subscription.request, resumed);
        subscription.send(v1::SubscribeResponse { caught_up: true, ..events([41]) }).await;
        // The daemon goes away in good order: no reason to stop.
        drop(subscription);
        let subscription = daemon.subscription().await;
        assert_eq!(subscription.request.cursor, cursor(41));
        (daemon, subscription)
    });
    assert_eq!(reconnecting(&mut stream).await, Code::Internal);
    assert!(matches!(next(&mut stream).await, Delivery::CaughtUp));
    assert_eq!(*stream.cursor(), cursor(40));
    assert!(matches!(next(&mut stream).await, Delivery::Progress(_)));
    assert_eq!(reconnecting(&mut stream).await, Code::Unavailable);
    assert_eq!(next_seq(&mut stream).await, 41);
    assert!(matches!(next(&mut stream).await, Delivery::CaughtUp));
    assert_eq!(reconnecting(&mut stream).await, Code::Unavailable);
    let pending = tokio::spawn(async move { stream.next().await });
    drop(soon(script).await.unwrap());
    pending.abort();
}

#[tokio::test]
async fn what_is_damaged_is_told_in_its_place_and_once() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let mut stream = client.subscribe(v1::SubscribeRequest::default());
    let damaged = |position| v1::DamagedEvents { position, ..v1::DamagedEvents::default() };
    let script = tokio::spawn(async move {
        let subscription = daemon.subscription().await;
        subscription.send(events([1])).await;
        let both = vec![damaged(2), damaged(3)];
        subscription.send(v1::SubscribeResponse { damaged: both, cursor: cursor(3), ..events([]) }).await;
        subscription.fail(Status::unavailable("cut")).await;
        let subscription = daemon.subscription().await;
        assert_eq!(subscription.request.cursor, cursor(3));
        subscription.send(events([4])).await;
        (daemon, subscription)
    });
    assert_eq!(next_seq(&mut stream).await, 1);
    for (position, resume) in [(2, 1), (3, 3)] {
        assert!(matches!(next(&mut stream).await, Delivery::Damaged(told) if told == damaged(position)));
        assert_eq!(*stream.cursor(), cursor(resume));
    }
    assert_eq!(reconnecting(&mut stream).await, Code::Unavailable);
    assert_eq!(next_seq(&mut stream).await, 4);
    drop(soon(script).await.unwrap());
}

#[tokio::test]
async fn a_stream_until_finished_ends() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let request = v1::SubscribeRequest { until_finished: true, ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(request);
    let script = tokio::spawn(async move {
        daemon.subscription().await.send(events([1, 2])).await;
        daemon
    });
    assert_eq!(next_seq(&mut stream).await, 1);
    assert_eq!(next_seq(&mut stream).await, 2);
    for _ in 0..2 {
        assert!(soon(stream.next()).await.is_none());
    }
    drop(script.await);
}

#[tokio::test]
async fn an_error_that_would_repeat_itself_ends_the_stream() {
    for code in [
        Code::InvalidArgument,
        Code::NotFound,
        Code::OutOfRange,
        Code::PermissionDenied,
        Code::Unauthenticated,
        Code::Unimplemented,
    ] {
        let mut daemon = Daemon::start().await;
        let client = Client::connect(&daemon.endpoint()).await.unwrap();
        let mut stream = client.subscribe(v1::SubscribeRequest::default());
        let script = tokio::spawn(async move {
            let subscription = daemon.subscription().await;
            subscription.send(events([1])).await;
            subscription.fail(Status::new(code, "no")).await;
            daemon
        });
        assert_eq!(next_seq(&mut stream).await, 1);
        assert_eq!(soon(stream.next()).await.unwrap().unwrap_err().grpc_code(), code);
        for _ in 0..2 {
            assert!(soon(stream.next()).await.is_none());
        }
        drop(script.await);
    }
}

#[tokio::test]
async fn a_damaged_event_is_an_error() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let mut stream = client.subscribe(v1::SubscribeRequest::default());
    let script = tokio::spawn(async move {
        let mut response = events([1, 2, 3]);
        response.events[1].event = Bytes::from_static(b"\xff");
        let subscription = daemon.subscription().await;
        subscription.send(response).await;
        (daemon, subscription)
    });
    assert_eq!(next_seq(&mut stream).await, 1);
    assert_eq!(soon(stream.next()).await.unwrap().unwrap_err().grpc_code(), Code::DataLoss);
    assert!(soon(stream.next()).await.is_none());
    assert_eq!(*stream.cursor(), cursor(1));
    drop(script.await);
}
