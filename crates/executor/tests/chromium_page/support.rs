//! A server that serves pages by path and remembers who asked, and a browser that is opened for a test.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_executor::allowlist::Allowlist;
use capataz_executor::chromium::{ChromiumBrowser, ChromiumPage, Launch, OpenOptions, Source, script};
use capataz_executor::page::{
    Act, Facts, Locator, Look, Node, Page, PageError, PageRedaction, Query, Rect, WaitUntil,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Longest wait for anything that is expected to come: far longer than it takes, on a busy machine, too, and on one that
/// stands still for a while.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Limits for what is to end with one, where something else has to happen before: tried in this order until it has, since
/// a machine may be too slow for the first.
pub const SHORT_LIMITS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    /// The whole head, with the line of the request.
    pub head: String,
}

#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<String>,
    body: Vec<u8>,
    hangs: bool,
}

impl Answer {
    pub fn html(body: impl Into<Vec<u8>>) -> Self {
        Self::of("text/html; charset=utf-8", body)
    }

    pub fn script(body: impl Into<Vec<u8>>) -> Self {
        Self::of("text/javascript", body)
    }

    pub fn of(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: vec![format!("content-type: {kind}")], body: body.into(), hangs: false }
    }

    pub fn redirect(to: &str) -> Self {
        Self { status: 302, headers: vec![format!("location: {to}")], body: Vec::new(), hangs: false }
    }

    /// Never comes.
    pub fn never() -> Self {
        Self { hangs: true, ..Self::html("") }
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub fn header(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }
}

type Pages = dyn Fn(&Request) -> Option<Answer> + Send + Sync;

/// Listens on 127.0.0.1 until it is dropped.
pub struct Server {
    pub port: u16,
    seen: watch::Sender<Seen>,
    serving: tokio::task::AbortHandle,
}

#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub connections: usize,
    pub requests: Vec<Request>,
}

impl Server {
    /// Serves what the function answers, and 404 where it answers nothing.
    pub async fn start(pages: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = watch::Sender::new(Seen::default());
        let serving = tokio::spawn(serve(listener, Arc::new(pages), seen.clone())).abort_handle();
        Self { port, seen, serving }
    }

