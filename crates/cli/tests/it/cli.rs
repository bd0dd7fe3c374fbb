//! The command from its users' view: arguments in, text and exit codes out.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// An address where no daemon listens: the discard port of this machine.
const NOBODY: &str = "http://127.0.0.1:9";

fn capataz(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.args(arguments).env_remove("CAPATAZ_ADDR").env_remove("CAPATAZ_LISTEN").stdin(Stdio::null());
    command.env_remove("CAPATAZ_LANG").env_remove("CAPATAZ_BOXES").env_remove("COLUMNS").env("LC_ALL", "C");
    command
}

#[track_caller]
fn check(arguments: &[&str], exit: i32, stdout: &str, stderr: &str) -> Output {
    check_command(capataz(arguments), exit, stdout, stderr)
}

#[track_caller]
fn check_command(mut command: Command, exit: i32, stdout: &str, stderr: &str) -> Output {
    let output = command.output().expect("the command starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(exit), "{command:?}\n{out}\n{err}");
    assert!(out.contains(stdout), "{stdout} in stdout of {command:?}\n{out}");
    assert!(err.contains(stderr), "{stderr} in stderr of {command:?}\n{err}");
    output
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("stdout is one JSON document")
}

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans")
}

fn plan_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(plans()).expect("the examples are there");
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_example_is_a_valid_plan() {
    let files = plan_files();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        check(&["contract", "check", &file.to_string_lossy()], 0, "a valid plan", "");
    }
}

#[test]
fn the_example_crew_has_every_agent_of_the_examples() {
    let crew = plans().join("crew/capataz.toml");
    let data = TempDir::new().expect("a folder");
    let data_dir = data.path().to_string_lossy();
    let crew = crew.to_string_lossy();
    let checked =
        check(&["serve", "--config", &crew, "--data-dir", &data_dir, "--check", "--json"], 0, "", "");
    let settings = json(&checked);
    let agents =
        settings["settings"].as_array().into_iter().flatten().find(|setting| setting["key"] == "agents");
    let known: BTreeSet<String> = agents
        .and_then(|setting| setting["value"].as_str())
        .unwrap_or_default()
        .split(", ")
        // The name, and how many tasks it has at a time.
        .filter_map(|agent| Some(agent.split_once(" (")?.0.to_owned()))
        .collect();
    for file in plan_files() {
        let text = fs::read_to_string(&file).expect("the plan is text");
        let asked = text.split("agent\": \"").skip(1).chain(text.split("\nagent = \"").skip(1));
        for agent in asked.filter_map(|rest| rest.split('"').next()) {
            assert!(known.contains(agent), "{agent} of {} in {known:?}", file.display());
        }
    }
}

#[test]
fn violations_are_all_told_with_their_paths() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    fs::write(&file, "name = \"\"\n[[tasks]]\nname = \"a b\"\n").expect("a file");
    let file = file.to_string_lossy();
    let told = "3 violations\n  name: the plan's name is missing (required)\n";
    check(&["contract", "check", &file], 2, "", told);
    check(&["run", &file, "--addr", NOBODY], 2, "", "tasks[0].agent: the agent is missing (required)");
    let spanish = "3 violaciones\n  name: falta el nombre del plan (required)\n";
    check(&["contract", "check", &file, "--lang", "es"], 2, "", spanish);
    check(&["run", &file, "--lang", "es"], 2, "", "tasks[0].agent: falta el agente (required)");
    let output = check(&["contract", "check", &file, "--json"], 2, "", "");
    let answer = json(&output);
    assert_eq!(answer["valid"], Value::Bool(false));
    assert_eq!(answer["violations"].as_array().map(Vec::len), Some(3), "{answer}");
}

/// TOML takes a key for one of the table above it.
#[test]
fn a_key_in_the_wrong_table_is_told_with_the_places_that_know_it() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    let text =
        "name = \"p\"\n[policy]\non_high = \"pause\"\nretry = {}\n[[tasks]]\nname = \"a\"\nagent = \"x\"\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_string_lossy();
    let english = "\
  policy.on_high: there is no key `on_high` here; it is a key of the top level (unknown_key)
  policy.retry: there is no key `retry` here; it is a key of the top level and of `tasks[]` (unknown_key)
";
    check(&["contract", "check", &file], 2, "", english);
    let spanish = "\
  policy.on_high: no hay ninguna clave `on_high` aquí; la hay en el nivel superior (unknown_key)
  policy.retry: no hay ninguna clave `retry` aquí; la hay en el nivel superior y en `tasks[]` (unknown_key)
";
    check(&["contract", "check", &file, "--lang", "es"], 2, "", spanish);
}

/// A key that is none, a value of another type, and what rules say of the rest; not what may follow from the former.
#[test]
fn what_has_no_form_and_what_breaks_rules_is_told_at_once() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("plan.toml");
    let plan = "\
nmae = \"p\"
policy = { kind = \"quorum\", quorum_threshold = 2.0 }
[[tasks]]
name = 5
agent = \"a\"
[[tasks]]
name = \"a b\"
critical = \"yes\"
";
    fs::write(&file, plan).expect("a file");
    let file = file.to_string_lossy();
    let told = "6 violations
  nmae: there is no key `nmae` here; did you mean `name`? (unknown_key)
  tasks[0].name: expected a string, found a number (type)
  tasks[1].critical: expected a boolean, found a string (type)
  tasks[1].name: a task's name has letters, digits, `.`, `_` and `-` only (characters)
  tasks[1].agent: the agent is missing (required)
  policy.quorum_threshold: must be greater than 0 and at most 1, not 2 (range)
";
    check(&["contract", "check", &file], 2, "", told);
    check(&["run", &file, "--addr", NOBODY], 2, "", told);
    check(&["contract", "check", &file, "--lang", "es"], 2, "", "tasks[1].agent: falta el agente (required)");
    let expected = [
        "nmae unknown_key",
        "tasks[0].name type",
        "tasks[1].critical type",
        "tasks[1].name characters",
        "tasks[1].agent required",
        "policy.quorum_threshold range",
    ];
    let in_short = |violations: &Value| {
        let violations = violations.as_array().expect("violations").iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        violations.map(|one| format!("{} {}", text(&one["path"]), text(&one["rule"]))).collect::<Vec<_>>()
    };
    let answer = json(&check(&["contract", "check", &file, "--json"], 2, "", ""));
    assert_eq!(in_short(&answer["violations"]), expected);
    let answer = json(&check(&["run", &file, "--addr", NOBODY, "--json"], 2, "", ""));
    assert_eq!(in_short(&answer["error"]["violations"]), expected);
}

