//! How far a worker is trusted with work, by what became of what it was given: by its id, so that a worker that comes back
//! is the same worker.
//!
//! What it does not acknowledge costs it its slots: it gets one again after a pause, and each assignment that goes well
//! doubles what it gets. After [`ROUNDS`] of them in a row it is sent away. What it hands back goes to others first: it
//! gets nothing of that agent for a while, and longer each time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Mono;

/// Times in a row that a worker may acknowledge nothing of what it is given before it is sent away.
const ROUNDS: u32 = 3;
/// How long a worker that does not acknowledge gets nothing, at first; twice as long each time. Milliseconds.
const PROBE_MS: i64 = 5_000;
/// How long a worker that was sent away may not come back. Milliseconds.
const AWAY_MS: i64 = 30_000;
/// How long a worker that hands work back gets none of that agent, at first; twice as long each time. Milliseconds.
const HANDED_BACK_MS: i64 = 100;
/// The longest of these times. Milliseconds.
const HANDED_BACK_MOST_MS: i64 = 30_000;
/// Workers that are remembered for what they did not do.
const REMEMBERED: usize = 4_096;

/// Twice as long each time: `turn` counts from 1.
fn growing(first_ms: i64, turn: u32, most_ms: i64) -> i64 {
    let factor = 1_i64.checked_shl(turn.saturating_sub(1)).filter(|factor| *factor > 0).unwrap_or(i64::MAX);
    first_ms.saturating_mul(factor).min(most_ms)
}

/// What follows for a worker that did not acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It gets nothing until then.
    Probe(Mono),
    SendAway,
}

/// One worker that did not do what it was given.
#[derive(Debug, Default)]
struct Standing {
    /// Times in a row that it acknowledged nothing.
    strikes: u32,
    /// When the last of them was.
    struck_at: Mono,
    /// The slots that it gets; `None`: all that it has.
    credit: Option<usize>,
    /// It gets nothing before.
    probed_at: Mono,
    /// It may not say hello before.
    away_until: Option<Mono>,
    /// What it has handed back last, by agent: how often in a row, and until when it gets none.
    handed_back: BTreeMap<Arc<str>, (u32, Mono)>,
    /// When something of this changed last.
    touched_at: Mono,
}

impl Standing {
    fn is_clean(&self) -> bool {
        self.strikes == 0 && self.credit.is_none() && self.handed_back.is_empty()
    }
}

/// All workers that did not do what they were given.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    workers: BTreeMap<Arc<str>, Standing>,
}

impl Standings {
    /// An assignment that was offered then was not acknowledged. `None` where that is not new: what was offered before the
    /// worker was found out counts once.
    pub(crate) fn unacknowledged(
        &mut self,
        worker: &Arc<str>,
        offered_at: Mono,
        now: Mono,
    ) -> Option<Verdict> {
        let standing = self.of(worker, now);
        if standing.strikes > 0 && offered_at <= standing.struck_at {
            return None;
        }
        standing.strikes = standing.strikes.saturating_add(1);
        standing.struck_at = now;
        standing.credit = Some(1);
        if standing.strikes >= ROUNDS {
            // The next one is enough, should it come back.
            standing.strikes = ROUNDS.saturating_sub(1);
            standing.away_until = Some(now.plus(AWAY_MS));
            standing.probed_at = now.plus(AWAY_MS);
            return Some(Verdict::SendAway);
        }
        standing.probed_at = now.plus(growing(PROBE_MS, standing.strikes, i64::MAX));
        Some(Verdict::Probe(standing.probed_at))
    }

    /// The worker has handed back what it was given. Until when it gets nothing of the agent.
    pub(crate) fn handed_back(&mut self, worker: &Arc<str>, agent: &Arc<str>, now: Mono) -> Mono {
        let standing = self.of(worker, now);
        let (times, until) = standing.handed_back.entry(Arc::clone(agent)).or_default();
        // Several at once are one.
        if *until <= now {
            *times = times.saturating_add(1);
            *until = now.plus(growing(HANDED_BACK_MS, *times, HANDED_BACK_MOST_MS));
        }
        *until
    }

    /// The worker has done what it was given, one of so many slots.
    pub(crate) fn served(&mut self, worker: &str, agent: &str, slots: usize) {
        let Some(standing) = self.workers.get_mut(worker) else { return };
        standing.strikes = 0;
        standing.away_until = None;
        standing.credit =
            standing.credit.map(|credit| credit.saturating_mul(2)).filter(|credit| *credit < slots);
        standing.handed_back.remove(agent);
        if standing.is_clean() {
            self.workers.remove(worker);
        }
    }

