//! Results, waves and the end of a run, compared with a direct evaluation of the policy.

use capataz_contracts::v1::{self, payload::Data};
use capataz_engine::TaskRef;
use capataz_policy::aggregation::ResultStatus;

use super::log::{LeaseEnd, LeaseModel, ResultModel, RunModel, Step, TaskModel, place};
use super::pipeline;
use super::policy::{Judged, same};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};
use crate::schemas::breaks;

/// Failures of a task that need no result of a live lease.
const WITHOUT_LEASE: &[&str] = &[
    "WORKER_LOST",
    "INPUT_UNRESOLVED",
    "OUTCOME_UNKNOWN",
    "SCHEDULE_TO_START_TIMEOUT",
    "TASK_TIMEOUT",
    "TASK_CANCELLED",
];
/// Failures of all attempts, where the last one was not answered in time.
const AFTER_ATTEMPT_TIMEOUT: &[&str] = &["RETRY_EXHAUSTED", "TOTAL_TIMEOUT_EXCEEDED", "NON_RETRYABLE_ERROR"];

impl RunModel {
    pub(super) fn settled(&mut self, event: &v1::TaskSettled) -> Result<(), Violation> {
        let task = place(event.wave, event.task);
        let text = self.at(format!("{task} settles by lease {:?} with status {}", event.lease, event.status));
        let elapsed = self.elapsed;
        self.settled_as_before(event)?;
        let declared = self.declared(task).and_then(|task| task.effect);
        let once_only = declared == Some(v1::Effect::AtMostOnce as i32);
        let model = self.in_work(task)?;
        let (step, due, vouched) = (model.step, model.due, model.vouched);
        if let Some(value) = model.vouched_for.take().filter(|_| vouched && event.lease.is_none()) {
            Invariant::AnswersWhatIsAsked.check(event.output.as_ref() == Some(&value), || text.clone())?;
        }
        let once = step != Step::Settled && event.activation == model.activation;
        Invariant::OneSettlement.check(once, || text.clone())?;
        let success = event.status == v1::ResultStatus::Success as i32;
        let code = event.error.as_ref().map_or("", |error| error.code.as_str());
        match event.lease {
            Some(token) => {
                Invariant::SettledByLiveLease
                    .check(step == Step::Leased(token), || format!("{text}, {step:?}"))?;
                if !self.leases.contains_key(&token) {
                    return Invariant::SettledByLiveLease.broken(text);
                }
                let broken = self.broken.borrow().contains(&token);
                self.outputs_are_judged(task, event, broken)?;
                let Some(lease) = self.leases.get(&token) else { return Ok(()) };
                if success {
                    // Work that must not be repeated counts although it took longer than its attempt may.
                    let kept = once_only && lease.cancel == Some(v1::CancelReason::AttemptTimeout as i32);
                    Invariant::NoLateSuccess.check(lease.cancel.is_none() || kept, || text.clone())?;
                    // What a host says of a page is told in events of their own.
                    let silent = self.is_script() && event.output.is_none() || self.is_in_browser(task);
                    Invariant::SettledByLiveLease
                        .check(silent || is_output_of(event.output.as_ref(), token, &lease.worker), || {
                            format!("{text}: {:?} is not from {}", event.output, lease.worker)
                        })?;
                }
            }
            None if event.taken_over => {
                Invariant::SettledByLiveLease.check(step == Step::Queued, || format!("{text}, {step:?}"))?;
            }
            None => {
                let live = match step {
                    Step::Leased(token) => self.leases.get(&token),
                    _ => None,
                };
                let heard = matches!(step, Step::Heard { .. });
                let may_succeed = vouched || step == Step::Heard { may_succeed: true };
                let unasked = self.may_fail_unasked(code) || heard || self.waits_for_itself(task, code);
                Invariant::ChildrenHeardOnce.check(step != Step::Child, || text.clone())?;
                let may_fail = may_fail_without_lease(code, live) || unasked;
                let may_fail = may_fail || (!matches!(step, Step::Leased(_)) && self.is_taken_back(code));
                let allowed = if success { may_succeed } else { may_fail };
                Invariant::SettledByLiveLease.check(allowed, || format!("{text}, {code}, {step:?}"))?;
            }
        }
        if success {
            self.success_is_told(&text)?;
        }
        if code == "TASK_TIMEOUT" {
            let is_due = due.is_some_and(|due| elapsed >= due);
            Invariant::NoEarlyTimeout.check(is_due, || format!("{text} after {elapsed} ms, due {due:?}"))?;
        }
        let is_failure = ResultStatus::from_proto(event.status).is_some_and(ResultStatus::is_failure);
        if let Some(error) =
            event.error.as_ref().filter(|_| is_failure && matches!(self.kind, Kind::Plan { .. }))
        {
            self.failure((event.wave, event.task), error, event.severity)?;
            self.failed(event.severity);
        }
        if event.status == v1::ResultStatus::Cancelled as i32 {
            let said = match (self.is_pipeline(), self.is_mode()) {
                (true, _) => Some("its phase was rolled back"),
                (_, true) => Some("its run went back to a checkpoint"),
                _ => None,
            };
            let message = event.error.as_ref().map_or("", |error| error.message.as_str());
            let goes_back = said.is_some_and(|said| message.ends_with(said));
            self.goes_back |= goes_back;
            let wanted =
                goes_back || self.ending.is_some() || self.waves.last().is_some_and(|wave| wave.decided);
            Invariant::PolicyOutcome.check(wanted, || format!("{text}, and nothing cancelled it"))?;
        }
        self.enters(task, event.state)?;
        self.settled_at_deadline(task, event.status, event.error.as_ref())?;
        if let Step::Leased(token) = step {
            self.end_lease(token, LeaseEnd::Settled { by_result: event.lease == Some(token) });
        }
        let model = self.in_work(task)?;
        model.step = Step::Settled;
        model.was_settled = true;
        model.begun.clear();
        self.note_grade(task, event.output.as_ref())?;
        let model = self.in_work(task)?;
        model.result = Some(ResultModel { status: event.status, severity: event.severity });
        model.output = event.output.clone().filter(|_| success);
        self.call_ended(event.output.as_ref(), event.error.as_ref(), Some(success))?;
        let mut direct = self.evaluate(event.wave).evaluation;
        if event.status == v1::ResultStatus::Cancelled as i32 {
            // It adds no name, and says those of others not again.
            direct.failed_agents.clear();
            direct.critical_failures.clear();
            direct.optional_failures.clear();
        }
        Invariant::PolicyOutcome.check(same(event.evaluation.as_ref(), &direct), || {
            format!("{text}: {:?}, directly {direct:?}", event.evaluation)
        })
    }

