//! Rules for sweeps: removed and kept data.

use bytes::Bytes;

use super::*;
use crate::port::{
    Append, AppendOutcome, BlobHash, Bounds, Derived, Mark, Millis, Place, Position, REMOVED_AT_ONCE,
    ROW_COST, Removal, Removals, Retention, RunQuery, ShardWriter, Snapshot, Store, Swept,
};

/// Run `number` from its creation to its end at `at`, as two appends with 100 bytes of events each.
fn whole_run(number: u64, at: i64) -> [Append; 2] {
    [creation(number).events(vec![1; 100]), finish(number, 3, at).events(vec![2; 100])]
}

fn older_than(at: i64) -> Retention {
    Retention { finished_before: Some(Millis(at)), ..keep() }
}

/// The newest position, and the highest one that was removed.
fn bounds<S: Store>(store: &S) -> (u64, u64) {
    let Bounds { newest, removed, .. } = store.bounds(SHARD).unwrap();
    (newest.0, removed.0)
}

pub fn retention_by_age_takes_finished_runs_only<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(9)]);
    accept(&mut *writer, &whole_run(1, 10));
    accept(&mut *writer, &whole_run(2, 20));
    accept(&mut *writer, &[creation(8)]);
    assert_eq!(writer.sweep(&keep()).unwrap(), Swept::default());
    assert_eq!(writer.sweep(&older_than(10)).unwrap(), Swept::default());
    assert_eq!(writer.sweep(&older_than(11)).unwrap(), Swept { runs: 1, bytes: 200, ..Swept::default() });
    assert_eq!(bounds(&store), (6, 3));
    let rows: Vec<u64> = whole_log(&store).iter().map(|row| row.position.0).collect();
    assert_eq!(rows, [1, 4, 5, 6]);
    assert_eq!(writer.sweep(&older_than(i64::MAX)).unwrap().runs, 1);
    assert_eq!(listed(&store, &everything()), ids(&[9, 8]));
    assert_eq!(bounds(&store), (6, 5));
    // Kept runs continue; removed runs do not.
    assert_eq!(commit_one(&mut *writer, more(9, 3, 1)), AppendOutcome::Committed(Position(7)));
    assert_eq!(commit_one(&mut *writer, more(1, 4, 1)), AppendOutcome::Conflict);
    assert_eq!(commit_one(&mut *writer, creation(1)), AppendOutcome::Committed(Position(8)));
}

pub fn a_run_stays_while_a_run_that_it_names_is_unfinished<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let naming = |number: u64, kind, holder: u64| {
        let key = Bytes::copy_from_slice(run_id(holder).0.as_bytes());
        let row = Derived { place: Place { seq: 1, n: 0 }, kind, key, value: Bytes::new() };
        Append { derived: vec![row], ..creation(number) }
    };
    accept(&mut *writer, &[creation(9), naming(1, 7, 9), naming(2, 8, 9), naming(3, 7, 5)]);
    accept(&mut *writer, &[finish(1, 3, 10), finish(2, 3, 11), finish(3, 3, 12)]);
    let all = Retention { held_by: Some(7), max_log_bytes: Some(0), ..older_than(100) };
    assert_eq!(writer.sweep(&all).unwrap().runs, 2, "by another kind, and by a run that is not there");
    assert_eq!(listed(&store, &everything()), ids(&[9, 1]));
    accept(&mut *writer, &[finish(9, 3, 13)]);
    assert_eq!(writer.sweep(&Retention { batch: 1, ..all }).unwrap().runs, 1);
    assert_eq!(listed(&store, &everything()), ids(&[9]));
}

