//! What makes an element ready for input, and input that has no key or pointer of its own.

use serde_json::{Value, json};

use crate::support::Page;

const LOG: &str = "<script>window.seen = [];
    for (const type of ['input', 'change', 'submit'])
      addEventListener(type, (event) => { seen.push(type + '@' + event.target.id); if (type === 'submit') event.preventDefault(); }, true);
    </script>";

fn page_with(html: &str) -> Page {
    Page::with(&format!("<!doctype html>{LOG}{html}"))
}

/// What is armed for typing.
const TYPING: [&str; 1] = ["beforeinput"];

#[test]
fn typed_text_replaces_what_was_there() {
    let page = page_with(
        "<input id=a value=old><textarea id=b>old</textarea><div id=c contenteditable>old <b>text</b></div>
        <input id=d type=number value=1><input id=e type=email value=a@b>
        <div id=host><template shadowrootmode=open><input id=f value=old></template></div>",
    );
    for (css, before, text, read) in [
        ("#a", "old", "new", "value"),
        ("#b", "old", "new", "value"),
        ("#c", "old text", "new", "text"),
        ("#d", "1", "42", "value"),
        ("#e", "a@b", "c@d", "value"),
        ("#f", "old", "new", "value"),
    ] {
        let handle = page.handle(css);
        let ready = page.run("readyToFill", &json!([handle, TYPING]));
        assert_eq!((&ready["ok"], &ready["direct"]), (&json!(true), &json!(false)), "{css}");
        assert_eq!(ready["before"][read], before, "{css}");
        page.type_text(text);
        let filled = page.run("filled", &json!([handle, ready["token"]]));
        assert_eq!(filled["verdict"]["delivered"], true, "{css}: {filled}");
        assert_eq!(filled["now"][read], text, "{css}");
        assert_eq!(page.facts(css)[read], text, "{css}");
    }
}

#[test]
fn what_cannot_be_filled_says_why() {
    let page = page_with(
        "<input id=a disabled><input id=b readonly><p id=c>x</p><input id=d type=checkbox><input id=e onfocus=this.blur()>
        <input id=f onfocus=this.remove()>",
    );
    for (css, answer) in [
        ("#a", json!({ "reason": "disabled" })),
        ("#b", json!({ "reason": "not editable" })),
        ("#c", json!({ "reason": "not editable" })),
        ("#d", json!({ "reason": "not editable" })),
        ("#e", json!({ "reason": "takes no focus" })),
        ("#f", json!({ "detached": true })),
    ] {
        assert_eq!(page.run("readyToFill", &json!([page.handle(css), TYPING])), answer, "{css}");
    }
}

#[test]
fn clearing_empties_and_tells_the_page() {
    let page = page_with(
        "<input id=a value=old><div id=b contenteditable>old</div><input id=c type=date value=2026-05-04><input id=d>",
    );
    for css in ["#a", "#b", "#c", "#d"] {
        assert_eq!(page.run("clear", &json!([page.handle(css)])), json!({ "ok": true }), "{css}");
        let facts = page.facts(css);
        assert_eq!((facts["value"].as_str().unwrap_or_default(), &facts["text"]), ("", &json!("")));
    }
    // The first changes when it loses the focus, as by a person's hand.
    assert_eq!(page.page("seen"), json!(["input@a", "change@a", "input@b", "input@c", "change@c"]));
}

#[test]
fn pickers_take_values_in_the_form_that_html_gives_them() {
    let page = page_with(
        "<input id=a type=date><input id=b type=time><input id=c type=color><input id=d type=range min=0 max=10>
        <input id=e type=datetime-local><input id=f>",
    );
    for (css, value) in
        [("#a", "2026-05-04"), ("#b", "09:30"), ("#c", "#a0b1c2"), ("#d", "7"), ("#e", "2026-05-04T10:00")]
    {
        let ready = page.run("readyToFill", &json!([page.handle(css), TYPING]));
        assert_eq!(ready, json!({ "ok": true, "direct": true }), "nothing is armed for what is not typed");
        assert_eq!(page.run("setValue", &json!([page.handle(css), value])), json!({ "ok": true }), "{css}");
        assert_eq!(page.facts(css)["value"], value);
    }
    assert_eq!(page.page("seen.length"), 10);
    for (css, value) in [("#a", "4 May"), ("#b", "noon"), ("#c", "red"), ("#d", "77"), ("#e", "tomorrow")] {
        let before = page.facts(css)["value"].clone();
        let answer = page.run("setValue", &json!([page.handle(css), value]));
        assert_eq!(answer, json!({ "reason": "malformed value" }), "{css}");
        assert_eq!(page.facts(css)["value"], before);
    }
    assert_eq!(page.page("seen.length"), 10, "a page is not told of what did not happen");
    assert_eq!(page.run("setValue", &json!([page.handle("#f"), "x"])), json!({ "reason": "not a picker" }));
}

