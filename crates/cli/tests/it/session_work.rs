//! `capataz run --session`: the state file of a project is checked before the plan, and follows it (seed 000, contract 7).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use capataz_client::{Client, Delivery};
use capataz_contracts::v1;

use crate::served::Served;

const AGENTS: &str = "
[[agents]]
name = \"echo\"
category = \"utility\"
command = [\"/bin/cat\"]
[[agents]]
name = \"silent\"
command = [\"/bin/sleep\", \"600\"]
[[agents]]
name = \"broken\"
command = [\"/bin/sh\", \"-c\", \"echo no paper >&2; exit 3\"]
";
const PLAN: &str = "
name = \"shop\"
[[waves]]
[[waves.tasks]]
name = \"build\"
agent = \"echo\"
input = 1
[[waves]]
[[waves.tasks]]
name = \"report\"
agent = \"echo\"
input = 2
";

/// A project with a plan, whose daemon has one agent.
struct Project {
    served: Served,
    folder: TempDir,
    _data: TempDir,
}

impl Project {
    fn new() -> Self {
        let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("plan.toml"), PLAN).unwrap();
        let served = Served::start(data.path(), AGENTS);
        Self { served, folder, _data: data }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(".elsabro").join(name)
    }

    fn has(&self, name: &str, text: &str) {
        fs::create_dir_all(self.folder.path().join(".elsabro")).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    fn state(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file("state.json")).unwrap()).unwrap()
    }

    fn does(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
        command.args(arguments).args(["--addr", self.served.address()]).current_dir(self.folder.path());
        command.env("LC_ALL", "C").env("CAPATAZ_BOXES", "1").env_remove("CAPATAZ_ADDR");
        command.stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn runs(&self, arguments: &[&str]) -> String {
        let output = self.does(&[&["run", "plan.toml", "--session", "shop"], arguments].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stdout));
        told
    }
}

fn valid() -> Value {
    json!({
        "version": "1.0.0",
        "created_at": "2024-01-20T10:00:00Z",
        "updated_at": "2024-01-20T15:30:00Z",
        "context": { "project_type": "brownfield", "tech_stack": ["nextjs", "prisma"] },
        "history": [{ "command": "plan", "completed_at": "2024-01-20T14:50:00Z", "result": "created" }],
    })
}

/// Holds the first box of what was told against the file with this name, which was compared with the seed's drawing by hand.
/// `CAPATAZ_WRITE_BOXES=1` writes it where it is not there yet.
#[track_caller]
fn check_box(name: &str, language: &str, told: &str) {
    let lines = told.lines().skip_while(|line| !line.starts_with('+'));
    let shown: String =
        lines.take_while(|line| line.starts_with(['+', '|'])).map(|line| format!("{line}\n")).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let file = format!("{folder}/{name}.{language}.txt");
    #[expect(clippy::disallowed_methods, reason = "whoever adds a box says so")]
    let writes = std::env::var("CAPATAZ_WRITE_BOXES").is_ok();
    match fs::read_to_string(&file) {
        Ok(expected) => assert!(shown == expected, "{file} has\n{expected}\nand not\n{shown}"),
        Err(_) if writes => fs::write(&file, shown).unwrap(),
        Err(error) => panic!("{file}: {error}; the box is\n{shown}"),
    }
}

fn commands(state: &Value) -> Vec<&str> {
    let history = state["history"].as_array().map(Vec::as_slice).unwrap_or_default();
    history.iter().filter_map(|entry| entry["command"].as_str()).collect()
}

// S000-SC-01
#[test]
fn scenario_1_a_state_that_is_no_json_comes_from_its_backup_and_the_plan_goes_on() {
    let project = Project::new();
    project.has("state.json", "{ \"version\": ");
    project.has("state.backup.json", &valid().to_string());
    let told = project.runs(&[]);
    check_box("scenario-1", "en", &told);
    let state = project.state();
    assert_eq!(commands(&state), ["plan", "execute"]);
    assert_eq!(state["context"], valid()["context"]);
    assert_eq!((&state["current_flow"], &state["suggested_next"]), (&Value::Null, &json!("verify-work")));
    let aside = fs::read_dir(project.file("")).unwrap().filter_map(|entry| entry.ok());
    let aside: Vec<PathBuf> = aside
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("state.corrupt-"))
        })
        .collect();
    let [aside] = aside.as_slice() else { panic!("{aside:?}") };
    assert_eq!(fs::read_to_string(aside).unwrap(), "{ \"version\": ", "the corrupt bytes are kept");
}

