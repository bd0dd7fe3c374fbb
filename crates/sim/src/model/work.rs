//! Leases, attempts, cancels and extensions.

use capataz_contracts::v1;
use capataz_engine::{TaskRef, mark_of};

use super::Model;
use super::ask::ATTEMPTS;
use super::log::{LeaseEnd, LeaseModel, RunModel, Step, TaskModel, place};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};
use crate::scenario::is_final;
use crate::schemas::breaks;
use capataz_store::RunId;

impl RunModel {
    pub(super) fn leased(&mut self, event: v1::TaskLeased) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let held = self.is_held() || self.ending.is_some();
        Invariant::NoLeaseWhileHeld
            .check(!held, || self.at(format!("{task} is leased while the run is held")))?;
        self.is_not_done_before(task)?;
        self.has_no_reference(task)?;
        self.taken_by(&event.worker, task)?;
        let newest = self.leases.last_key_value().map_or(0, |(token, _)| *token);
        Invariant::TokensIncrease
            .check(event.lease > newest, || self.at(format!("token {} after {newest}", event.lease)))?;
        let most = self.max_attempts(task);
        let text = self.at(format!("{task} is leased as attempt {} of {most}", event.attempt));
        let elapsed = self.elapsed;
        self.has_waited(task, event.lease)?;
        let is_final = self.declared(task).is_some_and(|task| is_final(&task.agent));
        let as_declared = event.cancel_is_final == is_final;
        Invariant::DeadlineAnswered
            .check(as_declared, || format!("{text}, whose work may go on: {is_final}"))?;
        let may_be_sent = !self.ask().is_some_and(super::ask::AskModel::is_unsendable);
        Invariant::AsksInOrder
            .check(may_be_sent, || format!("{text}, with a request that breaks the contract"))?;
        self.enters(task, v1::TaskState::Active as i32)?;
        let model = self.in_work(task)?;
        let step = model.step;
        Invariant::OneLiveLease
            .check(step == Step::Queued, || format!("{text}, token {}, in step {step:?}", event.lease))?;
        let counted = event.attempt == model.attempt
            && event.attempt <= most
            && event.activation == model.activation
            && event.deadline_ms.is_some() == model.deadline.is_none()
            && event.deadline_ms.is_some() == event.deadline_in_ms.is_some();
        Invariant::AttemptsCounted.check(counted, || format!("{text}, expected {}", model.attempt))?;
        model.step = Step::Leased(event.lease);
        model.deadline = model.deadline.or(event.deadline_ms);
        model.due = model.due.or(event.deadline_in_ms.map(|ahead| elapsed + ahead));
        let deadlines = model.deadline.into_iter().collect();
        let lease = LeaseModel {
            task,
            worker: event.worker,
            activation: event.activation,
            attempt: event.attempt,
            cancel: None,
            cancel_is_final: event.cancel_is_final,
            was_cancelled: false,
            deadlines,
            end: None,
            ended_at: 0,
            was_begun: false,
        };
        self.leases.insert(event.lease, lease);
        Ok(())
    }

    /// Handed back once, a task goes elsewhere at once; handed back again in the same claim of its shard, it waits by itself:
    /// 100 ms, then twice as long each time, at most a minute. A fork was never handed back.
    fn has_waited(&self, task: TaskRef, token: u64) -> Result<(), Violation> {
        let handed_back = |lease: &&LeaseModel| {
            let returned = [v1::LeaseLossReason::Returned, v1::LeaseLossReason::ReturnedTooOften];
            !lease.was_begun && returned.iter().any(|how| lease.end == Some(LeaseEnd::Lost(*how as i32)))
        };
        let of_run = self.leases.iter().rev().take_while(|(before, _)| **before > self.inherited_token);
        let of_task = of_run.filter(|(_, lease)| lease.task == task);
        let of_claim = of_task.take_while(|(before, _)| mark_of(**before) == mark_of(token));
        let returned: Vec<&LeaseModel> = of_claim.map(|(_, lease)| lease).take_while(handed_back).collect();
        let (times, Some(last)) = (returned.len(), returned.first()) else { return Ok(()) };
        let doublings = u32::try_from(times).unwrap_or(u32::MAX).saturating_sub(2).min(20);
        let pause = if times < 2 { 0 } else { (100_i64 << doublings).min(60_000) };
        let waited = self.elapsed - last.ended_at;
        Invariant::HandedBackWaits.check(waited >= pause, || {
            self.at(format!("{task} was handed back {times} times, and is leased after {waited} ms"))
        })
    }

    pub(super) fn max_attempts(&self, task: TaskRef) -> u32 {
        let own = self.declared(task).and_then(|task| task.retry.as_ref());
        let most = own.or(self.plan.retry.as_ref()).and_then(|retry| retry.max_attempts).unwrap_or(3);
        if self.ask().is_some() { ATTEMPTS } else { most }
    }

    /// The task, which must be leased under this token.
    fn holder(&mut self, task: TaskRef, token: u64) -> Result<&mut TaskModel, Violation> {
        let text = self.at(format!("lease {token} of {task} is not live"));
        let model = self.in_work(task)?;
        Invariant::OneLiveLease.check(model.step == Step::Leased(token), || text)?;
        Ok(model)
    }

    pub(super) fn lease_lost(&mut self, event: &v1::TaskLeaseLost) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let text = self.at(format!("{} losses of {task}", event.losses));
        let model = self.holder(task, event.lease)?;
        // Work that is given back unbegun does not count as lost, unless nobody takes it at all.
        let returned = event.reason == v1::LeaseLossReason::Returned as i32;
        // A fork has not lost what was never its own.
        let forked = event.reason == v1::LeaseLossReason::Forked as i32;
        let unbegun = returned || event.reason == v1::LeaseLossReason::ReturnedTooOften as i32;
        model.losses += u32::from(!returned && !forked);
        model.step = Step::Queued;
        Invariant::AttemptsCounted.check(event.losses == model.losses && model.losses < 5, || text)?;
        if unbegun {
            model.begun.retain(|begun| *begun != event.lease);
        }
        self.end_lease(event.lease, LeaseEnd::Lost(event.reason));
        Ok(())
    }

    pub(super) fn attempt_failed(&mut self, event: &v1::TaskAttemptFailed) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let most = self.max_attempts(task);
        let text = self.at(format!("attempt {} of {most} of {task} failed", event.attempt));
        let model = self.in_work(task)?;
        let step = model.step;
        let at_work = matches!(step, Step::Leased(_) | Step::Heard { .. });
        Invariant::OneLiveLease.check(at_work, || text.clone())?;
        Invariant::AttemptsCounted.check(event.attempt == model.attempt && event.attempt < most, || text)?;
        model.attempt += 1;
        model.step = Step::Backoff;
        model.begun.clear();
        if let Step::Leased(token) = step {
            self.end_lease(token, LeaseEnd::AttemptFailed);
        }
        if let Some(error) = event.error.as_ref().filter(|_| matches!(self.kind, Kind::Plan { .. })) {
            self.failure((event.wave, event.task), error, error.severity)?;
            let is_critical = error.severity == v1::Severity::Critical as i32;
            Invariant::CriticalAborts
                .check(!is_critical, || self.at("a CRITICAL failure is to be tried again"))?;
        }
        self.call_ended(event.output.as_ref(), event.error.as_ref(), None)
    }

    pub(super) fn retry_due(&mut self, task: TaskRef) -> Result<(), Violation> {
        let text = self.at(format!("{task} is queued again"));
        let model = self.in_work(task)?;
        Invariant::OneLiveLease.check(matches!(model.step, Step::Backoff | Step::Asking), || text)?;
        model.step = Step::Queued;
        Ok(())
    }

    pub(super) fn cancel_requested(&mut self, event: &v1::TaskCancelRequested) -> Result<(), Violation> {
        self.holder(place(event.wave, event.task), event.lease)?;
        if let Some(lease) = self.leases.get_mut(&event.lease) {
            lease.cancel = Some(event.reason);
            lease.was_cancelled = true;
        }
        if event.reason == v1::CancelReason::Timeout as i32 {
            self.deadline_exceeded(place(event.wave, event.task))?;
        }
        Ok(())
    }

    pub(super) fn extended(&mut self, event: &v1::TaskExtended) -> Result<(), Violation> {
        let elapsed = self.elapsed;
        Invariant::NoEarlyTimeout.check(event.deadline_in_ms > 0, || {
            let task = place(event.wave, event.task);
            self.at(format!("{task} is given {} ms from now", event.deadline_in_ms))
        })?;
        if event.cancel_withdrawn {
            self.withdrawn_at_deadline(place(event.wave, event.task))?;
        }
        self.deadline_moved(place(event.wave, event.task))?;
        let model = self.in_work(place(event.wave, event.task))?;
        model.deadline = Some(event.deadline_ms);
        model.due = Some(elapsed + event.deadline_in_ms);
        if let Step::Leased(token) = model.step
            && let Some(lease) = self.leases.get_mut(&token)
        {
            lease.deadlines.push(event.deadline_ms);
            if event.cancel_withdrawn {
                lease.cancel = None;
            }
        }
        self.request(event.request_id.clone())
    }

    pub(super) fn result_refused(&mut self, event: &v1::ResultRefused) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let live = self
            .live(task)
            .is_some_and(|(token, lease)| token == event.lease && lease.worker == event.worker);
        Invariant::SettledByLiveLease
            .check(!live, || self.at(format!("the live lease {} of {task} was refused", event.lease)))
    }
}

