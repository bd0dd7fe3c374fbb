//! The report of each kind of run in a real Chromium: on a desktop and on a phone nothing runs over, the failure is seen
//! without scrolling, the console is silent, and times are those of the reader. And the evidence of actions, saved.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::reported::{Made, Reported};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capataz_cdp::{Browser, Events, LaunchOptions, Session, find, passed_environment};
use serde_json::{Value, json};

/// Widths and heights of the windows: a desktop, and a phone.
const WINDOWS: [(u32, u32); 2] = [(1280, 800), (390, 844)];
/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(120);

async fn browser(folder: &Path) -> Browser {
    let (named, path) = (std::env::var_os("CAPATAZ_CHROMIUM"), std::env::var_os("PATH"));
    let found = find::chromium(named.as_deref().map(Path::new), path.as_deref()).await;
    let program = found.expect("these tests need a Chromium").program;
    let mut options = LaunchOptions::new(program, folder.join("profile"));
    options.environment = passed_environment(true, |name| std::env::var_os(name));
    options.answer_limit = PATIENCE;
    Browser::launch(options).await.unwrap()
}

/// A page, and what its console says.
async fn page(browser: &Browser) -> (Session, Events) {
    let session = browser.connection().browser();
    let created: Value = session.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
    let page = session.attach(created["targetId"].as_str().unwrap()).await.unwrap();
    let said = page.subscribe(&["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"]);
    for method in ["Log.enable", "Runtime.enable", "Page.enable"] {
        let _: Value = page.call(method, json!({})).await.unwrap();
    }
    let zone = json!({ "timezoneId": "Asia/Tokyo" });
    let _: Value = page.call("Emulation.setTimezoneOverride", zone).await.unwrap();
    (page, said)
}

async fn evaluate(page: &Session, expression: &str) -> Value {
    let params = json!({ "expression": expression, "returnByValue": true });
    let answer: Value = page.call("Runtime.evaluate", params).await.unwrap();
    assert!(answer.get("exceptionDetails").is_none(), "{answer}");
    answer["result"]["value"].clone()
}

/// How wide the page is, and the elements that are wider than the window.
const WIDTHS: &str = r#"(() => {
  const wide = [...document.querySelectorAll("body *")]
    .filter((one) => !one.closest(".wide, pre, svg") && one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => `${one.tagName}.${one.className}`);
  return { inner: innerWidth, scroll: document.documentElement.scrollWidth, wide };
})()"#;

/// The text of the failure as far as it is seen without scrolling.
const SEEN: &str = r#"[...document.querySelectorAll(".why strong, .asks strong")]
  .filter((one) => { const at = one.getBoundingClientRect(); return at.width > 0 && at.top >= 0 && at.bottom <= innerHeight; })
  .map((one) => one.textContent)"#;

/// Keeps what a person sees first of a report, for docs/reports.md: `cargo xtask pictures` asks for it.
async fn keep_picture(page: &Session, made: &Made, width: u32) {
    if std::env::var_os("CAPATAZ_WRITE_PICTURES").is_none() {
        return;
    }
    let shot: Value = page.call("Page.captureScreenshot", json!({ "format": "png" })).await.unwrap();
    let picture = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    fs::write(folder.join(format!("report-{}-{width}.png", made.kind)), picture).unwrap();
}

