//! Tools of executions over a real socket: asks as tools, tools that hang, and results that are too large (seed 004;
//! CONTRACTS §5).

use capataz_contracts::v1::{self, ExecutionMode, connect_response::Frame as Hear};
use capataz_daemon::{Config, ProcessAgent};
use capataz_hosts::commands::{Kind, OutputFormat, ShimCommand};
use serde_json::{Value, json as of};

use crate::modes::{
    act, answer, execution, gives, join, keeps_to, plan, plans, question, read, step, try_start,
};
use crate::support::asks::{answer_to, request_of, with_specs};
use crate::support::{Harness, json, shim};

fn tool(name: &str) -> v1::ModeTool {
    v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() }
}

fn with_tool(tool: v1::ModeTool) -> v1::ModeRun {
    v1::ModeRun { tools: vec![tool], ..execution("tidy up") }
}

/// What the run has come to.
async fn output(harness: &Harness, run: &str) -> v1::Payload {
    let result = harness.wait(run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let Some(v1::run_result::Work::Mode(mode)) = result.work else { panic!() };
    mode.output.unwrap()
}

#[tokio::test]
async fn a_call_of_router_ask_is_an_ask_under_its_parent_and_the_planner_is_told_the_answer() {
    let harness = Harness::start_with(with_specs(&["wave", "tide"])).await;
    let mut worker = join(&harness).await;
    let mut specs = harness.worker("specs", &["wave", "tide"]).await;
    let run = try_start(&harness, with_tool(tool("router.ask"))).await.unwrap();
    // A spec that is named.
    plans(&mut worker, &act("router.ask", of!({ "text": "what is it?", "spec": "tide" }), true)).await;
    let asked = specs.assignment().await;
    let request = request_of(&asked);
    assert_eq!((&request["text"], &request["spec"]), (&of!("what is it?"), &of!("tide")));
    let child = harness.get(&asked.lease.run_id).await;
    assert_eq!((child.kind(), child.parent.unwrap().run_id), (v1::RunKind::Ask, run.clone()));
    let answered = answer_to(&request, "It rises.");
    specs.complete(&asked.lease, json(answered.clone())).await;
    // One that the router finds.
    let next = act("router.ask", of!({ "text": "about wave" }), false);
    let prompt = plans(&mut worker, &next).await;
    let last = &prompt["lastResult"];
    assert_eq!((&last["tool"], &last["error"]), (&of!("router.ask"), &Value::Null));
    assert_eq!(
        (&last["output"]["outcome"], &last["output"]["ask"]["spec"]),
        (&of!("succeeded"), &of!("tide"))
    );
    assert_eq!(last["output"]["ask"]["response"], answered, "{last}");
    let asked = specs.assignment().await;
    let request = request_of(&asked);
    assert_eq!(request["spec"], "wave");
    specs.complete(&asked.lease, json(answer_to(&request, "It breaks."))).await;
    let told = read(Some(&output(&harness, &run).await));
    assert_eq!(told["ask"]["response"]["response"]["text"], "It breaks.", "{told}");
    assert_eq!(harness.run_count().await, 3);
}

#[tokio::test]
async fn a_spec_that_refuses_is_a_failed_call_with_its_code() {
    let harness = Harness::start_with(with_specs(&["wave"])).await;
    let mut worker = join(&harness).await;
    let mut specs = harness.worker("specs", &["wave"]).await;
    let run = try_start(&harness, with_tool(tool("router.ask"))).await.unwrap();
    let ask = || act("router.ask", of!({ "text": "what is it?" }), true);
    plans(&mut worker, &ask()).await;
    for count in 1..=3 {
        let asked = specs.assignment().await;
        let refusal =
            crate::support::asks::failure_of(&request_of(&asked), "CAPABILITY_NOT_SUPPORTED", false, None);
        specs.complete(&asked.lease, json(refusal)).await;
        if count < 3 {
            let prompt = plans(&mut worker, &ask()).await;
            assert_eq!(prompt["lastResult"]["error"]["code"], "CAPABILITY_NOT_SUPPORTED", "{prompt}");
            assert_eq!(prompt["errorCount"], count);
        }
    }
    // Three in a row.
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(result.error.unwrap().code, "TOO_MANY_ERRORS");
}

#[tokio::test]
async fn what_is_no_ask_is_no_answer_of_a_planner_and_asks_nobody() {
    let harness = Harness::start_with(with_specs(&["wave"])).await;
    let mut worker = join(&harness).await;
    let long = "s".repeat(129);
    let wrong = [
        (of!({}), vec![""]),
        (of!({ "text": "" }), vec!["/text"]),
        (of!({ "text": 7 }), vec!["/text"]),
        (of!({ "text": "x", "session": "mine" }), vec!["/session"]),
        // What passes the schema, and is no ask: all of it is told.
        (of!({ "text": " \n", "spec": long }), vec!["/text", "/spec"]),
        (of!({ "text": "x".repeat(17 * 1024) }), vec!["/text"]),
    ];
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        let run = v1::ModeRun { mode: Some(mode.into()), ..with_tool(tool("router.ask")) };
        let retry = v1::RetryPolicy { delays_ms: vec![0; 5], ..v1::RetryPolicy::default() };
        let run = try_start(&harness, v1::ModeRun { retry: Some(retry), ..run }).await.unwrap();
        let mut asks = step("a", "router.ask", of!("any"));
        asks["parameters"] = of!({ "text": "hello" });
        let planned = [asks];
        let (at, say): (_, Box<dyn Fn(Value) -> Value>) = match mode {
            ExecutionMode::Simple => ("/action", Box::new(|ask| act("router.ask", ask, true))),
            ExecutionMode::Planner => ("/nextAction", Box::new(move |ask| plan(&planned, "router.ask", ask))),
            _ => {
                plans(&mut worker, &plan(&planned, "router.ask", of!({ "text": "hello" }))).await;
                answer(&harness, &run, "approve", None).await.unwrap();
                ("/nextAction", Box::new(|ask| keeps_to("router.ask", ask)))
            }
        };
        let mut asked = worker.assignment().await;
        for (place, (parameters, paths)) in wrong.iter().enumerate() {
            worker.complete(&asked.lease, json(say(parameters.clone()))).await;
            if place + 1 == wrong.len() {
                break;
            }
            asked = worker.assignment().await;
            let correction = read(asked.assignment.input.as_ref())["correction"].clone();
            let told = correction["violations"].as_array().unwrap();
            let told: Vec<&str> = told.iter().map(|violation| violation["path"].as_str().unwrap()).collect();
            let expected: Vec<String> = paths.iter().map(|path| format!("{at}/parameters{path}")).collect();
            assert_eq!(told, expected, "{mode:?}: {correction}");
        }
        match mode {
            ExecutionMode::Supervised => {
                let asked = question(&harness, &run).await;
                assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation);
                answer(&harness, &run, "abort", None).await.unwrap();
                harness.wait(&run).await;
            }
            _ => {
                let result = harness.wait(&run).await;
                assert_eq!(result.outcome(), v1::RunOutcome::Failed);
                let error = result.error.unwrap();
                assert_eq!(error.cause.unwrap().code, "VALIDATION_ERROR", "{mode:?}");
            }
        }
    }
    assert_eq!(harness.run_count().await, 3, "no ask was ever made");
}

