//! Runs whose logs are damaged on the disk: they are served as such, and nothing else stops.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;
use capataz_contracts::v1::{self, AgentKind, event::Body};
use capataz_daemon::Config;
use capataz_shard::session_stream;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use uuid::Uuid;

use crate::modes::{act, execution, try_start};
use crate::support::asks::{AskExt, answer_to, request_of, served, text};
use crate::support::{Harness, PATIENCE, Worker, code_of, data_dir, json, one_wave};

/// A daemon whose scripts wait, because no browser may be open, and whose specs are served by workers.
fn config(folder: &Path) -> impl FnOnce(&mut Config) + use<> {
    let program = folder.join("browser");
    std::fs::write(&program, "#!/bin/sh\necho 'Chromium 150.0.1.2'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    move |config| {
        config.browser.program = Some(program);
        config.browser.max_open = 0;
        config.specs = served(&["wave"]);
    }
}

async fn start_in(folder: tempfile::TempDir) -> Harness {
    let edit = config(folder.path());
    Harness::start_in(folder, edit).await
}

/// Ends the daemon without a drain, which would wait for the scripts that wait for a browser.
fn drop_daemon(harness: Harness) -> tempfile::TempDir {
    let Harness { daemon, folder, .. } = harness;
    drop(daemon);
    folder
}

fn script() -> v1::StartRunRequest {
    let toml = "name = \"s\"\ninteractive = true\n[policy]\nallowlist = [\"example.com\"]\n";
    let format = capataz_contracts::script_file::Format::Toml;
    v1::StartRunRequest::of_script(capataz_contracts::script_file::parse(toml, format).unwrap())
}

fn database(folder: &tempfile::TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(data_dir(folder).join("capataz.db")).unwrap()
}

/// Flips the last byte of the first row of each of these streams, or flips it back.
fn flip(folder: &tempfile::TempDir, streams: &[Uuid]) {
    for stream in streams {
        flip_row(folder, *stream, 1);
    }
}

/// Flips the last byte of the row of this stream that begins with this event, or flips it back.
fn flip_row(folder: &tempfile::TempDir, stream: Uuid, first_seq: u32) {
    let database = database(folder);
    let key = "run = ?1 AND first_seq = ?2";
    let read = format!("SELECT events FROM log WHERE {key}");
    let of_row = rusqlite::params![stream.as_bytes(), first_seq];
    let mut events: Vec<u8> = database.query_row(&read, of_row, |row| row.get(0)).unwrap();
    *events.last_mut().unwrap() ^= 1;
    let write = format!("UPDATE log SET events = ?3 WHERE {key}");
    assert_eq!(database.execute(&write, rusqlite::params![stream.as_bytes(), first_seq, events]).unwrap(), 1);
}

/// A row of the log: where it is, its first event, and how many it has.
struct Row {
    position: u32,
    first_seq: u32,
    count: u32,
}

/// The row of this stream that has this event.
fn row_with(folder: &tempfile::TempDir, stream: Uuid, seq: u32) -> Row {
    let read = "SELECT position, first_seq, count FROM log
                WHERE run = ?1 AND ?2 BETWEEN first_seq AND first_seq + count - 1";
    let of_event = rusqlite::params![stream.as_bytes(), seq];
    let found = database(folder).query_row(read, of_event, |row| {
        Ok(Row { position: row.get(0)?, first_seq: row.get(1)?, count: row.get(2)? })
    });
    found.unwrap()
}

#[track_caller]
fn check_refused(refused: Result<(), Status>, run: &str) {
    let position = check_whole_until(&refused.unwrap_err(), run, 0);
    assert_ne!(position, "0");
}

/// The refusal says that the run is damaged behind this event. At which position it is.
#[track_caller]
fn check_whole_until(refusal: &Status, run: &str, seq: u32) -> String {
    assert_eq!((refusal.code(), code_of(refusal)), (Code::DataLoss, "LOG_DAMAGED".to_owned()), "{refusal}");
    let details = refusal.get_error_details();
    let metadata = &details.error_info().unwrap().metadata;
    let of = |key: &str| metadata.get(key).map(String::as_str);
    let seq = seq.to_string();
    assert_eq!((of("run_id"), of("seq"), of("reason")), (Some(run), Some(&*seq), Some("damaged")));
    assert!(of("advice").is_some_and(|advice| !advice.is_empty()));
    of("position").expect("it has a position").to_owned()
}

