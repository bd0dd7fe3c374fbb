//! RunService.

use std::sync::Arc;

use capataz_contracts::v1;
use capataz_contracts::v1::run_service_server::RunService;
use capataz_engine::{Answer, Input};
use capataz_hosts::browsers::Browsers;
use capataz_runtime::Runtime;
use capataz_shard::forks::MAX_PAST_BYTES;
use capataz_store::Removal;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::{Health, Pages, export, starts};
use crate::folds::Folds;
use crate::specs::Specs;
use crate::status;

mod reading;
mod showing;
mod starting;
mod steering;
mod waiting;

pub(super) use reading::{answer, parse_run, read_on, refuse_quarantined, row_has, unreadable};
use waiting::limit;

/// Bytes of why a user cancels a run.
const CANCEL_REASON_MAX: usize = 1_000;
/// Longest extension of a task at once.
const MAX_EXTENSION_MS: i64 = 30 * 24 * 60 * 60 * 1000;

pub(super) struct Runs {
    runtime: Runtime,
    specs: Specs,
    browsers: Arc<Browsers>,
    health: Health,
    folds: Arc<Folds>,
    /// Bytes of other runs' events that are copied at a time.
    copies: Arc<Semaphore>,
}

impl Runs {
    pub(super) fn new(runtime: Runtime, specs: Specs, browsers: Arc<Browsers>, health: Health) -> Self {
        let folds = Arc::new(Folds::new(Arc::clone(runtime.store()), Arc::clone(runtime.reads())));
        let copies = Arc::new(Semaphore::new(usize::try_from(MAX_PAST_BYTES).unwrap_or(usize::MAX)));
        Self { runtime, specs, browsers, health, folds, copies }
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) fn folds(&self) -> &Folds {
        &self.folds
    }

    pub(super) fn copies(&self) -> &Arc<Semaphore> {
        &self.copies
    }
}

#[tonic::async_trait]
impl RunService for Runs {
    async fn start_run(
        &self,
        request: Request<v1::StartRunRequest>,
    ) -> Result<Response<v1::StartRunResponse>, Status> {
        let caller = starts::caller_of(&request);
        let (run, created) = self.start(request.into_inner(), caller).await?;
        Ok(Response::new(v1::StartRunResponse { run_id: run.to_string(), created }))
    }

    async fn execute_run(
        &self,
        request: Request<v1::ExecuteRunRequest>,
    ) -> Result<Response<v1::ExecuteRunResponse>, Status> {
        let caller = starts::caller_of(&request);
        self.execute(request.into_inner(), caller).await.map(Response::new)
    }

    async fn start_runs(
        &self,
        request: Request<v1::StartRunsRequest>,
    ) -> Result<Response<v1::StartRunsResponse>, Status> {
        let caller = starts::caller_of(&request);
        self.start_all(request.into_inner().runs, caller).await.map(Response::new)
    }

    async fn wait_run(
        &self,
        request: Request<v1::WaitRunRequest>,
    ) -> Result<Response<v1::WaitRunResponse>, Status> {
        let request = request.into_inner();
        let result = self.wait(parse_run(&request.run_id)?, limit(request.timeout_ms)?).await?;
        Ok(Response::new(v1::WaitRunResponse { result }))
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        self.get(request.into_inner()).await.map(Response::new)
    }

    async fn replay_run(
        &self,
        request: Request<v1::ReplayRunRequest>,
    ) -> Result<Response<v1::ReplayRunResponse>, Status> {
        let run = parse_run(&request.into_inner().run_id)?;
        self.whole(run).await?;
        let replayed = self.unless_unread(run, self.folds.replay(run).await).await?;
        Ok(Response::new(replayed.ok_or_else(|| status::not_found(&run.to_string()))?))
    }

