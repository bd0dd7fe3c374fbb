//! Rules for the memory of execution modes.

use super::*;
use crate::port::{
    Append, AppendOutcome, FoundEntry, MEMORY_TYPES, MemoryChange, MemoryEntry, MemoryOf, MemoryOrder,
    MemoryPage, MemoryRow, MemorySearch, Mended, Millis, Place, Recall, Retention, Store, entry_id,
};

/// A change of memory by the event `seq`.
pub fn memory_row(seq: u64, n: u32, change: MemoryChange) -> MemoryRow {
    MemoryRow { place: Place { seq, n }, change }
}

/// An entry of the session `s` in the mode `simple`, of this type and time.
pub fn remembered(seq: u64, kind: &str, at: i64) -> MemoryRow {
    let entry = MemoryEntry {
        session: "s".to_owned(),
        mode: "simple".to_owned(),
        kind: kind.to_owned(),
        at: Millis(at),
        content: format!("What the {kind} of {at} says"),
        digest: format!("{kind} {at}"),
        tools: vec!["shell".to_owned()],
        files: vec!["a \"b\".txt".to_owned(), "日本.md".to_owned()],
        related_to: vec!["x".to_owned()],
    };
    memory_row(seq, 0, MemoryChange::Entry(Box::new(entry)))
}

fn vote(seq: u64, n: u32, entry: &str, quarters: i8) -> MemoryRow {
    memory_row(seq, n, MemoryChange::Vote { entry: entry.to_owned(), quarters })
}

fn forgotten(seq: u64, entry: &str) -> MemoryRow {
    memory_row(seq, 0, MemoryChange::Forgotten { entry: entry.to_owned() })
}

fn with(append: Append, rows: &[MemoryRow]) -> Append {
    Append { memory: rows.to_vec(), ..append }
}

/// The id of what event `seq` of run `number` has left.
fn id(number: u64, seq: u64) -> String {
    entry_id(run_id(number), Place { seq, n: 0 })
}

/// A recall of everything in the session `s` and the mode `simple`.
fn all(order: MemoryOrder) -> Recall<'static> {
    Recall { session: "s", mode: "simple", kinds: &MEMORY_TYPES, since: Millis(i64::MIN), order, limit: ALL }
}

fn ids_of(found: Vec<FoundEntry>) -> Vec<String> {
    found.into_iter().map(|found| found.id).collect()
}

#[track_caller]
fn newest(store: &impl Store) -> Vec<String> {
    ids_of(store.recall(&all(MemoryOrder::NewestFirst)).unwrap())
}

#[track_caller]
fn relevance(store: &impl Store, id: &str) -> f64 {
    store.memory_entry(id).unwrap().unwrap().relevance
}

pub fn what_is_remembered_is_durable_with_its_event<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let rows = [remembered(1, "error", 5), remembered(2, "solution", 7)];
    accept(&mut *writer, &[with(creation(1), &rows)]);
    let MemoryChange::Entry(entry) = rows[0].change.clone() else { panic!("{rows:?}") };
    let first = FoundEntry {
        id: format!("{}-1-0", run_id(1)),
        run: run_id(1),
        place: Place { seq: 1, n: 0 },
        relevance: 1.0,
        entry: *entry,
    };
    assert_eq!(store.memory_entry(&id(1, 1)).unwrap(), Some(first.clone()));
    assert_eq!(newest(&store), [id(1, 2), id(1, 1)]);
    assert_eq!(store.memory_of(run_id(1)).unwrap(), MemoryOf { rows: rows.to_vec(), misjudged: Vec::new() });
    assert_eq!(store.memory_entry("nobody").unwrap(), None);
    drop((store, writer));
    let subject = subject.reopened();
    assert_eq!(subject.store().memory_entry(&id(1, 1)).unwrap(), Some(first));
}

pub fn memory_of_other_events_types_or_modes_is_a_conflict<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    let changed = |change: fn(&mut MemoryEntry)| {
        let mut row = remembered(3, "error", 5);
        let MemoryChange::Entry(entry) = &mut row.change else { panic!("{row:?}") };
        change(entry);
        vec![row]
    };
    let refused = [
        vec![remembered(2, "error", 5)],
        vec![remembered(5, "error", 5)],
        vec![remembered(3, "error", 5), remembered(3, "plan", 5)],
        vec![remembered(4, "error", 5), remembered(3, "plan", 5)],
        vec![remembered(3, "opinion", 5)],
        changed(|entry| entry.mode = "chaotic".to_owned()),
        changed(|entry| entry.session = String::new()),
        changed(|entry| entry.session = "s".repeat(257)),
        vec![vote(3, 0, "", 1)],
        vec![forgotten(3, &"x".repeat(257))],
    ];
    for rows in refused {
        let outcome = commit_one(&mut *writer, with(more(1, 3, 2), &rows));
        assert_eq!(outcome, AppendOutcome::Conflict, "{rows:?}");
    }
    assert_eq!(store.memory_of(run_id(1)).unwrap(), MemoryOf::default());
    assert_eq!(newest(&store), Vec::<String>::new());
}

