//! Which runs wait for a slot of which agent, and whose turn it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_store::{RunId, ShardId};

/// A run that waits, at its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) shard: ShardId,
    pub(crate) run: RunId,
}

#[derive(Default)]
struct Demand {
    /// Tasks that wait, as the shard said last.
    tasks: u32,
    /// Slots that were offered to the run and are neither taken nor returned.
    offered: u32,
    /// Its place among the turns, while it has one.
    turn: Option<u64>,
}

impl Demand {
    fn is_hungry(&self) -> bool {
        self.tasks > self.offered
    }
}

/// One agent's queue. A run has a turn exactly while it wants more slots than it was offered, and is forgotten when it
/// wants none and was offered none.
#[derive(Default)]
struct Queue {
    turns: BTreeMap<u64, Place>,
    waiting: BTreeMap<Place, Demand>,
}

impl Queue {
    fn change(&mut self, place: Place, change: impl FnOnce(&mut Demand)) {
        let demand = self.waiting.entry(place).or_default();
        change(demand);
        match (demand.is_hungry(), demand.turn) {
            (true, None) => {
                let turn = self.turns.last_key_value().map_or(0, |(last, _)| last + 1);
                demand.turn = Some(turn);
                self.turns.insert(turn, place);
            }
            (false, Some(turn)) => {
                demand.turn = None;
                self.turns.remove(&turn);
            }
            (true, Some(_)) | (false, None) => {}
        }
        if demand.tasks == 0 && demand.offered == 0 {
            self.waiting.remove(&place);
        }
    }
}

/// The queues of all agents.
#[derive(Default)]
pub(crate) struct Queues {
    agents: BTreeMap<Arc<str>, Queue>,
}

impl Queues {
    /// So many tasks of the run wait.
    pub(crate) fn want(&mut self, agent: &Arc<str>, place: Place, tasks: u32) {
        self.queue(agent).change(place, |demand| demand.tasks = tasks);
    }

    /// The run whose turn it is; it has one slot more on offer.
    pub(crate) fn next(&mut self, agent: &str) -> Option<Place> {
        let queue = self.agents.get_mut(agent)?;
        let (_, place) = queue.turns.pop_first()?;
        queue.change(place, |demand| {
            demand.turn = None;
            demand.offered = demand.offered.saturating_add(1);
        });
        Some(place)
    }

    /// An offer to the run was taken: so many of its tasks still wait.
    pub(crate) fn taken(&mut self, agent: &Arc<str>, place: Place, tasks: u32) {
        self.queue(agent).change(place, |demand| {
            demand.offered = demand.offered.saturating_sub(1);
            demand.tasks = tasks;
        });
    }

    /// An offer to the run is void.
    pub(crate) fn withdrawn(&mut self, agent: &Arc<str>, place: Place) {
        self.queue(agent).change(place, |demand| demand.offered = demand.offered.saturating_sub(1));
    }

    /// Whether any run waits for a slot of the agent.
    pub(crate) fn is_wanted(&self, agent: &str) -> bool {
        self.agents.get(agent).is_some_and(|queue| !queue.turns.is_empty())
    }

    /// Tasks that wait for the agent.
    pub(crate) fn waiting(&self, agent: &str) -> u32 {
        let queue = self.agents.get(agent);
        queue
            .map_or(0, |queue| queue.waiting.values().fold(0, |sum, demand| sum.saturating_add(demand.tasks)))
    }

    /// Nothing of the shard waits any more.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        for queue in self.agents.values_mut() {
            queue.turns.retain(|_, place| place.shard != shard);
            queue.waiting.retain(|place, _| place.shard != shard);
        }
    }

    fn queue(&mut self, agent: &Arc<str>) -> &mut Queue {
        self.agents.entry(Arc::clone(agent)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Place, Queues, ShardId};

    fn place(shard: u32, run: u8) -> Place {
        let run = format!("00000000-0000-7000-8000-0000000000{run:02}").parse().unwrap();
        Place { shard: ShardId(shard), run }
    }

    #[test]
    fn runs_take_turns_whatever_shard_they_are_of() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let (many, one, other) = (place(0, 1), place(0, 2), place(1, 3));
        queues.want(&agent, many, 3);
        queues.want(&agent, one, 1);
        queues.want(&agent, other, 2);
        let turns: Vec<Place> = std::iter::from_fn(|| queues.next(&agent)).collect();
        assert_eq!(turns, [many, one, other, many, other, many]);
        assert!(!queues.is_wanted(&agent));
    }

    #[test]
    fn an_offer_in_flight_counts_as_served_until_it_is_answered() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let run = place(0, 1);
        queues.want(&agent, run, 1);
        assert_eq!(queues.next(&agent), Some(run));
        // Said before the shard knew of the offer.
        queues.want(&agent, run, 1);
        assert_eq!(queues.next(&agent), None);
        queues.withdrawn(&agent, run);
        assert_eq!(queues.next(&agent), Some(run));
        queues.taken(&agent, run, 0);
        assert_eq!((queues.next(&agent), queues.waiting(&agent)), (None, 0));
    }

    #[test]
    fn what_no_longer_waits_has_no_turn() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        queues.want(&agent, place(0, 1), 2);
        queues.want(&agent, place(0, 1), 0);
        queues.want(&agent, place(1, 2), 1);
        queues.forget(ShardId(1));
        assert_eq!(queues.next(&agent), None);
        let queue = queues.agents.get(&agent).unwrap();
        assert!(queue.turns.is_empty() && queue.waiting.is_empty(), "it takes no memory either");
    }
}