pub fn retention_by_size_takes_the_first_finished<S: Subject>() {
    let (subject, _, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(9).events(vec![0; 1_000])]);
    for (number, at) in [(1, 30), (2, 10), (3, 20), (4, 40)] {
        accept(&mut *writer, &whole_run(number, at));
    }
    let at_most = |bytes| Retention { max_log_bytes: Some(bytes), ..keep() };
    assert_eq!(writer.sweep(&at_most(1_800)).unwrap().runs, 0);
    assert_eq!(writer.sweep(&at_most(1_799)).unwrap(), Swept { runs: 1, bytes: 200, ..Swept::default() });
    drop(writer);
    let subject = subject.reopened();
    let store = subject.store();
    let mut writer = claim(&store);
    assert_eq!(listed(&store, &everything()), ids(&[9, 4, 3, 1]));
    assert_eq!(writer.sweep(&at_most(1_600)).unwrap().runs, 0);
    assert_eq!(writer.sweep(&at_most(1_300)).unwrap().runs, 2);
    assert_eq!(listed(&store, &everything()), ids(&[9, 4]));
    // Both rules apply at once; the unfinished run stays whatever its size.
    assert_eq!(writer.sweep(&Retention { finished_before: Some(Millis(5)), ..at_most(0) }).unwrap().runs, 1);
    assert_eq!(writer.sweep(&at_most(0)).unwrap().runs, 0);
    assert_eq!(listed(&store, &everything()), ids(&[9]));
}

pub fn retention_is_bounded<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    for number in 0..7 {
        let [first, last] = whole_run(number, 10);
        let first = first.key(&format!("k{number}"), 1);
        accept(&mut *writer, &[first, last]);
        store.put_blob(&number.to_le_bytes(), Millis(10)).unwrap();
    }
    let all = Retention { keys_before: Millis(11), blobs_before: Millis(11), batch: 3, ..older_than(11) };
    let sizes = |swept: Swept| (swept.runs, swept.keys, swept.blobs, swept.bytes);
    assert_eq!(sizes(writer.sweep(&Retention { batch: 0, ..all.clone() }).unwrap()), (0, 0, 0, 0));
    assert_eq!(sizes(writer.sweep(&all).unwrap()), (3, 3, 3, 624));
    assert_eq!(sizes(writer.sweep(&all).unwrap()), (3, 3, 3, 624));
    assert_eq!(sizes(writer.sweep(&all).unwrap()), (1, 1, 1, 208));
    assert_eq!(sizes(writer.sweep(&all).unwrap()), (0, 0, 0, 0));
    assert_eq!(whole_log(&store), []);
}

pub fn a_sweep_ends_at_its_bytes_and_takes_at_least_one_row<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    for number in 1..=5 {
        accept(&mut *writer, &whole_run(number, 10));
        store.put_blob(&[number as u8; 100], Millis(10)).unwrap();
    }
    // Each run has two rows, of 100 bytes of events each.
    let most = |bytes| Retention { batch_bytes: bytes, blobs_before: Millis(11), ..older_than(11) };
    let told = |swept: Swept| (swept.runs, swept.blobs, swept.bytes, swept.more);
    assert_eq!(
        told(writer.sweep(&most(0)).unwrap()),
        (1, 1, 200, true),
        "one row of the first, and one blob"
    );
    // The other row of the first run, and one of the second. All blobs have room.
    assert_eq!(told(writer.sweep(&most(2 * (100 + ROW_COST))).unwrap()), (1, 4, 600, true));
    // The other row of the second run, and both of the third.
    assert_eq!(told(writer.sweep(&most(2 * (100 + ROW_COST) + 1)).unwrap()), (1, 0, 300, true));
    assert_eq!(told(writer.sweep(&most(u64::MAX)).unwrap()), (2, 0, 400, false));
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 0);
}

/// A run of four rows, with 100, 50, 50 and 100 bytes of events, at the positions 1 to 4; and one that goes on.
fn run_of_four_rows(writer: &mut dyn ShardWriter) {
    let [first, last] =
        [creation(1).label("team", "a").events(vec![1; 100]), finish(1, 5, 10).events(vec![4; 100])];
    let between = [3, 4].map(|seq| more(1, seq, 1).events(vec![seq as u8; 50]));
    accept(writer, &[first]);
    accept(writer, &between);
    accept(writer, &[last, creation(2).events(vec![0; 10])]);
}

