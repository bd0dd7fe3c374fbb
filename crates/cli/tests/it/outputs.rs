//! `capataz runs output`: what a task has given back, whole and as it is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

/// `count` puts out more than what is kept with a run; `bad` puts out nothing.
const CREW: &str = r#"
[[agents]]
name = "count"
output = "text"
command = ["seq", "1", "20000"]

[[agents]]
name = "small"
command = ["echo", '{"lines": 3}']

[[agents]]
name = "loud"
output = "text"
command = ["printf", '\033[31mred']

[[agents]]
name = "bad"
command = ["false"]
"#;

/// Agents that succeed and give back nothing: the value for it, no byte where JSON may be, and no byte of a text.
const NOTHING: &str = r#"
[[agents]]
name = "says-null"
command = ["echo", "null"]

[[agents]]
name = "silent"
command = ["true"]

[[agents]]
name = "empty"
output = "text"
command = ["true"]
"#;

/// A run that has ended, with a task for each agent.
struct Ended {
    served: Served,
    folder: TempDir,
    run: String,
}

impl Ended {
    fn new() -> Self {
        Self::of(CREW, &["count", "small", "loud", "bad"])
    }

    fn of(crew: &str, agents: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::start(folder.path(), crew);
        let task = |name: &&str| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{name}\"\n");
        let tasks: String = agents.iter().map(task).collect();
        let plan = format!("name = \"p\"\npolicy = {{ kind = \"continue_all\" }}\n{tasks}");
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        let mut ended = Self { served, folder, run: String::new() };
        let plan = ended.path("plan.toml");
        let told: Value = serde_json::from_slice(&ended.does(&["run", &plan, "--json"], 0).stdout).unwrap();
        ended.run = told["run_id"].as_str().unwrap().to_owned();
        ended
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    #[track_caller]
    fn does(&self, arguments: &[&str], exit: i32) -> Output {
        let mut program = Command::new(PROGRAM);
        program.env("LC_ALL", "C").env_remove("CAPATAZ_BOXES").current_dir(self.folder.path());
        let output = program.args(["--addr", self.served.address()]).args(arguments).output().unwrap();
        let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{arguments:?} {told:?}");
        output
    }

    #[track_caller]
    fn document(&self, arguments: &[&str], exit: i32) -> Value {
        serde_json::from_slice(&self.does(&[arguments, &["--json"]].concat(), exit).stdout).unwrap()
    }
}

fn counted() -> String {
    (1..=20_000).map(|number| format!("{number}\n")).collect()
}

#[test]
fn an_output_that_is_kept_apart_is_printed_and_written_whole() {
    let ended = Ended::new();
    let apart = ended.document(&["runs", "show", "latest", "--outputs"], 0);
    let output = &apart["waves"][0]["tasks"][0]["output"];
    assert!(output["$blob"]["size"].as_u64().is_some_and(|size| size == counted().len() as u64), "{output}");

    // Where it is not shown, the command that has it is named.
    let shown = ended.does(&["runs", "show", "latest", "--outputs"], 0);
    let named = format!("(not shown; save it with `capataz runs output {} count -o FILE`)", ended.run);
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&named), "{named}");
    assert!(ended.does(&["runs", "output", "latest", "count"], 0).stdout == counted().as_bytes());
    let told = ended.does(&["runs", "output", &ended.run, "count", "-o", "count.txt"], 0);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told, "count.txt: 106.3 KiB, text/plain\n");
    let mode = |name: &str| fs::metadata(ended.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("count.txt"), mode("plan.toml"), "a file like any other");
    assert!(fs::read_to_string(ended.path("count.txt")).unwrap() == counted());

    // What is there already is not written over by accident.
    fs::write(ended.path("count.txt"), "mine").unwrap();
    let again = ended.does(&["runs", "output", "latest", "count", "-o", "count.txt"], 1);
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force writes over it"));
    assert_eq!(fs::read_to_string(ended.path("count.txt")).unwrap(), "mine");
    fs::set_permissions(ended.path("count.txt"), fs::Permissions::from_mode(0o646)).unwrap();
    let told = ended.document(&["runs", "output", "latest", "count", "-o", "count.txt", "--force"], 0);
    assert_eq!((&told["file"], &told["bytes"]), (&json!("count.txt"), &json!(counted().len())));
    assert_eq!(mode("count.txt") & 0o777, 0o646, "it keeps its permissions");
    assert!(fs::read_to_string(ended.path("count.txt")).unwrap() == counted());
}

