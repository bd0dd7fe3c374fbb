//! `capataz ask`.

use std::collections::BTreeMap;
use std::time::Duration;

use capataz_client::ClientError;
use capataz_contracts::{duration, json, v1};
use serde_json::{Value, json};

use super::{Daemon, Outcome, chat, fetch, local, report};
use crate::args::{AskArgs, Global};
use crate::exit::Exit;
use crate::failure::{Failure, in_short};
use crate::output::Output;
use capataz_display::answer as display;
use capataz_display::words::{Language, fill, words};

pub async fn ask(mut args: AskArgs, global: &Global, out: &mut Output) -> Outcome {
    let (daemon, place) = local::connect(&args.local, global, out).await?;
    // Whoever says in which language to be addressed is answered in it, too. With a key it is the same ask in any.
    let lang = global.lang.filter(|_| args.key.is_none());
    args.language = args.language.take().or(lang.map(|lang| Language::from(lang).tag().to_owned()));
    let text = args.text.take();
    let work = async |out: &mut Output| match text {
        Some(text) => once(&daemon, &args, text, out).await,
        None => chat::converse(&daemon, &args, out).await,
    };
    place.during(work, out).await
}

/// The arguments that all messages of this command share.
pub struct Asking<'a> {
    pub daemon: &'a Daemon,
    pub args: &'a AskArgs,
    pub session: Option<String>,
}

/// An ask whose outcome is known, or whose wait timed out.
pub struct Asked {
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

    pub async fn ask(
        &self,
        text: String,
        spec: Option<String>,
        key: Option<String>,
    ) -> Result<Asked, Failure> {
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

    pub async fn explain(&self, text: &str) -> Result<v1::ExplainResponse, Failure> {
        let request = v1::ExplainRequest {
            text: text.to_owned(),
            session: self.session.clone(),
            preferences: self.preferences(),
            preferences_json: self.args.preferences.clone(),
        };
        self.daemon.client.explain(request).await.map_err(|error| self.daemon.failure(error))
    }

    /// The command that follows the suggestion from outside of a conversation. Without a session there is nothing to move,
    /// and the same text can be asked again.
    fn follow_with(&self, result: &v1::AskResult, suggested: &v1::AskTransition) -> String {
        match &self.session {
            Some(session) => fill(words().ask.accept_with, &[session, &result.request_id]),
            None => fill(words().ask.ask_with, &[&suggested.to]),
        }
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

/// Prints what `runs show` tells of an ask: its text, the routing, and the answer that it had then.
pub async fn tell(daemon: &Daemon, run: &v1::Run, at: Option<u64>, out: &mut Output) -> Result<(), Failure> {
    let mut asked = display::Asked::default();
    // Both tell of the same moment.
    report::for_each_event(daemon, &run.run_id, at.unwrap_or(run.seq), |event| asked.apply(event)).await?;
    let with_outputs = fetch::run_at(daemon, &run.run_id, at, true).await?;
    let given =
        with_outputs.waves.iter().rev().flat_map(|wave| &wave.tasks).find_map(|task| task.output.clone());
    let mut response = given;
    let mut missing = None;
    if let Some(v1::payload::Data::Blob(blob)) = response.as_ref().and_then(|given| given.data.clone()) {
        match daemon.client.get_blob(&blob.blake3).await {
            Ok(content) => {
                let data = Some(v1::payload::Data::Inline(content));
                response = response.map(|given| v1::Payload { data, ..given });
            }
            Err(error) => missing = Some(Missing { blob, error }),
        }
    }
    let result = response.map(|response| v1::AskResult { response: Some(response), ..Default::default() });
    let result = result.filter(|result| missing.is_none() || display::response(result).is_some());
    out.line("");
    out.line(&display::page(&asked, result.as_ref(), run.error.as_ref(), out.paint));
    if let Some(Missing { blob, error }) = &missing {
        out.line(&display::not_fetched(&run.run_id, blob.size, &in_short(error), out.paint));
    }
    Ok(())
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
    if let Some(transition) = &result.transition
        && let Some(hint) = display::hint(transition, &asking.follow_with(&result, transition), out.paint)
    {
        out.line("");
        out.line(&hint);
    }
    Ok(exit_of(&asked))
}

/// The ask's result. Where the ask has not ended yet, a note says that it goes on.
pub fn ended(asked: &Asked, timeout: Duration, out: &Output) -> Option<v1::AskResult> {
    let result = asked.result.as_ref().map(|result| result.ask().cloned().unwrap_or_default());
    if result.is_none() {
        let waited = duration::format(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
        out.note(&fill(words().ask.timed_out, &[&waited, &asked.run_id]));
    }
    result
}

pub fn show(asked: &Asked, result: &v1::AskResult, out: &mut Output) {
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
pub fn document(asked: &Asked) -> Value {
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
