//! Rules for derived rows, and for rows that are written again.

use super::*;
use crate::port::{
    Append, AppendOutcome, Derived, DerivedRow, MAX_DERIVED_KEY, Mended, Millis, Place, Rest, Retention,
    Store,
};

/// A derived row of kind 1.
pub fn derived(seq: u64, n: u32, key: &str) -> Derived {
    let value = format!("row {n} of event {seq}").into();
    Derived { place: Place { seq, n }, kind: 1, key: key.to_owned().into(), value }
}

fn with(append: Append, rows: &[Derived]) -> Append {
    Append { derived: rows.to_vec(), ..append }
}

#[track_caller]
fn found(store: &impl Store, kind: u16, key: &str) -> Vec<(RunId, Derived)> {
    let rows = store.derived(kind, key.as_bytes(), None, ALL).unwrap();
    rows.into_iter().map(|DerivedRow { run, row }| (run, row)).collect()
}

pub fn derived_rows_are_durable_with_their_events<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let (first, second, third) = (derived(1, 0, "a"), derived(2, 0, ""), derived(2, 1, "a"));
    let rows = [first.clone(), second.clone(), third.clone()];
    accept(&mut *writer, &[with(creation(1), &rows)]);
    let later = derived(4, 7, "a");
    accept(&mut *writer, &[with(more(1, 3, 2), std::slice::from_ref(&later))]);
    let of = |row: &Derived| (run_id(1), row.clone());
    for store in [store, subject.store()] {
        assert_eq!(found(&store, 1, "a"), [of(&first), of(&third), of(&later)]);
        assert_eq!(found(&store, 1, ""), [of(&second)]);
        let all = [first.clone(), second.clone(), third.clone(), later.clone()];
        assert_eq!(store.derived_of(run_id(1), None, ALL).unwrap(), all);
    }
    drop(writer);
    let subject = subject.reopened();
    assert_eq!(found(&subject.store(), 1, "a"), [of(&first), of(&third), of(&later)]);
}

pub fn an_append_with_rows_of_other_events_is_a_conflict<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    let long = "k".repeat(MAX_DERIVED_KEY + 1);
    let refused: [&[Derived]; 6] = [
        &[derived(2, 0, "a")],
        &[derived(5, 0, "a")],
        &[derived(3, 0, "a"), derived(3, 0, "b")],
        &[derived(4, 0, "a"), derived(3, 0, "a")],
        &[derived(3, 1, "a"), derived(3, 0, "a")],
        &[derived(3, 0, &long)],
    ];
    for rows in refused {
        assert_eq!(commit_one(&mut *writer, with(more(1, 3, 2), rows)), AppendOutcome::Conflict, "{rows:?}");
    }
    // What does not follow leaves no rows either, alone or with a neighbour.
    let late = with(more(1, 9, 2), &[derived(9, 0, "a")]);
    assert_eq!(commit_one(&mut *writer, late.clone()), AppendOutcome::Conflict);
    let joined = with(more(1, 3, 1), &[derived(3, 0, "a")]).joined();
    let outcomes = writer.commit(&[joined, Append { run: run_id(2), ..late }]).unwrap();
    assert_eq!(outcomes, [AppendOutcome::Conflict, AppendOutcome::Conflict]);
    assert_eq!(store.derived_of(run_id(1), None, ALL).unwrap(), []);
    assert_eq!(found(&store, 1, "a"), []);
    let longest = derived(3, 0, &long[1..]);
    accept(&mut *writer, &[with(more(1, 3, 2), std::slice::from_ref(&longest))]);
    assert_eq!(found(&store, 1, &long[1..]), [(run_id(1), longest)]);
}

pub fn derived_rows_are_found_by_kind_and_whole_key_in_pages<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let other = Derived { kind: 2, ..derived(1, 2, "a") };
    for number in [3, 1, 2] {
        let rows = [derived(1, 0, "a"), derived(1, 1, "ab"), other.clone(), derived(2, 0, "a")];
        accept(&mut *writer, &[with(creation(number), &rows)]);
    }
    let places = |rows: Vec<DerivedRow>| -> Vec<(RunId, u64, u32)> {
        rows.into_iter().map(|found| (found.run, found.row.place.seq, found.row.place.n)).collect()
    };
    let all: Vec<_> =
        [1, 2, 3].into_iter().flat_map(|number| [1, 2].map(|seq| (run_id(number), seq, 0))).collect();
    assert_eq!(places(store.derived(1, b"a", None, ALL).unwrap()), all);
    assert_eq!(places(store.derived(2, b"a", None, ALL).unwrap()), ids(&[1, 2, 3]).map_place(1, 2));
    assert_eq!(places(store.derived(3, b"a", None, ALL).unwrap()), []);
    assert_eq!(places(store.derived(1, b"", None, ALL).unwrap()), []);
    for limit in 1..=all.len() {
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = places(store.derived(1, b"a", after, limit).unwrap());
            let Some((run, seq, n)) = page.last().copied() else { break };
            assert!(page.len() <= limit);
            after = Some((run, Place { seq, n }));
            paged.extend(page);
        }
        assert_eq!(paged, all);
    }
    assert_eq!(store.derived(1, b"a", None, 0).unwrap(), []);
    let after = Some(Place { seq: 1, n: 1 });
    let rest = store.derived_of(run_id(2), after, 1).unwrap();
    assert_eq!(rest, [other]);
    assert_eq!(store.derived_of(run_id(2), Some(Place { seq: 2, n: 0 }), ALL).unwrap(), []);
    assert_eq!(store.derived_of(run_id(9), None, ALL).unwrap(), []);
}

