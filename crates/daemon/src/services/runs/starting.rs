//! Starting runs, one or many at once.

use std::sync::Arc;

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1;
use capataz_engine::Work;
use capataz_shard::{StartReply, StartRequest};
use capataz_store::{IdempotencyKey, RunId};
use prost::Message;
use tokio::sync::Mutex;
use tonic::{Code, Status};

use super::Runs;
use super::waiting::limit;
use crate::SHARD;
use crate::services::starts::Refused;
use crate::services::{modes, named, starts};
use crate::status;

/// Starts in one batch.
const MAX_STARTS: usize = 1_000;
/// Bytes of the errors of one batch that are told whole. With the beginnings of all others, an answer is below gRPC's 4 MiB.
const WHOLE_ERRORS: usize = 2 * 1024 * 1024;

/// Of the starts of one call, one at a time reads what agents there are: the others wait for it, and not among those of whom only
/// so many may wait.
type Turn = Mutex<()>;

impl Runs {
    /// As [`Self::begin_in_turn`], by itself.
    pub(in crate::services) async fn begin(&self, start: StartRequest) -> Result<StartReply, Status> {
        self.begin_in_turn(start, &Turn::default()).await
    }

    /// Starts what was asked for. A request whose key names its run already is answered with that run, whatever may have
    /// changed since: whether it would still be taken is not the question.
    async fn begin_in_turn(&self, start: StartRequest, turn: &Turn) -> Result<StartReply, Status> {
        let key = start.key.clone();
        let refused = match self.checked(start, turn).await {
            Ok(start) => match self.runtime.start_run(start).await {
                Ok(
                    reply @ (StartReply::Started { .. }
                    | StartReply::Finished { .. }
                    | StartReply::Existing { .. }),
                ) => return Ok(reply),
                Ok(StartReply::UnknownAgents { error, start }) => {
                    let places = starts::Places::of(&start.work).by_error();
                    status::contract(Code::NotFound, &error, |error| places.get(&error.message).cloned())
                }
                Ok(refused) => status::start(&refused),
                Err(declined) => status::declined(&declined),
            },
            Err(refused) => refused,
        };
        // Looked at last, so that a start that is taken does not pay for it.
        match self.named_by(key).await {
            Some(run) => Ok(StartReply::Existing { run }),
            None => Err(refused),
        }
    }

    /// The run that the same request has started under its key.
    pub(in crate::services) async fn named_by(&self, key: Option<IdempotencyKey>) -> Option<RunId> {
        let IdempotencyKey { key, request } = key?;
        let store = Arc::clone(self.runtime.store());
        let named = self.runtime.reads().answer(move || store.key(SHARD, &key)).await;
        let named = named.ok()?.ok()??;
        (named.request == request).then_some(named.run)
    }

    /// Holds a start against what is there now.
    async fn checked(&self, mut start: StartRequest, turn: &Turn) -> Result<StartRequest, Status> {
        if let Work::Mode(run) = &mut start.start.work {
            let _turn = turn.lock().await;
            modes::prepare(&self.runtime, run).await?;
            start.agents = start.start.work.needs().agents;
        }
        starts::check(&self.specs, &self.browsers, &start).await?;
        if let Some(parent) = &start.start.parent {
            let caller = start.start.lineage.as_ref();
            let caller = caller.and_then(|lineage| TraceContext::parse(&lineage.traceparent));
            start.start.lineage = Some(self.lineage(parent, caller).await?);
            starts::refuse_held_session(&start)?;
        }
        named::keep(&self.runtime, &start.blobs).await?;
        Ok(start)
    }

    /// What a run has of its ancestors that somebody starts for a task of another run.
    async fn lineage(
        &self,
        parent: &v1::ParentRef,
        caller: Option<TraceContext>,
    ) -> Result<v1::Lineage, Status> {
        let Ok(run) = parent.run_id.parse() else {
            let message = format!("{:?} is not a run id", parent.run_id);
            return Err(status::invalid_field("parent.run_id", "uuid", message));
        };
        let row = self.whole(run).await?;
        starts::lineage(run, &*self.fold(&row).await?, parent, caller)
    }

