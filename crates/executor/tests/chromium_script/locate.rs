//! Finding elements: each kind of locator, their order, and what cannot be read.

use serde_json::{Value, json};

use crate::support::{LIMIT, Page};

#[track_caller]
fn check(page: &Page, locator: Value, expected: &[&str]) {
    assert_eq!(page.matches(&locator), expected, "{locator}");
}

const SIGN_IN: &str = r#"<!doctype html><title>Sign in</title>
<main><h1 id=h>Sign in</h1>
<form>
  <label for=user>User name</label> <input id=user data-testid=user>
  <label id=l>Password <input id=pass type=password></label>
  <button id=go data-testid=go type=button>Sign <b>in</b></button>
  <button id=no type=button aria-label="Close">×</button>
</form></main>"#;

#[test]
fn each_kind_of_locator_finds_its_element() {
    let page = Page::with(SIGN_IN);
    check(&page, json!({ "kind": "testid", "value": "go" }), &["go"]);
    check(&page, json!({ "kind": "role", "role": "button", "name": "Sign in" }), &["go"]);
    check(&page, json!({ "kind": "role", "role": "button" }), &["go", "no"]);
    check(&page, json!({ "kind": "label", "value": "User name" }), &["user"]);
    check(&page, json!({ "kind": "label", "value": "Password" }), &["pass"]);
    check(&page, json!({ "kind": "label", "value": "Close" }), &["no"]);
    check(&page, json!({ "kind": "css", "value": "form > button" }), &["go", "no"]);
    check(&page, json!({ "kind": "xpath", "value": "//button[@data-testid='go']" }), &["go"]);
    check(&page, json!({ "kind": "text", "value": "Password" }), &["l"]);
    check(&page, json!({ "kind": "text", "value": "×" }), &["no"]);
}

// S002-RU-03
#[test]
fn names_labels_and_texts_match_whole_and_with_case_after_normalisation() {
    let page = Page::with(SIGN_IN);
    check(&page, json!({ "kind": "text", "value": " Sign \n\t in\u{a0}" }), &["h", "go"]);
    check(&page, json!({ "kind": "role", "role": "button", "name": "\u{2003}Sign   in" }), &["go"]);
    for part in ["Sign", "sign in", "Sign in!", ""] {
        check(&page, json!({ "kind": "text", "value": part }), &[]);
        check(&page, json!({ "kind": "role", "role": "button", "name": part }), &[]);
        check(&page, json!({ "kind": "label", "value": part }), &[]);
    }
    // Once composed, once decomposed.
    page.open("<button id=a>Größe</button><button id=b>Gro\u{308}ße</button>");
    check(&page, json!({ "kind": "text", "value": "Gro\u{308}ße" }), &["a", "b"]);
    check(&page, json!({ "kind": "role", "role": "button", "name": "Größe" }), &["a", "b"]);
}

// S002-RU-08
#[test]
fn the_first_locator_that_matches_anything_decides() {
    let page = Page::with("<p id=a data-testid=x>one</p><p id=b data-testid=x>two</p><a id=c href=/>two</a>");
    let locators = json!([
        { "kind": "testid", "value": "nothing" },
        { "kind": "role", "role": "switch" },
        { "kind": "testid", "value": "x" },
        { "kind": "text", "value": "one" },
    ]);
    let look = page.run("look", &json!([{ "locators": locators }]));
    assert_eq!(look["locator"], "testid");
    assert_eq!(look["tried"], json!(["testid", "role"]));
    assert_eq!(look["count"], 2);
    // Two matches are never a silent fall to the next kind.
    assert_eq!(look["element"], Value::Null);
    assert_eq!(look["sample"].as_array().unwrap().len(), 2);
    let look = page.run("look", &json!([{ "locators": [{ "kind": "css", "value": "i" }] }]));
    assert_eq!(
        (&look["locator"], &look["count"], &look["tried"]),
        (&Value::Null, &json!(0), &json!(["css"]))
    );
}

