//! The last check before an event: what does not arrive at its element arrives nowhere.

use serde_json::{Value, json};

use crate::support::{LIMIT, Page, centre};

/// Records every event that the page gets to see, as `type@id`.
const LOG: &str = "<script>
    window.seen = [];
    for (const type of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'submit'])
      window.addEventListener(type, (event) => seen.push(type + '@' + (event.target.id || event.target.localName)), true);
  </script>
  <style>body{margin:0} button{position:absolute;left:0;top:0;width:100px;height:40px}</style>";

const WHOLE_CLICK: [&str; 5] = ["pointerdown@go", "mousedown@go", "pointerup@go", "mouseup@go", "click@go"];

fn page_with(html: &str) -> Page {
    Page::with(&format!("<!doctype html>{LOG}{html}"))
}

/// Settles, arms, lets the page do something, clicks and disarms.
fn click(page: &Page, css: &str, meanwhile: &str) -> Value {
    let handle = page.handle(css);
    let settled = page.run("settle", &json!([handle, LIMIT]));
    let token = page.run("arm", &json!([handle]));
    page.page(meanwhile);
    page.click(centre(&settled["rect"]));
    page.run("disarm", &json!([token]))
}

#[test]
fn a_click_that_arrives_passes_untouched() {
    let page = page_with("<button id=go>Go</button>");
    let outcome = click(&page, "#go", "0");
    assert_eq!(
        outcome,
        json!({ "delivered": true, "pressed": false, "blockedBy": null, "moved": false, "detached": false, "seen": true, "unjudged": null })
    );
    assert_eq!(page.page("seen"), json!(WHOLE_CLICK));
    // Nothing is watched any more.
    page.click((50.0, 20.0));
    assert_eq!(page.page("seen.length"), 10);
}

#[test]
fn a_click_inside_the_element_is_its_own() {
    let page = page_with("<button id=go><b style='display:block'>Go</b></button>");
    assert_eq!(click(&page, "#go", "0")["delivered"], true);
    page.open(
        "<div id=host><template shadowrootmode=open><button id=go><slot></slot></button></template><b>Go</b></div>",
    );
    assert_eq!(click(&page, "#go", "0")["delivered"], true);
}

#[test]
fn an_overlay_that_comes_at_the_last_moment_gets_nothing() {
    let page = page_with("<button id=go>Go</button>");
    let overlay = "document.body.insertAdjacentHTML('beforeend',
        '<div id=veil style=\"position:fixed;inset:0\"><p id=text>Accept cookies</p></div>')";
    let outcome = click(&page, "#go", overlay);
    assert_eq!(outcome["delivered"], false);
    assert_eq!(outcome["blockedBy"]["id"], "veil");
    assert_eq!(outcome["blockedBy"]["name"], "Accept cookies");
    assert_eq!(page.page("seen"), json!([]), "neither the overlay nor the element has seen anything");
}

#[test]
fn what_has_moved_into_the_place_of_the_element_gets_nothing() {
    let page = page_with("<button id=go>Go</button><button id=other style='top:100px'>Delete</button>");
    let swap =
        "document.getElementById('go').style.top = '100px'; document.getElementById('other').style.top = '0'";
    let outcome = click(&page, "#go", swap);
    assert_eq!((&outcome["delivered"], &outcome["blockedBy"]["id"]), (&json!(false), &json!("other")));
    assert_eq!(page.page("seen"), json!([]));
}

#[test]
fn what_has_replaced_the_element_gets_nothing() {
    let page = page_with("<div id=box><button id=go>Go</button></div>");
    let outcome =
        click(&page, "#go", "document.getElementById('box').innerHTML = '<button id=go>Go</button>'");
    assert_eq!((&outcome["delivered"], &outcome["detached"]), (&json!(false), &json!(true)));
    assert_eq!(page.page("seen"), json!([]));
}

#[test]
fn what_comes_in_the_place_of_a_pressed_element_gets_nothing_and_the_press_is_no_click() {
    let page = page_with(
        "<button id=go onmousedown='this.remove(); document.body.append(other)'>Go</button>
        <template><button id=other>x</button></template><script>var other = document.querySelector('template').content.firstChild</script>",
    );
    let outcome = click(&page, "#go", "0");
    let of = |name: &str| outcome[name].clone();
    assert_eq!((of("delivered"), of("pressed"), of("detached")), (json!(false), json!(true), json!(true)));
    assert_eq!(outcome["blockedBy"]["id"], "other");
    assert_eq!(page.page("seen"), json!(["pointerdown@go", "mousedown@go"]));
}

