//! What executions remember, over a real socket: recalled, gone back on, found and forgotten (seed 004; CONTRACTS §5).

use capataz_contracts::v1::memory_service_client::MemoryServiceClient;
use capataz_contracts::v1::{self, ExecutionMode};
use capataz_daemon::Step;
use serde_json::{Value, json as of};
use tonic::Code;

use crate::modes::{act, answer, execution, gives, join, keeps_to, modes, plan, plans, step, try_start};
use crate::support::{Harness, Worker, code_of, data_dir, error, json, paths_of};

type Client = MemoryServiceClient<tonic::transport::Channel>;

fn client(harness: &Harness) -> Client {
    MemoryServiceClient::new(harness.channel.clone())
}

fn of_session(session: &str) -> v1::SearchMemoryRequest {
    v1::SearchMemoryRequest { session: session.to_owned(), ..v1::SearchMemoryRequest::default() }
}

async fn found(harness: &Harness, request: v1::SearchMemoryRequest) -> Vec<v1::MemoryEntry> {
    client(harness).search_memory(request).await.unwrap().into_inner().entries
}

/// Their types, oldest first.
fn types(entries: &[v1::MemoryEntry]) -> Vec<&str> {
    entries.iter().rev().map(|entry| entry.r#type.as_str()).collect()
}

fn told(prompt: &Value) -> Vec<&str> {
    prompt["memory"].as_array().unwrap().iter().map(|entry| entry["type"].as_str().unwrap()).collect()
}

fn in_session(session: &str, mode: ExecutionMode) -> v1::ModeRun {
    v1::ModeRun { session: Some(session.to_owned()), mode: Some(mode.into()), ..execution("tidy up") }
}

/// The tool is called, and fails.
pub async fn fails(worker: &mut Worker, tool: &str) {
    let called = worker.assignment().await;
    assert_eq!(called.assignment.agent, tool);
    worker.fail(&called.lease, error("NON_RETRYABLE_ERROR", "broken")).await;
}

// S004-ME-01
#[tokio::test]
async fn the_next_run_of_the_session_is_told_what_failed_and_what_helped() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    plans(&mut worker, &act("read", of!({ "path": "a" }), true)).await;
    fails(&mut worker, "read").await;
    let prompt = plans(&mut worker, &act("read", of!({ "path": "b" }), true)).await;
    assert_eq!(told(&prompt), ["error"], "its own error, which the prompt before did not have");
    gives(&mut worker, "read", of!({ "lines": 3 })).await;
    let prompt = plans(&mut worker, &act("read", of!({ "path": "c" }), false)).await;
    assert_eq!(told(&prompt), ["solution", "error"], "the newest first");
    gives(&mut worker, "read", of!({ "lines": 4 })).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let entries = found(&harness, of_session("shop")).await;
    assert_eq!(types(&entries), ["error", "solution", "tool_result"]);
    // What was recalled for the actions that succeeded is worth a quarter more for each: the error twice, the solution once.
    let relevance: Vec<f64> = entries.iter().rev().map(|entry| entry.relevance).collect();
    assert_eq!(relevance, [1.5, 1.25, 1.0]);
    assert!(entries.iter().all(|entry| entry.run_id == run
        && entry.tools == ["read"]
        && entry.mode() == ExecutionMode::Simple));

    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    let next = try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    assert_eq!(told(&prompt), ["solution", "error"], "after a restart, in another run");
    assert_eq!(prompt["memory"][0]["id"], of!(entries[1].entry_id));
    gives(&mut worker, "read", of!(1)).await;
    harness.wait(&next).await;
    // Another session, another mode, and a run that belongs to no session, remember nothing of it.
    for other in [
        in_session("attic", ExecutionMode::Simple),
        in_session("shop", ExecutionMode::Planner),
        execution("tidy up"),
    ] {
        let is_planner = other.mode == Some(ExecutionMode::Planner.into());
        let run = try_start(&harness, other).await.unwrap();
        let said = match is_planner {
            true => plan(&[step("a", "read", of!("read"))], "read", of!({})),
            false => act("read", of!({}), false),
        };
        assert_eq!(told(&plans(&mut worker, &said).await), Vec::<&str>::new());
        gives(&mut worker, "read", of!(1)).await;
        harness.wait(&run).await;
    }
}

