//! Blobs that somebody names: they have to exist, and no sweep takes them as old ones before what names them is durable.

use std::sync::Arc;

use capataz_contracts::v1::{self, connect_request::Frame, payload::Data};
use capataz_policy::codes;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_store::{BlobHash, RunId};
use tonic::Status;

use super::runs::answer;
use super::starts;
use crate::status;

/// Refuses blobs that do not exist. Those that do are as young as if they were put now.
pub(super) async fn keep(runtime: &Runtime, blobs: &[BlobHash]) -> Result<(), Status> {
    if blobs.is_empty() {
        return Ok(());
    }
    match answer(runtime, renewal(runtime, blobs.to_vec())).await? {
        Some(missing) => Err(status::blob_not_found(&missing.to_string())),
        None => Ok(()),
    }
}

/// Reads for a worker's frame, where such reads have their places.
async fn of_frame<T: Send + 'static>(
    runtime: &Runtime,
    read: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    runtime.reads().frame(read).await.map_err(status::busy)?
}

/// A worker's frame, whose output is there. A result that names a blob that is not there is a failure of its task, and a
/// partial output is left out.
pub(super) async fn existing(runtime: &Runtime, frame: Frame) -> Result<Frame, Status> {
    let (lease, named) = match &frame {
        Frame::Completed(v1::Completed { lease, output, .. }) => (lease, output.as_ref()),
        Frame::Cancelled(v1::Cancelled { lease, partial_output, .. })
        | Frame::Progress(v1::Progress { lease, partial_output, .. }) => (lease, partial_output.as_ref()),
        _ => return Ok(frame),
    };
    let Some(Data::Blob(blob)) = named.and_then(|output| output.data.as_ref()) else { return Ok(frame) };
    let is_there = match blob_hash(blob) {
        Some(hash) => of_frame(runtime, renewal(runtime, vec![hash])).await?.is_none(),
        None => false,
    };
    let run = lease.as_ref().and_then(|lease| lease.run_id.parse().ok());
    if is_there || !takes_blobs(runtime, run).await? {
        return Ok(frame);
    }
    let error = v1::Error {
        code: codes::BLOB_NOT_FOUND.into(),
        message: format!("the output is blob {}, which is not there", blob.blake3),
        ..v1::Error::default()
    };
    Ok(match frame {
        Frame::Completed(v1::Completed { lease, log, .. }) => {
            Frame::Failed(v1::Failed { lease, error: Some(error), log })
        }
        Frame::Cancelled(cancelled) => Frame::Cancelled(v1::Cancelled { partial_output: None, ..cancelled }),
        Frame::Progress(progress) => Frame::Progress(v1::Progress { partial_output: None, ..progress }),
        frame => frame,
    })
}

/// Whether the outputs of the run's tasks may be blobs. Where they may not, the run says so itself.
async fn takes_blobs(runtime: &Runtime, run: Option<RunId>) -> Result<bool, Status> {
    let Some(run) = run else { return Ok(true) };
    let store = Arc::clone(runtime.store());
    let row = of_frame(runtime, move || store.get_run(run).map_err(|error| status::store(&error))).await?;
    Ok(row.is_none_or(|row| starts::takes_blobs(&row)))
}

/// Renews the ages of the blobs, and returns the first one that does not exist. To be called where reads may block.
fn renewal(
    runtime: &Runtime,
    blobs: Vec<BlobHash>,
) -> impl FnOnce() -> Result<Option<BlobHash>, Status> + Send + 'static {
    let (store, now) = (Arc::clone(runtime.store()), runtime.now().wall);
    move || {
        let missing = store.renew_blobs(&blobs, now).map_err(|error| status::store(&error))?;
        Ok(missing.into_iter().next())
    }
}
