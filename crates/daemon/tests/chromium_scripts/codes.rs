//! Each code of an error, from a page that brings it about to the evidence that is kept of it (seed 002, sections 5
//! and 6). What all of them have in common is checked by [`crate::proof`].

use capataz_contracts::v1;
use capataz_contracts::v1::ActionStage::{
    Execution, Policy, Postcondition, Precondition, ProposalValidation,
};
use serde_json::{Value, json};

use crate::bench::Bench;

const OPEN: &str = r#"
name = "a script that fails"
[[actions]]
id = "open"
kind = "navigate"
"#;

/// A script that opens this page and then does this.
fn on(path: &str, rest: &str) -> String {
    format!("{OPEN}url = \"http://{{site}}{path}\"\n{rest}")
}

// S002-DE-01, S002-DE-26, S002-FI-08
#[tokio::test]
async fn target_not_found_says_in_which_order_it_looked_and_for_what() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r##"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 500
        target = { text = "None", xpath = "//none", css = "#none", label = "None", role = "button", name = "None", testid = "none" }
        "##,
    );
    let proven = bench.fails("TARGET_NOT_FOUND", Precondition, &script).await;
    let order = json!(["testid", "role", "label", "css", "xpath", "text"]);
    assert_eq!(proven.details["target_resolution_order"], order);
    assert_eq!(proven.details["tried"], order);
    assert_eq!(proven.details["count_observed"], 0);
    assert_eq!(proven.details["target"]["testid"], "none");
    assert_eq!(proven.details["target"]["name"], "None");
    assert_eq!(proven.snapshot()["title"], "Button");
    assert_eq!(proven.error.step_index, Some(1));
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

// S002-DE-02, S002-DE-03, S002-DE-27
#[tokio::test]
async fn target_not_unique_says_how_many_there_are_and_shows_some() {
    let bench = Bench::start().await;
    let script = on(
        "/button/duplicates",
        r#"
        [[actions]]
        id = "delete"
        kind = "click"
        target = { testid = "delete" }
        "#,
    );
    let proven = bench.fails("TARGET_NOT_UNIQUE", Precondition, &script).await;
    assert_eq!(proven.details["count_observed"], 3);
    let sample = proven.details["matches_sample"].as_array().unwrap();
    assert_eq!(sample.len(), 3);
    assert!(sample.iter().all(|one| one["testid"] == "delete" && one["name"] == "Delete"), "{sample:?}");
    assert_eq!(["a", "b", "c"].map(|name| bench.site.hits(&format!("/hit/{name}"))), [0, 0, 0]);
}

// S002-DE-05, S002-DE-28
#[tokio::test]
async fn invalid_actionspec_of_a_selector_that_only_the_page_can_read_sends_nothing() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        target = { testid = "target" }
        [[actions.post]]
        kind = "visible"
        target = { css = "p[" }
        "#,
    );
    let proven = bench.fails("INVALID_ACTIONSPEC", ProposalValidation, &script).await;
    assert_eq!(proven.details["violated_rules"], json!(["css"]));
    let violations = proven.details["validation_errors"].as_array().unwrap();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0]["path"], "post[0].target.css");
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

// S002-DE-06, S002-DE-29
#[tokio::test]
async fn precondition_failed_lists_what_did_not_hold_before() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 500
        target = { testid = "target" }
        [[actions.pre]]
        kind = "text_equals"
        target = { testid = "status" }
        value = "ready"
        [[actions.pre]]
        kind = "title_equals"
        value = "Button"
        "#,
    );
    let proven = bench.fails("PRECONDITION_FAILED", Precondition, &script).await;
    assert_eq!(proven.error.failed_conditions.len(), 1);
    let failed = &proven.error.failed_conditions[0];
    assert_eq!((failed.kind.as_str(), failed.phase.as_str()), ("text_equals", "pre"));
    let args: Value = serde_json::from_str(failed.args.as_deref().unwrap()).unwrap();
    assert_eq!((&args["value"], &args["observed"]), (&json!("ready"), &json!("")));
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

