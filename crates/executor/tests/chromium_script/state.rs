//! The page's state: skeleton, snapshot, HTML and text.

use serde_json::{Value, json};

use crate::support::Page;

const PAGE: &str = r#"<!doctype html><title> Orders  of today </title>
<nav aria-label=Main><a href=/home>Home</a> <a id=here href=/orders aria-current=page>Orders</a></nav>
<main><h1 id=title>Orders</h1>
<form><label>Find <input id=find name=q value=A-17></label> <input id=open type=checkbox name=open> <label for=open>Open</label>
<select id=kind name=kind><option value=1>One<option value=2>Two</select><input type=hidden name=t value=1>
<textarea id=note name=note>n</textarea><div id=rich contenteditable aria-label=Rich>r</div>
<button id=go>Go</button><button hidden>Never</button></form>
<details id=more><summary>More</summary><a href=/deep>Deep</a></details>
<ul><li><div data-testid=row><b id=bold>x</b> plain <a id=link href="/a?b=c">A-17</a><span>sibling</span></div></ul></main>"#;

fn skeleton(page: &Page) -> Value {
    page.run("skeleton", &json!([]))
}

#[test]
fn the_same_page_in_the_same_state_gives_the_same_bytes() {
    let page = Page::with(PAGE);
    let first = skeleton(&page);
    for _ in 0..20 {
        assert_eq!(skeleton(&page), first);
    }
    // Neither handles, nor where the page is scrolled to, nor the focus are state.
    page.handle("#go");
    page.run("focus", &json!([page.handle("#find")]));
    page.page("document.body.style.paddingTop = '3000px'; scrollTo(0, 100)");
    assert_eq!(skeleton(&page), first);
    let other = Page::with(PAGE);
    let mut again = skeleton(&other);
    again["url"] = first["url"].clone();
    again["anchors"] = json!(again["anchors"].as_str().unwrap());
    assert_eq!(again, first);
    assert_eq!(first["title"], "Orders of today");
    assert_eq!(first["url"], page.page("location.href"));
}

// S002-EV-05
#[test]
fn each_change_of_state_changes_the_part_that_it_belongs_to() {
    let page = Page::with(PAGE);
    let mut before = skeleton(&page);
    for (change, parts) in [
        ("document.getElementById('go').disabled = true", "dom"),
        ("document.getElementById('go').textContent = 'Stop'", "dom"),
        ("document.getElementById('open').checked = true", "dom inputs"),
        ("document.getElementById('find').value = 'B'", "inputs"),
        ("document.getElementById('kind').value = '2'", "inputs"),
        ("document.getElementById('note').value = 'm'", "inputs"),
        ("document.getElementById('rich').textContent = 's'", "inputs"),
        ("document.getElementById('link').href = '/other'", "anchors"),
        ("document.getElementById('here').removeAttribute('aria-current')", "dom"),
        ("document.getElementById('more').open = true", "dom anchors"),
        ("document.getElementById('title').hidden = true", "dom"),
        ("document.title = 'Other'", "title"),
        ("history.pushState(null, '', '#x')", "url"),
        ("document.body.insertAdjacentHTML('beforeend', '<div role=alert>Wrong</div>')", "dom"),
        ("document.querySelector('[role=alert]').textContent = 'Right'", "dom"),
    ] {
        page.page(&format!("{change}; 0"));
        let after = skeleton(&page);
        for part in ["url", "title", "dom", "anchors", "inputs"] {
            assert_eq!(
                before[part] != after[part],
                parts.split(' ').any(|name| name == part),
                "{change}: {part}"
            );
        }
        before = after;
    }
}

#[test]
fn the_skeleton_lists_what_can_be_used_and_nothing_hidden() {
    let page = Page::with(PAGE);
    let skeleton = skeleton(&page);
    let dom = skeleton["dom"].as_str().unwrap();
    assert!(!dom.contains("Never") && !dom.contains("Deep"), "{dom}");
    for line in [
        r#"["navigation","Main"]"#,
        r#"["link","Orders","current=page"]"#,
        r#"["heading","Orders","level=1"]"#,
        r#"["checkbox","Open","checked=false"]"#,
        r#"["button","Go"]"#,
        r#"["button","More","expanded=false"]"#,
    ] {
        assert!(dom.lines().any(|found| found == line), "{line} in {dom}");
    }
    let inputs: Vec<_> = skeleton["inputs"].as_str().unwrap().lines().collect();
    assert_eq!(
        inputs,
        [
            r#"["text","textbox","Find","q","A-17"]"#,
            r#"["checkbox","checkbox","Open","open",false]"#,
            r#"["select","combobox","","kind",["1"]]"#,
            r#"["textarea","textbox","","note","n"]"#,
            r#"["div","textbox","Rich",null,"r"]"#,
        ]
    );
}

