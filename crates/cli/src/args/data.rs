//! Arguments of commands that work on a data folder without a daemon.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz rebuild --check                      report differences, change nothing
  capataz rebuild --data-dir ./data            report them, and write those rows again
  capataz rebuild --check --json | jq -r .run_id

The command can be interrupted at any moment and started again.

Exit code 1 if --check finds a difference, or if a run was left as it is.")]
pub struct RebuildArgs {
    /// Configuration file [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Report differences, and change nothing
    #[arg(long)]
    pub check: bool,
}
