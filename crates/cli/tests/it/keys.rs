//! The one key of the live view, at a real terminal: what it does, and that the terminal is afterwards what it was before.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use capataz_client::Client;
use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use tempfile::TempDir;

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");
const QUARTER_OF_AN_HOUR: i64 = 900_000;

/// Two tasks at work, each until its gate is opened: `slow` has half an hour, and `soon` twenty minutes.
const PLAN: &str = "
name = \"gated\"
[[tasks]]
name = \"slow\"
agent = \"slow\"
timeouts = { timeout = \"30m\" }
[[tasks]]
name = \"soon\"
agent = \"soon\"
timeouts = { timeout = \"20m\" }
";
const OFFER: &str = "e: 15m more for soon, the next to time out; Ctrl-C: leave (the run goes on)";

struct Work {
    served: Served,
    run_id: String,
    folder: TempDir,
}

impl Work {
    fn begun() -> Self {
        let mut work = Self::ready();
        let plan = work.plan();
        let mut command = Command::new(PROGRAM);
        command.args(["run", &plan, "--detach", "--addr", work.served.address()]).stdin(Stdio::null());
        let started = command.env("LC_ALL", "C").output().unwrap();
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        String::from_utf8(started.stdout).unwrap().trim().clone_into(&mut work.run_id);
        work
    }

    /// The daemon, of which nobody has asked anything.
    fn ready() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = Served::start(folder.path(), &prepared(folder.path()));
        Self { served, run_id: String::new(), folder }
    }

    fn plan(&self) -> String {
        self.folder.path().join("plan.toml").to_string_lossy().into_owned()
    }

    fn arguments(&self) -> [&str; 5] {
        ["runs", "watch", &self.run_id, "--addr", self.served.address()]
    }

    fn watched_at(&self, terminal: &Terminal) -> Child {
        terminal.starts(PROGRAM, &self.arguments())
    }

    /// Has both tasks succeed.
    fn ends(&self) {
        for name in ["slow", "soon"] {
            open_gate(&self.folder.path().join(name));
        }
    }

    async fn run(&self, client: &Client) -> v1::Run {
        let request = v1::GetRunRequest { run_id: self.run_id.clone(), ..v1::GetRunRequest::default() };
        client.get_run(request).await.unwrap().run.unwrap()
    }

    async fn deadline(&self, client: &Client, name: &str) -> i64 {
        let run = self.run(client).await;
        let task = run.waves.iter().flat_map(|wave| &wave.tasks).find(|task| task.name == name);
        task.unwrap().deadline_ms.unwrap()
    }

    async fn extensions(&self, client: &Client) -> Vec<v1::TaskExtended> {
        let mut events = client.export_run(&self.run_id).await.unwrap();
        let mut extensions = Vec::new();
        while let Some(event) = events.next().await {
            if let Some(Body::TaskExtended(extended)) = event.unwrap().body {
                extensions.push(extended);
            }
        }
        extensions
    }
}

/// Writes the plan and makes the gates of its two agents, and returns the settings of these.
fn prepared(folder: &Path) -> String {
    let agents = ["slow", "soon"].map(|name| {
        let gate = folder.join(name);
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let waits = format!("cat {} >&2; echo 1", gate.display());
        format!("[[agents]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", \"{waits}\"]\n")
    });
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    agents.concat()
}

/// Opens a gate, which waits until its task is there.
fn open_gate(gate: &Path) {
    drop(OpenOptions::new().write(true).open(gate).unwrap());
}

/// What ends a view.
enum End {
    Key(&'static str),
    Signal(&'static str),
}

fn code(child: &mut Child) -> Option<i32> {
    child.wait().unwrap().code()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, id.as_str()]).status().unwrap().success());
}