// S002-RU-05
#[test]
fn nth_counts_from_zero_in_document_order() {
    let page = Page::with("<ul><li id=a>x<li id=b>x<li id=c>x</ul>");
    let nth = |nth: u32| {
        let query = json!([{ "locators": [{ "kind": "css", "value": "li" }], "nth": nth }]);
        let look = page.run("look", &query);
        assert_eq!(look["count"], 3);
        look["element"]["description"]["id"].clone()
    };
    assert_eq!([nth(0), nth(1), nth(2), nth(3)], [json!("a"), json!("b"), json!("c"), Value::Null]);
}

#[test]
fn open_shadow_roots_are_entered_in_composed_order_and_closed_ones_are_not() {
    let page = Page::with(
        r#"<button id=first data-testid=b>One</button>
        <div id=host><template shadowrootmode=open>
          <button id=inner data-testid=b>Two</button>
          <div id=nested><template shadowrootmode=open><button id=deep data-testid=b>Three</button></template></div>
          <label id=lab>Mail <input id=mail></label><slot></slot>
        </template><button id=slotted data-testid=b>Four</button></div>
        <div id=shut><template shadowrootmode=closed><button id=hidden data-testid=b>Five</button></template></div>
        <button id=last data-testid=b>Six</button>"#,
    );
    let look = page.run("look", &json!([{ "locators": [{ "kind": "testid", "value": "b" }], "nth": 5 }]));
    assert_eq!(look["count"], 6 - 1, "the closed one is not seen");
    let ids: Vec<_> = look["sample"].as_array().unwrap().iter().map(|found| found["id"].clone()).collect();
    assert_eq!(ids, ["first", "inner", "deep", "slotted", "last"]);
    check(
        &page,
        json!({ "kind": "css", "value": "#nested button, button" }),
        &["first", "inner", "deep", "slotted", "last"],
    );
    check(&page, json!({ "kind": "role", "role": "button", "name": "Three" }), &["deep"]);
    check(&page, json!({ "kind": "text", "value": "Two" }), &["inner"]);
    check(&page, json!({ "kind": "text", "value": "Four" }), &["slotted"]);
    check(&page, json!({ "kind": "label", "value": "Mail" }), &["mail"]);
    check(&page, json!({ "kind": "xpath", "value": "//button" }), &["first", "slotted", "last"]);
    check(&page, json!({ "kind": "text", "value": "Five" }), &[]);
}

#[test]
fn the_open_shadow_root_of_each_element_that_can_have_one_is_entered_in_order() {
    let page = Page::with("<main id=around></main>");
    let found = page.page(
        "const opened = (host, id) => {
          host.attachShadow({mode: 'open'}).innerHTML = `<button data-testid=b id=${id}>x</button>`;
          return host.shadowRoot;
        };
        const madeIn = (root, name) => root.appendChild(document.createElement(name));
        const names = 'article aside blockquote div footer h1 h2 h3 h4 h5 h6 header main nav p section span x-box'.split(' ');
        for (const name of names) opened(madeIn(opened(madeIn(around, name), name), name), `${name}-within`);
        opened(document.body, 'body');
        ['body', ...names.flatMap((name) => [name, `${name}-within`])]",
    );
    let ids = found.as_array().unwrap();
    for (nth, id) in ids.iter().enumerate() {
        let query = json!([{ "locators": [{ "kind": "testid", "value": "b" }], "nth": nth }]);
        let look = page.run("look", &query);
        assert_eq!((&look["count"], &look["element"]["description"]["id"]), (&json!(ids.len()), id));
    }
}

#[test]
fn text_finds_the_smallest_visible_element_and_not_what_is_only_typed_or_hidden() {
    let page = Page::with(
        r#"<div id=outer><div id=middle><span id=small>Save</span></div></div>
        <div id=two>Save <b>all</b> now</div>
        <p id=gone hidden>Save</p><p style="visibility:hidden" id=unseen>Save</p>
        <textarea id=area>Save</textarea><input id=typed value=Save><select><option>Save</option><option selected>x</select>
        <script>/*Save*/</script><noscript>Save</noscript>
        <input id=caption type=button value=Save>
        <p id=parts>Sa<!-- -->ve</p>"#,
    );
    check(&page, json!({ "kind": "text", "value": "Save" }), &["small", "caption", "parts"]);
    check(&page, json!({ "kind": "text", "value": "Save all now" }), &["two"]);
    // A custom element's text belongs to the element that shows it.
    page.open("<x-b id=host><template shadowrootmode=open><button id=real><slot></slot></button></template>Save</x-b>");
    check(&page, json!({ "kind": "text", "value": "Save" }), &["real"]);
}

