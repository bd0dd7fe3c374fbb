//! `cargo xtask pictures`: makes the pictures of the terminal in docs anew, from real runs.
//!
//! The suite holds them to what the program shows (`crates/cli/tests/it/pictures.rs`).

use crate::Outcome;
use crate::codegen::project_root;

pub fn run() -> Outcome {
    let mut cargo = crate::cargo::command();
    cargo
        .current_dir(project_root()?)
        .args(["test", "--package", "capataz-cli", "--test", "it", "pictures::"])
        .env("CAPATAZ_WRITE_PICTURES", "1");
    if cargo.status()?.success() { Ok(()) } else { Err("the pictures were not made; see above".into()) }
}
