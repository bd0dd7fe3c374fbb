//! What must never leave a page in clear.

use serde_json::{Value, json};

use crate::support::Page;

/// Every value that is secret has this in it, in all of its places.
const SECRET: &str = "hunter2";

const PAGE: &str = r#"<!doctype html><title>Pay</title><meta name=csrf-token content="hunter2-meta">
<form action=/pay>
  <label>Password <input id=a type=password value="hunter2-a"></label>
  <input id=b type=hidden name=csrf value="hunter2-b">
  <input id=c autocomplete="section-x cc-number" value="hunter2-c" data-copy="hunter2-c2">
  <input id=d autocomplete=one-time-code value="hunter2-d">
  <input id=e style="-webkit-text-security:disc" value="hunter2-e">
  <textarea id=f class=private>hunter2-f</textarea>
  <div id=g class=private>Iban <b title="hunter2-g1">hunter2-g</b> <a href="/hunter2-g2">hunter2-g3</a><!--hunter2-g4-->
    <div id=shadow><template shadowrootmode=open><p>hunter2-g5</p></template></div><template><i title="hunter2-g6">hunter2-g7</i></template></div>
  <select id=h class=private><option>hunter2-h</option></select>
  <button id=i>Pay <span class=private>hunter2-i</span></button>
  <label>Card <span class=private>hunter2-j</span> <input id=j name=j value=plain></label>
  <input id=k value=plain-value><a id=l href=/plain-link>Plain link</a><h1 id=m>Plain heading</h1>
</form>"#;

fn redaction() -> Value {
    json!({ "selectors": [".private", "[data-never]"] })
}

// S002-EV-09
#[test]
fn no_secret_is_in_anything_that_is_kept() {
    let page = Page::with(PAGE);
    page.page("document.getElementById('a').value = 'hunter2-typed'");
    let ids = ["a", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let handles: Vec<_> = ids.iter().map(|id| page.handle(&format!("#{id}"))).collect();
    let outputs = [
        ("skeleton", page.run("skeleton", &json!([redaction()]))),
        ("snapshot", page.run("snapshot", &json!([handles[..5], redaction()]))),
        ("snapshot", page.run("snapshot", &json!([handles[5..], redaction()]))),
        ("html", page.run("html", &json!([redaction()]))),
        ("outline", page.run("outline", &json!([{ "redaction": redaction() }]))),
        ("pageText", page.run("pageText", &json!([redaction()]))),
        ("drawnText", page.run("drawnText", &json!([redaction()]))),
    ];
    for (function, output) in &outputs {
        let output = output.to_string();
        assert!(!output.contains(SECRET), "{function}: {output}");
        assert!(output.contains("lain"), "{function} has the rest: {output}");
    }
    for id in ids {
        let look = page.run(
            "look",
            &json!([{ "locators": [{ "kind": "css", "value": format!("#{id}") }] }, redaction()]),
        );
        assert!(!look["sample"].to_string().contains(SECRET), "{look}");
        assert!(!look["element"]["description"].to_string().contains(SECRET), "{look}");
        assert_eq!(look["element"]["facts"]["secret"], !["i", "j", "k"].contains(&id), "{id}");
        if !look["element"]["facts"]["secret"].as_bool().unwrap() {
            assert!(!look["element"]["facts"].to_string().contains(SECRET), "{look}");
        }
    }
    // The test would see them: without a redaction they are there.
    assert!(page.run("pageText", &json!([])).as_str().unwrap().contains("hunter2-g5"));
    assert_eq!(page.facts("#a")["value"], "hunter2-typed");
}

#[test]
fn secret_inputs_only_tell_whether_they_are_filled() {
    let page = Page::with("<input type=password id=a aria-label=Pin>");
    let inputs = || page.run("skeleton", &json!([]))["inputs"].clone();
    let empty = inputs();
    page.page("document.getElementById('a').value = 'hunter2'");
    let filled = inputs();
    page.page("document.getElementById('a').value = 'another'");
    assert_ne!(empty, filled);
    assert_eq!(filled, inputs());
}

#[test]
fn a_password_that_is_shown_stays_secret() {
    let page = Page::with("<input type=password id=a value=hunter2>");
    page.run("skeleton", &json!([]));
    page.page("document.getElementById('a').type = 'text'");
    assert_eq!(page.facts("#a")["secret"], true);
    assert!(!page.run("skeleton", &json!([])).to_string().contains(SECRET));
    assert!(!page.run("html", &json!([])).to_string().contains(SECRET));
}

#[test]
fn boxes_cover_all_that_is_secret() {
    let page = Page::with(
        "<style>body{margin:0} *{font:16px monospace}</style>
        <input id=a type=password style='position:absolute;left:10px;top:10px;width:100px;height:20px'>
        <div class=private style='position:absolute;left:200px;top:0;width:20px;height:20px;white-space:nowrap'>it sticks out
          <b style='position:absolute;left:300px'>far</b></div>
        <input id=c type=hidden><input id=d type=password hidden>",
    );
    let boxes = page.run("secretBoxes", &json!([redaction()]));
    let covers = |x: f64, y: f64| {
        boxes.as_array().unwrap().iter().any(|area| {
            let side = |name: &str| area[name].as_f64().unwrap();
            (side("x")..side("x") + side("width")).contains(&x)
                && (side("y")..side("y") + side("height")).contains(&y)
        })
    };
    assert!(covers(60.0, 20.0), "the input: {boxes}");
    assert!(covers(210.0, 10.0) && covers(300.0, 10.0), "the text that sticks out: {boxes}");
    assert!(covers(510.0, 10.0), "what is placed elsewhere: {boxes}");
    assert!(!covers(150.0, 20.0) && !covers(60.0, 100.0), "nothing else: {boxes}");
    assert_eq!(page.run("secretBoxes", &json!([])).as_array().unwrap().len(), 1);
}

#[test]
fn a_redaction_that_cannot_be_read_is_an_error_and_no_empty_mask() {
    let page = Page::with("<p>x</p>");
    for call in [
        "skeleton({selectors:['p[']})",
        "snapshot([], {selectors:['p[']})",
        "html({selectors:['p[']})",
        "outline({redaction:{selectors:['p[']}})",
        "secretBoxes({selectors:['p[']})",
        "pageText({selectors:['p[']})",
        "drawnText({selectors:['p[']})",
        "look({locators:[{kind:'css',value:'p'}]}, {selectors:['p[']})",
    ] {
        let error = page.fallible(&format!("capataz.{call}")).unwrap_err();
        assert!(error.contains("the redaction selector \"p[\" cannot be read"), "{call}: {error}");
    }
    // Each selector stands for itself, also one that a browser would close at its end.
    let text = page.run("pageText", &json!([{ "selectors": [":is(b", "p"] }]));
    assert_eq!(text, "[redacted]");
}
