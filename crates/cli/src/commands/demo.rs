//! `capataz demo`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1;
use capataz_daemon::Config;
use serde_json::json;

use super::serve::asked_to_stop;
use super::{Daemon, Outcome, act, ending, report, run::style_for_people};
use crate::args::{DemoArgs, DemoCommand};
use crate::demo::{crew, site};
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use crate::watch::follow::{self, End, Options, Style};
use crate::watch::lines::Detail;
use capataz_display::answer;
use capataz_display::mode;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, routing, words};

/// The project's own specs, which also serve as examples.
const SPECS: [(&str, &str); 2] = [
    ("specs/kiro-adaptive-assistance.toml", include_str!("../../../../specs/kiro-adaptive-assistance.toml")),
    ("specs/whispers-of-the-wave.toml", include_str!("../../../../specs/whispers-of-the-wave.toml")),
];

/// `{host}` is the daemon's own address.
const REGISTRATION: &str = include_str!("../demo/registration.toml");

pub async fn demo(args: DemoArgs, out: &mut Output) -> Outcome {
    if let Some(DemoCommand::Site { port }) = args.command {
        return serve_site(port, out).await;
    }
    let texts = &words().demo;
    let folder = crew::absolute(&args.path)
        .ok()
        .filter(|folder| folder.is_dir())
        .ok_or_else(|| Failure::invalid(fill(texts.no_folder, &[&args.path.display().to_string()])))?;
    let data_dir = data_folder()?;
    let program = env::current_exe().map_err(|error| Failure::failed(error.to_string()))?;
    let plan = crew::plan(&folder)
        .map_err(|violations| Failure::Violations { subject: "demo".to_owned(), violations })?;
    let mut config = Config::embedded(data_dir.clone());
    config.agents = crew::agents(&program, &folder, &data_dir);
    config.demo_page = true;
    config.secrets_dir = Some(access_code(&data_dir)?);
    let rules = crew::rules().map_err(|problems| Failure::failed(problems.join("; ")))?;
    config.rules.insert(crew::PLANNER.to_owned(), Arc::new(rules));
    config.specs = SPECS.map(|(name, content)| (name.to_owned(), content.to_owned())).to_vec();
    let daemon =
        capataz_daemon::Daemon::start(config).await.map_err(|error| Failure::failed(chain(&error)))?;
    let address = daemon.address().to_string();
    if !out.json {
        out.line(&out.paint.text(Tone::Strong, &fill(texts.intro, &[&folder.display().to_string()])));
        out.line(texts.intro_tasks);
        out.line("");
        out.flush();
    }
    let addr = format!("http://{address}");
    let mut outcome = run(&addr, plan, &data_dir, out).await;
    if outcome.as_ref().is_ok_and(|exit| *exit == Exit::Ok) {
        outcome = route(&addr, out).await;
    }
    if outcome.as_ref().is_ok_and(|exit| *exit == Exit::Ok) {
        outcome = execute(&addr, out).await;
    }
    if outcome.as_ref().is_ok_and(|exit| *exit == Exit::Ok) {
        outcome = register(&address, &data_dir, out).await;
    }
    if outcome.as_ref().is_ok_and(|exit| *exit == Exit::Ok) && !out.json {
        epilogue(&data_dir, out);
    }
    if args.keep && outcome.is_ok() {
        out.note(&fill(texts.keeping, &[&address]));
        daemon.wait(asked_to_stop()?).await;
    } else {
        daemon.shutdown().await;
    }
    outcome
}

/// Makes a new folder, which is kept so that the run can be inspected later.
fn data_folder() -> Result<PathBuf, Failure> {
    let folder = tempfile::Builder::new().prefix("capataz-demo-").tempdir();
    folder
        .map(tempfile::TempDir::keep)
        .map_err(|error| Failure::failed(fill(words().demo.no_runtime_folder, &[&error.to_string()])))
}

