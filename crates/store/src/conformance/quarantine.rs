//! Rules for runs that are not to be worked on.

use super::*;
use crate::port::{Millis, Position, Quarantine, QuarantineReason, Retention};

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
