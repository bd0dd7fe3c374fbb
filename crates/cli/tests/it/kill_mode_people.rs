//! Executions whose daemon is killed with SIGKILL while people decide about plans, escalations and the way back to a checkpoint:
//! what was decided stays decided, and what may be done only once was done once (seed 004; CONTRACTS §5).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::served::Served;
use crate::served::kills::{
    Ended, Kills, PATIENCE, Told, after_the_way_back, journal, kinds, noting, of_restarts,
};
use capataz_client::worker::{Task, TaskOutput, Worker};
use capataz_client::{Client, Delivery};
use capataz_contracts::v1::{self, ExecutionMode, QuestionPurpose, event::Body};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

const MODES: [ExecutionMode; 3] = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];
const OF_PLANNER: [&str; 4] = ["PlannerAsked", "TaskLeased", "PlannerAnswered", "TaskSettled"];
const OF_TOOL: [&str; 4] = ["ToolCalled", "TaskLeased", "TaskSettled", "ToolObserved"];

const RULES: &str = r#"
[[rules]]
query = 'escalate in round (?<round>\d+)'

[[rules.steps]]
id = "first"
tool = "first"
parameters = { round = "${round}" }
expected = { equals = "the sea" }

[[rules.steps]]
id = "second"
tool = "second"
parameters = { round = "${round}" }
ask = { reason = "it is the second", question = "Is it to be done?", options = ["yes"] }

[[rules]]
query = 'replan in round (?<round>\d+)'

[[rules.steps]]
id = "first"
tool = "first"
parameters = { round = "${round}" }
expected = { equals = "the sea" }

[[rules.steps]]
id = "never"
tool = "second"
parameters = { round = "never" }

[[rules.otherwise]]
id = "second"
tool = "second"
parameters = { round = "${round}" }

[[rules]]
query = 'never good in round (?<round>\d+)'

[[rules.steps]]
id = "fails"
tool = "fails"
parameters = { round = "${round}" }

[[rules]]
query = 'reject in round (?<round>\d+)'

[[rules.steps]]
id = "mark"
tool = "mark"
parameters = { round = "${round}" }

[[rules.steps]]
id = "second"
tool = "second"
parameters = { round = "${round}" }

[[rules.otherwise]]
id = "instead"
tool = "second"
parameters = { round = "${round}" }

[[rules]]
query = 'pause in round (?<round>\d+)'

[[rules.steps]]
id = "first"
tool = "first"
parameters = { round = "${round}" }

[[rules.steps]]
id = "slow"
tool = "slow"
parameters = { round = "${round}" }

[[rules.steps]]
id = "second"
tool = "second"
parameters = { round = "${round}" }

[[rules]]
query = 'go back in round (?<round>\d+)'
checkpoints = [1]

[[rules.steps]]
id = "first"
tool = "first"
parameters = { round = "${round}" }

[[rules.steps]]
id = "mark"
tool = "mark"
parameters = { round = "${round}" }

[[rules.steps]]
id = "slow"
tool = "slow"
parameters = { round = "${round}" }

[[rules.steps]]
id = "second"
tool = "second"
parameters = { round = "${round}" }
"#;

/// Five tools that note what they are given. What `mark` does can be undone, `fails` fails then, and `slow` looks until the file
/// `go` with the number of the round is there.
fn config(folder: &Path) -> String {
    let slow = "given=$(cat); echo \"$given\" >> \"$0\"; round=$(echo \"$given\" | tr -dc 0-9); \
                while [ ! -e \"$0-go-$round\" ]; do sleep 0.02; done; echo true";
    let fails = "given=$(cat); echo \"$given\" >> \"$0\"; exit 1";
    format!(
        "[[planners]]\nname = \"rules\"\nrules = \"rules.toml\"\n\
         {}{}{}undoable = true\n\
         [[agents]]\nname = \"fails\"\nkind = \"tool\"\ncommand = [\"sh\", \"-c\", '{fails}', {:?}]\n\
         [[agents]]\nname = \"slow\"\nkind = \"tool\"\nundoable = true\ncommand = [\"sh\", \"-c\", '{slow}', {:?}]\n",
        noting(folder, "first"),
        noting(folder, "second"),
        noting(folder, "mark"),
        folder.join("fails").display().to_string(),
        folder.join("slow").display().to_string(),
    )
}

