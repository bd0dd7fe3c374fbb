//! `capataz mode …`, against the program as people start it, with the example of examples/modes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::served::Served;
use crate::terminal::Terminal;
use serde_json::{Value, json};

const QUERY: &str = "how many examples are there";

/// A folder with the example, which writes its notes there.
struct Example {
    folder: tempfile::TempDir,
    config: String,
}

impl Example {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/modes");
        fs::copy(own.join("rules.toml"), folder.path().join("rules.toml")).unwrap();
        fs::create_dir_all(folder.path().join("examples/plans")).unwrap();
        fs::create_dir_all(folder.path().join("examples/scripts")).unwrap();
        let config = fs::read_to_string(own.join("capataz.toml")).unwrap();
        let here = folder.path().display();
        let config = config
            .replace("/tmp/capataz-scratch", &here.to_string())
            .replace("\"ls\", \"-1\", \"examples\"", &format!("\"ls\", \"-1\", \"{here}/examples\""));
        Self { folder, config }
    }

    fn serve(&self) -> Served {
        Served::start(self.folder.path(), &self.config)
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.folder.path().join("notes.jsonl")).unwrap_or_default()
    }
}

fn capataz(daemon: &Served, arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.args(arguments).env("LC_ALL", "C").env("CAPATAZ_ADDR", daemon.url()).env("NO_COLOR", "1");
    program
}

/// Ends with this exit code and has this in its output.
#[track_caller]
fn says(daemon: &Served, arguments: &[&str], exit: i32, text: &str) -> Output {
    let output = capataz(daemon, arguments).output().unwrap();
    let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(exit), "{arguments:?} {told:?}");
    assert!(told.0.contains(text) || told.1.contains(text), "{arguments:?} {told:?}");
    output
}

