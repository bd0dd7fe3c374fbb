//! Arguments of commands that make a crew's folder, and that have a daemon of their own or find that of a folder.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse_duration;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz init                                 in the working folder
  capataz init crews/first
  capataz init crews/first --json | jq -r '.files[]'

Nothing is ever overwritten. Exit code 1 if nothing was written.")]
pub struct InitArgs {
    /// Folder to write into; it is made if it is not there
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
}

/// Where a command finds its daemon that needs none to be there.
#[derive(Args, Clone, Debug)]
pub struct LocalArgs {
    /// Start a daemon inside this command, or use the one that has the data folder of the configuration
    #[arg(long)]
    pub local: bool,
    /// Configuration of `--local` [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE", requires = "local")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub struct FolderArgs {
    /// Configuration file [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz status                               the daemon of the data folder of capataz.toml
  capataz status --data-dir ./data
  capataz status --addr http://127.0.0.1:7412
  capataz status --json | jq .runs

Exit code 3 if there is no daemon.")]
pub struct StatusArgs {
    #[command(flatten)]
    pub folder: FolderArgs,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz stop                                 the daemon of the data folder of capataz.toml
  capataz stop --data-dir ./data --timeout 1m

The daemon begins nothing more, waits for running tasks as long as its drain_timeout says, and ends.

Exit code 3 if no daemon has the data folder, 4 if it has not ended by the timeout.")]
pub struct StopArgs {
    #[command(flatten)]
    pub folder: FolderArgs,
    /// How long to wait for its end, such as 90s or 10m [default: until it has ended]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
}
