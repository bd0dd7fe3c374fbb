//! The calls of the daemon's API.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_client::AgentServiceClient;
use capataz_contracts::v1::blob_service_client::BlobServiceClient;
use capataz_contracts::v1::memory_service_client::MemoryServiceClient;
use capataz_contracts::v1::mode_service_client::ModeServiceClient;
use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;
use capataz_contracts::v1::router_service_client::RouterServiceClient;
use capataz_contracts::v1::run_service_client::RunServiceClient;
use capataz_contracts::v1::session_service_client::SessionServiceClient;
use tokio::time::Instant;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use crate::retry::Attempts;
use crate::{ClientError, EventStream, RetryOptions};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone without a word is noticed after the sum of the two.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The daemon's limit on one waiting call (`ExecuteRunRequest.timeout_ms`).
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// Below the contract's 1 MiB for a frame, so that other calls on the connection get their turn.
const BLOB_CHUNK_MAX: usize = 512 * 1024;
/// The daemon's limit on one blob.
const BLOB_MAX: usize = 64 * 1024 * 1024;

/// A connection to one daemon. Clones are cheap and share it; it is made again by itself when it breaks.
///
/// Calls that carry an idempotency key or a `request_id` are repeated as [`RetryOptions`] say; all others are made
/// once, except [`wait_run`](Self::wait_run) and [`put_blob`](Self::put_blob), which can be repeated as they are.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    channel: Channel,
    pub(crate) retry: RetryOptions,
    /// What runs that are started are part of.
    traceparent: Option<MetadataValue<Ascii>>,
}

impl Client {
    /// Connects to `http://host:port` or `unix:/path/of/the.sock`. Without a scheme it is taken as `http`.
    ///
    /// # Errors
    /// The endpoint is not an address, or nobody listens there.
    pub async fn connect(endpoint: &str) -> Result<Self, ClientError> {
        let endpoint = transport(endpoint)?;
        let channel = endpoint.connect().await?;
        Ok(Self { endpoint: Arc::new(endpoint), channel, retry: RetryOptions::default(), traceparent: None })
    }

    /// Connects with the first call. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// The endpoint is not an address.
    pub fn lazy(endpoint: &str) -> Result<Self, ClientError> {
        let endpoint = transport(endpoint)?;
        let channel = endpoint.connect_lazy();
        Ok(Self { endpoint: Arc::new(endpoint), channel, retry: RetryOptions::default(), traceparent: None })
    }

    /// The same client over a connection of its own, which is made with the first call.
    pub(crate) fn over_new_connection(&self) -> Self {
        Self { channel: self.endpoint.connect_lazy(), ..self.clone() }
    }

