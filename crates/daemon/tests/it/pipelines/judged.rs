//! Outputs that break the rule of their phase, and what becomes of them.

use std::path::Path;

use capataz_contracts::v1::{self, CheckpointStatus, event::Body, payload::Data};
use capataz_daemon::{DeclaredAgent, ProcessAgent};
use capataz_hosts::commands::ShimCommand;
use serde_json::{Value, json as of};

use super::{
    REVIEW, answer, blocked, cause_of, checkpoints, eventually, given, pipeline, put, rejections, start,
    statuses, value,
};
use crate::support::time::Time;
use crate::support::{Harness, Worker, code_of, json, paths_of, plan, shim};

/// A daemon whose agent `reader` keeps what it is given as `1.json`, `2.json` …, and gives back the output with the same
/// number, or the last one.
async fn with_reader(outputs: &[&str]) -> Harness {
    let folder = tempfile::tempdir().unwrap();
    for (number, output) in (1..).zip(outputs) {
        std::fs::write(folder.path().join(format!("out-{number}")), output).unwrap();
    }
    let script = r#"n=1; while [ -e "$0/$n.json" ]; do n=$((n+1)); done
        cat > "$0/$n.json"
        while [ ! -e "$0/out-$n" ]; do n=$((n-1)); done
        cat "$0/out-$n""#;
    let command = ["sh", "-c", script, folder.path().to_str().unwrap()].map(str::to_owned);
    Harness::start_in(folder, |config| {
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        config.agents = vec![ProcessAgent::new("reader", command)];
    })
    .await
}

/// What the agent `reader` was given in its attempts.
fn stdin(folder: &Path) -> Vec<Value> {
    let files = (1..).map(|number| std::fs::read(folder.join(format!("{number}.json"))));
    files.map_while(Result::ok).map(|text| serde_json::from_slice(&text).unwrap()).collect()
}

