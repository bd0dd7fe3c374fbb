//! `cargo xtask test`: everything that has to hold before a change lands.

use std::process::Command;
use std::time::Instant;

use crate::{Outcome, codegen, docs, layers};

pub fn run() -> Outcome {
    let began = Instant::now();
    let mut steps: Vec<(&str, f64)> = Vec::new();
    let mut timed = |name: &'static str, step: &dyn Fn() -> Outcome| -> Outcome {
        println!("\n== {name}");
        let start = Instant::now();
        step().map_err(|error| format!("{name}: {error}"))?;
        steps.push((name, start.elapsed().as_secs_f64()));
        Ok(())
    };
    timed("formatting", &|| cargo(&["fmt", "--all", "--check"]))?;
    timed("codegen", &|| codegen::run(true))?;
    timed("layers", &layers::run)?;
    timed("docs", &docs::run)?;
    timed("clippy", &|| {
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"])
    })?;
    // The programs that some tests start.
    timed("programs", &|| cargo(&["build", "--workspace", "--bins", "--examples", "--locked"]))?;
    timed("tests", &tests)?;
    timed("doctests", &|| cargo(&["test", "--workspace", "--doc", "--locked", "--quiet"]))?;
    println!("\n== passed in {:.0} s", began.elapsed().as_secs_f64());
    for (name, seconds) in steps {
        println!("   {seconds:6.1} s  {name}");
    }
    Ok(())
}

/// With nextest where it is installed: faster, and each test in a process of its own.
fn tests() -> Outcome {
    let nextest = Command::new(env!("CARGO")).args(["nextest", "--version"]).output();
    if nextest.is_ok_and(|output| output.status.success()) {
        return cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]);
    }
    println!("cargo-nextest is not installed; running cargo test");
    cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--locked", "--no-fail-fast"])
}

/// Runs cargo; its output is the terminal's.
pub fn cargo(arguments: &[&str]) -> Outcome {
    let status = Command::new(env!("CARGO")).args(arguments).status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`cargo {}` failed", arguments.join(" ")).into())
}