async fn run(addr: &str, plan: v1::Plan, data_dir: &Path, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect_to(addr).await?;
    let request = v1::StartRunRequest::of_plan(plan);
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    let run_id = started.run_id;
    let style = if out.json { Style::Json } else { style_for_people(out) };
    let options = Options { style, timeout: None, exit_on_question: false, progress: false };
    let (model, end) =
        follow::follow(&daemon.client, &run_id, options, out).await.map_err(|error| daemon.failure(error))?;
    let data_dir = data_dir.display().to_string();
    let texts = &words().demo;
    if end != End::Finished || !model.is_finished() {
        // The daemon ends with this command; only the log remains to be inspected.
        out.note(&fill(texts.again, &[&data_dir]));
        out.note(&fill(texts.again_show, &[&run_id]));
        return Ok(if end == End::Interrupted { Exit::Interrupted } else { Exit::StillRunning });
    }
    if out.json {
        out.record(&json!({ "run_id": run_id, "data_dir": data_dir }));
        return Ok(Exit::of_outcome(model.outcome));
    }
    let exit = ending::finished(&daemon, &run_id, &model, out).await?;
    out.line("");
    out.line(&fill(texts.log, &[&data_dir]));
    out.line(&fill(texts.again, &[&data_dir]));
    out.line(&fill(texts.again_show, &[&run_id]));
    Ok(exit)
}

/// Routes a request in each of two languages to the spec that should answer it, and prints why.
async fn route(addr: &str, out: &mut Output) -> Outcome {
    let texts = &words().demo;
    let daemon = Daemon::connect_to(addr).await?;
    if !out.json {
        out.line("");
        out.line(&out.paint.text(Tone::Strong, texts.routing));
    }
    for (text, language) in [(texts.ask_spanish, "es"), (texts.ask_english, "en")] {
        let preferences = [("language".to_owned(), language.to_owned())].into();
        let ask = v1::Ask { text: text.to_owned(), preferences, ..v1::Ask::default() };
        let request = v1::StartRunRequest::of_ask(ask);
        let executed =
            daemon.client.execute_run(request, None).await.map_err(|error| daemon.failure(error))?;
        let result = executed.result.unwrap_or_default();
        let asked = result.ask().cloned().unwrap_or_default();
        if out.json {
            out.record(&json!({ "run_id": executed.run_id, "text": text, "spec": asked.spec }));
        } else {
            let routing = asked.routing.clone().unwrap_or_default();
            let answer = answer::answer(&asked, result.error.as_ref(), out.paint);
            out.line("");
            out.line(&fill(texts.asked, &[text]));
            let confidence = answer::sure(routing.confidence);
            out.line(&fill(texts.routed, &[&asked.spec, &confidence, &routing::reason(&routing.reason)]));
            for line in answer.lines().filter(|line| !line.is_empty()) {
                out.line(&fill(texts.answered, &[line]));
            }
        }
        if result.outcome() != v1::RunOutcome::Succeeded {
            return Ok(Exit::of_outcome(result.outcome()));
        }
    }
    Ok(Exit::Ok)
}

/// Works on a query with a planner and tools. The plan waits for approval, which is given here.
async fn execute(addr: &str, out: &mut Output) -> Outcome {
    let texts = &words().demo;
    let daemon = Daemon::connect_to(addr).await?;
    let tool = |name: &&str| v1::ModeTool { name: (*name).to_owned(), ..v1::ModeTool::default() };
    let run = v1::ModeRun {
        query: texts.query.to_owned(),
        mode: Some(v1::ExecutionMode::Supervised.into()),
        planner: crew::PLANNER.to_owned(),
        tools: crew::TOOLS.iter().map(tool).collect(),
        ..v1::ModeRun::default()
    };
    let request = v1::StartRunRequest::of_mode(run);
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    let run_id = started.run_id;
    let options =
        |exit_on_question| Options { style: Style::Silent, timeout: None, exit_on_question, progress: false };
    let followed = follow::follow(&daemon.client, &run_id, options(true), out).await;
    let (model, end) = followed.map_err(|error| daemon.failure(error))?;
    if let (End::Question, Some(question)) = (end, model.questions.first()) {
        if !out.json {
            out.line("");
            out.line(&out.paint.text(Tone::Strong, texts.executing));
            out.line(&fill(texts.asked, &[texts.query]));
            out.line(&fill(texts.approves, &[&run_id]));
            out.line("");
        }
        let request = v1::ResolveRequest {
            run_id: run_id.clone(),
            question_id: question.question_id.clone(),
            answer: "approve".to_owned(),
            request_id: "demo".to_owned(),
            revision: Some(question.revision),
            ..v1::ResolveRequest::default()
        };
        daemon.client.resolve(request).await.map_err(|error| daemon.failure(error))?;
    }
    let followed = follow::follow(&daemon.client, &run_id, options(true), out).await;
    let (model, end) = followed.map_err(|error| daemon.failure(error))?;
    if end != End::Finished || !model.is_finished() {
        return Ok(if end == End::Interrupted { Exit::Interrupted } else { Exit::StillRunning });
    }
    let request = v1::GetExecutionRequest { run_id: run_id.clone(), ..v1::GetExecutionRequest::default() };
    let state = daemon.client.get_execution(request).await.map_err(|error| daemon.failure(error))?.state;
    let state = state.unwrap_or_default();
    if out.json {
        let plan = state.plan.as_ref().map_or(0, |plan| plan.steps.len());
        out.record(&json!({ "run_id": run_id, "mode": "supervised", "steps": plan }));
    } else {
        out.line(&mode::execution(&state, out.paint));
    }
    Ok(Exit::of_outcome(model.outcome))
}

