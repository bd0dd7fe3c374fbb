//! The answer for each path. A path that is not listed here is a page of `pages`, or is not found.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use hyper::{Response, StatusCode};

use crate::answer::{
    Addresses, Answer, Body, attachment, document, dots, escaped, found, html, page, response, see_other,
    streamed, table, text, whole, with,
};
use crate::record::{Record, Request};
use crate::{PASSWORD, USER, big, pages, probes, secrets};

const MIB: u64 = 1024 * 1024;

/// The longest wait that `/delayed` grants.
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What `/download/ok` holds.
pub(crate) const REPORT: &str = "number,customer\n17,Ana\n18,Berta\n";

pub(crate) async fn answer(request: &Request, addresses: Addresses, record: &Record) -> Answer {
    let is_post = request.method == "POST";
    Ok(match request.path.as_str() {
        "/" => home(),
        "/form/sent" if is_post => page("Sent", &table("sent", request.form())),
        "/sign-in" if is_post => sign_in(request, || page("Sign in", REFUSED)),
        "/sign-in/401" if is_post => {
            sign_in(request, || html(StatusCode::UNAUTHORIZED, document("Sign in", REFUSED)))
        }
        "/sign-in/redirect" if is_post => sign_in(request, || see_other("/login?failed=1")),
        "/account" if is_signed_in(request) => page("Account", "<p>Welcome, ana.</p>"),
        "/account" => found("/login"),
        "/api/account" if is_signed_in(request) => text(StatusCode::OK, "ana"),
        "/api/account" => text(StatusCode::UNAUTHORIZED, "signed out"),
        "/upload/received" if is_post => page("Received", &table("received", file_names(request))),
        "/echo" => echo(request),
        "/echo/headers" => page("Headers", &table("headers", request.headers.clone())),
        "/delayed" => delayed(request).await,
        "/redirect" => found(&request.parameter("to").unwrap_or_default()),
        "/image.svg" => whole(StatusCode::OK, "image/svg+xml", SQUARE),
        "/secrets/redirect" => {
            found(&addresses.fill("/secrets/landing?access_token={{secret:query}}&state=1"))
        }
        path if path.starts_with("/download/") => download(path, record.clone()),
        path if path.starts_with("/navigate/") => return navigate(path, addresses).await,
        path if path.starts_with("/status/") => status(path),
        path if path.starts_with("/hit/") => whole(StatusCode::NO_CONTENT, "text/plain", ""),
        path if path.starts_with("/reached/") => reached(path),
        path if path.starts_with("/probe/") => probe(path, addresses),
        "/big" => page("Orders", &big::body()),
        "/big/bytes" => large_page(),
        "/big/elements" => {
            response(StatusCode::OK, "text/html; charset=utf-8", streamed(big::paragraphs(100_000)))
        }
        path => static_page(path, addresses),
    })
}

const REFUSED: &str = r#"<p role="alert">Wrong user or password.</p><p><a href="/sign-in">Again</a></p>"#;

const SQUARE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20" fill="#c22"/></svg>"##;

fn static_page(path: &str, addresses: Addresses) -> Response<Body> {
    let Some(found) = pages::find(path) else {
        return html(StatusCode::NOT_FOUND, document("Not found", ""));
    };
    let answer = page(found.title, &addresses.fill(found.body));
    match path {
        "/secrets" => {
            let cookie = format!("tracking={}; Path=/; HttpOnly", secrets::value("cookie"));
            with(answer, "set-cookie", &cookie)
        }
        _ => answer,
    }
}

fn home() -> Response<Body> {
    let link = |page: &pages::Page| format!("<li><a href=\"{}\">{}</a></li>\n", page.path, page.title);
    page("Test site", &format!("<ul>\n{}</ul>", pages::all().map(link).collect::<String>()))
}

fn sign_in(request: &Request, refused: impl FnOnce() -> Response<Body>) -> Response<Body> {
    let form = request.form();
    let field = |name: &str| form.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    if field("user") != Some(USER) || field("password") != Some(PASSWORD) {
        return refused();
    }
    with(
        see_other("/account"),
        "set-cookie",
        &format!("session={}; Path=/; HttpOnly", secrets::value("cookie")),
    )
}

fn is_signed_in(request: &Request) -> bool {
    request.cookie("session") == Some(secrets::value("cookie"))
}

/// From the parts of a form: fields and the names of their files. Their bytes do not matter here.
fn file_names(request: &Request) -> Vec<(String, String)> {
    let body = String::from_utf8_lossy(&request.body);
    let quoted = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!(" {key}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let lines = body.lines().filter(|line| line.to_ascii_lowercase().starts_with("content-disposition:"));
    lines.filter_map(|line| Some((quoted(line, "name")?, quoted(line, "filename")?))).collect()
}

fn echo(request: &Request) -> Response<Body> {
    let query = request.query.clone().unwrap_or_default();
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let rows = [
        ("method".to_owned(), request.method.clone()),
        ("query".to_owned(), query),
        ("body".to_owned(), body),
    ];
    page("Echo", &table("echo", rows))
}

async fn delayed(request: &Request) -> Response<Body> {
    let asked = request.parameter("ms").and_then(|text| text.parse().ok()).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(asked).min(LONGEST_DELAY)).await;
    text(StatusCode::OK, "late")
}

