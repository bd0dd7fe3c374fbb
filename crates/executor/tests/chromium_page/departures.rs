//! An act that leads on has ended when it is known where it has led: the document that it has led to is there, or what the
//! allowlist refused is told.

use std::time::Duration;

use capataz_contracts::v1::NavigationKind;
use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Answer, LIMIT, Opened, Server, css, open, within};

/// Ways out of a page, each by one element: what does it, and how.
const WAYS: [(&str, &str); 13] = [
    ("link", "<a id=go href=TO>go</a>"),
    ("link in a new tab", "<a id=go target=_blank href=TO>go</a>"),
    ("link in a new tab of the page's", "<a id=go target=_blank rel=opener href=TO>go</a>"),
    ("script", "<button id=go onclick=\"location = 'TO'\">go</button>"),
    ("script, on the press", "<button id=go onmousedown=\"location = 'TO'\">go</button>"),
    ("script, twice", "<button id=go onclick=\"location = '/nothing'; location = 'TO'\">go</button>"),
    ("form", "<form action=TO><button id=go>go</button></form>"),
    ("form that posts", "<form method=post action=TO><button id=go>go</button></form>"),
    (
        "form, by script",
        "<form action=TO></form><button id=go onclick=\"document.forms[0].submit()\">go</button>",
    ),
    ("window", "<button id=go onclick=\"window.open('TO')\">go</button>"),
    ("window, led on", "<button id=go onclick=\"window.open('').location = 'TO'\">go</button>"),
    ("loading page", "<img src=/never><a id=go href=TO>go</a>"),
    ("link out of a frame", "<iframe id=in srcdoc=\"<a id=go target=_top href=TO>go</a>\"></iframe>"),
];

async fn server(to: &str) -> Server {
    let to = to.to_owned();
    Server::start(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        Some(match path {
            "/arrived" => Answer::html("<title>arrived</title>"),
            "/nothing" => Answer::html("").status(204),
            "/file" => Answer::html("file").header("content-disposition: attachment; filename=file.txt"),
            "/hop" => Answer::redirect(&to),
            "/never" => Answer::never(),
            _ => {
                let number = path.trim_start_matches('/').parse::<usize>().ok()?;
                Answer::html(WAYS.get(number)?.1.replace("TO", &to))
            }
        })
    })
    .await
}

/// Opens the way with this number, and clicks.
async fn take(page: &mut Opened, ours: &Server, number: usize) {
    let until = if WAYS[number].0 == "loading page" { WaitUntil::Dom } else { WaitUntil::Load };
    page.act(Act::Navigate { url: ours.url(&format!("/{number}")) }, until).await.unwrap();
    page.page.take_changes();
    let query = if WAYS[number].1.contains("<iframe") { within(&["#in"], "#go") } else { css("#go") };
    let (node, _) = page.found(&query).await;
    page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await.unwrap();
}

#[tokio::test]
async fn what_is_refused_is_told_when_the_click_has_ended() {
    let other = Server::with(&[]).await;
    let directly = server(&other.url("/out")).await;
    for (number, (way, _)) in WAYS.iter().enumerate() {
        let mut page = open(&[&directly]).await;
        take(&mut page, &directly, number).await;
        let blocked = page.page.take_changes().blocked;
        let is_told =
            blocked.iter().any(|request| request.kind == "document" && request.url.contains("/out"));
        assert!(is_told, "{way}: {blocked:?}");
    }
    let seen = other.seen();
    assert_eq!((seen.connections, seen.requests.len()), (0, 0), "{seen:?}");
}

#[tokio::test]
async fn the_document_that_an_act_leads_to_is_there_when_it_has_ended() {
    let ours = server("/arrived").await;
    for (number, (way, _)) in WAYS.iter().enumerate() {
        let mut page = open(&[&ours]).await;
        take(&mut page, &ours, number).await;
        let changes = page.page.take_changes();
        assert_eq!(changes.navigation(), NavigationKind::Document, "{way}");
        assert!(page.page.location().await.unwrap().0.contains("/arrived"), "{way}");
    }
}