    /// How calls with a key are repeated.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryOptions) -> Self {
        self.retry = retry;
        self
    }

    /// The runs that are started from here on belong to this span of the caller, a `traceparent` of W3C Trace Context. One
    /// that is none is ignored: the runs begin traces of their own.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: &str) -> Self {
        let context = TraceContext::parse(traceparent);
        self.traceparent = context.and_then(|context| context.to_string().parse().ok());
        self
    }

    /// The request, with the span that it belongs to.
    pub(crate) fn traced<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(traceparent) = &self.traceparent {
            request.metadata_mut().insert("traceparent", traceparent.clone());
        }
        request
    }

    /// The connection, for services that this crate has no methods for.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

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

    /// The checkpoints of a pipeline's run, now or as they were after an event.
    ///
    /// # Errors
    /// There is no such run or event, or the daemon is not reached.
    pub async fn list_checkpoints(
        &self,
        request: v1::ListCheckpointsRequest,
    ) -> Result<v1::ListCheckpointsResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut pipelines = PipelineServiceClient::new(channel.clone());
            async move { pipelines.list_checkpoints(request).await }
        })
        .await
    }

    /// Goes back to the newest completed checkpoint before a phase of a pipeline's run.
    ///
    /// # Errors
    /// There is no such checkpoint (CHECKPOINT_NOT_FOUND), the run has ended, or the daemon is not reached.
    pub async fn rollback_pipeline(
        &self,
        mut request: v1::RollbackPipelineRequest,
    ) -> Result<v1::RollbackPipelineResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut pipelines = PipelineServiceClient::new(channel.clone());
            async move { pipelines.rollback_pipeline(request).await }
        })
        .await
    }

    /// Chooses the mode of a session's runs that name none.
    ///
    /// # Errors
    /// The session's name is not one, or the daemon is not reached.
    pub async fn choose_mode(
        &self,
        request: v1::ChooseModeRequest,
    ) -> Result<v1::ChooseModeResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.choose_mode(request).await }
        })
        .await
    }

    /// Where an execution stands.
    ///
    /// # Errors
    /// There is no such run or event, or the daemon is not reached.
    pub async fn get_execution(
        &self,
        request: v1::GetExecutionRequest,
    ) -> Result<v1::GetExecutionResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.get_execution(request).await }
        })
        .await
    }

    /// Makes a place to which an execution can go back.
    ///
    /// # Errors
    /// The run has ended, or is in no execution mode; or the daemon is not reached.
    pub async fn create_checkpoint(
        &self,
        mut request: v1::CreateCheckpointRequest,
    ) -> Result<v1::CreateCheckpointResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.create_checkpoint(request).await }
        })
        .await
    }

    /// Goes back to a checkpoint of an execution.
    ///
    /// # Errors
    /// There is no such checkpoint (CHECKPOINT_NOT_FOUND), the run cannot go back there (ROLLBACK_NOT_POSSIBLE) or has
    /// ended; or the daemon is not reached.
    pub async fn rollback_execution(
        &self,
        mut request: v1::RollbackExecutionRequest,
    ) -> Result<v1::RollbackExecutionResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.rollback_execution(request).await }
        })
        .await
    }

    /// How executions that have ended went, by mode.
    ///
    /// # Errors
    /// The daemon is not reached, or too many read at once.
    pub async fn get_analytics(
        &self,
        request: v1::GetAnalyticsRequest,
    ) -> Result<v1::GetAnalyticsResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.get_analytics(request).await }
        })
        .await
    }

    /// How large and how risky a query looks, for information only.
    ///
    /// # Errors
    /// The query is blank or too long, or the daemon is not reached.
    pub async fn assess_risk(
        &self,
        request: v1::AssessRiskRequest,
    ) -> Result<v1::AssessRiskResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.assess_risk(request).await }
        })
        .await
    }

    /// What a session remembers, newest first.
    ///
    /// # Errors
    /// The request breaks a rule, or the daemon is not reached.
    pub async fn search_memory(
        &self,
        request: v1::SearchMemoryRequest,
    ) -> Result<v1::SearchMemoryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.search_memory(request).await }
        })
        .await
    }

    /// One entry of memory.
    ///
    /// # Errors
    /// There is no such entry, or the daemon is not reached.
    pub async fn get_memory_entry(
        &self,
        request: v1::GetMemoryEntryRequest,
    ) -> Result<v1::GetMemoryEntryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.get_memory_entry(request).await }
        })
        .await
    }

    /// Has entries of a session forgotten. A repeated call changes nothing.
    ///
    /// # Errors
    /// The session has no such entry, or the daemon is not reached: they may be forgotten then.
    pub async fn forget_memory(
        &self,
        request: v1::ForgetMemoryRequest,
    ) -> Result<v1::ForgetMemoryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.forget_memory(request).await }
        })
        .await
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

    /// All events of a run as they were stored.
    ///
    /// # Errors
    /// There is no such run, or the daemon is not reached.
    pub async fn export_run(&self, run_id: &str) -> Result<ExportStream, ClientError> {
        let request = v1::ExportRunRequest { run_id: run_id.to_owned() };
        let stream = RunServiceClient::new(self.channel()).export_run(request).await?.into_inner();
        Ok(ExportStream { stream, events: Vec::new().into_iter() })
    }

    /// The agents that are known, with their load.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_agents(&self) -> Result<Vec<v1::AgentStatus>, ClientError> {
        let mut agents = Vec::new();
        let mut request = v1::ListAgentsRequest::default();
        loop {
            let mut service = AgentServiceClient::new(self.channel());
            let page = service.list_agents(request.clone()).await?.into_inner();
            agents.extend(page.agents);
            // A page that names itself as the next one would never end.
            if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
                return Ok(agents);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Checks names as a start would, without starting anything.
    ///
    /// # Errors
    /// The daemon is not reached. Unknown names are not an error: the response lists them.
    pub async fn check_agents(
        &self,
        request: v1::CheckAgentsRequest,
    ) -> Result<v1::CheckAgentsResponse, ClientError> {
        Ok(AgentServiceClient::new(self.channel()).check_agents(request).await?.into_inner())
    }

    /// What would answer a text, without asking it.
    ///
    /// # Errors
    /// The daemon refuses the text, has no specs, or is not reached.
    pub async fn route(&self, request: v1::RouteRequest) -> Result<v1::Routing, ClientError> {
        let response = RouterServiceClient::new(self.channel()).route(request).await?.into_inner();
        Ok(response.routing.unwrap_or_default())
    }

    /// Every term of a routing decision.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub async fn explain(&self, request: v1::ExplainRequest) -> Result<v1::ExplainResponse, ClientError> {
        Ok(RouterServiceClient::new(self.channel()).explain(request).await?.into_inner())
    }

    /// The catalogue.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_specs(&self) -> Result<Vec<v1::SpecInfo>, ClientError> {
        let mut specs = Vec::new();
        let mut request = v1::ListSpecsRequest::default();
        loop {
            let mut service = RouterServiceClient::new(self.channel());
            let page = service.list_specs(request.clone()).await?.into_inner();
            specs.extend(page.specs);
            // A page that names itself as the next one would never end.
            if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
                return Ok(specs);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// One spec of the catalogue.
    ///
    /// # Errors
    /// There is no such spec, or the daemon is not reached.
    pub async fn get_spec(&self, spec: &str) -> Result<v1::SpecInfo, ClientError> {
        let request = v1::GetSpecRequest { spec: spec.to_owned() };
        let response = RouterServiceClient::new(self.channel()).get_spec(request).await?.into_inner();
        Ok(response.spec.unwrap_or_default())
    }

    /// Has the daemon read its spec files again; how many specs there are. An invalid file changes nothing.
    ///
    /// # Errors
    /// A file is invalid, each error with its place; or the daemon is not reached.
    pub async fn reload_specs(&self) -> Result<u32, ClientError> {
        let request = v1::ReloadSpecsRequest {};
        Ok(RouterServiceClient::new(self.channel()).reload_specs(request).await?.into_inner().specs)
    }

    /// Moves a session to the spec that the answer to an ask has suggested. Accepting again changes nothing, so the call
    /// is repeated like one with a key.
    ///
    /// # Errors
    /// No such suggestion is open, or the daemon is not reached.
    pub async fn accept_transition(
        &self,
        session: &str,
        request_id: &str,
    ) -> Result<v1::AcceptTransitionResponse, ClientError> {
        let mut attempts = Attempts::new(&self.retry);
        loop {
            let request = v1::AcceptTransitionRequest {
                session: session.to_owned(),
                request_id: request_id.to_owned(),
            };
            match RouterServiceClient::new(self.channel()).accept_transition(request).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => attempts.after(status.into()).await?,
            }
        }
    }

    /// A session as it stands.
    ///
    /// # Errors
    /// Nothing was ever said in it, or the daemon is not reached.
    pub async fn get_session(&self, session: &str) -> Result<v1::Session, ClientError> {
        let request = v1::GetSessionRequest { session: session.to_owned() };
        let response = SessionServiceClient::new(self.channel()).get_session(request).await?.into_inner();
        Ok(response.session.unwrap_or_default())
    }

    /// Gives a session the state of a file. The same state once more changes nothing, so the call is repeated like one with
    /// a key.
    ///
    /// # Errors
    /// The state is not valid (SESSION_VALIDATION_FAILED), a plan of the session is at work (SESSION_BUSY), or the daemon is
    /// not reached.
    pub async fn import_session(
        &self,
        request: v1::ImportSessionRequest,
    ) -> Result<v1::ImportSessionResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut sessions = SessionServiceClient::new(channel.clone());
            async move { sessions.import_session(request).await }
        })
        .await
    }

    /// A page of the sessions, without their conversations.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_sessions(
        &self,
        request: v1::ListSessionsRequest,
    ) -> Result<v1::ListSessionsResponse, ClientError> {
        Ok(SessionServiceClient::new(self.channel()).list_sessions(request).await?.into_inner())
    }

    /// Stores a blob. Its content is its key, so the call is repeated like one with a key.
    ///
    /// # Errors
    /// The content is larger than 64 MiB, or the daemon is not reached.
    pub async fn put_blob(&self, content: Bytes) -> Result<v1::BlobRef, ClientError> {
        self.put_blob_with(&self.retry, content).await
    }

    pub(crate) async fn put_blob_with(
        &self,
        retry: &RetryOptions,
        content: Bytes,
    ) -> Result<v1::BlobRef, ClientError> {
        let response = repeated(retry, true, content, |content| {
            let mut blobs = BlobServiceClient::new(self.channel());
            async move { blobs.put_blob(tokio_stream::iter(Chunks(content).with_at_least_one())).await }
        })
        .await?;
        response
            .blob
            .ok_or_else(|| ClientError::new(Code::Internal, "the daemon stored a blob without naming it"))
    }

    /// The content of a blob.
    ///
    /// # Errors
    /// There is no such blob, or the daemon is not reached.
    pub async fn get_blob(&self, blake3: &str) -> Result<Bytes, ClientError> {
        let request = v1::GetBlobRequest { blake3: blake3.to_owned() };
        let mut stream = BlobServiceClient::new(self.channel()).get_blob(request).await?.into_inner();
        let mut content = Vec::new();
        while let Some(response) = stream.message().await? {
            if content.len() + response.chunk.len() > BLOB_MAX {
                return Err(ClientError::new(Code::OutOfRange, "the blob is larger than blobs can be"));
            }
            content.extend_from_slice(&response.chunk);
        }
        Ok(content.into())
    }

    /// Subscribes to events. Nothing is sent before the first [`EventStream::next`].
    pub fn subscribe(&self, request: v1::SubscribeRequest) -> EventStream {
        EventStream::new(self.clone(), request)
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

/// Makes a call, and makes it again with the same request where it is safe and may help.
pub(crate) async fn repeated<Q, R, F, A>(
    retry: &RetryOptions,
    keyed: bool,
    request: Q,
    call: F,
) -> Result<R, ClientError>
where
    Q: Clone,
    F: Fn(Q) -> A,
    A: Future<Output = Result<Response<R>, Status>>,
{
    if !keyed {
        return Ok(call(request).await?.into_inner());
    }
    let mut attempts = Attempts::new(retry);
    loop {
        match call(request.clone()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => attempts.after(status.into()).await?,
        }
    }
}

/// A run's events, decoded one after the other; made by [`Client::export_run`].
#[derive(Debug)]
pub struct ExportStream {
    stream: tonic::Streaming<v1::ExportRunResponse>,
    events: std::vec::IntoIter<Bytes>,
}

impl ExportStream {
    /// The next event; `None` after the last one. A broken connection is an error: begin again.
    ///
    /// # Errors
    /// The connection broke, or the log is damaged.
    pub async fn next(&mut self) -> Option<Result<v1::Event, ClientError>> {
        let encoded = self.next_encoded().await?;
        Some(encoded.and_then(|encoded| {
            prost::Message::decode(encoded)
                .map_err(|error| ClientError::with_source(Code::DataLoss, "an event cannot be read", error))
        }))
    }

    /// The next event as the bytes that were stored.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next_encoded(&mut self) -> Option<Result<Bytes, ClientError>> {
        loop {
            if let Some(event) = self.events.next() {
                return Some(Ok(event));
            }
            match self.stream.message().await {
                Ok(Some(response)) => self.events = response.events.into_iter(),
                Ok(None) => return None,
                Err(status) => return Some(Err(status.into())),
            }
        }
    }
}

