//! A run's family, as its readers see it: the run that it is a task of, and the runs that are its tasks or that workers
//! have started for them.

use capataz_contracts::v1;
use capataz_shard::projection::{CHILD, child_key, parent_of_key};
use capataz_store::{DerivedRow, Place, RunId, RunQuery, RunRow, Store, StoreError};
use prost::Message;

/// Rows that are read at a time.
const PAGE: usize = 256;
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

/// The children of a run that match the query, oldest first, after the one that the query names.
pub(super) fn listed(store: &dyn Store, parent: RunId, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
    let mut rows = Vec::new();
    let mut after = query.before.map(|run| (run, LAST));
    loop {
        let page = store.derived(CHILD, &child_key(parent), after, PAGE)?;
        let Some(last) = page.last() else { return Ok(rows) };
        after = Some((last.run, last.row.place));
        for DerivedRow { run, .. } in page {
            rows.extend(store.get_run(run)?.filter(|row| matches(row, query)));
            if rows.len() >= query.limit as usize {
                return Ok(rows);
            }
        }
    }
}

/// Behind every row of a run.
const LAST: Place = Place { seq: i64::MAX.unsigned_abs(), n: u32::MAX };

fn matches(row: &RunRow, query: &RunQuery) -> bool {
    let is = |wanted: Option<i32>, is: i32| wanted.is_none_or(|wanted| wanted == is);
    is(query.status, row.summary.status)
        && is(query.outcome, row.summary.outcome)
        && is(query.kind, row.kind)
        && query.labels.iter().all(|(key, value)| row.labels.get(key) == Some(value))
}
