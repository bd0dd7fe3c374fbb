//! Runs as traces: what a collector gets of them, whatever happens to the daemon and to the collector.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::served::Served;
use crate::served::collector::Collector;
use capataz_client::Client;
use capataz_contracts::trace::span_id;
use capataz_contracts::v1::{self, event::Body};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tonic::Code;

/// Agents: one that fails the first time and says its span, and one that goes on when it finds a file.
fn config(folder: &Path, collector: &Collector, more: &str) -> String {
    let folder = folder.display();
    format!(
        r#"
[telemetry]
otlp_endpoint = "{}"
{more}

[[agents]]
name = "flaky"
retryable_exit_codes = [75]
command = ["sh", "-c", "read name; mkdir {folder}/$name.first 2>/dev/null && exit 75; printf '\"%s\"' $TRACEPARENT"]

[[agents]]
name = "patient"
command = ["sh", "-c", "until test -e {folder}/go; do sleep 0.05; done; echo 1"]

[[agents]]
name = "quick"
command = ["echo", "1"]
"#,
        collector.url()
    )
}

/// A daemon whose spans the collector gets, in a folder of its own. What waits for a file finds it.
async fn served(collector: &Collector) -> (tempfile::TempDir, Served, Client) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("go"), "").unwrap();
    let daemon = Served::start(folder.path(), &config(folder.path(), collector, ""));
    let client = daemon.client().await;
    (folder, daemon, client)
}

/// A plan with a retry, a task that is a run, and a task that waits.
fn plan(name: &str) -> v1::Plan {
    let text = format!(
        r#"
name = "{name}"
retry = {{ delays_ms = [10] }}
[[waves]]
name = "look"
tasks = [
    {{ name = "{name}-flaky", agent = "flaky", input = "{name}" }},
    {{ name = "family", run.plan = {{ name = "child", waves = [{{ tasks = [{{ name = "inner", agent = "quick" }}] }}] }} }},
]
[[waves]]
name = "end"
tasks = [{{ name = "last", agent = "patient" }}]
"#
    );
    capataz_contracts::plan_file::parse(&text, capataz_contracts::plan_file::Format::Toml).unwrap()
}

fn start(plan: v1::Plan) -> v1::StartRunRequest {
    v1::StartRunRequest::of_plan(plan)
}

fn id_of(run: &str) -> [u8; 16] {
    run.parse::<uuid::Uuid>().unwrap().into_bytes()
}

async fn log(client: &Client, run: &str) -> Vec<v1::Event> {
    let mut export = client.export_run(run).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = export.next().await {
        events.push(event.unwrap());
    }
    events
}

/// The runs that are tasks of this one.
fn children(log: &[v1::Event]) -> Vec<String> {
    let named = log.iter().filter_map(|event| match &event.body {
        Some(Body::ChildNamed(named)) => Some(named.run_id.clone()),
        _ => None,
    });
    named.collect()
}

/// The ids of a run's spans, by its log: its beginning, each wave, each lease, each wait for a child, each end of a task that
/// nobody had, and its end.
fn expected(run: &str, log: &[v1::Event]) -> BTreeSet<Vec<u8>> {
    let (mut ids, mut at_work) = (BTreeSet::new(), BTreeSet::new());
    for event in log {
        let own = span_id(id_of(run), event.seq).to_vec();
        match event.body.as_ref().unwrap() {
            Body::RunAccepted(_) | Body::WaveStarted(_) | Body::RunFinished(_) => {
                ids.insert(own);
            }
            Body::TaskLeased(leased) => {
                at_work.insert((leased.wave, leased.task));
                ids.insert(span_id(id_of(run), leased.lease).to_vec());
            }
            Body::ChildNamed(named) => {
                at_work.insert((named.wave, named.task));
                ids.insert(span_id(id_of(&named.run_id), 0).to_vec());
            }
            Body::TaskLeaseLost(lost) => {
                at_work.remove(&(lost.wave, lost.task));
            }
            Body::TaskAttemptFailed(failed) => {
                at_work.remove(&(failed.wave, failed.task));
            }
            Body::TaskSettled(settled) if !at_work.remove(&(settled.wave, settled.task)) => {
                ids.insert(own);
            }
            _ => {}
        }
    }
    ids
}

