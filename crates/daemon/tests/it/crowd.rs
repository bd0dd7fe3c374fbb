//! Workers that mean harm or do not work, over a real socket: what they are refused, and with which words.

use std::collections::BTreeSet;

use capataz_contracts::v1::worker_service_client::WorkerServiceClient;
use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_daemon::{DeclaredAgent, ProcessAgent};
use capataz_hosts::commands::ShimCommand;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::asks::with_specs;
use crate::support::{Harness, Worker, code_of, data_dir, json, one_wave, paths_of, shim};

fn hello(id: &str, agents: &[&str]) -> v1::Hello {
    let agent = |name: &&str| v1::Agent {
        name: (*name).to_owned(),
        contract_version: "1.0.0".to_owned(),
        max_concurrency: 10,
        ..Default::default()
    };
    v1::Hello {
        worker_id: id.to_owned(),
        agents: agents.iter().map(agent).collect(),
        slots: 10,
        protocol: 1,
        ..Default::default()
    }
}

#[track_caller]
fn check(refusal: &Status, grpc: Code, code: &str) {
    assert_eq!((refusal.code(), &*code_of(refusal)), (grpc, code), "{refusal}");
}

/// A harness whose daemon serves `own` itself, shares `both`, and leaves `declared` to workers.
async fn with_agents() -> Harness {
    Harness::start_with(|config| {
        with_specs(&["sage"])(config);
        let both = ProcessAgent { shared: true, ..ProcessAgent::new("both", ["cat"]) };
        config.agents = vec![ProcessAgent::new("own", ["cat"]), both];
        config.declared_agents = vec![DeclaredAgent::new("declared")];
    })
    .await
}

