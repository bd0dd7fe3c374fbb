//! Execution modes over a real socket: planners and tools are workers, contracts are judged, the choice of a session stays
//! (seed 004; CONTRACTS §5).

use capataz_contracts::v1::mode_service_client::ModeServiceClient;
use capataz_contracts::v1::{self, AgentKind, ExecutionMode, payload::Data};
use serde_json::{Value, json as of};
use tonic::Status;

use crate::support::{Harness, PATIENCE, Worker, code_of, json, paths_of};

/// A planner and its tools, served by one worker: `read` can be undone, `send` cannot and wants a text, `ask` is approved by a
/// person.
fn crew() -> v1::Hello {
    let agent = |name: &str, kind: AgentKind| v1::Agent {
        name: name.to_owned(),
        category: "modes".to_owned(),
        kind: kind.into(),
        contract_version: "1.0.0".to_owned(),
        max_concurrency: 10,
        ..v1::Agent::default()
    };
    let send = v1::Agent {
        input_schema: r##"{"$id":"urn:send","type":"object","required":["to"],"properties":{"to":{"$ref":"#/$defs/name"}},"$defs":{"name":{"type":"string"}}}"##.to_owned(),
        ..agent("send", AgentKind::Tool)
    };
    v1::Hello {
        worker_id: "crew".to_owned(),
        agents: vec![
            agent("brain", AgentKind::Planner),
            v1::Agent { undoable: true, ..agent("read", AgentKind::Tool) },
            send,
            v1::Agent { undoable: true, needs_approval: true, ..agent("ask", AgentKind::Tool) },
        ],
        slots: 100,
        protocol: 1,
        ..v1::Hello::default()
    }
}

pub async fn join(harness: &Harness) -> Worker {
    Worker::with_hello(harness.channel.clone(), crew()).await.unwrap()
}

pub fn execution(query: &str) -> v1::ModeRun {
    v1::ModeRun { query: query.to_owned(), ..v1::ModeRun::default() }
}

fn in_mode(mode: ExecutionMode) -> v1::ModeRun {
    v1::ModeRun { mode: Some(mode.into()), ..execution("tidy up") }
}

pub async fn try_start(harness: &Harness, run: v1::ModeRun) -> Result<String, Status> {
    let request = v1::StartRunRequest::of_mode(run);
    Ok(harness.runs.clone().start_run(request).await?.into_inner().run_id)
}

pub fn modes(harness: &Harness) -> ModeServiceClient<tonic::transport::Channel> {
    ModeServiceClient::new(harness.channel.clone())
}

pub async fn stands(harness: &Harness, run: &str) -> v1::ExecutionState {
    let request = v1::GetExecutionRequest { run_id: run.to_owned(), ..v1::GetExecutionRequest::default() };
    modes(harness).get_execution(request).await.unwrap().into_inner().state.unwrap()
}

