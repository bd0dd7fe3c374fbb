//! What subscribers were given, held against the logs: every event once, in order, none left out.

use std::collections::BTreeMap;

use super::Verdict;
use super::logs::Log;
use crate::records::SubscriberRecord;
use crate::subscriber::hash;

/// `name` is a client's, whose runs alone were subscribed to, or that of the subscription to everything.
pub(super) fn judge(
    name: &str,
    journal: &[SubscriberRecord],
    logs: &BTreeMap<String, Log>,
    verdict: &mut Verdict,
) {
    verdict.subscriptions += 1;
    let mut delivered: BTreeMap<&str, u64> = BTreeMap::new();
    for record in journal {
        let SubscriberRecord::Event { run, seq, hash: given, .. } = record else {
            verdict.dropped_streams += 1;
            continue;
        };
        verdict.delivered += 1;
        let newest = delivered.entry(run).or_default();
        let place = || format!("subscription {name}, run {run}");
        if *seq <= *newest {
            verdict.repeats.push(format!("{}: event {seq} again, after {newest}", place()));
            continue;
        }
        if *seq != *newest + 1 {
            verdict.gaps.push(format!("{}: event {seq} follows {newest}", place()));
        }
        *newest = *seq;
        let index = usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX);
        match logs.get(run).and_then(|log| log.events.get(index)) {
            Some(event) if hash(event) == *given => {}
            Some(_) => verdict.wrong.push(format!("{}: event {seq} is not the stored one", place())),
            None => verdict.wrong.push(format!("{}: event {seq} is not in the log", place())),
        }
        if logs.get(run).is_some_and(|log| !is_wanted(name, log)) {
            verdict.wrong.push(format!("{}: is not this subscription's", place()));
        }
    }
    for (run, log) in logs.iter().filter(|(_, log)| is_wanted(name, log)) {
        let given = delivered.get(run.as_str()).copied().unwrap_or_default();
        let last = log.events.len() as u64;
        if given < last {
            verdict.gaps.push(format!("subscription {name}, run {run}: {given} of {last} events"));
        }
    }
}

fn is_wanted(name: &str, log: &Log) -> bool {
    name == crate::EVERYTHING || log.client() == name
}