// S004-ME-03
#[tokio::test]
async fn going_back_restores_what_was_remembered_and_the_log_keeps_the_rest() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, execution("tidy up")).await.unwrap();
    plans(&mut worker, &act("read", of!({ "path": "a" }), true)).await;
    fails(&mut worker, "read").await;
    let asked = worker.assignment().await;
    let request = v1::CreateCheckpointRequest {
        run_id: run.clone(),
        reason: "before".to_owned(),
        request_id: "c".to_owned(),
        if_seq: None,
    };
    let made = modes(&harness).create_checkpoint(request).await.unwrap().into_inner();
    let before = found(&harness, of_session(&run)).await;
    assert_eq!(types(&before), ["error"]);
    worker.complete(&asked.lease, json(act("read", of!({ "path": "b" }), true))).await;
    gives(&mut worker, "read", of!({ "lines": 3 })).await;
    let asked = worker.assignment().await;
    let after = found(&harness, of_session(&run)).await;
    assert_eq!(types(&after), ["error", "solution"]);
    assert_eq!(after[1].relevance.to_bits(), 1.25_f64.to_bits());
    let request = v1::RollbackExecutionRequest {
        run_id: run.clone(),
        checkpoint_id: made.checkpoint_id,
        request_id: "r".to_owned(),
        if_seq: None,
    };
    modes(&harness).rollback_execution(request).await.unwrap();
    assert_eq!(found(&harness, of_session(&run)).await, before, "field by field");
    drop(asked);
    // The planner is asked anew, with what is left.
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    assert_eq!(told(&prompt), ["error"]);
    gives(&mut worker, "read", of!(1)).await;
    harness.wait(&run).await;
    let dropped = harness.export(&run).await.into_iter().any(|event| match event.body {
        Some(v1::event::Body::ToolObserved(seen)) => {
            seen.remembered.is_some_and(|remembered| remembered.content.contains("\"lines\":3"))
        }
        _ => false,
    });
    assert!(dropped, "what was dropped is in the log");
}

// S004-ME-03
#[tokio::test]
async fn going_back_takes_nothing_of_the_other_runs_of_the_session_and_brings_their_relevance_back() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let reads = |path: &str, goes_on: bool| act("read", of!({ "path": path }), goes_on);
    let other = try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    plans(&mut worker, &reads("a", true)).await;
    fails(&mut worker, "read").await;
    plans(&mut worker, &reads("b", false)).await;
    gives(&mut worker, "read", of!({ "lines": 3 })).await;
    harness.wait(&other).await;
    let relevance = |entries: &[v1::MemoryEntry]| -> Vec<f64> {
        entries.iter().rev().map(|entry| entry.relevance).collect()
    };
    let of_other = found(&harness, of_session("shop")).await;
    assert_eq!((types(&of_other), relevance(&of_other)), (vec!["error", "solution"], vec![1.25, 1.0]));

    // Before the checkpoint: a success, for which both were recalled, and an error.
    let run = try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    assert_eq!(told(&plans(&mut worker, &reads("c", true)).await), ["solution", "error"]);
    gives(&mut worker, "read", of!({ "lines": 4 })).await;
    plans(&mut worker, &reads("d", true)).await;
    fails(&mut worker, "read").await;
    let asked = worker.assignment().await;
    let request = v1::CreateCheckpointRequest {
        run_id: run.clone(),
        reason: "before".to_owned(),
        request_id: "c".to_owned(),
        if_seq: None,
    };
    let made = modes(&harness).create_checkpoint(request).await.unwrap().into_inner();
    let before = found(&harness, of_session("shop")).await;
    assert_eq!(types(&before), ["error", "solution", "tool_result", "error"]);
    assert_eq!(relevance(&before), [1.5, 1.25, 1.0, 1.0]);

    // After it: a success, which speaks for both runs' entries, and another error.
    worker.complete(&asked.lease, json(reads("e", true))).await;
    gives(&mut worker, "read", of!({ "lines": 5 })).await;
    plans(&mut worker, &reads("f", true)).await;
    fails(&mut worker, "read").await;
    let asked = worker.assignment().await;
    let after = found(&harness, of_session("shop")).await;
    assert_eq!(types(&after), ["error", "solution", "tool_result", "error", "solution", "error"]);
    assert_eq!(relevance(&after), [1.75, 1.5, 1.0, 1.25, 1.0, 1.0]);
    let request = v1::RollbackExecutionRequest {
        run_id: run.clone(),
        checkpoint_id: made.checkpoint_id,
        request_id: "r".to_owned(),
        if_seq: None,
    };
    modes(&harness).rollback_execution(request).await.unwrap();
    assert_eq!(found(&harness, of_session("shop")).await, before, "field by field");
    drop(asked);

    // So it stays over a restart, and so the planner is told it.
    drop(worker);
    let harness = harness.restart().await;
    assert_eq!(found(&harness, of_session("shop")).await, before, "field by field, after a restart");
    let mut worker = join(&harness).await;
    let prompt = plans(&mut worker, &reads("g", false)).await;
    let ids: Vec<&str> =
        prompt["memory"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    let recalled = [&before[0], &before[2], &before[3]];
    assert_eq!(ids, recalled.map(|entry| &*entry.entry_id), "the newest first");
    gives(&mut worker, "read", of!({ "lines": 6 })).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let entries = found(&harness, of_session("shop")).await;
    assert_eq!(types(&entries), ["error", "solution", "tool_result", "error", "solution"]);
    assert_eq!(relevance(&entries), [1.75, 1.5, 1.0, 1.25, 1.0], "the new success speaks for them instead");
    assert_eq!(entries[3].run_id, other);
    assert_eq!(entries[0].run_id, run);
}