/// The spans of calls of the API are parts of their callers' traces, if at all.
fn of_runs(spans: &[Span]) -> Vec<Span> {
    spans
        .iter()
        .filter(|span| !span.name.starts_with("capataz.v1.") && !span.name.starts_with("grpc."))
        .cloned()
        .collect()
}

fn text(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Every span of the family of this run is there, no other one, and each has its parent.
async fn is_a_tree(client: &Client, collector: &Collector, run: &str) {
    let mut wanted = BTreeSet::new();
    let mut family = vec![run.to_owned()];
    while let Some(member) = family.pop() {
        let log = log(client, &member).await;
        wanted.extend(expected(&member, &log));
        family.extend(children(&log));
    }
    let trace = id_of(run).to_vec();
    let of_trace = |spans: &[Span]| -> Vec<Span> {
        of_runs(spans).into_iter().filter(|span| span.trace_id == trace).collect()
    };
    collector.until(|spans, _| of_trace(spans).len() >= wanted.len()).await;
    let spans = of_trace(&collector.spans());
    let ids: BTreeSet<Vec<u8>> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids, wanted);
    for span in &spans {
        let is_root = span.span_id == span_id(id_of(run), 1);
        assert_eq!(span.parent_span_id.is_empty(), is_root, "{span:?}");
        assert!(is_root || ids.contains(&span.parent_span_id), "an orphan: {span:?}");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
}

#[tokio::test]
async fn a_run_is_a_tree_of_waves_tries_and_children_and_each_command_knows_its_span() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    fs::write(folder.path().join("go"), "").unwrap();
    let more = "[telemetry.headers]\nauthorization = \"Bearer ${secret:COLLECTOR}\"\n\
                [telemetry.resource]\n\"deployment.environment.name\" = \"test\"\n";
    let config =
        format!("secrets_dir = \"{}\"\n{}", folder.path().display(), config(folder.path(), &collector, more));
    fs::write(folder.path().join("COLLECTOR"), "hunter2-hunter2\n").unwrap();
    let daemon = Served::start(folder.path(), &config);
    let client = daemon.client().await;
    let done = client.execute_run(start(plan("tour")), None).await.unwrap();
    assert_eq!(done.result.as_ref().unwrap().outcome(), v1::RunOutcome::Succeeded);
    is_a_tree(&client, &collector, &done.run_id).await;

    let spans = collector.spans();
    let tries: Vec<&Span> = spans.iter().filter(|span| span.name == "tour-flaky").collect();
    let told: BTreeMap<String, String> =
        tries.iter().map(|span| (text(span, "capataz.attempt"), text(span, "error.type"))).collect();
    assert_eq!(
        told,
        BTreeMap::from([("1".into(), "SERVICE_UNAVAILABLE".into()), ("2".into(), String::new())])
    );
    // What the second try has printed is its own span.
    let second = tries.iter().find(|span| text(span, "capataz.attempt") == "2").unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let traceparent = format!("00-{}-{}-01", hex(&second.trace_id), hex(&second.span_id));
    let run = client.get_run(v1::GetRunRequest {
        run_id: done.run_id.clone(),
        include_outputs: true,
        ..Default::default()
    });
    let run = run.await.unwrap().run.unwrap();
    let task = run.waves[0].tasks.iter().find(|task| task.name == "tour-flaky").unwrap();
    let output = task.output.clone().unwrap();
    assert_eq!(output.data, Some(v1::payload::Data::Inline(json!(traceparent).to_string().into())));
    // Who sends says who it is, and the secret is nowhere in what the daemon says.
    let resource = collector.resource();
    assert_eq!((&*resource["service.name"], &*resource["deployment.environment.name"]), ("capataz", "test"));
    assert_eq!(collector.headers()["authorization"], "Bearer hunter2-hunter2");
    assert!(!daemon.said().contains("hunter2"));
}