pub fn a_run_of_which_only_a_part_is_removed_is_there_for_nobody<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    run_of_four_rows(&mut *writer);
    let part = Retention { batch_bytes: 1, ..older_than(11) };
    let swept = writer.sweep(&part).unwrap();
    assert_eq!((swept.runs, swept.bytes, swept.more), (1, 100, true));
    assert_eq!(swept.next, Some((Millis(10), run_id(1))));
    let check = |store: &S::Adapter| {
        assert_eq!(store.get_run(run_id(1)).unwrap(), None);
        assert_eq!(store.read_run(run_id(1), 0, ALL, ALL).unwrap(), []);
        assert_eq!(store.read_run(run_id(1), 4, ALL, ALL).unwrap(), []);
        assert_eq!(store.extent(run_id(1), 5).unwrap(), None);
        assert_eq!(listed(store, &everything()), ids(&[2]));
        let positions: Vec<u64> = whole_log(store).iter().map(|row| row.position.0).collect();
        assert_eq!(positions, [5]);
        let bounds = store.bounds(SHARD).unwrap();
        assert_eq!((bounds.newest, bounds.removed, bounds.bytes), (Position(5), Position(4), 210));
    };
    check(&store);
    drop((store, writer));
    // Whoever comes after a crash goes on with it, whatever else is due.
    let subject = subject.reopened();
    let store = subject.store();
    check(&store);
    let mut writer = claim(&store);
    let rest = Retention { batch_bytes: 1, ..keep() };
    let swept = |bytes, more| Swept { bytes, more, ..Swept::default() };
    for expected in [swept(50, true), swept(50, true), swept(100, false), Swept::default()] {
        assert_eq!(writer.sweep(&rest).unwrap(), expected);
    }
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 10);
}

pub fn a_large_run_that_somebody_removes_goes_in_parts<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let half = REMOVED_AT_ONCE / 2;
    let large = |content: u8| vec![content; usize::try_from(half).unwrap()];
    accept(&mut *writer, &[creation(1).label("team", "a").events(large(1)), more(1, 3, 1).events(large(2))]);
    accept(&mut *writer, &[more(1, 4, 1).events(vec![3; 70]), finish(1, 5, 10).events(vec![4; 30])]);
    accept(&mut *writer, &[creation(2).events(vec![0; 10])]);
    let mut remove = |number| writer.remove(run_id(number), None, Millis(50)).unwrap();
    assert_eq!(remove(1), Removal::Removed { bytes: 2 * half }, "the two large rows");
    assert_eq!(remove(1), Removal::Missing);
    // Others have their turn between the parts.
    accept(&mut *writer, &[more(2, 3, 1).events(vec![0; 5])]);
    let check = |store: &S::Adapter| {
        assert_eq!(store.get_run(run_id(1)).unwrap(), None);
        assert_eq!(store.read_run(run_id(1), 0, ALL, ALL).unwrap(), []);
        assert_eq!(store.extent(run_id(1), 5).unwrap(), None);
        assert_eq!(listed(store, &everything()), ids(&[2]));
        let positions: Vec<u64> = whole_log(store).iter().map(|row| row.position.0).collect();
        assert_eq!(positions, [5, 6]);
        let bounds = store.bounds(SHARD).unwrap();
        assert_eq!((bounds.newest, bounds.removed, bounds.bytes), (Position(6), Position(4), 115));
        assert_eq!(bounds.removals, Removals::default().with(run_id(1), Position(4)));
    };
    check(&store);
    drop((store, writer));
    // A crash between the parts ends in its removal as well: the next sweep of whatever writer begins with it.
    let subject = subject.reopened();
    let store = subject.store();
    check(&store);
    let mut writer = claim(&store);
    let rest = Retention { batch_bytes: 1, ..keep() };
    let swept = |bytes, more| Swept { bytes, more, ..Swept::default() };
    for expected in [swept(70, true), swept(30, false), Swept::default()] {
        assert_eq!(writer.sweep(&rest).unwrap(), expected);
    }
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 15);
}

