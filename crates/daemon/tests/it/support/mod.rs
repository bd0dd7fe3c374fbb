//! A daemon of one's own, and workers that do what they are told.

pub mod asks;
pub mod boxes;
pub mod kept_log;
pub mod time;
pub mod worker;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use capataz_daemon::{Config, Daemon, Told};
use capataz_shard::replay::replay;
use capataz_store::{RunQuery, SqliteOptions, SqliteStore, Store};
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt;

pub use worker::Worker;

/// Longer than anything that a test waits for, and reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

const DATABASE: &str = "capataz.db";

pub struct Harness {
    // This field is dropped first, while the daemon and its folder are there.
    _rows: Rows,
    pub daemon: Daemon,
    pub runs: RunServiceClient<Channel>,
    pub events: EventServiceClient<Channel>,
    pub agents: AgentServiceClient<Channel>,
    pub channel: Channel,
    pub folder: tempfile::TempDir,
}

impl Harness {
    pub async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub async fn start_with(edit: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, edit).await
    }

    pub async fn start_in(folder: tempfile::TempDir, edit: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::embedded(data_dir(&folder));
        edit(&mut config);
        let daemon = Daemon::start(config).await.unwrap();
        let channel = channel(daemon.address()).await;
        Self {
            _rows: Rows { data_dir: data_dir(&folder) },
            daemon,
            runs: RunServiceClient::new(channel.clone()),
            events: EventServiceClient::new(channel.clone()),
            agents: AgentServiceClient::new(channel.clone()),
            channel,
            folder,
        }
    }

    /// Stops the daemon in order; its folder.
    pub async fn stop(self) -> tempfile::TempDir {
        let Self { daemon, folder, runs, events, agents, channel, _rows: rows } = self;
        drop((rows, runs, events, agents, channel));
        daemon.shutdown().await;
        rows_follow_from_their_logs(&data_dir(&folder));
        folder
    }

    /// Stops the daemon in order and starts another one over the same data.
    pub async fn restart(self) -> Self {
        Self::start_in(self.stop().await, |_| ()).await
    }

    pub async fn worker(&self, id: &str, agents: &[&str]) -> Worker {
        Worker::connect(self.channel.clone(), id, agents, Vec::new()).await
    }

    pub async fn start_run(&self, plan: v1::Plan) -> String {
        self.try_start(plan).await.unwrap()
    }

    pub async fn try_start(&self, plan: v1::Plan) -> Result<String, Status> {
        let request = v1::StartRunRequest::of_plan(plan);
        Ok(self.runs.clone().start_run(request).await?.into_inner().run_id)
    }

    pub async fn wait(&self, run_id: &str) -> v1::RunResult {
        let request = v1::WaitRunRequest { run_id: run_id.to_owned(), timeout_ms: Some(60_000) };
        self.runs.clone().wait_run(request).await.unwrap().into_inner().result.expect("the run ends in time")
    }

    /// The report of the run in the language of this tag.
    pub async fn report(&self, run_id: &str, language: &str) -> String {
        let request = v1::RenderReportRequest {
            run_id: run_id.to_owned(),
            language: language.to_owned(),
            ..v1::RenderReportRequest::default()
        };
        self.runs.clone().render_report(request).await.unwrap().into_inner().text
    }

    pub async fn get(&self, run_id: &str) -> v1::Run {
        let request =
            v1::GetRunRequest { run_id: run_id.to_owned(), include_outputs: true, ..Default::default() };
        self.runs.clone().get_run(request).await.unwrap().into_inner().run.unwrap()
    }

    /// Waits until the run is removed.
    pub async fn gone(&self, run_id: &str) {
        let request =
            v1::GetRunRequest { run_id: run_id.to_owned(), summary_only: true, ..Default::default() };
        let refused = async {
            loop {
                if let Err(refusal) = self.runs.clone().get_run(request.clone()).await {
                    break refusal;
                }
            }
        };
        let refusal = tokio::time::timeout(PATIENCE, refused).await.expect("it is removed in time");
        assert_eq!(code_of(&refusal), "RUN_NOT_FOUND");
    }

    pub async fn run_count(&self) -> usize {
        let request = v1::ListRunsRequest { page_size: 500, ..Default::default() };
        self.runs.clone().list_runs(request).await.unwrap().into_inner().runs.len()
    }

    /// Every event of the run, as exported.
    pub async fn export(&self, run_id: &str) -> Vec<v1::Event> {
        let request = v1::ExportRunRequest { run_id: run_id.to_owned() };
        let mut stream = self.runs.clone().export_run(request).await.unwrap().into_inner();
        let mut events = Vec::new();
        while let Some(page) = stream.message().await.unwrap() {
            events.extend(
                page.events.into_iter().map(|event| <v1::Event as prost::Message>::decode(event).unwrap()),
            );
        }
        events
    }
}

