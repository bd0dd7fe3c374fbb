//! `cargo xtask disk`: builds and launches the disk test.

use crate::Outcome;
use crate::codegen::project_root;

/// Runs the program with these arguments. Syncs take its time, and not the compiler's care: it is built as tests are.
pub fn run(arguments: &[String]) -> Outcome {
    let mut disk = crate::cargo::command();
    disk.current_dir(project_root()?).args(["run", "--profile", "test", "--package", "capataz-disk"]);
    if !disk.args(["--bin", "disk", "--"]).args(arguments).status()?.success() {
        return Err("the disk test failed".into());
    }
    Ok(())
}
