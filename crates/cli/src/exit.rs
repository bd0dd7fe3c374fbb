//! Exit codes. They are part of the command's contract: docs/cli.md.

use std::process::ExitCode;

use capataz_contracts::v1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    /// The run did not succeed, or the daemon refused what was asked.
    Failed = 1,
    /// Wrong usage or an invalid document; nothing was started.
    Invalid = 2,
    Unreachable = 3,
    /// The waiting ended (by a time limit, or because nobody reads the output of a command that has started the run, or it
    /// cannot be written), and the run goes on.
    StillRunning = 4,
    /// Like `StillRunning`, but the run waits for an answer.
    WaitsForAnswer = 5,
    /// Ctrl-C; the run goes on.
    Interrupted = 130,
}

impl Exit {
    pub fn of_outcome(outcome: v1::RunOutcome) -> Self {
        match outcome {
            v1::RunOutcome::Succeeded | v1::RunOutcome::SucceededWithFailures => Self::Ok,
            v1::RunOutcome::Failed
            | v1::RunOutcome::Cancelled
            | v1::RunOutcome::Blocked
            | v1::RunOutcome::Unspecified => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
