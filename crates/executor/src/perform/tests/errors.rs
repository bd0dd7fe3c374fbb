//! Every code, each with everything that the table asks for.

use serde_json::json;

use super::page::{Fake, FakePage, element};
use super::*;
use crate::page::{Description, KeyTaker, Locator, Node, PageError, SelectOption, Struck, SubmittingKeys};

const PRE: ActionStage = ActionStage::Precondition;
const EXECUTION: ActionStage = ActionStage::Execution;
const POST: ActionStage = ActionStage::Postcondition;

fn page() -> FakePage {
    FakePage::new(vec![element("send")])
}

fn reacts(error: PageError) -> FakePage {
    let mut page = page();
    page.reactions.push(Box::new(|_| Err(error)));
    page
}

/// Every act fails with this.
fn stops(error: PageError) -> FakePage {
    let mut page = page();
    page.stops = Some(error);
    page
}

fn blocked_request(kind: &str) -> v1::BlockedRequest {
    v1::BlockedRequest {
        url: "https://evil.example/?token=abc".to_owned(),
        host: "evil.example".to_owned(),
        kind: kind.to_owned(),
    }
}

// S002-DE-01, S002-EV-01, S002-EV-04, S002-RU-01
#[test]
fn a_target_that_does_not_come_is_not_found() {
    let done = case(page(), click("nothing")).run();
    done.error("TARGET_NOT_FOUND", PRE);
    assert_eq!(done.details()["count_observed"], 0);
    assert_eq!(
        done.details()["target_resolution_order"],
        json!(["testid", "role", "label", "css", "xpath", "text"])
    );
    assert_eq!(done.details()["target"], json!({"testid": "nothing"}));
    assert_eq!(done.acts(), [""; 0]);
    assert_eq!(done.evidence_kinds(), ["dom_snapshot_partial", "state_signature"]);
}

#[test]
fn a_target_that_is_not_there_is_told_what_is_nearly_it() {
    let mut page = page();
    page.text = "button \"Send it\" [ref=d1e1]\nlink \"Home\" [ref=d1e2]\n".to_owned();
    let missing = |target: serde_json::Value| with(click("x"), "target", target);
    let done = case(page, missing(json!({"text": "SEND IT"}))).run();
    done.error("TARGET_NOT_FOUND", PRE);
    assert_eq!(done.details()["near"], json!(["button \"Send it\""]));
    assert_eq!(done.acts(), [""; 0]);
}

#[test]
fn a_place_beyond_what_matches_is_not_found() {
    let action = with(click("send"), "rationale", json!("the second"));
    let action = with(action, "target", json!({"testid": "send", "nth": 1}));
    let done = case(page(), action).run();
    done.error("TARGET_NOT_FOUND", PRE);
    assert_eq!(done.details()["count_before_nth"], 1);
}

// S002-DE-02, S002-DE-03, S002-RU-02
#[test]
fn two_elements_fail_at_once_with_a_sample_of_both() {
    let page = FakePage::new(vec![element("send"), element("send")]);
    let time = page.time.clone();
    let done = case(page, click("send")).run();
    done.error("TARGET_NOT_UNIQUE", PRE);
    assert_eq!(done.details()["count_observed"], 2);
    assert_eq!(done.details()["matches_sample"].as_array().unwrap().len(), 2);
    assert_eq!(time.monotonic(), Duration::ZERO, "nothing is waited for");
}

// S002-DE-04, S002-DE-05, S002-PR-04
#[test]
fn an_invalid_action_sends_nothing_and_is_still_evidenced() {
    let action = with(click("send"), "target", json!({"text": "Send", "match": "contains"}));
    let done = case(page(), action).run();
    let error = done.error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
    assert_eq!(error.failed_conditions, []);
    assert_eq!(done.details()["violated_rules"], json!(["U2"]));
    assert_eq!(done.details()["validation_errors"][0]["path"], "target.match");
    assert_eq!(done.acts(), [""; 0]);
    assert_eq!(done.outcome.stages.len(), 2);
    assert!(!done.outcome.touched);
}

#[test]
fn a_selector_that_the_browser_cannot_read_is_found_before_anything_is_sent() {
    let post = json!([{"kind": "visible", "target": {"testid": "send", "css": "!!"}}]);
    let done = case(page(), with(click("send"), "post", post)).run();
    done.error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
    assert_eq!(done.details()["violated_rules"], json!(["css"]));
    assert_eq!(done.details()["validation_errors"][0]["path"], "post[0].target.css");
    assert_eq!(done.acts(), [""; 0]);
}