/// Every call for the run is refused.
async fn check_damaged(harness: &Harness, run: &str) {
    let mut runs = harness.runs.clone();
    let run_id = run.to_owned();
    let get = runs.get_run(v1::GetRunRequest { run_id: run_id.clone(), ..Default::default() }).await;
    check_refused(get.map(|_| ()), run);
    let wait = v1::WaitRunRequest { run_id: run_id.clone(), timeout_ms: Some(60_000) };
    check_refused(runs.wait_run(wait).await.map(|_| ()), run);
    let pause =
        v1::PauseRunRequest { run_id: run_id.clone(), request_id: "p".to_owned(), ..Default::default() };
    check_refused(runs.pause_run(pause).await.map(|_| ()), run);
    let export = runs.export_run(v1::ExportRunRequest { run_id: run_id.clone() }).await;
    check_refused(export.unwrap().into_inner().message().await.map(|_| ()), run);
    check_refused(subscribed(harness, run).await.1, run);
}

/// The events that a stream of the run has, and what it ends with.
async fn subscribed(harness: &Harness, run: &str) -> (Vec<v1::Event>, Result<(), Status>) {
    let filter = v1::EventFilter { run_id: Some(run.to_owned()), ..Default::default() };
    let request = v1::SubscribeRequest { filter: Some(filter), until_finished: true, ..Default::default() };
    let mut events = Vec::new();
    let mut stream = match harness.events.clone().subscribe(request).await {
        Ok(response) => response.into_inner(),
        Err(refusal) => return (events, Err(refusal)),
    };
    loop {
        match stream.message().await {
            Ok(Some(response)) => {
                events.extend(response.events.iter().map(|delivered| delivered.decode_event().unwrap()));
            }
            Ok(None) => return (events, Ok(())),
            Err(refusal) => return (events, Err(refusal)),
        }
    }
}

/// The events that an export of the run has, and what it ends with.
async fn exported(harness: &Harness, run: &str) -> (Vec<v1::Event>, Result<(), Status>) {
    let request = v1::ExportRunRequest { run_id: run.to_owned() };
    let mut stream = harness.runs.clone().export_run(request).await.unwrap().into_inner();
    let mut events = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(page)) => events.extend(
                page.events.into_iter().map(|event| <v1::Event as prost::Message>::decode(event).unwrap()),
            ),
            Ok(None) => return (events, Ok(())),
            Err(refusal) => return (events, Err(refusal)),
        }
    }
}

/// The runs that are listed as damaged.
async fn listed(harness: &Harness) -> BTreeSet<String> {
    let request = v1::ListRunsRequest { page_size: 500, ..Default::default() };
    let runs = harness.runs.clone().list_runs(request).await.unwrap().into_inner().runs;
    let damaged = runs.into_iter().filter(|run| {
        run.quarantine.as_ref().is_some_and(|quarantine| {
            assert_eq!(quarantine.reason(), v1::QuarantineReason::Damaged);
            assert!(quarantine.position.is_some() && quarantine.at_ms > 0 && !quarantine.detail.is_empty());
            true
        })
    });
    damaged.map(|run| run.run_id).collect()
}

/// The runs of a product that have checkpoints.
async fn with_checkpoints(harness: &Harness, product: &str) -> BTreeSet<String> {
    let product_id = product.to_owned();
    let request = v1::ListCheckpointsRequest { product_id, ..v1::ListCheckpointsRequest::default() };
    let mut pipelines = PipelineServiceClient::new(harness.channel.clone());
    let listed = pipelines.list_checkpoints(request).await.unwrap().into_inner().checkpoints;
    listed.into_iter().map(|checkpoint| checkpoint.run_id).collect()
}

async fn listed_are(harness: &Harness, expected: &BTreeSet<String>) {
    let listed = async {
        while listed(harness).await != *expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, listed).await.expect("they are listed in time");
}

/// The numbers of the events of each run, and the runs in whose place there is a marker, up to an event of this run with
/// this number.
async fn heard(
    harness: &Harness,
    (last_run, last_seq): (&str, u64),
) -> (BTreeMap<String, Vec<u64>>, Vec<String>) {
    let mut stream =
        harness.events.clone().subscribe(v1::SubscribeRequest::default()).await.unwrap().into_inner();
    let (mut events, mut markers) = (BTreeMap::<String, Vec<u64>>::new(), Vec::new());
    loop {
        let response = stream.message().await.unwrap().unwrap();
        for delivered in response.events {
            let seq = delivered.decode_event().unwrap().seq;
            events.entry(delivered.run_id.clone()).or_default().push(seq);
            if (delivered.run_id.as_str(), seq) == (last_run, last_seq) {
                return (events, markers);
            }
        }
        for damaged in response.damaged {
            assert_eq!(damaged.first_seq, 1);
            assert!(!events.contains_key(&damaged.run_id), "in its place");
            markers.push(damaged.run_id);
        }
    }
}