// S004-ME-02
#[tokio::test]
async fn plans_patterns_and_what_people_say_are_remembered_too() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_session("shop", ExecutionMode::Supervised)).await.unwrap();
    let proposed = plan(&[step("a", "read", of!("read"))], "read", of!({ "n": "a" }));
    assert_eq!(told(&plans(&mut worker, &proposed).await), Vec::<&str>::new());
    answer(&harness, &run, "approve", None).await.unwrap();
    let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "a" }))).await;
    assert_eq!(told(&prompt), ["user_feedback", "plan"], "all types, the newest first");
    gives(&mut worker, "read", of!({ "lines": 3 })).await;
    harness.wait(&run).await;
    let entries = found(&harness, of_session("shop")).await;
    assert_eq!(types(&entries), ["plan", "user_feedback", "success", "pattern"]);
    // The approval speaks for the plan (0.5), and both were recalled for a success (0.25).
    let relevance: Vec<f64> = entries.iter().rev().map(|entry| entry.relevance).collect();
    assert_eq!(relevance, [1.75, 1.25, 1.0, 1.0]);
    let kind = v1::SearchMemoryRequest { r#type: "pattern".to_owned(), ..of_session("shop") };
    assert_eq!(found(&harness, kind).await.len(), 1);
    let text = v1::SearchMemoryRequest { text: "LINES".to_owned(), ..of_session("shop") };
    assert_eq!(types(&found(&harness, text).await), ["success"]);
}

/// A run of the session "shop" that is over: it has read in vain twice, and then found out how. Its worker, and what is remembered
/// of it.
async fn after_two_errors(harness: &Harness) -> (Worker, Vec<v1::MemoryEntry>) {
    let mut worker = join(harness).await;
    let run = try_start(harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    for path in ["a", "b"] {
        plans(&mut worker, &act("read", of!({ "path": path }), true)).await;
        fails(&mut worker, "read").await;
    }
    plans(&mut worker, &act("read", of!({}), false)).await;
    gives(&mut worker, "read", of!(1)).await;
    harness.wait(&run).await;
    let entries = found(harness, of_session("shop")).await;
    assert_eq!(types(&entries), ["error", "error", "solution"]);
    (worker, entries)
}

#[tokio::test]
async fn what_was_forgotten_is_neither_found_nor_recalled_and_stays_forgotten() {
    let harness = Harness::start().await;
    let (worker, entries) = after_two_errors(&harness).await;
    let forget = |session: &str, ids: &[&str]| v1::ForgetMemoryRequest {
        session: session.to_owned(),
        entry_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
    };
    let (first, second) = (entries[2].entry_id.clone(), entries[1].entry_id.clone());
    // One that is not there: nothing is forgotten.
    let refused = client(&harness).forget_memory(forget("shop", &[&first, "nobody"])).await.unwrap_err();
    assert_eq!((refused.code(), code_of(&refused).as_str()), (Code::NotFound, "MEMORY_NOT_FOUND"));
    let refused = client(&harness).forget_memory(forget("attic", &[&first])).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "it belongs to another session");
    assert_eq!(found(&harness, of_session("shop")).await.len(), 3);
    for forgotten in [1, 0] {
        let done = client(&harness).forget_memory(forget("shop", &[&first, &first])).await.unwrap();
        assert_eq!(done.into_inner().forgotten, forgotten, "a repeated call changes nothing");
    }
    drop(worker);
    let harness = harness.restart().await;
    let get = |id: &str| v1::GetMemoryEntryRequest { entry_id: id.to_owned() };
    let gone = client(&harness).get_memory_entry(get(&first)).await.unwrap_err();
    assert_eq!((gone.code(), code_of(&gone).as_str()), (Code::NotFound, "MEMORY_NOT_FOUND"));
    let kept = client(&harness).get_memory_entry(get(&second)).await.unwrap().into_inner().entry.unwrap();
    assert_eq!(kept, entries[1]);
    let mut worker = join(&harness).await;
    try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    assert_eq!(told(&prompt), ["solution", "error"]);
    gives(&mut worker, "read", of!(1)).await;
    // Of a run that belongs to no session, too.
    let alone = try_start(&harness, execution("tidy up")).await.unwrap();
    plans(&mut worker, &act("read", of!({}), true)).await;
    fails(&mut worker, "read").await;
    let asked = worker.assignment().await;
    let own = found(&harness, of_session(&alone)).await;
    let done = client(&harness).forget_memory(forget(&alone, &[&own[0].entry_id])).await.unwrap();
    assert_eq!(done.into_inner().forgotten, 1);
    assert_eq!(found(&harness, of_session(&alone)).await, []);
    drop(asked);
}

