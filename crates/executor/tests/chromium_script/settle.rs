//! Waiting for an element to be where it can be hit, and for a page to change.

use serde_json::{Value, json};

use crate::support::{LIMIT, Page, centre};

/// For what is never to come.
const SHORT: u64 = 150;

fn hit(page: &Page, settled: &Value) -> Value {
    let (x, y) = centre(&settled["rect"]);
    page.page(&format!("document.elementFromPoint({x}, {y})?.id"))
}

#[test]
fn an_element_that_rests_settles_where_it_is() {
    let page =
        Page::with("<style>body{margin:0}</style><button id=a style='width:100px;height:40px'>A</button>");
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(settled["rect"], json!({ "x": 0, "y": 0, "width": 100, "height": 40 }));
}

#[test]
fn an_element_is_scrolled_into_view_through_all_that_hides_it() {
    let page = Page::with(
        "<style>html{scroll-behavior:smooth}</style><div style='height:3000px'></div>
        <div style='height:200px;overflow:auto'><div style='height:2000px'></div><button id=a>A</button></div>
        <div style='height:3000px'></div>
        <header id=top style='position:fixed;top:0;left:0;right:0;height:45vh;background:red'>x</header>
        <footer style='position:fixed;bottom:0;left:0;right:0;height:45vh;background:red'>x</footer>",
    );
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(hit(&page, &settled), "a", "{settled}");
}

#[test]
fn what_has_no_box_of_its_own_is_hit_at_its_text_and_scrolled_to_like_any_other() {
    let page = Page::with(
        "<style>button{display:contents}</style><button id=a>Text alone</button>
        <div style='width:60px;font:16px monospace'>aa <button id=b>bbbb ccc</button> ddddd</div>
        <div style='height:100px;overflow:auto'><div style='height:1000px'></div><button id=c>In a box</button>
        <div style='height:1000px'></div></div><div style='height:3000px'></div><p>before <button id=d>Far below</button> after</p>
        <div style='height:3000px'></div>",
    );
    for id in ["a", "b", "c", "d"] {
        let handle = page.handle(&format!("#{id}"));
        let settled = page.run("settle", &json!([handle, LIMIT]));
        assert_eq!(hit(&page, &settled), id, "{settled}");
        let token = page.run("arm", &json!([handle]));
        page.click(centre(&settled["rect"]));
        assert_eq!(page.run("disarm", &json!([token]))["delivered"], true, "{id}");
        page.page("scrollTo(0, 0)");
    }
    page.page("document.querySelector('div + div').scrollTop = 0");
    assert_eq!(page.run("bring", &json!([page.handle("#d")])), true);
    assert_eq!(page.facts("#d")["inViewport"], true);
}

#[test]
fn an_element_in_motion_settles_where_it_comes_to_rest() {
    let page = Page::with(
        "<style>@keyframes go{from{margin-left:0}to{margin-left:300px}} #a{width:50px}</style><button id=a>A</button>",
    );
    let handle = page.handle("#a");
    let before = page.facts("#a")["rect"]["x"].as_f64().unwrap();
    page.page("document.getElementById('a').style.animation = 'go 400ms linear forwards'");
    let settled = page.run("settle", &json!([handle, LIMIT]));
    assert_eq!(settled["rect"]["x"].as_f64().unwrap(), before + 300.0);
    // Moved by the page's script in each frame.
    page.page(
        "let n = 0; const a = document.getElementById('a'); a.style.animation = '';
        const step = () => { a.style.marginLeft = (n += 5) + 'px'; if (n < 100) requestAnimationFrame(step); }; step()",
    );
    let settled = page.run("settle", &json!([handle, LIMIT]));
    assert_eq!(settled["rect"]["x"].as_f64().unwrap(), before + 100.0);
    page.page("(function forever() { a.style.marginLeft = (n += 1) % 100 + 'px'; requestAnimationFrame(forever) })()");
    assert_eq!(page.run("settle", &json!([handle, SHORT])), json!({ "reason": "moving" }));
}

#[test]
fn what_is_in_the_way_is_said_when_the_limit_is_over() {
    let page = Page::with(
        "<style>body{margin:0}</style><button id=a>A</button><button id=b hidden>B</button><button id=c style='pointer-events:none'>C</button>
        <div id=veil style='position:fixed;inset:0;display:none'>Wait</div><button id=d style='position:fixed;left:-500px'>D</button>",
    );
    let settle = |css: &str| page.run("settle", &json!([page.handle(css), SHORT]));
    assert_eq!(settle("#b"), json!({ "reason": "not visible" }));
    assert_eq!(settle("#c"), json!({ "reason": "takes no pointer events" }));
    assert_eq!(settle("#d"), json!({ "reason": "outside the viewport" }));
    page.page("document.getElementById('veil').style.display = 'block'");
    let covered = settle("#a");
    assert_eq!(
        (&covered["coveredBy"]["id"], &covered["coveredBy"]["name"]),
        (&json!("veil"), &json!("Wait"))
    );
}

