//! RunService.

use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1::run_service_server::RunService;
use capataz_contracts::validate;
use capataz_contracts::{Violation, v1};
use capataz_engine::{Answer, Input, ViewOptions, Work, without_values};
use capataz_hosts::browsers::Browsers;
use capataz_runtime::Runtime;
use capataz_shard::blob_hash;
use capataz_shard::forks::MAX_PAST_BYTES;
use capataz_shard::{CommandReply, Declined, StartReply, StartRequest, WaitReply};
use capataz_shard::{Damage, LoadError};
use capataz_store::{
    IdempotencyKey, Millis, QuarantineReason, Removal, RunId, RunQuery, RunRow, Store, StoreError,
};
use prost::Message;
use tokio::sync::Semaphore;
use tonic::{Code, Request, Response, Status};

use super::news::News;
use super::starts::Refused;
use super::{
    Health, Pages, export, family, listing, modes, named, pipelines, reports, session_repairs, starts,
};
use crate::SHARD;
use crate::folds::{Folds, Held, Unread};
use crate::specs::Specs;
use crate::status;

/// Longest wait of one call.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);
/// How soon a shard that is being read is asked again.
const READ_AGAIN: Duration = Duration::from_millis(20);
/// The longest pause between two such looks.
const READ_AGAIN_AT_MOST: Duration = Duration::from_secs(1);
/// Starts in one batch.
const MAX_STARTS: usize = 1_000;
const MAX_TASK_PAGE: u32 = 1_000;
const DEFAULT_PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;
/// Longest extension of a task at once.
const MAX_EXTENSION_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// Bytes of one answer, below gRPC's 4 MiB.
const MAX_ANSWER_BYTES: usize = 3 * 1024 * 1024;

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

    /// Starts what was asked for. A request whose key names its run already is answered with that run, whatever may have
    /// changed since: whether it would still be taken is not the question.
    pub(super) async fn begin(&self, start: StartRequest) -> Result<StartReply, Status> {
        let key = start.key.clone();
        let refused = match self.checked(start).await {
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
    pub(super) async fn named_by(&self, key: Option<IdempotencyKey>) -> Option<RunId> {
        let IdempotencyKey { key, request } = key?;
        let store = Arc::clone(self.runtime.store());
        let named = self.runtime.reads().answer(move || store.key(SHARD, &key)).await;
        let named = named.ok()?.ok()??;
        (named.request == request).then_some(named.run)
    }

    /// Holds a start against what is there now.
    async fn checked(&self, mut start: StartRequest) -> Result<StartRequest, Status> {
        if let Work::Mode(run) = &mut start.start.work {
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

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(super) fn folds(&self) -> &Folds {
        &self.folds
    }

    pub(super) fn copies(&self) -> &Arc<Semaphore> {
        &self.copies
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

    pub(super) async fn start(
        &self,
        request: v1::StartRunRequest,
        caller: Option<TraceContext>,
    ) -> Result<(RunId, bool), Status> {
        let start = self.parsed(request, false, caller).await?;
        let run = start.run;
        match self.begin(start).await? {
            StartReply::Started { .. } => Ok((run, true)),
            StartReply::Existing { run } => Ok((run, false)),
            refused => Err(status::start(&refused)),
        }
    }

    /// The result of a run, once it has finished; `None` where that takes longer than `limit`.
    async fn wait(&self, run: RunId, limit: Duration) -> Result<Option<v1::RunResult>, Status> {
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

    pub(super) async fn row(&self, run: RunId) -> Result<RunRow, Status> {
        let store = Arc::clone(self.runtime.store());
        answer(&self.runtime, move || row_of(&*store, run)).await
    }

    /// The row of a run, or of the stream of a session in quarantine.
    async fn stored(&self, run: RunId) -> Result<RunRow, Status> {
        let store = Arc::clone(self.runtime.store());
        answer(&self.runtime, move || {
            let row = store.get_run(run).map_err(|error| status::store(&error))?;
            row.ok_or_else(|| status::not_found(&run.to_string()))
        })
        .await
    }

    /// The state of a run whose row was read just now.
    pub(super) async fn fold(&self, row: &RunRow) -> Result<Held, Status> {
        let run = row.run;
        let read = self.folds.get(run).await;
        if let Ok(held) = &read
            && held.seq() >= row.last_seq
        {
            return Ok(held.clone());
        }
        self.unless_unread(run, read).await
    }

    /// The agent with which a blocked phase is to go on has to be known, as every agent at a start.
    async fn check_agent(&self, run_id: &str, value: &v1::Payload) -> Result<(), Status> {
        let Some(agent) = pipelines::named_agent(value) else { return Ok(()) };
        if self.row(parse_run(run_id)?).await?.kind != v1::RunKind::Pipeline as i32 {
            return Ok(());
        }
        let checked = self.runtime.check_agents(vec![agent], Vec::new(), Vec::new()).await;
        let batch = checked.map_err(|declined| status::declined(&declined))?;
        match batch.details.first() {
            Some(error) => Err(status::contract(Code::NotFound, error, |_| Some("value.agent".to_owned()))),
            None => Ok(()),
        }
    }

    /// The state of a run, as it is now or as it was after an event.
    pub(super) async fn state_at(&self, run_id: &str, at: Option<u64>) -> Result<Held, Status> {
        let row = self.whole(parse_run(run_id)?).await?;
        match at {
            Some(at) => self.fold_at(&row, at).await,
            None => self.fold(&row).await,
        }
    }

    /// The state as it was after event `at`.
    pub(super) async fn fold_at(&self, row: &RunRow, at: u64) -> Result<Held, Status> {
        row_has(row, at)?;
        self.unless_unread(row.run, self.folds.at(row.run, at).await).await
    }

    /// What was read of a run, or why it was not.
    pub(super) async fn unless_unread<T: Send + 'static>(
        &self,
        run: RunId,
        read: Result<T, Unread>,
    ) -> Result<T, Status> {
        let read = match read {
            Ok(read) => Ok(read),
            Err(Unread::Busy(busy)) => return Err(status::busy(busy)),
            Err(Unread::Load(error)) => {
                let runtime = self.runtime.clone();
                answer(&self.runtime, move || Err(unreadable(&runtime, &error))).await
            }
        };
        // A log that ends too early may have been removed while it was read, which is not damage.
        self.row(run).await?;
        read
    }

    /// The row of a run that is not in quarantine.
    pub(super) async fn whole(&self, run: RunId) -> Result<RunRow, Status> {
        let row = self.row(run).await?;
        refuse_quarantined(&row)?;
        Ok(row)
    }

    /// Carries a user's command out.
    pub(super) async fn command(
        &self,
        run_id: &str,
        request_id: &str,
        if_seq: Option<u64>,
        input: Input,
    ) -> Result<(u64, i64, u32), Status> {
        let run = parse_run(run_id)?;
        if request_id.is_empty() || request_id.len() > 256 {
            return Err(status::invalid_field(
                "request_id",
                "length",
                "1 to 256 bytes; choose a new one for each request",
            ));
        }
        if request_id.starts_with("capataz.") {
            let message = "request ids that begin with `capataz.` are the daemon's own";
            return Err(status::invalid_field("request_id", "reserved", message));
        }
        match self.runtime.command(run, if_seq, input).await {
            Ok(CommandReply::Done { seq, deadline_ms, activation }) => Ok((seq, deadline_ms, activation)),
            Ok(answer @ CommandReply::NotActive { .. }) => {
                // Finished, or never there.
                let row = self.whole(run).await?;
                if row.summary.finished_at.is_none() {
                    return Err(status::unavailable());
                }
                // A request that was carried out before the run's end has the answer that it had then.
                let seq = self.fold(&row).await?.request_seq(request_id);
                seq.map(|seq| (seq, 0, 0)).ok_or_else(|| status::command(&answer))
            }
            Ok(refused) => Err(status::command(&refused)),
            Err(declined) => Err(status::declined(&declined)),
        }
    }

    /// Judges the value of an answer by itself. What type is asked for, the run knows.
    async fn judge(&self, value: &v1::Payload) -> Result<(), Status> {
        let mut violations = validate::payload(value, validate::INLINE_MAX);
        if value.data.is_none() {
            violations.push(Violation::new("", "required", "a value has content"));
        }
        let under_value = violations.into_iter().map(|violation| violation.under("value"));
        let violations: Vec<Violation> = under_value.collect();
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let Some(v1::payload::Data::Blob(blob)) = &value.data else { return Ok(()) };
        let Some(hash) = blob_hash(blob) else { return Err(status::blob_not_found(&blob.blake3)) };
        named::keep(&self.runtime, &[hash]).await
    }
}

/// The row of a run. The stream of a session has one, too, and is not a run.
/// Refuses an event that the run does not have.
pub(super) fn row_has(row: &RunRow, at: u64) -> Result<(), Status> {
    if (1..=row.last_seq).contains(&at) {
        return Ok(());
    }
    let message = format!("the run has the events 1 to {}, and not {at}", row.last_seq);
    Err(status::invalid_field("at_seq", "range", &message))
}

fn row_of(store: &dyn Store, run: RunId) -> Result<RunRow, Status> {
    store
        .get_run(run)
        .map_err(|error| status::store(&error))?
        .filter(|row| row.kind != v1::RunKind::Session as i32)
        .ok_or_else(|| status::not_found(&run.to_string()))
}

/// A run in quarantine is neither read nor worked on.
pub(super) fn refuse_quarantined(row: &RunRow) -> Result<(), Status> {
    match &row.quarantine {
        Some(quarantine) => Err(status::damaged(&Damage::of_quarantine(row.run, quarantine))),
        None => Ok(()),
    }
}

/// Why a run cannot be read. The shards are told where it is damaged. Blocks on I/O.
pub(super) fn unreadable(runtime: &Runtime, error: &LoadError) -> Status {
    if let LoadError::Damaged(damage) = error {
        runtime.found_damaged(damage);
    }
    status::load(error)
}

pub(super) fn parse_run(run_id: &str) -> Result<RunId, Status> {
    run_id.parse().map_err(|_| status::invalid_field("run_id", "uuid", format!("{run_id:?} is not a run id")))
}

fn limit(timeout_ms: Option<i64>) -> Result<Duration, Status> {
    let Some(timeout_ms) = timeout_ms else { return Ok(MAX_WAIT) };
    match u64::try_from(timeout_ms) {
        Ok(timeout_ms) => Ok(Duration::from_millis(timeout_ms).min(MAX_WAIT)),
        Err(_) => Err(status::invalid_field("timeout_ms", "range", "must not be negative")),
    }
}

/// Reads for an answer, where such reads have their places.
pub(super) async fn answer<T: Send + 'static>(
    runtime: &Runtime,
    read: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    runtime.reads().answer(read).await.map_err(status::busy)?
}

/// Reads for a stream, where such reads have their places.
pub(super) async fn read_on<T: Send + 'static>(
    runtime: &Runtime,
    read: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    runtime.reads().stream(read).await.map_err(status::busy)?
}

fn reason(reason: QuarantineReason) -> v1::QuarantineReason {
    match reason {
        QuarantineReason::Damaged => v1::QuarantineReason::Damaged,
        QuarantineReason::Panicked => v1::QuarantineReason::Panicked,
        QuarantineReason::Conflicted => v1::QuarantineReason::Conflicted,
    }
}

fn summary(row: RunRow) -> v1::Run {
    let outcome = Some(row.summary.outcome).filter(|outcome| *outcome != 0);
    v1::Run {
        run_id: row.run.to_string(),
        kind: row.kind,
        name: row.name,
        status: row.summary.status,
        outcome,
        labels: row.labels,
        created_at_ms: row.created_at.0,
        updated_at_ms: row.summary.updated_at.0,
        finished_at_ms: row.summary.finished_at.map(|at| at.0),
        seq: row.last_seq,
        tasks_total: row.summary.tasks_total,
        tasks_settled: row.summary.tasks_settled,
        quarantine: row.quarantine.map(|quarantine| v1::Quarantine {
            reason: reason(quarantine.reason).into(),
            seq: quarantine.seq,
            position: quarantine.position.map(|position| position.0),
            detail: quarantine.detail,
            at_ms: quarantine.at.0,
        }),
        ..v1::Run::default()
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
        let request = request.into_inner();
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
        Ok(Response::new(v1::ExecuteRunResponse { run_id: run.to_string(), created, result }))
    }

    async fn start_runs(
        &self,
        request: Request<v1::StartRunsRequest>,
    ) -> Result<Response<v1::StartRunsResponse>, Status> {
        let caller = starts::caller_of(&request);
        let runs = request.into_inner().runs;
        if runs.len() > MAX_STARTS {
            return Err(status::invalid_field("runs", "length", format!("at most {MAX_STARTS}")));
        }
        // All of them are on their way before the first is waited for: they share commits.
        let _gathering = (runs.len() > 1).then(|| self.runtime.gather());
        let started = runs.into_iter().map(|request| self.start(request, caller));
        let mut items = Vec::new();
        for outcome in futures_util::future::join_all(started).await {
            let result = match outcome {
                Ok((run, created)) => v1::start_runs_item::Result::Started(v1::StartRunResponse {
                    run_id: run.to_string(),
                    created,
                }),
                Err(status) => v1::start_runs_item::Result::Error(status::to_contract(&status)),
            };
            items.push(v1::StartRunsItem { result: Some(result) });
        }
        Ok(Response::new(v1::StartRunsResponse { items }))
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
        let request = request.into_inner();
        let run = parse_run(&request.run_id)?;
        let wanted = match request.task_limit {
            0 => MAX_TASK_PAGE,
            limit => limit.min(MAX_TASK_PAGE),
        };
        let row = self.whole(run).await?;
        let state = match request.at_seq {
            Some(at) => self.fold_at(&row, at).await?,
            None => self.fold(&row).await?,
        };
        // What no event tells is known of the present only.
        let with_news = !request.summary_only && request.at_seq.is_none();
        let news = match with_news {
            true => News::of(&self.runtime, &self.health, &row, &state, request.include_logs).await,
            false => News::default(),
        };
        let runtime = self.runtime.clone();
        let response = answer(&self.runtime, move || {
            let store = &**runtime.store();
            let mut limit = wanted as usize;
            let children = match with_news {
                true => family::shown(store, run).map_err(|error| status::store(&error))?,
                false => Vec::new(),
            };
            let repaired = match with_news {
                true => session_repairs::of(store, &run.to_string(), &state)
                    .map_err(|error| unreadable(&runtime, &error))?,
                false => None,
            };
            loop {
                let options = ViewOptions {
                    tasks: !request.summary_only,
                    outputs: request.include_outputs,
                    offset: request.task_offset as usize,
                    limit,
                };
                let mut view = state.view(run.to_string(), options);
                view.children.clone_from(&children);
                news.add(&mut view, &state);
                view.session_repaired.clone_from(&repaired);
                // A page of large outputs is a shorter page.
                if view.encoded_len() > MAX_ANSWER_BYTES && limit > 1 {
                    limit /= 2;
                    continue;
                }
                if view.encoded_len() > MAX_ANSWER_BYTES {
                    view.questions.iter_mut().for_each(without_values);
                }
                let shown = request.task_offset.saturating_add(u32::try_from(limit).unwrap_or(u32::MAX));
                let more = !request.summary_only && shown < view.tasks_total;
                return Ok(v1::GetRunResponse { run: Some(view), next_task_offset: more.then_some(shown) });
            }
        })
        .await?;
        Ok(Response::new(response))
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
        let request = request.into_inner();
        let run = parse_run(&request.run_id)?;
        let wanted = reports::Wanted::read(&request)?;
        let row = self.whole(run).await?;
        let state = self.fold(&row).await?;
        let news = News::of(&self.runtime, &self.health, &row, &state, false).await;
        let runtime = self.runtime.clone();
        let rendered = answer(&self.runtime, move || {
            let mut view = state.view(run.to_string(), reports::VIEW);
            news.add(&mut view, &state);
            view.session_repaired = session_repairs::of(&**runtime.store(), &view.run_id, &state)
                .map_err(|error| unreadable(&runtime, &error))?;
            let (result, refused) = (state.result(0), state.has_refused_completions());
            drop(state);
            let events = reports::events(&**runtime.store(), run, &view, refused)
                .map_err(|error| unreadable(&runtime, &error))?;
            Ok(wanted.render(&view, &events, result.as_ref(), runtime.now().wall.0))
        });
        Ok(Response::new(rendered.await?))
    }

    async fn list_runs(
        &self,
        request: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        let request = request.into_inner();
        let violations = validate::labels(&request.labels);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let name = listing::name(request.name.as_deref())?;
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(
                token
                    .parse()
                    .map_err(|_| status::invalid_field("page_token", "token", "is not a page token"))?,
            ),
        };
        let size = if request.page_size == 0 { DEFAULT_PAGE } else { request.page_size.min(MAX_PAGE) };
        let query = RunQuery {
            labels: request.labels,
            status: request.status,
            outcome: request.outcome,
            kind: request.kind,
            except_kind: Some(v1::RunKind::Session as i32),
            unfinished: listing::is_unfinished(request.status),
            name,
            since: request.since_ms.map(Millis),
            until: request.until_ms.map(Millis),
            before,
            from: None,
            limit: size,
        };
        let store = Arc::clone(self.runtime.store());
        let parent = match &request.parent {
            Some(parent) => Some(parse_run(parent)?),
            None => None,
        };
        let page = answer(&self.runtime, move || {
            let page = match parent {
                Some(parent) => listing::of_children(&*store, parent, query, listing::LOOKED_AT),
                None => listing::of_runs(&*store, query, listing::LOOKED_AT),
            };
            let with_parent = |row: RunRow| Ok((family::parent(&*store, row.run)?, row));
            page.and_then(|(rows, next)| {
                let rows = rows.into_iter().map(with_parent).collect::<Result<Vec<_>, StoreError>>()?;
                Ok((rows, next))
            })
            .map_err(|error| status::store(&error))
        });
        let (rows, next) = page.await?;
        let next_page_token = next.map(|next| next.to_string()).unwrap_or_default();
        let runs = rows.into_iter().map(|(parent, row)| v1::Run { parent, ..summary(row) }).collect();
        Ok(Response::new(v1::ListRunsResponse { runs, next_page_token }))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let v1::CancelRunRequest { run_id, request_id, if_seq, reason, force } = request.into_inner();
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
        if let Some(value) = &value {
            self.judge(value).await?;
            self.check_agent(&run_id, value).await?;
        }
        let answer = Answer { option: answer, value, revision, ..Answer::default() };
        let input = Input::Resolve { question_id, answer, request_id: request_id.clone() };
        let (seq, ..) = self.command(&run_id, &request_id, if_seq, input).await?;
        Ok(Response::new(v1::ResolveResponse { seq }))
    }

    async fn delete_run(
        &self,
        request: Request<v1::DeleteRunRequest>,
    ) -> Result<Response<v1::DeleteRunResponse>, Status> {
        let run = parse_run(&request.into_inner().run_id)?;
        match self.runtime.delete(run).await.map_err(|declined| status::declined(&declined))? {
            Removal::Removed { bytes } => {
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
