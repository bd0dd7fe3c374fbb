//! What the verdict is about: all journals, and all that the public API says. Collected first, judged afterwards, so that
//! the judging needs neither processes nor files.

use std::collections::BTreeMap;
use std::path::Path;

use capataz_client::Client;

use super::logs::{self, Log, SessionLog};
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
}

impl Facts {
    /// Reads the journals in `folder` and asks the daemon.
    pub(crate) async fn collect(client: &Client, folder: &Path, names: &Names) -> Outcome<Self> {
        let mut facts = Self {
            logs: logs::read(client).await?,
            sessions: logs::read_sessions(client).await?,
            commands: journal::read(&commands_path(folder))?,
            site: journal::read(&site_path(folder))?,
            faults: journal::read(&storm::faults_path(folder))?,
            ..Self::default()
        };
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
}
