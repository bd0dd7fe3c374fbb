//! Models as work of a host.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::json::{self, JSON_MEDIA_TYPE};
use capataz_contracts::v1;
use capataz_model::{Ask, Client, Finish, Fit, Key, Limits, ModelError, Problem, Said};
use capataz_policy::codes::{self, Code};
use capataz_store::Store;
use serde_json::Value;
use tokio::sync::mpsc;

use super::ModelAgent;
use crate::commands::Kind;
use crate::payloads;
use crate::port::{Clock, SecretResolver};
use crate::redact::Redactor;
use crate::serve::{Answer, Order, Report, Reporter, Serve};

/// What the ids of workers with models begin with.
pub const MODEL_HOST: &str = "capataz-model-host";

/// The most bytes of an input.
const INPUT_MAX: usize = 4 * 1024 * 1024;
/// The most bytes of an answer.
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// Bytes of the end of an answer that are shown while it comes.
const TAIL: usize = 2_000;
/// How long an answer may take at most. The limits of the task end it before.
const TOTAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What a planner is told to be, before what the configuration says.
const PLANNER: &str = "You decide what is done next, and tools do it. The message is a JSON object: `query` is what is to be \
done, `memory` what was learnt before, `lastResult` what the last tool gave back. Where it has `correction`, your last answer was \
wrong for the reasons that are listed there. Name only tools and parameters that the schema of your answer knows. Answer with one \
JSON object and nothing else.";

/// Serves models, each under the name of its agent.
pub struct Models {
    models: BTreeMap<String, (ModelAgent, Client)>,
    secrets: Arc<dyn SecretResolver>,
    store: Arc<dyn Store>,
    clock: Clock,
}

impl fmt::Debug for Models {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Models").field("models", &self.models.keys()).finish_non_exhaustive()
    }
}

impl Models {
    /// # Errors
    /// What is wrong with the endpoint of an agent, with its name.
    pub fn new(
        agents: Vec<ModelAgent>,
        secrets: Arc<dyn SecretResolver>,
        store: Arc<dyn Store>,
        clock: Clock,
    ) -> Result<Arc<Self>, (String, Vec<Problem>)> {
        let mut models = BTreeMap::new();
        for agent in agents {
            let client = Client::new(agent.endpoint()).map_err(|problems| (agent.name.clone(), problems))?;
            models.insert(agent.name.clone(), (agent, client));
        }
        Ok(Arc::new(Self { models, secrets, store, clock }))
    }

    async fn execute(
        &self,
        assignment: v1::Assignment,
        mut orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        let Some((agent, client)) = self.models.get(&assignment.agent) else {
            let message = format!("the model {:?} is not configured any more", assignment.agent);
            return Answer::failed(codes::SERVICE_UNAVAILABLE, message);
        };
        let key = match self.key(agent) {
            Ok(key) => key,
            Err((code, message)) => return Answer::failed(code, message),
        };
        let input = match payloads::read(&self.store, assignment.input, INPUT_MAX).await {
            Ok(input) => input,
            Err((code, message)) => return Answer::failed(code, message),
        };
        // A server may say back what it was sent.
        let redactor = Redactor::new(&key.iter().map(|key| key.reveal().to_owned()).collect::<Vec<_>>());
        let ask = question(agent, &input, &assignment.output_schema);
        let silence = Duration::from_millis(agent.silence_ms);
        let limits = Limits { idle: silence, total: TOTAL, answer_bytes: ANSWER_MAX };
        let (mut so_far, mut cancelled) = (String::new(), None);
        let said = {
            let mut partial = |text: &str| {
                so_far.push_str(text);
                let tail = redactor.tail(&so_far, TAIL);
                reporter.report(Report { partial_tail: Some(tail), ..Report::default() });
            };
            let asking = client.ask(key.as_ref(), &ask, limits, &mut partial);
            tokio::pin!(asking);
            loop {
                tokio::select! {
                    said = &mut asking => break Some(said),
                    Some(order) = orders.recv() => if let Order::Cancel { .. } = order {
                        cancelled = Some(());
                        break None;
                    },
                }
            }
        };
        match (said, cancelled) {
            (Some(Ok(mut said)), _) => {
                said.text = redactor.masked(&said.text).into_owned();
                self.completed(agent, said, !assignment.output_schema.is_empty()).await
            }
            (Some(Err(error)), _) => failed(&error),
            (None, _) => {
                let so_far = redactor.tail(&so_far, so_far.len());
                let partial_output = match so_far.is_empty() {
                    true => None,
                    false => self.write("text/plain", so_far).await.ok(),
                };
                Answer::Cancelled { partial_output, log: String::new() }
            }
        }
    }

