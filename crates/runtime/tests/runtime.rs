//! The shard's shell over a store that fails: what callers are told, and what is true afterwards.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{CloseReason, Known, KnownAgent};
use capataz_engine::{Plan, StartRun, Work, materialise_mode};
use capataz_runtime::{Options, Runtime, WorkerLink};
use capataz_shard::{Declined, StartReply, StartRequest, WaitReply};
use capataz_store::memory::Fault;
use capataz_store::{IdempotencyKey, MemoryStore, RunId, ShardId, Store};
use uuid::Uuid;

fn known(agent: &str) -> Known {
    let agent = v1::Agent { name: agent.to_owned(), ..Default::default() };
    let known = KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    Known { agents: vec![known], ..Known::default() }
}

async fn shard(store: &MemoryStore, options: Options) -> Runtime {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    Runtime::start(vec![ShardId(0)], store, known("a"), options).await.unwrap()
}

fn start(key: &str) -> StartRequest {
    let task = v1::Task { name: "t".to_owned(), agent: "a".to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    let mut plan = v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() };
    Plan::materialise(&mut plan).unwrap();
    started_under(key, RunId(Uuid::now_v7()), Work::Plan(plan))
}

fn started_under(key: &str, run: RunId, work: Work) -> StartRequest {
    let key = IdempotencyKey { key: key.to_owned().into(), request: [7; 32] };
    let start = StartRun { work, labels: Default::default(), parent: None, lineage: None };
    StartRequest { key: Some(key), ..StartRequest::new(run, start) }
}

