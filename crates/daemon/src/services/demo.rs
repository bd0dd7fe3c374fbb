//! A form to try a browser on: served only where the configuration, or the program that embeds the daemon, asks for it.

use axum::Router;
use axum::extract::Query;
use axum::response::Html;
use axum::routing::get;
use serde::Deserialize;

/// Where the form is.
const PATH: &str = "/demo";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem}\
    label{display:block;margin:.75rem 0}input,select{font:inherit;padding:.25rem .5rem}\
    button{font:inherit;padding:.4rem 1.2rem;margin-top:1rem}\
    @media(prefers-color-scheme:dark){body{background:#16181d;color:#e8e8ea}}";

/// The form, and what is shown when it was sent. Both only read: the form is sent with GET.
pub(super) fn routes() -> Router {
    Router::new().route(PATH, get(form)).route("/demo/registered", get(registered))
}

async fn form() -> Html<String> {
    page(
        "Registration",
        "<h1>Registration</h1>\
         <form action=\"/demo/registered\">\
         <label>Name <input name=\"name\" required></label>\
         <label>Language <select name=\"language\"><option value=\"en\">English</option>\
         <option value=\"es\">Español</option></select></label>\
         <label>Access code <input name=\"code\" type=\"password\" autocomplete=\"one-time-code\"></label>\
         <label><input name=\"terms\" type=\"checkbox\" value=\"yes\" required> I agree to the terms</label>\
         <button>Register</button></form>",
    )
}

#[derive(Deserialize)]
struct Registration {
    #[serde(default)]
    name: String,
    #[serde(default)]
    language: String,
}

async fn registered(Query(registration): Query<Registration>) -> Html<String> {
    let name: String = registration.name.chars().take(80).collect();
    let greeting = if registration.language == "es" { "Bienvenida" } else { "Welcome" };
    let number = blake3::hash(name.as_bytes())
        .as_bytes()
        .iter()
        .take(2)
        .fold(0u32, |sum, byte| sum * 256 + u32::from(*byte));
    let name = escaped(&name);
    page(
        "Registered",
        &format!(
            "<h1>{greeting}, {name}.</h1>\
             <p>Your number is <output data-testid=\"number\">R-{number:05}</output>.</p>\
             <p><a href=\"{PATH}\">Another registration</a></p>"
        ),
    )
}

fn page(title: &str, body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style><main>{body}</main></html>"
    ))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}
