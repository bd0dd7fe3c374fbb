//! A small share of what `cargo xtask simulate` runs.

use capataz_sim::{Campaign, run_once};

/// Without the planted faults, whose test owns the process.
#[cfg(not(feature = "planted-faults"))]
#[test]
fn two_hundred_worlds_keep_every_invariant_and_repeat_themselves() {
    let campaign = Campaign { first_seed: 1, seeds: 200, threads: 2, most_violations: 1 };
    let summary = campaign.run();
    if let Some(outcome) = summary.violations.first() {
        let lines = run_once(outcome.seed, 60).lines.join("\n");
        panic!("seed {}: {:?}\n{lines}", outcome.seed, outcome.violation);
    }
    assert_eq!(summary.seeds, 200);
    assert!(summary.least_inputs.is_some_and(|least| least >= 200), "{:?}", summary.least_inputs);
}

#[cfg(feature = "planted-faults")]
#[test]
fn every_planted_fault_is_caught_and_its_seed_replays_it() {
    use capataz_engine::planted::{Fault, plant};
    let healthy = Campaign { first_seed: 1, seeds: 20, threads: 1, most_violations: 1 }.run();
    assert!(healthy.violations.is_empty());
    for fault in Fault::ALL {
        let caught = capataz_sim::search(fault, 1, 2_000);
        let Some(caught) = caught else { panic!("{fault:?} is not caught") };
        plant(Some(fault));
        let again = run_once(caught.seed, 0).violation;
        plant(None);
        assert_eq!(again, Some(caught.violation), "{fault:?}");
    }
}

/// Without the planted faults, whose test owns the process.
#[cfg(not(feature = "planted-faults"))]
#[test]
fn a_record_goes_on_where_it_was_and_has_the_totals_of_all_its_campaigns() {
    use capataz_sim::{Record, RecordError};
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("of/this/commit.json");
    let campaign = |first_seed, seeds| Campaign { first_seed, seeds, threads: 1, most_violations: 1 };
    let mut record = Record::read(&file, 5).unwrap();
    for seeds in [2, 3] {
        assert_eq!(record.violations, []);
        record.add(campaign(record.next_seed(), seeds).run(), 1.5);
        record.write(&file).unwrap();
        record = Record::read(&file, 5).unwrap();
    }
    let all = campaign(5, 5).run();
    assert_eq!((record.next_seed(), record.seconds), (10, 3.0));
    let totals = |summary: &capataz_sim::Summary| {
        (summary.seeds, summary.inputs, summary.least_inputs, summary.events, summary.runs)
    };
    assert_eq!(totals(&record.summary), totals(&all));
    assert_eq!(record.summary.coverage, all.coverage);
    assert!(matches!(Record::read(&file, 6), Err(RecordError::Other(_))), "of other seeds");
    std::fs::write(&file, "{}").unwrap();
    assert!(matches!(Record::read(&file, 5), Err(RecordError::Other(_))), "not a record");
}
