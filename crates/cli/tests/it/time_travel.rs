//! `capataz runs show --at`, `runs diff` and `runs replay`, against the program as people start it.

use std::path::Path;
use std::process::{Command, Output};

use capataz_contracts::pipeline_file;
use capataz_contracts::v1::{self, event::Body};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::served::Served;

const AGENTS: &str = "
[[agents]]
name = \"echo\"
command = [\"echo\", \"1\"]
";

fn request(task: &str) -> v1::StartRunRequest {
    let task = v1::Task { name: task.to_owned(), agent: "echo".to_owned(), ..Default::default() };
    let wave = v1::Wave { tasks: vec![task], ..Default::default() };
    v1::StartRunRequest::of_plan(v1::Plan { name: "p".to_owned(), waves: vec![wave], ..Default::default() })
}

fn runs(daemon: &Served, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.args(["--addr", &daemon.url(), "runs"]).args(arguments).env("LC_ALL", "C");
    program.output().unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Agents that leave a line in a file of theirs for each task that they do.
fn agents_that_append(folder: &Path) -> String {
    let agent = |name: &str| {
        let file = folder.join(format!("{name}.txt"));
        format!(
            "[[agents]]\nname = \"{name}\"\ncommand = [\"tee\", \"-a\", {:?}]\n",
            file.display().to_string()
        )
    };
    agent("build") + &agent("deploy")
}

#[tokio::test]
async fn a_fork_does_what_comes_after_the_event_and_nothing_of_what_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), &agents_that_append(folder.path()));
    let client = daemon.client().await;
    let task = |name: &str| {
        let data = v1::payload::Data::Inline(format!("\"{name}\"\n").into());
        let input = v1::Payload { media_type: "application/json".to_owned(), data: Some(data) };
        let task = v1::Task {
            name: name.to_owned(),
            agent: name.to_owned(),
            input: Some(input),
            ..v1::Task::default()
        };
        v1::Wave { tasks: vec![task], ..v1::Wave::default() }
    };
    let plan = v1::Plan {
        name: "p".to_owned(),
        waves: ["build", "deploy"].map(task).to_vec(),
        ..v1::Plan::default()
    };
    let base = client.execute_run(v1::StartRunRequest::of_plan(plan), None).await.unwrap().run_id;

    // The newest event that may be: `deploy` is at work.
    let forked = runs(&daemon, &["fork", &base]);
    assert_eq!(forked.status.code(), Some(0), "{}", text(&forked.stderr));
    let told = text(&forked.stderr);
    let (_, seq) = told.split_once("Going on from event ").expect("it is told where");
    let seq: u64 = seq.split(' ').next().unwrap().parse().unwrap();
    assert!(told.contains(&format!("Going on from event {seq} of {base}.")), "{told}");
    let lines = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
    assert_eq!((lines("build.txt"), lines("deploy.txt")), (1, 2));

    let shown = document(&runs(&daemon, &["show", "latest", "--json"]));
    assert_eq!(shown["forked_from"], json!({ "run_id": base, "seq": seq }));
    let fork = shown["run_id"].as_str().unwrap();
    let page = text(&runs(&daemon, &["show", fork]).stdout);
    assert!(page.contains(&format!("{base}, event {seq}")), "{page}");
    let alike = runs(&daemon, &["diff", &format!("{base}@{seq}"), &format!("{fork}@{seq}")]);
    assert_eq!(alike.status.code(), Some(0), "{}", text(&alike.stdout));
    assert_eq!(runs(&daemon, &["diff", &base, fork]).status.code(), Some(0));
    assert_eq!(runs(&daemon, &["replay", fork]).status.code(), Some(0));
    let cascade = text(&runs(&daemon, &["explain", fork]).stdout);
    let own = format!("+  0.000s  lifecycle    goes on by itself after event {seq} of run {base}\n");
    assert!(cascade.contains(&own), "{cascade}");
    let log = text(&runs(&daemon, &["logs", fork]).stdout);
    assert!(log.contains(&format!("forked from run {base} after event {seq}")), "{log}");

    let refused = runs(&daemon, &["fork", &base, "--at", "1"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    let message = text(&refused.stderr);
    assert!(message.contains("FORK_NOT_POSSIBLE"), "{message}");
    assert_eq!(lines("deploy.txt"), 2);
    daemon.killed();
}

const READ_AND_TELL: &str = r#"
name = "p"
input = { kind = "log" }

[[phases]]
name = "read"
agent = "build"

[[phases]]
name = "tell"
agent = "deploy"
"#;

/// The agents give back what they are given, and keep it.
#[tokio::test]
async fn a_pipeline_is_forked_with_another_input() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), &agents_that_append(folder.path()));
    let client = daemon.client().await;
    let toml = pipeline_file::Format::Toml;
    let read = pipeline_file::parse_bytes(READ_AND_TELL.as_bytes(), toml, &mut |file| Err(file.to_owned()));
    let request = v1::StartRunRequest::of_pipeline(read.unwrap());
    let base = client.execute_run(request, None).await.unwrap().run_id;
    let mut log = client.export_run(&base).await.unwrap();
    // The first phase is completed there.
    let seq = loop {
        let event = log.next().await.expect("the event is there").unwrap();
        if matches!(event.body, Some(Body::PhaseCompleted(_))) {
            break event.seq.to_string();
        }
    };
    let forked = runs(&daemon, &["fork", &base, "--at", &seq, "--input", "kind=other"]);
    assert_eq!(forked.status.code(), Some(0), "{}", text(&forked.stderr));
    let told = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(told("build.txt"), r#"{"kind":"log"}"#, "what was read is not read again");
    let each = ["log", "other"]
        .map(|kind| json!({ "input": { "kind": kind }, "phases": { "read": {} } }).to_string());
    assert_eq!(told("deploy.txt"), each.concat());
    let refused = runs(&daemon, &["fork", &base, "--at", &seq, "--input", "kind:={"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn what_a_run_was_is_shown_compared_and_folded_again() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), AGENTS);
    let client = daemon.client().await;
    let first = client.execute_run(request("a"), None).await.unwrap().run_id;
    let same = client.execute_run(request("a"), None).await.unwrap().run_id;
    let other = client.execute_run(request("b"), None).await.unwrap().run_id;

    let then = runs(&daemon, &["show", &first, "--at", "1", "--json"]);
    assert_eq!(document(&then)["status"], "running");
    assert_eq!(document(&runs(&daemon, &["show", &first, "--json"]))["status"], "finished");
    let told = runs(&daemon, &["show", &first, "--at", "1"]);
    assert!(text(&told.stderr).contains("As it was after event 1."), "{}", text(&told.stderr));
    for absent in ["0", "999"] {
        let refused = runs(&daemon, &["show", &first, "--at", absent]);
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{absent}");
    }
    let seq = document(&runs(&daemon, &["show", &first, "--json"]))["seq"].as_u64().unwrap();
    let refused = text(&runs(&daemon, &["--lang", "es", "fork", &first, "--at", "999"]).stderr);
    let told = format!(
        "error: VALIDATION_ERROR: at_seq: la ejecución tiene los eventos 1 a {seq}, y no el 999 (range)\n"
    );
    assert_eq!(refused, told);
    let both = runs(&daemon, &["--lang", "es", "fork", &first, "--label", "capataz.x=1", "--key", ""]);
    let told = "\
error: VALIDATION_ERROR: 2 violaciones
  idempotency_key: una clave de idempotencia tiene de 1 a 256 bytes, no 0 (length)
  labels[\"capataz.x\"]: las etiquetas que empiezan con `capataz.` son del propio daemon (reserved)
";
    assert_eq!(text(&both.stderr), told);
    // What goes to a file has no colours.
    assert!(
        daemon.said().contains("the daemon is ready") && !daemon.said().contains('\u{1b}'),
        "{}",
        daemon.said()
    );

    let whole = format!("{first}@1");
    let changed = runs(&daemon, &["diff", &whole, &first, "--json"]);
    assert_eq!(changed.status.code(), Some(1));
    let differences = document(&changed)["differences"].as_array().unwrap().clone();
    let status = differences.iter().find(|at| at["path"] == "status").unwrap();
    assert_eq!(status, &json!({ "path": "status", "before": "running", "after": "finished" }));
    let shown = text(&runs(&daemon, &["diff", &whole, &first]).stdout);
    assert!(shown.contains(&format!("--- {first}@1\n+++ {first}\n")), "{shown}");
    assert!(shown.contains("status\n  - \"running\"\n  + \"finished\"\n"), "{shown}");

    // Two runs of one plan do the same at other times and under other ids.
    let alike = runs(&daemon, &["diff", &first, &same, "--json"]);
    assert_eq!(document(&alike), json!({ "differences": [], "more": false }));
    assert_eq!(alike.status.code(), Some(0));
    let all = runs(&daemon, &["diff", &first, &same, "--all", "--json"]);
    let paths = document(&all)["differences"].to_string();
    assert!(paths.contains("\"run_id\""), "{paths}");
    let unlike = document(&runs(&daemon, &["diff", &first, &other, "--json"]))["differences"].to_string();
    assert!(unlike.contains("tasks[a]") && unlike.contains("tasks[b]"), "{unlike}");

    let agrees = runs(&daemon, &["replay", &first]);
    assert_eq!(agrees.status.code(), Some(0), "{}", text(&agrees.stderr));
    drop(daemon);

    let database = Connection::open(folder.path().join("data/capataz.db")).unwrap();
    let id = *uuid::Uuid::parse_str(&first).unwrap().as_bytes();
    let changed = database.execute("UPDATE runs SET tasks_settled = 7 WHERE run = ?1", [id]).unwrap();
    assert_eq!(changed, 1);
    drop(database);
    let daemon = Served::start(folder.path(), AGENTS);
    let differs = runs(&daemon, &["replay", &first, "--json"]);
    assert_eq!(differs.status.code(), Some(1));
    assert_eq!(
        document(&differs)["differences"],
        json!([{ "path": "row.tasks_settled", "stored": "7", "folded": "1" }])
    );
    // What was changed is not compared once more.
    daemon.killed();
}
