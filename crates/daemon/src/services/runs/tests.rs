//! Readers for whom there is no place, over a log in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};

use capataz_contracts::v1::mode_service_server::ModeService;
use capataz_contracts::v1::payload::Data;
use capataz_contracts::v1::pipeline_service_server::PipelineService;
use capataz_contracts::v1::start_runs_item::Result as Item;
use capataz_crew::{Known, KnownAgent};
use capataz_engine::{Plan, StartRun, Work};
use capataz_executor::chromium::ShimOptions;
use capataz_hosts::browsers::{BrowserConfig, Surroundings};
use capataz_runtime::Options;
use capataz_shard::StartRequest;
use capataz_store::{MemoryStore, RunId, Store};
use futures_util::future::join_all;
use tokio::task::unconstrained;
use tonic::Code;
use tonic_types::StatusExt;

use super::*;
use crate::SHARD;
use crate::services::modes::Modes;
use crate::services::pipelines::Pipelines;
use crate::specs::{self, Source};

/// Reads for answers at once, and those that may wait for a place (docs/limits.md).
const AT_ONCE: usize = 8;
const WAITING: usize = 1_024;
/// Those who hold what is known of all agents at once (docs/limits.md).
const CATALOGUES: usize = 2;

async fn runtime() -> Runtime {
    runtime_with(&[("a", v1::AgentKind::Task)]).await
}

/// One that knows these agents.
async fn runtime_with(agents: &[(&str, v1::AgentKind)]) -> Runtime {
    let known = |(name, kind): &(&str, v1::AgentKind)| {
        let agent = v1::Agent { name: (*name).to_owned(), kind: (*kind).into(), ..v1::Agent::default() };
        KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None }
    };
    let known = Known { agents: agents.iter().map(known).collect(), ..Known::default() };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    Runtime::start(vec![SHARD], store, known, Options::default()).await.unwrap()
}

async fn service(runtime: &Runtime, data_dir: &Path) -> Runs {
    let router = specs::load(&Source::None).unwrap();
    let specs = Specs::start(Source::None, router, runtime.clone()).await;
    let browsers = Browsers::new(Surroundings {
        config: BrowserConfig::default(),
        data_dir: data_dir.to_owned(),
        store: Arc::clone(runtime.store()),
        clock: Arc::new(|| 0),
        shim: ShimOptions { command: Default::default(), locks_folder: data_dir.join("locks") },
        secrets: Arc::new(|_: &str| None),
    });
    let (health, _) = Health::serves().await;
    Runs::new(runtime.clone(), specs, browsers.unwrap(), health)
}

/// A run whose one task waits for a worker.
async fn begins(runtime: &Runtime) -> RunId {
    begins_with(runtime, None, BTreeMap::new()).await
}

/// The same, with an input of its task and with labels.
async fn begins_with(
    runtime: &Runtime,
    input: Option<v1::Payload>,
    labels: BTreeMap<String, String>,
) -> RunId {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), input, ..v1::Task::default() };
    let wave = v1::Wave { tasks: vec![task], ..v1::Wave::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..v1::Plan::default() };
    Plan::materialise(&mut plan).unwrap();
    let run = RunId(uuid::Uuid::from_u128(1));
    let start = StartRun { work: Work::Plan(plan), labels, parent: None, lineage: None };
    runtime.start_run(StartRequest::new(run, start)).await.unwrap();
    run
}

