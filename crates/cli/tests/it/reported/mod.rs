//! A daemon with a run of each kind, and what the tests of reports ask of them.

#![allow(dead_code, reason = "each of the two test programs uses its part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::served::Served;

/// `lint` fails twice, with a log; `count` succeeds, and so does a task whose name and output are as wide as they can be.
const PLAN: &str = r#"
name = "nightly"
policy = { kind = "quorum", quorum_threshold = 0.9 }
retry = { delays_ms = [100], max_attempts = 2 }

[[waves]]
name = "checks"
[[waves.tasks]]
name = "count"
agent = "counter"
[[waves.tasks]]
name = "lint"
agent = "linter"
[[waves.tasks]]
name = "types"
agent = "linter"
[[waves.tasks]]
name = "a-task-whose-name-has-no-place-at-which-it-would-be-broken-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
agent = "wide"
"#;

/// The output of `read` breaks its rule, so that the phase is blocked.
const PIPELINE: &str = r#"
name = "review"
[[phases]]
name = "measure"
agent = "counter"
[[phases]]
name = "read"
agent = "counter"
output.schema = "title.json"
retry = { delays_ms = [0], max_attempts = 2 }
"#;

const TITLE: &str = r#"{"type": "object", "required": ["title"]}"#;

/// The page has no such button.
const SCRIPT: &str = r#"
name = "register"
[policy]
allowlist = ["{site}"]
[[actions]]
id = "open"
kind = "navigate"
url = "http://{site}/demo"
[[actions]]
id = "press"
kind = "click"
target = { role = "button", name = "Nowhere" }
timeout = "2s"
"#;

const AGENTS: &str = r#"
[[agents]]
name = "counter"
command = ["echo", '{"lines": 3, "names": ["a", "b"]}']
[[agents]]
name = "wide"
command = ["sh", "-c", "row='\"a cell that is rather wide\"'; for n in 1 2 3 4 5; do row=\"$row, $row\"; done; echo \"[[$row]]\""]
[[agents]]
name = "linter"
command = ["sh", "-c", "for n in 1 2 3; do echo the $n. finding >&2; done; exit 75"]
retryable_exit_codes = [75]
"#;

/// The planner and the tools of examples/modes, a crew, and the specs of the project.
pub struct Reported {
    // It ends before its folder does.
    pub daemon: Served,
    pub folder: tempfile::TempDir,
}

/// A run whose report is wanted.
pub struct Made {
    pub kind: &'static str,
    pub run: String,
    /// What has to be seen of its failure, or of what holds it up.
    pub failure: &'static str,
}

impl Reported {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let here = folder.path().display().to_string();
        fs::copy(root.join("examples/modes/rules.toml"), folder.path().join("rules.toml")).unwrap();
        fs::create_dir_all(folder.path().join("examples/plans")).unwrap();
        let modes = fs::read_to_string(root.join("examples/modes/capataz.toml")).unwrap();
        let modes = modes
            .replace("/tmp/capataz-scratch", &here)
            .replace("\"ls\", \"-1\", \"examples\"", &format!("\"ls\", \"-1\", \"{here}/examples\""));
        let specs = root.join("specs").display().to_string();
        let config = format!("specs_dir = {specs:?}\n{modes}\n{AGENTS}");
        for (name, text) in [("plan.toml", PLAN), ("review.toml", PIPELINE), ("title.json", TITLE)] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let daemon = Served::start(folder.path(), &config);
        Self { folder, daemon }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn capataz(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        program.args(arguments).current_dir(self.folder.path());
        program.env("LC_ALL", "C").env("CAPATAZ_ADDR", self.daemon.url()).env("NO_COLOR", "1");
        program.output().unwrap()
    }

    /// What the command prints, which ends with this exit code.
    #[track_caller]
    pub fn says(&self, arguments: &[&str], exit: i32) -> String {
        let output = self.capataz(arguments);
        let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(exit), "{arguments:?} {told:?}");
        told.0.into_owned()
    }

    #[track_caller]
    pub fn document(&self, arguments: &[&str], exit: i32) -> Value {
        serde_json::from_str(&self.says(&[arguments, &["--json"]].concat(), exit)).unwrap()
    }

    #[track_caller]
    fn started(&self, arguments: &[&str], exit: i32) -> String {
        let started = self.document(arguments, exit);
        started["run_id"].as_str().ok_or(&started).unwrap().to_owned()
    }

    /// A plan that fails, an ask that is refused, a pipeline that is blocked, and an execution that goes beyond its limit.
    #[track_caller]
    pub fn one_of_each(&self) -> Vec<Made> {
        let made = |kind, run, failure| Made { kind, run, failure };
        vec![
            made("plan", self.started(&["run", "plan.toml"], 1), "QUORUM_NOT_MET"),
            made(
                "ask",
                self.started(&["ask", "hm", "--spec", "kiro-adaptive-assistance", "--language", "en"], 1),
                "VALIDATION_ERROR",
            ),
            made(
                "pipeline",
                self.started(&["pipeline", "run", "review.toml", "--exit-on-question"], 5),
                "VALIDATION_ERROR",
            ),
            made(
                "mode",
                self.started(&["mode", "run", "how many examples are there", "--max-steps", "1"], 1),
                "",
            ),
        ]
    }

    /// A script that does not find its button.
    #[track_caller]
    pub fn script(&self) -> Made {
        let script = SCRIPT.replace("{site}", self.daemon.address());
        fs::write(self.path("register.toml"), script).unwrap();
        Made { kind: "script", run: self.started(&["act", "register.toml"], 1), failure: "TARGET_NOT_FOUND" }
    }

    /// The report of a run, in a language.
    #[track_caller]
    pub fn report(&self, made: &Made, language: &str) -> PathBuf {
        let name = format!("{}.{language}.html", made.kind);
        self.says(&["runs", "report", &made.run, "-o", &name, "--lang", language], 0);
        self.path(&name)
    }
}
