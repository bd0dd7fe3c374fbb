//! Readers of the output that go away before the command has ended, as `head` does.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::served::Served;

/// Logs, waits until the file `go` is there, and fails.
const CREW: &str = r#"
[[agents]]
name = "build"
command = ["sh", "-c", 'echo first >&2; until [ -e go ]; do sleep 0.02; done; seq 1 3000 >&2; exit 1']
"#;

const PLAN: &str = "name = \"p\"\n[[tasks]]\nname = \"build\"\nagent = \"build\"\n";

struct Shop {
    served: Served,
    folder: tempfile::TempDir,
    plan: String,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = CREW.replace("command =", &format!("cwd = {:?}\ncommand =", folder.path()));
        let served = Served::start(folder.path(), &config);
        let plan = folder.path().join("plan.toml");
        std::fs::write(&plan, PLAN).unwrap();
        Self { served, plan: plan.to_str().unwrap().to_owned(), folder }
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.env("LC_ALL", "C").args(["--addr", self.served.address()]).args(arguments);
        program
    }

    fn start(&self) -> String {
        let started = self.program(&["run", &self.plan, "--detach"]).output().unwrap();
        String::from_utf8(started.stdout).unwrap().trim().to_owned()
    }

    /// The exit code of a command of whose output only the first line is read; the task goes on after that.
    #[track_caller]
    fn check(&self, arguments: &[&str], expected: i32) {
        let mut child = self.program(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        assert!(!first.is_empty(), "{arguments:?}");
        drop(reader);
        std::fs::write(self.folder.path().join("go"), "").unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn a_command_that_only_reads_succeeds_when_its_reader_has_gone() {
    for arguments in
        [&["runs", "watch"][..], &["runs", "watch", "--json"], &["runs", "logs", "-f"], &["logs", "-f"]]
    {
        let shop = Shop::open();
        let run = shop.start();
        let mut arguments = arguments.to_vec();
        arguments.push(&run);
        shop.check(&arguments, 0);
    }
}

#[test]
fn a_command_that_has_started_a_run_says_that_it_goes_on_when_its_reader_has_gone() {
    for more in [&["--watch"][..], &["--watch", "--json"]] {
        let shop = Shop::open();
        let mut arguments = vec!["run", &shop.plan];
        arguments.extend_from_slice(more);
        shop.check(&arguments, 4);
    }
}
