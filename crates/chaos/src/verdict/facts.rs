//! What the verdict is about: all journals, and all that the public API says. Collected first, judged afterwards, so that
//! the judging needs neither processes nor files.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use capataz_client::Client;

use super::logs::{self, Log, SessionLog};
use crate::archive::Kept;
use crate::records::{ClientRecord, CommandRecord, Fault, SiteRecord, SubscriberRecord, WorkerRecord};
use crate::{Names, Outcome, commands_path, journal, journal_path, site_path, storm};

#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Runs by their ids.
    pub(crate) logs: BTreeMap<String, Log>,
    /// Sessions by the ids of their streams.
    pub(crate) sessions: BTreeMap<String, SessionLog>,
    /// Journals by the names of clients.
    pub(crate) clients: BTreeMap<String, Vec<ClientRecord>>,
    /// Journals by the names of subscriptions.
    pub(crate) subscribers: BTreeMap<String, Vec<SubscriberRecord>>,
    /// Those of all workers together: a task is repeated by another one.
    pub(crate) workers: Vec<WorkerRecord>,
    pub(crate) commands: Vec<CommandRecord>,
    pub(crate) site: Vec<SiteRecord>,
    pub(crate) faults: Vec<Fault>,
    /// How long a run is kept after its end, where old ones are removed during the test.
    pub(crate) kept_for: Option<Duration>,
    /// Runs that were removed, whose logs were read before that, and when each was missed first. Unix microseconds.
    pub(crate) removed: BTreeMap<String, u64>,
    /// Runs whose logs are not what they were at their end.
    pub(crate) changed: Vec<String>,
}

impl Facts {
    /// Reads the journals in `folder` and asks the daemon.
    pub(crate) async fn collect(
        client: &Client,
        folder: &Path,
        names: &Names,
        kept_for: Option<Duration>,
        kept: Kept,
    ) -> Outcome<Self> {
        let mut facts = Self {
            logs: logs::read(client).await?,
            sessions: logs::read_sessions(client).await?,
            commands: journal::read(&commands_path(folder))?,
            site: journal::read(&site_path(folder))?,
            faults: journal::read(&storm::faults_path(folder))?,
            kept_for,
            ..Self::default()
        };
        facts.add_kept(kept, journal::now_us());
        for id in &names.clients {
            facts.clients.insert(id.clone(), journal::read(&journal_path(folder, "client", id))?);
        }
        for id in &names.subscribers {
            facts.subscribers.insert(id.clone(), journal::read(&journal_path(folder, "subscriber", id))?);
        }
        for id in &names.workers {
            facts.workers.extend(journal::read::<WorkerRecord>(&journal_path(folder, "worker", id))?);
        }
        Ok(facts)
    }

    /// What retention has removed was there, and what is there still has not changed.
    pub(super) fn add_kept(&mut self, kept: Kept, now_us: u64) {
        for (run, log) in kept.logs {
            match self.logs.get(&run) {
                Some(still) if still.events == log.events => {}
                Some(_) => self.changed.push(run),
                None => {
                    let gone_at = kept.gone.get(&run).copied().unwrap_or(now_us);
                    self.removed.insert(run.clone(), gone_at);
                    self.logs.insert(run, log);
                }
            }
        }
    }
}