    /// A worker says hello and serves these agents. Until when it may not.
    pub(crate) fn comes<'a>(
        &mut self,
        worker: &str,
        agents: impl Iterator<Item = &'a str>,
        now: Mono,
    ) -> Option<Mono> {
        let standing = self.workers.get_mut(worker)?;
        if let Some(until) = standing.away_until.filter(|until| *until > now) {
            return Some(until);
        }
        let agents: Vec<&str> = agents.collect();
        standing.handed_back.retain(|agent, _| agents.contains(&&**agent));
        None
    }

    /// Until when the worker may not come back.
    pub(crate) fn away_until(&self, worker: &str) -> Option<Mono> {
        self.workers.get(worker)?.away_until
    }

    /// The slots that the worker gets now, of those that it has.
    pub(crate) fn slots(&self, worker: &str, slots: usize, now: Mono) -> usize {
        match self.workers.get(worker) {
            Some(standing) if standing.probed_at > now => 0,
            Some(standing) => standing.credit.map_or(slots, |credit| credit.min(slots)),
            None => slots,
        }
    }

    /// Whether the worker gets work of this agent now.
    pub(crate) fn gets(&self, worker: &str, agent: &str, now: Mono) -> bool {
        let handed_back = self.workers.get(worker).and_then(|standing| standing.handed_back.get(agent));
        handed_back.is_none_or(|(_, until)| *until <= now)
    }

    /// Whether the worker has to show that it acknowledges.
    pub(crate) fn is_probed(&self, worker: &str) -> bool {
        self.workers.get(worker).is_some_and(|standing| standing.credit.is_some())
    }

    /// When the worker gets something again that it does not get now.
    pub(crate) fn next_change(&self, worker: &str, now: Mono) -> Option<Mono> {
        let standing = self.workers.get(worker)?;
        let pauses = standing.handed_back.values().map(|(_, until)| *until);
        pauses.chain([standing.probed_at]).filter(|at| *at > now).min()
    }

    fn of(&mut self, worker: &Arc<str>, now: Mono) -> &mut Standing {
        if !self.workers.contains_key(worker) && self.workers.len() >= REMEMBERED {
            let oldest = self.workers.iter().min_by_key(|(_, standing)| standing.touched_at);
            if let Some(oldest) = oldest.map(|(worker, _)| Arc::clone(worker)) {
                self.workers.remove(&oldest);
            }
        }
        let standing = self.workers.entry(Arc::clone(worker)).or_default();
        standing.touched_at = now;
        standing
    }
}

#[cfg(test)]
mod tests {
    use super::{AWAY_MS, Arc, Mono, REMEMBERED, Standings, Verdict};

    const SLOTS: usize = 20;

    fn worker() -> Arc<str> {
        Arc::from("worker")
    }

    #[test]
    fn what_is_not_acknowledged_costs_the_slots_and_then_the_connection() {
        let mut standings = Standings::default();
        let worker = worker();
        assert_eq!(standings.slots(&worker, SLOTS, Mono(0)), SLOTS);
        let first = standings.unacknowledged(&worker, Mono(0), Mono(10_000));
        assert_eq!(first, Some(Verdict::Probe(Mono(15_000))));
        // All that was offered before is the same failure.
        assert_eq!(standings.unacknowledged(&worker, Mono(4_000), Mono(15_000)), None);
        assert_eq!(standings.slots(&worker, SLOTS, Mono(14_999)), 0);
        assert_eq!(standings.slots(&worker, SLOTS, Mono(15_000)), 1);
        let second = standings.unacknowledged(&worker, Mono(15_000), Mono(25_000));
        assert_eq!(second, Some(Verdict::Probe(Mono(35_000))));
        let third = standings.unacknowledged(&worker, Mono(35_000), Mono(45_000));
        assert_eq!(third, Some(Verdict::SendAway));
        let agents = || ["agent"].into_iter();
        let back = Mono(45_000 + AWAY_MS);
        assert_eq!(standings.comes(&worker, agents(), Mono(45_001)), Some(back));
        assert_eq!(standings.comes(&worker, agents(), back), None);
        assert_eq!(standings.slots(&worker, SLOTS, back), 1, "it has to show first that it acknowledges");
        assert_eq!(standings.unacknowledged(&worker, back, back.plus(10_000)), Some(Verdict::SendAway));
    }

    #[test]
    fn what_goes_well_doubles_what_a_worker_gets_until_it_has_all_of_its_slots() {
        let mut standings = Standings::default();
        let worker = worker();
        standings.unacknowledged(&worker, Mono(0), Mono(10_000));
        let after = Mono(60_000);
        let mut gets = Vec::new();
        for _ in 0..5 {
            gets.push(standings.slots(&worker, SLOTS, after));
            standings.served(&worker, "agent", SLOTS);
        }
        assert_eq!(gets, [1, 2, 4, 8, 16]);
        assert_eq!(standings.slots(&worker, SLOTS, after), SLOTS);
        assert!(standings.workers.is_empty(), "it takes no memory either");
    }

    #[test]
    fn what_is_handed_back_goes_elsewhere_for_longer_and_longer() {
        let mut standings = Standings::default();
        let (worker, agent): (Arc<str>, Arc<str>) = (worker(), Arc::from("agent"));
        let mut now = Mono(0);
        let mut pauses = Vec::new();
        for _ in 0..11 {
            let until = standings.handed_back(&worker, &agent, now);
            assert!(!standings.gets(&worker, &agent, now) && standings.gets(&worker, "another", now));
            assert_eq!(standings.next_change(&worker, now), Some(until));
            pauses.push(until.since(now));
            now = until;
            assert!(standings.gets(&worker, &agent, now));
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        standings.served(&worker, &agent, SLOTS);
        assert_eq!(standings.handed_back(&worker, &agent, now), now.plus(100));
        // A slot that it hands back at the same time says nothing more.
        assert_eq!(standings.handed_back(&worker, &agent, now), now.plus(100));
    }

    #[test]
    fn a_worker_that_no_longer_serves_an_agent_takes_no_memory_for_it() {
        let mut standings = Standings::default();
        let worker = worker();
        standings.handed_back(&worker, &Arc::from("agent"), Mono(0));
        assert_eq!(standings.comes(&worker, ["another"].into_iter(), Mono(1)), None);
        assert_eq!(standings.next_change(&worker, Mono(1)), None);
    }

    #[test]
    fn only_so_many_workers_are_remembered_for_what_they_did_not_do() {
        let mut standings = Standings::default();
        for number in 0..REMEMBERED + 10 {
            let worker: Arc<str> = Arc::from(format!("worker {number}"));
            standings.unacknowledged(&worker, Mono(0), Mono(i64::try_from(number).unwrap()));
        }
        assert_eq!(standings.workers.len(), REMEMBERED);
        assert!(!standings.is_probed("worker 9") && standings.is_probed("worker 10"));
    }
}
