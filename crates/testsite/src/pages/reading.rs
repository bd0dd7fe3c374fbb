//! What is read: texts, tables, secrets, lists of downloads.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page("/plain", "Plain page", r#"<p>Nothing happens here.</p>"#),
    page(
        "/locale",
        "Languages",
        r#"<p data-testid="said"></p>
<script>
const { locale, timeZone } = Intl.DateTimeFormat().resolvedOptions();
const hour = new Date(Date.UTC(2026, 0, 15, 12)).getHours();
document.querySelector('[data-testid=said]').textContent = [navigator.language, locale, timeZone, hour].join(' ');
</script>"#,
    ),
    page(
        "/text",
        "Texts",
        "<p data-testid=\"spaced\">  white \n\t space  </p>
<p data-testid=\"composed\">caf\u{e9}</p>
<p data-testid=\"decomposed\">cafe\u{301}</p>
<p data-testid=\"entities\">&lt;b&gt; &amp; &quot;quotes&quot;</p>
<p data-testid=\"emoji\">\u{1f469}\u{200d}\u{1f680} \u{202e}reversed\u{202c}</p>
<a data-testid=\"link\" href=\"/plain?a=1#b\">Plain page</a>
<img data-testid=\"image\" alt=\"A red square\" src=\"/image.svg\">
<ul data-testid=\"list\"><li>one</li><li>two</li><li>three</li></ul>",
    ),
    page(
        "/tables",
        "Tables",
        r#"<table data-testid="orders">
<caption>Orders</caption>
<thead><tr><th>Number</th><th>Customer</th><th>Total</th></tr></thead>
<tbody>
<tr><td>17</td><td>Ana</td><td>12.50</td></tr>
<tr><td>18</td><td>Berta &amp; Carla</td><td></td></tr>
</tbody>
<tfoot><tr><td colspan="2">Sum</td><td>12.50</td></tr></tfoot>
</table>
<table data-testid="spans">
<tr><th rowspan="2">Crew</th><th colspan="2">Hours</th></tr>
<tr><th>Mon</th><th>Tue</th></tr>
<tr><td>A</td><td>8</td><td>7</td></tr>
</table>
<table data-testid="empty"></table>"#,
    ),
    page(
        "/downloads",
        "Downloads",
        r#"<p><a data-testid="ok" href="/download/ok">Report</a></p>
<p><a data-testid="slow" href="/download/slow">Slow report</a></p>
<p><a data-testid="aborted" href="/download/aborted">Report that breaks off</a></p>
<p><a data-testid="endless" href="/download/endless">Endless report</a></p>
<p><a data-testid="large" href="/download/large">Large report</a></p>
<p><a data-testid="hostile" href="/download/hostile">Report with an odd name</a></p>
<p><a data-testid="missing" href="/status/404" download>Missing report</a></p>
<p><a data-testid="shown" href="/plain">No download</a></p>
<button data-testid="blob" onclick="const a = document.createElement('a'); a.href = window.URL.createObjectURL(new Blob(['made here\n'])); a.download = 'made.txt'; a.click()">Made here</button>"#,
    ),
    page(
        "/secrets",
        "Secrets",
        r#"<form>
<p><label>Password <input type="password" name="password" value="{{secret:password}}"></label></p>
<p><label>Code <input name="code" autocomplete="one-time-code" value="{{secret:one-time-code}}"></label></p>
<p><label>Card <input name="card" autocomplete="cc-number" value="{{secret:card}}"></label></p>
<input type="hidden" name="csrf" value="{{secret:hidden}}">
</form>
<p data-testid="holder" data-api-key="{{secret:provider-key}}">Data attribute</p>
<p>Forge: {{secret:forge-token}}</p>
<p>Cloud: {{secret:cloud-key}}</p>
<p>Authorization: Bearer {{secret:jwt}}</p>
<p class="card">Card {{secret:card}}</p>
<p><a data-testid="link" href="/secrets/landing?access_token={{secret:query}}#id_token={{secret:fragment}}">Link with a token</a></p>
<button data-testid="target" onclick="say('saved'); hit('target')">Save</button>
<script>
console.log("token {{secret:provider-key}}");
localStorage.setItem("token", "{{secret:storage}}");
sessionStorage.setItem("token", "{{secret:storage}}");
fetch("/echo/headers", { headers: { "x-api-key": "{{secret:header}}" } });
</script>"#,
    ),
    page(
        "/secrets/landing",
        "Landing",
        r#"<p data-testid="address" id="address"></p><script>address.textContent = location.href;</script>"#,
    ),
    page(
        "/secrets/echo",
        "Echo",
        r#"<label>Password <input type="password" data-testid="password" oninput="say('You typed ' + this.value)"></label>"#,
    ),
];
