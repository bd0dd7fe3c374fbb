//! How executions went: sums over the rows of those that have ended.

use std::sync::Arc;

use capataz_contracts::v1::{self, ExecutionMode};
use capataz_policy::mode::analytics::{Sums, analytics_of};
use capataz_runtime::Runtime;
use capataz_shard::projection::{EXECUTION, execution_key};
use capataz_store::{DerivedRow, Place, RunId, Store};
use prost::Message;
use tonic::Status;

use super::runs::answer;
use crate::status;

/// Rows that are read at a time, so that no read is a long one.
const PAGE: usize = 2_000;

const MODES: [ExecutionMode; 3] = [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised];

/// How the executions went that were started from then on.
pub(super) async fn analytics(runtime: &Runtime, since_ms: i64) -> Result<v1::GetAnalyticsResponse, Status> {
    let since = u64::try_from(since_ms)
        .map_err(|_| status::invalid_field("since_ms", "range", "must not be negative"))?;
    let mut all = Sums::default();
    let mut modes = Vec::new();
    for mode in MODES {
        let sums = sums(runtime, mode, since).await?;
        all.merge(&sums);
        modes.push(sums.of_mode(mode));
    }
    Ok(analytics_of(modes, &all))
}

async fn sums(runtime: &Runtime, mode: ExecutionMode, since_ms: u64) -> Result<Sums, Status> {
    let mut sums = Sums::default();
    let mut after = first_from(since_ms);
    loop {
        let store = Arc::clone(runtime.store());
        let (page, last) = answer(runtime, move || page(&*store, mode, after)).await?;
        sums.merge(&page);
        match last {
            Some(last) => after = Some(last),
            None => return Ok(sums),
        }
    }
}

/// The sums of a page of rows, and the last one where there may be more.
fn page(
    store: &dyn Store,
    mode: ExecutionMode,
    after: Option<(RunId, Place)>,
) -> Result<(Sums, Option<(RunId, Place)>), Status> {
    let rows =
        store.derived(EXECUTION, &execution_key(mode), after, PAGE).map_err(|error| status::store(&error))?;
    let mut sums = Sums::default();
    for DerivedRow { row, .. } in &rows {
        // A row that is damaged counts nothing; `capataz rebuild` makes it again.
        if let Ok(ended) = v1::ExecutionEnded::decode(&row.value[..]) {
            sums.add(&ended);
        }
    }
    let last = rows.last().filter(|_| rows.len() == PAGE).map(|last| (last.run, last.row.place));
    Ok((sums, last))
}

/// Ids of runs begin with the moment at which they were given, in 48 bits.
fn first_from(since_ms: u64) -> Option<(RunId, Place)> {
    let id = u128::from(since_ms).checked_shl(80).filter(|_| since_ms < 1 << 48).unwrap_or(u128::MAX);
    (since_ms > 0).then(|| (RunId(uuid::Uuid::from_u128(id)), Place::default()))
}
