//! The pointer beyond a plain click: the other button, keys that are held, places within elements, drags; and texts that
//! are added, forward, answers to prompts.

use serde_json::{Value, json};

use super::{PASSWORD, Script, Server};

/// Notes each event of use with its button, the keys that are held and its place within the area.
const AREA: &str = r#"<!doctype html><title>Area</title><style>body { margin: 0 }</style>
<div data-testid=area style="position: absolute; left: 20px; top: 30px; width: 200px; height: 100px; background: #ccc"></div>
<div data-testid=cover style="position: absolute; left: 120px; top: 30px; width: 100px; height: 100px"></div>
<p data-testid=log style="position: absolute; top: 200px"></p>
<script>
const log = document.querySelector("[data-testid=log]");
const area = document.querySelector("[data-testid=area]");
for (const type of ["mousedown", "contextmenu", "mouseup", "click", "auxclick", "dblclick"]) {
  area.addEventListener(type, (event) => {
    const keys = ["altKey", "ctrlKey", "metaKey", "shiftKey"].filter((key) => event[key]).map((key) => key[0]).join("");
    log.textContent += `${type} ${event.button} ${keys} ${event.offsetX},${event.offsetY};`;
  });
}
</script>"#;

/// A postcondition: an element reads like this.
fn reads(testid: &str, text: &str) -> Value {
    json!([{"kind": "text_equals", "target": {"testid": testid}, "value": text}])
}

