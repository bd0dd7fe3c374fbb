//! A daemon starts over many runs that wait for a person. How soon does it answer, and what does it hold in memory?

use std::time::Instant;

use capataz_client::v1;
use tokio::task::JoinSet;

use super::footprint::until;
use crate::children::{Daemon, Folder, await_agent};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

/// As many unfinished runs as a shard takes.
const RUNS: u64 = 200_000;
const BATCH: u64 = 1_000;
/// Calls at the same time.
const CALLS: usize = 128;

pub(crate) async fn waiting(options: &Options) -> Outcome<Section> {
    let mut section =
        Section::new("Waiting: runs that wait for a person, and a daemon that starts over them");
    let mut table = Table::new([
        "waiting runs",
        "paused in",
        "resident before",
        "first answer after",
        "daemon CPU",
        "resident",
        "one goes on after",
        "database",
    ]);
    let runs = options.scaled(RUNS);
    let folder = Folder::create(options, "waiting")?;
    let (mut daemon, _) = Daemon::start(options, folder.path()).await?;
    let client = daemon.client().await?;
    // Their agent is known, and nobody serves it.
    let mut worker = daemon.worker(folder.path(), 1, true).await?;
    await_agent(&client, |agent| agent.workers > 0).await?;
    worker.kill();
    await_agent(&client, |agent| agent.workers == 0).await?;
    let work = Work::single();
    let begin = Instant::now();
    let mut last = String::new();
    let mut left = runs;
    while left > 0 {
        let size = BATCH.min(left);
        left -= size;
        let mut ids = Vec::new();
        for item in client.start_runs((0..size).map(|_| work.request()).collect()).await? {
            match item.result {
                Some(v1::start_runs_item::Result::Started(started)) => ids.push(started.run_id),
                other => return Err(format!("a run was refused: {other:?}").into()),
            }
        }
        last.clone_from(ids.last().ok_or("no run was started")?);
        let mut pauses = JoinSet::new();
        for run_id in ids {
            if pauses.len() >= CALLS
                && let Some(paused) = pauses.join_next().await
            {
                paused??;
            }
            let client = client.clone();
            let request = v1::PauseRunRequest { run_id, ..Default::default() };
            pauses.spawn(async move { client.pause_run(request).await });
        }
        while let Some(paused) = pauses.join_next().await {
            paused??;
        }
    }
    let paused = begin.elapsed();
    let (before, _) = process::memory(daemon.pid())?;

    daemon.process.kill();
    let (daemon, first_answer) = Daemon::start_at(options, folder.path(), daemon.address).await?;
    let cpu = process::cpu_time(daemon.pid())?;
    let (resident, _) = process::memory(daemon.pid())?;
    let client = daemon.client().await?;
    let resumed = Instant::now();
    client.resume_run(v1::ResumeRunRequest { run_id: last.clone(), ..Default::default() }).await?;
    let goes_on = resumed.elapsed();
    let running = || async {
        let request = v1::GetRunRequest { run_id: last.clone(), ..Default::default() };
        let run = client.get_run(request).await?.run.unwrap_or_default();
        Ok(run.status() == v1::RunStatus::Running)
    };
    until("the run goes on", running).await?;
    let database = std::fs::metadata(daemon.data_dir().join("capataz.db"))?.len();
    let milliseconds = |time: std::time::Duration| Cell::new(time.as_secs_f64() * 1e3, Unit::Milliseconds);
    let mebibytes = |bytes: u64| Cell::new(bytes as f64 / 1_048_576.0, Unit::Mebibytes);
    table.row([
        Cell::new(runs as f64, Unit::Count),
        milliseconds(paused),
        mebibytes(before),
        milliseconds(first_answer),
        milliseconds(cpu),
        mebibytes(resident),
        milliseconds(goes_on),
        mebibytes(database),
    ]);
    section.table(table);
    section.note("each run waits for a worker and was paused; the daemon is killed and started again");
    section.note("aims: the first answer within 1 s and 120 MiB resident, for 200,000 runs");
    Ok(section)
}
