//! What is secret is nowhere: not in the data folder, the events, the evidence, the outputs or the log, in no form.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use capataz_contracts::json;
use capataz_contracts::v1::{self, ActionStage, event::Body};
use capataz_testsite::SECRETS;
use prost::Message;

use crate::bench::{Bench, Ended};

/// What the secret `SHOP` holds: every character that somebody escapes.
const TYPED: &str = "Zq7\"w&<x>'é/+ 9%k=Ñ";

/// What our crates have logged, whatever the level, since the first test of this file began.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn listen_to_the_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt().with_env_filter("capataz=trace").with_writer(|| ToLog).init();
        tracing::trace!(target: "capataz_test", "the log is kept");
    });
}

/// The secret as it is, as URLs, forms, JSON and HTML write it, and what base64 makes of it wherever it begins.
fn forms(secret: &str) -> BTreeSet<String> {
    let percent = |kept: &str| -> String {
        secret
            .bytes()
            .map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                    char::from(byte).to_string()
                }
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let html = |text: &str, quote: &str, apostrophe: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', quote).replace('\'', apostrophe)
    };
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_start_matches('"').trim_end_matches('"').to_owned();
    let mut forms = BTreeSet::from([
        secret.to_owned(),
        json.replace('/', "\\/"),
        json.replace('é', "\\u00e9").replace('Ñ', "\\u00d1"),
        json,
        html(secret, "&quot;", "&#39;"),
        html(secret, "\"", "'"),
        html(secret, "&#34;", "&#x27;"),
        percent("-_.~"),
        percent("-_.~!*'()"),
        percent("-_.~!*'();/?:@&=+$,#"),
        percent("-_.~").replace("%20", "+"),
        percent("-_.~").to_ascii_lowercase(),
        secret.replace(' ', ""),
        secret.replace(' ', "-"),
    ]);
    for offset in 0..3 {
        let mut bytes = vec![0; offset];
        bytes.extend_from_slice(secret.as_bytes());
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&bytes);
            // What depends on the bytes of the secret alone.
            let piece = &encoded[(offset * 8).div_ceil(6)..bytes.len() * 8 / 6];
            if piece.len() >= 8 {
                forms.insert(piece.to_owned());
            }
        }
    }
    forms
}

/// Every form of every secret, with the secret's name.
fn needles() -> Vec<(&'static str, String)> {
    let planted = SECRETS.iter().map(|secret| (secret.name, secret.value)).chain([("typed", TYPED)]);
    planted.flat_map(|(name, value)| forms(value).into_iter().map(move |form| (name, form))).collect()
}

fn contains(hay: &[u8], needle: &str) -> bool {
    memchr::memmem::find(hay, needle.as_bytes()).is_some()
}

