//! What pages write to their consoles, and their requests that fail. Listened to only where a policy keeps it, by a task of
//! its own: a page that writes faster than it is read loses lines, and nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_cdp::patience::within;
use capataz_cdp::{Backlog, Connection, Event, EventError, Events};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::page::{ConsoleLine, FailedRequest, PageLog};

const EVENTS: [&str; 5] = [
    "Network.loadingFailed",
    "Network.requestWillBeSent",
    "Network.responseReceived",
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
];

/// Most lines, and most failed requests, that are kept until they are taken, and most bytes of both together.
const LOG_ENTRIES_MAX: usize = 200;
const LOG_BYTES_MAX: usize = 256 * 1024;

/// Longest text of a line, and longest URL, in characters. What is longer is left out as a whole: nobody could tell whether
/// the end of a part of it is the beginning of a secret.
const LOG_LINE_MAX: usize = 16_000;
const URL_LIMIT: usize = 4_000;

/// What stands in its place.
const TOO_LONG: &str = "(too long)";

/// Requests whose URLs are remembered until they end.
const REQUESTS_REMEMBERED: usize = 1_000;

/// Longest wait for the lines that have arrived and are not read yet.
const READING_LIMIT: Duration = Duration::from_secs(1);

/// From this HTTP status on, a request has failed.
const FIRST_ERROR: u32 = 400;

/// Kinds of console calls that write nothing.
const SILENT: [&str; 5] = ["clear", "endGroup", "profile", "profileEnd", "timeStamp"];

