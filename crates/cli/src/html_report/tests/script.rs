//! The reports of scripts.

use super::super::*;
use super::{addresses, shows, story_of};
use capataz_display::script::tests::{error, events, pictures, script, story};

/// The first bytes of a PNG of 1280 × 720, enough to read its size.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x02\xd0";

fn report_of(events: &[v1::Event]) -> Report {
    let story = story_of(events);
    let evidence = wanted(&story)
        .into_iter()
        .map(|(piece, refused)| {
            let content = match piece.kind.as_str() {
                SNAPSHOT => Content::Here(r#"{"url": "https://shop.example/", "inputs": []}"#.into()),
                _ => Content::Here(Bytes::from_static(PICTURE)),
            };
            (piece.id, refused.unwrap_or(content))
        })
        .collect();
    Report { story, run: None, version: "1.2.3".to_owned(), evidence, now_ms: 10_000 }
}

#[test]
fn a_report_tells_what_every_action_did() {
    let page = html(&report_of(&story()));
    shows(
        &page,
        &[
            "<title>shop: failed</title>",
            "<h1>shop <span class=\"badge bad\">failed</span>",
            "POSTCONDITION_FAILED",
            "href=\"#action-4\"",
            "<use ",
            "env=test",
            "Chrome/148.0.1.2",
            "shop.example",
            "Timeline",
            "href=\"#action-2\">2 buy",
            "click role=button name=&quot;Buy&quot;",
            "Outputs",
            "12 €",
            "id=\"action-2\"",
            "the only button that buys",
            "Try 1",
            "OVERLAY_BLOCKING",
            "Recovery 1",
            "Try 2",
            "TARGET_NOT_FOUND",
            "500ms later",
            "Try 3",
            "by role, 1 found",
            "tried first: testid",
            "precondition <span class=\"faint\">passed, 900µs</span>",
            "changed",
            "confirm accepted: Sure?",
            "bill.pdf completed 2.0 KiB",
            "ads.example",
            "class=\"target\" x=\"97.0\" y=\"47.0\" width=\"86.0\" height=\"26.0\"",
            "id=\"action-4\"",
            "critical",
            "text_equals testid=status &quot;Paid&quot;",
            "Failed conditions",
            "&quot;observed&quot;: &quot;Declined&quot;",
            "screenshot_before",
            "Snapshot of the page",
            "https://shop.example/",
            "Report of events 1 to",
            "1.2.3",
        ],
    );
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let page = html(&report_of(&story()));
    let addresses = addresses(&page);
    assert!(
        addresses.iter().any(|address| address.starts_with("data:image/png;base64,iVBOR")),
        "{addresses:?}"
    );
    for address in addresses {
        assert!(address.starts_with('#') || address.starts_with("data:image/png;base64,"), "{address}");
    }
    assert!(page.contains("default-src &#39;none&#39;; script-src &#39;sha256-"), "{page}");
    assert!(!page.contains("<script ") && !page.contains("<link") && !page.contains("@import"), "{page}");
}

#[test]
fn a_picture_that_is_shown_twice_is_in_the_file_once() {
    let page = html(&report_of(&story()));
    let definitions = page.matches("<image ").count();
    assert_eq!(definitions, 2, "one before, one after");
    assert!(page.matches("<use ").count() > 4, "and they are used for every try");
}

#[test]
fn what_an_action_left_is_shown_by_the_next_picture() {
    let mut story = story();
    for event in &mut story {
        if let Some(v1::event::Body::ActionFinished(finished)) = &mut event.body {
            finished.evidence.retain(|piece| piece.kind == "screenshot_before");
        }
    }
    let page = html(&report_of(&story));
    let section = page.split("id=\"action-2\"").nth(1).and_then(|rest| rest.split("<section").next());
    let bought = section.and_then(|section| section.rsplit("<h3>").next()).unwrap_or_default();
    shows(bought, &["Before. The target is outlined.", "After, as the next picture has it"]);
}

#[test]
fn hostile_texts_stay_texts() {
    const HOSTILE: &str = "</title></style><script>alert(1)</script><img src=x onerror=\"alert('2')\">";
    let mut hostile = script();
    hostile.name = HOSTILE.to_owned();
    for action in &mut hostile.actions {
        action.id = HOSTILE.to_owned();
        action.rationale = Some(HOSTILE.to_owned());
        action.url = Some(HOSTILE.to_owned());
        action.target = Some(v1::Target { css: Some(HOSTILE.to_owned()), ..v1::Target::default() });
    }
    let mut failed = error("TARGET_NOT_FOUND", v1::ActionStage::Precondition, 1, HOSTILE);
    failed.error_code = HOSTILE.to_owned();
    failed.details = Some(HOSTILE.to_owned());
    failed.cause = Some(HOSTILE.to_owned());
    for piece in &mut failed.evidence_refs {
        piece.media_type = if piece.kind == SNAPSHOT { HOSTILE.to_owned() } else { "image/png".to_owned() };
    }
    let accepted = v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Script(hostile)),
        labels: [(HOSTILE.to_owned(), HOSTILE.to_owned())].into(),
        ..v1::RunAccepted::default()
    };
    let mut report = report_of(&events([
        v1::event::Body::RunAccepted(Box::new(accepted)),
        v1::event::Body::ActionFailed(Box::new(v1::ActionFailed {
            error: Some(failed),
            next: v1::AfterFailure::Halt as i32,
            activity: v1::BrowserActivity::Action as i32,
            ..v1::ActionFailed::default()
        })),
    ]));
    let script = report.story.model.script.as_mut().expect("a script");
    script.browser = HOSTILE.to_owned();
    let of = |value: String| v1::ActionOutput { value, ..v1::ActionOutput::default() };
    script.outputs.insert(HOSTILE.to_owned(), of(HOSTILE.to_owned()));
    script.outputs.insert("table".to_owned(), of(serde_json::json!([[HOSTILE]]).to_string()));
    for content in report.evidence.values_mut() {
        *content = Content::Here(HOSTILE.into());
    }
    report.evidence.insert("d0".repeat(32), Content::Missing(HOSTILE.to_owned()));
    report.story.finished = None;
    report.story.questions = vec![story::Asked {
        question: v1::Question { text: HOSTILE.to_owned(), ..v1::Question::default() },
        asked_at_ms: 1_000,
        place: None,
        answered: None,
    }];
    let page = html(&report);
    assert_eq!(page.matches("<script").count(), 1, "only the page's own");
    assert!(!page.contains("<img"), "{page}");
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(!page.contains("</title></style>") && !page.contains("onerror=\""), "{page}");
    assert!(page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn a_mask_in_an_output_is_explained() {
    let mut report = report_of(&story());
    let explained = "«secret» and [redacted] stand for secrets";
    assert!(!html(&report).contains(explained));
    let script = report.story.model.script.as_mut().expect("a script");
    for output in script.outputs.values_mut() {
        output.redacted = true;
    }
    assert!(html(&report).contains(explained));
}

#[test]
fn what_is_not_kept_any_more_is_said() {
    let mut report = report_of(&story());
    for content in report.evidence.values_mut() {
        *content = Content::Missing("there is no such blob".to_owned());
    }
    let page = html(&report);
    shows(
        &page,
        &["Before is no longer stored (there is no such blob).", "dom_snapshot_partial is no longer stored"],
    );
    assert!(!page.contains("<use "), "{page}");
}

#[test]
fn pictures_beyond_the_limit_are_left_out_and_that_is_said() {
    let evidence =
        |number: u32| v1::EvidenceRef { id: format!("{number:064x}"), bytes: 1_000, ..pictures().remove(0) };
    let finished = |number: u32| {
        v1::event::Body::ActionFinished(Box::new(v1::ActionFinished {
            activity: v1::BrowserActivity::Action as i32,
            evidence: vec![evidence(number)],
            ..v1::ActionFinished::default()
        }))
    };
    let started = v1::event::Body::BrowserActivityStarted(Box::new(v1::BrowserActivityStarted {
        activity: v1::BrowserActivity::Action as i32,
        step_index: Some(0),
        ..v1::BrowserActivityStarted::default()
    }));
    let accepted = v1::event::Body::RunAccepted(Box::new(v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Script(script())),
        ..v1::RunAccepted::default()
    }));
    let many = (0..250).flat_map(|number| [started.clone(), finished(number)]);
    let report = report_of(&events([accepted].into_iter().chain(many)));
    let refused = report.evidence.values().filter(|content| **content == Content::TooMany).count();
    assert_eq!(refused, 50);
    let page = html(&report);
    assert_eq!(page.matches("<image ").count(), MOST_PICTURES);
    assert_eq!(page.matches("Left out: this page has 200 pictures already.").count(), 50);
}

