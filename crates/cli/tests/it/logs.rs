//! `capataz logs`: what commands write to stderr, while they run and after it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status};

use crate::newcomer::eventually;
use crate::served::Served;

/// `build` logs, waits until the file `go` is there, logs again, and ends; `twice` fails once.
const CREW: &str = r#"
[[agents]]
name = "build"
command = ["sh", "-c", 'printf "first\nsecond \033[31mred\033[0m\n" >&2; until [ -e go ]; do sleep 0.02; done; seq 1 3000 >&2; echo last >&2; echo done']

[[agents]]
name = "twice"
command = ["sh", "-c", 'echo "try" >&2; [ -e again ] || { touch again; exit 75; }']
retryable_exit_codes = [75]
"#;

fn plan(folder: &Path, agent: &str) -> String {
    let file = folder.join("plan.toml");
    let task = format!("[[waves.tasks]]\nname = \"{agent}\"\nagent = \"{agent}\"");
    let plan =
        format!("name = \"p\"\n\n[retry]\nbase_delay = \"1ms\"\n\n[[waves]]\nname = \"w\"\n\n{task}\n");
    std::fs::write(&file, plan).unwrap();
    file.to_str().unwrap().to_owned()
}

fn capataz(served: &Served, arguments: &[&str]) -> Output {
    program(served, arguments).output().unwrap()
}

fn program(served: &Served, arguments: &[&str]) -> Command {
    program_at(served.address(), arguments)
}

fn program_at(address: &str, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.env("LC_ALL", "C").args(["--addr", address]).args(arguments);
    program
}

/// Stands in front of a daemon, passes calls on to it, and refuses the first two that ask for a run: what tasks it has, and what
/// they have logged so far.
struct Front {
    address: SocketAddr,
    /// How often a run was asked for.
    looks: Arc<AtomicUsize>,
}