#[derive(Deserialize)]
struct ConsoleCalled {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<Argument>,
    #[serde(default, rename = "stackTrace")]
    stack: Stack,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    #[serde(default)]
    value: Option<Value>,
    #[serde(default)]
    unserializable_value: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stack {
    call_frames: Vec<Place>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Place {
    url: String,
    line_number: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thrown {
    exception_details: Exception,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exception {
    #[serde(default)]
    text: String,
    #[serde(default)]
    exception: Option<Argument>,
    #[serde(flatten)]
    place: Place,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    request_id: String,
    request: Address,
}

#[derive(Deserialize)]
struct Address {
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    request_id: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    error_text: String,
    #[serde(default)]
    canceled: bool,
}

#[derive(Deserialize)]
struct Received {
    #[serde(rename = "type", default)]
    kind: String,
    response: Answer,
}

#[derive(Deserialize)]
struct Answer {
    url: String,
    status: u32,
}

/// What was heard since it was last taken, and the requests that have not ended.
#[derive(Debug, Default)]
struct Heard {
    log: PageLog,
    bytes: usize,
    urls: BTreeMap<String, String>,
    oldest_first: VecDeque<String>,
}

/// Where the lines are, for whoever takes them.
#[derive(Clone, Debug)]
pub(super) struct LogKeeper {
    heard: Arc<Mutex<Heard>>,
    backlog: Backlog,
}

impl LogKeeper {
    /// To be made before anything is asked of the browser. The task ends with the connection.
    pub(super) fn start(connection: &Connection) -> Self {
        let events = connection.subscribe(&EVENTS);
        let keeper = Self { heard: Arc::default(), backlog: events.backlog() };
        tokio::spawn(keeper.clone().run(events));
        keeper
    }

    async fn run(self, mut events: Events) {
        loop {
            match events.next().await {
                Ok(event) => self.heard().event(&event),
                Err(EventError::Lagged(count)) => self.heard().log.left_out += count,
                Err(EventError::Lost(_) | EventError::Detached) => return,
            }
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that came before this call and was not taken yet.
    pub(super) async fn take(&self) -> PageLog {
        within(READING_LIMIT, self.backlog.cleared()).await;
        let mut heard = self.heard();
        heard.bytes = 0;
        std::mem::take(&mut heard.log)
    }
}

impl Heard {
    fn event(&mut self, event: &Event) {
        match &*event.method {
            "Runtime.consoleAPICalled" => parse(event, |called| self.console(called)),
            "Runtime.exceptionThrown" => parse(event, |thrown| self.thrown(thrown)),
            "Network.requestWillBeSent" => parse(event, |sent| self.sent(sent)),
            "Network.loadingFailed" => parse(event, |failed| self.failed(failed)),
            "Network.responseReceived" => parse(event, |received: Received| {
                if received.response.status >= FIRST_ERROR {
                    let reason = format!("status {}", received.response.status);
                    self.request(&received.kind, &received.response.url, reason);
                }
            }),
            _ => {}
        }
    }

    fn console(&mut self, called: ConsoleCalled) {
        if SILENT.contains(&called.kind.as_str()) {
            return;
        }
        let mut text = String::new();
        for argument in &called.args {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&argument.text());
            if text.len() > LOG_LINE_MAX * 4 {
                break;
            }
        }
        let place = called.stack.call_frames.into_iter().next().unwrap_or_default();
        self.line(called.kind, &text, &place);
    }

    fn thrown(&mut self, thrown: Thrown) {
        let Exception { text, exception, place } = thrown.exception_details;
        let text = match exception {
            Some(exception) => format!("{text} {}", exception.text()),
            None => text,
        };
        self.line("exception".to_owned(), &text, &place);
    }

    fn line(&mut self, level: String, text: &str, place: &Place) {
        let (text, url) = (cut(text, LOG_LINE_MAX), cut(&place.url, URL_LIMIT));
        let line = ConsoleLine { level, text, url, line: place.line_number + 1, count: 1 };
        // A page that repeats itself says nothing more.
        if let Some(last) = self.log.console.last_mut()
            && (&last.level, &last.text, &last.url, last.line)
                == (&line.level, &line.text, &line.url, line.line)
        {
            last.count += 1;
            return;
        }
        if self.has_room(self.log.console.len(), line.text.len() + line.url.len()) {
            self.log.console.push(line);
        }
    }

    fn sent(&mut self, sent: Sent) {
        let Sent { request_id: id, request } = sent;
        if self.urls.insert(id.clone(), cut(&request.url, URL_LIMIT)).is_none() {
            self.oldest_first.push_back(id);
        }
        if self.oldest_first.len() > REQUESTS_REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.urls.remove(&oldest);
        }
    }

    /// A page that gives its own request up, or leaves, has not met a failure.
    fn failed(&mut self, failed: Failed) {
        if !failed.canceled {
            let url = self.urls.get(&failed.request_id).cloned().unwrap_or_default();
            self.request(&failed.kind, &url, failed.error_text);
        }
    }

    fn request(&mut self, kind: &str, url: &str, reason: String) {
        let request = FailedRequest { kind: kind.to_ascii_lowercase(), url: cut(url, URL_LIMIT), reason };
        if self.has_room(self.log.requests.len(), request.url.len() + request.reason.len()) {
            self.log.requests.push(request);
        }
    }

    fn has_room(&mut self, entries: usize, bytes: usize) -> bool {
        let has_room = entries < LOG_ENTRIES_MAX && self.bytes + bytes <= LOG_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
        } else {
            self.log.left_out += 1;
        }
        has_room
    }
}

impl Argument {
    /// As a console shows it, objects by what they are alone.
    fn text(&self) -> String {
        match (&self.value, &self.unserializable_value, &self.description) {
            (Some(Value::String(text)), ..) => text.clone(),
            (_, _, Some(text)) | (None, Some(text), None) => text.clone(),
            (Some(value), ..) => value.to_string(),
            (None, None, None) => "undefined".to_owned(),
        }
    }
}

fn cut(text: &str, limit: usize) -> String {
    if text.char_indices().nth(limit).is_none() { text.to_owned() } else { TOO_LONG.to_owned() }
}

/// An event of an unknown shape is passed over.
fn parse<T: DeserializeOwned>(event: &Event, then: impl FnOnce(T)) {
    if let Ok(params) = event.parse() {
        then(params);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn event(method: &str, params: &Value) -> Event {
        Event { method: Arc::from(method), session: None, params: params.to_string().into() }
    }

    fn said(text: &str) -> Event {
        let params = json!({ "type": "log", "args": [{ "type": "string", "value": text }] });
        event("Runtime.consoleAPICalled", &params)
    }

    #[test]
    fn what_a_page_writes_is_bounded_in_entries_and_in_bytes() {
        let mut heard = Heard::default();
        for number in 0..300 {
            heard.event(&said(&format!("line {number}")));
        }
        assert_eq!((heard.log.console.len(), heard.log.left_out), (200, 100));
        let mut heard = Heard::default();
        for number in 0..100 {
            heard.event(&said(&format!("{number} {}", "ñ".repeat(10_000))));
        }
        let bytes: usize = heard.log.console.iter().map(|line| line.text.len()).sum();
        assert!(bytes <= LOG_BYTES_MAX && bytes > LOG_BYTES_MAX / 2, "{bytes}");
        assert_eq!(heard.log.console.len() as u64 + heard.log.left_out, 100);
        let mut heard = Heard::default();
        heard.event(&said(&"x".repeat(20_000)));
        assert_eq!(heard.log.console[0].text, "(too long)");
    }

    #[test]
    fn a_repeated_line_is_counted_and_objects_are_not_opened() {
        let mut heard = Heard::default();
        heard.event(&said("again"));
        heard.event(&said("again"));
        let args = json!([{ "value": 1 }, { "value": null }, { "description": "Object" }, { "unserializableValue": "NaN" }, {}]);
        let stack = json!({ "callFrames": [{ "url": "https://h/a.js", "lineNumber": 4 }] });
        let params = json!({ "type": "warning", "args": args, "stackTrace": stack });
        heard.event(&event("Runtime.consoleAPICalled", &params));
        heard.event(&event("Runtime.consoleAPICalled", &json!({ "type": "clear" })));
        heard.event(&event("Runtime.consoleAPICalled", &json!({ "args": 1 })));
        let lines: Vec<_> = heard
            .log
            .console
            .iter()
            .map(|line| (line.level.as_str(), line.text.as_str(), line.count))
            .collect();
        assert_eq!(lines, [("log", "again", 2), ("warning", "1 undefined Object NaN undefined", 1)]);
        assert_eq!((heard.log.console[1].url.as_str(), heard.log.console[1].line), ("https://h/a.js", 5));
    }

    #[test]
    fn a_request_fails_by_its_error_or_its_status_and_not_by_being_given_up() {
        let mut heard = Heard::default();
        let sent = |id: &str| json!({ "requestId": id, "request": { "url": format!("https://h/{id}") } });
        for id in ["a", "b"] {
            heard.event(&event("Network.requestWillBeSent", &sent(id)));
        }
        let failed = json!({ "requestId": "a", "type": "Script", "errorText": "net::ERR_FAILED" });
        heard.event(&event("Network.loadingFailed", &failed));
        let gone =
            json!({ "requestId": "b", "type": "Fetch", "errorText": "net::ERR_ABORTED", "canceled": true });
        heard.event(&event("Network.loadingFailed", &gone));
        for status in [200, 304, 404] {
            let answer =
                json!({ "type": "Image", "response": { "url": "https://h/i.png", "status": status } });
            heard.event(&event("Network.responseReceived", &answer));
        }
        let request = |kind: &str, url: &str, reason: &str| FailedRequest {
            kind: kind.to_owned(),
            url: url.to_owned(),
            reason: reason.to_owned(),
        };
        let expected = [
            request("script", "https://h/a", "net::ERR_FAILED"),
            request("image", "https://h/i.png", "status 404"),
        ];
        assert_eq!(heard.log.requests, expected);
        for number in 0..2_000 {
            heard.event(&event("Network.requestWillBeSent", &sent(&number.to_string())));
        }
        assert_eq!(heard.urls.len(), REQUESTS_REMEMBERED);
    }
}