// S002-DE-07, S002-DE-09, S002-DE-30, S002-EV-10
#[tokio::test]
async fn postcondition_failed_has_the_page_before_and_after_the_click_that_did_nothing() {
    let bench = Bench::start().await;
    let script = on(
        "/button/no-effect",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 3000
        target = { testid = "target" }
        [[actions.post]]
        kind = "text_equals"
        target = { testid = "status" }
        value = "saved"
        "#,
    );
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &script).await;
    let failed = &proven.error.failed_conditions[0];
    assert_eq!((failed.kind.as_str(), failed.phase.as_str()), ("text_equals", "post"));
    assert!(proven.error.state_after.is_some());
    bench.site.until_hits("/hit/target", 1).await;
    assert_eq!(bench.site.hits("/hit/target"), 1);
    let html = String::from_utf8(proven.evidence["html_full"].clone()).unwrap();
    assert!(html.contains("data-testid=\"target\""), "{html}");
    let snapshot = proven.snapshot();
    assert!(snapshot["targets"].to_string().contains("Save"), "{snapshot}");
}

// S002-DE-08
#[tokio::test]
async fn postcondition_failed_of_an_assertion_is_of_its_own_phase() {
    let bench = Bench::start().await;
    let script = on(
        "/plain",
        r#"
        [[actions]]
        id = "is-it"
        kind = "assert"
        [[actions.conditions]]
        kind = "title_equals"
        value = "Another page"
        "#,
    );
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &script).await;
    assert_eq!(proven.error.failed_conditions[0].phase, "assert");
}

/// What every halt says, beside its reason.
fn check_thresholds(details: &Value, changed: &str, value: u32) {
    let thresholds = &details["policy_thresholds"];
    for key in ["max_steps", "same_state_revisit", "retry_limit", "recovery_limit", "backoff"] {
        assert!(!thresholds[key].is_null(), "{key}: {thresholds}");
    }
    assert_eq!(thresholds[changed], value);
}

// S002-CO-03, S002-DE-10, S002-DE-31
#[tokio::test]
async fn policy_halt_of_max_steps() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        target = { testid = "target" }
        [policy]
        max_steps = 1
        "#,
    );
    let proven = bench.fails("POLICY_HALT", Policy, &script).await;
    assert_eq!(proven.details["policy_reason"], "max_steps");
    check_thresholds(&proven.details, "max_steps", 1);
    assert_eq!(proven.error.step_index, Some(1));
    assert_eq!(bench.site.hits("/hit/target"), 0);
    assert_eq!(proven.snapshot()["title"], "Button");
}

#[tokio::test]
async fn policy_halt_before_a_critical_action_has_the_document_and_a_picture() {
    let bench = Bench::start().await;
    let script = on(
        "/form",
        r#"
        [[actions]]
        id = "send"
        kind = "submit"
        target = { role = "button", name = "Send" }
        post = [{ kind = "title_equals", value = "Sent" }]
        [policy]
        max_steps = 1
        "#,
    );
    let proven = bench.fails("POLICY_HALT", Policy, &script).await;
    assert_eq!(proven.error.criticality(), v1::Criticality::Critical);
    assert!(proven.evidence.contains_key("html_full") && proven.evidence.contains_key("screenshot_before"));
    assert_eq!(bench.site.hits("/form/sent"), 0);
}

// S002-CO-04
#[tokio::test]
async fn policy_halt_of_same_state_revisit() {
    let bench = Bench::start().await;
    let click = |number: u32| {
        format!(
            "[[actions]]\nid = \"nothing-{number}\"\nkind = \"click\"\ntarget = {{ testid = \"nothing\" }}\n"
        )
    };
    let clicks: String = (1..=5).map(click).collect();
    let script = on("/state", &format!("{clicks}\n[policy]\nsame_state_revisit = 1\n"));
    let proven = bench.fails("POLICY_HALT", Policy, &script).await;
    assert_eq!(proven.details["policy_reason"], "same_state_revisit");
    check_thresholds(&proven.details, "same_state_revisit", 1);
    // The page was opened, and came back twice.
    assert_eq!(proven.details["observed"], 2);
    assert_eq!(proven.error.step_index, Some(3));
}

