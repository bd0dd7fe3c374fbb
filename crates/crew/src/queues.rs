//! Which runs wait for a slot of which agent, and whose turn it is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use capataz_store::{RunId, ShardId};

use crate::clock::Mono;

/// Turns before a run's own that are counted.
const AHEAD_MAX: usize = 1_000;

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
    /// Since when they wait, the earliest first, and how many of them. Together they are so many.
    since: VecDeque<(Mono, u32)>,
    /// The worker whose slot they wait for; `None` where anybody's will do.
    only: Option<Arc<str>>,
    /// Slots that were offered to the run and are neither taken nor returned.
    offered: u32,
    /// Its place among the turns, while it has one.
    turn: Option<u64>,
}

impl Demand {
    fn is_hungry(&self) -> bool {
        self.tasks > self.offered
    }

    /// So many tasks wait from now on. Those that came first are the first that do not.
    fn set_tasks(&mut self, tasks: u32, now: Mono) {
        let mut fewer = self.tasks.saturating_sub(tasks);
        while let Some((_, count)) = self.since.front_mut().filter(|_| fewer > 0) {
            let gone = fewer.min(*count);
            *count -= gone;
            fewer -= gone;
            if *count == 0 {
                self.since.pop_front();
            }
        }
        let more = tasks.saturating_sub(self.tasks);
        match self.since.back_mut().filter(|(at, _)| *at == now) {
            Some((_, count)) => *count += more,
            None if more > 0 => self.since.push_back((now, more)),
            None => {}
        }
        self.tasks = tasks;
    }
}

/// Those who have a turn, in order.
#[derive(Default)]
struct Turns {
    issued: u64,
    free: BTreeMap<u64, Place>,
    /// Those who wait for a slot of one worker. No list is empty.
    bound: BTreeMap<Arc<str>, BTreeMap<u64, Place>>,
}

impl Turns {
    fn add(&mut self, only: Option<&Arc<str>>, place: Place) -> u64 {
        self.issued += 1;
        let turns = match only {
            Some(worker) => self.bound.entry(Arc::clone(worker)).or_default(),
            None => &mut self.free,
        };
        turns.insert(self.issued, place);
        self.issued
    }

    fn remove(&mut self, only: Option<&Arc<str>>, turn: u64) {
        let Some(worker) = only else {
            self.free.remove(&turn);
            return;
        };
        if let Some(turns) = self.bound.get_mut(worker) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.bound.remove(worker);
            }
        }
    }

    /// The one that waits longest of those for whom there is a slot.
    fn first(&self, any: bool, is_ready: impl Fn(&str) -> bool) -> Option<(u64, Place)> {
        let free = self.free.first_key_value().filter(|_| any);
        let bound = self.bound.iter().filter(|(worker, _)| is_ready(worker));
        let bound = bound.filter_map(|(_, turns)| turns.first_key_value());
        bound.chain(free).min().map(|(turn, place)| (*turn, *place))
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.free.is_empty() && self.bound.is_empty()
    }
}

/// One agent's queue. A run has a turn exactly while it wants more slots than it was offered, and is forgotten when it
/// wants none and was offered none.
#[derive(Default)]
struct Queue {
    turns: Turns,
    waiting: BTreeMap<Place, Demand>,
}

