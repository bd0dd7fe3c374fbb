//! The scripts of `examples/scripts`, as shipped but for the port, on the site that `capataz demo site` serves.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::served::Served;

/// The site on a free port, which ends with the test.
pub struct DemoSite {
    process: Child,
    host: String,
    password: String,
}

impl DemoSite {
    pub fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
        let mut process =
            command.args(["demo", "site", "--port", "0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let host = told["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { process, host, password: told["password"].as_str().unwrap().to_owned() }
    }
}

impl Drop for DemoSite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The example for the site, in a file of the folder.
pub fn example(folder: &Path, site: &DemoSite, name: &str) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts").join(name);
    let script = fs::read_to_string(shipped).unwrap().replace("127.0.0.1:8000", &site.host);
    let invoices = folder.join("invoices");
    let script = script.replace("/srv/invoices", invoices.to_str().unwrap());
    let file = folder.join(name);
    fs::write(&file, script).unwrap();
    file
}

fn act(served: &Served, script: &Path) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.env("LC_ALL", "C").args(["--addr", served.address(), "act"]).arg(script).output().unwrap()
}

#[track_caller]
pub fn check(output: &Output, exit: i32, expected: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{said}");
    for expected in expected {
        assert!(said.contains(expected), "{expected} in\n{said}");
    }
}

#[test]
fn every_example_script_does_its_work_on_the_demo_site() {
    let folder = tempfile::tempdir().unwrap();
    let site = DemoSite::start();
    let (secrets, invoices) = (folder.path().join("secrets"), folder.path().join("invoices"));
    for made in [&secrets, &invoices] {
        fs::create_dir(made).unwrap();
    }
    fs::write(invoices.join("2026-11.pdf"), "%PDF-1.4\n").unwrap();
    fs::write(secrets.join("SHOP_PASSWORD"), "not the password").unwrap();
    let config = format!("secrets_dir = {secrets:?}\n\n[browser]\nupload_folders = [{invoices:?}]\n");
    let served = Served::start(folder.path(), &config);
    let run = |name: &str| act(&served, &example(folder.path(), &site, name));

    // Nobody has signed in, and then with a wrong password.
    check(&run("download.toml"), 1, &["AUTH_FAILED"]);
    check(&run("sign-in.toml"), 1, &["AUTH_FAILED"]);
    fs::write(secrets.join("SHOP_PASSWORD"), &site.password).unwrap();
    check(&run("sign-in.toml"), 0, &[]);
    check(&run("download.toml"), 0, &["report-2026-11.csv"]);
    check(&run("extract-table.toml"), 0, &["Rye", "2.65", "/prices.csv"]);
    check(&run("upload.toml"), 0, &[]);
    check(&run("board.toml"), 0, &[]);
}

#[test]
fn a_report_that_cannot_be_written_takes_nothing_from_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let site = DemoSite::start();
    let served = Served::start(folder.path(), "");
    let script = example(folder.path(), &site, "extract-table.toml");
    let acts = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.env("LC_ALL", "C").args(["--addr", served.address(), "act"]).arg(&script);
        program.args(["--report", "nowhere/run.html"]).args(more).current_dir(folder.path()).output().unwrap()
    };
    let told = acts(&["--json"]);
    let lines = String::from_utf8(told.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [answer, failure] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(answer["result"]["outcome"], "succeeded", "{answer}");
    assert!(failure["error"]["message"].as_str().unwrap().contains("nowhere/run.html"), "{failure}");
    assert_eq!(told.status.code(), Some(1));
    let told = acts(&[]);
    check(&told, 1, &["Rye", "nowhere/run.html"]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("capataz runs show "), "the end of what is told");
}

/// A script has actions, and the tasks below them are nobody's matter.
#[test]
fn an_option_that_chooses_among_tasks_is_refused_for_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let site = DemoSite::start();
    let served = Served::start(folder.path(), "");
    check(&act(&served, &example(folder.path(), &site, "extract-table.toml")), 0, &["Rye"]);
    let shows = |more: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.env("LC_ALL", "C").args(["--addr", served.address(), "runs", "show", "latest"]).args(more);
        program.output().unwrap()
    };
    check(&shows(&["--state", "failed"]), 2, &["is a script: it has actions and no tasks"]);
    check(&shows(&["--state", "failed", "--json"]), 0, &["\"kind\":\"script\""]);
    // Its outputs are shown in any case.
    check(&shows(&["--outputs"]), 0, &["Rye"]);
    check(&shows(&[]), 0, &["Rye"]);
}
