//! Arguments of the commands under `sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where a project has its state.
const STATE: &str = ".elsabro/state.json";

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// Check a state file: fields, types, phases and times
    #[command(after_help = "\
Examples:
  capataz sessions validate
  capataz sessions validate ../shop/.elsabro/state.json
  capataz sessions validate --json | jq .violations

Exit code 2 if the state is not valid.")]
    Validate(StateArgs),
    /// Make a state file valid again: from its backup, else with what is valid of it
    ///
    /// What can still be read of a file that is cut off or damaged is kept: context, and entries of the history. The bytes
    /// that were there are kept beside it.
    #[command(after_help = "\
Examples:
  capataz sessions repair --dry-run            show what would change, as a diff
  capataz sessions repair
  capataz sessions repair --no-backup          leave the backup out: repair what is there
  capataz sessions repair --reinitialise       begin anew; what was there is kept beside it")]
    Repair(RepairArgs),
    /// Put the backup of a state file in its place
    #[command(after_help = "\
Examples:
  capataz sessions restore
  capataz sessions restore ../shop/.elsabro/state.json

A valid state that is replaced becomes the backup; one that is not is kept beside it.")]
    Restore(StateArgs),
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
