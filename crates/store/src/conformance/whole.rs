//! Rules for what is not as it was written.

use super::*;
use crate::port::{LogRow, Millis, Position, Retention, RunQuery, Snapshot};

pub fn a_damaged_row_is_a_row_without_events<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let appends = [creation(1), creation(2), more(1, 3, 3), more(1, 6, 1).events("")];
    accept(&mut *writer, &appends);
    let whole: Vec<LogRow> = (1..).zip(&appends).map(|(position, append)| append.row(position)).collect();
    let without = |positions: &[u64]| -> Vec<LogRow> {
        let row = |row: &LogRow| match positions.contains(&row.position.0) {
            true => LogRow { events: None, ..row.clone() },
            false => row.clone(),
        };
        whole.iter().map(row).collect()
    };
    let of_run =
        |rows: Vec<LogRow>| -> Vec<LogRow> { rows.into_iter().filter(|row| row.run == run_id(1)).collect() };
    for positions in [&[3][..], &[4], &[1, 3]] {
        positions.iter().for_each(|position| subject.damage(Position(*position)));
        assert_eq!(whole_log(&store), without(positions));
        assert_eq!(store.read_run(run_id(1), 0, ALL, ALL).unwrap(), of_run(without(positions)));
        assert_eq!(store.read_run(run_id(2), 0, ALL, ALL).unwrap(), [whole[1].clone()], "another run");
        // A damaged row takes as much room on a page as before.
        let bytes = whole[0].events.as_ref().map_or(0, |events| events.len()) + 1;
        assert_eq!(store.read_log(SHARD, Position(0), ALL, bytes).unwrap().len(), 1);
        positions.iter().for_each(|position| subject.damage(Position(*position)));
        assert_eq!(whole_log(&store), whole, "the bytes are what they were");
    }
    subject.damage(Position(3));
    // The run list does not depend on the log, and the run and its neighbours go on.
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 6);
    accept(&mut *writer, &[more(2, 3, 1), more(1, 7, 1)]);
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    let damaged: Vec<u64> =
        whole_log(&store).iter().filter(|row| row.events.is_none()).map(|row| row.position.0).collect();
    assert_eq!(damaged, [3]);
}

pub fn a_damaged_snapshot_is_none<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(2)]);
    let snapshot = |state: &'static str| Snapshot { seq: 2, format: 1, state: state.into() };
    writer.put_snapshot(run_id(1), &snapshot("one")).unwrap();
    writer.put_snapshot(run_id(2), &snapshot("two")).unwrap();
    subject.damage_snapshot(run_id(1));
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
    assert_eq!(store.snapshot(run_id(2)).unwrap(), Some(snapshot("two")));
    subject.damage_snapshot(run_id(1));
    assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot("one")));
    subject.damage_snapshot(run_id(1));
    writer.put_snapshot(run_id(1), &snapshot("three")).unwrap();
    assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot("three")), "the next one is whole");
}

pub fn a_damaged_run_is_removed_like_any_other<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).label("team", "a"), finish(1, 3, 10)]);
    subject.damage(Position(1));
    let swept = writer.sweep(&Retention { finished_before: Some(Millis(11)), ..keep() }).unwrap();
    assert_eq!(swept.runs, 1);
    assert_eq!(whole_log(&store), []);
    assert_eq!(listed(&store, &RunQuery { limit: 9, ..everything() }), []);
}
