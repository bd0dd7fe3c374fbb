//! What subscribers were given, held against the logs: every event once, in order, none left out.

use std::collections::BTreeMap;

use capataz_client::v1;

use super::Verdict;
use super::logs::{Log, SessionLog};
use crate::records::SubscriberRecord;
use crate::subscriber::hash;

/// What a subscription has to deliver of a stream.
pub(super) struct Stream<'a> {
    events: &'a [v1::Event],
    /// As many of them are another run's, and are delivered as that one's alone.
    pub(super) inherited: u64,
}

impl Stream<'_> {
    pub(super) fn last(&self) -> u64 {
        self.events.len() as u64
    }
}

/// The streams that a subscription has to deliver, by their ids: runs and sessions. `name` is that of a client or of a
/// session, which alone was subscribed to, or that of the subscription to everything.
pub(super) fn wanted<'a>(
    name: &str,
    logs: &'a BTreeMap<String, Log>,
    sessions: &'a BTreeMap<String, SessionLog>,
) -> BTreeMap<&'a str, Stream<'a>> {
    let everything = name == crate::EVERYTHING;
    let runs =
        logs.iter().filter(|(_, log)| everything || log.client() == name || log.session() == Some(name));
    let sessions = sessions.iter().filter(|(_, session)| everything || session.view.session == name);
    let runs =
        runs.map(|(id, log)| (id.as_str(), Stream { events: &log.events, inherited: log.inherited() }));
    let sessions = sessions.map(|(id, log)| (id.as_str(), Stream { events: &log.events, inherited: 0 }));
    runs.chain(sessions).collect()
}

pub(super) fn judge(
    name: &str,
    journal: &[SubscriberRecord],
    logs: &BTreeMap<String, Log>,
    sessions: &BTreeMap<String, SessionLog>,
    verdict: &mut Verdict,
) {
    verdict.subscriptions += 1;
    let wanted = wanted(name, logs, sessions);
    let mut delivered: BTreeMap<&str, u64> = BTreeMap::new();
    for record in journal {
        let SubscriberRecord::Event { run, seq, hash: given, .. } = record else {
            verdict.dropped_streams += 1;
            continue;
        };
        verdict.delivered += 1;
        let before_first = wanted.get(run.as_str()).map_or(0, |stream| stream.inherited);
        let newest = delivered.entry(run).or_insert(before_first);
        let place = || format!("subscription {name}, stream {run}");
        if *seq <= *newest {
            verdict.repeats.push(format!("{}: event {seq} again, after {newest}", place()));
            continue;
        }
        if *seq != *newest + 1 {
            verdict.gaps.push(format!("{}: event {seq} follows {newest}", place()));
        }
        *newest = *seq;
        let index = usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(stream) = wanted.get(run.as_str()) else {
            verdict.wrong.push(format!("{}: it is not this subscription's", place()));
            continue;
        };
        match stream.events.get(index) {
            Some(event) if hash(event) == *given => {}
            Some(_) => verdict.wrong.push(format!("{}: event {seq} is not the stored one", place())),
            None => verdict.wrong.push(format!("{}: event {seq} is not in the log", place())),
        }
    }
    for (id, stream) in wanted {
        let (given, last) = (delivered.get(id).copied().unwrap_or(stream.inherited), stream.last());
        if given < last {
            verdict.gaps.push(format!("subscription {name}, stream {id}: {given} of {last} events"));
        }
    }
}
