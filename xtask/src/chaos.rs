//! `cargo xtask chaos`: builds the released daemon and the chaos program, and launches the latter.

use std::path::Path;
use std::process::Command;

use crate::bench::target_folder;
use crate::codegen::project_root;
use crate::{Outcome, size};

/// Runs the program with these arguments.
pub fn run(arguments: &[String]) -> Outcome {
    let root = project_root()?;
    let mut build = crate::cargo::command();
    build.current_dir(&root).args(["build", "--release", "--package", "capataz-cli", "--bin", "capataz"]);
    build.args(["--package", "capataz-chaos", "--bin", "chaos"]).args(size::features()?);
    if !build.status()?.success() {
        return Err("the programs could not be built".into());
    }
    let target = target_folder(&root)?;
    size::check(&target)?;
    let program = target.join("release").join(format!("chaos{}", std::env::consts::EXE_SUFFIX));
    let mut chaos = Command::new(program);
    chaos.arg("--commit").arg(commit(&root)?);
    if !arguments.iter().any(|argument| argument == "--dir" || argument.starts_with("--dir=")) {
        chaos.arg("--dir").arg(target.join("chaos"));
    }
    if !chaos.args(arguments).status()?.success() {
        return Err("the chaos test failed".into());
    }
    Ok(())
}

/// The commit of the source, marked where the source is not what was committed: the totals of a campaign are kept by it.
fn commit(root: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let git = |arguments: &[&str]| -> Result<String, Box<dyn std::error::Error>> {
        let output = Command::new("git").current_dir(root).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let changed = if git(&["status", "--porcelain"])?.is_empty() { "" } else { "-changed" };
    Ok(git(&["rev-parse", "HEAD"])? + changed)
}
