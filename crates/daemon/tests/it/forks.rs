//! Runs that go on from the middle of another one.

use capataz_contracts::v1::{self, event::Body};
use serde_json::json as value;
use tonic::Status;

use crate::support::asks::{shipped_specs, text};
use crate::support::{Harness, PATIENCE, Worker, code_of, json, plan};

async fn fork(harness: &Harness, request: v1::ForkRunRequest) -> Result<v1::ForkRunResponse, Status> {
    harness.runs.clone().fork_run(request).await.map(tonic::Response::into_inner)
}

fn at(run: &str, seq: u64) -> v1::ForkRunRequest {
    v1::ForkRunRequest { at_seq: Some(seq), ..of(run) }
}

fn of(run: &str) -> v1::ForkRunRequest {
    v1::ForkRunRequest { run_id: run.to_owned(), ..v1::ForkRunRequest::default() }
}

/// The code of the refusal, its message, and the events that it names instead.
async fn refused(harness: &Harness, request: v1::ForkRunRequest) -> (String, String, Vec<u64>) {
    let refusal = fork(harness, request).await.unwrap_err();
    let named = refusal.message().rsplit_once("; it may be at ").map_or("", |(_, named)| named);
    let named = named.split(" or ").filter_map(|seq| seq.parse().ok()).collect();
    (code_of(&refusal), refusal.message().to_owned(), named)
}

fn two_waves() -> v1::Plan {
    plan(
        r#"
        name = "release"
        [[waves]]
        tasks = [{ name = "build", agent = "build" }]
        [[waves]]
        tasks = [{ name = "deploy", agent = "deploy", input = "${tasks.build.output}" }]
        "#,
    )
}