#[track_caller]
fn document(daemon: &Served, arguments: &[&str], exit: i32) -> Value {
    let output = says(daemon, &[arguments, &["--json"]].concat(), exit, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The id of the question that the newest run waits for.
#[track_caller]
fn question(daemon: &Served) -> String {
    let run = document(daemon, &["runs", "show", "latest"], 0);
    let open = |question: &&Value| question.get("answer").is_none();
    let asked = run["questions"].as_array().unwrap().iter().find(open).expect("it asks");
    asked["question_id"].as_str().unwrap().to_owned()
}

// S004-UI-01
#[test]
fn the_modes_are_listed_in_both_languages_as_the_seed_describes_them() {
    let list = |language: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
        let output = program.args(["mode", "list", "--lang", language]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let spanish = list("es");
    for text in [
        "Ejecución directa paso a paso",
        "Planificador",
        "Planificación detallada con replanificación",
        "No supervisado",
        "Ejecución autónoma con plan validado",
    ] {
        assert!(spanish.contains(text), "{text}: {spanish}");
    }
    assert!(list("en").contains("Autonomous (validated plan)"));
}

#[test]
fn simple_does_one_step_after_the_other_and_asks_before_it_writes() {
    let example = Example::new();
    let daemon = example.serve();
    let run = ["mode", "run", QUERY, "--exit-on-question"];
    says(&daemon, &run, 5, "notes.append");
    assert_eq!(example.notes(), "");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    let watched = says(&daemon, &["runs", "watch", "latest"], 0, "");
    let text = String::from_utf8(watched.stdout).unwrap();
    for line in ["files.list", "text.count", "notes.append"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(example.notes(), "{\"note\":\"examples: 2\"}\n");
    let state = &document(&daemon, &["mode", "show", "latest"], 0)["state"];
    assert_eq!((&state["mode"], &state["step"]), (&json!("simple"), &json!(3)));
}

#[test]
fn a_plan_is_made_and_followed_and_goes_back_only_to_where_nothing_is_written() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--mode", "planner", "--exit-on-question"], 5, "");
    let state = document(&daemon, &["mode", "show", "latest"], 0)["state"].clone();
    assert_eq!(state["plan"]["steps"].as_array().unwrap().len(), 3);
    says(&daemon, &["mode", "checkpoint", "latest", "as I like it"], 0, "Checkpoint c2");
    says(&daemon, &["mode", "checkpoints", "latest"], 0, "as I like it");
    says(&daemon, &["mode", "rollback", "latest", "c7"], 1, "CHECKPOINT_NOT_FOUND");
    says(&daemon, &["mode", "rollback", "latest", "c1"], 0, "");
    says(&daemon, &["runs", "watch", "latest", "--exit-on-question"], 5, "");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    says(&daemon, &["runs", "watch", "latest"], 0, "");
    assert_eq!(example.notes().lines().count(), 1);
    says(&daemon, &["mode", "rollback", "latest", "c1"], 1, "RUN_FINISHED");
    let shown = says(&daemon, &["mode", "show", "latest"], 0, "");
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("count the names") && text.contains('✓'), "{text}");
}

#[test]
fn a_supervised_plan_waits_for_its_approval_and_a_changed_one_is_the_next_revision() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--mode", "supervised", "--exit-on-question"], 5, "");
    let run = document(&daemon, &["mode", "show", "latest"], 0);
    let mut plan = run["state"]["plan"].clone();
    let plan = plan.as_object_mut().unwrap();
    plan.retain(|key, _| key == "steps");
    plan["steps"].as_array_mut().unwrap().pop();
    let file = example.folder.path().join("plan.json");
    fs::write(&file, json!(plan).to_string()).unwrap();
    let file = file.to_str().unwrap();
    fs::write(example.folder.path().join("bad.json"), r#"{"steps": []}"#).unwrap();
    let bad = example.folder.path().join("bad.json");
    says(&daemon, &["mode", "edit", "latest", "--plan-file", bad.to_str().unwrap()], 2, "minItems");
    says(&daemon, &["mode", "edit", "latest", "--plan-file", file], 0, "");
    says(&daemon, &["mode", "approve", "latest"], 0, "");
    says(&daemon, &["runs", "watch", "latest"], 0, "");
    let state = &document(&daemon, &["mode", "show", "latest"], 0)["state"];
    assert_eq!((&state["plan"]["revision"], &state["step"]), (&json!(2), &json!(2)));
    assert_eq!(example.notes(), "");
    says(&daemon, &["mode", "approve", "latest"], 1, "");
}

// S004-UI-02
#[test]
fn a_mode_that_is_set_is_the_one_of_the_next_query_of_that_session() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "set", "planner", "--session", "shop"], 0, "");
    daemon.signal("KILL");
    drop(daemon);
    let daemon = example.serve();
    let runs_in_its_mode = |daemon: &Served| {
        says(daemon, &["mode", "run", QUERY, "--session", "shop", "--exit-on-question"], 5, "");
        assert_eq!(document(daemon, &["mode", "show", "latest"], 0)["state"]["mode"], "planner");
        says(daemon, &["runs", "cancel", "latest"], 0, "");
    };
    runs_in_its_mode(&daemon);
    daemon.signal("KILL");
    drop(daemon);
    let daemon = example.serve();
    runs_in_its_mode(&daemon);
    says(&daemon, &["mode", "set", "wild", "--session", "shop"], 2, "possible values");
    let chosen = document(&daemon, &["mode", "set", "simple", "--session", "shop"], 0);
    assert_eq!(chosen["before"], "planner");
}