pub fn recall_is_of_a_session_a_mode_types_and_a_time<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let mut rows: Vec<MemoryRow> =
        MEMORY_TYPES.iter().zip(1..).map(|(kind, seq)| remembered(seq, kind, 10 * seq as i64)).collect();
    let mut other = |seq, change: fn(&mut MemoryEntry)| {
        let mut row = remembered(seq, "error", 90);
        if let MemoryChange::Entry(entry) = &mut row.change {
            change(entry);
        }
        rows.push(row);
    };
    other(8, |entry| entry.session = "t".to_owned());
    other(9, |entry| entry.mode = "planner".to_owned());
    accept(&mut *writer, &[with(Append { count: 9, ..creation(1) }, &rows)]);
    let recalled = |wanted: &Recall<'_>| ids_of(store.recall(wanted).unwrap());
    let everything = all(MemoryOrder::NewestFirst);
    assert_eq!(newest(&store), [7, 6, 5, 4, 3, 2, 1].map(|seq| id(1, seq)));
    // The seed's query of `simple`: errors and solutions, the newest first.
    let kinds = &["error", "solution"];
    let simple = Recall { kinds, ..everything.clone() };
    assert_eq!(recalled(&simple), [id(1, 6), id(1, 2)]);
    assert_eq!(recalled(&Recall { limit: 1, ..simple.clone() }), [id(1, 6)]);
    assert_eq!(recalled(&Recall { limit: 0, ..simple.clone() }), Vec::<String>::new());
    // What is as old as the bound is too old.
    assert_eq!(recalled(&Recall { since: Millis(20), ..simple.clone() }), [id(1, 6)]);
    assert_eq!(recalled(&Recall { since: Millis(19), ..simple }), [id(1, 6), id(1, 2)]);
    assert_eq!(recalled(&Recall { kinds: &[], ..everything.clone() }), Vec::<String>::new());
    assert_eq!(recalled(&Recall { session: "t", ..everything.clone() }), [id(1, 8)]);
    assert_eq!(recalled(&Recall { mode: "planner", ..everything }), [id(1, 9)]);
}

pub fn the_most_relevant_is_recalled_first_and_equal_ones_by_their_ids<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let rows: Vec<MemoryRow> = (1..=4).map(|seq| remembered(seq, "success", 5)).collect();
    accept(&mut *writer, &[with(Append { count: 4, ..creation(1) }, &rows)]);
    let votes = [vote(1, 0, &id(1, 3), 1), vote(1, 1, &id(1, 2), -2), vote(2, 0, &id(1, 4), 1)];
    accept(&mut *writer, &[with(creation(2), &votes)]);
    let best = store.recall(&all(MemoryOrder::MostRelevantFirst)).unwrap();
    let told: Vec<(String, f64)> = best.into_iter().map(|found| (found.id, found.relevance)).collect();
    assert_eq!(told, [(id(1, 3), 1.25), (id(1, 4), 1.25), (id(1, 1), 1.0), (id(1, 2), 0.5)]);
    assert_eq!(newest(&store), [1, 2, 3, 4].map(|seq| id(1, seq)), "they are of one moment");
}

pub fn relevance_is_from_0_to_5_whatever_order_the_votes_have<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // The first two votes come before the entry that they are about.
    let early = [vote(1, 0, &id(1, 1), -100), vote(2, 0, &id(1, 1), 1)];
    accept(&mut *writer, &[with(creation(2), &early)]);
    accept(&mut *writer, &[with(creation(1), &[remembered(1, "success", 5)])]);
    assert_eq!(relevance(&store, &id(1, 1)).to_bits(), 0.0_f64.to_bits());
    accept(&mut *writer, &[with(more(2, 3, 1), &[vote(3, 0, &id(1, 1), 98)])]);
    assert_eq!(relevance(&store, &id(1, 1)).to_bits(), 0.75_f64.to_bits(), "1 - 25 + 0.25 + 24.5");
    accept(&mut *writer, &[with(more(2, 4, 1), &[vote(4, 0, &id(1, 1), 127)])]);
    assert_eq!(relevance(&store, &id(1, 1)).to_bits(), 5.0_f64.to_bits());
}

