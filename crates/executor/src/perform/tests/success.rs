//! What an action that succeeds does, in which order, and what it leaves.

use serde_json::json;

use super::page::{FakePage, element};
use super::*;
use crate::page::{ConsoleLine, Description, FailedRequest, PageError, PageLog, SelectOption};

fn goes_to_done(page: &mut FakePage) {
    page.reactions.push(Box::new(|page| {
        page.url = "https://example.com/done".to_owned();
        page.changes.navigation = v1::NavigationKind::Document as i32;
        Ok(())
    }));
}

// S002-EV-10
#[test]
fn a_click_is_pictured_sent_once_proved_and_kept_in_this_order() {
    let mut page = FakePage::new(vec![element("send")]);
    goes_to_done(&mut page);
    let done = case(page, with(click("send"), "post", done())).run();
    let outcome = done.success();
    let order: Vec<&str> = done.log.iter().map(|entry| entry.split([' ', '{']).next().unwrap()).collect();
    assert_eq!(order, ["dialogs", "settle", "screenshot", "act", "kept", "kept", "kept", "look"]);
    assert_eq!(done.evidence_kinds(), ["screenshot_before", "dom_snapshot_partial", "state_signature"]);
    let before = outcome.state_before.as_ref().unwrap();
    assert_eq!(before.screenshot_hash.len(), 64);
    assert_eq!(outcome.state_after.as_ref().unwrap().url, "https://example.com/done");
    assert!(outcome.touched);
    let resolution = outcome.resolution.as_ref().unwrap();
    assert_eq!((resolution.locator.as_str(), resolution.count, resolution.x), ("testid", 1, Some(1.0)));
}

#[test]
fn the_policy_says_which_pictures_of_actions_that_succeed_are_kept() {
    // In each row: the policy, and whether the picture before a normal and before a critical action is kept.
    for (pictures, normal, critical) in
        [("always", true, true), ("critical", false, true), ("on_failure", false, false)]
    {
        for (criticality, is_kept) in [("normal", normal), ("critical", critical)] {
            let mut page = FakePage::new(vec![element("send")]);
            goes_to_done(&mut page);
            let action = with(with(click("send"), "post", done()), "criticality", criticality.into());
            let done = case(page, action).policy(json!({"pictures": pictures})).run();
            let outcome = done.success();
            let kinds = done.evidence_kinds();
            assert_eq!(kinds.contains(&"screenshot_before"), is_kept, "{pictures} {criticality}: {kinds:?}");
            assert!(kinds.ends_with(&["dom_snapshot_partial", "state_signature"]), "{kinds:?}");
            // It was there, had it been needed.
            let state = outcome.state_before.as_ref().unwrap();
            assert_eq!(state.screenshot_hash.len(), 64, "{pictures} {criticality}");
        }
    }
}

#[test]
fn what_an_error_obliges_to_is_kept_whatever_the_policy_says_of_pictures() {
    for pictures in ["always", "critical", "on_failure"] {
        let page = FakePage::new(vec![element("send")]);
        let done =
            case(page, with(click("send"), "post", done())).policy(json!({"pictures": pictures})).run();
        done.error("POSTCONDITION_FAILED", ActionStage::Postcondition);
        let kinds = done.evidence_kinds();
        for kind in ["html_full", "screenshot_before", "screenshot_after"] {
            assert!(kinds.contains(&kind), "{pictures}: {kinds:?}");
        }
        let before = done.outcome.error.as_ref().unwrap().evidence_refs.iter();
        let before = before.filter(|evidence| evidence.kind == "screenshot_before");
        let contents: Vec<&Bytes> = before.map(|evidence| &done.kept[&evidence.id]).collect();
        assert_eq!(contents, ["png false after 0 acts"]);
    }
}