#[tokio::test]
async fn an_ask_of_a_spec_that_is_not_there_fails_as_a_call_where_no_other_can_answer() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, with_tool(tool("router.ask"))).await.unwrap();
    let named = || act("router.ask", of!({ "text": "hello", "spec": "gone" }), true);
    let routed = || act("router.ask", of!({ "text": "hello" }), true);
    plans(&mut worker, &named()).await;
    for said in ["there is no spec \"gone\"", "no specs are loaded"] {
        let prompt = plans(&mut worker, &routed()).await;
        let error = &prompt["lastResult"]["error"];
        assert_eq!(error["code"], "SPEC_NOT_AVAILABLE", "{prompt}");
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
        assert_eq!(prompt["lastResult"]["output"]["outcome"], "failed");
    }
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    assert_eq!(result.error.unwrap().code, "TOO_MANY_ERRORS", "three in a row");
}

#[tokio::test]
async fn an_ask_of_a_spec_that_is_not_there_falls_back_to_the_default_at_once() {
    let harness = Harness::start_with(with_specs(&["wave"])).await;
    let mut worker = join(&harness).await;
    let mut specs = harness.worker("specs", &["wave"]).await;
    let run = try_start(&harness, with_tool(tool("router.ask"))).await.unwrap();
    plans(&mut worker, &act("router.ask", of!({ "text": "hello", "spec": "gone" }), false)).await;
    let asked = specs.assignment().await;
    let request = request_of(&asked);
    assert_eq!(request["spec"], "wave");
    specs.complete(&asked.lease, json(answer_to(&request, "Hello."))).await;
    let told = read(Some(&output(&harness, &run).await));
    let calls = told["ask"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!((&calls[0]["spec"], &calls[0]["error"]["code"]), (&of!("gone"), &of!("SPEC_NOT_AVAILABLE")));
    assert_eq!((&calls[1]["spec"], &calls[1]["reason"]), (&of!("wave"), &of!("fallback")));
}

/// A command as a tool that changes nothing.
fn command(name: &str, script: &str) -> ProcessAgent {
    let mut agent = ProcessAgent::new(name, ["sh", "-c", script].map(str::to_owned).to_vec());
    agent.kind = Kind::Tool;
    agent.undoable = true;
    agent.output = OutputFormat::Json;
    agent
}

fn with_commands(commands: Vec<ProcessAgent>) -> impl FnOnce(&mut Config) {
    move |config| {
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        config.agents = commands;
    }
}

#[tokio::test]
async fn a_tool_that_hangs_is_ended_by_its_own_limits_and_the_planner_is_told() {
    let hangs = command("deaf", "trap '' TERM; while :; do sleep 1; done");
    let harness = Harness::start_with(with_commands(vec![hangs])).await;
    let mut worker = join(&harness).await;
    let limits = v1::TimeoutPolicy { timeout_ms: Some(300), grace_ms: Some(200), schedule_to_start_ms: None };
    let limited = |name: &str| v1::ModeTool { timeouts: Some(limits), ..tool(name) };
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner] {
        let tools = vec![limited("deaf"), limited("read"), tool("send")];
        let run = v1::ModeRun { mode: Some(mode.into()), tools, ..execution("tidy up") };
        let run = try_start(&harness, run).await.unwrap();
        let next = |name: &str| match mode {
            ExecutionMode::Simple => act(name, of!({ "to": "you" }), name != "send"),
            _ => plan(&[step(name, name, of!("any"))], name, of!({ "to": "you" })),
        };
        // A command that does not listen.
        plans(&mut worker, &next("deaf")).await;
        let told = |prompt: &Value, name: &str| {
            assert_eq!(prompt["lastResult"]["tool"], name);
            assert_eq!(prompt["lastResult"]["error"]["code"], "TASK_TIMEOUT", "{prompt}");
            // The two limits, less what clocks round.
            assert!(prompt["lastResult"]["durationMs"].as_i64().unwrap() >= 299, "{prompt}");
        };
        // A worker that says nothing.
        let prompt = plans(&mut worker, &next("read")).await;
        told(&prompt, "deaf");
        let called = worker.assignment().await;
        assert_eq!(called.assignment.agent, "read");
        worker
            .hear_until(|frame| match frame {
                Hear::Cancel(cancel) => (cancel.lease.as_ref() == Some(&called.lease)).then_some(()),
                _ => None,
            })
            .await;
        let prompt = plans(&mut worker, &next("send")).await;
        told(&prompt, "read");
        // In the mode `planner` the plan was made anew in between, which begins the count anew.
        assert_eq!(prompt["errorCount"], if mode == ExecutionMode::Simple { 2 } else { 1 });
        assert_eq!(harness.get(&run).await.questions, [], "nobody is asked: the planner decides");
        gives(&mut worker, "send", of!("sent")).await;
        assert_eq!(read(Some(&output(&harness, &run).await)), "sent");
    }
}