#[tokio::test]
async fn a_run_that_a_command_starts_and_a_call_belong_to_the_span_of_whoever_makes_them() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    fs::write(folder.path().join("go"), "").unwrap();
    let daemon = Served::start(folder.path(), &config(folder.path(), &collector, ""));
    fs::write(
        folder.path().join("plan.toml"),
        "name = \"p\"\nwaves = [{ tasks = [{ name = \"t\", agent = \"quick\" }] }]\n",
    )
    .unwrap();
    let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let run = |traceparent: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
        command.args(["run", "plan.toml", "--json", "--addr", &daemon.url()]).current_dir(folder.path());
        let output = command.env("TRACEPARENT", traceparent).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        said["run_id"].as_str().unwrap().to_owned()
    };
    let with_caller = run(caller);
    let trace =
        vec![0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];
    let parent = vec![0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7];
    let is_root = |span: &&Span| span.span_id == span_id(id_of(&with_caller), 1);
    collector
        .until(|spans, _| spans.iter().any(|span| span.name.starts_with("capataz.v1.RunService/")))
        .await;
    collector.until(|spans, _| spans.iter().find(is_root).is_some()).await;
    let spans = collector.spans();
    let root = spans.iter().find(is_root).unwrap();
    assert_eq!((&root.trace_id, &root.parent_span_id), (&trace, &parent));
    let call =
        spans.iter().find(|span| span.name.starts_with("capataz.v1.RunService/") && span.trace_id == trace);
    assert_eq!(call.map(|call| call.parent_span_id.clone()), Some(parent));
    // One that cannot be read is none, and one that nobody records is not sent.
    let alone = run("00-nonsense");
    is_a_tree(&daemon.client().await, &collector, &alone).await;
    let quiet = run(&caller.replace("-01", "-00"));
    let after = run("");
    is_a_tree(&daemon.client().await, &collector, &after).await;
    let of_quiet = span_id(id_of(&quiet), 1).to_vec();
    assert!(collector.spans().iter().all(|span| span.span_id != of_quiet));
    // Calls without a caller's span have none: they would have been sent before those of a later call that has.
    run(&caller.replace("02b7", "02b8"));
    let is_call = |span: &&Span| span.name.starts_with("capataz.v1.");
    let later = [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb8];
    collector.until(|spans, _| spans.iter().filter(is_call).any(|call| call.parent_span_id == later)).await;
    assert!(collector.spans().iter().filter(is_call).all(|call| call.trace_id == trace));
}

