//! A browser that a person runs, reached by its DevTools port on this machine.
//!
//! What we do there is in a browser context of its own, which the browser closes with all of its tabs when the connection
//! ends, however that comes about. Nothing is asked of the person's own tabs, and the browser is never ended.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::browser::{Version, download_behavior};
use crate::connection::{Connection, Done};
use crate::error::CallError;
use crate::find::{MINIMUM_MAJOR, version_in};
use crate::listener::stranger_at;
use crate::patience::within;

/// How a person starts a browser that can be attached to.
pub const ATTACH_HELP: &str = "\
Start one with a DevTools port and a profile of its own; with its usual profile, Chrome opens no port since version 136:
                google-chrome --remote-debugging-port=9222 --user-data-dir=\"$HOME/.capataz-chrome\"";

/// Longest wait for what the port says about itself.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(10);

/// Most bytes of the head of an answer, and of its body.
const HEAD_LIMIT: usize = 16 * 1024;
const BODY_LIMIT: usize = 64 * 1024;
/// Most bytes of a version.
const VERSION_LIMIT: usize = 64;

/// Where a browser's DevTools port is; always on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint(SocketAddr);

/// The text names no port of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    #[error("it has the form http://127.0.0.1:PORT")]
    Form,
    #[error(
        "only this machine's loopback addresses are possible: whoever reaches the port controls the browser"
    )]
    NotLoopback,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let address = text.strip_prefix("http://").ok_or(EndpointError::Form)?;
        let address = address.strip_suffix('/').unwrap_or(address);
        let named = address.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let address = named.as_deref().unwrap_or(address);
        match address.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => Err(EndpointError::Form),
            Ok(address) if address.ip().is_loopback() => Ok(Self(address)),
            Ok(_) => Err(EndpointError::NotLoopback),
            Err(_) => {
                // A name of another machine, with a port or without one.
                let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
                let is_name = name != "localhost" && !name.is_empty() && !name.contains(['/', ':', '@', '[']);
                let is_other = is_name && !name.starts_with("127.");
                Err(if is_other { EndpointError::NotLoopback } else { EndpointError::Form })
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

/// The error that no usable browser is at the endpoint. Its text says how to start one.
#[derive(Debug, Error)]
#[error("no browser of version {MINIMUM_MAJOR} or newer answers at {endpoint}: {problem}\n{ATTACH_HELP}")]
pub struct NoBrowser {
    pub endpoint: Endpoint,
    pub problem: Unusable,
}

/// Why what is at an endpoint is of no use.
#[derive(Debug, Error)]
pub enum Unusable {
    #[error("nobody listens there ({0})")]
    Unreachable(io::Error),
    #[error("it did not answer within {} s", DISCOVERY_LIMIT.as_secs())]
    Silent,
    #[error("it is not the DevTools port of a browser ({0})")]
    NotDevTools(String),
    #[error("it is too old ({0})")]
    TooOld(String),
    /// It would get the cookies and the secrets of scripts.
    #[error("the program that listens there belongs to another user (user id {0})")]
    Strangers(u32),
}

/// A browser that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub endpoint: Endpoint,
    /// Such as `148.0.7778.167`.
    pub version: String,
    pub major: u32,
    /// The path of its WebSocket, another one for each start of the browser.
    path: String,
}