/// Without a daemon, in text, in Spanish and in JSON.
// S000-C6-09
#[test]
fn an_error_is_explained_by_the_rule_that_classifies_it() {
    check(
        &["errors", "explain", "STATE_CORRUPTED"],
        0,
        "STATE_CORRUPTED\nSeverity  CRITICAL: the table of codes\n",
        "",
    );
    check(
        &["errors", "explain", "exit", "code", "1"],
        0,
        "EXIT_CODE_1\nSeverity  HIGH: no rule knows it",
        "",
    );
    check(
        &["errors", "explain", "E1", "--severity", "low", "--lang", "es"],
        0,
        "Severidad     LOW: lo declara el plan o el error\n",
        "",
    );
    let answer = json(&check(&["errors", "explain", "E1: the BUILD has failed", "--json"], 0, "", ""));
    assert_eq!((&answer["severity"], &answer["level"]), (&serde_json::json!("HIGH"), &serde_json::json!(3)));
    assert_eq!(
        answer["rule"],
        serde_json::json!({"kind": "pattern", "number": 2, "pattern": "test.*fail|build.*fail|timeout|exhausted"})
    );
    assert_eq!(answer["retry"], serde_json::json!({"retried": false, "list": "none", "entry": null}));
    assert_eq!(answer["flags"]["requires_user_action"], true);
    let answer = json(&check(&["errors", "explain", "GATEWAY_TIMEOUT", "--json"], 0, "", ""));
    assert_eq!(
        answer["retry"],
        serde_json::json!({"retried": true, "list": "retryable", "entry": "TIMEOUT"})
    );
    let answer = json(&check(&["errors", "explain", "TASK_TIMEOUT", "--json"], 0, "", ""));
    assert_eq!(answer["page"], "docs/errors/TASK_TIMEOUT.md");
    assert_eq!(answer["retry"]["list"], "never");
}

/// What people have set for all programs: no colours, and how wide their terminal is.
#[test]
fn a_narrow_terminal_and_no_color_are_obeyed() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("state.json");
    fs::write(&file, "{").expect("a file");
    let file = file.to_string_lossy();
    let widths = |columns: &str| -> BTreeSet<usize> {
        let mut command = capataz(&["sessions", "validate", &file, "--boxes"]);
        command.env("COLUMNS", columns);
        let output = command.output().expect("the command starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().map(|line| line.chars().count()).collect()
    };
    assert_eq!(widths("40"), BTreeSet::from([40]));
    assert_eq!(widths("200"), BTreeSet::from([56]));
    assert_eq!(widths("nonsense"), BTreeSet::from([56]));
    // The variable asks for the boxes as well, and what means no does not.
    let begins = |boxes: &str| {
        let mut command = capataz(&["sessions", "validate", &file]);
        command.env("CAPATAZ_BOXES", boxes);
        String::from_utf8_lossy(&command.output().expect("the command starts").stderr).chars().next()
    };
    assert_eq!(["1", "true", "0", "false", ""].map(begins), ['+', '+', '✗', '✗', '✗'].map(Some));

    // `script` gives the command a terminal.
    let on_a_terminal = |set: &[(&str, &str)], options: &str| {
        let line = format!("{} sessions validate {file} {options}", env!("CARGO_BIN_EXE_capataz"));
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm").env("LC_ALL", "C");
        command.envs(set.iter().copied());
        let output = command.output().expect("the terminal starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("SESSION_CORRUPTED"), "{text}");
        text.contains("\u{1b}[")
    };
    assert!(on_a_terminal(&[], ""));
    assert!(!on_a_terminal(&[("NO_COLOR", "1")], ""));
    assert!(!on_a_terminal(&[], "--color never"));
    assert!(on_a_terminal(&[("NO_COLOR", "1")], "--color always"), "who asks for colours has them");
}

#[test]
fn documents_of_every_kind_are_checked_without_a_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = TempDir::new().expect("a folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("a file");
        file.to_string_lossy().into_owned()
    };
    let seed = |name: &str| {
        let file = root.join("crates/contracts/tests/fixtures/seed-001").join(name);
        fs::read_to_string(file).expect("the seed's document")
    };
    let state = r#"{"version": "1.0.0", "updated_at": "2024-01-01T00:00:00Z"}"#;
    let plan = "name = \"p\"\n[[tasks]]\nname = \"t\"\nagent = \"a\"\n";
    let script = fs::read_to_string(root.join("examples/scripts/sign-in.toml")).expect("the example");
    // A valid document, one that breaks a rule, and the place of it.
    let rows = [
        (
            "request",
            seed("full.request.json"),
            seed("full.request.json").replace("0.85", "1.85"),
            "confidence",
        ),
        (
            "response",
            seed("full.response.json"),
            seed("full.response.json").replace("markdown", "rtf"),
            "format",
        ),
        ("plan", plan.to_owned(), plan.replace("agent", "agnet"), "agnet"),
        ("script", script.clone(), script.replacen("[[actions]]", "[[actoins]]", 1), "actoins"),
        ("session", state.to_owned(), state.replace("\"version\"", "\"verison\""), "version"),
    ];
    for (kind, valid, invalid, place) in rows {
        let extension = if matches!(kind, "plan" | "script") { "toml" } else { "json" };
        let good = write(&format!("good-{kind}.{extension}"), &valid);
        let bad = write(&format!("bad-{kind}.{extension}"), &invalid);
        check(&["contract", "check", &good, "--kind", kind], 0, "[OK]", "");
        check(&["contract", "check", &bad, "--kind", kind], 2, "", place);
        for (file, exit, valid) in [(&good, 0, true), (&bad, 2, false)] {
            let answer = json(&check(&["contract", "check", file, "--kind", kind, "--json"], exit, "", ""));
            assert_eq!(answer["kind"], kind, "{answer}");
            assert_eq!(answer["valid"], Value::Bool(valid), "{answer}");
            let violations = answer["violations"].as_array().map_or(0, Vec::len);
            assert_eq!(violations == 0, valid, "{kind}: {answer}");
        }
    }
    let request = write("request.json", &seed("full.request.json"));
    check(&["contract", "check", &request, "--kind", "request", "--format", "toml"], 2, "", "never TOML");
    check(&["contract", "check", "no-such.json", "--kind", "response"], 2, "", "cannot read no-such.json");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    check(&["runs", "frobnicate"], 2, "", "unrecognized subcommand");
    // A command of a group, without the group.
    check(&["cancel", "latest"], 2, "", "tip: a similar subcommand exists: 'runs cancel'");
    check(&["show", "latest"], 2, "", "exist: 'runs show', ");
    check(&["cancel", "--lang", "es"], 2, "", "'runs cancel'");
    // No command is needed for it, and one does a part of it.
    check(&["reload"], 2, "", "tip: a similar subcommand exists: 'router reload'");
    check(&["reload"], 2, "", "tip: a daemon reads its configuration and its specs again by itself");
    check(&["reload", "--lang", "es"], 2, "", "sugerencia: un daemon vuelve a leer su configuración");
    check(&["run", "plan.toml", "--timeout", "10"], 2, "", "a unit is missing");
    check(&["run", "no-such-plan.toml"], 2, "", "cannot read no-such-plan.toml");
    check(&["runs", "list", "--addr", "http://["], 2, "", "http://[");
    check(&["serve", "--addr", "http://127.0.0.1:1"], 2, "", "by --listen");
    check(&["--addr", "http://127.0.0.1:1", "serve", "--check"], 2, "", "by --listen");
    check(&["demo", "--path", "/no/such/folder"], 2, "", "/no/such/folder is not a folder");
    check(&["--help"], 0, "Examples:", "");
}