// S003-OU-11 S003-OU-12
#[tokio::test]
async fn the_next_attempt_reads_on_stdin_where_and_how_its_output_broke_the_rule() {
    let harness = with_reader(&[r#"{"title": 7}"#, r#"{"title": "the sea"}"#]).await;
    let mut worker = harness.worker("w1", &["teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let told = worker.assignment().await;
    let given = stdin(harness.folder.path());
    assert_eq!(given.len(), 2, "{given:?}");
    assert_eq!(given[0], of!({ "path": "src" }));
    let violations = &given[1]["correction"]["violations"];
    assert_eq!(given[1]["path"], "src", "the input itself stays");
    assert_eq!(given[1]["correction"]["attempt"], 1);
    assert_eq!(given[1]["correction"]["output"], of!({ "title": 7 }));
    assert_eq!(violations.as_array().map(Vec::len), Some(1), "{violations}");
    assert_eq!((&violations[0]["path"], &violations[0]["rule"]), (&of!("/title"), &of!("type")));
    for told in ["expected", "found"] {
        assert!(violations[0][told].as_str().is_some_and(|text| !text.is_empty()), "{violations}");
    }
    // The rejected output is not what the next phase is given.
    let input = value(&harness, told.assignment.input.as_ref()).await;
    assert_eq!(input, of!({ "input": { "path": "src" }, "phases": { "read": { "title": "the sea" } } }));
    let rejected = rejections(&harness, &run).await;
    assert_eq!(rejected.len(), 1);
    assert_eq!((rejected[0].attempt, rejected[0].violations[0].path.as_str()), (1, "/title"));
    worker.complete(&told.lease, json(of!("done"))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

// S003-RE-01
#[tokio::test]
async fn the_delays_between_the_attempts_of_a_phase_are_those_of_the_seed() {
    let time = Time::default();
    let harness = Harness::start_with(|config| time.of(config)).await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run =
        start(&harness, given(&REVIEW.replace("delays_ms = [0, 0, 0]", ""), of!({ "path": "src" }))).await;
    for (attempt, delay) in [(1, 500), (2, 1_500), (3, 3_000), (4, 0)] {
        let read = worker.assignment().await;
        assert_eq!(read.assignment.attempt, attempt);
        worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
        let has_failed = || async {
            let run = harness.get(&run).await;
            let task = &run.waves[0].tasks[0];
            (task.retry_at_ms.is_some() || run.tasks_settled == 1).then_some(task.retry_at_ms)
        };
        let again = eventually("the attempt fails", has_failed).await;
        assert_eq!(again, (delay > 0).then_some(time.now_ms() + delay), "attempt {attempt}");
        time.passes(delay);
        // A look at the run, by which the shard knows the time.
        harness.get(&run).await;
    }
    let question = blocked(&harness, &run).await;
    assert_eq!(question.error.map(|error| error.code).as_deref(), Some("PHASE_BLOCKED"));
    assert_eq!(rejections(&harness, &run).await.len(), 4);
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(stands[0].updated_at_ms, Some(time.now_ms()));
    let payload = value(&harness, stands[0].payload.as_ref()).await;
    let waited = payload["failed"][0]["failed"].as_array().unwrap().iter().map(|at| at["waitedMs"].clone());
    assert_eq!(waited.collect::<Vec<_>>(), [0, 500, 1_500], "of the attempts before the last one");
}

#[tokio::test]
async fn an_output_that_is_no_json_is_tried_again_with_its_correction() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!("src"))).await;
    for (attempt, text) in [(1, "the sea"), (2, r#"{"title": "a", "title": "b"}"#), (3, r#"{"title": NaN}"#)]
    {
        let read = worker.assignment().await;
        assert_eq!(read.assignment.attempt, attempt);
        worker.complete(&read.lease, put(&harness, text.into()).await).await;
    }
    let read = worker.assignment().await;
    let input = value(&harness, read.assignment.input.as_ref()).await;
    assert_eq!((&input["input"], &input["correction"]["attempt"]), (&of!("src"), &of!(3)));
    assert_eq!(input["correction"]["violations"][0]["rule"], "syntax", "{input}");
    assert_eq!(input["correction"].get("output"), None, "it is no JSON");
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let rejected = rejections(&harness, &run).await;
    assert!(rejected.iter().all(|rejected| rejected.violations[0].rule == "syntax"), "{rejected:?}");
    assert_eq!(rejected.len(), 3);
}

/// One phase for each source; all of it counts once all items do.
const SOURCES: &str = r#"
name = "sources"
product_id = "shop"
[[phases]]
name = "classify"
agent = "classifier"
for_each = "${input.sources}"
input = { source = "${item.id}" }
output.schema = { type = "object", required = ["surface"], properties = { surface = { enum = ["docs", "infra"] } } }
summary = ["surface"]
retry = { delays_ms = [0, 0, 0] }
[[phases]]
name = "tell"
agent = "teller"
input = { first = "${phases.classify.output.0.surface}", all = "${phases.classify.summary}" }
"#;

/// A run of which the second of two items has used its four attempts up, and the first one counts.
async fn half_blocked(harness: &Harness, worker: &mut Worker) -> (String, v1::Question) {
    let run = start(harness, given(SOURCES, of!({ "sources": [{ "id": "a" }, { "id": "b" }] }))).await;
    let assigned = worker.assignments(2).await;
    let first = &assigned["classify.0"];
    assert_eq!(first.assignment.input, Some(json(of!({ "source": "a" }))));
    worker.complete(&first.lease, json(of!({ "surface": "docs", "why": "a docs folder" }))).await;
    let mut lease = assigned["classify.1"].lease.clone();
    for attempt in 1..=4 {
        worker.complete(&lease, json(of!({ "surface": "mixed" }))).await;
        if attempt < 4 {
            let again = worker.assignment().await;
            assert_eq!(
                (again.assignment.task_name.as_str(), again.assignment.attempt),
                ("classify.1", attempt + 1)
            );
            lease = again.lease;
        }
    }
    let question = blocked(harness, &run).await;
    (run, question)
}

#[tokio::test]
async fn an_answer_that_was_taken_is_known_again_when_the_agent_that_it_names_is_not() {
    let harness = Harness::start_with(|config| {
        config.declared_agents = vec![DeclaredAgent::new("careful")];
    })
    .await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    for _ in 1..=4 {
        let read = worker.assignment().await;
        worker.complete(&read.lease, json(of!({ "title": 7 }))).await;
    }
    let question = blocked(&harness, &run).await;
    let taken = answer(&run, &question, "retry", Some(of!({ "agent": "careful" })));
    let first = harness.runs.clone().resolve(taken.clone()).await.unwrap().into_inner();
    drop(worker);
    // The next daemon does not know the agent.
    let harness = harness.restart().await;
    let mut runs = harness.runs.clone();
    let other = v1::ResolveRequest { request_id: "other".to_owned(), ..taken.clone() };
    assert_eq!(code_of(&runs.resolve(other).await.unwrap_err()), "AGENT_NOT_FOUND");
    assert_eq!(runs.resolve(taken).await.unwrap().into_inner(), first);
}

// S003-CP-01 S003-CP-02 S003-CP-03 S003-RE-02 S003-RE-03
#[tokio::test]
async fn a_blocked_phase_goes_on_with_another_agent_and_what_counts_is_not_done_again() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier", "careful", "teller"]).await;
    let (run, question) = half_blocked(&harness, &mut worker).await;
    assert_eq!(question.options, ["retry", "abort"], "no phase comes before the first one");
    assert_eq!(question.purpose(), v1::QuestionPurpose::Phase);
    assert_eq!(question.error.as_ref().map(|error| error.code.as_str()), Some("PHASE_BLOCKED"));
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Waiting);

    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Blocked, CheckpointStatus::Pending]);
    let classify = &stands[0];
    assert_eq!((classify.product_id.as_str(), classify.phase.as_str()), ("shop", "classify"));
    assert_eq!((classify.checkpoint_version.as_str(), &classify.run_id), ("v1.0", &run));
    assert!(classify.created_at_ms.is_some() && classify.updated_at_ms >= classify.created_at_ms);
    assert!(classify.error_message.as_ref().is_some_and(|why| why.contains("classify")), "{classify:?}");
    let payload = value(&harness, classify.payload.as_ref()).await;
    let failed = payload["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{payload}");
    assert_eq!((&failed[0]["item"], &failed[0]["attempts"]), (&of!(1), &of!(4)));
    assert_eq!(failed[0]["code"], "VALIDATION_ERROR");
    let tell = &stands[1];
    assert_eq!((tell.created_at_ms, tell.updated_at_ms, &tell.payload), (None, None, &None));

    // The value of the answer has a form of its own.
    let mut runs = harness.runs.clone();
    let unknown = answer(&run, &question, "retry", Some(of!({ "agents": "careful" })));
    assert_eq!(paths_of(&runs.resolve(unknown).await.unwrap_err()), ["value/agents"]);
    let skipped = runs.resolve(answer(&run, &question, "skip", None)).await.unwrap_err();
    assert_eq!(code_of(&skipped), "VALIDATION_ERROR");
    let changed =
        answer(&run, &question, "retry", Some(of!({ "agent": "careful", "input": { "source": "c" } })));
    runs.resolve(changed.clone()).await.unwrap();
    let again = worker.assignment().await.assignment;
    assert_eq!(
        (again.task_name.as_str(), again.agent.as_str(), again.attempt),
        ("classify.1.again-2", "careful", 1)
    );
    assert_eq!(again.input, Some(json(of!({ "source": "c" }))));
    // The same answer again changes nothing.
    runs.resolve(changed).await.unwrap();
    worker.complete(&again.lease.unwrap(), json(of!({ "surface": "infra" }))).await;

    let tell = worker.assignment().await;
    let expected = of!({ "first": "docs", "all": [{ "surface": "docs" }, { "surface": "infra" }] });
    assert_eq!(value(&harness, tell.assignment.input.as_ref()).await, expected);
    worker.complete(&tell.lease, json(of!({}))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Completed; 2]);
    assert_eq!(stands[0].created_at_ms, classify.created_at_ms, "it is the same checkpoint");
    assert_eq!(stands[0].error_message, None);
    assert_eq!(value(&harness, stands[0].payload.as_ref()).await, expected["all"]);
}

