//! Everything that the public API says of every run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use capataz_client::{Client, ClientError, v1};
use capataz_contracts::v1::event::Body;

use crate::Outcome;
use crate::plans::{CLIENT_LABEL, KEY_LABEL};

/// How long a call is repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// One run, as it was exported and as it is shown.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) view: v1::Run,
    pub(super) events: Vec<v1::Event>,
}

impl Log {
    pub(super) fn key(&self) -> &str {
        self.view.labels.get(KEY_LABEL).map_or("", String::as_str)
    }

    pub(super) fn client(&self) -> &str {
        self.view.labels.get(CLIENT_LABEL).map_or("", String::as_str)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.view.status == v1::RunStatus::Finished as i32
    }

    /// Whether the plan says so.
    pub(super) fn runs_at_most_once(&self, name: &str) -> bool {
        let accepted = self.events.first().and_then(|event| match &event.body {
            Some(Body::RunAccepted(body)) => body.plan(),
            _ => None,
        });
        let mut tasks = accepted.iter().flat_map(|plan| &plan.waves).flat_map(|wave| &wave.tasks);
        tasks.any(|task| task.name == name && task.effect == Some(v1::Effect::AtMostOnce as i32))
    }

    /// The name of a task of the plan.
    pub(super) fn task_name(&self, wave: u32, task: u32) -> &str {
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
            let log = patiently(|| log(client, &listed)).await?;
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

async fn log(client: &Client, listed: &v1::Run) -> Result<Log, ClientError> {
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
    Ok(Log { view, events })
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
