//! The part of SOCKS5 (RFC 1928) that is spoken: CONNECT without authentication, to names and addresses of either kind.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Destination;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a handshake leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    Connect(Destination),
    /// The request is of a kind that is not served.
    Refuse(Answer),
}

/// The answers to a request, with the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Connected = 0,
    Failed = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Answer {
    /// The answer for a connection that could not be made.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut => Self::HostUnreachable,
            _ => Self::Failed,
        }
    }

    /// The address in the answer is of no use to a browser; it is left empty.
    pub(super) async fn send(self, browser: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        browser.write_all(&[VERSION, self as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]).await
    }
}

/// Reads the greeting, answers it, and reads the request.
///
/// # Errors
/// The other side speaks another protocol, or is gone.
pub(super) async fn receive(browser: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Handshake> {
    let mut greeting = [0; 2];
    browser.read_exact(&mut greeting).await?;
    let [version, method_count] = greeting;
    expect_version(version)?;
    let mut methods = vec![0; method_count.into()];
    browser.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        browser.write_all(&[VERSION, NO_ACCEPTABLE_METHOD]).await?;
        return Err(io::ErrorKind::Unsupported.into());
    }
    browser.write_all(&[VERSION, NO_AUTHENTICATION]).await?;

    let mut request = [0; 4];
    browser.read_exact(&mut request).await?;
    let [version, command, _, address_type] = request;
    expect_version(version)?;
    let host = match address_type {
        IPV4 => {
            let mut address = [0; 4];
            browser.read_exact(&mut address).await?;
            Ipv4Addr::from(address).to_string()
        }
        IPV6 => {
            let mut address = [0; 16];
            browser.read_exact(&mut address).await?;
            Ipv6Addr::from(address).to_string()
        }
        NAME => {
            let mut name = vec![0; browser.read_u8().await?.into()];
            browser.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?
        }
        _ => return Ok(Handshake::Refuse(Answer::AddressTypeNotSupported)),
    };
    let port = browser.read_u16().await?;
    if command != CONNECT {
        return Ok(Handshake::Refuse(Answer::CommandNotSupported));
    }
    Ok(Handshake::Connect(Destination::new(&host, port)))
}

fn expect_version(version: u8) -> io::Result<()> {
    if version == VERSION { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
