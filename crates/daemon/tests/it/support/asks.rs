//! Asks, specs, sessions: a clock that tests move on, spec files, and agents that answer as a test wants.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use capataz_contracts::v1::{
    self, connect_request::Frame as Say, connect_response::Frame as Hear,
    router_service_client::RouterServiceClient, session_service_client::SessionServiceClient,
};
use capataz_daemon::{Clock, Config};
use capataz_shard::session_stream;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::worker::Assigned;
use super::{Harness, PATIENCE, Worker};

/// Time stands still until a test moves it on.
#[derive(Clone)]
pub struct Hands(Arc<AtomicI64>);

impl Hands {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000)))
    }

    pub fn clock(&self) -> Clock {
        let hands = Arc::clone(&self.0);
        Clock::new(move || hands.load(Ordering::SeqCst))
    }

    pub fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    pub fn advance(&self, milliseconds: i64) {
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

/// The spec files of the repository.
pub fn shipped_specs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../specs")
}

/// A spec that an agent of the same name serves; the first one of a list is the default.
pub fn served(ids: &[&str]) -> Vec<(String, String)> {
    let file = |(index, id): (usize, &&str)| {
        let default = index == 0;
        let content = format!(
            "id = \"{id}\"\ntitle = \"{id}\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n\
             agent = \"{id}\"\nkeywords = [\"about {id}\"]\ndefault = {default}\n"
        );
        (format!("{id}.toml"), content)
    };
    ids.iter().enumerate().map(file).collect()
}

pub fn with_specs(ids: &[&str]) -> impl FnOnce(&mut Config) {
    let specs = served(ids);
    move |config| config.specs = specs
}

/// A text to be routed.
pub fn text(text: &str) -> v1::Ask {
    v1::Ask { text: text.to_owned(), ..v1::Ask::default() }
}

pub trait AskExt {
    fn to(self, spec: &str) -> Self;
    fn within(self, session: &str) -> Self;
}

impl AskExt for v1::Ask {
    fn to(mut self, spec: &str) -> Self {
        self.spec = Some(spec.to_owned());
        self
    }

    fn within(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }
}

/// The end of an ask.
#[derive(Clone, Debug)]
pub struct Answered {
    pub run: String,
    pub created: bool,
    pub outcome: v1::RunOutcome,
    pub error: Option<v1::Error>,
    pub ask: v1::AskResult,
}

impl Answered {
    /// The SpecResponse; null where there is none.
    pub fn response(&self) -> Value {
        match self.ask.response.as_ref().and_then(|payload| payload.data.as_ref()) {
            Some(v1::payload::Data::Inline(bytes)) => serde_json::from_slice(bytes).unwrap(),
            _ => Value::Null,
        }
    }

    pub fn text(&self) -> String {
        self.response()["response"]["text"].as_str().unwrap_or_default().to_owned()
    }

    pub fn specs(&self) -> Vec<&str> {
        self.ask.calls.iter().map(|call| call.spec.as_str()).collect()
    }

    pub fn reasons(&self) -> Vec<v1::CallReason> {
        self.ask.calls.iter().map(v1::AskCall::reason).collect()
    }

    pub fn attempts(&self) -> Vec<u32> {
        self.ask.calls.iter().map(|call| call.attempts).collect()
    }

    /// The codes of the calls' errors; empty for a call that was answered.
    pub fn codes(&self) -> Vec<&str> {
        self.ask
            .calls
            .iter()
            .map(|call| call.error.as_ref().map_or("", |error| error.code.as_str()))
            .collect()
    }

    pub fn code(&self) -> &str {
        self.error.as_ref().map_or("", |error| error.code.as_str())
    }

    #[track_caller]
    pub fn transition(&self) -> &v1::AskTransition {
        self.ask.transition.as_ref().expect("a transition was considered")
    }
}

impl Harness {
    pub fn router(&self) -> RouterServiceClient<Channel> {
        RouterServiceClient::new(self.channel.clone())
    }

    pub fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel.clone())
    }

    /// Asks, and waits for the end.
    pub async fn ask(&self, ask: v1::Ask) -> Answered {
        self.execute(v1::StartRunRequest::of_ask(ask)).await.unwrap()
    }

    pub async fn execute(&self, start: v1::StartRunRequest) -> Result<Answered, Status> {
        let request = v1::ExecuteRunRequest { start: Some(start), timeout_ms: Some(60_000) };
        let executed = self.runs.clone().execute_run(request).await?.into_inner();
        let result = executed.result.expect("the ask ends in time");
        Ok(Answered {
            run: executed.run_id,
            created: executed.created,
            outcome: result.outcome(),
            ask: result.ask().cloned().expect("the result of an ask"),
            error: result.error,
        })
    }

    /// Asks, and does not wait.
    pub async fn begin(&self, ask: v1::Ask) -> String {
        let request = v1::StartRunRequest::of_ask(ask);
        self.runs.clone().start_run(request).await.unwrap().into_inner().run_id
    }

    pub async fn ended(&self, run: &str) -> Answered {
        let result = self.wait(run).await;
        Answered {
            run: run.to_owned(),
            created: false,
            outcome: result.outcome(),
            ask: result.ask().cloned().expect("the result of an ask"),
            error: result.error,
        }
    }

    pub async fn session(&self, name: &str) -> v1::Session {
        let request = v1::GetSessionRequest { session: name.to_owned() };
        self.sessions().get_session(request).await.unwrap().into_inner().session.unwrap()
    }

    pub async fn current_spec(&self, session: &str) -> Option<String> {
        self.session(session).await.context.unwrap().current_spec
    }

    pub async fn accept(
        &self,
        session: &str,
        request_id: &str,
    ) -> Result<v1::AcceptTransitionResponse, Status> {
        let request =
            v1::AcceptTransitionRequest { session: session.to_owned(), request_id: request_id.to_owned() };
        Ok(self.router().accept_transition(request).await?.into_inner())
    }

    /// Events that are stored of the session, in their order, and that of nothing else.
    pub async fn session_events(&self, session: &str) -> Vec<v1::Event> {
        let stream = session_stream(session).to_string();
        let filter = v1::EventFilter { run_id: Some(stream), ..Default::default() };
        let request = v1::SubscribeRequest { filter: Some(filter), ..Default::default() };
        let mut events = Vec::new();
        let mut stream = match self.events.clone().subscribe(request).await {
            Ok(stream) => stream.into_inner(),
            Err(refusal) => {
                assert_eq!(refusal.code(), Code::NotFound, "{refusal}");
                return events;
            }
        };
        loop {
            let heard = stream.message().await.unwrap().unwrap();
            events.extend(heard.events.iter().map(|delivered| delivered.decode_event().unwrap()));
            if heard.caught_up {
                return events;
            }
        }
    }
}

