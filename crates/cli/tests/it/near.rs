//! What the command line says may be meant where a name is not known.

use std::path::Path;
use std::process::{Command, Output};

use capataz_contracts::v1::{ListSessionsRequest, RunKind};
use capataz_store::builders::{Shape, beginning};
use capataz_store::{Append, Mark, RunId, SqliteOptions, SqliteStore, Store};
use serde_json::{Value, json};

use crate::served::Served;

const CREW: &str = r#"
[[agents]]
name = "code-reviewer"
command = ["true"]

[[agents]]
name = "test-analyzer"
command = ["true"]
"#;

fn capataz(served: &Served, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.env("LC_ALL", "C").args(["--addr", served.address()]).args(arguments);
    program.env_remove("CAPATAZ_BOXES");
    program.output().unwrap()
}

fn plan(folder: &Path, tasks: &[(&str, &str)]) -> String {
    let file = folder.join("plan.toml");
    let task = |(name, agent): &(&str, &str)| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\n");
    std::fs::write(&file, format!("name = \"p\"\n\n{}", tasks.iter().map(task).collect::<String>())).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The command is refused, and says this on its way.
#[track_caller]
fn check(served: &Served, arguments: &[&str], expected: &str) {
    let refused = capataz(served, arguments);
    assert_ne!(refused.status.code(), Some(0));
    let told = [refused.stdout, refused.stderr].concat();
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains(expected), "{expected:?} in\n{told}");
}

#[test]
fn an_agent_is_found_by_a_word_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    let of_box = "|  - code-reviewer ";
    check(&served, &["agents", "check", "reviewr", "--boxes"], of_box);
    check(&served, &["agents", "check", "review", "--boxes"], of_box);
    check(&served, &["agents", "check", "writer", "--boxes"], "|  No agent has a similar name ");
    check(&served, &["agents", "check", "reviewr"], "\n  similar: code-reviewer\n");
    check(&served, &["agents", "check", "writer"], "\n  No agent has a similar name\n");
    let one = plan(folder.path(), &[("a", "reviewr")]);
    check(&served, &["run", &one, "--boxes"], of_box);
    check(&served, &["run", &one], "\n  similar: code-reviewer\n");
    // The API's own answer is as it was.
    let answer = capataz(&served, &["agents", "check", "reviewr", "--json"]);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["details"][0].get("suggestions"), None);
    let answer = capataz(&served, &["run", &one, "--json"]);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["error"].get("suggestions"), None);
    assert_eq!(answer["error"]["near"], json!([{ "name": "reviewr", "names": ["code-reviewer"] }]));

    let two = plan(folder.path(), &[("a", "review"), ("b", "analizer"), ("c", "nobody")]);
    check(
        &served,
        &["run", &two],
        "\nanalizer: did you mean test-analyzer?\nreview: did you mean code-reviewer?\n",
    );
    check(&served, &["run", &two, "--lang", "es"], "\nreview: ¿quizá code-reviewer?\n");
}

/// With its end nobody can say which names there are.
#[test]
fn a_daemon_inside_the_command_is_asked_before_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("capataz.toml");
    std::fs::write(&config, format!("data_dir = \"data\"\n{CREW}")).unwrap();
    let one = plan(folder.path(), &[("a", "reviewr")]);
    let run = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.env("LC_ALL", "C").env_remove("CAPATAZ_ADDR").env_remove("CAPATAZ_BOXES");
        program.env_remove("CAPATAZ_DATA_DIR").args(["run", &one, "--local", "--config"]).arg(&config);
        program.args(more).current_dir(folder.path()).output().unwrap()
    };
    let told = String::from_utf8(run(&[]).stderr).unwrap();
    assert!(told.contains("\n  similar: code-reviewer\n"), "{told}");
    let answer: Value = serde_json::from_slice(&run(&["--json"]).stdout).unwrap();
    assert_eq!(answer["error"]["near"], json!([{ "name": "reviewr", "names": ["code-reviewer"] }]));
}

