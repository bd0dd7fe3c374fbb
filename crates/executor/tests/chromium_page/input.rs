use std::time::Duration;

use capataz_executor::allowlist::Allowlist;
use capataz_executor::page::{Act, KeyBounds, Page, PageError, Pointing, WaitUntil};

use crate::support::{Answer, LIMIT, Opened, Server, css, open, open_with, within};

const FORM: &str = "<!doctype html><title>form</title>
<input id=name value=old> <textarea id=notes>x</textarea> <div id=free contenteditable>y</div>
<input id=day type=date> <input id=locked readonly value=z>
<select id=colour><option value=r>Red<option value=g>Green</select>
<button id=go>Go</button> <p id=log></p>
<script>
const say = (text) => { log.textContent += text + ';'; };
go.onclick = (event) => say('click' + event.detail + event.isTrusted);
go.ondblclick = () => say('double');
colour.onchange = () => say(colour.value);
document.getElementById('name').onkeydown = (event) => say([event.ctrlKey && 'C', event.shiftKey && 'S', event.code].filter(Boolean).join('+'));
</script>";

async fn form() -> (Server, Opened) {
    let server = Server::with(&[("/", FORM)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    (server, page)
}

async fn value(page: &mut Opened, selector: &str) -> String {
    page.found(&css(selector)).await.1.value.unwrap()
}

#[tokio::test]
async fn input_arrives_once_and_where_it_is_meant() {
    let (_server, mut page) = form().await;
    page.click("#go").await.unwrap();
    page.reads("#log", "click1true;").await;
    let node = page.node("#go").await;
    page.page.settle(&node, None, LIMIT, None).await.unwrap();
    page.act(Act::Click { node, how: Pointing { count: 2, ..Default::default() } }, WaitUntil::Load)
        .await
        .unwrap();
    page.reads("#log", "click1true;click1true;click2true;double;").await;

    for (selector, text) in
        [("#name", "Zoë & «co»"), ("#name", ""), ("#notes", "one\ntwo"), ("#day", "2026-05-04")]
    {
        let node = page.node(selector).await;
        page.act(Act::Fill { node, text: text.to_owned() }, WaitUntil::Load).await.unwrap();
        assert_eq!(value(&mut page, selector).await, text, "{selector}");
    }
    let node = page.node("#free").await;
    page.act(Act::Fill { node, text: "free".to_owned() }, WaitUntil::Load).await.unwrap();
    assert_eq!(page.text_of("#free").await, "free");

    let node = page.node("#colour").await;
    page.act(Act::Select { node, values: vec!["g".to_owned()] }, WaitUntil::Load).await.unwrap();
    assert_eq!(value(&mut page, "#colour").await, "g");
}

#[tokio::test]
async fn keys_reach_the_element_that_is_named() {
    let (_server, mut page) = form().await;
    for key in ["a", "b", "Shift+c", "Control+A", "Backspace", "d", "ArrowLeft", "e"] {
        let node = page.node("#name").await;
        page.act(Act::Press { node: Some(node), key: key.to_owned(), bounds: None }, WaitUntil::Load)
            .await
            .unwrap();
    }
    assert_eq!(value(&mut page, "#name").await, "ed");
    page.act(Act::Press { node: None, key: "Delete".to_owned(), bounds: None }, WaitUntil::Load)
        .await
        .unwrap();
    assert_eq!(value(&mut page, "#name").await, "e");
    let expected = "KeyA;KeyB;S+ShiftLeft;S+KeyC;C+ControlLeft;C+KeyA;Backspace;KeyD;ArrowLeft;KeyE;Delete;";
    assert_eq!(page.text_of("#log").await, expected);

    let node = page.node("#name").await;
    let unknown = page
        .act(Act::Press { node: Some(node), key: "Return".to_owned(), bounds: None }, WaitUntil::Load)
        .await;
    assert!(matches!(unknown, Err(PageError::Failed(_))), "{unknown:?}");
    assert_eq!(page.text_of("#log").await, expected);
}

#[tokio::test]
async fn what_takes_no_input_is_left_alone() {
    let (_server, mut page) = form().await;
    let node = page.node("#locked").await;
    let filled = page.act(Act::Fill { node, text: "q".to_owned() }, WaitUntil::Load).await;
    assert_eq!(filled, Err(PageError::NotActionable { reason: "not editable" }));
    assert_eq!(value(&mut page, "#locked").await, "z");
    let node = page.node("#colour").await;
    let chosen = page.act(Act::Select { node, values: vec!["blue".to_owned()] }, WaitUntil::Load).await;
    assert_eq!(chosen, Err(PageError::NotActionable { reason: "no such option" }));
}

/// A page with a button and something that happens to it, and a count of the clicks that anything has received.
fn page_with(body: &str, script: &str) -> String {
    format!(
        "<!doctype html><style>body {{ margin: 0 }} button {{ position: absolute; left: 100px; top: 100px; width: 80px; \
         height: 30px }}</style>{body}<p id=log>none</p><script>\
         for (const type of ['pointerdown', 'mousedown', 'mouseup', 'click']) \
           document.addEventListener(type, (event) => {{ log.textContent = type + ' at ' + (event.target.id || event.target); }}, true);\
         {script}</script>"
    )
}

#[track_caller]
fn is_covered(result: &Result<(), PageError>) -> bool {
    matches!(result, Err(PageError::Covered { .. }))
}

#[tokio::test]
async fn a_covered_element_is_not_clicked_and_nothing_else_is() {
    let cover = "<div id=cover style='position: fixed; inset: 0'>Cookies?</div>";
    let body = format!("<button id=target>Go</button>{cover}");
    let server = Server::with(&[("/", &page_with(&body, ""))]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#target").await;
    let limit = Duration::from_millis(300);
    let Err(PageError::Covered { by: Some(by) }) = page.page.settle(&node, None, limit, None).await else {
        panic!("the cover was not seen")
    };
    assert_eq!((by.id.as_deref(), by.name.as_str()), (Some("cover"), "Cookies?"));
    let clicked = page.page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load, limit).await;
    assert!(is_covered(&clicked), "{clicked:?}");
    assert_eq!(page.text_of("#log").await, "none");
}

#[tokio::test]
async fn what_is_covered_or_moved_between_the_check_and_the_click_receives_nothing() {
    // The page reacts to the pointer's arrival: after every check, and before the button goes down.
    let react =
        |reaction: &str| format!("addEventListener('mousemove', () => {{ {reaction} }}, {{ once: true }});");
    let reactions = [
        "document.body.insertAdjacentHTML('beforeend', '<div id=late style=\"position: fixed; inset: 0\">Late</div>')",
        "document.getElementById('target').style.left = '400px'",
        "const fresh = document.createElement('button'); fresh.id = 'fresh'; fresh.textContent = 'Other'; \
         document.getElementById('target').replaceWith(fresh)",
        "document.body.insertAdjacentHTML('beforeend', '<iframe id=late style=\"position: fixed; inset: 0; width: 100%; \
         height: 100%\" srcdoc=\"<body onmousedown=parent.log.textContent=1 onclick=parent.log.textContent=1>\"></iframe>')",
    ];
    let pages: Vec<(String, String)> = reactions
        .iter()
        .enumerate()
        .map(|(index, reaction)| {
            (format!("/{index}"), page_with("<button id=target>Go</button>", &react(reaction)))
        })
        .collect();
    let pages: Vec<(&str, &str)> = pages.iter().map(|(path, page)| (path.as_str(), page.as_str())).collect();
    let server = Server::with(&pages).await;
    let mut page = open(&[&server]).await;
    for (path, _) in pages {
        page.go(&server.url(path)).await.unwrap();
        let node = page.node("#target").await;
        page.page.settle(&node, None, LIMIT, None).await.unwrap();
        let clicked = page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load).await;
        assert!(clicked.is_err(), "{path}");
        assert_eq!(page.text_of("#log").await, "none", "{path}: {clicked:?}");
    }
}

#[tokio::test]
async fn an_element_that_is_gone_is_not_acted_on() {
    let script = "addEventListener('swap', () => { target.outerHTML = '<button id=target>Again</button>'; });\
                  setInterval(() => dispatchEvent(new Event('swap')), 5);";
    let server = Server::with(&[("/", &page_with("<button id=target>Go</button>", script))]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#target").await;
    page.looked(&css("#target"), |look| look.element.as_ref().unwrap().node.handle != node.handle).await;
    for act in [
        Act::Click { node: node.clone(), how: Default::default() },
        Act::Hover { node: node.clone(), at: None },
        Act::Fill { node: node.clone(), text: "x".to_owned() },
        Act::Press { node: Some(node.clone()), key: "Enter".to_owned(), bounds: None },
        Act::Select { node: node.clone(), values: vec![] },
        Act::Submit { node: node.clone() },
        Act::ScrollTo { node: node.clone() },
    ] {
        assert_eq!(page.act(act.clone(), WaitUntil::Load).await, Err(PageError::Detached), "{act:?}");
    }
    assert_eq!(page.page.facts(&node, &[]).await, Err(PageError::Detached));
    assert_eq!(page.text_of("#log").await, "none");
}

#[tokio::test]
async fn an_element_that_moves_is_waited_for_and_one_that_never_stops_is_not_clicked() {
    let moving = "<style>@keyframes go { to { transform: translateX(300px) } } \
                  #target { animation: go 10s linear infinite }</style><button id=target>Go</button>";
    let stopping = "<style>@keyframes go { to { transform: translateX(300px) } } \
                    #target { animation: go 0.3s linear forwards }</style><button id=target>Go</button>";
    let server =
        Server::with(&[("/moving", &page_with(moving, "")), ("/stopping", &page_with(stopping, ""))]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/moving")).await.unwrap();
    let node = page.node("#target").await;
    let limit = Duration::from_millis(300);
    let clicked = page.page.act(Act::Click { node, how: Default::default() }, WaitUntil::Load, limit).await;
    assert_eq!(clicked, Err(PageError::NotActionable { reason: "moving" }));
    assert_eq!(page.text_of("#log").await, "none");
    page.go(&server.url("/stopping")).await.unwrap();
    page.click("#target").await.unwrap();
    page.reads("#log", "click at target").await;
}

#[tokio::test]
async fn a_page_is_seen_while_its_element_is_watched_and_only_where_that_rested_from_the_beginning() {
    // It begins to move when it is scrolled to, which nobody does before it is to settle.
    let stopping = "<button id=target style='top: 3000px'>Go</button>";
    let moves = "let frame = 0; const step = () => { document.getElementById('target').style.left = `${frame += 1}px`; \
                 if (frame < 20) requestAnimationFrame(step); }; addEventListener('scroll', step, { once: true });";
    let resting = "<button id=target>Go</button>";
    let server =
        Server::with(&[("/stopping", &page_with(stopping, moves)), ("/resting", &page_with(resting, ""))])
            .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/stopping")).await.unwrap();
    let node = page.node("#target").await;
    let settled = page.page.settle(&node, None, LIMIT, Some(&|_| Vec::new())).await.unwrap();
    assert_eq!(settled.sight, None, "it moved until {:?}", settled.rect);

    page.go(&server.url("/resting")).await.unwrap();
    let node = page.node("#target").await;
    let sight = page.page.settle(&node, None, LIMIT, None).await.unwrap().sight.unwrap();
    assert_eq!((&sight.skeleton, sight.picture), (&page.page.skeleton().await.unwrap(), None));
    let sight = page.page.settle(&node, None, LIMIT, Some(&|_| Vec::new())).await.unwrap().sight.unwrap();
    assert!(sight.picture.is_some_and(|picture| !picture.png.is_empty()));
}

#[tokio::test]
async fn text_does_not_go_to_a_field_that_takes_the_focus_away() {
    let thief = "<input id=name onbeforeinput='log.textContent += 1'><input id=thief oninput='log.textContent += 2'>\
                 <p id=log></p><script>document.getElementById('name').onfocus = () => \
                 requestAnimationFrame(() => thief.focus());</script>";
    let server = Server::with(&[("/", thief)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    for _ in 0..5 {
        let node = page.node("#name").await;
        // Either it was in time, or nothing was typed at all.
        let filled = page.act(Act::Fill { node, text: "secret".to_owned() }, WaitUntil::Load).await;
        assert_eq!(value(&mut page, "#thief").await, "", "{filled:?}");
    }
    assert!(!page.text_of("#log").await.contains('2'));
}

#[tokio::test]
async fn forms_are_submitted_as_a_person_would() {
    let form = "<form action=/sent><input id=q name=q required><button id=send>Send</button></form>";
    let server = Server::with(&[("/", form), ("/sent?q=one", "one"), ("/sent?q=two", "two")]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#q").await;
    let empty = page.act(Act::Submit { node: node.clone() }, WaitUntil::Load).await;
    assert_eq!(empty, Err(PageError::NotActionable { reason: "invalid" }));
    page.act(Act::Fill { node: node.clone(), text: "one".to_owned() }, WaitUntil::Load).await.unwrap();
    page.act(Act::Submit { node }, WaitUntil::Load).await.unwrap();
    server.asked("/sent?q=one").await;
    page.reads("body", "one").await;
    page.go(&server.url("/")).await.unwrap();
    let node = page.node("#q").await;
    page.act(Act::Fill { node, text: "two".to_owned() }, WaitUntil::Load).await.unwrap();
    let node = page.node("#send").await;
    page.act(Act::Submit { node }, WaitUntil::Load).await.unwrap();
    page.reads("body", "two").await;
}

#[tokio::test]
async fn an_element_below_the_fold_is_scrolled_to_and_hovered() {
    let tall = "<div style='height: 5000px'></div><button id=far onmouseenter='this.textContent = \"over\"'>far</button>\
                <div style='height: 5000px'></div>";
    let server = Server::with(&[("/", tall)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    let (node, facts) = page.found(&css("#far")).await;
    assert!(!facts.in_viewport);
    page.act(Act::ScrollTo { node: node.clone() }, WaitUntil::Load).await.unwrap();
    assert!(page.page.facts(&node, &[]).await.unwrap().in_viewport);
    page.act(Act::Hover { node, at: None }, WaitUntil::Load).await.unwrap();
    page.reads("#far", "over").await;
}

#[tokio::test]
async fn the_pointer_comes_in_several_moves_and_presses_with_the_pressure_of_a_mouse() {
    const PAGE: &str =
        "<!doctype html><style>body { margin: 0 } button { width: 200px; height: 80px }</style>
<button id=go>Go</button><p id=log></p>
<script>
let moves = 0;
document.addEventListener('pointermove', (event) => {
  // Moves that come within one frame are told as one event.
  moves += event.target.id === 'go' ? event.getCoalescedEvents().length : 100;
});
go.addEventListener('pointerdown', (event) => { log.textContent += event.pressure + ';'; });
go.addEventListener('click', () => { log.textContent += moves + ';'; });
</script>";
    let server = Server::with(&[("/", PAGE)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.click("#go").await.unwrap();
    page.reads("#log", "0.5;3;").await;
}

#[tokio::test]
async fn a_request_of_the_page_to_its_own_origin_that_is_answered_with_401_is_told() {
    let server = Server::start(|request| {
        use crate::support::Answer;
        Some(match request.path.as_str() {
            "/" => Answer::html(
                "<!doctype html><button id=go onclick=\"Promise.all([fetch('/api'), fetch('/none')]).then(() => go.textContent = 'done')\">Go</button>",
            ),
            "/api" => Answer::html("no").status(401),
            _ => return None,
        })
    })
    .await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.page.take_changes();
    page.click("#go").await.unwrap();
    page.reads("#go", "done").await;
    let told = page.changes(|changes| !changes.unauthorized.is_empty()).await;
    assert_eq!(told.unauthorized, [server.url("/api")]);
}

#[tokio::test]
async fn a_document_of_a_frame_of_the_pages_own_origin_that_is_answered_with_401_is_told() {
    let server = Server::start(|request| {
        let port = request.head.split("127.0.0.1:").nth(1).and_then(|rest| rest.split("\r\n").next());
        Some(match (request.path.as_str(), port) {
            ("/", Some(port)) => Answer::html(format!(
                r#"<!doctype html><iframe id=frame></iframe><p id=log></p><button id=go>Go</button><script>
const urls = ["http://localhost:{port}/theirs", "/ours"];
frame.onload = () => {{ urls.length > 0 ? (frame.src = urls.shift()) : (log.textContent = "done"); }};
go.onclick = frame.onload;
</script>"#
            )),
            ("/theirs" | "/ours", _) => Answer::html("no").status(401),
            ("/refused", _) => Answer::html("no").status(401),
            _ => return None,
        })
    })
    .await;
    let mut page = open_with(&[&server], |options| {
        options.allowlist = Allowlist::parse(&["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    })
    .await;
    page.go(&server.url("/")).await.unwrap();
    page.page.take_changes();
    page.click("#go").await.unwrap();
    page.reads("#log", "done").await;
    let told = page.changes(|changes| !changes.unauthorized.is_empty()).await;
    assert_eq!(told.unauthorized, [server.url("/ours")]);
    // That of the page itself is its status.
    page.go(&server.url("/refused")).await.unwrap();
    let told = page.page.take_changes();
    assert_eq!((told.status, told.unauthorized), (Some(401), vec![]));
}

/// A page with a frame in a process of its own, which hangs alone once it gets a message. A key in the page is answered by a
/// message where `talks` is checked, and the page goes on only when the frame hangs.
async fn with_frame_that_hangs() -> (Server, Opened) {
    let server = Server::start(|request| {
        let port = request.head.split("127.0.0.1:").nth(1).and_then(|rest| rest.split("\r\n").next());
        Some(Answer::html(match (request.path.as_str(), port) {
            ("/", Some(port)) => format!(
                r#"<!doctype html><iframe src="http://localhost:{port}/hangs"></iframe><input id=field><p id=log></p>
<button id=hang>Hang</button><input type=checkbox id=talks><script>
const hang = () => {{
  frames[0].postMessage("", "*");
  for (const end = performance.now() + 1000; performance.now() < end; );
}};
document.getElementById("hang").onclick = hang;
addEventListener("keydown", () => {{
  log.textContent += "key;";
  if (talks.checked) hang();
}});
</script>"#
            ),
            _ => "<p>There</p><script>onmessage = () => { for (;;); }</script>".to_owned(),
        }))
    })
    .await;
    let allowlist = [server.entry(), format!("localhost:{}", server.port)];
    let allowlist = Allowlist::parse(&allowlist).unwrap();
    let mut page = open_with(&[&server], |options| options.allowlist = allowlist).await;
    page.go(&server.url("/")).await.unwrap();
    page.found(&within(&["iframe"], "p")).await;
    (server, page)
}

#[tokio::test]
async fn a_key_that_uses_things_is_not_sent_while_a_document_could_not_stop_it() {
    let (_server, mut page) = with_frame_that_hangs().await;
    let field = page.node("#field").await;
    page.click("#hang").await.unwrap();
    for node in [None, Some(field.clone())] {
        for key in ["Enter", "Space"] {
            let press =
                Act::Press { node: node.clone(), key: key.to_owned(), bounds: Some(KeyBounds::default()) };
            let pressed = page.act(press, WaitUntil::Load).await;
            assert!(matches!(pressed, Err(PageError::Unguarded { .. })), "{key} {node:?} {pressed:?}");
        }
    }
    assert_eq!(page.text_of("#log").await, "");
    // Another key uses nothing.
    let press = Act::Press { node: Some(field), key: "a".to_owned(), bounds: None };
    assert_eq!(page.act(press, WaitUntil::Load).await, Ok(()));
    assert_eq!(page.text_of("#log").await, "key;");
}

#[tokio::test]
async fn a_key_whose_guard_is_not_heard_of_any_more_has_an_unknown_effect() {
    let (_server, mut page) = with_frame_that_hangs().await;
    page.click("#talks").await.unwrap();
    let bounds = KeyBounds { judged: vec![page.node("#talks").await], may_submit: false };
    let press = Act::Press { node: None, key: "Enter".to_owned(), bounds: Some(bounds) };
    let pressed = page.act(press, WaitUntil::Load).await;
    assert!(matches!(pressed, Err(PageError::Unanswered { .. })), "{pressed:?}");
    assert_eq!(page.text_of("#log").await, "key;");
}

#[tokio::test]
async fn a_key_that_no_guard_has_seen_has_an_unknown_effect() {
    // A document that is opened anew has no listeners, and the page's are the first ones then.
    let deaf = "<!doctype html><input id=field><script>addEventListener('load', () => {
      document.open();
      for (const type of ['keydown', 'keypress', 'keyup', 'beforeinput'])
        addEventListener(type, (event) => event.stopImmediatePropagation(), true);
      document.write('<form><input id=field><button id=send>Send</button></form><p id=deaf>deaf</p>');
      document.close();
    }, { once: true });</script>";
    let server = Server::with(&[("/", deaf)]).await;
    let mut page = open(&[&server]).await;
    page.go(&server.url("/")).await.unwrap();
    page.reads("#deaf", "deaf").await;
    let (field, send) = (page.node("#field").await, page.node("#send").await);
    let mut presses = Vec::new();
    for key in ["Tab", "a", "Enter"] {
        presses.extend([(Some(&field), key), (None, key)]);
    }
    presses.extend([(Some(&send), "Enter"), (Some(&send), "Space"), (None, "Space")]);
    for (node, key) in presses {
        let bounds = Some(KeyBounds::default());
        let press = Act::Press { node: node.cloned(), key: key.to_owned(), bounds };
        assert_eq!(page.act(press, WaitUntil::Load).await, Err(PageError::Unseen), "{key} {node:?}");
    }
    // Nothing was submitted all the same: the page would be another one.
    page.reads("#deaf", "deaf").await;
}

#[tokio::test]
async fn a_key_that_no_guard_has_seen_did_not_arrive_because_some_other_document_went_meanwhile() {
    let deaf = "<!doctype html><input id=field><script>addEventListener('load', () => {
      document.open();
      for (const type of ['keydown', 'keypress', 'keyup', 'beforeinput'])
        addEventListener(type, (event) => {
          event.stopImmediatePropagation();
          document.querySelector('iframe')?.remove();
        }, true);
      document.write('<input id=field><p id=deaf></p><iframe src=\"/aside\"></iframe>');
      document.querySelector('iframe').onload = () => { document.querySelector('#deaf').textContent = 'deaf'; };
      document.close();
    }, { once: true });</script>";
    let server = Server::with(&[("/", deaf), ("/aside", "<!doctype html><p>aside")]).await;
    let mut page = open(&[&server]).await;
    for key in ["a", "Enter"] {
        page.go(&server.url("/")).await.unwrap();
        page.reads("#deaf", "deaf").await;
        let field = page.node("#field").await;
        let press = Act::Press { node: Some(field), key: key.to_owned(), bounds: Some(KeyBounds::default()) };
        assert_eq!(page.act(press, WaitUntil::Load).await, Err(PageError::Unseen), "{key}");
    }
}