/// The SpecRequest of an assignment.
pub fn request_of(assigned: &Assigned) -> Value {
    match assigned.assignment.input.as_ref().and_then(|input| input.data.as_ref()) {
        Some(v1::payload::Data::Inline(bytes)) => serde_json::from_slice(bytes).unwrap(),
        other => panic!("expected a SpecRequest, not {other:?}"),
    }
}

/// A valid answer to a request.
pub fn answer_to(request: &Value, text: &str) -> Value {
    json!({
        "success": true,
        "spec": request["spec"],
        "request_id": request["id"],
        "timestamp": request["timestamp"],
        "response": { "text": text, "format": "text" },
        "metadata": { "processing_time_ms": 1, "confidence": 0.9 },
    })
}

/// A valid failure.
pub fn failure_of(request: &Value, code: &str, recoverable: bool, fallback: Option<&str>) -> Value {
    let mut answer = answer_to(request, "");
    answer["success"] = json!(false);
    answer["response"] = Value::Null;
    answer["error"] = json!({ "code": code, "message": format!("{code}!"), "recoverable": recoverable });
    if let Some(fallback) = fallback {
        answer["error"]["fallback_spec"] = json!(fallback);
    }
    answer
}

pub fn transition(mut answer: Value, to: &str, confidence: f64, automatic: bool) -> Value {
    answer["transition"] = json!({
        "suggest_spec": to, "reason": "said so", "confidence": confidence, "auto_transition": automatic,
    });
    answer
}

/// What an agent of specs does with one request.
pub enum Does {
    Says(Value),
    Gives(v1::Payload),
    Fails(Box<v1::Error>),
    /// Goes away in the middle of its work, and comes back.
    Crashes,
}

/// Agents of specs that do with each request what a test wants, and remember all of them.
pub struct SpecAgents {
    requests: Arc<Mutex<Vec<Value>>>,
    task: AbortHandle,
}

impl Drop for SpecAgents {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SpecAgents {
    pub async fn start(
        harness: &Harness,
        specs: &[&str],
        mut act: impl FnMut(&Value) -> Does + Send + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&requests);
        let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
        let channel = harness.channel.clone();
        let mut worker = connect(&channel, &specs).await;
        let serve = async move {
            loop {
                match worker.hear().await {
                    Some(Hear::Assignment(assignment)) => {
                        let lease = assignment.lease.clone().unwrap();
                        let request = request_of(&Assigned { lease: lease.clone(), assignment });
                        heard.lock().unwrap().push(request.clone());
                        match act(&request) {
                            Does::Says(answer) => worker.complete(&lease, super::json(answer)).await,
                            Does::Gives(output) => worker.complete(&lease, output).await,
                            Does::Fails(error) => worker.fail(&lease, *error).await,
                            Does::Crashes => worker = connect(&channel, &specs).await,
                        }
                    }
                    Some(_) => {}
                    None => panic!("the daemon has sent the agents away"),
                }
            }
        };
        Self { requests, task: tokio::spawn(serve).abort_handle() }
    }

    /// Agents that answer each text with `TEXT: ` and itself.
    pub async fn echoing(harness: &Harness, specs: &[&str]) -> Self {
        Self::start(harness, specs, |request| {
            let text = format!("TEXT: {}", request["text"].as_str().unwrap());
            Does::Says(answer_to(request, &text))
        })
        .await
    }

    /// Every request so far, in the order in which they came.
    pub fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    pub fn last_request(&self) -> Value {
        self.requests().pop().unwrap()
    }
}

async fn connect(channel: &Channel, specs: &[String]) -> Worker {
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    Worker::connect(channel.clone(), "spec-agents", &specs, Vec::new()).await
}

/// Waits until something holds that only time brings about.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A worker's sign that all it has said so far was heard: the daemon's answer to a report about a run that is not there.
pub async fn heard_all(worker: &mut Worker) {
    worker.say(Say::Heartbeat(v1::Heartbeat {})).await;
    let nowhere = "00000000-0000-7000-8000-000000000000";
    let lease = v1::LeaseRef { run_id: nowhere.to_owned(), wave: 0, task: 0, lease: 1 };
    worker.complete(&lease, super::json(json!(0))).await;
    worker
        .hear_until(|frame| match frame {
            Hear::ResultRefused(refused) => {
                (refused.lease.as_ref().is_some_and(|lease| lease.run_id == nowhere)).then_some(())
            }
            _ => None,
        })
        .await;
}

/// How often each event of a list is there, by its run and number.
pub fn counted(events: &[(String, u64)]) -> BTreeMap<(String, u64), usize> {
    events.iter().fold(BTreeMap::new(), |mut counted, event| {
        *counted.entry(event.clone()).or_default() += 1;
        counted
    })
}
