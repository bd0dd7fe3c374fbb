//! Blobs, which go to the daemon and come from it in frames.

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use tonic::Code;

use super::{Client, repeated};
use crate::{ClientError, RetryOptions};

/// Below the contract's 1 MiB for a frame, so that other calls on the connection get their turn.
const BLOB_CHUNK_MAX: usize = 512 * 1024;
/// The daemon's limit on one blob.
const BLOB_MAX: usize = 64 * 1024 * 1024;

impl Client {
    /// Stores a blob. Its content is its key, so the call is repeated like one with a key.
    ///
    /// # Errors
    /// The content is larger than 64 MiB, or the daemon is not reached.
    pub async fn put_blob(&self, content: Bytes) -> Result<v1::BlobRef, ClientError> {
        self.put_blob_with(&self.retry, content).await
    }

    pub(crate) async fn put_blob_with(
        &self,
        retry: &RetryOptions,
        content: Bytes,
    ) -> Result<v1::BlobRef, ClientError> {
        let response = repeated(retry, true, content, |content| {
            let mut blobs = BlobServiceClient::new(self.channel());
            async move { blobs.put_blob(tokio_stream::iter(Chunks(content).with_at_least_one())).await }
        })
        .await?;
        response
            .blob
            .ok_or_else(|| ClientError::new(Code::Internal, "the daemon stored a blob without naming it"))
    }

    /// The content of a blob.
    ///
    /// # Errors
    /// There is no such blob, or the daemon is not reached.
    pub async fn get_blob(&self, blake3: &str) -> Result<Bytes, ClientError> {
        let request = v1::GetBlobRequest { blake3: blake3.to_owned() };
        let mut stream = BlobServiceClient::new(self.channel()).get_blob(request).await?.into_inner();
        let mut content = Vec::new();
        while let Some(response) = stream.message().await? {
            if content.len() + response.chunk.len() > BLOB_MAX {
                return Err(ClientError::new(Code::OutOfRange, "the blob is larger than blobs can be"));
            }
            content.extend_from_slice(&response.chunk);
        }
        Ok(content.into())
    }
}

/// A blob cut into frames.
struct Chunks(Bytes);

impl Chunks {
    /// An empty blob also is one frame.
    fn with_at_least_one(self) -> impl Iterator<Item = v1::PutBlobRequest> + Send {
        let empty = self.0.is_empty().then(v1::PutBlobRequest::default);
        empty.into_iter().chain(self)
    }
}

impl Iterator for Chunks {
    type Item = v1::PutBlobRequest;

    fn next(&mut self) -> Option<Self::Item> {
        let length = self.0.len().min(BLOB_CHUNK_MAX);
        (length > 0).then(|| v1::PutBlobRequest { chunk: self.0.split_to(length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_cut_into_frames() {
        let lengths = |content: usize| -> Vec<usize> {
            let chunks = Chunks(Bytes::from(vec![0; content])).with_at_least_one();
            chunks.map(|request| request.chunk.len()).collect()
        };
        assert_eq!(lengths(0), [0]);
        assert_eq!(lengths(5), [5]);
        assert_eq!(lengths(BLOB_CHUNK_MAX), [BLOB_CHUNK_MAX]);
        assert_eq!(lengths(2 * BLOB_CHUNK_MAX + 1), [BLOB_CHUNK_MAX, BLOB_CHUNK_MAX, 1]);
    }
}
