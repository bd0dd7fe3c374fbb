//! Process agents: commands that are started once for each task, without a shell.
//!
//! The command reads the task's JSON on stdin and writes its result on stdout; its exit code and the end of its stderr
//! are kept as the task's log. Between the daemon and the command stands the [shim](capataz_shim), so that nothing that a
//! task started outlives the daemon for longer than it takes to kill it; [`await_orphans`] lets the next daemon wait
//! until even that is over, and [`Places`] the next command of the same task.
//!
//! This module decides nothing about retries, timeouts or concurrency: it runs one command, once, and says how it went.
//! Begin reading with [`run`]; [`ProcessAgents`] serves assignments by it.

#![expect(clippy::disallowed_methods, reason = "this module passes on what commands get of the environment")]

mod agent;
mod environment;
mod json;
mod outcome;
mod places;
mod run;
mod serve;
mod stderr;
mod tail;

pub use capataz_shim::{
    Abilities, AwaitOrphansError, Given, MAX_INPUT, ShimCommand, await_orphans, shim_main,
};

pub use agent::{DEFAULT_MAX_OUTPUT, DEFAULT_PASS_ENV, Kind, MAX_MAX_OUTPUT, OutputFormat, ProcessAgent};
pub use environment::{filled, secrets_of, wrong_reference};
pub use outcome::{Output, ProcessOutcome};
pub use places::Places;
pub use run::{Call, ProcessContext, ProgressUpdate, run};
pub use serve::{PROCESS_HOST, ProcessAgents};
pub use stderr::LOG_LIMIT;
pub use tail::TAIL_LIMIT;
