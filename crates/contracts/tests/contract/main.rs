//! What the contract's JSON form and validation promise, in tables.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod action_identity;
mod action_pages;
mod executor_errors;
mod identity;
mod in_part;
mod json_form;
mod limits;
mod plan_files;
mod references;
mod requests;
mod script_files;
mod scripts;
mod validation;

use capataz_contracts::Violation;

/// `path rule`, for tables.
fn in_short(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(|violation| format!("{} {}", violation.path, violation.rule)).collect()
}
