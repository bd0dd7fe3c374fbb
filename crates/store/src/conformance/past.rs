//! Rules for runs that begin with the log of another one.

use super::*;
use crate::port::{
    Append, AppendOutcome, BlobHash, Extent, LogRow, Millis, Past, Position, Retention, Store, Swept,
};

/// The first append of run `number`, which begins with the log of run `of` up to event `seq`: one event of its own.
pub fn fork(number: u64, of: u64, seq: u64) -> Append {
    let mut append = Append { first_seq: seq + 1, count: 1, ..creation(number) };
    if let Some(create) = &mut append.create {
        create.past = Some(Past { of: run_id(of), seq });
    }
    append
}

/// The row as run `number` has it, which begins with it.
fn inherited(row: LogRow, number: u64) -> LogRow {
    LogRow { run: run_id(number), inherited: true, ..row }
}

pub fn a_run_begins_with_the_log_of_another<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // Events 1 and 2, 3 to 5, and 6.
    let base = [creation(1), more(1, 3, 3), more(1, 6, 1)];
    accept(&mut *writer, &base);
    let own = fork(2, 1, 5);
    assert_eq!(accept(&mut *writer, std::slice::from_ref(&own)), [Position(6)], "two rows come before it");
    let expected = [inherited(base[0].row(4), 2), inherited(base[1].row(5), 2), own.row(6)];
    assert_eq!(store.read_run(run_id(2), 0, ALL, ALL).unwrap(), expected);
    assert_eq!(store.read_log(SHARD, Position(3), ALL, ALL).unwrap(), expected);
    assert_eq!(store.read_run(run_id(2), 5, ALL, ALL).unwrap(), expected[2..]);
    let row = store.get_run(run_id(2)).unwrap().unwrap();
    assert_eq!((row.last_seq, row.created_at), (6, Millis(1_000)));
    // Each goes on for itself, and what is inherited is inherited again.
    accept(&mut *writer, &[more(2, 7, 1), more(1, 7, 1)]);
    accept(&mut *writer, &[fork(3, 2, 6)]);
    let rows = store.read_run(run_id(3), 0, ALL, ALL).unwrap();
    let told: Vec<(u64, bool)> = rows.iter().map(|row| (row.first_seq, row.inherited)).collect();
    assert_eq!(told, [(1, true), (3, true), (6, true), (7, false)]);
}

pub fn a_past_is_measured_without_its_events<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    // Events 1 and 2, 3 to 5, and 6, beside another run.
    let base = [
        creation(1).events(vec![1; 10]),
        creation(2).events(vec![1; 9_000]),
        more(1, 3, 3).events(vec![2; 200]),
        more(1, 6, 1).events(vec![3; 7_000]),
    ];
    accept(&mut *writer, &base);
    let extent = |first, last, bytes| Some(Extent { first, last, bytes });
    for (seq, expected) in [
        (0, None),
        (1, extent(1, 2, 10)),
        (2, extent(1, 2, 10)),
        (3, extent(3, 5, 210)),
        (5, extent(3, 5, 210)),
        (6, extent(6, 6, 7_210)),
        (7, None),
        (u64::MAX, None),
    ] {
        assert_eq!(store.extent(run_id(1), seq).unwrap(), expected, "up to event {seq}");
    }
    assert_eq!(store.extent(run_id(9), 1).unwrap(), None, "there is no such run");
    subject.damage(Position(1));
    assert_eq!(store.extent(run_id(1), 3).unwrap(), extent(3, 5, 210), "nothing is read of the events");
}

pub fn a_past_ends_with_a_whole_row_that_is_there<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), more(1, 3, 3)]);
    for (of, seq, why) in [
        (9, 2, "there is no such run"),
        (1, 1, "within the first row"),
        (1, 4, "within the second row"),
        (1, 6, "behind the last event"),
        (1, 0, "before the first event"),
    ] {
        assert_eq!(commit_one(&mut *writer, fork(2, of, seq)), AppendOutcome::PastGone, "{why}");
    }
    assert_eq!(commit_one(&mut *writer, fork(1, 1, 2)), AppendOutcome::Conflict, "of itself");
    let gap = Append { first_seq: 4, ..fork(2, 1, 2) };
    assert_eq!(commit_one(&mut *writer, gap), AppendOutcome::Conflict, "not the next event");
    subject.damage(Position(1));
    assert_eq!(commit_one(&mut *writer, fork(2, 1, 5)), AppendOutcome::PastGone, "a row is damaged");
    subject.damage(Position(1));
    assert_eq!(whole_log(&store).len(), 2, "nothing was written");
    // A key that is taken is told before anything else, as it is to a run that begins by itself.
    accept(&mut *writer, &[creation(3).key("k", 1)]);
    let taken = AppendOutcome::KeyTaken { run: run_id(3), same_request: true };
    assert_eq!(commit_one(&mut *writer, fork(2, 9, 2).key("k", 1)), taken);
    assert_eq!(commit_one(&mut *writer, fork(2, 1, 2).key("k", 1)), taken);
    assert_eq!(commit_one(&mut *writer, fork(2, 9, 2).key("other", 1)), AppendOutcome::PastGone);
    assert_eq!(commit_one(&mut *writer, fork(3, 9, 2)), AppendOutcome::Conflict, "it exists");
    // The key of what was refused is free.
    accept(&mut *writer, &[fork(2, 1, 2).key("other", 1)]);
}

pub fn a_past_outlives_the_run_that_it_was<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let blob = store.put_blob(b"named by the base", Millis(1)).unwrap();
    let base = [creation(1).events(vec![1; 100]).names(blob), finish(1, 3, 10).events(vec![2; 100])];
    accept(&mut *writer, &base);
    let own = fork(2, 1, 2).events(vec![3; 10]);
    accept(&mut *writer, std::slice::from_ref(&own));
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 310, "a copy counts like any row");
    let all = Retention { finished_before: Some(Millis(i64::MAX)), blobs_before: Millis(i64::MAX), ..keep() };
    assert_eq!(writer.sweep(&all).unwrap(), Swept { runs: 1, bytes: 200, ..Swept::default() });
    assert_eq!(store.read_run(run_id(2), 0, ALL, ALL).unwrap(), [inherited(base[0].row(3), 2), own.row(4)]);
    assert_eq!(store.blob_size(blob).unwrap(), Some(17), "the fork names it");
    accept(&mut *writer, &[finish(2, 4, 20).events(vec![4; 5])]);
    let swept = writer.sweep(&all).unwrap();
    assert_eq!((swept.runs, swept.blobs, swept.bytes), (1, 1, 100 + 10 + 5 + 17));
    assert_eq!(store.blob_size(BlobHash::of(b"named by the base")).unwrap(), None);
}
