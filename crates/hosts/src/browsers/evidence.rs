//! Evidence as blobs of the store, durable before anything names it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_executor::evidence::{EvidenceError, EvidenceSink, Stored};
use capataz_store::{Millis, Store, StoreError};

use crate::patience::patiently;
use crate::port::Clock;

/// Largest download that is kept as a blob, as of every blob. Bytes.
const MAX_DOWNLOAD: u64 = 64 * 1024 * 1024;

/// Where the executor puts the evidence of one run.
#[derive(Clone)]
pub(crate) struct BlobEvidence {
    store: Arc<dyn Store>,
    clock: Clock,
    downloads: PathBuf,
}

impl std::fmt::Debug for BlobEvidence {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BlobEvidence").field("downloads", &self.downloads).finish_non_exhaustive()
    }
}

impl BlobEvidence {
    /// `downloads` is the run's own folder.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, downloads: PathBuf) -> Self {
        Self { store, clock, downloads }
    }

    async fn keep(&self, content: Bytes) -> Result<Stored, EvidenceError> {
        let size = content.len() as u64;
        let now = Millis((self.clock)());
        match patiently(&self.store, move |store| store.put_blob(&content, now)).await {
            Ok(hash) => Ok(Stored { id: hash.to_string(), size }),
            Err(error) => Err(EvidenceError(error.to_string())),
        }
    }
}

impl EvidenceSink for BlobEvidence {
    async fn put(&mut self, _: &str, content: Bytes) -> Result<Stored, EvidenceError> {
        self.keep(content).await
    }

    async fn put_download(&mut self, download: &v1::DownloadRecord) -> Result<Stored, EvidenceError> {
        // The adapter names the file, not the page.
        let path = self.downloads.join(&download.path);
        let unread = |error: std::io::Error| EvidenceError(error.to_string());
        let size = tokio::fs::metadata(&path).await.map_err(unread)?.len();
        if size > MAX_DOWNLOAD {
            let message = format!("the download has {size} bytes; at most {MAX_DOWNLOAD} are kept");
            return Err(EvidenceError(message));
        }
        let read = move |_: &dyn Store| match std::fs::read(&path) {
            Ok(content) => Ok(Bytes::from(content)),
            Err(error) => Err(StoreError::Io { operation: "read a download", source: Box::new(error) }),
        };
        let content = patiently(&self.store, read).await.map_err(|error| EvidenceError(error.to_string()))?;
        self.keep(content).await
    }
}