fn given(round: usize) -> Value {
    json!({ "round": round.to_string() })
}

fn request(query: &str, mode: ExecutionMode, tools: &[&str]) -> v1::StartRunRequest {
    let tools = tools.iter().map(|name| v1::ModeTool {
        name: (*name).to_owned(),
        // Nobody repeats it by himself, though it can be undone.
        effect: (*name == "mark").then(|| v1::Effect::AtMostOnce.into()),
        ..v1::ModeTool::default()
    });
    v1::StartRunRequest::of_mode(v1::ModeRun {
        query: query.to_owned(),
        mode: Some(mode.into()),
        tools: tools.collect(),
        ..v1::ModeRun::default()
    })
}

fn wanted(of_planner: &[&str], of_tools: &[&str], alone: &[&str]) -> Vec<String> {
    let mut wanted = kinds(&OF_PLANNER, of_planner);
    wanted.extend(kinds(&OF_TOOL, of_tools));
    wanted.extend(alone.iter().map(|kind| (*kind).to_owned()));
    wanted
}

/// The answers that were given to questions of these purposes, in their order.
fn said(ended: &Ended) -> Vec<(QuestionPurpose, String)> {
    let mut purposes = BTreeMap::new();
    let mut said = Vec::new();
    for body in &ended.bodies {
        match body {
            Body::QuestionAsked(asked) => {
                let question = asked.question.as_ref().unwrap();
                assert!(purposes.insert(&question.question_id, question.purpose()).is_none());
            }
            Body::QuestionAnswered(answered) => {
                said.push((purposes[&answered.question_id], answered.answer.clone()));
            }
            _ => {}
        }
    }
    said.retain(|(purpose, _)| *purpose != QuestionPurpose::Outcome);
    said
}

#[tokio::test]
async fn a_plan_its_revision_and_escalations_are_asked_and_answered_once_wherever_the_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let alone = [
        "RunAccepted",
        "ModeBegun",
        "QuestionAsked of plan",
        "QuestionAnswered of plan",
        "PlanEdited",
        "PlanApproved",
        "QuestionAsked of escalation",
        "QuestionAnswered of escalation",
        "EscalationAnswered",
        "ModeCompleted",
        "RunFinished",
    ];
    let wanted = wanted(&["planner"], &["first", "second"], &alone);
    let others = of_restarts(&["planner"], &["first", "second"]);
    let mut kills = Kills::start(folder, &config(folder), wanted, others);
    while kills.go_on() {
        let round = kills.round();
        // The person wants another description of the first step, and its own expectation.
        let step = |id: &str, needs: &[&str]| {
            json!({
                "id": id, "description": "by hand", "tool": id, "parameters": given(round),
                "expected": { "equals": "the sea" }, "dependsOn": needs,
            })
        };
        let edited = json!({ "steps": [step("first", &[]), step("second", &["first"])] });
        let person = async |told: Told<'_>| {
            told.answer(|question| match question.purpose() {
                QuestionPurpose::Outcome => told.outcome(folder),
                QuestionPurpose::Plan if question.text.starts_with("Revision 1 ") => {
                    ("edit", Some(edited.clone()))
                }
                QuestionPurpose::Plan => ("approve", None),
                // Of the rule, that the results are others than expected; and of the planner.
                _ if question.options.iter().any(|option| option == "yes") => ("yes", None),
                _ => ("continue", None),
            })
            .await;
        };
        let request =
            request(&format!("escalate in round {round}"), ExecutionMode::Supervised, &["first", "second"]);
        let ended = kills.execution(request, person).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        let expected = [
            (QuestionPurpose::Plan, "edit"),
            (QuestionPurpose::Plan, "approve"),
            (QuestionPurpose::Escalation, "continue"),
            (QuestionPurpose::Escalation, "yes"),
            // The last step's result is another than expected, too.
            (QuestionPurpose::Escalation, "continue"),
        ];
        assert_eq!(said(&ended), expected.map(|(purpose, answer)| (purpose, answer.to_owned())));
        assert_eq!(ended.count(|body| matches!(body, Body::PlanEdited(_))), 1);
        let approved = ended.bodies.iter().filter_map(|body| match body {
            Body::PlanApproved(approved) => Some(approved.revision),
            _ => None,
        });
        assert_eq!(approved.collect::<Vec<_>>(), [2], "only what the person has changed");
        assert_eq!(ended.count(|body| matches!(body, Body::EscalationAnswered(_))), 3);
        assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 2);
        each_once(folder, round);
    }
}

