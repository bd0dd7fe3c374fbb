//! Language models as agents, against a server of both protocols that misbehaves on demand (seed 004).

use std::path::Path;

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use capataz_daemon::Config;
use capataz_hosts::models::ModelAgent;
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
use prost::Message;
use serde_json::{Value, json as of};

use crate::modes::{act, answer, execution, keeps_to, plan, question, step, try_start};
use crate::support::kept_log::{has, kept_log, listen_to_the_log};
use crate::support::{Harness, Worker, data_dir, one_wave};

pub const SECRET: &str = "sk-secret-of-the-shop-1";
pub const BOTH: [Protocol; 2] = [Protocol::OpenAi, Protocol::Anthropic];

pub fn model(name: &str, kind: &str, protocol: Protocol, base_url: &str, more: &str) -> ModelAgent {
    let protocol = match protocol {
        Protocol::OpenAi => "openai",
        Protocol::Anthropic => "anthropic",
    };
    let text = format!(
        "name = \"{name}\"\nkind = \"{kind}\"\nprotocol = \"{protocol}\"\nbase_url = \"{base_url}\"\nmodel = \"m\"\n\
         key = \"${{secret:MODEL_KEY}}\"\nprice = {{ input = 1.0, output = 2.0, currency = \"USD\" }}\n{more}"
    );
    toml::from_str(&text).unwrap()
}

/// A daemon with a model as the planner `mind`, and as the task `writer`; its tools are a worker's.
pub async fn harness(server: &TestModel, protocol: Protocol, more: &str) -> (Harness, Worker) {
    harness_at(&server.base_url(protocol), protocol, more).await
}

/// The same, wherever the model is said to be.
pub async fn harness_at(base_url: &str, protocol: Protocol, more: &str) -> (Harness, Worker) {
    harness_with(Some(&format!("{SECRET}\n")), base_url, protocol, more).await
}

/// The same, with this as the file of the key, or without one.
async fn harness_with(
    key: Option<&str>,
    base_url: &str,
    protocol: Protocol,
    more: &str,
) -> (Harness, Worker) {
    listen_to_the_log();
    let folder = tempfile::tempdir().unwrap();
    let secrets = folder.path().join("secrets");
    std::fs::create_dir(&secrets).unwrap();
    if let Some(key) = key {
        std::fs::write(secrets.join("MODEL_KEY"), key).unwrap();
    }
    let configure = |config: &mut Config| {
        config.secrets_dir = Some(secrets.clone());
        config.models = vec![
            model("mind", "planner", protocol, base_url, more),
            model("writer", "task", protocol, base_url, more),
        ];
    };
    let harness = Harness::start_in(folder, configure).await;
    let tool = v1::Agent {
        name: "read".to_owned(),
        category: "modes".to_owned(),
        kind: v1::AgentKind::Tool.into(),
        contract_version: "1.0.0".to_owned(),
        max_concurrency: 10,
        undoable: true,
        ..v1::Agent::default()
    };
    let hello = v1::Hello {
        worker_id: "tools".to_owned(),
        agents: vec![tool],
        slots: 10,
        protocol: 1,
        ..v1::Hello::default()
    };
    let worker = Worker::with_hello(harness.channel.clone(), hello).await.unwrap();
    (harness, worker)
}

/// Answers every call of the tool.
pub async fn serve(mut worker: Worker) {
    loop {
        let called = worker.assignment().await;
        worker.complete(&called.lease, crate::support::json(of!({ "lines": 3 }))).await;
    }
}

pub fn in_mode(mode: ExecutionMode) -> v1::ModeRun {
    let quickly = v1::RetryPolicy { delays_ms: vec![0, 0, 0], ..v1::RetryPolicy::default() };
    v1::ModeRun { mode: Some(mode.into()), retry: Some(quickly), ..execution("tidy up") }
}

/// What a planner with a model answers: the mode is known by the keys of its prompt.
pub fn by_prompt(asked: &Asked) -> Value {
    let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
    let planned = || plan(&[step("a", "read", of!("read"))], "read", of!({ "n": "a" }));
    match prompt {
        _ if prompt.get("workspace").is_some() => act("read", of!({ "n": "a" }), prompt["step"] == 0),
        _ if prompt.get("validatedPlan").is_some() => keeps_to("read", of!({ "n": "a" })),
        _ => planned(),
    }
}