// S002-DE-04
#[test]
fn all_selectors_that_the_browser_cannot_read_are_told_at_once() {
    let action = json!({
        "kind": "click",
        "target": {"css": "!!"},
        "pre": [{"kind": "visible", "target": {"css": "p"}}],
        "post": [{"kind": "not", "condition": {"kind": "visible", "target": {"css": "p !!"}}}],
    });
    let done = case(page(), action).run();
    done.error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
    let errors = done.details()["validation_errors"].clone();
    let paths: Vec<&str> =
        errors.as_array().unwrap().iter().map(|error| error["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["target.css", "post[0].condition.target.css"]);
    assert_eq!(done.acts(), [""; 0]);
}

#[test]
fn an_output_that_has_got_no_value_makes_the_action_invalid() {
    for action in [
        click("${output:row}"),
        json!({"kind": "fill", "target": {"testid": "send"}, "value": "${output:row}"}),
    ] {
        let done = case(page(), action).run();
        done.error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
        assert_eq!(done.details()["violated_rules"], json!(["output"]));
    }
}

#[test]
fn an_unknown_secret_is_an_invalid_action() {
    let action = json!({"kind": "fill", "target": {"testid": "send"}, "value": "${secret:NOBODY}"});
    case(page(), action).run().error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
}

// S002-CO-02, S002-DE-06
#[test]
fn a_condition_before_that_does_not_come_is_named_with_what_was_observed() {
    let pre = json!([
        {"kind": "title_equals", "value": "Form"},
        {"kind": "title_equals", "value": "Other"},
    ]);
    let done = case(page(), with(click("send"), "pre", pre)).run();
    let error = done.error("PRECONDITION_FAILED", PRE);
    assert_eq!(error.failed_conditions.len(), 1);
    let args: Value = serde_json::from_str(error.failed_conditions[0].args.as_deref().unwrap()).unwrap();
    assert_eq!(args, json!({"value": "Other", "observed": "Form"}));
    assert_eq!(done.details()["reason"], "declared_condition");
    assert_eq!(done.acts(), [""; 0]);
}

#[test]
fn an_element_that_cannot_be_acted_on_fails_the_precondition() {
    let field = |change: fn(&mut crate::page::Facts)| element("send").with(change);
    let fill = json!({"kind": "fill", "target": {"testid": "send"}, "value": "x"});
    let select = json!({"kind": "select", "target": {"testid": "send"}, "options": ["Two"]});
    let secret = json!({"kind": "fill", "target": {"testid": "send"}, "value": "${secret:PASSWORD}"});
    let upload =
        json!({"kind": "upload", "target": {"testid": "send"}, "files": ["/f"], "criticality": "normal"});
    let cases: [(Fake, Value, [&str; 2]); 8] = [
        (field(|facts| facts.visible = false), click("send"), ["visible", "not_visible"]),
        (field(|facts| facts.enabled = false), click("send"), ["enabled", "not_enabled"]),
        (field(|_| {}), fill, ["editable", "not_editable"]),
        (field(|facts| facts.editable = true), secret, ["secret_input", "not_a_secret_input"]),
        (
            field(|_| {}),
            json!({"kind": "check", "target": {"testid": "send"}}),
            ["checkable", "not_checkable"],
        ),
        (field(|_| {}), select.clone(), ["option", "no_such_option"]),
        (
            field(|facts| {
                let two = SelectOption { label: "Two".to_owned(), disabled: true, ..SelectOption::default() };
                facts.options = vec![two];
            }),
            select,
            ["option", "no_such_option"],
        ),
        (field(|_| {}), upload, ["file_input", "not_a_file_input"]),
    ];
    for (fake, action, [expected, reason]) in cases {
        let done = case(FakePage::new(vec![fake]), action).run();
        let error = done.error("PRECONDITION_FAILED", PRE);
        assert_eq!(error.failed_conditions[0].kind, expected);
        assert_eq!(done.details()["reason"], reason);
        assert_eq!(done.acts(), [""; 0]);
    }
}

// S002-DE-07, S002-DE-09, S002-EV-08, S002-FI-15
#[test]
fn a_condition_after_that_does_not_come_has_the_state_after() {
    let done = case(page(), with(click("send"), "post", done())).run();
    let error = done.error("POSTCONDITION_FAILED", POST);
    assert_eq!(error.failed_conditions[0].phase, "post");
    assert!(done.outcome.touched);
    assert_eq!(
        done.evidence_kinds(),
        ["dom_snapshot_partial", "state_signature", "html_full", "screenshot_before", "screenshot_after"]
    );
}

// S002-DE-08, S002-FI-19
#[test]
fn an_assertion_fails_at_once_and_a_wait_after_its_time() {
    let conditions = json!([{"kind": "title_equals", "value": "Other"}]);
    for (kind, waited) in [("assert", 0), ("wait_for", 10)] {
        let page = page();
        let time = page.time.clone();
        let done = case(page, json!({"kind": kind, "conditions": conditions})).run();
        let error = done.error("POSTCONDITION_FAILED", POST);
        assert_eq!(error.failed_conditions[0].phase, "assert");
        assert_eq!(time.monotonic(), Duration::from_secs(waited), "{kind}");
        assert!(!done.outcome.touched);
    }
}

#[test]
fn a_dialog_that_must_not_come_fails_the_action() {
    let mut page = page();
    page.reactions.push(Box::new(|page| {
        let dialog = v1::DialogRecord { kind: "alert".to_owned(), message: "No".to_owned(), accepted: false };
        page.changes.dialogs.push(dialog);
        Ok(())
    }));
    let done = case(page, with(click("send"), "dialogs", json!("fail"))).run();
    let error = done.error("POSTCONDITION_FAILED", EXECUTION);
    assert_eq!(error.failed_conditions[0].kind, "no_dialog");
}

// S002-DE-11, S002-DE-12
#[test]
fn a_navigation_beyond_the_allowlist_is_not_begun() {
    for (url, host) in [
        ("https://evil.example/", "evil.example"),
        ("data:text/html,x", "data:"),
        ("javascript:alert(1)", "javascript:"),
        ("file:///etc/passwd", "file:"),
    ] {
        let done = case(page(), json!({"kind": "navigate", "url": url})).run();
        done.error("DOMAIN_BLOCKED", ActionStage::Policy);
        assert_eq!(done.details()["host"], host);
        assert_eq!(done.details()["allowlist"], json!(["example.com"]));
        assert_eq!(done.acts(), [""; 0]);
    }
}

#[test]
fn a_request_that_was_refused_fails_the_action_that_caused_it_or_the_one_after() {
    let mut caused = page();
    caused.reactions.push(Box::new(|page| {
        page.changes.blocked.push(blocked_request("image"));
        Ok(())
    }));
    let done = case(caused, click("send")).run();
    done.error("DOMAIN_BLOCKED", EXECUTION);
    assert_eq!(done.details()["url"], "https://evil.example/?token=«secret»");

    let mut late = page();
    late.changes.blocked.push(blocked_request("fetch"));
    let done = case(late, click("send")).run();
    done.error("DOMAIN_BLOCKED", ActionStage::Policy);
    assert_eq!(done.acts(), [""; 0]);

    let refused = reacts(PageError::Blocked(Box::new(blocked_request("document"))));
    case(refused, click("send")).run().error("DOMAIN_BLOCKED", EXECUTION);
}

#[test]
fn a_request_that_is_refused_while_something_is_waited_for_fails_at_once() {
    let mut page = page();
    page.later.push((
        2000,
        Box::new(|page| {
            page.changes.blocked.push(blocked_request("websocket"));
            Ok(())
        }),
    ));
    let time = page.time.clone();
    case(page, with(click("send"), "post", done())).run().error("DOMAIN_BLOCKED", POST);
    assert_eq!(time.monotonic(), Duration::from_secs(2));
}

#[test]
fn requests_that_are_only_recorded_fail_where_they_are_the_page_itself() {
    for (kind, fails) in [("image", false), ("connection", false), ("document", true)] {
        let mut page = page();
        page.reactions.push(Box::new(move |page| {
            page.changes.blocked.push(blocked_request(kind));
            Ok(())
        }));
        let done = case(page, click("send")).policy(json!({"blocked_requests": "record"})).run();
        assert_eq!(done.outcome.error.is_some(), fails, "{kind}");
        let recorded = &done.outcome.changes.unwrap().blocked[0];
        assert_eq!(recorded.url, "https://evil.example/?token=«secret»");
    }
}

#[test]
fn a_connection_that_nobody_knows_the_cause_of_is_recorded_and_fails_nothing() {
    let mut page = page();
    page.changes.blocked.push(blocked_request("connection"));
    let done = case(page, click("send")).run();
    assert_eq!(done.success().changes.as_ref().unwrap().blocked.len(), 1);
}

// S002-DE-14, S002-DE-15, S002-EV-07
#[test]
fn a_critical_action_that_leads_away_is_blocked() {
    let link = element("send").with(|facts| facts.destination = Some("https://evil.example/pay".to_owned()));
    let action = with(with(click("send"), "criticality", json!("critical")), "post", done());
    let done = case(FakePage::new(vec![link]), action).run();
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    assert_eq!(done.details()["critical_reason"], "unsafe_domain_escape");
    assert_eq!(done.details()["host"], "evil.example");
    assert_eq!(done.acts(), [""; 0]);
    assert_eq!(
        done.evidence_kinds(),
        ["dom_snapshot_partial", "state_signature", "html_full", "screenshot_before", "screenshot_after"]
    );
    assert_eq!(done.outcome.state_after, None, "nothing was sent");
}

// S002-DE-13
#[test]
fn an_action_that_the_policy_makes_critical_needs_a_strong_postcondition() {
    for rule in [
        json!({"name_matches": "^send$"}),
        json!({"kind": "click"}),
        json!({"host": "*.example.com", "name_matches": "send"}),
    ] {
        let rule = json!({"critical": [rule]});
        let mut page = page();
        page.url = "https://shop.example.com/form".to_owned();
        let done = case(page, click("send")).policy(rule).run();
        let error = done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
        assert_eq!(error.criticality(), Criticality::Critical);
        assert_eq!(done.details()["critical_reason"], "missing_strong_postcondition");
    }
    // So it is by the name of what a click on it is for.
    let within = element("word").with(|facts| facts.used_names = vec!["send".to_owned()]);
    let done = case(FakePage::new(vec![within]), click("word"))
        .policy(json!({"critical": [{"name_matches": "^send$"}]}))
        .run();
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    // A rule of another kind, name or host says nothing.
    for rule in [json!({"kind": "fill"}), json!({"name_matches": "pay"}), json!({"host": "other.example"})] {
        case(page(), click("send")).policy(json!({"critical": [rule]})).run().success();
    }
    // A target that comes later is judged when it is there.
    let mut late = FakePage::new(Vec::new());
    late.later.push((
        100,
        Box::new(|page| {
            page.elements.push(element("send"));
            Ok(())
        }),
    ));
    let done = case(late, click("send")).policy(json!({"critical": [{"name_matches": "send"}]})).run();
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    assert_eq!(done.acts(), [""; 0]);
    let failed: Vec<ActionStage> =
        done.outcome.stages.iter().filter(|record| !record.passed).map(v1::StageRecord::stage).collect();
    assert_eq!(failed, [PRE], "the record says what has found it");
}

#[test]
fn a_proof_that_holds_before_the_input_blocks_a_critical_action_and_nothing_is_sent() {
    let holds = json!({"kind": "title_equals", "value": "Form"});
    let comes = json!({"kind": "url_equals", "value": "https://example.com/done"});
    let weak = json!({"kind": "visible", "target": {"testid": "send"}});
    let critical = |post: Value| with(with(click("send"), "criticality", json!("critical")), "post", post);
    let blocked = |action: Value| {
        let done = case(page(), action).run();
        let error = done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
        assert_eq!(error.criticality(), Criticality::Critical);
        assert_eq!(done.details()["critical_reason"], "postcondition_already_true");
        assert_eq!(done.acts(), [""; 0]);
        assert!(!done.outcome.touched);
        done.details()["postconditions"].clone()
    };
    assert_eq!(blocked(critical(json!([holds, weak]))), json!(["title_equals"]));
    // What the policy makes critical is so as well.
    let raised = case(page(), with(click("send"), "post", json!([holds])));
    let done = raised.policy(json!({"critical": [{"name_matches": "send"}]})).run();
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    assert_eq!(done.details()["critical_reason"], "postcondition_already_true");

    // Nor does one prove anything that comes with a click that was stopped: it is not tried again.
    let mut slides = page();
    slides.reactions.push(Box::new(|page| {
        page.url = "https://example.com/done".to_owned();
        Err(PageError::Moved { by: None })
    }));
    let done = case(slides, critical(json!([comes]))).run();
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    assert_eq!(done.details()["critical_reason"], "postcondition_already_true");
    assert_eq!((done.acts().len(), done.outcome.touched), (1, false));

    // One proof that does not hold yet is enough, and a normal action needs none.
    let mut leads = page();
    leads.reactions.push(Box::new(|page| {
        page.url = "https://example.com/done".to_owned();
        Ok(())
    }));
    case(leads, critical(json!([holds, comes]))).run().success();
    case(page(), with(click("send"), "post", json!([holds]))).run().success();
}

// S002-RU-09
#[test]
fn a_proof_that_cannot_be_read_before_the_input_stops_a_critical_action() {
    let unread = || ("location", PageError::Failed("the page does not answer".to_owned()));
    let comes = json!([{"kind": "url_equals", "value": "https://example.com/done"}]);
    let critical = with(with(click("send"), "criticality", json!("critical")), "post", comes);
    let mut silent = page();
    silent.broken.push(unread());
    let (time, action) = (silent.time.clone(), with(critical.clone(), "timeout_ms", json!(5000)));
    let done = case(silent, action).run();
    let error = done.error("PRECONDITION_FAILED", PRE);
    assert_eq!(error.failed_conditions[0].kind, "page_readable");
    assert_eq!((done.acts(), done.outcome.touched), (vec![], false));
    assert_eq!(time.monotonic(), Duration::from_secs(5));

    // It is waited for: what it says when it is read counts.
    let answers = |url: &'static str| {
        let mut page = page();
        page.broken.push(unread());
        page.later.push((
            1000,
            Box::new(move |page| {
                page.broken.clear();
                page.url = url.to_owned();
                Ok(())
            }),
        ));
        page.reactions.push(Box::new(|page| {
            page.url = "https://example.com/done".to_owned();
            Ok(())
        }));
        case(page, critical.clone()).run()
    };
    answers("https://example.com/form").success();
    let done = answers("https://example.com/done");
    done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
    assert_eq!(done.details()["critical_reason"], "postcondition_already_true");
    assert_eq!(done.acts(), [""; 0]);
}

// S002-DE-16, S002-DE-17, S002-FI-16
#[test]
fn a_page_that_is_late_is_a_navigation_timeout_and_one_that_never_comes_a_failed_navigation() {
    let action = json!({"kind": "navigate", "url": "https://example.com/slow"});
    let slow = PageError::TooSlow { waiting_for: "load", limit: Duration::from_secs(30) };
    let done = case(reacts(slow), action.clone()).run();
    done.error("NAVIGATION_TIMEOUT", EXECUTION);
    assert_eq!(done.details()["timeout_ms"], 30_000);
    assert_eq!(done.details()["wait_condition"], "load");

    let refused = PageError::NotLoaded { reason: "net::ERR_CONNECTION_REFUSED".to_owned(), url: None };
    let page = reacts(refused);
    let time = page.time.clone();
    let done = case(page, action.clone()).run();
    let error = done.error("NAVIGATION_FAILED", EXECUTION);
    assert!(error.cause.as_ref().unwrap().contains("ERR_CONNECTION_REFUSED"));
    assert_eq!(done.details()["net_error"], "net::ERR_CONNECTION_REFUSED");
    assert_eq!(done.details()["url"], "https://example.com/slow");
    assert_eq!(time.monotonic(), Duration::ZERO, "its time was not over");

    let blocked = PageError::NotLoaded { reason: "net::ERR_BLOCKED_BY_CLIENT".to_owned(), url: None };
    case(reacts(blocked), action).run().error("DOMAIN_BLOCKED", EXECUTION);
}

#[test]
fn what_is_late_and_no_document_is_no_navigation_timeout() {
    let late = || PageError::Unanswered { waiting_for: "a sign", limit: Duration::from_secs(10) };
    for action in [
        click("send"),
        json!({"kind": "drag", "target": {"testid": "send"}, "by": {"x": 5, "y": 5}}),
        json!({"kind": "press", "key": "Tab"}),
    ] {
        let done = case(reacts(late()), action.clone()).run();
        let error = done.error("POSTCONDITION_FAILED", EXECUTION);
        assert_eq!(error.failed_conditions[0].kind, "performed", "{action}");
        assert!(done.outcome.touched, "{action}");
    }
}

#[test]
fn a_key_that_could_not_be_guarded_was_not_sent_and_one_that_nobody_saw_may_have_done_anything() {
    let press = || json!({"kind": "press", "key": "Enter"});
    let unguarded = PageError::Unguarded { reason: "no answer".to_owned() };
    let done = case(stops(unguarded), press()).run();
    let error = done.error("PRECONDITION_FAILED", EXECUTION);
    assert_eq!(error.failed_conditions[0].kind, "page_readable");
    assert_eq!((done.acts().len(), done.outcome.touched), (1, false));

    let done = case(stops(PageError::Unseen), press()).run();
    let error = done.error("POSTCONDITION_FAILED", EXECUTION);
    assert_eq!(error.failed_conditions[0].kind, "performed");
    assert_eq!((done.acts().len(), done.outcome.touched), (1, true));
}

#[test]
fn a_key_that_is_stopped_at_something_else_each_time_is_sent_three_times() {
    let mut page = page();
    for handle in 7..20 {
        let node = Node { frame: "main".to_owned(), handle };
        let taker = Box::new(KeyTaker { node, used: Struck::default() });
        page.reactions.push(Box::new(|_| Err(PageError::Unjudged { taker, pressed: false })));
    }
    let done = case(page, json!({"kind": "press", "key": "Enter"})).run();
    done.error("PRECONDITION_FAILED", EXECUTION);
    let acts = done.acts();
    assert_eq!((acts.len(), done.outcome.touched), (3, false));
    let judged = |act: &str| [7, 8].map(|handle| act.contains(&format!("handle: {handle}")));
    let expected = [[false, false], [true, false], [true, true]];
    for (act, expected) in acts.iter().zip(expected) {
        assert_eq!(judged(act), expected, "{act}");
    }
}

// S002-DE-21
#[test]
fn a_covered_target_is_an_overlay_and_gets_nothing() {
    let by = Description {
        path: "div.cookie".to_owned(),
        name: "We use cookies".to_owned(),
        ..Description::default()
    };
    let covered = PageError::Covered { by: Some(Box::new(by)) };
    let mut page = page();
    page.settles = Err(covered.clone());
    let done = case(page, click("send")).run();
    done.error("OVERLAY_BLOCKING", PRE);
    assert_eq!(done.details()["overlay_selector"], "div.cookie");
    assert_eq!(done.details()["overlay_text"], "We use cookies");
    assert_eq!(done.acts(), [""; 0]);
    assert_eq!(done.evidence_kinds(), ["dom_snapshot_partial", "state_signature", "screenshot_before"]);

    let done = case(stops(covered), click("send")).run();
    done.error("OVERLAY_BLOCKING", EXECUTION);
    assert!(!done.outcome.touched, "what lies over it was kept from getting the click");
}

#[test]
fn a_click_that_nothing_received_is_tried_again_until_its_time_is_over() {
    let stopped = || {
        let covered = PageError::Covered { by: None };
        [covered, PageError::Detached, PageError::Moved { by: None }]
    };
    for error in stopped() {
        let page = reacts(error.clone());
        let time = page.time.clone();
        let done = case(page, click("send")).run();
        assert_eq!(done.success().stages.len(), 6);
        assert_eq!(done.acts().len(), 2, "{error:?}");
        assert!(done.outcome.touched);
        assert_eq!(time.monotonic(), Duration::from_millis(250));
        // What was before it is what was before the click that arrived.
        assert!(done.outcome.state_before.is_some(), "{error:?}");
        assert_eq!(done.picture("screenshot_before"), "png false after 1 acts", "{error:?}");
        let done = case(reacts(error.clone()), with(click("send"), "post", super::done())).run();
        done.error("POSTCONDITION_FAILED", POST);
        assert_eq!(done.picture("screenshot_before"), "png false after 1 acts", "{error:?}");
        assert_eq!(done.picture("screenshot_after"), "png false after 2 acts", "{error:?}");
    }
    // It ends with the action's time, and a click that was received in part is never repeated.
    let done =
        case(stops(PageError::Moved { by: None }), with(click("send"), "timeout_ms", json!(1000))).run();
    let error = done.error("PRECONDITION_FAILED", EXECUTION);
    let args: Value = serde_json::from_str(error.failed_conditions[0].args.as_deref().unwrap()).unwrap();
    assert_eq!(args["observed"]["moved"], true, "what moved is not covered");
    assert_eq!(done.details()["reason"], "moved");
    assert_eq!(
        done.acts().len(),
        4,
        "at once, and every 250 ms until one second is over: none is sent without time"
    );
    let by = Some(Box::default());
    let done = case(reacts(PageError::Interrupted { by }), click("send")).run();
    done.error("OVERLAY_BLOCKING", EXECUTION);
    assert_eq!(done.acts().len(), 1);
    assert!(done.outcome.touched);
    // Only a click is: keys may have gone somewhere else.
    let field = element("send").with(|facts| facts.editable = true);
    let mut page = FakePage::new(vec![field]);
    page.stops = Some(PageError::Detached);
    let done = case(page, json!({"kind": "fill", "target": {"testid": "send"}, "value": "x"})).run();
    assert_eq!(done.acts().len(), 1);
}

/// Each of them is specific enough to be a proof, and is none on a page on which it holds before anything was done.
#[test]
fn a_proof_of_any_kind_that_holds_already_blocks_a_critical_action() {
    let page = || {
        let order = element("order").with(|facts| {
            facts.text = " Order  7 ".to_owned();
            facts.attributes.insert("data-state".to_owned(), "sent".to_owned());
        });
        let empty = element("empty");
        let mail = element("mail").with(|facts| facts.value = Some("ana@example.com".to_owned()));
        let mail = Fake {
            matches: vec![mail.matches[0].clone(), Locator::Label { value: "Mail".to_owned() }],
            ..mail
        };
        let agreed = element("agreed").with(|facts| facts.checked = Some(true));
        let off = element("off").with(|facts| facts.checked = Some(false));
        let file = element("file").with(|facts| facts.files = vec!["a.txt".to_owned()]);
        let main =
            Fake { matches: vec![Locator::Role { role: "main".to_owned(), name: None }], ..element("main") };
        FakePage::new(vec![element("send"), order, empty, mail, agreed, off, file, main])
    };
    let of_page = |kind: &str, value: &str| json!({"kind": kind, "value": value});
    let of = |testid: &str, kind: &str, value: &str| json!({"kind": kind, "target": {"testid": testid}, "value": value});
    let is = |testid: &str, kind: &str| json!({"kind": kind, "target": {"testid": testid}});
    let state = |kind: &str, value: &str| json!({"kind": kind, "target": {"testid": "order"}, "attribute": "data-state", "value": value});
    let count =
        |target: Value, count: u32| json!({"kind": "element_count_equals", "target": target, "count": count});
    let proofs = [
        of_page("url_equals", "https://example.com/form"),
        of_page("url_matches", "/form$"),
        of_page("url_matches", "^https://example"),
        of_page("host_equals", "example.com"),
        of_page("host_matches", "^example"),
        of_page("title_equals", "Form"),
        of_page("title_matches", "^Fo"),
        of("order", "text_equals", "Order 7"),
        of("empty", "text_equals", ""),
        of("order", "text_contains", "7"),
        of("order", "text_matches", "^Order [0-9]$"),
        of("mail", "value_equals", "ana@example.com"),
        of("mail", "value_contains", "@"),
        of("mail", "value_matches", "[.]com$"),
        json!({"kind": "value_contains", "target": {"label": "Mail"}, "value": "ana"}),
        state("attribute_equals", "sent"),
        state("attribute_contains", "en"),
        state("attribute_matches", "^sent$"),
        is("agreed", "checked"),
        is("off", "unchecked"),
        count(json!({"role": "main"}), 1),
        count(json!({"label": "Mail"}), 1),
        count(json!({"testid": "nothing"}), 0),
        of("file", "upload_listed", "a.txt"),
    ];
    assert!(proofs.len() >= 20);
    for proof in &proofs {
        let critical = with(with(click("send"), "criticality", json!("critical")), "post", json!([proof]));
        let done = case(page(), critical).run();
        done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
        let details = done.details();
        assert_eq!(details["critical_reason"], "postcondition_already_true", "{proof}");
        assert_eq!(details["postconditions"], json!([proof["kind"]]), "{proof}");
        assert_eq!((done.acts(), done.outcome.touched), (vec![], false), "{proof}");
    }
    // All of them together prove no more than one.
    let critical = with(with(click("send"), "criticality", json!("critical")), "post", json!(proofs));
    case(page(), critical).run().error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
}

#[test]
fn a_check_box_that_is_not_seen_is_used_through_its_label() {
    let hidden = element("box").with(|facts| {
        facts.visible = false;
        facts.checked = Some(false);
        facts.label = Some(1);
    });
    let page = |hidden: &Fake| {
        let label = element("label").with(|facts| facts.control = Some(0));
        let mut page = FakePage::new(vec![hidden.clone(), label]);
        page.reactions.push(Box::new(|page| {
            page.elements[0].facts.checked = Some(true);
            Ok(())
        }));
        page
    };
    // By the box itself, and by its label.
    for testid in ["box", "label"] {
        let action = json!({"kind": "check", "target": {"testid": testid}});
        let done = case(page(&hidden), action).run();
        done.success();
        assert!(done.acts()[0].contains("handle: 1"), "the label is clicked: {:?}", done.acts());
    }
    let without =
        Fake { facts: crate::page::Facts { label: None, ..hidden.facts.clone() }, ..hidden.clone() };
    let done = case(page(&without), json!({"kind": "check", "target": {"testid": "box"}})).run();
    let error = done.error("PRECONDITION_FAILED", PRE);
    assert_eq!(error.failed_conditions[0].kind, "visible");
}

/// Whoever names the label means its control.
#[test]
fn a_label_stands_for_its_control_where_something_is_unchecked_or_uploaded() {
    let label = || element("label").with(|facts| facts.control = Some(0));
    let checked = element("box").with(|facts| {
        facts.visible = false;
        facts.checked = Some(true);
        facts.label = Some(1);
    });
    let mut page = FakePage::new(vec![checked, label()]);
    page.reactions.push(Box::new(|page| {
        page.elements[0].facts.checked = Some(false);
        Ok(())
    }));
    let done = case(page, json!({"kind": "uncheck", "target": {"testid": "label"}})).run();
    done.success();
    assert!(done.acts()[0].contains("handle: 1"), "the label is clicked: {:?}", done.acts());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    std::fs::write(&file, "a").unwrap();
    let input = element("file").with(|facts| {
        facts.visible = false;
        facts.input_type = Some("file".to_owned());
    });
    let mut page = FakePage::new(vec![input, label()]);
    page.reactions.push(Box::new(|page| {
        page.elements[0].facts.files = vec!["a.txt".to_owned()];
        Ok(())
    }));
    let post = json!([{"kind": "upload_listed", "target": {"testid": "file"}}]);
    let action = json!({"kind": "upload", "target": {"testid": "label"}, "files": [file], "post": post});
    let mut case = case(page, action).policy(json!({"upload_folders": [folder.path()]}));
    case.folders = vec![folder.path().to_owned()];
    let done = case.run();
    done.success();
    let acts = done.acts();
    assert!(acts[0].starts_with("Upload") && acts[0].contains("handle: 0"), "the input gets it: {acts:?}");
}

/// All that a person or a model reads of an error, whatever has stopped the input.
#[test]
fn a_message_has_no_debug_text_of_the_program() {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
            _ => {}
        }
    }
    let by = || {
        let by =
            Description { name: "Accept".to_owned(), path: "#cookies".to_owned(), ..Description::default() };
        Some(Box::new(Description { tag: "div".to_owned(), role: "dialog".to_owned(), ..by }))
    };
    let named = [
        (PageError::Covered { by: by() }, "the element is covered by dialog \"Accept\" #cookies"),
        (PageError::Covered { by: None }, "the element is covered by something else"),
        (
            PageError::Moved { by: by() },
            "the element has moved away, and dialog \"Accept\" #cookies is where it was",
        ),
        (
            PageError::Interrupted { by: by() },
            "the element was pressed, and the rest was stopped at dialog \"Accept\" #cookies",
        ),
        (
            PageError::Interrupted { by: None },
            "the element was pressed, and the rest was stopped at something else",
        ),
        (PageError::Detached, "the element is no longer in the page"),
        (
            PageError::NotActionable { reason: "it has no box" },
            "the element cannot be acted on: it has no box",
        ),
        (PageError::Failed("the page says nonsense".to_owned()), "the page says nonsense"),
        (
            PageError::Unanswered {
                waiting_for: "an answer of the page",
                limit: Duration::from_millis(1500),
            },
            "an answer of the page did not come within 1500 ms",
        ),
        (
            PageError::TooSlow { waiting_for: "the document", limit: Duration::from_secs(30) },
            "the document did not come within 30000 ms",
        ),
    ];
    for (error, cause) in named {
        let done = case(stops(error), click("send")).run();
        let told = done.outcome.error.as_ref().unwrap();
        assert_eq!(told.cause.as_deref(), Some(cause));
        let mut all = vec![told.message.clone(), told.debug_message.clone().unwrap(), cause.to_owned()];
        texts(&done.details(), &mut all);
        for condition in &told.failed_conditions {
            texts(&serde_json::from_str(condition.args.as_deref().unwrap()).unwrap(), &mut all);
        }
        for text in all {
            for debug in ["Some(", "None", " { ", "::", "\\\""] {
                assert!(!text.contains(debug), "{debug} in {text}");
            }
        }
    }
}

