//! `cargo xtask pictures`: makes the pictures in docs anew, from real runs: of the terminal, and of reports in a Chromium.
//!
//! The suite holds those of the terminal to what the program shows (`crates/cli/tests/it/pictures.rs`), and measures the reports
//! themselves (`crates/cli/tests/chromium/reports.rs`).

use crate::Outcome;
use crate::codegen::project_root;

pub fn run() -> Outcome {
    let mut cargo = crate::cargo::command();
    cargo
        .current_dir(project_root()?)
        .args(["test", "--package", "capataz-cli", "--test", "it", "--test", "chromium", "--"])
        .args(["pictures::", "the_report_of_each_kind"])
        .env("CAPATAZ_WRITE_PICTURES", "1");
    if cargo.status()?.success() { Ok(()) } else { Err("the pictures were not made; see above".into()) }
}