fn transport(endpoint: &str) -> Result<Endpoint, ClientError> {
    let invalid = |message: String| ClientError::new(Code::InvalidArgument, message);
    let is_socket = endpoint.starts_with("unix:");
    let address = if is_socket || endpoint.contains("://") {
        endpoint.to_owned()
    } else {
        format!("http://{endpoint}")
    };
    if !is_socket && !address.starts_with("http://") {
        return Err(invalid(format!("`{endpoint}`: endpoints are `http://host:port` or `unix:/path`")));
    }
    let mut transport = Endpoint::from_shared(address)
        .map_err(|error| ClientError::with_source(Code::InvalidArgument, format!("`{endpoint}`"), error))?;
    if is_socket {
        // The daemon refuses hosts that are not local names.
        transport = transport.origin(tonic::codegen::http::Uri::from_static("http://localhost"));
    } else if transport.uri().host().is_none_or(str::is_empty) {
        return Err(invalid(format!("`{endpoint}` names no host")));
    }
    Ok(transport
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT))
}

pub(crate) fn fill(request_id: &mut String) {
    if request_id.is_empty() {
        *request_id = Uuid::now_v7().to_string();
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

/// A blob cut into frames.
struct Chunks(Bytes);

impl Chunks {
    /// An empty blob also is one frame.
    fn with_at_least_one(self) -> impl Iterator<Item = v1::PutBlobRequest> + Send {
        let empty = self.0.is_empty().then(v1::PutBlobRequest::default);
        empty.into_iter().chain(self)
    }
}

impl Iterator for Chunks {
    type Item = v1::PutBlobRequest;

    fn next(&mut self) -> Option<Self::Item> {
        let length = self.0.len().min(BLOB_CHUNK_MAX);
        (length > 0).then(|| v1::PutBlobRequest { chunk: self.0.split_to(length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn endpoints() {
        for valid in [
            "http://127.0.0.1:7411",
            "localhost:7411",
            "[::1]:7411",
            "unix:/run/c.sock",
            "unix:///run/c.sock",
        ] {
            assert!(Client::lazy(valid).is_ok(), "{valid}");
        }
        for invalid in ["", "http://", "https://example.org", "ftp://x", "http://a b"] {
            let error = Client::lazy(invalid).err().map(|error| error.grpc_code());
            assert_eq!(error, Some(Code::InvalidArgument), "{invalid}");
        }
    }

    #[test]
    fn a_blob_is_cut_into_frames() {
        let lengths = |content: usize| -> Vec<usize> {
            let chunks = Chunks(Bytes::from(vec![0; content])).with_at_least_one();
            chunks.map(|request| request.chunk.len()).collect()
        };
        assert_eq!(lengths(0), [0]);
        assert_eq!(lengths(5), [5]);
        assert_eq!(lengths(BLOB_CHUNK_MAX), [BLOB_CHUNK_MAX]);
        assert_eq!(lengths(2 * BLOB_CHUNK_MAX + 1), [BLOB_CHUNK_MAX, BLOB_CHUNK_MAX, 1]);
    }
}
