//! Runs that wait for a person or a time: they are not in memory, and are read when something is wanted of them.

use std::collections::BTreeMap;

use capataz_engine as engine;
use capataz_store::RunId;

use crate::ReplyId;
use crate::runs::Waiter;

/// What somebody wants of a run that rests.
#[derive(Debug)]
pub(crate) enum Wanted {
    Command {
        reply: ReplyId,
        if_seq: Option<u64>,
        input: Box<engine::Input>,
    },
    /// A deadline of the run has passed.
    Tick,
}

impl Wanted {
    pub(crate) fn reply(&self) -> Option<ReplyId> {
        match self {
            Self::Command { reply, .. } => Some(*reply),
            Self::Tick => None,
        }
    }
}

/// A run that rests.
#[derive(Debug, Default)]
struct Rested {
    /// What the run's own clock is ahead of the process's, where this process has had the run.
    ahead: Option<i64>,
    /// The number under which it was asked for; 0 while nobody wants anything of it.
    load: u64,
    wanted: Vec<Wanted>,
    /// Callers that wait for its end, for which it need not be read.
    waiters: Vec<Waiter>,
}

/// What there was of a run that rested.
#[derive(Debug)]
pub(crate) struct Woken {
    pub(crate) ahead: Option<i64>,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) waiters: Vec<Waiter>,
}

/// What became of a wish.
#[derive(Debug)]
pub(crate) enum Wish {
    /// The run has to be read, under this number.
    Load(u64),
    /// The run is being read.
    Waits,
    /// Too many want something of the run.
    Full(Wanted),
}

/// All runs that rest, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    runs: BTreeMap<RunId, Rested>,
    loads: u64,
}

impl Resting {
    pub(crate) fn insert(&mut self, run: RunId, ahead: Option<i64>, waiters: Vec<Waiter>) {
        self.runs.insert(run, Rested { ahead, waiters, ..Rested::default() });
    }

    /// The callers that wait for the run's end; `None` where it does not rest.
    pub(crate) fn waiters(&mut self, run: RunId) -> Option<&mut Vec<Waiter>> {
        Some(&mut self.runs.get_mut(&run)?.waiters)
    }

    pub(crate) fn contains(&self, run: RunId) -> bool {
        self.runs.contains_key(&run)
    }

    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Something is wanted of a run that rests; `most` may wait for it. `None` where it does not rest.
    pub(crate) fn want(&mut self, run: RunId, wanted: Wanted, most: usize) -> Option<Wish> {
        let rested = self.runs.get_mut(&run)?;
        if rested.wanted.len() >= most {
            return Some(Wish::Full(wanted));
        }
        rested.wanted.push(wanted);
        if rested.load != 0 {
            return Some(Wish::Waits);
        }
        self.loads += 1;
        rested.load = self.loads;
        Some(Wish::Load(self.loads))
    }

    /// The caller no longer waits.
    pub(crate) fn forget(&mut self, run: RunId, reply: ReplyId) {
        if let Some(rested) = self.runs.get_mut(&run) {
            rested.wanted.retain(|wanted| wanted.reply() != Some(reply));
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
        let Rested { ahead, wanted, waiters, .. } = self.runs.remove(&run)?;
        Some(Woken { ahead, wanted, waiters })
    }

    /// Throws everything away.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = (RunId, Woken)> + use<> {
        let runs = std::mem::take(&mut self.runs).into_iter();
        runs.map(|(run, Rested { ahead, wanted, waiters, .. })| (run, Woken { ahead, wanted, waiters }))
    }
}
