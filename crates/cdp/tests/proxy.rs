//! The proxy against clients and servers that the tests play.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::SocketAddr;
use std::time::Duration;

use capataz_cdp::proxy::{CONNECTIONS, Destination, Floor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(120);

const CONNECTED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const CONNECTION_REFUSED: u8 = 5;

fn to_name(name: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat()
}

fn to_ipv4(address: [u8; 4], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 1], &address[..], &port.to_be_bytes()].concat()
}

fn to_ipv6(address: [u8; 16], port: u16) -> Vec<u8> {
    [&[5, 1, 0, 4], &address[..], &port.to_be_bytes()].concat()
}

/// Sends a request, and returns the connection with the answer's number.
async fn request(floor: &Floor, request: &[u8]) -> (TcpStream, u8) {
    let mut client = TcpStream::connect(floor.address()).await.unwrap();
    // Two methods on offer, as from clients that could also log in.
    client.write_all(&[5, 2, 2, 0]).await.unwrap();
    let mut method = [0; 2];
    client.read_exact(&mut method).await.unwrap();
    assert_eq!(method, [5, 0]);
    client.write_all(request).await.unwrap();
    let mut answer = [0; 10];
    timeout(DEADLINE, client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer[0], 5);
    (client, answer[1])
}

/// A server that sends back what it gets, in capitals, until the client has finished.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut received = Vec::new();
                client.read_to_end(&mut received).await.unwrap();
                client.write_all(&received.to_ascii_uppercase()).await.unwrap();
            });
        }
    });
    address
}

async fn round_trip(mut client: TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(DEADLINE, client.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn what_is_allowed_is_carried_both_ways() {
    let server = echo().await;
    let floor = Floor::start(|_| true).await.unwrap();
    let long = "abc".repeat(1_000_000);
    for to in [
        to_name("localhost", server.port()),
        to_name("127.0.0.1", server.port()),
        to_ipv4([127, 0, 0, 1], server.port()),
    ] {
        let (client, answer) = request(&floor, &to).await;
        assert_eq!(answer, CONNECTED);
        assert_eq!(round_trip(client, &long).await, long.to_ascii_uppercase());
    }
}

#[tokio::test]
async fn every_spelling_of_what_is_not_allowed_is_refused_without_a_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let floor = Floor::start(|destination| destination.host == "allowed.example").await.unwrap();
    let mut refused = floor.refused();
    let mut mapped = [0; 16];
    mapped[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    for (to, host) in [
        (to_name("127.0.0.1", port), "127.0.0.1"),
        (to_name("LocalHost.", port), "localhost"),
        (to_name("127.1", port), "127.1"),
        (to_name("[::ffff:7f00:1]", port), "127.0.0.1"),
        (to_name("allowed.example.evil", port), "allowed.example.evil"),
        (to_name("allowed.example\0", port), "allowed.example\0"),
        (to_name("", port), ""),
        (to_ipv4([127, 0, 0, 1], port), "127.0.0.1"),
        (to_ipv6(mapped, port), "127.0.0.1"),
        (to_ipv6(loopback, port), "::1"),
    ] {
        let (mut client, answer) = request(&floor, &to).await;
        assert_eq!(answer, NOT_ALLOWED, "{host}");
        assert_eq!(refused.recv().await.unwrap(), Destination { host: host.to_owned(), port });
        // Nothing follows the refusal.
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    }
    assert_eq!(refused.try_recv(), Err(TryRecvError::Empty));
    assert!(timeout(Duration::ZERO, listener.accept()).await.is_err());
}

#[tokio::test]
async fn the_rule_knows_the_port() {
    let (one, other) = (echo().await, echo().await);
    let floor = Floor::start(move |destination| destination.port == one.port()).await.unwrap();
    assert_eq!(request(&floor, &to_name("localhost", one.port())).await.1, CONNECTED);
    assert_eq!(request(&floor, &to_name("localhost", other.port())).await.1, NOT_ALLOWED);
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_says_why() {
    let floor = Floor::start(|_| true).await.unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(request(&floor, &to_name("127.0.0.1", free.port())).await.1, CONNECTION_REFUSED);
    assert_eq!(request(&floor, &to_name("no.such.host.invalid", 80)).await.1, HOST_UNREACHABLE);
}

#[tokio::test]
async fn other_requests_are_refused() {
    let floor = Floor::start(|_| true).await.unwrap();
    let with_command = |command| {
        let mut to = to_ipv4([127, 0, 0, 1], 80);
        to[1] = command;
        to
    };
    // BIND and UDP ASSOCIATE.
    for command in [2, 3] {
        assert_eq!(request(&floor, &with_command(command)).await.1, 7);
    }
    assert_eq!(request(&floor, &[5, 1, 0, 9]).await.1, 8);
}

#[tokio::test]
async fn other_protocols_get_nothing() {
    let floor = Floor::start(|_| true).await.unwrap();
    for (sent, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], &[][..]),
        (&[4, 1, 0, 80, 127, 0, 0, 1, 0][..], &[]),
        // Only with a name and a password.
        (&[5, 1, 2][..], &[5, 0xff]),
        (&[5, 1, 0, 4, 1, 0, 1][..], &[5, 0]),
    ] {
        let mut client = TcpStream::connect(floor.address()).await.unwrap();
        client.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        // The other side may be gone before it has read everything.
        let _ = timeout(DEADLINE, client.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer, expected, "{sent:?}");
    }
}

#[tokio::test]
async fn connections_end_with_the_proxy() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let floor = Floor::start(|_| true).await.unwrap();
    let (mut client, answer) =
        request(&floor, &to_name("127.0.0.1", server.local_addr().unwrap().port())).await;
    assert_eq!(answer, CONNECTED);
    let (mut accepted, _) = server.accept().await.unwrap();
    let address = floor.address();
    drop(floor);
    assert!(matches!(timeout(DEADLINE, client.read(&mut [0; 1])).await.unwrap(), Ok(0) | Err(_)));
    assert!(matches!(timeout(DEADLINE, accepted.read(&mut [0; 1])).await.unwrap(), Ok(0) | Err(_)));
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn who_comes_when_all_places_are_taken_waits_for_one() {
    let server = echo().await;
    let floor = Floor::start(|_| true).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(request(&floor, &to_name("127.0.0.1", server.port())).await.0);
    }
    let mut late = TcpStream::connect(floor.address()).await.unwrap();
    late.write_all(&[5, 1, 0]).await.unwrap();
    let mut method = [0; 2];
    assert!(timeout(Duration::from_millis(50), late.read_exact(&mut method)).await.is_err());
    held.pop();
    timeout(DEADLINE, late.read_exact(&mut method)).await.unwrap().unwrap();
    assert_eq!(method, [5, 0]);
}