/// The two tools that may do nothing twice were at work once in each round.
fn each_once(folder: &Path, rounds: usize) {
    let expected: Vec<Value> = (1..=rounds).map(given).collect();
    for tool in ["first", "second"] {
        assert_eq!(journal(folder, tool), expected, "{tool}");
    }
}

#[tokio::test]
async fn another_plan_is_made_once_and_its_predecessors_effects_stay_done_once_wherever_the_daemon_is_killed()
{
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let alone = ["RunAccepted", "ModeBegun", "ModeCheckpointed", "ModeCompleted", "RunFinished"];
    let planners = ["planner", "planner for another plan"];
    let wanted = wanted(&planners, &["first", "second"], &alone);
    let mut kills =
        Kills::start(folder, &config(folder), wanted, of_restarts(&planners, &["first", "second"]));
    while kills.go_on() {
        let round = kills.round();
        let person = async |told: Told<'_>| told.answer(|_| told.outcome(folder)).await;
        let request =
            request(&format!("replan in round {round}"), ExecutionMode::Planner, &["first", "second"]);
        let ended = kills.execution(request, person).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        let Some(v1::run_result::Work::Mode(mode)) = &ended.result.work else { unreachable!() };
        let state = mode.state.as_ref().unwrap();
        assert_eq!((state.replans, state.plan.as_ref().unwrap().revision, state.step), (1, 2, 2));
        assert_eq!(ended.count(|body| matches!(body, Body::ModeCheckpointed(_))), 1);
        each_once(folder, round);
    }
}

async fn roll_back(client: &Client, run_id: &str) {
    let request = v1::RollbackExecutionRequest {
        run_id: run_id.to_owned(),
        checkpoint_id: "c1".to_owned(),
        request_id: "back".to_owned(),
        if_seq: None,
    };
    client.rollback_execution(request).await.unwrap();
}

const GOES_BACK: [&str; 4] = ["first", "mark", "slow", "second"];

/// What was before the checkpoint is not done again, and what came after it once more, as the way back asks for it.
fn once_and_twice(folder: &Path, rounds: usize) {
    each_once(folder, rounds);
    let twice: Vec<Value> = (1..=rounds).flat_map(|round| [given(round), given(round)]).collect();
    assert_eq!(journal(folder, "mark"), twice);
}

async fn make_checkpoint(client: &Client, run_id: &str) {
    let request = v1::CreateCheckpointRequest {
        run_id: run_id.to_owned(),
        reason: "the person wants it".to_owned(),
        request_id: "make".to_owned(),
        if_seq: None,
    };
    client.create_checkpoint(request).await.unwrap();
}

/// A person goes back while `slow` is at work, and lets it end after that. The same request again is no other way back.
async fn goes_back(told: Told<'_>, folder: &Path, mode: ExecutionMode, round: usize) {
    told.answer(|question| match question.purpose() {
        QuestionPurpose::Plan => ("approve", None),
        _ => told.outcome(folder),
    })
    .await;
    match told.body {
        Body::TaskLeased(_) if told.calls.last().is_some_and(|(tool, _)| tool == "slow") => {
            if mode == ExecutionMode::Simple {
                // Without a plan nobody else makes a checkpoint.
                make_checkpoint(told.client, told.run_id).await;
            }
            roll_back(told.client, told.run_id).await;
        }
        Body::ModeRolledBack(_) => fs::write(folder.join(format!("slow-go-{round}")), "").unwrap(),
        _ => {}
    }
}

