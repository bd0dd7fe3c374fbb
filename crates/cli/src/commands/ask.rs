//! `capataz ask`.

use std::collections::BTreeMap;
use std::time::Duration;

use capataz_client::ClientError;
use capataz_contracts::{duration, json, v1};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{Daemon, Outcome, fetch, local};
use crate::args::{AskArgs, Global};
use crate::exit::Exit;
use crate::failure::{Failure, in_short};
use crate::output::Output;
use capataz_display::answer as display;
use capataz_display::words::{fill, words};

pub async fn ask(mut args: AskArgs, global: &Global, out: &mut Output) -> Outcome {
    let (daemon, place) = local::connect(&args.local, global, out).await?;
    let text = args.text.take();
    let work = async |out: &mut Output| match text {
        Some(text) => once(&daemon, &args, text, out).await,
        None => converse(&daemon, &args, out).await,
    };
    place.during(work, out).await
}

/// The arguments that all messages of this command share.
struct Asking<'a> {
    daemon: &'a Daemon,
    args: &'a AskArgs,
    session: Option<String>,
}

/// An ask whose outcome is known, or whose wait timed out.
struct Asked {
    run_id: String,
    result: Option<v1::RunResult>,
    /// Set where the result has only the excerpt of a large answer.
    missing: Option<Missing>,
}

/// The rest of a large answer, which could not be fetched.
struct Missing {
    blob: v1::BlobRef,
    error: ClientError,
}

impl Asking<'_> {
    fn preferences(&self) -> BTreeMap<String, String> {
        self.args.language.iter().map(|language| ("language".to_owned(), language.clone())).collect()
    }

    async fn ask(&self, text: String, spec: Option<String>, key: Option<String>) -> Result<Asked, Failure> {
        let ask = v1::Ask {
            text,
            session: self.session.clone(),
            spec,
            preferences: self.preferences(),
            preferences_json: self.args.preferences.clone(),
            custom_json: self.args.custom.clone(),
            source: Some("cli".to_owned()),
            ..v1::Ask::default()
        };
        let request = v1::StartRunRequest {
            labels: self.args.labels.iter().cloned().collect(),
            idempotency_key: key,
            ..v1::StartRunRequest::of_ask(ask)
        };
        let executed = self.daemon.client.execute_run(request, Some(self.args.timeout)).await;
        let executed = executed.map_err(|error| self.daemon.failure(error))?;
        let mut asked = Asked { run_id: executed.run_id, result: executed.result, missing: None };
        asked.missing = complete(self.daemon, &mut asked.result).await;
        asked.with_something().map_err(|error| self.daemon.failure(error))
    }

    async fn explain(&self, text: &str) -> Result<v1::ExplainResponse, Failure> {
        let request = v1::ExplainRequest {
            text: text.to_owned(),
            session: self.session.clone(),
            preferences: self.preferences(),
            preferences_json: self.args.preferences.clone(),
        };
        self.daemon.client.explain(request).await.map_err(|error| self.daemon.failure(error))
    }

    /// The command that accepts the suggestion from outside of a conversation.
    fn accept_with(&self, result: &v1::AskResult) -> String {
        let session = self.session.as_deref().unwrap_or_default();
        fill(words().ask.accept_with, &[session, &result.request_id])
    }
}

impl Asked {
    /// # Errors
    /// Why the answer could not be fetched, where there is no excerpt of it either.
    fn with_something(self) -> Result<Self, ClientError> {
        let shown = self.result.as_ref().and_then(|result| display::response(result.ask()?));
        match self.missing {
            Some(missing) if shown.is_none() => Err(missing.error),
            _ => Ok(self),
        }
    }
}

/// Puts a large answer, which is a blob, in its place. Returns what could not be fetched.
async fn complete(daemon: &Daemon, result: &mut Option<v1::RunResult>) -> Option<Missing> {
    let response = result.as_mut()?.ask_mut()?.response.as_mut()?;
    let Some(v1::payload::Data::Blob(blob)) = &response.data else { return None };
    match daemon.client.get_blob(&blob.blake3).await {
        Ok(content) => response.data = Some(v1::payload::Data::Inline(content)),
        Err(error) => return Some(Missing { blob: blob.clone(), error }),
    }
    None
}