    /// An output that breaks what its agent declares is never a success, and one that does not break it never fails for that.
    fn outputs_are_judged(
        &self,
        task: TaskRef,
        event: &v1::TaskSettled,
        broken: bool,
    ) -> Result<(), Violation> {
        let is_judged = matches!(self.kind, Kind::Plan { .. } | Kind::Pipeline(_));
        let Some(declared) = self.declared(task).filter(|_| is_judged) else { return Ok(()) };
        let counted = event.status == v1::ResultStatus::Success as i32
            && (breaks(&declared.agent, event.output.as_ref())
                || self.is_pipeline() && pipeline::breaks(event.output.as_ref()));
        let refused = event.error.as_ref().is_some_and(is_of_schema) && !broken;
        Invariant::OutputsPassTheirSchema.check(!counted && !refused, || {
            self.at(format!("{task} of {:?} ends with {:?}, {:?}", declared.agent, event.output, event.error))
        })
    }

    /// Whether the task is a run that would wait for the turn of its own ancestor.
    fn waits_for_itself(&self, task: TaskRef, code: &str) -> bool {
        let child = self.declared(task).and_then(|task| task.run.as_ref());
        let session = match child.and_then(|child| child.work.as_ref()) {
            Some(v1::child_run::Work::Ask(ask)) => ask.session.as_ref(),
            Some(v1::child_run::Work::Plan(plan)) => plan.session.as_ref(),
            Some(v1::child_run::Work::Script(_) | v1::child_run::Work::Pipeline(_)) | None => None,
        };
        code == "SESSION_HELD" && session.is_some_and(|session| self.held_sessions.contains(session))
    }

    pub(super) fn reactivated(&mut self, event: &v1::TaskReactivated) -> Result<(), Violation> {
        let text = self.at(format!("activation {} of {}", event.activation, place(event.wave, event.task)));
        let ended = self.ending.is_some() || self.waves.last().is_some_and(|wave| wave.decided);
        let model = self.in_work(place(event.wave, event.task))?;
        let failed =
            model.result.as_ref().is_some_and(|result| result.status != v1::ResultStatus::Success as i32);
        let follows = model.step == Step::Settled && failed && event.activation == model.activation + 1;
        Invariant::OneSettlement.check(follows && !ended, || text)?;
        let state = model.state;
        *model = TaskModel {
            state,
            activation: event.activation,
            attempt: 1,
            was_settled: true,
            resolved: model.resolved,
            ..TaskModel::default()
        };
        self.enters(place(event.wave, event.task), v1::TaskState::Active as i32)?;
        self.request(event.request_id.clone())
    }

    pub(super) fn wave_decided(&mut self, wave: u32, given: Option<v1::Evaluation>) -> Result<(), Violation> {
        let Judged { evaluation: direct, cancels_rest } = self.evaluate(wave);
        Invariant::PolicyOutcome.check(cancels_rest && same(given.as_ref(), &direct), || {
            self.at(format!("wave {wave} is decided: {given:?}, directly {direct:?}"))
        })?;
        if let Some(wave) = self.waves.get_mut(wave as usize) {
            wave.decided = true;
        }
        Ok(())
    }

