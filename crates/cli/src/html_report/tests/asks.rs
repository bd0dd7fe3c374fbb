//! The reports of asks.

use super::*;

fn asked() -> Body {
    accepted(Work::Ask(v1::Ask { text: "I feel <lost>".to_owned(), ..v1::Ask::default() }))
}

fn routed(call: u32, spec: &str, reason: v1::CallReason) -> Body {
    let routing = v1::Routing {
        spec: spec.to_owned(),
        confidence: 0.875,
        reason: "the words fit".to_owned(),
        detected_intent: "comfort".to_owned(),
        keywords_matched: vec!["lost".to_owned()],
        alternatives: vec![v1::RoutingAlternative { spec: "other".to_owned(), confidence: 0.25 }],
        confidence_breakdown: Some(v1::ConfidenceBreakdown { keyword: 0.5, intent: 0.25, context: 0.125 }),
        ..v1::Routing::default()
    };
    Body::AskRouted(v1::AskRouted {
        call,
        reason: reason.into(),
        spec: spec.to_owned(),
        routing: Some(routing),
        wave: Some(v1::Wave {
            name: Some(format!("call-{}", call + 1)),
            tasks: vec![task(spec)],
            ..v1::Wave::default()
        }),
        default_spec: String::new(),
    })
}

fn answer(text: &str) -> String {
    serde_json::json!({ "response": { "text": text } }).to_string()
}

#[test]
fn an_ask_has_its_answer_and_why_its_spec_was_chosen() {
    let page = page([
        (0, asked()),
        (100, routed(0, "kiro", v1::CallReason::Routed)),
        (200, leased(0, 0, 1)),
        (1_200, good(0, 0, &answer("You are <not> alone"))),
        (1_200, finished(v1::RunOutcome::Succeeded, None)),
    ]);
    is_whole(&page);
    shows(
        &page,
        &[
            "<h1>I feel &lt;lost&gt; <span class=\"badge good\">succeeded",
            "Calls: 1 of 1 succeeded, in 1.2s.",
            "id=\"answer\"",
            "You are &lt;not&gt; alone",
            "Timeline",
            "<b>Call 1: kiro</b>",
            "attempt 1 succeeded after 1s (w1)",
            "How the spec was chosen",
            "routed: the words fit",
            "0.87",
            "comfort",
            "lost",
            "other (0.25)",
            "Technical details",
            "0.5000",
        ],
    );
}

#[test]
fn a_fallback_is_a_second_call_and_a_transition_is_told() {
    let transition = v1::AskTransition {
        from: "kiro".to_owned(),
        to: "home".to_owned(),
        confidence: 0.9,
        verdict: v1::TransitionVerdict::Taken.into(),
        reason: "it is about home".to_owned(),
        ..v1::AskTransition::default()
    };
    let page = page([
        (0, asked()),
        (100, routed(0, "kiro", v1::CallReason::Routed)),
        (200, leased(0, 0, 1)),
        (1_000, bad(0, 0, error("NETWORK_ERROR", "no route to the host"), "")),
        (1_000, Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(transition) })),
        (1_000, routed(1, "home", v1::CallReason::Fallback)),
        (1_100, leased(1, 0, 1)),
        (2_000, good(1, 0, &answer("Here"))),
        (2_000, finished(v1::RunOutcome::Succeeded, None)),
    ]);
    is_whole(&page);
    shows(
        &page,
        &[
            "Calls: 1 of 2 succeeded",
            "NETWORK_ERROR",
            "What failed",
            "Call 1: kiro · agent agent-kiro",
            "Here",
            "Timeline",
            "Call 1: kiro <span class=\"badge bad\">failed",
            "Call 2: home <span class=\"badge good\">succeeded",
            "as a fallback",
            "Transitions",
            "transition to home (0.90, taken): it is about home",
        ],
    );
}

#[test]
fn an_ask_that_goes_on_has_no_answer_yet() {
    let page = page([(0, asked()), (100, routed(0, "kiro", v1::CallReason::Routed)), (200, leased(0, 0, 1))]);
    shows(&page, &["This run still goes on.", "id=\"answer\"", "not answered yet"]);
}

#[test]
fn hostile_texts_stay_texts() {
    let mut routed = match routed(0, HOSTILE, v1::CallReason::Routed) {
        Body::AskRouted(routed) => routed,
        other => unreachable!("{other:?}"),
    };
    let routing = routed.routing.get_or_insert_default();
    routing.reason = HOSTILE.to_owned();
    routing.detected_intent = HOSTILE.to_owned();
    routing.suggested_pattern = Some(HOSTILE.to_owned());
    routing.keywords_matched = vec![HOSTILE.to_owned()];
    routing.alternatives = vec![v1::RoutingAlternative { spec: HOSTILE.to_owned(), confidence: 0.5 }];
    let transition = v1::AskTransition {
        to: HOSTILE.to_owned(),
        reason: HOSTILE.to_owned(),
        ..v1::AskTransition::default()
    };
    is_harmless(&page([
        (0, accepted(Work::Ask(v1::Ask { text: HOSTILE.to_owned(), ..v1::Ask::default() }))),
        (100, Body::AskRouted(routed)),
        (200, leased(0, 0, 1)),
        (300, Body::TransitionConsidered(v1::TransitionConsidered { transition: Some(transition) })),
        (1_200, good(0, 0, &answer(HOSTILE))),
        (1_200, finished(v1::RunOutcome::Failed, Some(error(HOSTILE, HOSTILE)))),
    ]));
}
