//! What the clock on the wall has said while time passed: how retention knows how old something is.
//!
//! What is stored carries the time on the wall at which it was written, and that clock may have been wrong then, or be wrong
//! now. So nothing is old because of its time alone. It is old where its time is earlier than everything that the clock on
//! the wall has said within so much time as has passed for certain: whatever was written within that time has a later one,
//! however the clock was set meanwhile.
//!
//! For certain passes what the clock says that nobody can set. While no process watches, only the clock on the wall speaks:
//! time that it says to have passed then counts where it is little beside the age in question, and else not at all. A clock
//! that is wrong after a start makes nothing old, and one that is right makes things old later than it says, by the time
//! for which nobody watched.

use std::collections::VecDeque;

use capataz_crew::{Mono, Now};
use capataz_engine::planted::{self, Fault};
use capataz_store::Millis;

/// What the clocks may differ by and count as going alike. Milliseconds.
const ALIKE: i64 = 1_000;
/// The share of an age for which nobody has to have watched: one eighth.
const UNWATCHED: i64 = 8;
/// Stretches that are remembered. Beyond them the oldest two count as one, in which less has happened.
const MOST: usize = 256;
/// The version of the encoding. Readings in another one are not known.
const FORMAT: u8 = 1;

/// How long what retention may remove is kept at least. Milliseconds; what has no age is removed by the times that the
/// retention itself names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ages {
    pub finished_runs: Option<i64>,
    pub keys: Option<i64>,
    pub blobs: Option<i64>,
    /// Somebody says that the clock on the wall is right, and was.
    pub believes_clock: bool,
}

/// A stretch of time in which both clocks went alike. Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Stretch {
    /// What the clock on the wall said when it began.
    wall: i64,
    lasted: i64,
    /// How far the clock on the wall went between the stretch before and this one, while nobody watched.
    unwatched: i64,
}

impl Stretch {
    fn end(&self) -> i64 {
        self.wall.saturating_add(self.lasted)
    }
}

/// What earlier processes have read of their clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Earlier(Vec<Stretch>);

impl Earlier {
    /// The readings that were put down, where this version can read them.
    #[must_use]
    pub fn decode(readings: &[u8]) -> Option<Self> {
        let (format, stretches) = readings.split_first()?;
        (*format == FORMAT).then(|| postcard::from_bytes(stretches).ok().map(Self)).flatten()
    }

    /// Nothing is known but when something was written last.
    #[must_use]
    pub fn since(newest: Millis) -> Self {
        Self(vec![Stretch { wall: newest.0, lasted: 0, unwatched: 0 }])
    }
}

/// All readings of a shard's clocks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    stretches: VecDeque<Stretch>,
    /// When the newest stretch began, by the clock of this process.
    began: Option<Mono>,
    /// What earlier processes have read is among them.
    is_whole: bool,
    /// When they were put down last.
    put_at: Option<Mono>,
}

impl Readings {
    /// The clocks were read. Returns whether they have not gone alike.
    pub(crate) fn note(&mut self, now: Now) -> bool {
        if let (Some(began), Some(newest)) = (self.began, self.stretches.back_mut()) {
            newest.lasted = newest.lasted.max(now.mono.since(began));
            if now.wall.0.saturating_sub(newest.end()).saturating_abs() <= ALIKE {
                return false;
            }
        }
        self.began = Some(now.mono);
        self.stretches.push_back(Stretch { wall: now.wall.0, lasted: 0, unwatched: 0 });
        self.forget();
        true
    }

    /// What earlier processes have read, before anything of this one. A process that reads its shard again knows better.
    pub(crate) fn follow(&mut self, earlier: Earlier) {
        if std::mem::replace(&mut self.is_whole, true) {
            return;
        }
        if let (Some(last), Some(first)) = (earlier.0.last(), self.stretches.front_mut()) {
            first.unwatched = first.wall.saturating_sub(last.end()).max(0);
        }
        for stretch in earlier.0.into_iter().rev() {
            self.stretches.push_front(stretch);
        }
        self.forget();
    }

    /// Whatever the clock on the wall has said: it is right.
    pub(crate) fn believe(&mut self) {
        if let Some(newest) = self.stretches.pop_back() {
            self.stretches.clear();
            self.stretches.push_back(Stretch { unwatched: 0, ..newest });
        }
    }

    /// The time on the wall before which everything was written at least so long ago.
    pub(crate) fn before(&self, now: Now, age: i64) -> Millis {
        let by_the_clock = now.wall.0.saturating_sub(age);
        if planted::is(Fault::SweepBelievesTheClock) {
            return Millis(by_the_clock);
        }
        let (mut least, mut left) = (by_the_clock, age.max(0));
        for stretch in self.stretches.iter().rev() {
            if stretch.lasted >= left {
                return Millis(least.min(stretch.end().saturating_sub(left)));
            }
            least = least.min(stretch.wall);
            left -= stretch.lasted;
            if stretch.unwatched <= age / UNWATCHED {
                if stretch.unwatched >= left {
                    return Millis(least.min(stretch.wall.saturating_sub(left)));
                }
                left -= stretch.unwatched;
            }
        }
        // Before the first reading nobody has watched, and the clock is taken to have gone as it should.
        let first = self.stretches.front().map_or(least, |first| first.wall);
        Millis(least.min(first.saturating_sub(left)))
    }

    /// The readings as they are put down, where that was at least so many milliseconds ago.
    pub(crate) fn take_due(&mut self, now: Now, every: i64) -> Option<Vec<u8>> {
        if self.put_at.is_some_and(|put_at| now.mono.since(put_at) < every) {
            return None;
        }
        self.put_at = Some(now.mono);
        let stretches: Vec<&Stretch> = self.stretches.iter().collect();
        postcard::to_extend(&stretches, vec![FORMAT]).ok()
    }

    /// Whether the clocks have ever not gone alike, as far as that is remembered.
    pub(crate) fn have_differed(&self) -> bool {
        self.stretches.len() > 1
    }

    /// Makes one of the oldest two where there are too many: a clock that said less all the while.
    fn forget(&mut self) {
        while self.stretches.len() > MOST
            && let (Some(oldest), Some(next)) = (self.stretches.pop_front(), self.stretches.pop_front())
        {
            let wall = oldest.wall.min(next.wall.saturating_sub(oldest.lasted));
            let lasted = oldest.lasted.saturating_add(next.lasted);
            self.stretches.push_front(Stretch { wall, lasted, unwatched: oldest.unwatched });
        }
    }
}

#[cfg(test)]
mod tests;
