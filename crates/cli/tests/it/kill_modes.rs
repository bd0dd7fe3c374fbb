//! Executions whose daemon is killed with SIGKILL at every kind of step: they go on, and what may be done only once was done
//! once (seed 004; CONTRACTS §5).

use std::fs;
use std::path::Path;

use crate::served::kills::{Ended, Kills, Told, journal, kinds, noting, of_restarts};
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body};
use serde_json::{Value, json};

const RULES: &str = r#"
[[rules]]
query = 'all of round (?<round>\d+)'
checkpoints = [1]

[[rules.steps]]
id = "look"
tool = "look"

[[rules.steps]]
id = "plan"
tool = "plan.run"
parameters = { name = "child", waves = [{ tasks = [{ name = "t", agent = "work" }] }] }

[[rules.steps]]
id = "pipeline"
tool = "pipeline.run"
parameters = { name = "child", phases = [{ name = "p", agent = "work" }] }

[[rules.steps]]
id = "once"
tool = "once"
parameters = { round = "${round}" }

[[rules.steps]]
id = "asked"
tool = "asked"
parameters = { round = "${round}" }

[[rules]]
query = 'ask in round (?<round>\d+)'

[[rules.steps]]
id = "clerk"
tool = "router.ask"
parameters = { text = "what is it in round ${round}?", spec = "clerk" }

[[rules.steps]]
id = "once"
tool = "once"
parameters = { round = "${round}" }

[[rules.steps]]
id = "sign"
tool = "router.ask"
parameters = { text = "and what says the sign?", spec = "sign" }
"#;

/// What is heard of each call of a planner, and of a tool that is a command.
const OF_PLANNER: [&str; 4] = ["PlannerAsked", "TaskLeased", "PlannerAnswered", "TaskSettled"];
const OF_TOOL: [&str; 4] = ["ToolCalled", "TaskLeased", "TaskSettled", "ToolObserved"];
/// The same of a tool that is a run of its own.
const OF_RUN: [&str; 5] = ["ToolCalled", "ChildNamed", "ChildEnded", "TaskSettled", "ToolObserved"];
const ENDS: [&str; 4] = ["RunAccepted", "ModeBegun", "ModeCompleted", "RunFinished"];

/// Tools that are commands: one that looks, and two whose effect counts, one of which a person approves.
fn config(folder: &Path) -> String {
    format!(
        "[[planners]]\nname = \"rules\"\nrules = \"rules.toml\"\n\
         [[agents]]\nname = \"work\"\ncommand = [\"echo\", \"1\"]\n\
         [[agents]]\nname = \"look\"\nkind = \"tool\"\nundoable = true\ncommand = [\"echo\", \"1\"]\n\
         {}{}needs_approval = true\n",
        noting(folder, "once"),
        noting(folder, "asked"),
    )
}

fn tools(names: &[&str]) -> Vec<v1::ModeTool> {
    names.iter().map(|name| v1::ModeTool { name: (*name).to_owned(), ..v1::ModeTool::default() }).collect()
}

/// A person lets everything go on, and looks into the journals where nobody knows what has become of a call.
async fn lets_go_on(told: Told<'_>, folder: &Path) {
    told.answer(|question| match question.purpose() {
        QuestionPurpose::Outcome => told.outcome(folder),
        _ => ("approve", None),
    })
    .await;
}

fn calls(ended: &Ended) -> usize {
    ended.count(|body| matches!(body, Body::ToolCalled(_)))
}

async fn survives(mode: ExecutionMode) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let runs = ["plan.run", "pipeline.run"];
    let under = runs.map(|tool| format!("the run of {tool}"));
    let under = under.each_ref().map(String::as_str);
    let mut wanted = ENDS.map(str::to_owned).to_vec();
    wanted.extend(kinds(&OF_PLANNER, &["planner"]));
    wanted.extend(kinds(&OF_TOOL, &["look", "once", "asked"]));
    wanted.extend(kinds(&OF_RUN, &runs));
    wanted.extend(kinds(&["RunAccepted", "TaskLeased", "TaskSettled", "RunFinished"], &under));
    wanted.extend(kinds(&["WaveStarted", "WaveFinished"], &under[..1]));
    wanted.extend(kinds(&["PhaseStarted", "PhaseCompleted"], &under[1..]));
    let of_mode: &[&str] = match mode {
        ExecutionMode::Supervised => {
            &["QuestionAsked of plan", "QuestionAnswered of plan", "PlanApproved", "ModeCheckpointed"]
        }
        ExecutionMode::Planner => {
            &["QuestionAsked of tool", "QuestionAnswered of tool", "ToolApproved", "ModeCheckpointed"]
        }
        _ => &["QuestionAsked of tool", "QuestionAnswered of tool", "ToolApproved"],
    };
    wanted.extend(of_mode.iter().map(|kind| (*kind).to_owned()));
    let others = of_restarts(&["planner", "look", under[0], under[1]], &["once", "asked"]);
    let mut kills = Kills::start(folder, &config(folder), wanted, others);
    while kills.go_on() {
        let round = kills.round();
        let run = v1::ModeRun {
            query: format!("all of round {round}"),
            mode: Some(mode.into()),
            tools: tools(&["look", "plan.run", "pipeline.run", "once", "asked"]),
            ..v1::ModeRun::default()
        };
        let request = v1::StartRunRequest::of_mode(run);
        let ended = kills.execution(request, async |told| lets_go_on(told, folder).await).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        assert_eq!(calls(&ended), 5);
        let expected: Vec<Value> = (1..=round).map(|round| json!({ "round": round.to_string() })).collect();
        for effect in ["once", "asked"] {
            assert_eq!(journal(folder, effect), expected, "{effect} was done once in each round");
        }
    }
}

