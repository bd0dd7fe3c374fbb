//! BlobService.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_server::BlobService;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_store::BlobHash;
use futures_util::future::{Either, select};
use futures_util::{Stream, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Request, Response, Status, Streaming};

use super::Pages;
use super::runs::{answer, read_on};
use crate::patience::{Patience, within};
use crate::status;

/// Bytes of one blob.
const MAX_BLOB: usize = 64 * 1024 * 1024;
/// Bytes of one frame that is sent. One waits in the daemon for each download that nobody reads.
const CHUNK: usize = 32 * 1024;
/// Uploads in memory at once.
const UPLOADS: usize = 4;
/// Uploads that wait for a place in memory.
const WAITING: usize = 64;
/// How long an upload waits for a place.
const PLACE: Duration = Duration::from_secs(60);
/// How long an upload which has a place may take for its first frame, and for [`PROGRESS_BYTES`] each time.
const PROGRESS: Duration = Duration::from_secs(30);
/// The bytes that give an upload time again while others wait for its place.
const PROGRESS_BYTES: usize = 2 * 1024 * 1024;
/// The bytes that do so while nobody waits.
const SLOW_BYTES: usize = 64 * 1024;
/// What an upload for which there is no place is asked to wait, in milliseconds.
const UPLOAD_AGAIN_MS: i64 = 1_000;

pub(super) struct Blobs {
    runtime: Runtime,
    uploads: Uploads,
}

/// The places of uploads.
struct Uploads {
    places: Semaphore,
    waiting: Semaphore,
    most_waiting: usize,
}

impl Uploads {
    fn new(places: usize, waiting: usize) -> Self {
        Self { places: Semaphore::new(places), waiting: Semaphore::new(waiting), most_waiting: waiting }
    }

    fn is_awaited(&self) -> bool {
        self.waiting.available_permits() < self.most_waiting
    }

    /// A place, for which not too many others wait already, and not for too long.
    async fn place(&self) -> Result<SemaphorePermit<'_>, Status> {
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let overloaded = || status::overloaded(UPLOAD_AGAIN_MS);
        let _waits = self.waiting.try_acquire().map_err(|_| overloaded())?;
        let place = within(PLACE, self.places.acquire()).await.ok_or_else(overloaded)?;
        place.map_err(|_| status::unavailable())
    }
}

impl Blobs {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime, uploads: Uploads::new(UPLOADS, WAITING) }
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
        let hash = self.runtime.reads().store(put).await.map_err(status::busy)??;
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