async fn cancel(harness: &Harness, run: &str) {
    let request = v1::CancelRunRequest {
        run_id: run.to_owned(),
        request_id: "c".to_owned(),
        force: true,
        ..Default::default()
    };
    harness.runs.clone().cancel_run(request).await.unwrap();
    harness.wait(run).await;
}

/// A worker that does what runs of every kind want done.
async fn all_hands(harness: &Harness) -> Worker {
    let agent = |name: &str, kind: AgentKind| v1::Agent {
        name: name.to_owned(),
        category: "utility".to_owned(),
        kind: kind.into(),
        contract_version: "1.0.0".to_owned(),
        max_concurrency: 1000,
        ..v1::Agent::default()
    };
    let hello = v1::Hello {
        worker_id: "w".to_owned(),
        agents: vec![
            agent("a", AgentKind::Task),
            agent("wave", AgentKind::Task),
            agent("brain", AgentKind::Planner),
            v1::Agent { undoable: true, ..agent("read", AgentKind::Tool) },
        ],
        slots: 1000,
        protocol: 1,
        ..v1::Hello::default()
    };
    Worker::with_hello(harness.channel.clone(), hello).await.unwrap()
}

/// Does one task: the planner wants one tool called, and nothing after that.
async fn complete(worker: &mut Worker) {
    let assigned = worker.assignment().await;
    let output = match assigned.assignment.agent.as_str() {
        "wave" => answer_to(&request_of(&assigned), "an answer"),
        "brain" => act("read", serde_json::json!({}), false),
        _ => serde_json::json!(1),
    };
    worker.complete(&assigned.lease, json(output)).await;
}

async fn start(harness: &Harness, request: v1::StartRunRequest) -> String {
    harness.runs.clone().start_run(request).await.unwrap().into_inner().run_id
}

/// A pipeline of one phase.
fn pipeline() -> v1::StartRunRequest {
    let phase = v1::Phase { name: "one".to_owned(), agent: "a".to_owned(), ..v1::Phase::default() };
    let name = "pipeline".to_owned();
    v1::StartRunRequest::of_pipeline(v1::Pipeline { name, phases: vec![phase], ..v1::Pipeline::default() })
}

/// A run that goes on with the task of a plan that has done it, and the last event that it has of that plan.
async fn fork_of(harness: &Harness, plan: &str) -> (String, u64) {
    let request = v1::ForkRunRequest { run_id: plan.to_owned(), ..v1::ForkRunRequest::default() };
    let forked = harness.runs.clone().fork_run(request).await.unwrap().into_inner();
    (forked.run_id, forked.at_seq)
}

/// Kinds of runs: plan, ask, pipeline, execution, fork and script, of which the last one alone waits for no worker.
const KINDS: usize = 6;
/// The pipeline among them.
const PIPELINE: usize = 2;
/// Tasks of one run of each kind: the execution has its planner asked, and calls a tool.
const TASKS: usize = 6;

