//! Blobs that somebody names: they have to exist, and no sweep takes them as old ones before what names them is durable.

use std::sync::Arc;

use capataz_contracts::spec;
use capataz_contracts::v1::{self, connect_request::Frame, payload::Data};
use capataz_contracts::validate::{self, INLINE_MAX};
use capataz_policy::codes;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_store::{BlobHash, RunId, Store, StoreError};
use tonic::Status;

use super::starts;
use crate::status;

/// Refuses blobs that do not exist. Those that do are as young as if they were put now.
pub(super) async fn keep(runtime: &Runtime, blobs: &[BlobHash]) -> Result<(), Status> {
    if blobs.is_empty() {
        return Ok(());
    }
    let renewed = runtime.reads().store(renewal(runtime, blobs.to_vec())).await;
    match renewed.map_err(status::busy)?? {
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

/// A worker's frame as a shard may have it: within the limits, and what it names is there.
pub(super) async fn taken(runtime: &Runtime, frame: Frame) -> Result<Frame, Status> {
    let frame = validate::worker_frame(stored(runtime, frame).await?, INLINE_MAX);
    let Some(blob) = output_of(&frame) else { return Ok(frame) };
    let is_there = match blob_hash(blob) {
        Some(hash) => of_frame(runtime, renewal(runtime, vec![hash])).await?.is_none(),
        None => false,
    };
    if is_there { excerpted(runtime, frame).await } else { Ok(without(blob.blake3.clone(), frame)) }
}

/// The frame of a worker within the daemon, which keeps the limits.
pub(crate) async fn answered(runtime: &Runtime, frame: Frame) -> Frame {
    let (lease, usage) = match &frame {
        Frame::Completed(completed) => (completed.lease.clone(), completed.usage.clone()),
        _ => return frame,
    };
    let read = async { excerpted(runtime, stored(runtime, frame).await?).await };
    read.await.unwrap_or_else(|error| {
        let message = format!("the answer cannot be kept: {}", error.message());
        let error = codes::error(codes::SERVICE_UNAVAILABLE, message);
        Frame::Failed(v1::Failed { lease, error: Some(error), log: String::new(), usage })
    })
}

/// The blob that is the output in a frame.
fn output_of(frame: &Frame) -> Option<&v1::BlobRef> {
    let output = match frame {
        Frame::Completed(completed) => completed.output.as_ref(),
        Frame::Cancelled(cancelled) => cancelled.partial_output.as_ref(),
        Frame::Progress(progress) => progress.partial_output.as_ref(),
        _ => None,
    };
    match output?.data.as_ref()? {
        Data::Blob(blob) => Some(blob),
        Data::Inline(_) => None,
    }
}

/// A frame whose output is not there: a result is a failure of its task, and a partial output is left out.
fn without(blake3: String, frame: Frame) -> Frame {
    let error =
        codes::error(codes::BLOB_NOT_FOUND, format!("the output is blob {blake3}, which is not there"));
    match frame {
        Frame::Completed(v1::Completed { lease, log, usage, .. }) => {
            Frame::Failed(v1::Failed { lease, error: Some(error), log, usage })
        }
        Frame::Cancelled(cancelled) => Frame::Cancelled(v1::Cancelled { partial_output: None, ..cancelled }),
        Frame::Progress(progress) => Frame::Progress(v1::Progress { partial_output: None, ..progress }),
        frame => frame,
    }
}

/// A spec's answer that is too large to be inline becomes a blob.
async fn stored(runtime: &Runtime, mut frame: Frame) -> Result<Frame, Status> {
    let Frame::Completed(completed) = &mut frame else { return Ok(frame) };
    let Some(v1::Payload { data: Some(data), .. }) = &mut completed.output else { return Ok(frame) };
    let content = match data {
        Data::Inline(content) if content.len() > INLINE_MAX => content.clone(),
        Data::Inline(_) | Data::Blob(_) => return Ok(frame),
    };
    if !is_answer(runtime, completed.lease.as_ref()).await? {
        return Ok(frame);
    }
    let (store, now) = (Arc::clone(runtime.store()), runtime.now().wall);
    let size = content.len() as u64;
    let put = move || store.put_blob(&content, now).map_err(|error| status::store(&error));
    *data = Data::Blob(v1::BlobRef::new(of_frame(runtime, put).await?.to_string(), size));
    Ok(frame)
}

/// A spec's answer that is a blob has with it what its ask goes by. It is read here, and judged where that holds up no shard.
async fn excerpted(runtime: &Runtime, mut frame: Frame) -> Result<Frame, Status> {
    let Frame::Completed(completed) = &mut frame else { return Ok(frame) };
    let Some(v1::Payload { data: Some(Data::Blob(blob)), .. }) = &mut completed.output else {
        return Ok(frame);
    };
    let Some(hash) = blob_hash(blob) else { return Ok(frame) };
    if is_answer(runtime, completed.lease.as_ref()).await? {
        let store = Arc::clone(runtime.store());
        let read = move || excerpt(&*store, hash).map_err(|error| status::store(&error));
        let (size, excerpt) = of_frame(runtime, read).await?;
        blob.size = size;
        blob.answer = Some(Box::new(excerpt));
    }
    Ok(frame)
}

fn excerpt(store: &dyn Store, hash: BlobHash) -> Result<(u64, v1::AnswerExcerpt), StoreError> {
    let size = store.blob_size(hash)?.unwrap_or_default();
    let excerpt = match spec::excerpt_of_size(size) {
        Some(excerpt) => excerpt,
        None => spec::excerpt(&store.read_blob(hash, 0, spec::MAX_BYTES)?.unwrap_or_default()),
    };
    Ok((size, excerpt))
}

/// Whether what this lease's task gives back is the answer of a spec.
async fn is_answer(runtime: &Runtime, lease: Option<&v1::LeaseRef>) -> Result<bool, Status> {
    let Some(run) = lease.and_then(|lease| lease.run_id.parse::<RunId>().ok()) else { return Ok(false) };
    let store = Arc::clone(runtime.store());
    let row = of_frame(runtime, move || store.get_run(run).map_err(|error| status::store(&error))).await?;
    Ok(row.is_some_and(|row| starts::asks_specs(&row)))
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
