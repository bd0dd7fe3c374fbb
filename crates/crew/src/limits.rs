//! Agents that a rate limit holds: none of their tasks is given out before it is over (seed 000, contract 4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::Mono;

/// The longest time for which one word of a worker holds an agent. Milliseconds. Others may serve the agent as well, and tasks
/// have half an hour by default.
const LONGEST_MS: i64 = 10 * 60 * 1_000;

/// Agents that are held, until when.
#[derive(Default)]
pub(crate) struct Limits {
    until: BTreeMap<Arc<str>, Mono>,
    ends: BTreeSet<(Mono, Arc<str>)>,
}

impl Limits {
    /// Holds the agent for so long from now on, or as long as it is held anyway.
    pub(crate) fn hold(&mut self, agent: &Arc<str>, for_ms: i64, now: Mono) {
        let until = now.plus(for_ms.min(LONGEST_MS));
        if until <= now || self.until(agent, now).is_some_and(|held| held >= until) {
            return;
        }
        if let Some(before) = self.until.insert(Arc::clone(agent), until) {
            self.ends.remove(&(before, Arc::clone(agent)));
        }
        self.ends.insert((until, Arc::clone(agent)));
    }

    /// Until when the agent is held; `None` where it is not.
    pub(crate) fn until(&self, agent: &str, now: Mono) -> Option<Mono> {
        self.until.get(agent).copied().filter(|until| *until > now)
    }

    /// When the next agent is held no more.
    pub(crate) fn next_end(&self) -> Option<Mono> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// An agent that is held no more; it is forgotten.
    pub(crate) fn pop_over(&mut self, now: Mono) -> Option<Arc<str>> {
        self.next_end().filter(|end| *end <= now)?;
        let (_, agent) = self.ends.pop_first()?;
        self.until.remove(&agent);
        Some(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Limits, Mono};

    #[test]
    fn the_longest_of_several_words_counts_and_nothing_is_held_for_more_than_ten_minutes() {
        let (one, other): (Arc<str>, Arc<str>) = (Arc::from("one"), Arc::from("other"));
        let mut limits = Limits::default();
        limits.hold(&one, 5_000, Mono(0));
        limits.hold(&one, 1_000, Mono(1_000));
        assert_eq!(limits.until("one", Mono(4_999)), Some(Mono(5_000)));
        limits.hold(&one, 6_000, Mono(1_000));
        limits.hold(&other, i64::MAX, Mono(0));
        limits.hold(&other, -1, Mono(0));
        assert_eq!(limits.until("other", Mono(0)), Some(Mono(600_000)));
        assert_eq!(limits.next_end(), Some(Mono(7_000)));
        assert_eq!(limits.pop_over(Mono(6_999)), None);
        assert_eq!(limits.pop_over(Mono(7_000)).as_deref(), Some("one"));
        assert_eq!(limits.pop_over(Mono(600_000)).as_deref(), Some("other"));
        assert!(limits.until.is_empty() && limits.ends.is_empty(), "it takes no memory either");
    }
}