#[test]
fn an_output_is_a_value_for_programs_and_bytes_for_pipes() {
    let ended = Ended::new();
    let told = ended.document(&["runs", "output", "latest", "count"], 0);
    assert_eq!((&told["run_id"], &told["task"]), (&json!(ended.run), &json!("count")));
    assert_eq!((&told["media_type"], &told["partial"]), (&json!("text/plain"), &json!(false)));
    assert!(told["output"]["$text"] == counted(), "the text itself, and no name of it");
    let told = ended.document(&["runs", "output", "latest", "small"], 0);
    assert_eq!((&told["media_type"], &told["output"]), (&json!("application/json"), &json!({ "lines": 3 })));
    // Whoever asks for the bytes gets them alone.
    for more in [&[][..], &["-o", "-"], &["-o", "-", "--json"]] {
        let printed = ended.does(&[&["runs", "output", "latest", "loud"], more].concat(), 0);
        assert_eq!(printed.stdout, b"\x1b[31mred", "{more:?}");
    }
}

#[test]
fn an_output_does_nothing_to_a_terminal_but_be_shown() {
    let ended = Ended::new();
    let terminal = Terminal::of(24, 80);
    let arguments = ["runs", "output", "latest", "loud", "--addr", ended.served.address()];
    let mut program = terminal.starts(PROGRAM, &arguments);
    terminal.shows("\\u{1b}[31mred");
    assert_eq!(program.wait().unwrap().code(), Some(0));
}

#[test]
fn what_has_no_output_says_so() {
    let ended = Ended::new();
    let refused = ended.does(&["runs", "output", "latest", "bad"], 1);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no output\n"));
    let refused = ended.document(&["runs", "output", "latest", "cont"], 1);
    assert_eq!(refused["error"]["code"], "TASK_NOT_FOUND");
    assert_eq!(refused["error"]["near"], json!([{ "name": "cont", "names": ["count"] }]));
    ended.does(&["runs", "output", "latest", "small", "--force"], 2);
}

#[test]
fn an_output_that_is_null_or_empty_is_shown_as_what_it_is() {
    let ended = Ended::of(NOTHING, &["says-null", "silent", "empty"]);
    let (null, empty) = (Value::Null, json!({ "$media_type": "text/plain", "$text": "" }));
    let expected = [Some(&null), Some(&null), Some(&empty)];
    let shown = ended.document(&["runs", "show", "latest", "--outputs"], 0);
    let tasks = &shown["waves"][0]["tasks"];
    assert_eq!([0_usize, 1, 2].map(|task| tasks[task].get("output")), expected, "{tasks}");
    assert_eq!(ended.document(&["runs", "output", "latest", "silent"], 0).get("output"), expected[1]);

    let shown = ended.does(&["runs", "show", "latest", "--outputs"], 0);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let outputs = "Output of says-null:\nnull\n\nOutput of silent:\nnull\n\nOutput of empty:\n(empty)\n";
    assert!(shown.ends_with(outputs), "{shown}");
    let spanish = ended.does(&["runs", "show", "latest", "--outputs", "--lang", "es"], 0);
    assert!(String::from_utf8_lossy(&spanish.stdout).ends_with("Salida de empty:\n(vacía)\n"));

    // The end of a run tells what there is, and names no command for what there is not.
    let plan = ended.path("plan.toml");
    for form in [&["run", &plan][..], &["run", &plan, "--boxes"]] {
        let told = ended.does(form, 0);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(told.contains("says-null") && told.contains("succeeded in "), "{told}");
        assert!(!told.contains("not shown") && !told.contains("Output of"), "{told}");
    }
    let ran = ended.document(&["run", &plan], 0);
    let tasks = &ran["result"]["tasks"];
    assert_eq!([0_usize, 1, 2].map(|task| tasks[task].get("output")), expected, "{tasks}");
}
