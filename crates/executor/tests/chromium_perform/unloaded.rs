//! Whatever leads to a document that does not come fails, and the page that the browser shows instead proves nothing.

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Script, Server};

const ORDER: &str = r#"<!doctype html><form data-testid=form action="/sent"><label>Mail <input name=mail></label>
<button data-testid=send>Send</button></form><a data-testid=link href="/next">Next</a>"#;

/// The server of the page is gone when the action is done to it.
async fn fails(action: Value) {
    let server = Server::with(&[("/", ORDER)]).await;
    let mut script = Script::start(&server, json!({})).await;
    let url = server.url("/");
    script.passes(json!({"kind": "navigate", "url": url})).await;
    let entry = server.entry();
    drop(server);
    while TcpStream::connect(&entry).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let details = script.fails(action.clone(), "NAVIGATION_FAILED").await;
    assert_eq!(details["url"], url, "{action}");
    assert!(details["net_error"].as_str().unwrap().starts_with("net::ERR_"), "{action} {details}");
    assert!(script.outcomes.last().unwrap().touched, "{action}");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_a_closed_port_fails_with_the_browsers_name_for_that() {
    fails(json!({"kind": "click", "target": {"testid": "link"}})).await;
    fails(json!({"kind": "press", "target": {"testid": "link"}, "key": "Enter"})).await;
    fails(json!({"kind": "click", "target": {"testid": "send"}, "criticality": "normal"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_an_error_never_proves_that_a_form_was_sent() {
    for sends in [
        json!({"kind": "submit", "target": {"testid": "form"}}),
        json!({"kind": "submit", "target": {"testid": "send"}}),
        json!({"kind": "click", "target": {"testid": "send"}}),
        json!({"kind": "press", "target": {"label": "Mail"}, "key": "Enter"}),
    ] {
        let mut action = sends;
        // It holds wherever there is no such form.
        action["post"] = json!([{"kind": "element_count_equals", "target": {"testid": "form"}, "count": 0}]);
        fails(action).await;
    }
}
