//! Executions whose planner is a language model, and whose daemon is killed with SIGKILL while the model is asked: it is asked
//! the same again, and no tool is called twice (seed 004; CONTRACTS §5). The model's server outlives the daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::served::Served;
use crate::served::kills::{Ended, Kills, PATIENCE, Told, journal, kinds, noting, of_restarts};
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body};
use capataz_testmodel::{Asked, Protocol, TestModel, Turn};
use serde_json::{Value, json};

const BOTH: [Protocol; 2] = [Protocol::OpenAi, Protocol::Anthropic];
const MODES: [ExecutionMode; 3] = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];

fn config(folder: &Path, server: &TestModel, protocol: Protocol) -> String {
    let name = match protocol {
        Protocol::OpenAi => "openai",
        Protocol::Anthropic => "anthropic",
    };
    format!(
        "[[models]]\nname = \"mind\"\nkind = \"planner\"\nprotocol = \"{name}\"\nbase_url = {:?}\n\
         model = \"test-model\"\n{}{}",
        server.base_url(protocol),
        noting(folder, "first"),
        noting(folder, "second"),
    )
}

fn prompt_of(asked: &Asked) -> Value {
    serde_json::from_str(&asked.text()).unwrap()
}

/// What the model says: the tool `first`, and then the tool `second`. The mode is known by the keys of its prompt.
fn says(asked: &Asked) -> String {
    let prompt = prompt_of(asked);
    let given = json!({ "query": prompt["query"] });
    let step = |tool: &str, needs: &[&str]| {
        json!({
            "id": tool, "description": tool, "tool": tool, "parameters": given, "expected": "it is done",
            "dependsOn": needs,
        })
    };
    let act = |tool: &str, index: usize| json!({ "tool": tool, "parameters": given, "stepIndex": index });
    let answer = if prompt.get("workspace").is_some() {
        let is_first = prompt["step"] == 0;
        json!({
            "action": { "tool": if is_first { "first" } else { "second" }, "parameters": given },
            "reasoning": "one after the other", "continue": is_first, "confidence": 1,
        })
    } else if let Some(step) = prompt.pointer("/adherenceCheck/planStep") {
        json!({
            "decision": "continue", "planAdherence": 1, "reasoning": "as planned", "confidence": 1,
            "nextAction": { "tool": step["tool"], "parameters": given, "justification": "as planned" },
        })
    } else if prompt["currentPlan"].is_object() {
        json!({
            "nextAction": act("second", 1), "replanRequired": false,
            "reasoning": "the plan goes on", "confidence": 1,
        })
    } else {
        json!({
            "planUpdate": {
                "type": "create", "steps": [step("first", &[]), step("second", &["first"])],
                "estimatedTime": 1, "checkpoints": [],
            },
            "nextAction": act("first", 0), "replanRequired": false, "reasoning": "two steps", "confidence": 1,
        })
    };
    answer.to_string()
}

fn request(query: &str, mode: ExecutionMode) -> v1::StartRunRequest {
    v1::StartRunRequest::of_mode(v1::ModeRun {
        query: query.to_owned(),
        mode: Some(mode.into()),
        ..v1::ModeRun::default()
    })
}

/// How often the model is asked: in the mode `supervised` for the plan, and then before each of its steps.
fn prompts(mode: ExecutionMode) -> usize {
    if mode == ExecutionMode::Supervised { 3 } else { 2 }
}

/// A person approves the plan, and looks into the journals where nobody knows what has become of a call.
async fn approves(told: &Told<'_>, folder: &Path) {
    told.answer(|question| match question.purpose() {
        QuestionPurpose::Outcome => told.outcome(folder),
        _ => ("approve", None),
    })
    .await;
}

/// Each tool was at work once for each of these queries.
fn each_once(folder: &Path, queries: &[String]) {
    let expected: Vec<Value> = queries.iter().map(|query| json!({ "query": query })).collect();
    for tool in ["first", "second"] {
        assert_eq!(journal(folder, tool), expected, "{tool}");
    }
}

fn answered(ended: &Ended) -> usize {
    ended.count(|body| matches!(body, Body::PlannerAnswered(_)))
}