/// `runs answer`: the answer of an ask that was asked before, as `ask` prints it.
pub async fn again(daemon: &Daemon, run: &str, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    let run = fetch::run_at(daemon, &run_id, None, false).await?;
    if run.status() != v1::RunStatus::Finished {
        out.note(&fill(words().ask.not_answered, &[&run_id]));
        return Ok(Exit::StillRunning);
    }
    let result = daemon.client.wait_run(&run_id, None).await.map_err(|error| daemon.failure(error))?;
    let mut asked = Asked { run_id, result, missing: None };
    // Here a part of the answer is none: it was to be fetched.
    if let Some(missing) = complete(daemon, &mut asked.result).await {
        return Err(daemon.failure(missing.error).about(&asked.run_id));
    }
    let Some(result) = asked.result.as_ref().and_then(v1::RunResult::ask).cloned() else {
        return Err(Failure::invalid(fill(words().ask.is_no_ask, &[&asked.run_id])));
    };
    if out.json {
        out.document(&document(&asked));
    } else {
        show(&asked, &result, out);
    }
    Ok(exit_of(&asked))
}

async fn once(daemon: &Daemon, args: &AskArgs, text: String, out: &mut Output) -> Outcome {
    let asking = Asking { daemon, args, session: args.session.clone() };
    // The explanation comes before the ask, because both must see the same conversation.
    let explained = if args.explain { Some(asking.explain(&text).await?) } else { None };
    let asked = asking.ask(text, args.spec.clone(), args.key.clone()).await?;
    if out.json {
        let mut document = document(&asked);
        if let (Some(explained), Some(object)) = (&explained, document.as_object_mut()) {
            let explained = json::print("capataz.v1.ExplainResponse", explained);
            object.insert("explanation".to_owned(), explained);
        }
        out.document(&document);
        return Ok(exit_of(&asked));
    }
    if let Some(explained) = &explained {
        out.line(&display::explanation(explained, out.paint));
        out.line("");
    }
    let Some(result) = ended(&asked, args.timeout, out) else { return Ok(Exit::StillRunning) };
    show(&asked, &result, out);
    if asking.session.is_some()
        && let Some(transition) = &result.transition
        && let Some(hint) = display::hint(transition, &asking.accept_with(&result), out.paint)
    {
        out.line("");
        out.line(&hint);
    }
    Ok(exit_of(&asked))
}

