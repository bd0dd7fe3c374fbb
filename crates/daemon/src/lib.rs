//! The Capataz daemon as a library: configuration, gRPC services, wiring.
//!
//! This is the only crate that knows gRPC status codes. It decides nothing about runs: it validates what comes in, asks
//! the shard, and says the answer in the protocol's words. Begin reading with [`Daemon::start`].

mod backup;
mod clock;
mod config;
mod draining;
mod folder;
mod folds;
mod guard;
mod heard;
mod holder;
mod hosts;
mod listener;
mod lock;
pub mod machine;
mod metrics;
mod patience;
mod rebuild;
mod reload;
mod secrets;
mod services;
mod specs;
mod status;
mod sweeper;
mod traces;
mod unread;
mod waiting;
mod watching;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::{Violation, v1};
use capataz_crew::{Known, KnownAgent, Reserved};
use capataz_hosts::analysis::ANALYSIS_HOST;
use capataz_hosts::browsers::{BROWSER_HOST, BrowsersError, browser_agent};
use capataz_hosts::commands::{PROCESS_HOST, await_orphans};
use capataz_hosts::models::MODEL_HOST;
use capataz_hosts::rules::RULES_HOST;
use capataz_hosts::{HostNumber, HostNumberError, InvalidHost};
use capataz_runtime::{Options, Runtime, StartError};
use capataz_shard::shard::Config as ShardConfig;
use capataz_store::{Migrated, ShardId, SqliteOptions, SqliteStore, Store, StoreError};
use capataz_telemetry::Endpoint;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use hosts::Hosts;

pub use backup::{BackupError, Looked, Note, Step, backup, restore, verify};
pub use capataz_hosts::browsers::BrowserConfig;
pub use capataz_hosts::commands::{Given, Kind, OutputFormat, ProcessAgent, ShimCommand};
pub use capataz_hosts::rules::{Rules, RulesFile};
pub use capataz_runtime::Trace;
pub use capataz_shard::Damage;
pub use capataz_shard::rebuild::{Difference, Told, Totals};
pub use capataz_store::sqlite::backup::{Blobs, Copying};
pub use capataz_telemetry::Own;
pub use clock::Clock;
pub use config::{
    Config, ConfigError, DeclaredAgent, HealthChecks, Lack, Need, Overrides, Problem, RetentionConfig,
    RulesPlanner, TelemetryConfig, Whereabouts,
};
pub use holder::{Holder, Listening};
pub use lock::LockError;
pub use rebuild::{RebuildError, check_names, rebuild};
pub use services::Places;
pub use specs::SpecsError;

/// SQLite has one shard.
pub(crate) const SHARD: ShardId = ShardId(0);

