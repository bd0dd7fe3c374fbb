//! Reading rows and states of runs, as they are now and as they were.

use std::sync::Arc;

use capataz_contracts::v1;
use capataz_runtime::Runtime;
use capataz_shard::{Damage, LoadError};
use capataz_store::{RunId, RunRow, Store};
use tonic::Status;

use super::Runs;
use crate::folds::{Held, Unread};
use crate::status;

impl Runs {
    pub(in crate::services) async fn row(&self, run: RunId) -> Result<RunRow, Status> {
        let store = Arc::clone(self.runtime.store());
        answer(&self.runtime, move || row_of(&*store, run)).await
    }

    /// The row of a run, or of the stream of a session in quarantine.
    pub(super) async fn stored(&self, run: RunId) -> Result<RunRow, Status> {
        let store = Arc::clone(self.runtime.store());
        answer(&self.runtime, move || {
            let row = store.get_run(run).map_err(|error| status::store(&error))?;
            row.ok_or_else(|| status::not_found(&run.to_string()))
        })
        .await
    }

    /// The bytes of a run's events; `None` where they cannot be measured.
    pub(super) async fn bytes_of(&self, run: RunId) -> Option<u64> {
        let store = Arc::clone(self.runtime.store());
        let measured = answer(&self.runtime, move || {
            let row = store.get_run(run).map_err(|error| status::store(&error))?;
            let Some(row) = row else { return Ok(None) };
            store.extent(run, row.last_seq).map_err(|error| status::store(&error))
        });
        measured.await.ok().flatten().map(|extent| extent.bytes)
    }

    /// The state of a run whose row was read just now.
    pub(in crate::services) async fn fold(&self, row: &RunRow) -> Result<Held, Status> {
        let run = row.run;
        let read = self.folds.get(run).await;
        if let Ok(held) = &read
            && held.seq() >= row.last_seq
        {
            return Ok(held.clone());
        }
        self.unless_unread(run, read).await
    }

    /// The state of a run, as it is now or as it was after an event.
    pub(in crate::services) async fn state_at(&self, run_id: &str, at: Option<u64>) -> Result<Held, Status> {
        let row = self.whole(parse_run(run_id)?).await?;
        match at {
            Some(at) => self.fold_at(&row, at).await,
            None => self.fold(&row).await,
        }
    }

    /// The state as it was after event `at`.
    pub(in crate::services) async fn fold_at(&self, row: &RunRow, at: u64) -> Result<Held, Status> {
        row_has(row, at)?;
        self.unless_unread(row.run, self.folds.at(row.run, at).await).await
    }

    /// What was read of a run, or why it was not.
    pub(in crate::services) async fn unless_unread<T: Send + 'static>(
        &self,
        run: RunId,
        read: Result<T, Unread>,
    ) -> Result<T, Status> {
        let read = match read {
            Ok(read) => Ok(read),
            Err(Unread::Busy(busy)) => return Err(status::busy(busy)),
            Err(Unread::Load(error)) => {
                let runtime = self.runtime.clone();
                answer(&self.runtime, move || Err(unreadable(&runtime, &error))).await
            }
        };
        // A log that ends too early may have been removed while it was read, which is not damage.
        self.row(run).await?;
        read
    }

    /// The row of a run that is not in quarantine.
    pub(in crate::services) async fn whole(&self, run: RunId) -> Result<RunRow, Status> {
        let row = self.row(run).await?;
        refuse_quarantined(&row)?;
        Ok(row)
    }
}

/// Refuses an event that the run does not have.
pub(in crate::services) fn row_has(row: &RunRow, at: u64) -> Result<(), Status> {
    if (1..=row.last_seq).contains(&at) {
        return Ok(());
    }
    let message = format!("the run has the events 1 to {}, and not {at}", row.last_seq);
    Err(status::invalid_field("at_seq", "range", &message))
}

/// The row of a run. The stream of a session has one, too, and is not a run.
fn row_of(store: &dyn Store, run: RunId) -> Result<RunRow, Status> {
    store
        .get_run(run)
        .map_err(|error| status::store(&error))?
        .filter(|row| row.kind != v1::RunKind::Session as i32)
        .ok_or_else(|| status::not_found(&run.to_string()))
}

/// A run in quarantine is neither read nor worked on.
pub(in crate::services) fn refuse_quarantined(row: &RunRow) -> Result<(), Status> {
    match &row.quarantine {
        Some(quarantine) => Err(status::damaged(&Damage::of_quarantine(row.run, quarantine))),
        None => Ok(()),
    }
}

/// Why a run cannot be read. The shards are told where it is damaged. Blocks on I/O.
pub(in crate::services) fn unreadable(runtime: &Runtime, error: &LoadError) -> Status {
    if let LoadError::Damaged(damage) = error {
        runtime.found_damaged(damage);
    }
    status::load(error)
}

pub(in crate::services) fn parse_run(run_id: &str) -> Result<RunId, Status> {
    run_id.parse().map_err(|_| status::invalid_field("run_id", "uuid", format!("{run_id:?} is not a run id")))
}

/// Reads for an answer, where such reads have their places.
pub(in crate::services) async fn answer<T: Send + 'static>(
    runtime: &Runtime,
    read: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    runtime.reads().answer(read).await.map_err(status::busy)?
}

/// Reads for a stream, where such reads have their places.
pub(in crate::services) async fn read_on<T: Send + 'static>(
    runtime: &Runtime,
    read: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    runtime.reads().stream(read).await.map_err(status::busy)?
}
