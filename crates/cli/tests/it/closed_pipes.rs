//! Readers of the output that go away before the command has ended, as `head` does, or that are slow; and output that cannot be
//! written at all.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::fcntl_setpipe_size;

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

/// The exit code of a command whose stdout is a disk that is full, and what it says on stderr.
fn onto_a_full_disk(mut program: Command) -> (Option<i32>, String) {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = program.stdout(full).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

const NOT_WRITTEN: &str = "error: cannot write to standard output: No space left on device (os error 28)\n";

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let shop = Shop::open();
    std::fs::write(shop.folder.path().join("go"), "").unwrap();
    let run = shop.start();
    let run = run.as_str();
    assert_eq!(shop.program(&["runs", "watch", run]).output().unwrap().status.code(), Some(1));
    for arguments in [
        &["runs", "export", run][..],
        &["runs", "show", run, "--json"],
        &["runs", "list"],
        &["runs", "list", "--json"],
        &["runs", "logs", run],
        &["runs", "watch", run, "--json"],
        &["runs", "report", run, "-o", "-"],
        &["logs", run, "--follow"],
    ] {
        let told = onto_a_full_disk(shop.program(arguments));
        assert_eq!(told, (Some(1), NOT_WRITTEN.to_owned()), "{arguments:?}");
    }
    let (code, told) = onto_a_full_disk(shop.program(&["runs", "list", "--lang", "es"]));
    assert_eq!(code, Some(1));
    assert!(told.starts_with("error: no se puede escribir en la salida estándar: "), "{told}");
    // The run goes on.
    let (code, told) = onto_a_full_disk(shop.program(&["run", &shop.plan, "--watch"]));
    assert_eq!(code, Some(4));
    assert!(told.ends_with(NOT_WRITTEN), "{told}");
}

#[test]
fn what_needs_no_daemon_cannot_be_written_to_a_full_disk_either() {
    for (arguments, code) in [
        (&["--help"][..], 1),
        (&["--version"][..], 1),
        (&["completions", "bash"][..], 1),
        (&["man"][..], 1),
        (&["errors", "explain", "TIMEOUT", "--json"][..], 1),
        // What is wrong otherwise is told on stderr then, and has its own exit code.
        (&["contract", "check", "no-such.json", "--json"][..], 2),
        (&["frobnicate", "--json"][..], 2),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.env("LC_ALL", "C").args(arguments);
        let (ended, told) = onto_a_full_disk(program);
        assert_eq!(ended, Some(code), "{arguments:?} {told}");
        assert!(told.ends_with(NOT_WRITTEN) && (code == 2) == (told != NOT_WRITTEN), "{arguments:?} {told}");
    }
}

#[test]
fn a_reader_that_is_slow_gets_everything_also_by_a_pipe_that_does_not_wait_for_it() {
    let program = || {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(["completions", "bash"]);
        program
    };
    let expected = program().output().unwrap().stdout;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let room = fcntl_setpipe_size(&writer, 4_096).unwrap();
    assert!(room < expected.len(), "{room}");
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut child = program().stdout(writer).spawn().unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(read == expected, "{} of {} bytes", read.len(), expected.len());
}