#[tokio::test]
async fn damaged_runs_of_every_kind_are_served_as_such_and_nothing_else_stops() {
    let harness = start_in(tempfile::tempdir().unwrap()).await;
    let mut worker = all_hands(&harness).await;
    let (mut finished, mut forked) = (Vec::new(), BTreeMap::new());
    for _ in 0..2 {
        let plan = harness.start_run(one_wave(&["a"])).await;
        complete(&mut worker).await;
        harness.wait(&plan).await;
        let ask = harness.begin(text("a").to("wave")).await;
        complete(&mut worker).await;
        harness.wait(&ask).await;
        let pipeline = start(&harness, pipeline()).await;
        complete(&mut worker).await;
        harness.wait(&pipeline).await;
        let mode = try_start(&harness, execution("tidy up")).await.unwrap();
        for _ in 0..2 {
            complete(&mut worker).await;
        }
        harness.wait(&mode).await;
        let (fork, at_seq) = fork_of(&harness, &plan).await;
        complete(&mut worker).await;
        harness.wait(&fork).await;
        forked.insert(fork.clone(), at_seq);
        let script = start(&harness, script()).await;
        cancel(&harness, &script).await;
        finished.extend([plan, ask, pipeline, mode, fork, script]);
    }
    let mut unfinished = Vec::new();
    for of_round in finished.chunks(KINDS) {
        let plan = harness.start_run(one_wave(&["a"])).await;
        let ask = harness.begin(text("a").to("wave")).await;
        let pipeline = start(&harness, pipeline()).await;
        let mode = try_start(&harness, execution("tidy up")).await.unwrap();
        let (fork, at_seq) = fork_of(&harness, &of_round[0]).await;
        forked.insert(fork.clone(), at_seq);
        let script = start(&harness, script()).await;
        unfinished.extend([plan, ask, pipeline, mode, fork, script]);
    }
    let (bad_finished, good_finished) = finished.split_at(KINDS);
    let (bad_unfinished, good_unfinished) = unfinished.split_at(KINDS);
    let (good_script, good_others) = good_unfinished.split_last().unwrap();
    let (bad_script, bad_others) = bad_unfinished.split_last().unwrap();
    let mut before = BTreeMap::new();
    for run in finished.iter().chain(bad_unfinished) {
        before.insert(run.clone(), harness.export(run).await);
    }
    drop(worker);
    let folder = drop_daemon(harness);
    let bad: Vec<&String> = bad_finished.iter().chain(bad_unfinished).collect();
    let streams: Vec<Uuid> = bad.iter().map(|run| run.parse().unwrap()).collect();
    flip(&folder, &streams);

    let harness = start_in(folder).await;
    listed_are(&harness, &bad_unfinished.iter().cloned().collect()).await;
    for run in &bad {
        check_damaged(&harness, run).await;
    }
    // What nobody had looked at yet is listed as soon as somebody has.
    let all: BTreeSet<String> = bad.iter().map(|run| (*run).clone()).collect();
    listed_are(&harness, &all).await;
    // Of a product the checkpoints of all other runs are shown.
    let shown = with_checkpoints(&harness, "pipeline").await;
    assert_eq!(shown, BTreeSet::from([good_finished[PIPELINE].clone(), good_unfinished[PIPELINE].clone()]));
    for run in good_finished {
        assert_eq!(harness.export(run).await, before[run]);
    }
    // The others go on: the worker has forgotten its tasks, and is given those of the runs that are whole.
    let mut worker = all_hands(&harness).await;
    for _ in 0..TASKS {
        complete(&mut worker).await;
    }
    for run in good_others {
        assert_eq!(harness.wait(run).await.outcome(), v1::RunOutcome::Succeeded);
    }
    cancel(&harness, good_script).await;
    let last = (good_script.as_str(), harness.get(good_script).await.seq);
    let (events, markers) = heard(&harness, last).await;
    assert_eq!(markers.len(), bad.len(), "one for each damaged row");
    assert_eq!(markers.into_iter().collect::<BTreeSet<_>>(), all);
    for run in good_finished.iter().chain(good_unfinished) {
        let newest = harness.get(run).await.seq;
        // What a fork has of the plan has happened once.
        let first = forked.get(run).map_or(1, |at_seq| at_seq + 1);
        assert_eq!(events[run], (first..=newest).collect::<Vec<_>>());
    }

    drop(worker);
    let folder = harness.stop().await;
    flip(&folder, &streams);
    let harness = start_in(folder).await;
    assert_eq!(listed(&harness).await, BTreeSet::new());
    for run in bad_finished {
        assert_eq!(harness.export(run).await, before[run]);
        harness.wait(run).await;
    }
    let mut worker = all_hands(&harness).await;
    for _ in 0..TASKS {
        complete(&mut worker).await;
    }
    for run in bad_others {
        assert_eq!(harness.wait(run).await.outcome(), v1::RunOutcome::Succeeded);
        assert!(harness.export(run).await.starts_with(&before[run]));
    }
    cancel(&harness, bad_script).await;
    drop(worker);
    harness.stop().await;
}

