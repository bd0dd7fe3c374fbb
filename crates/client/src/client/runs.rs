//! The calls of the daemon's RunService, except the export of a run.

use std::future::Future;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::{Client, fill, repeated};
use crate::ClientError;

/// The daemon's limit on one waiting call (`ExecuteRunRequest.timeout_ms`).
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

impl Client {
    /// Starts a run; answers when it is durable. Repeated only with an idempotency key.
    ///
    /// # Errors
    /// The daemon refuses the run, or is not reached.
    pub async fn start_run(&self, request: v1::StartRunRequest) -> Result<v1::StartRunResponse, ClientError> {
        let keyed = request.idempotency_key.is_some();
        self.run_call(keyed, request, |mut runs, request| {
            let request = self.traced(request);
            async move { runs.start_run(request).await }
        })
        .await
    }

    /// Starts a run that takes over what succeeded in the run of a plan that has ended, and does the rest. Repeated only with
    /// an idempotency key.
    ///
    /// # Errors
    /// The run is not one that can be continued, or the daemon is not reached.
    pub async fn continue_run(
        &self,
        request: v1::ContinueRunRequest,
    ) -> Result<v1::ContinueRunResponse, ClientError> {
        let keyed = request.idempotency_key.is_some();
        self.run_call(keyed, request, |mut runs, request| {
            let request = self.traced(request);
            async move { runs.continue_run(request).await }
        })
        .await
    }

    /// Starts a run that begins with what another one was after one of its events. Repeated only with an idempotency key.
    ///
    /// # Errors
    /// The run may not be forked there, or the daemon is not reached.
    pub async fn fork_run(&self, request: v1::ForkRunRequest) -> Result<v1::ForkRunResponse, ClientError> {
        let keyed = request.idempotency_key.is_some();
        self.run_call(keyed, request, |mut runs, request| async move { runs.fork_run(request).await }).await
    }

    /// Starts a run and waits for its end, without limit where `timeout` is `None`. The response has no result where the
    /// run has not ended in time; the run goes on.
    ///
    /// With an idempotency key the call is repeated also when the connection breaks after the run was accepted: the
    /// daemon then goes on to wait for the same run. Without a key such a break is an error.
    ///
    /// # Errors
    /// The daemon refuses the run, or is not reached.
    pub async fn execute_run(
        &self,
        request: v1::StartRunRequest,
        timeout: Option<Duration>,
    ) -> Result<v1::ExecuteRunResponse, ClientError> {
        let keyed = request.idempotency_key.is_some();
        let patience = Patience::new(timeout);
        let started = self.run_call(keyed, request, |mut runs, start| {
            let timeout_ms = Some(patience.next_wait_ms());
            let request = self.traced(v1::ExecuteRunRequest { start: Some(start), timeout_ms });
            async move { runs.execute_run(request).await }
        });
        let mut response = started.await?;
        if response.result.is_none() && !patience.is_over() {
            response.result = self.wait(&response.run_id, patience).await?;
        }
        Ok(response)
    }

    /// Starts several runs, at most 1,000; each start stands for itself. Repeated only where all have an idempotency
    /// key.
    ///
    /// # Errors
    /// The daemon refuses the request as a whole, or is not reached. Refusals of single runs are in the items.
    pub async fn start_runs(
        &self,
        runs: Vec<v1::StartRunRequest>,
    ) -> Result<Vec<v1::StartRunsItem>, ClientError> {
        let keyed = runs.iter().all(|run| run.idempotency_key.is_some());
        let request = v1::StartRunsRequest { runs };
        let response = self
            .run_call(keyed, request, |mut runs, request| {
                let request = self.traced(request);
                async move { runs.start_runs(request).await }
            })
            .await?;
        Ok(response.items)
    }

    /// Waits for a run's end, without limit where `timeout` is `None`; `Ok(None)` where it has not ended in time. A
    /// broken connection is taken up again.
    ///
    /// # Errors
    /// There is no such run, or the daemon is not reached.
    pub async fn wait_run(
        &self,
        run_id: &str,
        timeout: Option<Duration>,
    ) -> Result<Option<v1::RunResult>, ClientError> {
        self.wait(run_id, Patience::new(timeout)).await
    }

    async fn wait(&self, run_id: &str, patience: Patience) -> Result<Option<v1::RunResult>, ClientError> {
        loop {
            let response = self
                .run_call(true, run_id.to_owned(), |mut runs, run_id| async move {
                    let timeout_ms = Some(patience.next_wait_ms());
                    runs.wait_run(v1::WaitRunRequest { run_id, timeout_ms }).await
                })
                .await?;
            if response.result.is_some() || patience.is_over() {
                return Ok(response.result);
            }
        }
    }

    /// A run as it stands.
    ///
    /// # Errors
    /// There is no such run, or the daemon is not reached.
    pub async fn get_run(&self, request: v1::GetRunRequest) -> Result<v1::GetRunResponse, ClientError> {
        self.run_call(false, request, |mut runs, request| async move { runs.get_run(request).await }).await
    }

