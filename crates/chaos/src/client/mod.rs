//! A client: starts runs, steers some of them, waits for their ends, and remembers on disk what it was told.
//!
//! It may be killed at any moment. Its successor reads the journal, repeats what nobody answered under the same key, and
//! goes on.

mod memory;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use capataz_client::{Client, ClientError, RetryOptions, v1};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Code;

use crate::Outcome;
use crate::children::{Unanswered, told_on_stdin};
use crate::commands::Command;
use crate::journal::{Journal, now_us};
use crate::records::{Call, ClientRecord};
use crate::workloads::{APPROVE, CLIENT_LABEL, ForkAt, KEY_LABEL, Kind, Mix, Piece, REJECT, RETRY, Steering};
use memory::{Known, remember};

/// What a client is told to do.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientOptions {
    #[arg(long)]
    addr: String,
    #[arg(long)]
    id: String,
    #[arg(long)]
    journal: PathBuf,
    /// Runs to start at least; more of them until the parent says that it is calm
    #[arg(long)]
    runs: u64,
    /// Kinds of the runs
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Host and port of the site that scripts work on
    #[arg(long, default_value_t)]
    site: String,
    #[arg(long)]
    seed: u64,
    /// Callers at the same time
    #[arg(long)]
    lanes: u64,
    /// Longest pause of a caller between two starts
    #[arg(long)]
    pause_ms: u64,
}

/// Runs that one client starts at most.
const MAX_RUNS: u64 = 2_000;
/// Starts in one batch.
const BATCH: u64 = 3;
/// How long one call waits for a run's end, before the run is asked whether it has a question.
const WAIT: Duration = Duration::from_secs(2);

struct Context {
    options: ClientOptions,
    mix: Mix,
    client: Client,
    journal: Journal,
    next: AtomicU64,
    calm: watch::Receiver<bool>,
    known: BTreeMap<u64, Known>,
    /// The kinds of which no run has succeeded yet.
    missing: Mutex<Vec<Kind>>,
}