#[test]
fn an_absent_daemon_is_exit_code_3() {
    check(&["runs", "list", "--addr", NOBODY], 3, "", "capataz serve");
    let output = check(&["runs", "list", "--addr", NOBODY, "--json"], 3, "", "");
    let answer = json(&output);
    assert_eq!((&answer["error"]["code"], &answer["error"]["exit_code"]), (&"UNAVAILABLE".into(), &3.into()));
    assert_eq!(answer["error"]["address"], NOBODY);
    let says = |key: &str| answer["error"][key].as_str().unwrap().to_owned();
    assert!(says("message").contains(NOBODY) && says("hint").contains("capataz serve"), "{answer}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = capataz(&["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

const WRONG: &str = "lisen = \"127.0.0.1:0\"\ndrain_timeout = \"5 parsecs\"\n[[agents]]\nname = \"a\"\n";

#[test]
fn all_that_is_wrong_with_a_configuration_is_told_a_line_each_in_both_languages() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("capataz.toml"), WRONG).expect("a file");
    let said = |arguments: &[&str]| {
        let output = capataz(arguments).current_dir(&folder).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = if arguments.contains(&"--json") { output.stdout } else { output.stderr };
        String::from_utf8(text).expect("text")
    };
    let english = "\
the configuration is wrong: 3 violations
  capataz.toml:1:1: lisen: unknown key; did you mean `listen`?
  capataz.toml:2:17: drain_timeout: there is no such unit; use d, h, m, s or ms
  capataz.toml:3:1: agents[0]: the key `command` is missing
";
    assert_eq!(said(&["serve"]), english);
    assert_eq!(said(&["serve", "--check"]), english);
    let spanish = "\
la configuración es incorrecta: 3 violaciones
  capataz.toml:1:1: lisen: clave desconocida; ¿quizá `listen`?
  capataz.toml:2:17: drain_timeout: no hay tal unidad; use d, h, m, s o ms
  capataz.toml:3:1: agents[0]: falta la clave `command`
";
    assert_eq!(said(&["--lang", "es", "serve"]), spanish);
    let told: Value = serde_json::from_str(&said(&["serve", "--json"])).expect("JSON");
    assert_eq!(told["error"]["code"], "VALIDATION_ERROR");
    // Of each problem its place, its key and its text are apart.
    let file = "capataz.toml";
    let unknown = "unknown key; did you mean `listen`?";
    let (unit, missing) = ("there is no such unit; use d, h, m, s or ms", "the key `command` is missing");
    let expected = json!([
        { "file": file, "line": 1, "column": 1, "path": "lisen", "message": unknown, "near": "listen" },
        { "file": file, "line": 2, "column": 17, "path": "drain_timeout", "message": unit },
        { "file": file, "line": 3, "column": 1, "path": "agents[0]", "message": missing },
    ]);
    assert_eq!(told["error"]["problems"], expected);
}