#[tokio::test]
async fn a_restored_backup_recalls_what_was_remembered_before_and_nothing_that_was_forgotten() {
    let harness = Harness::start().await;
    let (worker, entries) = after_two_errors(&harness).await;
    drop(worker);
    let forget = |entry: &v1::MemoryEntry| v1::ForgetMemoryRequest {
        session: "shop".to_owned(),
        entry_ids: vec![entry.entry_id.clone()],
    };
    client(&harness).forget_memory(forget(&entries[2])).await.unwrap();
    let kept = found(&harness, of_session("shop")).await;
    let folders = tempfile::tempdir().unwrap();
    let saved = folders.path().join("saved");
    let made = capataz_daemon::backup(&data_dir(&harness.folder), &saved, &mut |_: Step<'_>| ()).unwrap();
    assert!(made.is_whole());
    // What is forgotten after the backup, the backup still has.
    client(&harness).forget_memory(forget(&entries[1])).await.unwrap();
    assert_eq!(types(&found(&harness, of_session("shop")).await), ["solution"]);

    let folder = tempfile::tempdir().unwrap();
    let (_, looked) = capataz_daemon::restore(&saved, &data_dir(&folder), &mut |_: Step<'_>| ()).unwrap();
    assert!(looked.is_whole());
    let restored = Harness::start_in(folder, |_| ()).await;
    assert_eq!(types(&kept), ["error", "solution"]);
    assert_eq!(found(&restored, of_session("shop")).await, kept, "field by field");
    let get = v1::GetMemoryEntryRequest { entry_id: entries[2].entry_id.clone() };
    assert_eq!(code_of(&client(&restored).get_memory_entry(get).await.unwrap_err()), "MEMORY_NOT_FOUND");
    let mut worker = join(&restored).await;
    let next = try_start(&restored, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    let prompt = plans(&mut worker, &act("read", of!({}), false)).await;
    let recalled: Vec<&Value> =
        prompt["memory"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert_eq!(recalled, [&of!(kept[0].entry_id), &of!(kept[1].entry_id)], "the newest first");
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(restored.wait(&next).await.outcome(), v1::RunOutcome::Succeeded);
    restored.stop().await;
}

#[tokio::test]
async fn a_search_is_refused_with_all_that_is_wrong_and_goes_on_by_pages() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let wrong = v1::SearchMemoryRequest {
        session: "a b".to_owned(),
        mode: 9,
        r#type: "opinion".to_owned(),
        text: "x".repeat(257),
        page_size: 3,
        page_token: "next".to_owned(),
    };
    let refused = client(&harness).search_memory(wrong).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["session", "mode", "type", "text", "page_token"]);
    let nothing = v1::ForgetMemoryRequest { session: String::new(), entry_ids: Vec::new() };
    let refused = client(&harness).forget_memory(nothing).await.unwrap_err();
    assert_eq!(paths_of(&refused), ["session", "entry_ids"]);
    let long = v1::GetMemoryEntryRequest { entry_id: "x".repeat(257) };
    assert_eq!(paths_of(&client(&harness).get_memory_entry(long).await.unwrap_err()), ["entry_id"]);

    let run = try_start(&harness, in_session("shop", ExecutionMode::Simple)).await.unwrap();
    for place in 0..5 {
        plans(&mut worker, &act("read", of!({ "n": place }), place < 4)).await;
        gives(&mut worker, "read", of!(place)).await;
    }
    harness.wait(&run).await;
    let all = found(&harness, of_session("shop")).await;
    assert_eq!(all.len(), 5);
    let mut paged = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::SearchMemoryRequest { page_size: 2, page_token, ..of_session("shop") };
        let page = client(&harness).search_memory(request).await.unwrap().into_inner();
        paged.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(paged, all);
}
