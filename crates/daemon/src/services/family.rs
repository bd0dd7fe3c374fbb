//! A run's family, as its readers see it: the run that it is a task of, and the runs that are its tasks or that workers
//! have started for them.

use capataz_contracts::v1;
use capataz_shard::projection::{CHILD, child_key, parent_of_key};
use capataz_store::{DerivedRow, RunId, Store, StoreError};
use prost::Message;

/// Children in the view of one run.
const MAX_SHOWN: usize = 100;

/// The first children of a run, oldest first, with what the run's view says of its tasks.
pub(super) fn shown(store: &dyn Store, parent: RunId) -> Result<Vec<v1::ChildView>, StoreError> {
    let mut shown = Vec::new();
    for DerivedRow { run, row } in store.derived(CHILD, &child_key(parent), None, MAX_SHOWN)? {
        let Some(of_child) = store.get_run(run)? else { continue };
        let of = v1::ParentRef::decode(row.value).unwrap_or_default();
        shown.push(v1::ChildView {
            run_id: run.to_string(),
            task: of.task,
            activation: of.activation,
            attempt: of.attempt,
            kind: of_child.kind,
            status: of_child.summary.status,
            outcome: (of_child.summary.outcome != 0).then_some(of_child.summary.outcome),
        });
    }
    Ok(shown)
}

/// The run whose task this run is, as its own first event says.
pub(super) fn parent(store: &dyn Store, run: RunId) -> Result<Option<v1::ParentRef>, StoreError> {
    let rows = store.derived_of(run, None, 1)?;
    let Some(row) = rows.into_iter().find(|row| row.kind == CHILD) else { return Ok(None) };
    let parent = parent_of_key(&row.key).map(|parent| parent.to_string()).unwrap_or_default();
    Ok(Some(v1::ParentRef { run_id: parent, ..v1::ParentRef::decode(row.value).unwrap_or_default() }))
}