#[tokio::test]
async fn a_tool_that_hangs_in_an_approved_plan_is_ended_and_a_person_says_whether_it_is_called_again() {
    let hangs = command("deaf", "trap '' TERM; while :; do sleep 1; done");
    let harness = Harness::start_with(with_commands(vec![hangs])).await;
    let mut worker = join(&harness).await;
    let limits = v1::TimeoutPolicy { timeout_ms: Some(300), grace_ms: Some(200), schedule_to_start_ms: None };
    let limited = |name: &str| v1::ModeTool { timeouts: Some(limits), ..tool(name) };
    for name in ["deaf", "read"] {
        let mode = Some(ExecutionMode::Supervised.into());
        let run = v1::ModeRun { mode, tools: vec![limited(name)], ..execution("tidy up") };
        let run = try_start(&harness, run).await.unwrap();
        plans(&mut worker, &plan(&[step("a", name, of!("any"))], name, of!({ "n": "a" }))).await;
        answer(&harness, &run, "approve", None).await.unwrap();
        plans(&mut worker, &keeps_to(name, of!({ "n": "a" }))).await;
        if name == "read" {
            // A worker that says nothing.
            let called = worker.assignment().await;
            worker
                .hear_until(|frame| match frame {
                    Hear::Cancel(cancel) => (cancel.lease.as_ref() == Some(&called.lease)).then_some(()),
                    _ => None,
                })
                .await;
        }
        let asked = question(&harness, &run).await;
        assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation);
        assert!(asked.text.starts_with("1.00 of the results miss what was expected"), "{}", asked.text);
        assert_eq!(asked.error.unwrap().code, "TASK_TIMEOUT");
        answer(&harness, &run, "continue", None).await.unwrap();
        let prompt = plans(&mut worker, &keeps_to(name, of!({ "n": "a" }))).await;
        assert_eq!(prompt["adherenceCheck"]["currentStep"], 0, "the step is still to be done: {prompt}");
        if name == "read" {
            gives(&mut worker, name, of!("at last")).await;
            assert_eq!(read(Some(&output(&harness, &run).await)), "at last");
            continue;
        }
        let again = question(&harness, &run).await;
        assert_eq!(again.error.unwrap().code, "TASK_TIMEOUT");
        answer(&harness, &run, "abort", None).await.unwrap();
        let result = harness.wait(&run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Failed);
        assert_eq!(result.error.unwrap().code, "TASK_TIMEOUT");
    }
}

