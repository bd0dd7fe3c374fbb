//! BlobService.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_server::BlobService;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_store::BlobHash;
use tokio::sync::Semaphore;
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
        let _upload = self.uploads.acquire().await.map_err(|_| status::unavailable())?;
        let mut frames = request.into_inner();
        let mut content = BytesMut::new();
        while let Some(v1::PutBlobRequest { chunk }) = frames.message().await? {
            if content.len() + chunk.len() > MAX_BLOB {
                return Err(status::invalid_field(
                    "chunk",
                    "size",
                    format!("a blob has at most {MAX_BLOB} bytes"),
                ));
            }
            content.extend_from_slice(&chunk);
        }
        let content = content.freeze();
        let size = content.len() as u64;
        let store = Arc::clone(self.runtime.store());
        let now = self.runtime.now().wall;
        let put = move || store.put_blob(&content, now).map_err(|error| status::store(&error));
        let hash = read_on(&self.runtime, put).await?;
        Ok(Response::new(v1::PutBlobResponse { blob: Some(v1::BlobRef { blake3: hash.to_string(), size }) }))
    }

    type GetBlobStream = Pages<v1::GetBlobResponse>;

    async fn get_blob(
        &self,
        request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let blake3 = request.into_inner().blake3;
        let reference = v1::BlobRef { blake3, size: 0 };
        let Some(hash) = blob_hash(&reference) else {
            return Err(status::invalid_field("blake3", "hash", "64 hexadecimal characters"));
        };
        let store = Arc::clone(self.runtime.store());
        let size = move || store.blob_size(hash).map_err(|error| status::store(&error));
        if answer(&self.runtime, size).await?.is_none() {
            return Err(status::blob_not_found(&reference.blake3));
        }
        let download = Download { runtime: self.runtime.clone(), hash, offset: 0 };
        let chunks = futures_util::stream::unfold(Some(download), |rest| async move { rest?.chunk().await });
        Ok(Response::new(Box::pin(chunks)))
    }
}

/// A blob that is being read. A chunk is read when the reader takes it.
struct Download {
    runtime: Runtime,
    hash: BlobHash,
    offset: u64,
}

impl Download {
    /// The next chunk, and what follows it.
    async fn chunk(mut self) -> Option<(Result<v1::GetBlobResponse, Status>, Option<Self>)> {
        let (store, hash, offset) = (Arc::clone(self.runtime.store()), self.hash, self.offset);
        let read = move || store.read_blob(hash, offset, CHUNK).map_err(|error| status::store(&error));
        match read_on(&self.runtime, read).await {
            // An empty blob is one empty chunk.
            Ok(chunk) if chunk.as_ref().is_none_or(Bytes::is_empty) && offset > 0 => None,
            Ok(chunk) => {
                let chunk = chunk.unwrap_or_default();
                self.offset += chunk.len() as u64;
                let rest = (!chunk.is_empty()).then_some(self);
                Some((Ok(v1::GetBlobResponse { chunk }), rest))
            }
            Err(error) => Some((Err(error), None)),
        }
    }
}
