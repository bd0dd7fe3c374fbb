//! The way from nothing to one's own crew: a folder that works, a daemon inside a command, and the daemon of a folder.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::served::Served;
use capataz_client::worker::{Task, TaskOutput, Worker};
use capataz_contracts::v1;
use serde_json::{Value, json};

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval between two looks at a condition that nobody tells.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The program in this folder, in English, with nothing of the environment that would change what it does.
fn capataz(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("LC_ALL", "C");
    for name in ["CAPATAZ_ADDR", "CAPATAZ_LISTEN", "CAPATAZ_DATA_DIR", "CAPATAZ_SPECS_DIR", "CAPATAZ_LANG"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
fn check(folder: &Path, arguments: &[&str], exit: i32) -> Output {
    let output = capataz(folder, arguments).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(exit),
        "{arguments:?}\n{}{}",
        said(&output.stdout),
        said(&output.stderr)
    );
    output
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("stdout is one document")
}

/// Waits until a condition holds that nobody tells.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / LOOK_AGAIN.as_millis() {
        if holds() {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "nobody tells of it")]
        std::thread::sleep(LOOK_AGAIN);
    }
    unreachable!("in time: {what}");
}

/// An agent that says that it has begun, and ends once somebody has written `go` into the folder.
fn waiting_agent(folder: &Path) -> String {
    let script = "touch begun; while ! test -e go; do sleep 0.05; done; echo 7";
    let command = serde_json::to_string(&["sh", "-c", script]).unwrap();
    format!("[[agents]]\nname = \"waiter\"\ncommand = {command}\ncwd = {:?}\n", folder.display().to_string())
}

const WAITING_PLAN: &str = "name = \"waits\"\n[[tasks]]\nname = \"t\"\nagent = \"waiter\"\n";

/// What the run has given back, by task.
fn outputs(answer: &Value) -> Vec<(&str, &Value)> {
    let tasks = answer["result"]["tasks"].as_array().expect("the run has tasks");
    tasks.iter().map(|task| (task["name"].as_str().unwrap(), &task["output"])).collect()
}

#[test]
fn a_new_folder_is_valid_and_its_plan_runs_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = check(folder, &["init"], 0);
    let expected = "[OK] capataz.toml\n[OK] plan.toml\n[OK] agents/report.sh\n\nNext:\n  capataz run plan.toml --local\n";
    assert_eq!((said(&made.stdout).as_str(), said(&made.stderr).as_str()), (expected, ""));
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode();
    assert_eq!(mode("agents/report.sh") & 0o100, 0o100);
    assert_eq!(mode("plan.toml") & 0o111, 0);

    check(folder, &["contract", "check", "plan.toml"], 0);
    let settings = document(&check(folder, &["serve", "--check", "--json"], 0));
    let agents = settings["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == "agents");
    assert_eq!(agents.unwrap()["value"], "counter (2), reporter (1)");

    let answer = document(&check(folder, &["run", "plan.toml", "--local", "--json"], 0));
    assert_eq!(answer["result"]["outcome"], "succeeded");
    let report = json!({ "words": { "title": 5, "text": 14 } });
    assert_eq!(outputs(&answer), [("title", &json!(5)), ("text", &json!(14)), ("report", &report)]);
    // The data is that of the configuration, and stays for the next daemon.
    let served = Served::start(folder, &fs::read_to_string(folder.join("capataz.toml")).unwrap());
    let shown = check(folder, &["runs", "list", "--addr", &served.url(), "--json"], 0);
    assert_eq!(document(&shown)["runs"][0]["run_id"], answer["run_id"]);
}

#[test]
fn a_second_init_names_every_file_and_changes_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init", "crew"], 0);
    fs::write(folder.join("crew/plan.toml"), "mine").unwrap();
    let refused = check(folder, &["init", "crew"], 1);
    let expected = "error: nothing is written, because this is there already:\n  crew/capataz.toml\n  crew/plan.toml\n  \
                    crew/agents/report.sh\nname another folder: capataz init FOLDER\n";
    assert_eq!((said(&refused.stdout).as_str(), said(&refused.stderr).as_str()), ("", expected));
    assert_eq!(fs::read_to_string(folder.join("crew/plan.toml")).unwrap(), "mine");
    // One file is enough, and the others are not written then; a link that leads nowhere is in the way as well.
    fs::create_dir(folder.join("half")).unwrap();
    symlink("nowhere", folder.join("half/plan.toml")).unwrap();
    let refused = document(&check(folder, &["init", "half", "--json"], 1));
    assert_eq!(refused["error"]["files"], json!(["half/plan.toml"]));
    assert_eq!(fs::read_dir(folder.join("half")).unwrap().count(), 1);
}