#[test]
fn what_is_to_be_approved_takes_no_tool_away_and_files_are_what_prompts_tell() {
    let example = Example::new();
    let daemon = example.serve();
    let folder = example.folder.path().join("examples");
    fs::write(folder.join("plans/one.toml"), "").unwrap();
    let folder = folder.to_str().unwrap();
    let run =
        ["mode", "run", QUERY, "--approve", "text.count", "--workspace", folder, "--file", "plans/one.toml"];
    // The step before it is done by a tool that nobody has named.
    says(&daemon, &[&run[..], &["--exit-on-question"]].concat(), 5, "text.count");
    let state = &document(&daemon, &["mode", "show", "latest"], 0)["state"];
    assert_eq!((&state["step"], &state["errorCount"]), (&json!(1), &json!(0)));
    let logged = says(&daemon, &["runs", "logs", "latest", "--json"], 0, "");
    let accepted: Value =
        serde_json::from_slice(logged.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let of_run = &accepted["event"]["run_accepted"]["mode"];
    assert_eq!(of_run["current_file"], "plans/one.toml", "{accepted}");
    assert_eq!(of_run["workspace"], json!(["plans/one.toml"]));
    let mut tools: Vec<&str> =
        of_run["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["files.list", "notes.append", "text.count"]);
    says(&daemon, &["runs", "cancel", "latest"], 0, "");
}

/// The lines of what is told, each with its words parted by one space.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_paused_execution_calls_nothing_whatever_is_approved_until_it_is_resumed() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--exit-on-question"], 5, "notes.append");
    let run = document(&daemon, &["runs", "show", "latest"], 0)["run_id"].as_str().unwrap().to_owned();
    let seq = |daemon: &Served| document(daemon, &["runs", "show", "latest"], 0)["seq"].as_u64().unwrap();
    let stands = |daemon: &Served| {
        let state = document(daemon, &["mode", "show", "latest"], 0)["state"].clone();
        (state["executionState"].as_str().unwrap().to_owned(), state["step"].as_u64().unwrap())
    };
    let paused = says(&daemon, &["mode", "pause", "latest"], 0, "");
    assert_eq!(lines(&paused), [format!("[OK] Paused {run}: no new attempts; running tasks go on.")]);
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    assert_eq!(stands(&daemon), ("paused".to_owned(), 2), "files.list and text.count were called before");
    says(&daemon, &["mode", "show", "latest"], 0, "paused");
    assert_eq!(example.notes(), "");
    // The number of the event that says so.
    let before = seq(&daemon);
    let resumed = document(&daemon, &["mode", "resume", "latest"], 0);
    assert_eq!(resumed, json!({ "seq": before + 1 }));
    says(&daemon, &["runs", "watch", "latest"], 0, "");
    assert_eq!(stands(&daemon), ("completed".to_owned(), 3));
    assert_eq!(example.notes().lines().count(), 1);
    says(&daemon, &["mode", "pause", "latest"], 1, "RUN_FINISHED");
    says(&daemon, &["mode", "resume", "latest"], 1, "RUN_FINISHED");

    // The other way round: what is paused is told as JSON, and that it goes on as text.
    says(&daemon, &["mode", "run", QUERY, "--mode", "planner", "--exit-on-question"], 5, "notes.append");
    let (run, before) = (document(&daemon, &["runs", "show", "latest"], 0)["run_id"].clone(), seq(&daemon));
    assert_eq!(document(&daemon, &["mode", "pause", "latest"], 0), json!({ "seq": before + 1 }));
    assert_eq!(stands(&daemon).0, "paused");
    let resumed = says(&daemon, &["mode", "resume", "latest"], 0, "");
    assert_eq!(lines(&resumed), [format!("[OK] Resumed {}.", run.as_str().unwrap())]);
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    says(&daemon, &["runs", "watch", "latest"], 0, "");
    assert_eq!(example.notes().lines().count(), 2);
}

#[test]
fn the_risk_of_a_query_is_told_in_both_forms_and_languages_and_begins_nothing() {
    let example = Example::new();
    let daemon = example.serve();
    // docs/risk.md. 2 steps, 0.04; "all" and "every", 0.1; 13 words, 0.0065: together 0.1465. "delete" destroys, "all" is
    // broad, "production" is sensitive: 0.5 * 2 * (0.7 + 0.3 * 0.1465) = 0.7440, which is high. All words are known.
    let query = "delete all tables of the production database and then deploy to every server";
    let told = document(&daemon, &["mode", "risk", query], 0);
    let keys: Vec<&String> = told.as_object().unwrap().keys().collect();
    let expected = ["complexityScore", "confidence", "estimatedSteps", "reasoning", "riskLevel"];
    assert_eq!(keys, expected, "no mode is recommended");
    assert_eq!((&told["estimatedSteps"], &told["riskLevel"]), (&json!(2), &json!("high")));
    assert_eq!((&told["complexityScore"], &told["confidence"]), (&json!(0.1465), &json!(0.9)));
    let reasons = told["reasoning"].as_array().unwrap().clone();
    assert!(reasons[0].as_str().unwrap().contains("\"delete\""), "{reasons:?}");
    let text = lines(&says(&daemon, &["mode", "risk", query], 0, ""));
    assert_eq!(text[..4], ["risk high", "steps 2", "complexity 0.15", "confidence 0.90"]);
    let told: Vec<String> = reasons.iter().map(|reason| format!("- {}", reason.as_str().unwrap())).collect();
    assert_eq!(text[4..], told, "the reasons follow, one a line");
    let text = lines(&says(&daemon, &["mode", "risk", query, "--lang", "es"], 0, ""));
    assert_eq!(text[..4], ["riesgo alto", "pasos 2", "complejidad 0.15", "confianza 0.90"]);

    // "append" changes, 0.25, and the tool cannot be undone and needs an approval, 0.6; 6 words are a complexity of 0.003:
    // 0.85 * (0.7 + 0.3 * 0.003) = 0.5958, which is high; without the tool, 0.25 * 0.7009 = 0.1752, which is low.
    let query = "list the files of notes.append";
    let told = document(&daemon, &["mode", "risk", query], 0);
    assert_eq!((&told["riskLevel"], &told["complexityScore"]), (&json!("high"), &json!(0.003)));
    let named = |told: &Value| {
        let reasons = told["reasoning"].as_array().unwrap();
        reasons.iter().filter(|reason| reason.as_str().unwrap().contains("notes.append")).count()
    };
    assert_eq!(named(&told), 2);
    let told = document(&daemon, &["mode", "risk", query, "--tool", "files.list"], 0);
    assert_eq!((&told["riskLevel"], named(&told)), (&json!("low"), 0));
    says(&daemon, &["mode", "risk", query, "--tool", "files.list"], 0, "low");
    assert_eq!(document(&daemon, &["runs", "list"], 0)["runs"], json!([]));
    // One unknown word is next to nothing: 0.9 - 0.5 - 0.2 - 0.3. What is 0 is told.
    assert_eq!(document(&daemon, &["mode", "risk", "foobar"], 0)["confidence"], json!(0.0));
    says(&daemon, &["mode", "risk", query, "--tool", "nobody"], 2, "nobody");
    says(&daemon, &["mode", "risk", " "], 2, "query");
}

#[test]
fn how_executions_went_is_told_by_mode_in_both_forms() {
    let example = Example::new();
    let daemon = example.serve();
    let aims = |told: &Value, mode: usize| -> Vec<Value> {
        let aims = told["modes"][mode]["aims"].as_array().unwrap();
        aims.iter().map(|aim| json!([aim["of"], aim["bound"], aim["met"]])).collect()
    };
    // A count of none is left out, a rate of nothing as well.
    let count = |of: &Value| of.as_u64().unwrap_or_default();
    // Nothing has ended: nothing is met, and nothing is missed.
    let told = document(&daemon, &["analytics"], 0);
    for (place, mode) in ["simple", "planner", "supervised"].into_iter().enumerate() {
        assert_eq!((&told["modes"][place]["mode"], count(&told["modes"][place]["runs"])), (&json!(mode), 0));
        assert_eq!(told["modes"][place].get("successRate"), None);
    }
    assert_eq!(aims(&told, 2), [json!(["success_rate", 0.95, null]), json!(["escalation_rate", 0.1, null])]);
    says(&daemon, &["analytics"], 0, "- (<25 %)");

    for mode in ["simple", "planner"] {
        says(&daemon, &["mode", "run", QUERY, "--mode", mode, "--exit-on-question"], 5, "notes.append");
        says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
        says(&daemon, &["runs", "watch", "latest"], 0, "");
    }
    says(&daemon, &["mode", "run", "sing", "--mode", "simple"], 1, "no rule is about this");
    says(&daemon, &["mode", "run", QUERY, "--mode", "supervised", "--exit-on-question"], 5, "");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "reject"], 0, "");
    says(&daemon, &["runs", "watch", "latest"], 1, "");
    let told = document(&daemon, &["analytics"], 0);
    let figures = |mode: usize| {
        let of = &told["modes"][mode];
        let keys = ["runs", "succeeded", "actions", "planSteps", "replans", "escalations"];
        (keys.map(|key| count(&of[key])), of["successRate"].as_f64())
    };
    // Of two in the mode simple one has failed before its first action; three actions each in the others that succeeded.
    assert_eq!(figures(0), ([2, 1, 3, 0, 0, 0], Some(0.5)));
    assert_eq!(figures(1), ([1, 1, 3, 3, 0, 0], Some(1.0)));
    assert_eq!(figures(2), ([1, 0, 0, 0, 0, 0], Some(0.0)));
    assert_eq!((&told["modes"][1]["replanRate"], told["modes"][2].get("replanRate")), (&json!(0.0), None));
    assert_eq!(aims(&told, 1), [json!(["success_rate", 0.85, true]), json!(["replan_rate", 0.25, true])]);
    assert_eq!(aims(&told, 2), [json!(["success_rate", 0.95, false]), json!(["escalation_rate", 0.1, null])]);
    // A prompt before each of the three actions of two runs, one that no rule is about, one for the rejected plan.
    assert_eq!(told["memory"]["recalls"], json!(8));
    let text = lines(&says(&daemon, &["analytics"], 0, ""));
    assert_eq!(text[0], "MODE RUNS SUCCESS RATE MEAN TIME REPLANS PER STEP ESCALATIONS PER STEP");
    for (line, parts) in [
        (1, ["simple 2 ██████████░░░░░░░░░░ 50 % (>90 %) ✗", "(<10.0 s)", "- -"]),
        (2, ["planner 1 ████████████████████ 100 % (>85 %) ✓", "0 % (<25 %) ✓", "0 %"]),
        (3, ["1 ░░░░░░░░░░░░░░░░░░░░ 0 % (>95 %) ✗", "- - (<10 %)", ""]),
    ] {
        for part in parts {
            assert!(text[line].contains(part), "{part}: {text:#?}");
        }
    }
    assert!(text.contains(&"prompts that it was asked for: 8".to_owned()), "{text:#?}");
    says(&daemon, &["analytics", "--lang", "es"], 0, "aciertos: ");
    // All of them were started within the hour, and none within the last millisecond.
    let within =
        |since: &str| count(&document(&daemon, &["analytics", "--since", since], 0)["modes"][0]["runs"]);
    assert_eq!((within("1h"), within("1ms")), (2, 0));
    says(&daemon, &["analytics", "--since", "soon"], 2, "soon");
}