#[tokio::test]
async fn a_call_that_may_be_made_once_and_hangs_is_ended_and_told_as_any_other() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let limits = v1::TimeoutPolicy { timeout_ms: Some(300), grace_ms: Some(200), schedule_to_start_ms: None };
    let run = with_tool(v1::ModeTool { timeouts: Some(limits), ..tool("send") });
    let run = try_start(&harness, run).await.unwrap();
    plans(&mut worker, &act("send", of!({ "to": "you" }), true)).await;
    let called = worker.assignment().await;
    assert_eq!(called.assignment.agent, "send");
    let prompt = plans(&mut worker, &act("send", of!({ "to": "them" }), false)).await;
    assert_eq!(prompt["lastResult"]["error"]["code"], "TASK_TIMEOUT", "{prompt}");
    // What the worker says now is too late.
    worker.complete(&called.lease, json(of!("late"))).await;
    assert_eq!(gives(&mut worker, "send", of!("sent")).await, of!({ "to": "them" }));
    assert_eq!(read(Some(&output(&harness, &run).await)), "sent");
    let refused = harness.export(&run).await.into_iter().filter_map(|event| event.body);
    assert_eq!(refused.filter(|body| matches!(body, v1::event::Body::ResultRefused(_))).count(), 1);
}

#[tokio::test]
async fn a_planner_that_hangs_is_ended_by_the_limits_of_its_run_and_only_supervised_asks_a_person() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let limits = v1::TimeoutPolicy { timeout_ms: Some(300), grace_ms: Some(200), schedule_to_start_ms: None };
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        let run = v1::ModeRun { mode: Some(mode.into()), timeouts: Some(limits), ..with_tool(tool("read")) };
        let run = try_start(&harness, run).await.unwrap();
        let asked = worker.assignment().await;
        assert_eq!(asked.assignment.agent, "brain");
        if mode == ExecutionMode::Supervised {
            let asked = question(&harness, &run).await;
            assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation);
            answer(&harness, &run, "abort", None).await.unwrap();
            assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
            continue;
        }
        let result = harness.wait(&run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Failed, "{mode:?}");
        assert_eq!(result.error.unwrap().code, "TASK_TIMEOUT", "{mode:?}");
        assert_eq!(harness.get(&run).await.questions, [], "{mode:?}");
    }
}

