//! Pages, files and selectors that are meant to break things: each ends with a typed outcome, in time, and the daemon goes
//! on.

use std::path::Path;

use capataz_contracts::v1;
use serde_json::json;

use crate::bench::{Bench, Ended};
use crate::support::{details, processes_below};

/// A script of one navigation, with what its table says besides.
async fn open(bench: &Bench, path: &str, more: &str) -> Ended {
    bench
        .run(&format!(
            "name = \"open\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}{path}\"\n{more}\n"
        ))
        .await
}

/// A script that opens a page and does one thing there.
async fn open_and(bench: &Bench, path: &str, action: &str) -> Ended {
    open(bench, path, &format!("[[actions]]\nid = \"a\"\n{action}")).await
}

/// The daemon performs scripts as if nothing had happened.
async fn goes_on(bench: &Bench) {
    open(bench, "/plain", "").await.expect_success();
}

#[tokio::test]
async fn pages_that_are_late_are_time_outs_and_pages_that_never_come_are_failed_navigations() {
    let bench = Bench::start().await;
    for (path, wait) in [
        ("/navigate/never", "load"),
        ("/navigate/never", "commit"),
        ("/navigate/endless", "load"),
        ("/navigate/endless", "dom"),
        ("/navigate/slow-image", "load"),
    ] {
        let ended = open(&bench, path, &format!("timeout = \"1s\"\nwait_until = \"{wait}\"")).await;
        let error = ended.error();
        assert_eq!(error.error_code, "NAVIGATION_TIMEOUT", "{path} {wait}: {error:?}");
        assert_eq!(error.stage(), v1::ActionStage::Execution);
        let details = details(&error);
        assert_eq!(details["timeout_ms"], 1000, "{path}: {details}");
        assert!(details["wait_condition"].is_string(), "{path}: {details}");
        assert!(error.evidence_refs.iter().any(|piece| piece.kind == "screenshot_after"), "{path}");
    }
    // What the network ends before its time has failed, and was not late.
    for (path, net_error) in
        [("/navigate/loop", "net::ERR_TOO_MANY_REDIRECTS"), ("/navigate/reset", "net::ERR_EMPTY_RESPONSE")]
    {
        let error = open(&bench, path, "").await.error();
        assert_eq!(error.error_code, "NAVIGATION_FAILED", "{path}: {error:?}");
        assert_eq!(error.stage(), v1::ActionStage::Execution);
        let details = details(&error);
        assert_eq!(details["net_error"], net_error, "{path}: {details}");
        assert_eq!(details["url"], format!("http://{}{path}", bench.site.host()));
        assert!(error.evidence_refs.iter().any(|piece| piece.kind == "screenshot_after"), "{path}");
    }
    for (path, wait) in [("/navigate/endless", "commit"), ("/navigate/slow-image", "dom")] {
        open(&bench, path, &format!("wait_until = \"{wait}\"")).await.expect_success();
    }
    goes_on(&bench).await;
}

#[tokio::test]
async fn fifty_alerts_are_answered_and_recorded() {
    let bench = Bench::start().await;
    let ended = open_and(
        &bench,
        "/dialog/fifty",
        r#"kind = "click"
        target = { testid = "target" }
        post = [{ kind = "text_equals", target = { testid = "status" }, value = "after the alerts" }]"#,
    )
    .await
    .expect_success();
    let changes = ended.finish_of("a").unwrap().changes.clone().unwrap();
    assert_eq!(changes.dialogs.len(), 50);
    assert_eq!(changes.dialogs[49].message, "Alert 50");
}