#[tokio::test]
async fn a_run_that_is_damaged_in_its_middle_is_read_as_far_as_it_is_whole_and_ends_with_the_damage() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w", &["a", "b"]).await;
    let mut plan = one_wave(&["a"]);
    plan.waves.extend(one_wave(&["b"]).waves);
    let run = harness.start_run(plan).await;
    for _ in 0..2 {
        complete(&mut worker).await;
    }
    harness.wait(&run).await;
    let before = harness.export(&run).await;
    drop(worker);
    let folder = harness.stop().await;
    // The end of the first task was decided after it was given out, and before the second one was.
    let end = before.iter().find(|event| matches!(event.body, Some(Body::TaskSettled(_)))).unwrap();
    let stream: Uuid = run.parse().unwrap();
    let row = row_with(&folder, stream, u32::try_from(end.seq).unwrap());
    let (whole, behind) = (row.first_seq - 1, row.first_seq - 1 + row.count);
    assert!(whole > 0 && u64::from(behind) < before.last().unwrap().seq, "{whole} and {behind}");
    flip_row(&folder, stream, row.first_seq);

    let harness = Harness::start_in(folder, |_| ()).await;
    let check = |(events, end): (Vec<v1::Event>, Result<(), Status>)| {
        assert_eq!(events.len(), whole as usize);
        assert_eq!(events, before[..whole as usize]);
        let leases = events.iter().filter(|event| matches!(event.body, Some(Body::TaskLeased(_))));
        assert_eq!(leases.count(), 1, "that of the first task, of two");
        assert_eq!(check_whole_until(&end.unwrap_err(), &run, whole), row.position.to_string());
    };
    check(subscribed(&harness, &run).await);
    check(exported(&harness, &run).await);
    // Listed as damaged, it is exported as before.
    listed_are(&harness, &[run.clone()].into()).await;
    check(exported(&harness, &run).await);
    let get = v1::GetRunRequest { run_id: run.clone(), ..Default::default() };
    let refusal = harness.runs.clone().get_run(get).await.unwrap_err();
    assert_eq!(check_whole_until(&refusal, &run, whole), row.position.to_string());

    let folder = harness.stop().await;
    flip_row(&folder, stream, row.first_seq);
    let harness = Harness::start_in(folder, |_| ()).await;
    assert_eq!(harness.export(&run).await, before);
    harness.stop().await;
}

#[tokio::test]
async fn a_damaged_session_refuses_its_asks_and_no_others() {
    let harness = start_in(tempfile::tempdir().unwrap()).await;
    let mut worker = harness.worker("w", &["wave"]).await;
    for session in ["talk", "other"] {
        let ask = harness.begin(text("a").to("wave").within(session)).await;
        complete(&mut worker).await;
        harness.wait(&ask).await;
    }
    let unfinished = harness.begin(text("b").to("wave").within("talk")).await;
    drop(worker);
    let folder = harness.stop().await;
    let stream = session_stream("talk");
    flip(&folder, &[stream.0]);

    let harness = start_in(folder).await;
    let named = v1::GetSessionRequest { session: "talk".to_owned() };
    let get = harness.sessions().get_session(named).await;
    check_refused(get.map(|_| ()), &stream.to_string());
    let of_unfinished = v1::GetRunRequest { run_id: unfinished.clone(), ..Default::default() };
    let refusal = harness.runs.clone().get_run(of_unfinished).await.unwrap_err();
    assert_eq!(code_of(&refusal), "LOG_DAMAGED");
    for _ in 0..2 {
        let start = v1::StartRunRequest::of_ask(text("c").to("wave").within("talk"));
        let refusal = harness.execute(start).await.unwrap_err();
        assert_eq!((refusal.code(), code_of(&refusal)), (Code::DataLoss, "LOG_DAMAGED".to_owned()));
    }
    check_refused(harness.accept("talk", "r").await.map(|_| ()), &stream.to_string());
    let mut worker = harness.worker("w", &["wave"]).await;
    let other = harness.begin(text("c").to("wave").within("other")).await;
    complete(&mut worker).await;
    assert_eq!(harness.ended(&other).await.outcome, v1::RunOutcome::Succeeded);

    drop(worker);
    let folder = harness.stop().await;
    flip(&folder, &[stream.0]);
    let harness = start_in(folder).await;
    let mut worker = harness.worker("w", &["wave"]).await;
    complete(&mut worker).await;
    assert_eq!(harness.ended(&unfinished).await.outcome, v1::RunOutcome::Succeeded);
    assert_eq!(harness.session("talk").await.session, "talk");
    drop(worker);
    harness.stop().await;
}

