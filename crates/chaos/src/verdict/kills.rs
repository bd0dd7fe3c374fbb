//! What the kills of the daemon hit.

use super::Verdict;
use crate::records::{Call, ClientRecord, Fault};

pub(super) fn judge(faults: &[Fault], journals: &[&[ClientRecord]], verdict: &mut Verdict) {
    let unanswered: Vec<(u64, u64)> = journals.iter().flat_map(|journal| unanswered(journal)).collect();
    for fault in faults {
        match fault {
            Fault::DaemonKilled { at, shims } => {
                verdict.kills += 1;
                verdict.kills_with_shims += u64::from(*shims > 0);
                // Sent before the signal, and broken after it.
                let hits = unanswered.iter().any(|(sent, broken)| sent <= at && at <= broken);
                verdict.kills_in_flight += u64::from(hits);
            }
            Fault::WorkerKilled { .. } => verdict.killed_workers += 1,
            Fault::ClientKilled { .. } => verdict.killed_clients += 1,
            Fault::SubscriberKilled { .. } => verdict.killed_subscribers += 1,
            Fault::WorkerStopped { .. } => verdict.silenced_workers += 1,
            Fault::ConnectionsCut { count, .. } => verdict.cut_connections += count,
            Fault::ShimKilled { .. } => verdict.killed_shims += 1,
            Fault::BrowserKilled { .. } => verdict.killed_browsers += 1,
            Fault::DaemonStopped { .. } => verdict.stops += 1,
            Fault::ClockSet { .. } => verdict.clock_steps += 1,
            Fault::DiskFailed { operations, .. } => {
                verdict.disk_failures += u64::from(*operations > 0);
                verdict.failed_operations += operations;
            }
            Fault::PeakMemory { kib, .. } => verdict.peak_memory_kib = verdict.peak_memory_kib.max(*kib),
            Fault::DaemonReady { .. } | Fault::DaemonContinued { .. } | Fault::WorkerContinued { .. } => {}
        }
    }
}

/// When calls were sent that never had an answer, and when they broke. Only starts and commands, which append.
fn unanswered(journal: &[ClientRecord]) -> Vec<(u64, u64)> {
    let mut open: Vec<(&str, u32, u64)> = Vec::new();
    let mut found = Vec::new();
    for record in journal {
        match record {
            ClientRecord::Sent { at, call, key, attempt, .. } if *call != Call::Execute => {
                open.push((key, *attempt, *at));
            }
            ClientRecord::Broken { at, key, attempt, .. } => {
                let place = open.iter().position(|(other, number, _)| other == key && number == attempt);
                if let Some(place) = place {
                    found.push((open.swap_remove(place).2, *at));
                }
            }
            ClientRecord::Started { key, .. }
            | ClientRecord::Done { key, .. }
            | ClientRecord::Accepted { key, .. }
            | ClientRecord::Refused { key, .. } => {
                open.retain(|(other, ..)| other != key);
            }
            _ => {}
        }
    }
    found
}
