//! Masks over what is secret by the text that a page shows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use capataz_executor::page::{Act, Page, Query, Rect, SecretsIn, WaitUntil};
use capataz_executor::redact::Redactor;

use crate::support::{Answer, LIMIT, Opened, Pixels, Server, css, open, open_with, within};

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

/// Asks, without a change of the page, until it is told to change itself.
const WAITING: &str = "<script>(async () => { \
    while (await (await fetch('/turn')).text() !== 'now') await new Promise(done => setTimeout(done, 20)); \
    change(); })()</script>";

/// A page that changes itself once it is told to, and the switch that tells it.
async fn changing(page: &str, change: &str) -> (Server, Arc<AtomicBool>) {
    let page = format!("<!doctype html>{page}<script>function change() {{ {change} }}</script>{WAITING}");
    let turn = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&turn);
    let server = Server::start(move |request| {
        Some(match request.path.as_str() {
            "/" => Answer::html(page.as_str()),
            "/turn" => Answer::html(if told.load(Ordering::Relaxed) { "now" } else { "later" }),
            "/inner" => Answer::html("<!doctype html><p id=text>inside</p>"),
            _ => return None,
        })
    })
    .await;
    (server, turn)
}

fn nothing_is_secret(_: &str) -> Vec<Range<usize>> {
    Vec::new()
}

/// The picture of a sight, and whether it was taken only then.
async fn sight(page: &mut Opened) -> (bytes::Bytes, bool) {
    let read = AtomicUsize::new(0);
    let secrets_in: &SecretsIn<'_> = &|_| {
        read.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    };
    let sight = page.page.sight(Some(secrets_in)).await.unwrap();
    let is_new = read.load(Ordering::Relaxed) > 0;
    (sight.picture.unwrap().png, is_new)
}

// S002-EV-11
#[tokio::test]
async fn a_picture_taken_ahead_serves_until_the_page_changes_itself() {
    let text = "<p id=text>before</p>";
    let field = "<input id=field value=before>";
    let styled = "<p id=text>before</p><style>p { color: blue }</style><script>const sheet = document.styleSheets[0]</script>";
    let tall = "<div style='height: 4000px'>tall</div>";
    let host =
        "<div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = '<b>before</b>'</script>";
    let cases = [
        ("a text", text, "document.getElementById('text').firstChild.data = 'after'"),
        ("a value that a script sets", field, "field.value = 'after'"),
        ("a shadow tree", host, "host.shadowRoot.firstChild.textContent = 'after'"),
        ("scrolling", tall, "scrollTo(0, 500)"),
        (
            "scrolling in a shadow tree",
            "<div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = '<div style=\
             \"height: 90px; overflow: auto\"><p>One<p>Two<p>Three<p>Four<p>Five</div>'</script>",
            "host.shadowRoot.firstChild.scrollTop = 90",
        ),
        (
            "an animation in a shadow tree within another",
            "<div id=host></div><script>const inner = document.createElement('p'); \
             host.attachShadow({mode: 'open'}).append(inner); \
             inner.attachShadow({mode: 'open'}).innerHTML = '<b>before</b>'</script>",
            "host.shadowRoot.firstChild.shadowRoot.firstChild.animate([{opacity: 1}, {opacity: 0.2}], \
             {duration: 1e6})",
        ),
        (
            "a frame",
            "<iframe id=frame src=/inner></iframe>",
            "frame.contentDocument.body.textContent = 'after'",
        ),
        ("a rule that a script adds", styled, "sheet.insertRule('p { color: red !important }')"),
        (
            "a rule in the place of another",
            styled,
            "sheet.deleteRule(0); sheet.insertRule('p { color: red }')",
        ),
        ("a style sheet that is disabled", styled, "sheet.disabled = true"),
        (
            "a style sheet that a script adopts",
            text,
            "const made = new CSSStyleSheet(); made.replaceSync('p { color: red }'); \
             document.adoptedStyleSheets = [made]",
        ),
        (
            "a style sheet that a shadow tree adopts",
            host,
            "const made = new CSSStyleSheet(); made.replaceSync('b { color: red }'); \
             host.shadowRoot.adoptedStyleSheets = [made]",
        ),
        (
            "a second choice",
            "<select id=many multiple><option selected>One<option>Two<option>Three</select>",
            "many.options[2].selected = true",
        ),
        (
            "a choice of the same value",
            "<select id=one><option value=x>One<option value=x>Two</select>",
            "one.selectedIndex = 1",
        ),
        ("a box that is neither checked nor not", "<input id=box type=checkbox>", "box.indeterminate = true"),
        (
            "an animation that is over, and stays",
            text,
            "document.getElementById('text').animate([{opacity: 0}, {opacity: 0}], {duration: 1, fill: 'forwards'})",
        ),
        ("a new font", text, "document.fonts.add(new FontFace('Later', 'url(/font)'))"),
        ("a new shadow tree", "<div id=host>before</div>", "host.attachShadow({mode: 'open'})"),
        ("a new frame", text, "document.body.append(document.createElement('iframe'))"),
        ("an animation", text, "document.body.animate([{opacity: 1}, {opacity: 0.2}], {duration: 1e6})"),
    ];
    let mut pages = Vec::new();
    for (what, page, change) in cases {
        pages.push((what, change, changing(page, change).await));
    }
    let servers: Vec<_> = pages.iter().map(|(_, _, (server, _))| server).collect();
    let mut page = open(&servers).await;
    // However slow the machine is: only a sign ends it.
    page.page.keep_pictures_for(Duration::MAX);
    for (what, change, (server, turn)) in &pages {
        page.go(&server.url("/")).await.unwrap();
        page.page.look_ahead(Arc::new(nothing_is_secret));
        assert!(page.page.has_picture_ahead().await, "{what}");
        let (before, is_new) = sight(&mut page).await;
        assert!(!is_new, "{what}: nothing has changed");
        let asked = server.hits("/turn");
        turn.store(true, Ordering::Relaxed);
        // The page has been told and asks no more when this number stays.
        let mut after = sight(&mut page).await;
        let deadline = tokio::time::Instant::now() + LIMIT;
        while !after.1 {
            assert!(tokio::time::Instant::now() < deadline, "{what}: it shows no sign of change");
            page.page.changed(LIMIT).await.unwrap();
            after = sight(&mut page).await;
        }
        assert!(server.hits("/turn") > asked, "{what}");
        if !["a new frame", "a new font"].contains(what) && !change.contains("duration: 1e6") {
            let after = page.page.screenshot(false, &nothing_is_secret).await.unwrap().png;
            assert!(before != after, "{what}");
        }
    }
}