async fn opened(page: &str) -> (Server, Script) {
    let server = Server::with(&[("/", page)]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    (server, script)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_click_and_a_click_with_keys_reach_the_place_that_they_name() {
    let (_server, mut script) = opened(AREA).await;
    let at = json!({"x": 10, "y": 20});
    let area = json!({"testid": "area"});
    let right = "mousedown 2 10,20;contextmenu 2 10,20;mouseup 2 10,20;auxclick 2 10,20;";
    let action = json!({"kind": "right_click", "target": area, "at": at, "post": reads("log", right)});
    let outcome = script.passes(action).await;
    assert!(outcome.touched);
    assert!(outcome.evidence.iter().any(|piece| piece.kind == "screenshot_before"));
    let keys = format!("{right}mousedown 0 cs 7,8;mouseup 0 cs 7,8;click 0 cs 7,8;");
    let place = json!({"x": 7, "y": 8});
    let action = json!({"kind": "click", "target": area, "at": place, "modifiers": ["control", "shift"], "post": reads("log", &keys)});
    script.passes(action).await;
    // A plain action holds nothing any more, and a double click ends as one.
    let twice = "mousedown 0 7,8;mouseup 0 7,8;click 0 7,8;";
    let all = format!("{keys}{twice}{twice}dblclick 0 7,8;");
    script
        .passes(json!({"kind": "double_click", "target": area, "at": place, "post": reads("log", &all)}))
        .await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_is_covered_or_outside_of_the_element_gets_nothing() {
    let (_server, mut script) = opened(AREA).await;
    let click = |kind: &str, x: u32, y: u32| json!({"kind": kind, "target": {"testid": "area"}, "at": {"x": x, "y": y}, "timeout_ms": 1500});
    for kind in ["click", "right_click", "double_click", "hover"] {
        let details = script.fails(click(kind, 150, 20), "OVERLAY_BLOCKING").await;
        assert!(
            details["overlay_selector"].as_str().unwrap().ends_with("div:nth-of-type(2)"),
            "{kind}: {details}"
        );
        let details = script.fails(click(kind, 201, 20), "PRECONDITION_FAILED").await;
        assert_eq!(details["reason"], "outside_of_the_element", "{kind}");
        let error = script.outcomes.last().unwrap().error.clone().unwrap();
        let args: Value = serde_json::from_str(error.failed_conditions[0].args.as_deref().unwrap()).unwrap();
        assert_eq!(args["observed"], "outside of the element", "{kind}");
        assert!(!script.outcomes.last().unwrap().touched, "{kind}");
    }
    script.passes(json!({"kind": "assert", "conditions": reads("log", "")})).await;
    script.end().await;
}

/// A handle that follows the pointer by itself, a card that the browser drags, and a list that is covered.
const BOARD: &str = r#"<!doctype html><title>Board</title><style>body { margin: 0 } div { position: absolute }</style>
<div data-testid=handle style="left: 10px; top: 10px; width: 20px; height: 20px; background: #333; z-index: 1"></div>
<div data-testid=card draggable=true style="left: 10px; top: 100px; width: 60px; height: 30px; background: #fc0">Card</div>
<div data-testid=stuck draggable=true style="left: 10px; top: 150px; width: 60px; height: 30px">Stuck</div>
<div data-testid=list style="left: 300px; top: 100px; width: 200px; height: 80px; background: #eee"></div>
<div data-testid=hidden-list style="left: 300px; top: 300px; width: 200px; height: 80px"></div>
<div data-testid=cover style="left: 300px; top: 300px; width: 200px; height: 80px"></div>
<p data-testid=log style="position: absolute; top: 400px"></p>
<script>
const by = (id) => document.querySelector(`[data-testid=${id}]`);
const say = (text) => { by("log").textContent += text + ";"; };
let from = null;
by("handle").addEventListener("pointerdown", (event) => {
  from = [event.clientX - by("handle").offsetLeft, event.clientY - by("handle").offsetTop];
  by("handle").setPointerCapture(event.pointerId);
});
by("handle").addEventListener("pointermove", (event) => {
  if (from === null) return;
  by("handle").style.left = `${event.clientX - from[0]}px`;
  by("handle").style.top = `${event.clientY - from[1]}px`;
});
by("handle").addEventListener("pointerup", (event) => {
  from = null;
  say(`${event.shiftKey ? "shift " : ""}handle ${by("handle").offsetLeft},${by("handle").offsetTop}`);
});
by("card").addEventListener("dragstart", (event) => event.dataTransfer.setData("text/plain", "the card"));
by("card").addEventListener("dragend", () => say("end"));
by("stuck").addEventListener("dragstart", (event) => event.preventDefault());
by("stuck").addEventListener("mouseup", () => say("never"));
document.addEventListener("mouseup", (event) => { if (event.target.dataset.testid === "list") say("up"); });
by("list").addEventListener("dragover", (event) => event.preventDefault());
by("list").addEventListener("drop", (event) => { event.preventDefault(); say("drop " + event.dataTransfer.getData("text/plain")); });
</script>"#;

fn drag(what: &str, field: &str, end: Value) -> Value {
    json!({"kind": "drag", "target": {"testid": what}, field: end})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_the_pointer_and_what_the_browser_drags_arrives_at_its_end() {
    let (_server, mut script) = opened(BOARD).await;
    let with_post = |mut action: Value, text: &str| {
        action["post"] = reads("log", text);
        action
    };
    // From its centre, 20,20, by the distance.
    let mut log = "handle 60,45;".to_owned();
    script.passes(with_post(drag("handle", "by", json!({"x": 50, "y": 35})), &log)).await;
    // From a place within it to the centre of the list, 400,140.
    log += "shift handle 395,135;";
    let mut action = drag("handle", "to", json!({"testid": "list"}));
    action["at"] = json!({"x": 5, "y": 5});
    action["modifiers"] = json!(["shift"]);
    script.passes(with_post(action, &log)).await;
    script
        .passes(with_post(drag("handle", "by", json!({"x": -300, "y": 0})), &format!("{log}handle 95,135;")))
        .await;
    log += "handle 95,135;drop the card;end;";
    let outcome = script.passes(with_post(drag("card", "to", json!({"testid": "list"})), &log)).await;
    assert!(outcome.touched);
    assert_eq!(outcome.resolution.unwrap().locator, "testid");
    // The page refuses the browser's drag, and is left with the pointer.
    log += "up;";
    script.passes(with_post(drag("stuck", "to", json!({"testid": "list"})), &log)).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drag_without_an_end_that_can_receive_it_is_not_begun() {
    let (_server, mut script) = opened(BOARD).await;
    let short = |mut action: Value| {
        action["timeout_ms"] = 1500.into();
        action
    };
    let details =
        script.fails(short(drag("card", "to", json!({"testid": "hidden-list"}))), "OVERLAY_BLOCKING").await;
    assert_eq!(details["field"], "to");
    let details =
        script.fails(short(drag("card", "to", json!({"testid": "gone"}))), "TARGET_NOT_FOUND").await;
    assert_eq!((&details["field"], &details["target"]["testid"]), (&json!("to"), &json!("gone")));
    let details = script.fails(short(drag("card", "to", json!({"css": "div"}))), "TARGET_NOT_UNIQUE").await;
    assert_eq!((&details["field"], &details["count_observed"]), (&json!("to"), &json!(6)));
    let details =
        script.fails(short(drag("gone", "to", json!({"testid": "list"}))), "TARGET_NOT_FOUND").await;
    assert_eq!(details["field"], Value::Null);
    let away = short(drag("handle", "by", json!({"x": 5000, "y": 0})));
    let details = script.fails(away, "PRECONDITION_FAILED").await;
    assert_eq!(details["reason"], "outside_the_viewport");
    for outcome in &script.outcomes[1..] {
        assert!(!outcome.touched);
    }
    script.passes(json!({"kind": "assert", "conditions": reads("log", "")})).await;
    script.end().await;
}

/// A form with a button at its centre, and a link to another host.
const ORDER: &str = r#"<!doctype html><title>Order</title><style>body { margin: 0 } form, div { position: absolute }</style>
<form action="/sent" style="left: 0; top: 0; width: 200px; height: 100px"><button style="position: absolute; left: 50px; top: 25px; width: 100px; height: 50px"><b>Send</b></button></form>
<div id=links style="left: 0; top: 200px; width: 200px; height: 100px"><a href="http://evil.example/" style="position: absolute; left: 0; top: 0; width: 50px; height: 50px">Pay</a></div>
<p data-testid=log style="position: absolute; top: 400px"></p><script>
for (const type of ["pointerdown", "mousedown", "mouseup", "click"]) document.addEventListener(type, () => { document.querySelector("p").textContent += type; }, true);
</script>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_pointer_would_use_within_the_target_is_judged_before_any_input() {
    let sent = "<!doctype html><title>Sent</title>";
    let server = Server::with(&[("/", ORDER), ("/sent?", sent)]).await;
    let mut script = Script::start(&server, json!({"critical": [{"name_matches": "^Pay$"}]})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let form = json!({"css": "form"});
    let title = json!([{"kind": "title_equals", "value": "Sent"}]);
    let nudge = |target: Value| json!({"kind": "drag", "target": target, "by": {"x": 1, "y": 0}});
    for action in [
        nudge(json!({"role": "button", "name": "Send"})),
        nudge(form.clone()),
        // The button is at the centre.
        json!({"kind": "click", "target": form}),
        json!({"kind": "click", "target": form, "at": {"x": 100, "y": 40}}),
        json!({"kind": "double_click", "target": form, "at": {"x": 60, "y": 30}}),
        // A rule of the policy names the link.
        json!({"kind": "click", "target": {"css": "#links"}, "at": {"x": 5, "y": 5}}),
    ] {
        let details = script.fails(action.clone(), "ACTION_CRITICAL_BLOCKED").await;
        assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{action}");
        assert!(!script.outcomes.last().unwrap().touched, "{action}");
    }
    let to_link =
        json!({"kind": "click", "target": {"css": "#links"}, "at": {"x": 5, "y": 5}, "post": title});
    let details = script.fails(to_link, "ACTION_CRITICAL_BLOCKED").await;
    assert_eq!(
        (&details["critical_reason"], &details["host"]),
        (&json!("unsafe_domain_escape"), &json!("evil.example"))
    );
    script.passes(json!({"kind": "assert", "conditions": reads("log", "")})).await;
    // Beside the button nothing is sent; with a proof it may be.
    script
        .passes(json!({"kind": "click", "target": form, "at": {"x": 5, "y": 5}, "post": reads("log", "pointerdownmousedownmouseupclick")}))
        .await;
    script.passes(json!({"kind": "click", "target": form, "at": {"x": 100, "y": 40}, "post": title})).await;
    script.end().await;
}

/// What is pressed, what the browser drags, and what they are dropped on. `change` happens with the beginning of a drag.
fn changing(change: &str) -> String {
    let page = r#"<!doctype html><title>Changing</title><style>body { margin: 0 } div, button { position: absolute }</style>
<button data-testid=knob style="left: 10px; top: 10px; width: 60px; height: 30px">Knob</button>
<div data-testid=card draggable=true style="left: 10px; top: 100px; width: 60px; height: 30px; background: #fc0">Card</div>
<div data-testid=list style="left: 300px; top: 100px; width: 200px; height: 80px; background: #eee"></div>
<div id=bin style="left: 300px; top: 100px; width: 200px; height: 80px; display: none">Bin</div>
<p data-testid=log style="position: absolute; top: 400px"></p><script>
const by = (id) => document.querySelector(`[data-testid=${id}]`);
const say = (text) => { by("log").textContent += text + ";"; };
const bin = document.getElementById("bin");
const begin = () => { CHANGE };
by("knob").addEventListener("pointerdown", () => { say("down"); begin(); });
for (const type of ["mouseup", "click"]) addEventListener(type, (event) => say(`${type} ${event.buttons} ${event.target.dataset.testid ?? event.target.id}`));
by("card").addEventListener("dragstart", () => setTimeout(begin));
by("card").addEventListener("dragend", (event) => say(`end ${event.dataTransfer.dropEffect}`));
for (const onto of [by("list"), bin]) {
  onto.addEventListener("dragover", (event) => event.preventDefault());
  onto.addEventListener("drop", (event) => { event.preventDefault(); say(`drop ${event.target.id}`); });
}
</script>"#;
    page.replace("CHANGE", change)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drag_whose_end_is_covered_or_gone_by_then_drops_nothing_and_leaves_no_button_pressed() {
    let list = json!({"testid": "list"});
    for (change, code) in [
        ("bin.style.display = 'block'", "OVERLAY_BLOCKING"),
        ("by('list').style.top = '300px'", "POSTCONDITION_FAILED"),
        ("by('list').remove()", "POSTCONDITION_FAILED"),
    ] {
        for (what, log) in [("knob", "down;mouseup 0 knob;"), ("card", "end none;")] {
            let (_server, mut script) = opened(&changing(change)).await;
            let outcome = script.perform(drag(what, "to", list.clone())).await;
            let error = outcome.error.clone().unwrap();
            assert!(outcome.touched, "{what} {change}");
            assert!(
                error.evidence_refs.iter().any(|piece| piece.kind == "screenshot_after"),
                "{what} {change}"
            );
            assert_eq!(error.error_code, code, "{what} {change}: {error:?}");
            if code == "OVERLAY_BLOCKING" {
                let details: Value = serde_json::from_str(error.details.as_deref().unwrap()).unwrap();
                assert_eq!((&details["field"], &details["overlay_text"]), (&json!("to"), &json!("Bin")));
            }
            script.passes(json!({"kind": "wait_for", "conditions": reads("log", log)})).await;
            // The next press is one of its own.
            let post = format!(
                "{log}{}",
                if what == "knob" {
                    "down;mouseup 0 knob;click 0 knob;"
                } else {
                    "mouseup 0 card;click 0 card;"
                }
            );
            script
                .passes(json!({"kind": "click", "target": {"testid": what}, "post": reads("log", &post)}))
                .await;
            script.end().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drag_whose_document_goes_away_after_the_press_has_touched_the_page() {
    let inner = r#"<!doctype html><style>body { margin: 0 }</style>
<div data-testid=handle style="width: 40px; height: 40px; background: #333"></div><script>
document.querySelector("div").addEventListener("pointerdown", () => parent.document.querySelector("p").textContent = "pressed");
document.querySelector("div").addEventListener("pointermove", (event) => { if (event.buttons === 1) frameElement.remove(); });
</script>"#;
    let outer = r#"<!doctype html><title>Outer</title><iframe src="/inner" width=300 height=200></iframe><p data-testid=log></p>"#;
    let server = Server::with(&[("/", outer), ("/inner", inner)]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let target = json!({"testid": "handle", "frame": [{"css": "iframe"}]});
    let outcome = script.perform(json!({"kind": "drag", "target": target, "by": {"x": 80, "y": 0}})).await;
    let error = outcome.error.unwrap();
    assert_eq!(error.error_code, "POSTCONDITION_FAILED");
    assert!(outcome.touched);
    assert!(error.evidence_refs.iter().any(|piece| piece.kind == "screenshot_after"));
    script.passes(json!({"kind": "assert", "conditions": reads("log", "pressed")})).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_click_that_opens_a_menu_under_the_pointer_has_worked() {
    let page = r#"<!doctype html><title>Files</title><div data-testid=file style="width: 200px; height: 100px">report.pdf</div>
<div role=menu style="position: fixed; display: none; width: 100px; height: 100px; background: #ddd">Rename</div><p data-testid=log></p><script>
const menu = document.querySelector("[role=menu]");
addEventListener("contextmenu", (event) => {
  event.preventDefault();
  Object.assign(menu.style, { display: "block", left: `${event.clientX}px`, top: `${event.clientY}px` });
});
addEventListener("mouseup", (event) => { document.querySelector("p").textContent += event.target.getAttribute("role"); });
</script>"#;
    let (_server, mut script) = opened(page).await;
    let open = json!([{"kind": "visible", "target": {"role": "menu"}}, {"kind": "text_equals", "target": {"testid": "log"}, "value": "menu"}]);
    let outcome =
        script.passes(json!({"kind": "right_click", "target": {"testid": "file"}, "post": open})).await;
    assert!(outcome.touched);
    script.end().await;
}

const FIELDS: &str = r#"<!doctype html><title>Fields</title><label>Name <input value="Ana"></label>
<label>Notes <textarea>one
two</textarea></label><label>Mail <input type=email value="ana@example"></label>
<label>Count <input type=number value=4></label><label>Day <input type=date></label>
<label>Fixed <input readonly value=no></label><label>Password <input type=password value="start"></label>
<div role=textbox aria-label=Free contenteditable>Hello <b>you</b></div><p data-testid=said></p>
<button onclick="document.querySelector('[data-testid=said]').textContent = prompt('Who?', 'nobody')">Ask</button>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_typed_comes_after_what_is_there() {
    let (_server, mut script) = opened(FIELDS).await;
    for (label, text, value) in [
        ("Name", " María", "Ana María"),
        ("Notes", "\nthree", "one\ntwo\nthree"),
        ("Mail", ".com", "ana@example.com"),
        ("Count", "2", "42"),
    ] {
        let target = json!({"label": label});
        let post = json!([{"kind": "value_equals", "target": target, "value": value}]);
        let outcome =
            script.passes(json!({"kind": "type", "target": target, "value": text, "post": post})).await;
        assert!(outcome.touched, "{label}");
    }
    let free = json!({"role": "textbox", "name": "Free"});
    let post = json!([{"kind": "text_equals", "target": free, "value": "Hello you all"}]);
    script.passes(json!({"kind": "type", "target": free, "value": " all", "post": post})).await;
    let short =
        |label: &str| json!({"kind": "type", "target": {"label": label}, "value": "x", "timeout_ms": 1500});
    script.fails(short("Fixed"), "PRECONDITION_FAILED").await;
    script.fails(short("Day"), "PRECONDITION_FAILED").await;
    script.passes(json!({"kind": "type", "target": {"label": "Password"}, "value": PASSWORD})).await;
    script.never_shows(PASSWORD);
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_gets_the_text_of_its_action_and_of_no_later_one() {
    let (_server, mut script) = opened(FIELDS).await;
    let ask = |more: Value, text: &str| {
        let mut action = json!({"kind": "click", "target": {"role": "button", "name": "Ask"}, "dialogs": "accept", "post": reads("said", text)});
        for (key, value) in more.as_object().unwrap() {
            action[key] = value.clone();
        }
        action
    };
    let outcome = script.passes(ask(json!({"prompt_text": "Ben"}), "Ben")).await;
    let dialog = &outcome.changes.unwrap().dialogs[0];
    assert_eq!((dialog.kind.as_str(), dialog.message.as_str(), dialog.accepted), ("prompt", "Who?", true));
    script.passes(ask(json!({}), "nobody")).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forward_is_the_way_back_from_back() {
    let one = "<!doctype html><title>One</title>";
    let server = Server::with(&[("/one", one), ("/two", "<!doctype html><title>Two</title>")]).await;
    let mut script = Script::start(&server, json!({})).await;
    for path in ["/one", "/two"] {
        script.passes(json!({"kind": "navigate", "url": server.url(path)})).await;
    }
    let post = |title: &str| json!([{"kind": "title_equals", "value": title}]);
    script.passes(json!({"kind": "back", "post": post("One")})).await;
    script.passes(json!({"kind": "forward", "post": post("Two")})).await;
    let details = script.fails(json!({"kind": "forward"}), "NAVIGATION_FAILED").await;
    assert_eq!(details["net_error"], "there is no page after this one");
    script.end().await;
}

/// Two buttons whose names are elements of their own; one of them has a label beside it.
const CHOICE: &str = r#"<!doctype html><title>Choice</title><form action="/sent">
<button name=do value=save><span>Save</span></button><button name=do value=delete id=delete><span>Delete</span></button>
<label for=delete>Remove</label></form>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submit_is_by_the_button_that_the_target_lies_in_and_not_by_the_first_of_the_form() {
    let sent = "<!doctype html><title>Sent</title>";
    let server = Server::with(&[("/", CHOICE), ("/sent?do=save", sent), ("/sent?do=delete", sent)]).await;
    let mut script = Script::start(&server, json!({})).await;
    for (target, value) in [
        (json!({"text": "Delete"}), "delete"),
        (json!({"text": "Remove"}), "delete"),
        (json!({"role": "button", "name": "Remove"}), "delete"),
        (json!({"text": "Save"}), "save"),
        (json!({"css": "form"}), "save"),
    ] {
        script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
        let post = json!([{"kind": "url_equals", "value": server.url(&format!("/sent?do={value}"))}]);
        script.passes(json!({"kind": "submit", "target": target, "post": post})).await;
    }
    script.end().await;
}

/// What can be clicked at a word of it: a button, a label, a switch that submits, and a button that leads away.
const WORDS: &str = r#"<!doctype html><title>Words</title><button type=button><span>Delete</span></button>
<label><input type=checkbox> <b>Delete all</b></label><form><button role=switch aria-checked=false>Buy</button></form>
<form><button formaction="http://evil.example/"><span>Send</span></button></form><p data-testid=log></p><script>
addEventListener("mousedown", () => { document.querySelector("[data-testid=log]").textContent += "mousedown;"; }, true);
</script>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_click_is_for_is_judged_where_the_target_is_only_a_part_of_it() {
    let server = Server::with(&[("/", WORDS)]).await;
    let mut script = Script::start(&server, json!({"critical": [{"name_matches": "^Delete"}]})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let sent = json!([{"kind": "title_equals", "value": "Sent"}]);
    for (action, reason) in [
        (json!({"kind": "click", "target": {"text": "Delete"}}), "missing_strong_postcondition"),
        (json!({"kind": "click", "target": {"text": "Delete all"}}), "missing_strong_postcondition"),
        (json!({"kind": "check", "target": {"text": "Delete all"}}), "missing_strong_postcondition"),
        (
            json!({"kind": "check", "target": {"role": "switch", "name": "Buy"}}),
            "missing_strong_postcondition",
        ),
        (json!({"kind": "click", "target": {"text": "Send"}, "post": sent}), "unsafe_domain_escape"),
        (json!({"kind": "submit", "target": {"text": "Send"}, "post": sent}), "unsafe_domain_escape"),
    ] {
        let details = script.fails(action.clone(), "ACTION_CRITICAL_BLOCKED").await;
        assert_eq!(details["critical_reason"], reason, "{action}");
    }
    script.passes(json!({"kind": "assert", "conditions": reads("log", "")})).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_does_not_keep_its_text_has_got_it_all_the_same() {
    let page = r#"<!doctype html><title>Code</title><input data-testid=empties oninput="say(); this.value = ''">
<input data-testid=refills value=old oninput="say(); this.value = 'old'"><p data-testid=log></p><script>
const say = () => { document.querySelector("[data-testid=log]").textContent += "input;"; };</script>"#;
    let (_server, mut script) = opened(page).await;
    let mut log = String::new();
    for (kind, testid, value) in
        [("fill", "empties", "12"), ("type", "empties", "12"), ("fill", "refills", "")]
    {
        let action = json!({"kind": kind, "target": {"testid": testid}, "value": value});
        script.fails(action.clone(), "POSTCONDITION_FAILED").await;
        let outcome = script.outcomes.last().unwrap();
        assert!(outcome.touched, "{action}");
        assert_eq!(outcome.error.as_ref().unwrap().failed_conditions[0].kind, "performed", "{action}");
        log += "input;";
        script.passes(json!({"kind": "assert", "conditions": reads("log", &log)})).await;
    }
    script.end().await;
}
