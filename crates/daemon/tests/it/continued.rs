//! A new run goes on where the run of a plan has ended (seed 000, scenario 7).

use capataz_contracts::v1;
use serde_json::json as value;

use crate::support::asks::{text, with_specs};
use crate::support::{Harness, code_of, error, json, one_wave, plan};

async fn go_on(harness: &Harness, request: v1::ContinueRunRequest) -> Result<(String, bool), tonic::Status> {
    let response = harness.runs.clone().continue_run(request).await?.into_inner();
    Ok((response.run_id, response.created))
}

fn of(run: &str) -> v1::ContinueRunRequest {
    v1::ContinueRunRequest { run_id: run.to_owned(), ..v1::ContinueRunRequest::default() }
}

/// The code of the refusal, and what the message says.
async fn refused(harness: &Harness, request: v1::ContinueRunRequest) -> (String, String) {
    let refusal = go_on(harness, request).await.unwrap_err();
    (code_of(&refusal), refusal.message().to_owned())
}

fn two_waves() -> v1::Plan {
    plan(
        r#"
        name = "release"
        policy = { kind = "fail_fast" }
        retry = { max_attempts = 1 }
        [[waves]]
        tasks = [{ name = "build", agent = "build" }, { name = "test", agent = "test" }]
        [[waves]]
        tasks = [{ name = "deploy", agent = "deploy", input = { built = "${tasks.build.output}", ok = "${tasks.test.output}" } }]
        "#,
    )
}

/// A run of these waves in which `build` has succeeded and `test` has failed.
async fn failed_run(harness: &Harness, worker: &mut crate::support::Worker) -> String {
    let start = v1::StartRunRequest {
        labels: [("env".to_owned(), "ci".to_owned())].into(),
        ..v1::StartRunRequest::of_plan(two_waves())
    };
    let run = harness.runs.clone().start_run(start).await.unwrap().into_inner().run_id;
    let mut given = worker.assignments(2).await;
    worker.complete(&given.remove("build").unwrap().lease, json(value!({ "image": 7 }))).await;
    worker.fail(&given.remove("test").unwrap().lease, error("TESTS_FAILED", "3 of 40 tests failed")).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
    run
}