    /// Folds a run again from its first event, and compares what is stored of it.
    ///
    /// # Errors
    /// There is no such run, its log is damaged, or the daemon is not reached.
    pub async fn replay_run(
        &self,
        request: v1::ReplayRunRequest,
    ) -> Result<v1::ReplayRunResponse, ClientError> {
        self.run_call(false, request, |mut runs, request| async move { runs.replay_run(request).await }).await
    }

    /// The report of a run for people, in English or Spanish.
    ///
    /// # Errors
    /// There is no such run, the language is another one, or the daemon is not reached.
    pub async fn render_report(
        &self,
        request: v1::RenderReportRequest,
    ) -> Result<v1::RenderReportResponse, ClientError> {
        self.run_call(false, request, |mut runs, request| async move { runs.render_report(request).await })
            .await
    }

    /// One page of runs, newest first.
    ///
    /// # Errors
    /// The daemon refuses the filter or the page token, or is not reached.
    pub async fn list_runs(&self, request: v1::ListRunsRequest) -> Result<v1::ListRunsResponse, ClientError> {
        self.run_call(false, request, |mut runs, request| async move { runs.list_runs(request).await }).await
    }

    /// Cancels a run.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn cancel_run(
        &self,
        mut request: v1::CancelRunRequest,
    ) -> Result<v1::CancelRunResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.cancel_run(request).await }).await
    }

    /// Pauses a run: running tasks go on, no further ones begin.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn pause_run(
        &self,
        mut request: v1::PauseRunRequest,
    ) -> Result<v1::PauseRunResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.pause_run(request).await }).await
    }

    /// Lets a paused run go on.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn resume_run(
        &self,
        mut request: v1::ResumeRunRequest,
    ) -> Result<v1::ResumeRunResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.resume_run(request).await }).await
    }

    /// Gives a task more time.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn extend_task(
        &self,
        mut request: v1::ExtendTaskRequest,
    ) -> Result<v1::ExtendTaskResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.extend_task(request).await }).await
    }

    /// Begins a failed task anew.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn retry_task(
        &self,
        mut request: v1::RetryTaskRequest,
    ) -> Result<v1::RetryTaskResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.retry_task(request).await }).await
    }

    /// Takes a task back, with `cascade` also what was built on it.
    ///
    /// # Errors
    /// The daemon refuses the request, or is not reached.
    pub async fn rollback_task(
        &self,
        mut request: v1::RollbackTaskRequest,
    ) -> Result<v1::RollbackTaskResponse, ClientError> {
        fill(&mut request.request_id);
        let call = self
            .run_call(true, request, |mut runs, request| async move { runs.rollback_task(request).await });
        call.await
    }

    /// Answers a run's question.
    ///
    /// # Errors
    /// The question was answered before, the answer is not one of its options, or the daemon is not reached.
    pub async fn resolve(&self, mut request: v1::ResolveRequest) -> Result<v1::ResolveResponse, ClientError> {
        fill(&mut request.request_id);
        self.run_call(true, request, |mut runs, request| async move { runs.resolve(request).await }).await
    }

    /// Removes a run that has finished or is in quarantine.
    ///
    /// # Errors
    /// The run is needed, there is no such run, or the daemon is not reached: the run may be removed then.
    pub async fn delete_run(&self, run_id: &str) -> Result<v1::DeleteRunResponse, ClientError> {
        let request = v1::DeleteRunRequest { run_id: run_id.to_owned() };
        self.run_call(false, request, |mut runs, request| async move { runs.delete_run(request).await }).await
    }

    /// Has a run in quarantine tried again.
    ///
    /// # Errors
    /// It still cannot be worked on, there is no such run, or the daemon is not reached.
    pub async fn release_run(&self, run_id: &str) -> Result<v1::ReleaseRunResponse, ClientError> {
        let request = v1::ReleaseRunRequest { run_id: run_id.to_owned() };
        self.run_call(true, request, |mut runs, request| async move { runs.release_run(request).await }).await
    }

    async fn run_call<Q, R, F, A>(&self, keyed: bool, request: Q, call: F) -> Result<R, ClientError>
    where
        Q: Clone,
        F: Fn(RunServiceClient<Channel>, Q) -> A,
        A: Future<Output = Result<Response<R>, Status>>,
    {
        let call = |request| call(RunServiceClient::new(self.channel()), request);
        // Requests that carry a plan or a script are large, and a call has them in it several times.
        Box::pin(repeated(&self.retry, keyed, request, call)).await
    }
}

/// How long the caller still waits; `None`: without limit.
#[derive(Clone, Copy)]
struct Patience(Option<Instant>);

impl Patience {
    fn new(timeout: Option<Duration>) -> Self {
        // A time beyond the clock's range is as good as no limit.
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    fn next_wait_ms(self) -> i64 {
        let wait =
            self.0.map_or(WAIT_MAX, |until| until.saturating_duration_since(Instant::now())).min(WAIT_MAX);
        // Rounded up, so that the last of several waits does not end before the time.
        i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
    }

    fn is_over(self) -> bool {
        self.0.is_some_and(|until| until <= Instant::now())
    }
}
