//! ExportRun: the events of a run as they are stored, page by page.

use std::collections::VecDeque;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_runtime::Runtime;
use capataz_shard::{Damage, LoadError, feed};
use capataz_store::{RunId, Store};
use tonic::Status;

use super::Pages;
use super::runs::{read_on, unreadable};
use crate::status;

/// Bytes of events in one part of an export.
const EXPORT_BYTES: usize = 1024 * 1024;

/// The events of a run. A page is read when the reader takes it.
pub(super) fn pages(runtime: Runtime, run: RunId) -> Pages<v1::ExportRunResponse> {
    let export = Export { runtime, run, after: 0, unsent: VecDeque::new(), damage: None };
    Box::pin(futures_util::stream::unfold(Some(export), |export| async move { export?.page().await }))
}

/// How far an export has come.
struct Export {
    runtime: Runtime,
    run: RunId,
    after: u64,
    /// Events that were read and not sent yet: a row of the log may have more of them than fit into one answer.
    unsent: VecDeque<Bytes>,
    /// What is wrong behind these events.
    damage: Option<LoadError>,
}

impl Export {
    /// The next page, and what follows it.
    async fn page(mut self) -> Option<(Result<v1::ExportRunResponse, Status>, Option<Self>)> {
        if !self.unsent.is_empty() {
            return Some((Ok(self.part()), Some(self)));
        }
        let (runtime, run, mut after, damage) =
            (self.runtime.clone(), self.run, self.after, self.damage.take());
        let read = read_on(&self.runtime, move || {
            if let Some(error) = damage {
                return Err(unreadable(&runtime, &error));
            }
            match export_page(&**runtime.store(), run, &mut after) {
                // Either all was read, or a sweep has removed the run meanwhile: its reader must not take what came for
                // all of it.
                Ok((events, None)) if events.is_empty() => {
                    let row = runtime.store().get_run(run).map_err(|error| status::store(&error))?;
                    row.ok_or_else(|| status::not_found(&run.to_string()))?;
                    Ok((events, None, after))
                }
                Ok((events, damage)) if !events.is_empty() || damage.is_none() => Ok((events, damage, after)),
                Ok((_, damage)) => {
                    Err(damage.map_or_else(status::unavailable, |error| unreadable(&runtime, &error)))
                }
                Err(error) => Err(unreadable(&runtime, &error)),
            }
        });
        match read.await {
            Ok((events, None, _)) if events.is_empty() => None,
            Ok((events, damage, after)) => {
                (self.after, self.damage, self.unsent) = (after, damage, events.into());
                Some((Ok(self.part()), Some(self)))
            }
            Err(error) => Some((Err(error), None)),
        }
    }

    /// The first of the events that are not sent yet: about [`EXPORT_BYTES`], or a single one.
    fn part(&mut self) -> v1::ExportRunResponse {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while let Some(event) =
            self.unsent.pop_front_if(|event| bytes == 0 || bytes + event.len() <= EXPORT_BYTES)
        {
            bytes += event.len();
            events.push(event);
        }
        v1::ExportRunResponse { events }
    }
}

/// The next events of a run, which move `after` on; beside them what is wrong behind them.
pub(super) fn export_page(
    store: &dyn Store,
    run: RunId,
    after: &mut u64,
) -> Result<(Vec<Bytes>, Option<LoadError>), LoadError> {
    let mut events = Vec::new();
    for row in store.read_run(run, *after, 256, EXPORT_BYTES)? {
        match feed::events_of(&row, *after) {
            Ok(more) => events.extend(more),
            Err(damage) => return Ok((events, Some(LoadError::Damaged(Damage { run, ..damage })))),
        }
        *after = row.first_seq.saturating_add(u64::from(row.count)).saturating_sub(1);
    }
    Ok((events, None))
}
