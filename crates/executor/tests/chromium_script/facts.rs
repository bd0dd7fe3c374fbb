//! What is to be known of an element.

use capataz_executor::chromium::script::function;
use serde_json::{Value, json};

use crate::support::Page;

#[track_caller]
fn check(page: &Page, css: &str, expected: Value) {
    let facts = page.facts(css);
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&facts[name], value, "{name} of {css}: {facts}");
    }
}

#[test]
fn visible_is_what_has_a_box_and_is_not_hidden() {
    let page = Page::with(
        "<p id=a>x</p><p id=b hidden>x</p><p id=c style='visibility:hidden'>x</p><p id=d style='opacity:0'>x</p>
        <p id=e></p><div style='content-visibility:hidden'><p id=f>x</p></div>
        <div style='display:contents' id=g>x</div><p id=h style='position:absolute;top:9000px'>x</p>
        <details><summary>s</summary><p id=i>x</p></details>",
    );
    for (css, visible, in_viewport) in [
        ("#a", true, true),
        ("#b", false, false),
        ("#c", false, false),
        ("#d", true, true),
        ("#e", false, false),
        ("#f", false, false),
        ("#g", true, true),
        ("#h", true, false),
        ("#i", false, false),
    ] {
        check(&page, css, json!({ "attached": true, "visible": visible, "inViewport": in_viewport }));
    }
}

#[test]
fn enabled_follows_forms_aria_and_inertness() {
    let page = Page::with(
        "<button id=a>x</button><button id=b disabled>x</button><fieldset disabled><input id=c></fieldset>
        <div aria-disabled=true><div id=d role=button>x</div></div><div inert><button id=e>x</button></div>
        <select><option id=f disabled>x</select>",
    );
    for (css, enabled) in
        [("#a", true), ("#b", false), ("#c", false), ("#d", false), ("#e", false), ("#f", false)]
    {
        check(&page, css, json!({ "enabled": enabled }));
    }
}

#[test]
fn editable_and_value_are_those_of_what_takes_text() {
    let page = Page::with(
        "<input id=a value='a b'><textarea id=b>t</textarea><input id=c readonly value=r><input id=d disabled>
        <div id=e contenteditable><b id=f>text</b></div><input id=g type=checkbox value=v><input id=h type=date>
        <select id=i><option value=1>One<option value=2 selected disabled> Two  halves </select>
        <p id=j>x</p><input id=k type=password value=hunter2>",
    );
    check(
        &page,
        "#a",
        json!({ "editable": true, "value": "a b", "inputType": "text", "secret": false, "text": "" }),
    );
    check(&page, "#b", json!({ "editable": true, "value": "t", "inputType": null, "text": "" }));
    check(&page, "#c", json!({ "editable": false, "value": "r" }));
    check(&page, "#d", json!({ "editable": false }));
    check(&page, "#e", json!({ "editable": true, "value": null, "text": "text" }));
    check(&page, "#f", json!({ "editable": true }));
    check(&page, "#g", json!({ "editable": false, "value": "v", "checked": false }));
    check(&page, "#h", json!({ "editable": true, "value": "", "inputType": "date" }));
    let options = json!([
        { "value": "1", "label": "One", "selected": false, "disabled": false },
        { "value": "2", "label": "Two halves", "selected": true, "disabled": true },
    ]);
    check(&page, "#i", json!({ "value": "2", "options": options, "multiple": false, "text": "Two halves" }));
    check(&page, "#j", json!({ "value": null, "options": [], "checked": null, "editable": false }));
    check(&page, "#k", json!({ "value": "hunter2", "secret": true }));
}

#[test]
fn checked_is_told_of_what_can_be_checked() {
    let page = Page::with(
        "<input id=a type=checkbox checked><input id=b type=radio><div id=c role=switch aria-checked=true>x</div>
        <div id=d role=checkbox>x</div><div id=e role=checkbox aria-checked=mixed>x</div>
        <div id=f role=treeitem aria-checked=true>x</div><button id=g aria-pressed=true>x</button>",
    );
    for (css, checked) in [
        ("#a", Some(true)),
        ("#b", Some(false)),
        ("#c", Some(true)),
        ("#d", Some(false)),
        ("#e", Some(false)),
        ("#f", Some(true)),
        ("#g", None),
    ] {
        check(&page, css, json!({ "checked": checked }));
    }
}

