//! The verdict sees what it is there for: each test breaks one thing.

mod asks;
mod children;
mod faults;
mod scripts;
mod world;

use capataz_client::v1::{self, event::Body};

use super::logs::Log;
use super::*;
use crate::EVERYTHING;
use crate::journal::now_us;
use crate::records::{Call, CommandRecord, SubscriberRecord, Work, WorkerRecord};
use crate::subscriber::hash;
use crate::workloads::{CLIENT_LABEL, FORKED, KEY_LABEL};

const RUN: &str = "r1";
const KEY: &str = "k1";
const CLIENT: &str = "c1";

fn leased(lease: u64) -> Body {
    Body::TaskLeased(v1::TaskLeased { attempt: 1, activation: 1, lease, ..Default::default() })
}

fn lost(lease: u64) -> Body {
    let reason = v1::LeaseLossReason::Silent as i32;
    Body::TaskLeaseLost(v1::TaskLeaseLost { lease, reason, ..Default::default() })
}

fn settled(lease: u64) -> Body {
    let output = format!(r#"{{"key":"{KEY}","task":"a","lease":{lease}}}"#);
    Body::TaskSettled(Box::new(v1::TaskSettled {
        activation: 1,
        lease: Some(lease),
        status: v1::ResultStatus::Success as i32,
        output: Some(v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline(output.into())),
        }),
        ..Default::default()
    }))
}

fn refused(lease: u64) -> Body {
    let reason = v1::RefusalReason::StaleLease as i32;
    Body::ResultRefused(v1::ResultRefused { lease, reason, ..Default::default() })
}

fn paused(request: &str) -> Body {
    Body::RunPaused(v1::RunPaused { request_id: request.to_owned() })
}

fn finished() -> Body {
    Body::RunFinished(v1::RunFinished::default())
}

