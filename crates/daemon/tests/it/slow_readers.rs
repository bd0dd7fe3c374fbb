//! Clients that take nothing of what they asked for.

use std::net::SocketAddr;

use bytes::Bytes;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_contracts::v1::{self, connect_response::Frame as Hear, event::Body};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_stream::iter;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::support::{Harness, PATIENCE, channel, json, one_wave};

const BLOB: usize = 128 * 1024;
/// With a chunk of 32 KiB each that waits, more than a third of what may wait for all clients, and less than half.
const STREAMS: usize = 900;

type Chunks = Streaming<v1::GetBlobResponse>;

async fn client(address: SocketAddr) -> BlobServiceClient<Channel> {
    BlobServiceClient::new(channel(address).await)
}

/// A way to the daemon for one connection, and when that one has ended.
async fn way(daemon: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let passing = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut daemon = TcpStream::connect(daemon).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut daemon).await;
    });
    (address, passing)
}

/// Asks for the blob many times over one connection, and reads none of the answers.
async fn idle(address: SocketAddr, blob: &str) -> Vec<Chunks> {
    let mut client = client(address).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let asked = v1::GetBlobRequest { blake3: blob.to_owned() };
        streams.push(client.get_blob(asked).await.unwrap().into_inner());
    }
    streams
}

/// The bytes of the blob, as far as they come.
async fn read(mut chunks: Chunks) -> (usize, bool) {
    let mut bytes = 0;
    loop {
        match tokio::time::timeout(PATIENCE, chunks.message()).await.unwrap() {
            Ok(Some(v1::GetBlobResponse { chunk })) => bytes += chunk.len(),
            Ok(None) => return (bytes, true),
            Err(_) => return (bytes, false),
        }
    }
}

/// All at once: streams of a connection share its window, so that those which nobody reads hold up the others.
async fn read_all(streams: Vec<Chunks>) -> Vec<(usize, bool)> {
    let reading: Vec<_> = streams.into_iter().map(|chunks| tokio::spawn(read(chunks))).collect();
    let mut read = Vec::new();
    for reading in reading {
        read.push(reading.await.unwrap());
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_that_reads_nothing_for_longest_is_closed_and_nobody_else() {
    let harness = Harness::start().await;
    let daemon = harness.daemon.address();
    let chunk = v1::PutBlobRequest { chunk: Bytes::from(vec![7; BLOB]) };
    let put = client(daemon).await.put_blob(iter([chunk])).await.unwrap();
    let blob = put.into_inner().blob.unwrap().blake3;

    let (address, closed) = way(daemon).await;
    let first = idle(address, &blob).await;
    let second = idle(daemon, &blob).await;
    let third = idle(daemon, &blob).await;
    tokio::time::timeout(PATIENCE, closed).await.expect("room is made for the others").unwrap();
    let third = read_all(third).await;
    assert_eq!(third, vec![(BLOB, true); STREAMS], "who reads after all gets everything");
    drop((first, second));
    assert_eq!(harness.run_count().await, 0, "others are answered");
}

/// Bytes of a large output.
const LARGE: usize = 30_000;
/// Tasks whose inputs have as many bytes: each stream has more to say than its part of what a connection takes in unread.
const READERS: usize = 9;
/// With two events of 30,000 bytes each that wait, more than a third of what may wait for all clients, and less than half.
const SUBSCRIBERS: usize = 500;

type Responses = Streaming<v1::SubscribeResponse>;

/// Subscribes to everything many times over one connection, and reads nothing of it.
async fn idle_subscribers(address: SocketAddr) -> Vec<Responses> {
    let mut client = EventServiceClient::new(channel(address).await);
    let mut streams = Vec::new();
    for _ in 0..SUBSCRIBERS {
        streams.push(client.subscribe(v1::SubscribeRequest::default()).await.unwrap().into_inner());
    }
    streams
}

/// The numbers of the run's events up to the last one, as far as they come.
async fn heard(mut responses: Responses, run: String, last: u64) -> Vec<u64> {
    let mut seqs: Vec<u64> = Vec::new();
    while seqs.last().is_none_or(|seq| *seq < last) {
        let Ok(Some(response)) = tokio::time::timeout(PATIENCE, responses.message()).await.unwrap() else {
            break;
        };
        let of_run = response.events.iter().filter(|delivered| delivered.run_id == run);
        seqs.extend(of_run.map(|delivered| delivered.decode_event().unwrap().seq));
    }
    seqs
}

async fn all_heard(streams: Vec<Responses>, run: &str, last: u64) -> Vec<Vec<u64>> {
    let hearing: Vec<_> =
        streams.into_iter().map(|responses| tokio::spawn(heard(responses, run.to_owned(), last))).collect();
    let mut heard = Vec::new();
    for hearing in hearing {
        heard.push(hearing.await.unwrap());
    }
    heard
}

/// A run of which much is published, and its last event: the output of its first task is the input of all others, which nobody
/// does.
async fn published(harness: &Harness) -> (String, u64) {
    drop(harness.worker("w", &["nobody"]).await);
    let mut worker = harness.worker("w1", &["a"]).await;
    let mut plan = one_wave(&["a"]);
    let reader = |number: usize| v1::Task {
        name: format!("r{number}"),
        agent: "nobody".to_owned(),
        input: Some(json(serde_json::json!("${tasks.a.output}"))),
        ..v1::Task::default()
    };
    plan.waves.push(v1::Wave { tasks: (0..READERS).map(reader).collect(), ..v1::Wave::default() });
    let run = harness.start_run(plan).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!("x".repeat(LARGE)))).await;
    let is_input = |event: &&v1::Event| matches!(event.body, Some(Body::TaskInputResolved(_)));
    let all_are_there = async {
        loop {
            let log = harness.export(&run).await;
            if log.iter().filter(is_input).count() == READERS {
                break log.last().unwrap().seq;
            }
        }
    };
    let last = tokio::time::timeout(PATIENCE, all_are_there).await.expect("they are published in time");
    (run, last)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_subscribers_that_read_nothing_the_slowest_connection_is_closed_and_nobody_else() {
    let harness = Harness::start().await;
    let daemon = harness.daemon.address();
    let (address, first_is_closed) = way(daemon).await;
    let first = idle_subscribers(address).await;
    let (run, last) = published(&harness).await;
    let (address, second_is_closed) = way(daemon).await;
    let second = idle_subscribers(address).await;
    // Two connections that read nothing hold up no work.
    let mut worker = harness.worker("w2", &["a"]).await;
    let other = harness.start_run(one_wave(&["a"])).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(serde_json::json!(1))).await;
    worker.hear_until(|heard| matches!(heard, Hear::ResultAccepted(_)).then_some(())).await;
    assert_eq!(harness.wait(&other).await.outcome(), v1::RunOutcome::Succeeded);

    let third = idle_subscribers(daemon).await;
    tokio::time::timeout(PATIENCE, first_is_closed).await.expect("room is made for the others").unwrap();
    assert_eq!(harness.run_count().await, 2, "others are answered");
    let expected: Vec<u64> = (1..=last).collect();
    let third = all_heard(third, &run, last).await;
    assert!(third.iter().all(|seqs| *seqs == expected), "who reads after all gets everything");
    // What a client takes in without reading has all events of a few streams.
    let first = all_heard(first, &run, last).await;
    let cut = first.iter().filter(|seqs| **seqs != expected).count();
    assert!(cut > SUBSCRIBERS / 2, "{cut}");
    assert!(!second_is_closed.is_finished(), "one of them is enough");
    drop(second);
}