pub fn read(input: Option<&v1::Payload>) -> Value {
    match input.and_then(|input| input.data.as_ref()) {
        Some(Data::Inline(text)) => serde_json::from_slice(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The planner is asked, and answers this. Its prompt.
pub async fn plans(worker: &mut Worker, answer: &Value) -> Value {
    let asked = worker.assignment().await;
    assert_eq!(asked.assignment.agent, "brain");
    worker.complete(&asked.lease, json(answer.clone())).await;
    read(asked.assignment.input.as_ref())
}

/// The tool is called, and gives this back. What it was given.
pub async fn gives(worker: &mut Worker, tool: &str, output: Value) -> Value {
    let called = worker.assignment().await;
    assert_eq!(called.assignment.agent, tool);
    worker.complete(&called.lease, json(output)).await;
    read(called.assignment.input.as_ref())
}

pub async fn question(harness: &Harness, run: &str) -> v1::Question {
    let asked = async {
        loop {
            let questions = harness.get(run).await.questions;
            if let Some(open) = questions.into_iter().find(|question| question.answer.is_none()) {
                return open;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("a question in time")
}

pub async fn answer(harness: &Harness, run: &str, option: &str, value: Option<Value>) -> Result<(), Status> {
    let question = question(harness, run).await;
    let request = v1::ResolveRequest {
        run_id: run.to_owned(),
        question_id: question.question_id.clone(),
        answer: option.to_owned(),
        request_id: format!("{option} {}", question.question_id),
        value: value.map(json),
        ..v1::ResolveRequest::default()
    };
    harness.runs.clone().resolve(request).await.map(drop)
}

pub fn act(tool: &str, parameters: Value, goes_on: bool) -> Value {
    of!({
        "action": { "tool": tool, "parameters": parameters },
        "reasoning": "because", "continue": goes_on, "confidence": 0.5,
    })
}

pub fn step(id: &str, tool: &str, expected: Value) -> Value {
    of!({ "id": id, "description": id, "tool": tool, "parameters": { "n": id }, "expected": expected, "dependsOn": [] })
}

pub fn plan(steps: &[Value], tool: &str, parameters: Value) -> Value {
    of!({
        "planUpdate": { "type": "create", "steps": steps, "estimatedTime": 1, "checkpoints": [] },
        "nextAction": { "tool": tool, "parameters": parameters, "stepIndex": 0 },
        "replanRequired": false, "reasoning": "because", "confidence": 1,
    })
}

pub fn keeps_to(tool: &str, parameters: Value) -> Value {
    of!({
        "decision": "continue",
        "nextAction": { "tool": tool, "parameters": parameters, "justification": "as planned" },
        "planAdherence": 1, "reasoning": "next", "confidence": 1,
    })
}

// S004-CO-01, S004-SI-01, S004-SI-02
#[tokio::test]
async fn simple_asks_the_only_planner_and_calls_the_tools_that_are_there() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, execution("tidy up")).await.unwrap();
    let prompt = plans(&mut worker, &act("read", of!({ "path": "a" }), true)).await;
    assert_eq!(
        prompt,
        of!({ "query": "tidy up", "memory": [], "workspace": [], "step": 0, "errorCount": 0 })
    );
    assert_eq!(gives(&mut worker, "read", of!({ "lines": 3 })).await, of!({ "path": "a" }));
    let prompt = plans(&mut worker, &act("send", of!({ "to": "you" }), false)).await;
    assert_eq!(prompt["lastResult"]["output"], of!({ "lines": 3 }));
    assert_eq!(prompt["step"], 1);
    gives(&mut worker, "send", of!("sent")).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let Some(v1::run_result::Work::Mode(mode)) = result.work else { panic!() };
    assert_eq!(read(mode.output.as_ref()), "sent");
    let state = mode.state.unwrap();
    assert_eq!((state.mode(), state.step, &*state.execution_state), (ExecutionMode::Simple, 2, "completed"));
}

// S004-PR-02
#[tokio::test]
async fn an_answer_is_judged_by_its_contract_and_by_the_schema_of_the_tool_and_goes_back_with_what_is_wrong()
{
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = v1::ModeRun {
        retry: Some(v1::RetryPolicy { delays_ms: vec![0, 0, 0], ..v1::RetryPolicy::default() }),
        ..execution("tidy up")
    };
    let run = try_start(&harness, run).await.unwrap();
    let asked = worker.assignment().await;
    let contract: Value = serde_json::from_str(&asked.assignment.output_schema).unwrap();
    assert_eq!(
        contract.pointer("/properties/action/properties/tool/enum"),
        Some(&of!(["ask", "read", "send"]))
    );
    let mut lease = asked.lease;
    let wrong = [
        (act("fly", of!({}), true), "/action/tool"),
        (act("send", of!({ "to": 7 }), true), "/action/parameters/to"),
        (of!({ "action": { "tool": "read", "parameters": {} }, "continue": true, "confidence": 1 }), ""),
    ];
    for (answer, path) in wrong {
        worker.complete(&lease, json(answer)).await;
        let again = worker.assignment().await;
        let correction = read(again.assignment.input.as_ref())["correction"].clone();
        assert_eq!(correction["violations"][0]["path"], path, "{correction}");
        lease = again.lease;
    }
    worker.complete(&lease, json(act("read", of!({}), false))).await;
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn what_is_wrong_with_an_answer_goes_back_with_a_prompt_that_is_a_blob() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let tool = |name: &str| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() };
    let run = v1::ModeRun {
        workspace: (0..1_000).map(|number| format!("{number:0>60}")).collect(),
        tools: vec![tool("read"), tool("plan.run")],
        retry: Some(v1::RetryPolicy { delays_ms: vec![0, 0], ..v1::RetryPolicy::default() }),
        ..execution("tidy up")
    };
    let run = try_start(&harness, run).await.unwrap();
    let prompt = |input: Option<&v1::Payload>| -> Value {
        let Some(Data::Blob(blob)) = input.and_then(|input| input.data.as_ref()) else { panic!("{input:?}") };
        let folder = harness.folder.path().join("data/blobs").join(&blob.blake3[..2]);
        serde_json::from_slice(&std::fs::read(folder.join(&blob.blake3)).unwrap()).unwrap()
    };
    let asked = worker.assignment().await;
    assert_eq!(prompt(asked.assignment.input.as_ref()).get("correction"), None);
    // A plan without a task passes the schema of its tool, and is none.
    let no_plan = act("plan.run", of!({ "name": "child", "waves": [{}] }), true);
    worker.complete(&asked.lease, json(no_plan.clone())).await;
    let again = worker.assignment().await;
    let given = prompt(again.assignment.input.as_ref());
    assert_eq!(given["workspace"].as_array().map(Vec::len), Some(1_000));
    let correction = &given["correction"];
    assert_eq!((&correction["attempt"], &correction["output"]), (&of!(1), &no_plan));
    let path = correction["violations"][0]["path"].as_str().unwrap();
    assert!(path.starts_with("/action/parameters/waves"), "{correction}");
    let no_json =
        v1::Payload { media_type: "application/json".to_owned(), data: Some(Data::Inline("no json".into())) };
    worker.complete(&again.lease, no_json).await;
    let last = worker.assignment().await;
    let correction = prompt(last.assignment.input.as_ref())["correction"].clone();
    assert_eq!((&correction["attempt"], &correction["violations"][0]["rule"]), (&of!(2), &of!("syntax")));
    worker.complete(&last.lease, json(act("read", of!({}), false))).await;
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

// S004-CO-03, S004-UI-02
#[tokio::test]
async fn a_session_keeps_its_mode_over_runs_and_restarts_until_the_user_chooses_another() {
    let harness = Harness::start().await;
    let choose =
        |mode: ExecutionMode| v1::ChooseModeRequest { session: "shop".to_owned(), mode: mode.into() };
    let chosen = modes(&harness).choose_mode(choose(ExecutionMode::Planner)).await.unwrap().into_inner();
    assert_eq!(chosen.before(), ExecutionMode::Unspecified);
    // The same choice again is no event.
    let again = modes(&harness).choose_mode(choose(ExecutionMode::Planner)).await.unwrap().into_inner();
    assert_eq!((again.seq, again.before()), (chosen.seq, ExecutionMode::Planner));
    let of_session = || v1::ModeRun { session: Some("shop".to_owned()), ..execution("tidy up") };
    let one_step = plan(&[step("a", "read", of!({ "success": true }))], "read", of!({}));
    let mut worker = join(&harness).await;
    let first = try_start(&harness, of_session()).await.unwrap();
    let prompt = plans(&mut worker, &one_step).await;
    assert_eq!(prompt["progress"], 0.0, "it is the contract of planners");
    // A choice during a run changes nothing of that run, which goes on to its end under it.
    modes(&harness).choose_mode(choose(ExecutionMode::Simple)).await.unwrap();
    gives(&mut worker, "read", of!(1)).await;
    // Nor does one that names the run, which is none.
    let of_run = v1::ChooseModeRequest { session: first.clone(), mode: ExecutionMode::Simple.into() };
    let refused = modes(&harness).choose_mode(of_run).await.unwrap_err();
    assert_eq!(
        (code_of(&refused).as_str(), &*paths_of(&refused)),
        ("VALIDATION_ERROR", &["session".to_owned()][..])
    );
    assert_eq!(harness.wait(&first).await.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(stands(&harness, &first).await.mode(), ExecutionMode::Planner);
    modes(&harness).choose_mode(choose(ExecutionMode::Planner)).await.unwrap();
    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    let second = try_start(&harness, of_session()).await.unwrap();
    plans(&mut worker, &one_step).await;
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(harness.wait(&second).await.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(stands(&harness, &second).await.mode(), ExecutionMode::Planner);
    modes(&harness).choose_mode(choose(ExecutionMode::Simple)).await.unwrap();
    let third = try_start(&harness, of_session()).await.unwrap();
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    assert_eq!(prompt["errorCount"], 0);
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(harness.wait(&third).await.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(stands(&harness, &third).await.mode(), ExecutionMode::Simple);
}

// S004-PL-02, S004-PL-07
#[tokio::test]
async fn a_plan_is_made_anew_where_its_results_are_not_those_that_it_expects() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_mode(ExecutionMode::Planner)).await.unwrap();
    let steps = [step("a", "read", of!({ "contains": "sea" })), step("b", "read", of!("any"))];
    plans(&mut worker, &plan(&steps, "read", of!({}))).await;
    gives(&mut worker, "read", of!("a mountain")).await;
    // 1 of 1 misses.
    let again = plan(&[step("c", "read", of!({ "schema": { "type": "integer" } }))], "read", of!({}));
    let prompt = plans(&mut worker, &again).await;
    assert_eq!(prompt["deviationAnalysis"]["impactedSteps"], of!([0]));
    gives(&mut worker, "read", of!(7)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let state = stands(&harness, &run).await;
    assert_eq!((state.replans, state.plan.unwrap().revision, state.checkpoints.len()), (1, 2, 1));
}

// S004-SU-01, S004-SU-05
#[tokio::test]
async fn a_supervised_plan_is_edited_approved_and_worked_on_over_a_restart() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_mode(ExecutionMode::Supervised)).await.unwrap();
    plans(&mut worker, &plan(&[step("a", "read", of!("any"))], "read", of!({}))).await;
    assert_eq!(question(&harness, &run).await.purpose(), v1::QuestionPurpose::Plan);
    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    let proposed = question(&harness, &run).await;
    let refused =
        answer(&harness, &run, "edit", Some(of!({ "steps": [step("a", "fly", of!("any"))] }))).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument);
    let edited = of!({ "steps": [step("b", "read", of!({ "equals": 1 })), step("c", "read", of!("any"))] });
    answer(&harness, &run, "edit", Some(edited)).await.unwrap();
    assert_ne!(question(&harness, &run).await.question_id, proposed.question_id);
    assert_eq!(stands(&harness, &run).await.plan.unwrap().revision, 2);
    answer(&harness, &run, "approve", None).await.unwrap();
    let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "b" }))).await;
    assert_eq!(prompt["validatedPlan"]["steps"][0]["id"], "b");
    gives(&mut worker, "read", of!(2)).await;
    // 2 is not 1: the person knows, and lets it go on to its end.
    assert_eq!(question(&harness, &run).await.purpose(), v1::QuestionPurpose::Escalation);
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Waiting);
    answer(&harness, &run, "continue", None).await.unwrap();
    let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "c" }))).await;
    assert_eq!(prompt["adherenceCheck"]["deviation"], 1.0);
    assert_eq!(prompt["escalationHistory"].as_array().map(Vec::len), Some(1));
    gives(&mut worker, "read", of!(3)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

/// A plan that a person is asked to approve gives each tool what it takes; so does the plan that the person gives instead.
#[tokio::test]
async fn a_plan_is_proposed_and_edited_only_with_what_its_tools_take() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let retry = v1::RetryPolicy { delays_ms: vec![0, 0], ..v1::RetryPolicy::default() };
    let run = v1::ModeRun { retry: Some(retry), ..in_mode(ExecutionMode::Supervised) };
    let run = try_start(&harness, run).await.unwrap();
    let sends = |id: &str, to: Value| of!({ "id": id, "description": id, "tool": "send", "parameters": { "to": to } });
    let proposal = |to: Value| plan(&[step("a", "read", of!("any")), sends("b", to)], "read", of!({}));
    let asked = worker.assignment().await;
    worker.complete(&asked.lease, json(proposal(of!(7)))).await;
    let again = worker.assignment().await;
    let correction = read(again.assignment.input.as_ref())["correction"].clone();
    assert_eq!(correction["violations"][0]["path"], "/planUpdate/steps/1/parameters/to", "{correction}");
    worker.complete(&again.lease, json(proposal(of!("you")))).await;

    assert_eq!(question(&harness, &run).await.purpose(), v1::QuestionPurpose::Plan);
    let refused = answer(&harness, &run, "edit", Some(of!({ "steps": [sends("c", of!(7))] }))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("/steps/0/parameters/to"), "{}", refused.message());
    answer(&harness, &run, "edit", Some(of!({ "steps": [sends("c", of!("me"))] }))).await.unwrap();
    assert_eq!(stands(&harness, &run).await.plan.unwrap().revision, 2);
}

