//! Every kind of condition, where it holds and where it does not, before actions, after them, and as an assertion.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_contracts::v1::ActionStage::{Postcondition, Precondition};
use serde_json::Value;

use crate::bench::Bench;

/// On `/form`: each kind, first as it holds, then as it does not.
const OF_A_FORM: &[(&str, &str)] = &[
    (
        r#"kind = "element_count_equals", target = { testid = "send" }, count = 1"#,
        r#"kind = "element_count_equals", target = { testid = "send" }, count = 2"#,
    ),
    (
        r#"kind = "element_count_equals", target = { testid = "none" }, count = 0"#,
        r#"kind = "element_count_equals", target = { css = "button" }, count = 0"#,
    ),
    (
        r#"kind = "visible", target = { testid = "send" }"#,
        r#"kind = "visible", target = { css = "input[name=csrf]" }"#,
    ),
    (
        r#"kind = "hidden", target = { css = "input[name=csrf]" }"#,
        r#"kind = "hidden", target = { testid = "send" }"#,
    ),
    (r#"kind = "hidden", target = { testid = "none" }"#, r#"kind = "hidden", target = { css = "button" }"#),
    (
        r#"kind = "enabled", target = { label = "Name" }"#,
        r#"kind = "enabled", target = { label = "Branch" }"#,
    ),
    (
        r#"kind = "disabled", target = { label = "Branch" }"#,
        r#"kind = "disabled", target = { label = "Name" }"#,
    ),
    (
        r#"kind = "checked", target = { label = "Invoice" }"#,
        r#"kind = "checked", target = { label = "Card" }"#,
    ),
    (
        r#"kind = "unchecked", target = { label = "As a gift" }"#,
        r#"kind = "unchecked", target = { label = "Invoice" }"#,
    ),
    (
        r#"kind = "text_equals", target = { testid = "send" }, value = "Send""#,
        r#"kind = "text_equals", target = { testid = "send" }, value = "send""#,
    ),
    (
        r#"kind = "text_contains", target = { testid = "send" }, value = "en""#,
        r#"kind = "text_contains", target = { testid = "send" }, value = "EN""#,
    ),
    (
        r#"kind = "text_matches", target = { testid = "send" }, value = "^S.+d$""#,
        r#"kind = "text_matches", target = { testid = "send" }, value = "^x""#,
    ),
    (
        r#"kind = "text_contains", value = "As a gift""#,
        r#"kind = "text_contains", value = "nowhere on this page""#,
    ),
    (r#"kind = "text_matches", value = "(?i)INVOICE""#, r#"kind = "text_matches", value = "INVOICE""#),
    (
        r#"kind = "value_equals", target = { label = "Notes" }, value = "none""#,
        r#"kind = "value_equals", target = { label = "Notes" }, value = "None""#,
    ),
    (
        r#"kind = "value_contains", target = { label = "Notes" }, value = "on""#,
        r#"kind = "value_contains", target = { label = "Notes" }, value = "x""#,
    ),
    (
        r#"kind = "value_matches", target = { label = "Size" }, value = "^m$""#,
        r#"kind = "value_matches", target = { label = "Size" }, value = "^l$""#,
    ),
    (
        r#"kind = "attribute_equals", target = { testid = "form" }, attribute = "method", value = "post""#,
        r#"kind = "attribute_equals", target = { testid = "form" }, attribute = "method", value = "get""#,
    ),
    (
        r#"kind = "attribute_contains", target = { testid = "form" }, attribute = "action", value = "sent""#,
        r#"kind = "attribute_contains", target = { testid = "form" }, attribute = "none", value = "sent""#,
    ),
    (
        r#"kind = "attribute_matches", target = { testid = "form" }, attribute = "action", value = "^/form/""#,
        r#"kind = "attribute_matches", target = { testid = "form" }, attribute = "action", value = "^form/""#,
    ),
    (
        r#"kind = "url_equals", value = "http://{site}/form""#,
        r#"kind = "url_equals", value = "http://{site}/form/""#,
    ),
    (r#"kind = "url_matches", value = "/form$""#, r#"kind = "url_matches", value = "^/form$""#),
    (r#"kind = "host_equals", value = "127.0.0.1""#, r#"kind = "host_equals", value = "localhost""#),
    (r#"kind = "host_equals", value = "{site}""#, r#"kind = "host_equals", value = "{other}""#),
    (r#"kind = "host_matches", value = "^127[.]""#, r#"kind = "host_matches", value = "^local""#),
    (r#"kind = "title_equals", value = "Order""#, r#"kind = "title_equals", value = "order""#),
    (r#"kind = "title_matches", value = "^Ord""#, r#"kind = "title_matches", value = "^ord""#),
    (r#"kind = "no_overlay", target = { testid = "send" }"#, r#"kind = "download_completed""#),
    (r#"kind = "no_overlay""#, r#"kind = "download_completed", value = "report.csv""#),
];

fn list(conditions: impl Iterator<Item = String>) -> String {
    format!("[\n{}\n]", conditions.map(|one| format!("{{ {one} }},\n")).collect::<String>())
}

fn not(condition: &str) -> String {
    format!("kind = \"not\", condition = {{ {condition} }}")
}

fn holding() -> impl Iterator<Item = String> {
    OF_A_FORM.iter().map(|(holds, _)| (*holds).to_owned())
}

fn failing() -> impl Iterator<Item = String> {
    OF_A_FORM.iter().map(|(_, fails)| (*fails).to_owned())
}

fn on_form(rest: &str) -> String {
    format!(
        "name = \"conditions\"\n[[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{{site}}/form\"\n{rest}"
    )
}

fn kinds(conditions: &[v1::FailedCondition]) -> Vec<&str> {
    conditions.iter().map(|condition| condition.kind.as_str()).collect()
}

/// The kinds that these conditions have, in their order.
fn kinds_of(conditions: impl Iterator<Item = String>) -> Vec<String> {
    conditions.map(|condition| condition.split('"').nth(1).unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_holds_is_asserted_waited_for_required_before_and_found_after() {
    let bench = Bench::start().await;
    let holding = list(holding());
    let negated = list(failing().map(|condition| not(&condition)));
    let script = on_form(&format!(
        r#"
        [[actions]]
        id = "assert"
        kind = "assert"
        conditions = {holding}
        [[actions]]
        id = "assert-not"
        kind = "assert"
        conditions = {negated}
        [[actions]]
        id = "wait"
        kind = "wait_for"
        conditions = {holding}
        [[actions]]
        id = "before-and-after"
        kind = "hover"
        target = {{ testid = "cancel" }}
        pre = {holding}
        post = {negated}
        "#
    ));
    let ended = bench.run(&script).await.expect_success();
    assert_eq!(ended.script().succeeded, 5);
}

#[tokio::test]
async fn whatever_does_not_hold_is_listed_with_what_was_observed() {
    let bench = Bench::start().await;
    let script =
        on_form(&format!("[[actions]]\nid = \"a\"\nkind = \"assert\"\nconditions = {}", list(failing())));
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &script).await;
    assert_eq!(kinds(&proven.error.failed_conditions), kinds_of(failing()));
    for condition in &proven.error.failed_conditions {
        assert_eq!(condition.phase, "assert");
        let args: Value = serde_json::from_str(condition.args.as_deref().unwrap()).unwrap();
        assert!(args.get("observed").is_some(), "{condition:?}");
    }
    let script = on_form(&format!(
        "[[actions]]\nid = \"a\"\nkind = \"assert\"\nconditions = {}",
        list(holding().map(|condition| not(&condition)))
    ));
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &script).await;
    assert_eq!(proven.error.failed_conditions.len(), OF_A_FORM.len());
    assert!(proven.error.failed_conditions.iter().all(|condition| condition.kind == "not"));
}

#[tokio::test]
async fn what_does_not_hold_before_stops_the_action_and_after_it_fails_it() {
    let bench = Bench::start().await;
    let hover = |list_name: &str| {
        on_form(&format!(
            "[[actions]]\nid = \"a\"\nkind = \"hover\"\ntimeout_ms = 3000\ntarget = {{ testid = \"cancel\" }}\n{list_name} = {}",
            list(failing())
        ))
    };
    let proven = bench.fails("PRECONDITION_FAILED", Precondition, &hover("pre")).await;
    assert_eq!(kinds(&proven.error.failed_conditions), kinds_of(failing()));
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &hover("post")).await;
    assert_eq!(kinds(&proven.error.failed_conditions), kinds_of(failing()));
    let wait = on_form(&format!(
        "[[actions]]\nid = \"a\"\nkind = \"wait_for\"\ntimeout_ms = 600\nconditions = {}",
        list(failing())
    ));
    let proven = bench.fails("POSTCONDITION_FAILED", Postcondition, &wait).await;
    assert_eq!(kinds(&proven.error.failed_conditions), kinds_of(failing()));
}

#[tokio::test]
async fn overlays_downloads_and_uploads_have_conditions_of_their_own() {
    let bench = Bench::start_with(|config, folder| {
        let files = folder.join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("report.txt"), "17").unwrap();
        config.browser.upload_folders.push(files);
    })
    .await;
    let script = r##"
        name = "files and banners"
        [policy]
        upload_folders = ["{files}"]
        overlays = [{ css = "#banner" }]
        [[actions]]
        id = "banner"
        kind = "navigate"
        url = "http://{site}/overlay/banner"
        [[actions]]
        id = "covered"
        kind = "assert"
        conditions = [
            { kind = "not", condition = { kind = "no_overlay", target = { testid = "target" } } },
            { kind = "not", condition = { kind = "no_overlay" } },
            { kind = "not", condition = { kind = "not", condition = { kind = "visible", target = { css = "#banner" } } } },
        ]
        [[actions]]
        id = "close"
        kind = "click"
        target = { testid = "close" }
        post = [{ kind = "no_overlay" }, { kind = "no_overlay", target = { testid = "target" } }]
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/upload"
        [[actions]]
        id = "choose"
        kind = "upload"
        target = { testid = "one" }
        files = ["{files}/report.txt"]
        post = [
            { kind = "upload_listed", target = { testid = "one" } },
            { kind = "upload_listed", target = { testid = "files" }, value = "report.txt" },
            { kind = "not", condition = { kind = "upload_listed", target = { testid = "one" }, value = "other.txt" } },
        ]
        [[actions]]
        id = "downloads"
        kind = "navigate"
        url = "http://{site}/downloads"
        [[actions]]
        id = "download"
        kind = "download"
        target = { testid = "ok" }
        post = [
            { kind = "download_completed" },
            { kind = "download_completed", value = "report.csv" },
            { kind = "not", condition = { kind = "download_completed", value = "other.csv" } },
        ]
        [[actions]]
        id = "later"
        kind = "assert"
        conditions = [{ kind = "not", condition = { kind = "download_completed" } }]
        "##;
    let files = bench.folder.path().join("files").display().to_string();
    bench.run(&script.replace("{files}", &files)).await.expect_success();
}

#[test]
fn every_kind_of_condition_is_tried_here() {
    let mut tried: BTreeSet<String> = kinds_of(holding()).into_iter().collect();
    // Those that need a file, and the one that needs another.
    tried.extend(["download_completed", "upload_listed", "not"].map(str::to_owned));
    let all = (1..).map_while(|number| v1::ConditionKind::try_from(number).ok());
    let all: BTreeSet<String> = all
        .map(|kind| kind.as_str_name().trim_start_matches("CONDITION_KIND_").to_ascii_lowercase())
        .collect();
    assert_eq!(tried, all);
}