#[tokio::test]
async fn a_run_goes_back_to_a_checkpoint_once_wherever_the_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let alone = ["RunAccepted", "ModeBegun", "ModeCheckpointed", "ModeRolledBack", "RunFinished"];
    let mut kinds_before = wanted(&["planner"], &["first", "mark"], &alone);
    // It is taken back where it stands.
    kinds_before.extend(kinds(&["ToolCalled", "TaskLeased", "TaskSettled"], &["slow"]));
    let kinds_after = wanted(&["planner"], &["mark", "slow", "second"], &["ModeCompleted"]);
    let wanted = kinds_before.into_iter().chain(after_the_way_back(kinds_after)).collect();
    let restarts = of_restarts(&["planner", "slow"], &["first", "mark", "second"]);
    let others = restarts.iter().cloned().chain(after_the_way_back(restarts.clone())).collect();
    let mut kills = Kills::start(folder, &config(folder), wanted, others);
    while kills.go_on() {
        let round = kills.round();
        let mode = ExecutionMode::Planner;
        let person = async |told: Told<'_>| goes_back(told, folder, mode, round).await;
        let request = request(&format!("go back in round {round}"), mode, &GOES_BACK);
        let ended = kills.execution(request, person).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Succeeded, "{:?}", ended.result.error);
        assert_eq!(ended.count(|body| matches!(body, Body::ModeRolledBack(_))), 1);
        assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 6, "two of them twice");
        once_and_twice(folder, round);
    }
}

#[tokio::test]
async fn the_other_modes_go_back_to_a_checkpoint_once_wherever_the_daemon_is_killed() {
    for mode in [ExecutionMode::Simple, ExecutionMode::Supervised] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("rules.toml"), RULES).unwrap();
        let mut wanted = vec!["ModeCheckpointed".to_owned(), "ModeRolledBack".to_owned()];
        // What was at work ends before that, and what is done again comes after it.
        wanted.extend(kinds(&["TaskLeased", "TaskSettled"], &["slow"]));
        let mut kinds_after = kinds(&OF_PLANNER, &["planner"]);
        kinds_after.extend(kinds(&OF_TOOL, &["slow"]));
        wanted.extend(after_the_way_back(kinds_after));
        let mut kills = Kills::only_at(folder, &config(folder), wanted);
        while kills.go_on() {
            let round = kills.round();
            let person = async |told: Told<'_>| goes_back(told, folder, mode, round).await;
            let request = request(&format!("go back in round {round}"), mode, &GOES_BACK);
            let ended = kills.execution(request, person).await;
            assert_eq!(
                ended.result.outcome(),
                v1::RunOutcome::Succeeded,
                "{mode:?} {:?}",
                ended.result.error
            );
            assert_eq!(ended.count(|body| matches!(body, Body::ModeRolledBack(_))), 1, "{mode:?}");
            assert_eq!(ended.count(|body| matches!(body, Body::ModeCheckpointed(_))), 1, "{mode:?}");
            let calls = ended.count(|body| matches!(body, Body::ToolCalled(_)));
            if mode == ExecutionMode::Supervised {
                assert_eq!(calls, 6, "two of them twice");
                once_and_twice(folder, round);
                assert_eq!(said(&ended), [(QuestionPurpose::Plan, "approve".to_owned())]);
            } else {
                // The checkpoint is of the moment at which `slow` was at work.
                assert_eq!(calls, 5, "`slow` twice");
                each_once(folder, round);
                assert_eq!(journal(folder, "mark"), (1..=round).map(given).collect::<Vec<_>>());
            }
        }
    }
}

/// The places of these events of the run.
fn places(ended: &Ended, is_meant: impl Fn(&Body) -> bool) -> Vec<usize> {
    (0..).zip(&ended.bodies).filter(|(_, body)| is_meant(body)).map(|(place, _)| place).collect()
}