/// A script that goes by codes finds them whoever has looked for the name: the daemon, or the command among what it knows.
#[test]
fn what_is_not_known_has_a_code_in_json_and_the_names_that_may_be_meant() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    let error = |arguments: &[&str]| {
        let refused = capataz(&served, &[arguments, &["--json"]].concat());
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let told: Value = serde_json::from_slice(&refused.stdout).unwrap();
        told["error"].clone()
    };
    assert_eq!(error(&["runs", "show", "latest"])["code"], "RUN_NOT_FOUND");
    let good = plan(folder.path(), &[("lint-rust", "code-reviewer")]);
    assert!(capataz(&served, &["run", &good, "--wait"]).status.success());
    for unknown in ["zzz", "ffffffff-ffff-7fff-bfff-ffffffffffff"] {
        for command in [&["runs", "show"][..], &["runs", "cancel"], &["runs", "delete"], &["logs"]] {
            let told = error(&[command, &[unknown]].concat());
            assert_eq!(told["code"], "RUN_NOT_FOUND", "{command:?} {told}");
            // One form, whoever has looked.
            assert_eq!((&told["severity"], told.get("hint")), (&"HIGH".into(), None), "{command:?}");
            assert!(told["suggested_action"].as_str().unwrap().contains("capataz runs list"), "{told}");
        }
    }
    let near = json!([{ "name": "lint", "names": ["lint-rust"] }]);
    for command in [&["logs", "latest", "lint"][..], &["runs", "output", "latest", "lint"]] {
        let told = error(command);
        assert_eq!((&told["code"], &told["near"]), (&"TASK_NOT_FOUND".into(), &near), "{command:?} {told}");
    }
    let told = error(&["logs", "latest", "nothing"]);
    assert_eq!((&told["code"], told.get("near")), (&"TASK_NOT_FOUND".into(), None));
    assert!(told["suggested_action"].as_str().unwrap().contains("capataz runs show "), "{told}");
    // The check of names has both beside each other.
    let answer = capataz(&served, &["agents", "check", "reviewr", "test-analyzer", "--json"]);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["near"], json!([{ "name": "reviewr", "names": ["code-reviewer"] }]));
    let answer = capataz(&served, &["agents", "check", "test-analyzer", "--json"]);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&answer["can_proceed"], answer.get("near")), (&json!(true), None));
}

#[test]
fn tasks_sessions_and_specs_are_found_by_a_word_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let served = Served::start(folder.path(), &format!("specs_dir = {specs:?}\n{CREW}"));
    let good = plan(folder.path(), &[("lint-rust", "code-reviewer"), ("docs", "test-analyzer")]);
    assert!(capataz(&served, &["run", &good, "--wait", "--session", "nightly-release"]).status.success());
    check(&served, &["logs", "latest", "lint"], "\nlint: did you mean lint-rust?\n");
    check(&served, &["logs", "latest", "nothing"], "has no task nothing\n  -> `capataz runs show ");
    check(&served, &["runs", "show", "nope"], "✗ RUN_NOT_FOUND (HIGH): none of the newest 500 runs ");
    check(&served, &["sessions", "show", "release"], "\nrelease: did you mean nightly-release?\n");
    check(&served, &["ask", "hola", "--spec", "kiro"], "\nkiro: did you mean kiro-adaptive-assistance?\n");
    let answer = capataz(&served, &["sessions", "show", "release", "--json"]);
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(answer["error"]["near"], json!([{ "name": "release", "names": ["nightly-release"] }]));
}

/// Something of this kind that has ended. Nobody can read its event.
fn ended(number: u128, kind: RunKind, name: &str) -> Append {
    let run = RunId(uuid::Uuid::from_u128(number));
    beginning(run).kind(kind.into()).named(name).created_at(1).ended_at(1)
}

/// One answer of the daemon looks at 5,000 sessions and runs, the newest first.
#[tokio::test]
async fn a_session_is_found_behind_more_runs_than_one_answer_looks_at() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("data"), SqliteOptions::default()).unwrap();
    let runs = (2..).take(5_000).map(|number| ended(number, RunKind::Plan, "p"));
    let all: Vec<Append> = runs.chain([ended(1, RunKind::Session, "nightly-release")]).collect();
    store.claim(SqliteStore::SHARD, Mark(1)).unwrap().commit(&all).unwrap();
    drop(store);
    let served = Served::start(folder.path(), "[retention]\nfinished_runs = \"never\"\n");
    let first = served.client().await.list_sessions(ListSessionsRequest::default()).await.unwrap();
    assert!(first.sessions.is_empty() && !first.next_page_token.is_empty(), "{first:?}");
    check(&served, &["sessions", "show", "release"], "\nrelease: did you mean nightly-release?\n");
    // What these logs say is not compared with what is stored of them.
    served.killed();
}