#[test]
fn labels_name_controls_however_they_are_tied_to_them() {
    let page = Page::with(
        r#"<label>Country <select id=country><option>Peru</option><option>Chile</option></select></label>
        <label for=agree><input id=agree type=checkbox> I <b>agree</b></label>
        <span id=q>Quantity</span> <span id=u>in kg</span> <input id=amount aria-labelledby="q u">
        <nav aria-label=Search id=nav></nav><input id=search aria-label=Search>
        <label for=token>Token</label><input id=token type=hidden>
        <label for=twice>Home</label><label for=twice>Address</label><input id=twice>
        <label>Name <span hidden>(required)</span><input id=name></label>"#,
    );
    for (label, control) in [
        ("Country", "country"),
        ("I agree", "agree"),
        ("Quantity in kg", "amount"),
        ("Search", "search"),
        ("Home", "twice"),
        ("Address", "twice"),
        ("Name", "name"),
    ] {
        check(&page, json!({ "kind": "label", "value": label }), &[control]);
    }
    check(&page, json!({ "kind": "label", "value": "Token" }), &[]);
    check(&page, json!({ "kind": "label", "value": "Quantity" }), &[]);
}

#[test]
fn a_locator_that_cannot_be_read_is_said_to_be_invalid() {
    let page = Page::with("<p id=p>x</p>");
    for (kind, value) in [
        ("css", "p["),
        ("css", ""),
        ("css", "p::"),
        ("css", "]]\"'\u{1f980}"),
        ("xpath", "//p["),
        ("xpath", ""),
        ("xpath", "count(//p)"),
        ("xpath", "//p/text()"),
        ("xpath", "//p/@id"),
        ("xpath", "//unknown:p"),
        ("magic", "p"),
    ] {
        let look = page.look(&json!({ "kind": kind, "value": value }));
        let message = look["invalid"].as_str().unwrap_or_else(|| panic!("{kind} {value} is read: {look}"));
        assert!(message.contains(kind), "{message}");
        assert_eq!((&look["count"], &look["element"]), (&json!(0), &Value::Null));
    }
    // What comes before it and matches decides; it is then not looked at.
    let locators = json!([{ "kind": "testid", "value": "x" }, { "kind": "css", "value": "p[" }]);
    assert_ne!(page.run("look", &json!([{ "locators": locators }]))["invalid"], Value::Null);
}

#[test]
fn any_characters_can_be_looked_for() {
    let page = Page::with("<p id=p></p>");
    for text in ["a\"b'c]\\", "\u{1f980} é\u{301}", "line\nbreak", "\u{1}", "*|*", "--", "7up", "</script>"]
    {
        page.page(&format!(
            "(() => {{ const p = document.getElementById('p'); p.setAttribute('data-testid', {0}); p.textContent = {0}; }})()",
            json!(text)
        ));
        check(&page, json!({ "kind": "testid", "value": text }), &["p"]);
        check(&page, json!({ "kind": "text", "value": text }), &["p"]);
    }
    check(&page, json!({ "kind": "testid", "value": "\u{0}" }), &[]);
    check(&page, json!({ "kind": "text", "value": "\u{0}" }), &[]);
}

