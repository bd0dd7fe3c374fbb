//! Evidence as blobs of the store, durable before anything names it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use capataz_contracts::v1;
use capataz_executor::evidence::{EvidenceError, EvidenceSink, Stored};
use capataz_store::{Millis, Store};

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

    async fn keep(
        &self,
        read: impl FnOnce() -> Result<Bytes, String> + Send + 'static,
    ) -> Result<Stored, EvidenceError> {
        let store = Arc::clone(&self.store);
        let now = Millis((self.clock)());
        let put = tokio::task::spawn_blocking(move || {
            let content = read()?;
            let size = content.len() as u64;
            let hash = store.put_blob(&content, now).map_err(|error| error.to_string())?;
            Ok(Stored { id: hash.to_string(), size })
        });
        put.await.unwrap_or_else(|error| Err(error.to_string())).map_err(EvidenceError)
    }
}

impl EvidenceSink for BlobEvidence {
    async fn put(&mut self, _: &str, content: Bytes) -> Result<Stored, EvidenceError> {
        self.keep(move || Ok(content)).await
    }

    async fn put_download(&mut self, download: &v1::DownloadRecord) -> Result<Stored, EvidenceError> {
        // The adapter names the file, not the page.
        let path = self.downloads.join(&download.path);
        self.keep(move || {
            let size = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
            if size > MAX_DOWNLOAD {
                return Err(format!("the download has {size} bytes; at most {MAX_DOWNLOAD} are kept"));
            }
            std::fs::read(&path).map(Bytes::from).map_err(|error| error.to_string())
        })
        .await
    }
}
