//! A daemon with browsers, a site, and what a test says of them.

use std::path::PathBuf;

use capataz_contracts::script_file::{self, Format};
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::event::Body;
use capataz_contracts::v1::event_service_client::EventServiceClient;
use capataz_contracts::v1::executor_service_client::ExecutorServiceClient;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use capataz_daemon::{Config, Daemon};
use capataz_hosts::commands::ShimCommand;
use capataz_testsite::Site;
use tonic::Status;
use tonic::transport::Channel;

/// For whatever is not meant to run into a limit: far longer than it takes, on a machine that stands still for a while, too.
const PATIENCE_MS: i64 = 120_000;

/// Longest wait for the end of a run. Whoever runs the tests ends one that hangs at about that time.
const RUN_LIMIT_MS: i64 = 280_000;

/// A daemon that may open browsers, and a site of two hosts.
pub struct Bench {
    /// It ends with the bench.
    _daemon: Daemon,
    pub site: Site,
    pub runs: RunServiceClient<Channel>,
    pub executor: ExecutorServiceClient<Channel>,
    pub blobs: BlobServiceClient<Channel>,
    pub events: EventServiceClient<Channel>,
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub async fn start() -> Self {
        Self::start_with(|_, _| ()).await
    }

    pub async fn start_with(edit: impl FnOnce(&mut Config, &std::path::Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::embedded(folder.path().join("data"));
        config.shim = Some(ShimCommand { program: shim(), args: Vec::new() });
        edit(&mut config, folder.path());
        let daemon = Daemon::start(config).await.unwrap();
        let endpoint = format!("http://{}", daemon.address());
        let channel = Channel::from_shared(endpoint).unwrap().connect().await.unwrap();
        Self {
            _daemon: daemon,
            site: Site::start().await.unwrap(),
            runs: RunServiceClient::new(channel.clone()),
            executor: ExecutorServiceClient::new(channel.clone()),
            blobs: BlobServiceClient::new(channel.clone()),
            events: EventServiceClient::new(channel),
            folder,
        }
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A script in TOML. `{site}` is the site's first host with its port, `{other}` the second; the first alone is on the
    /// allowlist unless the script has its own, and actions have all the time that they need unless it says how much.
    #[track_caller]
    pub fn script(&self, toml: &str) -> v1::Script {
        let toml = toml.replace("{site}", &self.site.host()).replace("{other}", &self.site.other_host());
        let mut script = match script_file::parse(&toml, Format::Toml) {
            Ok(script) => script,
            Err(violations) => panic!("{violations:?}"),
        };
        let policy = script.policy.get_or_insert_default();
        if policy.allowlist.is_empty() {
            policy.allowlist = vec![self.site.host()];
        }
        policy.action_timeout_ms.get_or_insert(PATIENCE_MS);
        policy.navigation_timeout_ms.get_or_insert(PATIENCE_MS);
        script
    }

    pub async fn try_start(&self, script: v1::Script) -> Result<String, Status> {
        let request = v1::StartRunRequest::of_script(script);
        Ok(self.runs.clone().start_run(request).await?.into_inner().run_id)
    }

    /// Starts a script and waits for its end.
    pub async fn run(&self, toml: &str) -> Ended {
        let run_id = self.try_start(self.script(toml)).await.unwrap();
        self.ended(run_id).await
    }

    pub async fn ended(&self, run_id: String) -> Ended {
        let request = v1::WaitRunRequest { run_id: run_id.clone(), timeout_ms: Some(RUN_LIMIT_MS) };
        let answer = self.runs.clone().wait_run(request).await.unwrap().into_inner();
        let result = answer.result.expect("the run ends in time");
        Ended { events: self.export(&run_id).await, run_id, result }
    }

    /// Every event of the run.
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

    /// Waits for the first event of the run that is as wanted.
    pub async fn until(&self, run_id: &str, wanted: impl Fn(&Body) -> bool) -> v1::Event {
        let filter = v1::EventFilter { run_id: Some(run_id.to_owned()), ..Default::default() };
        let request =
            v1::SubscribeRequest { filter: Some(filter), until_finished: true, ..Default::default() };
        let mut stream = self.events.clone().subscribe(request).await.unwrap().into_inner();
        while let Some(page) = stream.message().await.unwrap() {
            for delivered in page.events {
                let event = delivered.decode_event().unwrap();
                if event.body.as_ref().is_some_and(&wanted) {
                    return event;
                }
            }
        }
        panic!("run {run_id} ended without such an event");
    }

    /// Starts a script and waits until work of it says this of itself. It is listened to from before it begins: what was
    /// said is not said again.
    pub async fn start_until_message(&self, script: v1::Script, message: &str) -> String {
        let request = v1::SubscribeRequest { progress: true, ..Default::default() };
        let mut stream = self.events.clone().subscribe(request).await.unwrap().into_inner();
        let run_id = self.try_start(script).await.unwrap();
        while let Some(page) = stream.message().await.unwrap() {
            let says = |frame: &v1::ProgressFrame| {
                frame.run_id == run_id && frame.message.as_deref() == Some(message)
            };
            if page.progress.iter().any(says) {
                return run_id;
            }
        }
        panic!("run {run_id} has not said so");
    }

    /// The browsers that are open.
    pub async fn browsers(&self) -> Vec<v1::OpenBrowserInfo> {
        let request = v1::ListBrowsersRequest::default();
        self.executor.clone().list_browsers(request).await.unwrap().into_inner().browsers
    }

    pub async fn blob(&self, id: &str) -> Vec<u8> {
        let request = v1::GetBlobRequest { blake3: id.to_owned() };
        let mut stream = self.blobs.clone().get_blob(request).await.unwrap().into_inner();
        let mut content = Vec::new();
        while let Some(part) = stream.message().await.unwrap() {
            content.extend_from_slice(&part.chunk);
        }
        content
    }
}

/// The daemon's shim as a program of its own; cargo builds examples with the tests.
fn shim() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/shim")
}

/// A script that has ended.
pub struct Ended {
    pub run_id: String,
    pub result: v1::RunResult,
    pub events: Vec<v1::Event>,
}

impl Ended {
    pub fn script(&self) -> v1::ScriptResult {
        self.result.script().cloned().expect("the run was a script")
    }

