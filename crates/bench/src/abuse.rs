//! Clients that mean harm, as a process of their own.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use capataz_client::v1;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::connect_request::Frame;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use capataz_contracts::v1::worker_service_client::WorkerServiceClient;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Service as _, http};
use tonic::transport::{Channel, Endpoint};

use crate::Outcome;

/// What is done to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Abuse {
    /// Nothing: what the others are beside, for the database grows meanwhile
    Nothing,
    /// 2,000 streams of events, of which none comes
    IdleStreams,
    /// 2,000 streams of all events, which nobody reads; those that the daemon closes are opened again
    UnreadEvents,
    /// 500 connections that send a byte a second
    SlowLoris,
    /// Messages of 100 MB, of every kind that is uploaded
    HugeFrames,
    /// 10,000 workers that say hello and go
    Hellos,
    /// Answers of a megabyte, in parts, that nobody reads
    UnreadAnswers,
    /// Calls with one answer, a page of runs, that nobody reads
    UnreadCalls,
    /// A worker that sends frames as fast as they are taken
    Flood,
    /// Random bytes
    Garbage,
}

impl Abuse {
    pub(crate) const ALL: [Self; 10] = [
        Self::Nothing,
        Self::IdleStreams,
        Self::UnreadEvents,
        Self::SlowLoris,
        Self::HugeFrames,
        Self::Hellos,
        Self::UnreadAnswers,
        Self::UnreadCalls,
        Self::Flood,
        Self::Garbage,
    ];
}

/// Does it until the process is ended. What the daemon refuses is tried again.
///
/// # Errors
/// The daemon does not answer at all.
pub async fn abuse(kind: Abuse, daemon: SocketAddr) -> Outcome<()> {
    match kind {
        Abuse::Nothing => {
            std::future::pending::<()>().await;
            Ok(())
        }
        Abuse::IdleStreams => each(20, move |_| streams(daemon, of_nothing())).await,
        Abuse::UnreadEvents => each(20, move |_| streams(daemon, v1::SubscribeRequest::default())).await,
        Abuse::SlowLoris => each(500, move |_| drip(daemon)).await,
        Abuse::HugeFrames => each(4, move |number| huge(daemon, number)).await,
        Abuse::Hellos => each(16, move |number| hellos(daemon, number)).await,
        Abuse::UnreadAnswers => unread(daemon).await,
        Abuse::UnreadCalls => each(20, move |_| unread_calls(daemon)).await,
        Abuse::Flood => each(1, move |_| flood(daemon)).await,
        Abuse::Garbage => each(8, move |_| garbage(daemon)).await,
    }
}

