//! The reports of executions.

use super::*;

const BEFORE: &str = "screenshot_before";
/// The first bytes of a PNG of 1280 × 720, enough to read its size.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x02\xd0";

fn query() -> Body {
    accepted(Work::Mode(v1::ModeRun { query: "how many plans".to_owned(), ..v1::ModeRun::default() }))
}

fn begun() -> Body {
    let mode = v1::ExecutionMode::Planner.into();
    Body::ModeBegun(v1::ModeBegun { mode, ..v1::ModeBegun::default() })
}

fn wave(name: &str) -> Option<v1::Wave> {
    let of = v1::Task { name: format!("{name}.1"), agent: name.to_owned(), ..v1::Task::default() };
    Some(v1::Wave { name: Some(name.to_owned()), tasks: vec![of], ..v1::Wave::default() })
}

fn planner(number: u32) -> Body {
    let recalled = v1::Recalled {
        entries: vec!["0198/4".to_owned()],
        tokens: 42,
        took_us: 310,
        ..v1::Recalled::default()
    };
    Body::PlannerAsked(v1::PlannerAsked {
        wave: number,
        tasks: wave("rules"),
        recalled: Some(recalled),
        plan_wanted: true,
        ..v1::PlannerAsked::default()
    })
}

fn plan(revision: u32, tools: &[&str]) -> Option<v1::ModePlan> {
    let step = |tool: &&str| v1::PlanStep {
        id: (*tool).to_owned(),
        description: format!("does {tool}"),
        tool: (*tool).to_owned(),
        ..v1::PlanStep::default()
    };
    Some(v1::ModePlan { revision, steps: tools.iter().map(step).collect(), ..v1::ModePlan::default() })
}

fn planned(number: u32) -> Body {
    let remembered = v1::Remembered {
        r#type: "plan".to_owned(),
        content: "list, then count".to_owned(),
        ..v1::Remembered::default()
    };
    Body::PlannerAnswered(v1::PlannerAnswered {
        wave: number,
        plan: plan(1, &["list", "count", "note"]),
        remembered: Some(remembered),
        ..v1::PlannerAnswered::default()
    })
}

fn called(number: u32, tool: &str, step: u32) -> Body {
    Body::ToolCalled(v1::ToolCalled {
        wave: number,
        tasks: wave(tool),
        step_index: Some(step),
        irreversible: false,
    })
}

fn seen(number: u32, tool: &str, step: u32, error: Option<v1::Error>, as_expected: bool) -> Body {
    Body::ToolObserved(v1::ToolObserved {
        step: step + 1,
        tool: tool.to_owned(),
        step_index: Some(step),
        error,
        as_expected,
        duration_ms: 500,
        wave: Some(number),
        ..v1::ToolObserved::default()
    })
}

fn approval() -> Body {
    let question = v1::Question {
        question_id: "q1".to_owned(),
        text: "Is note to be called?".to_owned(),
        options: vec!["approve".to_owned()],
        holds: v1::QuestionHold::Run.into(),
        ..v1::Question::default()
    };
    Body::QuestionAsked(Box::new(v1::QuestionAsked { question: Some(question), ..Default::default() }))
}

fn answered() -> Body {
    Body::QuestionAnswered(v1::QuestionAnswered {
        question_id: "q1".to_owned(),
        answer: "approve".to_owned(),
        ..v1::QuestionAnswered::default()
    })
}

fn checkpoint() -> Body {
    Body::ModeCheckpointed(v1::ModeCheckpointed {
        checkpoint_id: "c1".to_owned(),
        reason: "before the note".to_owned(),
        ..v1::ModeCheckpointed::default()
    })
}