#[test]
fn a_query_that_no_rule_is_about_fails_with_the_words_of_the_planner() {
    let example = Example::new();
    let daemon = example.serve();
    let told = says(&daemon, &["mode", "run", "sing"], 1, "no rule is about this");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("sing: failed") && !text.contains("QUORUM"), "{text}");
}

#[test]
fn a_daemon_does_not_start_with_rules_or_tools_that_are_wrong_and_names_all_of_it() {
    let example = Example::new();
    let folder = example.folder.path();
    fs::write(folder.join("rules.toml"), "[[rules]]\nquery = \"(\"\nsteps = []\n").unwrap();
    let more = "[[planners]]\nname = \"gone\"\nrules = \"gone.toml\"\n[[planners]]\nname = \"files.list\"\nrules = \"gone.toml\"\n\
                [[agents]]\nname = \"odd\"\ncommand = [\"true\"]\nundoable = true\ninput_schema = { type = 3 }\n";
    fs::write(folder.join("capataz.toml"), format!("{}\n{more}", example.config)).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_capataz"));
    program.args(["serve", "--check", "--config"]).arg(folder.join("capataz.toml")).env("LC_ALL", "C");
    let output = program.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    for problem in [
        "rules.toml:3:1: rules[0].steps: from 1 to 50 steps",
        "rules.toml:2:1: rules[0].query: ",
        "planners[1].rules: ",
        "gone.toml: No such file",
        "\"files.list\" is there twice",
        "agents[3].undoable",
        "agents[3].input_schema: ",
    ] {
        assert!(told.contains(problem), "{problem}: {told}");
    }
}