#[tokio::test]
async fn all_acts_are_followed_to_where_they_lead() {
    let other = Server::with(&[]).await;
    let to = other.url("/out");
    let html = format!(
        "<script>const go = () => {{ location = '{to}' }}</script><form action='{to}'><input id=enter></form>\
         <input id=typed oninput=go()><select id=select onchange=go()><option>a<option value=b>b</select>\
         <p id=hover onmouseover=go()>hover</p><p id=pressed>x</p>\
         <iframe id=frame srcdoc=\"<a id=link href='{to}'>link</a>\"></iframe>"
    );
    let ours = Server::with(&[("/", &html)]).await;
    let mut page = open(&[&ours]).await;
    for (query, kind) in [
        (css("#enter"), "document"),
        (css("#typed"), "document"),
        (css("#select"), "document"),
        (css("#hover"), "document"),
        (within(&["#frame"], "#link"), "iframe"),
    ] {
        page.go(&ours.url("/")).await.unwrap();
        page.page.take_changes();
        let (node, _) = page.found(&query).await;
        let act = match query.locators.as_slice() {
            locators if locators == css("#enter").locators => {
                Act::Press { node: Some(node), key: "Enter".to_owned(), bounds: None }
            }
            locators if locators == css("#typed").locators => Act::Fill { node, text: "text".to_owned() },
            locators if locators == css("#select").locators => {
                Act::Select { node, values: vec!["b".to_owned()] }
            }
            locators if locators == css("#hover").locators => Act::Hover { node, at: None },
            _ => Act::Click { node, how: Default::default() },
        };
        page.act(act, WaitUntil::Load).await.unwrap();
        let blocked = page.page.take_changes().blocked;
        assert!(blocked.iter().any(|request| request.kind == kind), "{query:?}: {blocked:?}");
    }
}

#[tokio::test]
async fn a_refused_hop_is_told_when_the_click_has_ended() {
    let other = Server::with(&[]).await;
    let ours = server(&other.url("/out")).await;
    let page = Server::with(&[("/", &format!("<a id=go href='{}'>go</a>", ours.url("/hop")))]).await;
    let mut opened = open(&[&ours, &page]).await;
    opened.go(&page.url("/")).await.unwrap();
    opened.click("#go").await.unwrap();
    let changes = opened.page.take_changes();
    assert_eq!(changes.redirects, [ours.url("/hop")]);
    assert!(changes.blocked.iter().any(|request| request.url == other.url("/out")), "{changes:?}");
}

#[tokio::test]
async fn what_leads_nowhere_ends_the_act() {
    let ours = Server::start(|request| {
        let pages = [
            ("/204", "<a id=go href=/nothing>go</a>"),
            ("/204-tab", "<a id=go target=_blank href=/nothing>go</a>"),
            ("/file-link", "<a id=go href=/file>go</a>"),
            ("/fragment", "<a id=go href='#x'>go</a>"),
            ("/stay", "<script>onbeforeunload = (event) => event.preventDefault()</script><a id=go href=/arrived>go</a>"),
            ("/stopped", "<button id=go onclick=\"location = '/arrived'; window.stop()\">go</button>"),
            (
                "/taken-back",
                "<form action=/arrived></form>\
                 <button id=go onclick='document.forms[0].submit(); window.stop()'>go</button>",
            ),
            ("/removed", "<iframe id=f name=f></iframe><a id=go target=f href=/never onclick='setTimeout(() => document.querySelector(\"iframe\").remove())'>go</a>"),
        ];
        Some(match request.path.as_str() {
            "/nothing" => Answer::html("").status(204),
            "/file" => Answer::html("file").header("content-disposition: attachment; filename=file.txt"),
            "/never" => Answer::never(),
            path => Answer::html(pages.iter().find(|(known, _)| *known == path)?.1),
        })
    })
    .await;
    for path in
        ["/204", "/204-tab", "/file-link", "/fragment", "/stay", "/stopped", "/taken-back", "/removed"]
    {
        let mut page = open(&[&ours]).await;
        page.go(&ours.url(path)).await.unwrap();
        let clicked = tokio::time::timeout(LIMIT / 2, page.click("#go")).await;
        assert_eq!(clicked.unwrap_or_else(|_| panic!("{path} is waited for")), Ok(()), "{path}");
        assert_eq!(ours.hits("/arrived"), 0, "{path}");
    }
}

