//! The rules of the DSL: U1 to U5 of seed 002, section 4.

use capataz_contracts::v1;
use capataz_contracts::v1::ActionStage::{Precondition, ProposalValidation};
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::bench::Bench;
use crate::session::Session;

/// An action for each kind that acts on one element, without its target.
const ACTING: &[(&str, &str)] = &[
    ("click", ""),
    ("double_click", ""),
    ("hover", ""),
    ("fill", "value = \"x\""),
    ("press", "key = \"Enter\""),
    ("select", "options = [\"x\"]"),
    ("check", ""),
    ("uncheck", ""),
    ("submit", "post = [{ kind = \"title_equals\", value = \"x\" }]"),
    ("upload", "files = [\"/none\"]\npost = [{ kind = \"title_equals\", value = \"x\" }]"),
    ("download", ""),
    ("scroll_to", ""),
    ("extract", "extract = \"text\"\noutput = \"x\""),
];

// S002-RU-01, S002-RU-02
#[tokio::test]
async fn u1_whatever_acts_on_an_element_needs_exactly_one() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/duplicates\"").await;
    let before = bench.site.requests().len();
    for (kind, rest) in ACTING {
        let targets = [("none", "TARGET_NOT_FOUND", 0), ("delete", "TARGET_NOT_UNIQUE", 3)];
        for (testid, code, count) in targets {
            let action =
                format!("kind = \"{kind}\"\ntimeout_ms = 200\ntarget = {{ testid = \"{testid}\" }}\n{rest}");
            let error = session.fails(&action).await;
            let events = bench.export(&session.run_id).await;
            let proven = bench.prove(&session.run_id, &events, error, code, Precondition).await;
            assert_eq!(proven.details["count_observed"], count, "{kind}");
        }
    }
    assert_eq!(bench.site.requests().len(), before, "nothing reached the site");
    session.close().await;
}

#[tokio::test]
async fn u1_the_third_and_the_absent_of_three_are_told_apart_by_nth() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/duplicates\"").await;
    let nth = |nth: u32, limit: &str| {
        format!(
            "kind = \"click\"\n{limit}\nrationale = \"reports have no names of their own\"\n\
             target = {{ testid = \"delete\", nth = {nth} }}"
        )
    };
    let clicked = session.succeeds(&nth(2, "")).await.resolution.unwrap();
    assert_eq!((clicked.locator.as_str(), clicked.count), ("testid", 3));
    bench.site.until_hits("/hit/c", 1).await;
    let error = session.fails(&nth(3, "timeout_ms = 300")).await;
    assert_eq!(error.error_code, "TARGET_NOT_FOUND");
    assert_eq!([bench.site.hits("/hit/a"), bench.site.hits("/hit/b"), bench.site.hits("/hit/c")], [0, 0, 1]);
    session.close().await;
}

// S002-RU-07
#[tokio::test]
async fn u4_locators_are_tried_in_one_order_however_they_are_written() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/plain\"").await;
    // From the last to the first: one kind after the other finds nothing, and the next decides.
    let found = [
        ("testid", "testid = \"target\""),
        ("role", "role = \"button\", name = \"Save\""),
        ("label", "label = \"none\""),
        ("css", "css = \"button\""),
        ("xpath", "xpath = \"//button\""),
        ("text", "text = \"Save\""),
    ];
    let missing = [
        "testid = \"none\"",
        "role = \"button\", name = \"None\"",
        "label = \"None\"",
        "css = \".none\"",
        "xpath = \"//none\"",
        "text = \"None\"",
    ];
    for (at, (locator, _)) in found.iter().enumerate() {
        // Nothing on this page has a label.
        if *locator == "label" {
            continue;
        }
        let parts = found.iter().zip(missing).enumerate();
        let written: Vec<&str> =
            parts.map(|(place, ((_, found), missing))| if place < at { missing } else { found }).collect();
        for written in [written.clone(), written.into_iter().rev().collect()] {
            let action = format!("kind = \"hover\"\ntarget = {{ {} }}", written.join(", "));
            let resolution = session.succeeds(&action).await.resolution.unwrap();
            assert_eq!((resolution.locator.as_str(), resolution.count), (*locator, 1), "{action}");
            let tried: Vec<&str> = found[..at].iter().map(|(locator, _)| *locator).collect();
            assert_eq!(resolution.tried, tried);
        }
    }
    session.close().await;
}

// S002-RU-08
#[tokio::test]
async fn u4_two_by_the_first_locator_never_fall_to_the_next() {
    let bench = Bench::start().await;
    let script = r#"
        name = "two"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/button/duplicates"
        [[actions]]
        id = "delete"
        kind = "click"
        target = { xpath = "//li[2]/button", role = "heading", testid = "delete" }
        "#;
    let proven = bench.fails("TARGET_NOT_UNIQUE", Precondition, script).await;
    assert_eq!(
        (&proven.details["locator"], &proven.details["count_observed"]),
        (&json!("testid"), &json!(3))
    );
    assert_eq!(bench.site.hits("/hit/b"), 0);
}

