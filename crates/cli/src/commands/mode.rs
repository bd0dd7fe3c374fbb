//! `capataz mode …`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use capataz_client::Client;
use capataz_contracts::browser::{ALL_TOOLS, TOOL_PREFIX};
use capataz_contracts::json;
use capataz_contracts::v1::{self, payload::Data};
use capataz_contracts::validate::{ALL_AGENTS, WORKSPACE_MAX};
use capataz_display::compact::Form;
use capataz_display::error;
use capataz_display::executing::spent_line;
use capataz_display::mode as display;
use capataz_display::paint::Paint;
use capataz_display::words::{fill, words};

use super::{Daemon, Outcome, fetch, run, steer};
use crate::args::{Global, ModeCommand, ModeRunArgs, RunsCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan_source::name_of;
use crate::script::source;

const APPROVE: &str = "approve";
const EDIT: &str = "edit";
/// Folders that nobody means by a workspace.
const LEFT_OUT: &[&str] = &[".git", "target", "node_modules", ".venv", "__pycache__"];

pub async fn mode(command: ModeCommand, global: &Global, out: &mut Output) -> Outcome {
    if matches!(command, ModeCommand::List) {
        list(out);
        return Ok(Exit::Ok);
    }
    let daemon = Daemon::connect(global).await?;
    match command {
        ModeCommand::Pause { run, mutation } => {
            steer::steer(&daemon, RunsCommand::Pause { run, mutation }, out).await
        }
        ModeCommand::Resume { run, mutation } => {
            steer::steer(&daemon, RunsCommand::Resume { run, mutation }, out).await
        }
        ModeCommand::Run(args) => start(&daemon, *args, out).await,
        ModeCommand::Set { mode, session } => {
            let mode = v1::ExecutionMode::from(mode);
            let request = v1::ChooseModeRequest { session: session.clone(), mode: mode.into() };
            let response = daemon.client.choose_mode(request).await.map_err(|error| daemon.failure(error))?;
            let texts = &words().modes;
            let name = display::mode_name(mode);
            let text = match response.before() {
                v1::ExecutionMode::Unspecified => fill(texts.chosen, &[&session, name]),
                before => fill(texts.chosen_before, &[&session, name, display::mode_name(before)]),
            };
            done(&text, json::print("capataz.v1.ChooseModeResponse", &response), out)
        }
        ModeCommand::Show { run, at, output } => {
            let (run_id, response) = execution(&daemon, &run, at, output).await?;
            if out.json {
                out.document(&json::print("capataz.v1.GetExecutionResponse", &response));
                return Ok(Exit::Ok);
            }
            out.line(&display::execution(&state_of(&run_id, response)?, out.paint));
            let spent = spent_line(&fetch::run(&daemon, &run_id, false).await?, out.paint);
            if !spent.is_empty() {
                out.line(&spent);
            }
            Ok(Exit::Ok)
        }
        ModeCommand::Approve { run, mutation } => {
            let (run_id, question) = proposed(&daemon, &run).await?;
            let request = v1::ResolveRequest {
                run_id: run_id.clone(),
                question_id: question.question_id,
                answer: APPROVE.to_owned(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                value: None,
                revision: Some(question.revision),
            };
            let response = daemon.client.resolve(request).await;
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.ResolveResponse", &response);
            done(&fill(words().modes.plan_approved, &[&run_id]), document, out)
        }
        ModeCommand::Edit { run, plan_file, mutation } => {
            let (run_id, question) = proposed(&daemon, &run).await?;
            let (plan, typed) = match plan_file {
                Some(file) => (as_answer(std::fs::read(&file).map_err(|error| unread(&file, &error))?), None),
                None => match edited(&question)? {
                    Some(typed) => (typed.plan.clone(), Some(typed)),
                    None => {
                        match out.json {
                            true => out.document(&serde_json::json!({ "changed": false })),
                            false => out.line(&fill(words().modes.plan_left, &[&run_id])),
                        }
                        return Ok(Exit::Ok);
                    }
                },
            };
            let request = v1::ResolveRequest {
                run_id: run_id.clone(),
                question_id: question.question_id,
                answer: EDIT.to_owned(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
                value: Some(plan_value(plan)),
                revision: Some(question.revision),
            };
            let response = daemon.client.resolve(request).await;
            if let Some(typed) = typed.filter(|_| response.is_err()) {
                out.note(&typed.keep(&run_id));
            }
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.ResolveResponse", &response);
            done(&fill(words().modes.plan_changed, &[&run_id]), document, out)
        }
        ModeCommand::Checkpoint { run, reason, mutation } => {
            let run_id = fetch::run_id(&daemon, &run).await?;
            let request = v1::CreateCheckpointRequest {
                run_id: run_id.clone(),
                reason,
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = daemon.client.create_checkpoint(request).await;
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.CreateCheckpointResponse", &response);
            done(&fill(words().modes.made, &[&response.checkpoint_id, &run_id]), document, out)
        }
        ModeCommand::Checkpoints { run } => {
            let (run_id, response) = execution(&daemon, &run, None, false).await?;
            if out.json {
                out.document(&json::print("capataz.v1.GetExecutionResponse", &response));
                return Ok(Exit::Ok);
            }
            out.line(&display::checkpoints(&state_of(&run_id, response)?, out.paint));
            Ok(Exit::Ok)
        }
        ModeCommand::Rollback { run, checkpoint, mutation } => {
            let run_id = fetch::run_id(&daemon, &run).await?;
            let request = v1::RollbackExecutionRequest {
                run_id: run_id.clone(),
                checkpoint_id: checkpoint.clone(),
                request_id: mutation.request_id,
                if_seq: mutation.if_seq,
            };
            let response = daemon.client.rollback_execution(request).await;
            let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
            let document = json::print("capataz.v1.RollbackExecutionResponse", &response);
            done(&fill(words().modes.went_back, &[&run_id, &checkpoint]), document, out)
        }
        ModeCommand::Risk { query, tools } => {
            let language = out.people.tag().to_owned();
            let request = v1::AssessRiskRequest { query, tools, language };
            let response = daemon.client.assess_risk(request).await.map_err(|error| daemon.failure(error))?;
            if out.json {
                out.document(&json::print("capataz.v1.AssessRiskResponse", &response));
            } else {
                out.line(&display::risk(&response, out.paint));
            }
            Ok(Exit::Ok)
        }
        // It needs no daemon.
        ModeCommand::List => Ok(Exit::Ok),
    }
}

fn done(text: &str, document: serde_json::Value, out: &mut Output) -> Outcome {
    match out.json {
        true => out.document(&document),
        false => out.line(&error::ok(text, out.paint)),
    }
    Ok(Exit::Ok)
}

fn list(out: &mut Output) {
    if out.json {
        let modes = ["simple", "planner", "supervised"];
        out.document(&serde_json::json!({ "modes": modes }));
    } else {
        out.line(&display::modes(out.paint));
    }
}

async fn start(daemon: &Daemon, args: ModeRunArgs, out: &mut Output) -> Outcome {
    let mut tools: Vec<v1::ModeTool> = Vec::new();
    for name in args.tools.iter().chain(&args.approve) {
        if tools.iter().all(|tool| tool.name != *name) {
            tools.push(v1::ModeTool { name: name.clone(), ..v1::ModeTool::default() });
        }
    }
    for tool in &mut tools {
        tool.needs_approval = args.approve.contains(&tool.name);
    }
    // Whoever names only what is to be approved has not said that there is to be nothing else.
    if args.tools.is_empty() && !tools.is_empty() && tools.iter().all(|tool| tool.name != ALL_AGENTS) {
        tools.push(v1::ModeTool { name: ALL_AGENTS.to_owned(), ..v1::ModeTool::default() });
    }
    let (browser, browser_policy) = browser_of(&args, &mut tools)?;
    let workspace = match &args.workspace {
        Some(folder) => files_of(folder)?,
        None => Vec::new(),
    };
    let work = v1::ModeRun {
        query: args.query,
        mode: args.mode.map(|mode| v1::ExecutionMode::from(mode).into()),
        session: args.session,
        planner: args.planner.unwrap_or_default(),
        tools,
        workspace,
        current_file: args.file,
        autonomy_level: args.autonomy,
        max_steps: args.max_steps,
        browser,
        browser_policy,
        ..v1::ModeRun::default()
    };
    let request = v1::StartRunRequest {
        labels: args.labels.into_iter().collect(),
        idempotency_key: args.key,
        ..v1::StartRunRequest::of_mode(work)
    };
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    run::follow_started(daemon, started, args.following, None, out).await
}

/// How the run's browser is set up, and what it may do. Where it may do something, the tools for that are there.
fn browser_of(
    args: &ModeRunArgs,
    tools: &mut Vec<v1::ModeTool>,
) -> Result<(Option<v1::BrowserOptions>, Option<v1::ScriptPolicy>), Failure> {
    let given = match &args.browser {
        Some(file) => source::load(file, None, &[])?,
        None => source::Given::default(),
    };
    let name = args.browser.as_deref().map_or_else(|| "--allow".to_owned(), name_of);
    if !given.violations.is_empty() {
        return Err(Failure::Script { file: name, violations: given.violations });
    }
    if args.browser.is_some() && !given.script.interactive {
        return Err(Failure::invalid(fill(words().browser.not_interactive, &[&name])));
    }
    let (mut browser, mut policy) = (given.script.browser, given.script.policy);
    if args.headed {
        browser.get_or_insert_default().headed = true;
    }
    if !args.allow.is_empty() {
        policy.get_or_insert_default().allowlist.extend(args.allow.iter().cloned());
    }
    let is_wanted = browser.is_some() || policy.is_some();
    if is_wanted && tools.iter().all(|tool| !tool.name.starts_with(TOOL_PREFIX)) {
        let stands = |name: &str| v1::ModeTool { name: name.to_owned(), ..v1::ModeTool::default() };
        if tools.is_empty() {
            tools.push(stands(ALL_AGENTS));
        }
        tools.push(stands(ALL_TOOLS));
    }
    Ok((browser, policy))
}

/// How many entries of folders are looked at for the files of a workspace.
const LOOKED_AT_MAX: usize = 100_000;

/// The names of the files of a folder, by name, as far as a prompt tells them. Folders near it are looked at first.
fn files_of(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    let mut open = VecDeque::from([PathBuf::new()]);
    let mut room = LOOKED_AT_MAX;
    while let Some(below) = open.pop_front() {
        let at = folder.join(&below);
        let entries = match std::fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if below.as_os_str().is_empty() => return Err(unread(&at, &error)),
            // One that the user may not read is not what is meant.
            Err(_) => continue,
        };
        for entry in entries.flatten().take(room) {
            room = room.saturating_sub(1);
            let name = entry.file_name();
            let path = below.join(&name);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !LEFT_OUT.iter().any(|left_out| name == *left_out) => {
                    open.push_back(path);
                }
                Ok(kind) if kind.is_file() => files.extend(path.to_str().map(str::to_owned)),
                _ => {}
            }
        }
    }
    files.retain(|file| file.len() <= 512);
    files.sort_unstable();
    files.truncate(WORKSPACE_MAX);
    Ok(files)
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::invalid(format!("{}: {error}", path.display()))
}

async fn execution(
    daemon: &Daemon,
    run: &str,
    at: Option<u64>,
    output: bool,
) -> Result<(String, v1::GetExecutionResponse), Failure> {
    let run_id = fetch::run_id(daemon, run).await?;
    let request =
        v1::GetExecutionRequest { run_id: run_id.clone(), at_seq: at.unwrap_or(0), include_output: output };
    let response = daemon.client.get_execution(request).await;
    let response = response.map_err(|error| daemon.failure(error).about(&run_id))?;
    Ok((run_id, response))
}

fn state_of(run_id: &str, response: v1::GetExecutionResponse) -> Result<v1::ExecutionState, Failure> {
    response.state.ok_or_else(|| Failure::failed(fill(words().modes.no_execution, &[run_id])))
}

/// The plan as an answer has it. That of `mode show --json`, which has a revision, is one as well; anything else is judged as it
/// is.
fn as_answer(text: Vec<u8>) -> Vec<u8> {
    let value = serde_json::from_slice::<serde_json::Value>(&text).ok();
    let value = value.filter(|value| value.get("revision").is_some());
    let parsed = value.and_then(|value| json::parse::<v1::ModePlan>("capataz.v1.ModePlan", &value).ok());
    let Some(plan) = parsed else { return text };
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    let step = |step: &v1::PlanStep| {
        serde_json::json!({
            "id": step.id,
            "description": step.description,
            "tool": step.tool,
            "parameters": read(&step.parameters),
            "expected": if step.expected.is_empty() { serde_json::json!({ "success": true }) } else { read(&step.expected) },
            "dependsOn": step.depends_on,
        })
    };
    let steps: Vec<serde_json::Value> = plan.steps.iter().map(step).collect();
    serde_json::json!({ "steps": steps, "checkpoints": plan.checkpoints }).to_string().into_bytes()
}

/// The question about a plan that waits for approval, with the plan.
async fn proposed(daemon: &Daemon, run: &str) -> Result<(String, v1::Question), Failure> {
    let run_id = fetch::run_id(daemon, run).await?;
    let request =
        v1::GetRunRequest { run_id: run_id.clone(), include_outputs: true, ..v1::GetRunRequest::default() };
    let response = daemon.client.get_run(request).await;
    let questions =
        response.map_err(|error| daemon.failure(error).about(&run_id))?.run.unwrap_or_default().questions;
    let is_open = |question: &v1::Question| {
        question.purpose() == v1::QuestionPurpose::Plan && question.answer.is_none()
    };
    match questions.into_iter().find(is_open) {
        Some(question) => Ok((run_id, question)),
        None => Err(Failure::failed(fill(words().modes.no_plan_question, &[&run_id]))),
    }
}

/// The plan of the run that waits for approval, as the user's editor leaves it.
///
/// # Errors
/// Why there is none, for people.
pub async fn changed_plan(client: &Client, run_id: &str, question: &v1::Question) -> Result<Typed, String> {
    // What an event tells of the question has no plan.
    let request = v1::GetRunRequest {
        run_id: run_id.to_owned(),
        include_outputs: true,
        ..v1::GetRunRequest::default()
    };
    let response = client.get_run(request).await.map_err(|error| error.message().to_owned())?;
    let questions = response.run.unwrap_or_default().questions;
    let asked = questions.into_iter().find(|asked| asked.question_id == question.question_id);
    let edited = edited(&asked.unwrap_or_default());
    let edited = edited.map_err(|failure| failure.to_text(Form::Compact, Paint::OFF))?;
    edited.ok_or_else(|| fill(words().modes.plan_left, &[run_id]))
}

/// A plan as the value of an answer.
pub fn plan_value(plan: Vec<u8>) -> v1::Payload {
    v1::Payload { media_type: json::JSON_MEDIA_TYPE.to_owned(), data: Some(Data::Inline(plan.into())) }
}

/// A plan that a person has typed in an editor.
pub struct Typed {
    pub plan: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Typed {
    /// Keeps what was typed, because it was refused: says where it is, and how it is given again.
    pub fn keep(self, run_id: &str) -> String {
        let file = self.folder.keep().join(PLAN_FILE);
        fill(words().modes.edit_kept, &[&file.display().to_string(), run_id])
    }
}

const PLAN_FILE: &str = "plan.json";

/// The proposed plan, as the user's editor leaves it; `None` where it says the same as before, however it is laid out.
#[expect(clippy::disallowed_methods, reason = "the user's editor is a program that the environment names")]
#[expect(clippy::disallowed_types, reason = "the user starts it, by this command")]
fn edited(question: &v1::Question) -> Result<Option<Typed>, Failure> {
    let proposed = match question.proposed.as_ref().and_then(|proposed| proposed.data.as_ref()) {
        Some(Data::Inline(plan)) => serde_json::from_slice::<serde_json::Value>(plan).unwrap_or_default(),
        Some(Data::Blob(_)) | None => serde_json::Value::Null,
    };
    let pretty = format!("{proposed:#}\n");
    let folder = tempfile::tempdir().map_err(|error| Failure::failed(error.to_string()))?;
    let file = folder.path().join(PLAN_FILE);
    std::fs::write(&file, pretty).map_err(|error| unread(&file, &error))?;
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = named.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let mut words_of = editor.split_whitespace();
    let program = words_of.next().unwrap_or("vi");
    let ended = std::process::Command::new(program).args(words_of).arg(&file).status();
    match ended {
        Ok(status) if status.success() => {
            let plan = std::fs::read(&file).map_err(|error| unread(&file, &error))?;
            let is_same =
                serde_json::from_slice::<serde_json::Value>(&plan).is_ok_and(|plan| plan == proposed);
            Ok((!is_same).then_some(Typed { plan, folder }))
        }
        _ => Err(Failure::failed(fill(words().modes.edit_failed, &[&editor]))),
    }
}
