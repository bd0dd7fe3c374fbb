//! The workers: an honest one made with the SDK, and a command for the daemon's own process agent.
//!
//! Both write down when an execution begins, so that every repetition has to be explained.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use capataz_client::worker::{Task, TaskError, TaskOutput as Output, Worker};

use crate::Outcome;
use crate::journal::{Journal, now_us};
use crate::plans::{self, TaskInput, TaskOutput};
use crate::records::{CommandRecord, Work, WorkerRecord};

/// What a worker is told to do.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerOptions {
    #[arg(long)]
    pub(crate) addr: String,
    #[arg(long)]
    pub(crate) id: String,
    #[arg(long)]
    pub(crate) journal: PathBuf,
    #[arg(long)]
    pub(crate) slots: u32,
    /// Forget what it holds at each new connection, and send the results all the same
    #[arg(long)]
    pub(crate) forgetful: bool,
}

/// Serves the agent until the standard input is closed.
///
/// # Errors
/// The journal cannot be used, or the daemon refuses the worker.
pub async fn worker(options: WorkerOptions) -> Outcome<()> {
    let journal = Journal::open(&options.journal)?;
    let _parent = super::children::told_on_stdin("calm")?;
    if options.forgetful {
        return super::forgetful::serve(&options, journal).await;
    }
    let handler = move |task: Task| perform(task, journal.clone());
    let worker = Worker::new(options.addr).id(options.id).slots(options.slots).agent(plans::AGENT, handler);
    Ok(worker.run().await?)
}

async fn perform(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let input: TaskInput = task.input_json()?;
    let work = Work {
        run: task.run_id().to_owned(),
        task: task.name().to_owned(),
        activation: task.activation(),
        attempt: task.attempt(),
        lease: task.parent_ref().lease,
    };
    write(&journal, WorkerRecord::Began { at: now_us(), work: work.clone() }).await?;
    let pace = input.milliseconds / 3;
    for third in 1..=3 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pace)) => {}
            () = task.cancelled() => break,
        }
        task.progress(f64::from(third) / 3.0, "at it").await;
    }
    let fails = work.attempt <= input.failures;
    let (lease, completed) = (work.lease, !fails);
    write(&journal, WorkerRecord::Ended { at: now_us(), work, completed }).await?;
    if fails {
        return Err(TaskError::new("NETWORK_ERROR", "fails as it was told to"));
    }
    Output::json(TaskOutput { key: input.key, task: input.task, lease: Some(lease) })
}

async fn write(journal: &Journal, record: WorkerRecord) -> Result<(), TaskError> {
    let written = journal.write(&record).await;
    written.map_err(|error| TaskError::new("LOGIC_ERROR", error.to_string()))
}

/// The command of the process agent: input on the standard input, output on the standard output. A journal line at the
/// beginning and one at the end of each execution, each written at once.
///
/// # Errors
/// The input is not what a chaos plan has, or the journal cannot be written.
pub fn command(journal: &std::path::Path) -> Outcome<()> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let input: TaskInput = serde_json::from_str(&input)?;
    let mut file = std::fs::File::options().create(true).append(true).open(journal)?;
    let mut write = |record: &CommandRecord| -> Outcome<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(file.sync_data()?)
    };
    let (key, task, process) = (input.key.clone(), input.task.clone(), std::process::id());
    write(&CommandRecord::Began { at: now_us(), process, key, task })?;
    std::thread::sleep(Duration::from_millis(input.milliseconds.min(1_000)));
    let (key, task) = (input.key.clone(), input.task.clone());
    write(&CommandRecord::Ended { at: now_us(), process, key, task })?;
    let output = TaskOutput { key: input.key, task: input.task, lease: None };
    println!("{}", serde_json::to_string(&output)?);
    Ok(())
}
