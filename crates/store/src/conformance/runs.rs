//! Rules for the read models: run list, snapshots, agents.

use std::collections::BTreeMap;

use super::*;
use crate::port::{
    AgentRow, Append, AppendOutcome, Millis, NamePattern, Rest, RunQuery, RunRow, Snapshot, Summary,
};

pub fn the_run_list_shows_the_last_summary<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).label("team", "núcleo").label("", "")]);
    let mut row = RunRow {
        run: run_id(1),
        kind: 1,
        name: "run 1".to_owned(),
        labels: BTreeMap::from([("team".to_owned(), "núcleo".to_owned()), (String::new(), String::new())]),
        created_at: Millis(1_000),
        summary: Summary { updated_at: Millis(1_000), ..Summary::default() },
        last_seq: 2,
        quarantine: None,
    };
    assert_eq!(store.get_run(run_id(1)).unwrap().as_ref(), Some(&row));
    accept(&mut *writer, &[more(1, 3, 1).summary(updated(1_500))]);
    row = RunRow { summary: updated(1_500), last_seq: 3, ..row };
    assert_eq!(store.get_run(run_id(1)).unwrap().as_ref(), Some(&row));
    accept(&mut *writer, &[more(1, 4, 2)]);
    row = RunRow { last_seq: 5, ..row };
    assert_eq!(store.get_run(run_id(1)).unwrap().as_ref(), Some(&row));
    let finish = finish(1, 6, 2_000);
    accept(&mut *writer, std::slice::from_ref(&finish));
    row = RunRow { summary: finish.summary.unwrap(), last_seq: 6, ..row };
    assert_eq!(store.list_runs(&everything()).unwrap(), [row]);
}

pub fn listing_pages_newest_first<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    for number in [3, 1, 4, 2, 5] {
        accept(&mut *writer, &[creation(number).label("team", "a")]);
    }
    for labels in [BTreeMap::new(), BTreeMap::from([("team".to_owned(), "a".to_owned())])] {
        let page = |before: Option<u64>, limit| {
            listed(
                &store,
                &RunQuery { before: before.map(run_id), limit, labels: labels.clone(), ..everything() },
            )
        };
        assert_eq!(page(None, 2), ids(&[5, 4]));
        assert_eq!(page(Some(4), 2), ids(&[3, 2]));
        assert_eq!(page(Some(2), 2), ids(&[1]));
        assert_eq!(page(Some(1), 2), []);
        assert_eq!(page(Some(99), 1), ids(&[5]));
        assert_eq!(page(None, 0), []);
    }
}

pub fn listing_filters_by_all_that_is_set<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let ended = |number| {
        let mut append = creation(number).summary(finish(number, 3, 50).summary.unwrap());
        append.create.as_mut().unwrap().kind = 2;
        append
    };
    accept(
        &mut *writer,
        &[
            creation(1).label("team", "a").label("tier", "x"),
            creation(2).label("team", "a").label("tier", "y").summary(updated(5)),
            ended(3).label("team", "b").label("tier", "x"),
            ended(4).label("team", "a").label("tier", "x"),
            creation(5),
        ],
    );
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    #[track_caller]
    fn check(store: &impl crate::port::Store, query: &RunQuery, numbers: &[u64]) {
        assert_eq!(listed(store, query), ids(numbers));
    }
    let all = everything();
    check(&store, &RunQuery { labels: labels(&[("team", "a")]), ..all.clone() }, &[4, 2, 1]);
    check(&store, &RunQuery { labels: labels(&[("team", "a"), ("tier", "x")]), ..all.clone() }, &[4, 1]);
    check(&store, &RunQuery { labels: labels(&[("team", "c")]), ..all.clone() }, &[]);
    check(&store, &RunQuery { labels: labels(&[("a", "team")]), ..all.clone() }, &[]);
    check(&store, &RunQuery { status: Some(9), ..all.clone() }, &[4, 3]);
    check(&store, &RunQuery { status: Some(3), ..all.clone() }, &[2]);
    check(&store, &RunQuery { outcome: Some(0), ..all.clone() }, &[5, 2, 1]);
    check(&store, &RunQuery { kind: Some(2), ..all.clone() }, &[4, 3]);
    check(&store, &RunQuery { except_kind: Some(2), ..all.clone() }, &[5, 2, 1]);
    let narrow = RunQuery {
        labels: labels(&[("tier", "x")]),
        status: Some(9),
        outcome: Some(1),
        kind: Some(2),
        except_kind: Some(1),
        unfinished: false,
        name: Some(NamePattern::new("run")),
        since: Some(Millis(1_000)),
        until: Some(Millis(1_001)),
        before: Some(run_id(4)),
        from: Some(run_id(3)),
        limit: 10,
    };
    check(&store, &narrow, &[3]);
    for narrower in [
        RunQuery { name: Some(NamePattern::new("run 4")), ..narrow.clone() },
        RunQuery { since: Some(Millis(1_001)), ..narrow.clone() },
        RunQuery { until: Some(Millis(1_000)), ..narrow.clone() },
        RunQuery { unfinished: true, ..narrow.clone() },
        RunQuery { from: Some(run_id(4)), ..narrow.clone() },
    ] {
        check(&store, &narrower, &[]);
    }
}