#[test]
fn a_folder_is_made_where_it_is_missing_and_may_be_named_by_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let made = check(folder, &["init", "my crews/first", "--lang", "es"], 0);
    let next = "A continuación:\n  cd 'my crews/first'\n  capataz run plan.toml --local\n";
    assert!(said(&made.stdout).ends_with(next), "{}", said(&made.stdout));
    let config = fs::read_to_string(folder.join("my crews/first/capataz.toml")).unwrap();
    assert!(config.starts_with("# La configuración de esta cuadrilla."), "{config}");

    fs::create_dir(folder.join("target")).unwrap();
    symlink("target", folder.join("link")).unwrap();
    let made = document(&check(folder, &["init", "link", "--json"], 0));
    let files = json!(["link/capataz.toml", "link/plan.toml", "link/agents/report.sh"]);
    assert_eq!(made, json!({ "folder": "link", "files": files, "next": "capataz run plan.toml --local" }));
    assert!(folder.join("target/agents/report.sh").is_file());
    // No program is written into a folder that somebody else has linked.
    fs::create_dir(folder.join("other")).unwrap();
    symlink("../target", folder.join("other/agents")).unwrap();
    assert!(said(&check(folder, &["init", "other"], 1).stderr).contains("\n  other/agents\n"));
}

#[test]
fn a_folder_that_cannot_be_written_is_named_and_nothing_is_left_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("file"), "").unwrap();
    for (place, problem) in
        [("file", "error: file cannot be written: "), ("/proc/crew", "error: /proc/crew cannot be written: ")]
    {
        let refused = said(&check(folder, &["init", place], 1).stderr);
        assert!(refused.starts_with(problem) && refused.ends_with("; nothing was written\n"), "{refused}");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

const LACKING: &str = "\
data_dir = \"data\"
specs_dir = \"specs\"
secrets_dir = \"secrets\"

[[agents]]
name = \"a\"
command = [\"no-such-program\"]
env = { TOKEN = \"${secret:LOST}\" }

[[agents]]
name = \"b\"
command = [\"./text\"]
";

#[test]
fn serve_check_names_all_that_the_configuration_needs_and_what_to_do_in_both_languages() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("capataz.toml"), LACKING).unwrap();
    fs::write(folder.join("text"), "").unwrap();
    fs::write(folder.join("data"), "no folder").unwrap();
    fs::create_dir(folder.join("specs")).unwrap();
    fs::write(folder.join("specs/wrong.toml"), "nonsense = 1\n").unwrap();
    let checked = document(&check(folder, &["serve", "--check", "--json"], 2));
    let problems = checked["problems"].as_array().unwrap();
    // Each has its place: the key that needs something, or what is wrong with a spec.
    let mut told: Vec<String> = problems
        .iter()
        .map(|problem| {
            let text = |key: &str| problem[key].as_str().unwrap().to_owned();
            let path = if text("code") == "SPEC_INVALID" { String::new() } else { text("path") };
            format!("{}:{}:{} {path} {}", text("file"), problem["line"], problem["column"], text("code"))
        })
        .collect();
    assert!(
        problems.iter().all(|problem| problem["message"] != "" && problem["remedy"] != ""),
        "{problems:#?}"
    );
    let unknown = problems.iter().find(|problem| problem["path"] == "nonsense").unwrap();
    assert_eq!((&unknown["file"], &unknown["rule"]), (&json!("specs/wrong.toml"), &json!("UNKNOWN_KEY")));
    told.dedup();
    let expected = [
        "capataz.toml:1:1 data_dir FOLDER_NOT_WRITABLE",
        "specs/wrong.toml:1:1  SPEC_INVALID",
        "capataz.toml:3:1 secrets_dir FOLDER_NOT_FOUND",
        "capataz.toml:7:12 agents[0].command[0] PROGRAM_NOT_FOUND",
        "capataz.toml:8:9 agents[0].env.TOKEN SECRET_UNKNOWN",
        "capataz.toml:12:12 agents[1].command[0] PROGRAM_NOT_EXECUTABLE",
    ];
    assert_eq!(told, expected);
    let english = said(&check(folder, &["serve", "--check"], 2).stderr);
    let spanish = said(&check(folder, &["serve", "--check", "--lang", "es"], 2).stderr);
    let settings = said(&check(folder, &["serve", "--check", "--lang", "es"], 2).stdout);
    for (setting, value) in [("browser.program", "se busca"), ("retention.max_log_bytes", "sin límite")] {
        let line = settings.lines().find(|line| line.starts_with(setting)).expect("the setting is listed");
        assert!(line.contains(value) && line.ends_with("predeterminado"), "{line}");
    }
    for (text, lines) in [
        (
            english,
            [
                "  agents[0].command[0]: there is no program no-such-program\n    next: install it, ",
                "  agents[0].env.TOKEN: the secret LOST is not known\n    next: set the variable CAPATAZ_SECRET_LOST, ",
                "  agents[1].command[0]: ./text may not be executed\n    next: chmod +x ./text\n",
            ],
        ),
        (
            spanish,
            [
                "  agents[0].command[0]: no hay ningún programa no-such-program\n    siguiente paso: instálelo, ",
                "  agents[0].env.TOKEN: no se conoce el secreto LOST\n    siguiente paso: defina la variable ",
                "  agents[1].command[0]: ./text no se puede ejecutar\n    siguiente paso: chmod +x ./text\n",
            ],
        ),
    ] {
        for line in lines {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }
}

/// What it says to do next asks a daemon, and there is none any more: that is said once, and in words that no name of a run is
/// taken for. The plan is called `first`.
#[test]
fn a_run_with_its_own_daemon_says_once_that_a_daemon_has_to_be_started_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init"], 0);
    for (language, outcome, look, kept) in [
        (
            "en",
            "first: succeeded in ",
            "look at it: capataz runs show ",
            "kept in data; to look at it again, start a daemon first: capataz serve\n",
        ),
        (
            "es",
            "first: con éxito en ",
            "examinarla:  capataz runs show ",
            "se conserva en data; para volver a verla, inicie antes un daemon: capataz serve\n",
        ),
    ] {
        let ran = check(folder, &["run", "plan.toml", "--local", "--lang", language], 0);
        let (out, err) = (said(&ran.stdout), said(&ran.stderr));
        let lines: Vec<&str> = out.lines().collect();
        let [.., told, next] = lines.as_slice() else { unreachable!("{out}") };
        assert!(told.starts_with(outcome) && next.starts_with(look), "{out}");
        assert!(err.ends_with(kept), "{err}");
        assert_eq!(format!("{out}{err}").matches("capataz serve").count(), 1, "{out}{err}");
    }
}

/// The paths of a configuration are those of its folder, and what is typed is of the folder in which it is typed.
#[test]
fn a_crew_of_another_folder_is_found_with_its_programs_and_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init", "crew"], 0);
    let config = ["--config", "crew/capataz.toml"];
    let ran = check(folder, &[&["run", "crew/plan.toml", "--local"][..], &config[..]].concat(), 0);
    let kept = "kept in crew/data; to look at it again, start a daemon first: capataz serve --config crew/capataz.toml\n";
    assert!(said(&ran.stderr).ends_with(kept), "{}", said(&ran.stderr));
    assert!(folder.join("crew/data/capataz.db").is_file() && !folder.join("data").exists());
    let data_dir = |typed: &[&str]| {
        let checked = check(folder, &[&["serve", "--check", "--json"][..], &config[..], typed].concat(), 0);
        let settings = document(&checked)["settings"].as_array().unwrap().clone();
        settings.into_iter().find(|setting| setting["key"] == "data_dir").unwrap()["value"].clone()
    };
    assert_eq!([data_dir(&[]), data_dir(&["--data-dir", "data"])], ["crew/data", "data"]);
}

#[test]
fn a_daemon_that_has_the_data_folder_does_the_work_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init"], 0);
    let config = fs::read_to_string(folder.join("capataz.toml")).unwrap();
    // Programs of the folder are found by who is started in it.
    let served = Served::start_after(folder, &config, &format!("cd '{}'", folder.display()));
    let ran = check(folder, &["run", "plan.toml", "--local"], 0);
    let expected = format!("the daemon at {} has the data folder data, and does this\n", served.url());
    assert_eq!(said(&ran.stderr), expected);
    assert!(!said(&ran.stdout).contains("capataz serve"), "it serves");
    let runs = document(&check(folder, &["runs", "list", "--addr", &served.url(), "--json"], 0));
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_daemon_inside_the_command_cannot_do_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init"], 0);
    let refused = |arguments: &[&str]| said(&check(folder, arguments, 2).stderr);
    let detached = refused(&["run", "plan.toml", "--local", "--detach"]);
    assert!(detached.contains("that of --local ends with this command"), "{detached}");
    let named = refused(&["ask", "hello", "--local", "--addr", "http://127.0.0.1:9"]);
    assert!(named.contains("leave one of them out"), "{named}");
    assert!(refused(&["run", "plan.toml", "--config", "capataz.toml"]).contains("--local"));
    // What the daemon refuses is said as by any other.
    fs::write(folder.join("other.toml"), WAITING_PLAN).unwrap();
    let unknown = check(folder, &["run", "other.toml", "--local", "--json"], 1);
    assert_eq!(document(&unknown)["error"]["code"], "AGENT_NOT_FOUND");
    fs::remove_dir_all(folder.join("data")).unwrap();
    // Nothing is started for a plan that is wrong.
    fs::write(folder.join("wrong.toml"), "name = \"\"").unwrap();
    check(folder, &["run", "wrong.toml", "--local"], 2);
    assert!(!folder.join("data").exists());
}

