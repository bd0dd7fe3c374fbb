//! A task whose time is over: what is asked about it, and what comes of the answer.

use capataz_contracts::v1;
use capataz_engine::TaskRef;

use super::log::{RunModel, Step};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};

/// What is known of a task's deadline and of its end.
#[derive(Clone, Debug, Default)]
pub struct DeadlineModel {
    /// What was answered since the work was told to end.
    answer: Option<String>,
    /// It has ended as timed out, and something of its output is known.
    has_partial: bool,
    /// That is its output.
    is_kept: bool,
    /// A question about its deadline has shown what there was of its output.
    is_shown: bool,
    /// The notice of its present deadline was given.
    is_warned: bool,
}

/// A warning is given when less than this is left. Milliseconds.
const WARNED_BELOW: i64 = 60_000;

impl RunModel {
    pub(super) fn noticed(&mut self, event: &v1::Notice) -> Result<(), Violation> {
        if event.kind() != v1::NoticeKind::TimeoutImminent {
            return Ok(());
        }
        let (Some(wave), Some(task)) = (event.wave, event.task) else {
            return Invariant::WarnedInTime.broken(self.at("a warning of no task"));
        };
        let (task, elapsed) = (TaskRef { wave, task }, self.elapsed);
        let text = self.at(format!("{task} is warned of its deadline after {elapsed} ms"));
        let model = self.in_work(task)?;
        let left = model.due.map_or(0, |due| due - elapsed);
        let is_first = !std::mem::replace(&mut model.at_deadline.is_warned, true);
        let in_time = (1..WARNED_BELOW).contains(&left);
        Invariant::WarnedInTime.check(is_first && in_time, || format!("{text}, with {left} ms left"))
    }

    /// The task has another deadline.
    pub(super) fn deadline_moved(&mut self, task: TaskRef) -> Result<(), Violation> {
        self.in_work(task)?.at_deadline.is_warned = false;
        Ok(())
    }

    /// The work is told to end because its time is over: whatever was answered before was about an earlier deadline.
    pub(super) fn deadline_exceeded(&mut self, task: TaskRef) -> Result<(), Violation> {
        self.in_work(task)?.at_deadline.answer = None;
        Ok(())
    }

    pub(super) fn asked_at_deadline(
        &mut self,
        task: TaskRef,
        question: &v1::Question,
    ) -> Result<(), Violation> {
        let options = &question.options;
        let text = self.at(format!("{options:?} are offered for {task}, whose time is said to be over"));
        let lease = match self.in_work(task)?.step {
            Step::Leased(token) => self.leases.get(&token),
            _ => None,
        };
        let Some(lease) = lease.filter(|lease| lease.cancel == Some(v1::CancelReason::Timeout as i32)) else {
            return Invariant::DeadlineAnswered.broken(text);
        };
        // What cannot go on once it was told to end gets no more time.
        let mut expected = vec!["extend", "terminate", "retry", "abort"];
        expected.retain(|option| *option != "extend" || !lease.cancel_is_final);
        // A failure that ends the run cannot be tried again.
        let declared = self.declared(task).and_then(|task| task.severity);
        expected.retain(|option| *option != "retry" || declared != Some(v1::Severity::Critical as i32));
        let asks = matches!(self.kind, Kind::Plan { .. }) && !self.is_asked_at_deadline(task);
        let detail = question.error.as_ref().and_then(|error| error.timeout.as_ref());
        let shows = detail.is_some_and(|detail| detail.partial_output.is_some());
        let model = &mut self.in_work(task)?.at_deadline;
        let still = shows || !model.is_shown;
        model.is_shown = shows;
        Invariant::DeadlineAnswered.check(asks && *options == expected && still, || text)
    }

    /// What was answered counts as long as the work is told to end.
    pub(super) fn answered_at_deadline(&mut self, task: TaskRef, answer: String) -> Result<(), Violation> {
        let cancel = match self.in_work(task)?.step {
            Step::Leased(token) => self.leases.get(&token).and_then(|lease| lease.cancel),
            _ => None,
        };
        if cancel == Some(v1::CancelReason::Timeout as i32) {
            self.in_work(task)?.at_deadline.answer = Some(answer);
        }
        Ok(())
    }

    /// More time within the grace is given only where the work can go on.
    pub(super) fn withdrawn_at_deadline(&mut self, task: TaskRef) -> Result<(), Violation> {
        let text = self.at(format!("the cancel of {task} is withdrawn"));
        let lease = match self.in_work(task)?.step {
            Step::Leased(token) => self.leases.get(&token),
            _ => None,
        };
        let may = lease.is_some_and(|lease| !lease.cancel_is_final);
        self.in_work(task)?.at_deadline.answer = None;
        Invariant::DeadlineAnswered.check(may, || text)
    }

    /// The task has settled with this error.
    pub(super) fn settled_at_deadline(
        &mut self,
        task: TaskRef,
        status: i32,
        error: Option<&v1::Error>,
    ) -> Result<(), Violation> {
        let text = self.at(format!("{task} settles"));
        let timed_out = status == v1::ResultStatus::Timeout as i32;
        // Its work was lost, or is another run's, after it had been shown; that it was not taken up again is no end of it.
        let untaken = error.is_some_and(|error| error.code == "SCHEDULE_TO_START_TIMEOUT");
        let partial = error.and_then(|error| error.timeout.as_ref()?.partial_output.as_ref());
        let model = &mut self.in_work(task)?.at_deadline;
        let is_lost = timed_out && !untaken && model.is_shown && partial.is_none();
        model.is_shown = false;
        model.has_partial = timed_out && partial.is_some();
        model.is_kept = false;
        let extended = timed_out && model.answer.as_deref() == Some("extend");
        Invariant::DeadlineAnswered.check(!is_lost, || format!("{text} without what it has shown"))?;
        Invariant::DeadlineAnswered
            .check(!extended, || format!("{text}, and somebody has given it more time"))
    }

    pub(super) fn partial_kept(&mut self, task: TaskRef) -> Result<(), Violation> {
        let text = self.at(format!("the partial output of {task} is kept"));
        let answered = |question: &super::log::QuestionModel| {
            question.task == Some(task) && question.answer.as_deref() == Some("terminate")
        };
        let is_wanted = self.questions.values().any(answered);
        let model = self.in_work(task)?;
        let may = model.step == Step::Settled && model.at_deadline.has_partial && !model.at_deadline.is_kept;
        model.at_deadline.is_kept = true;
        Invariant::DeadlineAnswered.check(may && is_wanted, || text)
    }

    /// Nothing more becomes of this task's present life.
    pub(super) fn deadline_is_over(&self, task: TaskRef) -> Result<(), Violation> {
        let Some(model) = self.task(task) else { return Ok(()) };
        let text = |what: &str| self.at(format!("{task}: {what}"));
        Invariant::DeadlineAnswered
            .check(!self.is_asked_at_deadline(task), || text("its deadline is asked about after its end"))?;
        let deadline = &model.at_deadline;
        let lost =
            deadline.answer.as_deref() == Some("terminate") && deadline.has_partial && !deadline.is_kept;
        Invariant::DeadlineAnswered.check(!lost, || text("what it had was to be kept"))?;
        let forgotten = deadline.answer.as_deref() == Some("retry") && self.ending.is_none();
        Invariant::DeadlineAnswered.check(!forgotten, || text("it was to begin again"))
    }

    fn is_asked_at_deadline(&self, task: TaskRef) -> bool {
        self.open_questions().any(|(_, question)| question.at_deadline && question.task == Some(task))
    }
}
