//! A small site for the scripts in `examples/scripts`: it keeps nothing, and serves this machine alone.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;

/// Who may sign in.
pub const USER: &str = "marta";
pub const PASSWORD: &str = "sesame-42";

/// What whoever has signed in says of itself.
const SIGNED_IN: &str = "shop=marta";
/// Bytes of a form.
const MOST: usize = 10 * 1024 * 1024;

const STYLE: &str = include_str!("style.css");
const START: &str = include_str!("start.html");
const LOGIN: &str = include_str!("login.html");
const WRONG: &str = "<p role=\"alert\">Wrong user name or password</p>";
const ACCOUNT: &str = include_str!("account.html");
const REPORTS: &str = include_str!("reports.html");
const PRICES: &str = include_str!("prices.html");
const INVOICE: &str = include_str!("invoice.html");
const BOARD: &str = include_str!("board.html");

/// Listens on a port of this machine; 0: any free one.
///
/// # Errors
/// The port is in use.
pub async fn listen(port: u16) -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves the pages until the future ends.
///
/// # Errors
/// The system does not give connections any more.
pub async fn serve(
    listener: TcpListener,
    until: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes()).with_graceful_shutdown(until).await
}

fn routes() -> Router {
    Router::new()
        .route("/", get(async || page("Demo site", START)))
        .route("/login", get(login).post(sign_in))
        .route("/account", get(async |headers: HeaderMap| for_members(&headers, || page("Account", ACCOUNT))))
        .route("/reports", get(async |headers: HeaderMap| for_members(&headers, || page("Reports", REPORTS))))
        .route("/reports/{file}", get(async |headers: HeaderMap| for_members(&headers, report)))
        .route("/prices", get(async || page("Prices of today", PRICES)))
        .route("/prices.csv", get(async || report()))
        .route("/invoices/new", get(async || page("New invoice", INVOICE)))
        .route("/invoices", post(async |_: axum::body::Bytes| "Received"))
        .route("/board", get(async || page("Board", BOARD)))
        .layer(DefaultBodyLimit::max(MOST))
}

async fn login(axum::extract::RawQuery(query): axum::extract::RawQuery) -> Response {
    let was_wrong = query.is_some_and(|query| query.contains("error="));
    page("Sign in", &LOGIN.replace("{wrong}", if was_wrong { WRONG } else { "" }))
}

/// A form's fields come encoded; those of the one who may sign in have nothing that is.
async fn sign_in(form: String) -> Response {
    let is_right = form == format!("user={USER}&password={PASSWORD}");
    if is_right {
        let cookie = format!("{SIGNED_IN}; Path=/; HttpOnly; SameSite=Lax; Max-Age=86400");
        (StatusCode::SEE_OTHER, [(LOCATION, "/account".to_owned()), (SET_COOKIE, cookie)]).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, "/login?error=1")]).into_response()
    }
}

/// The page, for whoever has signed in.
fn for_members(headers: &HeaderMap, page: impl FnOnce() -> Response) -> Response {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    if cookies.flat_map(|cookies| cookies.split(';')).any(|cookie| cookie.trim() == SIGNED_IN) {
        page()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, "/login")]).into_response()
    }
}

fn report() -> Response {
    let headers = [(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, "attachment")];
    (headers, Body::from("article,price\nFlour,1.20\nRye,1.45\n")).into_response()
}

fn page(title: &str, body: &str) -> Response {
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style><main>{body}</main></html>"
    ))
    .into_response()
}
