//! ContinueRun: a new run takes over what succeeded in the run of a plan that has ended, and does the rest (seed 000,
//! scenario 7).

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::validate::{self, RESERVED_LABELS};
use capataz_engine::StartRun;
use capataz_shard::{LoadError, StartReply, StartRequest, feed, run_id};
use capataz_store::{IdempotencyKey, RunId};
use prost::Message;
use tonic::Status;

use super::runs::{Runs, answer, parse_run, unreadable};
use super::starts;
use crate::status;

/// Bytes of the log that are read to find a run's first event.
const FIRST_EVENT_BYTES: usize = 4 * 1024 * 1024;

impl Runs {
    pub(super) async fn go_on(
        &self,
        mut request: v1::ContinueRunRequest,
        caller: Option<TraceContext>,
    ) -> Result<v1::ContinueRunResponse, Status> {
        let violations = validate::continue_run(&request);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let run = parse_run(&request.run_id)?;
        // However its id was written.
        request.run_id = run.to_string();
        let key = key_of(&mut request);
        let reply = match self.prepared(run, request, key.clone()).await {
            Ok(mut start) => {
                start.start.lineage = starts::within(caller);
                self.begin(start).await?
            }
            // What the key named before stays named by it, whatever has become of the run that was continued.
            Err(refused) => match self.named_by(key).await {
                Some(run) => StartReply::Existing { run },
                None => return Err(refused),
            },
        };
        match reply {
            StartReply::Started { run } => {
                Ok(v1::ContinueRunResponse { run_id: run.to_string(), created: true })
            }
            StartReply::Existing { run } => {
                Ok(v1::ContinueRunResponse { run_id: run.to_string(), created: false })
            }
            refused => Err(status::start(&refused)),
        }
    }

    /// The start of the new run.
    async fn prepared(
        &self,
        run: RunId,
        request: v1::ContinueRunRequest,
        key: Option<IdempotencyKey>,
    ) -> Result<StartRequest, Status> {
        let row = self.whole(run).await?;
        if row.summary.finished_at.is_none() {
            return Err(starts::not_continued(format!("run {run} is not continued: it has not ended")));
        }
        let work = starts::going_on(run, self.accepted(run).await?, &*self.fold(&row).await?)?;
        let own = |(key, _): &(String, String)| !key.starts_with(RESERVED_LABELS);
        let mut labels: BTreeMap<String, String> = row.labels.into_iter().filter(own).collect();
        labels.extend(request.labels);
        let violations = validate::labels(&labels);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let drawn = RunId(uuid::Uuid::now_v7());
        let session = work.needs().session;
        let new = run_id(drawn, session.as_deref(), key.as_ref().map(|key| &*key.key));
        let start = StartRun { work, labels, parent: None, lineage: None };
        Ok(StartRequest { key, ..StartRequest::new(new, start) })
    }

    /// What the run was accepted as.
    async fn accepted(&self, run: RunId) -> Result<v1::RunAccepted, Status> {
        let (store, runtime) = (Arc::clone(self.runtime().store()), self.runtime().clone());
        answer(self.runtime(), move || {
            let rows = store.read_run(run, 0, 1, FIRST_EVENT_BYTES).map_err(|error| status::store(&error))?;
            let Some(row) = rows.first() else { return Err(status::not_found(&run.to_string())) };
            let mut events = feed::events_of(row, 0)
                .map_err(|damage| unreadable(&runtime, &LoadError::Damaged(damage)))?;
            let first = events.next().and_then(|event| v1::Event::decode(event).ok());
            match first.and_then(|event| event.body) {
                Some(Body::RunAccepted(accepted)) => Ok(*accepted),
                _ => Err(status::unavailable()),
            }
        })
        .await
    }
}

/// The key of the request, with the digest by which a repeated request is known.
fn key_of(request: &mut v1::ContinueRunRequest) -> Option<IdempotencyKey> {
    let key = request.idempotency_key.take()?;
    let mut digest = blake3::Hasher::new();
    // No start has these bytes.
    digest.update(b"capataz.v1.ContinueRunRequest").update(&request.encode_to_vec());
    Some(IdempotencyKey { key: key.into_bytes().into(), request: *digest.finalize().as_bytes() })
}