/// What its configuration names is known, what a daemon of its folder knows, and what such a one has known.
#[test]
fn all_that_is_wrong_with_a_plan_is_told_at_once_and_no_daemon_is_started_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = "data_dir = \"data\"\n[[agents]]\nname = \"reporter\"\ncommand = [\"true\"]\n";
    fs::write(folder.join("capataz.toml"), config).unwrap();
    let task = |name: &str, agent: &str| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\n");
    let tasks = [("no spaces", "reporter"), ("b", "reportr"), ("c", "distant")];
    let tasks = tasks.map(|(name, agent)| task(name, agent)).concat();
    fs::write(folder.join("wrong.toml"), format!("name = \"p\"\n{tasks}")).unwrap();
    let told = || {
        let answer = document(&check(folder, &["run", "wrong.toml", "--local", "--json"], 2));
        let violations = answer["error"]["violations"].as_array().unwrap().clone();
        let mut paths: Vec<String> =
            violations.iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect();
        paths.sort();
        paths
    };
    assert_eq!(told(), ["tasks[0].name", "tasks[1].agent", "tasks[2].agent"]);
    let text = said(&check(folder, &["run", "wrong.toml", "--local"], 2).stderr);
    assert!(text.contains("there is no agent \"reportr\"; similar: reporter"), "{text}");
    assert!(!folder.join("data").exists(), "nothing was made for it");

    let mut served = Served::start(folder, config);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let distant = |_: Task| async { TaskOutput::json(json!(1)) };
    let worker = Worker::new(served.url()).id("w1").agent("distant", distant);
    let worker = runtime.spawn(worker.run_until(std::future::pending::<()>()));
    let known = ["tasks[0].name", "tasks[1].agent"];
    eventually("the worker has said what it serves", || told() == known);
    worker.abort();
    served.signal("TERM");
    assert!(served.ended().success());
    assert_eq!(told(), known, "it is remembered");
}

