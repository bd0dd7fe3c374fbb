//! Forms, sign-in and uploads.

use super::{Page, page};

pub(super) const PAGES: &[Page] = &[
    page(
        "/form",
        "Order",
        r#"<form method="post" action="/form/sent" data-testid="form">
<p><label>Name <input name="name" required></label></p>
<p><label>E-mail <input name="email" type="email" autocomplete="email"></label></p>
<p><label for="amount">Amount</label> <input id="amount" name="amount" type="number" min="1" max="9" value="1"></p>
<p><label>Day <input name="day" type="date"></label></p>
<p><label>Notes <textarea name="notes">none</textarea></label></p>
<p><label>Size <select name="size"><option value="s">Small</option><option value="m" selected>Medium</option><option value="l">Large</option><option value="xl" disabled>Extra large</option></select></label></p>
<p><label>Extras <select name="extras" multiple><option value="nuts">Nuts</option><option value="mint">Mint</option><option value="salt">Salt</option></select></label></p>
<p><label><input type="checkbox" name="gift" value="yes"> As a gift</label></p>
<fieldset><legend>Payment</legend>
<label><input type="radio" name="payment" value="invoice" checked> Invoice</label>
<label><input type="radio" name="payment" value="card"> Card</label></fieldset>
<p><label>Number <input name="number" value="A-17" readonly></label></p>
<p><label>Branch <input name="branch" value="North" disabled></label></p>
<div contenteditable="true" role="textbox" aria-label="Remark" data-testid="remark">edit me</div>
<input type="hidden" name="csrf" value="{{secret:hidden}}">
<p><button data-testid="send">Send</button> <button type="button" data-testid="cancel">Cancel</button></p>
</form>"#,
    ),
    page(
        "/form/get",
        "Search",
        r#"<form action="/echo"><label>Search <input name="q"></label> <button>Search</button></form>"#,
    ),
    page(
        "/form/by-script",
        "Form sent by a script",
        r#"<form data-testid="form"><label>Name <input name="name" required></label> <button data-testid="send">Send</button></form>
<script>
document.querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(event.target));
  fetch("/form/sent", { method: "POST", body: fields }).then(() => say("sent"));
});
</script>"#,
    ),
    page(
        "/sign-in",
        "Sign in",
        r#"<form method="post" action="/sign-in">
<p><label>User <input name="user" autocomplete="username"></label></p>
<p><label>Password <input name="password" type="password" autocomplete="current-password"></label></p>
<p><button data-testid="sign-in">Sign in</button></p>
</form>"#,
    ),
    page(
        "/sign-in/401",
        "Sign in (401)",
        r#"<form method="post" action="/sign-in/401">
<p><label>User <input name="user"></label></p>
<p><label>Password <input name="password" type="password"></label></p>
<p><button data-testid="sign-in">Sign in</button></p>
</form>"#,
    ),
    page(
        "/sign-in/redirect",
        "Sign in (redirect)",
        r#"<form method="post" action="/sign-in/redirect">
<p><label>User <input name="user"></label></p>
<p><label>Password <input name="password" type="password"></label></p>
<p><button data-testid="sign-in">Sign in</button></p>
</form>"#,
    ),
    page(
        "/sign-in/by-script",
        "Sign in (script)",
        r#"<form>
<p><label>User <input name="user"></label></p>
<p><label>Password <input name="password" type="password"></label></p>
<p><button data-testid="sign-in">Sign in</button></p>
</form>
<script>
document.querySelector("form").addEventListener("submit", event => {
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(event.target));
  fetch("/sign-in/401", { method: "POST", body: fields }).then(answer => say(answer.ok ? "Welcome, ana." : "Wrong user or password."));
});
</script>"#,
    ),
    page(
        "/login",
        "Log in again",
        r#"<p role="alert">Your session has ended.</p><p><a href="/sign-in">Sign in</a></p>"#,
    ),
    page(
        "/session-lost",
        "Session lost",
        r#"<script>fetch("/api/account").then(answer => say(answer.status === 401 ? "Session expired" : "Welcome, ana."));</script>"#,
    ),
    page(
        "/session-lost/silent",
        "Session lost silently",
        r#"<button data-testid="target" onclick="fetch('/api/account').then(answer => { if (answer.ok) say('saved'); })">Save</button>"#,
    ),
    page(
        "/session-lost/pushed",
        "Session lost in one document",
        r#"<button data-testid="target" onclick="history.pushState(null, '', '/login?from=here'); this.remove(); say('Please sign in.')">Save</button>"#,
    ),
    page(
        "/upload",
        "Upload",
        r#"<form method="post" action="/upload/received" enctype="multipart/form-data">
<p><label>One file <input type="file" name="one" data-testid="one"></label></p>
<p><label>Several files <input type="file" name="several" data-testid="several" multiple></label></p>
<p><button data-testid="send">Upload</button></p>
</form>
<ul data-testid="files" id="files"></ul>
<script>
addEventListener("change", event => {
  files.replaceChildren(...Array.from(event.target.files, file => {
    const line = document.createElement("li");
    line.textContent = `${file.name} (${file.size} bytes)`;
    return line;
  }));
});
</script>"#,
    ),
    page(
        "/upload/silent",
        "Upload that says nothing",
        r#"<label>One file <input type="file" data-testid="one"></label>"#,
    ),
    page(
        "/upload/late",
        "Upload listed late",
        r#"<label>One file <input type="file" data-testid="one"></label>
<script>
addEventListener("change", event => {
  const name = event.target.files[0].name;
  fetch("/delayed?ms=300").then(() => say(`${name} uploaded`));
});
</script>"#,
    ),
    page(
        "/upload/hidden",
        "Upload behind a button",
        r#"<input type="file" id="f" data-testid="one" style="display: none" onchange="say(this.files[0].name + ' uploaded')">
<button data-testid="choose" onclick="f.click()">Choose a file</button>"#,
    ),
    page(
        "/upload/refuses",
        "Upload that refuses",
        r#"<label>One file <input type="file" data-testid="one" accept=".pdf" onchange="this.value = ''; say('only PDF')"></label>"#,
    ),
];