#[test]
fn a_large_picture_is_left_out() {
    let mut events = story();
    for event in &mut events {
        if let Some(v1::event::Body::ActionFinished(finished)) = &mut event.body {
            for piece in &mut finished.evidence {
                piece.bytes = MOST_PICTURE_BYTES + 1;
                piece.id = piece.id.replace('a', "b");
            }
        }
    }
    let page = html(&report_of(&events));
    assert!(page.contains("Left out: 64.0 MiB is too large for this page."), "{page}");
}

#[test]
fn a_run_that_goes_on_is_reported_as_it_stands() {
    let page = html(&report_of(&story()[..11]));
    shows(&page, &["shop: still going on", "badge plain\">still going on", "running", "not reached"]);
    let page = html(&report_of(&story()[..1]));
    shows(&page, &["No action has begun."]);
}

#[test]
fn what_is_typed_is_in_no_report() {
    let mut secret = script();
    secret.actions.truncate(1);
    for action in &mut secret.actions {
        action.kind = v1::ActionKind::Fill as i32;
        action.value = Some("hunter2".to_owned());
    }
    let accepted = v1::event::Body::RunAccepted(Box::new(v1::RunAccepted {
        work: Some(v1::run_accepted::Work::Script(secret.clone())),
        ..v1::RunAccepted::default()
    }));
    let started = v1::event::Body::BrowserActivityStarted(Box::new(v1::BrowserActivityStarted {
        activity: v1::BrowserActivity::Action as i32,
        step_index: Some(0),
        action: secret.actions.first().cloned(),
        ..v1::BrowserActivityStarted::default()
    }));
    let page = html(&report_of(&events([accepted, started])));
    assert!(!page.contains("hunter2") && page.contains("7 characters"), "{page}");
}

#[test]
fn pauses_of_a_script_are_in_its_timeline() {
    let mut events = story();
    let last = events.pop().unwrap_or_default();
    let at = |seq, at_ms, body| v1::Event { seq, at_ms, body: Some(body), ..last.clone() };
    events.push(at(last.seq, last.at_ms, v1::event::Body::RunPaused(v1::RunPaused::default())));
    let resumed = v1::event::Body::RunResumed(v1::RunResumed::default());
    events.push(at(last.seq + 1, last.at_ms + 2_000, resumed));
    events.push(v1::Event { seq: last.seq + 2, at_ms: last.at_ms + 2_000, ..last.clone() });
    let page = html(&report_of(&events));
    shows(&page, &["id=\"timeline\"", "<b>The run</b>", "paused for 2s", "Opening the browser"]);
}
