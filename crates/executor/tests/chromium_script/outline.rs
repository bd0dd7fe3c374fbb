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
    textbox "Find" [value="A"]
    textbox "Pin" [filled] [type=password]
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
fn a_field_says_what_it_takes() {
    let page = Page::with(
        r#"<input type=date aria-label=Day required min=2026-01-01 max=2026-12-31 value=2026-11-24>
        <input type=time aria-label=Hour step=900><input aria-label=Code pattern="[A-Z]{3} [0-9]+" maxlength=8 minlength=5>
        <input type=range aria-label=Volume value=30><input type=number aria-label=Age min=18 aria-required=true>
        <input type=email aria-label=Mail multiple autofocus><textarea aria-label=Notes maxlength=100 required></textarea>
        <input type=file aria-label=Papers accept=".pdf,image/*" multiple><select aria-label=S multiple><option>a</select>
        <div role=slider tabindex=0 aria-label=Zoom aria-valuemin=1 aria-valuemax=9 aria-valuenow=3 aria-valuetext="three times"></div>
        <progress aria-label=Work max=10 value=4></progress>"#,
    );
    page.page("document.querySelector('[type=email]').focus()");
    let expected = r#"textbox "Day" [value="2026-11-24"] [type=date] [required] [min=2026-01-01] [max=2026-12-31]
textbox "Hour" [type=time] [step=900]
textbox "Code" [minlength=5] [maxlength=8] [pattern="[A-Z]{3} [0-9]+"]
slider "Volume" [value="30"] [min=0] [max=100]
spinbutton "Age" [required] [min=18]
textbox "Mail" [type=email] [multiple] [focused]
textbox "Notes" [required] [maxlength=100]
button "Papers" [files=[]] [type=file] [multiple] [accept=".pdf,image/*"]
listbox "S" [options="a"] [multiple]
slider "Zoom" [min=1] [max=9] [value="three times"]
progressbar "Work" [max=10] [value=4]
"#;
    assert_eq!(shape(&page), expected);
}