#[test]
fn a_radio_button_that_is_set_is_not_clicked_to_be_unset() {
    let radio = |checked: bool| {
        let radio = element("one").with(|facts| {
            facts.input_type = Some("radio".to_owned());
            facts.checked = Some(checked);
        });
        let page = FakePage::new(vec![radio]);
        let time = page.time.clone();
        let done = case(page, json!({"kind": "uncheck", "target": {"testid": "one"}})).run();
        assert_eq!((done.acts(), time.monotonic()), (vec![], Duration::ZERO));
        done
    };
    let done = radio(true);
    let error = done.error("PRECONDITION_FAILED", PRE);
    assert_eq!(error.failed_conditions[0].kind, "uncheckable");
    radio(false).success();
}

// S002-RU-09
#[test]
fn a_key_for_what_has_the_focus_is_critical_where_it_submits_a_form_or_nobody_can_tell() {
    let keys = |enter: bool, space: bool| SubmittingKeys {
        submits_by_enter: enter,
        submits_by_space: space,
        hidden_in: None,
    };
    let unread = || vec![("focused_keys", PageError::Failed("no answer".to_owned()))];
    let press = |page: FakePage, key: &str| {
        case(page, json!({"kind": "press", "key": key, "criticality": "normal"}))
            .policy(json!({"lower_criticality": "forbid"}))
            .run()
    };
    let focus = |keys: SubmittingKeys| FakePage { focused_keys: keys, ..FakePage::new(Vec::new()) };
    let unknown = || FakePage { broken: unread(), ..FakePage::new(Vec::new()) };
    for (page, key) in [
        (focus(keys(true, false)), "Enter"),
        (focus(keys(false, true)), "Space"),
        (unknown(), "Enter"),
        (unknown(), "Space"),
    ] {
        let done = press(page, key);
        done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
        assert_eq!(done.details()["critical_reason"], "missing_strong_postcondition");
        assert_eq!(done.acts(), [""; 0]);
    }
    press(focus(keys(false, true)), "Enter").success();
    press(focus(keys(true, false)), "Space").success();
    press(unknown(), "Tab").success();
}

