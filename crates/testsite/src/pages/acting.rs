//! Buttons that are not where, what or when they seem to be.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page(
        "/button/plain",
        "Button",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>"#,
    ),
    page(
        "/button/moving",
        "Moving button",
        r#"<button id="b" data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
const step = time => { b.style.transform = `translateX(${200 + 200 * Math.sin(time / 150)}px)`; requestAnimationFrame(step); };
requestAnimationFrame(step);
</script>"#,
    ),
    page(
        "/button/moving-stops",
        "Button that comes to rest",
        r#"<button id="b" data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
let frame = 0;
const step = () => { b.style.transform = `translateX(${10 * frame}px)`; if (frame++ < 20) requestAnimationFrame(step); };
requestAnimationFrame(step);
</script>"#,
    ),
    page(
        "/button/replaced-on-hover",
        "Button replaced on hover",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
document.querySelector("button").addEventListener("pointerenter", event => {
  const other = document.createElement("button");
  other.textContent = "Delete everything";
  other.dataset.testid = "replacement";
  other.onclick = () => { say("deleted"); hit("replacement"); };
  event.target.replaceWith(other);
});
</script>"#,
    ),
    page(
        "/button/replaced-on-mousedown",
        "Button replaced on mousedown",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
document.querySelector("button").addEventListener("mousedown", event => {
  const other = document.createElement("button");
  other.textContent = "Delete everything";
  other.dataset.testid = "replacement";
  other.onclick = other.onmouseup = () => { say("deleted"); hit("replacement"); };
  event.target.replaceWith(other);
});
</script>"#,
    ),
    page(
        "/button/shifts",
        "Buttons that shift",
        r#"<div id="box" style="position: absolute; top: 160px; left: 24px; width: 240px">
<button data-testid="wrong" style="display: block; width: 240px; height: 40px" onclick="say('deleted'); hit('wrong')">Delete everything</button>
<button data-testid="target" style="display: block; width: 240px; height: 40px" onclick="say('saved'); hit('target')">Save</button>
</div>
<script>
document.querySelector("[data-testid=target]").addEventListener("pointerenter", () => { box.style.top = "200px"; }, { once: true });
</script>"#,
    ),
    page(
        "/button/detaches",
        "Button that goes away on hover",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
const b = document.querySelector("button");
b.addEventListener("pointerenter", () => b.remove());
</script>"#,
    ),
    page(
        "/button/rerendered",
        "Button that is made anew",
        r#"<div id="box"></div>
<button data-testid="again" onclick="render()">Render again</button>
<script>
let version = 0;
function render() {
  version++;
  box.innerHTML = `<button data-testid="target" onclick="say('saved ${version}'); hit('target')">Save</button>`;
}
render();
</script>"#,
    ),
    page(
        "/button/late",
        "Late button",
        r#"<script>
fetch("/delayed?ms=300").then(() => document.querySelector("main").insertAdjacentHTML("beforeend",
  `<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>`));
</script>"#,
    ),
    page(
        "/button/late-enabled",
        "Button that is enabled late",
        r#"<button id="b" data-testid="target" disabled onclick="say('saved'); hit('target')">Save</button>
<script>fetch("/delayed?ms=300").then(() => { b.disabled = false; });</script>"#,
    ),
    page(
        "/button/late-saved",
        "Late confirmation",
        r#"<button data-testid="target" onclick="hit('target'); fetch('/delayed?ms=300').then(() => say('saved'))">Save</button>"#,
    ),
    page(
        "/button/no-effect",
        "Button without effect",
        r#"<button data-testid="target" onclick="hit('target')">Save</button>"#,
    ),
    page(
        "/button/duplicates",
        "Duplicate buttons",
        r#"<ul>
<li>Report A <button data-testid="delete" onclick="say('deleted A'); hit('a')">Delete</button></li>
<li>Report B <button data-testid="delete" onclick="say('deleted B'); hit('b')">Delete</button></li>
<li>Report C <button data-testid="delete" onclick="say('deleted C'); hit('c')">Delete</button></li>
</ul>"#,
    ),
    page(
        "/button/states",
        "Buttons that cannot be clicked",
        r#"<button data-testid="disabled" disabled>Disabled</button>
<button data-testid="aria-disabled" aria-disabled="true" onclick="hit('aria-disabled')">Disabled by ARIA</button>
<fieldset disabled><button data-testid="in-disabled">In a disabled group</button></fieldset>
<button data-testid="not-displayed" style="display: none">Not displayed</button>
<button data-testid="invisible" style="visibility: hidden">Invisible</button>
<button data-testid="see-through" style="opacity: 0" onclick="hit('see-through')">See-through</button>
<button data-testid="without-size" style="width: 0; height: 0; padding: 0; border: 0; overflow: hidden"></button>
<div inert><button data-testid="inert" onclick="hit('inert')">Inert</button></div>
<div aria-hidden="true"><button data-testid="aria-hidden">Hidden by ARIA</button></div>
<details><summary>More</summary><button data-testid="in-closed">In closed details</button></details>"#,
    ),
    page(
        "/button/far",
        "Button far down",
        r#"<div style="height: 300px; overflow: auto; border: 1px solid" data-testid="scroller">
<div style="height: 4000px"></div>
<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
</div>
<div style="height: 3000px"></div>
<button data-testid="bottom" onclick="say('bottom'); hit('bottom')">Bottom</button>"#,
    ),
    page(
        "/button/double",
        "Double click",
        r#"<button data-testid="target" onclick="hit('click')" ondblclick="say('opened'); hit('target')">Open</button>"#,
    ),
    page(
        "/hover",
        "Menu on hover",
        r#"<style>#menu { display: none } nav:hover #menu { display: block }</style>
<nav aria-label="Main"><span data-testid="opener">Products</span>
<ul id="menu"><li><a href="/plain">Prices</a></li></ul></nav>"#,
    ),
    page(
        "/keyboard",
        "Keys",
        r#"<label>Search <input data-testid="search"></label>
<ol data-testid="keys" id="keys"></ol>
<script>
addEventListener("keydown", event => {
  const line = document.createElement("li");
  const held = ["ctrlKey", "shiftKey", "altKey", "metaKey"].filter(name => event[name]).map(name => name.slice(0, -3));
  line.textContent = [...held, event.key, event.code].join(" ");
  keys.append(line);
  if (event.key === "Enter") say("searched for " + document.querySelector("input").value);
});
</script>"#,
    ),
    page(
        "/hydration",
        "Hydration",
        r#"<button id="b" data-testid="target">Save</button>
<script>
fetch("/delayed?ms=300").then(() => {
  b.onclick = () => { say("saved"); hit("target"); };
  document.body.dataset.hydrated = "true";
});
</script>"#,
    ),
    page(
        "/hydration/input",
        "Hydration of an input",
        r#"<div id="box"><label>Name <input data-testid="name"></label></div>
<script>
fetch("/delayed?ms=300").then(() => {
  box.innerHTML = `<label>Name <input data-testid="name" oninput="say('hello, ' + this.value)"></label>`;
  document.body.dataset.hydrated = "true";
});
</script>"#,
    ),
    page(
        "/state",
        "Counter",
        r#"<output data-testid="count" id="count">0</output>
<button data-testid="add" onclick="count.value = Number(count.value) + 1">Add</button>
<button data-testid="reset" onclick="count.value = 0">Reset</button>
<button data-testid="nothing">Nothing</button>"#,
    ),
    page(
        "/animation",
        "Endless animation",
        r#"<style>@keyframes turn { to { transform: rotate(1turn) } } #wheel { width: 80px; height: 80px; background: #27c; animation: turn 1s linear infinite }</style>
<div id="wheel"></div>
<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>"#,
    ),
    page(
        "/busy",
        "Page that hangs",
        r#"<button data-testid="target" onclick="hit('target'); for (;;);">Hang</button>"#,
    ),
];