impl Front {
    async fn of(served: &Served, refuses_with: Code) -> Self {
        let (daemon, looks) = (served.client().await.channel(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&looks);
        let passes = move |request: Request| {
            let (mut daemon, counted) = (daemon.clone(), Arc::clone(&counted));
            async move {
                let is_look = request.uri().path().ends_with("/GetRun");
                if is_look && counted.fetch_add(1, Ordering::SeqCst) < 2 {
                    return Status::new(refuses_with, "not now").into_http::<Body>();
                }
                std::future::poll_fn(|context| daemon.poll_ready(context)).await.unwrap();
                daemon.call(request.map(Body::new)).await.unwrap()
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Routes::from(axum::Router::new().fallback(passes));
        let serving = Server::builder().add_routes(routes).serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(async move { serving.await.unwrap() });
        Self { address, looks }
    }

    fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_log_is_followed_while_the_command_runs_to_its_last_line_and_nothing_is_shown_twice() {
    let folder = tempfile::tempdir().unwrap();
    let config = CREW.replace("command =", &format!("cwd = {:?}\ncommand =", folder.path()));
    let served = Served::start(folder.path(), &config);
    let plan = plan(folder.path(), "build");
    let started = capataz(&served, &["run", &plan, "--detach", "--json"]);
    let started: serde_json::Value = serde_json::from_slice(&started.stdout).unwrap();
    let run = started["run_id"].as_str().unwrap();

    let mut follower =
        program(&served, &["logs", run, "build", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The command waits: these have come while it runs.
    assert_eq!((lines.next().unwrap(), lines.next().unwrap()), ("first".into(), "second red".into()));
    // Whoever only looks sees them, too; the mark of the task is there where none is named.
    assert_eq!(text(&capataz(&served, &["logs", run])), "build | first\nbuild | second red\n");
    assert_eq!(text(&capataz(&served, &["logs", run, "-n", "1"])), "build | second red\n");
    let shown = text(&capataz(&served, &["runs", "show", run]));
    assert!(shown.contains("last said: second red"), "{shown}");
    // What comes after the first look is shown whole, however few lines of before were asked for.
    let mut late =
        program(&served, &["logs", run, "build", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut of_late = BufReader::new(late.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(of_late.next().unwrap(), "second red");
    // A name that there is not may still come; whoever waits for it is told.
    let mut absent = program(&served, &["logs", run, "bild", "-f"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(absent.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(told.contains("has no task bild"), "{told}");
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert!(absent.wait().unwrap().success());
    let of_late: Vec<String> = of_late.collect();
    assert!(late.wait().unwrap().success());
    let shown = of_late.iter().filter(|line| line.parse::<u32>().is_ok()).count();
    assert_eq!(shown + missing(&of_late), 3_000);
    let rest: Vec<String> = lines.collect();
    assert!(follower.wait().unwrap().success());
    assert_eq!(rest.last().map(String::as_str), Some("last"));
    let numbers: Vec<u32> = rest.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "no line twice");
    // 14,893 bytes, which are kept whole: whatever was not seen in passing comes at the end.
    assert_eq!(numbers.len() + missing(&rest), 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_cannot_tell_for_now_what_was_logged_is_asked_again_and_nothing_is_lost() {
    for refuses_with in [Code::Unavailable, Code::ResourceExhausted] {
        let folder = tempfile::tempdir().unwrap();
        let config = CREW.replace("command =", &format!("cwd = {:?}\ncommand =", folder.path()));
        let served = Served::start(folder.path(), &config);
        let plan = plan(folder.path(), "build");
        let started = text(&capataz(&served, &["run", &plan, "--detach"]));
        let run = started.trim();
        let logged = || text(&capataz(&served, &["logs", run])).contains("second red");
        eventually("the task has logged", logged);

        let front = Front::of(&served, refuses_with).await;
        let address = front.address.to_string();
        let follows =
            program_at(&address, &["logs", run, "build", "-f", "-n", "1"]).stdout(Stdio::piped()).spawn();
        // Nothing else happens meanwhile: the command waits.
        eventually("the daemon was asked again", || front.looks() > 2);
        std::fs::write(folder.path().join("go"), "").unwrap();
        let followed = follows.unwrap().wait_with_output().unwrap();
        assert!(followed.status.success(), "{refuses_with:?}");
        let shown: Vec<String> = text(&followed).lines().map(str::to_owned).collect();
        assert_eq!(shown.last().map(String::as_str), Some("last"), "{shown:?}");
        let is_line = |line: &&String| !line.starts_with('…');
        // The last line of before, the numbers, and the last one.
        assert_eq!(shown.first().map(String::as_str), Some("second red"), "{shown:?}");
        assert_eq!(shown.iter().filter(is_line).count() + missing(&shown), 1 + 3_000 + 1, "{shown:?}");
    }
}

/// How many lines are said to be missing.
fn missing(lines: &[String]) -> usize {
    let said = lines.iter().filter_map(|line| line.strip_prefix("… (")?.split_once(" lines are missing"));
    said.map(|(lines, _)| lines.parse::<usize>().unwrap()).sum()
}

#[test]
fn each_try_has_its_log_and_a_name_that_there_is_not_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = CREW.replace("command =", &format!("cwd = {:?}\ncommand =", folder.path()));
    let served = Served::start(folder.path(), &config);
    std::fs::write(folder.path().join("go"), "").unwrap();
    let plan = plan(folder.path(), "twice");
    assert!(capataz(&served, &["run", &plan, "--wait"]).status.success());
    assert_eq!(text(&capataz(&served, &["logs", "latest"])), "twice | try\ntwice (2) | try\n");
    assert_eq!(text(&capataz(&served, &["logs", "latest", "twice", "--follow"])), "try\n(2) | try\n");
    let records = text(&capataz(&served, &["logs", "latest", "--json"]));
    let records: Vec<serde_json::Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        records.iter().map(|record| (&record["attempt"], &record["missed"], &record["lines"])).collect();
    let (one, two, none, lines) = (1.into(), 2.into(), 0.into(), serde_json::json!(["try"]));
    assert_eq!(told, [(&one, &none, &lines), (&two, &none, &lines)]);
    let refused = capataz(&served, &["logs", "latest", "build"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("has no task build"));
}

#[test]
fn what_has_failed_is_shown_with_the_end_of_its_log_and_the_command_that_runs_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let crew = r#"
[[agents]]
name = "lint"
command = ["sh", "-c", "seq 1 6 >&2; printf '\\033[31mcannot find x\\033[0m\\n' >&2; exit 1"]

[[agents]]
name = "good"
command = ["true"]
"#;
    let served = Served::start(folder.path(), crew);
    let file = folder.path().join("plan.toml");
    let tasks = ["lint", "good"].map(|name| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{name}\"\n"));
    std::fs::write(&file, format!("name = \"p\"\npolicy = {{ kind = \"fail_fast\" }}\n\n{}", tasks.concat()))
        .unwrap();
    let ran = capataz(&served, &["run", file.to_str().unwrap(), "--wait"]);
    assert_eq!(ran.status.code(), Some(1));
    let log = "  | 3\n  | 4\n  | 5\n  | 6\n  | cannot find x\n";
    let title = |run: &str| format!("Its log (`capataz logs {run} lint`):\n");
    let listed = capataz(&served, &["runs", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let run = listed["runs"][0]["run_id"].as_str().unwrap();
    assert!(text(&ran).contains(&format!("{}{log}", title(run))), "{}", text(&ran));

    let watched = text(&capataz(&served, &["runs", "watch", run]));
    assert!(watched.contains(&format!("{}{log}", title(run))), "{watched}");

    let shown = text(&capataz(&served, &["runs", "show", run, "--failed"]));
    assert!(shown.starts_with("lint (agent lint, wave wave-1)\n  "), "{shown}");
    assert!(shown.contains(&format!("  {}    | 3\n", title(run))), "{shown}");
    assert!(shown.ends_with(&format!("\n\nrun it again: capataz runs continue {run}\n")), "{shown}");
    assert!(!shown.contains("good"), "{shown}");
    let shown = capataz(&served, &["runs", "show", run, "--failed", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["failed"][0]["log"], serde_json::json!(["3", "4", "5", "6", "cannot find x"]));
    assert_eq!(
        (shown["failed"].as_array().map(Vec::len), &shown["failed"][0]["name"]),
        (Some(1), &"lint".into())
    );
    assert_eq!(shown["again"], format!("capataz runs continue {run}"));
    // Before it had failed, nothing had.
    let shown = text(&capataz(&served, &["runs", "show", run, "--failed", "--at", "1"]));
    assert_eq!(shown, "Nothing has failed.\n");
    let both = capataz(&served, &["runs", "show", run, "--failed", "--state", "failed"]);
    assert_eq!(both.status.code(), Some(2));
}