/// The ask's result. Where the ask has not ended yet, a note says that it goes on.
fn ended(asked: &Asked, timeout: Duration, out: &Output) -> Option<v1::AskResult> {
    let result = asked.result.as_ref().map(|result| result.ask().cloned().unwrap_or_default());
    if result.is_none() {
        let waited = duration::format(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
        out.note(&fill(words().ask.timed_out, &[&waited, &asked.run_id]));
    }
    result
}

fn show(asked: &Asked, result: &v1::AskResult, out: &mut Output) {
    let error = asked.result.as_ref().and_then(|result| result.error.as_ref());
    out.line(&display::head(result, out.paint));
    out.line(&display::answer(result, error, out.paint));
    if let Some(Missing { blob, error }) = &asked.missing {
        out.line(&display::not_fetched(&asked.run_id, blob.size, &in_short(error), out.paint));
    }
    if let Some(warning) = display::left_out(result, out.paint) {
        out.line(&warning);
    }
    out.flush();
}

fn exit_of(asked: &Asked) -> Exit {
    asked.result.as_ref().map_or(Exit::StillRunning, |result| Exit::of_outcome(result.outcome()))
}

/// The result in JSON. The spec's response is embedded as JSON.
fn document(asked: &Asked) -> Value {
    let mut document = json!({ "run_id": asked.run_id });
    let Some(object) = document.as_object_mut() else { return document };
    let Some(result) = &asked.result else { return document };
    let ask = result.ask().cloned().unwrap_or_default();
    if let Value::Object(parts) = json::print("capataz.v1.AskResult", &ask) {
        object.extend(parts);
    }
    object.insert("outcome".to_owned(), outcome(result.outcome()).into());
    match display::response(&ask) {
        Some(response) => object.insert("response".to_owned(), response),
        None => object.remove("response"),
    };
    if let Some(Missing { blob, error }) = &asked.missing {
        // What `response` is then: an excerpt.
        let missing = json!({
            "blob": blob.blake3,
            "size": blob.size,
            "error": { "code": error.code(), "message": error.message() },
            "fetch_with": format!("capataz runs answer {}", asked.run_id),
        });
        object.insert("not_fetched".to_owned(), missing);
    }
    if let Some(error) = &result.error {
        object.insert("error".to_owned(), json::print("capataz.v1.Error", error));
    }
    document
}

fn outcome(outcome: v1::RunOutcome) -> String {
    outcome.as_str_name().trim_start_matches("RUN_OUTCOME_").to_ascii_lowercase()
}

/// Reads one message a line, until the input ends.
async fn converse(daemon: &Daemon, args: &AskArgs, out: &mut Output) -> Outcome {
    let session = args.session.clone().unwrap_or_else(new_session);
    let asking = Asking { daemon, args, session: Some(session.clone()) };
    let texts = &words().ask;
    if !out.json {
        out.note(&fill(texts.welcome, &[&session]));
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut conversation = Conversation { spec: args.spec.clone(), last: None, suggested: None };
    loop {
        if out.terminal && !out.json {
            out.raw(texts.prompt.as_bytes());
            out.flush();
        }
        let line = tokio::select! {
            line = lines.next_line() => line.map_err(|error| Failure::failed(error.to_string()))?,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        let Some(line) = line else { return Ok(Exit::Ok) };
        let line = line.trim();
        if out.is_closed() || line == "/quit" {
            return Ok(Exit::Ok);
        }
        if line.is_empty() {
            continue;
        }
        // A refused message does not end the conversation; the loss of the daemon does.
        match conversation.take(&asking, line, out).await {
            Ok(()) => {}
            Err(failure) if failure.exit() == Exit::Unreachable => return Err(failure),
            Err(failure) => failure.tell(out),
        }
    }
}

/// State that a conversation keeps between its messages.
struct Conversation {
    /// The spec of the next message, if the user chose one.
    spec: Option<String>,
    last: Option<String>,
    /// The request whose answer suggests a transition.
    suggested: Option<String>,
}

impl Conversation {
    async fn take(&mut self, asking: &Asking<'_>, line: &str, out: &mut Output) -> Result<(), Failure> {
        let texts = &words().ask;
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "/help" => out.line(texts.help),
            "/accept" => return self.accept(asking, out).await,
            "/why" => match &self.last {
                Some(text) => {
                    let explained = asking.explain(text).await?;
                    out.line(&display::explanation(&explained, out.paint));
                }
                None => out.note(texts.nothing_asked),
            },
            "/spec" if !rest.trim().is_empty() => {
                self.spec = Some(rest.trim().to_owned());
                out.note(&fill(texts.next_spec, &[rest.trim()]));
            }
            command if command.starts_with('/') => out.note(&fill(texts.unknown_command, &[command])),
            _ => return self.say(asking, line, out).await,
        }
        Ok(())
    }

    async fn say(&mut self, asking: &Asking<'_>, text: &str, out: &mut Output) -> Result<(), Failure> {
        let asked = asking.ask(text.to_owned(), self.spec.take(), None).await?;
        self.last = Some(text.to_owned());
        if out.json {
            out.record(&document(&asked));
        }
        let Some(result) = ended(&asked, asking.args.timeout, out) else { return Ok(()) };
        let suggested = result
            .transition
            .as_ref()
            .filter(|transition| transition.verdict() == v1::TransitionVerdict::Suggested);
        self.suggested = suggested.map(|_| result.request_id.clone());
        if !out.json {
            show(&asked, &result, out);
            if let Some(hint) =
                suggested.and_then(|suggested| display::hint(suggested, words().ask.accept_here, out.paint))
            {
                out.line(&hint);
            }
        }
        Ok(())
    }

    async fn accept(&mut self, asking: &Asking<'_>, out: &mut Output) -> Result<(), Failure> {
        let texts = &words().ask;
        let (Some(request_id), Some(session)) = (&self.suggested, &asking.session) else {
            out.note(texts.nothing_to_accept);
            return Ok(());
        };
        let accepted = asking.daemon.client.accept_transition(session, request_id).await;
        let accepted = accepted.map_err(|error| asking.daemon.failure(error))?;
        self.suggested = None;
        if out.json {
            out.record(&json::print("capataz.v1.AcceptTransitionResponse", &accepted));
        } else {
            out.line(&fill(texts.moved, &[&accepted.to]));
        }
        Ok(())
    }
}

/// A new session name that no other session has.
fn new_session() -> String {
    format!("cli-{}", uuid::Uuid::now_v7().simple())
}