#[tokio::test]
async fn an_outsider_serves_no_agent_that_the_daemon_serves_itself() {
    let harness = with_agents().await;
    let refused = hello("w", &["other", "own", "template", "capataz.browser", "declared"]);
    let refusal = Worker::refusal(harness.channel.clone(), refused).await;
    check(&refusal, Code::PermissionDenied, "NAME_RESERVED");
    assert_eq!(paths_of(&refusal), ["agents[1].name", "agents[2].name", "agents[3].name"]);
    let details = refusal.get_error_details();
    let first = &details.bad_request().unwrap().field_violations[0].description;
    assert!(first.contains("\"own\"") && first.contains("shared = true"), "{first}");
    // It is refused whole: nobody knows what it would have served beside them.
    let plan = one_wave(&["other"]);
    assert_eq!(code_of(&harness.try_start(plan).await.unwrap_err()), "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn what_is_shared_or_only_declared_is_there_for_workers() {
    let harness = with_agents().await;
    let mut worker = harness.worker("w", &["both", "declared"]).await;
    let run = harness.start_run(one_wave(&["declared"])).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(json!("done"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn tasks_of_an_agent_that_the_daemon_shares_go_to_workers_and_to_its_own_command() {
    let folder = tempfile::tempdir().unwrap();
    let enough = folder.path().join("enough");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done; echo done", enough.display());
    let harness = Harness::start_with(|config| {
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        let both = ProcessAgent::new("both", ["sh", "-c", &script]);
        config.agents = vec![ProcessAgent { shared: true, ..both }];
    })
    .await;
    // Each of the two does one task at a time: whoever has got the first, the second is for the other one.
    let one_at_a_time = v1::Hello { slots: 1, ..hello("w", &["both"]) };
    let mut worker = Worker::with_hello(harness.channel.clone(), one_at_a_time).await.unwrap();
    let first = harness.start_run(one_wave(&["both"])).await;
    let second = harness.start_run(one_wave(&["both"])).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(json!("done"))).await;
    let of_worker = assigned.lease.run_id;
    assert_eq!(harness.wait(&of_worker).await.outcome(), v1::RunOutcome::Succeeded);
    let of_command = if of_worker == first { second } else { first };
    std::fs::write(&enough, "").unwrap();
    assert_eq!(harness.wait(&of_command).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn nobody_claims_the_id_of_a_worker_of_the_daemon_itself() {
    let harness = with_agents().await;
    let number = std::fs::read_to_string(data_dir(&harness.folder).join("host-number")).unwrap();
    for host in ["capataz-process-host", "capataz-browser-host", "capataz-template-host"] {
        let id = format!("{host}-{}", number.trim());
        let refusal = Worker::refusal(harness.channel.clone(), hello(&id, &["other"])).await;
        check(&refusal, Code::PermissionDenied, "NAME_RESERVED");
        assert_eq!(paths_of(&refusal), ["worker_id"]);
    }
    // The hosts of another data folder do not concern this one.
    harness.worker("capataz-process-host-no", &["other"]).await;
}

#[tokio::test]
async fn a_frame_that_is_too_large_ends_the_stream_with_a_word_and_other_tasks_go_on() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["a", "b"]).await;
    let run = harness.start_run(one_wave(&["a", "b"])).await;
    let assigned = worker.assignments(2).await;
    worker.complete(&assigned["a"].lease, json(json!("x".repeat(5 * 1024 * 1024)))).await;
    let refusal = worker.last_word().await;
    check(&refusal, Code::OutOfRange, "FRAME_TOO_LARGE");
    let details = refusal.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["limit"], (4 * 1024 * 1024).to_string());

    let held: Vec<v1::LeaseRef> = assigned.values().map(|one| one.lease.clone()).collect();
    let worker = Worker::connect(harness.channel.clone(), "w", &["a", "b"], held.clone()).await;
    let ids = |leases: &[v1::LeaseRef]| leases.iter().map(|lease| lease.lease).collect::<BTreeSet<_>>();
    assert_eq!(ids(&worker.welcome.reattached), ids(&held));
    for one in assigned.values() {
        worker.complete(&one.lease, json(json!("done"))).await;
    }
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_hello_that_is_too_large_is_refused_with_a_word() {
    let harness = Harness::start().await;
    let mut large = hello("w", &["a"]);
    large.agents[0].input_schema = "x".repeat(1024 * 1024);
    let refusal = Worker::refusal(harness.channel.clone(), large.clone()).await;
    check(&refusal, Code::InvalidArgument, "VALIDATION_ERROR");
    assert_eq!(paths_of(&refusal), ["agents"]);
    large.agents[0].input_schema = "x".repeat(5 * 1024 * 1024);
    let refusal = Worker::refusal(harness.channel.clone(), large).await;
    check(&refusal, Code::OutOfRange, "FRAME_TOO_LARGE");
}

#[tokio::test]
async fn a_stream_that_ends_or_says_something_else_before_its_hello_is_refused_with_a_word() {
    let harness = Harness::start().await;
    let frame = |frame: Option<Say>| v1::ConnectRequest { frame };
    let late = || frame(Some(Say::Hello(hello("w", &["a"]))));
    let heartbeat = frame(Some(Say::Heartbeat(v1::Heartbeat {})));
    for said in [vec![], vec![heartbeat, late()], vec![frame(None), late()]] {
        let frames = said.len();
        let mut workers = WorkerServiceClient::new(harness.channel.clone());
        let connected = workers.connect(tokio_stream::iter(said)).await;
        let refusal = connected.map(drop).unwrap_err();
        check(&refusal, Code::InvalidArgument, "VALIDATION_ERROR");
        assert_eq!(paths_of(&refusal), ["hello"], "after {frames} frames");
        assert!(refusal.message().contains("the first frame has to be a hello"), "{refusal}");
    }
    // None of them was taken on.
    let refusal = harness.try_start(one_wave(&["a"])).await.unwrap_err();
    assert_eq!(code_of(&refusal), "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn a_second_hello_ends_the_stream_with_a_word() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["a"]).await;
    worker.say(Say::Hello(hello("w", &["a"]))).await;
    let refusal = worker.last_word().await;
    check(&refusal, Code::InvalidArgument, "VALIDATION_ERROR");
    assert_eq!(paths_of(&refusal), ["hello"]);
}

#[tokio::test]
async fn a_worker_whose_id_another_one_takes_hears_so() {
    let harness = Harness::start().await;
    let mut first = harness.worker("w", &["a"]).await;
    let _second = harness.worker("w", &["a"]).await;
    check(&first.last_word().await, Code::Aborted, "WORKER_REPLACED");
}

#[tokio::test]
async fn a_lone_worker_that_hands_back_costs_few_leases() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["a"]).await;
    let run = harness.start_run(one_wave(&["a"])).await;
    let began = tokio::time::Instant::now();
    // The fifth comes after 100, 200, 400 ms and as long as the task waits by itself; nothing comes sooner.
    for _ in 0..5 {
        let assigned = worker.unacknowledged().await;
        worker.say(Say::Returned(v1::Returned { lease: Some(assigned.lease) })).await;
    }
    assert!(began.elapsed().as_millis() >= 700, "{:?}", began.elapsed());
    let assigned = worker.assignment().await;
    worker.complete(&assigned.lease, json(json!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn agents_are_listed_by_pages() {
    let harness = Harness::start().await;
    let names: Vec<String> = (0..900).map(|number| format!("agent-{number:04}")).collect();
    let served: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut worker = harness.worker("w", &served).await;
    worker.say(Say::Heartbeat(v1::Heartbeat {})).await;
    for (page_size, first, most) in [(0, 500, 500), (7, 7, 7), (10_000, 500, 500)] {
        let mut request = v1::ListAgentsRequest { page_size, page_token: String::new() };
        let mut listed = Vec::new();
        loop {
            let page = harness.agents.clone().list_agents(request.clone()).await.unwrap().into_inner();
            assert!(page.agents.len() <= most);
            if listed.is_empty() {
                assert_eq!(page.agents.len(), first);
            }
            listed.extend(page.agents.into_iter().filter_map(|one| one.agent).map(|agent| agent.name));
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        listed.retain(|name| name.starts_with("agent-"));
        assert_eq!(listed, names);
    }
    let request = v1::ListAgentsRequest { page_size: 1, page_token: "x".repeat(200) };
    let refusal = harness.agents.clone().list_agents(request).await.unwrap_err();
    assert_eq!(paths_of(&refusal), ["page_token"]);
    worker.hear_until(|frame| matches!(frame, Hear::Heartbeat(_)).then_some(())).await;
}
