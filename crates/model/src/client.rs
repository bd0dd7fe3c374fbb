//! Asks a model once, and reads its answer as it comes.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Response, redirect};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::endpoint::{Endpoint, Key, Problem, Protocol};
use crate::error::{ModelError, redacted};
use crate::said::{Heard, Said};
use crate::wire::Told;
use crate::{anthropic, openai};

/// The most bytes of one event of a stream.
const EVENT_MAX: usize = 1024 * 1024;
/// The most bytes of an error that are read.
const ERROR_MAX: usize = 16 * 1024;
/// The longest wait that a server's `Retry-After` is believed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// What it is to be, apart from the question.
    pub system: Option<String>,
    pub user: String,
    /// JSON Schema of the answer, which is JSON then, where it [fits](Fit). A server keeps to it as far as it can.
    pub schema: Option<Value>,
}

/// How long, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Between two pieces of the answer, and until the first.
    pub idle: Duration,
    /// Of the whole answer.
    pub total: Duration,
    /// Bytes of its text.
    pub answer_bytes: usize,
}

/// Asks one model.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    address: Url,
    http: reqwest::Client,
}

impl Client {
    /// # Errors
    /// All that is wrong with the endpoint; or there is no client on this machine, which is told as a problem of `base_url`.
    pub fn new(endpoint: Endpoint) -> Result<Self, Vec<Problem>> {
        let address = endpoint.check()?;
        let unfit =
            |error: &dyn std::fmt::Display| vec![Problem { field: "base_url", message: error.to_string() }];
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(&address).map_err(|error| unfit(&error))?)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .user_agent(concat!("capataz/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unfit(&error))?;
        Ok(Self { endpoint: Arc::new(endpoint), address, http })
    }

    /// Asks, and hands pieces of the answer on as they come. Whoever drops the future has nothing asked any more.
    ///
    /// # Errors
    /// There is no whole answer. The key is in no message. (A server that says it back as its answer is another matter: see
    /// [`Key::reveal`].)
    pub async fn ask(
        &self,
        key: Option<&Key>,
        ask: &Ask,
        limits: Limits,
        partial: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Said, ModelError> {
        let secret = key.map(Key::reveal).unwrap_or_default();
        let mut said = self.answer(key, ask, limits, partial).await.map_err(|error| error.told(secret))?;
        said.model = redacted(said.model, secret);
        Ok(said)
    }

    async fn answer(
        &self,
        key: Option<&Key>,
        ask: &Ask,
        limits: Limits,
        partial: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Said, ModelError> {
        let until = Instant::now() + limits.total;
        let body = match self.endpoint.protocol {
            Protocol::OpenAi => openai::body(&self.endpoint, ask),
            Protocol::Anthropic => anthropic::body(&self.endpoint, ask),
        };
        let request = self.http.post(self.address.clone()).headers(self.headers(key)?).body(body.to_string());
        let patience = Patience { until, idle: limits.idle };
        let response = patience.wait(request.send()).await?.map_err(|error| unreached(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(ModelError::Redirected { to: destination(&response) });
        }
        if !status.is_success() {
            return Err(refused(response, patience).await);
        }
        let is_json = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/json"));
        let mut heard = Heard::default();
        match is_json {
            true => self.read_whole(response, patience, limits, &mut heard, partial).await?,
            false => self.read_stream(response.bytes_stream(), patience, limits, &mut heard, partial).await?,
        }
        heard.said().ok_or_else(|| ModelError::broken("it was cut off"))
    }

    fn headers(&self, key: Option<&Key>) -> Result<HeaderMap, ModelError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if self.endpoint.protocol == Protocol::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
        }
        if let Some(key) = key {
            let (name, text) = match self.endpoint.protocol {
                Protocol::OpenAi => (AUTHORIZATION, format!("Bearer {}", key.reveal())),
                Protocol::Anthropic => {
                    ("x-api-key".parse().unwrap_or(AUTHORIZATION), key.reveal().to_owned())
                }
            };
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| ModelError::Unauthorized { message: "the key cannot be a header".to_owned() })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Reads events until the last one.
    async fn read_stream(
        &self,
        bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send,
        patience: Patience,
        limits: Limits,
        heard: &mut Heard,
        partial: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ModelError> {
        let mut events = pin!(SseByteStream::new(bounded(bytes, patience)));
        while let Some(event) = events.next().await {
            let event = event.map_err(unread)?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
            let added = match self.endpoint.protocol {
                Protocol::OpenAi => openai::hear(heard, &data)?,
                Protocol::Anthropic => anthropic::hear(heard, &data)?,
            };
            add(heard, &added, limits, partial)?;
            if heard.is_over {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads an answer that comes at once.
    async fn read_whole(
        &self,
        response: Response,
        patience: Patience,
        limits: Limits,
        heard: &mut Heard,
        partial: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), ModelError> {
        // JSON escapes what its text says, and says some more beside it.
        let most = limits.answer_bytes.saturating_mul(6).saturating_add(ERROR_MAX);
        let (body, is_whole) = read_up_to(response, patience, most).await?;
        if !is_whole {
            return Err(too_long(limits));
        }
        let body: Value =
            serde_json::from_slice(&body).map_err(|error| ModelError::broken(format!("no JSON: {error}")))?;
        let text = match self.endpoint.protocol {
            Protocol::OpenAi => openai::whole(heard, &body)?,
            Protocol::Anthropic => anthropic::whole(heard, &body)?,
        };
        add(heard, &text, limits, partial)
    }
}

/// Why a stream of bytes has ended before its time.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("it was cut off")]
    Off(#[source] reqwest::Error),
    #[error("one event has more than 1 MiB")]
    TooLong,
    #[error(transparent)]
    Late(ModelError),
}

/// The bytes, as long as they come in time, and no event of them is too long: the reader of events keeps one until its end.
fn bounded(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send,
    patience: Patience,
) -> impl Stream<Item = Result<Bytes, Cut>> + Send {
    stream::try_unfold((Box::pin(bytes), Event::default()), move |(mut bytes, mut event)| async move {
        // Whatever comes is a sign of life, also what says nothing.
        let Some(piece) = patience.wait(bytes.next()).await.map_err(Cut::Late)? else { return Ok(None) };
        let piece = piece.map_err(Cut::Off)?;
        event.pass(&piece)?;
        Ok(Some((piece, (bytes, event))))
    })
}

/// The event of a stream that has begun.
#[derive(Default)]
struct Event {
    /// Its bytes so far.
    len: usize,
    /// Bytes of its last line.
    line: usize,
    after_return: bool,
}

impl Event {
    /// A blank line ends it.
    fn pass(&mut self, piece: &[u8]) -> Result<(), Cut> {
        for byte in piece {
            let is_pair = *byte == b'\n' && self.after_return;
            self.after_return = *byte == b'\r';
            self.len = self.len.saturating_add(1);
            match byte {
                _ if is_pair => {}
                b'\n' | b'\r' if self.line == 0 => self.len = 0,
                b'\n' | b'\r' => self.line = 0,
                _ => self.line = self.line.saturating_add(1),
            }
            if self.len > EVENT_MAX {
                return Err(Cut::TooLong);
            }
        }
        Ok(())
    }
}

/// Why there is no next event.
fn unread(error: sse_stream::Error) -> ModelError {
    match error {
        sse_stream::Error::Body(cut) => match cut.downcast::<Cut>() {
            Ok(cut) => match *cut {
                Cut::Late(late) => late,
                cut => ModelError::broken(cut.to_string()),
            },
            Err(other) => ModelError::broken(other.to_string()),
        },
        other => ModelError::broken(other.to_string()),
    }
}

/// How far the protocols have a place for a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All of it.
    Whole,
    /// All but the conditions at its root.
    ButConditions,
    /// Its root is no object.
    No,
}

/// Keywords that the root of a tool's input cannot have. Each of them only narrows what the others allow.
pub(crate) const CONDITIONS: [&str; 7] = ["anyOf", "oneOf", "allOf", "not", "if", "then", "else"];

impl Fit {
    #[must_use]
    pub fn of(schema: &Value) -> Self {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            Self::No
        } else if CONDITIONS.iter().any(|key| schema.get(key).is_some()) {
            Self::ButConditions
        } else {
            Self::Whole
        }
    }
}

/// TLS with the certificates of the machine, which are read only where they are needed.
fn tls(address: &Url) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    if address.scheme() == "https" {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn add(
    heard: &mut Heard,
    text: &str,
    limits: Limits,
    partial: &mut (dyn FnMut(&str) + Send),
) -> Result<(), ModelError> {
    if text.is_empty() {
        return Ok(());
    }
    if heard.text.len().saturating_add(text.len()) > limits.answer_bytes {
        return Err(too_long(limits));
    }
    heard.text.push_str(text);
    partial(text);
    Ok(())
}

fn too_long(limits: Limits) -> ModelError {
    ModelError::broken(format!("it is longer than {} bytes", limits.answer_bytes))
}

/// How long somebody waits.
#[derive(Clone, Copy)]
struct Patience {
    until: Instant,
    idle: Duration,
}

impl Patience {
    async fn wait<T>(self, coming: impl Future<Output = T>) -> Result<T, ModelError> {
        let idle = Instant::now() + self.idle;
        timeout_at(idle.min(self.until), coming).await.map_err(|_| ModelError::TimedOut {
            what: if idle < self.until {
                "has said nothing for too long"
            } else {
                "takes too long for its answer"
            },
        })
    }
}

/// Nobody has answered at all.
fn unreached(error: &reqwest::Error) -> ModelError {
    // The innermost reason is the one that helps; the outer ones repeat the address.
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    ModelError::Unavailable { retry_after: None, message: reason.to_string() }
}

/// The host that a redirect points to.
fn destination(response: &Response) -> String {
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
    match response.url().join(location) {
        Ok(to) if !location.is_empty() => to.host_str().unwrap_or("no host").to_owned(),
        _ => "nowhere".to_owned(),
    }
}

async fn refused(response: Response, patience: Patience) -> ModelError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let told = match read_up_to(response, patience, ERROR_MAX).await {
        Ok((body, true)) => told(&body),
        // The key may be in it, and may be cut in two, so that nobody would see it.
        Ok((_, false)) => Told::text("it says why in more than 16 KiB".to_owned()),
        Err(error) => Told::text(format!("it does not say why: {error}")),
    };
    told.with_status(status, retry_after)
}

/// What a body says of an error.
fn told(body: &[u8]) -> Told {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    match parsed.as_ref().and_then(|body| body.get("error")) {
        Some(error) => Told::of(error),
        None => {
            let text = String::from_utf8_lossy(body).trim().to_owned();
            Told::text(if text.is_empty() { "it does not say why".to_owned() } else { text })
        }
    }
}

/// At most so many bytes of a body, and whether that is all of it.
async fn read_up_to(
    mut response: Response,
    patience: Patience,
    most: usize,
) -> Result<(Vec<u8>, bool), ModelError> {
    let mut body = Vec::new();
    loop {
        let piece = patience.wait(response.chunk()).await?;
        match piece.map_err(|_| ModelError::broken("it was cut off"))? {
            None => return Ok((body, true)),
            Some(piece) => {
                let room = most.saturating_sub(body.len());
                body.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
                if piece.len() > room {
                    return Ok((body, false));
                }
            }
        }
    }
}

/// When to ask again: the later of what two headers say, in milliseconds, and in seconds or as a moment. The moment is one of the
/// server's own clock, and of ours where it does not tell its time.
#[expect(clippy::disallowed_methods, reason = "the shell of a model: the wait counts from now")]
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    let moment = |text: &str| -> Option<SystemTime> { httpdate::parse_http_date(text).ok() };
    let in_ms =
        text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).and_then(|ms| seconds(ms / 1_000.0));
    let said = text(RETRY_AFTER.as_str()).and_then(|said| match said.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => {
            let now = text(DATE.as_str()).and_then(moment).unwrap_or_else(SystemTime::now);
            Some(moment(said)?.duration_since(now).unwrap_or_default())
        }
    });
    in_ms.max(said).map(|wait| wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests;