pub fn a_run_may_begin_anew_while_rows_of_its_namesake_are_left<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    run_of_four_rows(&mut *writer);
    assert_eq!(writer.sweep(&Retention { batch_bytes: 1, ..older_than(11) }).unwrap().bytes, 100);
    accept(&mut *writer, &[creation(1).events(vec![7; 20])]);
    // This is where the second row of the other one was.
    accept(&mut *writer, &[more(1, 3, 1).events(vec![8; 20])]);
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 50 + 100 + 10 + 20 + 20);
    let check = |store: &S::Adapter| {
        let rows = store.read_run(run_id(1), 0, ALL, ALL).unwrap();
        let rows: Vec<(u64, u64)> = rows.iter().map(|row| (row.position.0, row.first_seq)).collect();
        assert_eq!(rows, [(6, 1), (7, 3)]);
        assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 3);
        assert_eq!(store.extent(run_id(1), 3).unwrap().unwrap().bytes, 40);
    };
    check(&store);
    let rest = Retention { batch_bytes: 1, ..keep() };
    assert_eq!([50, 100, 0].map(|_| writer.sweep(&rest).unwrap().bytes), [50, 100, 0]);
    check(&store);
    // It ends, and goes while nothing is left of the other one.
    accept(&mut *writer, &[finish(1, 4, 20).events(vec![9; 20])]);
    let swept = writer.sweep(&older_than(21)).unwrap();
    assert_eq!(swept, Swept { runs: 1, bytes: 60, ..Swept::default() });
    assert_eq!(store.bounds(SHARD).unwrap().bytes, 10);
}

pub fn what_was_removed_has_a_number_of_its_own<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    for number in [1, 2, 3] {
        accept(&mut *writer, &whole_run(number, 10 + number as i64));
    }
    accept(&mut *writer, &[creation(9).events(vec![0; 50])]);
    let bounds = |store: &S::Adapter| {
        let bounds = store.bounds(SHARD).unwrap();
        (bounds.removals, bounds.bytes)
    };
    assert_eq!(bounds(&store), (Removals::default(), 650));
    assert_eq!(writer.sweep(&older_than(11)).unwrap().runs, 0);
    assert_eq!(bounds(&store).0, Removals::default(), "nothing was removed");
    assert_eq!(writer.sweep(&older_than(12)).unwrap().runs, 1);
    let one = bounds(&store);
    assert_eq!(one, (Removals::default().with(run_id(1), Position(2)), 450));
    drop((store, writer));
    let (subject, copy) = subject.reopened().copied();
    // Two copies have lost the same, and from then on each its own.
    let (store, copied) = (subject.store(), copy.store());
    assert_eq!((bounds(&store), bounds(&copied)), (one, one));
    let (mut writer, mut of_copy) = (claim(&store), copied.claim(SHARD, Mark(77)).unwrap());
    let second = Retention { keep: [run_id(3)].into(), ..older_than(20) };
    let third = Retention { keep: [run_id(2)].into(), ..older_than(20) };
    assert_eq!(writer.sweep(&second).unwrap().runs, 1);
    assert_eq!(of_copy.sweep(&third).unwrap().runs, 1);
    assert_ne!(bounds(&store).0, bounds(&copied).0);
    assert_eq!(writer.sweep(&older_than(20)).unwrap().runs, 1);
    assert_eq!(of_copy.sweep(&older_than(20)).unwrap().runs, 1);
    assert_eq!(bounds(&store), bounds(&copied), "whatever the order");
    assert_eq!(bounds(&store).1, 50);
}

pub fn retention_leaves_what_is_in_use<S: Subject>() {
    let (_subject, _store, mut writer) = claimed::<S>();
    for number in 1..=4 {
        accept(&mut *writer, &whole_run(number, 10));
    }
    // What stays must not use up the batch.
    let kept = [1, 2].map(run_id).into_iter().collect();
    let most = Retention { keep: kept, batch: 1, ..older_than(11) };
    assert_eq!([1, 1, 0].map(|_| writer.sweep(&most).unwrap().runs), [1, 1, 0]);
    assert_eq!(writer.sweep(&older_than(11)).unwrap().runs, 2);
}

