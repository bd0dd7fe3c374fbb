//! What retention removes is judged all the same: the logs of runs that have ended, read while they are there, and when each
//! was seen to be gone. In the parent, which is never killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_client::{Client, ClientError, v1};
use tokio::task::AbortHandle;

use crate::Outcome;
use crate::journal::now_us;
use crate::verdict::Log;

/// How often it looks. Far less than any run is kept.
const EVERY: Duration = Duration::from_millis(300);

/// Logs of runs that have ended, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) logs: BTreeMap<String, Log>,
    /// When each that is not there any more was missed first. Unix microseconds.
    pub(crate) gone: BTreeMap<String, u64>,
}

/// Looks on until it is dropped.
#[derive(Debug)]
pub(crate) struct Archive {
    kept: Arc<Mutex<Kept>>,
    task: AbortHandle,
}

impl Drop for Archive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Archive {
    pub(crate) fn start(url: &str) -> Outcome<Self> {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (shared, client) = (Arc::clone(&kept), Client::lazy(url)?);
        let look = async move {
            loop {
                // Where the daemon is away, the next look sees what this one has missed.
                let _ = look(&client, &shared).await;
                tokio::time::sleep(EVERY).await;
            }
        };
        Ok(Self { kept, task: tokio::spawn(look).abort_handle() })
    }

    /// Ends looking; what was kept.
    pub(crate) fn end(self) -> Kept {
        self.task.abort();
        std::mem::take(&mut lock(&self.kept))
    }

    /// Runs that retention has removed so far.
    pub(crate) fn gone(&self) -> usize {
        lock(&self.kept).gone.len()
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn look(client: &Client, kept: &Mutex<Kept>) -> Result<(), ClientError> {
    let listed = list(client).await?;
    let now = now_us();
    let missing: Vec<v1::Run> = {
        let mut kept = lock(kept);
        let there: BTreeSet<&str> = listed.iter().map(|run| run.run_id.as_str()).collect();
        let gone: Vec<String> =
            kept.logs.keys().filter(|run| !there.contains(run.as_str())).cloned().collect();
        for run in gone {
            kept.gone.entry(run).or_insert(now);
        }
        let ended = listed.into_iter().filter(|run| run.status == v1::RunStatus::Finished as i32);
        ended.filter(|run| !kept.logs.contains_key(&run.run_id)).collect()
    };
    for run in missing {
        let log = Log::read(client, &run).await?;
        lock(kept).logs.insert(run.run_id, log);
    }
    Ok(())
}

async fn list(client: &Client) -> Result<Vec<v1::Run>, ClientError> {
    let mut runs = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRunsRequest { page_size: 500, page_token, ..v1::ListRunsRequest::default() };
        let page = client.list_runs(request).await?;
        runs.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(runs);
        }
    }
}