    /// The key, read for this request and kept nowhere.
    fn key(&self, agent: &ModelAgent) -> Result<Option<Key>, (Code, String)> {
        let Some(name) = agent.secret() else { return Ok(None) };
        match self.secrets.resolve(name) {
            Err(error) => {
                Err((codes::SERVICE_UNAVAILABLE, format!("the secret `{name}` cannot be read: {error}")))
            }
            Ok(None) => Err((
                codes::NON_RETRYABLE_ERROR,
                format!(
                    "there is no secret `{name}`: set CAPATAZ_SECRET_{name}, or put it into the secrets folder"
                ),
            )),
            Ok(Some(text)) => Key::new(text).map(Some).map_err(|error| {
                (codes::NON_RETRYABLE_ERROR, format!("the secret `{name}` cannot be a key: {error}"))
            }),
        }
    }

    async fn completed(&self, agent: &ModelAgent, said: Said, has_schema: bool) -> Answer {
        let cut_off = match &said.finish {
            Finish::Length => Some("the answer was cut off at its limit of tokens; raise `max_tokens`"),
            Finish::Filtered => Some("the model, or its provider, does not answer that"),
            Finish::Complete | Finish::Other(_) => None,
        };
        let usage = agent.used(said.usage);
        if let Some(message) = cut_off {
            return Answer::failed(codes::NON_RETRYABLE_ERROR, message).having_used(usage);
        }
        // What has to pass a schema is JSON, where it is; what is not is judged as the text that it is.
        let (media_type, text) = match has_schema.then(|| as_json(&said.text)).flatten() {
            Some(text) => (JSON_MEDIA_TYPE, text.to_owned()),
            None => ("text/plain", said.text),
        };
        match self.write(media_type, text).await {
            Ok(output) => Answer::Completed { output, log: String::new(), usage },
            Err(message) => Answer::failed(codes::API_ERROR, message).having_used(usage),
        }
    }

    async fn write(&self, media_type: &str, text: String) -> Result<v1::Payload, String> {
        let bytes = Bytes::from(text);
        payloads::write(&self.store, media_type.to_owned(), bytes, (self.clock)()).await
    }
}

/// The text, where it is JSON; without the fence that models like to put around it.
fn as_json(text: &str) -> Option<&str> {
    let whole = text.trim();
    let inner = || {
        let fenced = whole.strip_prefix("```json").or_else(|| whole.strip_prefix("```"))?;
        Some(fenced.strip_suffix("```")?.trim())
    };
    let is_json = |text: &&str| json::from_slice(text.as_bytes()).is_ok();
    Some(whole).filter(is_json).or_else(|| inner().filter(is_json))
}

/// What the model is asked.
fn question(agent: &ModelAgent, input: &[u8], schema: &str) -> Ask {
    let schema: Option<Value> = json::from_slice(schema.as_bytes()).ok().filter(|_| !schema.is_empty());
    let role = (agent.kind == Kind::Planner).then(|| PLANNER.to_owned());
    let fit = schema.as_ref().filter(|_| agent.structured).map_or(Fit::No, Fit::of);
    let in_words = schema
        .as_ref()
        .filter(|_| fit != Fit::Whole)
        .map(|schema| format!("Answer with JSON alone, which has to pass this JSON Schema:\n{schema}"));
    let parts: Vec<String> = role.into_iter().chain(agent.system.clone()).chain(in_words).collect();
    // A text is asked as it is; anything else as JSON.
    let user = match json::from_slice(input) {
        Ok(Value::String(text)) => text,
        _ => String::from_utf8_lossy(input).into_owned(),
    };
    Ask {
        system: Some(parts.join("\n\n")).filter(|system| !system.is_empty()),
        user,
        schema: schema.filter(|_| fit != Fit::No),
    }
}

/// The failure of an attempt: whether it is tried again, and when, the shard decides.
fn failed(error: &ModelError) -> Answer {
    let (code, retry_after) = match error {
        ModelError::RateLimited { retry_after, .. } => (codes::RATE_LIMIT, *retry_after),
        ModelError::Unavailable { retry_after, .. } => (codes::SERVICE_UNAVAILABLE, *retry_after),
        ModelError::Broken { .. } => (codes::SERVICE_UNAVAILABLE, None),
        ModelError::TimedOut { .. } => (codes::TIMEOUT, None),
        ModelError::Unauthorized { .. }
        | ModelError::NotFound { .. }
        | ModelError::Rejected { .. }
        | ModelError::Redirected { .. } => (codes::NON_RETRYABLE_ERROR, None),
    };
    let retry_after_ms = retry_after.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
    let error =
        v1::Error { code: code.into(), message: error.to_string(), retry_after_ms, ..v1::Error::default() };
    Answer::Failed { error: Box::new(error), log: String::new(), usage: None }
}

impl Serve for Models {
    fn name(&self) -> &'static str {
        MODEL_HOST
    }

    fn agents(&self) -> Vec<v1::Agent> {
        self.models.values().map(|(agent, _)| agent.described()).collect()
    }

    async fn perform(
        self: Arc<Self>,
        assignment: v1::Assignment,
        orders: mpsc::Receiver<Order>,
        reporter: Reporter,
    ) -> Answer {
        self.execute(assignment, orders, reporter).await
    }
}
