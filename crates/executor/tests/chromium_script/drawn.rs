//! The text that is drawn, and where its parts are.

use serde_json::{Value, json};

use crate::support::Page;

fn text(page: &Page) -> String {
    page.script("capataz.drawnText()").as_str().unwrap().to_owned()
}

/// Boxes of all places where the text that is drawn has this; the text is ASCII.
fn boxes(page: &Page, wanted: &str) -> Vec<[f64; 4]> {
    let text = text(page);
    let ranges: Vec<_> = text.match_indices(wanted).map(|(at, _)| (at, at + wanted.len())).collect();
    sides(&page.run("drawnBoxes", &json!([ranges])))
}

fn sides(boxes: &Value) -> Vec<[f64; 4]> {
    let side = |area: &Value| ["x", "y", "width", "height"].map(|name| area[name].as_f64().unwrap());
    boxes.as_array().unwrap().iter().map(side).collect()
}

const MONO: &str = "<!doctype html><style>body{margin:0} *{font:20px/20px monospace} p,div{margin:0}</style>";

/// The width of one character.
fn advance(page: &Page) -> f64 {
    page.page(
        "{const s = document.createElement('span'); s.textContent = 'x'.repeat(100); s.style.position = 'absolute';
        document.body.append(s); const w = s.getBoundingClientRect().width / 100; s.remove(); w}",
    )
    .as_f64()
    .unwrap()
}

#[test]
fn it_is_what_a_person_reads_line_by_line_with_what_controls_show() {
    let page = Page::with(&format!(
        "{MONO}<title>no</title><h1>A   card\n of\tmine</h1><p>4111&nbsp;<b>1111</b>\n <i> 1111</i> 1111<br>next</p>
        <label>Key: <input value='k  1'></label><input placeholder=Hint><input type=checkbox value=no>
        <select><option>Red<option selected>Blue</select><select multiple><option>One<option>Two</select>
        <input type=submit value=Send><textarea>two\nlines</textarea><button>Go</button>
        <pre>a  b\nc</pre><p hidden>no</p><script>'no'</script><details><summary>More</summary>no</details>
        <div style='visibility:hidden'>no<b style='visibility:visible'>yes</b></div>
        <div id=host>no<template shadowrootmode=open><slot name=s></slot>deep</template></div>
        <input type=password value=no><input type=hidden value=no>"
    ));
    let lines = [
        "A card of mine",
        "4111 1111 1111 1111",
        "next",
        "Key: ",
        "k  1",
        "Hint",
        "Blue",
        "One",
        "Two",
        "Send",
        "two",
        "lines",
        "Go",
        "a  b",
        "c",
        "More",
        "yes",
        "deep",
        "[redacted]",
    ];
    let text = text(&page);
    let read: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let trimmed = |lines: &[&str]| lines.iter().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(trimmed(&read), trimmed(&lines), "{text:?}");
}

#[test]
fn boxes_cover_the_text_alone_in_each_place() {
    let page = Page::with(&format!(
        "{MONO}<p>key sk-1 and <b>sk-1</b></p><div id=host><template shadowrootmode=open><i>sk-1</i></template></div>
        <input value='a sk-1' style='display:block;width:99px;height:30px;padding:0;border:0'><p hidden>sk-1</p>
        <textarea style='display:none'>sk-1</textarea><p>sk-2</p>"
    ));
    let width = advance(&page);
    let boxes = boxes(&page, "sk-1");
    let expected = [
        (4.0 * width, 0.0, 4.0 * width),
        (13.0 * width, 0.0, 4.0 * width),
        (0.0, 20.0, 4.0 * width),
        (0.0, 40.0, 99.0),
    ];
    assert_eq!(boxes.len(), expected.len(), "{boxes:?}");
    for ([x, y, wide, high], expected) in boxes.iter().zip(expected) {
        let near = |a: f64, b: f64| (a - b).abs() < 4.0;
        assert!(
            near(*x, expected.0) && near(*y, expected.1) && near(*wide, expected.2) && *high >= 20.0,
            "{boxes:?}"
        );
    }
}