#[test]
fn an_overlay_that_answers_the_press_gets_nothing() {
    let page = page_with("<button id=go>Go</button>");
    page.page(
        "document.getElementById('go').onpointerdown = () => document.body.insertAdjacentHTML('beforeend',
            '<div id=veil style=\"position:fixed;inset:0\">Wait</div>')",
    );
    let outcome = click(&page, "#go", "0");
    assert_eq!((&outcome["delivered"], &outcome["pressed"]), (&json!(false), &json!(true)));
    assert_eq!(outcome["blockedBy"]["id"], "veil");
    // Whether the press has one part or two of what the element receives is the browser's affair.
    let seen = page.page("seen");
    let received = |name: &serde_json::Value| name.as_str().is_some_and(|name| name.ends_with("@go"));
    assert!(seen.as_array().is_some_and(|seen| seen.iter().all(received)), "{seen}");
}

#[test]
fn the_label_of_a_control_counts_as_the_control_but_not_a_link_in_it() {
    let page = page_with(
        "<label style='position:absolute;left:0;top:0;width:200px;height:40px'>
           <input id=box type=checkbox style='position:absolute;opacity:0;width:200px;height:40px'>
           <span id=face style='position:absolute;inset:0'>I agree <a id=terms href=#t hidden>terms</a></span></label>",
    );
    assert_eq!(click(&page, "#box", "0")["delivered"], true);
    assert_eq!(page.facts("#box")["checked"], true);
    let link = "const a = document.getElementById('terms'); a.hidden = false;
        a.style.cssText = 'position:absolute;inset:0'";
    let outcome = click(&page, "#box", link);
    assert_eq!((&outcome["delivered"], &outcome["blockedBy"]["id"]), (&json!(false), &json!("face")));
    assert_eq!(page.facts("#box")["checked"], true);
    assert_eq!(page.page("location.hash"), "");
}

#[test]
fn scripted_events_of_the_page_are_none_of_the_guard() {
    let page = page_with("<button id=go>Go</button><button id=other style='top:100px'>x</button>");
    let outcome = click(&page, "#go", "document.getElementById('other').click()");
    assert_eq!(outcome["delivered"], true);
    assert_eq!(page.page("seen[0]"), "click@other");
}

#[test]
fn without_an_element_nothing_passes_and_without_an_event_nothing_is_reported() {
    let page = page_with("<button id=go>Go</button>");
    let token = page.run("arm", &json!([0]));
    page.click((50.0, 20.0));
    let outcome = page.run("disarm", &json!([token]));
    assert_eq!(outcome["blockedBy"]["id"], "go");
    assert_eq!((&outcome["delivered"], &outcome["detached"]), (&json!(false), &json!(false)));
    assert_eq!(page.page("seen"), json!([]));
    let token = page.run("arm", &json!([page.handle("#go")]));
    let outcome = page.run("disarm", &json!([token]));
    assert_eq!(
        outcome,
        json!({ "delivered": false, "pressed": false, "blockedBy": null, "moved": false, "detached": false, "seen": false, "unjudged": null })
    );
    assert_eq!(page.run("disarm", &json!([token]))["delivered"], false);
}

#[test]
fn a_guard_that_was_left_standing_ends_with_the_next_one() {
    let page = page_with("<button id=go>Go</button><button id=other style='top:100px'>x</button>");
    let abandoned = page.run("arm", &json!([page.handle("#other")]));
    assert_eq!(click(&page, "#go", "0")["delivered"], true);
    assert_eq!(page.page("seen"), json!(WHOLE_CLICK));
    // Who armed it and comes back after all is told that nothing arrived.
    let late = page.run("disarm", &json!([abandoned]));
    assert_eq!((&late["delivered"], &late["pressed"]), (&json!(false), &json!(false)));

    page.run("arm", &json!([0]));
    page.click((50.0, 20.0));
    assert_eq!(page.page("seen.length"), 5, "it stands for as long as nobody takes its place");
    page.run("arm", &json!([0, []]));
    page.click((50.0, 20.0));
    assert_eq!(page.page("seen.length"), 10, "one without types stops nothing");
}

#[test]
fn the_guard_comes_before_listeners_that_a_page_puts_on_its_window() {
    let page = page_with("<button id=go>Go</button>");
    // `document.open` takes away every listener of the window; arming brings them back.
    page.page("document.open(); document.write('<button id=other>Other</button>'); document.close()");
    let token = page.run("arm", &json!([0]));
    page.page("window.got = 0; document.addEventListener('click', () => got += 1, true)");
    page.click((20.0, 20.0));
    assert_eq!(page.run("disarm", &json!([token]))["blockedBy"]["id"], "other");
    assert_eq!(page.page("got"), 0);
}