#[tokio::test]
async fn a_page_with_a_hundred_thousand_elements_is_searched_and_clicked() {
    let bench = Bench::start().await;
    let ended = open_and(
        &bench,
        "/big/elements",
        r#"kind = "assert"
        conditions = [
            { kind = "not", condition = { kind = "element_count_equals", target = { css = "p" }, count = 0 } },
            { kind = "element_count_equals", target = { role = "button", name = "Not there" }, count = 0 },
        ]
        [[actions]]
        id = "several"
        kind = "click"
        target = { css = "p" }
        timeout = "5s""#,
    )
    .await;
    assert_eq!(ended.code_of("a"), "", "{:?}", ended.error());
    let error = ended.error();
    assert_eq!(error.error_code, "TARGET_NOT_UNIQUE", "{error:?}");
    let details = details(&error);
    assert!(details["count_observed"].as_u64().unwrap() >= 100_000, "{details}");
    assert!(details["matches_sample"].as_array().unwrap().len() <= 20, "{details}");
    goes_on(&bench).await;
}

#[tokio::test]
async fn two_hundred_mebibytes_of_text_end_with_a_typed_outcome() {
    let bench = Bench::start().await;
    let ended = open(&bench, "/big/bytes", "timeout = \"3s\"").await;
    if let Some(error) = ended.script().error {
        let expected = ["NAVIGATION_TIMEOUT", "BROWSER_LOST", "EVIDENCE_FAILED"];
        assert!(expected.contains(&error.error_code.as_str()), "{error:?}");
        assert!(!error.evidence_refs.is_empty());
    }
    goes_on(&bench).await;
}

#[tokio::test]
async fn an_endless_animation_keeps_nobody_from_clicking() {
    let bench = Bench::start().await;
    let post = "post = [{ kind = \"text_equals\", target = { testid = \"status\" }, value = \"saved\" }]";
    let click = format!("kind = \"click\"\ntarget = {{ testid = \"target\" }}\n{post}");
    open_and(&bench, "/animation", &click).await.expect_success();
}