/// Programs read the same texts wherever they run, and people those of their language.
#[test]
fn json_is_english_whatever_the_language_of_people_is() {
    let folder = TempDir::new().expect("a folder");
    let said = |arguments: &[&str], language: &str| {
        let mut command = capataz(arguments);
        command.env_remove("LC_ALL").env_remove("LC_MESSAGES").env("LANG", language).current_dir(&folder);
        command.env_remove("CAPATAZ_DATA_DIR");
        let output = command.output().expect("it runs");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"))
    };
    fs::write(folder.path().join("wrong.toml"), WRONG).expect("a file");
    let lacking = "data_dir = \"data\"\n[[agents]]\nname = \"a\"\ncommand = [\"no-such-program\"]\n";
    fs::write(folder.path().join("capataz.toml"), lacking).expect("a file");
    fs::create_dir_all(folder.path().join("crew/agents")).expect("a folder");
    fs::write(folder.path().join("crew/plan.toml"), "").expect("a file");
    for (command, spanish) in [
        // Nobody answers, a file is not there, something is in the way, and what is wrong has places.
        (&["runs", "list", "--addr", NOBODY][..], "no se puede llegar al daemon"),
        (&["contract", "check", "nowhere.toml"], "no se puede leer"),
        (&["init", "crew"], "no se escribe nada, porque esto ya existe:"),
        (&["serve", "--config", "wrong.toml"], "la configuración es incorrecta"),
        (&["serve", "--check"], "no hay ningún programa no-such-program"),
        (&["doctor", "--addr", NOBODY], "no hay ningún programa no-such-program"),
        (&["doctor", "--config", "wrong.toml", "--addr", NOBODY], "clave desconocida"),
    ] {
        let typed = [command, &["--json"]].concat();
        let [english, _] = said(&typed, "C");
        let [out, _] = said(&typed, "es_MX.UTF-8");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("one document");
        // Free space is another one by now.
        let steady = |mut told: Value| {
            let checks = told["checks"].as_array_mut().into_iter().flatten();
            checks.filter(|check| check["check"] == "free_space").for_each(|check| *check = Value::Null);
            told
        };
        assert_eq!(steady(read(&out)), steady(read(&english)), "{command:?}");
        let [out, err] = said(command, "es_MX.UTF-8");
        assert!(format!("{out}{err}").contains(spanish), "{command:?}\n{out}\n{err}");
    }
    // What is written for people stays in their language.
    let [answer, _] = said(&["init", "made", "--json"], "es_MX.UTF-8");
    assert!(answer.contains("made/plan.toml"), "{answer}");
    let made = fs::read_to_string(folder.path().join("made/capataz.toml")).expect("a file");
    assert!(made.starts_with("# La configuración de esta cuadrilla."), "{made}");
}

/// A daemon on a free port, which ends with the test.
struct Daemon {
    child: Child,
    addr: String,
    _folder: TempDir,
}

