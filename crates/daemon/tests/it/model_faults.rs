//! Models that go on failing: how their runs end in each mode, and that the key stays secret (seed 004; CONTRACTS §5).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use capataz_display::executing::spent_of;
use capataz_policy::retry;
use capataz_testmodel::{Protocol, TestModel, Turn};
use serde_json::Value;

use crate::models::{BOTH, by_prompt, faults, harness, harness_at, in_mode, is_nowhere, serve};
use crate::modes::{answer, question, stands, try_start};
use crate::support::Harness;

const MODES: [ExecutionMode; 3] = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];

/// An execution whose planner has two attempts for each prompt.
async fn start(harness: &Harness, mode: ExecutionMode) -> String {
    let retry = v1::RetryPolicy { delays_ms: vec![0], ..v1::RetryPolicy::default() };
    try_start(harness, v1::ModeRun { retry: Some(retry), ..in_mode(mode) }).await.unwrap()
}

/// The codes of the attempts that have failed; the last one of a prompt is in the end of its task.
async fn failed_attempts(harness: &Harness, run: &str) -> Vec<String> {
    let events = harness.export(run).await.into_iter();
    let codes = events.filter_map(|event| match event.body {
        Some(Body::TaskAttemptFailed(failed)) => failed.error.map(|error| error.code),
        Some(Body::TaskSettled(settled)) => settled.error.map(|error| retry::original(&error).code.clone()),
        _ => None,
    });
    codes.collect()
}

/// The run, whose planner always fails with this code, has ended as its mode says.
async fn has_failed(harness: &Harness, run: &str, mode: ExecutionMode, code: &str, what: &str) {
    if mode == ExecutionMode::Supervised {
        let asked = question(harness, run).await;
        assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation, "{what}");
        assert!(asked.text.starts_with("the planner has failed: "), "{what}: {}", asked.text);
        assert_eq!(asked.options, ["continue", "abort"], "{what}");
        assert_eq!(harness.get(run).await.status(), v1::RunStatus::Waiting, "{what}");
        assert_eq!(stands(harness, run).await.execution_state, "paused", "{what}");
        assert_eq!(failed_attempts(harness, run).await, [code; 2], "{what}");
        // It is asked again where the person says so, and fails again.
        answer(harness, run, "continue", None).await.unwrap();
        let again = question(harness, run).await;
        assert_ne!(again.question_id, asked.question_id, "{what}");
        assert_eq!(failed_attempts(harness, run).await, [code; 4], "{what}");
        answer(harness, run, "abort", None).await.unwrap();
        let result = harness.wait(run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Failed, "{what}: {result:?}");
        return;
    }
    let result = harness.wait(run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed, "{what}: {result:?}");
    let error = result.error.unwrap();
    assert_eq!(error.code, "RETRY_EXHAUSTED", "{what}: {error:?}");
    assert_eq!(retry::original(&error).code, code, "{what}: {error:?}");
    assert_eq!(failed_attempts(harness, run).await, [code; 2], "{what}");
    assert_eq!(stands(harness, run).await.execution_state, "error", "{what}");
}

async fn a_fault_that_stays_ends_the_run(protocol: Protocol) {
    for (what, turn, code) in faults() {
        let server = TestModel::answering(move |_| turn.clone()).await;
        let (harness, _worker) = harness(&server, protocol, "silence_ms = 300").await;
        for mode in MODES {
            let run = start(&harness, mode).await;
            has_failed(&harness, &run, mode, code, &format!("{protocol:?} {what} {mode:?}")).await;
        }
        // Two attempts in two modes, and two for each of two prompts in the third.
        assert_eq!(server.asked().len(), 8, "{what}");
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn a_fault_that_stays_ends_the_run_with_its_code_or_asks_a_person_in_the_openai_protocol() {
    Box::pin(a_fault_that_stays_ends_the_run(Protocol::OpenAi)).await;
}

#[tokio::test]
async fn a_fault_that_stays_ends_the_run_with_its_code_or_asks_a_person_in_the_anthropic_protocol() {
    Box::pin(a_fault_that_stays_ends_the_run(Protocol::Anthropic)).await;
}

#[tokio::test]
async fn a_model_that_nobody_serves_fails_as_one_that_is_down() {
    for protocol in BOTH {
        // A port that was free a moment ago, and that nobody listens at.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (harness, _worker) = harness_at(&format!("http://{address}/v1"), protocol, "").await;
        for mode in MODES {
            let run = start(&harness, mode).await;
            has_failed(&harness, &run, mode, "SERVICE_UNAVAILABLE", &format!("{protocol:?} {mode:?}")).await;
        }
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn a_word_for_the_end_that_nobody_knows_is_an_end_and_the_answer_is_judged_as_any_other() {
    for protocol in BOTH {
        let server = TestModel::answering(|asked| {
            let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
            let said = match prompt["query"].as_str() {
                Some("wrong") => "{\"action\":{\"tool\":\"fly\"}}".to_owned(),
                _ => by_prompt(asked).to_string(),
            };
            Turn::say(said).finish("tired")
        })
        .await;
        let (harness, worker) = harness(&server, protocol, "").await;
        let serving = tokio::spawn(serve(worker));
        for mode in MODES {
            let run = start(&harness, mode).await;
            if mode == ExecutionMode::Supervised {
                answer(&harness, &run, "approve", None).await.unwrap();
            }
            let result = harness.wait(&run).await;
            assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{protocol:?} {mode:?}: {result:?}");
            assert_eq!(failed_attempts(&harness, &run).await, Vec::<String>::new());
            let retry = v1::RetryPolicy { delays_ms: vec![0], ..v1::RetryPolicy::default() };
            let wrong = v1::ModeRun { query: "wrong".to_owned(), retry: Some(retry), ..in_mode(mode) };
            let run = try_start(&harness, wrong).await.unwrap();
            has_failed(&harness, &run, mode, "VALIDATION_ERROR", &format!("{protocol:?} {mode:?}")).await;
            // Each answer took 11 tokens to read and 7 to write, whatever became of it.
            let answers = if mode == ExecutionMode::Supervised { 4 } else { 2 };
            let spent = spent_of(&harness.get(&run).await);
            assert_eq!((spent.input_tokens, spent.output_tokens), (11 * answers, 7 * answers), "{mode:?}");
        }
        serving.abort();
        is_nowhere(harness).await;
    }
}