    /// Serves these documents.
    pub async fn with(pages: &[(&str, &str)]) -> Self {
        let pages: BTreeMap<String, String> =
            pages.iter().map(|(path, page)| ((*path).to_owned(), (*page).to_owned())).collect();
        Self::start(move |request| pages.get(&request.path).map(|page| Answer::html(page.as_str()))).await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn entry(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    pub fn hits(&self, path: &str) -> usize {
        self.seen().requests.iter().filter(|request| request.path == path).count()
    }

    /// Waits until the path was asked for.
    pub async fn asked(&self, path: &str) -> Request {
        let mut seen = self.seen.subscribe();
        let find = |seen: &Seen| seen.requests.iter().find(|request| request.path == path).cloned();
        let waiting = seen.wait_for(|seen| find(seen).is_some());
        let found = tokio::time::timeout(LIMIT, waiting).await;
        let seen = found.unwrap_or_else(|_| panic!("{path} was never asked for")).unwrap();
        find(&seen).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, pages: Arc<Pages>, seen: watch::Sender<Seen>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((connection, _)) = listener.accept().await {
        seen.send_modify(|seen| seen.connections += 1);
        connections.spawn(answer(connection, Arc::clone(&pages), seen.clone()));
    }
}

async fn answer(mut connection: TcpStream, pages: Arc<Pages>, seen: watch::Sender<Seen>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 4096];
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => head.extend_from_slice(&chunk[..count]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let request = Request { path, head };
    seen.send_modify(|seen| seen.requests.push(request.clone()));
    let answer = pages(&request).unwrap_or_else(|| Answer::html("nothing here").status(404));
    if answer.hangs {
        std::future::pending::<()>().await;
    }
    let mut text = format!("HTTP/1.1 {} Status\r\nconnection: close\r\n", answer.status);
    for header in &answer.headers {
        text.push_str(&format!("{header}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n", answer.body.len()));
    let _ = connection.write_all(text.as_bytes()).await;
    let _ = connection.write_all(&answer.body).await;
    let _ = connection.shutdown().await;
}

/// A browser, its page, and the folder that they live in.
pub struct Opened {
    pub browser: ChromiumBrowser,
    pub page: ChromiumPage,
    pub folder: TempDir,
}

impl Deref for Opened {
    type Target = ChromiumPage;

    fn deref(&self) -> &ChromiumPage {
        &self.page
    }
}

impl DerefMut for Opened {
    fn deref_mut(&mut self) -> &mut ChromiumPage {
        &mut self.page
    }
}

pub fn options(folder: &Path, allowlist: &[String]) -> OpenOptions {
    std::fs::create_dir_all(folder.join("downloads")).unwrap();
    OpenOptions {
        source: Source::Launch(Launch {
            // Not asked for its version, as `find` would: that is another process for each test.
            program: std::env::var_os("CAPATAZ_CHROMIUM").map_or("/usr/bin/chromium".into(), PathBuf::from),
            profile_folder: folder.join("profile"),
            shim: None,
            environment: capataz_cdp::passed_environment(true, |name| std::env::var_os(name)),
            headed: false,
        }),
        download_folder: folder.join("downloads"),
        width: 1280,
        height: 720,
        locale: "en-US".to_owned(),
        timezone: "UTC".to_owned(),
        allowlist: Allowlist::parse(allowlist).unwrap(),
        redaction: PageRedaction::default(),
        testid_attribute: script::TESTID.to_owned(),
        new_tabs: v1::NewTabs::Follow,
        dialogs: v1::DialogAnswer::Dismiss,
        page_log: false,
        storage_state: None,
    }
}

/// A browser that may go to these servers.
pub async fn open(servers: &[&Server]) -> Opened {
    open_with(servers, |_| {}).await
}

pub async fn open_with(servers: &[&Server], change: impl FnOnce(&mut OpenOptions)) -> Opened {
    let folder = tempfile::tempdir().unwrap();
    let allowlist: Vec<String> = servers.iter().map(|server| server.entry()).collect();
    let mut options = options(folder.path(), &allowlist);
    change(&mut options);
    let (browser, page) = ChromiumBrowser::open(options).await.unwrap();
    Opened { browser, page, folder }
}

pub fn css(selector: &str) -> Query {
    Query { locators: vec![Locator::Css { value: selector.to_owned() }], ..Query::default() }
}

pub fn within(frames: &[&str], selector: &str) -> Query {
    Query { frame: frames.iter().map(|frame| css(frame)).collect(), ..css(selector) }
}

impl Opened {
    pub async fn go(&mut self, url: &str) -> Result<(), PageError> {
        self.act(Act::Navigate { url: url.to_owned() }, WaitUntil::Load).await
    }

    pub async fn act(&mut self, act: Act, until: WaitUntil) -> Result<(), PageError> {
        self.page.act(act, until, LIMIT).await
    }

    /// Looks until it finds exactly one.
    pub async fn found(&mut self, query: &Query) -> (Node, Facts) {
        let look = self.looked(query, |look| look.element.is_some()).await;
        let element = look.element.unwrap();
        (element.node, element.facts)
    }

    pub async fn looked(&mut self, query: &Query, wanted: impl Fn(&Look) -> bool) -> Look {
        let mut newest = None;
        let looking = async {
            loop {
                let look = self.page.look(query).await.unwrap();
                if wanted(&look) {
                    return look;
                }
                newest = Some(look);
                self.page.changed(LIMIT).await.unwrap();
            }
        };
        let found = tokio::time::timeout(LIMIT, looking).await;
        found.unwrap_or_else(|_| panic!("{query:?} found only {newest:?}"))
    }

    pub async fn node(&mut self, selector: &str) -> Node {
        self.found(&css(selector)).await.0
    }

    pub async fn text_of(&mut self, selector: &str) -> String {
        self.found(&css(selector)).await.1.text
    }

    /// Waits until the element reads like this.
    pub async fn reads(&mut self, selector: &str, text: &str) {
        let reads = |look: &Look| look.element.as_ref().is_some_and(|element| element.facts.text == text);
        self.looked(&css(selector), reads).await;
    }

    pub async fn click(&mut self, selector: &str) -> Result<(), PageError> {
        let node = self.node(selector).await;
        self.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await
    }

    /// What has happened until a wanted thing has, together.
    pub async fn changes(&mut self, wanted: impl Fn(&v1::PageChanges) -> bool) -> v1::PageChanges {
        let mut all = v1::PageChanges::default();
        let gathering = async {
            loop {
                let newer = self.page.take_changes();
                all.navigation = all.navigation.max(newer.navigation);
                all.status = newer.status.or(all.status);
                all.redirects.extend(newer.redirects);
                all.dialogs.extend(newer.dialogs);
                all.new_tabs.extend(newer.new_tabs);
                all.blocked.extend(newer.blocked);
                all.downloads.extend(newer.downloads);
                all.unauthorized.extend(newer.unauthorized);
                if wanted(&all) {
                    return;
                }
                self.page.changed(LIMIT).await.unwrap();
            }
        };
        let gathered = tokio::time::timeout(LIMIT, gathering).await;
        assert!(gathered.is_ok(), "only this has happened: {all:?}");
        all
    }
}

/// A picture, pixel by pixel.
pub struct Pixels {
    pub width: usize,
    pub height: usize,
    channels: usize,
    bytes: Vec<u8>,
}

impl Pixels {
    pub fn of(png: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut bytes).unwrap();
        let (width, height) = (frame.width as usize, frame.height as usize);
        Self { width, height, channels: frame.color_type.samples(), bytes }
    }

    pub fn count(&self, colour: [u8; 3]) -> usize {
        self.bytes.chunks(self.channels).filter(|pixel| pixel[..3] == colour).count()
    }

    /// How many of the pixels that are wholly within the box have the colour of masks, and how many there are.
    pub fn masked(&self, rect: &Rect) -> (usize, usize) {
        let rows = rect.y.ceil() as usize..(rect.y + rect.height).floor() as usize;
        let columns = rect.x.ceil() as usize..(rect.x + rect.width).floor() as usize;
        let all = rows.flat_map(|row| columns.clone().map(move |column| row * self.width + column));
        let all: Vec<_> = all.map(|index| &self.bytes[index * self.channels..][..3]).collect();
        (all.iter().filter(|pixel| **pixel == [0xd0, 0x00, 0xd0]).count(), all.len())
    }

    #[track_caller]
    pub fn is_masked(&self, rect: &Rect) {
        let (masked, all) = self.masked(rect);
        assert!(masked == all && all > 100, "{masked} of {all} at {rect:?}");
    }

    #[track_caller]
    pub fn is_shown(&self, rect: &Rect) {
        let (masked, all) = self.masked(rect);
        assert!(masked == 0 && all > 100, "{masked} of {all} at {rect:?}");
    }
}
