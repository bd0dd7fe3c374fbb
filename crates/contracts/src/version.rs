//! Versions of the contract are semantic versions, and a version is compatible with every other one of the same major
//! (CONTRACTS.md §0).

use crate::Violation;

/// The major version of the contract that this crate speaks.
pub const MAJOR: u64 = 1;

/// Whether a side that declares `declared` can be spoken to.
///
/// # Errors
/// Rule `semver`: `declared` is not a semantic version. Rule `INCOMPATIBLE_VERSION`: its major version is another one.
/// The path is empty.
pub fn compatible(declared: &str) -> Result<(), Violation> {
    let version = parse(declared)?;
    if version.major == MAJOR {
        return Ok(());
    }
    let message = format!("version {version} is not compatible with {MAJOR}.x");
    Err(Violation::new("", "INCOMPATIBLE_VERSION", message))
}

pub(crate) fn parse(declared: &str) -> Result<semver::Version, Violation> {
    semver::Version::parse(declared).map_err(|error| {
        let shown = crate::path::shown(declared);
        Violation::new("", "semver", format!("{shown:?} is not a semantic version such as 1.0.0: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(declared: &str, rule: Option<&str>) {
        assert_eq!(compatible(declared).err().map(|violation| violation.rule), rule, "{declared}");
    }

    #[test]
    fn the_same_major_is_compatible() {
        check("1.0.0", None);
        check("1.7.3", None);
        check("1.0.0-rc.1+build", None);
        check("2.0.0", Some("INCOMPATIBLE_VERSION"));
        check("0.9.0", Some("INCOMPATIBLE_VERSION"));
        check("1", Some("semver"));
        check("v1.0.0", Some("semver"));
        check("", Some("semver"));
    }
}
