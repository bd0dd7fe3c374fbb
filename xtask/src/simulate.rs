//! `cargo xtask simulate`: builds and launches the simulator, with planted faults if the arguments need them.
//!
//! The totals of campaigns are kept for each state of the source, under `target/simulate`, so that a campaign goes on where
//! an earlier one over the same source was.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::bench::target_folder;
use crate::codegen::project_root;

/// Arguments of the simulator that need the feature `planted-faults`.
const NEED_FAULTS: &[&str] = &["--planted", "--fault"];
/// Arguments of the simulator with which there is no campaign, or one whose record is named.
const NO_RECORD: &[&str] = &["--planted", "--fault", "--seed", "--replay", "--record", "--help", "-h"];

/// Runs the simulator with these arguments.
pub fn run(arguments: &[String]) -> Outcome {
    let root = project_root()?;
    let mut simulator = crate::cargo::command();
    simulator.current_dir(&root).args(["run", "--release", "--package", "capataz-sim"]);
    let has = |names: &[&str]| {
        let name_of = |argument: &String| argument.split('=').next().unwrap_or_default().to_owned();
        arguments.iter().map(name_of).any(|name| names.contains(&name.as_str()))
    };
    if has(NEED_FAULTS) {
        simulator.args(["--features", "planted-faults"]);
    }
    simulator.args(["--bin", "simulate", "--"]).args(arguments);
    if !has(NO_RECORD)
        && let Some(state) = state_of_the_source(&root)
    {
        simulator.arg("--record").arg(record(&target_folder(&root)?, &state));
    }
    if !simulator.status()?.success() {
        return Err("the simulation failed".into());
    }
    Ok(())
}

fn record(target: &Path, state: &str) -> PathBuf {
    target.join("simulate").join(format!("{state}.json"))
}

/// The commit, and a hash of what was changed since; `None` where there is no repository, whose totals nobody could tell
/// apart.
fn state_of_the_source(root: &Path) -> Option<String> {
    let commit = git(root, &["rev-parse", "HEAD"])?;
    let commit = commit.trim();
    // Files that are not part of the repository yet are compiled as well.
    let status = git(root, &["status", "--porcelain"])?;
    if status.is_empty() {
        return Some(commit.to_owned());
    }
    let files = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut changed = git(root, &["diff", "HEAD"])?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        changed.push_str(file);
        changed.push_str(&git(root, &["hash-object", "--", file])?);
    }
    let hash = changed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(format!("{commit}-changed-{hash:016x}"))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(root: &Path) {
        let identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"];
        for arguments in [&["add", "."][..], &["commit", "--quiet", "-m", "state"]] {
            git(root, &[&identity[..], arguments].concat()).unwrap();
        }
    }

    #[test]
    fn each_state_of_the_source_has_a_record_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(state_of_the_source(root), None);
        git(root, &["init", "--quiet"]).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        write("a", "one");
        committed(root);
        let mut states = vec![state_of_the_source(root).unwrap()];
        for (name, text) in [("a", "two"), ("a", "three"), ("b", "one"), ("b", "two")] {
            write(name, text);
            states.push(state_of_the_source(root).unwrap());
        }
        committed(root);
        states.push(state_of_the_source(root).unwrap());
        assert_eq!(state_of_the_source(root).as_ref(), states.last(), "the same source has the same record");
        assert_eq!(
            states.iter().collect::<std::collections::BTreeSet<_>>().len(),
            states.len(),
            "{states:?}"
        );
        assert!(states.iter().skip(1).take(4).all(|state| state.contains("-changed-")));
    }
}