impl Daemon {
    fn start(config: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("capataz.toml");
        fs::write(&file, config).expect("a file");
        let (file, data_dir) = (file.to_string_lossy(), folder.path().join("data"));
        let data_dir = data_dir.to_string_lossy();
        let arguments =
            ["serve", "--config", &file, "--data-dir", &data_dir, "--listen", "127.0.0.1:0", "--json"];
        let mut child =
            capataz(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a daemon");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its stdout is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let ready: Value = serde_json::from_str(&line).expect("it says so in JSON");
        let addr = format!("http://{}", ready["address"].as_str().unwrap_or_default());
        Self { child, addr, _folder: folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = capataz(arguments);
        command.env("CAPATAZ_ADDR", &self.addr);
        command
    }

    #[track_caller]
    fn check(&self, arguments: &[&str], exit: i32, stdout: &str, stderr: &str) -> Output {
        check_command(self.command(arguments), exit, stdout, stderr)
    }

    /// Runs the command with a plan on its stdin.
    #[track_caller]
    fn run(&self, plan: &str, options: &[&str], exit: i32, stdout: &str, stderr: &str) -> Output {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("plan.toml");
        fs::write(&file, plan).expect("a file");
        let mut command = self.command(&["run", "-"]);
        command.args(options).stdin(fs::File::open(file).expect("the file"));
        check_command(command, exit, stdout, stderr)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _: io::Result<()> = self.child.kill();
        let _ = self.child.wait();
    }
}

const CREW: &str = r#"
[[agents]]
name = "echo"
category = "utility"
command = ["cat"]

[[agents]]
name = "broken"
command = ["sh", "-c", "echo 'out of paper' >&2; exit 3"]

[[agents]]
name = "endless"
command = ["sleep", "600"]
"#;

const MIXED: &str = r#"
name = "mixed"
[[tasks]]
name = "one"
agent = "echo"
input = { a = 1 }
[[tasks]]
name = "two"
agent = "broken"
"#;

// S000-C2-17
#[test]
fn a_run_from_start_to_report() {
    let daemon = Daemon::start(CREW);
    daemon.check(&["runs", "list"], 0, "No runs.", "");
    daemon.check(&["runs", "show", "latest"], 1, "", "there are no runs yet");

    daemon.run(MIXED, &["--watch", "--label", "env=test"], 0, "two  failed after", "");
    daemon.run(MIXED, &["--boxes"], 0, "Result: 1/2 (50%) - QUORUM MET", "");
    daemon.run(MIXED, &[], 0, "\n  wave-1: quorum met: 1/2 (50%)\n", "");
    let output = daemon.run(MIXED, &["--json"], 0, "", "");
    let answer = json(&output);
    assert_eq!(answer["result"]["outcome"], "succeeded_with_failures", "{answer}");
    assert_eq!(answer["result"]["tasks"][0]["output"]["a"], 1, "{answer}");

    let all_must = format!("{MIXED}\n[policy]\nkind = \"fail_fast\"\n");
    daemon.run(&all_must, &["--boxes"], 1, "Status: STOPPING", "");

    let output = daemon.check(&["runs", "list", "--label", "env=test", "--json"], 0, "", "");
    let answer = json(&output);
    let run_id = answer["runs"][0]["run_id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(answer["runs"].as_array().map(Vec::len), Some(1), "{answer}");
    daemon.check(&["runs", "show", &run_id[24..]], 0, "one   echo    COMPLETE", "");
    let failed = daemon.check(&["runs", "show", &run_id, "--state", "error"], 0, "1 COMPLETE, 1 FAILED", "");
    let failed = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(!failed.contains("one   echo") && failed.contains("two"), "{failed}");
    daemon.check(
        &["runs", "show", &run_id, "--state", "done"],
        2,
        "",
        "no state; the states are init, active",
    );
    daemon.check(&["runs", "logs", &run_id], 0, "| out of paper", "");
    let export = daemon.check(&["runs", "export", &run_id], 0, "", "");
    let events = String::from_utf8_lossy(&export.stdout);
    for (line, seq) in events.lines().zip(1_u64..) {
        let event: Value = serde_json::from_str(line).expect("an event on each line");
        assert_eq!(event["seq"], seq, "{line}");
    }
    daemon.check(&["runs", "watch", &run_id], 0, "mixed: succeeded_with_failures in ", "");
}

/// What a run tells at its end, its words alone: `T` for each time, and `ID` for its id.
fn lasting(told: &[u8]) -> String {
    let is_time = |word: &str| word.starts_with(|first: char| first.is_ascii_digit()) && word.ends_with('s');
    let is_id = |word: &str| word.len() >= 36 && word.bytes().filter(|byte| *byte == b'-').count() == 4;
    let of_line = |line: &str| {
        let words = line.split_whitespace().map(|word| match word.trim_matches(['`', '.']) {
            word if is_time(word) => "T".to_owned(),
            word if is_id(word) => "ID".to_owned(),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    String::from_utf8_lossy(told).lines().map(|line| format!("{}\n", of_line(line))).collect()
}

#[test]
fn results_are_lines_as_wide_as_the_terminal_in_both_languages() {
    let daemon = Daemon::start(CREW);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("mixed.toml");
    fs::write(&file, MIXED).expect("a file");
    let told = |columns: &str, options: &[&str]| {
        let mut command = daemon.command(&[&["run", &file.to_string_lossy(), "--wait"], options].concat());
        command.env("COLUMNS", columns);
        lasting(&check_command(command, 0, "", "").stdout)
    };
    let english = "\
Started ID
✗ NON_RETRYABLE_ERROR (HIGH): two: AGENT_COMMAND_FAILED: exit code 3: out of
paper
Reason: AGENT_COMMAND_FAILED is on no list, and only failures that are known
to pass are retried
-> Remove the cause by hand; the same attempt would fail again.
";
    let results = "\
✓ one succeeded T {\"a\":1}
✗ two failed T AGENT_COMMAND_FAILED
wave-1: quorum met: 1/2 (50%)
Warnings:
PARTIAL_SUCCESS: the run ended with failures: 1/2 (50%) tasks succeeded
mixed: succeeded_with_failures in T
look at it: capataz runs show ID
";
    let eighty = told("80", &[]);
    assert!(eighty.starts_with(english) && eighty.ends_with(results), "{eighty}");
    let spanish = "\
✓ one con éxito T {\"a\":1}
✗ two con error T AGENT_COMMAND_F…
wave-1: quórum alcanzado: 1/2 (50%)
Advertencias:
";
    let forty = told("40", &["--lang", "es"]);
    assert!(forty.contains(spanish), "{forty}");
    assert!(
        forty.contains(
            "\n✗ NON_RETRYABLE_ERROR (HIGH): two:\nAGENT_COMMAND_FAILED: código de salida\n3: out of paper\n"
        ),
        "{forty}"
    );
    // Where nothing bounds them, errors are whole lines.
    let piped = told("", &[]);
    assert!(
        piped.contains(
            "\n✗ NON_RETRYABLE_ERROR (HIGH): two: AGENT_COMMAND_FAILED: exit code 3: out of paper\n"
        ),
        "{piped}"
    );
    assert!(piped.ends_with(results), "{piped}");
}

/// The cascade of real runs, and what their agents' tasks have shown.
// S000-IN-05
#[test]
fn the_decisions_of_a_run_and_the_record_of_its_agents_are_told() {
    let daemon = Daemon::start(CREW);
    daemon.check(&["agents", "stats"], 0, "No task has ended in the newest 0 runs.", "");
    for _ in 0..2 {
        daemon.run(MIXED, &[], 0, "quorum met", "");
    }
    for expected in [
        "  registry     all 2 agents are known\n",
        "  lifecycle    one: INIT -> ACTIVE, taken by capataz-process-host-",
        "  timeout      one: has 30m for all attempts\n",
        "  retry        two: no attempt follows after 1: NON_RETRYABLE_ERROR: ",
        "  severity     two: HIGH: ",
        "  lifecycle    two: -> FAILED, attempts: 1, took ",
        "  aggregation  wave-1: goes on, 1/2 (50%) under quorum: quorum met: ",
        "  lifecycle    the run ended: succeeded_with_failures\n",
    ] {
        daemon.check(&["runs", "explain", "latest"], 0, expected, "");
    }
    let spanish = "  agregación     wave-1: continúa, 1/2 (50%) con quorum: quórum alcanzado: ";
    daemon.check(&["runs", "explain", "latest", "--lang", "es"], 0, spanish, "");
    let answer = json(&daemon.check(&["runs", "explain", "latest", "--json"], 0, "", ""));
    let first = &answer["decisions"][0];
    assert_eq!(
        (&first["contract"], &first["numbers"]["agents"]),
        (&"registry".into(), &2.into()),
        "{answer}"
    );

    daemon.check(&["agents", "stats", "broken"], 0, "broken  2      2         0/2 (0%)  2       0\n", "");
    daemon.check(&["agents", "stats", "--lang", "es"], 0, "AGENTE  TAREAS  INTENTOS  REINTENTADAS", "");
    let answer = json(&daemon.check(&["agents", "stats", "--json"], 0, "", ""));
    assert_eq!(answer["runs"], 2);
    let [broken, echo] = [&answer["agents"][0], &answer["agents"][1]];
    assert_eq!(
        (&broken["agent"], &broken["failed"], &broken["p95_ms"]),
        (&"broken".into(), &2.into(), &Value::Null)
    );
    assert_eq!(
        (&echo["agent"], &echo["tasks"], &echo["retry_rate"]),
        (&"echo".into(), &2.into(), &0.0.into())
    );
    assert!(echo["suggested_timeout_ms"].as_i64() >= Some(1_000), "{answer}");
}

/// The command between back quotes in the option of a box that has this mark.
fn command_in(shown: &str, mark: &str) -> String {
    let lines = shown.lines().map(|line| line.trim_matches(|edge| edge == '|' || edge == ' '));
    let text = lines.collect::<Vec<_>>().join(" ");
    let (_, option) = text.split_once(mark).unwrap_or_default();
    option.split('`').nth(1).unwrap_or_default().to_owned()
}

/// What is offered can be done from where it is read: as an answer to a question that is open, or as a command.
// S000-C2-13, S000-C2-14
#[test]
fn a_box_offers_what_can_be_done_and_the_command_that_does_it() {
    let daemon = Daemon::start(CREW);
    let plan = format!("on_high = \"pause\"\n{MIXED}\n[policy]\nkind = \"continue_all\"\n");
    daemon.run(&plan, &["--exit-on-question"], 5, "", "");
    let shown = daemon.check(&["runs", "show", "latest", "--boxes"], 0, "|  Options: ", "");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("|  -> `capataz runs resolve "), "{shown}");
    assert!(shown.contains("|  [s] Skip (not recommended) "), "{shown}");
    // A task that is done is not retried: it is taken back, and begins anew.
    let retry = ["runs", "retry", "latest", "one", "--boxes"];
    let refused = daemon.check(&retry, 1, "", "ERROR: INVALID_STATE_TRANSITION");
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    // The lines have the same commands, each in one piece.
    let lines = daemon.check(&retry[..4], 1, "", "✗ INVALID_STATE_TRANSITION (");
    let lines = String::from_utf8_lossy(&lines.stderr).into_owned();
    assert!(
        lines.contains("  [c] ") && lines.contains("  [a] Abort the run: `capataz runs cancel "),
        "{lines}"
    );
    assert_eq!(command_in(&lines, "[c] "), command_in(&refused, "[c] "));
    assert!(refused.contains("|  [a] Abort the run: `capataz runs cancel "), "{refused}");
    assert!(!refused.contains("[f]"), "{refused}");
    let command = command_in(&refused, "[c] ");
    let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    daemon.check(&arguments, 0, "[OK] one was taken back and begins anew (activation 2)", "");
    let open = || {
        let run = json(&daemon.check(&["runs", "show", "latest", "--json"], 0, "", ""));
        let questions = run["questions"].as_array().cloned().unwrap_or_default();
        let open = questions.into_iter().find(|question| question["answer"].is_null());
        open.map(|question| (question["question_id"].as_str().unwrap_or_default().to_owned(), question))
    };
    let (question, asked) = open().expect("a question");
    // A new try is called `retry`, whatever the contract calls it, and one command is there to be copied.
    assert_eq!(asked["options"], serde_json::json!(["fix_manual", "skip", "abort"]));
    assert!(shown.contains("retry`, or with") && !shown.contains("fix_manual"), "{shown}");
    daemon.check(&["runs", "resolve", "latest", &question, "retry"], 0, "[OK]", "");
    daemon.check(&["runs", "watch", "latest", "--exit-on-question"], 5, "", "");
    let (question, _) = open().expect("a question about the new try");
    daemon.check(&["runs", "resolve", "latest", &question, "skip"], 0, "[OK]", "");
    daemon.check(&["runs", "watch", "latest"], 0, "", "");
    let ended = daemon.check(&["runs", "show", "latest"], 0, "NON_RETRYABLE_ERROR", "");
    let ended = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(!ended.contains("Options:"), "{ended}");
}

/// Whoever waits for a run is told of what is HIGH while it goes on; what is milder is told by the report.
// S000-C6-21
#[test]
fn a_serious_failure_is_told_while_the_run_goes_on_and_a_warning_at_its_end() {
    let daemon = Daemon::start(CREW);
    let task = |name: &str, agent: &str, severity: &str| {
        format!("[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\nseverity = \"{severity}\"\n")
    };
    let plan = format!(
        "name = \"levels\"\non_high = \"pause\"\npolicy = {{ kind = \"continue_all\" }}\n{}{}",
        task("milder", "broken", "MEDIUM"),
        task("serious", "broken", "HIGH"),
    );
    // It waits for an answer, and says to what: nobody asked for the events to be shown.
    let waits =
        daemon.run(&plan, &["--exit-on-question", "--boxes"], 5, "|  ERROR: NON_RETRYABLE_ERROR ", "");
    let told = String::from_utf8_lossy(&waits.stdout).into_owned();
    assert!(told.contains("|  -> `capataz runs resolve ") && !told.contains("WARNING"), "{told}");
    let question = json(&daemon.check(&["runs", "show", "latest", "--json"], 0, "", ""));
    let question = question["questions"][0]["question_id"].as_str().unwrap_or_default().to_owned();
    daemon.check(&["runs", "resolve", "latest", &question, "skip"], 0, "[OK]", "");
    let report = daemon.check(&["runs", "watch", "latest", "--boxes"], 0, "|  WARNING: ", "");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let (end, warning) = (report.find("PARALLEL EXECUTION COMPLETE"), report.find("|  WARNING: "));
    assert!(end.is_some() && end < warning, "{report}");
}

#[test]
fn what_the_daemon_refuses_is_told() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"p\"\n[[tasks]]\nname = \"a\"\nagent = \"ecco\"\n";
    daemon.run(plan, &["--boxes"], 1, "", "|  ERROR: AGENT_NOT_FOUND");
    daemon.run(plan, &["--boxes"], 1, "", "|  - echo ");
    daemon.run(
        plan,
        &[],
        1,
        "",
        "✗ AGENT_NOT_FOUND (CRITICAL): The agent \"ecco\" does not exist\n  similar: echo\n",
    );
    let output = daemon.run(plan, &["--json"], 1, "", "");
    let error = &json(&output)["error"];
    assert_eq!(error["code"], "AGENT_NOT_FOUND");
    let violation = json!({
        "path": "plan.waves[0].tasks[0].agent",
        "code": "AGENT_NOT_FOUND",
        "message": "there is no agent \"ecco\"; similar: echo",
    });
    assert_eq!(error["violations"], json!([violation]));
    daemon.check(&["agents", "check", "echo"], 0, "1 of 1 names are known", "");
    daemon.check(&["agents", "check", "echo", "--lang", "es"], 0, "[OK] agente echo (utility)", "");
    daemon.check(&["agents", "check", "ecco", "--json"], 1, "\"can_proceed\":false", "");
    daemon.check(&["agents", "list"], 0, "  SERVED BY  WORKERS  AT ONCE  RUNNING  ", "");
    daemon.check(&["agents", "list"], 0, "echo                            utility", "");
    daemon.check(&["runs", "show", "ffffffff-ffff-7fff-bfff-ffffffffffff"], 1, "", "RUN_NOT_FOUND");
    daemon.check(&["runs", "show", "zzz"], 1, "", "begins or ends with \"zzz\"");
}

#[test]
fn a_plan_that_breaks_rules_is_told_the_names_that_the_daemon_does_not_know_as_well() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"p\"\n[[tasks]]\nname = \"no spaces\"\nagent = \"ecco\"\n";
    let told = |output: &Output| {
        let violations = json(output)["error"]["violations"].as_array().unwrap().clone();
        violations.iter().map(|one| format!("{} {}", one["path"], one["message"])).collect::<Vec<_>>()
    };
    let both = told(&daemon.run(plan, &["--json"], 2, "", ""));
    let [of_rules, of_names] = both.as_slice() else { panic!("{both:?}") };
    assert!(of_rules.starts_with("\"tasks[0].name\""), "{of_rules}");
    assert_eq!(of_names, r#""tasks[0].agent" "there is no agent \"ecco\"; similar: echo""#);
    // Without a daemon there is what needs none.
    let alone = told(&daemon.run(plan, &["--json", "--addr", "http://127.0.0.1:1"], 2, "", ""));
    assert_eq!(alone, both[..1]);
    // So it is where the form is wrong.
    let plan = plan.replace("\"no spaces\"", "5");
    let both = told(&daemon.run(&plan, &["--json"], 2, "", ""));
    let [of_form, of_names] = both.as_slice() else { panic!("{both:?}") };
    assert_eq!(of_form, r#""tasks[0].name" "expected a string, found a number""#);
    assert_eq!(of_names, r#""tasks[0].agent" "there is no agent \"ecco\"; similar: echo""#);
}

/// Scenario 2 of seed 000, as it draws it.
#[test]
fn people_are_addressed_in_the_language_of_their_locale_or_the_one_that_they_ask_for() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"p\"\n[[tasks]]\nname = \"a\"\nagent = \"ecco\"\n";
    let spanish = "\
|                                                      |
|  El agente \"ecco\" no existe                          |
|                                                      |
|  Agentes similares disponibles:                      |
|  - echo                                              |
|                                                      |
+------------------------------------------------------+
|  ACCIÓN REQUERIDA:                                   |
|  -> Corregir el nombre del agente en el plan         |
+======================================================+";
    daemon.run(plan, &["--lang", "es", "--boxes"], 1, "", spanish);
    daemon.run(plan, &["--lang", "en", "--boxes"], 1, "", "|  The agent \"ecco\" does not exist ");

    let unreachable = |variables: &[(&str, &str)]| {
        let mut command = capataz(&["--addr", NOBODY, "runs", "list"]);
        command.env_remove("LC_ALL").env_remove("LC_MESSAGES").env_remove("LANG");
        command.envs(variables.iter().copied());
        String::from_utf8_lossy(&command.output().expect("the command starts").stderr).into_owned()
    };
    let (spanish, english) = ("no se puede llegar al daemon", "cannot be reached");
    for (variables, told) in [
        (&[("LANG", "es_MX.UTF-8")][..], spanish),
        (&[("LANG", "es_MX.UTF-8"), ("LC_ALL", "C")], english),
        (&[("LANG", "es_MX.UTF-8"), ("LC_ALL", "")], spanish),
        (&[("LANG", "de_DE.UTF-8")], english),
        (&[("LC_ALL", "en_GB.UTF-8"), ("CAPATAZ_LANG", "es")], spanish),
        (&[], english),
    ] {
        let said = unreachable(variables);
        assert!(said.contains(told), "{variables:?}: {said}");
    }
}

#[test]
fn several_runs_are_cancelled_at_once() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"long\"\n[[tasks]]\nname = \"a\"\nagent = \"endless\"\n";
    let begun = || {
        let started = daemon.run(plan, &["--detach"], 0, "", "");
        String::from_utf8_lossy(&started.stdout).trim().to_owned()
    };
    let [one, two, three] = [begun(), begun(), begun()];
    // A name that is none of a run cancels nothing.
    daemon.check(&["runs", "cancel", &one, "nowhere", "--force"], 1, "", "nowhere");
    daemon.check(&["runs", "list", "--status", "running"], 0, &one, "");

    let output = daemon.check(&["runs", "cancel", &one, "latest", &three, "--force"], 0, &one, "");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&three) && said.lines().count() == 2, "{said}");
    // Who names a run twice is told that it counts once.
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{three} is named more than once")));
    // One that has ended does not keep the others.
    daemon.check(&["runs", "watch", &one], 1, "cancelled", "");
    let output = daemon.check(&["runs", "cancel", &one, &two, "--force"], 1, &two, "RUN_FINISHED");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!said.contains(&one), "{said}");
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{one} is not cancelled:\n")));
    daemon.check(&["runs", "watch", &two], 1, "cancelled", "");
}

#[test]
fn what_comes_of_each_of_several_runs_is_told_with_its_id() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"long\"\n[[tasks]]\nname = \"a\"\nagent = \"endless\"\n";
    let begun = || {
        let started = daemon.run(plan, &["--detach"], 0, "", "");
        String::from_utf8_lossy(&started.stdout).trim().to_owned()
    };
    let told = |arguments: &[&str], exit: i32| -> Vec<(String, Value)> {
        let output = daemon.check(&[&["runs"], arguments, &["--json"]].concat(), exit, "", "");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        told.map(|told| (told["run_id"].as_str().unwrap_or_default().to_owned(), told)).collect()
    };
    let ids = |told: &[(String, Value)]| told.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let [one, two, three] = [begun(), begun(), begun()];
    let cancelled = told(&["cancel", &two, &one, "--force"], 0);
    assert_eq!(ids(&cancelled), [two.clone(), one.clone()]);
    assert!(cancelled.iter().all(|(_, told)| told["seq"].is_u64()), "{cancelled:?}");
    for ended in [&one, &two] {
        daemon.check(&["runs", "watch", ended], 1, "cancelled", "");
    }
    // A refusal says of which run it is, also of a single one.
    let mixed = told(&["cancel", &one, &three, "--force"], 1);
    assert_eq!(ids(&mixed), [one.clone(), three.clone()]);
    assert_eq!(mixed[0].1["error"]["code"], "RUN_FINISHED");
    assert_eq!(ids(&told(&["cancel", &one], 1)), std::slice::from_ref(&one));
    daemon.check(&["runs", "watch", &three], 1, "cancelled", "");

