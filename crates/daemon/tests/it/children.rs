//! Tasks that are runs of their own, over a real daemon.

use capataz_contracts::v1;
use tonic::Code;

use crate::support::asks::{answer_to, request_of, served, text};
use crate::support::{Harness, PATIENCE, Worker, code_of, data_dir, json, one_wave, plan};

/// A plan whose only task is a plan of one task for the agent `inner`.
const PARENT: &str = r#"
name = "parent"
[[tasks]]
name = "sub"
run.plan.name = "child"
[[tasks.run.plan.waves]]
tasks = [{ name = "work", agent = "inner" }]
"#;

async fn child_of(harness: &Harness, run: &str) -> String {
    loop {
        let child = harness.get(run).await.waves[0].tasks[0].child.clone();
        match child {
            // It is created a little after it is named.
            Some(child) if harness.runs.clone().get_run(get(&child)).await.is_ok() => return child,
            _ => tokio::task::yield_now().await,
        }
    }
}

fn get(run: &str) -> v1::GetRunRequest {
    v1::GetRunRequest { run_id: run.to_owned(), ..Default::default() }
}

async fn list_children(harness: &Harness, parent: &str) -> Vec<String> {
    let request = v1::ListRunsRequest { parent: Some(parent.to_owned()), ..Default::default() };
    let listed = harness.runs.clone().list_runs(request).await.unwrap().into_inner();
    listed.runs.into_iter().map(|run| run.run_id).collect()
}

fn started_for(parent: &str, task: &str) -> v1::StartRunRequest {
    let parent = v1::ParentRef {
        run_id: parent.to_owned(),
        task: task.to_owned(),
        lease: 1,
        activation: 1,
        attempt: 1,
    };
    v1::StartRunRequest { parent: Some(parent), ..v1::StartRunRequest::of_plan(one_wave(&["inner"])) }
}

/// Ends the daemon without a drain.
fn killed(harness: Harness) -> tempfile::TempDir {
    let Harness { daemon, folder, .. } = harness;
    drop(daemon);
    folder
}

#[tokio::test]
async fn the_result_of_a_run_is_the_output_of_the_task_that_it_is() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["inner"]).await;
    let mut parent = plan(PARENT);
    parent.waves.push(plan("name = \"p\"\n[[tasks]]\nname = \"after\"\nagent = \"inner\"").waves.remove(0));
    parent.waves[1].tasks[0].input = Some(json(serde_json::json!("${tasks.sub.output.tasks.0.output}")));
    let run = harness.start_run(parent).await;
    let child = child_of(&harness, &run).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned.lease.run_id, child);
    worker.complete(&assigned.lease, json(serde_json::json!({"n": 7}))).await;
    let after = worker.assignment().await;
    assert_eq!(
        after.assignment.input,
        Some(json(serde_json::json!({"n": 7}))),
        "a later task can refer to it"
    );
    worker.complete(&after.lease, json(serde_json::json!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);

    let view = harness.get(&child).await;
    let of = view.parent.unwrap();
    assert_eq!((of.run_id, of.task, of.activation, of.attempt), (run.clone(), "sub".to_owned(), 1, 1));
    let [known] = harness.get(&run).await.children.try_into().unwrap();
    assert_eq!((known.run_id.clone(), known.task.as_str(), known.attempt), (child.clone(), "sub", 1));
    assert_eq!(known.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(list_children(&harness, &run).await, std::slice::from_ref(&child));
    // The list of all runs shows the family as well.
    let listed = harness.runs.clone().list_runs(v1::ListRunsRequest::default()).await.unwrap().into_inner();
    let parents = listed.runs.into_iter().map(|run| (run.run_id, run.parent.map(|of| (of.run_id, of.task))));
    let parents: std::collections::BTreeMap<_, _> = parents.collect();
    assert_eq!(parents[&child], Some((run.clone(), "sub".to_owned())));
    assert_eq!(parents[&run], None);
}

#[tokio::test]
async fn an_end_is_heard_after_a_restart() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["inner"]).await;
    let run = harness.start_run(plan(PARENT)).await;
    let assigned = worker.assignment().await;
    let harness = Harness::start_in(killed(harness), |_| ()).await;
    let worker =
        Worker::connect(harness.channel.clone(), "w1", &["inner"], vec![assigned.lease.clone()]).await;
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let heard = harness
        .export(&run)
        .await
        .into_iter()
        .filter(|event| matches!(event.body, Some(v1::event::Body::ChildEnded(_))));
    assert_eq!(heard.count(), 1);
}