#[tokio::test]
async fn a_simple_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Simple).await;
}

#[tokio::test]
async fn a_planned_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Planner).await;
}

#[tokio::test]
async fn a_supervised_execution_goes_on_wherever_its_daemon_is_killed() {
    survives(ExecutionMode::Supervised).await;
}

/// Two specs: a command answers for one of them, and notes what it was asked; the other one has a template.
fn specs(folder: &Path) -> String {
    fs::create_dir(folder.join("specs")).unwrap();
    let head = |id: &str| {
        format!("id = {id:?}\ntitle = {id:?}\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n")
    };
    let clerk = format!("{}agent = \"clerk\"\ndefault = true\n", head("clerk"));
    let sign = "keywords = [\"sign\"]\nfallback_pattern = \"all\"\n\
                [[patterns]]\nname = \"all\"\ntemplates.en = [\"Closed on Mondays.\"]\n";
    fs::write(folder.join("specs/clerk.toml"), clerk).unwrap();
    fs::write(folder.join("specs/sign.toml"), format!("{}{sign}", head("sign"))).unwrap();
    let script = r#"
        request=$(cat)
        echo "$request" >> "$0"
        id=$(printf '%s' "$request" | sed 's/.*"id":"\([^"]*\)".*/\1/')
        printf '{"success":true,"spec":"clerk","request_id":"%s","timestamp":1,' "$id"
        printf '"response":{"text":"It is a form.","format":"text"},'
        printf '"metadata":{"processing_time_ms":1,"confidence":1}}'
    "#;
    let command = ["sh", "-c", script, &folder.join("clerk").display().to_string()];
    format!(
        "specs_dir = {:?}\n{}[[agents]]\nname = \"clerk\"\ncommand = {}\n",
        folder.join("specs").display().to_string(),
        config(folder),
        serde_json::to_string(&command).unwrap()
    )
}

/// What the specs answered, in their order.
fn answers(ended: &Ended) -> Vec<String> {
    let outputs = ended.bodies.iter().filter_map(|body| match body {
        Body::TaskSettled(settled) => settled.output.as_ref()?.data.clone(),
        _ => None,
    });
    let read = outputs.filter_map(|data| match data {
        v1::payload::Data::Inline(text) => serde_json::from_slice::<Value>(&text).ok(),
        v1::payload::Data::Blob(_) => None,
    });
    read.filter_map(|output| Some(output.pointer("/ask/response/response/text")?.as_str()?.to_owned()))
        .collect()
}

/// The requests that the clerk was given in this round.
fn requests(folder: &Path, round: usize) -> Vec<Value> {
    let text = format!("what is it in round {round}?");
    journal(folder, "clerk").into_iter().filter(|request| request["text"] == text).collect()
}

async fn asks_specs(mode: ExecutionMode) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let under = "the run of router.ask";
    let mut wanted = kinds(&OF_RUN, &["router.ask"]);
    wanted.extend(kinds(&["RunAccepted", "AskRouted", "TaskLeased", "TaskSettled", "RunFinished"], &[under]));
    let mut kills = if mode == ExecutionMode::Simple {
        wanted.extend(ENDS.map(str::to_owned));
        wanted.extend(kinds(&OF_PLANNER, &["planner"]));
        wanted.extend(kinds(&OF_TOOL, &["once"]));
        Kills::start(folder, &specs(folder), wanted, of_restarts(&["planner", under], &["once"]))
    } else {
        // What the modes do beside that is killed at where they have more tools.
        Kills::only_at(folder, &specs(folder), wanted)
    };
    let request = |round: usize| {
        v1::StartRunRequest::of_mode(v1::ModeRun {
            query: format!("ask in round {round}"),
            mode: Some(mode.into()),
            tools: tools(&["router.ask", "once"]),
            ..v1::ModeRun::default()
        })
    };
    let check = async |ended: &Ended, kills: &Kills, round: usize| {
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        assert_eq!(calls(ended), 3);
        assert_eq!(answers(ended), ["It is a form.", "Closed on Mondays."]);
        let expected: Vec<Value> = (1..=round).map(|round| json!({ "round": round.to_string() })).collect();
        assert_eq!(journal(folder, "once"), expected);
        let asks = v1::ListRunsRequest {
            kind: Some(v1::RunKind::Ask.into()),
            page_size: 500,
            ..v1::ListRunsRequest::default()
        };
        let asks = kills.client().await.list_runs(asks).await.unwrap().runs;
        assert_eq!(asks.len(), 2 * round, "each call is one run");
        // A spec may be asked again where its answer is lost: it is the same request.
        let requests = requests(folder, round);
        assert!(!requests.is_empty());
        assert!(requests.iter().all(|request| *request == requests[0]), "{requests:?}");
    };
    while kills.go_on() {
        let round = kills.round();
        let ended = kills.execution(request(round), async |told| lets_go_on(told, folder).await).await;
        check(&ended, &kills, round).await;
    }
    // Nothing is new any more, and nobody is killed.
    let round = kills.round() + 1;
    let ended = kills.execution(request(round), async |told| lets_go_on(told, folder).await).await;
    check(&ended, &kills, round).await;
    assert_eq!(requests(folder, round).len(), 1);
}

#[tokio::test]
async fn an_execution_that_asks_specs_goes_on_wherever_its_daemon_is_killed() {
    asks_specs(ExecutionMode::Simple).await;
}

#[tokio::test]
async fn a_planned_execution_that_asks_specs_goes_on_wherever_its_daemon_is_killed() {
    asks_specs(ExecutionMode::Planner).await;
}

#[tokio::test]
async fn a_supervised_execution_that_asks_specs_goes_on_wherever_its_daemon_is_killed() {
    asks_specs(ExecutionMode::Supervised).await;
}