// S002-CO-05
#[tokio::test]
async fn policy_halt_of_retry_limit() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 300
        target = { testid = "none" }
        [policy]
        retry_on = ["TARGET_NOT_FOUND"]
        retry_limit = 1
        backoff = { base_delay_ms = 1 }
        "#,
    );
    let ended = bench.run(&script).await;
    let proven = bench.expect_error(&ended, "POLICY_HALT", Policy).await;
    assert_eq!(proven.details["policy_reason"], "retry_limit");
    assert_eq!(proven.details["last_error"], "TARGET_NOT_FOUND");
    check_thresholds(&proven.details, "retry_limit", 1);
    let failures: Vec<v1::ExecutorError> = ended.failures();
    let codes: Vec<&str> = failures.iter().map(|error| error.error_code.as_str()).collect();
    assert_eq!(codes, ["TARGET_NOT_FOUND", "TARGET_NOT_FOUND", "POLICY_HALT"]);
    assert_eq!(failures.iter().map(|error| error.retryable()).collect::<Vec<_>>(), [true, false, false]);
    for error in failures.into_iter().take(2) {
        bench.prove(&ended.run_id, &ended.events, error, "TARGET_NOT_FOUND", Precondition).await;
    }
}

// S002-CO-06, S002-DE-10
#[tokio::test]
async fn policy_halt_of_recovery_limit() {
    let bench = Bench::start().await;
    let script = on(
        "/overlay/banner",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 2000
        target = { testid = "target" }
        [policy]
        recovery_limit = 1
        [[policy.recovery]]
        on = ["OVERLAY_BLOCKING"]
        do = "reload"
        "#,
    );
    let ended = bench.run(&script).await;
    let proven = bench.expect_error(&ended, "POLICY_HALT", Policy).await;
    assert_eq!(proven.details["policy_reason"], "recovery_limit");
    assert_eq!(proven.details["last_error"], "OVERLAY_BLOCKING");
    check_thresholds(&proven.details, "recovery_limit", 1);
    assert_eq!(bench.site.hits("/overlay/banner"), 2);
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

// S002-DE-11, S002-DE-12, S002-DE-32
#[tokio::test]
async fn domain_blocked_names_the_host_and_the_allowlist_and_nothing_arrives() {
    let bench = Bench::start().await;
    let script =
        "name = \"away\"\n[[actions]]\nid = \"away\"\nkind = \"navigate\"\nurl = \"http://{other}/plain\"";
    let proven = bench.fails("DOMAIN_BLOCKED", Policy, script).await;
    assert_eq!(proven.details["host"], "localhost");
    assert_eq!(proven.details["allowlist"], json!([bench.site.host()]));
    let redirected = on(
        "/navigate",
        r#"
        [[actions]]
        id = "away"
        kind = "click"
        target = { testid = "other" }
        post = [{ kind = "title_equals", value = "Reached" }]
        "#,
    );
    let ended = bench.run(&redirected).await;
    // The request that a click leads to comes when it comes: before the click has ended, or while its effect is waited for.
    let stage = ended.error().stage();
    assert!(matches!(stage, Execution | Postcondition), "{stage:?}");
    let proven = bench.expect_error(&ended, "DOMAIN_BLOCKED", stage).await;
    assert_eq!(proven.details["host"], "localhost");
    assert_eq!(proven.details["allowlist"], json!([bench.site.host()]));
    assert_eq!(bench.site.other_hits(), 0);
}

// S002-DE-13, S002-DE-33
#[tokio::test]
async fn action_critical_blocked_without_a_proof_of_its_effect() {
    let bench = Bench::start().await;
    let script = on(
        "/button/plain",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        target = { testid = "target" }
        [[policy.critical]]
        name_matches = "^Save$"
        "#,
    );
    let proven = bench.fails("ACTION_CRITICAL_BLOCKED", Policy, &script).await;
    assert_eq!(proven.details["critical_reason"], "missing_strong_postcondition");
    assert_eq!(proven.error.criticality(), v1::Criticality::Critical);
    assert_eq!(bench.site.hits("/hit/target"), 0);
}

// S002-DE-14
#[tokio::test]
async fn action_critical_blocked_where_it_would_leave_the_allowlist() {
    let bench = Bench::start().await;
    let script = on(
        "/probe/link",
        r#"
        [[actions]]
        id = "go"
        kind = "click"
        criticality = "critical"
        target = { testid = "go" }
        [[actions.post]]
        kind = "title_equals"
        value = "Reached"
        "#,
    );
    let proven = bench.fails("ACTION_CRITICAL_BLOCKED", Policy, &script).await;
    assert_eq!(proven.details["critical_reason"], "unsafe_domain_escape");
    assert_eq!(proven.details["host"], "localhost");
    assert_eq!(bench.site.other_hits(), 0);
}

// S002-DE-16, S002-DE-17, S002-DE-34, S002-DE-35
#[tokio::test]
async fn navigation_timeout_says_how_long_was_waited_for_what() {
    let bench = Bench::start().await;
    let never = on("/navigate/never", "timeout_ms = 1200");
    let proven = bench.fails("NAVIGATION_TIMEOUT", Execution, &never).await;
    assert_eq!(proven.details["timeout_ms"], 1200);
    assert!(proven.error.state_after.is_some());
    assert_eq!(proven.details["wait_condition"], "load");
    let image = on("/navigate/slow-image", "timeout_ms = 4000\nwait_until = \"load\"");
    let proven = bench.fails("NAVIGATION_TIMEOUT", Execution, &image).await;
    assert_eq!(proven.details["wait_condition"], "load");
    // The text has come, and is in the evidence.
    assert_eq!(proven.snapshot()["title"], "Slow image");
}

/// A daemon from whose folder `files` a script may upload.
async fn with_files() -> Bench {
    let bench = Bench::start_with(|config, folder| {
        let files = folder.join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("report.txt"), "17").unwrap();
        config.browser.upload_folders.push(files);
    });
    bench.await
}