/// Which secrets are in it.
fn found_in(place: &str, content: &[u8], needles: &[(&'static str, String)]) -> Vec<String> {
    let found = needles.iter().filter(|(_, form)| contains(content, form));
    found.map(|(name, form)| format!("{name} as {form:?} in {place}")).collect()
}

fn every_file(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { every_file(&path, files) } else { files.push(path) }
    }
}

/// A daemon whose secret `SHOP` is [`TYPED`].
async fn bench() -> Bench {
    listen_to_the_log();
    Bench::start_with(|config, folder| {
        let secrets = folder.join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        std::fs::write(secrets.join("SHOP"), format!("{TYPED}\n")).unwrap();
        config.secrets_dir = Some(secrets);
    })
    .await
}

/// Searches everything that is kept of these runs. Returns the evidence, by its kinds.
async fn search(bench: &Bench, ended: &[Ended]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let needles = needles();
    let mut hits = Vec::new();
    let mut evidence: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for run in ended {
        for event in &run.events {
            let place = format!("event {} of {}", event.seq, run.run_id);
            hits.extend(found_in(&place, &event.encode_to_vec(), &needles));
            let printed = json::print("capataz.v1.Event", event).to_string();
            hits.extend(found_in(&format!("{place}, printed"), printed.as_bytes(), &needles));
            let refs = match &event.body {
                Some(Body::ActionFailed(failed)) => failed.error.clone().unwrap_or_default().evidence_refs,
                Some(Body::ActionFinished(finished)) => finished.evidence.clone(),
                _ => Vec::new(),
            };
            for piece in refs {
                let content = bench.blob(&piece.id).await;
                hits.extend(found_in(&format!("{} of {place}", piece.kind), &content, &needles));
                evidence.entry(piece.kind).or_default().push(content);
            }
        }
        let result = json::print("capataz.v1.RunResult", &run.result).to_string();
        hits.extend(found_in("the result", result.as_bytes(), &needles));
    }
    crate::support::until_no_profile(&bench.data_dir()).await;
    let mut files = Vec::new();
    every_file(&bench.data_dir(), &mut files);
    assert!(files.iter().any(|file| file.ends_with("capataz.db")), "{files:?}");
    for file in files {
        let content = std::fs::read(&file).unwrap();
        hits.extend(found_in(&file.display().to_string(), &content, &needles));
    }
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(contains(&log, "the log is kept"));
    hits.extend(found_in("the log", &log, &needles));
    hits.sort();
    hits.dedup();
    assert!(hits.is_empty(), "{hits:#?}");
    evidence
}

/// Sets up a page that holds every secret there is, and types one more into its password field.
const FULL_OF_SECRETS: &str = r#"
    [[actions]]
    id = "open"
    kind = "navigate"
    url = "http://{site}/secrets"
    [[actions]]
    id = "password"
    kind = "fill"
    target = { label = "Password" }
    value = "${secret:SHOP}"
"#;

#[test]
fn the_search_finds_what_is_there() {
    for (name, form) in needles() {
        let hay = format!("before{form}after");
        assert!(!found_in("here", hay.as_bytes(), &[(name, form)]).is_empty());
    }
    let encoded = STANDARD_NO_PAD.encode(format!("ab{TYPED}cd"));
    assert!(!found_in("here", encoded.as_bytes(), &needles()).is_empty());
}

#[tokio::test]
async fn a_script_that_succeeds_keeps_no_secret_and_hides_the_password_in_its_pictures() {
    let bench = bench().await;
    let toml = format!(
        r#"
        name = "success"
        {FULL_OF_SECRETS}
        [[actions]]
        id = "picture"
        kind = "screenshot"
        full_page = true
        [[actions]]
        id = "card"
        kind = "extract"
        target = {{ css = "p.card" }}
        extract = "text"
        output = "card"
        [[actions]]
        id = "key"
        kind = "extract"
        target = {{ testid = "holder" }}
        extract = "attribute"
        attribute = "data-api-key"
        output = "key"
        [[actions]]
        id = "href"
        kind = "extract"
        target = {{ testid = "link" }}
        extract = "attribute"
        attribute = "href"
        output = "href"
        [[actions]]
        id = "click"
        kind = "click"
        target = {{ testid = "target" }}
        [[actions]]
        id = "follow"
        kind = "click"
        target = {{ testid = "link" }}
        [[actions]]
        id = "address"
        kind = "extract"
        target = {{ testid = "address" }}
        extract = "text"
        output = "address"
        [[actions]]
        id = "redirect"
        kind = "navigate"
        url = "http://{{site}}/secrets/redirect"
        [[actions]]
        id = "after"
        kind = "screenshot"
        [[actions]]
        id = "echo"
        kind = "navigate"
        url = "http://{{site}}/secrets/echo"
        [[actions]]
        id = "typed"
        kind = "fill"
        target = {{ testid = "password" }}
        value = "${{secret:SHOP}}"
        [[actions]]
        id = "said"
        kind = "extract"
        target = {{ testid = "status" }}
        extract = "text"
        output = "said"
        [[actions]]
        id = "click-echo"
        kind = "press"
        key = "Tab"
        "#
    );
    let ended = bench.run(&toml).await.expect_success();
    assert!(ended.output("said").as_str().unwrap().starts_with("You typed "), "the page has shown it");
    assert!(!bench.site.requests().iter().all(|request| request.header("x-api-key").is_none()));
    let is_redirect = |event: &v1::Event| {
        matches!(&event.body, Some(Body::ActionFinished(finished))
        if finished.changes.as_ref().is_some_and(|changes| !changes.redirects.is_empty()))
    };
    assert!(ended.events.iter().any(is_redirect), "the redirect was recorded, without its token");
    let place = ended.finish_of("password").unwrap().resolution.clone().unwrap();
    let evidence = search(&bench, &[ended]).await;
    for picture in &evidence["screenshot"][..1] {
        check_masked(picture, &place);
    }
    // The picture before the click is one of those with the password on them.
    assert!(evidence["screenshot_before"].len() >= 3);
}

/// Every pixel of the element has the one colour of masks.
fn check_masked(picture: &[u8], place: &v1::ResolutionRecord) {
    let mut reader = png::Decoder::new(io::Cursor::new(picture)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    let channels = frame.color_type.samples();
    let (left, top) = (place.x.unwrap().ceil() as usize, place.y.unwrap().ceil() as usize);
    let right = (place.x.unwrap() + place.width.unwrap()).floor() as usize;
    let bottom = (place.y.unwrap() + place.height.unwrap()).floor() as usize;
    assert!(right > left + 50 && bottom > top + 10, "the password field has a size: {place:?}");
    for row in top..bottom {
        for column in left..right {
            let at = row * frame.line_size + column * channels;
            assert_eq!(pixels[at..at + 3], [0xd0, 0x00, 0xd0], "pixel {column}, {row}");
        }
    }
}

/// A script that fails in this stage, on the page with all the secrets.
struct Failing {
    stage: ActionStage,
    code: &'static str,
    policy: &'static str,
    action: &'static str,
}

#[tokio::test]
async fn a_script_that_fails_keeps_no_secret_whatever_the_stage() {
    let failing = [
        Failing {
            stage: ActionStage::ProposalValidation,
            code: "INVALID_ACTIONSPEC",
            policy: "",
            action: r#"kind = "click"
            target = { css = "p:unheard-of(" }"#,
        },
        Failing {
            stage: ActionStage::Policy,
            code: "ACTION_CRITICAL_BLOCKED",
            policy: "critical = [{ name_matches = \"Save\" }]",
            action: r#"kind = "click"
            target = { testid = "target" }"#,
        },
        Failing {
            stage: ActionStage::Precondition,
            code: "PRECONDITION_FAILED",
            policy: "",
            action: r#"kind = "click"
            target = { testid = "target" }
            timeout = "1s"
            criticality = "critical"
            pre = [
                { kind = "text_equals", target = { css = "p.card" }, value = "no card" },
                { kind = "value_equals", target = { label = "Password" }, value = "no password" },
                { kind = "attribute_equals", target = { testid = "holder" }, attribute = "data-api-key", value = "no key" },
                { kind = "attribute_equals", target = { testid = "link" }, attribute = "href", value = "no link" },
                { kind = "attribute_equals", target = { css = "input[name=csrf]" }, attribute = "value", value = "no token" },
                { kind = "text_contains", value = "nothing of the kind" },
            ]
            post = [{ kind = "text_equals", target = { testid = "status" }, value = "saved" }]"#,
        },
        Failing {
            stage: ActionStage::Precondition,
            code: "TARGET_NOT_UNIQUE",
            policy: "",
            action: r#"kind = "click"
            target = { css = "p, input" }"#,
        },
        Failing {
            stage: ActionStage::Execution,
            code: "NAVIGATION_TIMEOUT",
            policy: "",
            action: r#"kind = "navigate"
            url = "http://{site}/navigate/never"
            timeout = "1s""#,
        },
        Failing {
            stage: ActionStage::Postcondition,
            code: "POSTCONDITION_FAILED",
            policy: "",
            action: r#"kind = "fill"
            target = { label = "Password" }
            value = "${secret:SHOP}"
            timeout = "1s"
            post = [
                { kind = "value_equals", target = { label = "Password" }, value = "no password" },
                { kind = "value_equals", target = { label = "Code" }, value = "no code" },
                { kind = "text_matches", target = { css = "main" }, value = "nothing of the kind" },
            ]"#,
        },
    ];
    let bench = bench().await;
    let mut ended = Vec::new();
    for Failing { stage, code, policy, action } in failing {
        let toml = format!(
            "name = \"failure\"\n[policy]\nallowlist = [\"{{site}}\"]\n{policy}\n{FULL_OF_SECRETS}\n[[actions]]\nid = \"a\"\n{action}\n"
        );
        let run = bench.run(&toml).await;
        let error = run.error();
        assert_eq!((error.error_code.as_str(), error.stage()), (code, stage), "{error:?}");
        ended.push(run);
    }
    // The page's own text is there, so it is the secrets that are not.
    let evidence = search(&bench, &ended).await;
    for kind in ["html_full", "dom_snapshot_partial"] {
        let is_there = |content: &Vec<u8>| contains(content, "Password") && contains(content, "«secret»");
        assert!(evidence[kind].iter().any(is_there), "{kind}");
    }
    assert!(evidence["html_full"].iter().any(|html| contains(html, "Data attribute")));
}

#[tokio::test]
async fn evidence_that_cannot_be_kept_leaves_no_secret_behind() {
    let bench = bench().await;
    let blobs = bench.data_dir().join("blobs");
    std::fs::rename(&blobs, bench.folder.path().join("aside")).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let ended = bench.run(&format!("name = \"full\"\n{FULL_OF_SECRETS}")).await;
    assert_eq!(ended.error().error_code, "EVIDENCE_FAILED");
    std::fs::remove_file(&blobs).unwrap();
    std::fs::rename(bench.folder.path().join("aside"), &blobs).unwrap();
    search(&bench, &[ended]).await;
}

#[tokio::test]
async fn what_a_session_observes_has_no_secret() {
    let bench = bench().await;
    let policy = v1::ScriptPolicy { allowlist: vec![bench.site.host()], ..Default::default() };
    let open = v1::OpenBrowserRequest { policy: Some(policy), ..Default::default() };
    let mut client = bench.executor.clone();
    let run = client.open_browser(open).await.unwrap().into_inner().run_id;
    let action = |kind, id: &str| v1::Action { id: id.to_owned(), kind: kind as i32, ..Default::default() };
    let open =
        v1::Action { url: Some(bench.site.url("/secrets")), ..action(v1::ActionKind::Navigate, "open") };
    let label = v1::Target { label: Some("Password".to_owned()), ..Default::default() };
    let value = Some("${secret:SHOP}".to_owned());
    let fill = v1::Action { target: Some(label), value, ..action(v1::ActionKind::Fill, "fill") };
    let mut seen = Vec::new();
    for (number, action) in [open, fill].into_iter().enumerate() {
        let request_id = format!("r{number}");
        let request =
            v1::ProposeRequest { run_id: run.clone(), action: Some(action), request_id, if_seq: None };
        let answer = client.propose(request).await.unwrap().into_inner();
        assert!(matches!(answer.outcome, Some(v1::propose_response::Outcome::Success(_))), "{answer:?}");
        seen.extend(answer.encode_to_vec());
        let request = v1::ObserveRequest { run_id: run.clone(), max_characters: None };
        let observed = client.observe(request).await.unwrap().into_inner();
        assert!(observed.outline.contains("Password"), "{}", observed.outline);
        seen.extend(observed.encode_to_vec());
        let browsers = client.list_browsers(v1::ListBrowsersRequest {}).await.unwrap().into_inner();
        seen.extend(browsers.encode_to_vec());
    }
    let close = v1::CloseBrowserRequest { run_id: run.clone(), request_id: "close".to_owned() };
    client.close_browser(close).await.unwrap();
    let hits = found_in("what the session said", &seen, &needles());
    assert!(hits.is_empty(), "{hits:#?}");
    let ended = bench.ended(run).await;
    search(&bench, &[ended]).await;
}
