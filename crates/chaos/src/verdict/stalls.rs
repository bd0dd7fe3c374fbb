//! Silence: only a worker that was stopped can be silent. While the daemon itself stood still it has not listened, and its own
//! hosts are never silent.

use std::collections::{BTreeMap, BTreeSet};

use capataz_client::v1;
use capataz_contracts::v1::event::Body;

use super::{Facts, Verdict};
use crate::records::Fault;

pub(super) fn judge(facts: &Facts, verdict: &mut Verdict) {
    let stopped = facts.faults.iter().filter_map(|fault| match fault {
        Fault::WorkerStopped { worker, .. } => Some(worker.as_str()),
        _ => None,
    });
    let stopped: BTreeSet<&str> = stopped.collect();
    for (run, log) in &facts.logs {
        let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
        for body in log.bodies() {
            match body {
                Body::TaskLeased(leased) => _ = holders.insert(leased.lease, &leased.worker),
                Body::TaskLeaseLost(lost) if lost.reason() == v1::LeaseLossReason::Silent => {
                    let holder = holders.get(&lost.lease).copied().unwrap_or_default();
                    if !stopped.contains(holder) {
                        let lease = lost.lease;
                        let text = format!("run {run}: {holder} lost lease {lease} as silent, and never was");
                        verdict.wrong.push(text);
                    }
                }
                _ => {}
            }
        }
    }
}
