//! Rules for the read models: run list, snapshots, agents.

use std::collections::BTreeMap;

use super::*;
use crate::port::{AgentRow, Append, AppendOutcome, Millis, Rest, RunQuery, RunRow, Snapshot, Summary};

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
        before: Some(run_id(4)),
        limit: 10,
    };
    check(&store, &narrow, &[3]);
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