    // Nothing is removed if one of the names is none of a run.
    let nobody = "00000000-0000-0000-0000-000000000000";
    for name in ["nowhere", nobody] {
        assert_eq!(told(&["delete", name, &one], 1)[0].1["error"]["code"], "RUN_NOT_FOUND");
    }
    daemon.check(&["runs", "list"], 0, &one, "");
    let removed = told(&["delete", &three, &one], 0);
    assert_eq!(ids(&removed), [three.clone(), one.clone()]);
    assert!(removed.iter().all(|(_, told)| told["bytes"].is_u64()), "{removed:?}");
    daemon.check(&["runs", "delete", &one, &two], 1, "", "RUN_NOT_FOUND");
    daemon.check(&["runs", "list"], 0, &two, "");
    daemon.check(&["runs", "delete", &two], 0, &two, "");
    daemon.check(&["runs", "list"], 0, "No runs.", "");
}

/// `capataz runs delete "$UNSET"` removes nothing, though every id begins with nothing.
#[test]
fn an_empty_name_is_none_of_a_run() {
    let daemon = Daemon::start(CREW);
    daemon.run(MIXED, &[], 0, "", "");
    for empty in ["", " "] {
        for command in [
            &["runs", "delete"][..],
            &["runs", "cancel"],
            &["runs", "show"],
            &["runs", "list", "--parent"],
            &["runs", "continue"],
            &["logs"],
            &["evidence"],
            &["mode", "show"],
            &["pipeline", "rollback"],
            &["browser", "close"],
        ] {
            daemon.check(&[command, &[empty]].concat(), 2, "", "the name of the run is empty");
        }
    }
    daemon.check(&["runs", "diff", "@3", "latest"], 2, "", "the name of the run is empty");
    daemon.check(&["runs", "delete", "", "--lang", "es"], 2, "", "el nombre de la ejecución está vacío");
    let told = json(&daemon.check(&["runs", "delete", "latest", "", "--json"], 2, "", ""));
    assert_eq!(told["error"]["exit_code"], 2, "{told}");
    daemon.check(&["runs", "show", "latest"], 0, "mixed", "");
}