pub fn what_was_forgotten_is_not_written_again<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let rows = [remembered(1, "error", 5), remembered(2, "error", 6)];
    accept(&mut *writer, &[with(creation(1), &rows)]);
    // One of them is there, another one not yet, a third one never.
    let said = [forgotten(1, &id(1, 1)), forgotten(2, &id(3, 1))];
    accept(&mut *writer, &[with(creation(2), &said)]);
    accept(&mut *writer, &[with(creation(3), &[remembered(1, "error", 7)])]);
    assert_eq!(newest(&store), [id(1, 2)]);
    assert_eq!(store.memory_entry(&id(1, 1)).unwrap(), None);
    assert!(store.is_forgotten(&id(1, 1)).unwrap() && !store.is_forgotten(&id(1, 2)).unwrap());
    assert_eq!(store.memory_of(run_id(2)).unwrap().rows, said);
    assert_eq!(store.memory_of(run_id(1)).unwrap().rows, rows[1..]);
    let again = Mended {
        run: run_id(1),
        last_seq: 2,
        summary: updated(5),
        rest: None,
        derived: Vec::new(),
        memory: rows.to_vec(),
    };
    writer.mend(&[again]).unwrap();
    assert_eq!(newest(&store), [id(1, 2)]);
    drop((store, writer));
    assert!(subject.reopened().store().is_forgotten(&id(1, 1)).unwrap());
}

pub fn a_run_that_goes_back_takes_back_its_own_memory<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[with(creation(1), &[remembered(1, "error", 1), remembered(2, "error", 2)])]);
    accept(&mut *writer, &[with(creation(2), &[remembered(1, "error", 3), vote(2, 0, &id(1, 2), 1)])]);
    let back = [
        vote(3, 0, &id(2, 1), 1),
        vote(3, 1, &id(1, 2), 1),
        remembered(4, "error", 4),
        memory_row(5, 0, MemoryChange::Back { to_seq: 2 }),
        remembered(6, "error", 6),
    ];
    accept(&mut *writer, &[with(more(2, 3, 4), &back)]);
    assert_eq!(newest(&store), [id(2, 6), id(2, 1), id(1, 2), id(1, 1)]);
    assert_eq!(relevance(&store, &id(2, 1)).to_bits(), 1.0_f64.to_bits());
    assert_eq!(relevance(&store, &id(1, 2)).to_bits(), 1.25_f64.to_bits(), "the vote before that stays");
    let rows = [remembered(1, "error", 3), vote(2, 0, &id(1, 2), 1), remembered(6, "error", 6)];
    assert_eq!(store.memory_of(run_id(2)).unwrap().rows, rows);
    assert_eq!(crate::port::settled(&[&rows[..2], &back].concat()), rows);
}

pub fn memory_goes_with_its_run<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[with(creation(1), &[remembered(1, "error", 1), vote(2, 0, &id(2, 1), 2)])]);
    accept(&mut *writer, &[with(creation(2), &[remembered(1, "error", 3)]), finish(1, 3, 10)]);
    assert_eq!(relevance(&store, &id(2, 1)).to_bits(), 1.5_f64.to_bits());
    let retention = Retention { finished_before: Some(Millis(11)), ..keep() };
    assert_eq!(writer.sweep(&retention).unwrap().runs, 1);
    assert_eq!(newest(&store), [id(2, 1)]);
    assert_eq!(
        relevance(&store, &id(2, 1)).to_bits(),
        1.0_f64.to_bits(),
        "nobody has said that it is better"
    );
    assert_eq!(store.memory_of(run_id(1)).unwrap(), MemoryOf::default());
    assert_eq!(store.strays(None, ALL).unwrap(), []);
}

pub fn what_is_forgotten_outlives_the_run_that_it_is_of<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[with(creation(1), &[remembered(1, "error", 1)])]);
    // The stream of a session, which has nothing else to be kept for.
    let forgotten = MemoryChange::Forgotten { entry: id(1, 1) };
    accept(&mut *writer, &[with(creation(2), &[memory_row(1, 0, forgotten)]), finish(2, 3, 5)]);
    let all = Retention { finished_before: Some(Millis(100)), ..keep() };
    assert_eq!(writer.sweep(&all).unwrap().runs, 0, "the run is there, whose entry could be written again");
    assert!(store.is_forgotten(&id(1, 1)).unwrap());
    accept(&mut *writer, &[finish(1, 3, 6)]);
    assert_eq!(writer.sweep(&all).unwrap().runs, 1);
    assert_eq!(writer.sweep(&all).unwrap().runs, 1);
    assert!(!store.is_forgotten(&id(1, 1)).unwrap());
}