/// Asks again while the shard is being read anew, as a client with a key does.
async fn start_at_last(shard: &Runtime, key: &str) -> (RunId, bool) {
    loop {
        match shard.start_run(start(key)).await {
            Ok(StartReply::Started { run }) => return (run, true),
            Ok(StartReply::Existing { run }) => return (run, false),
            Err(Declined::Unavailable) => tokio::time::sleep(Duration::from_millis(1)).await,
            answer => panic!("{answer:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_told_as_unavailable_and_the_same_key_starts_the_run_once() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    store.fail_next_commit(Fault::Lost);
    assert!(matches!(shard.start_run(start("k")).await, Err(Declined::Unavailable)));
    let (run, created) = start_at_last(&shard, "k").await;
    assert!(created);
    assert_eq!(start_at_last(&shard, "k").await, (run, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_was_lost_has_happened_and_the_same_key_finds_its_run() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    store.fail_next_commit(Fault::Kept);
    assert!(matches!(shard.start_run(start("k")).await, Err(Declined::Unavailable)));
    let (run, created) = start_at_last(&shard, "k").await;
    assert!(!created);
    assert!(store.get_run(run).unwrap().is_some());
    assert_eq!(
        store.list_runs(&capataz_store::RunQuery { limit: 10, ..Default::default() }).unwrap().len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_its_stream_when_the_shard_is_read_again_and_ends_its_work_on_it() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    let hello = Say::Hello(v1::Hello {
        worker_id: "w1".to_owned(),
        agents: vec![v1::Agent { name: "a".to_owned(), max_concurrency: 10, ..Default::default() }],
        slots: 10,
        held: Vec::new(),
        protocol: 1,
        browsers: Vec::new(),
    });
    let (mut frames, sender) = shard.connect(10).await.split();
    sender.send(hello).await;
    let (run, _) = start_at_last(&shard, "k").await;
    let lease = loop {
        if let Some(Hear::Assignment(assignment)) = frames.recv().await {
            break assignment.lease.unwrap();
        }
    };
    store.fail_next_commit(Fault::Lost);
    assert!(matches!(shard.start_run(start("other")).await, Err(Declined::Unavailable)));
    start_at_last(&shard, "other").await;
    // Who waits is heard before the run ends: a run that has ended is not kept.
    let completed = Say::Completed(v1::Completed { lease: Some(lease.clone()), ..Default::default() });
    let (answer, _) = tokio::join!(shard.wait(run), sender.send(completed));
    let Ok(WaitReply::Finished { result, .. }) = answer else { panic!("not finished") };
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let mut assigned = 0;
    loop {
        match frames.recv().await {
            Some(Hear::ResultAccepted(accepted)) => break assert_eq!(accepted.lease, Some(lease)),
            Some(Hear::Assignment(_)) => assigned += 1,
            Some(_) => {}
            None => panic!("the stream was closed"),
        }
    }
    assert_eq!(assigned, 1, "the other run's task has come over the same stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_worker_that_leaves_more_unread_than_has_room_ends_with_what_had_room() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options { frames_per_worker: 1, ..Options::default() }).await;
    // Room for this one frame alone: the connection is made for no slot.
    let WorkerLink { mut frames, mut closed, sender } = shard.connect(0).await;
    let agents = vec![v1::Agent { name: "a".to_owned(), max_concurrency: 1, ..Default::default() }];
    let hello = v1::Hello { worker_id: "w1".to_owned(), agents, slots: 1, protocol: 1, ..Default::default() };
    sender.send(Say::Hello(hello)).await;
    // The welcome has room. The task that follows has none.
    start_at_last(&shard, "k").await;
    let unread = closed.wait_for(|reason| matches!(reason, Some(CloseReason::Unread)));
    tokio::time::timeout(Duration::from_secs(60), unread).await.unwrap().unwrap();
    assert!(matches!(frames.recv().await, Some(Hear::Welcome(_))));
    assert_eq!(frames.recv().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_ended_is_no_longer_kept_and_then_the_store_has_its_end() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    let (mut frames, sender) = shard.connect(1).await.split();
    let agents = vec![v1::Agent { name: "a".to_owned(), max_concurrency: 1, ..Default::default() }];
    let hello = v1::Hello { worker_id: "w1".to_owned(), agents, slots: 1, protocol: 1, ..Default::default() };
    sender.send(Say::Hello(hello)).await;
    let (run, _) = start_at_last(&shard, "k").await;
    loop {
        match frames.recv().await.unwrap() {
            Hear::Assignment(v1::Assignment { lease, .. }) => {
                sender.send(Say::Completed(v1::Completed { lease, ..Default::default() })).await;
            }
            Hear::ResultAccepted(_) => break,
            _ => {}
        }
    }
    let answer = shard.wait(run).await;
    assert!(matches!(answer, Ok(WaitReply::NotActive { .. })), "{answer:?}");
    assert!(store.get_run(run).unwrap().unwrap().summary.finished_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn more_runs_than_the_shard_holds_are_refused_with_a_hint_when_to_come_back() {
    let store = MemoryStore::new();
    let mut options = Options::default();
    options.shard.max_unfinished_runs = 2;
    let shard = shard(&store, options).await;
    start_at_last(&shard, "1").await;
    start_at_last(&shard, "2").await;
    let Err(Declined::Overloaded { retry_after_ms }) = shard.start_run(start("3")).await else {
        panic!("was accepted")
    };
    assert!(retry_after_ms > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_another_daemon_has_claimed_acknowledges_nothing() {
    let store = MemoryStore::new();
    let old = shard(&store, Options::default()).await;
    start_at_last(&old, "1").await;
    let new = shard(&store, Options::default()).await;
    assert!(matches!(old.start_run(start("2")).await, Err(Declined::Unavailable)));
    old.fenced().await;
    assert!(start_at_last(&new, "2").await.1, "the fenced daemon has written nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_single_task_costs_exactly_two_commits() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    let (mut frames, sender) = shard.connect(1).await.split();
    let agents = vec![v1::Agent { name: "a".to_owned(), max_concurrency: 1, ..Default::default() }];
    let hello = v1::Hello { worker_id: "w1".to_owned(), agents, slots: 1, protocol: 1, ..Default::default() };
    sender.send(Say::Hello(hello)).await;
    let Some(Hear::Welcome(_)) = frames.recv().await else { panic!("no welcome") };
    let (run, _) = start_at_last(&shard, "k").await;
    let Some(Hear::Assignment(assignment)) = frames.recv().await else { panic!("no assignment") };
    sender.send(Say::Ack(v1::Ack { lease: assignment.lease.clone() })).await;
    sender.send(Say::Heartbeat(v1::Heartbeat {})).await;
    // Who waits is heard before the run ends: a run that has ended is not kept.
    let completed = Say::Completed(v1::Completed { lease: assignment.lease, ..Default::default() });
    let (answer, _) = tokio::join!(shard.wait(run), sender.send(completed));
    let Ok(WaitReply::Finished { .. }) = answer else { panic!("not finished") };
    // Each append was a commit of its own: nothing else was on its way.
    assert_eq!(store.bounds(ShardId(0)).unwrap().newest.0, 2);
}

/// A query of so many actions in this mode, which ends well.
fn query(key: &str, mode: v1::ExecutionMode) -> StartRequest {
    let tool = v1::ModeTool { name: "hand".to_owned(), undoable: true, ..v1::ModeTool::default() };
    let run = RunId(Uuid::now_v7());
    let mut execution = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: Some(mode.into()),
        planner: "brain".to_owned(),
        tools: vec![tool],
        run_id: run.to_string(),
        ..v1::ModeRun::default()
    };
    materialise_mode(&mut execution).unwrap();
    started_under(key, run, Work::Mode(Box::new(execution)))
}

/// What a planner answers before this action of so many.
fn next_action(mode: v1::ExecutionMode, action: u64, of: u64) -> String {
    if mode == v1::ExecutionMode::Simple {
        let call = r#"{"tool":"hand","parameters":{}}"#;
        let goes_on = action + 1 < of;
        return format!(r#"{{"action":{call},"continue":{goes_on},"reasoning":"","confidence":1}}"#);
    }
    let step = |n: u64| format!(r#"{{"id":"s{n}","description":"","tool":"hand","parameters":{{}}}}"#);
    let steps: Vec<String> = (0..of).map(step).collect();
    let update = format!(
        r#""planUpdate":{{"type":"create","steps":[{}],"estimatedTime":1,"checkpoints":[]}},"#,
        steps.join(",")
    );
    let update = if action == 0 { update } else { String::new() };
    let call = format!(r#"{{"tool":"hand","parameters":{{}},"stepIndex":{action}}}"#);
    format!(r#"{{{update}"nextAction":{call},"replanRequired":false,"reasoning":"","confidence":1}}"#)
}

// Issue 14, "Shows" 8: at most three commits for a step.
#[tokio::test(flavor = "multi_thread")]
async fn an_action_of_an_execution_costs_two_commits_and_one_more_where_its_result_is_recalled() {
    const ACTIONS: u64 = 8;
    let store = MemoryStore::new();
    let agent = |name: &str, kind: v1::AgentKind| v1::Agent {
        name: name.to_owned(),
        kind: kind.into(),
        max_concurrency: 1,
        ..v1::Agent::default()
    };
    let agents = vec![agent("brain", v1::AgentKind::Planner), agent("hand", v1::AgentKind::Tool)];
    let entry = |agent: &v1::Agent| KnownAgent {
        agent: agent.clone(),
        source: v1::AgentSource::Declared,
        last_seen: None,
    };
    let known = Known { agents: agents.iter().map(entry).collect(), ..Known::default() };
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let shard = Runtime::start(vec![ShardId(0)], shared, known, Options::default()).await.unwrap();
    let (mut frames, sender) = shard.connect(1).await.split();
    let hello = v1::Hello { worker_id: "w1".to_owned(), agents, slots: 2, protocol: 1, ..Default::default() };
    sender.send(Say::Hello(hello)).await;
    for mode in [v1::ExecutionMode::Simple, v1::ExecutionMode::Planner] {
        let mut commits = 0;
        // By the first one, what only has to be made once is there: the encoding of tokens, and the contract.
        for key in ["first", "second"] {
            let before = shard.meters().commits.counted().count;
            shard.start_run(query(&format!("{mode:?} {key}"), mode)).await.unwrap();
            let (mut asked, mut accepted) = (0, 0);
            while accepted < 2 * ACTIONS {
                match frames.recv().await.unwrap() {
                    Hear::Assignment(v1::Assignment { lease, agent, .. }) => {
                        let said = match agent.as_str() {
                            "brain" => {
                                asked += 1;
                                next_action(mode, asked - 1, ACTIONS)
                            }
                            _ => "1".to_owned(),
                        };
                        let output = v1::Payload {
                            media_type: "application/json".to_owned(),
                            data: Some(v1::payload::Data::Inline(said.into())),
                        };
                        let completed =
                            v1::Completed { lease, output: Some(output), ..v1::Completed::default() };
                        sender.send(Say::Completed(completed)).await;
                    }
                    Hear::ResultAccepted(_) => accepted += 1,
                    _ => {}
                }
            }
            commits = shard.meters().commits.counted().count - before;
        }
        let each = if mode == v1::ExecutionMode::Simple { 2 } else { 3 };
        // And one by which it begins. A busy disk takes two turns into one commit.
        let most = 1 + each * ACTIONS;
        assert!((ACTIONS..=most).contains(&commits), "{mode:?}: {commits} of {most} at most");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_in_vain_for_shards_that_have_stopped() {
    let store = MemoryStore::new();
    let runtime = shard(&store, Options::default()).await;
    let (mut frames, _sender) = runtime.connect(1).await.split();
    let (run, _) = start_at_last(&runtime, "k").await;
    let waiting = tokio::spawn({
        let runtime = runtime.clone();
        async move { runtime.wait(run).await }
    });
    runtime.drain().await;
    runtime.stop().await;
    assert!(matches!(waiting.await.unwrap(), Err(Declined::Unavailable)));
    assert_eq!(frames.recv().await, None, "the worker's stream ends");
    assert!(matches!(runtime.start_run(start("k")).await, Err(Declined::Unavailable)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_has_stopped_has_no_thread_and_leaves_the_store_to_its_owner() {
    // A thread that nobody waits for may be quick once, and hardly every time.
    for _ in 0..20 {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let shards = vec![ShardId(0)];
        let runtime =
            Runtime::start(shards, Arc::clone(&store), known("a"), Options::default()).await.unwrap();
        runtime.stop().await;
        drop(runtime);
        assert_eq!(Arc::strong_count(&store), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_commits_go_on_failing_is_left_alone_for_longer_and_longer() {
    let store = MemoryStore::new();
    let shard = shard(&store, Options::default()).await;
    let began = tokio::time::Instant::now();
    for number in 0..5 {
        store.fail_next_commit(Fault::Lost);
        assert!(start_at_last(&shard, &format!("k{number}")).await.1);
    }
    // At once, and then after 50, 100, 200 and 400 ms.
    assert!(began.elapsed() >= Duration::from_millis(750), "{:?}", began.elapsed());
}