#[tokio::test]
async fn a_run_is_paused_and_resumed_once_wherever_the_daemon_is_killed() {
    for mode in MODES {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("rules.toml"), RULES).unwrap();
        let wanted = ["RunPaused", "RunResumed", "ToolObserved of slow", "PlannerAsked of planner"];
        let mut kills = Kills::only_at(folder, &config(folder), wanted.map(str::to_owned).to_vec());
        while kills.go_on() {
            let round = kills.round();
            // Paused while `slow` is at work, which goes on to its end; resumed when that has come, or cannot come. The same
            // requests again change nothing.
            let person = async |told: Told<'_>| {
                told.answer(|question| match question.purpose() {
                    QuestionPurpose::Plan => ("approve", None),
                    _ => told.outcome(folder),
                })
                .await;
                let is_slow = told.calls.last().is_some_and(|(tool, _)| tool == "slow");
                match told.body {
                    Body::TaskLeased(_) if is_slow => {
                        let pause = v1::PauseRunRequest {
                            run_id: told.run_id.to_owned(),
                            request_id: "wait".to_owned(),
                            ..v1::PauseRunRequest::default()
                        };
                        told.client.pause_run(pause).await.unwrap();
                    }
                    Body::RunPaused(_) => fs::write(folder.join(format!("slow-go-{round}")), "").unwrap(),
                    // What was lost with its daemon is not given out again while the run is paused.
                    Body::ToolObserved(_) | Body::TaskLeaseLost(_) if is_slow => {
                        let resume = v1::ResumeRunRequest {
                            run_id: told.run_id.to_owned(),
                            request_id: "go on".to_owned(),
                            ..v1::ResumeRunRequest::default()
                        };
                        told.client.resume_run(resume).await.unwrap();
                    }
                    _ => {}
                }
            };
            let tools = ["first", "slow", "second"];
            let ended =
                kills.execution(request(&format!("pause in round {round}"), mode, &tools), person).await;
            assert_eq!(
                ended.result.outcome(),
                v1::RunOutcome::Succeeded,
                "{mode:?} {:?}",
                ended.result.error
            );
            let paused = places(&ended, |body| matches!(body, Body::RunPaused(_)));
            let resumed = places(&ended, |body| matches!(body, Body::RunResumed(_)));
            assert_eq!((paused.len(), resumed.len()), (1, 1), "{mode:?}");
            let begun = places(&ended, |body| matches!(body, Body::PlannerAsked(_) | Body::ToolCalled(_)));
            let meanwhile = begun.iter().filter(|place| (paused[0]..resumed[0]).contains(place)).count();
            assert_eq!(meanwhile, 0, "{mode:?}: nothing is begun while it is paused");
            assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 3);
            each_once(folder, round);
        }
    }
}

#[tokio::test]
async fn a_plan_that_a_person_rejects_is_never_worked_on_wherever_the_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let wanted = ["QuestionAsked of plan", "QuestionAnswered of plan", "PlanRejected", "RunFinished"];
    let mut kills = Kills::only_at(folder, &config(folder), wanted.map(str::to_owned).to_vec());
    while kills.go_on() {
        let query = format!("escalate in round {}", kills.round());
        let request = request(&query, ExecutionMode::Supervised, &["first", "second"]);
        let ended = kills.execution(request, async |told| told.answer(|_| ("reject", None)).await).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Cancelled, "{:?}", ended.result);
        assert_eq!(said(&ended), [(QuestionPurpose::Plan, "reject".to_owned())]);
        assert_eq!(ended.count(|body| matches!(body, Body::PlanRejected(_))), 1);
        assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 0);
        each_once(folder, 0);
    }
}

#[tokio::test]
async fn a_call_that_a_person_rejects_is_never_made_wherever_the_daemon_is_killed() {
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("rules.toml"), RULES).unwrap();
        // No tool was called yet: what is observed is about the planner's call.
        let wanted = ["QuestionAsked of tool", "QuestionAnswered of tool", "ToolObserved of planner"];
        let mut kills = Kills::only_at(folder, &config(folder), wanted.map(str::to_owned).to_vec());
        while kills.go_on() {
            let round = kills.round();
            let mut request = request(&format!("reject in round {round}"), mode, &["mark", "second"]);
            if let Some(v1::start_run_request::Work::Mode(run)) = &mut request.work {
                run.tools[0].needs_approval = true;
            }
            let person = async |told: Told<'_>| {
                told.answer(|question| match question.purpose() {
                    QuestionPurpose::Tool => ("reject", None),
                    _ => told.outcome(folder),
                })
                .await;
            };
            let ended = kills.execution(request, person).await;
            assert_eq!(
                ended.result.outcome(),
                v1::RunOutcome::Succeeded,
                "{mode:?} {:?}",
                ended.result.error
            );
            assert_eq!(said(&ended), [(QuestionPurpose::Tool, "reject".to_owned())], "{mode:?}");
            let codes = ended.bodies.iter().filter_map(|body| match body {
                Body::ToolObserved(seen) => Some(seen.error.as_ref().map(|error| &*error.code)),
                _ => None,
            });
            assert_eq!(codes.collect::<Vec<_>>(), [Some("TOOL_REJECTED"), None], "{mode:?}");
            assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 1, "{mode:?}");
            assert_eq!(journal(folder, "mark"), [] as [Value; 0], "{mode:?}");
            assert_eq!(journal(folder, "second"), (1..=round).map(given).collect::<Vec<_>>(), "{mode:?}");
        }
    }
}

