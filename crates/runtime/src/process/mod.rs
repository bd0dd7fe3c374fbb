//! Process agents: commands that are started once for each task, without a shell.
//!
//! The command reads the task's JSON on stdin and writes its result on stdout; its exit code and the end of its stderr
//! are kept as the task's log. Between the daemon and the command stands the [shim](shim_main): the daemon's own
//! executable, started again, which holds one end of a socket and ends the command with everything that it started as
//! soon as the other end closes. So nothing that a task started outlives the daemon for longer than it takes to kill it,
//! and [`await_orphans`] lets the next daemon wait until even that is over.
//!
//! This module decides nothing about retries, timeouts or concurrency: it runs one command, once, and says how it went.
//! Begin reading with [`run`], then `shim.rs` for the other side and `protocol.rs` for what they say to each other.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this module is what starts programs, with what it passes on of the environment"
)]

mod agent;
mod descendants;
mod environment;
mod json;
mod orphans;
mod outcome;
mod protocol;
mod run;
mod shim;
mod stderr;

pub use agent::{DEFAULT_MAX_OUTPUT, DEFAULT_PASS_ENV, MAX_MAX_OUTPUT, OutputFormat, ProcessAgent};
pub use environment::SecretResolver;
pub use orphans::{AwaitOrphansError, await_orphans};
pub use outcome::{
    AGENT_COMMAND_FAILED, AGENT_COMMAND_NOT_STARTED, INPUT_TOO_LARGE, INVALID_OUTPUT, OUTPUT_TOO_LARGE,
    Output, ProcessOutcome, SERVICE_UNAVAILABLE,
};
pub use protocol::MAX_INPUT;
pub use run::{Control, ProcessContext, ProgressUpdate, ShimCommand, run};
pub use shim::shim_main;
pub use stderr::LOG_LIMIT;
