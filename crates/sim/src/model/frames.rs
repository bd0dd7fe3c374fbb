//! Frames to workers: each tells of something durable.
//!
//! A frame that waited for its commit may leave when later events are durable too, so that what is asked of the log here
//! is what stays true once it is.

use capataz_contracts::v1::{self, connect_response::Frame};
use capataz_engine::TaskRef;
use capataz_store::RunId;

use super::Model;
use super::log::{LeaseEnd, LeaseModel, RunModel};
use super::settle::signature;
use crate::invariant::{Invariant, Violation};

/// Reads a reference; `None` where it names no run.
#[must_use]
pub fn parse(lease: Option<&v1::LeaseRef>) -> Option<(RunId, TaskRef, u64)> {
    let lease = lease?;
    Some((lease.run_id.parse().ok()?, TaskRef { wave: lease.wave, task: lease.task }, lease.lease))
}

impl Model {
    /// Holds a frame on its way to `worker` against the log. `is_late`: what the shard says takes time to reach the crew.
    pub fn check_frame(&self, worker: &str, frame: &Frame, is_late: bool) -> Result<(), Violation> {
        let told = |holds: bool| {
            Invariant::NoEffectBeforeCommit.check(holds, || format!("{worker} is told {frame:?}"))
        };
        match frame {
            Frame::Drain(_) | Frame::Heartbeat(_) => Ok(()),
            Frame::Welcome(welcome) => told(welcome.reattached.iter().all(|lease| {
                self.lease(Some(lease))
                    .is_some_and(|(_, lease)| (is_late || lease.end.is_none()) && lease.worker == worker)
            })),
            Frame::Assignment(assignment) => {
                self.check_span(assignment)?;
                told(self.lease(assignment.lease.as_ref()).is_some_and(|(run, lease)| {
                    lease.worker == worker
                        && run.is_schema_of_a_phase(&assignment.output_schema)
                        && lease.deadlines.contains(&assignment.deadline_ms)
                        && (lease.activation, lease.attempt) == (assignment.activation, assignment.attempt)
                }))
            }
            Frame::KeepBrowser(keep) => {
                let run = keep.run_id.parse().ok().and_then(|run| self.run(run));
                told(run.is_none_or(RunModel::was_let_go))
            }
            Frame::Cancel(cancel) => {
                told(self.lease(cancel.lease.as_ref()).is_some_and(|(_, lease)| lease.was_cancelled))
            }
            Frame::DeadlineExtended(extended) => told(
                self.lease(extended.lease.as_ref())
                    .is_some_and(|(_, lease)| lease.deadlines.contains(&extended.deadline_ms)),
            ),
            Frame::ResultAccepted(accepted) => {
                told(self.lease(accepted.lease.as_ref()).is_some_and(|(_, lease)| {
                    matches!(lease.end, Some(LeaseEnd::Settled { by_result: true } | LeaseEnd::AttemptFailed))
                }))
            }
            Frame::LeaseRevoked(revoked) => {
                told(self.lease(revoked.lease.as_ref()).is_some_and(|(_, lease)| {
                    lease.end.is_some_and(|end| end != LeaseEnd::Settled { by_result: true })
                }))
            }
            Frame::ResultRefused(refused) => told(self.may_refuse(worker, refused)),
        }
    }

    /// What subscribers see of a task's output and log comes from the worker that has its live lease.
    pub fn check_progress(&self, frame: &v1::ProgressFrame) -> Result<(), Violation> {
        if frame.partial_tail.is_none() && frame.log.is_none() {
            return Ok(());
        }
        let task = TaskRef { wave: frame.wave, task: frame.task };
        let live = frame.run_id.parse().ok().and_then(|run| self.run(run)?.live(task));
        let is_theirs = live.is_some_and(|(token, lease)| {
            let theirs = signature(token, &lease.worker);
            let tail = frame.partial_tail.as_ref();
            let log = frame.log.as_ref();
            frame.lease == token
                && tail.is_none_or(|tail| *tail == format!("{{{theirs}}}"))
                && log.is_none_or(|log| log.text == format!("{theirs}\n"))
        });
        Invariant::NoEffectBeforeCommit.check(is_theirs, || format!("subscribers are shown {frame:?}"))
    }

    /// A result is refused for a reason that the log shows.
    fn may_refuse(&self, worker: &str, refused: &v1::ResultRefusedFrame) -> bool {
        let Some((run, task, token)) = parse(refused.lease.as_ref()) else { return true };
        let Some(run) = self.run(run) else {
            // A run that never became durable, which no worker can know of, or that a restored disk has lost.
            // One that is made again may not have come to that task yet.
            let reasons = [
                v1::RefusalReason::AlreadySettled,
                v1::RefusalReason::OtherHistory,
                v1::RefusalReason::UnknownTask,
                v1::RefusalReason::NotBegun,
            ];
            return reasons.iter().any(|reason| refused.reason == *reason as i32);
        };
        let live = run.live(task).is_some_and(|(live, lease)| live == token && lease.worker == worker);
        let by_reason = match v1::RefusalReason::try_from(refused.reason).unwrap_or_default() {
            v1::RefusalReason::AlreadySettled => {
                let known = run.task(task).or_else(|| run.taken_back.get(&task));
                run.finished.is_some() || known.is_some_and(|task| task.was_settled)
            }
            v1::RefusalReason::UnknownTask | v1::RefusalReason::NotBegun => {
                run.leases.get(&token).is_none_or(|lease| lease.task != task)
            }
            v1::RefusalReason::StaleLease | v1::RefusalReason::NotYours => true,
            // Of what a restored disk has lost, or so old that retention has forgotten the claim with all of its runs.
            // A fork has the leases of its base in its log, and has given none of them.
            v1::RefusalReason::OtherHistory => {
                run.removed || token <= run.inherited_token || !run.leases.contains_key(&token)
            }
            v1::RefusalReason::Unspecified => false,
        };
        !live && by_reason
    }

    pub(super) fn lease(&self, lease: Option<&v1::LeaseRef>) -> Option<(&RunModel, &LeaseModel)> {
        let (run, task, token) = parse(lease)?;
        let run = self.run(run)?;
        let lease = run.leases.get(&token).filter(|lease| lease.task == task)?;
        Some((run, lease))
    }
}
