//! Versions of the contract are semantic versions, and a version is compatible with every other one of the same major
//! (CONTRACTS.md §0).

use std::fmt;
use std::str::FromStr;

use crate::Violation;

/// The rule that another major version breaks; the stable code of the same name goes with it.
pub const INCOMPATIBLE_VERSION: &str = "INCOMPATIBLE_VERSION";

/// The version of a contract (seed 001, "Versionado del Contrato"): a new major breaks, a new minor adds optional fields,
/// a new patch clarifies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContractVersion(semver::Version);

impl ContractVersion {
    #[must_use]
    pub const fn new(major: u64, minor: u64, patch: u64) -> Self {
        Self(semver::Version::new(major, minor, patch))
    }

    #[must_use]
    pub fn major(&self) -> u64 {
        self.0.major
    }

    #[must_use]
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// Returns whether a document of this version may have optional fields that `ours` does not know.
    #[must_use]
    pub fn may_add_to(&self, ours: &Self) -> bool {
        self.major() == ours.major() && self.minor() > ours.minor()
    }
}

impl fmt::Display for ContractVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ContractVersion {
    type Err = Violation;

    /// # Errors
    /// Rule `semver`, without a path.
    fn from_str(declared: &str) -> Result<Self, Violation> {
        parse(declared).map(Self)
    }
}

/// The version that both sides understand: the older of the two.
///
/// # Errors
/// Rule `INCOMPATIBLE_VERSION`, without a path: the major versions differ.
pub fn negotiate(ours: &ContractVersion, theirs: &ContractVersion) -> Result<ContractVersion, Violation> {
    if ours.major() == theirs.major() {
        return Ok(ours.min(theirs).clone());
    }
    let message = format!("version {theirs} is not compatible with {}.x", ours.major());
    Err(Violation::new("", INCOMPATIBLE_VERSION, message))
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

    // S001-VE-01
    #[test]
    fn a_version_has_three_numbers() {
        #[track_caller]
        fn check(declared: &str, rule: Option<&str>) {
            let version = declared.parse::<ContractVersion>();
            assert_eq!(version.err().map(|violation| violation.rule), rule, "{declared}");
        }
        check("1.7.3", None);
        check("1.0.0-rc.1+build", None);
        check("1", Some("semver"));
        check("v1.0.0", Some("semver"));
        check("", Some("semver"));
    }

    #[track_caller]
    fn check_negotiation(ours: &str, theirs: &str, expected: Result<&str, &str>) {
        let version = |text: &str| text.parse::<ContractVersion>().unwrap();
        let negotiated = negotiate(&version(ours), &version(theirs));
        let shown = negotiated.as_ref().map(ContractVersion::to_string).map_err(|violation| violation.rule);
        assert_eq!(shown.as_deref().map_err(|rule| *rule), expected, "{ours} {theirs}");
    }

    // S001-VE-02
    #[test]
    fn two_sides_meet_at_the_older_version() {
        check_negotiation("1.0.0", "1.0.0", Ok("1.0.0"));
        check_negotiation("1.0.0", "1.4.2", Ok("1.0.0"));
        check_negotiation("1.4.2", "1.0.7", Ok("1.0.7"));
        check_negotiation("1.0.0", "1.0.0-rc.1", Ok("1.0.0-rc.1"));
        check_negotiation("1.0.0", "2.0.0", Err("INCOMPATIBLE_VERSION"));
        check_negotiation("2.1.0", "1.9.9", Err("INCOMPATIBLE_VERSION"));
        check_negotiation("0.1.0", "0.9.0", Ok("0.1.0"));
    }

    // S001-VE-04
    #[test]
    fn only_a_newer_minor_version_adds_fields() {
        let adds = |theirs: &str| {
            theirs.parse::<ContractVersion>().unwrap().may_add_to(&ContractVersion::new(1, 2, 3))
        };
        assert!(adds("1.3.0"));
        assert!(!adds("1.2.9"));
        assert!(!adds("1.1.0"));
        assert!(!adds("2.3.0"));
    }
}
