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
