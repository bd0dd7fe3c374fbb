//! Whatever leads to a document that does not come fails, and the page that the browser shows instead proves nothing.

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::support::Answer;
use super::{Script, Server};

const ORDER: &str = r#"<!doctype html><form data-testid=form action="/sent"><label>Mail <input name=mail></label>
<button data-testid=send>Send</button></form><a data-testid=link href="/next">Next</a>"#;

/// Returns when nobody listens there any more.
async fn close(server: Server) {
    let entry = server.entry();
    drop(server);
    while TcpStream::connect(&entry).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

/// The server of the page is gone when the action is done to it; the action leads to this path of it.
async fn fails(action: Value, path: &str) {
    let server = Server::with(&[("/", ORDER)]).await;
    let mut script = Script::start(&server, json!({})).await;
    let url = server.url("/");
    script.passes(json!({"kind": "navigate", "url": url})).await;
    let url = server.url(path);
    close(server).await;
    let details = script.fails(action.clone(), "NAVIGATION_FAILED").await;
    assert_eq!(details["url"], url, "{action}");
    assert!(details["net_error"].as_str().unwrap().starts_with("net::ERR_"), "{action} {details}");
    assert!(script.outcomes.last().unwrap().touched, "{action}");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_a_closed_port_fails_with_the_browsers_name_for_that() {
    fails(json!({"kind": "click", "target": {"testid": "link"}}), "/next").await;
    fails(json!({"kind": "press", "target": {"testid": "link"}, "key": "Enter"}), "/next").await;
    fails(json!({"kind": "click", "target": {"testid": "send"}, "criticality": "normal"}), "/sent?mail=")
        .await;
    fails(json!({"kind": "reload"}), "/").await;
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
        fails(action, "/sent?mail=").await;
    }
}

/// A script on a page whose link, with these attributes, leads to `/sent`, and an address where nobody listens.
async fn before_a_dead_end(link: &str, sent: impl Fn(&str) -> String) -> (Server, Script, String) {
    let dead = Server::with(&[]).await;
    let to = dead.url("/dead");
    let (sent, first) = (sent(&to), ORDER.replace("href=\"/next\"", &format!("href=/sent {link}")));
    let server = Server::start(move |request| {
        Some(Answer::html(match request.path.as_str() {
            "/sent" => sent.clone(),
            _ => first.clone(),
        }))
    })
    .await;
    let mut script = Script::start_with(&[&server, &dead], json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    close(dead).await;
    (server, script, to)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_leads_on_to_a_closed_port_proves_nothing() {
    // The page that answers has the form, too; the page of the error has none.
    let leads_on =
        |to: &str| format!("{ORDER}<script>setTimeout(() => {{ location = '{to}' }}, 300)</script>");
    let gone = json!([{"kind": "element_count_equals", "target": {"testid": "form"}, "count": 0}]);
    let click = json!({"kind": "click", "target": {"testid": "link"}});

    let (_server, mut script, to) = before_a_dead_end("", leads_on).await;
    let mut action = click.clone();
    action["post"] = gone.clone();
    let details = script.fails(action, "NAVIGATION_FAILED").await;
    assert_eq!(details["url"], to.as_str());
    // It was told, and is over.
    script.passes(json!({"kind": "assert", "conditions": gone})).await;
    script.end().await;

    // Where the action has ended before, it is told to the next one.
    let (_server, mut script, to) = before_a_dead_end("", leads_on).await;
    script.passes(click).await;
    let details = script.fails(json!({"kind": "wait_for", "conditions": gone}), "NAVIGATION_FAILED").await;
    assert_eq!(details["url"], to.as_str());
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_of_another_tab_that_does_not_come_is_no_failure_of_the_act() {
    // The tab of the link is the current one, and leads the tab on that has opened it.
    let leads_opener = |to: &str| {
        format!(
            "<!doctype html><button data-testid=go onclick=\"opener.location = '{to}'; document.title = 'Gone'\">Go</button>"
        )
    };
    let (_server, mut script, _) = before_a_dead_end("target=_blank rel=opener", leads_opener).await;
    script.passes(json!({"kind": "click", "target": {"testid": "link"}})).await;
    let title = json!([{"kind": "title_equals", "value": "Gone"}]);
    script.passes(json!({"kind": "click", "target": {"testid": "go"}, "post": title})).await;
    script.passes(json!({"kind": "assert", "conditions": title})).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leads_to_no_document_by_its_nature_has_not_failed() {
    let dead = Server::with(&[]).await;
    let to = dead.url("/dead");
    let ways = [
        "<a data-testid=go href=/nothing>Go</a>".to_owned(),
        "<a data-testid=go href=/file>Go</a>".to_owned(),
        format!("<iframe name=part></iframe><a data-testid=go target=part href='{to}'>Go</a>"),
        format!("<button data-testid=go onclick=\"location = '{to}'; window.stop()\">Go</button>"),
    ];
    let pages = ways.clone();
    let server = Server::start(move |request| {
        Some(match request.path.as_str() {
            "/nothing" => Answer::html("").status(204),
            "/file" => Answer::html("file").header("content-disposition: attachment; filename=file.txt"),
            "/mail" => Answer::html("<a data-testid=go href='mailto:ana@example.com'>Go</a>"),
            path => Answer::html(pages.get(path.trim_start_matches('/').parse::<usize>().ok()?)?.as_str()),
        })
    })
    .await;
    let mut script = Script::start_with(&[&server, &dead], json!({})).await;
    close(dead).await;
    for number in 0..ways.len() {
        let url = server.url(&format!("/{number}"));
        script.passes(json!({"kind": "navigate", "url": url})).await;
        let stays = json!([{"kind": "url_equals", "value": url}]);
        script.passes(json!({"kind": "click", "target": {"testid": "go"}, "post": stays})).await;
        script.passes(json!({"kind": "assert", "conditions": stays})).await;
    }
    // An address that is no page is on no allowlist.
    script.passes(json!({"kind": "navigate", "url": server.url("/mail")})).await;
    let details = script.fails(json!({"kind": "click", "target": {"testid": "go"}}), "DOMAIN_BLOCKED").await;
    assert_eq!(details["host"], "mailto:");
    // Who goes there is without the document that was asked for.
    let url = server.url("/nothing");
    let details = script.fails(json!({"kind": "navigate", "url": url}), "NAVIGATION_FAILED").await;
    assert_eq!(
        (details["url"].as_str(), details["net_error"].as_str()),
        (Some(url.as_str()), Some("net::ERR_ABORTED"))
    );
    script.end().await;
}