pub fn story() -> Vec<(i64, Body)> {
    vec![
        (0, query()),
        (0, begun()),
        (100, planner(0)),
        (200, leased(0, 0, 1)),
        (900, good(0, 0, "{}")),
        (900, planned(0)),
        (1_000, called(1, "list", 0)),
        (1_100, leased(1, 0, 1)),
        (1_600, good(1, 0, r#"["a","b"]"#)),
        (1_600, seen(1, "list", 0, None, true)),
        (1_700, called(2, "count", 1)),
        (1_800, leased(2, 0, 1)),
        (2_300, bad(2, 0, error("TESTS_FAILED", "it cannot count"), "counting\n")),
        (2_300, seen(2, "count", 1, Some(error("TESTS_FAILED", "it cannot count")), false)),
        (2_400, checkpoint()),
        (2_500, approval()),
        (9_500, answered()),
        (9_600, called(3, "note", 2)),
        (9_700, leased(3, 0, 1)),
        (9_900, good(3, 0, r#"{"noted":2}"#)),
        (9_900, seen(3, "note", 2, None, false)),
        (9_900, Body::ModeCompleted(v1::ModeCompleted { wave: Some(3), remembered: None })),
        (9_900, finished(v1::RunOutcome::Succeeded, None)),
    ]
}

#[test]
fn an_execution_has_its_result_its_plan_its_calls_its_memory_and_its_checkpoints() {
    let page = page(story());
    is_whole(&page);
    shows(
        &page,
        &[
            "<h1>how many plans <span class=\"badge good\">succeeded",
            "Calls: 3 of 4 succeeded, in 9.9s.",
            "id=\"result\"",
            "Mode: planner",
            "&quot;noted&quot;: 2",
            "Plan, revision 1: 3 steps",
            "✓ succeeded</span> does list",
            "✗ failed</span> does count",
            "✓ succeeded</span> does note",
            "Calls of tools",
            "<code>list (step 1)</code>",
            "&quot;b&quot;",
            "<code>count (step 2)</code>",
            "it cannot count",
            "<code>note (step 3)</code>",
            "not what was expected",
            "What was decided, step by step",
            "Memory",
            "Prompts with something from memory: 1, with 42 tokens of it.",
            "found in 310 µs",
            "1 entry kept in memory",
            "list, then count",
            "Checkpoints",
            "c1: before the note",
            "Calls that failed",
            "TESTS_FAILED",
            "The end of its log",
            "counting",
            "Questions to people",
            "Is note to be called?",
        ],
    );
}

#[test]
fn the_timeline_of_an_execution_has_its_calls_and_questions_in_their_order() {
    let page = page(story());
    let timeline = page.split("id=\"timeline\"").nth(1).and_then(|rest| rest.split("</section>").next());
    shows(
        timeline.unwrap(),
        &[
            "<b>The run</b>",
            "checkpoint c1",
            "<b>Planner: a plan</b>",
            "<b>list (step 1)</b>",
            "href=\"#task-3-1\">count (step 2)</a>",
            "<b>Is note to be called?</b>",
            "answered: approve",
            "waited 7s for an answer",
            "<b>note (step 3)</b>",
        ],
    );
    // Seven of ten seconds were a wait for a person: they are drawn shorter, and their length is said.
    shows(&page, &["Nothing was at work for this long, which is drawn shorter.", "/ 7.4s /"]);
}

#[test]
fn what_ended_an_execution_stands_first_with_the_picture_of_its_last_action() {
    let piece = v1::EvidenceRef {
        id: "ab".repeat(32),
        kind: BEFORE.to_owned(),
        media_type: "image/png".to_owned(),
        ..v1::EvidenceRef::default()
    };
    let of_action = v1::ExecutorError {
        error_code: "TARGET_NOT_FOUND".to_owned(),
        evidence_refs: vec![piece],
        ..v1::ExecutorError::default()
    };
    let failed = v1::ActionFailed { error: Some(of_action), ..v1::ActionFailed::default() };
    let own = error("MAX_STEPS_EXCEEDED", "50 actions were done");
    let events = at([
        (0, query()),
        (0, begun()),
        (100, called(0, "browser.click", 0)),
        (200, leased(0, 0, 1)),
        (900, Body::ActionFailed(Box::new(failed))),
        (900, bad(0, 0, error("TARGET_NOT_FOUND", "no element matches the target"), "")),
        (1_000, finished(v1::RunOutcome::Failed, Some(own))),
    ]);
    let mut report = report(&events);
    let ids: Vec<String> = wanted(&report.story).into_iter().map(|(piece, _)| piece.id).collect();
    assert_eq!(ids, ["ab".repeat(32)]);
    report.evidence.insert("ab".repeat(32), Content::Here(PICTURE.into()));
    let page = html(&report);
    is_whole(&page);
    shows(
        &page,
        &[
            "badge bad\">failed",
            "<strong>MAX_STEPS_EXCEEDED</strong>",
            "50 actions were done",
            "class=\"pictures first\"",
            "<use ",
            "<dl class=\"facts\">",
            "There is no result.",
            "browser.click (step 1)",
            "<use ",
            "Calls that failed",
            "TARGET_NOT_FOUND",
        ],
    );
}

#[test]
fn a_plan_that_was_changed_keeps_its_revisions() {
    let edited = v1::PlanEdited { plan: plan(2, &["list"]), ..v1::PlanEdited::default() };
    let back = v1::ModeRolledBack { checkpoint_id: "c1".to_owned(), ..v1::ModeRolledBack::default() };
    let page = page([
        (0, query()),
        (0, begun()),
        (100, planner(0)),
        (200, leased(0, 0, 1)),
        (900, good(0, 0, "{}")),
        (900, planned(0)),
        (1_000, checkpoint()),
        (2_000, Body::PlanEdited(edited)),
        (2_000, Body::PlanApproved(v1::PlanApproved { revision: 2, ..v1::PlanApproved::default() })),
        (3_000, Body::ModeRolledBack(back)),
    ]);
    is_whole(&page);
    shows(
        &page,
        &[
            "a person changed the plan, revision 2",
            "revision 2 of the plan is approved",
            "rolled back to checkpoint c1",
            // The way back restores the plan that was in force at the checkpoint.
            "Plan, revision 1: 3 steps",
            "Before: revision 2, 1 step",
            "c1: before the note",
            "rolled back to checkpoint c1",
        ],
    );
}

#[test]
fn hostile_texts_stay_texts() {
    let remembered =
        v1::Remembered { r#type: HOSTILE.to_owned(), content: HOSTILE.to_owned(), ..Default::default() };
    let planned = v1::PlannerAnswered {
        plan: plan(1, &[HOSTILE]),
        reasoning: HOSTILE.to_owned(),
        call: Some(v1::ToolCall { tool: HOSTILE.to_owned(), ..v1::ToolCall::default() }),
        remembered: Some(remembered),
        ..v1::PlannerAnswered::default()
    };
    let checkpoint = v1::ModeCheckpointed {
        checkpoint_id: HOSTILE.to_owned(),
        reason: HOSTILE.to_owned(),
        ..v1::ModeCheckpointed::default()
    };
    is_harmless(&page([
        (0, accepted(Work::Mode(v1::ModeRun { query: HOSTILE.to_owned(), ..v1::ModeRun::default() }))),
        (0, begun()),
        (100, planner(0)),
        (200, leased(0, 0, 1)),
        (300, good(0, 0, "{}")),
        (300, Body::PlannerAnswered(planned)),
        (300, Body::ModeCheckpointed(checkpoint)),
        (400, called(1, HOSTILE, 0)),
        (500, leased(1, 0, 1)),
        (600, bad(1, 0, error(HOSTILE, HOSTILE), HOSTILE)),
        (600, seen(1, HOSTILE, 0, Some(error(HOSTILE, HOSTILE)), false)),
        (
            700,
            Body::EscalationAnswered(v1::EscalationAnswered {
                answer: HOSTILE.to_owned(),
                ..Default::default()
            }),
        ),
    ]));
}
