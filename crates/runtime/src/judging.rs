//! What runs want to know of payloads, beside the shards' thread: a few at a time, each within bounds of memory and work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use capataz_contracts::v1::{self, SchemaViolation};
use capataz_engine::{Computed, Judgement, Query, Verdict, Wanted};
use capataz_judge::Schema;
use capataz_shard::blob_hash;
use capataz_shard::phases::{self, Contents, Entry, Unavailable, Unread};
use capataz_store::{Millis, Store};
use tiktoken_rs::CoreBPE;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::clock;

/// Queries that are answered at once.
const JUDGES: usize = 2;
/// The most bytes that are looked at on the shards' thread.
const AT_ONCE_BYTES: usize = 2 * 1024;
/// The most bytes of a schema by which is judged there, and the most steps of judging: some hundred microseconds.
const AT_ONCE_SCHEMA: usize = 16 * 1024;
const AT_ONCE_STEPS: u64 = 20_000;
/// The encoding of tokens, once somebody beside the shards' thread has made it: that takes a while.
static ENCODING: OnceLock<&'static CoreBPE> = OnceLock::new();
/// What is waited before something is tried again that could not be read or written. Milliseconds.
const AGAIN_MS: &[u64] = &[100, 250, 500, 1_000, 2_000, 4_000, 8_000];

/// Judges, and says what was judged. There is always a verdict, for somebody waits for it.
pub(crate) async fn verdict(
    judges: &Judges,
    tasks: &Handle,
    store: Arc<dyn Store>,
    judgement: Judgement,
) -> Verdict {
    // A caller may say its answer again; nobody says an output again.
    let waits = if judgement.purpose.is_output() { AGAIN_MS } else { &[] };
    let judged = judgement.clone();
    let verdict =
        patiently(judges, tasks, store, waits, move |contents| phases::verdict(judged.clone(), contents));
    verdict.await.unwrap_or_else(|| phases::unjudged(judgement))
}

/// What a phase wants to know. There is always an answer.
pub(crate) async fn computed(
    judges: &Judges,
    tasks: &Handle,
    store: Arc<dyn Store>,
    query: Query,
) -> Computed {
    let computed =
        patiently(judges, tasks, store, AGAIN_MS, move |contents| phases::compute(&query, contents));
    computed.await.flatten().unwrap_or_else(phases::not_computed)
}

/// The same on the shards' thread, where that takes microseconds: what follows from it shares the commit. `None` where it is
/// to be computed beside that thread.
pub(crate) fn computed_at_once(judges: &Judges, store: &Arc<dyn Store>, query: &Query) -> Option<Computed> {
    let bytes = match query {
        Query::Observe(seen) => seen.bytes_here()?,
        Query::Prompt(prompting) => prompting.bytes_here()?,
        _ => return None,
    };
    if bytes > AT_ONCE_BYTES || ENCODING.get().is_none() {
        return None;
    }
    phases::compute(query, &Here(judges.blobs(store))).ok().flatten()
}

/// The verdict on a small output, likewise, by schemas that are compiled.
pub(crate) fn judged_at_once(
    judges: &Judges,
    store: &Arc<dyn Store>,
    judgement: &Judgement,
) -> Option<Verdict> {
    let is_small = judgement.bytes_here()? <= AT_ONCE_BYTES && judgement.purpose.is_output();
    let text = match &judgement.value.data {
        Some(v1::payload::Data::Inline(text)) => &text[..],
        Some(v1::payload::Data::Blob(_)) | None => return None,
    };
    let is_soon_judged = |schema: &String| {
        let known = if schema.len() <= AT_ONCE_SCHEMA { judges.schemas.known(schema) } else { None };
        known.is_some_and(|schema| schema.takes_at_most(text, AT_ONCE_STEPS))
    };
    if !is_small || !judgement.schemas.iter().all(is_soon_judged) {
        return None;
    }
    phases::verdict(judgement.clone(), &Here(judges.blobs(store))).ok()
}

/// What comes of it, after as many attempts as there are waits, and one; `None` where it comes to nothing.
async fn patiently<T: Send + 'static>(
    judges: &Judges,
    tasks: &Handle,
    store: Arc<dyn Store>,
    waits: &[u64],
    compute: impl Fn(&dyn Contents) -> Result<T, Unavailable> + Send + Sync + 'static,
) -> Option<T> {
    let compute = Arc::new(compute);
    let mut waits = waits.iter();
    loop {
        {
            // Nobody closes it.
            let _permit = judges.free.acquire().await;
            let compute = Arc::clone(&compute);
            let blobs = judges.blobs(&store);
            match tasks.spawn_blocking(move || compute(&blobs)).await {
                Ok(Ok(computed)) => return Some(computed),
                Ok(Err(error)) => tracing::warn!(%error, "a query of a run waits"),
                Err(error) => tracing::error!(%error, "a query of a run could not be answered"),
            }
        }
        tokio::time::sleep(Duration::from_millis(*waits.next()?)).await;
    }
}

