//! Arguments of the commands under `sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where a project has its state.
pub const STATE: &str = ".elsabro/state.json";

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions of a daemon
    #[command(after_help = "\
Examples:
  capataz sessions list
  capataz sessions list --json | jq -r '.sessions[].session'")]
    List(SessionsArgs),
    /// Show a session of a daemon: its spec, what can be accepted, and the last messages
    #[command(after_help = "\
Examples:
  capataz sessions show career
  capataz sessions show career --json | jq .context.history")]
    Show {
        /// Name of the session
        #[arg(value_name = "SESSION")]
        session: String,
    },
    /// Give a session of a daemon the state of a file
    #[command(after_help = "\
Examples:
  capataz sessions import shop
  capataz sessions import shop ../shop/.elsabro/state.json
  capataz sessions import shop --json | jq .changed

Refused while a plan of the session is at work: its state is newer than any file.")]
    Import {
        /// Name of the session
        #[arg(value_name = "SESSION")]
        session: String,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Write the state of a session of a daemon into a file
    #[command(after_help = "\
Examples:
  capataz sessions export shop
  capataz sessions export shop ../shop/.elsabro/state.json
  capataz sessions export shop --json

A valid state that is replaced becomes the backup; one that is not is kept beside it.")]
    Export {
        /// Name of the session
        #[arg(value_name = "SESSION")]
        session: String,
        #[command(flatten)]
        state: StateArgs,
    },
    /// Check a state file: fields, types, phases and times
    #[command(after_help = "\
Examples:
  capataz sessions validate
  capataz sessions validate ../shop/.elsabro/state.json
  capataz sessions validate --json | jq .violations

Exit code 2 if the state is not valid.")]
    Validate(StateArgs),
    /// Make a state file valid again, and keep what is valid of it
    ///
    /// A file that is damaged comes from its backup, else from what can still be read of it. Of a state that is only not
    /// valid, context and entries of the history are kept. The bytes that were there are kept beside it.
    #[command(after_help = "\
Examples:
  capataz sessions repair --dry-run            show what would change, as a diff
  capataz sessions repair --dry-run --json | jq .repairs
  capataz sessions repair
  capataz sessions repair --no-backup          leave the backup out: keep what can be read
  capataz sessions repair --reinitialise       begin anew; what was there is kept beside it")]
    Repair(RepairArgs),
    /// Put the backup of a state file in its place
    #[command(after_help = "\
Examples:
  capataz sessions restore
  capataz sessions restore ../shop/.elsabro/state.json
  capataz sessions restore --json | jq -r .kept_aside

A valid state that is replaced becomes the backup; one that is not is kept beside it.")]
    Restore(StateArgs),
}

#[derive(Args, Debug)]
pub struct SessionsArgs {
    /// Sessions at most
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Go on where the list before has ended
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOKEN")]
    pub page_token: String,
}

#[derive(Args, Debug)]
pub struct StateArgs {
    /// State file; its backup is `state.backup.json` beside it
    #[arg(value_name = "FILE", default_value = STATE)]
    pub file: PathBuf,
}

#[derive(Args, Debug)]
pub struct RepairArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not take the backup, even if it is valid
    #[arg(long)]
    pub no_backup: bool,
    /// Begin with an empty state, whatever is there
    #[arg(long, conflicts_with = "no_backup")]
    pub reinitialise: bool,
}