#[tokio::test]
async fn a_tool_is_approved_call_by_call_where_it_or_the_caller_demands_that() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let tool = |name: &str, needs_approval| v1::ModeTool {
        name: name.to_owned(),
        needs_approval,
        ..Default::default()
    };
    // What a tool demands itself no caller takes away.
    let tools = vec![tool("ask", false), tool("read", true)];
    let run = try_start(&harness, v1::ModeRun { tools, ..execution("tidy up") }).await.unwrap();
    for (name, goes_on) in [("ask", true), ("read", false)] {
        plans(&mut worker, &act(name, of!({ "n": 1 }), goes_on)).await;
        let asked = question(&harness, &run).await;
        assert_eq!(asked.purpose(), v1::QuestionPurpose::Tool);
        assert_eq!(asked.text, format!("Is {name} to be called with {{\"n\":1}}?"));
        answer(&harness, &run, "approve", None).await.unwrap();
        gives(&mut worker, name, of!(1)).await;
    }
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

// S004-CO-01, S004-CO-02, S004-CP-04
#[tokio::test]
async fn a_run_goes_back_to_a_checkpoint_and_the_result_of_what_was_at_work_is_refused() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, execution("tidy up")).await.unwrap();
    plans(&mut worker, &act("read", of!({}), true)).await;
    gives(&mut worker, "read", of!(1)).await;
    let asked = worker.assignment().await;
    let make = v1::CreateCheckpointRequest {
        run_id: run.clone(),
        reason: "before the second".to_owned(),
        request_id: "make".to_owned(),
        if_seq: None,
    };
    let made = modes(&harness).create_checkpoint(make.clone()).await.unwrap().into_inner();
    assert_eq!(made.checkpoint_id, "c1");
    assert_eq!(modes(&harness).create_checkpoint(make.clone()).await.unwrap().into_inner(), made);
    worker.complete(&asked.lease, json(act("read", of!({}), true))).await;
    let called = worker.assignment().await;
    let back = |checkpoint: &str| v1::RollbackExecutionRequest {
        run_id: run.clone(),
        checkpoint_id: checkpoint.to_owned(),
        request_id: format!("back to {checkpoint}"),
        if_seq: None,
    };
    let unknown = modes(&harness).rollback_execution(back("c9")).await.unwrap_err();
    assert_eq!(code_of(&unknown), "CHECKPOINT_NOT_FOUND");
    modes(&harness).rollback_execution(back("c1")).await.unwrap();
    worker.complete(&called.lease, json(of!("late"))).await;
    let state = stands(&harness, &run).await;
    assert_eq!((state.step, state.checkpoints.len()), (1, 1));
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    assert_eq!(prompt["lastResult"]["output"], 1, "the result of before the checkpoint");
    gives(&mut worker, "read", of!(2)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let refused = harness.export(&run).await.into_iter().filter_map(|event| event.body);
    assert_eq!(refused.filter(|body| matches!(body, v1::event::Body::ResultRefused(_))).count(), 1);
    // Its end changes nothing about requests that were carried out before.
    assert_eq!(modes(&harness).create_checkpoint(make).await.unwrap().into_inner(), made);
    let reused = v1::RollbackExecutionRequest { request_id: "make".to_owned(), ..back("c1") };
    let refused = modes(&harness).rollback_execution(reused).await.unwrap_err();
    assert_eq!(code_of(&refused), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_start_that_is_too_large_for_one_event_is_refused() {
    let harness = Harness::start().await;
    let _worker = join(&harness).await;
    let retryable = vec!["X".repeat(3 * 1024 * 1024)];
    let retry = Some(v1::RetryPolicy { retryable, ..v1::RetryPolicy::default() });
    let refused = try_start(&harness, v1::ModeRun { retry, ..execution("tidy up") }).await.unwrap_err();
    assert_eq!((code_of(&refused), paths_of(&refused)), ("VALIDATION_ERROR".into(), vec!["mode".into()]));
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn a_call_of_plan_run_is_a_run_of_its_own_under_its_parent() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let mut hand = harness.worker("hand", &["hand"]).await;
    let tools = vec![v1::ModeTool { name: "plan.run".to_owned(), ..v1::ModeTool::default() }];
    let run = try_start(&harness, v1::ModeRun { tools, ..execution("tidy up") }).await.unwrap();
    let waves = of!({ "name": "small", "waves": [{ "tasks": [{ "name": "t", "agent": "hand" }] }] });
    plans(&mut worker, &act("plan.run", waves, false)).await;
    let task = hand.assignment().await;
    assert_eq!(task.assignment.task_name, "t");
    let child = task.lease.run_id.clone();
    assert_eq!(harness.get(&child).await.parent.unwrap().run_id, run);
    hand.complete(&task.lease, json(of!("done"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let Some(v1::run_result::Work::Mode(mode)) = result.work else { panic!() };
    assert_eq!(read(mode.output.as_ref())["tasks"][0]["output"], "done");
}

#[tokio::test]
async fn a_call_of_pipeline_run_is_a_pipeline_under_its_parent_and_a_wrong_one_is_no_answer() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let mut hand = harness.worker("hand", &["hand"]).await;
    let tools = vec![v1::ModeTool { name: "pipeline.run".to_owned(), ..v1::ModeTool::default() }];
    let run = try_start(&harness, v1::ModeRun { tools, ..execution("tidy up") }).await.unwrap();
    let asked = worker.assignment().await;
    let wrong = of!({ "name": "small", "phases": [{ "name": "a b", "agent": "hand" }] });
    worker.complete(&asked.lease, json(act("pipeline.run", wrong, false))).await;
    let asked = worker.assignment().await;
    let correction = read(asked.assignment.input.as_ref())["correction"].clone();
    assert_eq!(correction["violations"][0]["path"], "/action/parameters/phases/0/name", "{correction}");
    let small = of!({
        "name": "small",
        "phases": [
            { "name": "one", "agent": "hand", "summary": ["title"] },
            { "name": "two", "agent": "hand", "input": "${phases.one.summary.title}" },
        ],
    });
    worker.complete(&asked.lease, json(act("pipeline.run", small, false))).await;
    let first = hand.assignment().await;
    let child = first.lease.run_id.clone();
    let of_child = harness.get(&child).await;
    assert_eq!((of_child.kind(), of_child.parent.unwrap().run_id), (v1::RunKind::Pipeline, run.clone()));
    hand.complete(&first.lease, json(of!({ "title": "whales", "pages": 9 }))).await;
    let second = hand.assignment().await;
    assert_eq!(read(second.assignment.input.as_ref()), "whales");
    hand.complete(&second.lease, json(of!("done"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
}

#[tokio::test]
async fn bad_starts_are_refused_with_all_that_is_wrong() {
    let harness = Harness::start().await;
    let refused = try_start(&harness, execution("tidy up")).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["mode.planner", "mode.tools"], "nobody is there");
    let _worker = join(&harness).await;
    let _other = harness.worker("hand", &["hand"]).await;
    let tool = |name: &str| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() };
    let wrong = v1::ModeRun {
        query: " ".to_owned(),
        mode: Some(9),
        session: Some("a b".to_owned()),
        tools: vec![tool("read"), tool("read"), v1::ModeTool { undoable: true, ..tool("x y") }],
        workspace: vec![String::new()],
        autonomy_level: Some(f64::NAN),
        max_steps: Some(1_001),
        run_id: "mine".to_owned(),
        ..v1::ModeRun::default()
    };
    let refused = try_start(&harness, wrong).await.unwrap_err();
    let expected = [
        "mode.query",
        "mode.mode",
        "mode.session",
        "mode.tools[1].name",
        "mode.tools[2].name",
        "mode.tools[2].undoable",
        "mode.workspace[0]",
        "mode.autonomy_level",
        "mode.max_steps",
        "mode.run_id",
    ];
    assert_eq!(paths_of(&refused), expected);
    let kinds = v1::ModeRun { planner: "hand".to_owned(), tools: vec![tool("brain")], ..execution("q") };
    let refused = try_start(&harness, kinds).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["mode.planner", "mode.tools[0].name"]);
    let unknown = v1::ModeRun { tools: vec![tool("raed")], ..execution("q") };
    let refused = try_start(&harness, unknown).await.unwrap_err();
    assert_eq!(code_of(&refused), "AGENT_NOT_FOUND");
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn a_choice_that_is_none_and_questions_of_other_runs_are_refused() {
    let harness = Harness::start().await;
    let wrong = v1::ChooseModeRequest { session: "a b".to_owned(), mode: 0 };
    let refused = modes(&harness).choose_mode(wrong).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["session", "mode"]);
    let _hand = harness.worker("hand", &["hand"]).await;
    let run = harness.start_run(crate::support::one_wave(&["hand"])).await;
    let request = v1::GetExecutionRequest { run_id: run.clone(), ..v1::GetExecutionRequest::default() };
    assert_eq!(modes(&harness).get_execution(request).await.unwrap().into_inner().state, None);
    let make = v1::CreateCheckpointRequest {
        run_id: run,
        reason: "x".to_owned(),
        request_id: "r".to_owned(),
        if_seq: None,
    };
    let refused = modes(&harness).create_checkpoint(make).await.unwrap_err();
    assert_eq!(code_of(&refused), "CHECKPOINT_NOT_FOUND");
}

// S004-CO-04
#[tokio::test]
async fn a_query_is_assessed_with_the_tools_that_are_known_and_no_mode_is_recommended() {
    let harness = Harness::start().await;
    let _worker = join(&harness).await;
    let ask = |query: &str, language: &str| v1::AssessRiskRequest {
        query: query.to_owned(),
        language: language.to_owned(),
        ..v1::AssessRiskRequest::default()
    };
    let high = "delete all tables of the production database, then deploy";
    let high = modes(&harness).assess_risk(ask(high, "")).await.unwrap().into_inner();
    assert_eq!(high.risk_level, "high");
    let low = modes(&harness).assess_risk(ask("enumera los archivos", "es")).await.unwrap().into_inner();
    assert_eq!((&*low.risk_level, low.estimated_steps), ("low", 1));
    let refused = modes(&harness).assess_risk(ask(" ", "")).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["query"]);
    // A tool that is built in counts as any other, and a name that nobody knows is told.
    let with = |tools: &[&str]| v1::AssessRiskRequest {
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        ..ask("list the files of plan.run and browser.submit", "")
    };
    for (tools, expected) in [
        (&[][..], &[][..]),
        (&["plan.run"], &["plan.run"]),
        (&["browser.*"], &["browser.submit"]),
        (&["*", "browser.submit", "plan.run"], &["browser.submit", "plan.run"]),
    ] {
        let risk = modes(&harness).assess_risk(with(tools)).await.unwrap().into_inner();
        let told = |tool: &&&str| {
            let reason = format!("What the tool \"{tool}\" does cannot be undone.");
            risk.reasoning.contains(&reason)
        };
        let found: Vec<&str> = ["browser.submit", "plan.run"].iter().filter(told).copied().collect();
        assert_eq!(found, expected, "{tools:?}: {:?}", risk.reasoning);
    }
    let refused = modes(&harness).assess_risk(with(&["browser.submit", "nobody"])).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["tools[1]"]);
}
