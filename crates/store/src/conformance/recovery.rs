//! Rules for the state that the next process finds.

use super::*;
use crate::port::{AgentRow, AppendOutcome, Millis, Position, Snapshot};

pub fn reopening_keeps_everything<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    let blob = store.put_blob(b"evidence", Millis(1)).unwrap();
    accept(&mut *writer, &[creation(1).key("k", 1).label("team", "a").names(blob), creation(2)]);
    let snapshot = Snapshot { seq: 2, format: 1, state: b"state".as_slice().into() };
    writer.put_snapshot(run_id(1), &snapshot).unwrap();
    let agent = AgentRow { name: "a".to_owned(), agent: b"agent".as_slice().into(), last_seen: Millis(1) };
    writer.put_agents(&[agent]).unwrap();
    accept(&mut *writer, &[more(1, 3, 2).summary(updated(7)), finish(2, 3, 9)]);
    let log = whole_log(&store);
    let runs = store.list_runs(&everything()).unwrap();
    let agents = store.agents().unwrap();
    let bounds = store.bounds(SHARD).unwrap();
    drop((store, writer));

    let subject = subject.reopened();
    let store = subject.store();
    assert_eq!(whole_log(&store), log);
    assert_eq!(store.list_runs(&everything()).unwrap(), runs);
    assert_eq!(store.agents().unwrap(), agents);
    assert_eq!(store.bounds(SHARD).unwrap(), bounds);
    assert_eq!(store.unfinished(SHARD, None, ALL).unwrap(), in_work(&[1]));
    assert_eq!(store.snapshot(run_id(1)).unwrap(), Some(snapshot));
    assert_eq!(store.read_blob(blob, 0, ALL).unwrap().unwrap(), b"evidence".as_slice());
}

pub fn a_commit_after_reopening_goes_on<S: Subject>() {
    let mut subject = S::fresh();
    for round in 0..5 {
        let store = subject.store();
        let mut writer = claim(&store);
        if round == 0 {
            accept(&mut *writer, &[creation(1).key("k", 1)]);
        }
        let seq = 3 + round;
        assert_eq!(commit_one(&mut *writer, more(1, seq + 1, 1)), AppendOutcome::Conflict);
        assert_eq!(commit_one(&mut *writer, more(1, seq, 1)), AppendOutcome::Committed(Position(seq - 1)));
        let taken = AppendOutcome::KeyTaken { run: run_id(1), same_request: false };
        assert_eq!(commit_one(&mut *writer, creation(2).key("k", 2)), taken);
        drop((store, writer));
        subject = subject.reopened();
    }
    assert_eq!(whole_log(&subject.store()).len(), 6);
}

pub fn readings_are_kept_until_others_are_put_down<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    assert_eq!(store.readings(SHARD).unwrap(), None);
    writer.put_readings(b"first").unwrap();
    accept(&mut *writer, &[creation(1)]);
    assert_eq!(store.readings(SHARD).unwrap().as_deref(), Some(&b"first"[..]));
    writer.put_readings(b"").unwrap();
    writer.put_readings(b"second").unwrap();
    accept(&mut *writer, &[creation(2)]);
    assert_eq!(store.readings(crate::ShardId(9)).unwrap(), None, "another shard");
    let mut fenced = writer;
    drop(store);
    let subject = {
        let store = subject.store();
        let _newer = claim(&store);
        assert!(fenced.put_readings(b"of another daemon").is_err());
        drop(fenced);
        drop(store);
        subject.reopened()
    };
    assert_eq!(subject.store().readings(SHARD).unwrap().as_deref(), Some(&b"second"[..]));
}