#[test]
fn what_submits_a_form_is_critical_unless_the_script_may_call_it_normal() {
    let button = || element("send").with(|facts| facts.submits = true);
    let blocked = |fake: Fake, action: Value, policy: Value| {
        let done = case(FakePage::new(vec![fake]), action).policy(policy).run();
        let error = done.error("ACTION_CRITICAL_BLOCKED", ActionStage::Policy);
        assert_eq!(error.criticality(), Criticality::Critical);
        assert_eq!(done.details()["critical_reason"], "missing_strong_postcondition");
        assert_eq!(done.acts(), [""; 0]);
    };
    let passes = |fake: Fake, action: Value, policy: Value| {
        case(FakePage::new(vec![fake]), action).policy(policy).run().success();
    };
    let press = |key: &str| json!({"kind": "press", "key": key, "target": {"testid": "send"}});
    // What is dragged only a little is clicked.
    let nudge = json!({"kind": "drag", "target": {"testid": "send"}, "by": {"x": 1, "y": 0}});
    blocked(button(), nudge.clone(), json!({}));
    let normal = with(nudge, "criticality", json!("normal"));
    passes(button(), normal.clone(), json!({"lower_criticality": "allow"}));
    blocked(button(), normal, json!({"lower_criticality": "forbid"}));
    let field = || element("send").with(|facts| facts.submitting_keys.submits_by_enter = true);
    let spaced = || element("send").with(|facts| facts.submitting_keys.submits_by_space = true);
    blocked(button(), click("send"), json!({}));
    blocked(button(), with(click("send"), "kind", json!("double_click")), json!({}));
    blocked(field(), press("Enter"), json!({}));
    blocked(spaced(), press("Space"), json!({}));
    passes(field(), press("Space"), json!({}));
    passes(spaced(), press("Enter"), json!({}));
    let weak = json!([{"kind": "visible", "target": {"testid": "send"}}]);
    blocked(button(), with(click("send"), "post", weak), json!({}));
    passes(element("send"), click("send"), json!({}));
    passes(field(), press("Tab"), json!({}));
    passes(field(), click("send"), json!({}));

    let normal = || with(click("send"), "criticality", json!("normal"));
    passes(button(), normal(), json!({"lower_criticality": "allow"}));
    blocked(button(), normal(), json!({"lower_criticality": "forbid"}));
    let submit = json!({"kind": "submit", "target": {"testid": "send"}, "criticality": "normal"});
    passes(button(), submit.clone(), json!({"lower_criticality": "allow"}));
    blocked(button(), submit, json!({"lower_criticality": "forbid"}));

    // A switch may be a button of the form.
    for (kind, state, is_on) in [("check", "checked", false), ("uncheck", "unchecked", true)] {
        let switch = || button().with(|facts| facts.checked = Some(is_on));
        let action = json!({"kind": kind, "target": {"testid": "send"}});
        blocked(switch(), action.clone(), json!({}));
        blocked(
            switch(),
            with(action.clone(), "criticality", json!("normal")),
            json!({"lower_criticality": "forbid"}),
        );
        let mut page = FakePage::new(vec![switch()]);
        page.reactions.push(Box::new(move |page| {
            page.elements[0].facts.checked = Some(!is_on);
            Ok(())
        }));
        let proof = json!([{"kind": state, "target": {"testid": "send"}}]);
        case(page, with(action, "post", proof)).run().success();
    }

    // A download from a target begins with a click on it.
    let download = json!({"kind": "download", "target": {"testid": "send"}});
    blocked(button(), download.clone(), json!({}));
    let normal = with(download, "criticality", json!("normal"));
    blocked(button(), normal, json!({"lower_criticality": "forbid"}));

    // With a proof it is performed, and is critical where it fails.
    let done = case(FakePage::new(vec![button()]), with(click("send"), "post", done())).run();
    let error = done.error("POSTCONDITION_FAILED", POST);
    assert_eq!(error.criticality(), Criticality::Critical);
}

