//! Rules for runs that are not to be worked on.

use super::*;
use crate::port::{Millis, Position, Quarantine, QuarantineReason, Removal, Retention};

pub fn a_run_is_quarantined_until_it_is_released<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).label("team", "a"), creation(2)]);
    let first = quarantine(QuarantineReason::Panicked, 2, 5);
    let reason = Quarantine { position: Some(Position(1)), ..quarantine(QuarantineReason::Damaged, 0, -9) };
    for reason in [&first, &reason] {
        writer.quarantine(run_id(1), reason).unwrap();
        assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().quarantine.as_ref(), Some(reason));
    }
    let labelled = crate::RunQuery { labels: [("team".to_owned(), "a".to_owned())].into(), ..everything() };
    assert_eq!(store.list_runs(&labelled).unwrap()[0].quarantine.as_ref(), Some(&reason));
    assert_eq!(store.get_run(run_id(2)).unwrap().unwrap().quarantine, None, "another run");
    // It is a fact beside the run: the log neither shows it nor changes by it.
    assert_eq!(whole_log(&store).len(), 2);
    accept(&mut *writer, &[more(1, 3, 1)]);
    assert_eq!(store.unfinished(SHARD, None, ALL).unwrap(), in_work(&[1, 2]));
    drop((store, writer));

    let subject = subject.reopened();
    let (store, mut writer) = (subject.store(), claim(&subject.store()));
    assert_eq!(store.quarantined(SHARD, None, ALL).unwrap(), [(run_id(1), reason)]);
    assert!(writer.release(run_id(1)).unwrap());
    assert!(!writer.release(run_id(1)).unwrap());
    assert!(!writer.release(run_id(7)).unwrap());
    assert_eq!(store.quarantined(SHARD, None, ALL).unwrap(), []);
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().quarantine, None);
}

pub fn quarantined_runs_are_listed_in_pages<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let appends: Vec<_> = (1..=5).map(creation).collect();
    accept(&mut *writer, &appends);
    for (number, reason) in [
        (4, QuarantineReason::Damaged),
        (2, QuarantineReason::Panicked),
        (5, QuarantineReason::Conflicted),
        (9, QuarantineReason::Damaged),
    ] {
        writer.quarantine(run_id(number), &quarantine(reason, number, 1)).unwrap();
    }
    let listed = |after: Option<u64>, limit| -> Vec<_> {
        let listed = store.quarantined(SHARD, after.map(run_id), limit).unwrap();
        listed.into_iter().map(|(run, quarantine)| (run, quarantine.seq, quarantine.reason)).collect()
    };
    let (two, four) = ((run_id(2), 2, QuarantineReason::Panicked), (run_id(4), 4, QuarantineReason::Damaged));
    let five = (run_id(5), 5, QuarantineReason::Conflicted);
    assert_eq!(listed(None, ALL), [two, four, five], "run 9 is not in the store");
    assert_eq!(listed(None, 2), [two, four]);
    assert_eq!(listed(Some(2), 1), [four]);
    assert_eq!(listed(Some(4), ALL), [five]);
    assert_eq!(listed(Some(5), ALL), []);
    assert_eq!(listed(None, 0), []);
}

pub fn a_quarantine_goes_with_its_run<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(2), finish(1, 3, 10)]);
    for number in [1, 2] {
        writer.quarantine(run_id(number), &quarantine(QuarantineReason::Damaged, 2, 1)).unwrap();
    }
    let all = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert_eq!(writer.sweep(&all).unwrap().runs, 1);
    let left: Vec<_> = store.quarantined(SHARD, None, ALL).unwrap().into_iter().map(|(run, _)| run).collect();
    assert_eq!(left, ids(&[2]));
    accept(&mut *writer, &[creation(1)]);
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().quarantine, None, "another run with the same id");
}

pub fn a_run_that_has_finished_or_is_quarantined_is_removed_by_itself<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).key("k", 1).label("team", "a"), creation(2), creation(3)]);
    accept(&mut *writer, &[finish(2, 3, 10)]);
    let before = store.bounds(SHARD).unwrap();
    let mut remove = |number| writer.remove(run_id(number), None, Millis(50)).unwrap();
    assert_eq!(remove(9), Removal::Missing);
    assert_eq!([1, 3].map(&mut remove), [Removal::Unfinished; 2]);
    assert!(matches!(remove(2), Removal::Removed { bytes } if bytes > 0));
    assert_eq!(remove(2), Removal::Missing);
    writer.quarantine(run_id(1), &quarantine(QuarantineReason::Damaged, 2, 1)).unwrap();
    let removed = writer.remove(run_id(1), None, Millis(50)).unwrap();
    let after = store.bounds(SHARD).unwrap();
    let Removal::Removed { bytes } = removed else { panic!("{removed:?}") };
    assert!(bytes > 0 && before.bytes > after.bytes && after.removals != before.removals);
    let labelled = crate::RunQuery { labels: [("team".to_owned(), "a".to_owned())].into(), ..everything() };
    assert_eq!(
        (store.list_runs(&labelled).unwrap(), store.quarantined(SHARD, None, ALL).unwrap()),
        (vec![], vec![])
    );
    assert_eq!(store.unfinished(SHARD, None, ALL).unwrap(), in_work(&[3]));
    assert_eq!(whole_log(&store).len(), 1);
    assert!(store.read_run(run_id(1), 0, ALL, ALL).unwrap().is_empty());
    // Its key names it as long as that of a run that has finished then.
    let keys = |before| Retention { keys_before: Millis(before), ..keep() };
    assert_eq!(writer.sweep(&keys(50)).unwrap().keys, 0);
    assert_eq!(store.key(SHARD, b"k").unwrap().unwrap().run, run_id(1));
    assert_eq!(writer.sweep(&keys(51)).unwrap().keys, 1);
    // Positions are not used again.
    accept(&mut *writer, &[creation(4)]);
    assert!(store.bounds(SHARD).unwrap().newest > before.newest);
    drop((store, writer));
    let subject = subject.reopened();
    assert_eq!(subject.store().unfinished(SHARD, None, ALL).unwrap(), in_work(&[3, 4]));
}

pub fn a_run_that_an_unfinished_one_needs_is_not_removed<S: Subject>() {
    const PARENT: u16 = 7;
    let (_subject, _store, mut writer) = claimed::<S>();
    let of_parent = Derived {
        place: crate::Place { seq: 1, n: 0 },
        kind: PARENT,
        key: run_id(1).0.as_bytes().to_vec().into(),
        value: b"".as_slice().into(),
    };
    let mut child = creation(2);
    child.derived.push(of_parent);
    accept(&mut *writer, &[creation(1), child, finish(2, 3, 10)]);
    assert_eq!(writer.remove(run_id(2), Some(PARENT), Millis(50)).unwrap(), Removal::Held);
    accept(&mut *writer, &[finish(1, 3, 11)]);
    assert!(matches!(writer.remove(run_id(2), Some(PARENT), Millis(50)).unwrap(), Removal::Removed { .. }));
}
