//! Clients that begin requests and do not end them.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use capataz_contracts::v1;
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use crate::support::{Harness, PATIENCE};

const CHUNK: usize = 64 * 1024;

/// What a test sends of a request, as long as it is there.
struct Sent(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A way to the daemon for one connection, and when that one has ended.
async fn way(daemon: SocketAddr) -> (Channel, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let passing = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut daemon = TcpStream::connect(daemon).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut daemon).await;
    });
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    (channel, passing)
}

/// Begins a call with a message that says how long it is; the rest of it goes through what is returned.
async fn begins(
    channel: &Channel,
    path: &str,
    length: u32,
) -> (mpsc::UnboundedSender<Bytes>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    sender.send([&[0][..], &length.to_be_bytes()].concat().into()).unwrap();
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Sent(receiver)))
        .unwrap();
    let mut channel = channel.clone();
    let answering = tokio::spawn(async move {
        if let Ok(channel) = channel.ready().await {
            let _ = channel.call(request).await;
        }
    });
    (sender, answering)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_many_unfinished_requests_is_closed_and_nobody_else() {
    let harness = Harness::start().await;
    let daemon = harness.daemon.address();
    let (channel, closed) = way(daemon).await;
    let (other, _) = way(daemon).await;
    // 3 MiB each of 4, or all of 3 without an end: more than twice of what may wait for all clients.
    let mut calls = Vec::new();
    for length in [4 * 1024 * 1024, 48 * CHUNK].repeat(25) {
        let length = u32::try_from(length).unwrap();
        let (sender, answering) = begins(&channel, "/capataz.v1.RunService/StartRun", length).await;
        for _ in 0..48 {
            sender.send(vec![0; CHUNK].into()).unwrap();
        }
        calls.push((sender, answering));
    }
    // One that begins while they come, and ends after them.
    let (one, answered) = begins(&other, "/capataz.v1.RunService/ListRuns", 0).await;
    tokio::time::timeout(PATIENCE, closed).await.expect("room is made for the others").unwrap();
    drop(one);
    tokio::time::timeout(PATIENCE, answered).await.expect("it is answered").unwrap();
    assert_eq!(harness.run_count().await, 0, "others are answered");
    let mut runs = v1::run_service_client::RunServiceClient::new(other);
    let listed = runs.list_runs(v1::ListRunsRequest::default());
    tokio::time::timeout(PATIENCE, listed).await.unwrap().unwrap();
    drop(calls);
}

#[tokio::test]
async fn a_connection_is_told_how_many_calls_it_may_make_at_once() {
    let harness = Harness::start().await;
    let mut stream = TcpStream::connect(harness.daemon.address()).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    // SETTINGS without a setting.
    stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut header = [0; 9];
    stream.read_exact(&mut header).await.unwrap();
    assert_eq!(header[3], 4, "the first frame is SETTINGS");
    let mut settings = vec![0; usize::from(header[2])];
    stream.read_exact(&mut settings).await.unwrap();
    let most = settings.chunks(6).find(|setting| setting[..2] == [0, 3]).expect("MAX_CONCURRENT_STREAMS");
    assert_eq!(u32::from_be_bytes(most[2..6].try_into().unwrap()), 1_000);
}