impl Model {
    /// A worker gives this as the output of its lease.
    pub fn gave(&mut self, run: RunId, task: TaskRef, token: u64, output: &v1::Payload) {
        let Some(model) = self.runs.get_mut(&run) else { return };
        let of_phase = model.is_pipeline() && super::pipeline::breaks(Some(output));
        let broken =
            of_phase || model.declared(task).is_some_and(|declared| breaks(&declared.agent, Some(output)));
        if broken {
            model.broken.borrow_mut().insert(token);
        }
    }

    /// A worker begins the work of a lease.
    pub fn begun(&mut self, run: RunId, task: TaskRef, token: u64) -> Result<(), Violation> {
        let Some(model) = self.runs.get_mut(&run) else { return Ok(()) };
        if let Some(lease) = model.leases.get_mut(&token) {
            lease.was_begun = true;
        }
        let once = model.declared(task).and_then(|task| task.effect) == Some(v1::Effect::AtMostOnce as i32);
        // A lease that is over already is the worker's misfortune; it will be refused.
        let live = model.live(task).is_some_and(|(live, _)| live == token);
        if !once || model.finished.is_some() {
            return Ok(());
        }
        let text = format!("run {run}: {task} is begun under lease {token}");
        if !live {
            // Begun although the lease was lost: its outcome is unknown, unless a person or a result settled that.
            let lost =
                matches!(model.leases.get(&token).and_then(|lease| lease.end), Some(LeaseEnd::Lost(_)));
            if lost && let Ok(activity) = model.in_work(task) {
                let other = matches!(activity.step, Step::Leased(other) if activity.begun.contains(&other));
                Invariant::AtMostOnce.check(!other, || format!("{text}, another lease is at work"))?;
                activity.begun.push(token);
            }
            return Ok(());
        }
        let activity = model.in_work(task)?;
        let other = activity.begun.iter().find(|begun| **begun != token).copied();
        Invariant::AtMostOnce
            .check(other.is_none(), || format!("{text}, lease {other:?} was begun and lost"))?;
        if !activity.begun.contains(&token) {
            activity.begun.push(token);
        }
        Ok(())
    }
}