#[test]
fn ctrl_c_drains_the_daemon_inside_the_command_and_the_next_one_goes_on() {
    the_next_one_goes_on_after("INT");
}

#[test]
fn a_terminal_that_is_gone_drains_it_too_with_no_view_to_take_away() {
    the_next_one_goes_on_after("HUP");
}

fn the_next_one_goes_on_after(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = format!("data_dir = \"data\"\ndrain_timeout = \"0s\"\n{}", waiting_agent(folder));
    fs::write(folder.join("capataz.toml"), &config).unwrap();
    fs::write(folder.join("plan.toml"), WAITING_PLAN).unwrap();
    let mut command = capataz(folder, &["run", "plan.toml", "--local"]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the task has begun", || folder.join("begun").exists());
    signal(&running, name);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended.stderr));
    let told = said(&ended.stderr);
    assert!(told.contains("stopping; press Ctrl-C again to force\n"), "{told}");
    assert!(told.ends_with("the next one on data goes on: capataz serve\n"), "{told}");
    assert!(!told.contains("without you"), "{told}");
    // Of these, a command that follows its run hears Ctrl-C alone, and has the time for its own last words.
    assert_eq!(told.contains("watch it:  capataz runs watch "), name == "INT", "{told}");
    assert_eq!(told.matches("capataz serve").count(), 1, "{told}");
    fs::write(folder.join("go"), "").unwrap();
    let served = Served::start(folder, &config);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = served.client().await;
        let runs = client.list_runs(v1::ListRunsRequest::default()).await.unwrap().runs;
        let result = client.wait_run(&runs[0].run_id, Some(PATIENCE)).await.unwrap().unwrap();
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{result:?}");
    });
}