fn upload(bench: &Bench, page: &str, file: &str) -> String {
    let files = bench.folder.path().join("files").display().to_string();
    let rest = r#"
        [[actions]]
        id = "upload"
        kind = "upload"
        timeout_ms = 3000
        target = { testid = "one" }
        files = ["{files}/{file}"]
        [[actions.post]]
        kind = "upload_listed"
        target = { testid = "status" }
        [policy]
        upload_folders = ["{files}"]
        "#;
    on(page, &rest.replace("{files}", &files).replace("{file}", file))
}

// S002-DE-18, S002-DE-19, S002-DE-36
#[tokio::test]
async fn upload_failed_of_a_missing_file_and_of_a_page_that_says_nothing() {
    let bench = with_files().await;
    let missing = upload(&bench, "/upload/silent", "none.txt");
    let proven = bench.fails("UPLOAD_FAILED", Precondition, &missing).await;
    assert!(proven.details["file_ref"].as_str().unwrap().ends_with("/none.txt"), "{}", proven.details);
    assert_eq!(proven.details["upload_signal"], "file_missing");

    let silent = upload(&bench, "/upload/silent", "report.txt");
    let proven = bench.fails("UPLOAD_FAILED", Postcondition, &silent).await;
    assert!(proven.details["file_ref"].as_str().unwrap().ends_with("/report.txt"), "{}", proven.details);
    assert_eq!(proven.details["upload_signal"], "not_listed");
    assert_eq!(proven.error.criticality(), v1::Criticality::Critical);
    assert!(proven.error.state_after.is_some());
}

// S002-DE-20, S002-DE-37, S002-DE-38
#[tokio::test]
async fn download_failed_where_it_never_comes_and_where_it_breaks_off() {
    let bench = Bench::start().await;
    for testid in ["shown", "aborted"] {
        let rest = r#"
            [[actions]]
            id = "download"
            kind = "download"
            timeout_ms = 5000
            target = { testid = "{testid}" }
            [[actions.post]]
            kind = "download_completed"
            "#;
        let script = on("/downloads", &rest.replace("{testid}", testid));
        let proven = bench.fails("DOWNLOAD_FAILED", Execution, &script).await;
        assert_eq!(proven.details["expected_download"], true);
    }
}

