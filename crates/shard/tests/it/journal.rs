//! What the writer does with its store: which shards it has claimed, what it owes to their runs, and what it knows of agents.

use std::sync::Arc;

use capataz_contracts::v1;
use capataz_shard::journal::{Job, Scribe, Told, Work};
use capataz_shard::{ReplyId, SESSION_LABEL, Touched, session_stream};
use capataz_store::builders::{Shape, beginning, keep};
use capataz_store::memory::Fault;
use capataz_store::{
    AgentRow, Append, AppendOutcome, Mark, MemoryStore, Millis, Quarantine, QuarantineReason, Removal,
    Retention, RunId, ShardId, Store, Swept,
};

use crate::support::{SHARD, chances, run};

const OTHER: ShardId = ShardId(1);

/// A writer that has claimed nothing yet, over a store in memory.
struct World {
    store: MemoryStore,
    scribe: Scribe,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::new();
        let scribe = Scribe::new(Arc::new(store.clone()), chances(10));
        Self { store, scribe }
    }

    /// Another daemon has written this of the shard before.
    fn has(&self, shard: ShardId, append: Append) {
        let mut writer = self.store.claim(shard, Mark(1)).unwrap();
        let outcomes = writer.commit(&[append]).unwrap();
        assert!(matches!(outcomes[..], [AppendOutcome::Committed(_)]), "{outcomes:?}");
    }

    fn does(&mut self, job: Job) -> Vec<Told> {
        let mut told = Vec::new();
        self.scribe.carry_out(job, &mut told);
        told
    }

    /// Claims the shard, and reads what is touched or else everything. The runs that were put into quarantine then.
    fn claims(&mut self, shard: ShardId, touched: Option<Touched>) -> Vec<RunId> {
        let told = self.does(Job::Other(Work::Claim { shard, touched }));
        assert!(matches!(told.first(), Some(Told::Claimed { shard: of, .. }) if *of == shard), "{told:?}");
        quarantined(&told)
    }

    /// Puts the run into quarantine. The runs that were put there by that.
    fn quarantines(&mut self, shard: ShardId, run: RunId) -> Vec<RunId> {
        let quarantine = Quarantine {
            reason: QuarantineReason::Conflicted,
            seq: 1,
            position: None,
            detail: "it does not fit".to_owned(),
            at: Millis(1),
        };
        quarantined(&self.does(Job::Other(Work::Quarantine { shard, run, quarantine })))
    }
}

fn quarantined(told: &[Told]) -> Vec<RunId> {
    let quarantined = told.iter().filter_map(|told| match told {
        Told::Quarantined { run } => Some(*run),
        _ => None,
    });
    quarantined.collect()
}

#[test]
fn a_shard_is_claimed_from_its_claim_on_until_its_writer_fails() {
    let mut world = World::new();
    assert!(!world.scribe.has_claimed(SHARD));
    world.claims(SHARD, None);
    assert!(world.scribe.has_claimed(SHARD) && !world.scribe.has_claimed(OTHER));
    world.store.fail_next_commit(Fault::Lost);
    let told = world.does(Job::Commit(vec![(SHARD, beginning(run(1)))]));
    assert!(matches!(told[..], [Told::Failed { shard: SHARD, .. }]), "{told:?}");
    assert!(!world.scribe.has_claimed(SHARD));
}

#[test]
fn a_writer_names_the_shards_that_it_has_claimed_where_it_is_printed() {
    let mut world = World::new();
    world.claims(OTHER, None);
    world.claims(SHARD, None);
    assert_eq!(format!("{:?}", world.scribe), "Scribe { shards: [ShardId(0), ShardId(1)], .. }");
}

#[test]
fn a_quarantine_that_is_owed_is_over_where_a_claim_reads_its_run_and_is_put_down_where_it_does_not() {
    let mut world = World::new();
    let (first, second) = (run(1), run(2));
    for (shard, run) in [(SHARD, first), (OTHER, second)] {
        assert_eq!(world.quarantines(shard, run), [], "nobody has claimed its shard");
    }
    // It has found the run whole, or has put down itself what is wrong with it.
    assert_eq!(world.claims(SHARD, None), []);
    assert_eq!(world.claims(OTHER, Some(Touched::default())), [second]);
    for shard in [SHARD, OTHER] {
        assert_eq!(world.claims(shard, Some(Touched::default())), [], "nothing is owed any more");
    }
}

/// One shard has the session "talk", which has ended, and is claimed. Another one, which is not, is owed the quarantine of a
/// run that calls its own session so.
fn owed_elsewhere() -> (World, RunId) {
    let mut world = World::new();
    let stream = session_stream("talk");
    world.has(SHARD, beginning(stream).kind(v1::RunKind::Session as i32).ended_at(1));
    world.has(OTHER, beginning(run(1)).label(SESSION_LABEL, "talk"));
    assert_eq!(world.quarantines(OTHER, run(1)), []);
    assert_eq!(world.claims(SHARD, None), []);
    (world, stream)
}

#[test]
fn a_sweep_removes_what_only_another_shard_would_keep_for_what_it_is_owed() {
    let (mut world, stream) = owed_elsewhere();
    let retention = Box::new(Retention { finished_before: Some(Millis(2)), ..keep() });
    let told = world.does(Job::Other(Work::Sweep { shard: SHARD, retention }));
    assert!(matches!(told[..], [Told::Swept { swept: Ok(Swept { runs: 1, .. }), .. }]), "{told:?}");
    assert_eq!(world.store.get_run(stream).unwrap(), None);
}

#[test]
fn a_session_is_removed_that_only_another_shard_would_hold_for_what_it_is_owed() {
    let (mut world, stream) = owed_elsewhere();
    // Nobody can work in it any more, so that it may be removed by itself.
    assert_eq!(world.quarantines(SHARD, stream), [stream]);
    let told = world.does(Job::Other(Work::Remove { shard: SHARD, reply: ReplyId(7), run: stream }));
    let [Told::Removed { reply: ReplyId(7), removal, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(matches!(removal, Some(Removal::Removed { .. })), "{removal:?}");
    assert_eq!(world.store.get_run(stream).unwrap(), None);
}

#[test]
fn agents_are_remembered_and_forgotten_by_the_first_writer_that_can() {
    let mut world = World::new();
    world.claims(SHARD, None);
    world.claims(OTHER, None);
    // Another daemon has taken the first shard.
    world.store.claim(SHARD, Mark(1)).unwrap();
    let agent = AgentRow { name: "a".to_owned(), agent: vec![1, 2, 3].into(), last_seen: Millis(5) };
    let told = world.does(Job::Other(Work::Agents(vec![agent.clone()])));
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(world.store.agents().unwrap(), [agent]);
    let told = world.does(Job::Other(Work::ForgetAgents(vec!["a".to_owned()])));
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(world.store.agents().unwrap(), []);
}