impl Queue {
    fn change(&mut self, place: Place, change: impl FnOnce(&mut Demand)) {
        let demand = self.waiting.entry(place).or_default();
        let before = demand.only.clone();
        change(demand);
        let hungry = demand.is_hungry();
        if let Some(turn) = demand.turn.filter(|_| !hungry || before != demand.only) {
            demand.turn = None;
            self.turns.remove(before.as_ref(), turn);
        }
        if hungry && demand.turn.is_none() {
            demand.turn = Some(self.turns.add(demand.only.as_ref(), place));
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
    /// So many tasks of the run wait, with `only` for a slot of that worker alone.
    pub(crate) fn want(
        &mut self,
        agent: &Arc<str>,
        place: Place,
        tasks: u32,
        only: Option<Arc<str>>,
        now: Mono,
    ) {
        self.queue(agent).change(place, |demand| {
            demand.set_tasks(tasks, now);
            demand.only = only;
        });
    }

    /// The run whose turn it is, and the worker that it waits for; it has one slot more on offer. `any`: somebody has a
    /// slot; `is_ready`: this worker has one.
    pub(crate) fn next(
        &mut self,
        agent: &str,
        any: bool,
        is_ready: impl Fn(&str) -> bool,
    ) -> Option<(Place, Option<Arc<str>>)> {
        let queue = self.agents.get_mut(agent)?;
        let (turn, place) = queue.turns.first(any, is_ready)?;
        let only = queue.waiting.get(&place).and_then(|demand| demand.only.clone());
        queue.turns.remove(only.as_ref(), turn);
        queue.change(place, |demand| {
            demand.turn = None;
            demand.offered = demand.offered.saturating_add(1);
        });
        Some((place, only))
    }

    /// An offer to the run was taken: so many of its tasks still wait.
    pub(crate) fn taken(&mut self, agent: &Arc<str>, place: Place, tasks: u32, now: Mono) {
        self.queue(agent).change(place, |demand| {
            demand.offered = demand.offered.saturating_sub(1);
            demand.set_tasks(tasks, now);
        });
    }

    /// An offer to the run is void.
    pub(crate) fn withdrawn(&mut self, agent: &Arc<str>, place: Place) {
        self.queue(agent).change(place, |demand| demand.offered = demand.offered.saturating_sub(1));
    }

    /// How many turns come before that of the run, of those that may take a slot which it waits for: [`AHEAD_MAX`] at most.
    /// `None` where it has no turn.
    pub(crate) fn ahead(&self, agent: &str, place: Place) -> Option<u32> {
        let queue = self.agents.get(agent)?;
        let demand = queue.waiting.get(&place)?;
        let turn = demand.turn?;
        // Who waits for one worker alone is in the way of whoever takes any, and of those who wait for the same one.
        let is_rival = |worker: &Arc<str>| demand.only.as_ref().is_none_or(|only| only == worker);
        let bound = queue.turns.bound.iter().filter(|(worker, _)| is_rival(worker)).map(|(_, turns)| turns);
        let before = bound.chain([&queue.turns.free]).flat_map(|turns| turns.range(..turn));
        u32::try_from(before.take(AHEAD_MAX).count()).ok()
    }

    /// Tasks that wait for the agent.
    pub(crate) fn waiting(&self, agent: &str) -> u32 {
        let queue = self.agents.get(agent);
        queue
            .map_or(0, |queue| queue.waiting.values().fold(0, |sum, demand| sum.saturating_add(demand.tasks)))
    }

    /// Since when the task waits for the agent that has waited longest; `None` where none does.
    pub(crate) fn waiting_since(&self, agent: &str) -> Option<Mono> {
        let demands = self.agents.get(agent)?.waiting.values();
        demands.filter_map(|demand| demand.since.front()).map(|(since, _)| *since).min()
    }

    /// Nothing of the shard waits any more.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        for queue in self.agents.values_mut() {
            queue.turns.free.retain(|_, place| place.shard != shard);
            queue.turns.bound.retain(|_, turns| {
                turns.retain(|_, place| place.shard != shard);
                !turns.is_empty()
            });
            queue.waiting.retain(|place, _| place.shard != shard);
        }
    }

    fn queue(&mut self, agent: &Arc<str>) -> &mut Queue {
        self.agents.entry(Arc::clone(agent)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, Mono, Place, Queues, ShardId};

    /// Where it does not matter when.
    const NOW: Mono = Mono(7);

    impl Queues {
        /// The next one, where every worker has a slot.
        fn next_of_all(&mut self, agent: &str) -> Option<Place> {
            self.next(agent, true, |_| true).map(|(place, _)| place)
        }
    }

    fn place(shard: u32, run: u8) -> Place {
        let run = format!("00000000-0000-7000-8000-0000000000{run:02}").parse().unwrap();
        Place { shard: ShardId(shard), run }
    }

    #[test]
    fn runs_take_turns_whatever_shard_they_are_of() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let (many, one, other) = (place(0, 1), place(0, 2), place(1, 3));
        queues.want(&agent, many, 3, None, NOW);
        queues.want(&agent, one, 1, None, NOW);
        queues.want(&agent, other, 2, None, NOW);
        let turns: Vec<Place> = std::iter::from_fn(|| queues.next_of_all(&agent)).collect();
        assert_eq!(turns, [many, one, other, many, other, many]);
        assert_eq!(queues.next_of_all(&agent), None);
    }