fn written() -> PageLog {
    let line = |text: &str| ConsoleLine {
        level: "error".to_owned(),
        text: text.to_owned(),
        count: 1,
        ..ConsoleLine::default()
    };
    let long = format!("{} {}", "x".repeat(1_995), "ghp_".to_owned() + &"a1".repeat(18));
    let url = "https://example.com/api?token=abc".to_owned();
    let request = FailedRequest { kind: "fetch".to_owned(), url, reason: "status 500".to_owned() };
    PageLog {
        console: vec![line("token=s4Gh8Jk2Lm6Np0Qr"), line(&long)],
        requests: vec![request],
        left_out: 3,
    }
}

// S002-EV-12
#[test]
fn the_policy_says_whether_what_the_page_writes_is_evidence_and_it_is_redacted() {
    // In each row: the policy, and whether the log of an action that succeeds and of one that fails is kept.
    for (policy, succeeds, fails) in
        [("off", false, false), ("on_failure", false, true), ("always", true, true)]
    {
        for (is_there, is_kept) in [(true, succeeds), (false, fails)] {
            let mut page = FakePage::new(if is_there { vec![element("send")] } else { Vec::new() });
            page.written = written();
            let done = case(page, click("send")).policy(json!({"page_log": policy})).run();
            assert_eq!(done.outcome.error.is_none(), is_there);
            assert_eq!(done.evidence_kinds().contains(&"page_log"), is_kept, "{policy} {is_there}");
            let refs = match &done.outcome.error {
                Some(error) => &error.evidence_refs,
                None => &done.outcome.evidence,
            };
            let Some(log) = refs.iter().find(|evidence| evidence.kind == "page_log") else { continue };
            assert!(log.redacted);
            let content: Value = serde_json::from_slice(&done.kept[&log.id]).unwrap();
            assert_eq!(content["console"][0]["text"], "token=«secret»");
            // The secret lies across the end of what is kept.
            assert_eq!(content["console"][1]["text"], format!("{} «sec…", "x".repeat(1_995)));
            let request = json!({"kind": "fetch", "url": "https://example.com/api?token=«secret»", "reason": "status 500"});
            assert_eq!((&content["requests"][0], &content["left_out"]), (&request, &json!(3)));
        }
    }
}

#[test]
fn a_page_that_writes_nothing_leaves_no_log() {
    let page = FakePage::new(vec![element("send")]);
    let done = case(page, click("send")).policy(json!({"page_log": "always"})).run();
    assert!(!done.evidence_kinds().contains(&"page_log"));
}

// S002-EV-13
#[test]
fn evidence_says_so_where_the_page_has_masked_something_by_its_element() {
    for (text, redacted) in [("Card [redacted]", true), ("Card", false)] {
        let mut page = FakePage::new(vec![element("send")]);
        page.text = text.to_owned();
        let done = case(page, with(click("send"), "post", done())).run();
        let error = done.outcome.error.as_ref().unwrap();
        for kind in ["dom_snapshot_partial", "html_full"] {
            let piece = error.evidence_refs.iter().find(|evidence| evidence.kind == kind).unwrap();
            assert_eq!(piece.redacted, redacted, "{kind} {text}");
        }
    }
}

#[test]
fn a_page_that_was_seen_while_its_element_rested_is_not_looked_at_again() {
    for kind in ["click", "hover", "double_click"] {
        let mut page = FakePage::new(vec![element("send")]);
        page.rests = true;
        let done = case(page, json!({"kind": kind, "target": {"testid": "send"}})).run();
        let outcome = done.success();
        let pictures: Vec<&String> = done.log.iter().filter(|entry| *entry == "screenshot").collect();
        assert_eq!(pictures.len(), 1, "{kind}: {:?}", done.log);
        assert_eq!(outcome.state_before.as_ref().unwrap().screenshot_hash.len(), 64, "{kind}");
        assert_eq!(done.evidence_kinds()[0], "screenshot_before", "{kind}");
    }
}

