//! The reports of pipelines.

use super::*;

fn pipeline() -> Body {
    let phase = |name: &str| v1::Phase { name: name.to_owned(), ..v1::Phase::default() };
    accepted(Work::Pipeline(v1::Pipeline {
        name: "review".to_owned(),
        phases: ["read", "tell", "check"].map(phase).to_vec(),
        ..v1::Pipeline::default()
    }))
}

fn started(phase: u32, wave: u32, items: &[&str]) -> Body {
    let tasks = v1::Wave { tasks: items.iter().map(|name| task(name)).collect(), ..v1::Wave::default() };
    Body::PhaseStarted(v1::PhaseStarted { phase, wave, tasks: Some(tasks), ..v1::PhaseStarted::default() })
}

fn rejected(wave: u32) -> Body {
    let violation = v1::SchemaViolation {
        path: "/title".to_owned(),
        rule: "type".to_owned(),
        expected: "a string".to_owned(),
        found: "7".to_owned(),
    };
    Body::OutputRejected(v1::OutputRejected {
        wave,
        attempt: 1,
        violations: vec![violation],
        ..Default::default()
    })
}

#[test]
fn a_blocked_phase_says_why_and_what_its_output_broke() {
    let blocked = error("PHASE_BLOCKED", "the phase \"tell\" is blocked: no title");
    let page = page([
        (0, pipeline()),
        (100, started(0, 0, &["read-1", "read-2"])),
        (200, leased(0, 0, 1)),
        (200, leased(0, 1, 1)),
        (1_000, good(0, 0, r#"{"title":"the sea"}"#)),
        (1_100, good(0, 1, r#"{"title":"the wind"}"#)),
        (
            1_100,
            Body::PhaseCompleted(v1::PhaseCompleted { phase: 0, summary: Some(json(r#"{"titles":2}"#)) }),
        ),
        (1_200, started(1, 1, &["tell"])),
        (1_300, leased(1, 0, 1)),
        (2_000, rejected(1)),
        (2_000, bad(1, 0, error("VALIDATION_ERROR", "the output breaks its rule"), "")),
        (
            2_000,
            Body::PhaseBlocked(v1::PhaseBlocked {
                phase: 1,
                error: Some(blocked),
                payload: Some(json(r#"{"attempts":1}"#)),
                accepted: Vec::new(),
            }),
        ),
    ]);
    is_whole(&page);
    shows(
        &page,
        &[
            "<h1>review <span class=\"badge plain\">still going on",
            "Phases: 1 of 3 completed, after 2s.",
            "VALIDATION_ERROR",
            "What failed",
            "Phase 2 of 3: tell · agent agent-tell",
            "The output breaks its rule",
            "<code>/title</code>",
            ": a string was expected, and 7 was found",
            "Timeline",
            "Phase 1 of 3: read",
            "<b>read-1</b>",
            "Phase 2 of 3: tell",
            "id=\"phases\"",
            "1. read <span class=\"badge good\">completed",
            "<summary>Summary</summary>",
            "&quot;titles&quot;: 2",
            "2. tell <span class=\"badge bad\">blocked",
            "the phase &quot;tell&quot; is blocked: no title",
            "What is known of its attempts",
            "3. check <span class=\"badge plain\">pending",
        ],
    );
}

#[test]
fn a_phase_that_was_rolled_back_has_a_part_for_each_beginning() {
    let back = v1::PipelineRolledBack { phase: 0, ..v1::PipelineRolledBack::default() };
    let page = page([
        (0, pipeline()),
        (100, started(0, 0, &["read-1"])),
        (200, leased(0, 0, 1)),
        (1_000, good(0, 0, "1")),
        (1_000, Body::PhaseCompleted(v1::PhaseCompleted::default())),
        (2_000, Body::PipelineRolledBack(back)),
        (2_000, started(0, 1, &["read-2"])),
        (2_100, leased(1, 0, 1)),
    ]);
    is_whole(&page);
    shows(
        &page,
        &[
            "<b>The run</b>",
            "rolled back to before phase read",
            "Phase 1 of 3: read</strong>",
            "Phase 1 of 3: read, again</strong>",
            "1. read <span class=\"badge warning\">in progress",
            "Phase 1 of 3: read: 1 task",
            "Phase 1 of 3: read, again: 1 task",
        ],
    );
}

#[test]
fn hostile_texts_stay_texts() {
    let phase = v1::Phase { name: HOSTILE.to_owned(), ..v1::Phase::default() };
    let work = v1::Pipeline { name: HOSTILE.to_owned(), phases: vec![phase], ..v1::Pipeline::default() };
    let violation = v1::SchemaViolation {
        path: HOSTILE.to_owned(),
        rule: HOSTILE.to_owned(),
        expected: HOSTILE.to_owned(),
        found: HOSTILE.to_owned(),
    };
    let rejected = v1::OutputRejected { attempt: 1, violations: vec![violation], ..Default::default() };
    let blocked = v1::PhaseBlocked {
        error: Some(error(HOSTILE, HOSTILE)),
        payload: Some(json(&serde_json::json!([[HOSTILE]]).to_string())),
        ..v1::PhaseBlocked::default()
    };
    is_harmless(&page([
        (0, accepted(Work::Pipeline(work))),
        (100, started(0, 0, &[HOSTILE])),
        (200, leased(0, 0, 1)),
        (300, Body::OutputRejected(rejected)),
        (300, bad(0, 0, error(HOSTILE, HOSTILE), HOSTILE)),
        (400, Body::PhaseBlocked(blocked)),
    ]));
}
