//! How answers are made: pages within their shell, redirects, and bodies that never end.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::HeaderValue;
use hyper::{Response, StatusCode};

use crate::secrets;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An error ends the connection without an answer.
pub(crate) type Answer = io::Result<Response<Body>>;

/// What endless and large bodies are made of.
static BLOCK: [u8; 64 * 1024] = [b'.'; 64 * 1024];

/// The ports of both hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub first: u16,
    pub other: u16,
}

impl Addresses {
    pub fn first(self) -> String {
        format!("http://127.0.0.1:{}", self.first)
    }

    pub fn other(self) -> String {
        format!("http://localhost:{}", self.other)
    }

    /// Puts `{{first}}`, `{{other}}` (origins), `{{other_host}}` and planted secrets in.
    pub fn fill(self, text: &str) -> String {
        let filled = text
            .replace("{{first}}", &self.first())
            .replace("{{other}}", &self.other())
            .replace("{{other_host}}", &format!("localhost:{}", self.other));
        secrets::fill(filled)
    }
}

/// A whole document. What it has in its `body` may use `say(text)` and `hit(name)`.
pub(crate) fn page(title: &str, body: &str) -> Response<Body> {
    html(StatusCode::OK, document(title, body))
}

/// The icon keeps browsers from asking for one, which would be counted.
pub(crate) fn document(title: &str, body: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
body {{ font: 16px/1.4 sans-serif; margin: 24px; }}
button, input, select, textarea {{ font: inherit; }}
td, th {{ border: 1px solid #888; padding: 2px 8px; }}
.cover {{ position: fixed; inset: 0; background: #fffc; }}
</style>
<script>
function say(text) {{ document.getElementById("status").textContent = text; }}
function hit(name) {{ return fetch("/hit/" + name, {{ method: "POST", keepalive: true }}); }}
</script>
</head>
<body>
<main>
<h1>{title}</h1>
<p id="status" data-testid="status" role="status"></p>
{body}
</main>
</body>
</html>
"#
    )
}

pub(crate) fn html(status: StatusCode, document: impl Into<Bytes>) -> Response<Body> {
    whole(status, "text/html; charset=utf-8", document)
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    whole(status, "text/plain; charset=utf-8", text)
}

pub(crate) fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never: Infallible| match never {}).boxed_unsync();
    response(status, media_type, body)
}

pub(crate) fn response(status: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static(media_type));
    // Every request is to be seen here, and an answer to be had by whoever asks.
    headers.insert("cache-control", HeaderValue::from_static("no-store"));
    headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
    response
}

/// The response with one more header. A value that no header may have is left out; only an odd request leads to one.
pub(crate) fn with(mut response: Response<Body>, name: &'static str, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().append(name, value);
    }
    response
}

/// `303 See Other`: a form's answer is elsewhere.
pub(crate) fn see_other(location: &str) -> Response<Body> {
    with(text(StatusCode::SEE_OTHER, ""), "location", location)
}

pub(crate) fn found(location: &str) -> Response<Body> {
    with(text(StatusCode::FOUND, ""), "location", location)
}

/// A file to be saved under this name, of so many bytes where that is known.
pub(crate) fn attachment(name: &str, length: Option<u64>, body: Body) -> Response<Body> {
    let response = response(StatusCode::OK, "application/octet-stream", body);
    let response = with(response, "content-disposition", &format!("attachment; filename=\"{name}\""));
    match length {
        Some(length) => with(response, "content-length", &length.to_string()),
        None => response,
    }
}

pub(crate) fn streamed(blocks: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(blocks.map(|block| block.map(Frame::data))).boxed_unsync()
}

/// A body of this many dots.
pub(crate) fn dots(bytes: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let block = BLOCK.len() as u64;
    let last = usize::try_from(bytes % block).unwrap_or_default();
    let whole = usize::try_from(bytes / block).unwrap_or(usize::MAX);
    let blocks = stream::repeat(Bytes::from_static(&BLOCK)).take(whole);
    blocks.chain(stream::iter((last > 0).then(|| Bytes::from_static(&BLOCK).slice(..last)))).map(Ok)
}

/// Text as HTML shows it.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table of two columns.
pub(crate) fn table(id: &str, rows: impl IntoIterator<Item = (String, String)>) -> String {
    let row = |(name, value): (String, String)| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(&name), escaped(&value))
    };
    format!("<table data-testid=\"{id}\">\n{}</table>", rows.into_iter().map(row).collect::<String>())
}