/// Does something so many times at once, again and again.
async fn each<A>(count: usize, what: impl Fn(usize) -> A + Clone + Send + 'static) -> Outcome<()>
where
    A: Future<Output = Outcome<()>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let what = what.clone();
        tasks.spawn(async move {
            loop {
                if what(number).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    // None of them ends.
    tasks.join_all().await;
    Ok(())
}

async fn channel(daemon: SocketAddr) -> Outcome<Channel> {
    Ok(Endpoint::from_shared(format!("http://{daemon}"))?.connect().await?)
}

/// A subscription to events that no run has.
fn of_nothing() -> v1::SubscribeRequest {
    let labels = [("abuse".to_owned(), "of nobody".to_owned())].into();
    let filter = v1::EventFilter { labels, ..v1::EventFilter::default() };
    v1::SubscribeRequest { filter: Some(filter), from_now: true, ..v1::SubscribeRequest::default() }
}

/// Streams of one connection that are kept open, and from which nothing is taken, for as long as the daemon lets them be.
async fn streams(daemon: SocketAddr, request: v1::SubscribeRequest) -> Outcome<()> {
    let mut client = EventServiceClient::new(channel(daemon).await?);
    // This one is read, and has nothing to read: it ends with the connection.
    let mut quiet = client.subscribe(of_nothing()).await?.into_inner();
    let mut kept = Vec::new();
    for _ in 0..100 {
        kept.push(client.subscribe(request.clone()).await?.into_inner());
    }
    while quiet.message().await?.is_some() {}
    drop(kept);
    Ok(())
}

/// What every client says first, a byte at a time.
async fn drip(daemon: SocketAddr) -> Outcome<()> {
    let mut connection = TcpStream::connect(daemon).await?;
    let said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().chain(std::iter::repeat(&0));
    for byte in said {
        connection.write_all(&[*byte]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Bytes of a huge message.
const HUGE: u32 = 100 * 1024 * 1024;
/// What it is sent in: it is never whole here, so that what it costs is what it costs the daemon.
const PIECE: &[u8] = &[b'x'; 64 * 1024];

async fn huge(daemon: SocketAddr, number: usize) -> Outcome<()> {
    let mut before = Vec::new();
    let method = match number % 3 {
        0 => "/capataz.v1.BlobService/PutBlob",
        1 => "/capataz.v1.RunService/StartRun",
        _ => {
            let first = v1::ConnectRequest { frame: Some(Frame::Hello(hello(number, 0))) };
            before = of_message(u32::try_from(first.encoded_len())?);
            first.encode(&mut before)?;
            "/capataz.v1.WorkerService/Connect"
        }
    };
    before.extend(of_message(HUGE));
    let pieces = std::iter::repeat_n(Bytes::from_static(PIECE), HUGE as usize / PIECE.len());
    let pieces = std::iter::once(Bytes::from(before)).chain(pieces);
    let body = http_body_util::StreamBody::new(tonic::codegen::tokio_stream::iter(
        pieces.map(|piece| Ok::<_, tonic::Status>(http_body::Frame::data(piece))),
    ));
    let request = http::Request::post(method)
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(tonic::body::Body::new(body))?;
    let mut channel = channel(daemon).await?;
    std::future::poll_fn(|context| channel.poll_ready(context)).await?;
    let (parts, body) = channel.call(request).await?.into_parts();
    // One that is refused at once has nothing but headers.
    let trailers = body.collect().await.ok().and_then(|body| body.trailers().cloned());
    let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
    match status.or_else(|| parts.headers.get("grpc-status")) {
        Some(status) if status == "0" => Err("100 MB were taken".into()),
        Some(_) => Ok(()),
        None => Err("the call was broken off".into()),
    }
}

/// What stands before a message of so many bytes.
fn of_message(bytes: u32) -> Vec<u8> {
    [&[0][..], &bytes.to_be_bytes()].concat()
}

fn hello(number: usize, count: usize) -> v1::Hello {
    let agents = vec![v1::Agent {
        name: format!("abuse-{number}"),
        max_concurrency: 1,
        output_schema: format!("{{\"title\":\"{}\"}}", "x".repeat(1_000)),
        ..v1::Agent::default()
    }];
    v1::Hello {
        worker_id: format!("abuse-{number}-{count}"),
        agents,
        slots: 1,
        protocol: capataz_contracts::validate::PROTOCOL,
        ..v1::Hello::default()
    }
}

async fn hellos(daemon: SocketAddr, number: usize) -> Outcome<()> {
    let mut client = WorkerServiceClient::new(channel(daemon).await?);
    for count in 0..10_000 / 16 {
        let first = v1::ConnectRequest { frame: Some(Frame::Hello(hello(number, count))) };
        let mut said = client.connect(tonic::codegen::tokio_stream::iter([first])).await?.into_inner();
        let _ = said.message().await;
    }
    Ok(())
}

async fn unread(daemon: SocketAddr) -> Outcome<()> {
    let mut client = BlobServiceClient::new(channel(daemon).await?);
    let chunk = v1::PutBlobRequest { chunk: Bytes::from(vec![7; 1024 * 1024]) };
    let put = client.put_blob(tonic::codegen::tokio_stream::iter([chunk])).await?.into_inner();
    let blake3 = put.blob.ok_or("no blob")?.blake3;
    let ask = move |_| {
        let blake3 = blake3.clone();
        async move {
            let mut client = BlobServiceClient::new(channel(daemon).await?);
            let mut kept = Vec::new();
            for _ in 0..100 {
                kept.push(client.get_blob(v1::GetBlobRequest { blake3: blake3.clone() }).await?);
            }
            // Until the daemon closes the connection, and some more.
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(kept);
            Ok(())
        }
    };
    each(20, ask).await
}

/// Calls on a connection that takes no byte of any answer.
async fn unread_calls(daemon: SocketAddr) -> Outcome<()> {
    let endpoint = Endpoint::from_shared(format!("http://{daemon}"))?.initial_stream_window_size(0);
    let client = RunServiceClient::new(endpoint.connect().await?);
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let mut client = client.clone();
        let request = v1::ListRunsRequest { page_size: 500, ..v1::ListRunsRequest::default() };
        calls.spawn(async move { client.list_runs(request).await.is_ok() });
    }
    // Until the daemon closes the connection, and some more.
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(calls);
    Ok(())
}

async fn flood(daemon: SocketAddr) -> Outcome<()> {
    let (frames, waiting) = mpsc::channel(64);
    let first = Frame::Hello(hello(0, 0));
    frames.send(v1::ConnectRequest { frame: Some(first) }).await?;
    let mut client = WorkerServiceClient::new(channel(daemon).await?);
    let mut said = client.connect(ReceiverStream::new(waiting)).await?.into_inner();
    tokio::spawn(async move { while let Ok(Some(_)) = said.message().await {} });
    loop {
        let lease =
            Some(v1::LeaseRef { run_id: uuid::Uuid::nil().to_string(), lease: 1, ..Default::default() });
        let completed = v1::Completed { lease, log: "x".repeat(1_000), ..v1::Completed::default() };
        frames.send(v1::ConnectRequest { frame: Some(Frame::Completed(completed)) }).await?;
    }
}

async fn garbage(daemon: SocketAddr) -> Outcome<()> {
    let mut connection = TcpStream::connect(daemon).await?;
    // Some of it begins as it should.
    if fastrand::bool() {
        connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
    }
    let mut bytes = vec![0; 16 * 1024];
    for _ in 0..100 {
        fastrand::fill(&mut bytes);
        connection.write_all(&bytes).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