    #[test]
    fn an_agent_is_waited_for_as_long_as_the_task_that_came_first() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let (one, other) = (place(0, 1), place(1, 2));
        assert_eq!(queues.waiting_since(&agent), None);
        queues.want(&agent, one, 2, None, Mono(10));
        queues.want(&agent, other, 1, None, Mono(20));
        queues.want(&agent, one, 3, None, Mono(30));
        assert_eq!(queues.waiting_since(&agent), Some(Mono(10)));
        // Of one run, those that came first go first.
        queues.taken(&agent, one, 2, Mono(40));
        assert_eq!(queues.waiting_since(&agent), Some(Mono(10)), "one that came with it still waits");
        queues.taken(&agent, one, 1, Mono(50));
        assert_eq!(queues.waiting_since(&agent), Some(Mono(20)), "that of the other run");
        queues.want(&agent, other, 0, None, Mono(60));
        assert_eq!(queues.waiting_since(&agent), Some(Mono(30)));
        // Who has found nobody waiting waits from then on.
        queues.taken(&agent, one, 0, Mono(70));
        assert_eq!(queues.waiting_since(&agent), None);
        queues.want(&agent, one, 1, None, Mono(80));
        assert_eq!(queues.waiting_since(&agent), Some(Mono(80)));
        queues.forget(ShardId(0));
        assert_eq!(queues.waiting_since(&agent), None);
    }

    #[test]
    fn a_run_knows_how_many_slots_go_to_others_before_its_next_one() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let (many, one, last) = (place(0, 1), place(0, 2), place(1, 3));
        for (run, tasks) in [(many, 3), (one, 1), (last, 2)] {
            queues.want(&agent, run, tasks, None, Mono(0));
        }
        let ahead = |queues: &Queues| [many, one, last].map(|run| queues.ahead("agent", run));
        assert_eq!(ahead(&queues), [Some(0), Some(1), Some(2)], "each run has one slot in its turn");
        assert_eq!(queues.next_of_all(&agent), Some(many));
        assert_eq!(ahead(&queues), [Some(2), Some(0), Some(1)]);
        assert_eq!(queues.next_of_all(&agent), Some(one));
        assert_eq!(ahead(&queues), [Some(1), None, Some(0)], "it is offered all that it wants");
        // Whoever waits for one worker is in the way of all that take any slot, and not of another worker's.
        let (mine, other): (Arc<str>, Arc<str>) = (Arc::from("mine"), Arc::from("other"));
        let mut queues = Queues::default();
        queues.want(&agent, many, 1, Some(Arc::clone(&mine)), Mono(0));
        queues.want(&agent, one, 1, Some(other), Mono(0));
        queues.want(&agent, last, 1, None, Mono(0));
        assert_eq!(ahead(&queues), [Some(0), Some(0), Some(2)]);
        assert_eq!(queues.ahead("nobody", many), None);
        for run in 4..=99 {
            queues.want(&agent, place(2, run), 1, None, Mono(0));
        }
        assert_eq!(queues.ahead("agent", place(2, 99)), Some(98));
    }

    #[test]
    fn an_offer_in_flight_counts_as_served_until_it_is_answered() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        let run = place(0, 1);
        queues.want(&agent, run, 1, None, NOW);
        assert_eq!(queues.next_of_all(&agent), Some(run));
        // Said before the shard knew of the offer.
        queues.want(&agent, run, 1, None, NOW);
        assert_eq!(queues.next_of_all(&agent), None);
        queues.withdrawn(&agent, run);
        assert_eq!(queues.next_of_all(&agent), Some(run));
        queues.taken(&agent, run, 0, NOW);
        assert_eq!((queues.next_of_all(&agent), queues.waiting(&agent)), (None, 0));
    }

    #[test]
    fn what_no_longer_waits_has_no_turn() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        queues.want(&agent, place(0, 1), 2, None, NOW);
        queues.want(&agent, place(0, 1), 0, None, NOW);
        queues.want(&agent, place(1, 2), 1, None, NOW);
        queues.forget(ShardId(1));
        assert_eq!(queues.next_of_all(&agent), None);
        let queue = queues.agents.get(&agent).unwrap();
        assert!(queue.turns.is_empty() && queue.waiting.is_empty(), "it takes no memory either");
    }

    #[test]
    fn what_is_bound_to_a_worker_waits_for_its_slot_and_nobody_waits_for_it() {
        let agent: Arc<str> = Arc::from("agent");
        let (mine, other): (Arc<str>, Arc<str>) = (Arc::from("mine"), Arc::from("other"));
        let mut queues = Queues::default();
        let (bound, free) = (place(0, 1), place(0, 2));
        queues.want(&agent, bound, 1, Some(Arc::clone(&mine)), NOW);
        queues.want(&agent, free, 1, None, NOW);
        let of_other = |worker: &str| worker == &*other;
        assert_eq!(queues.next(&agent, true, of_other), Some((free, None)));
        assert_eq!(queues.next(&agent, true, of_other), None, "the other worker's slot is not for it");
        let of_mine = |worker: &str| worker == &*mine;
        assert_eq!(queues.next(&agent, true, of_mine), Some((bound, Some(Arc::clone(&mine)))));
        assert_eq!(queues.next(&agent, true, of_mine), None);
        queues.withdrawn(&agent, bound);
        queues.want(&agent, bound, 1, None, NOW);
        assert_eq!(
            queues.next(&agent, true, of_other),
            Some((bound, None)),
            "it is bound to nobody any more"
        );
    }

    #[test]
    fn what_is_bound_has_its_turn_among_the_others() {
        let agent: Arc<str> = Arc::from("agent");
        let worker: Arc<str> = Arc::from("worker");
        let mut queues = Queues::default();
        queues.want(&agent, place(0, 1), 1, None, NOW);
        queues.want(&agent, place(0, 2), 1, Some(Arc::clone(&worker)), NOW);
        queues.want(&agent, place(0, 3), 1, None, NOW);
        let turns: Vec<Place> = std::iter::from_fn(|| queues.next_of_all(&agent)).collect();
        assert_eq!(turns, [place(0, 1), place(0, 2), place(0, 3)]);
    }

    #[test]
    fn what_is_bound_is_forgotten_with_its_shard() {
        let agent: Arc<str> = Arc::from("agent");
        let mut queues = Queues::default();
        queues.want(&agent, place(1, 1), 1, Some(Arc::from("worker")), NOW);
        queues.forget(ShardId(1));
        assert_eq!(queues.next_of_all(&agent), None);
        assert!(queues.agents.get(&agent).unwrap().turns.is_empty(), "it takes no memory either");
    }
}
