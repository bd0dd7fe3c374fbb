//! What retention has removed: only runs that had ended, none before its time, and none while nothing is swept.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Facts, Verdict};
use crate::records::ClientRecord;

pub(super) fn judge(facts: &Facts, verdict: &mut Verdict) {
    let mut sent: BTreeMap<&str, u64> = BTreeMap::new();
    for record in facts.clients.values().flatten() {
        if let ClientRecord::Sent { at, key, .. } = record {
            sent.entry(key).or_insert(*at);
        }
    }
    for (run, gone_at) in &facts.removed {
        verdict.removed += 1;
        let Some(kept_for) = facts.kept_for else {
            verdict.lost.push(format!("run {run} was removed, and nothing is swept"));
            continue;
        };
        // A run cannot have ended before its start was sent, whatever the daemon takes for the time.
        let key = facts.logs.get(run).map(|log| log.key()).unwrap_or_default();
        let age = sent.get(key).map(|sent| Duration::from_micros(gone_at.saturating_sub(*sent)));
        if let Some(age) = age.filter(|age| *age < kept_for) {
            let text = format!(
                "run {run} of key {key} was removed {} ms after its start, and is to be kept for {} ms",
                age.as_millis(),
                kept_for.as_millis()
            );
            verdict.lost.push(text);
        }
    }
    for run in &facts.changed {
        verdict.wrong.push(format!("run {run}: its log has changed after its end"));
    }
}
