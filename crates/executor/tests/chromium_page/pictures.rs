//! Masks over what is secret by the text that a page shows.

use std::ops::Range;

use capataz_executor::page::{Page, Query, Rect};
use capataz_executor::redact::Redactor;

use crate::support::{Answer, Opened, Pixels, Server, css, open, open_with, within};

/// Ordinary text and secrets, each in an element of its own.
const PAGE: &str = "<!doctype html><p id=plain>Order 4111 of 1999 is on its way</p>\
    <p>The key <span id=key>sk-live-0123456789abcdef</span> <span id=beside>is new</span></p>\
    <p id=card>4000 0566 <b>5566</b> 5556</p><input id=typed value='4111 1111 1111 1111'>\
    <input id=name value='Ana Perez'><textarea id=area>key: sk-live-0123456789abcdef</textarea>";

async fn rect(page: &mut Opened, query: &Query) -> Rect {
    page.found(query).await.1.rect
}

#[tokio::test]
async fn secrets_that_only_their_looks_tell_are_masked_and_ordinary_text_is_not() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let redactor = Redactor::new(&[]);
    for full_page in [false, true] {
        let picture = page.page.screenshot(full_page, &|text| redactor.found(text)).await.unwrap();
        assert!(picture.masked);
        let pixels = Pixels::of(&picture.png);
        for secret in ["#key", "#card b", "#typed", "#area"] {
            pixels.is_masked(&rect(&mut page, &css(secret)).await);
        }
        for ordinary in ["#plain", "#beside", "#name"] {
            pixels.is_shown(&rect(&mut page, &css(ordinary)).await);
        }
    }
    let picture = page.page.screenshot(false, &|_| Vec::new()).await.unwrap();
    assert!(!picture.masked, "nothing is secret where nobody says so");
}

#[tokio::test]
async fn secrets_in_frames_are_masked_where_the_frames_show_them() {
    for host in ["127.0.0.1", "localhost"] {
        let server = Server::start(move |request| {
            let port = request.head.split("127.0.0.1:").nth(1).or(request.head.split("localhost:").nth(1))?;
            let port = port.split_whitespace().next()?.to_owned();
            Some(match request.path.as_str() {
                "/" => Answer::html(format!(
                    "<!doctype html><p id=plain>Plain</p><iframe id=frame style='margin: 40px; border: 9px solid; width: \
                     600px; height: 300px; transform: scale(0.8)' src='http://{host}:{port}/inner'></iframe>"
                )),
                "/inner" => Answer::html(PAGE),
                _ => return None,
            })
        })
        .await;
        let mut page = open_with(&[&server], |options| {
            let entries = ["127.0.0.1", "localhost"];
            options.allowlist = capataz_executor::allowlist::Allowlist::parse(entries).unwrap();
        })
        .await;
        page.go(&server.url("/")).await.unwrap();
        let inside = |selector: &str| within(&["#frame"], selector);
        let key = rect(&mut page, &inside("#key")).await;
        let redactor = Redactor::new(&[]);
        let picture = page.page.screenshot(false, &|text| redactor.found(text)).await.unwrap();
        let pixels = Pixels::of(&picture.png);
        pixels.is_masked(&key);
        pixels.is_masked(&rect(&mut page, &inside("#typed")).await);
        pixels.is_shown(&rect(&mut page, &inside("#plain")).await);
        pixels.is_shown(&rect(&mut page, &css("#plain")).await);
    }
}

#[tokio::test]
async fn what_is_secret_only_after_the_picture_was_taken_is_masked_too() {
    let server = Server::with(&[("/", "<span id=place>nothing</span>")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let place = page.node("#place").await;
    // As of a page that shows it in time for the picture, and not in time for the first reading.
    let judged = std::sync::atomic::AtomicUsize::new(0);
    let secrets_in = |text: &str| -> Vec<Range<usize>> {
        let is_first = judged.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        let found = text.match_indices("nothing").map(|(at, found)| at..at + found.len());
        if is_first { Vec::new() } else { found.collect() }
    };
    let picture = page.page.screenshot(false, &secrets_in).await.unwrap();
    // As wide as the text is, in whatever font the machine has.
    let text = page.page.facts(&place, &[]).await.unwrap().rect;
    Pixels::of(&picture.png).is_masked(&text);
}
