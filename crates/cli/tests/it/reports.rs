//! `capataz runs report` of each kind of run, and `capataz evidence`, against the program as people start it.

use std::fs;

use crate::reported::Reported;
use serde_json::json;

/// These parts are on the page, in this order.
#[track_caller]
fn shows(page: &str, parts: &[&str]) {
    let mut rest = page;
    for part in parts {
        let found = rest.find(part);
        assert!(found.is_some(), "{part:?}, after those before it, in\n{page}");
        rest = &rest[found.unwrap_or_default() + part.len()..];
    }
}

#[test]
fn each_kind_of_run_has_a_report_that_begins_with_what_failed() {
    let reported = Reported::start();
    for made in reported.one_of_each() {
        let page = fs::read_to_string(reported.report(&made, "en")).unwrap();
        let parts: &[&str] = match made.kind {
            "plan" => &[
                "<h1>nightly <span class=\"badge bad\">failed</span>",
                "Tasks: 2 of 4 succeeded",
                "QUORUM_NOT_MET",
                "What to do: ",
                ">lint</a>",
                "What failed",
                "the 3. finding",
                "id=\"timeline\"",
                "Wave 1 of 1: checks",
                "attempt 1 failed (SERVICE_UNAVAILABLE)",
                "before the next attempt",
                "attempt 2 failed",
                "id=\"tasks\"",
                "2 that succeeded",
                "id=\"outputs\"",
                "&quot;lines&quot;: 3",
            ],
            "ask" => &[
                "<h1>hm <span class=\"badge bad\">failed</span>",
                "VALIDATION_ERROR",
                "id=\"answer\"",
                "That is too short",
                "id=\"timeline\"",
                "How the spec was chosen",
                "as requested",
            ],
            "pipeline" => &[
                "<h1>review <span class=\"badge warning\">waiting",
                "This run still goes on.",
                "Phases: 1 of 2 completed",
                "VALIDATION_ERROR",
                "Open questions",
                "capataz pipeline resume ",
                "What failed",
                "The output breaks its rule",
                "id=\"timeline\"",
                "Phase 1 of 2: measure",
                "Phase 2 of 2: read",
                "id=\"phases\"",
                "1. measure <span class=\"badge good\">completed",
                "2. read <span class=\"badge bad\">blocked",
                "Questions to people",
            ],
            _ => &[
                "<h1>how many examples are there <span class=\"badge bad\">failed</span>",
                "class=\"why\"",
                "id=\"timeline\"",
                "Planner: what is next",
                "files.list",
                "id=\"calls\"",
                "plans",
                "Memory",
            ],
        };
        shows(&page, parts);
        assert!(page.contains(made.failure), "{}", made.kind);
        let spanish = fs::read_to_string(reported.report(&made, "es")).unwrap();
        shows(&spanish, &["<html lang=\"es\">", "Cronología", "Detalles técnicos"]);
    }
}

#[test]
fn what_was_written_is_said_and_a_page_on_stdout_is_the_whole_answer() {
    let reported = Reported::start();
    reported.says(&["run", "plan.toml"], 1);
    let told = reported.document(&["runs", "report", "latest", "-o", "run.html"], 0);
    let page = fs::read_to_string(reported.path("run.html")).unwrap();
    assert_eq!(told["kind"], "plan");
    assert_eq!((&told["file"], &told["bytes"]), (&json!("run.html"), &json!(page.len())));
    let told = reported.says(&["runs", "report", "latest", "-o", "run.html"], 0);
    assert!(told.starts_with("run.html: ") && told.ends_with("KiB\n"), "{told}");
    for arguments in
        [&["runs", "report", "latest", "-o", "-"][..], &["runs", "report", "latest", "-o", "-", "--json"]]
    {
        let told = reported.says(arguments, 0);
        assert!(told.starts_with("<!DOCTYPE html>") && told.ends_with("</html>\n"), "{arguments:?} {told}");
    }
    reported.says(&["runs", "report", "latest", "-o", "nowhere/run.html"], 1);
}

#[test]
fn a_report_without_a_file_is_named_after_its_run_and_writes_over_none() {
    let reported = Reported::start();
    reported.says(&["run", "plan.toml"], 1);
    let told = reported.document(&["runs", "report", "latest"], 0);
    let name = format!("{}.html", told["run_id"].as_str().unwrap());
    assert_eq!(told["file"], json!(name));
    let page = || fs::read_to_string(reported.path(&name)).unwrap();
    assert_eq!(told["bytes"], json!(page().len()));

    fs::write(reported.path(&name), "mine").unwrap();
    let refused = reported.document(&["runs", "report", "latest"], 1);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(&name) && message.ends_with("--force writes over it"), "{message}");
    assert_eq!(page(), "mine");
    reported.says(&["runs", "report", "latest", "--force"], 0);
    assert!(page().starts_with("<!DOCTYPE html>"));
    // Whoever names it wants it written.
    fs::write(reported.path(&name), "mine").unwrap();
    reported.says(&["runs", "report", "latest", "-o", &name], 0);
    assert!(page().starts_with("<!DOCTYPE html>"));
}

#[test]
fn nothing_is_read_for_a_file_that_is_there_already() {
    let reported = Reported::start();
    reported.says(&["run", "plan.toml"], 1);
    // The daemon has none of these, and is not asked for them.
    let run = "00000000-0000-7000-8000-000000000000";
    let report = format!("{run}.html");
    for (file, arguments) in [
        (report.as_str(), &["runs", "report", run][..]),
        ("mine.json", &["runs", "output", "latest", "nowhere", "-o", "mine.json"]),
        ("mine.png", &["evidence", "latest", "ab12", "-o", "mine.png"]),
    ] {
        let refused = |arguments: &[&str]| {
            let refused = reported.document(arguments, 1);
            refused["error"]["message"].as_str().unwrap_or_default().to_owned()
        };
        let unknown = refused(arguments);
        assert!(!unknown.contains("--force"), "{arguments:?} {unknown}");
        fs::write(reported.path(file), "mine").unwrap();
        let there = refused(arguments);
        assert!(there.starts_with(file) && there.ends_with("--force writes over it"), "{there}");
        let forced = refused(&[arguments, &["--force"]].concat());
        assert_eq!(forced, unknown, "{arguments:?}");
        assert_eq!(fs::read_to_string(reported.path(file)).unwrap(), "mine");
    }
}

#[test]
fn a_run_without_a_browser_has_no_evidence() {
    let reported = Reported::start();
    reported.says(&["run", "plan.toml"], 1);
    let told = reported.says(&["evidence", "latest"], 0);
    assert!(told.contains("has no evidence"), "{told}");
    let told = reported.document(&["evidence", "latest"], 0);
    assert_eq!(told["evidence"], json!([]));
    let told = reported.capataz(&["evidence", "latest", "ab12", "--lang", "es"]);
    assert_eq!(told.status.code(), Some(1));
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("no tiene la evidencia ab12"), "{told}");
    // Without a piece there is nothing to write.
    reported.says(&["evidence", "latest", "-o", "x.png"], 2);
    reported.says(&["evidence", "latest", "--open"], 2);
    // What is opened has a file of its own.
    reported.says(&["evidence", "latest", "ab12", "--open", "-o", "x.png"], 2);
    reported.says(&["evidence", "latest", "ab12", "--open", "--force"], 2);
}
