use super::*;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// When each test begins, by the clock on the wall.
const BEGAN: i64 = 1_000 * DAY;

/// A daemon that looks at its clocks every minute.
struct Daemon {
    readings: Readings,
    now: Now,
}

impl Daemon {
    /// It finds nothing of an earlier one.
    fn new() -> Self {
        let mut daemon = Self { readings: Readings::default(), now: at(BEGAN, 0) };
        daemon.readings.note(daemon.now);
        daemon.readings.follow(Earlier::default());
        daemon
    }

    fn passes(&mut self, time: i64) {
        let end = self.now.mono.plus(time);
        while self.now.mono < end {
            let step = end.since(self.now.mono).min(60_000);
            self.now = at(self.now.wall.0 + step, self.now.mono.0 + step);
            assert!(!self.readings.note(self.now), "the clocks go alike");
        }
    }

    fn set(&mut self, by: i64) {
        self.now = at(self.now.wall.0 + by, self.now.mono.0);
        assert!(self.readings.note(self.now));
    }

    /// It ends, and the next one starts when the clock on the wall has gone so far.
    fn restarts(&mut self, by: i64) {
        let put = self.readings.take_due(self.now, 0).unwrap();
        let earlier = Earlier::decode(&put).unwrap();
        self.now = at(self.now.wall.0 + by, 7);
        self.readings = Readings::default();
        self.readings.note(self.now);
        self.readings.follow(earlier);
    }

    /// How long ago that is by the clock on the wall, which everything is that is at least so old.
    fn lies_back(&self, age: i64) -> i64 {
        self.now.wall.0 - self.readings.before(self.now, age).0
    }
}

fn at(wall: i64, mono: i64) -> Now {
    Now { wall: Millis(wall), mono: Mono(mono) }
}

#[test]
fn a_clock_that_goes_as_it_should_is_believed() {
    let mut daemon = Daemon::new();
    assert_eq!([0, DAY, 30 * DAY].map(|age| daemon.lies_back(age)), [0, DAY, 30 * DAY]);
    daemon.passes(3 * DAY);
    assert_eq!([0, DAY, 30 * DAY].map(|age| daemon.lies_back(age)), [0, DAY, 30 * DAY]);
}

#[test]
fn what_a_jump_forward_alone_made_old_is_not_old_until_the_time_has_passed() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    daemon.set(40 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 70 * DAY);
    daemon.passes(29 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 70 * DAY);
    assert_eq!(daemon.lies_back(29 * DAY), 29 * DAY);
    daemon.passes(DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
}

#[test]
fn what_was_written_while_the_clock_was_behind_is_not_old_when_it_is_right_again() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    daemon.set(-40 * DAY);
    let written = daemon.now.wall;
    daemon.passes(HOUR);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY, "it is as young as it says");
    daemon.set(40 * DAY);
    assert!(daemon.readings.before(daemon.now, 30 * DAY) <= written);
    daemon.passes(30 * DAY - HOUR - 1);
    assert!(daemon.readings.before(daemon.now, 30 * DAY) <= written);
    daemon.passes(HOUR + 1);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
}

#[test]
fn a_jump_that_is_taken_back_leaves_everything_as_it_was() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    daemon.set(40 * DAY);
    daemon.passes(60_000);
    daemon.set(-40 * DAY);
    assert_eq!([DAY, 30 * DAY].map(|age| daemon.lies_back(age)), [DAY, 30 * DAY]);
}

#[test]
fn time_that_nobody_watched_counts_where_it_is_little_and_else_not() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    daemon.restarts(3 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
    assert_eq!(daemon.lies_back(2 * DAY), 5 * DAY, "three days are much of two");
    daemon.restarts(4 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 34 * DAY);
    // What is known survives the next start, and a clock that is set back then makes nothing old either.
    daemon.restarts(0);
    assert_eq!(daemon.lies_back(30 * DAY), 34 * DAY);
    daemon.restarts(-DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 33 * DAY);
    daemon.passes(30 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
}

#[test]
fn of_data_that_nobody_has_watched_the_newest_says_how_far_the_clock_may_be_ahead() {
    let mut daemon = Daemon { readings: Readings::default(), now: at(BEGAN + 40 * DAY, 0) };
    daemon.readings.note(daemon.now);
    daemon.readings.follow(Earlier::since(Millis(BEGAN)));
    assert_eq!(daemon.lies_back(30 * DAY), 70 * DAY);
    daemon.passes(30 * DAY);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
}

#[test]
fn a_clock_that_somebody_confirms_is_believed_at_once() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    daemon.set(40 * DAY);
    daemon.readings.believe();
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY);
    daemon.restarts(0);
    assert_eq!(daemon.lies_back(30 * DAY), 30 * DAY, "it stays confirmed");
}

#[test]
fn a_clock_that_is_set_again_and_again_takes_bounded_memory_and_makes_nothing_old() {
    let mut daemon = Daemon::new();
    for _ in 0..3 * MOST {
        daemon.set(2 * HOUR);
        daemon.passes(60_000);
        daemon.set(-2 * HOUR);
        daemon.passes(60_000);
    }
    assert!(daemon.readings.stretches.len() <= MOST);
    let passed = daemon.now.mono.0;
    for age in [HOUR, passed / 2, passed - 60_000, passed, passed + DAY] {
        assert!(daemon.lies_back(age) >= age, "{age}");
        assert!(daemon.lies_back(age) <= age + 3 * HOUR, "{age}");
    }
    daemon.passes(DAY);
    assert_eq!(daemon.lies_back(DAY), DAY);
}

#[test]
fn readings_of_another_version_are_not_known() {
    assert_eq!(Earlier::decode(&[]), None);
    assert_eq!(Earlier::decode(&[FORMAT + 1, 0]), None);
    assert_eq!(Earlier::decode(&[FORMAT, 9]), None);
    assert_eq!(Earlier::decode(&[FORMAT, 0]), Some(Earlier::default()));
}

#[test]
fn clocks_that_have_always_gone_alike_have_not_differed_and_those_that_were_set_once_have() {
    let mut daemon = Daemon::new();
    daemon.passes(DAY);
    assert!(!daemon.readings.have_differed());
    daemon.set(HOUR);
    daemon.passes(DAY);
    assert!(daemon.readings.have_differed());
}