/// Each request is left without an answer, the daemon is killed while it waits for one, and the next request is answered.
async fn is_asked_again(protocol: Protocol, mode: ExecutionMode, unanswered: fn(String) -> Turn) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // How often each text was asked.
    let times = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let server = TestModel::answering(move |asked| {
        let mut times = times.lock().unwrap();
        let times = times.entry(asked.text()).or_default();
        *times += 1;
        if *times == 1 { unanswered(says(asked)) } else { Turn::say(says(asked)) }
    })
    .await;
    let mut daemon = Served::start(folder, &config(folder, &server, protocol));
    let run_id = daemon.client().await.start_run(request("write", mode)).await.unwrap().run_id;
    for prompt in 1..=prompts(mode) {
        let in_time = tokio::time::timeout(PATIENCE, server.asked_at_least(2 * prompt - 1));
        assert_eq!(in_time.await.expect("it is asked").len(), 2 * prompt - 1);
        daemon = daemon.kill_and_start();
        let in_time = tokio::time::timeout(PATIENCE, server.asked_at_least(2 * prompt));
        in_time.await.expect("it is asked again");
        if (prompt, mode) == (1, ExecutionMode::Supervised) {
            approve_the_plan(&daemon, &run_id).await;
        }
    }
    let result = daemon.client().await.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{protocol:?} {mode:?}: {:?}", result.error);
    let asked = server.asked();
    assert_eq!(asked.len(), 2 * prompts(mode), "{protocol:?} {mode:?}: each prompt twice");
    for pair in asked.chunks(2) {
        assert_eq!(pair[0].body, pair[1].body, "the same again");
    }
    each_once(folder, &["write".to_owned()]);
}

async fn approve_the_plan(daemon: &Served, run_id: &str) {
    let client = daemon.client().await;
    let filter = v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() };
    let subscribe = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(subscribe);
    let question = loop {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await.expect("a question");
        if let capataz_client::Delivery::Event { event, .. } = next.unwrap().unwrap()
            && let Some(Body::QuestionAsked(asked)) = event.body
        {
            break asked.question.unwrap();
        }
    };
    assert_eq!(question.purpose(), QuestionPurpose::Plan);
    let request = v1::ResolveRequest {
        run_id: run_id.to_owned(),
        question_id: question.question_id,
        answer: "approve".to_owned(),
        ..v1::ResolveRequest::default()
    };
    client.resolve(request).await.unwrap();
}

#[tokio::test]
async fn a_model_that_says_nothing_while_its_daemon_is_killed_is_asked_the_same_again() {
    for protocol in BOTH {
        for mode in MODES {
            is_asked_again(protocol, mode, |_| Turn::stall()).await;
        }
    }
}

#[tokio::test]
async fn a_model_that_has_said_half_of_its_answer_when_its_daemon_is_killed_is_asked_the_same_again() {
    for protocol in BOTH {
        for mode in MODES {
            is_asked_again(protocol, mode, |says| Turn::stall_after(says, 4)).await;
        }
    }
}

#[tokio::test]
async fn an_execution_by_a_model_goes_on_wherever_its_daemon_is_killed() {
    for protocol in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let server = TestModel::answering(|asked| Turn::say(says(asked))).await;
        let mut wanted =
            kinds(&["PlannerAsked", "TaskLeased", "PlannerAnswered", "TaskSettled"], &["planner"]);
        wanted.extend(kinds(
            &["ToolCalled", "TaskLeased", "TaskSettled", "ToolObserved"],
            &["first", "second"],
        ));
        wanted.extend(["RunAccepted", "ModeBegun", "ModeCompleted", "RunFinished"].map(str::to_owned));
        let mut others = of_restarts(&["planner"], &["first", "second"]);
        // Of the executions in the mode `supervised`.
        others
            .extend(["QuestionAsked of plan", "QuestionAnswered of plan", "PlanApproved"].map(str::to_owned));
        let mut kills = Kills::start(folder, &config(folder, &server, protocol), wanted, others);
        let mut queries = Vec::new();
        while kills.go_on() {
            let mode = MODES[kills.round() % 3];
            queries.push(format!("round {}", kills.round()));
            let request = request(&queries[queries.len() - 1], mode);
            let asked_before = server.asked().len();
            let ended = kills.execution(request, async |told| approves(&told, folder).await).await;
            assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
            each_once(folder, &queries);
            assert_eq!(answered(&ended), prompts(mode), "each prompt has one answer");
            // What was asked again is what was asked before.
            let texts: BTreeSet<String> = server.asked()[asked_before..].iter().map(Asked::text).collect();
            assert_eq!(texts.len(), prompts(mode), "{texts:?}");
        }
    }
}