#[test]
fn what_is_written_about_an_element_stands_beside_its_name() {
    let page = Page::with(
        r#"<input aria-label=User aria-describedby="h e" title="As on the card"><p id=h hidden>No spaces</p><b id=e>Too short</b>
        <button title=Save>Save</button><button title=Close></button><button aria-description="Cannot be undone">Delete</button>
        <p data-private title=never><input aria-label=Card title=never aria-description=never></p>"#,
    );
    let outline = page.run("outline", &json!([{ "redaction": { "selectors": ["[data-private] input"] } }]));
    let text = outline["text"].as_str().unwrap();
    let expected = r#"textbox "User" [description="No spaces Too short"] [title="As on the card"] [ref=e1]
text "Too short"
button "Save" [ref=e2]
button "Close" [ref=e3]
button "Delete" [description="Cannot be undone"] [ref=e4]
textbox "Card" [ref=e5]
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_a_label_says_is_masked_where_the_label_stands_for_its_control() {
    let page = Page::with(
        "<label for=c>Pay with <span class=card>Acme secret 77</span></label><input type=checkbox id=c style='display: none'>",
    );
    let outline = page.run("outline", &json!([{ "redaction": { "selectors": [".card"] } }]));
    let text = outline["text"].as_str().unwrap();
    assert!(text.contains("checkbox") && text.contains("Pay with"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn a_hint_that_is_cut_has_whole_words_only() {
    let words = "word ".repeat(15);
    let page = Page::with(&format!(
        "<table><tr><td>{words}abcdefghijklmnopqrstuvwxyz</td><td><button></button></td></tr></table>"
    ));
    let outline = page.run("outline", &json!([{}]));
    let lines = outline["text"].as_str().unwrap().lines();
    let hint = lines.filter(|line| line.contains("near=")).collect::<String>();
    assert!(hint.contains("word …") && !hint.contains("abc"), "{hint}");
}

#[test]
fn what_takes_clicks_without_a_role_has_a_line_and_a_reference() {
    let page = Page::with(
        r#"<style>.hand { cursor: pointer }</style>
        <div class=hand>Open <b>all</b></div><ul><li class=hand>One</ul><p onclick="1">Two</p><div id=heard>Three</div>
        <div onclick="1"><button>1</button><button>2</button><button>3</button><button>4</button><button>5</button><button>6</button></div>
        <a href=/ class=hand><i class=hand>Link</i></a><label class=hand>Name <input></label><div class=hand inert>No</div>"#,
    );
    let heard = page.handle("#heard");
    let outline = page.run("outline", &json!([{ "clickable": [heard, 999] }]));
    let text = outline["text"].as_str().unwrap();
    let without = |line: &str| {
        line.split(" [ref=").next().unwrap().to_owned() + if line.contains(": ") { "…" } else { "" }
    };
    let shown: Vec<String> = text.lines().map(without).collect();
    let expected = [
        "clickable…",
        "list",
        "  listitem [clickable]…",
        "clickable…",
        "clickable…",
        "button \"1\"",
        "button \"2\"",
        "button \"3\"",
        "button \"4\"",
        "button \"5\"",
        "button \"6\"",
        "link \"Link\"",
        "textbox \"Name\"",
    ];
    assert_eq!(shown, expected);
    assert!(
        text.contains(": \"Open all\"") && text.contains(&format!("clickable [ref=e{heard}]: \"Three\"")),
        "{text}"
    );
}

#[test]
fn what_has_no_name_is_told_by_its_icon_and_the_nearest_text() {
    let page = Page::with(
        r##"<table><tr><td>Order 17<td>12.00<td><button><svg><use href="#icon-trash"/></svg></button><button><i class="fa fa-lg fa-pen"></i></button></table>
        <div>Amount <span><input></span></div><div><input type=checkbox><span>I agree</span></div>
        <div onclick="1"><img src="/i/close.3f2a9c1d.svg"></div><p>After <button data-icon="not a word!"></button></p>
        <img src=/logo-dark.png>"##,
    );
    let expected = r#"table
  row
    cell: "Order 17"
    cell: "12.00"
    cell
      button [icon=trash] [near="Order 17"]
      button [icon=pen] [near="Order 17"]
text "Amount"
textbox [near="Amount"]
checkbox [checked=false] [near="I agree"]
text "I agree"
clickable [icon=close] [near="I agree"]
  img [icon=close]
text "After"
button [near="After"]
img [icon=logo-dark]
"#;
    assert_eq!(shape(&page), expected);
}

#[test]
fn a_name_is_written_once() {
    let page = Page::with(
        "<h2><a href=/>Orders</a></h2><fieldset><legend>Address</legend><label for=s>Street</label><input id=s></fieldset>
        <figure aria-label=Plan><figcaption>Another</figcaption></figure><label><input type=checkbox style='display: none'> I accept</label>
        <label for=gone>Alone</label><label for=f>Send <b>a</b> file</label><input type=file id=f>",
    );
    let expected = r#"heading [level=2]
  link "Orders"
group "Address"
  textbox "Street"
figure "Plan": "Another"
checkbox "I accept" [checked=false]
text "Alone"
button "Send a file" [files=[]] [type=file]
"#;
    assert_eq!(shape(&page), expected);
}

#[test]
fn the_outline_of_a_hostile_page_ends() {
    let page = Page::with("<div id=box></div>");
    // Wide: elements without anything to tell; buttons without names beside them; deep: buttons within buttons.
    for (build, truncated) in [
        ("for (let i = 0; i < 150_000; i += 1) box.append(document.createElement('i'))", true),
        ("box.innerHTML = '<i></i>'.repeat(3_000) + '<div role=button>\u{e000}</div>'.repeat(300)", false),
        (
            "let at = box; for (let i = 0; i < 900; i += 1) { const inner = document.createElement('div'); inner.setAttribute('role', 'button'); at.append(inner); at = inner; }",
            false,
        ),
    ] {
        page.page(&format!(
            "{{ const box = document.getElementById('box'); box.replaceChildren(); {build} }}"
        ));
        let outline = page.run("outline", &json!([{ "max": 200_000 }]));
        // Where it is deep, its time may be over.
        assert!(outline["truncated"] == truncated || build.contains("let at"), "{build}");
        assert!(outline["text"].as_str().unwrap().len() <= 200_000);
    }
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