/// The key is nowhere but in its own file: not in the events of any run, nor in its reports, nor in a file of the daemon,
/// nor in the log.
pub async fn is_nowhere(harness: Harness) {
    has_not(harness, SECRET).await;
}

async fn has_not(harness: Harness, secret: &str) {
    let request = v1::ListRunsRequest { page_size: 500, ..v1::ListRunsRequest::default() };
    let runs = harness.runs.clone().list_runs(request).await.unwrap().into_inner().runs;
    assert!(!runs.is_empty());
    for run in runs {
        for event in harness.export(&run.run_id).await {
            assert!(!has(&event.encode_to_vec(), secret), "{}", event.seq);
        }
        let view = harness.get(&run.run_id).await;
        assert!(!has(&view.encode_to_vec(), secret), "{}", run.run_id);
        for language in ["en", "es"] {
            let report = harness.report(&run.run_id, language).await;
            assert!(!report.is_empty() && !has(report.as_bytes(), secret), "{language}");
        }
    }
    let folder = harness.stop().await;
    assert!(data_dir(&folder).exists());
    no_file_has(folder.path(), secret);
    let log = kept_log();
    // The daemon's own words are there, so that it is known that they were heard.
    assert!(has(&log, "capataz_daemon"), "{}", String::from_utf8_lossy(&log));
    assert!(!has(&log, secret));
}

/// No file of the folder but the secret's own.
fn no_file_has(folder: &Path, secret: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            assert!(!has(&std::fs::read(&path).unwrap(), secret), "{}", path.display());
        } else if path.file_name().unwrap() != "secrets" {
            no_file_has(&path, secret);
        }
    }
}