fn status(path: &str) -> Response<Body> {
    let code = path.trim_start_matches("/status/").parse().ok();
    let code = code.and_then(|code: u16| StatusCode::from_u16(code).ok()).filter(|code| code.as_u16() >= 200);
    match code.unwrap_or(StatusCode::NOT_FOUND) {
        StatusCode::NO_CONTENT => whole(StatusCode::NO_CONTENT, "text/html", ""),
        code => html(code, document(&format!("Status {}", code.as_u16()), "")),
    }
}

/// `/reached/` of a probe: what a browser would run or show, were it allowed to.
fn reached(path: &str) -> Response<Body> {
    match path.trim_start_matches("/reached/") {
        "script" | "module" | "worker-import" => {
            whole(StatusCode::OK, "text/javascript", "globalThis.reached = true;")
        }
        "style" => whole(StatusCode::OK, "text/css", "body { color: red }"),
        "image" | "image-redirected" => whole(StatusCode::OK, "image/svg+xml", SQUARE),
        name => html(StatusCode::OK, document("Reached", &format!("<p>{}</p>", escaped(name)))),
    }
}

fn probe(path: &str, addresses: Addresses) -> Response<Body> {
    let name = path.trim_start_matches("/probe/");
    if name == "worker.js" {
        return whole(StatusCode::OK, "text/javascript", probes::WORKER);
    }
    let Some(probe) = probes::find(name) else {
        return html(StatusCode::NOT_FOUND, document("Not found", ""));
    };
    let reached = format!("{}/reached/{name}", addresses.other());
    let common = probes::COMMON.replace("{{name}}", name);
    let answer = page("Probe", &addresses.fill(&format!("{common}{}", probe.body)));
    match name {
        "document-redirect" => found(&reached),
        "preload-header" => with(answer, "link", &format!("<{reached}>; rel=preload; as=image")),
        "policy-report" => {
            with(answer, "content-security-policy", &format!("img-src 'none'; report-uri {reached}"))
        }
        _ => answer,
    }
}

fn download(path: &str, record: Record) -> Response<Body> {
    match path {
        "/download/ok" => {
            let response = whole(StatusCode::OK, "text/csv; charset=utf-8", REPORT);
            with(response, "content-disposition", "attachment; filename=\"report.csv\"")
        }
        "/download/slow" => {
            let rest = stream::once(async move {
                record.until(|seen| seen.released).await;
                Ok(Bytes::from_static(&[b'.'; 1024]))
            });
            attachment("slow.bin", Some(2 * 1024), streamed(dots(1024).chain(rest)))
        }
        "/download/aborted" => {
            // Between the two, what was written leaves.
            let end = stream::once(async {
                tokio::task::yield_now().await;
                Err(io::Error::other("this download breaks off"))
            });
            attachment("aborted.bin", Some(MIB), streamed(dots(MIB / 16).chain(end)))
        }
        "/download/endless" => attachment("endless.bin", None, streamed(dots(u64::MAX))),
        "/download/large" => attachment("large.bin", Some(200 * MIB), streamed(dots(200 * MIB))),
        "/download/hostile" => attachment("../../.. /etc/a\\tb.csv", Some(1024), streamed(dots(1024))),
        _ => html(StatusCode::NOT_FOUND, document("Not found", "")),
    }
}

/// A page with 200 MiB in one text.
fn large_page() -> Response<Body> {
    let head = document("Large page", "<p data-testid=\"before\">before</p>");
    let blocks = stream::iter([Ok(Bytes::from(head))]).chain(dots(200 * MIB));
    response(StatusCode::OK, "text/html; charset=utf-8", streamed(blocks))
}

async fn navigate(path: &str, addresses: Addresses) -> Answer {
    Ok(match path {
        "/navigate/never" => std::future::pending().await,
        "/navigate/endless" => {
            let head =
                stream::iter([Ok(Bytes::from(document("Endless", "<p data-testid=\"before\">before</p>")))]);
            response(StatusCode::OK, "text/html; charset=utf-8", streamed(head.chain(stream::pending())))
        }
        // The connection ends without an answer.
        "/navigate/reset" => return Err(io::Error::other("no answer is meant")),
        "/navigate/loop" => found("/navigate/loop"),
        "/navigate/chain" => found("/navigate/chain/2"),
        "/navigate/chain/2" => found("/navigate/chain/3"),
        "/navigate/chain/3" => found("/navigate/arrived"),
        "/navigate/other" => found(&format!("{}/plain", addresses.other())),
        "/navigate/to-data" => found("data:text/html,<p>data</p>"),
        path => static_page(path, addresses),
    })
}