#[test]
fn ctrl_c_while_another_process_has_the_folder_begins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &["init"], 0);
    fs::create_dir(folder.join("data")).unwrap();
    let lock = fs::File::create(folder.join("data/daemon.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(folder.join("data/daemon.lock"), format!("{}\n", std::process::id())).unwrap();
    let (running, waits) = waits_for_the_folder(folder);
    let expected = format!(
        "process {} has the data folder data, and starts or ends: waiting for it\n",
        std::process::id()
    );
    assert_eq!(waits, expected);
    signal(&running, "INT");
    let ended = running.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), said(&ended.stdout).as_str()), (Some(130), ""));
    drop(lock);
    let served = Served::start(folder, &fs::read_to_string(folder.join("capataz.toml")).unwrap());
    let runs = document(&check(folder, &["runs", "list", "--addr", &served.url(), "--json"], 0));
    assert_eq!(runs["runs"], json!([]));
}

#[test]
fn a_daemon_that_ends_is_waited_for_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = format!("data_dir = \"data\"\ndrain_timeout = \"10m\"\n{}", waiting_agent(folder));
    let mut served = Served::start(folder, &config);
    fs::write(folder.join("plan.toml"), WAITING_PLAN).unwrap();
    check(folder, &["run", "plan.toml", "--detach", "--addr", &served.url()], 0);
    eventually("the task has begun", || folder.join("begun").exists());
    served.signal("TERM");
    eventually("it drains", || state(folder) == "draining");
    let (running, waits) = waits_for_the_folder(folder);
    assert!(waits.ends_with("starts or ends: waiting for it\n"), "{waits}");
    fs::write(folder.join("go"), "").unwrap();
    assert!(served.ended().success());
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended.stdout));
}