/// What a model says that is wrong at first, each time; and before the first step of an approved plan it wants to wait, as long as
/// the query is none of those of which it is known that they have waited.
fn errs_and_waits(has_waited: &Mutex<BTreeSet<String>>, asked: &Asked) -> Turn {
    let prompt = prompt_of(asked);
    if prompt.get("correction").is_none() {
        return Turn::say(r#"{"action":{"tool":"fly"}}"#);
    }
    let is_first = prompt.pointer("/adherenceCheck/planStep/id").is_some_and(|id| id == "first");
    if is_first && !has_waited.lock().unwrap().contains(prompt["query"].as_str().unwrap()) {
        let waits =
            json!({ "decision": "pause", "planAdherence": 1, "reasoning": "it is early", "confidence": 1 });
        return Turn::say(waits.to_string());
    }
    Turn::say(says(asked))
}

#[tokio::test]
async fn what_a_model_says_wrong_goes_back_once_and_its_pause_is_ended_once_wherever_its_daemon_is_killed() {
    for protocol in BOTH {
        for mode in MODES {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let has_waited = Arc::new(Mutex::new(BTreeSet::new()));
            let known = Arc::clone(&has_waited);
            let server = TestModel::answering(move |asked| errs_and_waits(&known, asked)).await;
            let mut wanted = kinds(&["OutputRejected", "TaskAttemptFailed", "PlannerAnswered"], &["planner"]);
            if mode == ExecutionMode::Supervised {
                wanted.extend(["RunPaused", "RunResumed"].map(str::to_owned));
            }
            let mut kills = Kills::only_at(folder, &config(folder, &server, protocol), wanted);
            let mut queries = Vec::new();
            while kills.go_on() {
                queries.push(format!("round {}", kills.round()));
                let mut request = request(&queries[queries.len() - 1], mode);
                if let Some(v1::start_run_request::Work::Mode(run)) = &mut request.work {
                    run.retry =
                        Some(v1::RetryPolicy { delays_ms: vec![0, 0, 0], ..v1::RetryPolicy::default() });
                }
                let query = queries[queries.len() - 1].clone();
                let person = async |told: Told<'_>| {
                    approves(&told, folder).await;
                    if matches!(told.body, Body::RunPaused(_)) {
                        has_waited.lock().unwrap().insert(query.clone());
                        let resume = v1::ResumeRunRequest {
                            run_id: told.run_id.to_owned(),
                            request_id: "go on".to_owned(),
                            ..v1::ResumeRunRequest::default()
                        };
                        told.client.resume_run(resume).await.unwrap();
                    }
                };
                let ended = kills.execution(request, person).await;
                let what = format!("{protocol:?} {mode:?}");
                assert_eq!(
                    ended.result.outcome(),
                    v1::RunOutcome::Succeeded,
                    "{what}: {:?}",
                    ended.result.error
                );
                each_once(folder, &queries);
                let pauses = usize::from(mode == ExecutionMode::Supervised);
                assert_eq!(ended.count(|body| matches!(body, Body::RunPaused(_))), pauses, "{what}");
                assert_eq!(ended.count(|body| matches!(body, Body::RunResumed(_))), pauses, "{what}");
                // The pause is an answer, and the prompt after it another one.
                assert_eq!(answered(&ended), prompts(mode) + pauses, "{what}");
                let rejected = ended.count(|body| matches!(body, Body::OutputRejected(_)));
                assert_eq!(rejected, prompts(mode) + pauses, "{what}: each prompt was answered wrong once");
            }
        }
    }
}

/// Before the first step of an approved plan it wants other words than those of the plan, until a person has said what becomes of
/// that.
fn departs(asked: &Asked) -> String {
    let mut answer: Value = serde_json::from_str(&says(asked)).unwrap();
    let prompt = prompt_of(asked);
    let is_first = prompt.pointer("/adherenceCheck/planStep/id").is_some_and(|id| id == "first");
    if is_first && prompt["escalationHistory"] == json!([]) {
        answer["nextAction"]["parameters"] = json!({ "query": "something else" });
    }
    answer.to_string()
}

#[tokio::test]
async fn a_call_that_departs_from_the_plan_and_is_rejected_is_never_made_wherever_the_daemon_is_killed() {
    for protocol in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let server = TestModel::answering(|asked| Turn::say(departs(asked))).await;
        let wanted = [
            "QuestionAsked of tool",
            "QuestionAnswered of tool",
            "ToolObserved of planner",
            "QuestionAsked of escalation",
            "EscalationAnswered",
        ];
        let wanted = wanted.map(str::to_owned).to_vec();
        let mut kills = Kills::only_at(folder, &config(folder, &server, protocol), wanted);
        let mut queries = Vec::new();
        while kills.go_on() {
            queries.push(format!("round {}", kills.round()));
            let tool = |name: &str| v1::ModeTool {
                name: name.to_owned(),
                needs_approval: name == "first",
                ..v1::ModeTool::default()
            };
            let request = v1::StartRunRequest::of_mode(v1::ModeRun {
                query: queries[queries.len() - 1].clone(),
                mode: Some(ExecutionMode::Supervised.into()),
                tools: vec![tool("first"), tool("second")],
                ..v1::ModeRun::default()
            });
            let person = async |told: Told<'_>| {
                told.answer(|question| match question.purpose() {
                    QuestionPurpose::Plan => ("approve", None),
                    QuestionPurpose::Tool => ("reject", None),
                    QuestionPurpose::Escalation => ("continue", None),
                    _ => told.outcome(folder),
                })
                .await;
            };
            let ended = kills.execution(request, person).await;
            assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
            assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 2);
            let rejected = ended.count(|body| match body {
                Body::ToolObserved(seen) => {
                    seen.error.as_ref().is_some_and(|error| error.code == "TOOL_REJECTED")
                }
                _ => false,
            });
            assert_eq!(rejected, 1);
            // By the words of the plan: `something else` is nowhere.
            each_once(folder, &queries);
        }
    }
}
