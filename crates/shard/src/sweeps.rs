//! Sweeps of retention: what they must leave alone, and how old what they remove has to be.

use capataz_store::Retention;

use crate::projection;
use crate::readings::{Ages, Earlier};
use crate::shard::{Mode, Output, Shard};

/// How often the readings of clocks that go alike are put down. Milliseconds.
const PUT_READINGS_MS: i64 = 30_000;

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
