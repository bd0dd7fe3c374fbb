//! Iframes in the page's process (another port is the same site), and in processes of their own (`localhost` is not).

use std::time::Duration;

use capataz_executor::page::{Act, Page, PageError, WaitUntil};

use crate::support::{Answer, LIMIT, Opened, SHORT_LIMITS, Server, css, open_with, within};

const INNER: &str = "<!doctype html><style>body { margin: 0 }</style><div style='height: 900px'></div>\
    <button id=go onclick='said.textContent = \"clicked\"'>Go</button><input id=name><input id=pass type=password value=pw>\
    <p id=said>no</p><script>addEventListener('mousemove', () => top.postMessage('', '*'), { once: true })</script>";

/// A page with an iframe far below the fold, whose button is below the iframe's own.
async fn with_frame(inner_host: &str, around: &str) -> (Server, Opened) {
    let (inner_host, around) = (inner_host.to_owned(), around.to_owned());
    let server = Server::start(move |request| {
        let port = request.head.split("127.0.0.1:").nth(1).or(request.head.split("localhost:").nth(1)).unwrap();
        let port = port.split_whitespace().next().unwrap();
        Some(match request.path.as_str() {
            "/" => Answer::html(format!(
                "<!doctype html><div style='height: 2000px'></div><iframe id=middle style='width: 500px; height: 300px; \
                 border: 7px solid; padding: 5px' src='http://{inner_host}:{port}/middle'></iframe>{around}"
            )),
            "/middle" => Answer::html(
                "<iframe id=inner style='width: 400px; height: 200px; margin-top: 100px' src=/inner></iframe>",
            ),
            "/inner" => Answer::html(INNER),
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
    (server, page)
}

const PATH: [&str; 2] = ["#middle", "#inner"];

async fn used(host: &str) {
    let (_server, mut page) = with_frame(host, "").await;
    let (node, _) = page.found(&within(&PATH, "#go")).await;
    page.act(Act::Click { node: node.clone(), how: Default::default() }, WaitUntil::Load).await.unwrap();
    let said = within(&PATH, "#said");
    let clicked =
        |look: &capataz_executor::page::Look| look.element.as_ref().unwrap().facts.text == "clicked";
    page.looked(&said, clicked).await;
    let facts = page.page.facts(&node, &[]).await.unwrap();
    assert!(facts.in_viewport && facts.covered_by.is_none(), "{facts:?}");
    // It is where the iframes are, not where it is within them.
    assert!(facts.rect.x > 8.0 + 7.0 + 5.0 + 8.0 && facts.rect.y < 720.0, "{:?}", facts.rect);

    let (node, _) = page.found(&within(&PATH, "#name")).await;
    page.act(Act::Fill { node: node.clone(), text: "inside".to_owned() }, WaitUntil::Load).await.unwrap();
    page.act(Act::Press { node: Some(node.clone()), key: "End".to_owned(), bounds: None }, WaitUntil::Load)
        .await
        .unwrap();
    page.act(Act::Press { node: Some(node), key: "!".to_owned(), bounds: None }, WaitUntil::Load)
        .await
        .unwrap();
    assert_eq!(page.found(&within(&PATH, "#name")).await.1.value.as_deref(), Some("inside!"));

    let picture = page.page.screenshot(false, &|_| Vec::new()).await.unwrap();
    assert!(picture.masked);
    let outline = page.page.outline(20_000, None).await.unwrap();
    assert!(outline.text.contains("Go"), "{}", outline.text);
}

#[tokio::test]
async fn elements_in_frames_of_the_same_site_are_used() {
    used("127.0.0.1").await;
}

#[tokio::test]
async fn elements_in_frames_of_another_site_are_used() {
    used("localhost").await;
}

#[tokio::test]
async fn what_covers_a_frame_covers_what_is_in_it() {
    let cover =
        "<div id=cover style='position: fixed; inset: 0' onmousedown='this.textContent = 1'>Cookies?</div>";
    for host in ["127.0.0.1", "localhost"] {
        let (_server, mut page) = with_frame(host, cover).await;
        let (node, _) = page.found(&within(&PATH, "#go")).await;
        let mut clicked = Ok(());
        for limit in SHORT_LIMITS {
            // All of it is waited: what covers an element may go.
            let click = Act::Click { node: node.clone(), how: Default::default() };
            clicked = page.page.act(click, WaitUntil::Load, limit).await;
            // What is around the frame is looked at when the element was seen to rest in it.
            if clicked != Err(PageError::NotActionable { reason: "moving" }) {
                break;
            }
        }
        let Err(PageError::Covered { by: Some(by) }) = clicked else { panic!("{clicked:?}") };
        assert_eq!(by.id.as_deref(), Some("cover"));
        assert_eq!(page.text_of("#cover").await, "Cookies?");
        assert_eq!(page.found(&within(&PATH, "#said")).await.1.text, "no");
    }
}

#[tokio::test]
async fn what_comes_over_a_frame_at_the_last_moment_receives_nothing() {
    let late = "<script>addEventListener('message', () => document.body.insertAdjacentHTML('beforeend', \
                '<div id=late style=\"position: fixed; inset: 0\" onmousedown=this.textContent=1>Late</div>'))</script>";
    for host in ["127.0.0.1", "localhost"] {
        let (_server, mut page) = with_frame(host, late).await;
        let (node, _) = page.found(&within(&PATH, "#go")).await;
        let clicked = page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await;
        // Either the click was first, or it was stopped: the cover has received nothing.
        assert_eq!(page.text_of("#late").await, "Late");
        let said = page.found(&within(&PATH, "#said")).await.1.text;
        assert_eq!(said, if clicked.is_ok() { "clicked" } else { "no" }, "{clicked:?}");
    }
}

#[tokio::test]
async fn a_click_takes_as_many_commands_as_its_checks_need() {
    let once = async |frames: &[&str], page: &mut Opened| {
        let before = page.page.commands_sent();
        let node = page.page.look(&within(frames, "#go")).await.unwrap().element.unwrap().node;
        let found = page.page.commands_sent();
        page.page.settle(&node, None, LIMIT, None).await.unwrap();
        let settled = page.page.commands_sent();
        let click = Act::Click { node, how: Default::default() };
        page.act(click, WaitUntil::Load).await.unwrap();
        [found - before, settled - found, page.page.commands_sent() - settled]
    };
    // What the page asks for by itself, such as an icon, has commands of its own: the least of several counts is the click's.
    let counted = async |frames: &[&str], page: &mut Opened| {
        let mut least = once(frames, page).await;
        for _ in 0..4 {
            let next = once(frames, page).await;
            least = std::array::from_fn(|part| least[part].min(next[part]));
        }
        least
    };
    let button = "<!doctype html><button id=go>Go</button>";
    let framed = format!("{button}<iframe src=/in></iframe>");
    let server = Server::with(&[("/plain", button), ("/", &framed), ("/in", button)]).await;
    let mut page = open_with(&[&server], |_| {}).await;
    page.go(&server.url("/plain")).await.unwrap();
    page.node("#go").await;
    // Found by one; watched by one, while another one reads the page; armed, three moves, press, release, disarmed.
    assert_eq!(counted(&[], &mut page).await, [1, 2, 7]);
    page.go(&server.url("/")).await.unwrap();
    page.found(&within(&["iframe"], "#go")).await;
    // The frame: found by one, its document by three. The element: found by one, and two for where it is from outside and
    // what lies over it. Settling: two for whether it is in view, then, twice, one for the element and two for the frame,
    // while both documents are read. The click is as above, and both documents are armed and disarmed.
    assert_eq!(counted(&["iframe"], &mut page).await, [7, 10, 9]);
}

/// Twenty small buttons close to one another, of which one is far from the corner.
const SMALL: &str = "<!doctype html><style>body { margin: 0 } button { position: absolute; width: 12px; height: 12px; padding: 0; \
    border: 0 }</style><p id=said>no</p><script>for (let i = 0; i < 20; i += 1) { const button = document.createElement('button'); \
    button.id = 'b' + i; button.style.left = 100 + i * 13 + 'px'; button.style.top = '170px'; \
    button.onclick = () => { said.textContent = button.id }; document.body.append(button); }</script>";

/// Clicks the 19th button of a frame with this style, within an element with that one.
async fn click_in_frame(
    host: &str,
    style: &str,
    around: &str,
    limit: Duration,
) -> (String, Result<(), PageError>) {
    let (host, style, around) = (host.to_owned(), style.to_owned(), around.to_owned());
    let server = Server::start(move |request| {
        let port = request.head.split("127.0.0.1:").nth(1).or(request.head.split("localhost:").nth(1)).unwrap();
        let port = port.split_whitespace().next().unwrap();
        Some(match request.path.as_str() {
            "/" => Answer::html(format!(
                "<!doctype html><div style='{around}'><iframe src='http://{host}:{port}/small' style='{style}'></iframe></div>"
            )),
            "/small" => Answer::html(SMALL),
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
    let (node, _) = page.found(&within(&["iframe"], "#b18")).await;
    let click = Act::Click { node, how: Default::default() };
    let clicked = page.page.act(click, WaitUntil::Load, limit).await;
    (page.found(&within(&["iframe"], "#said")).await.1.text, clicked)
}

#[tokio::test]
async fn a_small_target_in_a_frame_that_is_stretched_is_the_one_that_is_hit() {
    for host in ["127.0.0.1", "localhost"] {
        for (style, around) in [
            ("width: 400px; height: 200px; transform: scale(.2); transform-origin: 0 0", ""),
            (
                "width: 400.6px; height: 200.4px; border: 3px solid; padding: 2.5px; scale: .3",
                "margin: 7.3px",
            ),
            (
                "box-sizing: border-box; width: 411.5px; height: 211.5px; border: 5px solid",
                "transform: scale(.25)",
            ),
            ("width: 400px; height: 200px; zoom: 1.5", "transform: scale(.3, .5)"),
        ] {
            let (said, clicked) = click_in_frame(host, style, around, LIMIT).await;
            assert_eq!((said.as_str(), clicked), ("b18", Ok(())), "{host} {style} {around}");
        }
    }
}

#[tokio::test]
async fn a_frame_that_is_turned_or_mirrored_has_nothing_of_it_hit_that_was_not_meant() {
    for turned in ["rotate(30deg)", "scale(-1, 1)", "perspective(300px) rotateY(40deg)"] {
        let style = format!("width: 400px; height: 200px; transform: {turned}");
        let (said, clicked) = click_in_frame("127.0.0.1", &style, "", SHORT_LIMITS[0]).await;
        assert_eq!(said, if clicked.is_ok() { "b18" } else { "no" }, "{turned}: {clicked:?}");
    }
}

#[tokio::test]
async fn a_frame_that_is_missing_is_told_by_its_place_in_the_path() {
    let (_server, mut page) = with_frame("127.0.0.1", "<p id=plain>plain</p>").await;
    let look = page.page.look(&within(&["#nowhere", "#inner"], "#go")).await.unwrap();
    assert_eq!((look.frame_missing, look.count, look.element), (Some(0), 0, None));
    page.found(&within(&PATH, "#go")).await;
    let look = page.page.look(&within(&["#middle", "#nowhere"], "#go")).await.unwrap();
    assert_eq!((look.frame_missing, look.count), (Some(1), 0));
    let look = page.page.look(&within(&["#plain"], "#go")).await.unwrap();
    assert_eq!(look.frame_missing, Some(0));
    assert!(look.invalid.is_some());
    let look = page.page.look(&css("#go")).await.unwrap();
    assert_eq!((look.count, look.frame_missing), (0, None));
}

#[tokio::test]
async fn an_element_far_below_the_fold_in_a_frame_of_another_site_comes_to_rest() {
    let (_server, mut page) = with_frame("localhost", "").await;
    let (node, _) = page.found(&within(&PATH, "#go")).await;
    let settled = page.page.settle(&node, None, crate::support::LIMIT, None).await.unwrap();
    assert!(settled.rect.y > 0.0 && settled.rect.y < 720.0, "{settled:?}");
}

#[tokio::test]
async fn the_html_and_the_text_of_a_page_have_those_of_its_frames() {
    let (_server, mut page) = with_frame("localhost", "<p>around</p>").await;
    page.found(&within(&PATH, "#go")).await;
    let html = page.page.html().await.unwrap();
    assert!(html.contains("<p>around</p>") && html.contains("<button id=\"go\""), "{html}");
    assert!(!html.contains("value=\"pw\""), "{html}");
    let text = page.page.whole_text().await.unwrap();
    assert!(text.contains("around") && text.contains("Go"), "{text}");
}
