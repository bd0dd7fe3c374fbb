//! `cargo xtask simulate`: builds and launches the simulator, with planted faults if the arguments need them.

use std::process::Command;

use crate::Outcome;
use crate::codegen::project_root;

/// Arguments of the simulator that need the feature `planted-faults`.
const NEED_FAULTS: &[&str] = &["--planted", "--fault"];

/// Runs the simulator with these arguments.
pub fn run(arguments: &[String]) -> Outcome {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut simulator = Command::new(cargo);
    simulator.current_dir(project_root()?).args(["run", "--release", "--package", "capataz-sim"]);
    let needs_faults = |argument: &String| {
        NEED_FAULTS.iter().any(|option| argument.split('=').next().is_some_and(|name| name == *option))
    };
    if arguments.iter().any(needs_faults) {
        simulator.args(["--features", "planted-faults"]);
    }
    if !simulator.args(["--bin", "simulate", "--"]).args(arguments).status()?.success() {
        return Err("the simulation failed".into());
    }
    Ok(())
}