#[test]
fn the_skeleton_lists_what_has_no_role_but_can_be_reached() {
    let page = Page::with(
        "<div tabindex=0>Card <b>bold</b></div><div tabindex=-1>x</div><div role=none>y</div><div>z</div>",
    );
    assert_eq!(skeleton(&page)["dom"], r#"["","Card"]"#);
}

// S002-EV-01, S002-EV-02, S002-EV-03
#[test]
fn a_snapshot_shows_the_targets_with_what_is_around_them() {
    let page = Page::with(PAGE);
    let handle = page.handle("#link");
    let snapshot = page.run("snapshot", &json!([[handle, 4711]]));
    assert_eq!(snapshot["title"], "Orders of today");
    assert_eq!(snapshot["targets"].as_array().unwrap().len(), 1, "what is gone is left out");
    let target = &snapshot["targets"][0];
    assert_eq!(target["element"]["tag"], "a");
    assert_eq!(target["element"]["name"], "A-17");
    assert_eq!(target["element"]["attributes"], json!({ "id": "link", "href": "/a?b=c" }));
    let tags = |list: &str| -> Vec<Value> {
        target[list].as_array().unwrap().iter().map(|node| node["tag"].clone()).collect()
    };
    assert_eq!(tags("ancestors"), ["div", "li", "ul", "main", "body", "html"]);
    assert_eq!(tags("siblings"), ["b", "span"]);
    assert_eq!(target["ancestors"][0]["attributes"]["data-testid"], "row");
    let names = |list: &str| -> Vec<Value> {
        snapshot[list].as_array().unwrap().iter().map(|node| node["name"].clone()).collect()
    };
    assert_eq!(names("anchors"), ["Home", "Orders", "A-17"]);
    assert_eq!(snapshot["anchors"][2]["href"], json!(page.url("/a?b=c")));
    assert_eq!(names("inputs"), ["Find", "Open", "", "", "Rich"]);
    assert_eq!(snapshot["inputs"][0]["state"], "A-17");
    // Without a target the page is still shown.
    assert_eq!(page.run("snapshot", &json!([[]]))["targets"], json!([]));
}

// S002-EV-03
#[test]
fn a_snapshot_is_bounded_and_says_what_it_left_out() {
    let page = Page::with(
        "<script>onload = () => { for (let n = 0; n < 300; n += 1)
           document.body.insertAdjacentHTML('beforeend', `<a href=/${n}>${'x'.repeat(900)}</a><input>`) }</script><body></body>",
    );
    let handle =
        page.run("look", &json!([{ "locators": [{ "kind": "css", "value": "a" }], "nth": 150 }]))["element"]
            ["handle"]
            .clone();
    let snapshot = page.run("snapshot", &json!([[handle]]));
    assert_eq!((&snapshot["anchorsOmitted"], &snapshot["inputsOmitted"]), (&json!(100), &json!(100)));
    let target = &snapshot["targets"][0];
    assert_eq!(target["siblings"].as_array().unwrap().len(), 50);
    assert_eq!(target["siblingsOmitted"], 599 - 50);
    assert_eq!(snapshot["anchors"][0]["name"].as_str().unwrap().chars().count(), 500);
}

#[test]
fn html_reads_back_as_the_same_document() {
    let page = Page::with(
        r#"<!doctype html><html lang=en><head><title>a &lt; b</title><style>p > b { color: red }</style>
        <script type="text/x">if (1 < 2 && "x") {}</script></head><body class='a "b"'>
        <p>1 &amp; 2 &lt; 3&nbsp;<br><img alt='x>y'><!-- note --></p><template><i>t</i></template><pre>
 kept</pre><svg viewBox="0 0 1 1"><path d="M0 0"/></svg><textarea>x</textarea></body></html>"#,
    );
    let html = page.run("html", &json!([]));
    let html = html.as_str().unwrap();
    assert!(html.starts_with("<!DOCTYPE html><html"), "{html}");
    let again = page.page(&format!(
        "new DOMParser().parseFromString({}, 'text/html').documentElement.outerHTML",
        json!(html)
    ));
    assert_eq!(again, page.page("document.documentElement.outerHTML"));
    page.open("<div id=host><template shadowrootmode=open><b>in</b></template>out</div>");
    let html = page.run("html", &json!([]));
    let shadow = r#"<div id="host"><template shadowrootmode="open"><b>in</b></template>out</div>"#;
    assert!(html.as_str().unwrap().contains(shadow), "{html}");
}

#[test]
fn the_text_of_the_page_is_what_can_be_read() {
    let page = Page::with(
        "<title>t</title><h1>One</h1><p>two <b>three</b></p><p hidden>four</p><input value=five><script>6</script>
        <details>seven<p>eight</p></details><details open><summary>nine</summary>ten</details>
        <p hidden=until-found>eleven</p>",
    );
    assert_eq!(page.run("pageText", &json!([])), "One two three nine ten");
    page.open("");
    assert_eq!(page.run("pageText", &json!([])), "");
}
