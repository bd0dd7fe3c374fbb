//! Dialogs, tabs and navigation within a document.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page(
        "/dialog/alert-on-load",
        "Alert on load",
        r#"<script>alert("Welcome"); say("after the alert");</script>"#,
    ),
    page(
        "/dialog/fifty",
        "Fifty alerts",
        r#"<button data-testid="target" onclick="for (let n = 1; n <= 50; n++) alert('Alert ' + n); say('after the alerts')">Start</button>"#,
    ),
    page(
        "/dialog/confirm",
        "Confirm",
        r#"<button data-testid="target" onclick="say(confirm('Delete the report?') ? 'deleted' : 'kept')">Delete</button>"#,
    ),
    page(
        "/dialog/prompt",
        "Prompt",
        r#"<button data-testid="target" onclick="const name = prompt('Your name?', 'nobody'); say(name === null ? 'no name' : 'hello, ' + name)">Greet</button>"#,
    ),
    page(
        "/dialog/beforeunload",
        "Unsaved changes",
        r#"<label>Text <input data-testid="text"></label>
<a data-testid="leave" href="/plain">Leave</a>
<script>addEventListener("beforeunload", event => { event.preventDefault(); event.returnValue = "unsaved"; });</script>"#,
    ),
    page(
        "/dialog/in-frame",
        "Dialog of a frame",
        r#"<iframe title="Inner" data-testid="inner" src="/dialog/confirm" width="600" height="300"></iframe>"#,
    ),
    page(
        "/tabs",
        "Tabs",
        r#"<p><a data-testid="blank" href="/tabs/new" target="_blank">In a new tab</a></p>
<p><a data-testid="blank-opener" href="/tabs/new" target="_blank" rel="opener">In a new tab that knows us</a></p>
<button data-testid="open" onclick="window.open('/tabs/new')">Open</button>
<button data-testid="popup" onclick="window.open('/tabs/new', 'p', 'width=300,height=200')">Pop up</button>
<button data-testid="closes" onclick="window.open('/tabs/closes')">Open one that closes itself</button>
<button data-testid="written" onclick="const w = window.open(''); w.document.write('<title>Written</title><p>written</p>')">Write one</button>
<button data-testid="alerting" onclick="window.open('/dialog/alert-on-load')">Open one that alerts</button>"#,
    ),
    page(
        "/tabs/new",
        "New tab",
        r#"<p data-testid="opener" id="knows"></p>
<button data-testid="target" onclick="say('saved'); hit('new-tab')">Save</button>
<button data-testid="close" onclick="window.close()">Close</button>
<script>knows.textContent = window.opener ? "knows its opener" : "knows no opener";</script>"#,
    ),
    page(
        "/tabs/closes",
        "Tab that closes itself",
        r#"<script>hit("closes").then(() => window.close());</script>"#,
    ),
    page("/tabs/on-load", "Tab on load", r#"<script>window.open("/tabs/new");</script>"#),
    page(
        "/navigate",
        "Navigation",
        r##"<p><a data-testid="chain" href="/navigate/chain">Three redirects</a></p>
<p><a data-testid="never" href="/navigate/never">No answer</a></p>
<p><a data-testid="endless" href="/navigate/endless">No end</a></p>
<p><a data-testid="loop" href="/navigate/loop">In circles</a></p>
<p><a data-testid="other" href="/navigate/other">Redirect to another host</a></p>
<p><a data-testid="204" href="/status/204">Nothing</a></p>
<p><a data-testid="404" href="/status/404">Missing</a></p>
<p><a data-testid="hash" href="#below">Below</a></p>
<button data-testid="push" onclick="history.pushState(null, '', '/navigate/pushed'); say('pushed')">Push</button>
<button data-testid="replace" onclick="history.replaceState(null, '', '/navigate/replaced'); say('replaced')">Replace</button>
<button data-testid="script" onclick="location.href = '/navigate/arrived'">By a script</button>
<button data-testid="late" onclick="fetch('/delayed?ms=300').then(() => { location.href = '/navigate/arrived'; })">By a script, later</button>
<h2 id="below">Below</h2>"##,
    ),
    page("/navigate/arrived", "Arrived", r#"<p>Here we are.</p>"#),
    page(
        "/navigate/meta-refresh",
        "Refresh",
        r#"<meta http-equiv="refresh" content="0; url=/navigate/arrived"><p>One moment.</p>"#,
    ),
    page(
        "/navigate/slow-image",
        "Slow image",
        r#"<img alt="" src="/navigate/never"><p>The text is here, the image never comes.</p>"#,
    ),
    page(
        "/navigate/to-file",
        "Other schemes",
        r#"<p><a data-testid="file" href="file:///etc/hostname">file</a></p>
<p><a data-testid="chrome" href="chrome://version">chrome</a></p>
<p><a data-testid="mail" href="mailto:ana@example.com">mailto</a></p>"#,
    ),
];
