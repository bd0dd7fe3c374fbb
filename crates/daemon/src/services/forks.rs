//! ForkRun: a new run that begins with what another one was after one of its events, and goes on by itself.

use std::sync::Arc;

use capataz_contracts::{v1, validate};
use capataz_engine::{Fork, NotForked, RunState, StartRun, Work};
use capataz_runtime::Busy;
use capataz_shard::forks::{MAX_PAST_BYTES, fork_id};
use capataz_shard::{SESSION_LABEL, StartReply, StartRequest};
use capataz_store::{IdempotencyKey, RunId, RunRow};
use prost::Message;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::runs::{Runs, parse_run, row_has};
use crate::status;

impl Runs {
    pub(super) async fn fork(&self, mut request: v1::ForkRunRequest) -> Result<v1::ForkRunResponse, Status> {
        let violations = validate::fork_run(&request);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let run = parse_run(&request.run_id)?;
        // However its id was written.
        request.run_id = run.to_string();
        let key = key_of(&mut request);
        let prepared = match self.prepared_fork(run, request, key.clone()).await {
            Ok((start, at, _share)) => self.begin(start).await.map(|reply| (reply, at)),
            Err(refused) => Err(refused),
        };
        let existing =
            |run: RunId| v1::ForkRunResponse { run_id: run.to_string(), created: false, at_seq: 0 };
        match prepared {
            Ok((StartReply::Started { run }, at_seq)) => {
                Ok(v1::ForkRunResponse { run_id: run.to_string(), created: true, at_seq })
            }
            Ok((StartReply::Existing { run }, _)) => Ok(existing(run)),
            Ok((refused, _)) => Err(status::start(&refused)),
            // What the key named before stays named by it, whatever has become of the run that was forked.
            Err(refused) => self.named_by(key).await.map(existing).ok_or(refused),
        }
    }

    /// The start of the fork, and the event after which it goes on by itself; with its share of what is copied at a time.
    async fn prepared_fork(
        &self,
        run: RunId,
        request: v1::ForkRunRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<(StartRequest, u64, OwnedSemaphorePermit), Status> {
        let row = self.whole(run).await?;
        if row.kind == v1::RunKind::Session as i32 {
            return Err(status::not_found(&run.to_string()));
        }
        if request.input.is_some() && row.kind != v1::RunKind::Pipeline as i32 {
            let message = "only pipelines have an input of their own";
            return Err(status::invalid_field("input", "kind", message));
        }
        let mut labels = row.labels.clone();
        labels.remove(SESSION_LABEL);
        labels.extend(request.labels);
        let violations = validate::labels(&labels);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let at = match request.at_seq {
            Some(at) => at,
            None => {
                let newest = self.newest_fork(run, row.last_seq).await?;
                newest.ok_or_else(|| {
                    refused(run, row.last_seq, "there is no event after which it may be", [None; 2])
                })?
            }
        };
        let share = self.share_of_copies(&row, at).await?;
        let whole = async { self.unless_unread(run, self.folds().whole_until(run, at).await).await };
        let (state, ()) = tokio::try_join!(self.state_to_fork(&row, at), whole)?;
        let new = fork_id(RunId(uuid::Uuid::now_v7()), run);
        let fork = Fork {
            of: run.to_string(),
            run_id: new.to_string(),
            state: Box::new(state),
            input: request.input,
        };
        let start = StartRun { work: Work::Fork(Box::new(fork)), labels, parent: None, lineage: None };
        Ok((StartRequest { key, ..StartRequest::new(new, start) }, at, share))
    }

    /// Waits until what was decided up to event `at` may be copied: it ends there, and is no more than is copied at a time.
    async fn share_of_copies(&self, row: &RunRow, at: u64) -> Result<OwnedSemaphorePermit, Status> {
        let run = row.run;
        row_has(row, at)?;
        let Some(together) = self.unless_unread(run, self.folds().decided_together(run, at).await).await?
        else {
            let mib = MAX_PAST_BYTES / (1024 * 1024);
            let why = format!("it has more than {mib} MiB of events until then");
            return Err(refused(run, at, &why, [self.newest_fork(run, at).await?, None]));
        };
        if together.last == at {
            // No more than there are.
            let bytes = u32::try_from(together.bytes).unwrap_or(u32::MAX);
            let share = Arc::clone(self.copies()).acquire_many_owned(bytes).await;
            return share.map_err(|_| status::busy(Busy::Lost));
        }
        let before = self.newest_fork(run, at).await?;
        let may_be_behind = self.fold_at(row, together.last).await?.may_be_forked();
        let why = format!("events {} to {} were decided together", together.first, together.last);
        Err(refused(run, at, &why, [before, may_be_behind.then_some(together.last)]))
    }

    /// The state of the run after event `at`, where it may be forked there.
    async fn state_to_fork(&self, row: &RunRow, at: u64) -> Result<RunState, Status> {
        let state = self.fold_at(row, at).await?;
        let why = match state.not_forked() {
            None => return Ok(state.into_state()),
            Some(NotForked::Ended) => "it has ended by then",
            Some(NotForked::Ending) => "it has been told to end by then",
            Some(NotForked::ChildAtWork) => "one of its tasks is then a run that is at work",
            Some(NotForked::InBrowser) => "what it has done by then is in its browser alone",
        };
        // The log is folded anew, for which a large state has to be gone.
        drop(state);
        Err(refused(row.run, at, why, [self.newest_fork(row.run, at).await?, None]))
    }

    async fn newest_fork(&self, run: RunId, at: u64) -> Result<Option<u64>, Status> {
        self.unless_unread(run, self.folds().newest_fork(run, at).await).await
    }
}

/// FORK_NOT_POSSIBLE, with the nearest events before and behind it after which the run may be forked.
fn refused(run: RunId, at: u64, why: &str, [before, behind]: [Option<u64>; 2]) -> Status {
    let message = format!("run {run} is not forked at event {at}: {why}");
    let message = match (before, behind) {
        (Some(before), Some(behind)) => format!("{message}; it may be at {before} or {behind}"),
        (Some(seq), None) | (None, Some(seq)) => format!("{message}; it may be at {seq}"),
        (None, None) => message,
    };
    status::not_forked(message, before, behind)
}

/// The key of the request, with the digest by which a repeated request is known.
fn key_of(request: &mut v1::ForkRunRequest) -> Option<IdempotencyKey> {
    let key = request.idempotency_key.take()?;
    let mut digest = blake3::Hasher::new();
    // No start has these bytes.
    digest.update(b"capataz.v1.ForkRunRequest").update(&request.encode_to_vec());
    Some(IdempotencyKey { key: key.into_bytes().into(), request: *digest.finalize().as_bytes() })
}