#[tokio::test]
async fn a_damaged_run_is_removed_by_a_call_and_one_that_is_whole_again_is_released_by_one() {
    let harness = start_in(tempfile::tempdir().unwrap()).await;
    drop(harness.worker("w", &["a"]).await);
    let mut unfinished = Vec::new();
    for _ in 0..3 {
        unfinished.push(harness.start_run(one_wave(&["a"])).await);
    }
    let [removed, released, works] = unfinished.as_slice() else { panic!("three were started") };
    let ended = harness.start_run(one_wave(&["a"])).await;
    cancel(&harness, &ended).await;
    let folder = drop_daemon(harness);
    flip(&folder, &[removed.parse().unwrap(), released.parse().unwrap()]);

    let harness = start_in(folder).await;
    listed_are(&harness, &[removed.clone(), released.clone()].into()).await;
    let delete = async |run: &String| {
        harness.runs.clone().delete_run(v1::DeleteRunRequest { run_id: run.clone() }).await
    };
    let release = async |run: &String| {
        harness.runs.clone().release_run(v1::ReleaseRunRequest { run_id: run.clone() }).await
    };
    for run in [removed, &ended] {
        assert!(delete(run).await.unwrap().into_inner().bytes > 0);
        assert_eq!(code_of(&delete(run).await.unwrap_err()), "RUN_NOT_FOUND");
        let get = v1::GetRunRequest { run_id: run.clone(), ..Default::default() };
        assert_eq!(code_of(&harness.runs.clone().get_run(get).await.unwrap_err()), "RUN_NOT_FOUND");
    }
    assert_eq!(code_of(&delete(works).await.unwrap_err()), "RUN_IN_USE");
    assert!(!release(works).await.unwrap().into_inner().released);
    check_refused(release(released).await.map(|_| ()), released);
    flip(&harness.folder, &[released.parse().unwrap()]);
    assert!(release(released).await.unwrap().into_inner().released);
    assert_eq!(listed(&harness).await, BTreeSet::new());
    let mut worker = harness.worker("w", &["a"]).await;
    for _ in 0..2 {
        complete(&mut worker).await;
    }
    for run in [released, works] {
        assert_eq!(harness.wait(run).await.outcome(), v1::RunOutcome::Succeeded);
    }
    drop(worker);
    harness.stop().await;
}

/// What is damaged lies before the newest snapshot, from which the state of the fork is made: only what is copied has it.
#[tokio::test]
async fn a_fork_of_a_run_whose_beginning_is_damaged_is_refused_as_that_and_nothing_is_stored() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["build", "deploy"]).await;
    let task = |name: String, agent: &str| v1::Task { name, agent: agent.to_owned(), ..v1::Task::default() };
    let built: Vec<v1::Task> = (0..1_500).map(|number| task(format!("t{number}"), "build")).collect();
    let waves = [built, vec![task("deploy".to_owned(), "deploy")]];
    let waves = waves.map(|tasks| v1::Wave { tasks, ..v1::Wave::default() }).into();
    let plan = v1::Plan { name: "long".to_owned(), waves, ..v1::Plan::default() };
    let start = v1::StartRunRequest::of_plan(plan);
    let run = harness.runs.clone().start_run(start).await.unwrap().into_inner().run_id;
    for _ in 0..1_500 {
        let lease = worker.assignment().await.lease;
        worker.complete(&lease, json(serde_json::json!(1))).await;
    }
    worker.assignment().await;
    let at_seq = harness.get(&run).await.seq;
    let fork = || {
        let request = v1::ForkRunRequest { run_id: run.clone(), at_seq: Some(at_seq), ..Default::default() };
        let mut runs = harness.runs.clone();
        async move { runs.fork_run(request).await }
    };
    fork().await.expect("it is whole");
    let (database, id) = (data_dir(&harness.folder).join("capataz.db"), Uuid::parse_str(&run).unwrap());
    let snapshot: u32 = rusqlite::Connection::open(database)
        .unwrap()
        .query_row("SELECT seq FROM snapshots WHERE run = ?1", [id.as_bytes()], |row| row.get(0))
        .unwrap();
    assert!((2..=at_seq).contains(&snapshot.into()), "{snapshot} of {at_seq}");
    flip(&harness.folder, &[id]);
    check_refused(fork().await.map(|_| ()), &run);
    let request = v1::ListRunsRequest { page_size: 500, ..Default::default() };
    assert_eq!(harness.runs.clone().list_runs(request).await.unwrap().into_inner().runs.len(), 2);
    flip(&harness.folder, &[id]);
}