    async fn render_report(
        &self,
        request: Request<v1::RenderReportRequest>,
    ) -> Result<Response<v1::RenderReportResponse>, Status> {
        self.report(request.into_inner()).await.map(Response::new)
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        self.list(request.into_inner()).await.map(Response::new)
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let v1::CancelRunRequest { run_id, request_id, if_seq, reason, force } = request.into_inner();
        if reason.len() > CANCEL_REASON_MAX {
            let message = format!("a reason has at most {CANCEL_REASON_MAX} bytes");
            return Err(status::invalid_field("reason", "length", message));
        }
        let input = Input::Cancel { reason, force, request_id: request_id.clone() };
        let (seq, ..) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::CancelRunResponse { seq }))
    }

    async fn pause_run(
        &self,
        request: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        let v1::PauseRunRequest { run_id, request_id, if_seq } = request.into_inner();
        let input = Input::Pause { request_id: request_id.clone() };
        let (seq, ..) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::PauseRunResponse { seq }))
    }

    async fn resume_run(
        &self,
        request: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        let v1::ResumeRunRequest { run_id, request_id, if_seq } = request.into_inner();
        let input = Input::Resume { request_id: request_id.clone() };
        let (seq, ..) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::ResumeRunResponse { seq }))
    }

    async fn extend_task(
        &self,
        request: Request<v1::ExtendTaskRequest>,
    ) -> Result<Response<v1::ExtendTaskResponse>, Status> {
        let v1::ExtendTaskRequest { run_id, task, request_id, if_seq, by_ms } = request.into_inner();
        let default = i64::try_from(capataz_policy::timeout::EXTENSION.as_millis()).unwrap_or(i64::MAX);
        let by_ms = by_ms.unwrap_or(default);
        if !(1..=MAX_EXTENSION_MS).contains(&by_ms) {
            return Err(status::invalid_field(
                "by_ms",
                "range",
                format!("1 to {MAX_EXTENSION_MS} (30 days)"),
            ));
        }
        let input = Input::Extend { task, by_ms, request_id: request_id.clone() };
        let (seq, deadline_ms, _) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::ExtendTaskResponse { seq, deadline_ms }))
    }

    async fn retry_task(
        &self,
        request: Request<v1::RetryTaskRequest>,
    ) -> Result<Response<v1::RetryTaskResponse>, Status> {
        let v1::RetryTaskRequest { run_id, task, request_id, if_seq } = request.into_inner();
        let input = Input::Retry { task, request_id: request_id.clone() };
        let (seq, _, activation) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::RetryTaskResponse { seq, activation }))
    }

    async fn continue_run(
        &self,
        request: Request<v1::ContinueRunRequest>,
    ) -> Result<Response<v1::ContinueRunResponse>, Status> {
        let caller = starts::caller_of(&request);
        self.go_on(request.into_inner(), caller).await.map(Response::new)
    }

    async fn fork_run(
        &self,
        request: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        self.fork(request.into_inner()).await.map(Response::new)
    }

    async fn rollback_task(
        &self,
        request: Request<v1::RollbackTaskRequest>,
    ) -> Result<Response<v1::RollbackTaskResponse>, Status> {
        let v1::RollbackTaskRequest { run_id, task, request_id, if_seq, cascade } = request.into_inner();
        let input = Input::Rollback { task, cascade, request_id: request_id.clone() };
        let (seq, _, activation) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::RollbackTaskResponse { seq, activation }))
    }

    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let v1::ResolveRequest { run_id, question_id, answer, request_id, if_seq, value, revision } =
            request.into_inner();
        let judged = match &value {
            Some(value) => self.check_value(&run_id, value).await,
            None => Ok(()),
        };
        let answer = Answer { option: answer, value, revision, ..Answer::default() };
        let input = Input::Resolve { question_id, answer, request_id: request_id.clone() };
        if let Err(refused) = judged {
            let seq = self.carried_out(&run_id, &input).await.ok_or(refused)?;
            return Ok(Response::new(v1::ResolveResponse { seq }));
        }
        let (seq, ..) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::ResolveResponse { seq }))
    }

    async fn delete_run(
        &self,
        request: Request<v1::DeleteRunRequest>,
    ) -> Result<Response<v1::DeleteRunResponse>, Status> {
        let run = parse_run(&request.into_inner().run_id)?;
        // The answer comes with the first part of its rows. Of events that cannot be measured, it counts that part.
        let measured = self.bytes_of(run).await.unwrap_or(0);
        match self.runtime.delete(run).await.map_err(|declined| status::declined(&declined))? {
            Removal::Removed { bytes } => {
                let bytes = bytes.max(measured);
                tracing::info!(%run, bytes, "a run was removed");
                Ok(Response::new(v1::DeleteRunResponse { bytes }))
            }
            refused => Err(status::removal(run, refused)),
        }
    }

    async fn release_run(
        &self,
        request: Request<v1::ReleaseRunRequest>,
    ) -> Result<Response<v1::ReleaseRunResponse>, Status> {
        let run = parse_run(&request.into_inner().run_id)?;
        if self.stored(run).await?.quarantine.is_none() {
            return Ok(Response::new(v1::ReleaseRunResponse { released: false }));
        }
        self.runtime.release(run).await.map_err(|declined| status::declined(&declined))?;
        refuse_quarantined(&self.stored(run).await?)?;
        Ok(Response::new(v1::ReleaseRunResponse { released: true }))
    }

    type ExportRunStream = Pages<v1::ExportRunResponse>;

    async fn export_run(
        &self,
        request: Request<v1::ExportRunRequest>,
    ) -> Result<Response<Self::ExportRunStream>, Status> {
        let run = parse_run(&request.into_inner().run_id)?;
        self.row(run).await?;
        Ok(Response::new(export::pages(self.runtime.clone(), run)))
    }
}

#[cfg(test)]
mod tests;