/// Starts the plan with a daemon inside the command, and returns the first line that it says on stderr.
fn waits_for_the_folder(folder: &Path) -> (Child, String) {
    let mut command = capataz(folder, &["run", "plan.toml", "--local"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    (running, line)
}

/// What the daemon of the folder says of itself.
fn state(folder: &Path) -> Value {
    document(&check(folder, &["status", "--json"], 0))["state"].take()
}

#[test]
fn a_repeated_sigterm_goes_on_draining_and_ctrl_c_twice_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = format!("data_dir = \"data\"\ndrain_timeout = \"10m\"\n{}", waiting_agent(folder));
    fs::write(folder.join("capataz.toml"), config).unwrap();
    fs::write(folder.join("plan.toml"), WAITING_PLAN).unwrap();
    let mut command = capataz(folder, &["serve", "--listen", "127.0.0.1:0"]);
    let mut serving = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("it serves", || capataz(folder, &["status"]).output().unwrap().status.success());
    let address = document(&check(folder, &["status", "--json"], 0))["address"].take();
    check(folder, &["run", "plan.toml", "--detach", "--addr", address.as_str().unwrap()], 0);
    eventually("the task has begun", || folder.join("begun").exists());
    signal(&serving, "TERM");
    eventually("it drains", || state(folder) == "draining");
    for name in ["TERM", "TERM", "INT"] {
        signal(&serving, name);
        assert_eq!(state(folder), "draining", "{name}");
    }
    signal(&serving, "INT");
    assert_eq!(serving.wait().unwrap().code(), Some(130));
    fs::write(folder.join("go"), "").unwrap();
}

fn signal(process: &Child, name: &str) {
    let process = process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
}

#[test]
fn the_status_of_a_folder_is_where_its_daemon_listens_and_what_runs_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = format!("data_dir = \"data\"\n{}", waiting_agent(folder));
    fs::write(folder.join("capataz.toml"), &config).unwrap();
    fs::write(folder.join("plan.toml"), WAITING_PLAN).unwrap();
    let data = folder.join("data").display().to_string();
    for command in ["status", "stop"] {
        let none = said(&check(folder, &[command], 3).stderr);
        let expected = format!(
            "error: no daemon has the data folder {data}\nstart one: capataz serve; name another folder by --config or \
             --data-dir\n"
        );
        assert_eq!(none, expected);
    }
    assert!(!folder.join("data").exists(), "nobody has made it by asking");
    let served = Served::start(folder, &config);
    let run = check(folder, &["run", "plan.toml", "--detach", "--addr", &served.url()], 0);
    assert!(run.status.success());
    eventually("the task has begun", || folder.join("begun").exists());
    let status = document(&check(folder, &["status", "--json"], 0));
    let counts = json!({ "running": 1, "waiting": 0, "paused": 0, "cancelling": 0 });
    let facts =
        ["address", "state", "process", "data_dir", "version", "runs", "more_runs"].map(|key| &status[key]);
    let expected = [
        json!(served.url()),
        json!("serving"),
        json!(served.process_id()),
        json!(data),
        json!(env!("CARGO_PKG_VERSION")),
        counts,
        json!(false),
    ];
    assert_eq!(facts, expected.each_ref());
    let waiter = status["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "waiter");
    assert_eq!(waiter.unwrap(), &json!({ "name": "waiter", "workers": 1, "running": 1, "queued": 0 }));
    let text = said(&check(folder, &["status"], 0).stdout);
    for part in [
        format!("a daemon serves at {}\nprocess {}, version ", served.url(), served.process_id()),
        format!("data folder: {data}\nruns: 1 running\n\nAGENT "),
        "\nwaiter ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} in {text}");
    }
    assert!(!text.contains("capataz.narrative"), "{text}");
    // By its address, without the folder.
    let by_address = document(&check(Path::new("/"), &["status", "--addr", &served.url(), "--json"], 0));
    assert_eq!((&by_address["runs"]["running"], &by_address["data_dir"]), (&json!(1), &Value::Null));
    check(folder, &["status", "--addr", "http://127.0.0.1:9"], 3);
    // An address of the environment is meant unless a folder is typed.
    let with_address = |arguments: &[&str]| {
        capataz(folder, arguments).env("CAPATAZ_ADDR", "http://127.0.0.1:9").output().unwrap()
    };
    assert_eq!(with_address(&["status"]).status.code(), Some(3));
    assert_eq!(with_address(&["stop"]).status.code(), Some(3));
    for typed in [["--data-dir", "data"], ["--config", "capataz.toml"]] {
        let status = document(&with_address(&["status", "--json", typed[0], typed[1]]));
        assert_eq!(status["address"], json!(served.url()), "{typed:?}");
    }
    let stopping = with_address(&["stop", "--timeout", "1ms", "--data-dir", "data"]);
    assert_eq!(stopping.status.code(), Some(4), "{}", said(&stopping.stderr));
    fs::write(folder.join("go"), "").unwrap();
}

#[test]
fn every_command_finds_the_daemon_of_the_folder_or_where_its_configuration_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Whether one is there already is no matter: it listens at a port that nobody could guess.
    let served = Served::start(folder, "data_dir = \"data\"\n");
    check(folder, &["runs", "list"], 0);
    let doctor = document(&capataz(folder, &["doctor", "--json"]).output().unwrap());
    assert!(doctor.to_string().contains(&served.url()), "{doctor}");
    // Nobody listens there, and that is where the configuration says that somebody would.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("capataz.toml"), "listen = \"127.0.0.1:9\"\ndata_dir = \"data\"\n")
        .unwrap();
    let refused = said(&check(elsewhere.path(), &["runs", "list"], 3).stderr);
    assert!(refused.contains("http://127.0.0.1:9"), "{refused}");
    // Who says an address means it.
    check(elsewhere.path(), &["runs", "list", "--addr", &served.url()], 0);
    // An empty one, as of a variable that is not set, is none; an empty variable says nothing.
    check(folder, &["runs", "list", "--addr", ""], 2);
    let unset = capataz(folder, &["runs", "list"]).env("CAPATAZ_ADDR", "").output().unwrap();
    assert_eq!(unset.status.code(), Some(0), "{}", said(&unset.stderr));
    // A file that is wrong where it says where the daemon is means no other one.
    let broken = tempfile::tempdir().unwrap();
    fs::write(broken.path().join("capataz.toml"), "listen = 7\n").unwrap();
    check(broken.path(), &["runs", "list"], 2);
    check(folder, &["runs", "list", "--addr", "http://127.0.0.1:9"], 3);
}

