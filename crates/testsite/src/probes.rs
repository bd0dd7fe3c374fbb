//! Pages that try to reach the other host, one way each. Where only the first host is allowed, the other one has to see
//! no request, no connection and no datagram, see [`Site::other_hits`](crate::Site::other_hits).

/// One way to reach the other host.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Its page is `/probe/NAME`, and what it asks for is `/reached/NAME` of the other host.
    pub name: &'static str,
    /// True if nothing happens before a click on the element with the test id `go`. Other pages begin when they are
    /// loaded, and have the title `done` when the attempt has ended, however it ended.
    pub needs_click: bool,
    /// True if a request reaches the other host when nobody hinders it. The other ways are closed by Chromium itself
    /// (148 and 156), or cannot be seen from here.
    pub reaches: bool,
    pub(crate) body: &'static str,
}

const fn on_load(name: &'static str, body: &'static str) -> Probe {
    Probe { name, needs_click: false, reaches: true, body }
}

const fn on_click(name: &'static str, body: &'static str) -> Probe {
    Probe { name, needs_click: true, reaches: true, body }
}

impl Probe {
    /// A probe of which the other host sees nothing, even if nobody hinders it.
    const fn without_effect(self) -> Self {
        Self { reaches: false, ..self }
    }
}

/// The beginning of each page.
pub(crate) const COMMON: &str = r#"<script>
const done = () => { document.title = "done"; };
// For attempts whose end no event reports.
const later = () => fetch("/delayed?ms=500").finally(done);
const target = "{{other}}/reached/{{name}}";
</script>
"#;

/// The other document of a probe or what answers it: scripts of workers.
pub(crate) const WORKER: &str = r#"
const attempt = target => fetch(target, { mode: "no-cors" }).catch(() => {});
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", event => event.waitUntil(self.clients.claim()));
self.addEventListener("connect", event => {
  const port = event.ports[0];
  port.onmessage = message => attempt(message.data).then(() => port.postMessage("done"));
});
self.addEventListener("message", event => {
  const answer = event.source ?? self;
  const work = attempt(event.data).then(() => answer.postMessage("done"));
  event.waitUntil?.(work);
});
"#;

