//! Executions: what an action costs beside the planner's and the tool's own time, what is recalled of a large memory, and how
//! long a way back takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_client::{Client, v1};
use capataz_store::{
    Append, Create, MEMORY_TYPES, Mark, MemoryChange, MemoryEntry, MemoryOrder, MemoryRow, Millis, Place,
    Recall, RunId, ShardId, SqliteOptions, SqliteStore, Store,
};

use super::{Floors, Gauge, Usage, Used, floors, micros_each};
use crate::children::{Daemon, Folder};
use crate::disk::Disk;
use crate::load::{Load, Measured, closed_loop};
use crate::report::{Cell, Section, Table, Unit};
use crate::roles::{ACTIONS, HOLDS, PLANNER, TOOL};
use crate::work::unordered_key;
use crate::{Options, Outcome};

/// Entries of the memory that is recalled from, and those in the session and mode that are asked, within 24 hours.
const ENTRIES: u64 = 1_000_000;
const RECENT: u64 = 100_000;
/// Entries of a run there.
const OF_RUN: u64 = 10_000;
/// How often is recalled.
const RECALLS: usize = 2_000;
/// Ways back that are measured, and actions that are gone back on each time.
const ROLLBACKS: usize = 9;
const GONE_BACK_ON: u32 = 1_000;

#[derive(Debug)]
pub(super) struct Queries {
    mode: v1::ExecutionMode,
    next: AtomicU64,
    salt: u64,
}

impl Queries {
    pub(super) fn of(mode: v1::ExecutionMode) -> Self {
        let (_, salt) = uuid::Uuid::now_v7().as_u64_pair();
        Self { mode, next: AtomicU64::new(1), salt }
    }

    pub(super) async fn execute(&self, client: &Client) -> Outcome<()> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let request = v1::StartRunRequest {
            idempotency_key: Some(unordered_key(self.salt, number)),
            ..v1::StartRunRequest::of_mode(v1::ModeRun { mode: Some(self.mode.into()), ..query(ACTIONS) })
        };
        let (run_id, result) = match self.mode {
            v1::ExecutionMode::Supervised => approved(client, request).await?,
            _ => {
                let response = client.execute_run(request, None).await?;
                (response.run_id, response.result)
            }
        };
        let result = result.ok_or("the run has not ended")?;
        match result.outcome() == v1::RunOutcome::Succeeded {
            true => Ok(()),
            false => Err(format!("run {run_id} ended otherwise: {result:?}").into()),
        }
    }
}

/// Starts a run, approves its plan as soon as it is proposed, and waits for its end.
async fn approved(client: &Client, request: v1::StartRunRequest) -> Outcome<(String, Option<v1::RunResult>)> {
    let run_id = client.start_run(request).await?.run_id;
    let question_id = loop {
        let shown = v1::GetRunRequest { run_id: run_id.clone(), ..v1::GetRunRequest::default() };
        let run = client.get_run(shown).await?.run.unwrap_or_default();
        if let Some(asked) = run.questions.into_iter().next() {
            break asked.question_id;
        }
        if run.outcome.is_some() {
            return Err(format!("run {run_id} has ended without a plan").into());
        }
    };
    let answer = "approve".to_owned();
    let approve =
        v1::ResolveRequest { run_id: run_id.clone(), question_id, answer, ..v1::ResolveRequest::default() };
    client.resolve(approve).await?;
    let result = client.wait_run(&run_id, None).await?;
    Ok((run_id, result))
}

/// Commits of a run beside those of its actions: its beginning, and where a plan is approved, the proposal and the approval.
fn of_run(mode: v1::ExecutionMode) -> f64 {
    if mode == v1::ExecutionMode::Supervised { 3.0 } else { 1.0 }
}

/// A query of so many actions; the planner reads the number.
fn query(actions: u32) -> v1::ModeRun {
    v1::ModeRun {
        query: actions.to_string(),
        mode: Some(v1::ExecutionMode::Simple.into()),
        planner: PLANNER.to_owned(),
        tools: vec![v1::ModeTool { name: TOOL.to_owned(), ..v1::ModeTool::default() }],
        max_steps: Some(GONE_BACK_ON),
        ..v1::ModeRun::default()
    }
}