/// A run of these waves that has succeeded, and the event by which `deploy` was given to the worker.
async fn released(harness: &Harness, worker: &mut Worker) -> (String, u64) {
    let start = v1::StartRunRequest {
        labels: [("env".to_owned(), "ci".to_owned())].into(),
        ..v1::StartRunRequest::of_plan(two_waves())
    };
    let run = harness.runs.clone().start_run(start).await.unwrap().into_inner().run_id;
    let build = worker.assignment().await;
    worker.complete(&build.lease, json(value!({ "image": 7 }))).await;
    let deploy = worker.assignment().await;
    worker.complete(&deploy.lease, json(value!("in production"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let log = harness.export(&run).await;
    let leases = log.iter().filter(|event| matches!(event.body, Some(Body::TaskLeased(_))));
    (run, leases.last().unwrap().seq)
}

async fn shown(harness: &Harness, run: &str, seq: u64) -> v1::Run {
    let request = v1::GetRunRequest {
        run_id: run.to_owned(),
        include_outputs: true,
        at_seq: Some(seq),
        ..v1::GetRunRequest::default()
    };
    harness.runs.clone().get_run(request).await.unwrap().into_inner().run.unwrap()
}

async fn replayed(harness: &Harness, run: &str) -> v1::ReplayRunResponse {
    let request = v1::ReplayRunRequest { run_id: run.to_owned() };
    harness.runs.clone().replay_run(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn what_had_happened_is_not_done_again_also_after_a_restart() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let (base, seq) = released(&harness, &mut worker).await;
    let log = harness.export(&base).await;

    let request = v1::ForkRunRequest {
        labels: [("try".to_owned(), "2".to_owned())].into(),
        idempotency_key: Some("again".to_owned()),
        ..at(&base, seq)
    };
    let forked = fork(&harness, request.clone()).await.unwrap();
    assert_eq!((forked.created, forked.at_seq), (true, seq));
    let deploy = worker.assignment().await;
    assert_eq!(deploy.assignment.task_name, "deploy");
    let lease = deploy.lease.clone();
    assert_eq!(lease.run_id, forked.run_id);
    let harness = harness.restart().await;
    let mut worker = harness.worker("w2", &["build", "deploy"]).await;
    let again = fork(&harness, request).await.unwrap();
    assert_eq!((again.run_id.as_str(), again.created), (forked.run_id.as_str(), false));
    let deploy = worker.assignment().await;
    assert_eq!(deploy.assignment.input, Some(json(value!({ "image": 7 }))));
    worker.complete(&deploy.lease, json(value!("in test"))).await;
    assert_eq!(harness.wait(&forked.run_id).await.outcome(), v1::RunOutcome::Succeeded);

    let run = harness.get(&forked.run_id).await;
    assert_eq!(run.forked_from, Some(v1::ForkRef { run_id: base.clone(), seq }));
    let labels = [("env", "ci"), ("try", "2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(run.labels, labels.into());
    let own = harness.export(&forked.run_id).await;
    let place = usize::try_from(seq).unwrap();
    assert_eq!(own[..place], log[..place], "the past is the other run's");
    assert!(matches!(own[place].body, Some(Body::RunForked(_))));
    assert_eq!(harness.export(&base).await, log, "the other run stays as it is");
    // Both are the same then, but for what they are called.
    let (mut before, mut after) =
        (shown(&harness, &base, seq).await, shown(&harness, &forked.run_id, seq).await);
    before.run_id.clear();
    after.run_id.clear();
    assert_eq!(before, after);
    let replayed = replayed(&harness, &forked.run_id).await;
    assert_eq!((replayed.events, replayed.differences), (own.len() as u64, Vec::new()));
}

#[tokio::test]
async fn a_fork_is_possible_where_the_run_had_not_ended_and_between_decisions() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let (base, seq) = released(&harness, &mut worker).await;
    let last = harness.get(&base).await.seq;
    // A run that has ended goes on from nowhere; before that it may be where `deploy` is at work.
    let (code, message, named) = refused(&harness, at(&base, last)).await;
    assert_eq!((code.as_str(), named.as_slice()), ("FORK_NOT_POSSIBLE", &[seq][..]), "{message}");
    assert!(message.contains("it has ended by then"), "{message}");
    assert_eq!(fork(&harness, of(&base)).await.unwrap().at_seq, seq, "the newest one that may be");
    // What was decided together is forked together.
    let (code, message, named) = refused(&harness, at(&base, 1)).await;
    assert_eq!(code, "FORK_NOT_POSSIBLE");
    let [first] = named[..] else { panic!("{message}") };
    assert!(message.contains(&format!("events 1 to {first} were decided together")), "{message}");
    assert_eq!(fork(&harness, at(&base, first)).await.unwrap().at_seq, first);
    let (code, message, named) = refused(&harness, at(&base, seq - 1)).await;
    assert_eq!((code.as_str(), named.as_slice()), ("FORK_NOT_POSSIBLE", &[first, seq][..]), "{message}");
    assert!(message.contains(&format!(" to {seq} were decided together")), "{message}");
    for absent in [0, last + 1, u64::MAX] {
        let (code, message, _) = refused(&harness, at(&base, absent)).await;
        assert_eq!(code, "VALIDATION_ERROR");
        assert!(message.contains(&format!("events 1 to {last}")), "{message}");
    }
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused_and_nothing_is_stored() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let (base, seq) = released(&harness, &mut worker).await;
    let reserved = [("capataz.product".to_owned(), "x".to_owned())];
    for (request, code) in [
        (at("no id", seq), "VALIDATION_ERROR"),
        (at("0199a3c8-5b1e-7c4d-9a52-0d6f3c1b7e10", seq), "RUN_NOT_FOUND"),
        (v1::ForkRunRequest { input: Some(json(value!({}))), ..at(&base, seq) }, "VALIDATION_ERROR"),
        (v1::ForkRunRequest { labels: reserved.into(), ..at(&base, seq) }, "VALIDATION_ERROR"),
        (v1::ForkRunRequest { idempotency_key: Some(String::new()), ..at(&base, seq) }, "VALIDATION_ERROR"),
    ] {
        assert_eq!(refused(&harness, request.clone()).await.0, code, "{request:?}");
    }
    assert_eq!(harness.run_count().await, 1);
    let keyed = |seq| v1::ForkRunRequest { idempotency_key: Some("k".to_owned()), ..at(&base, seq) };
    let first = fork(&harness, keyed(seq)).await.unwrap();
    let other = v1::ForkRunRequest { labels: [("try".to_owned(), "3".to_owned())].into(), ..keyed(seq) };
    let (code, ..) = refused(&harness, other).await;
    assert_eq!(code, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(fork(&harness, keyed(seq)).await.unwrap().run_id, first.run_id);
}

/// The events that a stream delivers until it has caught up: the run, the number, and whether it is inherited.
async fn heard(harness: &Harness, run: Option<&str>) -> Vec<(String, u64, bool)> {
    let filter = v1::EventFilter { run_id: run.map(str::to_owned), ..Default::default() };
    let request = v1::SubscribeRequest { filter: Some(filter), ..Default::default() };
    let mut stream = harness.events.clone().subscribe(request).await.unwrap().into_inner();
    let mut heard = Vec::new();
    loop {
        let response = tokio::time::timeout(PATIENCE, stream.message()).await.expect("in time").unwrap();
        let Some(response) = response else { return heard };
        for delivered in response.events {
            let seq = delivered.decode_event().unwrap().seq;
            heard.push((delivered.run_id, seq, delivered.inherited));
        }
        if response.caught_up {
            return heard;
        }
    }
}

#[tokio::test]
async fn an_event_happens_once_however_many_runs_have_it() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let (base, seq) = released(&harness, &mut worker).await;
    let first = fork(&harness, at(&base, seq)).await.unwrap().run_id;
    let deploy = worker.assignment().await;
    worker.complete(&deploy.lease, json(value!("in test"))).await;
    harness.wait(&first).await;
    // A fork of a fork, within what that one has inherited.
    let second = fork(&harness, at(&first, seq)).await.unwrap().run_id;
    let deploy = worker.assignment().await;
    worker.complete(&deploy.lease, json(value!("again"))).await;
    harness.wait(&second).await;

    let mut all = Vec::new();
    for (run, inherited) in [(&base, 0), (&first, seq), (&second, seq)] {
        let last = harness.get(run).await.seq;
        let expected: Vec<_> = (1..=last).map(|event| (run.clone(), event, event <= inherited)).collect();
        assert_eq!(heard(&harness, Some(run)).await, expected);
        all.extend(expected.into_iter().filter(|(_, _, inherited)| !inherited));
    }
    let mut everything = heard(&harness, None).await;
    everything.sort();
    all.sort();
    assert_eq!(everything, all);
    let from = harness.get(&second).await.forked_from.unwrap();
    assert_eq!((from.run_id, from.seq), (first, seq));
}

#[tokio::test]
async fn a_fork_needs_nothing_of_the_run_that_it_was_forked_from() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let (base, seq) = released(&harness, &mut worker).await;
    let log = harness.export(&base).await;
    let forked = fork(&harness, at(&base, seq)).await.unwrap().run_id;
    worker.unacknowledged().await;
    let delete = v1::DeleteRunRequest { run_id: base.clone() };
    harness.runs.clone().delete_run(delete).await.unwrap();
    assert_eq!(refused(&harness, at(&base, seq)).await.0, "RUN_NOT_FOUND");
    let harness = harness.restart().await;
    let mut worker = harness.worker("w2", &["build", "deploy"]).await;
    let deploy = worker.assignment().await;
    worker.complete(&deploy.lease, json(value!("in test"))).await;
    assert_eq!(harness.wait(&forked).await.outcome(), v1::RunOutcome::Succeeded);
    let place = usize::try_from(seq).unwrap();
    assert_eq!(harness.export(&forked).await[..place], log[..place]);
    assert_eq!(replayed(&harness, &forked).await.differences, Vec::new());
}

/// The state of such a run is held by one reader at a time, and many forks of it together are more than is copied at a time.
#[tokio::test]
async fn a_large_run_is_forked_by_many_at_once() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let names: Vec<String> = (0..200).map(|number| format!("t{number}")).collect();
    let build =
        |name: &String| v1::Task { name: name.clone(), agent: "build".to_owned(), ..Default::default() };
    let waves = vec![
        v1::Wave { tasks: names.iter().map(build).collect(), ..Default::default() },
        plan("name = \"x\"\n[[waves]]\ntasks = [{ name = \"deploy\", agent = \"deploy\" }]").waves.remove(0),
    ];
    let start =
        v1::StartRunRequest::of_plan(v1::Plan { name: "large".to_owned(), waves, ..Default::default() });
    let base = harness.runs.clone().start_run(start).await.unwrap().into_inner().run_id;
    for _ in &names {
        let lease = worker.assignment().await.lease;
        worker.complete(&lease, json(value!("a".repeat(31 * 1024)))).await;
    }
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(value!("in production"))).await;
    assert_eq!(harness.wait(&base).await.outcome(), v1::RunOutcome::Succeeded);

    let last = harness.get(&base).await.seq;
    let looked = tokio::time::timeout(PATIENCE, refused(&harness, at(&base, last)));
    let (code, message, named) = looked.await.expect("it waits for nobody");
    let [before] = named[..] else { panic!("{message}") };
    assert_eq!(code, "FORK_NOT_POSSIBLE");
    let forks = futures_util::future::join_all((0..8).map(|_| fork(&harness, at(&base, before))));
    let forks = tokio::time::timeout(PATIENCE, forks).await.expect("each has its turn");
    for _ in &forks {
        let deploy = worker.assignment().await;
        worker.complete(&deploy.lease, json(value!("in test"))).await;
    }
    for forked in forks {
        let forked = forked.unwrap();
        assert!(forked.created);
        assert_eq!(harness.wait(&forked.run_id).await.outcome(), v1::RunOutcome::Succeeded);
    }
}

#[tokio::test]
async fn an_ask_whose_spec_was_at_work_is_answered_again_in_its_fork() {
    let harness = Harness::start_with(|config| config.specs_dir = Some(shipped_specs())).await;
    let base = harness.ask(text("Me siento muy perdida últimamente")).await;
    let forked = fork(&harness, of(&base.run)).await.unwrap();
    let result = harness.wait(&forked.run_id).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    let answer = result.ask().unwrap();
    assert_eq!(answer.calls.len(), 1, "{answer:?}");
    assert_eq!(answer.request_id, base.run, "it is the same request");
}

#[tokio::test]
async fn a_run_that_was_told_to_end_is_forked_before_that() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let start = v1::StartRunRequest::of_plan(two_waves());
    let base = harness.runs.clone().start_run(start).await.unwrap().into_inner().run_id;
    let build = worker.assignment().await;
    let leased = harness.get(&base).await.seq;
    let cancel =
        v1::CancelRunRequest { run_id: base.clone(), request_id: "c".to_owned(), ..Default::default() };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    let told = harness.get(&base).await.seq;
    let (code, message, named) = refused(&harness, at(&base, told)).await;
    assert_eq!((code.as_str(), named.as_slice()), ("FORK_NOT_POSSIBLE", &[leased][..]), "{message}");
    assert!(message.contains("it has been told to end by then"), "{message}");
    let forked = fork(&harness, of(&base)).await.unwrap();
    assert_eq!(forked.at_seq, leased, "where `build` is at work");
    assert_eq!(harness.get(&forked.run_id).await.status(), v1::RunStatus::Running);
    drop(build);
}
