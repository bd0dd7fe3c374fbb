//! Clients that take nothing of what they asked for.

use std::net::SocketAddr;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_stream::iter;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::support::{Harness, PATIENCE};

const BLOB: usize = 128 * 1024;
/// With a chunk of 32 KiB each that waits, more than a third of what may wait for all clients, and less than half.
const STREAMS: usize = 900;

type Chunks = Streaming<v1::GetBlobResponse>;

async fn client(address: SocketAddr) -> BlobServiceClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    BlobServiceClient::new(endpoint.connect().await.unwrap())
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
