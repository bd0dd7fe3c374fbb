//! One browser for the tests that run at the same time, a tab for each, and pages from a server of their own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use capataz_cdp::{Browser, Done, LaunchOptions, Session, passed_environment};
use capataz_executor::chromium::script;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

struct Shared {
    runtime: Runtime,
    browser: Option<Browser>,
    server: SocketAddr,
    pages: Arc<Mutex<BTreeMap<String, String>>>,
    _folder: TempDir,
}

static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());

fn shared() -> Arc<Shared> {
    let mut current = SHARED.lock().unwrap();
    if let Some(shared) = current.upgrade() {
        return shared;
    }
    let shared = Arc::new(Shared::new());
    *current = Arc::downgrade(&shared);
    shared
}

impl Shared {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let named = std::env::var_os("CAPATAZ_CHROMIUM");
        let program = named.map_or("/usr/bin/chromium".into(), PathBuf::from);
        let mut options = LaunchOptions::new(program, folder.path().join("profile"));
        options.environment = passed_environment(true, |name| std::env::var_os(name));
        options.answer_limit = Duration::from_millis(LIMIT);
        let browser = runtime.block_on(Browser::launch(options)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let pages = Arc::<Mutex<BTreeMap<String, String>>>::default();
        let served = Arc::clone(&pages);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve(stream, &served));
            }
        });
        Self { runtime, browser: Some(browser), server, pages, _folder: folder }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(browser) = self.browser.take() {
            self.runtime.block_on(browser.close(Duration::from_secs(10)));
        }
    }
}