#[test]
fn a_text_that_is_spread_over_elements_and_white_space_has_a_box_for_each_part() {
    let page = Page::with(&format!("{MONO}<p>no  4111\n <b>1111</b>   1111&nbsp;1111 no</p>"));
    let width = advance(&page);
    let boxes = boxes(&page, "4111 1111 1111 1111");
    let left = boxes.iter().map(|area| area[0]).fold(f64::INFINITY, f64::min);
    let right = boxes.iter().map(|area| area[0] + area[2]).fold(0.0, f64::max);
    assert!((left - 3.0 * width).abs() < 2.0 && (right - 22.0 * width).abs() < 2.0, "{boxes:?}");
    // Ranges in one node, of which the second begins after more white space than is drawn.
    let page = Page::with(&format!("{MONO}<p>  a \n\n b   c</p>"));
    let text = text(&page);
    let at = text.find('b').unwrap();
    let found = sides(&page.run("drawnBoxes", &json!([[[at, at + 1], [at + 2, at + 3]]])));
    let lefts: Vec<f64> = found.iter().map(|area| (area[0] / width).round()).collect();
    assert_eq!(lefts, [2.0, 4.0]);
}

#[test]
fn a_text_that_changes_after_it_was_read_is_covered_whatever_it_became() {
    let page = Page::with(&format!("{MONO}<p id=a>sk-1</p><div id=b><span>sk-1</span></div><p>plain</p>"));
    let text = text(&page);
    let ranges: Vec<_> = text.match_indices("sk-1").map(|(at, _)| (at, at + 4)).collect();
    page.page("document.querySelector('#a').firstChild.data = 'now it is longer'");
    page.page("document.querySelector('#b').firstChild.textContent = 'and this is another node'");
    let width = advance(&page);
    let boxes = sides(&page.run("drawnBoxes", &json!([ranges])));
    let widths: Vec<f64> = boxes.iter().map(|area| (area[2] / width).round()).collect();
    assert_eq!(widths, [16.0, 24.0], "{boxes:?}");
    page.page("document.querySelector('#b').innerHTML = '<span>gone</span>'");
    let boxes = sides(&page.run("drawnBoxes", &json!([&ranges[1..]])));
    let bottom = boxes.iter().map(|area| area[1] + area[3]).fold(0.0, f64::max);
    assert!(bottom >= 60.0, "all of the page: {boxes:?}");
}

#[test]
fn the_caret_is_hidden_while_its_field_has_the_focus_and_nobody_is_told() {
    let page = Page::with(
        "<style>input { caret-color: rgb(1, 2, 3) }</style><input id=a><input id=b><button id=c>c</button><script>
         globalThis.told = [];
         new MutationObserver((records) => told.push(...records)).observe(document, { subtree: true, attributes: true, childList: true });
         for (const type of ['animationstart', 'animationend', 'animationcancel', 'transitionrun', 'transitionstart'])
           addEventListener(type, () => told.push(type), true);
         </script>",
    );
    let colours = || page.page("[a, b].map((field) => getComputedStyle(field).caretColor)");
    let (shown, hidden) = ("rgb(1, 2, 3)", "rgba(0, 0, 0, 0)");
    assert_eq!(colours(), json!([shown, shown]));
    page.run("focus", &json!([page.handle("#a")]));
    assert_eq!(colours(), json!([hidden, shown]));
    let settled = page.run("settle", &json!([page.handle("#a"), 1000]));
    assert_eq!(settled["rested"], true, "hiding the caret is not a movement of the page: {settled}");
    // The page itself gives the focus to another field.
    page.page("b.focus()");
    page.run("beforePicture", &json!([null]));
    assert_eq!(colours(), json!([shown, hidden]));
    page.run("focus", &json!([page.handle("#c")]));
    assert_eq!(colours(), json!([shown, shown]));
    assert_eq!(page.page("document.getAnimations().length"), 0);
    assert_eq!(page.page("told.length"), 0);
}