#[test]
fn what_may_not_be_called_normal_is_critical_before_it_is_judged() {
    let submit = json!({"kind": "submit", "target": {"css": "!!"}, "criticality": "normal"});
    for (lower, criticality) in [("allow", Criticality::Normal), ("forbid", Criticality::Critical)] {
        let done = case(page(), submit.clone()).policy(json!({"lower_criticality": lower})).run();
        let error = done.error("INVALID_ACTIONSPEC", ActionStage::ProposalValidation);
        assert_eq!(error.criticality(), criticality);
    }
}

#[test]
fn a_download_of_an_earlier_action_that_ends_late_proves_nothing() {
    let late = |path: &str| v1::DownloadRecord {
        state: "completed".to_owned(),
        path: path.to_owned(),
        ..v1::DownloadRecord::default()
    };
    let page = || {
        let mut page = page();
        page.pending = vec!["/d/earlier".to_owned()];
        page
    };
    let post = json!([{"kind": "download_completed"}]);
    let mut earlier = page();
    earlier.reactions.push(Box::new(move |page| {
        page.changes.downloads.push(late("/d/earlier"));
        Ok(())
    }));
    let action = with(click("send"), "post", post.clone());
    let done = case(earlier, action.clone()).run();
    let error = done.error("POSTCONDITION_FAILED", POST);
    assert_eq!(error.failed_conditions[0].kind, "download_completed");

    let mut own = page();
    own.reactions.push(Box::new(move |page| {
        page.changes.downloads.extend([late("/d/earlier"), late("/d/own")]);
        Ok(())
    }));
    case(own, action).run().success();

    // An action of the kind download waits for its own as well.
    let mut earlier = page();
    earlier.changes.downloads.push(late("/d/before"));
    let download = json!({"kind": "download", "target": {"testid": "send"}, "output": "file"});
    case(earlier, download).run().error("DOWNLOAD_FAILED", EXECUTION);
}