// S000-SC-01
#[test]
fn scenario_1_is_told_in_spanish() {
    let project = Project::new();
    project.has("state.json", "{ \"version\": ");
    project.has("state.backup.json", &valid().to_string());
    check_box("scenario-1", "es", &project.runs(&["--lang", "es"]));
    // Logs are in one language, whoever wrote them.
    let told = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = Client::connect(project.served.address()).await.unwrap();
        let stream = client.get_session("shop").await.unwrap().stream_id;
        let filter = v1::EventFilter { run_id: Some(stream), ..v1::EventFilter::default() };
        let request = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
        let mut events = client.subscribe(request);
        loop {
            let Delivery::Event { event, .. } = events.next().await.unwrap().unwrap() else { continue };
            if let Some(v1::event::Body::SessionStateWritten(written)) = event.body
                && !written.repairs.is_empty()
            {
                return written.repairs;
            }
        }
    });
    assert_eq!(told, ["SESSION_CORRUPTED: .elsabro/state.json: restored from its backup"]);
}

/// Scenario 7: the state is corrupt, is repaired, and then what the plan cannot do without fails.
// S000-SC-09
#[test]
fn scenario_7_the_session_that_was_repaired_is_among_the_errors_that_stopped_the_plan() {
    let project = Project::new();
    let plan = "
name = \"shop\"
policy = { kind = \"critical_path\" }
[[tasks]]
name = \"build\"
agent = \"broken\"
critical = true
";
    fs::write(project.folder.path().join("critical.toml"), plan).unwrap();
    let run = |language: &str| {
        let run = ["run", "critical.toml", "--session", "shop", "--lang", language];
        let output = project.does(&run);
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let check = |shown: &str, listed: [&str; 3]| {
        for part in listed {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    };
    let critical = "|  2. CRITICAL_AGENT_FAILED: build ";
    project.has("state.json", "{ \"version\": ");
    project.has("state.backup.json", &valid().to_string());
    let english = ["|  MULTIPLE CRITICAL ERRORS ", "|  1. SESSION_CORRUPTED (repaired) ", critical];
    check(&run("en"), english);
    let later = project.does(&["runs", "show", "latest"]);
    check(&String::from_utf8_lossy(&later.stdout), english);
    // The session's own state is newer than the backup by now, and stays.
    project.has("state.json", "{ \"version\": ");
    let spanish = ["|  MÚLTIPLES ERRORES CRÍTICOS ", "|  1. SESSION_CORRUPTED (reparado) ", critical];
    check(&run("es"), spanish);
    assert_eq!(commands(&project.state()), ["plan", "execute", "execute"]);
    assert!(!run("en").contains("SESSION_CORRUPTED"), "the next plan found a valid state");
}

// S000-SC-02
#[test]
fn without_a_backup_what_is_no_json_begins_anew() {
    let project = Project::new();
    project.has("state.json", "no state at all");
    let told = project.runs(&[]);
    assert!(told.contains("ERROR: SESSION_CORRUPTED"), "{told}");
    assert!(told.contains("|  .elsabro/state.json: begun anew"), "{told}");
    assert_eq!(commands(&project.state()), ["execute"]);
}

// S000-C7-29, S000-CL-01
#[test]
fn a_valid_state_is_taken_over_silently_and_the_file_has_what_the_plan_has_made_of_it() {
    let project = Project::new();
    project.has("state.json", &valid().to_string());
    let told = project.runs(&[]);
    assert!(!told.contains("ERROR") && !told.contains("WARNING"), "{told}");
    assert_eq!(commands(&project.state()), ["plan", "execute"]);
    let backup: Value =
        serde_json::from_slice(&fs::read(project.file("state.backup.json")).unwrap()).unwrap();
    assert_eq!(backup["version"], "1.0.0", "what was there before is the backup");
    project.runs(&[]);
    assert_eq!(commands(&project.state()), ["plan", "execute", "execute"]);
}

// S000-C7-16, S000-C7-29, S000-IN-01
#[test]
fn a_state_that_breaks_rules_is_repaired_and_keeps_what_is_valid() {
    let project = Project::new();
    let mut broken = valid();
    broken["current_flow"] = json!({ "command": "execute", "phase": "sleeping" });
    broken["history"] =
        json!([{ "command": "plan", "completed_at": "2024-01-20T14:50:00Z" }, { "result": "?" }]);
    project.has("state.json", &broken.to_string());
    let told = project.runs(&[]);
    assert!(told.contains("ERROR: SESSION_VALIDATION_FAILED"), "{told}");
    assert_eq!(commands(&project.state()), ["plan", "execute"]);
}

/// The seed's example of all contracts, from the command line on: a state that breaks rules, three agents at once of which one
/// is out of time, a quorum, and the state of the end.
// S000-IN-08
#[test]
fn a_broken_state_is_repaired_two_of_three_agents_are_a_quorum_and_the_file_has_the_end() {
    let project = Project::new();
    let agents = [("executor", "echo"), ("explorer", "echo"), ("verifier", "silent")];
    let tasks = agents.map(|(name, agent)| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\n"));
    let limits = "timeouts = { timeout = \"200ms\", grace = \"0s\" }\n";
    let plan = format!("name = \"cascade\"\n{}{limits}", tasks.concat());
    fs::write(project.folder.path().join("plan.toml"), plan).unwrap();
    let mut broken = valid();
    broken["current_flow"] = json!({ "command": "execute", "phase": "sleeping" });
    project.has("state.json", &broken.to_string());
    let told = project.does(&["run", "plan.toml", "--session", "shop"]);
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{out}\n{err}");
    assert!(err.contains("ERROR: SESSION_VALIDATION_FAILED"), "{err}");
    for told in ["WARNING: TASK_TIMEOUT", "Result: 2/3 (67%) - QUORUM MET"] {
        assert!(out.contains(told), "{told} in {out}");
    }
    let state = project.state();
    assert_eq!(commands(&state), ["plan", "execute"]);
    assert_eq!(state["history"][1]["result"], "succeeded_with_failures");
    assert_eq!((&state["errors"]["count"], &state["current_flow"]), (&json!(1), &Value::Null));
    assert_eq!(state["context"], valid()["context"]);
}

#[test]
fn a_project_without_a_state_folder_gets_none_unless_a_file_is_asked_for() {
    let project = Project::new();
    project.runs(&[]);
    assert!(!project.file("").exists());
    project.runs(&["--state", "kept/state.json"]);
    let kept = fs::read(project.folder.path().join("kept/state.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(commands(&kept), ["execute", "execute"], "the session knows of the first plan");
}

#[test]
fn what_a_plan_has_added_while_nobody_waited_is_not_undone_by_an_older_file() {
    let project = Project::new();
    project.has("state.json", &valid().to_string());
    let detached = project.does(&["run", "plan.toml", "--session", "shop", "--detach"]);
    let run = String::from_utf8_lossy(&detached.stdout).trim().to_owned();
    assert!(project.does(&["runs", "watch", &run]).status.success(), "{run}");
    assert_eq!(commands(&project.state()), ["plan"], "nobody has written the file");
    let told = project.runs(&[]);
    assert!(told.contains("newer state"), "{told}");
    assert_eq!(commands(&project.state()), ["plan", "execute", "execute"]);
}

#[test]
fn sessions_are_exported_and_imported_by_commands() {
    let project = Project::new();
    project.has("state.json", &valid().to_string());
    let imported = project.does(&["sessions", "import", "shop", "--json"]);
    let told: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(told, json!({ "session": "shop", "seq": 2, "changed": true }));
    let exported = project.does(&["sessions", "export", "shop", "copy.json"]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let copy: Value =
        serde_json::from_slice(&fs::read(project.folder.path().join("copy.json")).unwrap()).unwrap();
    assert_eq!(copy, valid());
    project.has("state.json", "{}");
    let refused = project.does(&["sessions", "import", "shop"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("ERROR: SESSION_VALIDATION_FAILED") && told.contains("Severity: CRITICAL"),
        "{told}"
    );
    let refused = project.does(&["sessions", "import", "shop", "--json"]);
    let told: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(told["error"]["code"], "SESSION_VALIDATION_FAILED");
    // Of the two fields that are required there is none.
    assert_eq!(told["error"]["details"].as_array().map(Vec::len), Some(2), "{told}");
    let none = project.does(&["sessions", "export", "nobody"]);
    assert_eq!(none.status.code(), Some(1), "{}", String::from_utf8_lossy(&none.stderr));
}

#[test]
fn a_run_that_has_failed_goes_on_and_what_had_succeeded_is_not_done_again() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let agents = format!(
        "{AGENTS}
[[agents]]
name = \"counted\"
category = \"utility\"
command = [\"/bin/sh\", \"-c\", \"echo once >> {}; cat\"]
[[agents]]
name = \"gate\"
category = \"utility\"
command = [\"/bin/sh\", \"-c\", \"test -e {} && cat\"]
",
        path("count"),
        path("mended")
    );
    let plan = "
name = \"shop\"
policy = { kind = \"fail_fast\" }
[[waves]]
tasks = [{ name = \"build\", agent = \"counted\", input = 7 }]
[[waves]]
tasks = [{ name = \"gate\", agent = \"gate\", input = { built = \"${tasks.build.output}\" } }]
";
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let project = Project { served: Served::start(data.path(), &agents), folder, _data: data };
    project.has("state.json", &valid().to_string());
    let failed = project.does(&["run", "plan.toml", "--session", "shop"]);
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
    let told = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(told.contains("capataz runs continue"), "the way on is named: {told}");

    fs::write(project.folder.path().join("mended"), "").unwrap();
    let went_on = project.does(&["runs", "continue", "latest", "--key", "again", "--watch"]);
    let told = String::from_utf8_lossy(&went_on.stdout).into_owned();
    assert!(went_on.status.success(), "{told}{}", String::from_utf8_lossy(&went_on.stderr));
    assert!(told.contains("taken over") && !told.contains("runs continue"), "{told}");
    assert_eq!(fs::read_to_string(project.folder.path().join("count")).unwrap(), "once\n");
    let state = project.state();
    let results: Vec<&Value> =
        state["history"].as_array().unwrap().iter().map(|entry| &entry["result"]).collect();
    assert_eq!(results.len(), 3, "the state file follows the new run, too: {state}");
    let shown = project.does(&["runs", "show", "latest", "--outputs", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["waves"][1]["tasks"][0]["output"]["built"], 7);
}

/// A state that is valid needs no change before its plan begins; one that would have to be mended stops the plan.
#[test]
fn where_the_state_may_not_be_written_a_valid_one_is_used_and_a_broken_one_begins_nothing() {
    let project = Project::new();
    project.has("state.json", &valid().to_string());
    // Somebody else may not reach the folder in which the program was built.
    let program = project.folder.path().join("capataz");
    fs::copy(env!("CARGO_BIN_EXE_capataz"), &program).unwrap();
    let folder = project.file("");
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(project.folder.path(), 0o755);
    mode(&project.file("state.json"), 0o644);
    mode(&project.folder.path().join("plan.toml"), 0o644);
    // Root may write everywhere; where the tests are root, the command is somebody else.
    let is_root = fs::metadata(project.file("state.json")).unwrap().uid() == 0;
    let runs = || {
        let mut command = Command::new(&program);
        command.args(["run", "plan.toml", "--session", "shop", "--addr", project.served.address()]);
        command.current_dir(project.folder.path()).env("LC_ALL", "C").env_remove("CAPATAZ_ADDR");
        if is_root {
            command.uid(65_534);
        }
        mode(&folder, 0o555);
        let output = command.stdin(Stdio::null()).output().unwrap();
        mode(&folder, 0o755);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (exit, told) = runs();
    assert_eq!(exit, Some(0), "{told}");
    assert!(
        told.contains("the state file was not written: .elsabro/state.json: Permission denied"),
        "{told}"
    );
    assert_eq!(project.state(), valid());
    let session = |key: &str| {
        let shown = project.does(&["sessions", "show", "shop", "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown[key].clone()
    };
    let known = session("state");
    assert_ne!(known, Value::Null, "the daemon's session has followed the plan");

    fs::write(project.file("state.json"), "{ \"version\": ").unwrap();
    let (exit, told) = runs();
    assert_eq!(exit, Some(1), "{told}");
    assert!(told.contains("may not be read or written: Permission denied"), "{told}");
    assert_eq!(fs::read_to_string(project.file("state.json")).unwrap(), "{ \"version\": ");
    assert_eq!(session("state"), known, "no plan has begun");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing was added");
}
