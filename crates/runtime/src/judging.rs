//! Values against schemas, beside the shards' thread: a few at a time, each within the judge's bounds of memory and work.

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::payload::Data;
use capataz_contracts::v1::{self, SchemaViolation};
use capataz_engine::{Judgement, UNJUDGED, Verdict};
use capataz_judge::JUDGED_MAX;
use capataz_shard::blob_hash;
use capataz_store::Store;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// What is waited before an output is judged again that could not be judged. Milliseconds.
const JUDGE_AGAIN_MS: &[u64] = &[100, 250, 500, 1_000, 2_000, 4_000, 8_000];
/// Values that are judged at once.
pub(crate) const JUDGES: usize = 2;

/// Judges, and says what was judged. There is always a verdict, for somebody waits for it.
pub(crate) async fn verdict(
    judges: &Semaphore,
    tasks: &Handle,
    store: Arc<dyn Store>,
    judgement: Judgement,
) -> Verdict {
    // A caller may say its answer again; nobody says an output again.
    let waits: &[u64] = if judgement.purpose.is_output() { JUDGE_AGAIN_MS } else { &[] };
    let mut waits = waits.iter();
    loop {
        let violations = once(judges, tasks, &store, &judgement).await;
        let is_unjudged = violations.iter().any(|violation| violation.rule == UNJUDGED);
        match waits.next().filter(|_| is_unjudged) {
            Some(wait) => tokio::time::sleep(Duration::from_millis(*wait)).await,
            None => return Verdict { judged: judgement, violations },
        }
    }
}

async fn once(
    judges: &Semaphore,
    tasks: &Handle,
    store: &Arc<dyn Store>,
    judgement: &Judgement,
) -> Vec<SchemaViolation> {
    // Nobody closes it.
    let _permit = judges.acquire().await;
    let (store, judgement) = (Arc::clone(store), judgement.clone());
    let judged = tasks.spawn_blocking(move || violations(&*store, &judgement)).await;
    judged.unwrap_or_else(|error| {
        tracing::error!(%error, "a value could not be judged");
        vec![violation(UNJUDGED, "a value that can be judged", "the judge failed".to_owned())]
    })
}

fn violations(store: &dyn Store, judgement: &Judgement) -> Vec<SchemaViolation> {
    let value = &judgement.value;
    let contents = match &value.data {
        None => Ok(b"null".to_vec()),
        Some(Data::Inline(contents)) => Ok(contents.to_vec()),
        Some(Data::Blob(blob)) => read(store, blob),
    };
    match contents {
        Ok(contents) => capataz_judge::judge_all(&judgement.schemas, &value.media_type, &contents),
        Err(violation) => vec![*violation],
    }
}

/// The contents of a blob that is small enough to be judged.
fn read(store: &dyn Store, blob: &v1::BlobRef) -> Result<Vec<u8>, Box<SchemaViolation>> {
    let refused = |rule, expected: &str, found| Box::new(violation(rule, expected, found));
    let missing = || refused("blob", "a blob that is there", format!("no blob {}", blob.blake3));
    let hash = blob_hash(blob).ok_or_else(missing)?;
    let unread = |error: capataz_store::StoreError| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "a blob that is to be judged cannot be read"
        );
        refused(UNJUDGED, "a blob that can be read", "one that cannot be read now".to_owned())
    };
    let size = store.blob_size(hash).map_err(unread)?.ok_or_else(missing)?;
    if usize::try_from(size).is_ok_and(|size| size <= JUDGED_MAX) {
        let contents = store.read_blob(hash, 0, JUDGED_MAX).map_err(unread)?.ok_or_else(missing)?;
        return Ok(contents.to_vec());
    }
    Err(refused("size", &format!("at most {JUDGED_MAX} bytes"), format!("{size} bytes")))
}

fn violation(rule: &str, expected: &str, found: String) -> SchemaViolation {
    SchemaViolation { path: String::new(), rule: rule.to_owned(), expected: expected.to_owned(), found }
}