/// Why there is no connection, or nothing of ours in the browser. What was opened there is closed, or is being closed.
#[derive(Debug, Error)]
pub enum AttachError {
    #[error(transparent)]
    NoBrowser(#[from] NoBrowser),
    #[error("the browser did not answer within {0:?}")]
    NoAnswer(Duration),
    #[error("the browser cannot be used")]
    Call(#[source] CallError),
}

/// What the browser says of itself under `/json/version`.
#[derive(Deserialize)]
struct Told {
    #[serde(rename = "Browser")]
    product: String,
    #[serde(rename = "webSocketDebuggerUrl")]
    url: String,
}

/// Asks what is at the endpoint. Nothing is opened there.
///
/// # Errors
/// [`NoBrowser`].
pub async fn discover(endpoint: Endpoint) -> Result<Running, NoBrowser> {
    let problem = match within(DISCOVERY_LIMIT, ask(endpoint)).await {
        Some(Ok(running)) if running.major < MINIMUM_MAJOR => Unusable::TooOld(running.version),
        Some(Ok(running)) => return Ok(running),
        Some(Err(problem)) => problem,
        None => Unusable::Silent,
    };
    Err(NoBrowser { endpoint, problem })
}

async fn ask(endpoint: Endpoint) -> Result<Running, Unusable> {
    let mut stream = TcpStream::connect(endpoint.0).await.map_err(Unusable::Unreachable)?;
    if let Some(user) = stranger_at(endpoint.0) {
        return Err(Unusable::Strangers(user));
    }
    let request = format!("GET /json/version HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", endpoint.0);
    let (head, mut body) = exchange(&mut stream, &request).await?;
    if head.status != 200 {
        return Err(Unusable::NotDevTools(format!("HTTP status {}", head.status)));
    }
    let length = head.length.unwrap_or(BODY_LIMIT).min(BODY_LIMIT);
    while body.len() < length {
        match stream.read_buf(&mut body).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return Err(Unusable::NotDevTools(error.to_string())),
        }
    }
    body.truncate(length);
    // Only where: what is there is somebody else's, of any length.
    let told: Told = serde_json::from_slice(&body).map_err(|error| {
        Unusable::NotDevTools(format!("no description, line {}, column {}", error.line(), error.column()))
    })?;
    // The browser writes the address that it was asked at; only the path says something new.
    let path = told.url.strip_prefix("ws://").and_then(|rest| Some(rest.split_once('/')?.1));
    let path = path.filter(|path| path.starts_with("devtools/browser/") && is_plain(path));
    let version = told.product.split('/').find_map(version_in);
    let version = version.filter(|(version, _)| version.len() <= VERSION_LIMIT);
    match (path, version) {
        (Some(path), Some((version, major))) => {
            Ok(Running { endpoint, version: version.to_owned(), major, path: format!("/{path}") })
        }
        (None, _) => Err(Unusable::NotDevTools("it names no WebSocket of a browser".to_owned())),
        (_, None) => Err(Unusable::NotDevTools("it does not say its version".to_owned())),
    }
}

/// True if the text can stand in the first line of a request.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What is read of the head of an HTTP answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
}

impl Head {
    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = name.eq_ignore_ascii_case("content-length").then_some(value)?;
            value.trim().parse().ok()
        });
        Some(Self { status, length })
    }
}

/// Sends a request. Returns the head of the answer, and what came behind it.
async fn exchange(stream: &mut TcpStream, request: &str) -> Result<(Head, BytesMut), Unusable> {
    const END: &[u8] = b"\r\n\r\n";
    let other = |problem: &str| Unusable::NotDevTools(problem.to_owned());
    let failed = |error: io::Error| Unusable::NotDevTools(error.to_string());
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut received = BytesMut::new();
    loop {
        if let Some(end) = memchr::memmem::find(&received, END) {
            let head = received.split_to(end + END.len());
            let head = std::str::from_utf8(&head).ok().and_then(Head::parse);
            return Ok((head.ok_or_else(|| other("it does not speak HTTP"))?, received));
        }
        if received.len() > HEAD_LIMIT {
            return Err(other("it does not speak HTTP"));
        }
        if stream.read_buf(&mut received).await.map_err(failed)? == 0 {
            return Err(other("it closed the connection"));
        }
    }
}

async fn connect(running: &Running, hung_up: watch::Receiver<()>) -> Result<Connection, Unusable> {
    let address = running.endpoint.0;
    let mut stream = TcpStream::connect(address).await.map_err(Unusable::Unreachable)?;
    // Commands are short, and the next one often waits for the answer to this.
    let _ = stream.set_nodelay(true);
    // The key shows that nothing in between repeats answers to earlier requests; nothing is in between. There is no
    // `Origin`: browsers refuse connections of web pages.
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: Y2FwYXRhei1hdHRhY2hlcw==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        running.path
    );
    let (head, received) = exchange(&mut stream, &request).await?;
    if head.status != 101 {
        return Err(Unusable::NotDevTools(format!("no WebSocket, but HTTP status {}", head.status)));
    }
    let (reader, writer) = stream.into_split();
    Ok(Connection::over_web_socket(reader, writer, received, hung_up))
}

/// What [`Attached::attach`] is asked for.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    pub endpoint: Endpoint,
    /// A SOCKS5 proxy that every connection of our tabs goes through, those to loopback addresses included. It holds for
    /// them alone.
    pub proxy: Option<SocketAddr>,
    /// Where files that our tabs download are written, under the download's own id; an absolute path. Without it downloads
    /// are refused.
    pub download_folder: Option<PathBuf>,
    /// Longest wait for the browser's first answers.
    pub answer_limit: Duration,
}