#[tokio::test]
async fn however_often_the_daemon_is_killed_no_span_is_missing_and_none_is_known_by_two_names() {
    // More of them by `CAPATAZ_KILLS=100`.
    let kills: usize = std::env::var("CAPATAZ_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6);
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    let mut daemon = Served::start(folder.path(), &config(folder.path(), &collector, ""));
    let mut runs = Vec::new();
    for round in 0..kills {
        let client = daemon.client().await;
        let started = client.start_run(start(plan(&format!("round-{round}")))).await.unwrap();
        runs.push(started.run_id.clone());
        // At another moment each time: at once, when its beginning has arrived, when its child has ended, and so on.
        let wanted = 1 + round % 7;
        collector
            .until(|spans, _| {
                let trace = id_of(&started.run_id);
                round % 7 == 0
                    || of_runs(spans).iter().filter(|span| span.trace_id == trace).count() >= wanted
            })
            .await;
        daemon = daemon.kill_and_start();
    }
    fs::write(folder.path().join("go"), "").unwrap();
    let client = daemon.client().await;
    for run in &runs {
        // A task whose lease was lost five times has failed: its run is a tree all the same.
        client.wait_run(run, None).await.unwrap().unwrap();
        is_a_tree(&client, &collector, run).await;
    }
    let known: BTreeSet<Vec<u8>> = runs.iter().map(|run| id_of(run).to_vec()).collect();
    let unknown: Vec<Span> =
        of_runs(&collector.spans()).into_iter().filter(|span| !known.contains(&span.trace_id)).collect();
    assert_eq!(unknown, []);
}

#[tokio::test]
async fn a_collector_that_is_away_costs_no_run_anything_and_gets_everything_when_it_is_back() {
    let collector = Collector::start().await;
    collector.leaves();
    let (_folder, daemon, client) = served(&collector).await;
    let mut runs = Vec::new();
    for round in 0..3 {
        let done = client.execute_run(start(plan(&format!("away-{round}"))), None).await.unwrap();
        assert_eq!(done.result.unwrap().outcome(), v1::RunOutcome::Succeeded);
        runs.push(done.run_id);
    }
    // It is not there while the daemon stops and another one starts, either.
    let daemon = daemon.kill_and_start();
    let collector = collector.comes_back().await;
    collector.answers(Code::Unavailable);
    collector.until(|_, calls| calls >= 2).await;
    assert_eq!(collector.spans(), []);
    collector.answers(Code::Ok);
    let client = daemon.client().await;
    for run in &runs {
        is_a_tree(&client, &collector, run).await;
    }
    assert!(daemon.said().contains("the collector cannot be reached"));
    assert!(daemon.said().contains("the collector can be reached again"));
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_no_run_and_no_end_of_the_daemon() {
    let collector = Collector::start().await;
    collector.hangs(true);
    let (_folder, daemon, client) = served(&collector).await;
    let first = client.execute_run(start(plan("first")), None).await.unwrap();
    collector.until(|_, calls| calls > 0).await;
    // It is in the middle of a call now.
    let second = client.execute_run(start(plan("second")), None).await.unwrap();
    assert_eq!(second.result.unwrap().outcome(), v1::RunOutcome::Succeeded);
    daemon.signal("TERM");
    let daemon = daemon.start_again();
    collector.hangs(false);
    let client = daemon.client().await;
    for run in [&first.run_id, &second.run_id] {
        is_a_tree(&client, &collector, run).await;
    }
}

#[tokio::test]
async fn a_collector_that_answers_late_slows_no_run_and_gets_the_same_spans_later() {
    let collector = Collector::start().await;
    let (_folder, _daemon, client) = served(&collector).await;
    let mut runs = Vec::new();
    for round in 0..2 {
        collector.holds(true);
        let (before, taken) = (collector.calls(), collector.spans());
        let run = async |name: &str| {
            let done = client.execute_run(start(plan(&format!("{name}-{round}"))), None).await.unwrap();
            assert_eq!(done.result.unwrap().outcome(), v1::RunOutcome::Succeeded);
            done.run_id
        };
        runs.push(run("sent").await);
        collector.until(|_, calls| calls > before).await;
        // It has a call, and has not answered it, while these runs begin and end.
        for name in ["meanwhile", "still"] {
            runs.push(run(name).await);
        }
        assert_eq!(collector.spans(), taken, "it has taken nothing by then");
        collector.holds(false);
        for run in &runs {
            is_a_tree(&client, &collector, run).await;
        }
    }
}

#[tokio::test]
async fn a_collector_that_breaks_off_in_the_middle_of_a_call_gets_its_spans_once_more() {
    let collector = Collector::start_behind_a_wire().await;
    collector.hangs(true);
    let (_folder, _daemon, client) = served(&collector).await;
    let run = client.execute_run(start(plan("broken")), None).await.unwrap().run_id;
    collector.until(|_, calls| calls > 0).await;
    collector.hangs(false);
    collector.breaks_off();
    is_a_tree(&client, &collector, &run).await;
}

#[tokio::test]
async fn a_collector_that_takes_few_spans_at_once_gets_all_of_them() {
    let collector = Collector::start().await;
    collector.leaves();
    let (_folder, _daemon, client) = served(&collector).await;
    let mut runs = Vec::new();
    for name in ["one", "two", "three"] {
        runs.push(client.execute_run(start(plan(name)), None).await.unwrap().run_id);
    }
    // All of that is sent at once, and refused, and then in halves.
    collector.takes_at_most(3);
    let collector = collector.comes_back().await;
    for run in &runs {
        is_a_tree(&client, &collector, run).await;
    }
}

#[tokio::test]
async fn spans_that_a_collector_says_it_has_rejected_are_counted() {
    let collector = Collector::start().await;
    collector.rejects(1);
    let (_folder, daemon, client) = served(&collector).await;
    let run = client.execute_run(start(plan("partly")), None).await.unwrap().run_id;
    is_a_tree(&client, &collector, &run).await;
    let wait = async {
        while counted(&daemon, "capataz_trace_spans_total{result=\"rejected\"}").await < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::served::kills::PATIENCE, wait).await.unwrap();
}

/// What `/metrics` says of this series.
async fn counted(daemon: &Served, series: &str) -> f64 {
    let text = scraped(daemon).await;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} in {text}")).trim().parse().unwrap()
}

/// What `/metrics` says.
async fn scraped(daemon: &Served) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut connection = tokio::net::TcpStream::connect(daemon.address()).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", daemon.address());
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    text
}

/// The bytes of a page of the database.
const PAGE: usize = 4_096;

