//! Actions with all their stages on a real Chromium. A machine without a browser leaves these tests out by the name of
//! this file.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

#[path = "../chromium_page/support.rs"]
#[allow(dead_code, clippy::panic, reason = "shared with the tests of the adapter, which use all of it")]
mod support;

mod labels;
mod pointing;
mod proofs;
mod restless;
mod targets;
mod unloaded;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use capataz_contracts::v1::{self, BrowserOutcome};
use capataz_contracts::{json, validate};
use capataz_executor::allowlist::Allowlist;
use capataz_executor::dsl::{Policy, materialise_action};
use capataz_executor::evidence::{EvidenceError, EvidenceSink, Stored};
use capataz_executor::perform::{Clock, Performer, Secrets, Task};
use capataz_testsite::seed_002::obligation;
use serde_json::{Value, json};
use support::{Opened, Pixels, Server, css, open_with};

fn spelled(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_ascii_lowercase()
}

const PASSWORD: &str = "correct horse & battery";

/// For actions that are not meant to run into their limit.
const PATIENCE_MS: i64 = 120_000;

struct Wall(Instant);

impl Clock for Wall {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_millis()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

struct Known;

impl Secrets for Known {
    fn has(&self, name: &str) -> bool {
        name == "PASSWORD"
    }

    fn resolve(&self, name: &str) -> Option<String> {
        self.has(name).then(|| PASSWORD.to_owned())
    }
}

#[derive(Default)]
struct Shelf(BTreeMap<String, Bytes>);

impl EvidenceSink for Shelf {
    async fn put(&mut self, _: &str, content: Bytes) -> Result<Stored, EvidenceError> {
        let id = blake3::hash(&content).to_hex().to_string();
        let size = content.len() as u64;
        self.0.insert(id.clone(), content);
        Ok(Stored { id, size })
    }

    async fn put_download(&mut self, download: &v1::DownloadRecord) -> Result<Stored, EvidenceError> {
        self.put("", Bytes::from(download.file_name.clone())).await
    }
}

/// A script in a browser, one action after the other.
struct Script {
    opened: Opened,
    performer: Performer,
    shelf: Shelf,
    clock: Wall,
    outcomes: Vec<BrowserOutcome>,
}

impl Script {
    async fn start(server: &Server, policy: Value) -> Self {
        Self::start_with(&[server], policy).await
    }

    /// The script may go to all of these servers.
    async fn start_with(servers: &[&Server], policy: Value) -> Self {
        let mut policy: v1::ScriptPolicy = json::parse("capataz.v1.ScriptPolicy", &policy).unwrap();
        policy.allowlist.extend(servers.iter().map(|server| server.entry()));
        policy.action_timeout_ms.get_or_insert(PATIENCE_MS);
        policy.navigation_timeout_ms.get_or_insert(PATIENCE_MS);
        let allowlist = Allowlist::parse(&policy.allowlist).unwrap();
        let policy = Policy::new(&policy).unwrap();
        Self {
            opened: open_with(servers, |options| {
                policy.testid_attribute().clone_into(&mut options.testid_attribute);
                options.allowlist = allowlist;
            })
            .await,
            performer: Performer::new(policy, Vec::new()),
            shelf: Shelf::default(),
            clock: Wall(Instant::now()),
            outcomes: Vec::new(),
        }
    }

    async fn perform(&mut self, action: Value) -> BrowserOutcome {
        let mut action: v1::Action = json::parse("capataz.v1.Action", &action).unwrap();
        "a".clone_into(&mut action.id);
        materialise_action(&mut action, self.performer.policy().spec());
        let task = Task { action, step_index: Some(0), ..Task::default() };
        let (page, shelf) = (&mut self.opened.page, &mut self.shelf);
        let outcome = self.performer.perform(page, &task, &Known, shelf, &self.clock).await;
        self.outcomes.push(outcome.clone());
        outcome
    }

    /// The action succeeds.
    async fn passes(&mut self, action: Value) -> BrowserOutcome {
        let outcome = self.perform(action.clone()).await;
        assert_eq!(outcome.error, None, "{action}");
        outcome
    }

    /// The action fails as [`Self::failed`] says.
    async fn fails(&mut self, action: Value, code: &str) -> Value {
        let outcome = self.perform(action.clone()).await;
        self.failed(&action, &outcome, code)
    }

    /// The outcome is a complete error of this code, and the evidence that it owes is kept; its details.
    fn failed(&self, action: &Value, outcome: &BrowserOutcome, code: &str) -> Value {
        let error = outcome.error.clone().unwrap();
        assert_eq!(error.error_code, code, "{action} {error:?}");
        let of_engine = v1::ExecutorError { run_id: "r".to_owned(), seq: 1, ..error.clone() };
        assert_eq!(validate::executor_error(&of_engine), []);
        let rules = obligation(code).unwrap();
        let stage = spelled(error.stage().as_str_name(), "ACTION_STAGE_");
        assert!(rules.stages.contains(&stage.as_str()), "{action} {stage}");
        let criticality = spelled(error.criticality().as_str_name(), "CRITICALITY_");
        for kind in rules.evidence_of(&stage, &criticality) {
            let kept = |piece: &v1::EvidenceRef| piece.kind == kind && self.shelf.0.contains_key(&piece.id);
            assert!(error.evidence_refs.iter().any(kept), "{action} lacks {kind}");
        }
        serde_json::from_str(error.details.as_deref().unwrap()).unwrap()
    }