/// Settles, arms and clicks; every event that the page gets to see is logged before.
#[test]
fn a_click_on_a_label_is_forwarded_to_its_control_wherever_that_lies() {
    let page = page_with(
        "<label id=go for=box style='position:absolute;left:0;top:100px;width:100px;height:40px'>Terms</label>
        <div hidden><input id=box type=checkbox></div>",
    );
    assert_eq!(click(&page, "#go", "0")["delivered"], true);
    assert_eq!(page.page("document.getElementById('box').checked"), true);
    let seen = page.page("seen");
    assert_eq!(seen.as_array().unwrap().last(), Some(&json!("click@box")));
    // What is around the label gets nothing of it, and no other control does.
    let other = "document.getElementById('go').htmlFor = 'none'";
    assert_eq!(click(&page, "#go", other)["delivered"], true);
    assert_eq!(page.page("document.getElementById('box').checked"), true);
}

#[test]
fn an_element_that_is_somewhere_else_now_has_moved_and_is_not_covered() {
    let page = page_with("<button id=go>Go</button><button id=other style='top:100px'>Delete</button>");
    let swap =
        "document.getElementById('go').style.top = '100px'; document.getElementById('other').style.top = '0'";
    assert_eq!(click(&page, "#go", swap)["moved"], true);
    page.open("<style>button{position:absolute;left:0;top:0;width:100px;height:40px}</style><button id=go>Go</button>");
    let cover =
        "document.body.insertAdjacentHTML('beforeend', '<div style=\"position:fixed;inset:0\">x</div>')";
    let outcome = click(&page, "#go", cover);
    assert_eq!((&outcome["delivered"], &outcome["moved"]), (&json!(false), &json!(false)));
}

const KEYS: [&str; 4] = ["keydown", "keypress", "keyup", "beforeinput"];

/// Enter, as the browser sends it for a key that is pressed and let go.
fn press_enter(page: &Page) {
    let event = |kind: &str| json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": if kind == "keyDown" { "\r" } else { "" } });
    page.call("Input.dispatchKeyEvent", event("keyDown"));
    page.call("Input.dispatchKeyEvent", event("keyUp"));
}

/// Lets Enter go to whatever has the focus, but not submit anything.
fn arm_for_enter(page: &Page, judged: &[u64]) -> Value {
    page.run("arm", &json!([null, KEYS, { "judged": judged, "maySubmit": false }]))
}

#[test]
fn the_guard_hears_of_a_key_before_a_page_that_lets_nobody_hear_of_it() {
    let page = page_with(
        "<script>for (const type of ['keydown', 'keypress', 'keyup', 'beforeinput'])
          addEventListener(type, (event) => event.stopImmediatePropagation(), true);</script>
        <form onsubmit='event.preventDefault()'><input id=field><input type=submit></form>",
    );
    page.page("field.focus()");
    let token = arm_for_enter(&page, &[]);
    press_enter(&page);
    let outcome = page.run("disarm", &json!([token]));
    assert_eq!((&outcome["seen"], &outcome["delivered"]), (&json!(true), &json!(false)));
    assert_eq!(outcome["unjudged"]["submits"], true, "{outcome}");
    assert_eq!(page.page("seen"), json!([]));
    // Without a key nothing was seen.
    let token = arm_for_enter(&page, &[]);
    assert_eq!(page.run("disarm", &json!([token]))["seen"], false);
}

#[test]
fn a_key_was_stopped_though_the_page_drops_what_it_was_stopped_at() {
    let page =
        page_with("<form onsubmit='event.preventDefault()'><input autofocus><button>Send</button></form>");
    page.page("document.querySelector('input').focus()");
    let token = arm_for_enter(&page, &[]);
    press_enter(&page);
    page.page("document.body.replaceChildren()");
    for _ in 0..3 {
        page.call("HeapProfiler.collectGarbage", json!({}));
    }
    let outcome = page.run("disarm", &json!([token]));
    assert_eq!(outcome["delivered"], false, "{outcome}");
    assert_eq!(outcome["unjudged"]["pressed"], false, "{outcome}");
}

#[test]
fn a_key_may_go_to_each_element_that_was_judged() {
    let page =
        page_with("<button id=one>One</button><button id=two>Two</button><button id=three>Three</button>");
    let judged = [page.handle("#one"), page.handle("#two")];
    for (css, passes) in [("#one", true), ("#two", true), ("#three", false)] {
        page.page(&format!("document.querySelector('{css}').focus()"));
        let token = arm_for_enter(&page, &judged);
        press_enter(&page);
        let outcome = page.run("disarm", &json!([token]));
        assert_eq!((&outcome["delivered"], outcome["unjudged"].is_null()), (&json!(passes), passes), "{css}");
    }
}
