//! What clients were told, held against the logs.

use std::collections::{BTreeMap, BTreeSet};

use capataz_client::v1;

use super::Verdict;
use super::logs::Log;
use super::runs::request_of;
use crate::records::{Call, ClientRecord};

/// `name` is the client's, whose journal it is.
pub(super) fn judge(
    name: &str,
    journal: &[ClientRecord],
    logs: &BTreeMap<String, Log>,
    verdict: &mut Verdict,
) {
    let mut runs_of_key: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut starts = BTreeSet::new();
    // Keys of runs that go on from others: the daemon may refuse one.
    let mut continued = BTreeSet::new();
    let mut found_again = BTreeSet::new();
    for record in journal {
        match record {
            ClientRecord::Sent { call, key, .. } => match call {
                Call::Start | Call::StartBatch | Call::Execute => _ = starts.insert(key.as_str()),
                Call::Continue | Call::Fork => _ = continued.insert(key.as_str()),
                _ => {}
            },
            ClientRecord::Broken { .. } => verdict.broken_calls += 1,
            ClientRecord::Started { key, run, created, .. } => {
                let runs = runs_of_key.entry(key).or_default();
                if runs.is_empty() && !created {
                    found_again.insert(key);
                }
                runs.insert(run);
            }
            ClientRecord::Done { key, run, seq, .. } => done(key, run, *seq, logs, verdict),
            // Of a session: it is judged there.
            ClientRecord::Accepted { .. } => verdict.commands += 1,
            ClientRecord::Refused { key, run, code, .. } => {
                refused(key, run.as_deref(), code, logs, verdict);
            }
            ClientRecord::Ended { run, outcome, .. } => {
                verdict.told_ends += 1;
                let shown = logs.get(run).map(|log| log.view.outcome);
                if shown != Some(Some(*outcome)) {
                    verdict.lost.push(format!("run {run}: its end was told as {outcome}, and is {shown:?}"));
                }
            }
        }
    }
    verdict.found_again += found_again.len() as u64;
    for (run, log) in logs.iter().filter(|(_, log)| log.client() == name) {
        if !starts.contains(log.key()) && !continued.contains(log.key()) {
            verdict.wrong.push(format!("run {run} has the key {}, which nobody sent", log.key()));
        }
    }
    for key in starts {
        if !runs_of_key.contains_key(key) {
            verdict.wrong.push(format!("the start {key} was never answered"));
        }
    }
    for (key, runs) in runs_of_key {
        verdict.acknowledged += 1;
        if runs.len() > 1 {
            let runs: Vec<&str> = runs.into_iter().collect();
            verdict.doubled.push(format!("key {key} was answered with the runs {}", runs.join(", ")));
            continue;
        }
        for run in runs {
            match logs.get(run) {
                None => verdict.lost.push(format!("run {run} of key {key} is not there")),
                Some(log) if log.key() != key => {
                    verdict.wrong.push(format!("run {run} is not that of key {key}"))
                }
                Some(log) => acknowledged(key, run, log, verdict),
            }
        }
    }
}

/// A run that was acknowledged finishes.
fn acknowledged(key: &str, run: &str, log: &Log, verdict: &mut Verdict) {
    if let Some(tally) = verdict.tally(log.kind()) {
        tally.accepted += 1;
        tally.finished += u64::from(log.is_finished());
        tally.succeeded += u64::from(log.view.outcome == Some(v1::RunOutcome::Succeeded as i32));
    }
    if log.is_finished() {
        verdict.acknowledged_finished += 1;
    } else {
        let status = log.view.status();
        verdict.lost.push(format!("run {run} of key {key} does not finish: {status:?}"));
    }
}

/// A command that was acknowledged has the event that its answer named.
fn done(request: &str, run: &str, seq: u64, logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    verdict.commands += 1;
    let events = logs.get(run).map(|log| log.events.as_slice()).unwrap_or_default();
    let event = events.iter().find(|event| event.seq == seq);
    let caused_by = event.and_then(|event| event.body.as_ref()).and_then(request_of);
    if caused_by != Some(request) {
        verdict
            .lost
            .push(format!("run {run}: event {seq} was told to be that of request {request}, and is not"));
    }
}

/// A command that was refused has left nothing behind.
fn refused(
    request: &str,
    run: Option<&str>,
    code: &str,
    logs: &BTreeMap<String, Log>,
    verdict: &mut Verdict,
) {
    let Some(log) = run.and_then(|run| logs.get(run)) else {
        return verdict.wrong.push(format!("{request} was refused: {code}"));
    };
    verdict.refused_commands += 1;
    let bodies = log.events.iter().filter_map(|event| event.body.as_ref());
    if bodies.filter_map(request_of).any(|id| id == request) {
        verdict.wrong.push(format!("request {request} was refused ({code}) and carried out"));
    }
}
