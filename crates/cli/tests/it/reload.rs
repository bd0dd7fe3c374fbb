//! `capataz serve` reads its configuration again when a file of it changes, and on SIGHUP.

use std::path::Path;
use std::process::{Command, Output};

use crate::newcomer::eventually;
use crate::served::Served;

/// `waits` ends when the file `go` is there.
const WAITS: &str = "[[agents]]\nname = \"waits\"\ncommand = [\"sh\", \"-c\", 'until [ -e go ]; do sleep 0.02; done; echo waited']\n";
const IDLE: &str = "[[agents]]\nname = \"idle\"\ncommand = [\"echo\", \"idle\"]\n";
const NEW: &str = "[[agents]]\nname = \"new\"\ncommand = [\"echo\", \"new\"]\n";

fn capataz(served: &Served, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.env("LC_ALL", "C").args(["--addr", served.address()]).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Starts a run of one task that must not be done twice. Its id, or what it was refused with.
fn run(served: &Served, folder: &Path, agent: &str) -> Result<String, String> {
    let plan = format!(
        "name = \"p\"\n[[waves]]\nname = \"w\"\n[[waves.tasks]]\nname = \"t\"\nagent = \"{agent}\"\neffect = \"at_most_once\"\n"
    );
    let file = folder.join(format!("{agent}.toml.plan"));
    std::fs::write(&file, plan).unwrap();
    let started = capataz(served, &["run", file.to_str().unwrap(), "--detach", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&started.stdout).unwrap();
    said["run_id"].as_str().map(str::to_owned).ok_or_else(|| said.to_string())
}

fn outcome(served: &Served, run: &str) -> String {
    let watched = capataz(served, &["runs", "watch", run]);
    assert!(watched.status.success(), "{watched:?}");
    text(&watched)
}

/// Waits until the daemon has said this so many times.
fn until_said(served: &Served, what: &str, times: usize) {
    eventually(what, || served.said().matches(what).count() >= times);
}

/// Replaces a file as editors do: by a new one of the same name.
fn replace(file: &Path, content: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, content).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn agents_come_and_go_with_the_file_and_what_has_begun_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let waits = WAITS.replace("command =", &format!("cwd = {folder:?}\ncommand ="));
    let served = Served::start(folder, &format!("{waits}{IDLE}"));
    let file = folder.join("capataz.toml");
    let begun = run(&served, folder, "waits").unwrap();

    replace(&file, NEW);
    until_said(&served, "the configuration was read again: added new; removed idle, waits", 1);
    let new = run(&served, folder, "new").unwrap();
    assert!(outcome(&served, &new).contains("run finished: succeeded"));
    let refused = run(&served, folder, "idle").unwrap_err();
    assert!(refused.contains("AGENT_NOT_FOUND") && refused.contains("idle"), "{refused}");
    // Its agent is gone, and it goes on to its end.
    std::fs::write(folder.join("go"), "").unwrap();
    assert!(outcome(&served, &begun).contains("run finished: succeeded"));

    std::fs::write(&file, format!("{}{IDLE}", NEW.replace("\"new\"]", "\"newer\"]"))).unwrap();
    until_said(&served, "the configuration was read again: added idle; changed new", 1);
    let newer = run(&served, folder, "new").unwrap();
    let told = outcome(&served, &newer);
    assert!(told.contains("  newer\n"), "{told}");
}

#[test]
fn a_configuration_with_anything_wrong_changes_nothing_and_all_of_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let served = Served::start(folder, IDLE);
    let wrong = format!("drain_timeout = \"soon\"\n{NEW}[[agents]]\nname = \"new\"\ncommand = []\n");
    replace(&folder.join("capataz.toml"), &wrong);
    until_said(&served, "the configuration stays as it was", 1);
    let said = served.said();
    for problem in ["capataz.toml:1:", "drain_timeout", "agents[1].command", "is there twice"] {
        assert!(said.contains(problem), "{problem}\n{said}");
    }
    outcome(&served, &run(&served, folder, "idle").unwrap());
    assert!(run(&served, folder, "new").unwrap_err().contains("AGENT_NOT_FOUND"));
    // A file that is gone is no configuration without agents.
    std::fs::remove_file(folder.join("capataz.toml")).unwrap();
    until_said(&served, "no such file", 1);
    outcome(&served, &run(&served, folder, "idle").unwrap());
    // And once it is mended, it counts.
    replace(&folder.join("capataz.toml"), &format!("{IDLE}{NEW}"));
    until_said(&served, "the configuration was read again: added new", 1);
}

#[test]
fn profiles_and_rules_are_read_again_and_so_is_everything_on_sighup() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rules = |answer: &str| {
        format!(
            "[[rules]]\nquery = \"x\"\n[[rules.steps]]\nid = \"s\"\ndescription = \"d\"\ntool = \"{answer}\"\n"
        )
    };
    std::fs::write(folder.join("crew.toml"), "[[agents]]\nname = \"outside\"\n").unwrap();
    std::fs::write(folder.join("rules.toml"), rules("one")).unwrap();
    let config = "profiles = [\"crew.toml\"]\n[[planners]]\nname = \"by-rules\"\nrules = \"rules.toml\"\n";
    let mut served = Served::start(folder, config);
    replace(&folder.join("crew.toml"), "commands = [\"deploy\"]\n[[agents]]\nname = \"beyond\"\n");
    until_said(&served, "added beyond, command deploy; removed outside", 1);
    replace(&folder.join("rules.toml"), &rules("two"));
    until_said(&served, "changed by-rules", 1);
    // Somebody who asks is answered, whatever has changed.
    served.signal("HUP");
    until_said(&served, "the configuration was read again: nothing of agents has changed", 1);
    replace(&folder.join("capataz.toml"), &format!("demo_page = true\ndrain_timeout = \"1s\"\n{config}"));
    until_said(&served, "not in use before the daemon is started again: drain_timeout, demo_page", 1);
    served.signal("TERM");
    assert!(served.ended().success());
}

#[test]
fn the_log_says_which_specs_are_others_than_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let specs = folder.join("crew-specs");
    std::fs::create_dir(&specs).unwrap();
    let waves = std::fs::read_to_string(own.join("whispers-of-the-wave.toml")).unwrap();
    for name in ["whispers-of-the-wave.toml", "kiro-adaptive-assistance.toml"] {
        std::fs::copy(own.join(name), specs.join(name)).unwrap();
    }
    let mut served = Served::start(folder, &format!("specs_dir = {specs:?}\n"));
    let other = folder.join("whispers.new");
    std::fs::write(&other, waves.replace("Whispers of the Wave", "Whispers of a Wave")).unwrap();
    std::fs::rename(&other, specs.join("whispers-of-the-wave.toml")).unwrap();
    until_said(&served, "the specs were read again: changed whispers-of-the-wave", 1);
    let before = served.said().matches("changed kiro").count();
    served.signal("HUP");
    until_said(&served, "the specs were read again: no spec has changed", 1);
    assert_eq!(before, 0, "{}", served.said());
    served.signal("TERM");
    assert!(served.ended().success());
}