/// Schemas that were compiled, the newest first.
#[derive(Default)]
pub(crate) struct Schemas(Mutex<VecDeque<(String, Arc<Schema>)>>);

/// Compiled schemas that are kept: each of them has at most 1 MiB of patterns, and most of them none.
const SCHEMAS: usize = 32;

impl Schemas {
    fn compiled(&self, text: &str) -> Result<Arc<Schema>, SchemaViolation> {
        if let Some(known) = self.known(text) {
            return Ok(known);
        }
        let compiled = Arc::new(capataz_judge::compiled(text)?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.truncate(SCHEMAS - 1);
        kept.push_front((text.to_owned(), Arc::clone(&compiled)));
        Ok(compiled)
    }

    fn known(&self, text: &str) -> Option<Arc<Schema>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| known == text)?;
        let known = kept.remove(place)?;
        let compiled = Arc::clone(&known.1);
        kept.push_front(known);
        Some(compiled)
    }
}

/// What queries are answered with.
#[derive(Clone)]
pub(crate) struct Judges {
    free: Arc<Semaphore>,
    schemas: Arc<Schemas>,
}

impl Judges {
    pub(crate) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(JUDGES)), schemas: Arc::default() }
    }

    fn blobs(&self, store: &Arc<dyn Store>) -> Blobs {
        Blobs { store: Arc::clone(store), schemas: Arc::clone(&self.schemas) }
    }
}

/// What the shards' thread looks at by itself: no blob, and little of memory.
struct Here(Blobs);

impl Contents for Here {
    fn read(&self, _: &v1::BlobRef, _: usize) -> Result<Vec<u8>, Unread> {
        Err(Unread::Unavailable)
    }

    fn keep(&self, _: &[u8]) -> Result<v1::BlobRef, Unread> {
        Err(Unread::Unavailable)
    }

    fn recall(&self, wanted: &Wanted) -> Result<Vec<Entry>, Unread> {
        let entries = self.0.recall(wanted)?;
        let bytes: usize = entries.iter().map(|entry| entry.content.len() + entry.digest.len()).sum();
        if bytes > AT_ONCE_BYTES { Err(Unread::Unavailable) } else { Ok(entries) }
    }

    fn tokens(&self, text: &str) -> u32 {
        self.0.tokens(text)
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn compiled(&self, schema: &str) -> Result<Arc<Schema>, SchemaViolation> {
        self.0.compiled(schema)
    }
}

/// The blobs of the store, and schemas that were compiled.
struct Blobs {
    store: Arc<dyn Store>,
    schemas: Arc<Schemas>,
}

impl Contents for Blobs {
    fn read(&self, blob: &v1::BlobRef, most: usize) -> Result<Vec<u8>, Unread> {
        let hash = blob_hash(blob).ok_or(Unread::Missing)?;
        let unread = |error: capataz_store::StoreError| {
            tracing::error!(error = &error as &dyn std::error::Error, "a blob cannot be read");
            Unread::Unavailable
        };
        let size = self.store.blob_size(hash).map_err(unread)?.ok_or(Unread::Missing)?;
        if usize::try_from(size).is_ok_and(|size| size <= most) {
            let contents = self.store.read_blob(hash, 0, most).map_err(unread)?.ok_or(Unread::Missing)?;
            return Ok(contents.to_vec());
        }
        Err(Unread::TooLarge { size })
    }

    fn keep(&self, contents: &[u8]) -> Result<v1::BlobRef, Unread> {
        let at = Millis(clock::now().wall.0);
        let put = self.store.put_blob(contents, at).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "a blob cannot be written");
            Unread::Unavailable
        })?;
        Ok(v1::BlobRef { blake3: put.to_string(), size: contents.len() as u64, answer: None })
    }

    fn recall(&self, wanted: &Wanted) -> Result<Vec<Entry>, Unread> {
        // Each call of a tool follows a prompt, so that the encoding is there when results are looked at.
        encoding();
        phases::recall(&*self.store, wanted).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "memory cannot be read");
            Unread::Unavailable
        })
    }

    fn tokens(&self, text: &str) -> u32 {
        u32::try_from(encoding().encode_ordinary(text).len()).unwrap_or(u32::MAX)
    }

    fn now(&self) -> u64 {
        clock::micros()
    }

    fn compiled(&self, schema: &str) -> Result<Arc<Schema>, SchemaViolation> {
        self.schemas.compiled(schema)
    }
}

fn encoding() -> &'static CoreBPE {
    ENCODING.get_or_init(tiktoken_rs::o200k_base_singleton)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
