//! The verdict: journals and the public API, and nothing else.

mod clients;
mod commands;
mod kills;
mod logs;
mod report;
mod runs;
mod streams;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::path::Path;

use capataz_client::Client;

use crate::records::{ClientRecord, CommandRecord, Fault, SubscriberRecord, WorkerRecord};
use crate::{Names, Outcome, journal, journal_path, storm};
use work::Repetition;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    runs: u64,
    finished: u64,
    /// Starts that had an answer.
    acknowledged: u64,
    acknowledged_finished: u64,
    /// Starts whose run was there already when they were repeated: their first answer was lost on its way.
    found_again: u64,
    commands: u64,
    refused_commands: u64,
    told_ends: u64,
    accepted_results: u64,
    broken_calls: u64,
    leases: u64,
    lost_leases: BTreeMap<String, u64>,
    questions: u64,
    executions: u64,
    commands_run: u64,
    stale_refused: u64,
    told_refusals: u64,
    subscriptions: u64,
    delivered: u64,
    dropped_streams: u64,
    kills: u64,
    kills_in_flight: u64,
    killed_workers: u64,
    killed_clients: u64,
    killed_subscribers: u64,
    silenced_workers: u64,
    cut_connections: u64,
    repetitions: Vec<Repetition>,
    /// Executions without a lost lease.
    unexplained: Vec<String>,
    lost: Vec<String>,
    doubled: Vec<String>,
    gaps: Vec<String>,
    repeats: Vec<String>,
    /// Whatever else must not be.
    wrong: Vec<String>,
}

/// How much must have happened for the verdict to mean anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demands {
    pub(crate) plans: u64,
    pub(crate) kills: u64,
    pub(crate) kills_in_flight: u64,
}

/// Reads the journals in `folder` and asks the daemon.
pub(crate) async fn judge(client: &Client, folder: &Path, names: &Names) -> Outcome<Verdict> {
    let mut verdict = Verdict::default();
    let logs = logs::read(client).await?;
    runs::judge(&logs, &mut verdict);
    let mut journals = Vec::new();
    for id in &names.clients {
        let journal: Vec<ClientRecord> = journal::read(&journal_path(folder, "client", id))?;
        clients::judge(id, &journal, &logs, &mut verdict);
        journals.push(journal);
    }
    for id in &names.subscribers {
        let journal: Vec<SubscriberRecord> = journal::read(&journal_path(folder, "subscriber", id))?;
        streams::judge(id, &journal, &logs, &mut verdict);
    }
    let mut executions: Vec<WorkerRecord> = Vec::new();
    for id in &names.workers {
        executions.extend(journal::read::<WorkerRecord>(&journal_path(folder, "worker", id))?);
    }
    work::judge(&executions, &logs, &mut verdict);
    let commands: Vec<CommandRecord> = journal::read(&super::commands_path(folder))?;
    commands::judge(&commands, &logs, &mut verdict);
    let faults: Vec<Fault> = journal::read(&storm::faults_path(folder))?;
    kills::judge(&faults, &journals, &mut verdict);
    Ok(verdict)
}

/// Kills of the daemon so far that a start or command did not survive.
pub(crate) fn kills_in_flight(folder: &Path, clients: &[&str]) -> Outcome<u64> {
    let mut verdict = Verdict::default();
    let journals: Outcome<Vec<Vec<ClientRecord>>> =
        clients.iter().map(|id| journal::read(&journal_path(folder, "client", id))).collect();
    let faults: Vec<Fault> = journal::read(&storm::faults_path(folder))?;
    kills::judge(&faults, &journals?, &mut verdict);
    Ok(verdict.kills_in_flight)
}

/// Events that each subscription has to deliver in all.
pub(crate) async fn expected_events(client: &Client, names: &Names) -> Outcome<BTreeMap<String, u64>> {
    let logs = logs::read(client).await?;
    let mut expected = BTreeMap::new();
    for name in &names.subscribers {
        let of_name = logs.values().filter(|log| name == super::EVERYTHING || log.client() == name);
        expected.insert(name.clone(), of_name.map(|log| log.events.len() as u64).sum());
    }
    Ok(expected)
}