#[tokio::test]
async fn the_eleventh_new_plan_is_asked_about_once_wherever_the_daemon_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let wanted = [
        // Nobody knows then whether the tool has failed.
        "TaskLeased of fails",
        "QuestionAsked of escalation",
        "QuestionAnswered of escalation",
        "EscalationAnswered",
    ];
    let mut kills = Kills::only_at(folder, &config(folder), wanted.map(str::to_owned).to_vec());
    while kills.go_on() {
        let round = kills.round();
        // Once it may go on, and then it may not.
        let person = async |told: Told<'_>| {
            told.answer(|question| match question.purpose() {
                QuestionPurpose::Escalation if question.text.contains(" 11 times") => ("continue", None),
                QuestionPurpose::Escalation => ("abort", None),
                _ => told.outcome(folder),
            })
            .await;
        };
        let request = request(&format!("never good in round {round}"), ExecutionMode::Planner, &["fails"]);
        let ended = kills.execution(request, person).await;
        assert_eq!(ended.result.outcome(), v1::RunOutcome::Failed);
        let expected = ["continue", "abort"].map(|answer| (QuestionPurpose::Escalation, answer.to_owned()));
        assert_eq!(said(&ended), expected);
        // The first plan and ten others, and eleven more that the answer has allowed.
        assert_eq!(ended.count(|body| matches!(body, Body::ToolCalled(_))), 22);
        let expected = (1..=round).flat_map(|round| vec![given(round); 22]);
        assert_eq!(journal(folder, "fails"), expected.collect::<Vec<_>>());
    }
}

/// The state of the run.
async fn stands(client: &Client, run_id: &str) -> v1::ExecutionState {
    let request = v1::GetExecutionRequest { run_id: run_id.to_owned(), ..v1::GetExecutionRequest::default() };
    client.get_execution(request).await.unwrap().state.unwrap()
}

/// Waits until the run has such an event.
async fn until(client: &Client, run_id: &str, is_meant: impl Fn(&Body) -> bool) {
    let filter = v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() };
    let subscribe = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let mut stream = client.subscribe(subscribe);
    let meant = async {
        while let Some(delivery) = stream.next().await {
            if let Delivery::Event { event, .. } = delivery.unwrap()
                && event.body.is_some_and(|body| is_meant(&body))
            {
                return;
            }
        }
        unreachable!("the stream has ended");
    };
    tokio::time::timeout(PATIENCE, meant).await.expect("it comes");
}

