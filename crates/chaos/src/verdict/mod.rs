//! The verdict: a pure function of the facts, which are journals and what the public API says, and nothing else.

pub(crate) mod acts;
mod clients;
pub(crate) mod commands;
mod facts;
mod kills;
mod logs;
pub(crate) mod modes;
pub(crate) mod phases;
mod report;
mod runs;
pub(crate) mod sessions;
mod stalls;
mod streams;
mod sweeps;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::path::Path;

use capataz_client::{Client, v1};

use crate::archive::Kept;
use crate::records::{ClientRecord, Fault};
use crate::workloads::Kind;
use crate::{Names, Outcome, journal, journal_path, storm};
pub(crate) use facts::Facts;
pub(crate) use logs::Log;
use work::Repetition;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    runs: u64,
    finished: u64,
    /// Starts that had an answer.
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_finished: u64,
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
    /// Kills of the daemon with shims of it in the same moment.
    kills_with_shims: u64,
    killed_shims: u64,
    killed_browsers: u64,
    /// How often the daemon stood still, its clock was set, and its disk failed.
    pub(crate) stops: u64,
    clock_steps: u64,
    disk_failures: u64,
    /// Operations of the disk that have failed.
    failed_operations: u64,
    pub(crate) peak_memory_kib: u64,
    /// Runs that retention has removed.
    pub(crate) removed: u64,
    /// Ends of children that their parents have heard.
    children: u64,
    /// Calls of the tool that needs approval: approved one by one, approved with the plan that they stand in, and not approved.
    approved: u64,
    approved_with_plan: u64,
    not_approved: u64,
    /// Ways back to checkpoints of executions.
    gone_back: u64,
    /// Tasks that were taken back, and runs that went on where others had ended.
    taken_back: u64,
    continued: u64,
    forked: u64,
    sessions: u64,
    /// Asks of sessions that have ended.
    turns: u64,
    /// Transitions in sessions: automatic ones, and those that users have accepted.
    transitions: u64,
    accepted_transitions: u64,
    kinds: BTreeMap<Kind, Tally>,
    /// Actions that the site saw, and of which nobody else knew what became.
    unknown_acts: u64,
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

/// What became of the runs of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Starts that had an answer.
    accepted: u64,
    finished: u64,
    succeeded: u64,
    /// Questions about tasks of unknown outcome.
    questions: u64,
    /// Runs that were tasks of these, and whose ends they have heard.
    children: u64,
    /// At the other end: by workers, by commands, by the site.
    executions: u64,
    /// Executions that the log does not explain.
    unexplained: u64,
}

/// How much must have happened for the verdict to mean anything.
#[derive(Clone, Debug)]
pub(crate) struct Demands {
    pub(crate) runs: u64,
    pub(crate) kills: u64,
    pub(crate) kills_in_flight: u64,
    pub(crate) kinds: Vec<Kind>,
    /// Runs that retention removes.
    pub(crate) removed: u64,
}

impl Verdict {
    fn tally(&mut self, kind: Option<Kind>) -> Option<&mut Tally> {
        Some(self.kinds.entry(kind?).or_default())
    }

    fn children_of_modes(&self) -> u64 {
        self.kinds.get(&Kind::Modes).map_or(0, |tally| tally.children)
    }

    /// What executions have come to, with how often they did.
    pub(crate) fn occasions(&self) -> [(&'static str, u64); 4] {
        [
            ("children of modes", self.children_of_modes()),
            ("calls approved", self.approved),
            ("calls not approved", self.not_approved),
            ("executions gone back", self.gone_back),
        ]
    }

    /// An execution that nothing in the log explains.
    fn is_unexplained(&mut self, kind: Option<Kind>, text: String) {
        if let Some(tally) = self.tally(kind) {
            tally.unexplained += 1;
        }
        self.unexplained.push(text);
    }
}

/// What the facts say. It reads nothing and asks nobody.
pub(crate) fn judge(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::default();
    runs::judge(&facts.logs, &mut verdict);
    for (id, journal) in &facts.clients {
        clients::judge(id, journal, &facts.logs, &mut verdict);
    }
    for (id, journal) in &facts.subscribers {
        streams::judge(id, journal, &facts.logs, &facts.sessions, &mut verdict);
    }
    work::judge(&facts.workers, &facts.logs, &mut verdict);
    for kind in Kind::ALL {
        kind.workload().judge(facts, &mut verdict);
    }
    let journals: Vec<&[ClientRecord]> = facts.clients.values().map(Vec::as_slice).collect();
    kills::judge(&facts.faults, &journals, &mut verdict);
    sweeps::judge(facts, &mut verdict);
    stalls::judge(facts, &mut verdict);
    verdict
}

/// Kills of the daemon so far that a start or command did not survive.
pub(crate) fn kills_in_flight(folder: &Path, clients: &[&str]) -> Outcome<u64> {
    let mut verdict = Verdict::default();
    let journals: Outcome<Vec<Vec<ClientRecord>>> =
        clients.iter().map(|id| journal::read(&journal_path(folder, "client", id))).collect();
    let journals = journals?;
    let journals: Vec<&[ClientRecord]> = journals.iter().map(Vec::as_slice).collect();
    let faults: Vec<Fault> = journal::read(&storm::faults_path(folder))?;
    kills::judge(&faults, &journals, &mut verdict);
    Ok(verdict.kills_in_flight)
}

/// Events that each subscription has to deliver in all.
pub(crate) async fn expected_events(
    client: &Client,
    names: &Names,
    kept: &Kept,
) -> Outcome<BTreeMap<String, u64>> {
    let (mut logs, sessions) = (logs::read(client).await?, logs::read_sessions(client).await?);
    for (run, log) in &kept.logs {
        logs.entry(run.clone()).or_insert_with(|| log.clone());
    }
    let mut expected = BTreeMap::new();
    for name in &names.subscribers {
        let streams = streams::wanted(name, &logs, &sessions);
        expected.insert(name.clone(), streams.values().map(|stream| stream.last() - stream.inherited).sum());
    }
    Ok(expected)
}

/// The bytes of an output.
pub(crate) fn inline(settled: &v1::TaskSettled) -> &[u8] {
    match settled.output.as_ref().and_then(|output| output.data.as_ref()) {
        Some(v1::payload::Data::Inline(inline)) => inline.as_ref(),
        _ => b"",
    }
}