pub fn a_sweep_looks_at_so_many_runs_and_says_where_to_go_on<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // Those with a key and those without one are one list, by the times at which they finished.
    for number in 1..=8 {
        let [first, last] = whole_run(number, 10 + number as i64 / 2);
        let first = if number % 3 == 0 { first.key(&format!("k{number}"), 1) } else { first };
        accept(&mut *writer, &[first, last]);
    }
    let kept = [1, 2, 3, 4, 5].map(run_id).into_iter().collect();
    let mut few = Retention { keep: kept, looked_at: 2, ..older_than(100) };
    let mut sweep = || {
        let Swept { runs, more, next, .. } = writer.sweep(&few).unwrap();
        few.after = next;
        (runs, more, next.map(|(at, run)| (at.0, run)))
    };
    assert_eq!(sweep(), (0, true, Some((11, run_id(2)))));
    assert_eq!(sweep(), (0, true, Some((12, run_id(4)))));
    assert_eq!(sweep(), (1, true, Some((13, run_id(6)))));
    assert_eq!(sweep(), (2, false, None));
    assert_eq!(listed(&store, &everything()), ids(&[5, 4, 3, 2, 1]));
    // Whoever begins anew comes to the same runs again, and a sweep looks at one at least.
    assert_eq!(sweep(), (0, true, Some((11, run_id(2)))));
    let none = Retention { looked_at: 0, ..older_than(100) };
    let swept = writer.sweep(&none).unwrap();
    assert_eq!((swept.runs, swept.more, swept.next), (1, true, Some((Millis(10), run_id(1)))));
}

pub fn a_sweep_that_ends_at_its_batch_says_where_to_go_on<S: Subject>() {
    let (_subject, _store, mut writer) = claimed::<S>();
    for number in 1..=3 {
        accept(&mut *writer, &whole_run(number, 10));
    }
    let two = Retention { batch: 2, ..older_than(11) };
    let swept = writer.sweep(&two).unwrap();
    assert_eq!((swept.runs, swept.more, swept.next), (2, true, Some((Millis(10), run_id(2)))));
    let after = |number| Retention { after: Some((Millis(10), run_id(number))), ..two.clone() };
    assert_eq!(writer.sweep(&after(3)).unwrap(), Swept::default(), "it is not after itself");
    assert_eq!(writer.sweep(&after(2)).unwrap(), Swept { runs: 1, bytes: 200, ..Swept::default() });
}

pub fn retention_takes_all_of_a_run<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let blob = store.put_blob(b"evidence", Millis(1)).unwrap();
    let [first, last] = whole_run(1, 10);
    accept(&mut *writer, &[first.label("team", "a").names(blob), last, more(1, 4, 1).events(Vec::new())]);
    let snapshot = Snapshot { seq: 3, format: 1, state: b"state".as_slice().into() };
    writer.put_snapshot(run_id(1), &snapshot).unwrap();
    let all = Retention { blobs_before: Millis(i64::MAX), ..older_than(11) };
    let swept = writer.sweep(&all).unwrap();
    assert_eq!(swept, Swept { runs: 1, blobs: 1, bytes: 208, ..Swept::default() });
    assert_eq!(store.get_run(run_id(1)).unwrap(), None);
    assert_eq!(store.read_run(run_id(1), 0, ALL, ALL).unwrap(), []);
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
    assert_eq!(store.blob_size(blob).unwrap(), None);
    let labelled = RunQuery { labels: [("team".to_owned(), "a".to_owned())].into(), ..everything() };
    assert_eq!(listed(&store, &labelled), []);
    assert_eq!(commit_one(&mut *writer, more(1, 5, 1)), AppendOutcome::Conflict);
    // A new run with the same id inherits nothing from the removed run.
    accept(&mut *writer, &[creation(1)]);
    assert_eq!(listed(&store, &labelled), []);
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
}

pub fn keys_outlive_their_run<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let [first, last] = whole_run(1, 10);
    accept(&mut *writer, &[first.key("k", 1), last]);
    assert_eq!(writer.sweep(&Retention { keys_before: Millis(10), ..older_than(11) }).unwrap().keys, 0);
    drop((store, writer));
    let subject = subject.reopened();
    let mut writer = claim(&subject.store());
    let taken = AppendOutcome::KeyTaken { run: run_id(1), same_request: true };
    assert_eq!(commit_one(&mut *writer, creation(2).key("k", 1)), taken);
    assert_eq!(writer.sweep(&Retention { keys_before: Millis(11), ..keep() }).unwrap().keys, 1);
    accept(&mut *writer, &[creation(2).key("k", 1)]);
}