// S002-DE-21, S002-DE-22, S002-DE-39
#[tokio::test]
async fn overlay_blocking_names_what_lies_over_the_target() {
    let bench = Bench::start().await;
    let script = on(
        "/overlay/banner",
        r#"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 2000
        target = { testid = "target" }
        "#,
    );
    let proven = bench.fails("OVERLAY_BLOCKING", Precondition, &script).await;
    let selector = proven.details["overlay_selector"].as_str().unwrap();
    assert!(selector.contains("banner"), "{selector}");
    assert_eq!(proven.details["overlay_text"], "Cookies");
    assert!(proven.evidence.contains_key("screenshot_before"));
    assert_eq!((bench.site.hits("/hit/target"), bench.site.hits("/hit/overlay")), (0, 0));
}

fn sign_in(page: &str, signals: &str) -> String {
    let rest = r#"
        [[actions]]
        id = "user"
        kind = "fill"
        target = { label = "User" }
        value = "ana"
        [[actions]]
        id = "password"
        kind = "fill"
        target = { label = "Password" }
        value = "wrong"
        [[actions]]
        id = "sign-in"
        kind = "click"
        target = { testid = "sign-in" }
        [[actions.post]]
        kind = "title_equals"
        value = "Account"
        [policy]
        auth_failed = { {signals} }
        "#;
    on(page, &rest.replace("{signals}", signals))
}

// S002-DE-23, S002-DE-24, S002-DE-40
#[tokio::test]
async fn auth_failed_names_the_signal_that_told() {
    let bench = Bench::start().await;
    let cases = [
        ("/sign-in", "texts = [\"Wrong user or password.\"]", "text: Wrong user or password."),
        ("/sign-in/by-script", "texts = [\"Wrong user or password.\"]", "text: Wrong user or password."),
        ("/sign-in/401", "status_401 = true", "status_401"),
        ("/sign-in/redirect", "login_url = \"/login[?]failed\"", "login_url"),
    ];
    for (page, signals, signal) in cases {
        let ended = bench.run(&sign_in(page, signals)).await;
        let proven = bench.expect_error(&ended, "AUTH_FAILED", Postcondition).await;
        assert_eq!(proven.details["auth_signal"], signal, "{page}");
    }
}

// S002-DE-23, S002-DE-24
#[tokio::test]
async fn auth_failed_of_a_page_of_one_document_by_its_fetch_and_by_its_move_to_the_login_page() {
    let bench = Bench::start().await;
    // What is declared, what it is called in the error, and where the page is then: it has loaded no other document.
    let (by_status, by_url) = ("status_401 = true", "login_url = \"/login[?]from\"");
    let cases = [
        ("/sign-in/by-script", "sign-in", by_status, "status_401", "/sign-in/by-script"),
        ("/session-lost/silent", "target", by_status, "status_401", "/session-lost/silent"),
        ("/session-lost/pushed", "target", by_url, "login_url", "/login?from=here"),
    ];
    for (page, testid, signals, signal, place) in cases {
        let rest = r#"
            [[actions]]
            id = "send"
            kind = "click"
            target = { testid = "{testid}" }
            post = [{ kind = "text_equals", target = { testid = "status" }, value = "saved" }]
            [policy]
            auth_failed = { {signals} }
            "#;
        let script = on(page, &rest.replace("{testid}", testid).replace("{signals}", signals));
        let proven = bench.fails("AUTH_FAILED", Postcondition, &script).await;
        assert_eq!(proven.details["auth_signal"], signal, "{page}");
        assert_eq!(proven.error.step_index, Some(1), "{page}");
        assert_eq!(proven.snapshot()["url"], bench.site.url(place), "{page}");
        assert_eq!(proven.error.state_after.unwrap().url, bench.site.url(place), "{page}");
    }
    assert_eq!((bench.site.hits("/login"), bench.site.hits("/account")), (0, 0));
}