#[test]
fn text_is_as_it_is_read() {
    let page = Page::with(
        "<div id=a> one\n<b>two</b>three<p>four</p><br>five <i hidden>six</i><script>7</script>
        <select><option>8<option selected>nine</select><input value=ten><input type=submit value=Eleven></div>
        <div id=b style='visibility:hidden'>x<b style='visibility:visible'>y</b></div>
        <p id=c style='text-transform:uppercase'>Plain</p>
        <div id=d><template shadowrootmode=open>in <slot></slot></template>out</div>
        <div id=e>shown <span id=pin class=pin>1234</span></div>",
    );
    check(&page, "#a", json!({ "text": "one twothree four five nine Eleven" }));
    check(&page, "#b", json!({ "text": "y" }));
    check(&page, "#c", json!({ "text": "Plain" }));
    check(&page, "#d", json!({ "text": "in out" }));
    // What is secret is masked in what is around it; of itself it is told, and that it is secret.
    let redaction = json!({ "selectors": [".pin"] });
    let outer = page.run("facts", &json!([page.handle("#e"), [], redaction]));
    assert_eq!((&outer["text"], &outer["secret"]), (&json!("shown [redacted]"), &json!(false)));
    let inner = page.run("facts", &json!([page.handle("#pin"), [], redaction]));
    assert_eq!((&inner["text"], &inner["secret"]), (&json!("1234"), &json!(true)));
}

#[test]
fn attributes_and_destinations_are_told() {
    let page = Page::with(
        "<a id=a href='/next?q=1' data-n='7'><b id=b>x</b></a><form action=/save><input id=c><button id=d>x</button>
        <button id=e formaction=//other.test/x><b id=l>x</b></button><button id=f type=button>x</button>
        <label id=m for=e>x <i id=n>y</i></label></form>
        <form><input name=action><button id=g>x</button></form><form method=dialog><button id=h>x</button></form>
        <p id=i>x</p><svg><a id=j href=/svg><text>x</text></a></svg><a id=k href='javascript:void 0'>x</a>",
    );
    let here = page.page("location.href");
    let facts = page.run("facts", &json!([page.handle("#a"), ["data-n", "href", "nothing"]]));
    assert_eq!(facts["attributes"], json!({ "data-n": "7", "href": "/next?q=1" }));
    for (css, destination) in [
        ("#a", json!(page.url("/next?q=1"))),
        ("#b", json!(page.url("/next?q=1"))),
        ("#c", json!(page.url("/save"))),
        ("#d", json!(page.url("/save"))),
        ("#e", json!("http://other.test/x")),
        ("#f", json!(page.url("/save"))),
        ("#g", here),
        ("#h", Value::Null),
        ("#i", Value::Null),
        ("#j", json!(page.url("/svg"))),
        ("#k", json!("javascript:void 0")),
        ("#l", json!("http://other.test/x")),
        ("#m", json!("http://other.test/x")),
        ("#n", json!("http://other.test/x")),
    ] {
        check(&page, css, json!({ "destination": destination }));
    }
}

#[test]
fn what_covers_an_element_is_described_by_its_layer() {
    let page = Page::with(
        "<style>body{margin:0} button{width:100px;height:40px}</style>
        <button id=a>A</button><button id=b>B<i>!</i></button><br>
        <label id=l style='position:relative;display:inline-block'><input id=c type=checkbox style='opacity:0;width:80px;height:20px'>
          <span style='position:absolute;inset:0;background:red'>fake</span></label>
        <div id=veil style='position:fixed;left:0;top:0;width:100px;height:40px'><p style='margin:0;height:40px'>Please wait</p></div>",
    );
    check(&page, "#b", json!({ "coveredBy": null }));
    check(&page, "#c", json!({ "coveredBy": null, "visible": true }));
    let covered = page.facts("#a");
    assert_eq!(covered["coveredBy"]["id"], "veil", "{covered}");
    assert_eq!(covered["coveredBy"]["name"], "Please wait");
    assert_eq!(covered["coveredBy"]["path"], "div#veil");
    // It takes no events, so nothing is covered.
    page.page("document.getElementById('veil').style.pointerEvents = 'none'");
    check(&page, "#a", json!({ "coveredBy": null }));
}