#[tokio::test]
async fn what_is_in_a_closed_shadow_root_is_not_there() {
    let bench = Bench::start().await;
    let ended = open_and(
        &bench,
        "/shadow/closed",
        "kind = \"click\"\ntarget = { testid = \"target\" }\ntimeout = \"1s\"",
    )
    .await;
    assert_eq!(ended.error().error_code, "TARGET_NOT_FOUND");
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

#[tokio::test]
async fn a_page_that_hangs_in_the_click_ends_the_script_and_nothing_else() {
    let bench = Bench::start().await;
    let ended =
        open_and(&bench, "/busy", "kind = \"click\"\ntarget = { testid = \"target\" }\ntimeout = \"5s\"")
            .await;
    let error = ended.error();
    let expected = ["POSTCONDITION_FAILED", "EVIDENCE_FAILED", "BROWSER_LOST"];
    assert!(expected.contains(&error.error_code.as_str()), "{error:?}");
    assert!(error.stage() >= v1::ActionStage::Execution, "it was sent: {error:?}");
    goes_on(&bench).await;
}

#[tokio::test]
async fn a_tab_that_crashes_is_a_lost_browser() {
    let bench = Bench::start().await;
    let wait = "kind = \"wait_for\"\nconditions = [{ kind = \"title_equals\", value = \"never\" }]\ntimeout = \"120s\"";
    let toml = format!(
        "name = \"crash\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}/plain\"\n[[actions]]\nid = \"a\"\n{wait}\n"
    );
    let run = bench.try_start(bench.script(&toml)).await.unwrap();
    // While a document is on its way, another process may come for it.
    bench.until_begun(&run, 1).await;
    let browsers =
        bench.executor.clone().list_browsers(v1::ListBrowsersRequest {}).await.unwrap().into_inner();
    let browser = browsers.browsers.iter().find(|browser| browser.run_id == run).expect("it is open");
    let renderers: Vec<u32> = processes_below(browser.process_id)
        .into_iter()
        .filter(|process| process.1.contains("--type=renderer"))
        .map(|process| process.0)
        .collect();
    assert!(!renderers.is_empty());
    for process in renderers {
        crate::support::kill(process);
    }
    let error = bench.ended(run).await.error();
    assert_eq!(error.error_code, "BROWSER_LOST", "{error:?}");
    assert!(!error.evidence_refs.is_empty());
    goes_on(&bench).await;
}

/// A bench whose scripts may upload from the folder `files`, with what is in it.
async fn with_files() -> (Bench, String) {
    let bench = Bench::start_with(|config, folder| {
        let files = folder.join("files");
        std::fs::create_dir_all(files.join("folder")).unwrap();
        std::fs::write(files.join("one.txt"), "one").unwrap();
        std::fs::write(files.join("two.txt"), "two").unwrap();
        std::fs::write(folder.join("outside.txt"), "outside").unwrap();
        std::os::unix::fs::symlink(folder.join("outside.txt"), files.join("link.txt")).unwrap();
        config.browser.upload_folders = vec![files];
    })
    .await;
    let files = bench.folder.path().join("files").display().to_string();
    (bench, files)
}

#[tokio::test]
async fn files_that_cannot_be_uploaded_are_told_before_anything_is_sent() {
    let (bench, files) = with_files().await;
    let (one, two) = (format!("{files}/one.txt"), format!("{files}/two.txt"));
    for (wanted, signal) in [
        (vec![format!("{files}/missing.txt")], "file_missing"),
        (vec![format!("{files}/folder")], "not_a_file"),
        (vec![format!("{files}/../outside.txt")], "outside_upload_folders"),
        (vec![format!("{files}/link.txt")], "outside_upload_folders"),
        (vec!["/etc/passwd".to_owned()], "outside_upload_folders"),
        (vec![one, two], "several_files"),
    ] {
        let listed = serde_json::to_string(&wanted).unwrap();
        let toml = format!(
            r#"
            name = "upload"
            [policy]
            upload_folders = [{files:?}]
            [[actions]]
            id = "open"
            kind = "navigate"
            url = "http://{{site}}/upload"
            [[actions]]
            id = "a"
            kind = "upload"
            target = {{ testid = "one" }}
            files = {listed}
            post = [{{ kind = "upload_listed", target = {{ testid = "one" }} }}]
            [[actions]]
            id = "after"
            kind = "assert"
            conditions = [{{ kind = "text_equals", target = {{ testid = "files" }}, value = "" }}]
            "#
        );
        let error = bench.run(&toml).await.error();
        assert_eq!(error.error_code, "UPLOAD_FAILED", "{wanted:?}: {error:?}");
        assert_eq!(error.stage(), v1::ActionStage::Precondition, "{wanted:?}");
        assert_eq!(details(&error)["upload_signal"], signal, "{wanted:?}");
    }
    assert_eq!(bench.site.hits("/upload/received"), 0);
}

#[tokio::test]
async fn a_script_may_not_declare_a_folder_that_the_daemon_does_not() {
    let (bench, _) = with_files().await;
    let toml = r#"
        name = "upload"
        [policy]
        upload_folders = ["/etc"]
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/upload"
        [[actions]]
        id = "a"
        kind = "upload"
        target = { testid = "one" }
        files = ["/etc/hostname"]
        post = [{ kind = "upload_listed", target = { testid = "one" } }]
    "#;
    match bench.try_start(bench.script(toml)).await {
        Err(refused) => assert_eq!(refused.code(), tonic::Code::InvalidArgument),
        Ok(run) => {
            let error = bench.ended(run).await.error();
            assert_eq!(details(&error)["upload_signal"], "outside_upload_folders");
        }
    }
}

#[tokio::test]
async fn downloads_that_do_not_end_well_are_download_failed_and_leave_no_file() {
    let bench = Bench::start().await;
    for (path, timeout) in [("aborted", "20s"), ("large", "20s"), ("endless", "5s")] {
        let ended = bench
            .run(&format!(
                "name = \"download\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}/downloads\"\n\
                 [[actions]]\nid = \"a\"\nkind = \"download\"\ntarget = {{ testid = \"{path}\" }}\ntimeout = \"{timeout}\"\n"
            ))
            .await;
        let error = ended.error();
        assert_eq!(error.error_code, "DOWNLOAD_FAILED", "{path}: {error:?}");
        assert_eq!(details(&error)["expected_download"], true, "{path}");
        assert!(error.evidence_refs.iter().any(|piece| piece.kind == "screenshot_before"));
        let left = files_below(&bench.data_dir().join("browser/downloads").join(&ended.run_id));
        assert_eq!(left, Vec::<String>::new(), "{path}");
    }
    goes_on(&bench).await;
}

fn files_below(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn no_selector_or_text_does_anything_but_match_or_not() {
    let bench = Bench::start().await;
    let odd = [
        "'",
        "\"",
        "\\",
        "a\"b'c`",
        "]",
        "\u{0}",
        "a\u{0}b",
        "\n",
        "😀",
        "👩‍👩‍👧",
        "${",
        "$(touch /tmp/x)",
        "'); alert(1); ('",
        "\u{202e}abc",
        "</script>",
        "%00",
        "{{first}}",
    ];
    let mut script = bench.script(
        "name = \"odd\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{site}/plain\"\n",
    );
    let mut codes = Vec::new();
    let targets: Vec<v1::Target> = odd
        .iter()
        .flat_map(|text| {
            let text = || Some(text.replace("${", "$${"));
            [
                v1::Target { testid: text(), ..Default::default() },
                v1::Target { label: text(), ..Default::default() },
                v1::Target { text: text(), ..Default::default() },
                v1::Target { css: text(), ..Default::default() },
                v1::Target { xpath: text(), ..Default::default() },
                v1::Target { role: Some("button".to_owned()), name: text(), ..Default::default() },
            ]
        })
        .collect();
    for target in targets {
        let click = v1::Action {
            id: "a".to_owned(),
            kind: v1::ActionKind::Click as i32,
            target: Some(target.clone()),
            timeout_ms: Some(50),
            on_failure: Some(v1::OnFailure::Continue as i32),
            ..Default::default()
        };
        // What is known to be wrong before a browser opens is refused then, alone.
        let mut alone = script.clone();
        alone.actions.push(click.clone());
        let checked = v1::CheckScriptRequest { script: Some(alone) };
        let violations = bench.executor.clone().check_script(checked).await.unwrap().into_inner().violations;
        if violations.is_empty() {
            let number = script.actions.len();
            script.actions.push(v1::Action { id: format!("a{number}"), ..click });
        }
        codes.push((target, violations.len()));
    }
    script.policy.get_or_insert_default().max_steps = Some(1000);
    script.policy.get_or_insert_default().same_state_revisit = Some(1000);
    let count = script.actions.len();
    assert!(count > odd.len(), "most of them are targets like any other: {codes:?}");
    let run = bench.try_start(script).await.unwrap();
    let ended = bench.ended(run).await;
    for number in 1..count {
        let code = ended.code_of(&format!("a{number}"));
        assert!(
            matches!(code, "TARGET_NOT_FOUND" | "INVALID_ACTIONSPEC"),
            "{number}: {code} {:?}",
            ended.result
        );
    }
    assert_eq!(bench.site.requests().iter().filter(|request| request.path != "/plain").count(), 0);
    goes_on(&bench).await;
}

#[tokio::test]
async fn evidence_that_cannot_be_kept_ends_the_script_and_names_what_had_happened() {
    let bench = Bench::start().await;
    let toml = r#"
        name = "full"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/button/plain"
        [[actions]]
        id = "a"
        kind = "click"
        target = { testid = "target" }
        post = [{ kind = "text_equals", target = { testid = "status" }, value = "never" }]
        timeout = "1s"
    "#;
    // As a disk that takes nothing more: where blobs go there is a file.
    let blobs = bench.data_dir().join("blobs");
    std::fs::rename(&blobs, bench.data_dir().join("blobs.aside")).unwrap();
    std::fs::write(&blobs, "").unwrap();
    let error = bench.run(toml).await.error();
    std::fs::remove_file(&blobs).unwrap();
    std::fs::rename(bench.data_dir().join("blobs.aside"), &blobs).unwrap();
    assert_eq!(error.error_code, "EVIDENCE_FAILED", "{error:?}");
    assert_eq!(error.stage(), v1::ActionStage::Evidence);
    assert_eq!(error.retryable, Some(false));
    assert!(details(&error).get("original_code").is_some(), "{error:?}");
    assert_ne!(details(&error), json!({}));
    goes_on(&bench).await;
}
