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
async fn approves(told: Told<'_>, folder: &Path) {
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
            let ended = kills.execution(request, async |told| approves(told, folder).await).await;
            assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
            each_once(folder, &queries);
            assert_eq!(answered(&ended), prompts(mode), "each prompt has one answer");
            // What was asked again is what was asked before.
            let texts: BTreeSet<String> = server.asked()[asked_before..].iter().map(Asked::text).collect();
            assert_eq!(texts.len(), prompts(mode), "{texts:?}");
        }
    }
}