#[tokio::test]
async fn a_model_plans_in_each_mode_and_in_both_protocols_and_its_tokens_are_counted() {
    for protocol in BOTH {
        let server =
            TestModel::answering(|asked| Turn::say(by_prompt(asked).to_string()).usage(1_000, 100)).await;
        let (harness, worker) = harness(&server, protocol, "").await;
        let serving = tokio::spawn(serve(worker));
        for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
            let run = try_start(&harness, in_mode(mode)).await.unwrap();
            if mode == ExecutionMode::Supervised {
                answer(&harness, &run, "approve", None).await.unwrap();
            }
            assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded, "{mode:?}");
            let used: Vec<v1::Usage> = harness
                .export(&run)
                .await
                .into_iter()
                .filter_map(|event| match event.body {
                    Some(Body::TaskSettled(settled)) => settled.usage,
                    _ => None,
                })
                .collect();
            let asks = if mode == ExecutionMode::Planner { 1 } else { 2 };
            assert_eq!(used.len(), asks, "{mode:?}: {used:?}");
            // 1,000 × 1 and 100 × 2 millionths of a dollar, in billionths.
            let cost = used[0].cost.clone().unwrap();
            assert_eq!((used[0].input_tokens, cost.nanos, &*cost.currency), (Some(1_000), 1_200_000, "USD"));
        }
        serving.abort();
        let asked = server.asked();
        assert_eq!(asked.len(), 5);
        let has_contract = |asked: &Asked| match protocol {
            Protocol::OpenAi => asked.body["response_format"]["type"] == "json_schema",
            Protocol::Anthropic => asked.body["tool_choice"]["type"] == "tool",
        };
        assert!(asked.iter().all(has_contract));
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn a_model_does_a_task_of_a_plan_with_a_text_as_its_input() {
    for protocol in BOTH {
        let server = TestModel::start([Turn::say("It is about whales.")]).await;
        let (harness, _worker) = harness(&server, protocol, "system = \"Be brief.\"").await;
        let mut plan = one_wave(&["writer"]);
        plan.waves[0].tasks[0].input = Some(crate::support::json(of!("What is the book about?")));
        let run = harness.start_run(plan).await;
        let result = harness.wait(&run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
        let output = result.tasks[0].output.clone().unwrap();
        assert_eq!(output.media_type, "text/plain");
        assert_eq!(output.data, Some(v1::payload::Data::Inline("It is about whales.".into())));
        let asked = server.asked().remove(0);
        assert_eq!(asked.text(), "What is the book about?");
        let system = match protocol {
            Protocol::OpenAi => &asked.body["messages"][0]["content"],
            Protocol::Anthropic => &asked.body["system"],
        };
        assert_eq!(system, "Be brief.");
        is_nowhere(harness).await;
    }
}

/// A fault of a model, and what an attempt fails with.
pub fn faults() -> Vec<(&'static str, Turn, &'static str)> {
    let answer = act("read", of!({ "n": "a" }), false).to_string();
    vec![
        ("rate limited", Turn::rate_limited(Some("0.4")), "RATE_LIMIT"),
        ("overloaded", Turn::status(529, "overloaded_error", "later"), "SERVICE_UNAVAILABLE"),
        ("down", Turn::status(503, "server_error", "later"), "SERVICE_UNAVAILABLE"),
        ("fails in its stream", Turn::error_in_stream("overloaded_error", "later"), "SERVICE_UNAVAILABLE"),
        ("breaks off", Turn::cut_after(answer.clone(), 2), "SERVICE_UNAVAILABLE"),
        ("says garbage", Turn::garbage("data: {\"a\"\n\n"), "SERVICE_UNAVAILABLE"),
        ("never ends its line", Turn::endless(), "SERVICE_UNAVAILABLE"),
        ("says nothing", Turn::stall(), "TIMEOUT"),
        ("stops speaking", Turn::stall_after(answer, 1), "TIMEOUT"),
        ("is no JSON", Turn::say("Sure! I will read it."), "VALIDATION_ERROR"),
        ("breaks the contract", Turn::say("{\"action\":{\"tool\":\"fly\"}}"), "VALIDATION_ERROR"),
    ]
}

#[tokio::test]
async fn a_fault_of_a_model_fails_an_attempt_and_the_next_one_goes_on_in_each_mode() {
    for protocol in BOTH {
        for (what, turn, code) in faults() {
            // The first request of each run meets it.
            let met = std::sync::Mutex::new(std::collections::BTreeSet::new());
            let server = TestModel::answering(move |asked| {
                let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
                match met.lock().unwrap().insert(prompt["query"].as_str().unwrap().to_owned()) {
                    true => turn.clone(),
                    false => Turn::say(by_prompt(asked).to_string()),
                }
            })
            .await;
            let (harness, worker) = harness(&server, protocol, "silence_ms = 300").await;
            let serving = tokio::spawn(serve(worker));
            for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
                let run = v1::ModeRun { query: format!("{mode:?}"), ..in_mode(mode) };
                let run = try_start(&harness, run).await.unwrap();
                if mode == ExecutionMode::Supervised {
                    answer(&harness, &run, "approve", None).await.unwrap();
                }
                let result = harness.wait(&run).await;
                assert_eq!(
                    result.outcome(),
                    v1::RunOutcome::Succeeded,
                    "{protocol:?} {what} {mode:?}: {result:?}"
                );
                let failed = harness.export(&run).await.into_iter().find_map(|event| match event.body {
                    Some(Body::TaskAttemptFailed(failed)) => Some(failed),
                    _ => None,
                });
                let failed = failed.unwrap_or_else(|| panic!("{protocol:?} {what} {mode:?}"));
                assert_eq!(failed.error.as_ref().unwrap().code, code, "{protocol:?} {what} {mode:?}");
                if code == "RATE_LIMIT" {
                    // `Retry-After` says 0.4 s, and the policy of the run nothing.
                    assert!(failed.delay_ms >= 400, "{failed:?}");
                }
            }
            serving.abort();
            is_nowhere(harness).await;
        }
    }
}