    /// Reads a start. A plan that breaks rules is held against what is known as well: all that is wrong is told at once.
    async fn parsed(
        &self,
        request: v1::StartRunRequest,
        wait: bool,
        caller: Option<TraceContext>,
    ) -> Result<StartRequest, Status> {
        let (places, mut violations) = match starts::parse(request, wait, caller) {
            Ok(start) => return Ok(start),
            Err(Refused::Because(status)) => return Err(status),
            Err(Refused::Plan(places, violations)) => (places, violations),
        };
        let v1::CheckAgentsRequest { agents, commands, resources } = places.names();
        // What cannot be told now is not in the answer: everything else is.
        if let Ok(batch) = self.runtime.check_agents(agents, commands, resources).await {
            violations.extend(places.unknown(&batch.to_proto()));
        }
        Err(status::invalid(&violations))
    }

    pub(in crate::services) async fn start(
        &self,
        request: v1::StartRunRequest,
        caller: Option<TraceContext>,
    ) -> Result<(RunId, bool), Status> {
        self.start_in_turn(request, caller, &Turn::default()).await
    }

    async fn start_in_turn(
        &self,
        request: v1::StartRunRequest,
        caller: Option<TraceContext>,
        turn: &Turn,
    ) -> Result<(RunId, bool), Status> {
        let start = self.parsed(request, false, caller).await?;
        let run = start.run;
        match self.begin_in_turn(start, turn).await? {
            StartReply::Started { .. } => Ok((run, true)),
            StartReply::Existing { run } => Ok((run, false)),
            refused => Err(status::start(&refused)),
        }
    }

    /// Starts a run, and waits for its end as long as the caller does.
    pub(super) async fn execute(
        &self,
        request: v1::ExecuteRunRequest,
        caller: Option<TraceContext>,
    ) -> Result<v1::ExecuteRunResponse, Status> {
        let limit = limit(request.timeout_ms)?;
        let Some(start) = request.start else {
            return Err(status::invalid_field("start", "required", "is missing"));
        };
        let start = self.parsed(start, true, caller).await?;
        let (run, key) = (start.run, start.key.clone());
        let began = tokio::time::Instant::now();
        let asked = tokio::time::timeout(limit, self.begin(start)).await;
        let (run, created, result) = match asked {
            Ok(Ok(StartReply::Finished { run, result })) => (run, true, Some(*result)),
            Ok(Ok(StartReply::Existing { run })) => {
                (run, false, self.wait(run, limit.saturating_sub(began.elapsed())).await?)
            }
            Ok(Ok(refused)) => return Err(status::start(&refused)),
            Ok(Err(refused)) => return Err(refused),
            // Accepted if it is in the store; an answer that says so must not come before that.
            Err(_) => {
                let named = self.named_by(key).await.unwrap_or(run);
                self.row(named).await.map_err(|_| status::unavailable())?;
                (named, named == run, None)
            }
        };
        Ok(v1::ExecuteRunResponse { run_id: run.to_string(), created, result })
    }

    /// Starts several runs; each start stands for itself.
    pub(super) async fn start_all(
        &self,
        runs: Vec<v1::StartRunRequest>,
        caller: Option<TraceContext>,
    ) -> Result<v1::StartRunsResponse, Status> {
        if runs.len() > MAX_STARTS {
            return Err(status::invalid_field("runs", "length", format!("at most {MAX_STARTS}")));
        }
        // All of them are on their way before the first is waited for: they share commits.
        let _gathering = (runs.len() > 1).then(|| self.runtime.gather());
        let turn = Turn::default();
        let started = runs.into_iter().map(|request| self.start_in_turn(request, caller, &turn));
        let mut items = Vec::new();
        let mut bytes = 0_usize;
        for outcome in futures_util::future::join_all(started).await {
            let result = match outcome {
                Ok((run, created)) => v1::start_runs_item::Result::Started(v1::StartRunResponse {
                    run_id: run.to_string(),
                    created,
                }),
                Err(status) => {
                    let error = status::to_contract(&status);
                    bytes = bytes.saturating_add(error.encoded_len());
                    let has_room = bytes <= WHOLE_ERRORS;
                    v1::start_runs_item::Result::Error(if has_room { error } else { status::abridged(error) })
                }
            };
            items.push(v1::StartRunsItem { result: Some(result) });
        }
        Ok(v1::StartRunsResponse { items })
    }
}
