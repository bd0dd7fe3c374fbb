//! Cargo, as a person would start it.

use std::ffi::OsStr;
use std::process::Command;

/// What `cargo run` tells `xtask` of its own package. A build script that looks at one of these, such as that of `ring`, would
/// run again whenever builds by hand and by `xtask` take turns, and with it most of the workspace would be built again.
const OF_XTASK: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The cargo that started `xtask`, in the environment that it was started in.
pub fn command() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_xtask(name)) {
        cargo.env_remove(name);
    }
    cargo
}

fn is_of_xtask(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| OF_XTASK.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_not_told_of_the_package_that_starts_it_and_keeps_the_rest() {
        // Tests are started by cargo, too.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let cargo = command();
        let removed = cargo.get_envs().find(|(name, _)| *name == "CARGO_MANIFEST_DIR");
        assert_eq!(removed, Some((OsStr::new("CARGO_MANIFEST_DIR"), None)));
        assert!(
            ["CARGO_PKG_NAME", "CARGO_MANIFEST_PATH"].into_iter().all(|name| is_of_xtask(OsStr::new(name)))
        );
        let kept = ["CARGO", "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "PATH"];
        assert!(!kept.into_iter().any(|name| is_of_xtask(OsStr::new(name))));
    }
}