/// A run of one task `a`, with these events after its acceptance.
fn log(effect: Option<v1::Effect>, bodies: impl IntoIterator<Item = Body>) -> Log {
    let task =
        v1::Task { name: "a".to_owned(), effect: effect.map(|effect| effect as i32), ..Default::default() };
    let plan =
        v1::Plan { waves: vec![v1::Wave { tasks: vec![task], ..Default::default() }], ..Default::default() };
    let work = Some(v1::run_accepted::Work::Plan(plan));
    let accepted = Body::RunAccepted(Box::new(v1::RunAccepted { work, ..Default::default() }));
    let bodies = [accepted].into_iter().chain(bodies);
    let events: Vec<v1::Event> = (1..)
        .zip(bodies)
        .map(|(seq, body)| v1::Event { seq, at_ms: 0, format: 2, elapsed_ms: 0, body: Some(body) })
        .collect();
    let is_finished =
        matches!(events.last().and_then(|event| event.body.as_ref()), Some(Body::RunFinished(_)));
    let status = if is_finished { v1::RunStatus::Finished } else { v1::RunStatus::Running };
    let view = v1::Run {
        run_id: RUN.to_owned(),
        status: status as i32,
        outcome: is_finished.then_some(v1::RunOutcome::Succeeded as i32),
        labels: [(CLIENT_LABEL, CLIENT), (KEY_LABEL, KEY)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        seq: events.len() as u64,
        waves: vec![v1::WaveView {
            tasks: vec![v1::TaskView { name: "a".to_owned(), ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    Log { view, events }
}

fn logs(bodies: impl IntoIterator<Item = Body>) -> BTreeMap<String, Log> {
    [(RUN.to_owned(), log(None, bodies))].into()
}

fn good() -> BTreeMap<String, Log> {
    logs([leased(2), lost(2), leased(4), refused(2), settled(4), finished()])
}

/// What each list of findings holds: lost, doubled, gaps, repeats, unexplained, wrong.
#[track_caller]
fn check(verdict: &Verdict, expected: [usize; 6]) {
    let found = [
        verdict.lost.len(),
        verdict.doubled.len(),
        verdict.gaps.len(),
        verdict.repeats.len(),
        verdict.unexplained.len(),
        verdict.wrong.len(),
    ];
    assert_eq!(found, expected, "{verdict:#?}");
}

#[track_caller]
fn check_runs(logs: &BTreeMap<String, Log>, expected: [usize; 6]) {
    let mut verdict = Verdict::default();
    runs::judge(logs, &mut verdict);
    check(&verdict, expected);
}

#[test]
fn a_good_log_is_good() {
    check_runs(&good(), [0; 6]);
    let mut verdict = Verdict::default();
    runs::judge(&good(), &mut verdict);
    assert_eq!((verdict.stale_refused, verdict.leases, verdict.finished), (1, 2, 1));
}

#[test]
fn a_gap_in_a_log() {
    let mut logs = good();
    let log = logs.get_mut(RUN).unwrap();
    log.events.remove(4);
    check_runs(&logs, [0, 0, 1, 0, 0, 0]);
}

#[test]
fn two_ends_of_a_run_or_of_a_task() {
    check_runs(&logs([leased(2), settled(2), finished(), finished()]), [0, 1, 0, 0, 0, 1]);
    check_runs(&logs([leased(2), settled(2), settled(2), finished()]), [0, 1, 0, 0, 0, 1]);
}

#[test]
fn two_leases_at_once_and_tokens_that_do_not_grow() {
    check_runs(&logs([leased(2), leased(3)]), [0, 1, 0, 0, 0, 0]);
    check_runs(&logs([leased(2), lost(2), leased(2), settled(2), finished()]), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_result_of_a_lost_lease_that_was_taken() {
    check_runs(&logs([leased(2), lost(2), leased(4), settled(2), finished()]), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn an_output_of_another_lease() {
    let mut foreign = settled(9);
    if let Body::TaskSettled(body) = &mut foreign {
        body.lease = Some(2);
    }
    check_runs(&logs([leased(2), foreign, finished()]), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_request_that_was_carried_out_twice_and_a_lease_in_a_pause() {
    check_runs(&logs([paused("p"), paused("p")]), [0, 1, 0, 0, 0, 0]);
    check_runs(&logs([paused("p"), leased(3)]), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn two_runs_of_one_key() {
    let mut logs = good();
    logs.insert("r2".to_owned(), log(None, [leased(2), settled(2), finished()]));
    check_runs(&logs, [0, 1, 0, 0, 0, 0]);
}

fn sent(call: Call, key: &str) -> ClientRecord {
    ClientRecord::Sent { at: 1, call, index: 0, key: key.to_owned(), attempt: 1 }
}

fn started(run: &str) -> ClientRecord {
    ClientRecord::Started { at: 2, key: KEY.to_owned(), attempt: 1, run: run.to_owned(), created: true }
}

#[track_caller]
fn check_client(journal: &[ClientRecord], logs: &BTreeMap<String, Log>, expected: [usize; 6]) {
    let mut verdict = Verdict::default();
    clients::judge(CLIENT, journal, logs, &mut verdict);
    check(&verdict, expected);
}

#[test]
fn what_was_acknowledged_is_there_and_has_ended() {
    let start = sent(Call::Start, KEY);
    check_client(&[start.clone(), started(RUN)], &good(), [0; 6]);
    check_client(&[start.clone(), started(RUN)], &BTreeMap::new(), [1, 0, 0, 0, 0, 0]);
    check_client(&[start.clone(), started(RUN)], &logs([leased(2)]), [1, 0, 0, 0, 0, 0]);
    check_client(&[start.clone(), started(RUN), started("r2")], &good(), [0, 1, 0, 0, 0, 0]);
    check_client(&[start], &good(), [0, 0, 0, 0, 0, 1]);
    check_client(&[], &good(), [0, 0, 0, 0, 0, 1]);
}

#[test]
fn an_acknowledged_command_has_its_event() {
    let done = |seq| ClientRecord::Done { at: 3, key: "p".to_owned(), run: RUN.to_owned(), seq };
    let journal = |seq| [sent(Call::Start, KEY), started(RUN), sent(Call::Pause, "p"), done(seq)];
    let back = v1::PipelineRolledBack { request_id: "p".to_owned(), ..Default::default() };
    let rolled_back = logs([Body::PipelineRolledBack(back), finished()]);
    check_client(&journal(2), &rolled_back, [0; 6]);
    let logs = logs([paused("p"), finished()]);
    check_client(&journal(2), &logs, [0; 6]);
    check_client(&journal(3), &logs, [1, 0, 0, 0, 0, 0]);
    let refused = ClientRecord::Refused {
        at: 3,
        key: "p".to_owned(),
        run: Some(RUN.to_owned()),
        code: "RUN_FINISHED".to_owned(),
    };
    check_client(&[sent(Call::Start, KEY), started(RUN), refused], &logs, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn an_end_that_was_told_stays() {
    let told = |outcome: v1::RunOutcome| {
        let ended = ClientRecord::Ended { at: 3, index: 0, run: RUN.to_owned(), outcome: outcome as i32 };
        [sent(Call::Start, KEY), started(RUN), ended]
    };
    check_client(&told(v1::RunOutcome::Succeeded), &good(), [0; 6]);
    check_client(&told(v1::RunOutcome::Failed), &good(), [1, 0, 0, 0, 0, 0]);
}

#[track_caller]
fn check_stream(seqs: &[u64], expected: [usize; 6]) {
    let logs = good();
    let events = &logs.get(RUN).unwrap().events;
    let record = |seq: &u64| SubscriberRecord::Event {
        run: RUN.to_owned(),
        seq: *seq,
        hash: hash(&events[usize::try_from(*seq).unwrap() - 1]),
        cursor: Vec::new(),
    };
    let journal: Vec<SubscriberRecord> = seqs.iter().map(record).collect();
    let mut verdict = Verdict::default();
    streams::judge(CLIENT, &journal, &logs, &BTreeMap::new(), &mut verdict);
    check(&verdict, expected);
}

#[test]
fn a_stream_has_every_event_once_and_in_order() {
    check_stream(&[1, 2, 3, 4, 5, 6, 7], [0; 6]);
    check_stream(&[1, 2, 4, 5, 6, 7], [0, 0, 1, 0, 0, 0]);
    check_stream(&[1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 0, 0]);
    check_stream(&[1, 2, 3, 3, 4, 5, 6, 7], [0, 0, 0, 1, 0, 0]);
    check_stream(&[], [0, 0, 1, 0, 0, 0]);
}

#[test]
fn an_event_that_is_not_the_stored_one() {
    let record = SubscriberRecord::Event { run: RUN.to_owned(), seq: 1, hash: 7, cursor: Vec::new() };
    let mut verdict = Verdict::default();
    streams::judge(EVERYTHING, &[record], &good(), &BTreeMap::new(), &mut verdict);
    check(&verdict, [0, 0, 1, 0, 0, 1]);
}

#[track_caller]
fn check_work(leases: &[u64], log: Log, repetitions: usize, expected: [usize; 6]) {
    let began = |lease: &u64| {
        let (run, task) = (RUN.to_owned(), "a".to_owned());
        let work = Work { run, task, activation: 1, attempt: 1, lease: *lease };
        WorkerRecord::Began { at: now_us(), work }
    };
    let journal: Vec<WorkerRecord> = leases.iter().map(began).collect();
    let mut verdict = Verdict::default();
    work::judge(&journal, &[(RUN.to_owned(), log)].into(), &mut verdict);
    check(&verdict, expected);
    assert_eq!(verdict.repetitions.len(), repetitions);
}

#[test]
fn every_repetition_has_its_lost_lease() {
    let lost_once = || log(None, [leased(2), lost(2), leased(4)]);
    check_work(&[2, 4], lost_once(), 1, [0; 6]);
    check_work(&[4], lost_once(), 0, [0; 6]);
    check_work(&[2, 2], lost_once(), 0, [0, 0, 0, 0, 1, 0]);
    check_work(&[2, 4], log(None, [leased(2), leased(4)]), 0, [0, 0, 0, 0, 1, 0]);
}

#[test]
fn a_task_that_must_run_at_most_once_is_done_again_only_where_somebody_said_so() {
    let asked = Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(v1::Question {
            question_id: "q3".to_owned(),
            task: Some("a".to_owned()),
            ..Default::default()
        }),
        wave: Some(0),
        task: Some(0),
    }));
    let answered = |answer: &str| {
        let (question_id, answer) = ("q3".to_owned(), answer.to_owned());
        Body::QuestionAnswered(v1::QuestionAnswered { question_id, answer, ..Default::default() })
    };
    let once = |bodies: [Body; 4]| log(Some(v1::Effect::AtMostOnce), bodies);
    check_work(&[2, 5], once([leased(2), asked.clone(), answered("retry"), leased(5)]), 1, [0; 6]);
    let failed = once([leased(2), asked, answered("failed"), leased(5)]);
    check_work(&[2, 5], failed, 0, [0, 0, 0, 0, 1, 0]);
    let silently = once([leased(2), lost(2), leased(4), finished()]);
    check_work(&[2, 4], silently, 0, [0, 0, 0, 0, 1, 0]);
}

/// A run that has the first events of the good one, and its fork with that.
fn with_fork(past: usize) -> BTreeMap<String, Log> {
    let mut logs = good();
    let base = &logs[RUN];
    let seq = past as u64;
    let forked =
        v1::RunForked { run_id: RUN.to_owned(), seq, fork_id: "f1".to_owned(), ..Default::default() };
    let bodies = [Body::RunForked(forked), lost(4), leased(6), settled(6), finished()];
    let mut fork = log(None, base.bodies().skip(1).take(past - 1).cloned().chain(bodies));
    fork.view.forked_from = Some(v1::ForkRef { run_id: RUN.to_owned(), seq });
    fork.view.labels.insert(KEY_LABEL.to_owned(), format!("{KEY}{FORKED}"));
    logs.insert("f1".to_owned(), fork);
    logs
}

#[test]
fn a_fork_begins_as_the_other_run_did_and_is_counted() {
    let logs = with_fork(4);
    check_runs(&logs, [0; 6]);
    let mut verdict = Verdict::default();
    runs::judge(&logs, &mut verdict);
    assert_eq!(verdict.forked, 1);
    let mut other = logs.clone();
    other.get_mut("f1").unwrap().events[0].at_ms = 7;
    check_runs(&other, [0, 0, 0, 0, 0, 1]);
    let mut untold = logs.clone();
    untold.get_mut("f1").unwrap().view.forked_from = None;
    check_runs(&untold, [0, 0, 0, 0, 0, 1]);
    let mut alone = logs;
    alone.remove(RUN);
    check_runs(&alone, [0; 6]);
}

#[test]
fn what_a_fork_has_of_another_run_is_not_delivered_and_not_done_again() {
    let logs = with_fork(4);
    let check_stream = |seqs: std::ops::RangeInclusive<u64>, expected| {
        let record = |run: &str, seq: u64| {
            let event = &logs[run].events[usize::try_from(seq).unwrap() - 1];
            SubscriberRecord::Event { run: run.to_owned(), seq, hash: hash(event), cursor: Vec::new() }
        };
        let of_base = (1..=7).map(|seq| record(RUN, seq));
        let journal: Vec<_> = of_base.chain(seqs.map(|seq| record("f1", seq))).collect();
        let mut verdict = Verdict::default();
        streams::judge(EVERYTHING, &journal, &logs, &BTreeMap::new(), &mut verdict);
        check(&verdict, expected);
    };
    check_stream(5..=9, [0; 6]);
    check_stream(4..=9, [0, 0, 0, 1, 0, 0]);
    check_stream(6..=9, [0, 0, 1, 0, 0, 0]);
    check_stream(5..=8, [0, 0, 1, 0, 0, 0]);
    let fork = || logs["f1"].clone();
    check_work(&[6], fork(), 0, [0; 6]);
    check_work(&[4, 6], fork(), 1, [0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_confirmed_result_is_in_the_log() {
    let accepted = |lease| WorkerRecord::Accepted { at: 1, run: RUN.to_owned(), lease };
    for (lease, expected) in [(4, [0; 6]), (2, [1, 0, 0, 0, 0, 0])] {
        let mut verdict = Verdict::default();
        work::judge(&[accepted(lease)], &good(), &mut verdict);
        check(&verdict, expected);
    }
}

#[test]
fn a_command_that_outlives_its_daemon_or_has_no_lease() {
    let began = |process| CommandRecord::Began { at: 1, process, key: KEY.to_owned(), task: "a".to_owned() };
    let ended = |process| CommandRecord::Ended { at: 2, process, key: KEY.to_owned(), task: "a".to_owned() };
    let check = |journal: &[CommandRecord], expected| {
        let mut verdict = Verdict::default();
        commands::judge(journal, &good(), &mut verdict);
        check(&verdict, expected);
    };
    check(&[began(1), began(2), ended(2)], [0; 6]);
    check(&[began(1), began(2), ended(1)], [0, 1, 0, 0, 0, 0]);
    check(&[began(1), began(2), began(3), ended(3)], [0, 0, 0, 0, 1, 0]);
}

#[test]
fn a_kill_counts_where_a_call_was_sent_before_it_and_broke_after_it() {
    let broken = |at| ClientRecord::Broken { at, key: KEY.to_owned(), attempt: 1, error: String::new() };
    let hits = |call, end: ClientRecord| {
        let mut verdict = Verdict::default();
        kills::judge(&[Fault::DaemonKilled { at: 5, shims: 0 }], &[&[sent(call, KEY), end]], &mut verdict);
        verdict.kills_in_flight
    };
    assert_eq!(hits(Call::Start, broken(6)), 1);
    assert_eq!(hits(Call::Start, broken(4)), 0);
    assert_eq!(hits(Call::Start, started(RUN)), 0);
    assert_eq!(hits(Call::Execute, broken(6)), 0);
}
