//! Roles and accessible names, one small page for each case. Nearly all of them are also the browser's own opinion; where
//! they are not, the case says why.

use serde_json::{Value, json};

use crate::support::Page;

/// What `#x` is in the page, and what it is called.
const CASES: &[(&str, &str, &str)] = &[
    // Roles that elements have by themselves.
    ("<a id=x href=/>Home</a>", "link", "Home"),
    ("<a id=x>Home</a>", "", ""),
    ("<article id=x>t</article>", "article", ""),
    ("<aside id=x>t</aside>", "complementary", ""),
    ("<blockquote id=x>t</blockquote>", "blockquote", ""),
    ("<button id=x>Save</button>", "button", "Save"),
    ("<table><caption id=x>c</caption><tr><td>1</table>", "caption", ""),
    ("<code id=x>t</code>", "code", ""),
    ("<dialog id=x open aria-label=D>t</dialog>", "dialog", "D"),
    ("<details id=x><summary>s</summary>t</details>", "group", ""),
    ("<em id=x>t</em>", "emphasis", ""),
    ("<fieldset id=x><legend>Who</legend></fieldset>", "group", "Who"),
    ("<footer id=x>t</footer>", "contentinfo", ""),
    ("<article><footer id=x>t</footer></article>", "", ""),
    ("<header id=x>t</header>", "banner", ""),
    ("<main><header id=x>t</header></main>", "", ""),
    ("<form id=x>t</form>", "", ""),
    ("<form id=x aria-label=F>t</form>", "form", "F"),
    ("<h2 id=x>Title</h2>", "heading", "Title"),
    ("<hr id=x>", "separator", ""),
    ("<img id=x src=a alt=Logo>", "img", "Logo"),
    ("<img id=x src=a alt=''>", "presentation", ""),
    ("<img id=x src=a>", "img", ""),
    ("<img id=x src=a title=T>", "img", "T"),
    ("<ul><li id=x>i</ul>", "listitem", ""),
    ("<ol id=x><li>i</ol>", "list", ""),
    ("<menu id=x><li>i</menu>", "list", ""),
    ("<main id=x>t</main>", "main", ""),
    ("<mark id=x>t</mark>", "mark", ""),
    ("<math id=x><mi>x</mi></math>", "math", ""),
    ("<meter id=x value=.5></meter>", "meter", ""),
    ("<nav id=x>t</nav>", "navigation", ""),
    ("<output id=x>3</output>", "status", ""),
    ("<p id=x>t</p>", "paragraph", ""),
    ("<progress id=x></progress>", "progressbar", ""),
    ("<search id=x>t</search>", "search", ""),
    ("<section id=x>t</section>", "", ""),
    ("<section id=x aria-label=S>t</section>", "region", "S"),
    ("<strong id=x>t</strong>", "strong", ""),
    ("<svg id=x width=9 height=9><title>Pic</title><circle r=4 /></svg>", "img", "Pic"),
    ("<time id=x>now</time>", "time", ""),
    ("<dl><dt>t<dd id=x>d</dl>", "definition", ""),
    // Tables.
    ("<table id=x><caption>Cap</caption><tr><td>1</table>", "table", "Cap"),
    ("<table><thead id=x><tr><td>1</table>", "rowgroup", ""),
    ("<table><tr id=x><td>1<td>2</table>", "row", "1 2"),
    ("<table><tr><td id=x>1</table>", "cell", "1"),
    ("<table role=grid><tr><td id=x>1</table>", "gridcell", "1"),
    ("<table><tr><th id=x>H<tr><td>1</table>", "columnheader", "H"),
    ("<table><tr><th id=x>H<td>1</table>", "rowheader", "H"),
    ("<table><tr><th id=x scope=row>H<th>1</table>", "rowheader", "H"),
    // What is in no list and no table is no part of one.
    ("<ul role=none><li id=x>i</ul>", "", ""),
    ("<ul role=tablist><li id=x>i</ul>", "", ""),
    ("<ul role=none tabindex=0><li id=x>i</ul>", "listitem", ""),
    ("<div role=list><li id=x>i</div>", "listitem", ""),
    ("<table role=presentation><tbody id=x><tr><td>1</table>", "", ""),
    ("<table role=presentation><tr id=x><td>1</table>", "", ""),
    ("<table role=presentation><tr><td id=x>1</table>", "", ""),
    ("<table role=none><tr><th id=x>H</table>", "", ""),
    ("<table role=group><tr><td id=x>1</table>", "", ""),
    ("<table><tr role=none><td id=x>1</table>", "", ""),
    ("<table role=none><tr role=row id=x><td>1</table>", "row", "1"),
    ("<table role=treegrid><tr><td id=x>1</table>", "gridcell", "1"),
    // Controls.
    ("<input id=x>", "textbox", ""),
    ("<input id=x type=search>", "searchbox", ""),
    ("<input id=x type=email placeholder=Mail>", "textbox", "Mail"),
    ("<input id=x type=password title=Pw>", "textbox", "Pw"),
    ("<input id=x type=number>", "spinbutton", ""),
    ("<input id=x type=range>", "slider", ""),
    ("<input id=x type=checkbox>", "checkbox", ""),
    ("<input id=x type=radio>", "radio", ""),
    ("<input id=x type=submit>", "button", "Submit"),
    ("<input id=x type=reset>", "button", "Reset"),
    ("<input id=x type=submit value=Go>", "button", "Go"),
    ("<input id=x type=image alt=Im>", "button", "Im"),
    ("<input id=x type=file aria-label=Up>", "button", "Up"),
    ("<input id=x list=l><datalist id=l></datalist>", "combobox", ""),
    ("<input id=x type=hidden>", "", ""),
    ("<select id=x><option>a</select>", "combobox", ""),
    ("<select id=x multiple><option>a</select>", "listbox", ""),
    ("<select id=x size=3><option>a</select>", "listbox", ""),
    ("<select size=2><option id=x>Opt</select>", "option", "Opt"),
    ("<select size=3><optgroup id=x label=Og><option>a</optgroup></select>", "group", "Og"),
    ("<textarea id=x placeholder=P></textarea>", "textbox", "P"),
    // The browser has names of its own for these, which are not ARIA roles.
    ("<input id=x type=date>", "textbox", ""),
    ("<div id=x contenteditable>e</div>", "textbox", ""),
    ("<details><summary id=x>More</summary>t</details>", "button", "More"),
    // Explicit roles.
    ("<div id=x role=button>R</div>", "button", "R"),
    ("<div id=x role='nonsense SWITCH button'>R</div>", "switch", "R"),
    ("<div id=x role=image aria-label=I></div>", "img", "I"),
    ("<div id=x role=alert>Wrong</div>", "alert", ""),
    ("<div id=x role=treeitem aria-label=L>c</div>", "treeitem", "L"),
    ("<ul id=x role=none><li>a</ul>", "presentation", ""),
    ("<button id=x role=presentation>P</button>", "button", "P"),
    ("<div id=x role=none tabindex=0>R</div>", "", ""),
    // Names.
    ("<a id=x href=/ aria-label=A>t</a>", "link", "A"),
    ("<i id=s>One</i><i id=t>Two</i><button id=x aria-labelledby='t s'>z</button>", "button", "Two One"),
    ("<button id=x aria-label=Del aria-labelledby='x f'>z</button><b id=f>file</b>", "button", "Del file"),
    ("<button id=x aria-labelledby=nothing>z</button>", "button", "z"),
    ("<button id=x><img src=a alt=Pic> text</button>", "button", "Pic text"),
    ("<button id=x>a<b hidden>b</b><b aria-hidden=true>c</b>d</button>", "button", "ad"),
    ("<button id=x><div>one</div><div>two</div></button>", "button", "one two"),
    ("<button id=x><span>one</span><span>two</span></button>", "button", "onetwo"),
    ("<button id=x>a<br>b</button>", "button", "a b"),
    ("<button id=x title=Tip></button>", "button", "Tip"),
    ("<button id=x title=Tip>t</button>", "button", "t"),
    ("<label for=x>Lab <b>el</b></label><input id=x>", "textbox", "Lab el"),
    ("<label>Wrap <input id=x type=checkbox> after</label>", "checkbox", "Wrap after"),
    ("<label for=x>A</label><label for=x>B</label><input id=x>", "textbox", "A B"),
    ("<label><input type=checkbox id=x> Flash <input value=3> times</label>", "checkbox", "Flash 3 times"),
    (
        "<label><input type=checkbox id=x> In <select><option>1<option selected>2</select> days</label>",
        "checkbox",
        "In 2 days",
    ),
    ("<i id=h hidden>Hid<b> den</b></i><button id=x aria-labelledby=h>z</button>", "button", "Hid den"),
    ("<i id=a aria-labelledby=x>A</i><button id=x aria-labelledby=a>B</button>", "button", "A"),
    ("<a id=x href=/><svg width=9 height=9><title>Ico</title></svg></a>", "link", "Ico"),
    ("<input id=x aria-label='  ' placeholder=P>", "textbox", "P"),
    ("<input id=x title=T placeholder=P>", "textbox", "T"),
    ("<button id=x><slot>sl</slot></button>", "button", "sl"),
    (
        "<style>#x::before{content:'New '}#x::after{content:'!'}</style><button id=x>x</button>",
        "button",
        "New x!",
    ),
    // It counts before a tooltip.
    ("<style>#x::before{content:'×'}</style><button id=x title=Close></button>", "button", "×"),
    ("<style>#i::before{content:'×'}</style><a id=x href=/><i id=i title=Close></i></a>", "link", "×"),
    // Characters of icon fonts cannot be read, nor written into a script.
    (r"<style>#x::before{content:'\f101'}</style><button id=x>x</button>", "button", "x"),
    // The text is the author's, not what a style makes of it.
    ("<button id=x style='text-transform:uppercase'>low</button>", "button", "low"),
    ("<figure id=x><figcaption>Fig</figcaption></figure>", "figure", "Fig"),
    // White space alone parts words (AccName, 2F and 2G).
    ("<button id=x>one<span> </span>two</button>", "button", "one two"),
    ("<h2 id=x><b>one</b><i> </i><b>two</b></h2>", "heading", "one two"),
    ("<button id=x>one<!-- no text -->two</button>", "button", "onetwo"),
    // So does a box of its own, whether it stands in a line or not.
    (
        "<a id=x href=/><b style='display:inline-block'>one</b><b style='display:inline-block'>two</b></a>",
        "link",
        "one two",
    ),
    ("<h2 id=x>one<i style='display:inline-flex'>two</i></h2>", "heading", "one two"),
    (
        "<style>#x::before{content:'New';display:inline-block}</style><button id=x>x</button>",
        "button",
        "New x",
    ),
    // Controls within a name (AccName, 2C).
    ("<label><input type=checkbox id=x> In <b role=combobox>two</b> days</label>", "checkbox", "In two days"),
    (
        "<label><input type=checkbox id=x> In <div role=combobox><input value=2></div> days</label>",
        "checkbox",
        "In 2 days",
    ),
    (
        "<label><input type=checkbox id=x> In <input role=combobox value=2> days</label>",
        "checkbox",
        "In 2 days",
    ),
    (
        "<label><input type=checkbox id=x> In <b role=listbox><i role=option>1</i><i role=option aria-selected=true>2</i></b> \
         days</label>",
        "checkbox",
        "In 2 days",
    ),
    (
        "<label><input type=checkbox id=x> In <b role=slider aria-valuenow=2 aria-valuetext=two>9</b> days</label>",
        "checkbox",
        "In two days",
    ),
    // What is visible within something that is not.
    (
        "<h2 id=x>one <b style='visibility:hidden'>two <i style='visibility:visible'>three</i></b></h2>",
        "heading",
        "one three",
    ),
    (
        "<h2 id=x>one <b style='display:none'>two <i style='visibility:visible'>three</i></b></h2>",
        "heading",
        "one",
    ),
    // A slot reads as what is slotted, or as its own content.
    (
        "<button id=x><div><template shadowrootmode=open>one <slot aria-label=no></slot> three</template>two</div></button>",
        "button",
        "one two three",
    ),
    (
        "<button id=x><div><template shadowrootmode=open>one <slot aria-label=no>two</slot> three</template></div></button>",
        "button",
        "one two three",
    ),
    // What a reference has said is not said once more.
    (
        "<h2 id=x><a href=/ aria-labelledby=r>one</a> <a href=/>two <img id=r alt=pic src=a> three</a></h2>",
        "heading",
        "pic two three",
    ),
    ("<b id=s>One</b><button id=x aria-labeledby=s>two</button>", "button", "One"),
    // A secret is not part of a name.
    ("<button id=x><input type=password value=hunter2> pw</button>", "button", "pw"),
];