#[tokio::test]
async fn addresses_that_no_document_is_loaded_from_end_the_act() {
    let elements = [
        "<a id=go href='mailto:somebody@example.com'>go</a>",
        "<a id=go href='tel:+15550100'>go</a>",
        "<a id=go href='unheard-of:address'>go</a>",
        "<button id=go onclick=\"location = 'unheard-of:address'\">go</button>",
        "<a id=go target=_blank href='unheard-of:address'>go</a>",
        "<a id=go href='javascript:void(0)'>go</a>",
        "<a id=go href='javascript:document.title = 1; void(0)'>go</a>",
        "<a id=go href='data:text/html,x'>go</a>",
        "<a id=go href='http://'>go</a>",
        "<a id=go download=name href='data:text/plain,x'>go</a>",
        "<a id=go download=name href='/file'>go</a>",
        "<button id=go onclick=\"history.pushState({}, '', '/pushed')\">go</button>",
        "<button id=go onclick='history.back()'>go</button>",
        "<button id=go onclick='history.go(7)'>go</button>",
        "<button id=go onclick=\"window.open('')\">go</button>",
        "<button id=go onclick=\"window.open('about:blank').close()\">go</button>",
        "<dialog open><form method=dialog><button id=go>go</button></form></dialog>",
        "<iframe name=f></iframe><form target=f action='javascript:void(0)'><button id=go>go</button></form>",
        "<button id=go onclick=\"document.open(); document.write('x'); document.close()\">go</button>",
        "<a id=go href='#there' onclick='event.preventDefault()'>go</a>",
        "<a id=go href='/pages' onclick='event.preventDefault()'>go</a>",
        "<form onsubmit='return false' action='/pages'><button id=go>go</button></form>",
        "<form action='/pages'><input required><button id=go>go</button></form>",
    ];
    let ours = Server::start(move |request| {
        if request.path == "/file" {
            return Some(Answer::html("file"));
        }
        let number = request.path.trim_start_matches('/').parse::<usize>().ok()?;
        Some(Answer::html(*elements.get(number)?))
    })
    .await;
    for (number, element) in elements.iter().enumerate() {
        let mut page = open(&[&ours]).await;
        page.go(&ours.url(&format!("/{number}"))).await.unwrap();
        let clicked = tokio::time::timeout(LIMIT / 2, page.click("#go")).await;
        assert_eq!(clicked.unwrap_or_else(|_| panic!("{element} is waited for")), Ok(()), "{element}");
    }
    assert_eq!(ours.hits("/pages"), 0);
}

#[tokio::test]
async fn a_document_that_does_not_come_in_time_does_not_come_later() {
    let ours = Server::start(|request| {
        Some(match request.path.as_str() {
            "/" => Answer::html("<a id=go href=/never>go</a>"),
            _ => Answer::never(),
        })
    })
    .await;
    let mut page = open(&[&ours]).await;
    page.go(&ours.url("/")).await.unwrap();
    let node = page.node("#go").await;
    let limit = Duration::from_secs(10);
    let clicked = page.page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load, limit).await;
    assert_eq!(clicked, Err(PageError::TooSlow { waiting_for: "the document", limit }));
    ours.asked("/never").await;
    // The next act is performed on the page that is there.
    assert_eq!(page.page.location().await.unwrap().0, ours.url("/"));
    assert_eq!(page.text_of("#go").await, "go");
}