// S004-ME-02
#[test]
fn what_is_remembered_is_found_and_forgotten_and_a_rebuild_makes_it_again_but_for_that() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--session", "shop", "--exit-on-question"], 5, "notes.append");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    says(&daemon, &["runs", "watch", "latest"], 0, "");
    let search = ["memory", "search", "--session", "shop"];
    let entries = document(&daemon, &search, 0)["entries"].as_array().unwrap().clone();
    let types: Vec<&str> = entries.iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["tool_result", "user_feedback", "tool_result", "tool_result"]);
    says(&daemon, &search, 0, "notes.append");
    says(&daemon, &["memory", "search", "FILES.LIST", "--session", "shop", "--limit", "1"], 0, "files.list");
    says(&daemon, &["memory", "search", "--session", "attic"], 0, "attic remembers nothing of that.");
    assert_eq!(document(&daemon, &["memory", "search", "--session", "attic"], 0), json!({ "entries": [] }));
    says(&daemon, &["memory", "search", "--session", "shop", "--limit", "1"], 0, "More: --page-token ");
    let id = |place: usize| entries[place]["id"].as_str().unwrap();
    says(&daemon, &["memory", "show", id(0)], 0, "Relevance");
    says(&daemon, &["memory", "show", id(0), "--lang", "es"], 0, "Relevancia");
    assert_eq!(document(&daemon, &["memory", "show", id(0)], 0)["entry"], entries[0]);
    says(&daemon, &["memory", "forget", id(0), "--session", "attic"], 1, "MEMORY_NOT_FOUND");
    says(&daemon, &["memory", "forget", id(0), "--session", "shop"], 0, "Session shop: forgotten: 1 entry.");
    says(&daemon, &["memory", "show", id(0)], 1, "MEMORY_NOT_FOUND");
    drop(daemon);

    let folder = example.folder.path();
    let database = rusqlite::Connection::open(folder.join("data/capataz.db")).unwrap();
    let change = |sql: &str, entry: &str| assert_eq!(database.execute(sql, [entry]).unwrap(), 1, "{sql}");
    change("DELETE FROM memory_entries WHERE id = ?", id(1));
    change("UPDATE memory_entries SET relevance_score = 4 WHERE id = ?", id(2));
    change("UPDATE memory_entries SET content = 'nothing' WHERE id = ?", id(3));
    let columns = |output: &Output| -> Vec<String> {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter_map(|line| Some(line["column"].as_str()?.to_owned())).collect()
    };
    let checked = crate::served::rebuild(folder, &["--check", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    let told = columns(&checked);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.contains(&format!("the relevance of {}", id(2))), "{told:?}");
    assert_eq!(crate::served::rebuild(folder, &["--json"]).status.code(), Some(0));
    assert_eq!(columns(&crate::served::rebuild(folder, &["--check", "--json"])), Vec::<String>::new());
    drop(database);
    let daemon = example.serve();
    let again = document(&daemon, &search, 0)["entries"].as_array().unwrap().clone();
    assert_eq!(again, entries[1..], "and what was forgotten stays forgotten");
}