/// Who types an address means a daemon, and would take the answer of another one for that of the named one.
#[test]
fn an_address_is_refused_by_whoever_talks_to_no_daemon() {
    let folder = TempDir::new().expect("a folder");
    for command in [
        "init",
        "demo",
        "demo site",
        "contract check plan.toml",
        "errors explain TASK_TIMEOUT",
        "act check script.toml",
        "pipeline list",
        "pipeline lint review",
        "mode list",
        "router eval --specs specs",
        "router lint",
        "rebuild",
        "backup monday",
        "restore monday",
        "verify",
        "man",
        "completions bash",
        "sessions validate",
        "sessions repair",
        "sessions restore",
        "browser doctor",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        for typed in [[&["--addr", NOBODY], &words[..]].concat(), [&words[..], &["--addr", NOBODY]].concat()]
        {
            let mut command = capataz(&typed);
            command.current_dir(&folder);
            check_command(command, 2, "", "this command talks to none");
        }
    }
    assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 0, "nothing was done");
    // One that stands in the environment is for others.
    let mut command = capataz(&["errors", "explain", "TASK_TIMEOUT"]);
    command.env("CAPATAZ_ADDR", NOBODY);
    check_command(command, 0, "TASK_TIMEOUT", "");
}

#[test]
fn a_run_that_goes_on_can_be_left_steered_and_stopped() {
    let daemon = Daemon::start(CREW);
    let plan = "name = \"long\"\n[[tasks]]\nname = \"a\"\nagent = \"endless\"\n";
    let left =
        daemon.run(plan, &["--timeout", "300ms", "--key", "k"], 4, "Started ", "still running after 300ms");
    let again = daemon.run(plan, &["--detach", "--key", "k"], 0, "", "capataz runs watch");
    let run_id = String::from_utf8_lossy(&again.stdout).trim().to_owned();
    assert!(String::from_utf8_lossy(&left.stdout).contains(&run_id), "{run_id}");
    daemon.check(&["runs", "pause", "latest"], 0, "[OK] Paused", "");
    daemon.check(&["runs", "list", "--status", "paused"], 0, &run_id, "");
    daemon.check(&["runs", "resume", "latest"], 0, "[OK] Resumed", "");
    daemon.check(&["runs", "extend", "latest", "a", "--by", "1h"], 0, "a now has until", "");
    daemon.check(&["runs", "extend", "latest", "b"], 1, "", "TASK_NOT_FOUND");
    daemon.check(&["runs", "cancel", "latest", "--force", "--reason", "enough"], 0, "[OK] Cancelling", "");
    daemon.check(&["runs", "watch", "latest"], 1, "cancelled: enough", "");
    daemon.check(&["runs", "resume", "latest"], 1, "", "RUN_FINISHED");
    daemon.check(&["runs", "release", "latest"], 0, "is in no quarantine", "");
    daemon.check(&["runs", "delete", "latest", "--json"], 0, "\"bytes\":", "");
    daemon.check(&["runs", "delete", &run_id], 1, "", "RUN_NOT_FOUND");
}

#[test]
fn the_demo_shows_all_of_it() {
    let folder = TempDir::new().expect("a folder");
    let subject = folder.path().join("subject");
    fs::create_dir(&subject).expect("a folder in it");
    fs::write(subject.join("a.py"), "print(1)  # TODO: more\n").expect("a file");
    let mut command = capataz(&["demo", "--boxes", "--path", &subject.to_string_lossy()]);
    command.env("TMPDIR", folder.path());
    let output = check_command(command, 0, "|  RETRY: ask-service ", "");
    let shown = String::from_utf8_lossy(&output.stdout);
    for expected in [
        "|  X  Agent 4 (slow-auditor): FAILED (timeout) ",
        "|  Result: 3/4 (75%) - QUORUM MET ",
        "|  WARNING: TASK_TIMEOUT ",
        "1 line in 1 file, mostly py; 1 open marker; the service says: all is well.",
        "demo: succeeded_with_failures in ",
        "✓  2 note     notes.append  note both",
        "see it again: capataz serve --data-dir ",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}