#[test]
fn stop_has_the_daemon_drain_says_what_it_waits_for_and_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = format!("data_dir = \"data\"\ndrain_timeout = \"10m\"\n{}", waiting_agent(folder));
    let mut served = Served::start(folder, &config);
    fs::write(folder.join("plan.toml"), WAITING_PLAN).unwrap();
    let elsewhere = said(&check(folder, &["stop", "--addr", "http://127.0.0.1:9"], 3).stderr);
    assert!(
        elsewhere.contains(&format!("listens at {}, and not at http://127.0.0.1:9\n", served.url())),
        "{elsewhere}"
    );
    check(folder, &["run", "plan.toml", "--detach", "--addr", &served.url()], 0);
    eventually("the task has begun", || folder.join("begun").exists());
    let not_yet = document(&check(folder, &["stop", "--timeout", "1s", "--json"], 4));
    assert_eq!(not_yet["ended"], json!(false));
    assert_eq!(document(&check(folder, &["status", "--json"], 0))["state"], json!("draining"));
    // It is not asked a second time.
    let again = said(&check(folder, &["stop", "--timeout", "1s"], 4).stderr);
    assert!(again.starts_with(&format!("a daemon drains at {}", served.url())), "{again}");
    assert_eq!(document(&check(folder, &["status", "--json"], 0))["runs"]["running"], json!(1));
    fs::write(folder.join("go"), "").unwrap();
    assert!(served.ended().success());
    assert!(said(&check(folder, &["status"], 3).stderr).contains("no daemon has the data folder"));

    let _ = (fs::remove_file(folder.join("go")), fs::remove_file(folder.join("begun")));
    let mut served = Served::start(folder, &config);
    check(folder, &["run", "plan.toml", "--detach", "--addr", &served.url()], 0);
    eventually("the task has begun", || folder.join("begun").exists());
    let mut command = capataz(folder, &["stop", "--addr", &served.url()]);
    let mut stopping = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(stopping.stderr.take().unwrap()).lines().map(Result::unwrap);
    let asked = format!("the daemon at {} (process {}) is asked to end", served.url(), served.process_id());
    assert_eq!(told.next(), Some(asked));
    assert_eq!(told.next().as_deref(), Some("it waits for 1 task: waiter (1)"));
    fs::write(folder.join("go"), "").unwrap();
    assert!(served.ended().success());
    let ended = stopping.wait_with_output().unwrap();
    assert!(ended.status.success());
    let expected = format!("[OK] the daemon at {} has ended after ", served.url());
    assert!(said(&ended.stdout).starts_with(&expected), "{}", said(&ended.stdout));
}

/// A lock that names a process that never was a daemon of the folder.
#[test]
fn stop_signals_no_process_that_does_not_hold_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut foreign = Command::new("sleep").arg("600").spawn().unwrap();
    fs::create_dir(folder.join("data")).unwrap();
    let lock = fs::File::create(folder.join("data/daemon.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(folder.join("data/daemon.lock"), format!("{}\n", foreign.id())).unwrap();
    let address =
        json!({ "process": foreign.id(), "address": "127.0.0.1:9", "version": "0.1.0", "since_ms": 1 });
    fs::write(folder.join("data/daemon.address"), address.to_string()).unwrap();
    let refused = check(folder, &["stop", "--data-dir", "data"], 3);
    assert!(said(&refused.stderr).contains("no daemon has the data folder"), "{}", said(&refused.stderr));
    assert!(foreign.try_wait().unwrap().is_none(), "it is alive");
    foreign.kill().unwrap();
    foreign.wait().unwrap();
}