pub fn keys_go_before_their_run_where_asked<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let [first, last] = whole_run(1, 10);
    accept(&mut *writer, &[first.key("k", 1), last, creation(2).key("j", 1)]);
    let keys = Retention { keys_before: Millis(i64::MAX), ..keep() };
    assert_eq!(writer.sweep(&keys).unwrap(), Swept { keys: 1, ..Swept::default() });
    assert_eq!(writer.sweep(&keys).unwrap(), Swept::default(), "the other run is not finished");
    accept(&mut *writer, &[creation(3).key("k", 1), finish(3, 3, 30)]);
    // The first run is removed; its former key belongs to another run.
    assert_eq!(writer.sweep(&Retention { keys_before: Millis(20), ..older_than(20) }).unwrap().runs, 1);
    let taken = AppendOutcome::KeyTaken { run: run_id(3), same_request: true };
    assert_eq!(commit_one(&mut *writer, creation(4).key("k", 1)), taken);
    assert_eq!(listed(&store, &everything()), ids(&[3, 2]));
}

pub fn blobs_go_when_old_and_unreferenced<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let put = |content: &[u8], at| store.put_blob(content, Millis(at)).unwrap();
    let (loose, shared, renewed) = (put(b"loose", 10), put(b"shared", 10), put(b"renewed", 10));
    // A blob that is named before it is put, and named twice by the same run.
    let early = BlobHash::of(b"early");
    accept(&mut *writer, &[creation(1).names(shared).names(early).names(shared), creation(2).names(shared)]);
    put(b"early", 10);
    put(b"renewed", 50);
    let before = |at| Retention { blobs_before: Millis(at), ..keep() };
    assert_eq!(writer.sweep(&before(10)).unwrap().blobs, 0);
    assert_eq!(writer.sweep(&before(11)).unwrap(), Swept { blobs: 1, bytes: 5, ..Swept::default() });
    assert_eq!(store.blob_size(loose).unwrap(), None);
    assert_eq!(store.blob_size(renewed).unwrap(), Some(7));
    accept(&mut *writer, &[finish(1, 3, 20)]);
    let swept = writer.sweep(&Retention { finished_before: Some(Millis(21)), ..before(11) }).unwrap();
    assert_eq!((swept.runs, swept.blobs), (1, 1), "run 2 still names the shared blob");
    assert_eq!(store.blob_size(early).unwrap(), None);
    assert_eq!(store.blob_size(shared).unwrap(), Some(6));
    // Removed content may be stored again.
    assert_eq!(put(b"loose", 60), loose);
    assert_eq!(store.blob_size(loose).unwrap(), Some(5));
    assert_eq!(writer.sweep(&before(60)).unwrap().blobs, 1, "the renewed one");
}

pub fn a_blob_that_is_renewed_is_as_young_as_one_that_is_put<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let [one, other] = [b"one", b"two"].map(|content| store.put_blob(content, Millis(10)).unwrap());
    let before = |at| Retention { blobs_before: Millis(at), ..keep() };
    let gone = BlobHash::of(b"gone");
    assert_eq!(store.renew_blobs(&[], Millis(50)).unwrap(), []);
    assert_eq!(store.renew_blobs(&[other, gone], Millis(50)).unwrap(), [gone], "and then none is renewed");
    assert_eq!(store.renew_blobs(&[one], Millis(50)).unwrap(), []);
    assert_eq!(store.renew_blobs(&[one], Millis(5)).unwrap(), [], "no blob gets older");
    assert_eq!(writer.sweep(&before(50)).unwrap().blobs, 1);
    assert_eq!(store.renew_blobs(&[one, other], Millis(60)).unwrap(), [other]);
    assert_eq!(writer.sweep(&before(51)).unwrap().blobs, 1);
    assert_eq!(store.blob_size(one).unwrap(), None);
}

pub fn positions_are_not_used_again_after_retention<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    accept(&mut *writer, &whole_run(2, 10));
    writer.sweep(&older_than(11)).unwrap();
    assert_eq!(bounds(&store), (3, 3));
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    assert_eq!(bounds(&store), (3, 3));
    let mut writer = claim(&store);
    assert_eq!(commit_one(&mut *writer, more(1, 3, 1)), AppendOutcome::Committed(Position(4)));
    assert_eq!(bounds(&store), (4, 3));
}
