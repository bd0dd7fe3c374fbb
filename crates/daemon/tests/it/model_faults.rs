//! Models that go on failing: how their runs end in each mode, and that the key stays secret (seed 004; CONTRACTS §5).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use capataz_display::executing::spent_of;
use capataz_policy::retry;
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
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
        let error = result.error.unwrap();
        assert_eq!(retry::original(&error).code, code, "{what}: {error:?}");
        assert_eq!(stands(harness, run).await.execution_state, "error", "{what}");
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

/// Whether the planner is asked about a step of an approved plan.
fn is_of_a_step(asked: &Asked) -> bool {
    let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
    prompt.get("validatedPlan").is_some()
}

/// The faults of which the planner is asked again by itself, and then those of which it is not; each in one of the protocols,
/// by turns.
fn by_turns() -> impl Iterator<Item = (Protocol, &'static str, Turn, &'static str)> {
    let answer = "{\"decision\":";
    let final_ones = [
        ("does not know the key", Turn::status(401, "authentication_error", "no")),
        ("refuses", Turn::status(400, "invalid_request_error", "no")),
        ("is elsewhere", Turn::redirect("https://evil.example/v1")),
        ("has no more tokens in the one protocol", Turn::say(answer).finish("length")),
        ("has no more tokens in the other protocol", Turn::say(answer).finish("max_tokens")),
    ];
    let final_ones = final_ones.into_iter().map(|(what, turn)| (what, turn, "NON_RETRYABLE_ERROR"));
    let all = faults().into_iter().chain(final_ones).enumerate();
    all.map(|(place, (what, turn, code))| match what {
        "has no more tokens in the one protocol" => (Protocol::OpenAi, what, turn, code),
        "has no more tokens in the other protocol" => (Protocol::Anthropic, what, turn, code),
        _ => (BOTH[place % 2], what, turn, code),
    })
}

#[tokio::test]
async fn a_fault_before_a_step_of_an_approved_plan_is_tried_again_and_one_that_stays_asks_a_person() {
    for (protocol, what, turn, code) in by_turns() {
        let what = format!("{protocol:?} {what}");
        // Of the query `once`, only the first prompt about a step meets it.
        let met = std::sync::Mutex::new(std::collections::BTreeSet::new());
        let server = TestModel::answering(move |asked| {
            let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
            let query = prompt["query"].as_str().unwrap().to_owned();
            let is_hit =
                is_of_a_step(asked) && (met.lock().unwrap().insert(query.clone()) || query != "once");
            if is_hit { turn.clone() } else { Turn::say(by_prompt(asked).to_string()) }
        })
        .await;
        let (harness, worker) = harness(&server, protocol, "silence_ms = 300").await;
        let serving = tokio::spawn(serve(worker));
        let is_final = code == "NON_RETRYABLE_ERROR";

        let run = start(&harness, ExecutionMode::Supervised).await;
        answer(&harness, &run, "approve", None).await.unwrap();
        if is_final {
            has_failed_at_once(&harness, &run, &what).await;
        } else {
            has_failed(&harness, &run, ExecutionMode::Supervised, code, &what).await;
        }
        let calls = harness.export(&run).await.into_iter();
        let calls = calls.filter(|event| matches!(event.body, Some(Body::ToolCalled(_)))).count();
        assert_eq!(calls, 0, "{what}: nothing is done that the planner has not said");

        let quickly = v1::RetryPolicy { delays_ms: vec![0], ..v1::RetryPolicy::default() };
        let once = v1::ModeRun {
            query: "once".to_owned(),
            retry: Some(quickly),
            ..in_mode(ExecutionMode::Supervised)
        };
        let run = try_start(&harness, once).await.unwrap();
        answer(&harness, &run, "approve", None).await.unwrap();
        if is_final {
            let asked = question(&harness, &run).await;
            assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation, "{what}");
            answer(&harness, &run, "continue", None).await.unwrap();
        }
        let result = harness.wait(&run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{what}: {result:?}");
        assert_eq!(failed_attempts(&harness, &run).await, [code], "{what}");
        // Two attempts for each of two prompts, or one that nobody repeats; and the fault that passes, with what follows it.
        let of_steps = server.asked().iter().filter(|asked| is_of_a_step(asked)).count();
        assert_eq!(of_steps, if is_final { 1 + 2 } else { 4 + 2 }, "{what}");
        serving.abort();
        is_nowhere(harness).await;
    }
}

/// After a fault of which the planner is not asked again by itself, a person ends the run.
async fn has_failed_at_once(harness: &Harness, run: &str, what: &str) {
    let asked = question(harness, run).await;
    assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation, "{what}");
    assert!(asked.text.starts_with("the planner has failed: "), "{what}: {}", asked.text);
    assert_eq!(failed_attempts(harness, run).await, ["NON_RETRYABLE_ERROR"], "{what}");
    answer(harness, run, "abort", None).await.unwrap();
    let result = harness.wait(run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed, "{what}: {result:?}");
    assert_eq!(result.error.unwrap().code, "NON_RETRYABLE_ERROR", "{what}");
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

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_other_host_hears_nothing() {
    for protocol in BOTH {
        // Whoever connects waits here until the end of the test.
        let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let port = elsewhere.local_addr().unwrap().port();
        let server = TestModel::answering(move |asked| {
            let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
            let path = match asked.protocol {
                Protocol::OpenAi => "v1/chat/completions",
                Protocol::Anthropic => "v1/messages",
            };
            Turn::redirect(&format!("http://{}:{port}/{path}", prompt["query"].as_str().unwrap()))
        })
        .await;
        let (harness, _worker) = harness(&server, protocol, "").await;
        // Another name of this machine, and the same one with another port.
        for host in ["localhost", "127.0.0.1"] {
            for mode in MODES {
                let run = v1::ModeRun { query: host.to_owned(), ..in_mode(mode) };
                let run = try_start(&harness, run).await.unwrap();
                let said = format!("points to {host}, and redirects are not followed");
                if mode == ExecutionMode::Supervised {
                    let asked = question(&harness, &run).await;
                    assert!(asked.text.contains(&said), "{}", asked.text);
                    answer(&harness, &run, "abort", None).await.unwrap();
                }
                let error = harness.wait(&run).await.error.unwrap();
                assert_eq!(error.code, "NON_RETRYABLE_ERROR", "{protocol:?} {mode:?}: {error:?}");
                assert!(format!("{error:?}").contains(&said), "{error:?}");
            }
        }
        assert_eq!(server.asked().len(), 6, "once for each run");
        let heard = elsewhere.accept().map(drop).map_err(|error| error.kind());
        assert_eq!(heard, Err(std::io::ErrorKind::WouldBlock), "nobody has come");
        // Whoever had come would have been heard.
        let _visitor = std::net::TcpStream::connect(("localhost", port)).unwrap();
        elsewhere.accept().unwrap();
        is_nowhere(harness).await;
    }
}