    /// Nothing that was reported or kept as text has it.
    fn never_shows(&self, secret: &str) {
        for outcome in &self.outcomes {
            let text = format!("{outcome:?}");
            assert!(!text.contains(secret), "{text}");
        }
        for content in self.shelf.0.values() {
            let text = String::from_utf8_lossy(content);
            assert!(!text.contains(secret), "{text}");
        }
    }

    async fn end(self) {
        self.opened.browser.close(Duration::from_secs(10)).await;
    }
}

/// Shows what is typed into its password field, in a text and in an ordinary input.
const ECHO: &str = r#"<!doctype html><p id=plain>Nothing secret is here</p>
<input type=password aria-label=Password oninput="echo.textContent = copy.value = this.value"><p>You typed <b id=echo></b></p>
<input id=copy><p>Session <i id=jwt>eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3</i></p><p><u id=own>customer 77</u></p>
<input id=card value="4111 1111 1111 1111"><button>Go</button>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_mask_secrets_that_were_typed_and_those_that_only_their_looks_tell() {
    let server = Server::with(&[("/", ECHO)]).await;
    let policy = json!({"redaction": {"patterns": ["customer [0-9]+"]}});
    let mut script = Script::start(&server, policy).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let target = json!({"label": "Password"});
    script.passes(json!({"kind": "fill", "target": target, "value": "${secret:PASSWORD}"})).await;
    let taken = script.passes(json!({"kind": "screenshot"})).await;
    let clicked = script.passes(json!({"kind": "click", "target": {"role": "button", "name": "Go"}})).await;
    for (outcome, kind) in [(taken, "screenshot"), (clicked, "screenshot_before")] {
        let piece = outcome.evidence.iter().find(|piece| piece.kind == kind).unwrap();
        assert!(piece.redacted);
        let pixels = Pixels::of(&script.shelf.0[&piece.id]);
        for secret in ["#echo", "#copy", "#jwt", "#own", "#card"] {
            pixels.is_masked(&script.opened.found(&css(secret)).await.1.rect);
        }
        pixels.is_shown(&script.opened.found(&css("#plain")).await.1.rect);
        pixels.is_shown(&script.opened.found(&css("button")).await.1.rect);
    }
    script.end().await;
}

const LOGIN: &str = r#"<!doctype html><title>Sign in</title>
<form action="/welcome"><label>User <input name="u"></label>
<label>Password <input type="password" name="p"></label><button>Sign in</button></form>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_is_performed_and_proved_and_its_password_is_nowhere() {
    let welcome = "<!doctype html><title>Welcome</title><h1 data-testid=hello>Hello</h1>\
                   <script>document.body.append(location.search, decodeURIComponent(location.search))</script>";
    let server = Server::start(move |request| {
        let page = if request.path.starts_with("/welcome") { welcome } else { LOGIN };
        Some(support::Answer::html(page))
    })
    .await;
    let mut script = Script::start(&server, json!({})).await;
    let gone = script.passes(json!({"kind": "navigate", "url": server.url("/login")})).await;
    assert_eq!(gone.state_after.unwrap().title, "Sign in");
    script.passes(json!({"kind": "fill", "target": {"label": "User"}, "value": "ana"})).await;
    script
        .passes(json!({"kind": "fill", "target": {"label": "Password"}, "value": "${secret:PASSWORD}"}))
        .await;
    let submitted = script
        .passes(json!({
            "kind": "submit",
            "target": {"role": "button", "name": "Sign in"},
            "post": [{"kind": "text_equals", "target": {"testid": "hello"}, "value": "Hello"}],
        }))
        .await;
    assert!(submitted.state_after.unwrap().url.contains("p=«secret»"));
    let conditions = json!([{"kind": "title_equals", "value": "Other"}]);
    script.fails(json!({"kind": "assert", "conditions": conditions}), "POSTCONDITION_FAILED").await;
    script.never_shows(PASSWORD);
    script.never_shows("correct+horse");
    script.never_shows("correct%20horse");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_wrong_on_a_real_page_has_its_own_code() {
    let page = r#"<!doctype html><title>Form</title>
        <button data-testid=under style="position:absolute;top:100px">Under</button>
        <div id=cover style="position:fixed;inset:0;background:#0008" onclick="this.remove()">Cookies</div>
        <p>one</p><p>two</p><label><input type=checkbox> Agree</label>
        <a data-testid=away href="http://evil.example/">Away</a>"#;
    let server = Server::with(&[("/", page)]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let covered = json!({"kind": "click", "target": {"testid": "under"}, "timeout_ms": 1500});
    let overlay = script.fails(covered, "OVERLAY_BLOCKING").await;
    assert!(overlay["overlay_selector"].as_str().unwrap().contains("cover"), "{overlay}");
    script.passes(json!({"kind": "click", "target": {"css": "#cover"}})).await;
    script.passes(json!({"kind": "click", "target": {"testid": "under"}})).await;
    let two = script.fails(json!({"kind": "click", "target": {"css": "p"}}), "TARGET_NOT_UNIQUE").await;
    assert_eq!(two["count_observed"], 2);
    let missing = json!({"kind": "click", "target": {"testid": "none"}, "timeout_ms": 1500});
    script.fails(missing, "TARGET_NOT_FOUND").await;
    script.fails(json!({"kind": "click", "target": {"css": "p["}}), "INVALID_ACTIONSPEC").await;
    script.passes(json!({"kind": "check", "target": {"label": "Agree"}})).await;
    script
        .passes(json!({"kind": "assert", "conditions": [{"kind": "checked", "target": {"label": "Agree"}}]}))
        .await;
    script.fails(json!({"kind": "navigate", "url": "http://evil.example/"}), "DOMAIN_BLOCKED").await;
    let post = json!([{"kind": "title_equals", "value": "Away"}]);
    let critical =
        json!({"kind": "click", "target": {"testid": "away"}, "criticality": "critical", "post": post});
    let blocked = script.fails(critical, "ACTION_CRITICAL_BLOCKED").await;
    assert_eq!(blocked["critical_reason"], "unsafe_domain_escape");
    let away = json!({"kind": "click", "target": {"testid": "away"}, "post": post});
    let blocked = script.fails(away, "DOMAIN_BLOCKED").await;
    assert_eq!(blocked["host"], "evil.example");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_tables_lists_and_dialogs_go_through_all_stages() {
    let page = r#"<!doctype html><title>Files</title>
        <a data-testid=export href="/report.csv">Export</a>
        <input type=file data-testid=file onchange="names.textContent = this.files[0].name">
        <output id=names data-testid=names></output>
        <table data-testid=table><tr><th>Name<th>Card</tr><tr><td>Ana<td>4111 1111 1111 1111</tr></table>
        <select data-testid=list></select>
        <button data-testid=ask onclick="alert('No')">Ask</button>
        <button data-testid=enter onclick="setTimeout(() => document.body.append('Wrong password'), 100)">In</button>
        <script>setTimeout(() => { document.querySelector('select').innerHTML =
            '<option value=1>One</option><option value=2>Two</option>' }, 300)</script>"#;
    let server = Server::start(move |request| {
        Some(match request.path.as_str() {
            "/report.csv" => support::Answer::of("text/csv", "a,b")
                .header("content-disposition: attachment; filename=report.csv"),
            _ => support::Answer::html(page),
        })
    })
    .await;
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a.txt"), "a").unwrap();
    let folder = files.path().to_str().unwrap();
    let policy = json!({
        "upload_folders": [folder],
        "auth_failed": {"texts": ["Wrong password"]},
    });
    let mut script = Script::start(&server, policy).await;
    script.performer = Performer::new(script.performer.policy().clone(), vec![files.path().to_owned()]);
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;

    let downloaded = script
        .passes(json!({"kind": "download", "target": {"testid": "export"}, "output": "report",
                       "post": [{"kind": "download_completed", "value": "report.csv"}]}))
        .await;
    let value: Value = serde_json::from_str(&downloaded.output.unwrap().value).unwrap();
    assert_eq!((value["file_name"].as_str(), value["bytes"].as_u64()), (Some("report.csv"), Some(3)));
    let by_url =
        script.passes(json!({"kind": "download", "url": server.url("/report.csv"), "output": "again"})).await;
    assert_eq!(by_url.changes.unwrap().downloads.len(), 1);

    let upload = |file: &str| {
        json!({"kind": "upload", "target": {"testid": "file"}, "files": [format!("{folder}/{file}")],
               "post": [{"kind": "upload_listed", "target": {"testid": "names"}}]})
    };
    script.passes(upload("a.txt")).await;
    let missing = script.fails(upload("b.txt"), "UPLOAD_FAILED").await;
    assert_eq!(missing["upload_signal"], "file_missing");

    let extract =
        json!({"kind": "extract", "target": {"testid": "table"}, "extract": "table", "output": "t"});
    let table = script.passes(extract).await.output.unwrap();
    assert_eq!(table.value, r#"[["Name","Card"],["Ana","«secret»"]]"#);
    script.passes(json!({"kind": "select", "target": {"testid": "list"}, "options": ["Two"]})).await;
    let chosen = json!([{"kind": "value_equals", "target": {"testid": "list"}, "value": "2"}]);
    script.passes(json!({"kind": "assert", "conditions": chosen})).await;
    script
        .fails(
            json!({"kind": "click", "target": {"testid": "ask"}, "dialogs": "fail"}),
            "POSTCONDITION_FAILED",
        )
        .await;
    let welcome = json!([{"kind": "title_equals", "value": "Welcome"}]);
    let enter = json!({"kind": "click", "target": {"testid": "enter"}, "post": welcome});
    let signal = script.fails(enter, "AUTH_FAILED").await;
    assert_eq!(signal["auth_signal"], "text: Wrong password");
    script.never_shows("4111 1111");
    script.end().await;
}