// S002-EV-11
#[tokio::test]
async fn an_act_makes_a_picture_taken_ahead_worthless() {
    let server = Server::with(&[("/", "<!doctype html><button id=idle>Nothing happens</button>")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#idle").await;
    page.page.look_ahead(Arc::new(nothing_is_secret));
    assert!(page.page.has_picture_ahead().await);
    page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await.unwrap();
    assert!(!page.page.has_picture_ahead().await);
    assert!(sight(&mut page).await.1);
}

// S002-EV-11
#[tokio::test]
async fn the_picture_before_an_act_shows_an_element_that_was_out_of_view() {
    let button =
        "<button id=target style='position: absolute; top: 3000px; background: rgb(1, 2, 3)'>Go</button>";
    let inner = format!("<!doctype html>{button}");
    for (what, document, target) in [
        ("far down", inner.as_str(), css("#target")),
        (
            "in a frame that is far down",
            "<!doctype html><iframe id=frame src=/inner style='margin-top: 3000px'></iframe>",
            within(&["#frame"], "#target"),
        ),
        (
            "in a box of its own",
            "<!doctype html><div style='height: 300px; position: relative; overflow: auto'>\
             <button id=target style='position: absolute; top: 3000px; background: rgb(1, 2, 3)'>Go</button></div>",
            css("#target"),
        ),
    ] {
        let server = Server::with(&[("/", document), ("/inner", &inner)]).await;
        let mut page = open(&[&server]).await;
        page.go(&server.url("/")).await.unwrap();
        let (node, _) = page.found(&target).await;
        page.page.look_ahead(Arc::new(nothing_is_secret));
        assert!(page.page.has_picture_ahead().await, "{what}");
        let (kept, _) = sight(&mut page).await;
        assert_eq!(Pixels::of(&kept).count([1, 2, 3]), 0, "{what}: it is out of view");
        let settled = page.page.settle(&node, None, LIMIT, Some(&nothing_is_secret)).await.unwrap();
        assert_eq!(settled.sight, None, "{what}: it was scrolled");
        let (before, is_new) = sight(&mut page).await;
        assert!(is_new && before != kept, "{what}");
        assert!(Pixels::of(&before).count([1, 2, 3]) > 100, "{what}");
    }
}

// S002-EV-11
#[tokio::test]
async fn a_picture_taken_ahead_serves_for_a_bounded_time() {
    // In a closed shadow root, which shows no sign of change.
    let page = "<div id=host></div><script>const root = host.attachShadow({mode: 'closed'}); \
                root.innerHTML = '<b>before</b>'</script>";
    let (server, turn) = changing(page, "root.innerHTML = '<b>after</b>'; fetch('/done')").await;
    let mut page = open(&[&server]).await;
    page.page.keep_pictures_for(Duration::MAX);
    page.go(&server.url("/")).await.unwrap();
    page.page.look_ahead(Arc::new(nothing_is_secret));
    assert!(page.page.has_picture_ahead().await);
    let (before, is_new) = sight(&mut page).await;
    assert!(!is_new);
    turn.store(true, Ordering::Relaxed);
    server.asked("/done").await;
    page.page.keep_pictures_for(Duration::ZERO);
    let (after, is_new) = sight(&mut page).await;
    assert!(is_new && after != before);
}

/// Two pictures that alternate.
const ANIMATED: &str = "data:image/gif;base64,R0lGODlhAgACAIAAAP8AAAAA/yH/C05FVFNDQVBFMi4wAwEAAAAh+QQACgAAACwAAAAAAgACAAACBARBEAUAIfkEAAoAAAAsAAAAAAIAAgAAAgQMwzAFADs=";

#[tokio::test]
async fn a_page_that_never_rests_has_no_picture_ahead() {
    let many = "<script>for (let made = 0; made < 501; made += 1) document.body.append(document.createElement('input'))</script>";
    let animated = format!("<img src='{ANIMATED}' width=40 height=40>");
    let documents = [
        "<canvas width=20 height=20></canvas>",
        "<style>@keyframes k { to { margin-left: 90px } } p { animation: k 1s infinite }</style><p>Moving</p>",
        "<div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = \
         '<style>@keyframes k { to { opacity: 0 } } p { animation: k 1s infinite }</style><p>Moving</p>'</script>",
        "<svg width=90 height=90><rect width=9 height=9><animate attributeName=x to=80 dur=1s \
         repeatCount=indefinite /></rect></svg>",
        "<svg width=90 height=90><rect width=9 height=9><animateTransform attributeName=transform type=rotate \
         to=80 dur=1s repeatCount=indefinite /></rect></svg>",
        "<progress></progress>",
        &animated,
        "<img src=/picture.webp?size=2 width=40 height=40>",
        "<style>p { background: url(/picture.gif) }</style><p>With a background</p>",
        "<script>customElements.define('closed-box', class extends HTMLElement { constructor() { super(); \
         this.attachShadow({mode: 'closed'}).innerHTML = '<b>Closed</b>' } })</script><closed-box></closed-box>",
        "<p>A font that never comes</p><script>onload = () => { const font = new FontFace('Never', 'url(/never)'); \
         document.fonts.add(font); font.load() }</script>",
        "<body><script>for (let made = 0; made < 20000; made += 1) document.body.append(document.createElement('i'))</script>",
        &format!("<body>{many}"),
    ];
    let mut servers = Vec::new();
    for document in &documents {
        let page = format!("<!doctype html>{document}");
        let server = Server::start(move |request| {
            Some(match request.path.as_str() {
                "/" => Answer::html(page.as_str()),
                "/never" => Answer::never(),
                path if path.starts_with("/picture") => Answer::of(
                    "image/svg+xml",
                    "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
                ),
                _ => return None,
            })
        })
        .await;
        servers.push(server);
    }
    let mut page = open(&servers.iter().collect::<Vec<_>>()).await;
    page.page.keep_pictures_for(Duration::MAX);
    for (document, server) in documents.iter().zip(&servers) {
        page.go(&server.url("/")).await.unwrap();
        page.page.look_ahead(Arc::new(nothing_is_secret));
        assert!(!page.page.has_picture_ahead().await, "{document}");
        assert!(sight(&mut page).await.1, "{document}");
    }
}

#[tokio::test]
async fn what_does_not_move_is_at_rest() {
    let server = Server::start(|request| {
        Some(match request.path.as_str() {
            "/" => Answer::html(
                "<!doctype html><style>p { background: url(/picture) }</style><p>Text</p><img src=/picture width=40 height=40>\
                 <img src='data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7' width=40 height=40>\
                 <canvas hidden></canvas><svg width=9 height=9><rect width=9 height=9 /></svg><progress value=0.5></progress>\
                 <app-box>Not a custom element</app-box><open-box></open-box><script>customElements.define('open-box', \
                 class extends HTMLElement { constructor() { super(); this.attachShadow({mode: 'open'}) } })</script>",
            ),
            "/picture" => {
                Answer::of("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>")
            }
            _ => return None,
        })
    })
    .await;
    let mut page = open(&[&server]).await;
    page.page.keep_pictures_for(Duration::MAX);
    page.go(&server.url("/")).await.unwrap();
    page.page.look_ahead(Arc::new(nothing_is_secret));
    assert!(page.page.has_picture_ahead().await);
    assert!(!sight(&mut page).await.1);
}

// S002-EV-11
#[tokio::test]
async fn a_picture_taken_ahead_has_the_masks_of_one_that_is_taken_at_once() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.page.keep_pictures_for(Duration::MAX);
    page.go(&server.url("/")).await.unwrap();
    let redactor = Redactor::new(&[]);
    let at_once = page.page.screenshot(false, &|text| redactor.found(text)).await.unwrap();
    page.page.look_ahead(Arc::new(move |text: &str| redactor.found(text)));
    assert!(page.page.has_picture_ahead().await);
    let (png, is_new) = sight(&mut page).await;
    assert!(!is_new && at_once.masked);
    assert_eq!(png, at_once.png);
    let pixels = Pixels::of(&png);
    for secret in ["#key", "#card b", "#typed", "#area"] {
        pixels.is_masked(&rect(&mut page, &css(secret)).await);
    }
    pixels.is_shown(&rect(&mut page, &css("#plain")).await);
}
