//! A run folded again from its first event, and what is stored of it beside its log compared with that.

use std::collections::BTreeMap;

use capataz_contracts::{json, v1};
use capataz_engine::planted::{self, Fault};
use capataz_engine::{RunState, SNAPSHOT_FORMAT, ViewOptions};
use capataz_store::{RunId, RunRow, Snapshot, Store, Summary};
use serde_json::{Value, json};

use crate::load::{Damage, LoadError, add_to_run, read_on};
use crate::projection::listed;

/// Differences that are told at most.
pub const MAX_DIFFERENCES: usize = 100;
/// Bytes of the text of a value that is told at most.
const MAX_VALUE_BYTES: usize = 4096;

/// Folds all events that the run has by now, and compares the run's row and its snapshot, where there is one of this build's
/// format, with what comes of it. `None` where there is no such run.
///
/// # Errors
/// The store cannot be read, or the log is damaged.
pub fn replay(store: &dyn Store, run: RunId) -> Result<Option<v1::ReplayRunResponse>, LoadError> {
    let snapshot = store.snapshot(run)?.filter(|snapshot| snapshot.format == SNAPSHOT_FORMAT);
    // Read after the snapshot, which is of nothing that the row does not know.
    let Some(row) = store.get_run(run)? else { return Ok(None) };
    let last = row.last_seq.saturating_sub(planted::is(Fault::ReplayStopsEarly).into());
    let mut told = Vec::new();
    let folded = read_on(store, run, None, 0, |state: Option<RunState>, event: v1::Event| match state {
        // Appended since the row was read.
        Some(state) if event.seq > last => Ok(state),
        state => {
            let state = add_to_run(run, state, event)?;
            if let Some(snapshot) = snapshot.as_ref().filter(|snapshot| snapshot.seq == state.seq()) {
                told.extend(in_snapshot(run, &state, snapshot));
            }
            Ok(state)
        }
    })?;
    let folded = folded.ok_or_else(|| LoadError::Damaged(Damage::of_nothing(run)))?;
    let snapshot_seq = snapshot.map(|snapshot| snapshot.seq);
    if let Some(ahead) = snapshot_seq.filter(|seq| *seq > folded.seq()) {
        told.push(difference("snapshot.seq".to_owned(), Some(&json!(ahead)), Some(&json!(folded.seq()))));
    }
    let mut differences = in_row(&row, &folded);
    differences.extend(told);
    let more = differences.len() > MAX_DIFFERENCES;
    differences.truncate(MAX_DIFFERENCES);
    Ok(Some(v1::ReplayRunResponse { events: folded.seq(), snapshot_seq, differences, more }))
}

/// Where a snapshot of the state is another one.
fn in_snapshot(run: RunId, folded: &RunState, snapshot: &Snapshot) -> Vec<v1::ReplayDifference> {
    let whole = |told: &str| vec![difference("snapshot".to_owned(), Some(&json!(told)), None)];
    let Ok(stored) = RunState::from_snapshot(&snapshot.state) else { return whole("it cannot be read") };
    // What is not in a snapshot at all is no difference.
    let again = folded.snapshot().ok().and_then(|again| RunState::from_snapshot(&again).ok());
    if again.as_ref() == Some(&stored) {
        return Vec::new();
    }
    let [stored, folded] = [&stored, folded].map(|state| shown(run, state));
    let told = told("snapshot", &stored, &folded);
    if told.is_empty() { whole("another state that looks the same") } else { told }
}

fn shown(run: RunId, state: &RunState) -> Value {
    let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
    json::print("capataz.v1.Run", &state.view(run.to_string(), options))
}

/// Where the row says something else.
fn in_row(row: &RunRow, folded: &RunState) -> Vec<v1::ReplayDifference> {
    let summary = ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 };
    let view = folded.view(row.run.to_string(), summary);
    let stored = of_row(
        json!({ "kind": row.kind, "name": row.name, "labels": row.labels, "created_at_ms": row.created_at.0 }),
        row.last_seq,
        &row.summary,
    );
    let folded = of_row(
        json!({
            "kind": view.kind,
            "name": view.name,
            "labels": BTreeMap::from_iter(&view.labels),
            "created_at_ms": view.created_at_ms,
        }),
        folded.seq(),
        &listed(folded),
    );
    told("row", &stored, &folded)
}

fn of_row(mut row: Value, last_seq: u64, summary: &Summary) -> Value {
    let Summary { status, outcome, updated_at, finished_at, tasks_total, tasks_settled } = summary;
    row["last_seq"] = last_seq.into();
    row["status"] = (*status).into();
    row["outcome"] = (*outcome).into();
    row["updated_at_ms"] = updated_at.0.into();
    row["finished_at_ms"] = finished_at.map(|at| at.0).into();
    row["tasks_total"] = (*tasks_total).into();
    row["tasks_settled"] = (*tasks_settled).into();
    row
}

fn told(what: &str, stored: &Value, folded: &Value) -> Vec<v1::ReplayDifference> {
    // One more than is told says that there are more.
    let found = json::differences(stored, folded, MAX_DIFFERENCES + 1);
    found.into_iter().map(|at| difference(format!("{what}.{}", at.path), at.left, at.right)).collect()
}

fn difference(path: String, stored: Option<&Value>, folded: Option<&Value>) -> v1::ReplayDifference {
    let text = |value: &Value| {
        let mut text = value.to_string();
        if text.len() > MAX_VALUE_BYTES {
            text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
            text.push('…');
        }
        text
    };
    v1::ReplayDifference { path, stored: stored.map(text), folded: folded.map(text) }
}
