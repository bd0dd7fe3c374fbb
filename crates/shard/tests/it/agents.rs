//! What is remembered of agents, on its way from a turn to the disk.

use std::iter::once;
use std::sync::Arc;

use bytes::Bytes;
use capataz_shard::Output;
use capataz_shard::journal::{Errand, Job, Scribe, Work, errands};
use capataz_store::{AgentRow, Millis, SqliteOptions, SqliteStore, Store};

use crate::support::{SHARD, chance};

fn names(store: &SqliteStore) -> Vec<String> {
    store.agents().unwrap().into_iter().map(|row| row.name).collect()
}

#[test]
fn agents_are_on_the_disk_until_they_are_forgotten_and_then_for_no_later_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(folder.path(), SqliteOptions::default()).unwrap();
    let store = open();
    let mut scribe = Scribe::new(Arc::new(store.clone()), chance(1));
    let mut told = Vec::new();
    scribe.carry_out(Job::Other(Work::Claim { shard: SHARD, touched: None }), &mut told);
    let row = |name: &str| AgentRow {
        name: name.to_owned(),
        agent: Bytes::from_static(b"agent"),
        last_seen: Millis(1_000),
    };
    let mut writes = |output: Output| {
        for errand in errands(once(output)) {
            match errand {
                Errand::Write(work) => scribe.carry_out(Job::Other(work), &mut told),
                Errand::Leave(output) => panic!("{output:?} is not written"),
            }
        }
    };
    writes(Output::PutAgents(vec![row("gone"), row("kept")]));
    assert_eq!(names(&store), ["gone", "kept"]);
    writes(Output::ForgetAgents(vec!["gone".to_owned()]));
    assert_eq!(names(&store), ["kept"]);
    drop((scribe, store));
    assert_eq!(names(&open()), ["kept"]);
}