pub(crate) async fn modes(options: &Options, disk: &Disk) -> Outcome<Section> {
    let mut alone = Floors::default();
    floors(&Options { callers: vec![1], ..options.clone() }, disk, &mut alone).await?;
    let mut section = Section::new("Executions: actions of planners and tools, memory, ways back");
    let mut table = Table::new([
        "mode",
        "callers",
        "actions/s",
        "p50 of an action",
        "of its floor",
        "p99",
        "commits/action",
        "daemon CPU/action",
        "CPU taken by others",
    ]);
    let simple = options.callers.iter().map(|callers| (v1::ExecutionMode::Simple, *callers));
    let others = [(v1::ExecutionMode::Planner, 1), (v1::ExecutionMode::Supervised, 1)];
    for (mode, concurrency) in simple.chain(others) {
        let folder = Folder::create(options, "modes")?;
        let (daemon, _) = Daemon::start(options, folder.path()).await?;
        let _worker = daemon.worker(folder.path(), options.slots, false).await?;
        let measured = execute(&daemon, Load::new(options, concurrency), mode).await?;
        let usage = Usage::between(measured.samples);
        let actions = measured.operations.max(1) as f64 * f64::from(ACTIONS);
        let each = measured.quantile(0.5) / f64::from(ACTIONS);
        let cell = Cell::new(each, Unit::Milliseconds);
        // The approval of a person is in the figures of the mode that asks for one.
        let is_alone = concurrency == 1 && mode != v1::ExecutionMode::Supervised;
        table.row([
            Cell::from(mode.as_str_name().trim_start_matches("EXECUTION_MODE_").to_lowercase()),
            Cell::new(concurrency as f64, Unit::Count),
            Cell::new(measured.per_second() * f64::from(ACTIONS), Unit::Count),
            if is_alone { cell.at_most(1.0) } else { cell },
            match alone.lone_action().filter(|_| is_alone) {
                Some(floor) => Cell::new(each / floor, Unit::Ratio),
                None => Cell::from("-"),
            },
            Cell::new(measured.quantile(0.99) / f64::from(ACTIONS), Unit::Milliseconds),
            // As it is written, with two decimals: now and then, a commit is none of an action, such as one of a sweep.
            Cell::new((usage.commits / actions * 100.0).round() / 100.0, Unit::Exact)
                .at_most(3.0 + of_run(mode) / f64::from(ACTIONS)),
            Cell::new(micros_each(usage.cpu, actions), Unit::Microseconds),
            Cell::new(usage.elsewhere * 100.0, Unit::Percent),
        ]);
    }
    section.table(table);
    section.table(recall(options)?);
    section.table(rollback(options).await?);
    section.note(format!(
        "{ACTIONS} actions a run: a call of the planner and one of a tool each; in the mode `supervised` the planner is called \
         once more, for the plan, and a client asks for the question and approves it"
    ));
    section.note(
        "commits: at most 3 for an action, and for a run one that begins it, with two more for the plan and its approval in the \
         mode `supervised`; a tenth of these is in the figures",
    );
    if let Some(floor) = alone.lone_action() {
        section.note(format!(
            "floor of an action of a lone caller: two calls of bare gRPC and two bare commits, {floor:.2} ms here and now"
        ));
    }
    section.note(
        "planner and tool are the worker's, and answer at once; their way over the socket is in the figures",
    );
    section.note(format!(
        "{ENTRIES} entries of memory, {RECENT} of them in the session and mode that is asked and within 24 hours"
    ));
    Ok(section)
}