/// Overwrites the page of the log that has the beginning of the run of this name. Returns what was on it.
fn damage(folder: &Path, name: &str) -> Vec<u8> {
    let file = folder.join("data/capataz.db");
    let database = rusqlite::Connection::open(&file).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    database.close().unwrap();
    let mut content = fs::read(&file).unwrap();
    let has = |page: &[u8], text: &str| page.windows(text.len()).any(|part| part == text.as_bytes());
    // A leaf of a table, with names of agents: those are in events alone.
    let is_it = |page: &&mut [u8]| page[0] == 0x0D && has(page, name) && has(page, "quick");
    let page = content.chunks_mut(PAGE).find(is_it).unwrap();
    let before = page.to_vec();
    page.fill(0xA5);
    fs::write(&file, content).unwrap();
    before
}

#[tokio::test]
async fn a_damaged_page_of_the_log_costs_the_spans_that_are_on_it_and_no_others() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Collector::start().await);
    let config = config(folder.path(), &collector, "");
    collector.leaves();
    let mut daemon = Served::start(folder.path(), &config);
    let client = daemon.client().await;
    let quick = |name: &str| {
        let text =
            format!("name = \"{name}\"\nwaves = [{{ tasks = [{{ name = \"t\", agent = \"quick\" }}] }}]");
        start(capataz_contracts::plan_file::parse(&text, capataz_contracts::plan_file::Format::Toml).unwrap())
    };
    let names: Vec<String> = (0..40).map(|number| format!("hurt-{number:02}")).collect();
    let mut runs = Vec::new();
    for name in &names {
        runs.push(client.execute_run(quick(name), None).await.unwrap().run_id);
    }
    daemon.signal("TERM");
    daemon.ended();
    let lost = damage(folder.path(), &names[20]);
    let is_lost = |run: &&String| {
        let id = id_of(run);
        lost.windows(id.len()).any(|part| part == id)
    };
    let daemon = daemon.start_again();
    let collector = collector.comes_back().await;
    let client = daemon.client().await;
    let after = client.execute_run(quick("after"), None).await.unwrap().run_id;
    let whole: Vec<&String> = runs.iter().filter(|run| !is_lost(run)).chain([&after]).collect();
    assert!((20..=40).contains(&whole.len()), "some are on the page: {} are not", whole.len());
    for run in whole {
        is_a_tree(&client, &collector, run).await;
    }
    assert!(daemon.said().contains("the spans of appends that cannot be read are left out"));
    daemon.killed();
}

#[tokio::test]
async fn spans_that_a_collector_refuses_are_given_up_and_later_ones_are_sent() {
    let collector = Collector::start().await;
    collector.answers(Code::InvalidArgument);
    let (_folder, daemon, client) = served(&collector).await;
    let lost = client.execute_run(start(plan("lost")), None).await.unwrap().run_id;
    let wait = async {
        while !daemon.said().contains("the collector refuses spans") {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::served::kills::PATIENCE, wait).await.unwrap();
    collector.answers(Code::Ok);
    let kept = client.execute_run(start(plan("kept")), None).await.unwrap().run_id;
    is_a_tree(&client, &collector, &kept).await;
    let whole = span_id(id_of(&lost), log(&client, &lost).await.last().unwrap().seq).to_vec();
    let root = span_id(id_of(&lost), 1).to_vec();
    let has = |id: &Vec<u8>| collector.spans().iter().any(|span| span.span_id == *id);
    assert!(!has(&root) || !has(&whole), "something of it was refused");
}

#[tokio::test]
async fn what_was_removed_before_it_was_sent_is_counted_and_the_rest_is_sent() {
    let collector = Collector::start().await;
    collector.leaves();
    let (_folder, daemon, client) = served(&collector).await;
    let mut runs = Vec::new();
    for name in ["kept", "removed", "also-kept"] {
        runs.push(client.execute_run(start(plan(name)), None).await.unwrap().run_id);
    }
    let child = children(&log(&client, &runs[1]).await).remove(0);
    for run in [&runs[1], &child] {
        client.delete_run(run).await.unwrap();
    }
    // Each daemon counts what it has found itself.
    let removed = "capataz_trace_appends_removed_total";
    let before = counted(&daemon, removed).await;
    let daemon = daemon.kill_and_start();
    let collector = collector.comes_back().await;
    let client = daemon.client().await;
    for run in [&runs[0], &runs[2]] {
        is_a_tree(&client, &collector, run).await;
    }
    assert!(collector.spans().iter().all(|span| span.trace_id != id_of(&runs[1])));
    assert!(daemon.said().contains("retention has removed runs before their spans were sent"));
    let found = before + counted(&daemon, removed).await;
    assert!(found >= 2.0, "two runs have gone, and of each more than nothing was an append: {found}");
}
