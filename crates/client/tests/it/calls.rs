//! Calls: what is repeated, what is not, and what an error says.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use capataz_client::{Client, ClientError, RetryOptions, v1};
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::daemon::{Call, Daemon, soon};

fn start(key: Option<&str>) -> v1::StartRunRequest {
    v1::StartRunRequest { idempotency_key: key.map(str::to_owned), ..v1::StartRunRequest::default() }
}

fn started() -> v1::StartRunResponse {
    v1::StartRunResponse { run_id: "run-1".to_owned(), created: true }
}

fn succeeded() -> v1::RunResult {
    v1::RunResult { outcome: v1::RunOutcome::Succeeded as i32, ..v1::RunResult::default() }
}

#[tokio::test]
async fn a_start_with_a_key_is_repeated_while_the_daemon_is_away() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.start_run(start(Some("k"))).await });
    for status in [Status::unavailable("starting"), Status::resource_exhausted("too many runs")] {
        let Call::Start(request, reply) = daemon.call().await else { panic!("another call") };
        assert_eq!(request.idempotency_key.as_deref(), Some("k"));
        reply.send(Err(status)).unwrap();
    }
    let Call::Start(_, reply) = daemon.call().await else { panic!("another call") };
    reply.send(Ok(started())).unwrap();
    assert_eq!(soon(call).await.unwrap().unwrap(), started());
}

#[tokio::test]
async fn a_start_without_a_key_is_made_once() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.start_run(start(None)).await });
    let Call::Start(_, reply) = daemon.call().await else { panic!("another call") };
    reply.send(Err(Status::unavailable("starting"))).unwrap();
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.grpc_code(), Code::Unavailable);
    assert!(error.is_retryable());
    assert!(daemon.is_quiet());
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.start_run(start(Some("k"))).await });
    let Call::Start(_, reply) = daemon.call().await else { panic!("another call") };
    reply.send(Err(Status::already_exists("another request has this key"))).unwrap();
    assert_eq!(soon(call).await.unwrap().unwrap_err().grpc_code(), Code::AlreadyExists);
    assert!(daemon.is_quiet());
}

#[tokio::test]
async fn the_daemons_hint_is_heeded() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.start_run(start(Some("k"))).await });
    let Call::Start(_, reply) = daemon.call().await else { panic!("another call") };
    let hint = Duration::from_millis(300);
    let details = ErrorDetails::with_retry_info(Some(hint));
    let refused = Instant::now();
    reply.send(Err(Status::with_error_details(Code::ResourceExhausted, "slow down", details))).unwrap();
    let Call::Start(_, reply) = daemon.call().await else { panic!("another call") };
    assert!(refused.elapsed() >= hint, "{:?}", refused.elapsed());
    reply.send(Ok(started())).unwrap();
    soon(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn several_starts_are_repeated_only_where_each_has_a_key() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    for (keys, repeated) in [([Some("a"), None], false), ([Some("a"), Some("b")], true)] {
        let client = client.clone();
        let call = tokio::spawn(async move { client.start_runs(keys.map(start).to_vec()).await });
        let Call::StartMany(request, reply) = daemon.call().await else { panic!("another call") };
        assert_eq!(request.runs.len(), 2);
        reply.send(Err(Status::unavailable("starting"))).unwrap();
        if repeated {
            let Call::StartMany(_, reply) = daemon.call().await else { panic!("another call") };
            reply.send(Ok(v1::StartRunsResponse { items: vec![v1::StartRunsItem::default()] })).unwrap();
        }
        assert_eq!(soon(call).await.unwrap().is_ok(), repeated);
        assert!(daemon.is_quiet());
    }
}

#[tokio::test]
async fn a_request_id_is_filled_in_and_kept() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let request = v1::CancelRunRequest { run_id: "run-1".to_owned(), ..v1::CancelRunRequest::default() };
    let call = tokio::spawn({
        let (client, request) = (client.clone(), request.clone());
        async move { client.cancel_run(request).await }
    });
    let Call::Cancel(first, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(first.request_id.len(), 36);
    reply.send(Err(Status::unavailable("starting"))).unwrap();
    let Call::Cancel(second, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(second, first);
    reply.send(Ok(v1::CancelRunResponse { seq: 7 })).unwrap();
    assert_eq!(soon(call).await.unwrap().unwrap().seq, 7);

    let given = v1::CancelRunRequest { request_id: "mine".to_owned(), ..request };
    let call = tokio::spawn(async move { client.cancel_run(given).await });
    let Call::Cancel(request, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(request.request_id, "mine");
    reply.send(Ok(v1::CancelRunResponse::default())).unwrap();
    soon(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_execution_survives_the_daemons_death_after_acceptance() {
    let mut daemon = Daemon::start().await;
    let address = daemon.address;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.execute_run(start(Some("k")), None).await });
    let Call::Execute(request, _reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(request.timeout_ms, Some(3_600_000));
    daemon.kill().await;
    let mut daemon = Daemon::start_on(address).await;
    let Call::Execute(request, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(request.start, Some(start(Some("k"))));
    let response =
        v1::ExecuteRunResponse { run_id: "run-1".to_owned(), created: false, result: Some(succeeded()) };
    reply.send(Ok(response.clone())).unwrap();
    assert_eq!(soon(call).await.unwrap().unwrap(), response);
}

#[tokio::test]
async fn an_execution_without_a_key_ends_with_its_connection() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.execute_run(start(None), None).await });
    let Call::Execute(_, _reply) = daemon.call().await else { panic!("another call") };
    daemon.kill().await;
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.grpc_code(), Code::Unavailable, "{error:?}");
    assert!(error.source().is_some());
}