/// What is recalled of a large memory, by the query of each mode.
fn recall(options: &Options) -> Outcome<Table> {
    let folder = Folder::create(options, "memory")?;
    let store = SqliteStore::open(folder.path(), SqliteOptions::default())?;
    fill(&store)?;
    let mut table = Table::new(["recalled in", "entries", "p50", "p99", "slowest"]);
    let newest = MemoryOrder::NewestFirst;
    for (mode, kinds, order) in [
        ("simple", &["error", "solution"][..], newest),
        ("planner", &["success", "pattern"], MemoryOrder::MostRelevantFirst),
        ("supervised", &MEMORY_TYPES, newest),
    ] {
        let wanted = Recall { session: mode, mode, kinds, since: Millis(0), order, limit: 10 };
        let mut times = Vec::with_capacity(RECALLS);
        let mut found = 0;
        for _ in 0..RECALLS {
            let began = Instant::now();
            found = store.recall(&wanted)?.len();
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let at = |place: usize| times.get(place).map_or(0.0, Duration::as_secs_f64) * 1e3;
        table.row([
            Cell::from(mode),
            Cell::new(found as f64, Unit::Count),
            Cell::new(at(RECALLS / 2), Unit::Milliseconds).at_most(2.0),
            Cell::new(at(RECALLS * 99 / 100), Unit::Milliseconds),
            Cell::new(at(RECALLS - 1), Unit::Milliseconds),
        ]);
    }
    Ok(table)
}

/// A third of what is recent is in a session of each mode; the rest is older, half of it in the same sessions. Votes are spread
/// over it. Ids grow with time, as those of runs do: by its id, what is too old comes first.
fn fill(store: &SqliteStore) -> Outcome<()> {
    let mut writer = store.claim(ShardId(0), Mark(1))?;
    for run in 0..ENTRIES / OF_RUN {
        let id = RunId(uuid::Uuid::from_u128(u128::from(run + 1) << 80));
        let recent = run >= (ENTRIES - 3 * RECENT) / OF_RUN;
        let mode = ["simple", "planner", "supervised"].get((run % 3) as usize).copied().unwrap_or("simple");
        let session = if recent || run % 2 == 0 { mode.to_owned() } else { format!("session-{run}") };
        let mut memory = Vec::new();
        for seq in 1..=OF_RUN {
            let number = run * OF_RUN + seq;
            // The window begins after 0.
            let at = number.cast_signed() - (ENTRIES - 3 * RECENT).cast_signed();
            let kind = MEMORY_TYPES.get((number % 7) as usize).copied().unwrap_or("error");
            let entry = MemoryEntry {
                session: session.clone(),
                mode: mode.to_owned(),
                kind: kind.to_owned(),
                at: Millis(at),
                content: format!("What entry {number} says of some tool, and of what came of it at last"),
                digest: format!("entry {number}"),
                tools: vec![TOOL.to_owned()],
                files: Vec::new(),
                related_to: Vec::new(),
            };
            let place = Place { seq, n: 0 };
            memory.push(MemoryRow { place, change: MemoryChange::Entry(Box::new(entry)) });
            if number.is_multiple_of(50) {
                let change = MemoryChange::Vote { entry: capataz_store::entry_id(id, place), quarters: 1 };
                memory.push(MemoryRow { place: Place { seq, n: 1 }, change });
            }
        }
        let create = Create {
            kind: v1::RunKind::Mode as i32,
            name: String::new(),
            labels: std::collections::BTreeMap::default(),
            created_at: Millis(0),
            key: None,
            past: None,
        };
        let append = Append {
            run: id,
            first_seq: 1,
            count: u32::try_from(OF_RUN)?,
            events: Bytes::new(),
            create: Some(create),
            summary: None,
            derived: Vec::new(),
            memory,
            blobs: Vec::new(),
            rest: None,
            joined: false,
            key: None,
        };
        writer.commit(&[append])?;
    }
    Ok(())
}

/// How long a run takes to go back to its beginning, while the last action that it may do is at work.
async fn rollback(options: &Options) -> Outcome<Table> {
    let folder = Folder::create(options, "rollback")?;
    let (daemon, _) = Daemon::start(options, folder.path()).await?;
    let _worker = daemon.worker(folder.path(), options.slots, false).await?;
    let clients = daemon.clients(1).await?;
    let client = clients.first().ok_or("no client")?;
    let mut times = Vec::with_capacity(ROLLBACKS);
    for _ in 0..ROLLBACKS {
        let holding = v1::ModeRun { query: format!("{HOLDS}{GONE_BACK_ON}"), ..query(GONE_BACK_ON) };
        let request = v1::StartRunRequest::of_mode(holding);
        let run_id = client.start_run(request).await?.run_id;
        let made = client
            .create_checkpoint(v1::CreateCheckpointRequest {
                run_id: run_id.clone(),
                reason: "the beginning".to_owned(),
                ..v1::CreateCheckpointRequest::default()
            })
            .await?;
        loop {
            let request =
                v1::GetExecutionRequest { run_id: run_id.clone(), ..v1::GetExecutionRequest::default() };
            let state = client.get_execution(request).await?.state.unwrap_or_default();
            if state.step + 1 >= GONE_BACK_ON {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let began = Instant::now();
        client
            .rollback_execution(v1::RollbackExecutionRequest {
                run_id: run_id.clone(),
                checkpoint_id: made.checkpoint_id,
                ..v1::RollbackExecutionRequest::default()
            })
            .await?;
        times.push(began.elapsed());
        let request = v1::CancelRunRequest { run_id, ..v1::CancelRunRequest::default() };
        client.cancel_run(request).await?;
    }
    times.sort_unstable();
    let at = |place: usize| times.get(place).map_or(0.0, Duration::as_secs_f64) * 1e3;
    let mut table = Table::new(["actions that are gone back on", "p50", "slowest"]);
    table.row([
        Cell::new(f64::from(GONE_BACK_ON), Unit::Count),
        Cell::new(at(ROLLBACKS / 2), Unit::Milliseconds).at_most(50.0),
        Cell::new(at(ROLLBACKS - 1), Unit::Milliseconds),
    ]);
    Ok(table)
}

async fn execute(daemon: &Daemon, load: Load, mode: v1::ExecutionMode) -> Outcome<Measured<Used>> {
    let clients: Arc<[Client]> = daemon.clients(load.connections()).await?.into();
    let gauge = Gauge::alone(daemon);
    let sample = move || gauge.read();
    let queries = Arc::new(Queries::of(mode));
    closed_loop(load, sample, move |caller| {
        let (clients, queries) = (Arc::clone(&clients), Arc::clone(&queries));
        async move { queries.execute(clients.get(caller % clients.len()).ok_or("no client")?).await }
    })
    .await
}
