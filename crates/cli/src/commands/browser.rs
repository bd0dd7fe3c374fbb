//! `capataz browser …`: single actions, for callers who choose the next action by the state of the page.

use capataz_contracts::{json, v1};
use serde_json::{Value, json};

use super::{Daemon, Outcome, doctor, fetch};
use crate::args::{BrowserCommand, DoArgs, Global, OpenArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan_source::name_of;
use crate::script::source::{self, Given};
use crate::watch::follow::now_ms;
use capataz_display::frame::{visible, visible_block};
use capataz_display::paint::Tone;
use capataz_display::script::describe::Success;
use capataz_display::table::Table;
use capataz_display::words::{fill, words};
use capataz_display::{actions as display, error, format};

pub async fn browser(command: BrowserCommand, global: &Global, out: &mut Output) -> Outcome {
    match command {
        BrowserCommand::Doctor(args) => doctor::doctor(args, out).await,
        BrowserCommand::Open(args) => open(args, global, out).await,
        BrowserCommand::Observe { run, max } => {
            observe(&Daemon::connect(global).await?, &run, max, out).await
        }
        BrowserCommand::Do(args) => propose(args, global, out).await,
        BrowserCommand::Close { run, request_id } => {
            close(&Daemon::connect(global).await?, &run, request_id, out).await
        }
        BrowserCommand::List => list(&Daemon::connect(global).await?, out).await,
    }
}

async fn open(args: OpenArgs, global: &Global, out: &mut Output) -> Outcome {
    let script = session(&args)?;
    let daemon = Daemon::connect(global).await?;
    let request = v1::OpenBrowserRequest {
        name: script.name,
        policy: script.policy,
        browser: script.browser,
        idle_timeout_ms: script.idle_timeout_ms,
        labels: args.labels.into_iter().collect(),
        idempotency_key: args.key,
        variables: script.variables,
    };
    let opened = daemon.client.open_browser(request).await.map_err(|error| daemon.failure(error))?;
    if out.json {
        out.document(&json::print("capataz.v1.OpenBrowserResponse", &opened));
        return Ok(Exit::Ok);
    }
    // The id is the whole answer, so that a script can use it unchanged.
    out.line(&opened.run_id);
    let texts = &words().browser;
    out.note(&fill(texts.opened, &[&visible(&opened.browser), &opened.run_id]));
    out.note(&fill(texts.next, &[&opened.run_id]));
    out.note(&fill(texts.next_close, &[&opened.run_id]));
    Ok(Exit::Ok)
}

/// The session that the file and the flags describe, checked like a script.
fn session(args: &OpenArgs) -> Result<v1::Script, Failure> {
    let texts = &words().browser;
    let given = match &args.file {
        Some(file) => source::load(file, args.format.map(Into::into), &args.variables)?,
        None => Given {
            script: v1::Script {
                name: "session".to_owned(),
                interactive: true,
                variables: args.variables.iter().cloned().collect(),
                ..v1::Script::default()
            },
            violations: Vec::new(),
        },
    };
    let name = args.file.as_deref().map_or_else(|| "--allow".to_owned(), name_of);
    if !given.violations.is_empty() {
        return Err(Failure::Script { file: name, violations: given.violations });
    }
    let mut script = given.script;
    if !script.interactive {
        return Err(Failure::invalid(fill(texts.not_interactive, &[&name])));
    }
    script.policy.get_or_insert_default().allowlist.extend(args.allow.iter().cloned());
    if script.policy.as_ref().is_none_or(|policy| policy.allowlist.is_empty()) {
        return Err(Failure::invalid(texts.allow_nothing));
    }
    if let Some(name) = &args.name {
        script.name.clone_from(name);
    }
    if args.headed {
        script.browser.get_or_insert_default().headed = true;
    }
    if args.storage_state.is_some() {
        script.browser.get_or_insert_default().storage_state.clone_from(&args.storage_state);
    }
    if let Some(idle) = args.idle_timeout {
        script.idle_timeout_ms = i64::try_from(idle.as_millis()).ok();
    }
    let violations = source::check(&script);
    match violations.is_empty() {
        true => Ok(script),
        false => Err(Failure::Script { file: name, violations }),
    }
}

async fn observe(daemon: &Daemon, run: &str, max: Option<u32>, out: &mut Output) -> Outcome {
    let run_id = fetch::script_id(daemon, run).await?;
    let request = v1::ObserveRequest { run_id, max_characters: max };
    let seen = daemon.client.observe(request).await.map_err(|error| daemon.failure(error))?;
    if out.json {
        out.document(&json::print("capataz.v1.ObserveResponse", &seen));
        return Ok(Exit::Ok);
    }
    let state = seen.state.unwrap_or_default();
    out.line(&out.paint.text(Tone::Strong, &format!("{}  {}", visible(&state.title), visible(&state.url))));
    out.line(&visible_block(&seen.outline));
    if seen.truncated {
        out.note(words().browser.truncated);
    }
    Ok(Exit::Ok)
}

async fn propose(args: DoArgs, global: &Global, out: &mut Output) -> Outcome {
    let action = source::action(&args.action)?;
    let daemon = &Daemon::connect(global).await?;
    let kind = action.kind();
    let request = v1::ProposeRequest {
        run_id: fetch::script_id(daemon, &args.run).await?,
        action: Some(action.clone()),
        request_id: args.request_id,
        if_seq: args.if_seq,
    };
    let response = daemon.client.propose(request).await.map_err(|error| daemon.failure(error))?;
    use v1::propose_response::Outcome as Came;
    let exit = match &response.outcome {
        Some(Came::Success(_)) => Exit::Ok,
        Some(Came::Error(_)) | None => Exit::Failed,
    };
    if out.json {
        let mut document = json::print("capataz.v1.ProposeResponse", &response);
        // Protobuf's JSON form omits zero, but index 0 is the first step.
        if let Some(object) = document.as_object_mut() {
            object.insert("step_index".to_owned(), response.step_index.into());
        }
        out.document(&document);
        return Ok(exit);
    }
    match &response.outcome {
        Some(Came::Success(success)) => {
            let success = Success {
                state_before: success.state_before.as_ref(),
                state_after: success.state_after.as_ref(),
                resolution: success.resolution.as_ref(),
                changes: success.changes.as_ref(),
                output: success.output.as_ref(),
            };
            let text = fill(words().browser.succeeded, &[&action.id, &success.of(kind)]);
            out.line(&error::ok(&text, out.paint));
        }
        Some(Came::Error(failed)) => out.line(&display::error(failed, out.form, out.paint)),
        None => {}
    }
    Ok(exit)
}

async fn close(daemon: &Daemon, run: &str, request_id: String, out: &mut Output) -> Outcome {
    let run_id = fetch::script_id(daemon, run).await?;
    let request = v1::CloseBrowserRequest { run_id: run_id.clone(), request_id };
    let response = daemon.client.close_browser(request).await.map_err(|error| daemon.failure(error))?;
    if out.json {
        out.document(&json::print("capataz.v1.CloseBrowserResponse", &response));
    } else {
        out.line(&error::ok(&fill(words().browser.closed, &[&run_id]), out.paint));
    }
    Ok(Exit::Ok)
}

async fn list(daemon: &Daemon, out: &mut Output) -> Outcome {
    let open = daemon.client.list_browsers().await.map_err(|error| daemon.failure(error))?;
    if out.json {
        let mut document = json::print("capataz.v1.ListBrowsersResponse", &open);
        // Protobuf's JSON form omits empty lists, but an empty list is the answer here.
        if let Some(object) = document.as_object_mut() {
            object.entry("browsers").or_insert_with(|| json!([]));
            object.insert("limit".to_owned(), Value::from(open.limit));
        }
        out.document(&document);
        return Ok(Exit::Ok);
    }
    let texts = &words().browser;
    if open.browsers.is_empty() {
        out.line(&fill(texts.none, &[&open.limit.to_string()]));
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(texts.head);
    for browser in &open.browsers {
        let kind = if browser.interactive { texts.session } else { texts.script };
        table.row([
            (browser.run_id.clone(), Tone::Plain),
            (browser.name.clone(), Tone::Strong),
            (kind.to_owned(), Tone::Plain),
            (browser.process_id.to_string(), Tone::Faint),
            (format::age(now_ms().saturating_sub(browser.opened_at_ms)), Tone::Plain),
            (browser.title.clone(), Tone::Plain),
            (browser.url.clone(), Tone::Faint),
        ]);
    }
    out.line(&table.render(out.paint));
    let used = open.browsers.len().to_string();
    out.note(&fill(texts.limit, &[&used, &open.limit.to_string()]));
    Ok(Exit::Ok)
}
