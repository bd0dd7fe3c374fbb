//! What is read of a page.

use std::time::Duration;

use capataz_executor::page::{Act, Locator, Page, PageError, PageRedaction, Query, WaitUntil};

use crate::support::{Answer, LIMIT, Pixels, Server, css, open, open_with, within};

const PAGE: &str = "<!doctype html><title>Shop</title><h1>Hello</h1><a href=/next>Next</a>
<input id=user value=ann><input id=pass type=password value=hunter2><p class=private>4711</p>
<table id=t><tr><th>A<th>B<tr><td>1<td>2</table><button id=go>Go</button>";

fn reference(value: &str) -> Query {
    Query { locators: vec![Locator::Ref { value: value.to_owned() }], ..Query::default() }
}

#[tokio::test]
async fn a_page_is_read_without_its_secrets() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open_with(&[&server], |options| {
        options.redaction = PageRedaction { selectors: vec![".private".to_owned()] };
    })
    .await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#go").await;
    let skeleton = page.page.skeleton().await.unwrap();
    assert_eq!((skeleton.title.as_str(), skeleton.url.as_str()), ("Shop", server.url("/").as_str()));
    assert_eq!(page.page.skeleton().await.unwrap(), skeleton);
    let snapshot = page.page.snapshot(&[node]).await.unwrap().to_string();
    let html = page.page.html().await.unwrap();
    let outline = page.page.outline(20_000, None).await.unwrap();
    let all = format!("{skeleton:?} {snapshot} {html} {}", outline.text);
    assert!(all.contains("ann") && all.contains("Go"));
    assert!(!all.contains("hunter2") && !all.contains("4711"), "{all}");
    assert!(page.page.text().await.unwrap().contains("Hello"));
    let table = page.node("#t").await;
    assert_eq!(page.page.table(&table).await.unwrap(), [["A", "B"], ["1", "2"]]);
    let picture = page.page.screenshot(false, &|_| Vec::new()).await.unwrap();
    assert!(picture.masked);
    assert_eq!(size(&picture.png), (1280, 720));
}

