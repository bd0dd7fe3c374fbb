//! Rules for commits: accepted appends, refused appends and their effects.

use super::*;
use crate::port::{
    AgentRow, Append, AppendOutcome, BlobHash, Epoch, Millis, Position, QuarantineReason, Snapshot,
    StoreError,
};

pub fn an_append_that_does_not_follow_is_a_conflict<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1)]);
    for append in [more(1, 2, 1), more(1, 4, 1), more(2, 3, 1), more(2, 1, 1)] {
        assert_eq!(commit_one(&mut *writer, append), AppendOutcome::Conflict);
    }
    assert_eq!(commit_one(&mut *writer, more(1, 3, 5)), AppendOutcome::Committed(Position(2)));
    assert_eq!(commit_one(&mut *writer, more(1, 3, 5)), AppendOutcome::Conflict);
    assert_eq!(commit_one(&mut *writer, more(1, 8, 1)), AppendOutcome::Committed(Position(3)));
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 8);
    assert_eq!(whole_log(&store).len(), 3);
}

pub fn a_malformed_append_is_a_conflict<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let empty = Append { count: 0, ..creation(1) };
    let late = Append { first_seq: 2, ..creation(1) };
    let without_creation = Append { create: None, ..creation(1) };
    let beyond = Append { first_seq: u64::MAX, ..more(1, 1, u32::MAX) };
    for append in [empty, late, without_creation, beyond, more(1, 0, 1)] {
        assert_eq!(commit_one(&mut *writer, append), AppendOutcome::Conflict);
    }
    assert_eq!(whole_log(&store), []);
    assert_eq!(store.list_runs(&everything()).unwrap(), []);
    assert_eq!(writer.commit(&[]).unwrap(), []);
}

pub fn a_run_is_created_once<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), finish(1, 3, 2_000)]);
    assert_eq!(commit_one(&mut *writer, creation(1).key("k", 1)), AppendOutcome::Conflict);
    // The refused creation did not take its key.
    accept(&mut *writer, &[creation(2).key("k", 1)]);
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 3);
}

pub fn a_taken_key_names_its_run<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).key("k", 1)]);
    let taken = |same_request| AppendOutcome::KeyTaken { run: run_id(1), same_request };
    assert_eq!(commit_one(&mut *writer, creation(2).key("k", 1)), taken(true));
    assert_eq!(commit_one(&mut *writer, creation(2).key("k", 2)), taken(false));
    // The same outcome, although the run itself exists too.
    assert_eq!(commit_one(&mut *writer, creation(1).key("k", 1)), taken(true));
    assert_eq!(store.get_run(run_id(2)).unwrap(), None);
    accept(&mut *writer, &[creation(2).key("K", 1), creation(3)]);
}

pub fn joined_appends_stand_or_fall_together<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1), creation(2).key("k", 1)]);
    let conflict = AppendOutcome::Conflict;
    // The second append of the joined pair conflicts, so the first one is not written either; the appends around the
    // pair are.
    let outcomes =
        writer.commit(&[creation(3), more(1, 3, 1).joined(), more(2, 9, 1), more(2, 3, 1)]).unwrap();
    let committed = |position| AppendOutcome::Committed(Position(position));
    assert_eq!(outcomes, [committed(3), conflict.clone(), conflict.clone(), committed(4)]);
    // The first append of the joined pair is refused, so the second one is too.
    let taken = AppendOutcome::KeyTaken { run: run_id(2), same_request: true };
    let outcomes = writer.commit(&[creation(4).key("k", 1).joined(), more(1, 3, 1)]).unwrap();
    assert_eq!(outcomes, [taken.clone(), taken]);
    assert_eq!(store.get_run(run_id(4)).unwrap(), None);
    // All appends are accepted.
    let outcomes = writer.commit(&[more(1, 3, 1).joined(), more(2, 4, 1).joined(), creation(4)]).unwrap();
    assert_eq!(outcomes, [committed(5), committed(6), committed(7)]);
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 3);
    assert_eq!(whole_log(&store).len(), 7);
}