// S003-RE-02
#[tokio::test]
async fn a_run_whose_phase_is_blocked_ends_blocked_when_it_is_aborted() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier", "teller"]).await;
    let (run, question) = half_blocked(&harness, &mut worker).await;
    harness.runs.clone().resolve(answer(&run, &question, "abort", None)).await.unwrap();
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Blocked);
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Blocked, CheckpointStatus::Pending]);
    assert!(stands[0].error_message.is_some());
}

// S003-CP-04
#[tokio::test]
async fn a_summary_that_is_too_large_for_a_checkpoint_blocks_its_phase_with_its_largest_keys() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let toml = "name = \"p\"\n[[phases]]\nname = \"read\"\nagent = \"reader\"\nsummary = [\"text\", \"n\"]";
    let run = start(&harness, pipeline(toml)).await;
    let read = worker.assignment().await;
    let output = put(&harness, of!({ "text": "a".repeat(33 * 1024), "n": 1 }).to_string().into_bytes()).await;
    worker.complete(&read.lease, output).await;
    let question = blocked(&harness, &run).await;
    assert_eq!(cause_of(&question), "CHECKPOINT_TOO_LARGE");
    let error = question.error.clone().unwrap();
    // 33,792 letters and their quotes.
    assert!(error.message.contains("\"text\" 33794, \"n\" 1"), "{}", error.message);
    harness.runs.clone().resolve(answer(&run, &question, "abort", None)).await.unwrap();
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Blocked);
}