#[test]
fn questions_are_answered_where_a_run_is_watched() {
    let example = Example::new();
    let daemon = example.serve();
    let terminal = Terminal::new();
    let arguments = ["mode", "run", QUERY, "--mode", "supervised", "--watch", "--addr", &daemon.url()];
    let mut watched = terminal.starts(env!("CARGO_BIN_EXE_capataz"), &arguments);
    let shown = terminal.shows("Enter leaves it open");
    assert!(shown.contains("1 approve   2 edit   3 reject"), "{shown}");
    terminal.press("maybe\n");
    terminal.shows("maybe is none of the options");
    terminal.press("app\n");
    let shown = terminal.shows("answered: approve").find("answered: approve").unwrap();
    // The call that needs approval is that of the plan, word for word, once its parameters are known.
    terminal.shows_after(shown, "Enter leaves it open");
    terminal.press("1\n");
    let ended = watched.wait().unwrap();
    assert!(ended.success(), "{}", terminal.shown());
    assert_eq!(example.notes(), "{\"note\":\"examples: 2\"}\n");
}

#[test]
fn a_question_that_is_left_open_is_not_asked_again_and_one_that_others_have_answered_is_gone() {
    let example = Example::new();
    let daemon = example.serve();
    let terminal = Terminal::new();
    let arguments = ["mode", "run", QUERY, "--watch", "--addr", &daemon.url()];
    let mut watched = terminal.starts(env!("CARGO_BIN_EXE_capataz"), &arguments);
    terminal.shows("Enter leaves it open");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "approve"], 0, "");
    terminal.shows("somebody else has answered");
    assert!(watched.wait().unwrap().success(), "{}", terminal.shown());

    let terminal = Terminal::new();
    let mut watched = terminal.starts(env!("CARGO_BIN_EXE_capataz"), &arguments);
    terminal.shows("Enter leaves it open");
    terminal.press("\n");
    terminal.shows("left open; answer with `capataz runs resolve");
    says(&daemon, &["runs", "resolve", "latest", &question(&daemon), "reject"], 0, "");
    assert!(!watched.wait().unwrap().success(), "{}", terminal.shown());
    assert_eq!(terminal.shown().matches("Enter leaves it open").count(), 1);
}