#[tokio::test]
async fn a_parent_ends_after_the_child_that_it_cancels() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["inner"]).await;
    let run = harness.start_run(plan(PARENT)).await;
    let assigned = worker.assignment().await;
    let cancel = v1::CancelRunRequest {
        run_id: run.clone(),
        request_id: "c".to_owned(),
        reason: "enough".to_owned(),
        ..Default::default()
    };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Cancelling);
    worker.stops(&assigned.lease).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Cancelled);
    let child = assigned.lease.run_id;
    assert_eq!(harness.get(&child).await.outcome(), v1::RunOutcome::Cancelled);
}

#[tokio::test]
async fn a_detached_child_goes_on_after_its_parent() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["inner"]).await;
    let mut parent = plan(PARENT);
    parent.waves[0].tasks[0].run.as_mut().unwrap().detached = true;
    let run = harness.start_run(parent).await;
    let result = harness.wait(&run).await;
    let assigned = worker.assignment().await;
    let child = assigned.lease.run_id.clone();
    assert_eq!(result.tasks[0].output, Some(json(serde_json::json!({"run_id": child}))));
    worker.complete(&assigned.lease, json(serde_json::json!(1))).await;
    assert_eq!(harness.wait(&child).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_task_can_be_an_ask() {
    let harness = Harness::start_with(|config| config.specs = served(&["wave"])).await;
    let mut worker = harness.worker("w1", &["wave"]).await;
    let parent = r#"
        name = "parent"
        [[tasks]]
        name = "greet"
        input = "hello there"
        run.ask.spec = "wave"
    "#;
    let run = harness.start_run(plan(parent)).await;
    let assigned = worker.assignment().await;
    let request = request_of(&assigned);
    assert!(request.to_string().contains("hello there"), "{request}");
    worker.complete(&assigned.lease, json(answer_to(&request, "good day"))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let Some(v1::payload::Data::Inline(output)) = result.tasks[0].output.clone().unwrap().data else {
        panic!()
    };
    let output: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(output["outcome"], "succeeded");
    assert!(output["ask"].is_object(), "{output}");
}

#[tokio::test]
async fn a_child_with_a_damaged_log_fails_its_parents_task() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["inner"]).await;
    let run = harness.start_run(plan(PARENT)).await;
    let child = worker.assignment().await.lease.run_id;
    let folder = killed(harness);
    let database = rusqlite::Connection::open(data_dir(&folder).join("capataz.db")).unwrap();
    let key: uuid::Uuid = child.parse().unwrap();
    let damaged = database.execute("UPDATE log SET events = x'00' WHERE run = ?1", [key.as_bytes()]).unwrap();
    assert!(damaged > 0);
    drop(database);
    let harness = Harness::start_in(folder, |_| ()).await;
    let result = tokio::time::timeout(PATIENCE, harness.wait(&run)).await.unwrap();
    assert_eq!(result.outcome(), v1::RunOutcome::Failed);
    let error = result.tasks[0].error.clone().unwrap();
    assert!(format!("{error:?}").contains("LOG_DAMAGED"), "{error:?}");
}

#[tokio::test]
async fn a_worker_starts_runs_for_its_task_and_only_for_one_that_there_is() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["outer", "inner"]).await;
    let run = harness.start_run(one_wave(&["outer"])).await;
    let outer = worker.assignment().await;
    let mut runs = harness.runs.clone();
    let started = runs.start_run(started_for(&run, &outer.assignment.task_name)).await.unwrap().into_inner();
    assert_eq!(list_children(&harness, &run).await, std::slice::from_ref(&started.run_id));

    let unknown = uuid::Uuid::from_u128(7).to_string();
    let refused = runs.start_run(started_for(&unknown, "a")).await.unwrap_err();
    assert_eq!((refused.code(), code_of(&refused).as_str()), (Code::NotFound, "RUN_NOT_FOUND"));
    let refused = runs.start_run(started_for(&run, "nothing")).await.unwrap_err();
    assert_eq!(crate::support::paths_of(&refused), ["parent.task"]);
    let refused = runs.start_run(started_for("not-an-id", "a")).await.unwrap_err();
    assert_eq!(crate::support::paths_of(&refused), ["parent.run_id"]);
}

#[tokio::test]
async fn ancestors_are_counted_and_64_of_them_are_enough() {
    let harness = Harness::start().await;
    let _worker = harness.worker("w1", &["inner"]).await;
    let mut run = harness.start_run(one_wave(&["inner"])).await;
    let task = harness.get(&run).await.waves[0].tasks[0].name.clone();
    let mut runs = harness.runs.clone();
    for depth in 1..=64 {
        let child = runs.start_run(started_for(&run, &task)).await;
        run = child.unwrap_or_else(|refused| panic!("at depth {depth}: {refused}")).into_inner().run_id;
    }
    let refused = runs.start_run(started_for(&run, &task)).await.unwrap_err();
    assert_eq!(code_of(&refused), "CHILD_TOO_DEEP");
}