/// A place of our own in a browser that somebody else runs. Dropping it closes the connection, and with that the browser
/// closes the place.
#[derive(Debug)]
pub struct Attached {
    connection: Connection,
    version: Version,
    context: String,
    /// The connection ends with this.
    _hang_up: watch::Sender<()>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedContext {
    browser_context_id: String,
}

impl Attached {
    /// Connects to the browser, and has it make a browser context for us: with cookies and storage of its own, so that
    /// nothing is seen or changed of what the person is signed in to.
    ///
    /// # Errors
    /// [`AttachError`].
    pub async fn attach(options: AttachOptions) -> Result<Self, AttachError> {
        let running = discover(options.endpoint).await?;
        let limit = options.answer_limit;
        match within(limit, Self::attach_to(&running, &options)).await {
            Some(attached) => attached,
            None => Err(AttachError::NoAnswer(limit)),
        }
    }

    async fn attach_to(running: &Running, options: &AttachOptions) -> Result<Self, AttachError> {
        let (hang_up, hung_up) = watch::channel(());
        let endpoint = running.endpoint;
        let connection =
            connect(running, hung_up).await.map_err(|problem| NoBrowser { endpoint, problem })?;
        let browser = connection.browser();
        let version: Version = browser.call("Browser.getVersion", ()).await.map_err(AttachError::Call)?;
        let mut wanted = json!({ "disposeOnDetach": true });
        if let Some(proxy) = options.proxy {
            wanted["proxyServer"] = format!("socks5://{proxy}").into();
            wanted["proxyBypassList"] = "<-loopback>".into();
        }
        let created: CreatedContext =
            browser.call("Target.createBrowserContext", wanted).await.map_err(AttachError::Call)?;
        let context = created.browser_context_id;
        let mut behavior = download_behavior(options.download_folder.as_ref());
        behavior["browserContextId"] = context.as_str().into();
        browser.call::<Done>("Browser.setDownloadBehavior", behavior).await.map_err(AttachError::Call)?;
        Ok(Self { connection, version, context, _hang_up: hang_up })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The id of our browser context, for commands that would otherwise mean the person's.
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Waits until the connection has ended, whatever the reason.
    pub async fn ended(&self) {
        // An event that is never sent: only the end comes.
        let mut nothing = self.connection.browser().subscribe(&["None.none"]);
        while nothing.next().await.is_ok() {}
    }

    /// Closes our tabs, and then the connection. Returns when the tabs are gone, or after `limit`: they then go with the
    /// connection.
    pub async fn close(self, limit: Duration) {
        let params = json!({ "browserContextId": self.context });
        let browser = self.connection.browser();
        // The browser may be gone.
        drop(within(limit, browser.call::<Done>("Target.disposeBrowserContext", params)).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, EndpointError>) {
        assert_eq!(
            text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()),
            expected.map(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn an_endpoint_is_a_port_of_this_machine() {
        check("http://127.0.0.1:9222", Ok("http://127.0.0.1:9222"));
        check("http://localhost:9222/", Ok("http://127.0.0.1:9222"));
        check("http://[::1]:9222", Ok("http://[::1]:9222"));
        for other in [
            "http://192.168.0.7:9222",
            "http://0.0.0.0:9222",
            "http://desk.example:9222",
            "http://desk.example",
        ] {
            check(other, Err(EndpointError::NotLoopback));
        }
        for form in [
            "",
            "9222",
            "127.0.0.1:9222",
            "http://127.0.0.1",
            "http://127.0.0.1:0",
            "http://localhost",
            "http://127.0.0.1:9222/json",
            "https://127.0.0.1:9222",
            "ws://127.0.0.1:9222",
            "http://:9222",
            "http://user@127.0.0.1:9222",
        ] {
            check(form, Err(EndpointError::Form));
        }
    }

    #[test]
    fn the_head_of_an_answer_says_its_status_and_its_length() {
        let head = |text| Head::parse(text).map(|head| (head.status, head.length));
        assert_eq!(head("HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n"), Some((200, Some(42))));
        assert_eq!(head("HTTP/1.0 404 Not Found\r\ncontent-length:x\r\n\r\n"), Some((404, None)));
        assert_eq!(head("SSH-2.0-OpenSSH_9.2\r\n\r\n"), None);
        assert_eq!(head("HTTP/1.1\r\n\r\n"), None);
    }
}