#[test]
fn a_proposed_plan_is_changed_in_the_editor_where_it_is_asked_about() {
    let example = Example::new();
    let daemon = example.serve();
    let terminal = Terminal::new();
    // An editor that drops all but the first step.
    let editor = example.folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\npython3 - \"$1\" <<'E'\nimport json, sys\nplan = json.load(open(sys.argv[1]))\nplan['steps'] = plan['steps'][:1]\nplan['checkpoints'] = []\njson.dump(plan, open(sys.argv[1], 'w'))\nE\n").unwrap();
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = ["mode", "run", QUERY, "--mode", "supervised", "--watch", "--addr", &daemon.url()];
    let arguments = [
        &["EDITOR=".to_owned() + editor.to_str().unwrap(), env!("CARGO_BIN_EXE_capataz").to_owned()][..],
        &run.map(str::to_owned),
    ]
    .concat();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut watched = terminal.starts("env", &arguments);
    terminal.shows("Enter leaves it open");
    terminal.press("edit\n");
    let shown = terminal.shows("answered: edit").find("answered: edit").unwrap();
    terminal.shows_after(shown, "Enter leaves it open");
    terminal.press("1\n");
    assert!(watched.wait().unwrap().success(), "{}", terminal.shown());
    let state = &document(&daemon, &["mode", "show", "latest"], 0)["state"];
    assert_eq!((&state["step"], state["plan"]["steps"].as_array().unwrap().len()), (&json!(1), 1));
}