/// How long a starting daemon waits for the commands of the one before it to be gone.
const ORPHANS: Duration = Duration::from_secs(15);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("the database in {} could not be opened", data_dir.display())]
    Store {
        data_dir: PathBuf,
        #[source]
        source: StoreError,
    },
    #[error("the shards did not start")]
    Shard(#[from] StartError),
    #[error("the model {name} cannot be asked: {problems}")]
    Model { name: String, problems: String },
    #[error("cannot listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("commands of an earlier daemon are still running")]
    Orphans(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(
        "{address} is not a loopback address; listening there needs TLS and tokens, which this version does not have"
    )]
    NotLoopback { address: String },
    #[error(transparent)]
    Browsers(#[from] BrowsersError),
    #[error(transparent)]
    HostNumber(#[from] HostNumberError),
    #[error(transparent)]
    Host(#[from] InvalidHost),
    #[error("the specs could not be loaded")]
    Specs(#[from] SpecsError),
    #[error("{0}")]
    Telemetry(String),
    #[error("spans cannot be sent")]
    Traces(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the gRPC server could not be set up")]
    Server(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A daemon that is being started; to be awaited.
pub type Starting = Pin<Box<dyn Future<Output = Result<Daemon, DaemonError>> + Send>>;

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    address: SocketAddr,
    /// As it was read last.
    config: Config,
    runtime: Runtime,
    hosts: Hosts,
    specs: specs::Specs,
    reloading: Option<specs::Reloading>,
    following: Option<reload::Following>,
    stop: watch::Sender<bool>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
    sweeper: JoinHandle<()>,
    traces: Option<traces::Traces>,
    health: services::Health,
    _lock: lock::DataLock,
}

/// What the shards are told of the configuration.
fn shard_config(config: &Config) -> ShardConfig {
    ShardConfig {
        heartbeat_ms: i64::try_from(config.health_checks.interval.as_millis()).unwrap_or(i64::MAX),
        missed_heartbeats: config.health_checks.missed.into(),
        ..ShardConfig::default()
    }
}

impl Daemon {
    /// Opens the data folder, recovers every unfinished run, and listens.
    ///
    /// # Errors
    /// Another daemon has the data folder; the database cannot be read; the address cannot be listened on.
    pub fn start(config: Config) -> Starting {
        // The server and everything behind it are compiled where this future's type is known, so it stays here.
        Box::pin(Self::start_here(config))
    }

    async fn start_here(mut config: Config) -> Result<Self, DaemonError> {
        let address = config.socket_address()?;
        // Commands and browsers have other working folders.
        if let Ok(absolute) = std::path::absolute(&config.data_dir) {
            config.data_dir = absolute;
        }
        let lock = lock::DataLock::take(&config.data_dir)?;
        let source = config.spec_source();
        let router = {
            let source = source.clone();
            let loaded = tokio::task::spawn_blocking(move || specs::load(&source)).await;
            loaded.map_err(|error| DaemonError::Server(error.into()))??
        };
        let number = HostNumber::of_folder(&config.data_dir)?;
        let store = open_store(config.data_dir.clone(), config.clock.of_shards()).await?;
        folder::narrow_inside(&config.data_dir);
        let shims_folder = config.data_dir.join("shims");
        wait_for_orphans(shims_folder.clone()).await?;
        let options = Options {
            shard: shard_config(&config),
            clock: config.clock.of_shards(),
            trace: config.trace.clone(),
            ..Options::default()
        };
        let runtime =
            Runtime::start(vec![SHARD], Arc::clone(&store), known(&config, number), options).await?;
        let counts = Arc::new(traces::Counts::default());
        let traces = match endpoint(&config)? {
            Some(endpoint) => {
                let started =
                    traces::Traces::start(&runtime, &endpoint, &config.data_dir, Arc::clone(&counts));
                Some(started.await.map_err(|error| DaemonError::Traces(error.into()))?)
            }
            None => None,
        };
        let (mut hosts, browsers) = Hosts::start(&config, number, shims_folder, &runtime)?;
        let (stop, stopped) = watch::channel(false);
        let specs = specs::Specs::start(source, router, runtime.clone()).await;
        hosts.serve_templates(&specs)?;
        let reloading = specs.watch();
        let (address, health, server) = services::serve(
            address,
            runtime.clone(),
            specs.clone(),
            Arc::clone(&browsers),
            services::Extras {
                demo: config.demo_page,
                traced: traces.is_some(),
                metrics: metrics::routes(
                    runtime.clone(),
                    config.data_dir.clone(),
                    traces.as_ref().map(|_| counts),
                ),
            },
            stopped,
        )
        .await?;
        if let Err(error) = lock.tell(&Listening::here(address, runtime.now().wall.0)) {
            tracing::warn!(%error, "commands that are given the data folder alone do not find this daemon");
        }
        let sweeping = sweeper::run(runtime.clone(), config.retention.clone(), browsers, health.clone());
        let sweeper = tokio::spawn(sweeping);
        tracing::info!(%address, data_dir = %config.data_dir.display(), "the daemon is ready");
        Ok(Self {
            address,
            config,
            runtime,
            hosts,
            specs,
            reloading,
            following: None,
            stop,
            server,
            sweeper,
            traces,
            health,
            _lock: lock,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Serves until `shutdown` ends, another daemon takes the data over, or the server fails; then drains.
    pub async fn wait(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                () = self.runtime.fenced() => break,
                () = self.runtime.over() => {
                    tracing::error!("the shards have ended; the daemon stops");
                    break;
                }
                ended = &mut self.server => {
                    if let Ok(Err(error)) = ended {
                        tracing::error!(%error, "the server failed");
                    }
                    break;
                }
                why = reload::Following::next(&mut self.following) => {
                    let runtime = self.runtime.clone();
                    tokio::select! {
                        () = &mut shutdown => break,
                        () = runtime.fenced() => break,
                        () = runtime.over() => break,
                        () = self.reload(why) => {}
                    }
                }
            }
        }
        self.shutdown().await;
    }
}

/// Where spans are sent.
fn endpoint(config: &Config) -> Result<Option<Endpoint>, DaemonError> {
    let secrets = secrets::Secrets::new(config.secrets_dir.clone());
    config.telemetry.endpoint(&secrets).map_err(DaemonError::Telemetry)
}

/// What sends the spans of the daemon's own work, such as calls of its API; `None` where the configuration names no collector.
/// It is told to `tracing` by whoever sets that up. Must be called within a Tokio runtime.
///
/// # Errors
/// A secret of the configuration is not known, or makes no header.
pub fn own_spans(config: &Config) -> Result<Option<Own>, DaemonError> {
    Ok(endpoint(config)?.as_ref().and_then(Own::new))
}

/// Everything that is wrong with a pipeline by itself, as a daemon would refuse it, with paths from the pipeline.
#[must_use]
pub fn check_pipeline(pipeline: &v1::Pipeline) -> Vec<Violation> {
    services::check_pipeline(pipeline)
}

/// All violations of a plan by itself, with paths from the plan: the reasons for which a start would be refused, except
/// unknown names of agents.
#[must_use]
pub fn check_plan(plan: &v1::Plan) -> Vec<Violation> {
    services::check_plan(plan)
}

/// The specs of a folder, for whoever looks at them without a daemon.
///
/// # Errors
/// A file cannot be read, or is invalid; then every error of every file, with its place.
pub fn read_specs(folder: &Path) -> Result<capataz_router::Catalogue, SpecsError> {
    let files = specs::read_folder(folder)?;
    capataz_router::Catalogue::read(&files).map_err(SpecsError::Invalid)
}

/// The hidden subcommand under which process agents run; see `capataz_hosts::commands`.
pub fn shim_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    capataz_hosts::commands::shim_main(arguments)
}

async fn open_store(data_dir: PathBuf, clock: capataz_runtime::Clock) -> Result<Arc<dyn Store>, DaemonError> {
    let folder = data_dir.clone();
    let open = move || {
        let mut told_at = None;
        let mut tell = |migrated: Migrated| {
            let now = clock().mono.0;
            let is_due = told_at.is_none_or(|told_at| now - told_at >= MIGRATION_TOLD_MS);
            if is_due || migrated.done == migrated.total {
                told_at = Some(now);
                tracing::info!(rows = migrated.done, of = migrated.total, "the data folder is migrated");
            }
            ControlFlow::Continue(())
        };
        SqliteStore::open_with_progress(&folder, SqliteOptions::default(), &mut tell)
    };
    match tokio::task::spawn_blocking(open).await.unwrap_or(Err(StoreError::Closed)) {
        Ok(store) => Ok(Arc::new(store)),
        Err(source) => Err(DaemonError::Store { data_dir, source }),
    }
}

/// The time between two lines about a migration, in milliseconds.
const MIGRATION_TOLD_MS: i64 = 1_000;

/// No command of an earlier daemon may still work on a task when its next lease begins.
async fn wait_for_orphans(shims: PathBuf) -> Result<(), DaemonError> {
    let awaited = tokio::task::spawn_blocking(move || await_orphans(&shims, ORPHANS)).await;
    match awaited {
        Ok(Ok(0)) => Ok(()),
        Ok(Ok(count)) => {
            tracing::info!(count, "commands of an earlier daemon have ended");
            Ok(())
        }
        Ok(Err(error)) => Err(DaemonError::Orphans(error.into())),
        Err(error) => Err(DaemonError::Orphans(error.into())),
    }
}

/// What plans may name because the configuration does, or because it is built in.
fn known_agents(config: &Config) -> Vec<KnownAgent> {
    let process = config.agents.iter().map(|agent| KnownAgent {
        agent: agent.described(),
        source: v1::AgentSource::Process,
        last_seen: None,
    });
    let declared = config.declared_agents.iter().map(|agent| KnownAgent {
        agent: agent.described(),
        source: v1::AgentSource::Declared,
        last_seen: None,
    });
    let templates = config.spec_source().is_some().then(|| KnownAgent {
        agent: specs::template_agent(),
        source: v1::AgentSource::Declared,
        last_seen: None,
    });
    let built_in = |agent| KnownAgent { agent, source: v1::AgentSource::Declared, last_seen: None };
    let analysts = capataz_hosts::analysis::agents().into_iter().map(built_in);
    let planners = config.rules.keys().map(|name| built_in(capataz_hosts::rules::described(name)));
    let models = config.models.iter().map(|model| built_in(model.described()));
    let browser = KnownAgent { agent: browser_agent(), source: v1::AgentSource::Declared, last_seen: None };
    let agents = process.chain(declared).chain(templates).chain(analysts).chain(planners).chain(models);
    agents.chain([browser]).collect()
}

fn known(config: &Config, number: HostNumber) -> Known {
    Known {
        agents: known_agents(config),
        commands: config.commands.iter().cloned().collect(),
        resources: config.resources.iter().cloned().collect(),
        reserved: reserved(config, number),
    }
}

/// Whether the daemon serves an agent of this name itself, whatever is configured.
fn built_in(name: &str) -> bool {
    name == specs::TEMPLATE_AGENT
        || name == browser_agent().name
        || capataz_hosts::analysis::AGENTS.contains(&name)
}

/// What the daemon's own hosts are called, and what they serve: nobody else may say hello with it.
fn reserved(config: &Config, number: HostNumber) -> Reserved {
    let hosts = [PROCESS_HOST, BROWSER_HOST, specs::TEMPLATE_WORKER, ANALYSIS_HOST, RULES_HOST, MODEL_HOST];
    let analysts = capataz_hosts::analysis::AGENTS.map(str::to_owned);
    let own = config.agents.iter().filter(|agent| !agent.shared).map(|agent| agent.name.clone());
    Reserved {
        workers: hosts.map(|host| number.worker_id(host)).into(),
        agents: own
            .chain([specs::TEMPLATE_AGENT.to_owned(), browser_agent().name])
            .chain(analysts)
            .chain(capataz_policy::mode::browser::names())
            .chain(config.rules.keys().cloned())
            .chain(config.models.iter().map(|model| model.name.clone()))
            .collect(),
    }
}
