//! Refuses calls that a web page could make.
//!
//! Process agents are commands: a daemon that answers any page in a browser would let that page run them. So even on
//! loopback, a request with an `Origin` and one whose `Host` is not a loopback name are refused (DNS rebinding).

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use capataz_policy::codes;
use futures_util::future::Either;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use tonic::Code;
use tonic::body::Body;

use crate::status;

/// What the content types of gRPC begin with.
const GRPC: &[u8] = b"application/grpc";

/// Why a request must not come in, and what whoever sent it can do.
#[derive(Debug)]
struct Refused {
    reason: String,
    remedy: &'static str,
}

impl Refused {
    fn new(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self { reason: reason.into(), remedy }
    }

    /// The answer to a request with these headers. Who speaks gRPC reads a status in it; for everybody else the status of HTTP
    /// itself has to say it, or a probe takes the refusal for health.
    fn answer(self, headers: &HeaderMap) -> Response<Body> {
        let Self { reason, remedy } = self;
        if headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(GRPC)) {
            return status::status(Code::PermissionDenied, codes::PERMISSION_DENIED, reason).into_http();
        }
        let mut answer = Response::new(Body::new(format!("{reason}; {remedy}\n")));
        *answer.status_mut() = StatusCode::FORBIDDEN;
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, text);
        answer
    }
}

/// Returns whether the request may come in.
fn check<B>(request: &Request<B>) -> Result<(), Refused> {
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Refused::new("requests with an Origin are refused", "ask without that header"));
    }
    // What a page loads without a script has no Origin, and says this.
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"none" && site != b"same-origin") {
        return Err(Refused::new("requests of other sites are refused", "open the address itself"));
    }
    match host(request.uri(), request.headers()) {
        Some(host) if !is_loopback(host) => Err(Refused::new(
            format!("the host {host:?} is not a loopback address"),
            "ask by 127.0.0.1 or localhost",
        )),
        _ => Ok(()),
    }
}

/// A service that only requests reach that may come in.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<S>(S);

/// Guards services.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardLayer;

impl<S> tower::Layer<S> for GuardLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded(inner)
    }
}

impl<S, B> tower::Service<Request<B>> for Guarded<S>
where
    S: tower::Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match check(&request) {
            Ok(()) => Either::Right(self.0.call(request)),
            Err(refused) => Either::Left(ready(Ok(refused.answer(request.headers())))),
        }
    }
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.host().or_else(|| {
        let value = headers.get(header::HOST)?.to_str().ok()?;
        Some(without_port(value))
    })
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_host(uri: &str, host: Option<&str>, origin: Option<&str>, expected: bool) {
        let mut request = Request::builder().uri(uri);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let request = request.body(()).expect("a request");
        assert_eq!(check(&request).is_ok(), expected, "{uri} {host:?} {origin:?}");
    }

    #[test]
    fn loopback_names_and_addresses_come_in() {
        check_host("http://127.0.0.1:7411/x", None, None, true);
        check_host("http://localhost:7411/x", None, None, true);
        check_host("http://[::1]:7411/x", None, None, true);
        check_host("/x", Some("127.0.0.1:7411"), None, true);
        check_host("/x", Some("[::1]:7411"), None, true);
    }

    #[test]
    fn a_rebound_name_stays_out() {
        check_host("http://evil.example:7411/x", None, None, false);
        check_host("/x", Some("evil.example"), None, false);
        check_host("/x", Some("127.0.0.1.evil.example:7411"), None, false);
    }

    #[test]
    fn a_web_page_stays_out_whatever_its_origin() {
        check_host("http://127.0.0.1:7411/x", None, Some("http://evil.example"), false);
        check_host("http://127.0.0.1:7411/x", None, Some("null"), false);
    }
}