pub fn memory_that_is_written_again_replaces_what_is_there<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[with(creation(1), &[remembered(1, "error", 1), remembered(2, "error", 2)])]);
    accept(&mut *writer, &[with(creation(2), &[vote(1, 0, &id(1, 1), 1), vote(2, 0, &id(1, 2), 1)])]);
    let mended = |number: u64, memory: Vec<MemoryRow>| Mended {
        run: run_id(number),
        last_seq: 2,
        summary: updated(5),
        rest: None,
        derived: Vec::new(),
        memory,
    };
    let gone_back = vec![
        remembered(1, "plan", 1),
        remembered(2, "error", 2),
        memory_row(2, 1, MemoryChange::Back { to_seq: 1 }),
    ];
    writer.mend(&[mended(2, vec![vote(2, 0, &id(1, 1), 3)]), mended(1, gone_back)]).unwrap();
    assert_eq!(newest(&store), [id(1, 1)]);
    assert_eq!(store.memory_entry(&id(1, 1)).unwrap().unwrap().entry.kind, "plan");
    assert_eq!(relevance(&store, &id(1, 1)).to_bits(), 1.75_f64.to_bits());
    // Of a run that is not there, nothing is written.
    writer.mend(&[mended(7, vec![remembered(1, "error", 1)])]).unwrap();
    assert_eq!(store.memory_of(run_id(7)).unwrap(), MemoryOf::default());
}

fn everything_of(session: &str) -> MemorySearch {
    MemorySearch { session: session.to_owned(), limit: ALL, looked_at: ALL, ..MemorySearch::default() }
}

pub fn a_search_of_memory_looks_at_so_many_entries_and_says_where_to_go_on<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    // Only the oldest entry has the text.
    let rows: Vec<MemoryRow> = (1..=9)
        .map(|seq| match seq {
            1 => remembered(seq, "plan", 1),
            _ => remembered(seq, "error", seq as i64),
        })
        .collect();
    accept(&mut *writer, &[with(Append { count: 9, ..creation(1) }, &rows)]);
    let text = Some("the PLAN".to_owned());
    let search = MemorySearch { text, looked_at: 4, ..everything_of("s") };
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = store.memories(&MemorySearch { after, ..search.clone() }).unwrap();
        pages.push(ids_of(page.entries));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![], vec![], vec![id(1, 1)]]);
    // What is found ends a page as well, and then it says where it stands.
    let one = MemorySearch { limit: 1, text: None, ..search.clone() };
    let page = store.memories(&one).unwrap();
    assert_eq!((ids_of(page.entries), page.next), (vec![id(1, 9)], Some((Millis(9), id(1, 9)))));
    // One that has looked at the last entry says that there are no more, also where it had to look at no others.
    let all = MemorySearch { looked_at: 9, ..search.clone() };
    assert_eq!(store.memories(&all).unwrap().next, None);
    let nothing = MemorySearch { looked_at: 0, ..search };
    assert_eq!(store.memories(&nothing).unwrap(), MemoryPage::default());
}

pub fn memory_is_listed_newest_first_in_pages<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let mut rows: Vec<MemoryRow> = (1..=6).map(|seq| remembered(seq, "error", (seq / 2) as i64)).collect();
    if let MemoryChange::Entry(entry) = &mut rows[4].change {
        (entry.mode, entry.kind) = ("planner".to_owned(), "plan".to_owned());
        entry.content = "100% of Ärger_".to_owned();
    }
    accept(&mut *writer, &[with(Append { count: 6, ..creation(1) }, &rows)]);
    let search = everything_of("s");
    let listed = |search: &MemorySearch| ids_of(store.memories(search).unwrap().entries);
    // Of one moment the greatest id is first.
    let expected = [6, 5, 4, 3, 2, 1].map(|seq| id(1, seq));
    assert_eq!(listed(&search), expected);
    for limit in 1..=6 {
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = store.memories(&MemorySearch { after, limit, ..search.clone() }).unwrap();
            assert!(page.entries.len() <= limit);
            paged.extend(ids_of(page.entries));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(paged, expected);
    }
    let text = |text: &str| listed(&MemorySearch { text: Some(text.to_owned()), ..search.clone() });
    assert_eq!(text("0% OF Ä"), [id(1, 5)], "no wildcards, and the case of ASCII letters does not count");
    assert_eq!(text("_x"), Vec::<String>::new());
    assert_eq!(text("THE ERROR"), [6, 4, 3, 2, 1].map(|seq| id(1, seq)));
    let mode = Some("planner".to_owned());
    assert_eq!(listed(&MemorySearch { mode, ..search.clone() }), [id(1, 5)]);
    let kind = Some("error".to_owned());
    assert_eq!(listed(&MemorySearch { kind, ..search.clone() }), [6, 4, 3, 2, 1].map(|seq| id(1, seq)));
    assert_eq!(listed(&MemorySearch { session: "t".to_owned(), ..search }), Vec::<String>::new());
}
