//! Waits for what a run's events say.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::SHARD;
use bytes::Bytes;
use capataz_contracts::v1;
use capataz_runtime::{Item, News, Runtime, Subscription};
use capataz_shard::feed::{self, Begin, Filter};
use capataz_store::RunId;
use prost::Message;
use tonic::Status;

use super::runs::{read_on, refuse_quarantined};
use crate::status;

const BATCH: usize = 64;

/// Gives the run's events after number `after` to `pick`, those that are there and then those that come, until it takes one.
/// `None` where the run ends before that.
pub(super) async fn follow<T: Send + 'static>(
    runtime: &Runtime,
    run: RunId,
    after: u64,
    mut pick: impl FnMut(v1::Event) -> Option<T> + Send,
) -> Result<Option<T>, Status> {
    let filter = Filter { run: Some(run), ..Filter::default() };
    // What comes from now on is heard before what is there is read: nothing falls between the two.
    let begun = Subscription::begin(runtime, SHARD, filter, Begin::Now, BATCH, News::None).await;
    let mut subscription = begun.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a run's events cannot be followed");
        status::unavailable()
    })?;
    let mut seen = after;
    let mut take = |bytes: Bytes, seen: &mut u64| -> Result<ControlFlow<Option<T>>, Status> {
        let event = decode(bytes)?;
        if event.seq <= *seen {
            return Ok(ControlFlow::Continue(()));
        }
        *seen = event.seq;
        let ends = is_last(&event);
        Ok(match pick(event) {
            Some(picked) => ControlFlow::Break(Some(picked)),
            None if ends => ControlFlow::Break(None),
            None => ControlFlow::Continue(()),
        })
    };
    quarantined(runtime, run).await?;
    loop {
        let store = Arc::clone(runtime.store());
        let page = read_on(runtime, move || {
            store.read_run(run, seen, 256, 1024 * 1024).map_err(|error| status::store(&error))
        });
        let page = page.await?;
        if page.is_empty() {
            break;
        }
        for row in &page {
            let events = feed::events_of(row, seen).map_err(|damage| status::damaged(&damage))?;
            for bytes in events {
                if let ControlFlow::Break(taken) = take(bytes, &mut seen)? {
                    return Ok(taken);
                }
            }
        }
    }
    loop {
        let step = match subscription.next(true).await.map_err(|error| status::load(&error))? {
            Item::Step(step, _) => step,
            Item::Progress(_) => continue,
            Item::Quarantined(run) => {
                quarantined(runtime, run).await?;
                continue;
            }
            // Retention has removed the run.
            Item::Missed(_) => return Err(status::not_found(&run.to_string())),
        };
        for delivered in step.events {
            if let ControlFlow::Break(taken) = take(delivered.event, &mut seen)? {
                return Ok(taken);
            }
        }
    }
}

/// Fails where the run is in quarantine.
pub(super) async fn quarantined(runtime: &Runtime, run: RunId) -> Result<(), Status> {
    let store = Arc::clone(runtime.store());
    read_on(runtime, move || {
        let row = store.get_run(run).map_err(|error| status::store(&error))?;
        row.as_ref().map_or(Ok(()), refuse_quarantined)
    })
    .await
}

fn is_last(event: &v1::Event) -> bool {
    matches!(event.body, Some(v1::event::Body::RunFinished(_)))
}

fn decode(bytes: Bytes) -> Result<v1::Event, Status> {
    v1::Event::decode(bytes).map_err(|error| {
        tracing::error!(%error, "an event cannot be read");
        status::unavailable()
    })
}
