//! What workers did, held against the logs: every repetition of an execution has a lost lease that explains it, and
//! every result that was confirmed is in the log.

use std::collections::BTreeMap;

use capataz_client::v1;
use capataz_contracts::v1::event::Body;

use super::Verdict;
use super::logs::Log;
use super::runs::reason;
use crate::records::{Work, WorkerRecord};
use crate::workloads::RETRY;

/// An execution that was not the first of its attempt, and what became of the lease before it.
#[derive(Clone, Debug)]
pub(super) struct Repetition {
    pub(super) run: String,
    pub(super) task: String,
    pub(super) attempt: u32,
    pub(super) lost_lease: u64,
    pub(super) loss: String,
    pub(super) lease: u64,
}

/// Takes the journals of all workers together: a task is repeated by another one.
pub(super) fn judge(journals: &[WorkerRecord], logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    let mut executions: BTreeMap<(&str, &str, u32, u32), Vec<u64>> = BTreeMap::new();
    for record in journals {
        match record {
            WorkerRecord::Began { work, .. } => {
                verdict.executions += 1;
                if let Some(tally) = verdict.tally(logs.get(&work.run).and_then(Log::kind)) {
                    tally.executions += 1;
                }
                if logs.get(&work.run).is_some_and(|log| is_inherited(log, work.lease)) {
                    let Work { run, task, lease, .. } = work;
                    let text = format!("run {run}, task {task}: done under lease {lease} of another run");
                    verdict.doubled.push(text);
                }
                let attempt = (work.run.as_str(), work.task.as_str(), work.activation, work.attempt);
                executions.entry(attempt).or_default().push(work.lease);
            }
            WorkerRecord::Ended { .. } => {}
            WorkerRecord::Accepted { run, lease, .. } => accepted(run, *lease, logs, verdict),
            WorkerRecord::Refused { .. } => verdict.told_refusals += 1,
        }
    }
    for ((run, task, _, attempt), mut leases) in executions {
        leases.sort_unstable();
        let Some(log) = logs.get(run) else {
            verdict.lost.push(format!("run {run} was worked on and is not there"));
            continue;
        };
        for pair in leases.windows(2) {
            let &[before, after] = pair else { continue };
            let place = format!("run {run}, task {task}, attempt {attempt}");
            if before == after {
                let text = format!("{place}: executed twice under lease {before}");
                verdict.is_unexplained(log.kind(), text);
                continue;
            }
            match loss(log, task, before) {
                Some(loss) => verdict.repetitions.push(Repetition {
                    run: run.to_owned(),
                    task: task.to_owned(),
                    attempt,
                    lost_lease: before,
                    loss,
                    lease: after,
                }),
                None => {
                    let text =
                        format!("{place}: executed under lease {after}, and lease {before} was not lost");
                    verdict.is_unexplained(log.kind(), text);
                }
            }
        }
    }
}

/// Whether the lease is one that a fork has of another run.
fn is_inherited(log: &Log, lease: u64) -> bool {
    let past = log.events.iter().take_while(|event| event.seq <= log.inherited());
    past.filter_map(|event| event.body.as_ref())
        .any(|body| matches!(body, Body::TaskLeased(leased) if leased.lease == lease))
}

/// How the log says that a lease was lost, if that allows the task to be done again.
pub(super) fn loss(log: &Log, task: &str, lease: u64) -> Option<String> {
    let mut later = log.events.iter().skip_while(|event| match &event.body {
        Some(Body::TaskLeased(body)) => body.lease != lease,
        _ => true,
    });
    if !log.runs_at_most_once(task) {
        return later.find_map(|event| match &event.body {
            Some(Body::TaskLeaseLost(body)) if body.lease == lease => Some(reason(body.reason())),
            _ => None,
        });
    }
    let mut asked = None;
    for event in later {
        match &event.body {
            // Given back before it was begun: the one loss after which such a task goes on by itself.
            Some(Body::TaskLeaseLost(body)) if body.lease == lease => {
                let unbegun = [
                    v1::LeaseLossReason::Returned,
                    v1::LeaseLossReason::ReturnedTooOften,
                    v1::LeaseLossReason::NotAcknowledged,
                ];
                return unbegun.contains(&body.reason()).then(|| reason(body.reason()));
            }
            Some(Body::QuestionAsked(body)) => {
                let question = body.question.as_ref()?;
                if question.task.as_deref() == Some(task) {
                    asked = Some(question.question_id.as_str());
                }
            }
            Some(Body::QuestionAnswered(body)) if asked == Some(body.question_id.as_str()) => {
                return (body.answer == RETRY).then(|| "somebody was asked".to_owned());
            }
            _ => {}
        }
    }
    None
}

fn accepted(run: &str, lease: u64, logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    verdict.accepted_results += 1;
    let events = logs.get(run).map(|log| log.events.as_slice()).unwrap_or_default();
    let is_there = events.iter().any(|event| match &event.body {
        Some(Body::TaskSettled(body)) => body.lease == Some(lease),
        _ => false,
    });
    if !is_there {
        verdict
            .lost
            .push(format!("run {run}: the result of lease {lease} was confirmed and is not in the log"));
    }
}