#[test]
fn elements_have_the_roles_and_names_that_people_and_browsers_give_them() {
    let page = Page::with("<!doctype html>");
    let mut wrong = Vec::new();
    for (html, role, name) in CASES {
        page.page(&format!("document.body.setHTMLUnsafe({})", json!(html)));
        let look = page.look(&json!({ "kind": "css", "value": "#x" }));
        let found = &look["element"]["description"];
        if (&found["role"], &found["name"]) != (&json!(role), &json!(name)) {
            wrong.push(format!("{html}: {} {}", found["role"], found["name"]));
        }
        if !role.is_empty() && *role != "presentation" {
            let named = page.look(&json!({ "kind": "role", "role": role, "name": name }));
            if named["count"].as_u64().unwrap_or_default() == 0 {
                wrong.push(format!("{html}: not found by {role} {name:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_browser_itself_gives_controls_the_same_names() {
    let page = Page::with("<!doctype html>");
    page.call("DOM.enable", json!({}));
    page.call("Accessibility.enable", json!({}));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (html, role, name) in CASES {
        let compares =
            ["button", "link", "checkbox", "textbox", "combobox", "heading", "spinbutton", "slider"];
        // Here we differ on purpose, as the cases say.
        let differs = [
            "type=date",
            "contenteditable",
            "<summary",
            "text-transform",
            "f101",
            "password",
            "role=combobox>",
            "visibility:visible",
        ];
        if !compares.contains(role) || differs.iter().any(|part| html.contains(part)) {
            continue;
        }
        page.page(&format!("document.body.setHTMLUnsafe({})", json!(html)));
        let root = page.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let node =
            page.call("DOM.querySelector", json!({ "nodeId": root, "selector": "#x" }))["nodeId"].clone();
        let tree =
            page.call("Accessibility.getPartialAXTree", json!({ "nodeId": node, "fetchRelatives": false }));
        let theirs = &tree["nodes"][0];
        let their_name = theirs["name"]["value"].as_str().unwrap_or_default();
        let their_name = their_name.split_whitespace().collect::<Vec<_>>().join(" ");
        if (&theirs["role"]["value"], their_name.as_str()) != (&json!(role), name) {
            wrong.push(format!("{html}: {} {their_name:?}", theirs["role"]["value"]));
        }
        compared += 1;
    }
    assert!(compared > 40, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_browser_itself_takes_no_part_of_what_is_presentational_for_one() {
    const PARTS: [&str; 5] = ["listitem", "rowgroup", "row", "cell", "columnheader"];
    let page = Page::with("<!doctype html>");
    page.call("DOM.enable", json!({}));
    page.call("Accessibility.enable", json!({}));
    for (html, role, _) in CASES.iter().filter(|(html, ..)| {
        ["<ul role=", "<table role=presentation", "<table role=none><tr><"]
            .iter()
            .any(|start| html.starts_with(start))
            // What can be focused keeps its role (ARIA, conflict resolution); the browser leaves its parts without theirs.
            && !html.contains("tabindex")
    }) {
        page.page(&format!("document.body.setHTMLUnsafe({})", json!(html)));
        let root = page.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let node =
            page.call("DOM.querySelector", json!({ "nodeId": root, "selector": "#x" }))["nodeId"].clone();
        let tree =
            page.call("Accessibility.getPartialAXTree", json!({ "nodeId": node, "fetchRelatives": false }));
        let theirs = tree["nodes"][0]["role"]["value"].as_str().unwrap_or_default();
        assert_eq!(PARTS.contains(&theirs), PARTS.contains(role), "{html}: {theirs}");
    }
}

#[test]
fn what_is_hidden_from_everybody_is_not_found_by_role() {
    let page = Page::with(
        "<button id=a>B</button><button hidden>B</button><button style='visibility:hidden'>B</button>
        <div aria-hidden=true><button>B</button></div><div inert><button>B</button></div>
        <div style='visibility:hidden'><button id=b style='visibility:visible'>B</button></div>
        <div style='display:contents'><button id=c style='opacity:0'>B</button></div>
        <details><summary>s</summary><button>B</button></details><template><button>B</button></template>
        <div id=host aria-hidden=true><template shadowrootmode=open><button>B</button></template></div>",
    );
    assert_eq!(page.matches(&json!({ "kind": "role", "role": "button", "name": "B" })), ["a", "b", "c"]);
}

#[test]
fn roles_that_mean_the_same_are_the_same() {
    let page = Page::with(
        "<img id=a alt=A src=a><div id=b role=image aria-label=B></div><ul id=c role=directory><li>x</ul>",
    );
    for role in ["img", "image", " IMG "] {
        assert_eq!(page.matches(&json!({ "kind": "role", "role": role })), ["a", "b"]);
    }
    assert_eq!(page.matches(&json!({ "kind": "role", "role": "list" })), ["c"]);
    let nothing = page.look(&json!({ "kind": "role", "role": "nonsense\"],*" }));
    assert_eq!((&nothing["count"], &nothing["invalid"]), (&json!(0), &Value::Null));
}
