//! `cargo xtask size`: builds the released program, and fails where it has outgrown its limit.
//!
//! What is large was compiled first, so this limit holds the time of the first build down, too.

use std::path::Path;

use crate::Outcome;
use crate::bench::target_folder;
use crate::chromium::{self, package};
use crate::codegen::project_root;

/// What the released program is built with beyond its defaults.
const FEATURES: &str = "capataz-cli/jemalloc";
/// The released `capataz` at most, in bytes.
const LIMIT: u64 = 40_000_000;

/// What the released program is built with beyond its defaults, as arguments of cargo.
///
/// # Errors
/// The build of the allocator needs `make`, which is not there; in CI: which cannot be installed.
pub fn features() -> Result<[&'static str; 2], String> {
    if !package::answers("make", &["--version"]) {
        if !chromium::is_ci(std::env::var_os("CI")) {
            return Err(
                "the build of the released program's allocator needs `make`; as root on Debian:\n           \
                        apt-get update && apt-get install -y make"
                    .to_owned(),
            );
        }
        package::install_other("make")?;
    }
    Ok(["--features", FEATURES])
}

pub fn run() -> Outcome {
    let root = project_root()?;
    let mut build = crate::cargo::command();
    build.current_dir(&root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "capataz-cli",
        "--bin",
        "capataz",
    ]);
    build.args(features()?);
    if !build.status()?.success() {
        return Err("the program could not be built".into());
    }
    check(&target_folder(&root)?)
}

/// Looks at the program that was just built into the folder `target`.
pub fn check(target: &Path) -> Outcome {
    let program = target.join("release").join(format!("capataz{}", std::env::consts::EXE_SUFFIX));
    let bytes = std::fs::metadata(&program).map_err(|error| format!("{}: {error}", program.display()))?.len();
    println!("{}", judge(bytes)?);
    Ok(())
}

fn judge(bytes: u64) -> Result<String, String> {
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    let (found, limit) = (megabytes(bytes), megabytes(LIMIT));
    if bytes > LIMIT {
        return Err(format!(
            "size: the released program has {found}, and at most {limit} are allowed; `nm --size-sort --demangle` \
             of a build with CARGO_PROFILE_RELEASE_STRIP=none says what they are, and CONTRIBUTING.md, \"Keep the first build small\", what was done before"
        ));
    }
    Ok(format!("size: the released program has {found} of at most {limit}"))
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, check, judge};

    #[test]
    fn a_program_may_reach_the_limit_and_not_exceed_it() {
        assert_eq!(judge(LIMIT).unwrap(), "size: the released program has 40.0 MB of at most 40.0 MB");
        let refused = judge(158_589_096).unwrap_err();
        assert!(
            refused.starts_with("size: the released program has 158.5 MB, and at most 40.0 MB"),
            "{refused}"
        );
        assert!(judge(LIMIT + 1).is_err());
    }

    #[test]
    fn the_file_is_what_counts() {
        let target = tempfile::tempdir().unwrap();
        std::fs::create_dir(target.path().join("release")).unwrap();
        assert!(check(target.path()).is_err(), "there is no program");
        let name = format!("release/capataz{}", std::env::consts::EXE_SUFFIX);
        let program = std::fs::File::create(target.path().join(name)).unwrap();
        program.set_len(LIMIT).unwrap();
        check(target.path()).unwrap();
        program.set_len(LIMIT + 1).unwrap();
        assert!(check(target.path()).is_err());
    }
}
