//! The honest workers, made with the SDK: they serve what each kind of work needs.
//!
//! They write down when an execution begins, so that every repetition has to be explained.

use std::path::PathBuf;
use std::time::Duration;

use capataz_client::worker::{Task, TaskError, Worker};

use crate::Outcome;
use crate::journal::{Journal, now_us};
use crate::records::{Work, WorkerRecord};
use crate::workloads::Kind;

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

/// Serves the agents until the standard input is closed.
///
/// # Errors
/// The journal cannot be used, or the daemon refuses the worker.
pub async fn worker(options: WorkerOptions) -> Outcome<()> {
    let journal = Journal::open(&options.journal)?;
    let _parent = super::children::told_on_stdin("calm")?;
    if options.forgetful {
        return super::forgetful::serve(&options, journal).await;
    }
    let worker = Worker::new(options.addr).id(options.id).slots(options.slots);
    let serve = |worker, kind: Kind| kind.workload().serve(worker, &journal);
    Ok(Kind::ALL.into_iter().fold(worker, serve).run().await?)
}

/// One execution, from the line that says that it has begun to the line that says how it ends.
pub(crate) async fn execute(
    task: &Task,
    journal: &Journal,
    milliseconds: u64,
    completed: bool,
) -> Result<(), TaskError> {
    let work = Work {
        run: task.run_id().to_owned(),
        task: task.name().to_owned(),
        activation: task.activation(),
        attempt: task.attempt(),
        lease: task.parent_ref().lease,
    };
    write(journal, WorkerRecord::Began { at: now_us(), work: work.clone() }).await?;
    let pace = milliseconds / 3;
    for third in 1..=3 {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pace)) => {}
            () = task.cancelled() => break,
        }
        task.progress(f64::from(third) / 3.0, "at it").await;
    }
    write(journal, WorkerRecord::Ended { at: now_us(), work, completed }).await
}

async fn write(journal: &Journal, record: WorkerRecord) -> Result<(), TaskError> {
    let written = journal.write(&record).await;
    written.map_err(|error| TaskError::new("LOGIC_ERROR", error.to_string()))
}
