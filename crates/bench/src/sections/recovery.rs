//! A daemon is killed in the midst of many runs. How soon is it back, and do all of them end?

use std::time::Instant;

use capataz_client::v1;

use super::footprint::until;
use crate::children::{Daemon, Folder, await_agent};
use crate::report::{Cell, Section, Table, Unit};
use crate::work::Work;
use crate::{Options, Outcome, process};

const RUNS: u64 = 10_000;
const BATCH: u64 = 1_000;

pub(crate) async fn recovery(options: &Options) -> Outcome<Section> {
    let mut section = Section::new("Recovery: the daemon is killed, the worker lives on and holds its tasks");
    let mut table = Table::new([
        "unfinished runs",
        "accepted in",
        "first answer after",
        "daemon CPU",
        "all leases back after",
        "all runs ended after",
        "resident",
    ]);
    let runs = options.scaled(RUNS);
    let folder = Folder::create(options, "recovery")?;
    let (mut daemon, _) = Daemon::start(options, folder.path()).await?;
    let slots = u32::try_from(runs)?;
    let mut worker = daemon.worker(folder.path(), slots, true).await?;
    let client = daemon.client().await?;
    let work = Work::single();
    let begin = Instant::now();
    for _ in 0..runs.div_ceil(BATCH) {
        let batch = (0..BATCH.min(runs)).map(|_| work.request()).collect();
        for item in client.start_runs(batch).await? {
            if !matches!(item.result, Some(v1::start_runs_item::Result::Started(_))) {
                return Err(format!("a run was refused: {item:?}").into());
            }
        }
    }
    await_agent(&client, |agent| agent.running == slots).await?;
    let accepted = begin.elapsed();

    daemon.process.kill();
    let killed = Instant::now();
    let (daemon, first_answer) = Daemon::start_at(options, folder.path(), daemon.address).await?;
    let cpu = process::cpu_time(daemon.pid())?;
    let client = daemon.client().await?;
    await_agent(&client, |agent| agent.running == slots).await?;
    let reattached = killed.elapsed();
    worker.close_input();
    let released = Instant::now();
    let unfinished = || async {
        let query = v1::ListRunsRequest {
            status: Some(v1::RunStatus::Running as i32),
            page_size: 1,
            ..v1::ListRunsRequest::default()
        };
        Ok(client.list_runs(query).await?.runs.is_empty())
    };
    until("every run has ended", unfinished).await?;
    let ended = released.elapsed();
    let finished = daemon.database().finished()?;
    if finished != (runs, runs) {
        return Err(format!("{finished:?} runs and ends of runs, {runs} were accepted").into());
    }
    let (resident, _) = process::memory(daemon.pid())?;
    let milliseconds = |time: std::time::Duration| Cell::new(time.as_secs_f64() * 1e3, Unit::Milliseconds);
    table.row([
        Cell::new(runs as f64, Unit::Count),
        milliseconds(accepted),
        milliseconds(first_answer),
        milliseconds(cpu),
        milliseconds(reattached),
        milliseconds(ended),
        Cell::new(resident as f64 / 1_048_576.0, Unit::Mebibytes),
    ]);
    section.table(table);
    section.note("the first answer comes when every unfinished run was read; leases come back with the worker, which waits up to 2 s between its attempts");
    section.note("all runs ended: from the moment at which the worker gives its 10,000 results; each run has ended once");
    Ok(section)
}