/// Every kind of mistake that the rules U2, U3 and U5 know, each with the path and the rule that it breaks.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("kind = \"click\"\ntarget = { text = \"Save\", match = \"contains\" }", "target.match", "U2"),
    ("kind = \"click\"\ntarget = { label = \"Save\", match = \"regex\" }", "target.match", "U2"),
    ("kind = \"click\"\nrationale = \"why\"\ntarget = { text = \"Save\", nth = 1 }", "target.nth", "U3"),
    ("kind = \"click\"\nrationale = \"why\"\ntarget = { xpath = \"//p\", nth = 1 }", "target.nth", "U3"),
    ("kind = \"click\"\nrationale = \"why\"\ntarget = { role = \"button\", nth = 1 }", "target.nth", "U3"),
    ("kind = \"click\"\ntarget = { testid = \"a\", nth = 1 }", "target.nth", "U3"),
    ("kind = \"click\"\nrationale = \" \"\ntarget = { testid = \"a\", nth = 1 }", "target.nth", "U3"),
    ("kind = \"submit\"\ntarget = { testid = \"a\" }", "post", "U5"),
    (
        "kind = \"submit\"\ntarget = { testid = \"a\" }\npost = [{ kind = \"text_contains\", value = \"sent\" }]",
        "post",
        "U5",
    ),
    (
        "kind = \"submit\"\ntarget = { testid = \"a\" }\npost = [{ kind = \"url_matches\", value = \".*\" }]",
        "post",
        "U5",
    ),
    (
        "kind = \"upload\"\nfiles = [\"/a\"]\ntarget = { testid = \"a\" }\npost = [{ kind = \"visible\", target = { testid = \"b\" } }]",
        "post",
        "U5",
    ),
    ("kind = \"click\"\ncriticality = \"critical\"\ntarget = { testid = \"a\" }", "post", "U5"),
    (
        "kind = \"click\"\ncriticality = \"critical\"\ntarget = { testid = \"a\" }\npost = [{ kind = \"element_count_equals\", count = 1, target = { css = \"p\" } }]",
        "post",
        "U5",
    ),
];

/// Paths of what is wrong with a request.
fn violations(status: &Status) -> Vec<(String, String)> {
    let details = status.get_error_details();
    let bad = details.bad_request().expect("the request is bad");
    bad.field_violations.iter().map(|one| (one.field.clone(), one.description.clone())).collect()
}

// S002-RU-10
#[tokio::test]
async fn u2_u3_u5_a_script_is_refused_with_all_of_its_violations_and_nothing_is_opened() {
    let bench = Bench::start().await;
    let actions = MISTAKES.iter().enumerate();
    let actions: String =
        actions.map(|(index, (toml, ..))| format!("[[actions]]\nid = \"a{index}\"\n{toml}\n")).collect();
    let script = bench.script(&format!("name = \"mistakes\"\n{actions}"));

    let request = v1::CheckScriptRequest { script: Some(script.clone()) };
    let checked = bench.executor.clone().check_script(request).await.unwrap().into_inner().violations;
    let broken = |index: usize, path: &str, rule: &str| {
        let path = format!("actions[{index}].{path}");
        checked.iter().any(|one| one.path == path && one.rule == rule && one.action_id == format!("a{index}"))
    };
    for (index, (toml, path, rule)) in MISTAKES.iter().enumerate() {
        assert!(broken(index, path, rule), "{toml}: {checked:?}");
    }

    let refused = bench.try_start(script).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.get_error_details().error_info().unwrap().reason, "INVALID_ACTIONSPEC");
    let violations = violations(&refused);
    assert_eq!(violations.len(), checked.len());
    for (index, (_, path, rule)) in MISTAKES.iter().enumerate() {
        let field = format!("script.actions[{index}].{path}");
        let told =
            violations.iter().any(|(found, why)| *found == field && why.ends_with(&format!("({rule})")));
        assert!(told, "{field}: {violations:?}");
    }
    assert_eq!(bench.browsers().await, []);
    let runs = bench.runs.clone().list_runs(v1::ListRunsRequest::default()).await.unwrap().into_inner();
    assert!(runs.runs.is_empty(), "{runs:?}");
}

// S002-RU-04, S002-RU-06
#[tokio::test]
async fn u2_u3_u5_a_proposal_is_refused_with_evidence_and_without_any_input() {
    let bench = Bench::start().await;
    let session = Session::open(&bench, "").await;
    session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/button/plain\"").await;
    let before = bench.site.requests().len();
    for (toml, path, rule) in MISTAKES {
        let error = session.fails(toml).await;
        let events = bench.export(&session.run_id).await;
        let proven =
            bench.prove(&session.run_id, &events, error, "INVALID_ACTIONSPEC", ProposalValidation).await;
        assert_eq!(proven.details["violated_rules"], json!([rule]), "{toml}");
        let listed = proven.details["validation_errors"].as_array().unwrap();
        assert!(listed.iter().any(|one| one["path"] == *path && one["rule"] == *rule), "{toml}: {listed:?}");
        assert_eq!(proven.snapshot()["title"], "Button");
    }
    assert_eq!(bench.site.requests().len(), before, "nothing reached the site");
    session.close().await;
}

// S002-RU-09
#[tokio::test]
async fn u5_a_strong_postcondition_is_enough_for_a_critical_action() {
    let bench = Bench::start().await;
    let strong = [
        "kind = \"url_matches\", value = \"/form/sent$\"",
        "kind = \"title_equals\", value = \"Sent\"",
        "kind = \"element_count_equals\", count = 1, target = { testid = \"sent\" }",
        "kind = \"text_contains\", value = \"ana\", target = { testid = \"sent\" }",
    ];
    let session = Session::open(&bench, "").await;
    for (number, post) in strong.iter().enumerate() {
        session.succeeds("kind = \"navigate\"\nurl = \"http://{site}/form\"").await;
        session.succeeds("kind = \"fill\"\ntarget = { label = \"Name\" }\nvalue = \"ana\"").await;
        let submit = format!("kind = \"submit\"\ntarget = {{ testid = \"send\" }}\npost = [{{ {post} }}]");
        session.succeeds(&submit).await;
        assert_eq!(bench.site.hits("/form/sent"), number + 1);
    }
    session.close().await;
}
