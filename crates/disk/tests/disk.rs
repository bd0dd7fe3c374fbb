//! A small share of what `cargo xtask disk` does, and that it finds what is to be found.

#![expect(
    clippy::disallowed_methods,
    reason = "where it runs decides whether a missing program is a failure"
)]

use std::path::{Path, PathBuf};

use capataz_disk::{Failure, faults, power};

/// Cuts of the test of what survives.
const FEW: u64 = 40;

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_disk"))
}

/// The daemon's program beside this one, or one of another profile.
fn capataz() -> Option<PathBuf> {
    let profile = Path::new(env!("CARGO_BIN_EXE_disk")).parent()?;
    let target = profile.parent()?;
    let found = [profile.to_owned(), target.join("debug"), target.join("release")];
    found.into_iter().map(|folder| folder.join("capataz")).find(|program| program.is_file())
}

fn cuts(points: u64, dropped: Option<&str>) -> Result<power::Report, Failure> {
    let dropped = dropped.map(str::to_owned);
    let plan = power::Plan {
        program: program(),
        seed: 1,
        points,
        steps: 150,
        dropped,
        capataz: None,
        starts: power::STARTS,
        violations: 1,
    };
    power::run(&plan, &mut |_| {})
}

fn failing(only: &str, every: usize, cases: u64) -> Result<faults::Report, Failure> {
    let plan = faults::Plan {
        program: program(),
        seed: 1,
        steps: 40,
        every,
        only: Some(only.to_owned()),
        skip: 0,
        cases,
        violations: 1,
        keep: None,
    };
    faults::run(&plan, &mut |_| {})
}

#[track_caller]
fn nothing_is_violated(report: &faults::Report) {
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.met > 0 && report.cuts > report.met, "{report:?}");
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() -> Result<(), Failure> {
    let report = cuts(FEW, None)?;
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.points == FEW && report.in_doubt > 20 && report.facts > 100, "{report:?}");
    Ok(())
}

#[test]
fn a_daemon_starts_after_a_power_cut_at_any_moment_and_every_log_folds() -> Result<(), Failure> {
    let Some(capataz) = capataz() else {
        assert!(std::env::var_os("CI").is_none(), "the program `capataz` is missing: build it first");
        eprintln!("skipped: the program `capataz` is not built");
        return Ok(());
    };
    let plan = power::Plan {
        program: program(),
        seed: 1,
        points: 40,
        steps: 0,
        dropped: None,
        capataz: Some(capataz),
        starts: 13,
        violations: 1,
    };
    let report = power::run(&plan, &mut |_| {})?;
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.facts > 20, "{report:?}");
    // After the cuts 13, 26 and 39.
    assert_eq!(report.started, 3, "{report:?}");
    Ok(())
}

/// The campaign finds a store that does not sync, whichever of its syncs is missing. A sync that is answered and not made
/// leaves the record of a store that has no such call, so that the cuts which find it here find that store, too: those of a
/// blob's content are the cuts of the test of what survives.
#[test]
fn a_sync_that_is_not_made_is_found() -> Result<(), Failure> {
    let found = |pattern: &str, points: u64| -> Result<(), Failure> {
        let report = cuts(points, Some(pattern))?;
        assert!(!report.violations.is_empty(), "without syncs of {pattern} nothing is missing");
        Ok(())
    };
    found("*/blobs/tmp/*", FEW)?;
    for pattern in ["*-wal", "*/capataz.db", "*/blobs/??", "*/blobs", "*/data", "*/above"] {
        found(pattern, 250)?;
    }
    Ok(())
}

#[test]
fn a_sync_that_fails_loses_nothing_that_is_acknowledged_before_or_after() -> Result<(), Failure> {
    nothing_is_violated(&failing("sync", 5, 36)?);
    Ok(())
}

#[test]
fn a_folder_that_could_not_be_synced_is_synced_before_a_blob_in_it_counts() -> Result<(), Failure> {
    nothing_is_violated(&failing("sync folder", 2, 16)?);
    Ok(())
}

#[test]
fn a_read_that_fails_once_is_not_taken_for_damage() -> Result<(), Failure> {
    nothing_is_violated(&failing("read", 29, 20)?);
    Ok(())
}

#[test]
fn a_write_that_fails_or_is_cut_short_is_told_and_the_store_goes_on() -> Result<(), Failure> {
    for (call, every) in
        [("write", 97), ("truncate", 3), ("create", 5), ("rename", 5), ("make folder", 5), ("map", 3)]
    {
        nothing_is_violated(&failing(call, every, 12)?);
    }
    for (call, every) in [("open", 29), ("remove", 3)] {
        nothing_is_violated(&failing(call, every, 6)?);
    }
    Ok(())
}
