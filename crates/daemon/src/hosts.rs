//! The work that the daemon does itself: its hosts, and their connections to the shard.

use std::path::PathBuf;
use std::sync::Arc;

use capataz_contracts::v1::{connect_request, connect_response};
use capataz_executor::chromium::ShimOptions;
use capataz_hosts::analysis::Analysts;
use capataz_hosts::browsers::{Browsers, Surroundings};
use capataz_hosts::commands::{Places, ProcessAgents, ProcessContext};
use capataz_hosts::models::Models;
use capataz_hosts::port::{Clock, Connect, SecretResolver, Speak};
use capataz_hosts::rules::Planners;
use capataz_hosts::{Host, HostNumber, Renewal, Serve};
use capataz_runtime::{Runtime, WorkerSender};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::services::named;
use crate::specs::Specs;
use crate::{Config, DaemonError, secrets};

/// They serve until this is dropped.
#[derive(Debug)]
pub(crate) struct Hosts {
    number: HostNumber,
    runtime: Runtime,
    running: Vec<Host>,
    tidying: AbortHandle,
    context: ProcessContext,
    commands: Option<Renewal<ProcessAgents>>,
    planners: Option<Renewal<Planners>>,
    models: Option<Renewal<Models>>,
}

/// What the configuration has the daemon serve.
pub(crate) struct Configured {
    commands: Arc<ProcessAgents>,
    planners: Arc<Planners>,
    models: Arc<Models>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.tidying.abort();
    }
}

impl Hosts {
    /// Begins with browsers and commands. `shims_folder` holds the locks of whatever they start.
    pub(crate) fn start(
        config: &Config,
        number: HostNumber,
        shims_folder: PathBuf,
        runtime: &Runtime,
    ) -> Result<(Self, Arc<Browsers>), DaemonError> {
        let clock = clock(runtime);
        let shim = config.shim.clone().unwrap_or_default();
        let secrets: Arc<dyn SecretResolver> = Arc::new(secrets::Secrets::new(config.secrets_dir.clone()));
        let browsers = Browsers::new(Surroundings {
            config: config.browser.clone(),
            data_dir: config.data_dir.clone(),
            store: Arc::clone(runtime.store()),
            clock: Arc::clone(&clock),
            shim: ShimOptions { command: shim.clone(), locks_folder: shims_folder.clone() },
            secrets: Arc::clone(&secrets),
        })?;
        // No script ends unseen between the first browser and the one who closes it.
        let scripts_over = runtime.scripts_over();
        let tidying = tokio::spawn(Arc::clone(&browsers).tidy(scripts_over)).abort_handle();
        let mut hosts = Self {
            number,
            runtime: runtime.clone(),
            running: Vec::new(),
            tidying,
            context: ProcessContext { shim, shims_folder, secrets, places: Places::default() },
            commands: None,
            planners: None,
            models: None,
        };
        hosts.add(Arc::clone(&browsers))?;
        hosts.add(Analysts::new(Arc::clone(runtime.store()), Arc::clone(&clock)))?;
        let configured = hosts.configured(config)?;
        hosts.serve(configured)?;
        Ok((hosts, browsers))
    }

    /// What this configuration has the daemon serve.
    ///
    /// # Errors
    /// A part of it cannot be served; then nothing of it is.
    pub(crate) fn configured(&self, config: &Config) -> Result<Configured, DaemonError> {
        let store = || Arc::clone(self.runtime.store());
        let clock = || clock(&self.runtime);
        let secrets = Arc::clone(&self.context.secrets);
        let models = Models::new(config.models.clone(), secrets, store(), clock());
        let configured = Configured {
            commands: ProcessAgents::new(config.agents.clone(), self.context.clone(), store(), clock()),
            planners: Planners::new(config.rules.clone(), store(), clock()),
            models: models.map_err(|(name, problems)| {
                let told = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message));
                DaemonError::Model { name, problems: told.collect::<Vec<_>>().join("; ") }
            })?,
        };
        let Configured { commands, planners, models } = &configured;
        check(&**commands, self.number)?;
        check(&**planners, self.number)?;
        check(&**models, self.number)?;
        Ok(configured)
    }

    /// Serves this from now on, and nothing that the configuration named before. What is at work goes on as it began.
    pub(crate) fn serve(&mut self, configured: Configured) -> Result<(), DaemonError> {
        let Configured { commands, planners, models } = configured;
        let (number, runtime, running) = (self.number, &self.runtime, &mut self.running);
        renew(&mut self.commands, commands, number, runtime, running)?;
        renew(&mut self.planners, planners, number, runtime, running)?;
        renew(&mut self.models, models, number, runtime, running)
    }

    /// Serves the built-in agent, if there can be specs.
    pub(crate) fn serve_templates(&mut self, specs: &Specs) -> Result<(), DaemonError> {
        match specs.templates(clock(&self.runtime)) {
            Some(templates) => self.add(templates),
            None => Ok(()),
        }
    }

    pub(crate) fn number(&self) -> HostNumber {
        self.number
    }

    /// Whether this is one of the daemon's own workers.
    pub(crate) fn is_one(&self, worker: &str) -> bool {
        self.number.is_of(worker)
    }

    /// Ends all work, which is lost from then on.
    pub(crate) async fn end(mut self) {
        let ending: Vec<_> = self.running.drain(..).map(|host| tokio::spawn(host.end())).collect();
        for ended in ending {
            let _ = ended.await;
        }
    }

    fn add<W: Serve>(&mut self, work: Arc<W>) -> Result<(), DaemonError> {
        self.running.push(Host::start(work, self.number, Port(self.runtime.clone()))?);
        Ok(())
    }
}

fn check<W: Serve>(work: &W, number: HostNumber) -> Result<(), DaemonError> {
    if work.agents().is_empty() {
        return Ok(());
    }
    Ok(Host::check(work, number)?)
}

/// Replaces what the host serves. One that has never had anything to serve begins with the first.
fn renew<W: Serve>(
    renewal: &mut Option<Renewal<W>>,
    work: Arc<W>,
    number: HostNumber,
    runtime: &Runtime,
    running: &mut Vec<Host>,
) -> Result<(), DaemonError> {
    match renewal {
        Some(renewal) => renewal.serve(work),
        None if work.agents().is_empty() => {}
        None => {
            let (host, started) = Host::start_renewable(work, number, Port(runtime.clone()))?;
            running.push(host);
            *renewal = Some(started);
        }
    }
    Ok(())
}

/// The shard's time, as hosts ask for it.
fn clock(runtime: &Runtime) -> Clock {
    let runtime = runtime.clone();
    Arc::new(move || runtime.now().wall.0)
}

/// The shard, as hosts reach it.
struct Port(Runtime);

struct Speaker {
    runtime: Runtime,
    sender: WorkerSender,
}

impl Connect for Port {
    type Speaker = Speaker;

    async fn connect(&self, slots: usize) -> (mpsc::Receiver<connect_response::Frame>, Speaker) {
        let (frames, sender) = self.0.connect_host(slots).await.split();
        (frames, Speaker { runtime: self.0.clone(), sender })
    }
}

impl Speak for Speaker {
    async fn say(&self, frame: connect_request::Frame) -> bool {
        self.sender.send(named::answered(&self.runtime, frame).await).await
    }
}
