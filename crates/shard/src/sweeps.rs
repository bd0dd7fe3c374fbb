//! Sweeps of retention: what they must leave alone, how old what they remove has to be, and in which parts they go on.

use capataz_engine::planted::{self, Fault};
use capataz_store::{Millis, Retention, RunId, Swept};

use crate::projection;
use crate::readings::{Ages, Earlier};
use crate::shard::{Mode, Output, Shard};

/// How often the readings of clocks that go alike are put down. Milliseconds.
const PUT_READINGS_MS: i64 = 30_000;
/// After every run that has finished.
const AFTER_ALL: (Millis, RunId) = (Millis(i64::MAX), RunId::MAX);

/// A sweep that goes on until nothing is due, a bounded part at a time. Each part goes on where the one before it has ended, so
/// that runs that have to stay are not looked at by each of them.
#[derive(Clone, Debug)]
pub struct Sweeping {
    part: Retention,
    /// Runs that were removed since the one was looked at that finished first.
    removed: u64,
    swept: Swept,
}

impl Sweeping {
    /// A sweep that nobody has asked for a part of.
    #[must_use]
    pub fn new(rule: Retention) -> Self {
        Self { part: rule, removed: 0, swept: Swept::default() }
    }

    /// What the next part goes by.
    #[must_use]
    pub fn part(&self) -> &Retention {
        &self.part
    }

    /// What all of its parts have removed.
    #[must_use]
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// A part has ended. Returns whether another one follows.
    pub fn goes_on(&mut self, part: &Swept) -> bool {
        self.swept.runs += part.runs;
        self.swept.keys += part.keys;
        self.swept.blobs += part.blobs;
        self.swept.bytes += part.bytes;
        self.swept.unreadable = part.unreadable;
        self.removed += part.runs;
        self.part.after = if part.more && planted::is(Fault::SweepEndsWithItsFirstPart) {
            return false;
        } else if part.more {
            part.next
        } else if self.removed > 0 {
            // What is removed may have been why others had to stay.
            self.removed = 0;
            None
        } else if part.keys + part.blobs > 0 {
            Some(AFTER_ALL)
        } else {
            return false;
        };
        true
    }
}

impl Shard {
    /// Retention is due. What nobody is in the middle of may go, and is read again when it is needed.
    pub(crate) fn sweep(&mut self, mut retention: Box<Retention>, ages: Ages) {
        if self.mode != Mode::Running {
            return self.out(Output::Sweep { retention: None });
        }
        self.keep_young(&mut retention, ages);
        // A parent that is unfinished may still ask for its child.
        retention.held_by = Some(projection::CHILD);
        retention.keep.extend(self.sessions.sweep(self.outbox.oldest()));
        let keys_before = retention.keys_before;
        self.out(Output::Sweep { retention: Some(retention) });
        self.look_at_keys(keys_before);
    }

    /// Says before which time everything is as old as it has to be, whatever the clock on the wall has said meanwhile.
    fn keep_young(&mut self, retention: &mut Retention, ages: Ages) {
        if ages.believes_clock {
            self.readings.believe();
        }
        let of = |age: i64| self.readings.before(self.now, age);
        if let Some(age) = ages.finished_runs {
            retention.finished_before = Some(of(age));
        }
        retention.keys_before = ages.keys.map_or(retention.keys_before, of);
        retention.blobs_before = ages.blobs.map_or(retention.blobs_before, of);
        let given = [ages.finished_runs, ages.keys, ages.blobs].into_iter().flatten();
        let behind = given.map(|age| self.now.wall.0.saturating_sub(age).saturating_sub(of(age).0));
        let Some(by_ms) = behind.max() else { return };
        self.out(Output::Behind { by_ms });
        if let Some(readings) = self.readings.take_due(self.now, PUT_READINGS_MS) {
            self.out(Output::PutReadings { readings });
        }
    }

    /// Both clocks are read with every input. What is written under a clock that was set comes after the fact that it was.
    pub(crate) fn read_clocks(&mut self) {
        if self.readings.note(self.now) && self.mode == Mode::Running {
            self.put_readings();
        }
    }

    /// The shard was claimed: what was to be put down before may never have been.
    pub(crate) fn follow_readings(&mut self, earlier: Earlier) {
        self.readings.follow(earlier);
        if self.readings.have_differed() {
            self.put_readings();
        }
    }

    fn put_readings(&mut self) {
        if let Some(readings) = self.readings.take_due(self.now, 0) {
            self.out(Output::PutReadings { readings });
        }
    }

    pub(crate) fn swept(&mut self) {
        // What was to be read after it is read with the shard.
        if self.mode != Mode::Running {
            return;
        }
        self.sessions.swept();
        self.load_sessions();
    }
}

#[cfg(test)]
mod tests {
    use capataz_store::builders::keep;

    use super::*;

    #[test]
    fn a_sweep_goes_on_where_its_part_has_ended_and_begins_anew_after_it_has_removed_runs() {
        let mut sweeping = Sweeping::new(keep());
        let place = |at| Some((Millis(at), RunId::MIN));
        let more = |runs, at| Swept { runs, bytes: 10, more: true, next: place(at), ..Swept::default() };
        let mut parts = Vec::new();
        let keys = Swept { keys: 1, ..Swept::default() };
        let stuck = Swept { unreadable: 2, ..Swept::default() };
        for swept in [more(1, 5), more(0, 7), Swept::default(), keys, stuck] {
            let goes_on = sweeping.goes_on(&swept);
            parts.push((goes_on, sweeping.part().after));
        }
        let anew = (true, None);
        let after_all = (true, Some(AFTER_ALL));
        let over = (false, Some(AFTER_ALL));
        assert_eq!(parts, [(true, place(5)), (true, place(7)), anew, after_all, over]);
        let all = Swept { runs: 1, keys: 1, bytes: 20, unreadable: 2, ..Swept::default() };
        assert_eq!(sweeping.swept(), all);
    }
}