pub fn listing_filters_by_name_time_and_end<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let named = |number: u64, name: &str| {
        let mut append = creation(number);
        let create = append.create.as_mut().unwrap();
        (create.name, create.created_at) = (name.to_owned(), Millis(i64::try_from(number).unwrap() * 10));
        append
    };
    let names = ["nightly build", "Build", "Construcción ÑANDÚ", "100%_*", "build nightly"];
    accept(&mut *writer, &(1..).zip(names).map(|(number, name)| named(number, name)).collect::<Vec<_>>());
    accept(&mut *writer, &[finish(1, 3, 9), finish(4, 3, 9)]);
    #[track_caller]
    fn check(store: &impl crate::port::Store, query: RunQuery, numbers: &[u64]) {
        assert_eq!(listed(store, &query), ids(numbers));
    }
    let of = |name: &str| RunQuery { name: Some(NamePattern::new(name)), ..everything() };
    check(&store, of("BUILD"), &[5, 2, 1]);
    check(&store, of("build*"), &[5, 2]);
    check(&store, of("*BUILD"), &[2, 1]);
    check(&store, of("b?ild"), &[2]);
    check(&store, of("*n*i*t*"), &[5, 1]);
    check(&store, of("ñand"), &[3]);
    check(&store, of("construcci?n ñ*"), &[3]);
    check(&store, of("%_"), &[4]);
    check(&store, of("*"), &[5, 4, 3, 2, 1]);
    check(&store, of(""), &[5, 4, 3, 2, 1]);
    check(&store, of("?"), &[]);
    check(&store, RunQuery { limit: 2, ..of("build") }, &[5, 2]);
    check(&store, RunQuery { since: Some(Millis(30)), ..everything() }, &[5, 4, 3]);
    check(&store, RunQuery { until: Some(Millis(30)), ..everything() }, &[2, 1]);
    check(&store, RunQuery { since: Some(Millis(20)), until: Some(Millis(40)), ..everything() }, &[3, 2]);
    check(&store, RunQuery { unfinished: true, ..everything() }, &[5, 3, 2]);
    check(&store, RunQuery { unfinished: true, limit: 2, ..of("build") }, &[5, 2]);
    check(&store, RunQuery { from: Some(run_id(2)), before: Some(run_id(4)), ..everything() }, &[3, 2]);
    check(&store, RunQuery { from: Some(run_id(4)), before: Some(run_id(4)), ..everything() }, &[]);
}

pub fn a_listing_has_a_floor<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let appends: Vec<_> = (1..=6)
        .map(|number| match number {
            2 | 3 | 5 => creation(number).label("team", "a").label("tier", "x"),
            _ => creation(number),
        })
        .collect();
    accept(&mut *writer, &appends);
    accept(&mut *writer, &[finish(4, 3, 9), finish(6, 3, 9)]);
    #[track_caller]
    fn check(store: &impl crate::port::Store, query: &RunQuery, runs: u32, floor: Option<u64>) {
        assert_eq!(store.listing_floor(query, runs).unwrap(), floor.map(run_id));
    }
    let labelled =
        RunQuery { labels: [("team".to_owned(), "a".to_owned())].into(), unfinished: true, ..everything() };
    let unfinished = RunQuery { unfinished: true, ..everything() };
    // Whether they match does not count.
    let nowhere = RunQuery { name: Some(NamePattern::new("nowhere")), limit: 1, ..everything() };
    for (query, floors) in [
        (&everything(), [None, Some(6), Some(5), Some(4)]),
        (&nowhere, [None, Some(6), Some(5), Some(4)]),
        (&unfinished, [None, Some(5), Some(3), Some(2)]),
        (&labelled, [None, Some(5), Some(3), Some(2)]),
    ] {
        for (runs, floor) in (0..).zip(floors) {
            check(&store, query, runs, floor);
        }
    }
    check(&store, &everything(), 6, Some(1));
    check(&store, &everything(), 7, None);
    check(&store, &labelled, 4, None);
    check(&store, &RunQuery { before: Some(run_id(3)), ..everything() }, 2, Some(1));
    check(&store, &RunQuery { before: Some(run_id(3)), ..labelled.clone() }, 1, Some(2));
    check(&store, &RunQuery { before: Some(run_id(5)), from: Some(run_id(3)), ..everything() }, 2, Some(3));
    check(&store, &RunQuery { before: Some(run_id(5)), from: Some(run_id(3)), ..everything() }, 3, None);
    check(&store, &RunQuery { before: Some(run_id(5)), from: Some(run_id(5)), ..everything() }, 1, None);
}