#[tokio::test]
async fn what_would_fail_again_ends_the_run_with_what_the_server_said_and_without_the_key() {
    let server = TestModel::answering(|asked| {
        let echo = format!("the key {SECRET} is not known");
        match serde_json::from_str::<Value>(&asked.text()).unwrap()["query"].as_str().unwrap() {
            "unauthorized" => Turn::status(401, "authentication_error", &echo),
            "elsewhere" => Turn::redirect("https://evil.example/v1/chat/completions"),
            "cut" => Turn::say("{\"action\":").finish(match asked.protocol {
                Protocol::OpenAi => "length",
                Protocol::Anthropic => "max_tokens",
            }),
            _ => Turn::status(400, "invalid_request_error", &echo),
        }
    })
    .await;
    for protocol in BOTH {
        let (harness, _worker) = harness(&server, protocol, "").await;
        for (query, said) in [
            ("unauthorized", "does not take the key: the key [redacted] is not known"),
            ("elsewhere", "points to evil.example, and redirects are not followed"),
            ("cut", "cut off at its limit of tokens"),
            ("other", "refuses the request (400): the key [redacted] is not known"),
        ] {
            for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
                let before = server.asked().len();
                let run = v1::ModeRun { query: query.to_owned(), ..in_mode(mode) };
                let run = try_start(&harness, run).await.unwrap();
                if mode == ExecutionMode::Supervised {
                    // A person decides whether the planner is asked again.
                    assert!(question(&harness, &run).await.text.contains(said), "{said}");
                    answer(&harness, &run, "abort", None).await.unwrap();
                }
                let result = harness.wait(&run).await;
                assert_eq!(result.outcome(), v1::RunOutcome::Failed);
                let error = result.error.unwrap();
                assert_eq!(error.code, "NON_RETRYABLE_ERROR", "{mode:?} {query}: {error:?}");
                let text = format!("{error:?}");
                assert!(text.contains(said), "{said}: {text}");
                assert_eq!(server.asked().len(), before + 1, "{mode:?} {query}: nothing is asked twice");
            }
        }
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn a_key_that_is_missing_or_no_key_fails_the_task_and_asks_nobody() {
    let server = TestModel::start([]).await;
    for protocol in BOTH {
        for (key, said) in
            [(None, "there is no secret `MODEL_KEY`"), (Some("sk-1\nHost: evil"), "cannot be a key")]
        {
            let (harness, _worker) = harness_with(key, &server.base_url(protocol), protocol, "").await;
            let run = harness.start_run(one_wave(&["writer"])).await;
            let result = harness.wait(&run).await;
            assert!(format!("{result:?}").contains(said), "{said}: {result:?}");
            for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
                let run = try_start(&harness, in_mode(mode)).await.unwrap();
                if mode == ExecutionMode::Supervised {
                    assert!(question(&harness, &run).await.text.contains(said), "{protocol:?} {said}");
                    answer(&harness, &run, "abort", None).await.unwrap();
                }
                let error = harness.wait(&run).await.error.unwrap();
                assert_eq!(error.code, "NON_RETRYABLE_ERROR", "{protocol:?} {mode:?}: {error:?}");
                assert!(format!("{error:?}").contains(said), "{said}: {error:?}");
            }
            has_not(harness, "Host: evil").await;
        }
    }
    assert_eq!(server.asked().len(), 0);
}

