//! `capataz doctor`: what it finds on a machine, and that it changes nothing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::served::Served;
use serde_json::Value;

fn doctor(folder: &Path, before: &str, arguments: &[&str]) -> Output {
    let mut shell = Command::new("sh");
    shell.env("LC_ALL", "C");
    shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_capataz"), "doctor"]);
    shell.args(arguments).current_dir(folder).output().unwrap()
}

/// The checks with their verdicts; the exit code has to agree with them.
#[track_caller]
fn checks(said: &Output) -> Vec<(String, String)> {
    let document: Value = serde_json::from_slice(&said.stdout).expect("one document");
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let listed = document["checks"].as_array().unwrap();
    for check in listed {
        assert!(!text(check, "found").is_empty(), "{check}");
        assert_eq!(check.get("next").is_some(), check["verdict"] != "ok", "{check}");
    }
    let checks: Vec<_> = listed.iter().map(|check| (text(check, "check"), text(check, "verdict"))).collect();
    let is_bad = checks.iter().any(|(_, verdict)| verdict == "failure");
    assert_eq!((document["ok"].as_bool(), said.status.code()), (Some(!is_bad), Some(i32::from(is_bad))));
    checks
}

#[track_caller]
fn verdict(said: &Output, name: &str) -> String {
    let checks = checks(said);
    checks.iter().find(|(check, _)| check == name).map(|(_, verdict)| verdict.clone()).expect(name)
}

const JSON: &[&str] = &["--json", "--data-dir", "data", "--addr", "http://127.0.0.1:9"];

#[test]
fn a_machine_is_looked_at_without_a_daemon_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let said = doctor(folder.path(), ":", JSON);
    let names: Vec<String> = checks(&said).into_iter().map(|(check, _)| check).collect();
    let all = [
        "configuration",
        "data_folder",
        "free_space",
        "clock",
        "secrets",
        "agents",
        "specs",
        "uploads",
        "browser",
        "descriptors",
        "supervision",
        "control_groups",
        "daemon",
    ];
    assert_eq!(names, all);
    for check in ["configuration", "data_folder", "supervision", "clock"] {
        assert_eq!(verdict(&said, check), "ok", "{check}");
    }
    assert_eq!(verdict(&said, "daemon"), "warning", "none has to be there");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    let told = doctor(folder.path(), ":", &["--data-dir", "data", "--addr", "http://127.0.0.1:9"]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("control groups") && told.contains("next: `capataz serve` starts one"), "{told}");
}

#[test]
fn what_keeps_a_daemon_from_starting_is_a_failure_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o770)).unwrap();
    assert_eq!(verdict(&doctor(folder.path(), ":", JSON), "data_folder"), "failure");
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(verdict(&doctor(folder.path(), ":", JSON), "data_folder"), "warning");
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    let written = fs::File::create(data.join("capataz.db")).unwrap();
    // The year 2100.
    let ahead = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_102_444_800);
    written.set_modified(ahead).unwrap();
    assert_eq!(verdict(&doctor(folder.path(), ":", JSON), "clock"), "failure");
    assert_eq!(verdict(&doctor(folder.path(), "ulimit -n 256", JSON), "descriptors"), "warning");
    fs::write(folder.path().join("capataz.toml"), "no_such_key = 1\n").unwrap();
    let said = doctor(folder.path(), ":", JSON);
    assert_eq!(verdict(&said, "configuration"), "failure");
    assert_eq!(verdict(&said, "supervision"), "ok", "the machine is looked at all the same");
}

#[test]
fn what_the_configuration_names_and_is_not_there_is_a_failure_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("specs")).unwrap();
    fs::write(folder.path().join("specs/s.toml"), "id =\n").unwrap();
    let config = "specs_dir = \"specs\"\n\
        [[agents]]\nname = \"a\"\ncommand = [\"no-such-program\"]\nenv = { KEY = \"${secret:NO_SUCH}\" }\n\
        [[agents]]\nname = \"b\"\ncommand = [\"sh\"]\ncwd = \"/no/such/folder\"\nenv = { KEY = \"${secret:NO_SUCH}\" }\n\
        [browser]\nprogram = \"/no/such/browser\"\nupload_folders = [\"/no/such/folder\"]\n";
    fs::write(folder.path().join("capataz.toml"), config).unwrap();
    let said = doctor(folder.path(), ":", JSON);
    let document: Value = serde_json::from_slice(&said.stdout).unwrap();
    let told = |name: &str| {
        assert_eq!(verdict(&said, name), "failure", "{name}");
        let check =
            document["checks"].as_array().unwrap().iter().find(|check| check["check"] == name).unwrap();
        let lines = |key: &str| check[key].as_str().unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        (lines("found"), lines("next"))
    };
    let starts = |lines: &[String], expected: &[&str]| {
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        assert!(lines.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{lines:?}");
    };
    let (found, next) = told("secrets");
    starts(&found, &["agents[0].env.KEY: ", "agents[1].env.KEY: "]);
    assert_eq!(next.len(), 1, "one act gives both what they need: {next:?}");
    let (found, next) = told("agents");
    starts(&found, &["agents[0].command[0]: ", "agents[1].cwd: "]);
    assert_eq!(next.len(), 2, "{next:?}");
    starts(&told("specs").0, &["specs_dir: "]);
    starts(&told("uploads").0, &["browser.upload_folders[0]: "]);
    starts(&told("browser").0, &["browser.program: "]);
}

#[tokio::test]
async fn a_daemon_that_answers_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Served::start(folder.path(), "");
    let said = doctor(folder.path(), ":", &["--json", "--data-dir", "data", "--addr", &daemon.url()]);
    assert_eq!(verdict(&said, "daemon"), "ok");
    assert_eq!(verdict(&said, "data_folder"), "ok");
    assert_eq!(verdict(&said, "clock"), "ok");
}
