//! BlobService.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_server::BlobService;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

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
        let put = tokio::task::spawn_blocking(move || store.put_blob(&content, now)).await;
        let hash = put.map_err(|_| status::unavailable())?.map_err(|error| status::store(&error))?;
        Ok(Response::new(v1::PutBlobResponse { blob: Some(v1::BlobRef { blake3: hash.to_string(), size }) }))
    }

    type GetBlobStream = ReceiverStream<Result<v1::GetBlobResponse, Status>>;

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
        let size = {
            let store = Arc::clone(&store);
            let size = tokio::task::spawn_blocking(move || store.blob_size(hash)).await;
            size.map_err(|_| status::unavailable())?.map_err(|error| status::store(&error))?
        };
        if size.is_none() {
            return Err(status::blob_not_found(&reference.blake3));
        }
        let (sender, receiver) = mpsc::channel(1);
        tokio::task::spawn_blocking(move || {
            let mut offset = 0;
            loop {
                match store.read_blob(hash, offset, CHUNK) {
                    Ok(Some(chunk)) if !chunk.is_empty() => {
                        offset += chunk.len() as u64;
                        if sender.blocking_send(Ok(v1::GetBlobResponse { chunk })).is_err() {
                            return;
                        }
                    }
                    Ok(_) => {
                        if offset == 0 {
                            let _ = sender.blocking_send(Ok(v1::GetBlobResponse { chunk: Bytes::new() }));
                        }
                        return;
                    }
                    Err(error) => {
                        let _ = sender.blocking_send(Err(status::store(&error)));
                        return;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
