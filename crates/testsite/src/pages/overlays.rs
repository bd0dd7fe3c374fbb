//! Pages on which something lies over the button.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page(
        "/overlay/banner",
        "Cookie banner",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<div class="cover" id="banner" role="dialog" aria-label="Cookies" onclick="hit('overlay')">
<p>We value your privacy.</p>
<button data-testid="close" onclick="banner.remove()">Accept all</button>
</div>"#,
    ),
    page(
        "/overlay/late-banner",
        "Late cookie banner",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
fetch("/delayed?ms=300").then(() => {
  document.body.insertAdjacentHTML("beforeend",
    `<div class="cover" id="banner" role="dialog" aria-label="Cookies" onclick="hit('overlay')">
    <button data-testid="close" onclick="banner.remove()">Accept all</button></div>`);
});
</script>"#,
    ),
    page(
        "/overlay/at-pointerdown",
        "Overlay at pointerdown",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
addEventListener("pointerdown", () => {
  document.body.insertAdjacentHTML("beforeend", `<div class="cover" onmouseup="say('overlay clicked'); hit('overlay')"></div>`);
}, { capture: true, once: true });
</script>"#,
    ),
    page(
        "/overlay/at-pointermove",
        "Overlay at pointermove",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
addEventListener("pointermove", () => {
  document.body.insertAdjacentHTML("beforeend", `<div class="cover" onclick="say('overlay clicked'); hit('overlay')"></div>`);
}, { capture: true, once: true });
</script>"#,
    ),
    page(
        "/overlay/transparent",
        "Transparent overlay",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<div class="cover" id="glass" style="background: none" onclick="say('overlay clicked'); hit('overlay')"></div>"#,
    ),
    page(
        "/overlay/shadow",
        "Overlay in a shadow root",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<div id="host"></div>
<script>
const cover = document.createElement("div");
cover.style = "position: fixed; inset: 0; background: #fffc";
cover.onclick = () => { say("overlay clicked"); hit("overlay"); };
host.attachShadow({ mode: "open" }).append(cover);
</script>"#,
    ),
    page(
        "/overlay/passes-through",
        "Overlay that passes through",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<div class="cover" style="background: none; pointer-events: none"></div>"#,
    ),
    page(
        "/overlay/iframe",
        "Overlay in an iframe",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<iframe class="cover" title="Offer" src="/overlay/inner" style="width: 100%; height: 100%; border: 0"></iframe>"#,
    ),
    page(
        "/overlay/cross-iframe",
        "Overlay in an iframe of another host",
        r#"<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<iframe class="cover" title="Offer" src="{{other}}/overlay/inner" style="width: 100%; height: 100%; border: 0"></iframe>"#,
    ),
    page("/overlay/inner", "Offer", r#"<button class="cover" onclick="hit('overlay')">Subscribe</button>"#),
    page(
        "/overlay/partial",
        "Overlay over the middle",
        r#"<div style="position: relative; width: 300px; height: 60px">
<button data-testid="target" style="width: 300px; height: 60px" onclick="say('saved'); hit('target')">Save</button>
<div id="badge" style="position: absolute; left: 100px; top: 10px; width: 100px; height: 40px; background: #fd0"
  onclick="say('overlay clicked'); hit('overlay')">New</div>
</div>"#,
    ),
];