#[test]
fn a_page_can_neither_see_the_script_nor_change_what_it_does() {
    let page = Page::with(
        r#"<script>
          Element.prototype.matches = () => false; Document.prototype.querySelectorAll = () => [];
          Array.prototype.push = () => 0; String.prototype.normalize = () => ""; window.getComputedStyle = null;
          Object.defineProperty(Node.prototype, "parentNode", { get: () => { throw new Error("trap"); } });
        </script>
        <div id=capataz></div><iframe name=capataz></iframe><img name=body><img name=title><img name=querySelectorAll>
        <img name=createTreeWalker><img name=getSelection><img name=execCommand><img name=activeElement>
        <img name=elementFromPoint><img name=evaluate><img name=getAnimations><img name=documentElement>
        <form id=form><input name=parentNode><input name=getAttribute><input name=localName><input name=nodeType>
          <input name=children><input name=isConnected><input name=shadowRoot><input name=matches><input name=attributes>
          <button id=b>Go</button></form><div contenteditable>x</div>"#,
    );
    assert_eq!(
        page.page("typeof Object.getOwnPropertyDescriptor(window, 'capataz')?.value?.look"),
        "undefined"
    );
    check(&page, json!({ "kind": "role", "role": "button", "name": "Go" }), &["b"]);
    check(&page, json!({ "kind": "text", "value": "Go" }), &["b"]);
    check(&page, json!({ "kind": "css", "value": "form" }), &["form"]);
    check(&page, json!({ "kind": "xpath", "value": "//button" }), &["b"]);
    assert!(page.run("settle", &json!([page.handle("#b"), LIMIT]))["rect"].is_object());
    let rich = page.handle("[contenteditable]");
    assert_eq!(page.run("clear", &json!([rich])), json!({ "ok": true }));
    let form = page.handle("form");
    for function in ["skeleton", "html", "pageText", "outline"] {
        assert_ne!(page.run(function, &json!([])), Value::Null, "{function}");
    }
    assert_eq!(page.run("snapshot", &json!([[form]]))["targets"][0]["element"]["tag"], "form");
    assert_eq!(page.run("skeleton", &json!([]))["title"], "");
}

#[test]
fn handles_stay_with_their_element_and_tell_when_it_is_gone() {
    let page = Page::with("<div id=box><button id=a>A</button></div>");
    let first = page.handle("#a");
    assert_eq!(page.handle("#a"), first);
    page.call("HeapProfiler.collectGarbage", json!({}));
    assert_eq!(page.handle("#a"), first, "a collection of garbage forgets nothing that is on the page");
    // An element that looks the same takes its place.
    page.page("document.getElementById('box').innerHTML = '<button id=a>A</button>'");
    let second = page.handle("#a");
    assert_ne!(second, first);
    for (function, arguments) in [
        ("facts", json!([first])),
        ("settle", json!([first, 1000])),
        ("focus", json!([first])),
        ("readyToFill", json!([first, ["beforeinput"]])),
        ("clear", json!([first])),
        ("setValue", json!([first, "x"])),
        ("selectOptions", json!([first, ["x"]])),
        ("submit", json!([first])),
        ("table", json!([first])),
        ("hit", json!([first, 1, 1])),
    ] {
        assert_eq!(page.run(function, &arguments)["detached"], true, "{function}");
        let mut unknown = arguments;
        unknown[0] = json!(4711);
        assert_eq!(page.run(function, &unknown)["detached"], true, "{function}");
    }
    // Moved into another document it is not in this one any more.
    page.page("document.body.append(document.createElement('iframe'))");
    page.page("frames[0].document.body.append(document.getElementById('a'))");
    assert_eq!(page.run("facts", &json!([second]))["detached"], true);
}

#[test]
fn an_element_that_came_out_of_a_frame_is_as_any_other() {
    let page = Page::with(
        "<iframe srcdoc='<input id=a><div id=host><template shadowrootmode=open><b id=b>x</b></template></div>'></iframe>",
    );
    page.script("const inner = document.querySelector('iframe').contentDocument; document.body.append(...inner.body.children)");
    assert_eq!(page.facts("#a")["editable"], true);
    assert_eq!(page.run("readyToFill", &json!([page.handle("#a"), ["beforeinput"]]))["ok"], true);
    check(&page, json!({ "kind": "text", "value": "x" }), &["b"]);
}

