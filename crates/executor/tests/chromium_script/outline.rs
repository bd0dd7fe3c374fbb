//! The page for a model to read, and tables as data.

use serde_json::{Value, json};

use crate::support::Page;

const PAGE: &str = r#"<!doctype html><title>t</title><nav aria-label=Main><ul><li><a href=/>Home</a></ul></nav>
<main><h1>Orders <a href=#h>#</a></h1><p>Three are <b>open</b>.</p><p hidden>never</p>
<form aria-label=Search><label for=q>Find</label><input id=q value=A><input type=password aria-label=Pin value=hunter2>
<button disabled>Go</button></form>
<table><tr><th>Name<th>Sum<tr><td>Ann<td><button>Pay</button></table></main>"#;

/// Without references, which depend on what was looked at before.
fn shape(page: &Page) -> String {
    let outline = page.run("outline", &json!([]));
    let text = outline["text"].as_str().unwrap();
    let without = |line: &str| match line.split_once(" [ref=") {
        Some((before, after)) => format!("{before}{}\n", after.split_once(']').unwrap().1),
        None => format!("{line}\n"),
    };
    text.lines().map(without).collect()
}

#[test]
fn an_outline_has_a_line_for_all_that_can_be_read_or_used() {
    let page = Page::with(PAGE);
    let expected = r##"navigation "Main"
  list
    listitem
      link "Home"
main
  heading "Orders #" [level=1]
    link "#"
  text "Three are open."
  form "Search"
    text "Find"
    textbox "Find" [value="A"]
    textbox "Pin" [filled]
    button "Go" [disabled]
  table
    row
      columnheader: "Name"
      columnheader: "Sum"
    row
      cell: "Ann"
      cell
        button "Pay"
"##;
    assert_eq!(shape(&page), expected);
}

fn references(page: &Page) -> Vec<String> {
    let outline = page.run("outline", &json!([{ "prefix": "" }]));
    let text = outline["text"].as_str().unwrap().to_owned();
    text.lines()
        .filter_map(|line| line.split_once("[ref=")?.1.split_once(']'))
        .map(|(reference, _)| reference.to_owned())
        .collect()
}

#[test]
fn references_stay_with_their_elements_and_never_pass_to_others() {
    let page = Page::with("<div id=box><button id=a>A</button><button id=b>B</button></div>");
    let first = references(&page);
    assert_eq!(first.len(), 2);
    assert_eq!(references(&page), first);
    let by = |reference: &str| page.look(&json!({ "kind": "ref", "value": reference }));
    assert_eq!(by(&first[1])["element"]["description"]["id"], "b");
    page.page("document.getElementById('box').prepend(document.getElementById('b'))");
    assert_eq!(by(&first[1])["element"]["description"]["id"], "b");
    page.page("document.getElementById('b').outerHTML = '<button id=b>B</button>'");
    let stale = by(&first[1]);
    assert_eq!(
        (&stale["count"], &stale["element"], &stale["tried"]),
        (&json!(0), &Value::Null, &json!(["ref"]))
    );
    assert!(!references(&page).contains(&first[1]));
    for nonsense in ["", "e", "e0", "e01", "12", "E1", "e1 ", "e99999999999999999999"] {
        assert_eq!(by(nonsense)["count"], 0, "{nonsense}");
    }
}

#[test]
fn what_can_be_used_inside_something_named_is_told_once() {
    let page = Page::with(
        "<h2>A <div role=tab tabindex=0>B <button>C</button></div></h2>
        <ul role=listbox aria-label=L><li role=option>One<li role=option aria-selected=true>Two</ul>
        <select aria-label=S><option>Three<option selected>Four</select><textarea aria-label=T>x</textarea>
        <button>D</button>
        <div role=button aria-label=E><x-y><template shadowrootmode=open><a href=/>F</a></template></x-y></div>
        <details><summary>More</summary>closed <button>No</button></details>
        <div tabindex=0>Card <b>bold</b></div>",
    );
    let expected = r#"heading "A B C" [level=2]
  tab "B C"
    button "C"
listbox "L"
  option "One"
  option "Two" [selected=true]
combobox "S" [value="Four"] [options="Three"|"Four"]
textbox "T" [value="x"]
button "D"
button "E"
  link "F"
group
  button "More" [expanded=false]
focusable: "Card bold"
"#;
    assert_eq!(shape(&page), expected);
}

#[test]
fn references_carry_the_prefix_of_their_document() {
    let page = Page::with("<button>A</button>");
    let outline = page.run("outline", &json!([{ "prefix": "d3" }]));
    assert_eq!(outline["text"], "button \"A\" [ref=d3e1]\n");
}

#[test]
fn an_outline_ends_at_whole_lines_within_its_limit() {
    let page = Page::with(PAGE);
    let whole = page.run("outline", &json!([]))["text"].as_str().unwrap().to_owned();
    for max in 0..whole.len() {
        let outline = page.run("outline", &json!([{ "max": max }]));
        let text = outline["text"].as_str().unwrap();
        assert!(text.len() <= max, "{max}: {text}");
        assert_eq!(outline["truncated"], true, "{max}");
        if !text.is_empty() {
            assert!(text.ends_with('\n'));
        }
    }
    let outline = page.run("outline", &json!([{ "max": whole.len() + 20 }]));
    assert_eq!((outline["text"].as_str(), &outline["truncated"]), (Some(whole.as_str()), &json!(false)));
}

#[test]
fn an_outline_enters_shadow_trees_and_names_frames() {
    let page = Page::with(
        "<x-card><template shadowrootmode=open><section aria-label=Card><slot></slot></section></template><button>In</button></x-card>
        <iframe title=Payment></iframe><div aria-hidden=true><button>No</button></div>",
    );
    assert_eq!(shape(&page), "region \"Card\"\n  button \"In\"\niframe \"Payment\"\n");
}

#[test]
fn a_table_is_read_row_by_row_with_spans_in_each_of_their_places() {
    let page = Page::with(
        "<table id=a><caption>c</caption><tfoot><tr><td colspan=3>Sum 3</tfoot>
          <thead><tr><th rowspan=2>Name<th colspan=2>Sums<tr><th>May<th>June</thead>
          <tbody><tr><td>Ann <b>B</b><td>1<td>2<tr hidden><td>x<td>y<td>z<tr><td>Cal<td><table><tr><td>in</table><td></tbody></table>
        <div id=b role=table><div role=rowgroup><div role=row><i role=columnheader>H</i></div></div>
          <div role=row><i role=cell>1</i><i role=cell hidden>2</i></div></div><p id=c>x</p><table id=d></table>",
    );
    let table = |css: &str| page.run("table", &json!([page.handle(css)]));
    assert_eq!(
        table("#a"),
        json!([
            ["Name", "Sums", "Sums"],
            ["Name", "May", "June"],
            ["Ann B", "1", "2"],
            ["Cal", "in", ""],
            ["Sum 3", "Sum 3", "Sum 3"],
        ])
    );
    assert_eq!(table("#b"), json!([["H"], ["1"]]));
    assert_eq!(table("#c"), json!({ "reason": "not a table" }));
    assert_eq!(table("#d"), json!([]));
}
