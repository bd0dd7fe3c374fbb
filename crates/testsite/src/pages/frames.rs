//! Documents within documents, and shadow roots.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page(
        "/frames/same",
        "Frames of one host",
        r#"<p>Outside</p>
<iframe title="Middle" data-testid="middle" src="/frames/middle" width="600" height="420"></iframe>"#,
    ),
    page(
        "/frames/middle",
        "Middle",
        r#"<button data-testid="target" onclick="say('saved'); hit('middle')">Save</button>
<iframe title="Leaf" data-testid="leaf" src="/frames/leaf" width="500" height="200"></iframe>"#,
    ),
    page(
        "/frames/leaf",
        "Leaf",
        r#"<button data-testid="target" onclick="say('saved'); hit('leaf')">Save</button>
<label>Note <input data-testid="note"></label>"#,
    ),
    page(
        "/frames/cross",
        "Frames of two hosts",
        r#"<p>Outside</p>
<iframe title="Middle" data-testid="middle" src="{{other}}/frames/cross-middle" width="600" height="420"></iframe>"#,
    ),
    page(
        "/frames/cross-middle",
        "Middle of another host",
        r#"<button data-testid="target" onclick="say('saved'); hit('middle')">Save</button>
<iframe title="Leaf" data-testid="leaf" src="{{first}}/frames/leaf" width="500" height="200"></iframe>"#,
    ),
    page(
        "/frames/scrolled",
        "Frame far down",
        r#"<div style="height: 2500px"></div>
<iframe title="Middle" data-testid="middle" src="/frames/far" width="400" height="200" style="border: 7px solid; padding: 5px"></iframe>
<div style="height: 1500px"></div>"#,
    ),
    page(
        "/frames/far",
        "Far within a frame",
        r#"<div style="height: 1500px"></div>
<button data-testid="target" onclick="say('saved'); hit('far')">Save</button>"#,
    ),
    page(
        "/frames/late",
        "Late frame",
        r#"<script>
fetch("/delayed?ms=300").then(() => document.querySelector("main").insertAdjacentHTML("beforeend",
  `<iframe title="Leaf" data-testid="leaf" src="/frames/leaf" width="500" height="200"></iframe>`));
</script>"#,
    ),
    page(
        "/frames/sandboxed",
        "Sandboxed frame",
        r#"<iframe title="Leaf" data-testid="leaf" sandbox src="/frames/leaf" width="500" height="200"></iframe>"#,
    ),
    page(
        "/frames/srcdoc",
        "Frame with its own text",
        r#"<iframe title="Leaf" data-testid="leaf" srcdoc="<button data-testid='target'>Save</button>"></iframe>"#,
    ),
    page(
        "/shadow/open",
        "Open shadow roots",
        r#"<div id="host"></div>
<script>
const outer = host.attachShadow({ mode: "open" });
outer.innerHTML = `<button data-testid="outer" onclick="say('outer saved'); hit('outer')">Save outer</button><div id="inner"></div>`;
outer.getElementById("inner").attachShadow({ mode: "open" }).innerHTML =
  `<label>Note <input data-testid="note"></label>
   <button data-testid="target" onclick="say('saved'); hit('target')">Save</button><slot></slot>`;
</script>"#,
    ),
    page(
        "/shadow/closed",
        "Closed shadow root",
        r#"<div id="host" data-testid="host"></div>
<script>
host.attachShadow({ mode: "closed" }).innerHTML =
  `<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>`;
</script>"#,
    ),
    page(
        "/shadow/slotted",
        "Slotted button",
        r#"<div id="host"><button data-testid="target" onclick="say('saved'); hit('target')">Save</button></div>
<script>host.attachShadow({ mode: "open" }).innerHTML = `<section><slot></slot></section>`;</script>"#,
    ),
];