#[test]
fn file_inputs_tell_how_many_and_which_files_they_have() {
    let page = Page::with("<input id=a type=file><input id=b type=file multiple>");
    check(&page, "#a", json!({ "inputType": "file", "multiple": false, "files": [], "value": null }));
    check(&page, "#b", json!({ "multiple": true }));
    let folder = tempfile::tempdir().unwrap();
    let files = ["one.txt", "two.txt"].map(|name| folder.path().join(name));
    for file in &files {
        std::fs::write(file, "x").unwrap();
    }
    let handle = page.handle("#b");
    let node = page.object(&format!("capataz.node({handle})"));
    page.call("DOM.setFileInputFiles", json!({ "objectId": node, "files": files }));
    check(&page, "#b", json!({ "files": ["one.txt", "two.txt"], "value": null }));
}

#[test]
fn what_lies_in_a_disabled_control_is_disabled_with_it() {
    let page = Page::with(
        "<button disabled><b id=a>x</b></button><button><b id=b>x</b></button>
        <fieldset disabled><legend><button id=c><i id=d>x</i></button><span id=e>l</span></legend>
        <button><i id=f>x</i></button><span id=g>x</span><a id=h href=/x>x</a></fieldset>",
    );
    for (css, enabled) in [
        ("#a", false),
        ("#b", true),
        ("#c", true),
        ("#d", true),
        ("#e", true),
        ("#f", false),
        ("#g", false),
        ("#h", true),
    ] {
        let facts = page.facts(css);
        assert_eq!(facts["enabled"], enabled, "{css}: {facts}");
    }
}

#[test]
fn what_submits_a_form_is_known_by_its_button_its_label_and_the_key_enter() {
    let page = Page::with(
        "<form><input id=a><button id=b><b id=c>Send</b></button><button id=d type=button>x</button>
        <label id=e for=b>Send it</label><textarea id=f></textarea><input id=g type=image></form>
        <form><input id=h></form><form><input id=i><input id=j></form>
        <dialog open><form method=dialog><button id=k>Close</button></form></dialog>
        <button id=l>x</button><input id=m><form><select id=n></select><button>Send</button></form>
        <form><select id=o></select></form>",
    );
    for (css, submits, by_enter) in [
        ("#a", false, true),
        ("#b", true, true),
        ("#c", true, true),
        ("#d", false, false),
        ("#e", true, true),
        ("#f", false, false),
        ("#g", true, true),
        ("#h", false, true),
        ("#i", false, false),
        ("#k", false, false),
        ("#l", false, false),
        ("#m", false, false),
        ("#n", false, true),
        ("#o", false, false),
    ] {
        let facts = page.facts(css);
        assert_eq!(
            (&facts["submits"], &facts["submitsByEnter"]),
            (&json!(submits), &json!(by_enter)),
            "{css}"
        );
    }
}

#[test]
fn a_key_that_is_pressed_on_what_contains_the_focus_submits_what_that_would() {
    let page = Page::with(
        "<form id=a><input id=b><textarea id=c></textarea><button id=d>Send</button></form><p id=e></p><div id=f></div>
        <form><label id=g>Mail<input></label></form><x-field id=h></x-field>
        <script>f.attachShadow({mode: 'open', delegatesFocus: true}).innerHTML = '<form><input></form>';
        h.attachShadow({mode: 'closed', delegatesFocus: true}).innerHTML = '<form><input></form>'</script>",
    );
    let keys = |css: &str| {
        let facts = page.facts(css);
        (facts["submitsByEnter"] == true, facts["submitsBySpace"] == true)
    };
    assert_eq!(keys("#a"), (false, false));
    for (focused, expected) in [("#b", (true, false)), ("#c", (false, false)), ("#d", (true, true))] {
        page.run(function::FOCUS, &json!([page.handle(focused)]));
        assert_eq!(keys("#a"), expected, "{focused}");
        assert_eq!(keys("#e"), (false, false));
        let focus = page.run(function::FOCUSED_KEYS, &json!([]));
        let expected = json!({"submitsByEnter": expected.0, "submitsBySpace": expected.1, "hiddenIn": null});
        assert_eq!(focus, expected, "{focused}");
    }
    // The browser gives the focus to the first control in it.
    assert_eq!(keys("#f"), (true, false));
    // That of a label is its control, and what nobody can look into may submit anything.
    assert_eq!(keys("#g"), (true, false));
    assert_eq!(keys("#h"), (true, true));
}