#[test]
fn a_plan_that_the_editor_leaves_as_it_was_is_not_sent() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--mode", "supervised", "--exit-on-question"], 5, "");
    let asked = question(&daemon);
    // One that only lays it out anew.
    let editor = example.folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\npython3 - \"$1\" <<'E'\nimport json, sys\nplan = json.load(open(sys.argv[1]))\njson.dump(plan, open(sys.argv[1], 'w'))\nE\n").unwrap();
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for editor in ["true", editor.to_str().unwrap()] {
        let edited = |more: &[&str]| {
            let mut edit = capataz(&daemon, &[&["mode", "edit", "latest"], more].concat());
            edit.env_remove("VISUAL").env("EDITOR", editor);
            let output = edit.output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let told = edited(&[]);
        assert!(told.starts_with("Nothing is changed: the plan of run "), "{told}");
        let told: Value = serde_json::from_str(&edited(&["--json"])).unwrap();
        assert_eq!(told, json!({ "changed": false }));
    }
    assert_eq!(question(&daemon), asked, "no revision was made");
}

#[test]
fn a_plan_that_was_typed_and_is_refused_is_kept_and_can_be_given_again() {
    let example = Example::new();
    let daemon = example.serve();
    says(&daemon, &["mode", "run", QUERY, "--mode", "supervised", "--exit-on-question"], 5, "");
    let editor = example.folder.path().join("editor");
    fs::write(&editor, "#!/bin/sh\necho '{\"steps\": []}' > \"$1\"\n").unwrap();
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut edit = capataz(&daemon, &["mode", "edit", "latest"]);
    let refused =
        edit.env_remove("VISUAL").env("EDITOR", &editor).env("TMPDIR", example.folder.path()).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    let (_, kept) = told.split_once("What you have typed is in ").expect(&told);
    let (kept, _) = kept.split_once("; mend it").unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "{\"steps\": []}\n");
    assert!(told.contains(&format!("--plan-file '{kept}'`")) && told.contains("minItems"), "{told}");
}

#[test]
fn the_live_view_shows_the_plan_with_marks_and_the_step_that_is_at_work() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let step = |id: &str| {
        format!(
            "[[rules.steps]]\nid = '{id}'\ndescription = 'the {id} step'\ntool = '{id}'\nparameters = {{}}\n"
        )
    };
    let rules = ["look", "wait", "tell"].map(step).concat();
    fs::write(folder.path().join("rules.toml"), format!("[[rules]]\nquery = '.'\n{rules}")).unwrap();
    let tool = |name: &str, script: &str| {
        let command = format!("command = ['/bin/sh', '-c', 'cat > /dev/null; {script}; echo 1']");
        format!("[[agents]]\nname = '{name}'\nkind = 'tool'\nundoable = true\n{command}\n")
    };
    let waits = format!("cat {}", gate.display());
    let tools = [tool("look", "true"), tool("wait", &waits), tool("tell", "true")].concat();
    let rules = folder.path().join("rules.toml");
    let planner = format!("[[planners]]\nname = 'rules'\nrules = '{}'\n", rules.display());
    let daemon = Served::start(folder.path(), &format!("{planner}{tools}"));
    let terminal = Terminal::new();
    let arguments = ["mode", "run", "go", "--mode", "planner", "--watch", "--addr", &daemon.url()];
    let mut watched = terminal.starts(env!("CARGO_BIN_EXE_capataz"), &arguments);
    let shown = terminal.shows("▸ 2 wait  the wait step");
    for line in ["planner; 1 action", "✓ 1 look  the look step", "· 3 tell  the tell step"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    drop(fs::OpenOptions::new().write(true).open(&gate).unwrap());
    assert!(watched.wait().unwrap().success(), "{}", terminal.shown());
}