// S000-C3-17
#[tokio::test(flavor = "multi_thread")]
async fn the_key_gives_the_task_that_is_next_to_time_out_a_quarter_of_an_hour_more() {
    let work = Work::begun();
    let client = work.served.client().await;
    let terminal = Terminal::new();
    let before = terminal.mode();
    let mut watching = work.watched_at(&terminal);
    terminal.shows(OFFER);
    assert_ne!(terminal.mode(), before);
    let (slow, soon) = (work.deadline(&client, "slow").await, work.deadline(&client, "soon").await);
    terminal.press("e");
    terminal.shows("[OK] soon now has until ");
    // Now the other one is next.
    terminal.shows("e: 15m more for slow, the next to time out");
    let extensions = work.extensions(&client).await;
    let [extended] = extensions.as_slice() else { panic!("{extensions:?}") };
    assert_eq!((extended.task, extended.by_ms), (1, QUARTER_OF_AN_HOUR));
    assert!(!extended.request_id.is_empty());
    assert!(work.deadline(&client, "soon").await > soon);
    assert_eq!(work.deadline(&client, "slow").await, slow);

    work.ends();
    assert_eq!(code(&mut watching), Some(0), "{}", terminal.shown());
    assert_eq!(terminal.mode(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_started_and_watched_has_the_key_too_and_in_spanish() {
    let work = Work::ready();
    let terminal = Terminal::new();
    let before = terminal.mode();
    let (plan, address) = (work.plan(), work.served.address());
    let mut running = terminal.starts(PROGRAM, &["run", &plan, "--watch", "--addr", address, "--lang", "es"]);
    terminal.shows("e: 15m más para soon, la próxima en agotar su tiempo; Ctrl-C: salir");
    terminal.press("E");
    terminal.shows("[OK] soon tiene ahora hasta ");
    terminal.press("\u{3}");
    assert_eq!(code(&mut running), Some(130), "{}", terminal.shown());
    assert_eq!(terminal.mode(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_the_view_leaves_the_terminal_as_it_was() {
    let work = Work::begun();
    let client = work.served.client().await;
    let ends = [
        ("Ctrl-C", End::Key("\u{3}"), 130),
        ("SIGHUP", End::Signal("HUP"), 129),
        ("Ctrl-\\", End::Key("\u{1c}"), 131),
        ("SIGTERM", End::Signal("TERM"), 143),
    ];
    for (name, end, expected) in ends {
        let terminal = Terminal::new();
        let before = terminal.mode();
        let mut watching = work.watched_at(&terminal);
        terminal.shows(OFFER);
        assert_ne!(terminal.mode(), before, "{name}");
        match end {
            End::Key(key) => terminal.press(key),
            End::Signal(name) => signal(&watching, name),
        }
        assert_eq!(code(&mut watching), Some(expected), "{name}\n{}", terminal.shown());
        assert_eq!(terminal.mode(), before, "{name}");
    }
    assert_eq!(work.run(&client).await.status(), v1::RunStatus::Running);
}

#[test]
fn a_signal_takes_the_view_away_and_has_the_daemon_inside_the_command_drain() {
    for name in ["TERM", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let config = format!("data_dir = \"data\"\ndrain_timeout = \"10m\"\n{}", prepared(folder));
        std::fs::write(folder.join("capataz.toml"), config).unwrap();
        let terminal = Terminal::new();
        let before = terminal.mode();
        let script = format!("cd '{}'; exec \"$@\"", folder.display());
        let mut running =
            terminal.starts("/bin/sh", &["-c", &script, "sh", PROGRAM, "run", "plan.toml", "--local"]);
        terminal.shows(OFFER);
        assert_ne!(terminal.mode(), before, "{name}");
        signal(&running, name);
        terminal.shows("stopping; press Ctrl-C again to force");
        assert_eq!(terminal.mode(), before, "{name}");
        let seen = terminal.sees("no view", |rows| rows.iter().all(|row| !row.contains("e: 15m")));
        assert!(terminal.cursor().2, "{name}: {seen:#?}");
        for gate in ["slow", "soon"] {
            open_gate(&folder.join(gate));
        }
        assert_eq!(code(&mut running), Some(130), "{name}\n{}", terminal.shown());
        terminal.shows("the daemon of this command has ended; the next one on data goes on: capataz serve");
        assert_eq!(terminal.mode(), before, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_is_stopped_leaves_the_terminal_and_takes_it_again() {
    let work = Work::begun();
    let client = work.served.client().await;
    let terminal = Terminal::new();
    let before = terminal.mode();
    let script = "set -m; \"$@\"; echo stopped; read answer; fg; echo ended $?";
    let arguments = [&["-c", script, "sh", PROGRAM][..], &work.arguments()].concat();
    let mut shell = terminal.starts("/bin/sh", &arguments);
    terminal.shows(OFFER);
    let for_keys = terminal.mode();
    assert_ne!(for_keys, before);
    terminal.press("\u{1a}");
    let shown = terminal.shows("stopped\r\n");
    assert_eq!(terminal.mode(), before);
    terminal.press("\n");
    terminal.shows_after(shown.len(), OFFER);
    terminal.comes_to(&for_keys);
    terminal.press("e");
    terminal.shows("[OK] soon now has until ");
    assert_eq!(work.extensions(&client).await.len(), 1);
    terminal.press("\u{3}");
    terminal.shows("ended 130");
    assert_eq!(code(&mut shell), Some(0));
    assert_eq!(terminal.mode(), before);
}

/// The first process of a terminal cannot be stopped from it, because nobody could let it go on.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_z_does_nothing_where_no_shell_could_let_the_view_go_on() {
    let work = Work::begun();
    let terminal = Terminal::new();
    let before = terminal.mode();
    let mut watching = work.watched_at(&terminal);
    let shown = terminal.shows(OFFER);
    terminal.press("\u{1a}");
    terminal.shows_after(shown.len(), OFFER);
    work.ends();
    assert_eq!(code(&mut watching), Some(0), "{}", terminal.shown());
    assert_eq!(terminal.mode(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_offered_where_no_key_can_be_pressed() {
    // The standard input is no terminal.
    let work = Work::begun();
    let terminal = Terminal::new();
    let before = terminal.mode();
    let watch = |work: &Work| {
        let mut command = Command::new(PROGRAM);
        command.args(work.arguments()).env("LC_ALL", "C").stderr(Stdio::null());
        command
    };
    let mut watching = watch(&work).stdin(Stdio::null()).stdout(terminal.stream()).spawn().unwrap();
    terminal.shows("19:5");
    assert_eq!(terminal.mode(), before);
    work.ends();
    assert_eq!(code(&mut watching), Some(0));
    assert!(!terminal.shown().contains("e: 15m"), "{}", terminal.shown());

    // The standard output is a pipe; or the terminal, but gets documents.
    for arguments in [&[][..], &["--json"]] {
        let work = Work::begun();
        let terminal = Terminal::new();
        let pipe = tempfile::tempdir().unwrap();
        let path = pipe.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let redirected = if arguments.is_empty() { " > \"$0\"" } else { "" };
        let script = format!("\"$@\"{redirected}");
        let path_text = path.to_string_lossy().into_owned();
        let all = [&["-c", &script, &path_text, PROGRAM][..], &work.arguments(), arguments].concat();
        let mut watching = terminal.starts("/bin/sh", &all);
        let told = if arguments.is_empty() {
            let mut lines = BufReader::new(File::open(&path).unwrap()).lines().map(Result::unwrap);
            let begun = lines.find(|line| line.contains("attempt 1 began")).unwrap();
            assert_eq!(terminal.mode(), before);
            work.ends();
            lines.fold(begun, |told, line| told + "\n" + &line)
        } else {
            terminal.shows("task_leased");
            assert_eq!(terminal.mode(), before);
            work.ends();
            String::new()
        };
        assert_eq!(code(&mut watching), Some(0));
        let told = told + &terminal.shown();
        assert!(!told.contains("e: 15m"), "{told}");
        assert_eq!(terminal.mode(), before);
    }
}