/// Holds the rows of a daemon against its logs at the end of a test, whatever the daemon does just then: rows and events
/// are written in one commit.
struct Rows {
    data_dir: PathBuf,
}

impl Drop for Rows {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // A copy of one moment, which no daemon uses.
        let copy = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(self.data_dir.join(DATABASE)).unwrap();
        let target = copy.path().join(DATABASE).display().to_string();
        database.execute("VACUUM INTO ?", [target]).unwrap();
        rows_follow_from_their_logs(copy.path());
        every_run_is_replayed(copy.path());
    }
}

/// Whatever a test has made, its events say what is stored of it, snapshots too.
#[track_caller]
fn every_run_is_replayed(data_dir: &Path) {
    let store = SqliteStore::open_as_it_is(data_dir, SqliteOptions::default()).unwrap();
    let except_kind = Some(v1::RunKind::Session as i32);
    let query = RunQuery { except_kind, limit: u32::MAX, ..RunQuery::default() };
    for row in store.list_runs(&query).unwrap().into_iter().filter(|row| row.quarantine.is_none()) {
        let replayed = replay(&store, row.run);
        // What a test has damaged, it has looked at itself.
        let Ok(replayed) = replayed else { continue };
        let differences = replayed.unwrap().differences;
        assert!(differences.is_empty(), "{}: {differences:#?}", row.run);
    }
}

/// What queries read is what follows from the logs, where those can be read.
#[track_caller]
fn rows_follow_from_their_logs(data_dir: &Path) {
    let mut wrong = Vec::new();
    let mut tell = |told: Told<'_>| {
        if let Told::Differs(difference) = told {
            wrong.push(difference.to_string());
        }
    };
    capataz_daemon::rebuild(data_dir, true, &mut tell).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A connection of its own.
pub async fn channel(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

pub fn data_dir(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("data")
}

/// A plan from its TOML.
#[track_caller]
pub fn plan(toml: &str) -> v1::Plan {
    match capataz_contracts::plan_file::parse(toml, capataz_contracts::plan_file::Format::Toml) {
        Ok(plan) => plan,
        Err(violations) => panic!("{violations:?}"),
    }
}

/// A plan of one wave whose tasks are named as their agents.
pub fn one_wave(agents: &[&str]) -> v1::Plan {
    let tasks = agents.iter().map(|agent| v1::Task {
        name: (*agent).to_owned(),
        agent: (*agent).to_owned(),
        ..Default::default()
    });
    v1::Plan {
        name: "test".to_owned(),
        waves: vec![v1::Wave { tasks: tasks.collect(), ..Default::default() }],
        ..Default::default()
    }
}

pub fn json(value: serde_json::Value) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(value.to_string().into())),
    }
}

pub fn error(code: &str, message: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: message.to_owned(), ..Default::default() }
}

/// The stable code in a refusal.
pub fn code_of(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// The field paths in a refusal.
pub fn paths_of(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}

/// The daemon's shim as a program of its own; cargo builds examples with the tests.
pub fn shim() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/shim")
}