/// A worker whose agent declares what it gives back.
async fn declaring(harness: &Harness, agent: &str, schema: &str) -> Worker {
    let agent =
        v1::Agent { name: agent.to_owned(), output_schema: schema.to_owned(), ..v1::Agent::default() };
    let hello = v1::Hello {
        worker_id: "w1".to_owned(),
        agents: vec![agent],
        slots: 4,
        protocol: 1,
        ..v1::Hello::default()
    };
    Worker::with_hello(harness.channel.clone(), hello).await.unwrap()
}

#[tokio::test]
async fn what_an_agent_declares_of_its_outputs_holds_for_tasks_of_plans() {
    let harness = Harness::start().await;
    let mut worker = declaring(&harness, "count", r#"{"type":"object","required":["n"]}"#).await;
    let one = || plan("name = \"p\"\n[[tasks]]\nname = \"t\"\nagent = \"count\"");
    let cause = |result: &v1::RunResult| {
        let error = result.tasks[0].error.clone().unwrap();
        error.cause.map_or(error.code, |cause| cause.code)
    };
    let run = harness.start_run(one()).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(of!({ "m": 1 }))).await;
    let result = harness.wait(&run).await;
    assert_eq!(
        (result.tasks[0].status(), cause(&result).as_str()),
        (v1::ResultStatus::Error, "VALIDATION_ERROR")
    );
    assert!(result.tasks[0].output.is_none());

    let run = harness.start_run(one()).await;
    let lease = worker.assignment().await.lease;
    let twice = put(&harness, br#"{"n": 1, "n": 2}"#.to_vec()).await;
    worker.complete(&lease, twice).await;
    assert_eq!(cause(&harness.wait(&run).await), "PARSE_ERROR");

    let run = harness.start_run(one()).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(of!({ "n": 1 }))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn what_an_agent_declares_of_its_outputs_holds_beside_the_rule_of_its_phase() {
    let harness = Harness::start().await;
    let mut worker = declaring(&harness, "reader", r#"{"required":["pages"]}"#).await;
    let _teller = harness.worker("w2", &["teller"]).await;
    let run = start(&harness, pipeline(REVIEW)).await;
    let lease = worker.assignment().await.lease;
    worker.complete(&lease, json(of!({ "title": "the sea" }))).await;
    let again = worker.assignment().await;
    assert_eq!(again.assignment.attempt, 2);
    let input = value(&harness, again.assignment.input.as_ref()).await;
    assert_eq!(input["correction"]["violations"][0]["rule"], "required", "{input}");
    worker.complete(&again.lease, json(of!({ "title": "the sea", "pages": 3 }))).await;
    let at_work = || async {
        let stands = checkpoints(&harness, &run, None).await;
        (stands[1].status() == CheckpointStatus::InProgress).then_some(())
    };
    eventually("the next phase", at_work).await;
}

#[tokio::test]
async fn inputs_and_outputs_beyond_32_kib_are_blobs_on_their_way() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let toml = r#"
        name = "large"
        [[phases]]
        name = "read"
        agent = "reader"
        summary = ["title"]
        [[phases]]
        name = "tell"
        agent = "teller"
        input = { text = "${phases.read.output.text}", kind = "${input.kind}", title = "${phases.read.summary.title}" }
    "#;
    let (large, larger) = ("i".repeat(100 * 1024), "o".repeat(200 * 1024));
    let input = of!({ "kind": "log", "text": large });
    let asked =
        v1::Pipeline { input: Some(put(&harness, input.to_string().into_bytes()).await), ..pipeline(toml) };
    let run = start(&harness, asked).await;
    let read = worker.assignment().await;
    assert!(matches!(
        read.assignment.input.as_ref().and_then(|input| input.data.as_ref()),
        Some(Data::Blob(_))
    ));
    assert_eq!(value(&harness, read.assignment.input.as_ref()).await, input);
    let output = of!({ "title": "t", "text": larger });
    worker.complete(&read.lease, put(&harness, output.to_string().into_bytes()).await).await;
    let tell = worker.assignment().await;
    let given = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(given, of!({ "text": larger, "kind": "log", "title": "t" }));
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn an_output_of_50_mib_breaks_the_rule_of_its_size() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    // 12 bytes are around the title.
    let output = of!({ "title": "t".repeat(50 * 1024 * 1024 - 12) }).to_string();
    assert_eq!(output.len(), 50 * 1024 * 1024);
    worker.complete(&read.lease, put(&harness, output.into_bytes()).await).await;
    let again = worker.assignment().await;
    let input = value(&harness, again.assignment.input.as_ref()).await;
    assert_eq!((again.assignment.attempt, &input["path"]), (2, &of!("src")));
    assert_eq!(input["correction"]["violations"][0]["rule"], "size", "{input}");
    assert_eq!(input["correction"].get("output"), None, "it is not given back");
    let rejected = rejections(&harness, &run).await;
    assert_eq!((rejected.len(), rejected[0].violations[0].rule.as_str()), (1, "size"));
    assert_eq!(rejected[0].violations[0].found, "52428800 bytes");
}

#[tokio::test]
async fn a_source_of_several_surfaces_is_asked_for_its_buckets() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier"]).await;
    let toml = r#"
        name = "sources"
        [[phases]]
        name = "classify"
        agent = "classifier"
        output.checks = ["source_context"]
        retry = { delays_ms = [0] }
    "#;
    let source = of!({ "sourceId": "shop", "paths": ["src/main.rs", "docs/guide.md"] });
    let run = start(&harness, given(toml, source.clone())).await;
    let first = worker.assignment().await;
    let plain = of!({ "classification": "docs", "notes": "a guide" });
    worker.complete(&first.lease, json(plain.clone())).await;
    let second = worker.assignment().await;
    assert_eq!(second.assignment.attempt, 2);
    let input = value(&harness, second.assignment.input.as_ref()).await;
    assert_eq!((&input["sourceId"], &input["paths"]), (&source["sourceId"], &source["paths"]));
    assert_eq!(input["correction"]["output"], plain);
    let violations = input["correction"]["violations"].as_array().unwrap();
    let told: Vec<_> = violations.iter().map(|found| (&found["path"], &found["rule"])).collect();
    assert_eq!(told, [(&of!("/surfaceBuckets"), &of!("BUCKETS_REQUIRED"))]);
    let buckets = of!([
        { "surface": "docs", "pathPrefix": "docs" },
        { "surface": "product_core", "pathPrefix": "src" },
    ]);
    let told_apart = of!({ "classification": "docs", "notes": "a guide", "surfaceBuckets": buckets });
    worker.complete(&second.lease, json(told_apart.clone())).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(result.tasks[0].output, Some(json(told_apart)));
}

#[tokio::test]
async fn a_phase_without_items_is_completed_at_once() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier", "teller"]).await;
    let toml = SOURCES.replace("first = \"${phases.classify.output.0.surface}\", ", "");
    let run = start(&harness, given(&toml, of!({ "sources": [] }))).await;
    let tell = worker.assignment().await;
    assert_eq!(value(&harness, tell.assignment.input.as_ref()).await, of!({ "all": [] }));
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn an_input_that_cannot_be_made_blocks_its_phase_until_another_one_is_given() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier", "teller"]).await;
    let run = start(&harness, given(SOURCES, of!({ "sources": 7 }))).await;
    let question = blocked(&harness, &run).await;
    assert_eq!(cause_of(&question), "INPUT_UNRESOLVED");
    // Nobody knows the items, so that what is given is a list of them.
    let given = answer(&run, &question, "retry", Some(of!({ "input": [{ "source": "a" }] })));
    harness.runs.clone().resolve(given).await.unwrap();
    let classify = worker.assignment().await;
    assert_eq!(classify.assignment.input, Some(json(of!({ "source": "a" }))));
    worker.complete(&classify.lease, json(of!({ "surface": "docs" }))).await;
    let tell = worker.assignment().await;
    let given = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(given, of!({ "first": "docs", "all": [{ "surface": "docs" }] }));
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_command_that_prints_no_json_is_tried_again_with_its_correction() {
    let harness = with_reader(&["the sea", r#"{"title": "the sea"}"#]).await;
    let mut worker = harness.worker("w1", &["teller"]).await;
    start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    worker.assignment().await;
    let given = stdin(harness.folder.path());
    assert_eq!(given[1]["correction"]["violations"][0]["rule"], "media_type", "{given:?}");
}

/// A person lets the phase go on from two places, which have seen the same.
#[tokio::test]
async fn of_two_clients_that_resume_at_once_one_is_refused() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["classifier", "careful", "teller"]).await;
    let (run, question) = half_blocked(&harness, &mut worker).await;
    let if_seq = Some(harness.get(&run).await.seq);
    let resume = |request_id: &str| {
        let retry = answer(&run, &question, "retry", Some(of!({ "agent": "careful" })));
        let request = v1::ResolveRequest { request_id: request_id.to_owned(), if_seq, ..retry };
        let mut runs = harness.runs.clone();
        async move { runs.resolve(request).await.map(|told| told.into_inner().seq) }
    };
    let (one, other) = tokio::join!(resume("one"), resume("other"));
    let refused = match (one, other) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => code_of(&refused),
        both => panic!("one of them: {both:?}"),
    };
    assert!(["SEQ_MISMATCH", "QUESTION_ANSWERED"].contains(&&*refused), "{refused}");
    let log = harness.export(&run).await;
    let changed = log.iter().filter(|event| matches!(event.body, Some(Body::PhaseChanged(_))));
    assert_eq!(changed.count(), 1);
    // It is worked on once, and by the agent that was named.
    let again = worker.assignment().await;
    assert_eq!(
        (again.assignment.task_name.as_str(), again.assignment.agent.as_str()),
        ("classify.1.again-2", "careful")
    );
    worker.complete(&again.lease, json(of!({ "surface": "infra" }))).await;
    let tell = worker.assignment().await;
    assert_eq!(tell.assignment.task_name, "tell");
}