#[tokio::test]
async fn an_execution_without_limit_waits_on() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.execute_run(start(None), None).await });
    let Call::Execute(_, reply) = daemon.call().await else { panic!("another call") };
    let unfinished = v1::ExecuteRunResponse {
        run_id: "run-1".to_owned(),
        created: true,
        ..v1::ExecuteRunResponse::default()
    };
    reply.send(Ok(unfinished)).unwrap();
    let Call::Wait(request, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(request.run_id, "run-1");
    reply.send(Ok(v1::WaitRunResponse::default())).unwrap();
    let Call::Wait(_, reply) = daemon.call().await else { panic!("another call") };
    reply.send(Ok(v1::WaitRunResponse { result: Some(succeeded()) })).unwrap();
    let response = soon(call).await.unwrap().unwrap();
    assert_eq!((response.created, response.result), (true, Some(succeeded())));
}

#[tokio::test]
async fn a_wait_is_taken_up_again_and_ends_in_time() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { client.wait_run("run-1", Some(Duration::from_millis(200))).await });
    let Call::Wait(request, reply) = daemon.call().await else { panic!("another call") };
    assert!(request.timeout_ms.is_some_and(|timeout| timeout <= 200));
    reply.send(Err(Status::unavailable("restarting"))).unwrap();
    let answering = tokio::spawn(async move {
        loop {
            let Call::Wait(_, reply) = daemon.call().await else { panic!("another call") };
            reply.send(Ok(v1::WaitRunResponse::default())).unwrap();
        }
    });
    assert_eq!(soon(call).await.unwrap().unwrap(), None);
    answering.abort();
}

#[tokio::test]
async fn an_error_says_all_that_the_daemon_said() {
    let mut daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    let request = v1::GetRunRequest { run_id: "run-1".to_owned(), ..v1::GetRunRequest::default() };
    let call = tokio::spawn(async move { client.get_run(request).await });
    let Call::Get(request, reply) = daemon.call().await else { panic!("another call") };
    assert_eq!(request.run_id, "run-1");
    let mut details = ErrorDetails::new();
    details
        .set_error_info("AGENT_NOT_FOUND", "capataz", [("severity".to_owned(), "CRITICAL".to_owned())])
        .set_retry_info(Some(Duration::from_secs(3)))
        .add_bad_request_violation("plan.waves[0].tasks[1].agent", "there is no agent `gretter`");
    reply.send(Err(Status::with_error_details(Code::InvalidArgument, "unknown agents", details))).unwrap();
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some("AGENT_NOT_FOUND"));
    assert_eq!(error.grpc_code(), Code::InvalidArgument);
    assert_eq!(error.message(), "unknown agents");
    assert_eq!(error.to_string(), "AGENT_NOT_FOUND: unknown agents");
    assert_eq!(error.metadata("severity"), Some("CRITICAL"));
    assert_eq!(error.metadata("other"), None);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(!error.is_retryable());
    let violations: Vec<_> =
        error.violations().iter().map(|violation| (&*violation.path, &*violation.message)).collect();
    assert_eq!(violations, [("plan.waves[0].tasks[1].agent", "there is no agent `gretter`")]);
}

#[tokio::test]
async fn nobody_listens() {
    let daemon = Daemon::start().await;
    let endpoint = daemon.endpoint();
    daemon.kill().await;
    let check = |error: &ClientError| {
        assert_eq!(error.grpc_code(), Code::Unavailable, "{error:?}");
        assert!(error.source().is_some(), "{error:?}");
    };
    check(&soon(Client::connect(&endpoint)).await.unwrap_err());
    let client = Client::lazy(&endpoint).unwrap();
    check(&soon(client.list_agents()).await.unwrap_err());
    let hasty =
        client.with_retry(RetryOptions { total: Duration::from_millis(100), ..RetryOptions::default() });
    check(&soon(Box::pin(hasty.start_run(start(Some("k"))))).await.unwrap_err());
}

#[tokio::test]
async fn blobs_agents_and_exports() {
    let daemon = Daemon::start().await;
    let client = Client::connect(&daemon.endpoint()).await.unwrap();
    for length in [0, 5, 2_000_000] {
        let content = Bytes::from(vec![7; length]);
        let blob = soon(client.put_blob(content.clone())).await.unwrap();
        assert_eq!(blob.size, length as u64);
        assert_eq!(soon(client.get_blob(&blob.blake3)).await.unwrap(), content);
    }
    assert_eq!(soon(client.get_blob("none")).await.unwrap_err().grpc_code(), Code::NotFound);

    assert_eq!(soon(client.list_agents()).await.unwrap()[0].workers, 3);
    let names = v1::CheckAgentsRequest { agents: vec!["a".to_owned()], ..v1::CheckAgentsRequest::default() };
    assert_eq!(soon(client.check_agents(names)).await.unwrap().total, 1);

    let mut export = soon(client.export_run("run-1")).await.unwrap();
    let mut seqs = Vec::new();
    while let Some(event) = soon(export.next()).await {
        seqs.push(event.unwrap().seq);
    }
    assert_eq!(seqs, [1, 2, 3]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_an_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.sock");
    let _daemon = Daemon::start_on_socket(&path).await;
    let client = soon(Client::connect(&format!("unix:{}", path.display()))).await.unwrap();
    assert_eq!(soon(client.list_agents()).await.unwrap().len(), 1);
}
