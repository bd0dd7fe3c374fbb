//! The work that the daemon does itself: its hosts, and their connections to the shard.

use std::path::PathBuf;
use std::sync::Arc;

use capataz_contracts::v1::{connect_request, connect_response};
use capataz_executor::chromium::ShimOptions;
use capataz_hosts::analysis::Analysts;
use capataz_hosts::browsers::{Browsers, Surroundings};
use capataz_hosts::commands::{ProcessAgents, ProcessContext};
use capataz_hosts::models::Models;
use capataz_hosts::port::{Clock, Connect, SecretResolver, Speak};
use capataz_hosts::rules::Planners;
use capataz_hosts::{Host, HostNumber};
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
        let mut hosts = Self { number, runtime: runtime.clone(), running: Vec::new(), tidying };
        hosts.add(Arc::clone(&browsers))?;
        hosts.add(Analysts::new(Arc::clone(runtime.store()), Arc::clone(&clock)))?;
        if !config.rules.is_empty() {
            let (store, clock) = (Arc::clone(runtime.store()), Arc::clone(&clock));
            hosts.add(Planners::new(config.rules.clone(), store, clock))?;
        }
        if !config.models.is_empty() {
            let (store, clock) = (Arc::clone(runtime.store()), Arc::clone(&clock));
            let models = Models::new(config.models.clone(), Arc::clone(&secrets), store, clock);
            hosts.add(models.map_err(|(name, problems)| {
                let told = problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message));
                DaemonError::Model { name, problems: told.collect::<Vec<_>>().join("; ") }
            })?)?;
        }
        if !config.agents.is_empty() {
            let context = ProcessContext { shim, shims_folder, secrets };
            let store = Arc::clone(runtime.store());
            hosts.add(ProcessAgents::new(config.agents.clone(), context, store, clock))?;
        }
        Ok((hosts, browsers))
    }

    /// Serves the built-in agent, if there can be specs.
    pub(crate) fn serve_templates(&mut self, specs: &Specs) -> Result<(), DaemonError> {
        match specs.templates(clock(&self.runtime)) {
            Some(templates) => self.add(templates),
            None => Ok(()),
        }
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

    fn add<W: capataz_hosts::Serve>(&mut self, work: Arc<W>) -> Result<(), DaemonError> {
        self.running.push(Host::start(work, self.number, Port(self.runtime.clone()))?);
        Ok(())
    }
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