// S002-DE-20
#[test]
fn a_download_that_breaks_off_is_expected_only_where_the_action_says_so() {
    let broken = || {
        let mut page = page();
        page.reactions.push(Box::new(|page| {
            let state = "cancelled".to_owned();
            page.changes.downloads.push(v1::DownloadRecord { state, ..v1::DownloadRecord::default() });
            Ok(())
        }));
        page
    };
    let completed = json!([{"kind": "download_completed"}]);
    for (post, expected) in [(completed, true), (done(), false)] {
        let done = case(broken(), with(click("send"), "post", post)).run();
        done.error("DOWNLOAD_FAILED", POST);
        assert_eq!(done.details()["expected_download"], expected);
    }
    case(broken(), click("send")).run().success();
}

// S002-FI-18
#[test]
fn an_error_says_how_far_the_action_came_without_anything_secret() {
    let named = Fake { name: "token=abcdef0123456789".to_owned(), ..element("send") };
    let done = case(FakePage::new(vec![named]), with(click("send"), "post", done())).run();
    let error = done.error("POSTCONDITION_FAILED", POST);
    let debug = error.debug_message.as_deref().unwrap();
    assert!(debug.contains("execution passed") && debug.contains("postcondition failed"), "{debug}");
    assert!(debug.contains("input was sent") && debug.contains("testid"), "{debug}");
    assert!(!debug.contains("abcdef0123456789"), "{debug}");
}

