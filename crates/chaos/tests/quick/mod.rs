//! A small share of what `cargo xtask chaos` does, with the programs of this build.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it starts a program, and where it runs decides whether a missing one is a failure"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The daemon's program beside the chaos program, or one of another profile.
fn daemon() -> Option<PathBuf> {
    let profile = Path::new(env!("CARGO_BIN_EXE_chaos")).parent()?;
    let target = profile.parent()?;
    let found = [profile.to_owned(), target.join("debug"), target.join("release")];
    let name = format!("capataz{}", std::env::consts::EXE_SUFFIX);
    found.into_iter().map(|folder| folder.join(&name)).find(|program| program.is_file())
}

/// Kills the daemon a few times while runs of these kinds are under way; `test` is the name of the test.
///
/// # Errors
/// The chaos program cannot be started.
#[track_caller]
pub fn nothing_is_lost_or_doubled(test: &str, kinds: &str) -> std::io::Result<()> {
    let Some(daemon) = daemon() else {
        assert!(std::env::var_os("CI").is_none(), "the program `capataz` is missing: build it first");
        eprintln!("skipped: {test}: the program `capataz` is not built");
        return Ok(());
    };
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_chaos"));
    chaos.args(["--quick", "--kinds", kinds]);
    chaos.arg("--dir").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos"));
    let output = chaos.arg("--daemon").arg(daemon).output()?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    Ok(())
}