#[test]
fn an_element_that_can_have_a_closed_shadow_root_and_has_the_focus_may_have_it_anywhere() {
    let page = Page::with(
        "<div id=a></div><section id=b></section><div id=c contenteditable></div><p id=d>x</p><div id=e tabindex=0></div>
        <div id=g></div><script>
        const close = (host, delegatesFocus) => {
          const root = host.attachShadow({mode: 'closed', delegatesFocus});
          root.innerHTML = '<form><input></form>';
          return root.querySelector('input');
        };
        const inner = {a: close(a, false), b: close(b, true)};
        g.attachShadow({mode: 'open'}).innerHTML = '<button type=button>x</button>';
        </script>",
    );
    let focused = || {
        let keys = page.run(function::FOCUSED_KEYS, &json!([]));
        (keys["submitsByEnter"] == true, keys["submitsBySpace"] == true)
    };
    // Nothing has the focus.
    assert_eq!(focused(), (false, false));
    for (script, hidden) in [
        ("inner.a.focus()", true),
        ("inner.b.focus()", true),
        ("c.focus()", true),
        ("e.focus()", true),
        ("g.shadowRoot.querySelector('button').focus()", false),
        ("document.activeElement.blur()", false),
    ] {
        page.page(script);
        assert_eq!(focused(), (hidden, hidden), "{script}");
    }
    // Of an element without the focus nothing is hidden.
    assert_eq!(page.facts("#d")["submitsByEnter"], false);
    // Whether there is a closed shadow root only the browser can tell; where there is none, nothing is hidden.
    for css in ["#c", "#e"] {
        page.run(function::FOCUS, &json!([page.handle(css)]));
        let keys = page.run(function::FOCUSED_KEYS, &json!([]));
        assert_eq!(keys["hiddenIn"], page.handle(css), "{css}");
        page.run(function::MARK_PLAIN, &json!([page.handle(css)]));
        assert_eq!(focused(), (false, false), "{css}");
        assert_eq!(page.facts(css)["submitsByEnter"], false, "{css}");
    }
    // Nothing else of the page is shown any more.
    page.page("close(document.body, false).focus()");
    assert_eq!(focused(), (true, true));
}

#[test]
fn a_control_that_is_not_seen_names_the_label_that_is() {
    let page = Page::with(
        "<input id=a type=checkbox style='display:none'><label id=b for=a>Terms</label>
        <input id=c type=checkbox style='display:none'><label hidden for=c>x</label>
        <input id=d type=checkbox><label for=d>x</label>",
    );
    assert_eq!(page.facts("#a")["label"], page.handle("#b"));
    assert_eq!(page.facts("#b")["control"], page.handle("#a"));
    assert_eq!(page.facts("#c")["label"], Value::Null);
    assert_eq!(page.facts("#d")["label"], Value::Null);
}

#[test]
fn what_lies_in_a_label_names_its_control_unless_it_takes_the_click() {
    let page = Page::with(
        "<label tabindex=0 id=a><input id=b type=checkbox><span id=c><i id=d>I agree</i></span> to
        <a id=e href=/x><b id=f>them</b></a><input id=g></label><label id=h>x</label><p id=i>x</p>",
    );
    for css in ["#a", "#c", "#d"] {
        assert_eq!(page.facts(css)["control"], page.handle("#b"), "{css}");
    }
    for css in ["#b", "#e", "#f", "#g", "#h", "#i"] {
        assert_eq!(page.facts(css)["control"], Value::Null, "{css}");
    }
}

#[test]
fn what_a_click_is_for_is_named_besides_its_target() {
    let page = Page::with(
        "<main aria-label=Delete role=main><table role=grid><tr><td>Row
        <button id=a aria-label=Drop><i><b id=b>x</b></i></button></table>
        <div role=menuitem>Remove <span id=c>it</span></div><a href=/>Leave <b id=d>now</b></a><p id=e>x</p>
        <label>Empty <i id=f>all</i><input type=checkbox id=g></label></main>",
    );
    for (css, names) in [
        ("#a", json!([])),
        ("#b", json!(["Drop"])),
        ("#c", json!(["Remove it"])),
        ("#d", json!(["Leave now"])),
        ("#e", json!([])),
        ("#f", json!(["Empty all"])),
        ("#g", json!([])),
    ] {
        check(&page, css, json!({ "usedNames": names }));
    }
}