/// How far a call comes without waiting for anybody.
fn call_once<F: Future + ?Sized>(call: &mut Pin<Box<F>>) -> Poll<F::Output> {
    pin!(unconstrained(call.as_mut())).poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn check_overloaded<T>(answered: Poll<Result<Response<T>, Status>>) {
    let Poll::Ready(Err(refusal)) = answered else { panic!("it is not refused at once") };
    let reason = refusal.get_details_error_info().map(|info| info.reason);
    assert_eq!((refusal.code(), reason.as_deref()), (Code::ResourceExhausted, Some("OVERLOADED")));
    let retry = refusal.get_details_retry_info().and_then(|retry| retry.retry_delay);
    assert!(retry.is_some_and(|retry| !retry.is_zero()), "it says when to come back");
}

#[tokio::test]
async fn beyond_1024_readers_that_wait_the_next_are_overloaded_and_all_who_wait_are_answered() {
    let data_dir = tempfile::tempdir().unwrap();
    let runtime = runtime().await;
    let runs = service(&runtime, data_dir.path()).await;
    let run = begins(&runtime).await;
    let get = || {
        let request = v1::GetRunRequest { run_id: run.to_string(), ..v1::GetRunRequest::default() };
        runs.get_run(Request::new(request))
    };

    // Others read, until they are told to end.
    let long = (0..AT_ONCE).map(|_| {
        let (end, ended) = channel::<()>();
        let reads = Arc::clone(runtime.reads());
        let mut read = Box::pin(async move { reads.answer(move || ended.recv().is_err()).await });
        assert!(call_once(&mut read).is_pending());
        (end, read)
    });
    let (ends, long): (Vec<_>, Vec<_>) = long.unzip();
    let mut waiting: Vec<_> = (0..WAITING).map(|_| get()).collect();
    for reader in &mut waiting {
        assert!(call_once(reader).is_pending(), "it may wait");
    }
    check_overloaded(call_once(&mut get()));
    check_overloaded(call_once(&mut runs.list_runs(Request::new(v1::ListRunsRequest::default()))));

    drop(ends);
    let answers = join_all(waiting).await;
    assert_eq!(answers.len(), WAITING);
    for answer in answers {
        let shown = answer.unwrap().into_inner().run.unwrap();
        assert_eq!((shown.run_id, shown.tasks_total), (run.to_string(), 1));
    }
    assert!(join_all(long).await.into_iter().all(|read| read == Ok(true)));
    let next = get().await.unwrap().into_inner();
    assert_eq!(next.run.unwrap().run_id, run.to_string(), "there are places again");
}

/// What is known of all agents may be large, and whoever needs it holds it for a while.
#[tokio::test]
async fn two_hold_what_is_known_of_all_agents_and_modes_of_one_request_wait_as_one() {
    let data_dir = tempfile::tempdir().unwrap();
    let runtime = runtime_with(&[("brain", v1::AgentKind::Planner), ("hand", v1::AgentKind::Tool)]).await;
    let runs = Arc::new(service(&runtime, data_dir.path()).await);
    let modes = Modes::new(Arc::clone(&runs));
    let assess = || {
        let query = "list the files".to_owned();
        modes.assess_risk(Request::new(v1::AssessRiskRequest { query, ..v1::AssessRiskRequest::default() }))
    };
    let mut held = Vec::new();
    for _ in 0..CATALOGUES {
        held.push(runtime.reads().catalogue().await.unwrap());
    }

    // One more may wait than there are of these.
    let mut waiting: Vec<_> = (1..WAITING).map(|_| assess()).collect();
    for assessment in &mut waiting {
        assert!(call_once(assessment).is_pending(), "it may wait");
    }
    let mode = v1::ModeRun { query: "tidy up".to_owned(), ..v1::ModeRun::default() };
    let of_modes = v1::StartRunsRequest { runs: vec![v1::StartRunRequest::of_mode(mode); 20] };
    let mut starting = runs.start_runs(Request::new(of_modes));
    assert!(call_once(&mut starting).is_pending(), "all of its starts wait as one");
    check_overloaded(call_once(&mut assess()));

    drop(held);
    let (started, assessed) = tokio::join!(starting, join_all(waiting));
    let items = started.unwrap().into_inner().items;
    assert_eq!(items.len(), 20);
    for item in items {
        assert!(matches!(&item.result, Some(Item::Started(run)) if run.created), "{item:?}");
    }
    assert!(assessed.into_iter().all(|answer| answer.is_ok()));
    assert!(assess().await.is_ok(), "there are places again");
}

/// Checkpoints that cannot be read now are there all the same: an answer without them would be wrong.
#[tokio::test]
async fn the_checkpoints_of_a_product_are_refused_and_not_left_out_where_a_run_cannot_be_read_now() {
    let data_dir = tempfile::tempdir().unwrap();
    let runtime = runtime().await;
    let runs = Arc::new(service(&runtime, data_dir.path()).await);
    let pipelines = Pipelines::new(Arc::clone(&runs));
    // So large that it is read by one at a time.
    let data = Some(Data::Inline(vec![b' '; 5 * 1024 * 1024].into()));
    let input = v1::Payload { media_type: "text/plain".to_owned(), data };
    let labels = BTreeMap::from([(starts::PRODUCT_LABEL.to_owned(), "shop".to_owned())]);
    let run = begins_with(&runtime, Some(input), labels).await;
    let list = || {
        let product_id = "shop".to_owned();
        let request = v1::ListCheckpointsRequest { product_id, ..v1::ListCheckpointsRequest::default() };
        pipelines.list_checkpoints(Request::new(request))
    };
    let mut waiting = Vec::new();
    let beyond = loop {
        let mut read = Box::pin(runs.folds().replay(run));
        match call_once(&mut read) {
            Poll::Pending => waiting.push(read),
            Poll::Ready(beyond) => break beyond,
        }
    };
    assert!(beyond.is_err(), "as many wait as may");
    check_overloaded(Poll::Ready(list().await));
    drop(waiting);
    assert_eq!(list().await.unwrap().into_inner().checkpoints, []);
}