#[test]
fn an_element_that_goes_away_before_the_input_is_not_found() {
    let done = case(stops(PageError::Detached), click("send")).run();
    done.error("TARGET_NOT_FOUND", EXECUTION);
    assert_eq!(done.details()["stale"], true);
    assert!(!done.outcome.touched);
}

// S002-DE-23, S002-DE-24
#[test]
fn a_failed_sign_in_is_told_by_each_declared_signal() {
    let signals =
        json!({"auth_failed": {"texts": ["Wrong  password"], "login_url": "/login", "status_401": true}});
    let signal = |reaction: super::page::Reaction| {
        let mut page = page();
        page.reactions.push(reaction);
        let done = case(page, click("send")).policy(signals.clone()).run();
        done.error("AUTH_FAILED", POST);
        done.details()["auth_signal"].as_str().unwrap().to_owned()
    };
    let document = v1::NavigationKind::Document as i32;
    let by_text = signal(Box::new(|page| {
        page.text = "Sorry: Wrong password!".to_owned();
        Ok(())
    }));
    let by_status = signal(Box::new(|page| {
        page.changes.status = Some(401);
        Ok(())
    }));
    let by_url = signal(Box::new(move |page| {
        page.url = "https://example.com/login".to_owned();
        page.changes.navigation = document;
        Ok(())
    }));
    assert_eq!([by_text, by_status, by_url], ["text: Wrong password", "status_401", "login_url"]);

    // A page of one document loads nothing.
    let in_frame = signal(Box::new(|page| {
        page.frame_text = "Wrong password".to_owned();
        Ok(())
    }));
    let by_fetch = signal(Box::new(|page| {
        page.changes.unauthorized.push("https://example.com/api/sign-in".to_owned());
        Ok(())
    }));
    let by_move = signal(Box::new(|page| {
        page.url = "https://example.com/login".to_owned();
        page.changes.navigation = v1::NavigationKind::SameDocument as i32;
        Ok(())
    }));
    assert_eq!([in_frame, by_fetch, by_move], ["text: Wrong password", "status_401", "login_url"]);
    let mut within = page();
    within.url = "https://example.com/login".to_owned();
    within.reactions.push(Box::new(|page| {
        page.url = "https://example.com/login#terms".to_owned();
        page.changes.navigation = v1::NavigationKind::SameDocument as i32;
        Ok(())
    }));
    case(within, click("send")).policy(signals.clone()).run().success();

    // What was there before, and a login page that the script goes to by itself, say nothing.
    let mut before = page();
    before.text = "Wrong password".to_owned();
    case(before, click("send")).policy(signals.clone()).run().success();
    let mut goes = page();
    goes.reactions.push(Box::new(move |page| {
        page.url = "https://example.com/login".to_owned();
        page.changes.navigation = document;
        Ok(())
    }));
    let action = json!({"kind": "navigate", "url": "https://example.com/login"});
    case(goes, action).policy(signals).run().success();
}

#[test]
fn a_download_that_does_not_come_or_is_cancelled_has_failed() {
    let action = json!({"kind": "download", "target": {"testid": "send"}, "output": "file"});
    let done = case(page(), action.clone()).run();
    done.error("DOWNLOAD_FAILED", EXECUTION);
    assert_eq!(done.details()["expected_download"], true);

    let mut cancelled = page();
    cancelled.reactions.push(Box::new(|page| {
        let state = "cancelled".to_owned();
        page.changes.downloads.push(v1::DownloadRecord { state, ..v1::DownloadRecord::default() });
        Ok(())
    }));
    case(cancelled, action).run().error("DOWNLOAD_FAILED", EXECUTION);
}

// S002-FI-11
#[test]
fn what_the_engine_has_decided_is_not_performed_and_has_the_evidence_of_the_page_as_it_is() {
    let decided = || {
        let details = json!({"policy_reason": "max_steps", "policy_thresholds": {"max_steps": 1}});
        v1::DecidedFailure {
            error_code: "POLICY_HALT".to_owned(),
            message: "max_steps: 1".to_owned(),
            details: Some(details.to_string()),
        }
    };
    // Not even whether it is valid is looked at: a limit counts actions, whatever they are.
    for action in [click("send"), with(click("send"), "criticality", json!("critical"))] {
        let mut halted = case(page(), action);
        halted.decided = Some(decided());
        let done = halted.run();
        let error = done.error("POLICY_HALT", ActionStage::Policy);
        assert_eq!(error.state_before.as_ref().unwrap().url, "https://example.com/form");
        assert_eq!(done.acts(), Vec::<&str>::new());
    }
    let mut gone = page();
    gone.broken.push(("skeleton", PageError::Lost { reason: "the process ended".to_owned() }));
    let mut halted = case(gone, click("send"));
    halted.decided = Some(decided());
    let done = halted.run();
    done.error("BROWSER_LOST", ActionStage::Policy);
    assert_eq!(done.details()["original_code"], "POLICY_HALT");
}

// S002-FI-05
#[test]
fn a_message_is_short_whatever_was_asked_for() {
    let reason = "net::ERR_FAILED ".repeat(1_000);
    let mut long = case(page(), click("send"));
    long.decided = Some(v1::DecidedFailure {
        error_code: "POLICY_HALT".to_owned(),
        message: "max_steps ".repeat(1_000),
        details: Some(json!({"policy_reason": "max_steps", "policy_thresholds": {}}).to_string()),
    });
    let halted = long.run();
    let navigate = json!({"kind": "navigate", "url": "https://example.com/x"});
    let failed = case(reacts(PageError::NotLoaded { reason, url: None }), navigate).run();
    for error in
        [halted.error("POLICY_HALT", ActionStage::Policy), failed.error("NAVIGATION_FAILED", EXECUTION)]
    {
        for text in [Some(&error.message), error.cause.as_ref()].into_iter().flatten() {
            let length = text.chars().count();
            assert!(0 < length && length <= 501 && !text.contains('\n'), "{length}: {text}");
        }
    }
}