/// Width and height, as a PNG has them in its first chunk.
fn size(png: &[u8]) -> (u32, u32) {
    let number = |from: usize| u32::from_be_bytes(png[from..from + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn a_secret_is_painted_over_and_what_is_around_it_is_not() {
    let secret = "<body style='margin: 0; background: white'><div class=private style='position: absolute; left: 50px; \
                  top: 900px; width: 20px; height: 20px; background: rgb(0, 255, 0)'></div><div style='height: 2000px'></div>";
    let server = Server::with(&[("/", secret)]).await;
    for scrolled in ["", "#scroll"] {
        let mut page = open_with(&[&server], |options| {
            options.redaction = PageRedaction { selectors: vec![".private".to_owned()] };
        })
        .await;
        page.go(&server.url("/")).await.unwrap();
        if !scrolled.is_empty() {
            let node = page.node(".private").await;
            page.act(Act::ScrollTo { node }, WaitUntil::Load).await.unwrap();
        }
        let picture = page.page.screenshot(true, &|_| Vec::new()).await.unwrap();
        assert!(picture.masked);
        let pixels = Pixels::of(&picture.png);
        assert_eq!((pixels.width, pixels.height), (1280, 2000));
        let (green, white) = (pixels.count([0, 255, 0]), pixels.count([255, 255, 255]));
        assert_eq!((green, white), (0, 1280 * 2000 - 20 * 20));
    }
}

#[tokio::test]
async fn an_animation_without_end_does_not_hold_up_a_picture() {
    let endless = "<style>@keyframes go { to { transform: rotate(360deg) } } div { animation: go 1s linear infinite; \
                   width: 99px; height: 99px; background: red }</style><div></div><script>const draw = () => { \
                   document.title = performance.now(); requestAnimationFrame(draw); }; draw()</script>";
    let server = Server::with(&[("/", endless)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let picture = page.page.screenshot(false, &|_| Vec::new()).await.unwrap();
    assert!(!picture.masked);
    assert_eq!(size(&picture.png), (1280, 720));
}

#[tokio::test]
async fn a_reference_is_of_one_element_of_one_document() {
    let server = Server::with(&[("/", PAGE), ("/next", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let outline = page.page.outline(20_000, None).await.unwrap().text;
    let line = outline.lines().find(|line| line.contains("\"Go\"")).unwrap_or_else(|| panic!("{outline}"));
    let value = line.split("[ref=").nth(1).unwrap().split(']').next().unwrap().to_owned();
    let (node, _) = page.found(&reference(&value)).await;
    assert_eq!(node, page.node("#go").await);
    assert_eq!(page.page.outline(20_000, None).await.unwrap().text, outline);
    page.go(&server.url("/next")).await.unwrap();
    page.page.outline(20_000, None).await.unwrap();
    assert_eq!(page.page.look(&reference(&value)).await.unwrap().count, 0);
    assert_eq!(page.page.look(&reference("d9e1")).await.unwrap().count, 0);
}

#[tokio::test]
async fn what_listens_for_clicks_is_in_the_outline_with_a_reference() {
    let script = "<script>for (const one of document.querySelectorAll('.heard')) \
                  one.addEventListener('click', () => { one.textContent = 'Heard' });</script>";
    let listening = format!(
        "<div id=a class=heard>Card</div><div>Text</div><x-y></x-y>{script}\
        <script>const root = document.querySelector('x-y').attachShadow({{ mode: 'open' }}); root.innerHTML = '<b>Within</b>'; \
        root.firstChild.onmousedown = () => {{}};</script>"
    );
    let inner = format!("<span class=heard>Inner</span>{script}");
    let server =
        Server::with(&[("/", &format!("{listening}<iframe src=/in></iframe>")), ("/in", &inner)]).await;
    let other = Server::with(&[("/in", &inner)]).await;
    let elsewhere = format!("{listening}<iframe src={}></iframe>", other.url("/in"));
    let across = Server::with(&[("/", &elsewhere)]).await;
    for (main, hosts) in [(&server, vec![&server]), (&across, vec![&across, &other])] {
        let mut page = open(&hosts).await;
        page.go(&main.url("/")).await.unwrap();
        page.found(&within(&["iframe"], ".heard")).await;
        let outline = page.page.outline(20_000, None).await.unwrap().text;
        let of = |line: &str| {
            let (word, reference) = line.split_once(" [ref=")?;
            let (value, text) = reference.split_once("]: ")?;
            Some((word.trim_start().to_owned(), value.to_owned(), text.to_owned()))
        };
        let lines: Vec<_> = outline.lines().filter_map(of).collect();
        let texts: Vec<&str> = lines.iter().map(|(_, _, text)| text.as_str()).collect();
        assert_eq!(texts, ["\"Card\"", "\"Within\"", "\"Inner\""], "{outline}");
        assert!(lines.iter().all(|(word, ..)| word == "clickable"), "{outline}");
        let (card, _) = page.found(&reference(&lines[0].1)).await;
        assert_eq!(card, page.node("#a").await);
        page.act(Act::Click { node: card, how: Default::default() }, WaitUntil::Load).await.unwrap();
        page.reads("#a", "Heard").await;
    }
}

#[tokio::test]
async fn a_change_is_noticed_soon_and_a_quiet_page_is_left_at_the_limit() {
    let later =
        "<p id=later>before</p><script>fetch('/slow').then(() => later.textContent = 'after')</script>";
    let server = Server::start(move |request| match request.path.as_str() {
        "/" => Some(Answer::html(later)),
        "/slow" => Some(Answer::html("")),
        _ => None,
    })
    .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.reads("#later", "after").await;
    page.page.changed(Duration::from_millis(20)).await.unwrap();
    page.page.changed(LIMIT).await.unwrap();
}

#[tokio::test]
async fn locators_that_cannot_be_read_are_told() {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let look = page.page.look(&css("p[")).await.unwrap();
    assert!(look.invalid.is_some(), "{look:?}");
    let table = page.node("#go").await;
    let refused = page.page.table(&table).await;
    assert_eq!(refused, Err(PageError::NotActionable { reason: "it is not a table" }));
}

#[tokio::test]
async fn the_page_sees_the_declared_place_and_size() {
    let server = Server::with(&[("/", "<p id=said></p><script>const { locale, timeZone } = \
        Intl.DateTimeFormat().resolvedOptions(); said.textContent = [innerWidth, innerHeight, navigator.language, locale, \
        timeZone].join()</script>")]).await;
    let mut page = open_with(&[&server], |options| {
        (options.width, options.height) = (900, 600);
        options.locale = "es-ES".to_owned();
        options.timezone = "America/Santiago".to_owned();
    })
    .await;
    page.go(&server.url("/")).await.unwrap();
    assert_eq!(page.text_of("#said").await, "900,600,es-ES,es-ES,America/Santiago");
    assert!(server.asked("/").await.head.contains("es-ES"));
}

#[tokio::test]
async fn a_page_with_a_hundred_frames_is_read_and_used() {
    let frames = "<iframe srcdoc='<p>frame</p>'></iframe>".repeat(100);
    let server =
        Server::with(&[("/", &format!("{frames}<button id=go onclick='this.textContent = 1'>Go</button>"))])
            .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#go").await.unwrap();
    page.reads("#go", "1").await;
}

#[tokio::test]
async fn what_frames_show_belongs_to_the_state_of_their_page() {
    let frames = "<h1>Page</h1><iframe src=/one></iframe><iframe src=/two></iframe><iframe hidden src=/three></iframe>";
    let server = Server::with(&[
        ("/", frames),
        (
            "/one",
            "<button id=b onclick=\"this.textContent = 'Pressed'\">Press</button><input name=n value=v>",
        ),
        ("/two", "<a href=/next>Next</a>"),
        ("/three", "<button>Hidden</button>"),
    ])
    .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let before = page.page.skeleton().await.unwrap();
    assert!(
        before.dom.contains("Press") && before.anchors.contains("Next") && before.inputs.contains("\"v\"")
    );
    assert!(!before.dom.contains("Hidden"), "{}", before.dom);
    page.go(&server.url("/")).await.unwrap();
    assert_eq!(
        page.page.skeleton().await.unwrap(),
        before,
        "it does not depend on the order in which frames load"
    );

    let look = page.page.look(&within(&["iframe[src='/one']"], "#b")).await.unwrap();
    let button = look.element.unwrap().node;
    let (skeleton, snapshot) = page.page.state(std::slice::from_ref(&button)).await.unwrap();
    assert_eq!(skeleton, before);
    assert_eq!(snapshot["targets"].as_array().unwrap().len(), 0);
    let frames = snapshot["frames"].as_array().unwrap();
    let with_target: Vec<_> =
        frames.iter().filter(|frame| !frame["targets"].as_array().unwrap().is_empty()).collect();
    assert_eq!(frames.len(), 2, "{snapshot}");
    assert_eq!(with_target[0]["targets"][0]["element"]["name"], "Press");

    page.act(Act::Click { node: button, how: Default::default() }, WaitUntil::Load).await.unwrap();
    let after = page.page.skeleton().await.unwrap();
    assert_ne!(after.dom, before.dom);
    assert_eq!((after.anchors, after.inputs), (before.anchors, before.inputs));
}

#[tokio::test]
async fn texts_that_are_no_unicode_are_read() {
    let server = Server::with(&[(
        "/",
        "<p></p><script>document.querySelector('p').textContent = 'a\\ud83d b\\\\ud83d c\\ude00\\ud83d d\\ud83d\\ude00'</script>",
    )])
    .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    assert_eq!(page.page.text().await.unwrap(), "a\u{fffd} b\\ud83d c\u{fffd}\u{fffd} d\u{1f600}");
}
