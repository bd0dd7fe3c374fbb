//! The verdict on what was done to the daemon's machine: runs that retention has removed, and silence that was none.

use std::time::Duration;

use capataz_client::v1::{self, event::Body};

use super::world::{accepted, finished, found, log};
use super::{CLIENT, KEY, RUN};
use crate::archive::Kept;
use crate::records::{Call, ClientRecord, Fault};
use crate::totals::Totals;
use crate::verdict::{Facts, Log};

const SECOND: u64 = 1_000_000;

/// A run of a plan without tasks, which a client has started and seen to end.
fn one_run() -> Facts {
    let mut facts = Facts::default();
    facts.logs.insert(RUN.to_owned(), ended());
    let (index, attempt, key) = (0, 1, KEY.to_owned());
    let run = RUN.to_owned();
    let journal = vec![
        ClientRecord::Sent { at: SECOND, call: Call::Start, index, key: key.clone(), attempt },
        ClientRecord::Started { at: SECOND + 1, key, attempt, run, created: true },
    ];
    facts.clients.insert(CLIENT.to_owned(), journal);
    facts
}

fn ended() -> Log {
    let plan = v1::run_accepted::Work::Plan(v1::Plan::default());
    log(KEY, &[], vec![accepted(plan), finished(v1::RunOutcome::Succeeded)])
}

/// Facts of which retention has removed the run after so many seconds.
fn removed_after(seconds: u64, kept_for: Option<u64>) -> Facts {
    let mut facts = one_run();
    facts.kept_for = kept_for.map(Duration::from_secs);
    let log = facts.logs.remove(RUN).unwrap();
    let mut kept = Kept::default();
    kept.logs.insert(RUN.to_owned(), log);
    kept.gone.insert(RUN.to_owned(), (1 + seconds) * SECOND);
    facts.add_kept(kept, 900 * SECOND);
    facts
}

#[test]
fn a_run_is_removed_when_its_time_is_over_and_not_before() {
    assert_eq!(found(&one_run()).0, [0; 6]);
    let (good, verdict) = found(&removed_after(45, Some(45)));
    assert_eq!((good, verdict.removed), ([0; 6], 1));
    assert_eq!(found(&removed_after(44, Some(45))).0, [1, 0, 0, 0, 0, 0]);
    assert_eq!(found(&removed_after(500, None)).0, [1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_run_that_nobody_saw_to_end_before_it_was_gone_is_lost() {
    let mut facts = one_run();
    facts.kept_for = Some(Duration::from_secs(45));
    facts.logs.clear();
    facts.add_kept(Kept::default(), 900 * SECOND);
    assert_eq!(found(&facts).0, [1, 0, 0, 0, 0, 0]);
}

#[test]
fn a_log_that_changes_after_its_end_is_noticed() {
    let mut facts = one_run();
    let mut kept = Kept::default();
    let mut log = ended();
    log.events[1].at_ms += 1;
    kept.logs.insert(RUN.to_owned(), log);
    facts.add_kept(kept, 0);
    assert_eq!(found(&facts).0, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn only_a_worker_that_was_stopped_is_silent() {
    let leased = v1::TaskLeased { worker: "worker-1".to_owned(), lease: 2, ..Default::default() };
    let lost =
        v1::TaskLeaseLost { lease: 2, reason: v1::LeaseLossReason::Silent as i32, ..Default::default() };
    let plan = v1::run_accepted::Work::Plan(v1::Plan::default());
    let bodies = vec![
        accepted(plan),
        Body::TaskLeased(leased),
        Body::TaskLeaseLost(lost),
        finished(v1::RunOutcome::Succeeded),
    ];
    let mut facts = one_run();
    facts.logs.insert(RUN.to_owned(), log(KEY, &["a"], bodies));
    let stopped = |worker: &str| Fault::WorkerStopped { at: 1, worker: worker.to_owned() };
    facts.faults = vec![stopped("worker-1"), Fault::DaemonStopped { at: 2 }];
    assert_eq!(found(&facts).0, [0; 6]);
    facts.faults = vec![stopped("worker-2"), Fault::DaemonStopped { at: 2 }];
    assert_eq!(found(&facts).0, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn totals_in_which_a_run_is_lost_are_not_clean_however_many_good_ones_follow() {
    let leg = |facts: &Facts| {
        let mut leg = Totals::of(&found(facts).1, [3, 2], 1, Default::default());
        leg.faults.values_mut().for_each(|count| *count = 10);
        leg
    };
    let mut good = Totals::default();
    good.add(&leg(&one_run()));
    good.add(&leg(&one_run()));
    assert_eq!(good.problems(20), Vec::<String>::new());
    assert_eq!((good.legs, good.acknowledged, good.finished, good.longest_turns_ms), (2, 2, 2, [3, 3]));
    let mut lost = one_run();
    lost.logs.clear();
    let mut bad = Totals::default();
    bad.add(&leg(&lost));
    bad.add(&leg(&one_run()));
    assert_eq!(bad.problems(20), ["1 lost"]);
}