#[test]
fn a_lost_browser_carries_the_last_state_and_snapshot() {
    let lost = || PageError::Lost { reason: "the process ended".to_owned() };
    let done = case(reacts(lost()), click("send")).run();
    let error = done.error("BROWSER_LOST", EXECUTION);
    assert_eq!(error.state_before.as_ref().unwrap().url, "https://example.com/form");
    assert_eq!(done.evidence_kinds(), ["dom_snapshot_partial", "state_signature", "screenshot_before"]);
    assert!(done.outcome.touched);

    let mut gone = page();
    gone.broken.push(("look", lost()));
    let mut gone = case(gone, click("send"));
    let url = "https://example.com/last".to_owned();
    gone.last_state = Some(v1::StateSignature { url, ..crate::evidence::empty_signature() });
    let done = gone.run();
    let error = done.error("BROWSER_LOST", PRE);
    assert_eq!(error.state_before.as_ref().unwrap().url, "https://example.com/last");
    assert_eq!(done.evidence_kinds(), ["dom_snapshot_partial", "state_signature"]);
    let snapshot: Value = serde_json::from_slice(&done.kept[&error.evidence_refs[0].id]).unwrap();
    assert_eq!(snapshot["url"], "https://example.com/last");
}

#[test]
fn a_browser_that_was_never_there_has_the_evidence_of_an_empty_page_and_the_code_behind_it() {
    let action = v1::Action { id: "browser:open".to_owned(), kind: 1, ..v1::Action::default() };
    let task = Task { action, step_index: Some(0), ..Task::default() };
    for room in [100, 0] {
        let log = Log::default();
        let mut shelf = Shelf { kept: BTreeMap::new(), room, log: log.clone() };
        let mut performer = Performer::new(Policy::default(), Vec::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let time = super::page::Time::default();
        let code = Some("BROWSER_NOT_FOUND");
        let lost = performer.lost(&task, "no Chromium was found", code, &mut shelf, &time);
        let done = Done { outcome: runtime.block_on(lost), log: Vec::new(), kept: shelf.kept };
        if room > 0 {
            let error = done.outcome.error.as_ref().unwrap();
            assert_eq!(error.error_code, "BROWSER_LOST");
            assert_eq!(done.evidence_kinds(), ["dom_snapshot_partial", "state_signature"]);
            assert_eq!(done.details()["original_code"], "BROWSER_NOT_FOUND");
        } else {
            // Where nothing can be stored the reference says so itself.
            assert_eq!(done.evidence_kinds(), ["inline"]);
            assert_eq!(done.details()["original_code"], "BROWSER_LOST");
        }
    }
}

#[test]
fn a_browser_that_is_lost_while_evidence_is_taken_is_lost() {
    let mut page = page();
    page.broken.push(("html", PageError::Lost { reason: "crashed".to_owned() }));
    let done = case(page, with(click("send"), "post", done())).run();
    done.error("BROWSER_LOST", POST);
    assert_eq!(done.details()["original_code"], "POSTCONDITION_FAILED");
}

// S002-FI-12, S002-PR-01
#[test]
fn evidence_that_cannot_be_kept_fails_the_action_with_its_own_code_inside() {
    for room in 0..5 {
        let mut full = case(page(), with(click("send"), "post", done()));
        full.room = room;
        let done = full.run();
        let error = done.outcome.error.as_ref().unwrap();
        assert_eq!((error.error_code.as_str(), error.stage()), ("EVIDENCE_FAILED", ActionStage::Evidence));
        assert_eq!(done.details()["original_code"], "POSTCONDITION_FAILED");
        if room == 0 {
            let [inline] = error.evidence_refs.as_slice() else { panic!("{:?}", error.evidence_refs) };
            let text = inline.inline.as_deref().unwrap();
            assert_eq!((inline.kind.as_str(), inline.bytes), ("inline", text.len() as u64));
            assert_eq!(inline.id, blake3::hash(text.as_bytes()).to_hex().as_str());
            assert!(text.contains("the disk is full") && text.contains("https://example.com/form"), "{text}");
        } else {
            assert_eq!(error.evidence_refs.len(), room, "what was kept is named");
        }
        assert_eq!(error.failed_conditions.len(), 1);
        let whole = ExecutorError { run_id: "r".to_owned(), seq: 7, ..error.clone() };
        assert_eq!(validate::executor_error(&whole), [], "{room}");
    }
    let mut full = case(page(), click("send"));
    full.room = 0;
    let done = full.run();
    let error = done.outcome.error.as_ref().unwrap();
    assert_eq!((error.error_code.as_str(), error.stage()), ("EVIDENCE_FAILED", ActionStage::Evidence));
    assert_eq!(done.details()["original_code"], Value::Null, "the action itself succeeded");
    assert!(done.outcome.touched);
}

#[test]
fn nothing_is_sent_where_no_picture_can_be_taken_before() {
    let mut blind = page();
    blind.broken.push(("screenshot", PageError::Failed("no picture".to_owned())));
    let done = case(blind, click("send")).run();
    let error = done.outcome.error.as_ref().unwrap();
    assert_eq!(error.error_code, "EVIDENCE_FAILED");
    assert_eq!(done.acts(), [""; 0]);
    assert!(!done.outcome.touched);
}

// S002-FI-04
#[test]
fn a_failure_that_the_script_passes_over_is_a_warning() {
    let severity = |action: Value, decided: Option<&str>| {
        let mut case = case(page(), action);
        case.decided = decided.map(|code| v1::DecidedFailure {
            error_code: code.to_owned(),
            message: "decided".to_owned(),
            details: Some(json!({"policy_reason": "max_steps", "policy_thresholds": {}}).to_string()),
        });
        spelled(case.run().outcome.error.unwrap().severity().as_str_name(), "EXECUTOR_SEVERITY_")
    };
    let passes = |action: Value| with(action, "on_failure", "continue".into());
    assert_eq!(severity(click("x"), None), "error");
    assert_eq!(severity(passes(click("x")), None), "warning");
    // A halt is passed over by nothing, and neither is what is critical.
    assert_eq!(severity(passes(click("x")), Some("POLICY_HALT")), "error");
    assert_eq!(severity(passes(click("x")), Some("BROWSER_LOST")), "critical");
    let critical = with(with(click("x"), "criticality", "critical".into()), "post", done());
    assert_eq!(severity(passes(critical), None), "error");
}

// S002-FI-06
#[test]
fn only_what_the_script_repeats_is_retryable() {
    let retryable = |action: Value, policy: Value| {
        let done = case(page(), action).policy(policy).run();
        done.error("TARGET_NOT_FOUND", PRE).retryable.unwrap()
    };
    let retry_on = |code: &str| json!({"retry_on": [code]});
    assert!(!retryable(click("x"), json!({})));
    assert!(retryable(click("x"), retry_on("TARGET_NOT_FOUND")));
    assert!(!retryable(click("x"), retry_on("OVERLAY_BLOCKING")));
    assert!(!retryable(click("x"), json!({"retry_on": ["TARGET_NOT_FOUND"], "retry_limit": 0})));
    let own = with(click("x"), "retry", json!({"on": ["TARGET_NOT_FOUND"], "limit": 1}));
    assert!(retryable(own, json!({})));
}