#[tokio::test]
async fn a_child_does_not_wait_in_the_session_that_its_ancestor_holds() {
    let harness = Harness::start_with(|config| config.specs = served(&["wave"])).await;
    let mut ask = text("hello");
    ask.session = Some("talk".to_owned());
    ask.spec = Some("wave".to_owned());
    let run = harness.begin(ask.clone()).await;
    let task = loop {
        if let Some(wave) = harness.get(&run).await.waves.first() {
            break wave.tasks[0].name.clone();
        }
        tokio::task::yield_now().await;
    };
    let parent = started_for(&run, &task).parent;
    let request = v1::StartRunRequest { parent, ..v1::StartRunRequest::of_ask(ask) };
    let refused = harness.runs.clone().start_run(request).await.unwrap_err();
    assert_eq!(code_of(&refused), "SESSION_HELD");
}

#[tokio::test]
async fn what_is_wrong_with_a_run_among_tasks_is_told_with_its_path() {
    let harness = Harness::start().await;
    let wrong = r#"
        name = "parent"
        [[tasks]]
        name = "both"
        agent = "inner"
        run.plan = { name = "c", waves = [{ tasks = [{ name = "x", agent = "", retry = { max_attempts = 0 } }] }] }
        [[tasks]]
        name = "nothing"
        run = {}
        [[tasks]]
        name = "blank"
        run.ask = { text = "" }
        [[tasks]]
        name = "given"
        input = 1
        run.script = { name = "s", actions = [] }
    "#;
    let refused = harness.try_start(plan(wrong)).await.unwrap_err();
    let paths = crate::support::paths_of(&refused);
    for path in [
        "plan.waves[0].tasks[0].agent",
        "plan.waves[0].tasks[0].run.plan.waves[0].tasks[0].agent",
        "plan.waves[0].tasks[0].run.plan.waves[0].tasks[0].retry.max_attempts",
        "plan.waves[0].tasks[1].run",
        "plan.waves[0].tasks[2].run.ask.text",
        "plan.waves[0].tasks[3].input",
    ] {
        assert!(paths.iter().any(|known| known == path), "{path} is not in {paths:#?}");
    }
    let mut nested = one_wave(&["inner"]);
    for _ in 0..9 {
        let mut outer = one_wave(&[""]);
        outer.waves[0].tasks[0].name = "n".to_owned();
        let work = Some(v1::child_run::Work::Plan(nested));
        outer.waves[0].tasks[0].run = Some(Box::new(v1::ChildRun { work, ..Default::default() }));
        nested = outer;
    }
    let refused = harness.try_start(nested).await.unwrap_err();
    let deepest = format!("plan{}", ".waves[0].tasks[0].run.plan".repeat(9));
    let innermost = format!("{deepest}.waves[0].tasks[0].agent");
    assert_eq!(crate::support::paths_of(&refused), [deepest, innermost], "and nobody serves its agent");
    let unknown = plan(&PARENT.replace("\"inner\"", "\"nobody\""));
    assert_eq!(code_of(&harness.try_start(unknown).await.unwrap_err()), "AGENT_NOT_FOUND");
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn a_task_may_be_a_pipeline_that_works_on_the_input_of_the_task() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["reader"]).await;
    let pipeline = |schema: &str| v1::Pipeline {
        name: "review".to_owned(),
        phases: vec![v1::Phase {
            name: "read".to_owned(),
            agent: "reader".to_owned(),
            input: Some("\"${input.book}\"".to_owned()),
            output: Some(v1::OutputRule { schema: Some(schema.to_owned()), ..v1::OutputRule::default() }),
            ..v1::Phase::default()
        }],
        ..v1::Pipeline::default()
    };
    let plan_of = |schema: &str| {
        let mut plan = one_wave(&["reader"]);
        let task = &mut plan.waves[0].tasks[0];
        task.agent.clear();
        task.input = Some(json(serde_json::json!({ "book": "whales" })));
        task.run = Some(Box::new(v1::ChildRun::of_pipeline(pipeline(schema))));
        plan
    };
    let refused = harness.try_start(plan_of(r#"{"type":"nothing"}"#)).await.unwrap_err();
    let paths = crate::support::paths_of(&refused);
    assert_eq!(paths[0], "plan.waves[0].tasks[0].run.pipeline.phases[0].output.schema/type", "{paths:?}");
    let run = harness.start_run(plan_of(r#"{"type":"string"}"#)).await;
    let asked = worker.assignment().await;
    assert_ne!(asked.lease.run_id, run);
    assert_eq!(asked.assignment.input, Some(json(serde_json::json!("whales"))));
    worker.complete(&asked.lease, json(serde_json::json!("it is about whales"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}