    #[track_caller]
    pub fn error(&self) -> v1::ExecutorError {
        match self.script().error {
            Some(error) => error,
            None => panic!("the script ended without an error: {:?}", self.result),
        }
    }

    /// Every failure on the way, the one that ended the script among them.
    pub fn failures(&self) -> Vec<v1::ExecutorError> {
        let failed = self.events.iter().filter_map(|event| match &event.body {
            Some(Body::ActionFailed(failed)) => failed.error.clone(),
            _ => None,
        });
        failed.collect()
    }

    /// What became of the actions that succeeded, recoveries left out.
    pub fn finished(&self) -> Vec<v1::ActionFinished> {
        let finished = self.events.iter().filter_map(|event| match &event.body {
            Some(Body::ActionFinished(done)) if done.activity() == v1::BrowserActivity::Action => {
                Some((**done).clone())
            }
            _ => None,
        });
        finished.collect()
    }

    #[track_caller]
    pub fn expect_success(self) -> Self {
        let outcome = self.result.outcome();
        assert_eq!(outcome, v1::RunOutcome::Succeeded, "{:?} {:?}", self.result.error, self.script().error);
        self
    }

    /// The value of an output.
    #[track_caller]
    pub fn output(&self, name: &str) -> serde_json::Value {
        let outputs = self.script().outputs;
        let output = outputs.iter().find(|output| output.name == name).expect("there is such an output");
        serde_json::from_str(&output.value).unwrap()
    }
}