/// What the planner is told of its tools, and what it says, goes through the protocol: here a pipeline, of which the next phase
/// has what the one before has summarised.
#[tokio::test]
async fn a_model_calls_a_pipeline_in_each_mode_and_in_both_protocols_and_is_told_what_it_has_come_to() {
    let phases = || {
        of!({
            "name": "small",
            "phases": [
                { "name": "one", "agent": "hand", "summary": ["title"] },
                { "name": "two", "agent": "hand", "input": "${phases.one.summary.title}" },
            ],
        })
    };
    for protocol in BOTH {
        let server = TestModel::answering(move |asked| {
            let prompt: Value = serde_json::from_str(&asked.text()).unwrap();
            let step_of = |id: &str, tool: &str, parameters: Value| {
                let mut step = step(id, tool, of!("it is done"));
                step["parameters"] = parameters;
                step
            };
            let steps = [step_of("a", "pipeline.run", phases()), step_of("b", "read", of!({ "n": "b" }))];
            let said = if prompt.get("workspace").is_some() {
                match prompt["step"].as_u64() {
                    Some(0) => act("pipeline.run", phases(), true),
                    _ => act("read", of!({ "n": "b" }), false),
                }
            } else if let Some(step) = prompt.pointer("/adherenceCheck/planStep") {
                keeps_to(step["tool"].as_str().unwrap(), step["parameters"].clone())
            } else if prompt["step"] == 0 {
                plan(&steps, "pipeline.run", phases())
            } else {
                of!({
                    "nextAction": { "tool": "read", "parameters": { "n": "b" }, "stepIndex": 1 },
                    "replanRequired": false, "reasoning": "", "confidence": 1,
                })
            };
            Turn::say(said.to_string())
        })
        .await;
        let (harness, worker) = harness(&server, protocol, "").await;
        let serving = tokio::spawn(serve(worker));
        let mut hand = harness.worker("hand", &["hand"]).await;
        for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
            let tool = |name: &str| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() };
            let run = v1::ModeRun { tools: vec![tool("pipeline.run"), tool("read")], ..in_mode(mode) };
            let run = try_start(&harness, run).await.unwrap();
            if mode == ExecutionMode::Supervised {
                answer(&harness, &run, "approve", None).await.unwrap();
            }
            let first = hand.assignment().await;
            let child = harness.get(&first.lease.run_id).await;
            assert_eq!((child.kind(), child.parent.unwrap().run_id), (v1::RunKind::Pipeline, run.clone()));
            hand.complete(&first.lease, crate::support::json(of!({ "title": "whales", "pages": 9 }))).await;
            let second = hand.assignment().await;
            assert_eq!(second.lease.run_id, first.lease.run_id);
            assert_eq!(crate::modes::read(second.assignment.input.as_ref()), "whales");
            hand.complete(&second.lease, crate::support::json(of!("done"))).await;
            let result = harness.wait(&run).await;
            assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{protocol:?} {mode:?}: {result:?}");
            // The planner of the modes that tell a result was told this one.
            if mode != ExecutionMode::Supervised {
                let asked = server.asked();
                let last: Value = serde_json::from_str(&asked.last().unwrap().text()).unwrap();
                let told = &last["lastResult"];
                assert_eq!((&told["tool"], &told["error"]), (&of!("pipeline.run"), &Value::Null), "{last}");
                assert_eq!(told["output"]["outcome"], "succeeded", "{last}");
            }
        }
        serving.abort();
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn a_server_that_says_the_key_back_as_its_answer_is_not_believed_with_it() {
    let server = TestModel::answering(|asked| match asked.text().as_str() {
        "stall" => Turn::stall_after(format!("you sent {SECRET}, you sent {SECRET}"), 5),
        _ => Turn::say(format!("you sent {SECRET}!")),
    })
    .await;
    for protocol in BOTH {
        let (harness, _worker) = harness(&server, protocol, "").await;
        let mut plan = one_wave(&["writer"]);
        plan.waves[0].tasks[0].input = Some(crate::support::json(of!("hello")));
        let run = harness.start_run(plan.clone()).await;
        let result = harness.wait(&run).await;
        let said = format!("you sent {}!", "*".repeat(SECRET.len()));
        let output = result.tasks[0].output.clone().unwrap().data;
        assert_eq!(output, Some(v1::payload::Data::Inline(said.into())));
        // What has come when its time is over is shown and kept as far as it is no part of the key.
        plan.waves[0].tasks[0].input = Some(crate::support::json(of!("stall")));
        plan.waves[0].tasks[0].timeouts =
            Some(v1::TimeoutPolicy { timeout_ms: Some(500), ..v1::TimeoutPolicy::default() });
        let run = harness.start_run(plan).await;
        assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
        let log = format!("{:?}", harness.export(&run).await);
        assert!(log.contains("you sent") && !log.contains("sk-secret"), "{log}");
        is_nowhere(harness).await;
    }
}

#[tokio::test]
async fn what_a_planner_has_said_so_far_is_seen_while_it_goes_on() {
    let said = act("read", of!({ "n": "a" }), false).to_string();
    for protocol in BOTH {
        // Four pieces of eight characters, and then nothing.
        let stalling = said.clone();
        let server = TestModel::answering(move |_| Turn::stall_after(stalling.clone(), 4)).await;
        let (harness, _worker) = harness(&server, protocol, "").await;
        let run = try_start(&harness, in_mode(ExecutionMode::Simple)).await.unwrap();
        let mut frames = crate::health::Frames::of(&harness, &run).await;
        let whole = said.chars().take(32).collect::<String>();
        let shown = frames.until(|frame| frame.partial_tail.as_deref() == Some(&whole)).await;
        assert_eq!((shown.wave, shown.task, shown.fraction), (0, 0, None));
        assert_eq!(harness.get(&run).await.waves[0].tasks[0].name, "planner.0");
        let cancel =
            v1::CancelRunRequest { run_id: run.clone(), request_id: "c".to_owned(), ..Default::default() };
        harness.runs.clone().cancel_run(cancel).await.unwrap();
        assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Cancelled);
        is_nowhere(harness).await;
    }
}