#[tokio::test]
async fn a_command_that_writes_50_mb_fails_its_call_and_the_planner_goes_on() {
    let floods = command("flood", "head -c 50000000 /dev/zero");
    let harness = Harness::start_with(with_commands(vec![floods])).await;
    let mut worker = join(&harness).await;
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        let tools = vec![tool("flood"), tool("read")];
        let run = v1::ModeRun { mode: Some(mode.into()), tools, ..execution("tidy up") };
        let run = try_start(&harness, run).await.unwrap();
        let planned = |name: &str| plan(&[step(name, name, of!("any"))], name, of!({ "n": name }));
        match mode {
            ExecutionMode::Simple => {
                plans(&mut worker, &act("flood", of!({}), true)).await;
                let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
                is_told_of_the_flood(&prompt);
            }
            ExecutionMode::Planner => {
                plans(&mut worker, &planned("flood")).await;
                // The plan is made anew.
                let prompt = plans(&mut worker, &planned("read")).await;
                is_told_of_the_flood(&prompt);
                assert_eq!(prompt["deviationAnalysis"]["impactedSteps"], of!([0]));
            }
            _ => {
                let steps = [step("flood", "flood", of!("any")), step("read", "read", of!("any"))];
                plans(&mut worker, &plan(&steps, "flood", of!({ "n": "flood" }))).await;
                answer(&harness, &run, "approve", None).await.unwrap();
                plans(&mut worker, &keeps_to("flood", of!({ "n": "flood" }))).await;
                let asked = question(&harness, &run).await;
                assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation);
                assert_eq!(asked.error.unwrap().code, "OUTPUT_TOO_LARGE");
            }
        }
        if mode == ExecutionMode::Supervised {
            answer(&harness, &run, "abort", None).await.unwrap();
            let result = harness.wait(&run).await;
            assert_eq!(result.outcome(), v1::RunOutcome::Failed);
            assert_eq!(result.error.unwrap().code, "OUTPUT_TOO_LARGE");
        } else {
            gives(&mut worker, "read", of!(1)).await;
            assert_eq!(read(Some(&output(&harness, &run).await)), 1, "{mode:?}");
        }
        // Nothing of it is kept.
        let bytes: usize = harness.export(&run).await.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes < 100_000, "{mode:?}: {bytes}");
    }
}

fn is_told_of_the_flood(prompt: &Value) {
    let last = &prompt["lastResult"];
    assert_eq!((&last["tool"], &last["output"]), (&of!("flood"), &Value::Null));
    assert_eq!(last["error"]["code"], "OUTPUT_TOO_LARGE", "{prompt}");
}

#[tokio::test]
async fn a_large_result_reaches_the_planner_as_its_size_and_the_caller_in_whole() {
    // 100,000 letters and two quotes.
    let large = command("large", r#"printf '"'; head -c 100000 /dev/zero | tr '\0' x; printf '"'"#);
    let harness = Harness::start_with(with_commands(vec![large])).await;
    let mut worker = join(&harness).await;
    let tools = vec![tool("large"), tool("read")];
    let run = try_start(&harness, v1::ModeRun { tools, ..execution("tidy up") }).await.unwrap();
    plans(&mut worker, &act("large", of!({}), true)).await;
    let prompt = plans(&mut worker, &act("read", of!({}), true)).await;
    assert_eq!(prompt["lastResult"]["output"], of!({ "omitted": true, "bytes": 100_002 }));
    assert_eq!(prompt["lastResult"]["error"], Value::Null);
    // With its quotes 16 KiB: the longest that is told in whole. One more is not.
    let longest = "y".repeat(16 * 1024 - 2);
    gives(&mut worker, "read", of!(longest)).await;
    let prompt = plans(&mut worker, &act("read", of!({}), true)).await;
    assert_eq!(prompt["lastResult"]["output"], of!(longest));
    gives(&mut worker, "read", of!(format!("{longest}y"))).await;
    let prompt = plans(&mut worker, &act("large", of!({}), false)).await;
    assert_eq!(prompt["lastResult"]["output"], of!({ "omitted": true, "bytes": 16_385 }));
    let output = output(&harness, &run).await;
    let Some(v1::payload::Data::Blob(blob)) = output.data else { panic!("{output:?}") };
    assert_eq!((blob.size, &*output.media_type), (100_002, "application/json"));
}
