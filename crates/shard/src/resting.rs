//! Runs that wait for a person or a time: they are not in memory, and are read when something is wanted of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use capataz_contracts::v1;
use capataz_crew::{ConnectionId, Lease, Mono};
use capataz_engine as engine;
use capataz_store::RunId;

use crate::ReplyId;
use crate::family::WantedRun;
use crate::runs::{RunClock, Waiter};

/// Runs that are read at the same time. The others wait, so that many deadlines at once do not exhaust the shell.
const LOADS: usize = 16;

/// What somebody wants of a run that rests.
#[derive(Debug)]
pub(crate) enum Wanted {
    Command {
        reply: ReplyId,
        if_seq: Option<u64>,
        input: Box<engine::Input>,
    },
    /// A worker reports, for the first time or again.
    Report {
        connection: ConnectionId,
        worker: String,
        lease: Lease,
        report: Box<engine::Report>,
        log: String,
        usage: Option<v1::Usage>,
    },
    /// The run whose task it is wants it to end.
    Kin(Box<WantedRun>),
    /// A deadline of the run has passed.
    Tick,
}

impl Wanted {
    pub(crate) fn reply(&self) -> Option<ReplyId> {
        match self {
            Self::Command { reply, .. } => Some(*reply),
            Self::Report { .. } | Self::Kin(_) | Self::Tick => None,
        }
    }
}

/// A run that rests, or that could not be read.
#[derive(Debug)]
struct Rested {
    clock: RunClock,
    /// The number under which it was asked for; 0 while nobody wants anything of it.
    load: u64,
    wanted: Vec<Wanted>,
    /// Callers that wait for its end, for which it need not be read.
    waiters: Vec<Waiter>,
    /// Something of it may be in work.
    is_unread: bool,
}

/// What there was of a run that rested.
#[derive(Debug)]
pub(crate) struct Woken {
    pub(crate) clock: RunClock,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) waiters: Vec<Waiter>,
    /// It could not be read with its shard.
    pub(crate) is_unread: bool,
}

/// All runs that rest, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    runs: BTreeMap<RunId, Rested>,
    /// What is wanted of all of them.
    wanted: usize,
    loads: u64,
    /// Runs that are to be read, in order.
    queue: VecDeque<RunId>,
    /// The numbers of those that are being read.
    flying: BTreeSet<u64>,
    /// When those that were thrown away were due, until they have been found again.
    due: BTreeMap<RunId, Mono>,
}

impl Resting {
    pub(crate) fn insert(&mut self, run: RunId, clock: RunClock, waiters: Vec<Waiter>) {
        self.runs.insert(run, Rested { clock, load: 0, wanted: Vec::new(), waiters, is_unread: false });
    }

    /// A run that could not be read with its shard: something of it may be in work.
    pub(crate) fn insert_unread(&mut self, run: RunId, clock: RunClock) {
        self.insert(run, clock, Vec::new());
        if let Some(rested) = self.runs.get_mut(&run) {
            rested.is_unread = true;
        }
    }

    /// A run that was to be read, and could not.
    pub(crate) fn put_back(&mut self, run: RunId, Woken { clock, wanted, waiters, is_unread }: Woken) {
        self.wanted += wanted.len();
        self.runs.insert(run, Rested { clock, load: 0, wanted, waiters, is_unread });
    }

    /// How much is wanted of runs that have not been read yet.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// When a run that was thrown away was due.
    pub(crate) fn was_due(&self, run: RunId) -> Option<Mono> {
        self.due.get(&run).copied()
    }

    /// All runs have been found again.
    pub(crate) fn all_found(&mut self) {
        self.due.clear();
    }

    /// The callers that wait for the run's end; `None` where it does not rest.
    pub(crate) fn waiters(&mut self, run: RunId) -> Option<&mut Vec<Waiter>> {
        Some(&mut self.runs.get_mut(&run)?.waiters)
    }

    /// For each run, how many wait for its end, and how much is wanted of it once it is read.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (usize, usize)> {
        self.runs.values().map(|rested| (rested.waiters.len(), rested.wanted.len()))
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    /// Whether the run could not be read, so that nobody knows what of it is in work.
    pub(crate) fn is_unread(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|rested| rested.is_unread)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Something is wanted of a run that rests; `most` may wait for it.
    ///
    /// # Errors
    /// The run does not rest, or too many want something of it.
    #[expect(clippy::result_large_err, reason = "the wish comes back where it is not granted")]
    pub(crate) fn want(&mut self, run: RunId, wanted: Wanted, most: usize) -> Result<(), Wanted> {
        let Some(rested) = self.runs.get_mut(&run) else { return Err(wanted) };
        let is_tick = |wanted: &Wanted| matches!(wanted, Wanted::Tick);
        if !is_tick(&wanted) && rested.wanted.len() >= most {
            return Err(wanted);
        }
        // One tick is as good as many, however often the run could not be read.
        if !(is_tick(&wanted) && rested.wanted.iter().any(is_tick)) {
            rested.wanted.push(wanted);
            self.wanted += 1;
        }
        if rested.load == 0 {
            self.loads += 1;
            rested.load = self.loads;
            self.queue.push_back(run);
        }
        Ok(())
    }