async fn looks_right(page: &Session, said: &mut Events, file: &Path, made: &Made) {
    for (width, height) in WINDOWS {
        let what = format!("{} at {width} pixels", file.display());
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let _: Value = page.call("Emulation.setDeviceMetricsOverride", metrics).await.unwrap();
        page.navigate(&format!("file://{}", file.display()), "Page.loadEventFired").await.unwrap();
        let seen = evaluate(page, SEEN).await;
        let seen: Vec<&str> = seen.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            !seen.is_empty() && (made.failure.is_empty() || seen.contains(&made.failure)),
            "{what}: {seen:?}"
        );
        keep_picture(page, made, width).await;
        for open in ["", "document.querySelectorAll('details').forEach((one) => one.open = true)"] {
            evaluate(page, open).await;
            let widths = evaluate(page, WIDTHS).await;
            assert_eq!(widths["inner"], width, "{what}");
            assert!(widths["scroll"].as_u64() <= widths["inner"].as_u64(), "{what}: {widths}");
            assert_eq!(widths["wide"], json!([]), "{what}");
        }
        let bars = evaluate(page, "document.querySelectorAll('#timeline .row svg.lane').length").await;
        assert!(bars.as_u64() >= Some(2), "{what}: {bars}");
        let time = evaluate(page, "document.querySelector('time').textContent").await;
        assert!(time.as_str().unwrap().contains("GMT+9"), "{what}: {time}");
    }
    let mut heard = Vec::new();
    while let Some(event) = said.try_next().unwrap() {
        heard.push(format!("{event:?}"));
    }
    assert_eq!(heard, [""; 0], "{}", file.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_of_each_kind_fits_a_desktop_and_a_phone_in_both_languages() {
    let reported = Reported::start();
    let mut all = reported.one_of_each();
    all.push(reported.script());
    let browser = browser(reported.folder.path()).await;
    let (page, mut said) = page(&browser).await;
    for made in &all {
        // English comes last, for the pictures.
        for language in ["es", "en"] {
            looks_right(&page, &mut said, &reported.report(made, language), made).await;
        }
    }
    browser.close(PATIENCE).await;
}

#[test]
fn the_evidence_of_a_script_is_listed_and_saved_and_no_file_is_written_over() {
    let reported = Reported::start();
    let made = reported.script();
    let listed = reported.document(&["evidence", &made.run], 0);
    let listed = listed["evidence"].as_array().unwrap();
    let is_meant = |piece: &&Value| piece["media_type"] == "image/png" && piece["action"] == "open";
    let picture = listed.iter().find(is_meant).expect("a picture");
    let id = picture["id"].as_str().unwrap();
    assert_eq!((id.len(), &picture["succeeded"]), (64, &json!(true)), "{picture}");
    let told = reported.says(&["evidence", "latest"], 0);
    assert!(told.contains(&id[..12]) && told.contains("press") && told.contains("open"), "{told}");

    let short = &id[..20];
    let told = reported.says(&["evidence", "latest", short, "-o", "fault.png"], 0);
    let content = fs::read(reported.path("fault.png")).unwrap();
    assert!(told.contains(id) && told.starts_with("fault.png: "), "{told}");
    assert!(content.starts_with(b"\x89PNG") && json!(content.len()) == picture["bytes"]);
    assert_eq!(reported.capataz(&["evidence", "latest", short, "-o", "-"]).stdout, content);

    fs::write(reported.path("fault.png"), "mine").unwrap();
    let refused = reported.capataz(&["evidence", "latest", short, "-o", "fault.png"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("--force"), "{said}");
    assert_eq!(fs::read(reported.path("fault.png")).unwrap(), b"mine");
    let told = reported.document(&["evidence", "latest", short, "-o", "fault.png", "--force"], 0);
    assert_eq!((&told["file"], &told["bytes"]), (&json!("fault.png"), &picture["bytes"]));
    assert_eq!(fs::read(reported.path("fault.png")).unwrap(), content);

    // Without a name it gets one of its kind and its id.
    let told = reported.document(&["evidence", "latest", id], 0);
    let name = format!("{}-{}.png", picture["kind"].as_str().unwrap(), &id[..12]);
    assert_eq!(told["file"], name.as_str());
    assert_eq!(fs::read(reported.path(&name)).unwrap(), content);

    // Opened, it is in a file of its own, and the desktop's opener is told which.
    let bin = reported.path("bin");
    fs::create_dir(&bin).unwrap();
    let open = |path: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(["evidence", "latest", id, "--open", "--json"]).current_dir(reported.folder.path());
        program.env("PATH", path).env("CAPATAZ_ADDR", reported.daemon.url()).env("LC_ALL", "C");
        let output = program.env("TOLD", reported.path("told")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), serde_json::from_str::<Value>(&said).expect(&said))
    };
    let (exit, refused) = open(bin.to_str().unwrap());
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(exit == Some(1) && message.contains("there is no xdg-open"), "{refused}");
    // Another program writes it, so that none that is started meanwhile holds it open.
    let script = "printf '#!/bin/sh\\nprintf %%s \"$1\" > \"$TOLD\"\\n' > xdg-open && chmod 700 xdg-open";
    assert!(Command::new("sh").args(["-c", script]).current_dir(&bin).status().unwrap().success());
    let (exit, told) = open(bin.to_str().unwrap());
    assert_eq!(exit, Some(0), "{told}");
    let file = Path::new(told["file"].as_str().unwrap());
    assert_eq!(fs::read_to_string(reported.path("told")).unwrap(), told["file"].as_str().unwrap());
    assert_eq!(file.file_name().and_then(|name| name.to_str()), Some(name.as_str()));
    assert_eq!(fs::read(file).unwrap(), content);
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
}
