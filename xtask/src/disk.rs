//! `cargo xtask disk`: builds and launches the disk test.

use std::process::Command;

use crate::Outcome;
use crate::codegen::project_root;

/// Runs the program with these arguments. Syncs take its time, and not the compiler's care: it is built as tests are.
pub fn run(arguments: &[String]) -> Outcome {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut disk = Command::new(cargo);
    disk.current_dir(project_root()?).args(["run", "--profile", "test", "--package", "capataz-disk"]);
    if !disk.args(["--bin", "disk", "--"]).args(arguments).status()?.success() {
        return Err("the disk test failed".into());
    }
    Ok(())
}
