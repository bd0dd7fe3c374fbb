//! BlobService.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_server::BlobService;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_store::BlobHash;
use futures_util::{Stream, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};

use super::Pages;
use super::runs::{answer, read_on};
use crate::status;

/// Bytes of one blob.
const MAX_BLOB: usize = 64 * 1024 * 1024;
/// Bytes of one frame that is sent.
const CHUNK: usize = 256 * 1024;
/// Uploads in memory at once.
const UPLOADS: usize = 4;
/// The longest that an upload which has a place may let the daemon wait for its next frame.
const NEXT_FRAME: Duration = Duration::from_secs(30);

pub(super) struct Blobs {
    runtime: Runtime,
    uploads: Semaphore,
}

impl Blobs {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime, uploads: Semaphore::new(UPLOADS) }
    }
}

#[tonic::async_trait]
impl BlobService for Blobs {
    async fn put_blob(
        &self,
        request: Request<Streaming<v1::PutBlobRequest>>,
    ) -> Result<Response<v1::PutBlobResponse>, Status> {
        let (content, _place) = received(&self.uploads, request.into_inner()).await?;
        let size = content.len() as u64;
        let store = Arc::clone(self.runtime.store());
        let now = self.runtime.now().wall;
        let put = move || store.put_blob(&content, now).map_err(|error| status::store(&error));
        let hash = read_on(&self.runtime, put).await?;
        Ok(Response::new(v1::PutBlobResponse { blob: Some(v1::BlobRef::new(hash.to_string(), size)) }))
    }

    type GetBlobStream = Pages<v1::GetBlobResponse>;

    async fn get_blob(
        &self,
        request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let blake3 = request.into_inner().blake3;
        let reference = v1::BlobRef::new(blake3, 0);
        let Some(hash) = blob_hash(&reference) else {
            return Err(status::invalid_field("blake3", "hash", "64 hexadecimal characters"));
        };
        let store = Arc::clone(self.runtime.store());
        let size = move || store.blob_size(hash).map_err(|error| status::store(&error));
        let Some(size) = answer(&self.runtime, size).await? else {
            return Err(status::blob_not_found(&reference.blake3));
        };
        let download =
            Download { runtime: self.runtime.clone(), hash, size, offset: 0, seen: blake3::Hasher::new() };
        let chunks = futures_util::stream::unfold(Some(download), |rest| async move { rest?.chunk().await });
        Ok(Response::new(Box::pin(chunks)))
    }
}

/// An upload as a whole, with its place among those in memory. It gets the place with its first frame, and keeps it only
/// while it goes on: whoever opens uploads and says nothing holds up nobody else for long.
async fn received(
    uploads: &Semaphore,
    mut frames: impl Stream<Item = Result<v1::PutBlobRequest, Status>> + Unpin,
) -> Result<(Bytes, SemaphorePermit<'_>), Status> {
    let mut frame = frames.next().await.transpose()?;
    let place = uploads.acquire().await.map_err(|_| status::unavailable())?;
    let mut content = BytesMut::new();
    while let Some(v1::PutBlobRequest { chunk }) = frame {
        if content.len() + chunk.len() > MAX_BLOB {
            let message = format!("a blob has at most {MAX_BLOB} bytes");
            return Err(status::invalid_field("chunk", "size", message));
        }
        content.extend_from_slice(&chunk);
        let Ok(next) = timeout(NEXT_FRAME, frames.next()).await else {
            let message = format!("nothing more has come for {} s; upload it again", NEXT_FRAME.as_secs());
            return Err(status::invalid_field("chunk", "timeout", message));
        };
        frame = next.transpose()?;
    }
    Ok((content.freeze(), place))
}

/// A blob that is being read. A chunk is read when the reader takes it.
struct Download {
    runtime: Runtime,
    hash: BlobHash,
    /// Its bytes when it was asked for, which are those of every blob with this hash.
    size: u64,
    offset: u64,
    /// What was read so far.
    seen: blake3::Hasher,
}

impl Download {
    /// The next chunk, and what follows it.
    async fn chunk(mut self) -> Option<(Result<v1::GetBlobResponse, Status>, Option<Self>)> {
        let (store, hash, offset) = (Arc::clone(self.runtime.store()), self.hash, self.offset);
        let left = self.size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let read = move || store.read_blob(hash, offset, length).map_err(|error| status::store(&error));
        let chunk = match read_on(&self.runtime, read).await {
            // An empty blob is one empty chunk.
            Ok(Some(chunk)) if !chunk.is_empty() || left == 0 => chunk,
            // A sweep has removed it meanwhile: its reader must not take what came for all of it.
            Ok(_) => return Some((Err(status::blob_not_found(&hash.to_string())), None)),
            Err(error) => return Some((Err(error), None)),
        };
        self.offset += chunk.len() as u64;
        self.seen.update(&chunk);
        // Its reader does not get the end of what is damaged.
        if self.offset >= self.size && self.seen.finalize().as_bytes() != &hash.0 {
            return Some((Err(status::blob_not_found(&hash.to_string())), None));
        }
        let rest = (self.offset < self.size).then_some(self);
        Some((Ok(v1::GetBlobResponse { chunk }), rest))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream::{self, iter, pending};

    use super::*;

    fn frame(chunk: &'static [u8]) -> Result<v1::PutBlobRequest, Status> {
        Ok(v1::PutBlobRequest { chunk: chunk.into() })
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_says_nothing_has_no_place() {
        let uploads = Semaphore::new(1);
        let silent = received(&uploads, pending());
        let other = async {
            let (content, _place) = received(&uploads, iter([frame(b"ab"), frame(b"c")])).await.unwrap();
            content
        };
        tokio::select! {
            biased;
            _ = silent => panic!("nothing has come"),
            content = other => assert_eq!(content, "abc"),
            () = tokio::time::sleep(NEXT_FRAME / 2) => panic!("held up by an upload that has not begun"),
        }
        let (empty, _place) = received(&uploads, stream::empty()).await.unwrap();
        assert!(empty.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_has_stopped_gives_its_place_to_the_next() {
        let uploads = Semaphore::new(1);
        let stopped = received(&uploads, iter([frame(b"ab")]).chain(pending()));
        let next = received(&uploads, iter([frame(b"c")]));
        let begun = tokio::time::Instant::now();
        let (stopped, next) = tokio::join!(stopped, next);
        let refusal = stopped.unwrap_err();
        assert_eq!(refusal.code(), tonic::Code::InvalidArgument);
        assert!(refusal.message().contains("nothing more has come for 30 s"), "{}", refusal.message());
        assert_eq!((next.unwrap().0.as_ref(), begun.elapsed()), (&b"c"[..], NEXT_FRAME));
    }
}
