//! `capataz runs list`: which runs it lists.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::served::Served;

const CREW: &str = r#"
[[agents]]
name = "good"
command = ["true"]

[[agents]]
name = "bad"
command = ["false"]
"#;

fn capataz(served: &Served, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.env("LC_ALL", "C").args(["--addr", served.address()]).args(arguments);
    program.output().unwrap()
}

fn run(served: &Served, folder: &Path, name: &str, agent: &str) {
    run_with(served, folder, name, agent, &[]);
}

fn run_with(served: &Served, folder: &Path, name: &str, agent: &str, options: &[&str]) {
    let file = folder.join("plan.toml");
    let plan = format!("name = \"{name}\"\n\n[[tasks]]\nname = \"t\"\nagent = \"{agent}\"\n");
    std::fs::write(&file, plan).unwrap();
    capataz(served, &[&["run", file.to_str().unwrap(), "--wait"], options].concat());
}

/// The names of the listed runs.
#[track_caller]
fn check(served: &Served, conditions: &[&str], names: &[&str]) {
    let listed = capataz(served, &[&["runs", "list", "--json"], conditions].concat());
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stdout));
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = listed["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap());
    assert_eq!(listed.collect::<Vec<_>>(), names, "{conditions:?}");
}

#[test]
fn runs_are_listed_by_name_kind_and_age() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    run(&served, folder.path(), "Nightly build", "good");
    run(&served, folder.path(), "release", "bad");
    run(&served, folder.path(), "nightly", "bad");
    check(&served, &[], &["nightly", "release", "Nightly build"]);
    check(&served, &["--name", "night"], &["nightly", "Nightly build"]);
    check(&served, &["--name", "*build"], &["Nightly build"]);
    check(&served, &["--name", "nightly?"], &[]);
    check(&served, &["--name", "night", "--outcome", "failed"], &["nightly"]);
    check(&served, &["--name", "night", "--limit", "1"], &["nightly"]);
    check(&served, &["--kind", "plan", "--name", "rel"], &["release"]);
    check(&served, &["--kind", "script"], &[]);
    check(&served, &["--status", "finished", "--since", "1h"], &["nightly", "release", "Nightly build"]);
    check(&served, &["--status", "running"], &[]);
    check(&served, &["--since", "0s"], &[]);
    check(&served, &["--until", "0s"], &["nightly", "release", "Nightly build"]);
    check(&served, &["--until", "1h"], &[]);
    // An empty list is an answer.
    let none = capataz(&served, &["runs", "list", "--name", "nowhere"]);
    assert_eq!(String::from_utf8_lossy(&none.stdout), "No runs.\n");
    let long = "n".repeat(129);
    // A list of none says nothing of what there is.
    for wrong in [["--name", &long], ["--kind", "session"], ["--since", "yesterday"], ["-n", "0"]] {
        let refused = capataz(&served, &[&["runs", "list"][..], &wrong].concat());
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_latest_run_is_not_that_of_a_task() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    let file = folder.path().join("plan.toml");
    let tasks = (0..25).map(|number| {
        format!(
            "[[tasks]]\nname = \"t{number}\"\n[tasks.run.plan]\nname = \"inner\"\n[[tasks.run.plan.waves]]\nname = \"w\"\n\
             tasks = [{{ name = \"u\", agent = \"good\" }}]\n[tasks.run.labels]\nof = \"task\"\n"
        )
    });
    std::fs::write(&file, format!("name = \"outer\"\n\n{}", tasks.collect::<String>())).unwrap();
    let ran = capataz(&served, &["run", file.to_str().unwrap(), "--wait"]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // More of them than the first answer has.
    check(&served, &["--label", "of=task"], &["inner"; 25]);
    let shown = capataz(&served, &["runs", "show", "latest", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["name"], "outer");
    check(&served, &["--parent", "latest"], &["inner"; 25]);
    let mut completion = Command::new(env!("CARGO_BIN_EXE_capataz"));
    completion.args(["__values", "--addr", served.address(), "runs", "retry", "latest", "t24"]);
    let completed = completion.output().unwrap();
    assert!(completed.stdout.starts_with(b"t24\t"), "{completed:?}");
}

#[test]
fn runs_of_one_session_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), CREW);
    run_with(&served, folder.path(), "build", "good", &["--session", "release"]);
    run_with(&served, folder.path(), "other", "good", &["--session", "shop"]);
    run(&served, folder.path(), "alone", "good");
    run_with(&served, folder.path(), "publish", "bad", &["--session", "release"]);
    check(&served, &["--session", "release"], &["publish", "build"]);
    check(&served, &["--session", "release", "--outcome", "succeeded"], &["build"]);
    check(&served, &["--session", "shop"], &["other"]);
    check(&served, &["--session", "rel"], &[]);
    let none = capataz(&served, &["runs", "list", "--session", "nobody"]);
    assert_eq!(String::from_utf8_lossy(&none.stdout), "No runs.\n");
    for wrong in ["", "two words"] {
        let refused = capataz(&served, &["runs", "list", "--session", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_list_says_what_each_run_does() {
    let folder = tempfile::tempdir().unwrap();
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let served = Served::start(folder.path(), &format!("specs_dir = {specs:?}\n{CREW}"));
    run(&served, folder.path(), "release", "good");
    capataz(&served, &["ask", "hm", "--spec", "kiro-adaptive-assistance", "--language", "en"]);
    let listed = |arguments: &[&str]| {
        let listed = capataz(&served, &[&["runs", "list"], arguments].concat());
        String::from_utf8(listed.stdout).unwrap()
    };
    let shown = listed(&[]);
    let kind = |line: &str| line.split_whitespace().last().unwrap().to_owned();
    let head: Vec<&str> = shown.lines().next().unwrap().split_whitespace().collect();
    assert!(head.ends_with(&["TOOK", "KIND", "LABELS"]), "{shown}");
    assert_eq!(shown.lines().skip(1).map(kind).collect::<Vec<_>>(), ["ask", "plan"], "{shown}");
    let told: Value = serde_json::from_str(&listed(&["--json"])).unwrap();
    assert_eq!((&told["runs"][0]["kind"], &told["runs"][1]["kind"]), (&"ask".into(), &"plan".into()));
    // It is what may be asked for.
    assert_eq!(listed(&["--kind", "ask"]).lines().count(), 2);
}
