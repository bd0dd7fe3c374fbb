//! A snapshot is a cache of what the log has. One that says more than the log is thrown away, whoever wrote it, and one that
//! cannot be written is missed by nobody.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1::{self, event::Body};
use capataz_engine::session::SessionState;
use capataz_engine::{EVENT_FORMAT, RunState, SNAPSHOT_FORMAT};
use capataz_shard::journal::{Chance, Job, Scribe, Told, Work, load, load_at, load_session};
use capataz_shard::projection::listed;
use capataz_shard::replay::replay;
use capataz_shard::{SESSION_SNAPSHOT_FORMAT, session_stream};
use capataz_store::builders::{Shape, beginning, continuation};
use capataz_store::{
    Append, AppendOutcome, Mark, Millis, RunId, ShardWriter, Snapshot, SqliteOptions, SqliteStore, Store,
    Summary,
};
use prost::Message;
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{SHARD, plan, task};

pub fn event(seq: u64, body: Body) -> v1::Event {
    v1::Event { seq, at_ms: 1_000, format: EVENT_FORMAT, elapsed_ms: 0, body: Some(body) }
}

fn encoded(events: &[v1::Event]) -> Bytes {
    let mut bytes = BytesMut::new();
    events.iter().for_each(|event| event.encode_length_delimited(&mut bytes).unwrap());
    bytes.freeze()
}

/// A plan's first events, and one that follows them.
pub fn of_run() -> Vec<v1::Event> {
    let accepted = v1::RunAccepted {
        kind: v1::RunKind::Plan.into(),
        work: Some(v1::run_accepted::Work::Plan(plan([task("t", "a")]))),
        ..Default::default()
    };
    let paused = v1::RunPaused { request_id: "pause".to_owned() };
    vec![
        event(1, Body::RunAccepted(Box::new(accepted))),
        event(2, Body::WaveStarted(v1::WaveStarted::default())),
        event(3, Body::RunPaused(paused)),
    ]
}

fn of_session() -> Vec<v1::Event> {
    let opened = v1::SessionOpened { session: "talk".to_owned() };
    let accepted =
        v1::SessionTransitionAccepted { to: "other".to_owned(), ..v1::SessionTransitionAccepted::default() };
    vec![event(1, Body::SessionOpened(opened)), event(2, Body::SessionTransitionAccepted(accepted))]
}

/// A store whose log has these events of the run.
fn store(run: RunId, events: &[v1::Event]) -> (TempDir, SqliteStore, Box<dyn ShardWriter>) {
    listed_as(run, events, "p")
}

/// The same, with a row that says that the run has this name.
fn listed_as(run: RunId, events: &[v1::Event], name: &str) -> (TempDir, SqliteStore, Box<dyn ShardWriter>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let mut writer = store.claim(SHARD, Mark(1)).unwrap();
    let append = creation(run, events, name);
    assert!(matches!(writer.commit(&[append]).unwrap()[..], [AppendOutcome::Committed(_)]));
    (folder, store, writer)
}

/// The creation of a run of this name, with all these events.
pub fn creation(run: RunId, events: &[v1::Event], name: &str) -> Append {
    let count = u32::try_from(events.len()).unwrap();
    beginning(run).named(name).created_at(1_000).count(count).events(encoded(events))
}

#[test]
fn a_snapshot_of_a_run_that_is_ahead_of_the_log_is_thrown_away() {
    let run = RunId(Uuid::from_u128(7));
    let events = of_run();
    let (_folder, store, mut writer) = store(run, &events[..2]);
    let whole = load(&store, run).unwrap();
    assert_eq!(whole.seq(), 2);
    let mut ahead = whole.clone();
    ahead.apply(events[2].clone()).unwrap();
    let snapshot = |state: &RunState, seq| Snapshot {
        seq,
        format: SNAPSHOT_FORMAT,
        state: state.snapshot().unwrap().into(),
    };
    // One that says so, and one that says that it is of an earlier event.
    for seq in [3, 2] {
        writer.put_snapshot(run, &snapshot(&ahead, seq)).unwrap();
        assert_eq!(load(&store, run).unwrap(), whole);
    }
    writer.put_snapshot(run, &snapshot(&whole, 2)).unwrap();
    assert_eq!(load(&store, run).unwrap(), whole);
}

#[test]
fn a_snapshot_of_a_session_that_is_ahead_of_the_log_is_thrown_away() {
    let stream = session_stream("talk");
    let events = of_session();
    let (_folder, store, mut writer) = store(stream, &events[..1]);
    let whole = load_session(&store, stream).unwrap().unwrap();
    assert_eq!(whole.seq(), 1);
    let ahead = SessionState::fold(events).unwrap();
    for seq in [2, 1] {
        let state = ahead.snapshot().unwrap().into();
        writer.put_snapshot(stream, &Snapshot { seq, format: SESSION_SNAPSHOT_FORMAT, state }).unwrap();
        assert_eq!(load_session(&store, stream).unwrap().unwrap(), whole);
    }
}

/// Adds the third event, with what the list of runs is to say after it.
fn pause(writer: &mut dyn ShardWriter, run: RunId, events: &[v1::Event], summary: Summary) {
    let append = third(run, events, summary);
    assert!(matches!(writer.commit(&[append]).unwrap()[..], [AppendOutcome::Committed(_)]));
}

fn third(run: RunId, events: &[v1::Event], summary: Summary) -> Append {
    continuation(run, 3).events(encoded(&events[2..])).summary(summary)
}