    pub(super) fn wave_finished(
        &mut self,
        wave: u32,
        given: Option<v1::Evaluation>,
    ) -> Result<(), Violation> {
        let direct = self.evaluate(wave).evaluation;
        let text = self.at(format!("wave {wave} finishes: {given:?}, directly {direct:?}"));
        let current = (wave as usize) + 1 == self.waves.len();
        let Some(model) = self.waves.get_mut(wave as usize).filter(|_| current) else {
            return Invariant::WavesInOrder.broken(text);
        };
        let all = model.tasks.iter().all(|task| task.step == Step::Settled) && model.finished.is_none();
        Invariant::WavesInOrder.check(all, || text.clone())?;
        let tasks = (0..).map(|task| place(wave, task)).take(model.tasks.len());
        for task in tasks.collect::<Vec<_>>() {
            self.deadline_is_over(task)?;
        }
        let Some(model) = self.waves.get_mut(wave as usize) else { return Ok(()) };
        Invariant::PolicyOutcome.check(same(given.as_ref(), &direct), || text)?;
        model.finished = Some(direct.should_continue);
        Ok(())
    }

    pub(super) fn run_finished(&mut self, event: &v1::RunFinished) -> Result<(), Violation> {
        let open = self.waves.iter().flat_map(|wave| &wave.tasks).any(|task| task.step != Step::Settled);
        Invariant::WavesInOrder.check(!open, || self.at("the run ends with tasks that have not settled"))?;
        let failed = |task: &TaskModel| {
            task.result
                .as_ref()
                .and_then(|result| ResultStatus::from_proto(result.status))
                .is_some_and(ResultStatus::is_failure)
        };
        let expected = match (&self.ending, self.waves.last().and_then(|wave| wave.finished)) {
            (Some(Some(error)), _) if self.is_pipeline() && error.code == "PHASE_BLOCKED" => {
                v1::RunOutcome::Blocked
            }
            (Some(Some(_)), _) => v1::RunOutcome::Failed,
            (None, Some(false)) if matches!(self.kind, Kind::Plan { .. }) => v1::RunOutcome::Failed,
            (Some(None), _) => v1::RunOutcome::Cancelled,
            (None, _) if !matches!(self.kind, Kind::Plan { .. }) => {
                let own = self.ask_outcome().or(self.script_outcome()).or(self.pipeline_outcome());
                match own.or_else(|| self.mode_outcome()) {
                    Some(outcome) => outcome,
                    None => {
                        return Invariant::WavesInOrder
                            .broken(self.at(format!("it ends in the middle: {:?}", self.kind)));
                    }
                }
            }
            (None, Some(true)) if self.waves.len() == self.plan.waves.len() => {
                let any = self.waves.iter().flat_map(|wave| &wave.tasks).any(failed);
                if any { v1::RunOutcome::SucceededWithFailures } else { v1::RunOutcome::Succeeded }
            }
            _ => return Invariant::WavesInOrder.broken(self.at("the run ends in the middle of its waves")),
        };
        Invariant::PolicyOutcome.check(event.outcome == expected as i32, || {
            self.at(format!("outcome {}, expected {expected:?}", event.outcome))
        })?;
        let summary = self.summary();
        Invariant::PolicyOutcome.check(event.summary == Some(summary), || {
            self.at(format!("its failures are {:?}, counted {summary:?}", event.summary))
        })?;
        self.finished = Some(event.outcome);
        self.failed_with = event.error.as_ref().map(|error| error.severity).filter(|severity| *severity != 0);
        Ok(())
    }
}

/// Whether it says that an output breaks its schema.
fn is_of_schema(error: &v1::Error) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.cause.as_deref());
    causes.into_iter().any(|error| error.message.contains("breaks its schema"))
}

fn may_fail_without_lease(code: &str, live: Option<&LeaseModel>) -> bool {
    let unanswered = live.and_then(|lease| lease.cancel) == Some(v1::CancelReason::AttemptTimeout as i32);
    WITHOUT_LEASE.contains(&code) || (AFTER_ATTEMPT_TIMEOUT.contains(&code) && unanswered)
}

/// What a scripted worker puts into each of its outputs.
#[must_use]
pub fn signature(lease: u64, worker: &str) -> String {
    format!("\"lease\":{lease},\"worker\":\"{worker}\"")
}

fn is_output_of(output: Option<&v1::Payload>, lease: u64, worker: &str) -> bool {
    match output.and_then(|output| output.data.as_ref()) {
        Some(Data::Inline(bytes)) => {
            let signature = signature(lease, worker);
            let said = crate::modes::said(lease, worker);
            let contains = |part: &str| bytes.windows(part.len()).any(|window| window == part.as_bytes());
            contains(&signature) || contains(&said)
        }
        // What tells the worker is not in the excerpt; a lease has one worker.
        Some(Data::Blob(blob)) => {
            let excerpt = blob.answer.as_ref().map_or("", |excerpt| excerpt.response.as_str());
            excerpt.contains(&format!("\"text\":\"answer {lease}\""))
        }
        None => false,
    }
}