/// An upload as a whole, with its place among those in memory. It has the place before anything of it is read, and keeps it
/// only while it goes on: whoever opens uploads and says nothing, or next to nothing, holds up nobody else for long.
async fn received(
    uploads: &Uploads,
    mut frames: impl Stream<Item = Result<v1::PutBlobRequest, Status>> + Unpin,
) -> Result<(Bytes, SemaphorePermit<'_>), Status> {
    let place = uploads.place().await?;
    let mut content = BytesMut::new();
    // How long the next bytes are waited for, since how many there were, and how many there have to be.
    let (mut patience, mut from, mut awaited) = (Patience::new(PROGRESS), 0, 0);
    let mut number = 0_u64;
    loop {
        let Either::Left((frame, _)) = select(frames.next(), &mut patience).await else {
            if content.len() >= from + SLOW_BYTES && !uploads.is_awaited() {
                (patience, from) = (Patience::new(PROGRESS), content.len());
                continue;
            }
            let seconds = PROGRESS.as_secs();
            return Err(status::late(format!("too little more has come for {seconds} s; upload it again")));
        };
        let Some(v1::PutBlobRequest { chunk }) = frame.transpose()? else { break };
        if content.len() + chunk.len() > MAX_BLOB {
            let message = format!("a blob has at most {MAX_BLOB} bytes");
            return Err(status::invalid_field("chunk", "size", message));
        }
        if chunk.is_empty() && number > 0 {
            let message = "a chunk after the first has at least one byte";
            return Err(status::invalid_field("chunk", "size", message));
        }
        content.extend_from_slice(&chunk);
        if content.len() >= awaited {
            (patience, from) = (Patience::new(PROGRESS), content.len());
            awaited = from + PROGRESS_BYTES;
        }
        number = number.saturating_add(1);
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::stream::{self, FuturesUnordered, iter, pending};
    use tokio::time::{Instant, advance};

    use super::*;

    fn frame(chunk: &'static [u8]) -> Result<v1::PutBlobRequest, Status> {
        Ok(v1::PutBlobRequest { chunk: chunk.into() })
    }

    fn ended_for_time(refusal: &Status) -> bool {
        refusal.code() == tonic::Code::Unavailable && refusal.message().contains("has come for 30 s")
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_says_nothing_gives_its_place_to_the_next() {
        let uploads = Uploads::new(1, 1);
        let begun = Instant::now();
        let silent = received(&uploads, pending());
        let other = received(&uploads, iter([frame(b"ab"), frame(b"c")]));
        let (silent, other) = tokio::join!(silent, other);
        assert!(ended_for_time(&silent.unwrap_err()));
        assert_eq!((other.unwrap().0.as_ref(), begun.elapsed()), (&b"abc"[..], PROGRESS));
        let (empty, _place) = received(&uploads, stream::empty()).await.unwrap();
        assert!(empty.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_has_stopped_gives_its_place_to_the_next() {
        let uploads = Uploads::new(1, 1);
        let stopped = received(&uploads, iter([frame(b"ab")]).chain(pending()));
        let next = received(&uploads, iter([frame(b"c")]));
        let begun = Instant::now();
        let (stopped, next) = tokio::join!(stopped, next);
        assert!(ended_for_time(&stopped.unwrap_err()));
        assert_eq!((next.unwrap().0.as_ref(), begun.elapsed()), (&b"c"[..], PROGRESS));
    }

    /// A frame of so many bytes in every second.
    fn drips(length: usize) -> impl Stream<Item = Result<v1::PutBlobRequest, Status>> + Unpin {
        Box::pin(stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok(v1::PutBlobRequest { chunk: vec![7; length].into() }), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_that_drip_hold_no_place_for_ever() {
        let uploads = Uploads::new(1, 1);
        let begun = Instant::now();
        let refusal = received(&uploads, drips(1)).await.unwrap_err();
        assert!(ended_for_time(&refusal) && begun.elapsed() < 2 * PROGRESS, "{refusal:?}");
        let refusal = received(&uploads, drips(0)).await.unwrap_err();
        assert!(refusal.message().contains("at least one byte"), "{refusal:?}");
        let enough = received(&uploads, drips(PROGRESS_BYTES / 20).take(100)).await.unwrap();
        assert_eq!(enough.0.len(), PROGRESS_BYTES / 20 * 100, "a slow one goes on for as long as it needs");
        drop(enough);
        // One that is slower still does so where nobody waits for its place.
        let slow = || received(&uploads, drips(SLOW_BYTES / 20).take(100));
        let (content, place) = slow().await.unwrap();
        assert_eq!(content.len(), SLOW_BYTES / 20 * 100);
        drop(place);
        let waits = async {
            while let Err(refusal) = received(&uploads, iter([frame(b"c")])).await {
                assert_eq!(refusal.code(), tonic::Code::ResourceExhausted);
            }
        };
        let (slow, ()) = tokio::join!(biased; slow(), waits);
        assert!(ended_for_time(&slow.unwrap_err()), "others wait");
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_goes_on_where_the_daemon_itself_stood_still() {
        let uploads = Uploads::new(1, 1);
        for has_said in [0, 1] {
            let said = iter([frame(b"ab")]).take(has_said);
            let rest = stream::once(Box::pin(async {
                tokio::time::sleep(PROGRESS / 2).await;
                advance(PROGRESS + Duration::from_secs(1)).await;
                // What has arrived meanwhile is read a little later.
                tokio::time::sleep(Duration::from_millis(50)).await;
                frame(b"cd")
            }));
            let (content, _place) = received(&uploads, said.chain(rest)).await.unwrap();
            assert_eq!(content.len(), 2 * (has_said + 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_waits_for_its_place_while_the_daemon_listens() {
        let uploads = Uploads::new(1, 1);
        let place = uploads.place().await.unwrap();
        let stall = async {
            tokio::time::sleep(PLACE / 2).await;
            advance(PLACE).await;
            drop(place);
        };
        let (waited, ()) = tokio::join!(biased; uploads.place(), stall);
        assert!(waited.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_that_wait_are_bounded_in_number_and_time_and_nothing_of_them_is_read() {
        let uploads = Uploads::new(1, 2);
        let _place = uploads.place().await.unwrap();
        let read = AtomicUsize::new(0);
        let upload = || {
            let frames = iter([frame(b"ab")]).inspect(|_| {
                read.fetch_add(1, Ordering::Relaxed);
            });
            received(&uploads, frames)
        };
        let begun = Instant::now();
        let mut ends: FuturesUnordered<_> = (0..10).map(|_| upload()).collect();
        let mut refused = Vec::new();
        while let Some(end) = ends.next().await {
            assert_eq!(end.unwrap_err().code(), tonic::Code::ResourceExhausted);
            refused.push(begun.elapsed());
        }
        refused.sort_unstable();
        assert_eq!(refused, [[Duration::ZERO; 8].as_slice(), &[PLACE; 2]].concat());
        assert_eq!(read.load(Ordering::Relaxed), 0);
    }
}