/// Lets a worker speak to the daemon, and hear it, until it is deaf. The next connection hears again.
async fn line(daemon: String, is_deaf: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((worker, _)) = listener.accept().await {
            // Where the daemon is away, the worker tries again.
            let Ok(daemon) = TcpStream::connect(&daemon).await else { continue };
            let mut is_deaf = is_deaf.clone();
            let ((mut heard, mut said), (mut from, mut to)) = (daemon.into_split(), worker.into_split());
            tokio::spawn(async move {
                let hears = async {
                    tokio::select! {
                        _ = tokio::io::copy(&mut heard, &mut to) => return,
                        _ = is_deaf.wait_for(|is_deaf| *is_deaf) => {}
                    }
                    // What comes now is lost.
                    let _ = tokio::io::copy(&mut heard, &mut tokio::io::sink()).await;
                };
                tokio::select! {
                    () = hears => {}
                    _ = tokio::io::copy(&mut from, &mut said) => {}
                }
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_run_that_has_gone_back_when_its_daemon_is_killed_stands_at_the_checkpoint_and_refuses_late_results()
 {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("rules.toml"), RULES).unwrap();
    let config = config(folder);
    let (own, _) = config.split_once("[[agents]]\nname = \"slow\"").unwrap();
    let daemon = Served::start(folder, own);
    let (deafen, is_deaf) = watch::channel(false);
    let line = line(daemon.address().to_owned(), is_deaf).await;
    let (started, mut begun) = mpsc::unbounded_channel();
    let (finish, finished) = watch::channel(false);
    let (end, mut ended) = mpsc::unbounded_channel();
    let work = move |_: Task| {
        let (started, mut finished, end) = (started.clone(), finished.clone(), end.clone());
        async move {
            started.send(()).unwrap();
            let _ = finished.wait_for(|finished| *finished).await;
            end.send(()).unwrap();
            TaskOutput::json(true)
        }
    };
    let agent = v1::Agent {
        name: "slow".to_owned(),
        kind: v1::AgentKind::Tool.into(),
        undoable: true,
        max_concurrency: 1,
        ..v1::Agent::default()
    };
    let worker = Worker::new(line).id("w1").agent_with(agent, work);
    let worker = tokio::spawn(worker.run_until(std::future::pending::<()>()));
    let client = daemon.client().await;
    let run_id = loop {
        // The daemon does not know the tool until the worker has said hello.
        match client.start_run(request("go back in round 1", ExecutionMode::Planner, &GOES_BACK)).await {
            Ok(started) => break started.run_id,
            Err(error) => assert_eq!(error.code(), Some("AGENT_NOT_FOUND")),
        }
        tokio::task::yield_now().await;
    };
    begun.recv().await.unwrap();
    let pause = v1::PauseRunRequest {
        run_id: run_id.clone(),
        request_id: "wait".to_owned(),
        ..v1::PauseRunRequest::default()
    };
    client.pause_run(pause).await.unwrap();
    let before = stands(&client, &run_id).await;
    assert_eq!((before.step, before.progress), (2, 0.5), "first and mark are done");
    // The worker does not hear that its lease is gone, and has its result only when the daemon is dead.
    deafen.send_replace(true);
    roll_back(&client, &run_id).await;
    daemon.signal("KILL");
    finish.send_replace(true);
    ended.recv().await.unwrap();
    deafen.send_replace(false);
    let daemon = daemon.start_again();
    let client = daemon.client().await;
    let state = stands(&client, &run_id).await;
    let steps = [v1::StepStatus::Succeeded, v1::StepStatus::Pending, v1::StepStatus::Pending]
        .into_iter()
        .chain([v1::StepStatus::Pending]);
    assert_eq!(state.steps().collect::<Vec<_>>(), steps.collect::<Vec<_>>());
    assert_eq!((state.step, state.error_count, state.replans), (1, 0, 0));
    assert_eq!((state.progress, state.deviation, &*state.execution_state), (0.25, 0.0, "paused"));
    assert_eq!(state.last_result.unwrap().tool, "first");
    assert_eq!(state.plan, before.plan);
    assert_eq!(state.checkpoints, before.checkpoints);
    until(&client, &run_id, |body| matches!(body, Body::ResultRefused(_))).await;
    once_and_twice_so_far(folder);
    let resume = v1::ResumeRunRequest {
        run_id: run_id.clone(),
        request_id: "go on".to_owned(),
        ..v1::ResumeRunRequest::default()
    };
    client.resume_run(resume).await.unwrap();
    let result = client.wait_run(&run_id, Some(PATIENCE)).await.unwrap().expect("it ends");
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{:?}", result.error);
    once_and_twice(folder, 1);
    begun.recv().await.unwrap();
    assert!(begun.try_recv().is_err(), "the worker's tool was called twice");
    worker.abort();
}

/// Nothing is done anew while the run is paused.
fn once_and_twice_so_far(folder: &Path) {
    assert_eq!(journal(folder, "first"), [given(1)]);
    assert_eq!(journal(folder, "mark"), [given(1)]);
    assert_eq!(journal(folder, "second"), [] as [Value; 0]);
}
