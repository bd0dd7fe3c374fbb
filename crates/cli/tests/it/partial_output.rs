//! The output of tasks at work, as whoever watches sees it: in the live view of a terminal, and in JSON.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

const PLAN: &str = "
name = \"shown\"
[[tasks]]
name = \"write\"
agent = \"writer\"
timeouts = { timeout = \"30m\" }
";

/// An agent that writes this, and ends when its gate is opened.
fn writer(folder: &Path, writes: &str) -> String {
    let gate = folder.join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script = format!("printf '{writes}'; cat {} >&2; echo", gate.display());
    format!(
        "[[agents]]\nname = \"writer\"\noutput = \"text\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n"
    )
}

fn open_gate(folder: &Path) {
    drop(std::fs::OpenOptions::new().write(true).open(folder.join("gate")).unwrap());
}

#[test]
fn the_live_view_shows_the_end_of_what_a_command_has_written() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let served = Served::start(folder.path(), &writer(folder.path(), "first\\n\\033[31mread 3 of 7\\033[0m"));
    let plan = folder.path().join("plan.toml");
    let terminal = Terminal::of(30, 48);
    let arguments = ["run", plan.to_str().unwrap(), "--watch", "--addr", served.address()];
    let mut view = terminal.starts(PROGRAM, &arguments);
    // Below the line of the task, and further in than that.
    let shown = terminal.shows("  read 3 of 7");
    assert!(shown.contains("  first") && shown.contains("left"), "{shown}");
    open_gate(folder.path());
    terminal.shows("capataz runs show");
    assert_eq!(view.wait().unwrap().code(), Some(0));
}

#[test]
fn lines_have_the_progress_of_tasks_where_it_is_asked_for_and_each_piece_of_it_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let served = Served::start(folder.path(), &writer(folder.path(), "[1,\\n2"));
    let mut run = Command::new(PROGRAM);
    run.arg("run").arg(folder.path().join("plan.toml")).args(["--watch", "--progress"]).env("LC_ALL", "C");
    let mut run = run.args(["--addr", served.address()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("  write  at work")).unwrap();
    assert!(said.starts_with('+'), "{said}");
    let tail: Vec<String> = lines.by_ref().take(2).map(|line| line.trim_start().to_owned()).collect();
    assert_eq!(tail, ["| [1,", "| 2"]);
    open_gate(folder.path());
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.ends_with("| [1,")), "{rest:#?}");
    assert_eq!(run.wait().unwrap().code(), Some(0));

    // Where nobody has asked for it, there is none.
    let mut run = Command::new(PROGRAM);
    run.arg("run").arg(folder.path().join("plan.toml")).arg("--watch").env("LC_ALL", "C");
    let mut run = run.args(["--addr", served.address()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("  write  attempt 1 began")).unwrap();
    open_gate(folder.path());
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.contains("at work")), "{rest:#?}");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

#[test]
fn the_stream_in_json_has_the_end_of_an_output_where_progress_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
    let served = Served::start(folder.path(), &writer(folder.path(), "[1,\\n2"));
    let mut run = Command::new(PROGRAM);
    run.arg("run").arg(folder.path().join("plan.toml")).args(["--watch", "--json", "--progress"]);
    let mut run = run.args(["--addr", served.address()]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut documents = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let frame = documents.find(|document| !document["progress"]["partial_tail"].is_null()).unwrap();
    assert_eq!(frame["progress"]["partial_tail"], "[1,\n2");
    assert_eq!((&frame["event"], &frame["cursor"]), (&Value::Null, &Value::Null));
    assert_eq!(frame["run_id"], frame["progress"]["run_id"]);
    open_gate(folder.path());
    let last = documents.last().unwrap();
    assert!(!last["event"]["run_finished"].is_null(), "{last}");
    assert_eq!(run.wait().unwrap().code(), Some(0));
}