/// Writes the secret that the script types. It appears nowhere else than in its own file.
fn access_code(data_dir: &Path) -> Result<PathBuf, Failure> {
    let folder = data_dir.join("secrets");
    let code = uuid::Uuid::now_v7().simple().to_string();
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("DEMO_CODE"), code));
    written.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(folder)
}

/// Fills in and sends a form if there is a browser; otherwise prints how to get one.
async fn register(address: &str, data_dir: &Path, out: &mut Output) -> Outcome {
    let texts = &words().demo;
    let daemon = Daemon::connect_to(&format!("http://{address}")).await?;
    let browser = daemon.client.describe_browser().await.map_err(|error| daemon.failure(error))?;
    if !out.json {
        out.line("");
    }
    if !browser.found {
        if out.json {
            out.record(&json!({ "browser": null, "problem": browser.problem }));
        } else {
            out.line(&out.paint.text(Tone::Warning, texts.no_browser));
            out.line(&browser.problem);
        }
        return Ok(Exit::Ok);
    }
    let script = script_file::parse(&REGISTRATION.replace("{host}", address), Format::Toml)
        .map_err(|violations| Failure::Violations { subject: "demo".to_owned(), violations })?;
    if !out.json {
        out.line(&out.paint.text(Tone::Strong, &fill(texts.browser, &[&browser.version])));
    }
    let request = v1::StartRunRequest::of_script(script);
    let started = daemon.client.start_run(request).await.map_err(|error| daemon.failure(error))?;
    let style = if out.json { Style::Json } else { Style::Lines(Detail::Results) };
    let options = Options { style, timeout: None, exit_on_question: false, progress: false };
    let followed = follow::follow(&daemon.client, &started.run_id, options, out).await;
    let (model, end) = followed.map_err(|error| daemon.failure(error))?;
    if end != End::Finished || !model.is_finished() {
        return Ok(if end == End::Interrupted { Exit::Interrupted } else { Exit::StillRunning });
    }
    let file = data_dir.join("report.html");
    report::write(&daemon, &started.run_id, &file, true, out).await?;
    let file = file.display().to_string();
    if out.json {
        out.record(&json!({ "run_id": started.run_id, "report": file }));
        return Ok(Exit::of_outcome(model.outcome));
    }
    let exit = act::ended(&started.run_id, &model, out);
    out.line(&fill(texts.browser_report, &[&file]));
    Ok(exit)
}

fn epilogue(data_dir: &Path, out: &mut Output) {
    let texts = &words().demo;
    let data_dir = data_dir.display().to_string();
    out.line("");
    out.line(&out.paint.text(Tone::Strong, texts.next));
    out.line(texts.next_plans);
    out.line(&fill(texts.next_ask, &[&data_dir]));
    out.line(texts.next_act);
    out.line(texts.next_help);
}

/// Serves the site of the example scripts until the command is asked to stop.
async fn serve_site(port: u16, out: &mut Output) -> Outcome {
    let texts = &words().demo;
    let stop = asked_to_stop()?;
    let in_use = |error: std::io::Error| {
        Failure::failed(fill(texts.site_not_served, &[&port.to_string(), &error.to_string()]))
    };
    let (listener, address) = site::listen(port).await.map_err(in_use)?;
    let url = format!("http://{address}");
    if out.json {
        out.record(&json!({ "url": url, "user": site::USER, "password": site::PASSWORD }));
    } else {
        out.line(&fill(texts.site, &[&out.paint.text(Tone::Strong, &url)]));
        out.line(&fill(texts.site_password, &[site::USER, site::PASSWORD]));
        out.line(texts.site_next);
    }
    out.flush();
    site::serve(listener, stop).await.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Exit::Ok)
}