#[test]
fn an_element_that_appears_or_is_uncovered_in_time_settles() {
    let page = Page::with(
        "<button id=a hidden>A</button><div id=veil style='position:fixed;inset:0'></div>
        <script>onload = () => setTimeout(() => { document.getElementById('a').hidden = false;
          setTimeout(() => document.getElementById('veil').remove(), 100); }, 100)</script>",
    );
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(hit(&page, &settled), "a");
}

#[test]
fn an_element_that_goes_away_meanwhile_is_detached() {
    let page = Page::with("<button id=a hidden>A</button>");
    let handle = page.handle("#a");
    page.page("setTimeout(() => document.getElementById('a').remove(), 50)");
    assert_eq!(page.run("settle", &json!([handle, LIMIT])), json!({ "detached": true }));
}

#[test]
fn a_link_that_wraps_settles_on_one_of_its_lines() {
    let page = Page::with(
        "<p style='width:300px;font:16px monospace'>some text before it, <a id=a href=#x>a link of words</a> and more</p>",
    );
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(hit(&page, &settled), "a");
}

#[test]
fn a_big_element_settles_on_the_part_that_is_in_view() {
    let page = Page::with("<div id=a style='height:9000px;width:9000px'>x</div>");
    page.page("scrollTo(3000, 3000)");
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(hit(&page, &settled), "a");
    assert_eq!(page.page("scrollX"), 3000, "it is in view already");
}

#[test]
fn an_element_without_a_box_settles_on_its_content() {
    let page = Page::with("<a id=a href=#x style='display:contents'><b id=b>text</b></a>");
    let settled = page.run("settle", &json!([page.handle("#a"), LIMIT]));
    assert_eq!(hit(&page, &settled), "b");
}

#[test]
fn a_point_on_another_element_is_told_from_one_on_the_element() {
    let page =
        Page::with("<style>body{margin:0}</style><button id=a style='width:80px;height:30px'>A</button>");
    let handle = page.handle("#a");
    assert_eq!(page.run("hit", &json!([handle, 10, 10])), json!({ "ok": true }));
    let beside = page.run("hit", &json!([handle, 300, 10]));
    assert_eq!((&beside["ok"], &beside["coveredBy"]["tag"]), (&json!(false), &json!("body")));
    assert_eq!(page.run("hit", &json!([handle, 99_999, 10]))["coveredBy"], Value::Null);
}

#[test]
fn every_kind_of_change_wakes_who_waits_for_one() {
    let page = Page::with(
        "<style>@keyframes k{to{opacity:.5}} .wide{transition:width 100ms;width:200px!important}</style>
        <div id=a style='width:100px'>x</div><input id=i><input id=c type=checkbox><select id=s><option>1<option>2</select>
        <div id=host><template shadowrootmode=open><p id=deep>x</p></template></div><div style='height:9000px'></div>",
    );
    for change in [
        "document.getElementById('a').textContent = 'y'",
        "document.getElementById('a').title = 'y'",
        "document.getElementById('a').append('z')",
        "document.getElementById('host').shadowRoot.firstElementChild.textContent = 'y'",
        "document.title = 'changed'",
        "scrollTo(0, 500)",
        "document.getElementById('i').value = 'set by a script'",
        "document.getElementById('c').checked = true",
        "document.getElementById('s').value = '2'",
        "history.pushState(null, '', '#there')",
        "document.getElementById('a').className = 'wide'",
        "document.getElementById('i').dispatchEvent(new Event('input', { bubbles: true }))",
    ] {
        page.script(&format!("globalThis.waiting = capataz.changed({LIMIT}); 0"));
        page.page(&format!("{change}; 0"));
        assert_eq!(page.script("globalThis.waiting"), json!(true), "{change}");
    }
}

#[test]
fn typing_wakes_who_waits_for_a_change() {
    let page = Page::with("<input id=i>");
    page.run("focus", &json!([page.handle("#i")]));
    page.script(&format!("globalThis.waiting = capataz.changed({LIMIT}); 0"));
    page.type_text("x");
    assert_eq!(page.script("globalThis.waiting"), json!(true));
}

#[test]
fn a_page_at_rest_wakes_nobody_before_the_limit() {
    let page = Page::with(
        "<style>@keyframes spin{to{transform:rotate(1turn)}}</style><p style='animation:spin 1s infinite linear'>…</p>",
    );
    assert_eq!(page.run("changed", &json!([SHORT])), json!(false));
}

#[test]
fn an_element_that_was_brought_into_view_did_not_rest_from_the_beginning() {
    let page =
        Page::with("<button id=a>A</button><button id=b style='position:absolute;top:3000px'>B</button>");
    let settle = |css: &str| {
        let settled = page.run("settle", &json!([page.handle(css), LIMIT]));
        (settled["rested"].clone(), settled["scrolled"].clone())
    };
    assert_eq!(settle("#a"), (json!(true), json!(false)));
    assert_eq!(settle("#b"), (json!(false), json!(true)));
}
