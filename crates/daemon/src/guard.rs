//! Refuses calls that a web page could make.
//!
//! Process agents are commands: a daemon that answers any page in a browser would let that page run them. So even on
//! loopback, a request with an `Origin` and one whose `Host` is not a loopback name are refused (DNS rebinding).

use capataz_policy::codes;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use tonic::{Code, Status};

use crate::status;

/// Returns whether the request may come in.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Status> {
    if request.headers().contains_key(header::ORIGIN) {
        return Err(outside("requests with an Origin are refused"));
    }
    // What a page loads without a script has no Origin, and says this.
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| site != b"none" && site != b"same-origin") {
        return Err(outside("requests of other sites are refused"));
    }
    match host(request.uri(), request.headers()) {
        Some(host) if !is_loopback(host) => {
            Err(outside(&format!("the host {host:?} is not a loopback address")))
        }
        _ => Ok(()),
    }
}

fn outside(message: &str) -> Status {
    status::status(Code::PermissionDenied, codes::PERMISSION_DENIED, message)
}

/// A request that must not come in; its interceptor sees no URI.
#[derive(Clone)]
struct Refused(Status);

/// Marks requests that must not come in.
pub(crate) fn mark<B>(mut request: Request<B>) -> Request<B> {
    if let Err(status) = check(&request) {
        request.extensions_mut().insert(Refused(status));
    }
    request
}

/// Refuses what [`mark`] has marked.
pub(crate) fn refuse_marked(request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
    match request.extensions().get::<Refused>() {
        Some(Refused(status)) => Err(status.clone()),
        None => Ok(request),
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