fn serve(mut stream: TcpStream, pages: &Mutex<BTreeMap<String, String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let request = lines.next().unwrap_or_default();
    let _rest_of_the_head = lines.find(String::is_empty);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let page = pages.lock().unwrap().get(path).cloned();
    let (status, body) = page.map_or(("404 Not Found", String::new()), |page| ("200 OK", page));
    let head = "Content-Type: text/html; charset=utf-8\r\nConnection: close";
    // A browser that has gone on does not want the rest.
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

/// Milliseconds, long enough for anything that is to come, on a machine that stands still for a while, too; nothing waits
/// for its end.
pub const LIMIT: u64 = 120_000;

/// A tab with a page of its own.
pub struct Page {
    session: Session,
    context: Mutex<i64>,
    shared: Arc<Shared>,
}

impl Page {
    /// A tab with this page, in which the script runs.
    pub fn with(html: &str) -> Self {
        let shared = shared();
        let session = shared.runtime.block_on(async {
            let browser = shared.browser.as_ref().unwrap().connection().browser();
            let created: Value =
                browser.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
            browser.attach(created["targetId"].as_str().unwrap()).await.unwrap()
        });
        let page = Self { session, context: Mutex::default(), shared };
        page.call("Page.enable", json!({}));
        page.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        let source = json!({ "source": script::source(script::TESTID), "worldName": script::OBJECT, "runImmediately": true });
        page.call("Page.addScriptToEvaluateOnNewDocument", source);
        page.open(html);
        page
    }

    /// Leads the tab to another page.
    pub fn open(&self, html: &str) {
        let path = {
            let mut pages = self.shared.pages.lock().unwrap();
            let path = format!("/page{}", pages.len());
            pages.insert(path.clone(), html.to_owned());
            path
        };
        let url = self.url(&path);
        let opening = self.session.navigate(&url, "Page.loadEventFired");
        self.shared.runtime.block_on(opening).unwrap();
        let frames = self.call("Page.getFrameTree", json!({}));
        let world = json!({ "frameId": frames["frameTree"]["frame"]["id"], "worldName": script::OBJECT });
        let context = self.call("Page.createIsolatedWorld", world)["executionContextId"].as_i64().unwrap();
        *self.context.lock().unwrap() = context;
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.shared.server)
    }

    #[track_caller]
    pub fn call(&self, method: &'static str, params: Value) -> Value {
        self.shared.runtime.block_on(self.session.call(method, params)).unwrap()
    }

    #[track_caller]
    fn evaluate(&self, expression: &str, context: Option<i64>) -> Result<Value, String> {
        let mut params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        if let Some(context) = context {
            params["contextId"] = context.into();
        }
        let answer = self.call("Runtime.evaluate", params);
        match answer["exceptionDetails"]["exception"]["description"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Evaluates where the script is.
    #[track_caller]
    pub fn script(&self, expression: &str) -> Value {
        self.fallible(expression).unwrap()
    }

    #[track_caller]
    pub fn fallible(&self, expression: &str) -> Result<Value, String> {
        self.evaluate(expression, Some(*self.context.lock().unwrap()))
    }

    /// The id of the object that an expression gives where the script is.
    #[track_caller]
    pub fn object(&self, expression: &str) -> String {
        let context = *self.context.lock().unwrap();
        let params = json!({ "expression": expression, "contextId": context });
        self.call("Runtime.evaluate", params)["result"]["objectId"].as_str().unwrap().to_owned()
    }

    /// Evaluates as the page itself.
    #[track_caller]
    pub fn page(&self, expression: &str) -> Value {
        self.evaluate(expression, None).unwrap()
    }

    /// `capataz.function(…arguments)`.
    #[track_caller]
    pub fn run(&self, function: &str, arguments: &Value) -> Value {
        self.script(&format!("capataz.{function}(...{arguments})"))
    }

    /// Looks by one locator.
    #[track_caller]
    pub fn look(&self, locator: &Value) -> Value {
        self.run(script::function::LOOK, &json!([{ "locators": [locator] }]))
    }

    /// The ids of what a locator matches; what has none is shown by its tag.
    #[track_caller]
    pub fn matches(&self, locator: &Value) -> Vec<String> {
        let look = self.look(locator);
        assert_eq!(look["invalid"], Value::Null, "{locator}");
        let only = look["element"].get("description").cloned().into_iter().collect();
        let sample = look["sample"].as_array().filter(|sample| !sample.is_empty()).unwrap_or(&only);
        assert!(sample.len() < 5 || look["count"] == 5, "too many to be listed: {locator}");
        let id = |found: &Value| found["id"].as_str().or(found["tag"].as_str()).unwrap().to_owned();
        sample.iter().map(id).collect()
    }

    /// The handle of the one element that a selector names.
    #[track_caller]
    pub fn handle(&self, css: &str) -> u64 {
        let look = self.look(&json!({ "kind": "css", "value": css }));
        look["element"]["handle"].as_u64().unwrap_or_else(|| panic!("{css}: {look}"))
    }

    /// Facts of the one element that a selector names.
    #[track_caller]
    pub fn facts(&self, css: &str) -> Value {
        self.look(&json!({ "kind": "css", "value": css }))["element"]["facts"].clone()
    }

    /// Three events of a mouse, as the browser sends them for a click.
    pub fn click(&self, (x, y): (f64, f64)) {
        let event = |kind: &str, button: &str, count: u32| json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
        self.call("Input.dispatchMouseEvent", event("mouseMoved", "none", 0));
        self.call("Input.dispatchMouseEvent", event("mousePressed", "left", 1));
        self.call("Input.dispatchMouseEvent", event("mouseReleased", "left", 1));
    }

    pub fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }
}

/// The middle of a rectangle as the script answers it.
#[track_caller]
pub fn centre(rect: &Value) -> (f64, f64) {
    let side = |name: &str| rect[name].as_f64().unwrap_or_else(|| panic!("{rect}"));
    (side("x") + side("width") / 2.0, side("y") + side("height") / 2.0)
}

impl Drop for Page {
    fn drop(&mut self) {
        let close = self.session.call::<Done>("Page.close", ());
        // The tab may be gone.
        let _ = self.shared.runtime.block_on(close);
    }
}