// S000-SC-10
#[tokio::test]
async fn what_succeeded_is_taken_over_and_only_the_rest_is_done() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "test", "deploy"]).await;
    let before = failed_run(&harness, &mut worker).await;
    let log = harness.export(&before).await;

    let request = v1::ContinueRunRequest {
        labels: [("attempt".to_owned(), "2".to_owned())].into(),
        idempotency_key: Some("again".to_owned()),
        ..of(&before)
    };
    let (run, created) = go_on(&harness, request.clone()).await.unwrap();
    assert!(created && run != before);
    let test = worker.assignment().await;
    assert_eq!(test.assignment.task_name, "test");
    // A daemon that dies in between has taken over what it has taken over.
    let harness = harness.restart().await;
    let mut worker = harness.worker("w2", &["build", "test", "deploy"]).await;
    assert_eq!(go_on(&harness, request.clone()).await.unwrap(), (run.clone(), false));
    let test = worker.assignment().await;
    assert_eq!(test.assignment.task_name, "test");
    worker.complete(&test.lease, json(value!("40 of 40"))).await;
    let deploy = worker.assignment().await;
    let input = value!({ "built": { "image": 7 }, "ok": "40 of 40" });
    assert_eq!(deploy.assignment.input, Some(json(input)));
    worker.complete(&deploy.lease, json(value!("done"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);

    let view = harness.get(&run).await;
    assert_eq!(view.continues.as_deref(), Some(&*before));
    let labels = [("attempt", "2"), ("env", "ci")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(view.labels, labels.into());
    let taken: Vec<(&str, bool)> =
        view.waves.iter().flat_map(|wave| &wave.tasks).map(|task| (&*task.name, task.taken_over)).collect();
    assert_eq!(taken, [("build", true), ("test", false), ("deploy", false)]);
    assert_eq!(harness.export(&before).await, log, "the old run stays as it was");

    // The key names its run, whatever has become of the one that was continued.
    let delete = v1::DeleteRunRequest { run_id: before.clone() };
    harness.runs.clone().delete_run(delete).await.unwrap();
    assert_eq!(go_on(&harness, request).await.unwrap(), (run, false));
    assert_eq!(refused(&harness, of(&before)).await.0, "RUN_NOT_FOUND");
}

#[tokio::test]
async fn what_cannot_be_continued_is_refused_and_nothing_is_stored() {
    let harness = Harness::start_with(with_specs(&["chat"])).await;
    let mut worker = harness.worker("w1", &["build", "test", "deploy"]).await;
    let at_work = harness.start_run(one_wave(&["build"])).await;
    let given = worker.assignment().await;
    let ask = harness.begin(text("Tell me a joke")).await;
    let runs = harness.run_count().await;

    let (code, message) = refused(&harness, of(&at_work)).await;
    assert_eq!(
        (code.as_str(), message.contains("it has not ended")),
        ("RUN_NOT_CONTINUED", true),
        "{message}"
    );
    worker.complete(&given.lease, json(value!(1))).await;
    harness.wait(&at_work).await;
    let (code, message) = refused(&harness, of(&at_work)).await;
    assert_eq!(
        (code.as_str(), message.contains("all of its tasks")),
        ("RUN_NOT_CONTINUED", true),
        "{message}"
    );

    let cancel = v1::CancelRunRequest {
        run_id: ask.clone(),
        request_id: "cancel".to_owned(),
        ..v1::CancelRunRequest::default()
    };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    harness.wait(&ask).await;
    let (code, message) = refused(&harness, of(&ask)).await;
    assert_eq!(
        (code.as_str(), message.contains("not the run of a plan")),
        ("RUN_NOT_CONTINUED", true),
        "{message}"
    );

    for (request, code) in [
        (of("0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10"), "RUN_NOT_FOUND"),
        (of("latest"), "VALIDATION_ERROR"),
        (v1::ContinueRunRequest { idempotency_key: Some(String::new()), ..of(&at_work) }, "VALIDATION_ERROR"),
        (
            v1::ContinueRunRequest {
                labels: [("capataz.session".to_owned(), "mine".to_owned())].into(),
                ..of(&at_work)
            },
            "VALIDATION_ERROR",
        ),
    ] {
        assert_eq!(refused(&harness, request).await.0, code);
    }
    assert_eq!(harness.run_count().await, runs);
}

#[tokio::test]
async fn what_the_daemon_takes_over_no_client_can_give() {
    let harness = Harness::start().await;
    let mut forged = two_waves();
    forged.continues = Some("0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10".to_owned());
    forged.waves[0].tasks[1].taken_over = Some(v1::TakenOver::default());
    let refusal = harness.try_start(forged).await.unwrap_err();
    let paths = crate::support::paths_of(&refusal);
    // Nobody serves its agents either.
    assert_eq!(paths[..2], ["plan.continues", "plan.waves[0].tasks[1].taken_over"]);
    assert!(paths[2..].iter().all(|path| path.ends_with(".agent")), "{paths:?}");
    assert_eq!(harness.run_count().await, 0);
}

#[tokio::test]
async fn a_key_of_a_start_does_not_name_what_is_continued() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "test", "deploy"]).await;
    let before = failed_run(&harness, &mut worker).await;
    let keyed = |key: &str| v1::ContinueRunRequest { idempotency_key: Some(key.to_owned()), ..of(&before) };
    let (run, _) = go_on(&harness, keyed("k")).await.unwrap();
    let start = v1::StartRunRequest {
        idempotency_key: Some("k".to_owned()),
        ..v1::StartRunRequest::of_plan(two_waves())
    };
    let refusal = harness.runs.clone().start_run(start).await.unwrap_err();
    assert_eq!(code_of(&refusal), "IDEMPOTENCY_KEY_REUSED");
    // A run that was continued is one like any other: it can be continued, too.
    let test = worker.assignment().await;
    worker.fail(&test.lease, error("TESTS_FAILED", "1 of 40 tests failed")).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
    let (third, _) = go_on(&harness, of(&run)).await.unwrap();
    let test = worker.assignment().await;
    assert_eq!((test.lease.run_id.as_str(), test.assignment.task_name.as_str()), (&*third, "test"));
}

#[tokio::test]
async fn blobs_that_the_result_of_a_run_names_are_the_new_runs_as_well() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "test"]).await;
    let chunk = v1::PutBlobRequest { chunk: vec![b'x'; 40_000].into() };
    let mut blobs = v1::blob_service_client::BlobServiceClient::new(harness.channel.clone());
    let put = blobs.put_blob(tokio_stream::iter([chunk])).await.unwrap().into_inner().blob.unwrap();
    let plan = plan(
        r#"
        name = "of-a-run"
        retry = { max_attempts = 1 }
        policy = { kind = "fail_fast" }
        [[waves]]
        [[waves.tasks]]
        name = "child"
        [waves.tasks.run.plan]
        name = "inner"
        [[waves.tasks.run.plan.waves]]
        tasks = [{ name = "build", agent = "build" }]
        [[waves]]
        tasks = [{ name = "test", agent = "test" }]
        "#,
    );
    let before = harness.start_run(plan).await;
    let build = worker.assignment().await;
    let output = v1::Payload {
        media_type: "application/octet-stream".to_owned(),
        data: Some(v1::payload::Data::Blob(put.clone())),
    };
    worker.complete(&build.lease, output).await;
    let test = worker.assignment().await;
    worker.fail(&test.lease, error("TESTS_FAILED", "3 of 40 tests failed")).await;
    assert_eq!(harness.wait(&before).await.outcome(), v1::RunOutcome::Failed);

    let (run, _) = go_on(&harness, of(&before)).await.unwrap();
    let log = harness.export(&run).await;
    let Some(v1::event::Body::RunAccepted(accepted)) = &log[0].body else { panic!("{:?}", log[0]) };
    let child = accepted.plan().unwrap().waves[0].tasks[0].taken_over.as_ref().unwrap();
    assert_eq!(child.blobs, [put]);
    let test = worker.assignment().await;
    assert_eq!(
        (&*test.lease.run_id, &*test.assignment.task_name),
        (&*run, "test"),
        "the child is not run again"
    );
}