/// Starts runs until enough are started, the parent has said `calm` on the standard input, and a run of each kind has
/// succeeded, which on a busy machine may be none before that; returns when all of them have ended.
///
/// # Errors
/// The journal cannot be used, or the daemon refuses what it must accept.
pub async fn client(options: ClientOptions) -> Outcome<()> {
    let known = remember(&options.journal)?;
    let journal = Journal::open(&options.journal)?;
    let client = Client::lazy(&options.addr)?.with_retry(RetryOptions::never());
    let first = known.last_key_value().map_or(0, |(index, _)| index + 1);
    let calm = told_on_stdin("calm")?;
    let lanes = options.lanes;
    let mix = Mix { kinds: options.kinds.clone(), site: options.site.clone() };
    let next = AtomicU64::new(first);
    let missing = Mutex::new(mix.kinds.clone());
    let context = Arc::new(Context { options, mix, client, journal, next, calm, known, missing });
    let mut tasks = JoinSet::new();
    let unfinished = context.known.iter().filter(|(_, known)| !known.ended).map(|(index, _)| *index);
    for index in unfinished.collect::<Vec<_>>() {
        let context = Arc::clone(&context);
        tasks.spawn(async move { context.carry(index, None).await });
    }
    for lane in 0..lanes {
        let context = Arc::clone(&context);
        tasks.spawn(async move { context.lane(lane).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Context {
    fn piece(&self, index: u64) -> Outcome<Piece> {
        self.mix.piece(self.options.seed, &self.options.id, index)
    }

    fn missing(&self) -> MutexGuard<'_, Vec<Kind>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One caller: starts a run, or a few at once, pauses, and goes on.
    async fn lane(self: &Arc<Self>, lane: u64) -> Outcome<()> {
        let mut rng =
            fastrand::Rng::with_seed(self.options.seed ^ (lane << 32) ^ u64::from(std::process::id()));
        let mut followed = JoinSet::new();
        loop {
            let count = if rng.u32(0..100) < 10 { BATCH } else { 1 };
            let first = self.next.fetch_add(count, Ordering::Relaxed);
            let is_enough = first >= self.options.runs && *self.calm.borrow() && self.missing().is_empty();
            if is_enough || first >= MAX_RUNS {
                break;
            }
            let mut started: BTreeMap<u64, Option<String>> =
                (first..first + count).map(|index| (index, None)).collect();
            if count > 1 {
                self.start_batch(&mut started).await?;
            } else {
                let piece = self.piece(first)?;
                if !piece.executes {
                    started.insert(first, self.start(&piece, 0).await?);
                }
            }
            for (index, run) in started {
                let context = Arc::clone(self);
                followed.spawn(async move { context.carry(index, run).await });
            }
            let pause = rng.u64(self.options.pause_ms / 4..=self.options.pause_ms);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        while let Some(ended) = followed.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Takes a run to its end from wherever it stands.
    async fn carry(&self, index: u64, run: Option<String>) -> Outcome<()> {
        let piece = self.piece(index)?;
        let known = self.known.get(&index).cloned().unwrap_or_default();
        let run = match run.or_else(|| known.run.clone()) {
            Some(run) => Some(run),
            // A start whose key the daemon knows answers with the run that it made.
            None => self.start(&piece, known.attempts).await?,
        };
        let Some(run) = run else { return Ok(()) };
        self.steer(&piece, &run, &known).await?;
        let Some(result) = self.wait(&piece, &run, &known).await? else { return Ok(()) };
        self.accept_suggestion(&piece, &run, &result, &known).await?;
        if result.outcome() != v1::RunOutcome::Succeeded
            && let Some(again) = piece.of_continued()
        {
            self.go_on(&again, &run, Successor::Continued, &known).await?;
        }
        if let Some((again, at)) = piece.of_forked() {
            self.go_on(&again, &run, Successor::Forked(at), &known).await?;
        }
        let outcome = result.outcome;
        if outcome == v1::RunOutcome::Succeeded as i32 {
            let kind = self.mix.kind_of(&self.options.id, index);
            self.missing().retain(|missing| Some(*missing) != kind);
        }
        self.journal.write(&ClientRecord::Ended { at: now_us(), index, run, outcome }).await
    }

    /// Goes on where the run has ended, or from the middle of it, and takes that to its end, too.
    async fn go_on(
        &self,
        again: &Piece,
        before: &str,
        mut successor: Successor,
        known: &Known,
    ) -> Outcome<()> {
        if known.answered.contains(&again.key) {
            return Ok(());
        }
        let mut attempt = 0;
        let run = loop {
            attempt += 1;
            self.sent(successor.call(), again.index, &again.key, attempt).await?;
            let answer = {
                let _unanswered = Unanswered::begin();
                self.succeed(again, before, successor).await
            };
            match answer {
                Ok((run, created)) => {
                    self.started(&again.key, attempt, &run, created).await?;
                    break run;
                }
                Err(error) if successor.is_told_where(&error) => {}
                // All of its tasks may have succeeded, or retention was faster.
                Err(error) if [Code::FailedPrecondition, Code::NotFound].contains(&error.grpc_code()) => {
                    let code = error.code().unwrap_or_default().to_owned();
                    let (at, key, run) = (now_us(), again.key.clone(), Some(before.to_owned()));
                    return self.journal.write(&ClientRecord::Refused { at, key, run, code }).await;
                }
                Err(error) if self.is_final(&again.key, attempt, &error).await? => return Ok(()),
                Err(_) => a_moment().await,
            }
        };
        self.resume(again, &run, known).await?;
        self.wait(again, &run, known).await.map(|_| ())
    }

    /// A run that is forked from a paused one is paused.
    async fn resume(&self, piece: &Piece, run: &str, known: &Known) -> Outcome<()> {
        let request = v1::GetRunRequest { run_id: run.to_owned(), ..v1::GetRunRequest::default() };
        let shown = loop {
            match self.client.get_run(request.clone()).await {
                Err(error) if may_pass(&error) => a_moment().await,
                shown => break shown,
            }
        };
        let is_paused =
            shown.is_ok_and(|shown| shown.run.is_some_and(|run| run.status() == v1::RunStatus::Paused));
        match is_paused {
            true => {
                self.command(&Command::Resume, piece.index, run, format!("{}/resume", piece.key), known).await
            }
            false => Ok(()),
        }
    }

    /// The run that goes on from another one, and whether it is new.
    async fn succeed(
        &self,
        again: &Piece,
        before: &str,
        successor: Successor,
    ) -> Result<(String, bool), ClientError> {
        let (run_id, idempotency_key) = (before.to_owned(), Some(again.key.clone()));
        let labels = [(CLIENT_LABEL, &self.options.id), (KEY_LABEL, &again.key)];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.clone())).into();
        match successor {
            Successor::Continued => {
                let request = v1::ContinueRunRequest { run_id, labels, idempotency_key };
                let response = self.client.continue_run(request).await?;
                Ok((response.run_id, response.created))
            }
            Successor::Forked(at) => {
                let at_seq = match at {
                    ForkAt::Newest => None,
                    ForkAt::Near(seq) => Some(seq),
                };
                let request =
                    v1::ForkRunRequest { run_id, at_seq, labels, idempotency_key, ..Default::default() };
                let response = self.client.fork_run(request).await?;
                Ok((response.run_id, response.created))
            }
        }
    }

    /// The run, or nothing where the daemon refuses what it must accept; the verdict reads of it in the journal.
    async fn start(&self, piece: &Piece, before: u32) -> Outcome<Option<String>> {
        let call = if piece.executes { Call::Execute } else { Call::Start };
        let mut attempt = before;
        loop {
            attempt += 1;
            self.sent(call, piece.index, &piece.key, attempt).await?;
            let request = piece.request.clone();
            let answer = if piece.executes {
                // A run that has a question would keep the call waiting for the answer.
                let answer = self.client.execute_run(request, Some(WAIT)).await;
                answer.map(|response| (response.run_id, response.created))
            } else {
                let _unanswered = Unanswered::begin();
                let answer = self.client.start_run(request).await;
                answer.map(|response| (response.run_id, response.created))
            };
            match answer {
                Ok((run, created)) => {
                    self.started(&piece.key, attempt, &run, created).await?;
                    return Ok(Some(run));
                }
                Err(error) if self.is_final(&piece.key, attempt, &error).await? => return Ok(None),
                Err(_) => a_moment().await,
            }
        }
    }

    /// Starts all of them with one request, as often as it takes.
    async fn start_batch(&self, runs: &mut BTreeMap<u64, Option<String>>) -> Outcome<()> {
        let missing: Outcome<Vec<Piece>> = runs.keys().map(|index| self.piece(*index)).collect();
        let mut missing = missing?;
        let mut attempt = 0;
        while !missing.is_empty() {
            attempt += 1;
            for piece in &missing {
                self.sent(Call::StartBatch, piece.index, &piece.key, attempt).await?;
            }
            let requests = missing.iter().map(|piece| piece.request.clone()).collect();
            let answer = {
                let _unanswered = Unanswered::begin();
                self.client.start_runs(requests).await
            };
            match answer {
                Ok(items) => {
                    let mut again = Vec::new();
                    for (piece, item) in missing.into_iter().zip(items) {
                        match item.result {
                            Some(v1::start_runs_item::Result::Started(started)) => {
                                self.started(&piece.key, attempt, &started.run_id, started.created).await?;
                                runs.insert(piece.index, Some(started.run_id));
                            }
                            Some(v1::start_runs_item::Result::Error(error))
                                if MAY_PASS.contains(&error.code.as_str()) =>
                            {
                                let (key, at) = (piece.key.clone(), now_us());
                                let error = error.code;
                                self.journal.write(&ClientRecord::Broken { at, key, attempt, error }).await?;
                                again.push(piece);
                            }
                            other => {
                                let (at, key, code) = (now_us(), piece.key, format!("{other:?}"));
                                let refused = ClientRecord::Refused { at, key, run: None, code };
                                self.journal.write(&refused).await?;
                                runs.remove(&piece.index);
                            }
                        }
                    }
                    missing = again;
                }
                Err(error) => {
                    for piece in &missing {
                        if self.is_final(&piece.key, attempt, &error).await? {
                            runs.remove(&piece.index);
                        }
                    }
                    missing.retain(|piece| runs.contains_key(&piece.index));
                    a_moment().await;
                }
            }
        }
        Ok(())
    }

    async fn steer(&self, piece: &Piece, run: &str, known: &Known) -> Outcome<()> {
        let id = |word: &str| format!("{}/{word}", piece.key);
        let pause = Duration::from_millis;
        match piece.steering {
            Steering::None => {}
            Steering::Pause(milliseconds) => {
                self.command(&Command::Pause, piece.index, run, id("pause"), known).await?;
                tokio::time::sleep(pause(milliseconds)).await;
                self.command(&Command::Resume, piece.index, run, id("resume"), known).await?;
            }
            Steering::Cancel(milliseconds) => {
                tokio::time::sleep(pause(milliseconds)).await;
                self.command(&Command::Cancel, piece.index, run, id("cancel"), known).await?;
            }
            Steering::Extend(milliseconds) => {
                tokio::time::sleep(pause(milliseconds)).await;
                self.command(&Command::Extend, piece.index, run, id("extend"), known).await?;
            }
            Steering::TakeBack(milliseconds) => {
                tokio::time::sleep(pause(milliseconds)).await;
                self.command(&Command::TakeBack, piece.index, run, id("take back"), known).await?;
            }
            Steering::GoBack(milliseconds) if piece.is_execution() => {
                // Where no plan says so, nobody else makes a checkpoint.
                tokio::time::sleep(pause(milliseconds / 2)).await;
                self.command(&Command::Checkpoint, piece.index, run, id("checkpoint"), known).await?;
                tokio::time::sleep(pause(milliseconds / 2)).await;
                self.command(&Command::GoBackToFirst, piece.index, run, id("go back"), known).await?;
            }
            Steering::GoBack(milliseconds) => {
                tokio::time::sleep(pause(milliseconds)).await;
                self.command(&Command::GoBack, piece.index, run, id("go back"), known).await?;
            }
        }
        Ok(())
    }

    async fn command(
        &self,
        command: &Command,
        index: u64,
        run: &str,
        key: String,
        known: &Known,
    ) -> Outcome<()> {
        if known.answered.contains(&key) {
            return Ok(());
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.sent(command.call(), index, &key, attempt).await?;
            let answer = {
                let _unanswered = Unanswered::begin();
                command.send(&self.client, run.to_owned(), key.clone()).await
            };
            match answer {
                Ok(seq) => return self.journal.write(&command.done(key, run.to_owned(), seq)).await,
                // The run or the task was over before, or there is nothing yet to which it could go back.
                Err(error)
                    if error.grpc_code() == Code::FailedPrecondition
                        || error.code() == Some("CHECKPOINT_NOT_FOUND") =>
                {
                    let code = error.code().unwrap_or_default().to_owned();
                    let (at, run) = (now_us(), Some(run.to_owned()));
                    return self.journal.write(&ClientRecord::Refused { at, key, run, code }).await;
                }
                Err(error) if self.is_final(&key, attempt, &error).await? => return Ok(()),
                Err(_) => a_moment().await,
            }
        }
    }

    /// Waits for a run's end, however often the connection breaks, and answers what it asks.
    async fn wait(&self, piece: &Piece, run: &str, known: &Known) -> Outcome<Option<v1::RunResult>> {
        loop {
            match self.client.wait_run(run, Some(WAIT)).await {
                Ok(Some(result)) => return Ok(Some(result)),
                Ok(None) => self.answer_questions(piece, run, known).await?,
                Err(error) if !may_pass(&error) => {
                    let (at, key, code) = (now_us(), format!("wait/{run}"), error.to_string());
                    self.journal.write(&ClientRecord::Refused { at, key, run: None, code }).await?;
                    return Ok(None);
                }
                Err(_) => a_moment().await,
            }
        }
    }

    /// What became of a task that must run at most once, nobody knows, and a plan or a call waits for its approval; the answer
    /// is the same whoever gives it. Runs that are tasks of the run ask, too.
    async fn answer_questions(&self, piece: &Piece, run: &str, known: &Known) -> Outcome<()> {
        let children = self.answer_questions_of(piece, run, known, &piece.key).await?;
        for child in children {
            self.answer_questions_of(piece, &child, known, &format!("{}/{child}", piece.key)).await?;
        }
        Ok(())
    }

    /// Answers what one run asks; the children of it that have not ended.
    async fn answer_questions_of(
        &self,
        piece: &Piece,
        run: &str,
        known: &Known,
        key: &str,
    ) -> Outcome<Vec<String>> {
        let request = v1::GetRunRequest { run_id: run.to_owned(), ..v1::GetRunRequest::default() };
        let Ok(response) = self.client.get_run(request).await else { return Ok(Vec::new()) };
        let shown = response.run.unwrap_or_default();
        for question in shown.questions.into_iter().filter(|question| question.answer.is_none()) {
            let id = question.question_id.clone();
            let salt = id.bytes().fold(piece.index, |salt, byte| salt.wrapping_mul(31) + u64::from(byte));
            let answer = answer_to(question.purpose(), salt);
            let key = format!("{key}/{id}");
            let command = Command::Resolve { question_id: id, answer };
            self.command(&command, piece.index, run, key, known).await?;
        }
        let is_open = |child: &v1::ChildView| child.status != v1::RunStatus::Finished as i32;
        Ok(shown.children.into_iter().filter(is_open).map(|child| child.run_id).collect())
    }

    /// Accepts the transition that an answer has suggested for its session.
    async fn accept_suggestion(
        &self,
        piece: &Piece,
        run: &str,
        result: &v1::RunResult,
        known: &Known,
    ) -> Outcome<()> {
        let (Some(session), Some(ask)) = (piece.session(), result.ask()) else { return Ok(()) };
        let suggested = v1::TransitionVerdict::Suggested;
        if ask.transition.as_ref().is_none_or(|transition| transition.verdict() != suggested) {
            return Ok(());
        }
        let (session, request_id) = (session.to_owned(), ask.request_id.clone());
        let command = Command::Accept { session, request_id };
        self.command(&command, piece.index, run, format!("{}/accept", piece.key), known).await
    }

    async fn sent(&self, call: Call, index: u64, key: &str, attempt: u32) -> Outcome<()> {
        let (at, key) = (now_us(), key.to_owned());
        self.journal.write(&ClientRecord::Sent { at, call, index, key, attempt }).await
    }

    async fn started(&self, key: &str, attempt: u32, run: &str, created: bool) -> Outcome<()> {
        let (at, key, run) = (now_us(), key.to_owned(), run.to_owned());
        self.journal.write(&ClientRecord::Started { at, key, attempt, run, created }).await
    }

    /// Writes down that a call has failed: for good, or such that nobody knows what became of it.
    async fn is_final(&self, key: &str, attempt: u32, error: &ClientError) -> Outcome<bool> {
        let (at, key) = (now_us(), key.to_owned());
        if may_pass(error) {
            let error = format!("{:?}", error.grpc_code());
            self.journal.write(&ClientRecord::Broken { at, key, attempt, error }).await?;
            return Ok(false);
        }
        let code = error.to_string();
        self.journal.write(&ClientRecord::Refused { at, key, run: None, code }).await?;
        Ok(true)
    }
}

/// One of the options that questions of this purpose have.
fn answer_to(purpose: v1::QuestionPurpose, salt: u64) -> &'static str {
    match (purpose, salt % 20) {
        (v1::QuestionPurpose::Tool, 0..3) => REJECT,
        (v1::QuestionPurpose::Tool, 3) => "abort",
        (v1::QuestionPurpose::Plan | v1::QuestionPurpose::Tool, _) => APPROVE,
        (v1::QuestionPurpose::Escalation, _) => "continue",
        (v1::QuestionPurpose::Outcome, 0..2) => "succeeded",
        (v1::QuestionPurpose::Outcome, 2..4) => "failed",
        _ => RETRY,
    }
}

/// How a run goes on from another one.
#[derive(Clone, Copy, Debug)]
enum Successor {
    Continued,
    Forked(ForkAt),
}

impl Successor {
    fn call(self) -> Call {
        match self {
            Self::Continued => Call::Continue,
            Self::Forked(_) => Call::Fork,
        }
    }

    /// Whether the refusal names another event after which the run may be forked; that one it is from here on.
    fn is_told_where(&mut self, error: &ClientError) -> bool {
        let Self::Forked(ForkAt::Near(at)) = self else { return false };
        let beyond = error.code() == Some("VALIDATION_ERROR");
        let named = ["seq_behind", "seq_before"].iter().find_map(|name| error.metadata(name)?.parse().ok());
        match named.filter(|seq| seq != at) {
            Some(seq) => *at = seq,
            None if beyond => *self = Self::Forked(ForkAt::Newest),
            None => return false,
        }
        true
    }
}

/// Whether repeating the call may bring another answer.
fn may_pass(error: &ClientError) -> bool {
    matches!(
        error.grpc_code(),
        Code::Unavailable | Code::ResourceExhausted | Code::Unknown | Code::Internal | Code::Cancelled
    )
}

/// Codes with which a start in a batch is to be repeated.
const MAY_PASS: [&str; 3] = ["UNAVAILABLE", "OVERLOADED", "DRAINING"];

async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(20..120))).await;
}
