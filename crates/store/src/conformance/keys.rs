//! Rules for keys whose runs are other shards'.

use bytes::Bytes;

use super::*;
use crate::port::{
    Append, AppendOutcome, IdempotencyKey, KeyChange, KeyRow, Millis, Position, Retention, RunId,
};

fn register(run: RunId, key: &str, request: u8) -> Append {
    let key = IdempotencyKey { key: Bytes::from(key.to_owned()), request: [request; 32] };
    Append::of_key(run, KeyChange::Register(key))
}

fn release(run: RunId, key: &str) -> Append {
    Append::of_key(run, KeyChange::Release(Bytes::from(key.to_owned())))
}

pub fn a_registered_key_names_its_run_and_is_nobodys_event<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    let registered = AppendOutcome::Committed(Position(1));
    assert_eq!(commit_one(&mut *writer, register(run_id(9), "k", 1)), registered, "it has no row");
    let taken = |same_request| AppendOutcome::KeyTaken { run: run_id(9), same_request };
    // Whoever asks again hears the same, also for that run.
    assert_eq!(commit_one(&mut *writer, register(run_id(9), "k", 1)), taken(true));
    assert_eq!(commit_one(&mut *writer, register(run_id(8), "k", 1)), taken(true));
    assert_eq!(commit_one(&mut *writer, register(run_id(8), "k", 2)), taken(false));
    assert_eq!(commit_one(&mut *writer, creation(2).key("k", 2)), taken(false));
    assert_eq!(whole_log(&store), [creation(1).row(1)]);
    assert_eq!(listed(&store, &everything()), ids(&[1]));
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    assert_eq!(store.key(SHARD, b"k").unwrap(), Some(KeyRow { run: run_id(9), request: [1; 32] }));
    assert_eq!(commit_one(&mut *claim(&store), register(run_id(8), "k", 1)), taken(true));
}

pub fn a_key_of_a_run_is_not_registered_for_another<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).key("k", 1)]);
    let taken = AppendOutcome::KeyTaken { run: run_id(1), same_request: true };
    assert_eq!(commit_one(&mut *writer, register(run_id(9), "k", 1)), taken);
    // What a run of this shard has, nobody releases.
    accept(&mut *writer, &[release(run_id(1), "k")]);
    assert_eq!(store.key(SHARD, b"k").unwrap().map(|row| row.run), Some(run_id(1)));
}

pub fn a_registered_key_stays_until_it_is_released<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[register(run_id(9), "k", 1), register(run_id(8), "j", 1)]);
    let all = Retention { keys_before: Millis(i64::MAX), ..keep() };
    assert_eq!(writer.sweep(&all).unwrap().keys, 0);
    accept(&mut *writer, &[release(run_id(7), "k"), release(run_id(9), "nobody's")]);
    let keys = |after: Option<&[u8]>, limit| store.keys(SHARD, after, limit).unwrap();
    let (j, k) = ((Bytes::from("j"), run_id(8)), (Bytes::from("k"), run_id(9)));
    assert_eq!(keys(None, 9), [j.clone(), k.clone()]);
    assert_eq!((keys(None, 1), keys(Some(b"j"), 9)), (vec![j.clone()], vec![k]));
    accept(&mut *writer, &[release(run_id(9), "k")]);
    assert_eq!(keys(None, 9), [j]);
    accept(&mut *writer, &[creation(1).key("k", 2)]);
}

pub fn a_change_of_a_key_has_nothing_else<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let change = || register(run_id(9), "k", 1);
    let with_events = Append { key: change().key, ..creation(1) };
    let counted = Append { count: 1, ..change() };
    for append in [with_events, counted, Append { summary: Some(updated(1)), ..change() }] {
        assert_eq!(commit_one(&mut *writer, append), AppendOutcome::Conflict);
    }
    assert_eq!((store.key(SHARD, b"k").unwrap(), whole_log(&store)), (None, vec![]));
}

pub fn retention_says_whose_keys_it_has_removed<S: Subject>() {
    let (subject, store, mut writer) = claimed::<S>();
    for (number, at) in [(1, 10), (5, 11), (3, 12)] {
        accept(&mut *writer, &[creation(number).key(&format!("k{number}"), 1), finish(number, 3, at)]);
    }
    assert_eq!(store.keys_removed(SHARD).unwrap(), None);
    let before = |at| Retention { keys_before: Millis(at), ..keep() };
    assert_eq!(writer.sweep(&before(12)).unwrap().keys, 2);
    assert_eq!(store.keys_removed(SHARD).unwrap(), Some(run_id(5)));
    assert_eq!(writer.sweep(&before(13)).unwrap().keys, 1);
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    assert_eq!(store.keys_removed(SHARD).unwrap(), Some(run_id(5)), "it never goes back");
}
