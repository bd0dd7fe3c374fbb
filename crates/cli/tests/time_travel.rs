//! `capataz runs show --at`, `runs diff` and `runs replay`, against the program as people start it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![expect(clippy::disallowed_types, reason = "starts the program")]

mod served;

use std::process::{Command, Output};

use capataz_contracts::v1;
use rusqlite::Connection;
use serde_json::{Value, json};

use served::Served;

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
