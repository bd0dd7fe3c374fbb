//! `cargo xtask calibration FOLDER`: holds the router's confidences to public sets of intents.
//!
//! The sets are not in the repository, so that the suite does not have these tests. CONTRIBUTING.md says which files there
//! have to be, and where they come from; one that is not there fails.

use std::path::PathBuf;

use clap::Args;

use crate::Outcome;
use crate::codegen::project_root;

#[derive(Args)]
pub struct Options {
    /// The folder with the sets
    folder: PathBuf,
}

pub fn run(options: &Options) -> Outcome {
    let folder = options.folder.canonicalize();
    let folder = folder.map_err(|error| format!("{}: {error}", options.folder.display()))?;
    let mut cargo = crate::cargo::command();
    cargo
        .current_dir(project_root()?)
        .args(["test", "--package", "capataz-router", "--test", "calibration"])
        .args(["--", "--ignored", "--nocapture", "--test-threads=1"])
        .env("CAPATAZ_INTENT_DATA", folder);
    if cargo.status()?.success() {
        Ok(())
    } else {
        Err("confidences are not what is right; see above".into())
    }
}