#[test]
fn a_big_page_is_searched_in_bounded_time_and_depth() {
    // Every second level has no box of its own: from about 2,950 boxes within one another on, Chromium 156 exhausts its
    // stack while it lays the page out, and the page crashes before anything is searched.
    let page = Page::with("<script>
        const all = document.createDocumentFragment();
        for (let n = 0; n < 30000; n += 1) { const b = document.createElement('button'); b.textContent = 'b' + n; all.append(b); }
        let deep = document.createElement('div');
        for (let n = 0, at = deep; n < 3000; n += 1) {
            const d = document.createElement('div');
            if (n % 2 === 1) d.style.display = 'contents';
            at.append(d);
            at = d;
        }
        onload = () => document.body.append(all, deep);
        </script>");
    let look = page.look(&json!({ "kind": "role", "role": "button", "name": "b29999" }));
    assert_eq!(look["count"], 1);
    assert_eq!(page.look(&json!({ "kind": "text", "value": "b17777" }))["count"], 1);
    let skeleton = page.run("skeleton", &json!([]));
    let dom = skeleton["dom"].as_str().unwrap();
    assert_eq!(dom.lines().count(), 5001);
    assert!(dom.ends_with("(25000 more)"), "{}", dom.lines().last().unwrap());
    let outline = page.run("outline", &json!([{ "max": 5000 }]));
    assert!(outline["truncated"].as_bool().unwrap() && outline["text"].as_str().unwrap().len() <= 5000);
    assert!(page.run("html", &json!([])).as_str().unwrap().contains("deeper elements are left out"));
}

#[test]
fn selectors_and_expressions_that_cannot_be_read_are_told_without_a_look() {
    let page = Page::with("<p>x</p>");
    let locators = json!([
        { "kind": "css", "value": "p" },
        { "kind": "css", "value": "p:nonsense" },
        { "kind": "xpath", "value": "//p" },
        { "kind": "xpath", "value": "//p[" },
        { "kind": "xpath", "value": "count(//p)" },
        { "kind": "css", "value": "" },
    ]);
    assert_eq!(
        page.run("unreadable", &json!([locators])),
        json!([
            null,
            "css \"p:nonsense\": SyntaxError",
            null,
            "xpath \"//p[\": SyntaxError",
            "xpath \"count(//p)\": it gives no nodes",
            "css \"\": SyntaxError",
        ])
    );
}

#[test]
fn a_text_that_is_not_seen_makes_no_element_match() {
    let page = Page::with(
        "<section id=a><span hidden>Send</span><button id=b>Send</button></section>
        <div id=c><style>Buy</style><p id=d>Buy</p></div>
        <div id=e><svg><title>Pay</title></svg><p id=f>Pay</p></div>
        <div id=g><template>Go</template><p id=h>Go</p></div>
        <button id=i><span style='display:none'>Only hidden</span></button>",
    );
    check(&page, json!({ "kind": "text", "value": "Send" }), &["b"]);
    check(&page, json!({ "kind": "text", "value": "Buy" }), &["d"]);
    check(&page, json!({ "kind": "text", "value": "Pay" }), &["f"]);
    check(&page, json!({ "kind": "text", "value": "Go" }), &["h"]);
    check(&page, json!({ "kind": "text", "value": "Only hidden" }), &[]);
}

const ORDERS: &str = r#"<!doctype html><h2 id=title>Orders</h2>
<button id=all>Open</button>
<table id=open-orders><caption>Open orders</caption>
  <tr id=r1><td>Order 16</td><td>Ana</td><td><button id=o16>Open</button><button id=d16>Delete</button></td></tr>
  <tr id=r2><td>Order <b>17</b></td><td>Ben</td><td><button id=o17>Open</button><button id=d17>Delete</button></td></tr>
</table>
<table id=closed-orders><caption>Closed orders</caption>
  <tr id=r3><td>Order 18</td><td>Ana</td><td><button id=o18>Open</button></td></tr>
</table>
<x-card id=card><template shadowrootmode=open><p>Card</p><slot></slot><button id=inner>Open</button></template>
  <button id=slotted>Open</button></x-card>"#;

#[track_caller]
fn check_query(page: &Page, query: Value, expected: &[&str]) {
    let look = page.run("look", &json!([query]));
    assert_eq!((&look["invalid"], &look["partMissing"]), (&Value::Null, &Value::Null), "{query}");
    let only = look["element"].get("description").cloned().into_iter().collect();
    let sample = look["sample"].as_array().filter(|sample| !sample.is_empty()).unwrap_or(&only);
    let ids: Vec<&str> = sample.iter().map(|found| found["id"].as_str().unwrap()).collect();
    assert_eq!(ids, expected, "{query}");
    assert_eq!(look["count"], expected.len(), "{query}");
}

fn button(name: &str) -> Value {
    json!([{ "kind": "role", "role": "button", "name": name }])
}

fn by(kind: &str, value: &str) -> Value {
    json!({ "locators": [{ "kind": kind, "value": value }] })
}

// S002-RU-11
#[test]
fn only_what_is_inside_a_container_matches() {
    let page = Page::with(ORDERS);
    let within = |container: Value| json!({ "locators": button("Open"), "within": container });
    check_query(&page, within(by("css", "#open-orders")), &["o16", "o17"]);
    check_query(
        &page,
        within(json!({ "locators": [{ "kind": "role", "role": "table", "name": "Closed orders" }] })),
        &["o18"],
    );
    // What is slotted into a component is inside of it, and so is its own tree.
    check_query(&page, within(by("css", "#card")), &["inner", "slotted"]);
    // The container itself is not inside of itself.
    let itself = json!({ "locators": [{ "kind": "css", "value": "tr" }], "within": by("css", "#r2") });
    check_query(&page, itself, &[]);
    let nested = json!({ "locators": [{ "kind": "css", "value": "tr" }], "nth": 1, "within": by("css", "#open-orders") });
    check_query(&page, within(nested), &["o17"]);
    // The first kind that matches anything inside decides, whatever it matches elsewhere.
    let locators = json!([{ "kind": "css", "value": "#all" }, { "kind": "text", "value": "Delete" }]);
    let look = page.run("look", &json!([{ "locators": locators, "within": by("css", "#r1") }]));
    assert_eq!((&look["locator"], &look["tried"]), (&json!("text"), &json!(["css"])));
    assert_eq!(look["element"]["description"]["id"], "d16");
}

#[test]
fn of_several_matches_those_in_the_smallest_element_around_a_text_count() {
    let page = Page::with(ORDERS);
    let near = |name: &str, text: &str| json!({ "locators": button(name), "near": text });
    check_query(&page, near("Open", "Order 16"), &["o16"]);
    check_query(&page, near("Open", " Order\n17 "), &["o17"]);
    check_query(&page, near("Open", "Ben"), &["o17"]);
    check_query(&page, near("Delete", "Order 17"), &["d17"]);
    check_query(&page, near("Open", "Closed orders"), &["o18"]);
    // Nothing in the row, so the table is the smallest element around the text, and then the page.
    check_query(&page, near("Delete", "Open orders"), &["d16", "d17"]);
    check_query(&page, near("Delete", "Order 18"), &["d16", "d17"]);
    check_query(&page, near("Nothing", "Order 16"), &[]);
    // In a container, a text elsewhere is no other one.
    let ana = json!({ "locators": button("Open"), "near": "Ana", "within": by("css", "#closed-orders") });
    check_query(&page, ana, &["o18"]);
}

#[test]
fn a_container_or_a_text_that_is_not_there_exactly_once_is_named() {
    let page = Page::with(ORDERS);
    let check = |query: Value, part: &str, count: u64| {
        let look = page.run("look", &json!([query]));
        assert_eq!((&look["partMissing"], &look["count"]), (&json!(part), &json!(count)), "{query}");
        assert_eq!(look["element"], Value::Null, "{query}");
        assert_eq!(look["sample"].as_array().unwrap().len() as u64, count, "{query}");
    };
    let within = |container: Value| json!({ "locators": button("Open"), "within": container });
    check(within(by("css", "#nothing")), "within", 0);
    check(within(by("css", "table")), "within", 2);
    let row =
        |table: &str| json!({ "locators": [{ "kind": "css", "value": "tr" }], "within": by("css", table) });
    check(within(row("#nothing")), "within.within", 0);
    check(within(row("#open-orders")), "within", 2);
    check(json!({ "locators": button("Open"), "near": "Ana" }), "near", 2);
    check(json!({ "locators": button("Open"), "near": "Nobody" }), "near", 0);
    let unreadable = page.run("look", &json!([within(by("css", "!!"))]));
    assert!(unreadable["invalid"].as_str().unwrap().contains("css"), "{unreadable}");
}
