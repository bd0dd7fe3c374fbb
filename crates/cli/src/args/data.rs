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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  capataz backup backups/monday                of the data folder of capataz.toml
  capataz backup /mnt/b/monday --data-dir ./data
  capataz backup backups/$(date +%F) --json | jq .position

A daemon may work on the folder meanwhile: the backup is what was durable at one moment, with its
blobs. It has its name when it is whole and was looked through; until then, it is called
NAME.partial. Payloads are in it, so it is as secret as the data folder.

Exit code 1 if there is no backup, or if something was damaged already; what is whole is in it.")]
pub struct BackupArgs {
    /// New folder of the backup
    #[arg(value_name = "NAME")]
    pub target: PathBuf,
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
  capataz restore backups/monday --data-dir ./data
  capataz verify backups/monday                look it through first, restore nothing

The data folder must have no database, and no daemon. What happened after the backup is not there;
cursors and leases of that time are refused by name (CURSOR_UNKNOWN, OTHER_HISTORY), and work that
was going on at the time of the backup goes on as after a crash.

Exit code 1 if nothing was restored, or if something in the backup is damaged.")]
pub struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "BACKUP")]
    pub from: PathBuf,
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
  capataz verify                               the data folder of capataz.toml, while no daemon runs
  capataz verify backups/monday
  capataz verify --json | jq -r .left_alone

Reads every log, every row and every blob, and changes no data.

Exit code 1 if something is damaged, or if a daemon uses the folder.")]
pub struct VerifyArgs {
    /// Folder of a backup, or of a database [default: the data folder]
    #[arg(value_name = "FOLDER", conflicts_with_all = ["config", "data_dir"])]
    pub folder: Option<PathBuf>,
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
  capataz doctor
  capataz doctor --config crew.toml --data-dir ./data
  capataz doctor --json | jq '.checks[] | select(.verdict != \"ok\")'

Exit code 1 if there is a failure. A warning is none.")]
pub struct MachineArgs {
    /// Configuration file [default: capataz.toml of the working folder, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the database
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}