pub fn a_refusal_leaves_its_neighbours<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    accept(&mut *writer, &[creation(1).key("k", 1)]);
    let refused = creation(2).key("k", 1).label("team", "a").summary(updated(5)).names(BlobHash([1; 32]));
    let outcomes = writer
        .commit(&[creation(3), refused, more(1, 9, 1), more(1, 3, 1), creation(1), creation(4).key("j", 1)])
        .unwrap();
    let expected = [
        AppendOutcome::Committed(Position(2)),
        AppendOutcome::KeyTaken { run: run_id(1), same_request: true },
        AppendOutcome::Conflict,
        AppendOutcome::Committed(Position(3)),
        AppendOutcome::Conflict,
        AppendOutcome::Committed(Position(4)),
    ];
    assert_eq!(outcomes, expected);
    let rows = [creation(1).row(1), creation(3).row(2), more(1, 3, 1).row(3), creation(4).row(4)];
    assert_eq!(whole_log(&store), rows);
    assert_eq!(listed(&store, &everything()), ids(&[4, 3, 1]));
}

pub fn appends_of_one_commit_see_each_other<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    let outcomes = writer
        .commit(&[
            creation(1).key("k", 1),
            creation(2).key("k", 1),
            more(1, 3, 1),
            more(1, 3, 1),
            finish(1, 4, 9),
        ])
        .unwrap();
    assert_eq!(outcomes[1], AppendOutcome::KeyTaken { run: run_id(1), same_request: true });
    assert_eq!(outcomes[3], AppendOutcome::Conflict);
    assert_eq!(outcomes[4], AppendOutcome::Committed(Position(3)));
    assert_eq!(store.get_run(run_id(1)).unwrap().unwrap().last_seq, 4);
}

pub fn an_older_epoch_is_fenced<S: Subject>() {
    let (_subject, store, mut old) = claimed::<S>();
    accept(&mut *old, &[creation(1)]);
    let mut new = claim(&store);
    let outcomes = old.commit(&[more(1, 3, 1), creation(2).key("k", 1), more(1, 9, 1)]).unwrap();
    assert_eq!(outcomes, [AppendOutcome::Fenced, AppendOutcome::Fenced, AppendOutcome::Fenced]);
    let snapshot = Snapshot { seq: 2, format: 1, state: b"old".as_slice().into() };
    let agent = AgentRow { name: "a".to_owned(), agent: b"old".as_slice().into(), last_seen: Millis(1) };
    assert!(matches!(old.put_snapshot(run_id(1), &snapshot), Err(StoreError::Closed)));
    let reason = quarantine(QuarantineReason::Damaged, 2, 1);
    assert!(matches!(old.quarantine(run_id(1), &reason), Err(StoreError::Closed)));
    assert!(matches!(old.release(run_id(1)), Err(StoreError::Closed)));
    assert!(matches!(old.put_agents(&[agent]), Err(StoreError::Closed)));
    assert!(matches!(old.forget_agents(&["a".to_owned()]), Err(StoreError::Closed)));
    assert!(matches!(old.sweep(&keep()), Err(StoreError::Closed)));
    assert_eq!(whole_log(&store), [creation(1).row(1)]);
    assert_eq!(store.snapshot(run_id(1)).unwrap(), None);
    assert_eq!(store.quarantined(SHARD, None, ALL).unwrap(), []);
    assert_eq!(store.agents().unwrap(), []);
    accept(&mut *new, &[more(1, 3, 1), creation(2).key("k", 1)]);
}

pub fn epochs_grow<S: Subject>() {
    let (subject, store, writer) = claimed::<S>();
    let first = writer.epoch();
    assert!(first > Epoch(0));
    let second = claim(&store).epoch();
    assert!(second > first);
    drop((store, writer));
    let third = claim(&subject.reopened().store()).epoch();
    assert!(third > second);
}

pub fn positions_grow_without_gaps<S: Subject>() {
    let (_subject, store, mut writer) = claimed::<S>();
    for number in 0..10 {
        accept(&mut *writer, &[creation(3 * number), creation(3 * number + 1)]);
        writer.commit(&[creation(3 * number), creation(3 * number + 2), more(3 * number, 7, 1)]).unwrap();
    }
    let positions: Vec<u64> = whole_log(&store).iter().map(|row| row.position.0).collect();
    assert_eq!(positions, (1..=30).collect::<Vec<u64>>());
    assert_eq!(store.bounds(SHARD).unwrap().newest, Position(30));
}