pub fn unfinished_runs_are_listed_until_they_finish<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let appends: Vec<_> = [2, 1, 4, 3, 5].into_iter().map(creation).collect();
    accept(&mut *writer, &appends);
    accept(&mut *writer, &[finish(2, 3, 9), creation(6).summary(finish(6, 3, 9).summary.unwrap())]);
    assert_eq!(store.unfinished(SHARD, None, ALL).unwrap(), in_work(&[1, 3, 4, 5]));
    assert_eq!(store.unfinished(SHARD, None, 2).unwrap(), in_work(&[1, 3]));
    assert_eq!(store.unfinished(SHARD, Some(run_id(3)), 2).unwrap(), in_work(&[4, 5]));
    assert_eq!(store.unfinished(SHARD, Some(run_id(5)), 2).unwrap(), []);
    // An event after the run's end, and a run that begins again.
    accept(&mut *writer, &[more(2, 4, 1), more(6, 3, 1).summary(updated(10))]);
    assert_eq!(store.unfinished(SHARD, Some(run_id(3)), ALL).unwrap(), in_work(&[4, 5, 6]));
    drop((store, writer));
    assert_eq!(subject.reopened().store().unfinished(SHARD, None, ALL).unwrap(), in_work(&[1, 3, 4, 5, 6]));
}

pub fn a_snapshot_replaces_the_earlier_one<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    let snapshot = |seq, format: u32| Snapshot { seq, format, state: vec![format as u8; 5_000].into() };
    for snapshot in [snapshot(1, 7), snapshot(2, 7), snapshot(1, 8), snapshot(2, u32::MAX)] {
        writer.put_snapshot(run_id(1), &snapshot).unwrap();
        assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot));
    }
    writer.put_snapshot(run_id(2), &snapshot(1, 7)).unwrap();
    assert_eq!(store.snapshot(run_id(2)).unwrap(), None, "there is no such run");
    accept(&mut *writer, &[more(1, 3, 1)]);
}

pub fn agents_are_kept_until_forgotten<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let agent = |name: &str, last_seen| AgentRow {
        name: name.to_owned(),
        agent: format!("{name} {last_seen}").into(),
        last_seen: Millis(last_seen),
    };
    writer.put_agents(&[agent("b", 1), agent("a", 1)]).unwrap();
    writer.put_agents(&[agent("a", 2), agent("c", 2)]).unwrap();
    writer.put_agents(&[]).unwrap();
    assert_eq!(store.agents().unwrap(), [agent("a", 2), agent("b", 1), agent("c", 2)]);
    let names = ["b", "none"].map(str::to_owned);
    assert_eq!(writer.forget_agents(&names).unwrap(), 1);
    assert_eq!(writer.forget_agents(&names).unwrap(), 0);
    assert_eq!(writer.forget_agents(&[]).unwrap(), 0);
    drop((store, writer));
    assert_eq!(subject.reopened().store().agents().unwrap(), [agent("a", 2), agent("c", 2)]);
}

pub fn a_run_rests_as_its_last_append_says<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(2), creation(3)]);
    let timed = Rest { due_at: Some(Millis(5_000)), due_in: 700 };
    let append = |number, first_seq, rest| Append { rest, ..more(number, first_seq, 1) };
    accept(&mut *writer, &[append(1, 3, Some(timed)), append(2, 3, Some(Rest::ON_INPUT))]);
    let of = |store: &S::Adapter| -> Vec<_> {
        store.unfinished(SHARD, None, ALL).unwrap().into_iter().map(|unfinished| unfinished.rest).collect()
    };
    assert_eq!(of(&store), [Some(timed), Some(Rest::ON_INPUT), None]);
    accept(&mut *writer, &[append(1, 4, None), append(2, 4, Some(timed)), append(3, 3, Some(timed))]);
    // A refused append changes nothing.
    assert_eq!(writer.commit(&[append(3, 9, None)]).unwrap(), [AppendOutcome::Conflict]);
    drop(writer);
    let subject = subject.reopened();
    assert_eq!(of(&subject.store()), [None, Some(timed), Some(timed)]);
}