#[test]
fn a_page_that_may_have_been_scrolled_to_the_end_of_a_drag_is_looked_at_again() {
    let drag = |field: &str, end: Value| {
        let mut page = FakePage::new(vec![element("card"), element("list")]);
        page.rests = true;
        let done = case(page, json!({"kind": "drag", "target": {"testid": "card"}, field: end})).run();
        done.success();
        let watched = ["settle", "screenshot", "act"];
        let words = done.log.iter().filter_map(|entry| entry.split(' ').next());
        words.filter(|word| watched.contains(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        drag("to", json!({"testid": "list"})),
        ["settle", "screenshot", "settle", "screenshot", "act"]
    );
    assert_eq!(drag("by", json!({"x": 1, "y": 0})), ["settle", "screenshot", "act"]);
}

#[test]
fn a_target_that_comes_late_is_waited_for() {
    let mut page = FakePage::new(Vec::new());
    page.later.push((
        3000,
        Box::new(|page| {
            page.elements.push(element("send").with(|facts| facts.enabled = false));
            Ok(())
        }),
    ));
    page.later.push((
        5000,
        Box::new(|page| {
            page.elements[0].facts.enabled = true;
            Ok(())
        }),
    ));
    let time = page.time.clone();
    case(page, click("send")).run().success();
    assert_eq!(time.monotonic(), Duration::from_secs(5));
}

#[test]
fn a_page_that_cannot_be_read_for_a_moment_is_waited_for() {
    let mut page = FakePage::new(vec![element("send")]);
    page.broken.push(("look", PageError::Failed("the document is being replaced".to_owned())));
    page.later.push((
        1000,
        Box::new(|page| {
            page.broken.clear();
            Ok(())
        }),
    ));
    case(page, click("send")).run().success();

    let mut page = FakePage::new(vec![element("send")]);
    page.broken.push(("look", PageError::Failed("never".to_owned())));
    case(page, click("send")).run().error("PRECONDITION_FAILED", ActionStage::Precondition);
}

// S002-RU-07
#[test]
fn locators_are_tried_in_their_order_and_the_first_that_matches_decides() {
    let page = FakePage::new(vec![element("other")]);
    let action = with(click("x"), "target", json!({"css": "button", "testid": "other"}));
    let done = case(page, action).run();
    assert_eq!(done.success().resolution.as_ref().unwrap().locator, "testid");
}

// S002-EV-09
#[test]
fn a_secret_is_typed_and_masked_in_everything_from_then_on() {
    let field = element("password").with(|facts| {
        facts.editable = true;
        facts.secret = true;
    });
    let mut page = FakePage::new(vec![field]);
    page.reactions.push(Box::new(|page| {
        page.text = "You typed correct horse, as correct%20horse".to_owned();
        page.title = "correct horse".to_owned();
        Ok(())
    }));
    let value = json!("${secret:PASSWORD}");
    let action = json!({"kind": "fill", "target": {"testid": "password"}, "value": value, "post": done()});
    let done = case(page, action).run();
    assert!(done.acts()[0].contains("correct horse"), "the page gets it");
    let error = done.error("POSTCONDITION_FAILED", ActionStage::Postcondition);
    assert_eq!(error.action_spec.as_ref().unwrap().value.as_deref(), value.as_str());
    for content in done.kept.values() {
        let text = String::from_utf8_lossy(content);
        assert!(!text.contains("horse"), "{text}");
    }
    assert_eq!(error.state_after.as_ref().unwrap().title, "«secret»");
    assert!(!format!("{:?}", done.outcome).contains("horse"));
}

/// An ordinary word is on too many pages: it is masked in the action that types it, and on no page.
#[test]
fn of_what_is_typed_into_a_secret_input_only_what_is_peculiar_is_masked_on_the_page() {
    for (typed, is_masked) in
        [("hunter2", true), ("correct horse", true), ("secret", false), ("order", false), ("1234", false)]
    {
        let field = element("pin").with(|facts| {
            facts.editable = true;
            facts.secret = true;
        });
        let mut page = FakePage::new(vec![field]);
        page.reactions.push(Box::new(move |page| {
            page.text = format!("Your {typed} is here");
            Ok(())
        }));
        let action = json!({"kind": "fill", "target": {"testid": "pin"}, "value": typed, "post": done()});
        let done = case(page, action).run();
        let error = done.error("POSTCONDITION_FAILED", ActionStage::Postcondition);
        assert_eq!(error.action_spec.as_ref().unwrap().value.as_deref(), Some("«secret»"), "{typed}");
        let html = error.evidence_refs.iter().find(|evidence| evidence.kind == "html_full").unwrap();
        let content = String::from_utf8_lossy(&done.kept[&html.id]).into_owned();
        let shown = if is_masked { "«secret»" } else { typed };
        assert!(content.ends_with(&format!("Your {shown} is here")), "{typed}: {content}");
        assert_eq!(html.redacted, is_masked, "{typed}");
    }
}

#[test]
fn what_is_typed_into_a_secret_input_is_a_secret_wherever_it_comes_from() {
    let field = element("pin").with(|facts| {
        facts.editable = true;
        facts.secret = true;
        facts.value = Some("old value".to_owned());
    });
    let post = json!([{"kind": "value_equals", "target": {"testid": "pin"}, "value": "never there"}]);
    let action = json!({"kind": "fill", "target": {"testid": "pin"}, "value": "swordfish", "post": post});
    let done = case(FakePage::new(vec![field]), action).run();
    let error = done.error("POSTCONDITION_FAILED", ActionStage::Postcondition);
    assert_eq!(error.action_spec.as_ref().unwrap().value.as_deref(), Some("«secret»"));
    let everything = format!("{:?}", done.outcome);
    assert!(!everything.contains("swordfish") && !everything.contains("old value"), "{everything}");
}

#[test]
fn a_check_box_is_clicked_only_where_it_is_not_yet_as_wanted() {
    let boxed = |checked: bool| element("box").with(|facts| facts.checked = Some(checked));
    let check = json!({"kind": "check", "target": {"testid": "box"}});
    let done = case(FakePage::new(vec![boxed(true)]), check.clone()).run();
    assert!(!done.success().touched);
    assert_eq!(done.acts(), [""; 0]);

    let mut page = FakePage::new(vec![boxed(false)]);
    page.reactions.push(Box::new(|page| {
        page.elements[0].facts.checked = Some(true);
        Ok(())
    }));
    case(page, check.clone()).run().success();

    let stubborn = case(FakePage::new(vec![boxed(false)]), check).run();
    let error = stubborn.error("POSTCONDITION_FAILED", ActionStage::Postcondition);
    assert_eq!(error.failed_conditions[0].kind, "checked");
}

#[test]
fn options_are_meant_by_value_or_by_exact_label() {
    let option = |value: &str, label: &str| SelectOption {
        value: value.to_owned(),
        label: label.to_owned(),
        ..SelectOption::default()
    };
    let list = element("list").with(|facts| {
        facts.options = vec![option("1", "One"), option("2", " Two  words"), option("One", "Other")];
    });
    let action = json!({"kind": "select", "target": {"testid": "list"}, "options": ["One", "Two words"]});
    let done = case(FakePage::new(vec![list]), action).run();
    done.success();
    assert!(done.acts()[0].contains("[\"One\", \"2\"]"), "{:?}", done.acts());
}

#[test]
fn what_is_extracted_is_json_and_redacted() {
    let extract = |fake, how: Value| {
        let mut action = json!({"kind": "extract", "target": {"testid": "e"}, "output": "o"});
        for (key, value) in how.as_object().unwrap() {
            action[key] = value.clone();
        }
        let done = case(FakePage::new(vec![fake]), action).run();
        let output = done.success().output.clone().unwrap();
        assert_eq!(output.name, "o");
        assert!(!done.outcome.touched);
        let value = serde_json::from_str::<Value>(&output.value).unwrap();
        // Whoever has the value is told of every mask in it, those that the page's own script has set as well.
        let has_mask = ["«secret»", "[redacted]"].iter().any(|mask| output.value.contains(mask));
        assert_eq!(output.redacted, has_mask, "{}", output.value);
        value
    };
    let plain = || {
        element("e").with(|facts| {
            facts.text = "Total 7 €".to_owned();
            facts.attributes.insert("href".to_owned(), "/x?token=abc".to_owned());
        })
    };
    assert_eq!(extract(plain(), json!({"extract": "text"})), "Total 7 €");
    assert_eq!(extract(plain(), json!({"extract": "value"})), Value::Null);
    let href = extract(plain(), json!({"extract": "attribute", "attribute": "href"}));
    assert_eq!(href, "/x?token=«secret»");
    assert_eq!(extract(plain(), json!({"extract": "table"})), json!([["Ana", "«secret»"]]));
    let secret = plain().with(|facts| facts.secret = true);
    assert_eq!(extract(secret, json!({"extract": "text"})), "«secret»");
    let with_a_secret_part = plain().with(|facts| facts.text = "Card [redacted]".to_owned());
    assert_eq!(extract(with_a_secret_part, json!({"extract": "text"})), "Card [redacted]");
}

#[test]
fn a_download_is_kept_and_is_the_output() {
    let mut page = FakePage::new(vec![element("export")]);
    page.reactions.push(Box::new(|page| {
        let download = v1::DownloadRecord {
            file_name: "a.csv".to_owned(),
            bytes: 10,
            state: "completed".to_owned(),
            ..v1::DownloadRecord::default()
        };
        page.changes.downloads.push(download);
        Err(PageError::NotLoaded { reason: "net::ERR_ABORTED".to_owned(), url: None })
    }));
    let post = json!([{"kind": "download_completed", "value": "a.csv"}]);
    let action =
        json!({"kind": "download", "url": "https://example.com/a.csv", "output": "file", "post": post});
    let done = case(page, action).run();
    let outcome = done.success();
    let value: Value = serde_json::from_str(&outcome.output.as_ref().unwrap().value).unwrap();
    assert_eq!((value["file_name"].as_str(), value["bytes"].as_u64()), (Some("a.csv"), Some(10)));
    let download = &outcome.changes.as_ref().unwrap().downloads[0];
    assert!(done.kept.contains_key(&download.blob.as_ref().unwrap().blake3));
    let kinds = ["screenshot_before", "dom_snapshot_partial", "state_signature", "download"];
    assert_eq!(done.evidence_kinds(), kinds);
}

#[test]
fn a_screenshot_is_evidence_of_its_own() {
    let done = case(FakePage::new(Vec::new()), json!({"kind": "screenshot", "full_page": true})).run();
    assert!(!done.success().touched);
    assert_eq!(done.evidence_kinds(), ["screenshot"]);
    let content = done.kept.values().next().unwrap();
    assert!(content.starts_with(b"png true"));
}

#[test]
fn waiting_ends_when_the_condition_holds() {
    let mut page = FakePage::new(Vec::new());
    page.later.push((
        700,
        Box::new(|page| {
            page.title = "Done".to_owned();
            Ok(())
        }),
    ));
    let time = page.time.clone();
    let action = json!({"kind": "wait_for", "conditions": [{"kind": "title_equals", "value": "Done"}]});
    case(page, action).run().success();
    assert_eq!(time.monotonic(), Duration::from_millis(700));
}

// S002-DE-18
#[test]
fn an_upload_takes_regular_files_below_declared_folders_and_no_others() {
    let root = tempfile::tempdir().unwrap();
    let declared = root.path().join("declared");
    std::fs::create_dir_all(declared.join("folder")).unwrap();
    std::fs::write(declared.join("a.txt"), "a").unwrap();
    std::fs::write(root.path().join("outside.txt"), "o").unwrap();
    std::os::unix::fs::symlink(root.path().join("outside.txt"), declared.join("link.txt")).unwrap();
    let upload = |files: &[&str], configured: bool| {
        let input = element("file").with(|facts| {
            facts.visible = false;
            facts.input_type = Some("file".to_owned());
        });
        let mut page = FakePage::new(vec![input]);
        page.reactions.push(Box::new(|page| {
            page.elements[0].facts.files = vec!["a.txt".to_owned()];
            Ok(())
        }));
        let files: Vec<String> = files.iter().map(|file| format!("{}/{file}", declared.display())).collect();
        let post = json!([{"kind": "upload_listed", "target": {"testid": "file"}}]);
        let action = json!({"kind": "upload", "target": {"testid": "file"}, "files": files, "post": post});
        let mut case = case(page, action).policy(json!({"upload_folders": [declared.to_str().unwrap()]}));
        case.folders = if configured { vec![root.path().to_owned()] } else { Vec::new() };
        case.run()
    };
    let done = upload(&["a.txt"], true);
    done.success();
    assert!(done.acts()[0].starts_with("Upload"));
    for (files, signal) in [
        (&["b.txt"] as &[&str], "file_missing"),
        (&["folder"], "not_a_file"),
        (&["../outside.txt"], "outside_upload_folders"),
        (&["link.txt"], "outside_upload_folders"),
        (&["a.txt", "a.txt"], "several_files"),
    ] {
        let done = upload(files, true);
        done.error("UPLOAD_FAILED", ActionStage::Precondition);
        assert_eq!(done.details()["upload_signal"], signal);
        assert_eq!(done.acts(), [""; 0]);
    }
    upload(&["a.txt"], false).error("UPLOAD_FAILED", ActionStage::Precondition);
}

#[test]
fn an_upload_that_the_page_does_not_list_has_failed() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.txt"), "a").unwrap();
    let folder = root.path().to_str().unwrap();
    let input = element("file").with(|facts| facts.input_type = Some("file".to_owned()));
    let post = json!([{"kind": "upload_listed", "target": {"testid": "file"}}]);
    let files = json!([format!("{folder}/a.txt")]);
    let action = json!({"kind": "upload", "target": {"testid": "file"}, "files": files, "post": post});
    let mut case = case(FakePage::new(vec![input]), action).policy(json!({"upload_folders": [folder]}));
    case.folders = vec![root.path().to_owned()];
    let done = case.run();
    let error = done.error("UPLOAD_FAILED", ActionStage::Postcondition);
    assert_eq!(error.failed_conditions[0].kind, "upload_listed");
    assert_eq!(done.details()["upload_signal"], "not_listed");
}

#[test]
fn an_overlay_is_seen_by_its_own_condition() {
    let covered = || {
        element("send").with(|facts| {
            facts.covered_by = Some(Description { path: "div".to_owned(), ..Description::default() });
        })
    };
    let assert = |condition: Value| json!({"kind": "assert", "conditions": [condition]});
    let of_target = assert(json!({"kind": "no_overlay", "target": {"testid": "send"}}));
    case(FakePage::new(vec![covered()]), of_target.clone())
        .run()
        .error("POSTCONDITION_FAILED", ActionStage::Postcondition);
    case(FakePage::new(vec![element("send")]), of_target).run().success();
    let overlays = json!({"overlays": [{"testid": "banner"}]});
    let of_page = assert(json!({"kind": "no_overlay"}));
    let hidden = element("banner").with(|facts| facts.visible = false);
    case(FakePage::new(vec![hidden]), of_page.clone()).policy(overlays.clone()).run().success();
    case(FakePage::new(vec![element("banner")]), of_page)
        .policy(overlays)
        .run()
        .error("POSTCONDITION_FAILED", ActionStage::Postcondition);
}

#[test]
fn what_a_model_is_shown_is_redacted_and_says_so() {
    let shown = |title: &str, outline: &str| {
        let mut page = FakePage::new(Vec::new());
        title.clone_into(&mut page.title);
        outline.clone_into(&mut page.text);
        let policy = Policy::new(&v1::ScriptPolicy::default()).unwrap();
        let mut performer = Performer::new(policy, Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(performer.observe(&mut page, 1000)).unwrap()
    };
    let masked = shown("Form", "link \"x\" https://u:p@example.com/");
    assert_eq!(masked.outline, "link \"x\" https://«secret»@example.com/");
    assert!(masked.redacted);
    assert!(shown("Card 4111 1111 1111 1111", "text \"Thanks\"").redacted);
    // What the page has masked itself, by its element.
    assert!(shown("Form", "text \"Code [redacted]\"").redacted);
    assert!(shown("Form", "textbox \"Password\" [filled] [ref=d1e1]").redacted);
    assert!(!shown("Form", "textbox \"Password\" [ref=d1e1]").redacted);
}
