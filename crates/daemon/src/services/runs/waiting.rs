//! Waiting for the end of a run.

use std::time::Duration;

use capataz_contracts::v1;
use capataz_shard::{Declined, WaitReply};
use capataz_store::RunId;
use tonic::Status;

use super::Runs;
use crate::status;

/// Longest wait of one call.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
/// How soon a shard that is being read is asked again.
const READ_AGAIN: Duration = Duration::from_millis(20);
/// The longest pause between two such looks.
const READ_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

impl Runs {
    /// The result of a run, once it has finished; `None` where that takes longer than `limit`.
    pub(super) async fn wait(&self, run: RunId, limit: Duration) -> Result<Option<v1::RunResult>, Status> {
        let deadline = tokio::time::Instant::now() + limit;
        let mut pause = READ_AGAIN;
        loop {
            let asked = tokio::time::timeout_at(deadline, self.runtime.wait(run)).await;
            let Ok(answer) = asked else { return Ok(None) };
            match answer {
                Ok(WaitReply::Finished { result, .. }) => return Ok(Some(*result)),
                Ok(WaitReply::NotActive { .. }) => match self.finished(run).await? {
                    Some(result) => return Ok(Some(result)),
                    // It is neither in work nor finished: the shard is being read again.
                    None => tokio::time::sleep(pause).await,
                },
                // As it is after a start, until the shard has been read for the first time.
                Err(Declined::Unavailable) => tokio::time::sleep(pause).await,
                Err(declined) => return Err(status::declined(&declined)),
            }
            pause = (2 * pause).min(READ_AGAIN_AT_MOST);
            if tokio::time::Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }

    async fn finished(&self, run: RunId) -> Result<Option<v1::RunResult>, Status> {
        let row = self.whole(run).await?;
        if row.summary.finished_at.is_none() {
            return Ok(None);
        }
        let result = self.fold(&row).await?.result(1024 * 1024);
        Ok(result.map(|result| result.of(&row.run.to_string())))
    }
}

pub(super) fn limit(timeout_ms: Option<i64>) -> Result<Duration, Status> {
    let Some(timeout_ms) = timeout_ms else { return Ok(MAX_WAIT) };
    match u64::try_from(timeout_ms) {
        Ok(timeout_ms) => Ok(Duration::from_millis(timeout_ms).min(MAX_WAIT)),
        Err(_) => Err(status::invalid_field("timeout_ms", "range", "must not be negative")),
    }
}
