//! Rules for marks and eras.

use super::*;
use crate::port::{Era, Mark, Millis, Position, Retention, ShardWriter, StoreError};

fn era(mark: u32, first: u64, last: impl Into<Option<u64>>) -> Era {
    Era { mark: Mark(mark), first: Position(first), last: last.into().map(Position) }
}

#[track_caller]
fn check(store: &impl Store, expected: &[Era]) {
    assert_eq!(store.history(SHARD).unwrap().eras(), expected);
}

pub fn each_claim_begins_an_era<S: Subject>() {
    let subject = S::fresh();
    let store = subject.store();
    drop(store.claim(SHARD, Mark(70)).unwrap());
    check(&store, &[era(70, 1, None)]);
    // Nothing was written under it.
    let mut writer = store.claim(SHARD, Mark(5)).unwrap();
    check(&store, &[era(5, 1, None)]);
    accept(&mut *writer, &[creation(1), creation(2)]);
    check(&store, &[era(5, 1, None)]);
    let mut writer = store.claim(SHARD, Mark(u32::MAX)).unwrap();
    check(&store, &[era(5, 1, 2), era(u32::MAX, 3, None)]);
    accept(&mut *writer, &[creation(3)]);
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    check(&store, &[era(5, 1, 2), era(u32::MAX, 3, None)]);
    drop(store.claim(SHARD, Mark(6)).unwrap());
    check(&store, &[era(5, 1, 2), era(u32::MAX, 3, 3), era(6, 4, None)]);
}

pub fn a_mark_is_drawn_once<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    let used = store.history(SHARD).unwrap().newest().unwrap();
    for refused in [Mark(0), used] {
        let claimed = store.claim(SHARD, refused);
        assert!(matches!(claimed, Err(StoreError::Io { operation: "claim the shard", .. })));
    }
    check(&store, &[era(used.0, 1, None)]);
    // A claim that was refused has fenced nobody.
    accept(&mut *writer, &[creation(2)]);
    let mut next = store.claim(SHARD, Mark(used.0 + 1)).unwrap();
    accept(&mut *next, &[creation(3)]);
}

/// Somebody copies the data, and goes on with both.
pub fn copies_that_are_both_used_have_two_histories<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(2)]);
    let common = store.history(SHARD).unwrap().newest().unwrap();
    drop((store, writer));
    let (one, other) = subject.copied();
    let (one, other) = (one.store(), other.store());
    let (mut writer, mut other_writer) =
        (one.claim(SHARD, Mark(100)).unwrap(), other.claim(SHARD, Mark(200)).unwrap());
    assert_eq!(writer.epoch(), other_writer.epoch(), "counting tells them apart no more");
    assert_eq!(accept(&mut *writer, &[creation(3)]), accept(&mut *other_writer, &[creation(4)]));
    let (one, other) = (one.history(SHARD).unwrap(), other.history(SHARD).unwrap());
    for (history, own, foreign) in [(one, Mark(100), Mark(200)), (other, Mark(200), Mark(100))] {
        assert!(history.contains(common, Position(1)) && history.contains(common, Position(2)));
        assert!(!history.contains(common, Position(3)), "the copy was made at 2");
        assert!(history.contains(own, Position(3)));
        assert!(!history.contains(foreign, Position(3)));
        assert!(history.knows(common) && history.knows(own) && !history.knows(foreign));
        assert_eq!([2, 3].map(|position| history.mark_of(Position(position))), [Some(common), Some(own)]);
    }
}

/// Somebody goes back to a copy, or to a snapshot of the machine.
pub fn an_earlier_state_that_is_restored_does_not_know_its_future<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    drop((store, writer));
    let (subject, backup) = subject.copied();
    let store = subject.store();
    let mut writer = store.claim(SHARD, Mark(100)).unwrap();
    let lost = accept(&mut *writer, &[creation(2), creation(3)])[1];
    drop((store, writer, subject));
    let store = backup.store();
    let mut writer = store.claim(SHARD, Mark(200)).unwrap();
    accept(&mut *writer, &[creation(4), creation(5)]);
    let history = store.history(SHARD).unwrap();
    assert!(store.bounds(SHARD).unwrap().newest >= lost, "the position exists again, with other events");
    assert!(!history.contains(Mark(100), lost));
    assert!(!history.knows(Mark(100)));
}

/// A run in each of three eras, which are removed one after the other.
pub fn an_era_is_forgotten_when_nothing_is_left_of_it<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(9)]);
    let mut writer = store.claim(SHARD, Mark(20)).unwrap();
    accept(&mut *writer, &[creation(2), finish(2, 3, 10)]);
    let mut writer = store.claim(SHARD, Mark(30)).unwrap();
    accept(&mut *writer, &[creation(3), finish(3, 3, 20), finish(1, 3, 30)]);
    let mut writer = store.claim(SHARD, Mark(40)).unwrap();
    let eras = [era(1, 1, 2), era(20, 3, 4), era(30, 5, 7), era(40, 8, None)];
    check(&store, &eras);
    let sweep = |writer: &mut dyn ShardWriter, before| {
        let retention = Retention { finished_before: Some(Millis(before)), ..keep() };
        writer.sweep(&retention).unwrap().runs
    };
    // Nothing is left of the second era, but it holds the position up to which rows are missing.
    assert_eq!(sweep(&mut *writer, 11), 1);
    check(&store, &eras);
    assert_eq!(sweep(&mut *writer, 21), 1);
    check(&store, &[eras[0], eras[2], eras[3]]);
    let history = store.history(SHARD).unwrap();
    assert_eq!(history.mark_of(Position(3)), None);
    assert!(!history.contains(Mark(20), Position(4)) && !history.contains(Mark(1), Position(4)));
    // The first era still has a row, although another one of it goes.
    assert_eq!(sweep(&mut *writer, 31), 1);
    check(&store, &[eras[0], eras[2], eras[3]]);
    accept(&mut *writer, &[finish(9, 3, 40)]);
    assert_eq!(sweep(&mut *writer, 41), 1);
    check(&store, &[eras[3]]);
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    check(&store, &[eras[3]]);
    assert_eq!(store.history(SHARD).unwrap().mark_of(Position(1)), None, "it is not from before marks");
}

pub fn each_sweep_looks_at_some_eras<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // Each run is an era. The first one stays; the others go in order.
    accept(&mut *writer, &[creation(0), more(0, 3, 1)]);
    for number in 1..=5 {
        writer = store.claim(SHARD, Mark(50 + number)).unwrap();
        let number = u64::from(number);
        accept(&mut *writer, &[creation(number), finish(number, 3, 10)]);
    }
    writer = store.claim(SHARD, Mark(60)).unwrap();
    let mut sweep = |batch| {
        let retention = Retention { finished_before: Some(Millis(11)), batch, ..keep() };
        writer.sweep(&retention).unwrap();
        store.history(SHARD).unwrap().eras().iter().map(|era| era.mark.0).collect::<Vec<_>>()
    };
    assert_eq!(sweep(0), [1, 51, 52, 53, 54, 55, 60]);
    // Two runs are removed, and two eras looked at, of which the first one has its run.
    assert_eq!(sweep(2), [1, 52, 53, 54, 55, 60]);
    assert_eq!(sweep(2), [1, 54, 55, 60]);
    // The last run is removed. Its era holds the newest removed position.
    assert_eq!(sweep(2), [1, 55, 60]);
    for _ in 0..3 {
        assert_eq!(sweep(2), [1, 55, 60]);
    }
}