    /// The next run that is to be read now, and its number.
    pub(crate) fn next_load(&mut self) -> Option<(RunId, u64)> {
        while self.flying.len() < LOADS {
            let run = self.queue.pop_front()?;
            if let Some(rested) = self.runs.get(&run).filter(|rested| rested.load != 0) {
                self.flying.insert(rested.load);
                return Some((run, rested.load));
            }
        }
        None
    }

    /// What was asked for and may not have been heard is asked for again, under other numbers.
    pub(crate) fn ask_again(&mut self) {
        self.flying.clear();
        self.queue.clear();
        for (run, rested) in self.runs.iter_mut().filter(|(_, rested)| rested.load != 0) {
            self.loads += 1;
            rested.load = self.loads;
            self.queue.push_back(*run);
        }
    }

    /// The shell has answered, whatever it says.
    pub(crate) fn answered(&mut self, load: u64) {
        self.flying.remove(&load);
    }

    /// The caller no longer waits.
    pub(crate) fn forget(&mut self, run: RunId, reply: ReplyId) {
        if let Some(rested) = self.runs.get_mut(&run) {
            let before = rested.wanted.len();
            rested.wanted.retain(|wanted| wanted.reply() != Some(reply));
            self.wanted -= before - rested.wanted.len();
            rested.waiters.retain(|waiter| waiter.reply != reply);
        }
    }

    /// The run was read: it rests no more. `None` where the answer is that to an older question.
    pub(crate) fn loaded(&mut self, run: RunId, load: u64) -> Option<Woken> {
        self.awaits(run, load).then(|| self.remove(run)).flatten()
    }

    /// Whether the answer to this question is still waited for.
    pub(crate) fn awaits(&self, run: RunId, load: u64) -> bool {
        self.runs.get(&run).is_some_and(|rested| rested.load == load)
    }

    /// The run rests no more.
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Woken> {
        let Rested { clock, wanted, waiters, is_unread, .. } = self.runs.remove(&run)?;
        self.wanted -= wanted.len();
        Some(Woken { clock, wanted, waiters, is_unread })
    }

    /// Throws everything away, but for when the runs are due.
    pub(crate) fn abandon(&mut self, due: impl Fn(RunId) -> Option<Mono>) -> Vec<(RunId, Woken)> {
        self.wanted = 0;
        self.queue.clear();
        self.flying.clear();
        let runs = std::mem::take(&mut self.runs);
        self.due = runs.keys().filter_map(|run| Some((*run, due(*run)?))).collect();
        let woken = |(run, Rested { clock, wanted, waiters, is_unread, .. })| {
            (run, Woken { clock, wanted, waiters, is_unread })
        };
        runs.into_iter().map(woken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_met_in_vain_for_long_takes_no_room() {
        let run = RunId(uuid::Uuid::from_u128(7));
        let mut resting = Resting::default();
        for _ in 0..100 {
            resting.insert(run, RunClock::Ahead(0), Vec::new());
            for _ in 0..3 {
                assert!(resting.want(run, Wanted::Tick, 1).is_ok());
            }
            let (_, load) = resting.next_load().expect("it is to be read");
            resting.answered(load);
            let woken = resting.loaded(run, load).expect("it is waited for");
            assert_eq!(woken.wanted.len(), 1);
            // It could not be read.
            resting.put_back(run, woken);
            assert!(resting.want(run, Wanted::Tick, 1).is_ok());
            let (_, load) = resting.next_load().expect("it is to be read again");
            resting.answered(load);
            assert_eq!(resting.loaded(run, load).map(|woken| woken.wanted.len()), Some(1));
        }
    }

    #[test]
    fn what_was_asked_for_is_asked_for_again_and_nothing_else() {
        let [asked, other] = [7, 8].map(|number| RunId(uuid::Uuid::from_u128(number)));
        let mut resting = Resting::default();
        for run in [asked, other] {
            resting.insert(run, RunClock::Ahead(0), Vec::new());
        }
        assert!(resting.want(asked, Wanted::Tick, 1).is_ok());
        assert_eq!(resting.next_load(), Some((asked, 1)));
        resting.ask_again();
        assert_eq!([resting.next_load(), resting.next_load()], [Some((asked, 2)), None]);
    }
}