/// Places of one row for each run.
trait MapPlace {
    fn map_place(self, seq: u64, n: u32) -> Vec<(RunId, u64, u32)>;
}

impl MapPlace for Vec<RunId> {
    fn map_place(self, seq: u64, n: u32) -> Vec<(RunId, u64, u32)> {
        self.into_iter().map(|run| (run, seq, n)).collect()
    }
}

pub fn derived_rows_go_with_their_run<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    for number in [1, 2] {
        accept(&mut *writer, &[with(creation(number), &[derived(1, 0, "a"), derived(2, 0, "b")])]);
    }
    accept(&mut *writer, &[finish(1, 3, 10)]);
    let retention = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert_eq!(writer.sweep(&retention).unwrap().runs, 1);
    assert_eq!(store.derived_of(run_id(1), None, ALL).unwrap(), []);
    assert_eq!(found(&store, 1, "a"), [(run_id(2), derived(1, 0, "a"))]);
    assert_eq!(store.strays(None, ALL).unwrap(), []);
    // A new run with the same id inherits nothing from the removed run.
    accept(&mut *writer, &[creation(1)]);
    assert_eq!(store.derived_of(run_id(1), None, ALL).unwrap(), []);
}

pub fn rows_that_are_written_again_replace_what_is_there<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let before =
        with(creation(1).label("team", "a").summary(updated(5)), &[derived(1, 0, "a"), derived(2, 0, "a")]);
    accept(&mut *writer, &[before, creation(2)]);
    let (rows, log) = (store.list_runs(&everything()).unwrap(), whole_log(&store));
    let rest = Some(Rest { due_at: Some(Millis(70)), due_in: 7 });
    let mended = Mended {
        run: run_id(1),
        last_seq: 2,
        summary: finish(1, 3, 9).summary.unwrap(),
        rest: None,
        derived: vec![derived(1, 1, "b"), derived(2, 0, "a")],
        memory: Vec::new(),
    };
    let nobody = Mended { run: run_id(7), ..mended.clone() };
    let unfinished =
        Mended { run: run_id(2), summary: updated(6), rest, derived: Vec::new(), ..mended.clone() };
    writer.mend(&[mended.clone(), nobody, unfinished]).unwrap();
    writer.mend(&[]).unwrap();
    let mut expected = rows;
    expected[1].summary = mended.summary.clone();
    expected[0].summary = updated(6);
    assert_eq!(store.list_runs(&everything()).unwrap(), expected);
    assert_eq!(store.derived_of(run_id(1), None, ALL).unwrap(), mended.derived);
    assert_eq!(found(&store, 1, "a"), [(run_id(1), derived(2, 0, "a"))]);
    assert_eq!(store.derived_of(run_id(7), None, ALL).unwrap(), [], "there is no such run");
    let waiting = store.unfinished(SHARD, None, ALL).unwrap();
    assert_eq!(waiting, [crate::port::Unfinished { run: run_id(2), rest }]);
    assert_eq!(whole_log(&store), log);
    // The number of a run's last event is what the next append has to follow.
    writer.mend(&[Mended { last_seq: 5, ..mended.clone() }]).unwrap();
    assert_eq!(commit_one(&mut *writer, more(1, 3, 1)), AppendOutcome::Conflict);
    let first = mended.clone();
    writer.mend(&[mended]).unwrap();
    accept(&mut *writer, &[more(1, 3, 1)]);
    drop((store, writer));
    let subject = subject.reopened();
    assert_eq!(subject.store().derived_of(run_id(1), None, ALL).unwrap().len(), 2);
    // A writer that is fenced mends nothing.
    let mut old = claim(&subject.store());
    let _new = claim(&subject.store());
    let other = Mended { last_seq: 3, derived: Vec::new(), ..first };
    assert!(old.mend(&[other]).is_err());
    assert_eq!(subject.store().derived_of(run_id(1), None, ALL).unwrap().len(), 2);
}

pub fn derived_rows_without_a_run_are_strays_until_they_are_mended<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[with(creation(1), &[derived(1, 0, "a")])]);
    for number in [3, 2, 5] {
        subject.leave_derived(run_id(number), &derived(1, 0, "a"));
        subject.leave_derived(run_id(number), &derived(2, 0, "b"));
    }
    assert_eq!(store.strays(None, ALL).unwrap(), ids(&[2, 3, 5]));
    assert_eq!(store.strays(None, 2).unwrap(), ids(&[2, 3]));
    assert_eq!(store.strays(Some(run_id(2)), 1).unwrap(), ids(&[3]));
    assert_eq!(store.strays(Some(run_id(5)), ALL).unwrap(), []);
    let gone = |number| Mended {
        run: run_id(number),
        last_seq: 0,
        summary: updated(0),
        rest: None,
        derived: Vec::new(),
        memory: Vec::new(),
    };
    writer.mend(&[gone(2), gone(5)]).unwrap();
    assert_eq!(store.strays(None, ALL).unwrap(), ids(&[3]));
    assert_eq!(found(&store, 1, "b"), [(run_id(3), derived(2, 0, "b"))]);
    assert_eq!(store.get_run(run_id(2)).unwrap(), None);
}