/// All probes.
pub const PROBES: &[Probe] = &[
    on_load("image", r#"<img alt="" src="{{other}}/reached/image" onload="done()" onerror="done()">"#),
    on_load(
        "image-redirected",
        r#"<img alt="" src="/redirect?to={{other}}/reached/image-redirected" onload="done()" onerror="done()">"#,
    ),
    on_load("script", r#"<script src="{{other}}/reached/script" onload="done()" onerror="done()"></script>"#),
    on_load("module", r#"<script>import(target).catch(() => {}).finally(done);</script>"#),
    on_load(
        "style",
        r#"<link rel="stylesheet" href="{{other}}/reached/style" onload="done()" onerror="done()">"#,
    ),
    on_load(
        "font",
        r#"<style>@font-face { font-family: f; src: url("{{other}}/reached/font") }</style>
<p style="font-family: f">Text</p><script>document.fonts.load("16px f").catch(() => {}).finally(done);</script>"#,
    ),
    on_load("media", r#"<video src="{{other}}/reached/media" onerror="done()"></video>"#),
    on_load(
        "object",
        r#"<object data="{{other}}/reached/object" width="10" height="10"></object><script>later();</script>"#,
    ),
    on_load("embed", r#"<embed src="{{other}}/reached/embed"><script>later();</script>"#),
    on_load("fetch", r#"<script>fetch(target).catch(() => {}).finally(done);</script>"#),
    on_load(
        "fetch-redirected",
        r#"<script>fetch("/redirect?to=" + target, { mode: "no-cors" }).catch(() => {}).finally(done);</script>"#,
    ),
    on_load(
        "xhr",
        r#"<script>const x = new XMLHttpRequest(); x.open("GET", target); x.onloadend = done; x.send();</script>"#,
    ),
    on_load("beacon", r#"<script>navigator.sendBeacon(target, "text"); later();</script>"#),
    on_load(
        "event-source",
        r#"<script>const s = new EventSource(target); s.onopen = s.onerror = () => { s.close(); done(); };</script>"#,
    ),
    on_load(
        "websocket",
        r#"<script>const s = new WebSocket(target.replace("http", "ws")); s.onopen = s.onerror = done;</script>"#,
    ),
    on_load(
        "web-transport",
        r#"<script>
try { const t = new WebTransport(target.replace("http:", "https:")); t.closed.catch(() => {}); t.ready.catch(() => {}).finally(done); } catch { done(); }
later();
</script>"#,
    ),
    on_load(
        "webrtc-udp",
        r#"<script>
const peer = new RTCPeerConnection({ iceServers: [{ urls: "stun:{{other_host}}" }] });
peer.createDataChannel("c");
peer.onicegatheringstatechange = () => { if (peer.iceGatheringState === "complete") done(); };
peer.createOffer().then(offer => peer.setLocalDescription(offer));
later();
</script>"#,
    ),
    on_load(
        "webrtc-tcp",
        r#"<script>
const peer = new RTCPeerConnection({ iceServers: [{ urls: "turn:{{other_host}}?transport=tcp", username: "u", credential: "c" }] });
peer.createDataChannel("c");
peer.onicegatheringstatechange = () => { if (peer.iceGatheringState === "complete") done(); };
peer.createOffer().then(offer => peer.setLocalDescription(offer));
later();
</script>"#,
    ),
    on_load(
        "worker",
        r#"<script>const w = new Worker("/probe/worker.js"); w.onmessage = w.onerror = done; w.postMessage(target);</script>"#,
    ),
    on_load(
        "shared-worker",
        r#"<script>const w = new SharedWorker("/probe/worker.js"); w.onerror = done; w.port.onmessage = done; w.port.postMessage(target);</script>"#,
    ),
    on_load(
        "worker-import",
        r#"<script>
const source = new Blob([`try { importScripts("${target}"); } catch {} postMessage("done");`]);
const w = new Worker(URL.createObjectURL(source)); w.onmessage = w.onerror = done;
</script>"#,
    ),
    on_load(
        "service-worker",
        r#"<script>
navigator.serviceWorker.onmessage = done;
navigator.serviceWorker.register("/probe/worker.js").then(() => navigator.serviceWorker.ready)
  .then(registration => registration.active.postMessage(target)).catch(done);
</script>"#,
    ),
    on_load("iframe", r#"<iframe title="f" src="{{other}}/reached/iframe" onload="done()"></iframe>"#),
    on_load(
        "iframe-redirected",
        r#"<iframe title="f" src="/redirect?to={{other}}/reached/iframe-redirected" onload="done()"></iframe>"#,
    ),
    on_load(
        "iframe-srcdoc",
        r#"<iframe title="f" srcdoc="<img alt='' src='{{other}}/reached/iframe-srcdoc'>" onload="done()"></iframe>"#,
    ),
    on_load(
        "iframe-data",
        r#"<iframe title="f" src="data:text/html,<img src='{{other}}/reached/iframe-data'>" onload="done()"></iframe>"#,
    ),
    on_load(
        "iframe-blank",
        r#"<iframe title="f" id="f"></iframe><script>f.contentWindow.fetch(target).catch(() => {}).finally(done);</script>"#,
    ),
    on_load(
        "prefetch",
        r#"<link rel="prefetch" href="{{other}}/reached/prefetch"><script>later();</script>"#,
    ),
    on_load(
        "preload",
        r#"<link rel="preload" as="image" href="{{other}}/reached/preload"><script>later();</script>"#,
    ),
    // The page's answer has the header.
    on_load("preload-header", r#"<script>later();</script>"#),
    on_load("preconnect", r#"<link rel="preconnect" href="{{other}}"><script>later();</script>"#),
    // No host of ours has a name that would have to be resolved: whoever watches the resolver sees this one.
    on_load("dns-prefetch", r#"<link rel="dns-prefetch" href="//probe.invalid"><script>later();</script>"#)
        .without_effect(),
    on_load(
        "speculation",
        r#"<script type="speculationrules">{"prefetch": [{"source": "list", "urls": ["{{other}}/reached/speculation"], "eagerness": "immediate"}],
"prerender": [{"source": "list", "urls": ["{{other}}/reached/speculation"], "eagerness": "immediate"}]}</script><script>later();</script>"#,
    ),
    // The page's answer has a policy that forbids the image, and has that told to the other host.
    on_load("policy-report", r#"<img alt="" src="/image.svg" onerror="later()">"#),
    // The title is that of where it leads to, or of an error.
    on_load("script-location", r#"<script>location.href = target;</script>"#),
    on_load("meta-refresh", r#"<meta http-equiv="refresh" content="0; url={{other}}/reached/meta-refresh">"#),
    // Answered by a redirect.
    on_load("document-redirect", ""),
    on_click("link", r#"<a data-testid="go" href="{{other}}/reached/link">Go</a>"#),
    on_click(
        "link-redirected",
        r#"<a data-testid="go" href="/redirect?to={{other}}/reached/link-redirected">Go</a>"#,
    ),
    on_click(
        "link-download",
        r#"<a data-testid="go" download href="{{other}}/reached/link-download">Go</a>"#,
    ),
    on_click(
        "link-new-tab",
        r#"<a data-testid="go" target="_blank" href="{{other}}/reached/link-new-tab">Go</a>"#,
    ),
    on_click(
        "link-data",
        r#"<a data-testid="go" href="data:text/html,<img src='{{other}}/reached/link-data'>">Go</a>"#,
    )
    .without_effect(),
    on_click(
        "link-blob",
        r#"<a data-testid="go" id="go">Go</a>
<script>go.href = URL.createObjectURL(new Blob([`<img src="${target}">`], { type: "text/html" }));</script>"#,
    ),
    on_click(
        "link-javascript",
        r#"<a data-testid="go" href="javascript:void(location.href = target)">Go</a>"#,
    ),
    on_click("ping", r#"<a data-testid="go" href="/plain" ping="{{other}}/reached/ping">Go</a>"#),
    on_click("window-open", r#"<button data-testid="go" onclick="window.open(target)">Go</button>"#),
    on_click(
        "window-open-blank",
        r#"<button data-testid="go" onclick="const w = window.open(''); w.location = target">Go</button>"#,
    ),
    on_click(
        "form-post",
        r#"<form method="post" action="{{other}}/reached/form-post"><input name="a" value="1"><button data-testid="go">Go</button></form>"#,
    ),
    on_click(
        "form-redirected",
        r#"<form action="/redirect"><input type="hidden" name="to" value="{{other}}/reached/form-redirected"><button data-testid="go">Go</button></form>"#,
    ),
    on_click(
        "unload-beacon",
        r#"<a data-testid="go" href="/plain">Go</a>
<script>addEventListener("pagehide", () => { navigator.sendBeacon(target, "text"); fetch(target, { mode: "no-cors", keepalive: true }); });</script>"#,
    ),
];

pub(crate) fn find(name: &str) -> Option<&'static Probe> {
    PROBES.iter().find(|probe| probe.name == name)
}