fn snapshot_of(state: &RunState, format: u32) -> Snapshot {
    Snapshot { seq: state.seq(), format, state: state.snapshot().unwrap().into() }
}

#[test]
fn a_snapshot_that_cannot_be_written_fails_no_commit_and_has_no_shard_read_again() {
    let run = RunId(Uuid::from_u128(7));
    let events = of_run();
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap());
    let options = SqliteOptions { max_pages: Some(60), ..SqliteOptions::default() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let chance = Chance { draw: Box::new(|| Mark(1)), wall: Box::new(|| Millis(1_000)) };
    let mut scribe = Scribe::new(Arc::new(store.clone()), chance);
    let mut told = Vec::new();
    scribe.carry_out(Job::Other(Work::Claim { shard: SHARD, touched: None }), &mut told);
    scribe.carry_out(Job::Commit(vec![(SHARD, creation(run, &events[..2], "p"))]), &mut told);
    // There is room for the first one alone.
    for size in [10, 1_000_000, 1_000_000] {
        let snapshot = Snapshot { seq: 2, format: SNAPSHOT_FORMAT, state: vec![7; size].into() };
        scribe.carry_out(Job::Other(Work::Snapshot { shard: SHARD, run, snapshot }), &mut told);
        assert!(scribe.has_claimed(SHARD));
    }
    assert_eq!(store.snapshot(run).unwrap().map(|snapshot| snapshot.state.len()), Some(10));
    let summary = listed(&RunState::fold(7, events.clone()).unwrap());
    scribe.carry_out(Job::Commit(vec![(SHARD, third(run, &events, summary))]), &mut told);
    // The shard hears of its claim and of its commits, and of nothing else.
    let [Told::Claimed { .. }, Told::Committed { outcomes: one, .. }, Told::Committed { outcomes: two, .. }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
    for outcomes in [one, two] {
        assert!(matches!(outcomes[..], [AppendOutcome::Committed(_)]), "{told:?}");
    }
}

#[test]
fn a_run_folded_again_agrees_with_its_row_and_with_its_snapshot() {
    let run = RunId(Uuid::from_u128(7));
    let events = of_run();
    let (_folder, store, mut writer) = store(run, &events[..2]);
    let early = load(&store, run).unwrap();
    let mut late = early.clone();
    late.apply(events[2].clone()).unwrap();
    pause(&mut *writer, run, &events, listed(&late));

    let agrees = |snapshot_seq| v1::ReplayRunResponse { events: 3, snapshot_seq, ..Default::default() };
    assert_eq!(replay(&store, run).unwrap(), Some(agrees(None)));
    writer.put_snapshot(run, &snapshot_of(&early, SNAPSHOT_FORMAT)).unwrap();
    assert_eq!(replay(&store, run).unwrap(), Some(agrees(Some(2))));
    writer.put_snapshot(run, &snapshot_of(&early, SNAPSHOT_FORMAT - 1)).unwrap();
    assert_eq!(replay(&store, run).unwrap(), Some(agrees(None)), "one of another build");
    assert_eq!(replay(&store, RunId(Uuid::from_u128(8))).unwrap(), None);
}

#[test]
fn what_is_stored_otherwise_is_told_with_both_values() {
    let run = RunId(Uuid::from_u128(7));
    let events = of_run();
    let (_folder, store, mut writer) = listed_as(run, &events[..2], "another");
    let mut late = load(&store, run).unwrap();
    late.apply(events[2].clone()).unwrap();
    pause(&mut *writer, run, &events, Summary { tasks_total: 5, ..listed(&late) });
    // The snapshot is of event 2, at which nobody has paused the run.
    let forged = Snapshot { seq: 2, ..snapshot_of(&late, SNAPSHOT_FORMAT) };
    writer.put_snapshot(run, &forged).unwrap();

    let replayed = replay(&store, run).unwrap().unwrap();
    assert_eq!((replayed.events, replayed.snapshot_seq), (3, Some(2)));
    let told: Vec<(&str, Option<&str>, Option<&str>)> = replayed
        .differences
        .iter()
        .map(|told| (&*told.path, told.stored.as_deref(), told.folded.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("row.name", Some("\"another\""), Some("\"p\"")),
            ("row.tasks_total", Some("5"), Some("1")),
            ("snapshot.seq", Some("3"), Some("2")),
            ("snapshot.status", Some("\"paused\""), Some("\"running\"")),
        ]
    );
    writer.put_snapshot(run, &Snapshot { state: Bytes::from_static(b"?"), ..forged }).unwrap();
    let replayed = replay(&store, run).unwrap().unwrap();
    assert_eq!(replayed.differences[2].path, "snapshot");
}

#[test]
fn a_run_is_read_as_it_was_after_any_of_its_events() {
    let run = RunId(Uuid::from_u128(7));
    let events = of_run();
    let (_folder, store, mut writer) = store(run, &events);
    for at in 1..=3 {
        let then = RunState::fold(7, events[..at].to_vec()).unwrap();
        let read = |max_bytes| load_at(&store, run, at as u64, max_bytes).unwrap();
        assert_eq!(read(u64::MAX).as_ref(), Some(&then));
        assert_eq!(read(1), None, "larger than that");
        // A snapshot of that moment or of an earlier one is where reading begins; of a later one it is not.
        writer.put_snapshot(run, &snapshot_of(&then, SNAPSHOT_FORMAT)).unwrap();
        for earlier in 1..=at {
            let before = RunState::fold(7, events[..earlier].to_vec()).unwrap();
            assert_eq!(load_at(&store, run, earlier as u64, u64::MAX).unwrap(), Some(before));
        }
    }
}
