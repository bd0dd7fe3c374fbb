//! Everything that the public API says of every run and of every session.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capataz_client::{Client, ClientError, Delivery, v1};
use capataz_contracts::v1::event::Body;

use crate::Outcome;
use crate::workloads::{CLIENT_LABEL, KEY_LABEL, Kind};

/// How long a call is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// One run, as it was exported and as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(super) view: v1::Run,
    pub(super) events: Vec<v1::Event>,
}

/// One session, as its own stream was exported and as it is shown.
#[derive(Debug)]
pub(crate) struct SessionLog {
    pub(super) view: v1::Session,
    pub(super) events: Vec<v1::Event>,
}

impl Log {
    /// One that is listed.
    pub(crate) async fn read(client: &Client, listed: &v1::Run) -> Result<Self, ClientError> {
        let request = v1::GetRunRequest {
            run_id: listed.run_id.clone(),
            include_outputs: true,
            ..v1::GetRunRequest::default()
        };
        let view = client.get_run(request).await?.run.unwrap_or_default();
        let mut events = Vec::new();
        let mut export = client.export_run(&listed.run_id).await?;
        while let Some(event) = export.next().await {
            events.push(event?);
        }
        Ok(Self { view, events })
    }

    /// What the label says. A run that a tool has begun has no labels, and is named by its key, or asks with it.
    pub(crate) fn key(&self) -> &str {
        let name = || match self.accepted()?.work.as_ref()? {
            v1::run_accepted::Work::Plan(plan) => Some(&plan.name),
            v1::run_accepted::Work::Pipeline(pipeline) => Some(&pipeline.name),
            v1::run_accepted::Work::Ask(ask) => Some(&ask.text),
            _ => None,
        };
        self.view.labels.get(KEY_LABEL).or_else(name).map_or("", String::as_str)
    }

    pub(super) fn client(&self) -> &str {
        self.view.labels.get(CLIENT_LABEL).map_or("", String::as_str)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.view.status == v1::RunStatus::Finished as i32
    }

    pub(super) fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.events.iter().filter_map(|event| event.body.as_ref())
    }

    fn accepted(&self) -> Option<&v1::RunAccepted> {
        match self.bodies().next() {
            Some(Body::RunAccepted(body)) => Some(body),
            _ => None,
        }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        Kind::of(self.accepted()?)
    }

    pub(super) fn ask(&self) -> Option<&v1::Ask> {
        self.accepted()?.ask()
    }

    /// The session of an ask.
    pub(super) fn session(&self) -> Option<&str> {
        self.ask()?.session.as_deref()
    }

    /// Whether the task's declaration says so: in the plan, or in the wave that an ask, a script or an execution has begun.
    pub(super) fn runs_at_most_once(&self, name: &str) -> bool {
        let plan = self.accepted().and_then(v1::RunAccepted::plan);
        let begun = self.bodies().filter_map(|body| match body {
            Body::AskRouted(body) => body.wave.as_ref(),
            Body::BrowserActivityStarted(body) => body.wave.as_ref(),
            Body::ToolCalled(body) => body.tasks.as_ref(),
            _ => None,
        });
        let mut tasks = plan.iter().flat_map(|plan| &plan.waves).chain(begun).flat_map(|wave| &wave.tasks);
        tasks.any(|task| task.name == name && task.effect == Some(v1::Effect::AtMostOnce as i32))
    }

    /// Whether the task is a run of its own.
    pub(crate) fn names_child(&self, wave: u32, task: u32) -> bool {
        self.bodies().any(|body| match body {
            Body::ChildNamed(named) => (named.wave, named.task) == (wave, task),
            _ => false,
        })
    }

    /// The key of the run that the call of a tool in this wave is.
    pub(crate) fn called_child(&self, wave: u32) -> Option<&str> {
        let called = self.bodies().find_map(|body| match body {
            Body::ToolCalled(called) if called.wave == wave => called.tasks.as_ref(),
            _ => None,
        })?;
        match called.tasks.first()?.run.as_ref()?.work.as_ref()? {
            v1::child_run::Work::Plan(plan) => Some(&plan.name),
            v1::child_run::Work::Pipeline(pipeline) => Some(&pipeline.name),
            v1::child_run::Work::Ask(ask) => Some(&ask.text),
            _ => None,
        }
    }

    /// What it says of the run that it is forked from.
    pub(super) fn forked(&self) -> Option<&v1::RunForked> {
        self.bodies().find_map(|body| match body {
            Body::RunForked(forked) => Some(forked),
            _ => None,
        })
    }

    /// How many of its events are another run's.
    pub(super) fn inherited(&self) -> u64 {
        self.forked().map_or(0, |forked| forked.seq)
    }

    /// The name of a task of the run.
    pub(crate) fn task_name(&self, wave: u32, task: u32) -> &str {
        let wave = usize::try_from(wave).ok().and_then(|wave| self.view.waves.get(wave));
        let task = usize::try_from(task).ok().and_then(|task| wave?.tasks.get(task));
        task.map_or("", |task| task.name.as_str())
    }
}

/// All runs, by their ids.
pub(super) async fn read(client: &Client) -> Outcome<BTreeMap<String, Log>> {
    let mut logs = BTreeMap::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRunsRequest { page_size: 500, page_token, ..v1::ListRunsRequest::default() };
        let page = client.list_runs(request).await?;
        for listed in page.runs {
            let run = listed.run_id.clone();
            let log = patiently(|| Log::read(client, &listed)).await?;
            if logs.insert(run.clone(), log).is_some() {
                return Err(format!("run {run} is listed twice").into());
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(logs);
        }
    }
}

/// All sessions, by the ids of their streams.
pub(super) async fn read_sessions(client: &Client) -> Outcome<BTreeMap<String, SessionLog>> {
    let mut sessions = BTreeMap::new();
    let mut page_token = String::new();
    loop {
        let page = client.list_sessions(v1::ListSessionsRequest { page_size: 500, page_token }).await?;
        for listed in page.sessions {
            let log = patiently(|| session_log(client, &listed)).await?;
            if sessions.insert(listed.stream_id, log).is_some() {
                return Err(format!("session {} is listed twice", listed.session).into());
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(sessions);
        }
    }
}

async fn session_log(client: &Client, listed: &v1::Session) -> Result<SessionLog, ClientError> {
    let view = client.get_session(&listed.session).await?;
    // Only runs are exported: a session's own events are those that a subscription to its stream begins with.
    let filter = v1::EventFilter { run_id: Some(listed.stream_id.clone()), ..v1::EventFilter::default() };
    let request = v1::SubscribeRequest { filter: Some(filter), ..v1::SubscribeRequest::default() };
    let mut history = client.subscribe(request);
    let mut events = Vec::new();
    while let Some(delivery) = history.next().await {
        match delivery? {
            Delivery::Event { event, .. } => events.push(event),
            Delivery::CaughtUp => break,
            Delivery::Progress(_) | Delivery::Reconnecting { .. } | Delivery::Damaged(_) => {}
        }
    }
    Ok(SessionLog { view, events })
}

async fn patiently<T, F: Future<Output = Result<T, ClientError>>>(call: impl Fn() -> F) -> Outcome<T> {
    let began = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_retryable() && began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