#[test]
fn options_are_selected_by_value_and_the_page_is_told_once() {
    let page = page_with(
        "<select id=a><option value=1>One<option value=2>Two<option value=3 disabled>Three</select>
        <select id=b multiple><option>x<option selected>y<option>z</select><p id=c>x</p><select id=d disabled><option>x</select>",
    );
    let select = |css: &str, values: Value| page.run("selectOptions", &json!([page.handle(css), values]));
    assert_eq!(select("#a", json!(["2"])), json!({ "ok": true, "changed": true }));
    assert_eq!(page.facts("#a")["value"], "2");
    assert_eq!(page.page("seen"), json!(["input@a", "change@a"]));
    assert_eq!(select("#a", json!(["2"])), json!({ "ok": true, "changed": false }));
    assert_eq!(page.page("seen.length"), 2);
    assert_eq!(select("#a", json!(["9"])), json!({ "reason": "no such option", "missing": ["9"] }));
    assert_eq!(select("#a", json!(["3"])), json!({ "reason": "option disabled" }));
    assert_eq!(select("#a", json!(["1", "2"])), json!({ "reason": "takes one option" }));
    assert_eq!(select("#c", json!(["x"])), json!({ "reason": "not a select" }));
    assert_eq!(select("#d", json!(["x"])), json!({ "reason": "disabled" }));
    assert_eq!(select("#b", json!(["x", "z"])), json!({ "ok": true, "changed": true }));
    let selected: Vec<_> =
        page.facts("#b")["options"].as_array().unwrap().iter().map(|o| o["selected"].clone()).collect();
    assert_eq!(selected, [true, false, true]);
    assert_eq!(page.facts("#a")["value"], "2", "what was refused changed nothing");
}

#[test]
fn forms_are_submitted_as_by_their_button_unless_they_are_invalid() {
    let page = page_with(
        "<form id=f><input id=a required><input name=elements><input name=requestSubmit><button id=b>Go</button></form>
        <form id=g><button id=c disabled>Go</button><input id=d></form><input id=lone><form id=h novalidate><input id=i required></form>
        <form method=dialog><button>No</button><button id=j><b id=k>Yes</b></button><label id=l for=j>Sure</label></form>",
    );
    let submit = |css: &str| page.run("submit", &json!([page.handle(css)]));
    let invalid = submit("#f");
    assert_eq!((&invalid["reason"], &invalid["fields"][0]["id"]), (&json!("invalid"), &json!("a")));
    assert_eq!(page.page("seen"), json!([]));
    page.page("document.getElementById('a').value = 'x'");
    assert_eq!(submit("#a"), json!({ "ok": true }));
    assert_eq!(submit("#d"), json!({ "reason": "disabled" }));
    assert_eq!(submit("#lone"), json!({ "reason": "no form" }));
    assert_eq!(submit("#i"), json!({ "ok": true }));
    // A button is to be clicked, by whatever it is named: it may not be the first of its form.
    for css in ["#b", "#j", "#k", "#l"] {
        assert_eq!(submit(css), json!({ "ok": true, "direct": true }), "{css}");
    }
    assert_eq!(page.page("seen"), json!(["submit@f", "submit@h"]));
}

#[test]
fn focus_goes_to_what_takes_it() {
    let page = page_with("<button id=a>A</button><p id=b>x</p><p id=c tabindex=-1>x</p>");
    assert_eq!(page.run("focus", &json!([page.handle("#a")])), json!({ "ok": true }));
    assert_eq!(page.page("document.activeElement.id"), "a");
    assert_eq!(page.run("focus", &json!([page.handle("#b")])), json!({ "reason": "takes no focus" }));
    assert_eq!(page.run("focus", &json!([page.handle("#c")])), json!({ "ok": true }));
}
