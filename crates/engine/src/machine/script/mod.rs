//! A script: browser actions, one after the other (seed 002). To open the browser, to perform an action, to recover and
//! to close are waves of one task each, for the browser's host.

pub(in crate::machine) mod activity;
mod browser;
mod failure;
mod limits;
pub(in crate::machine) mod outcome;
mod proposal;
pub(crate) mod state;

use capataz_contracts::v1::{self, AfterFailure, BrowserActivity, event::Body, run_result};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::retry;

use super::{Binding, Command, Kind, Step, Verdict};
use crate::decide::{Refusal, not_a_session, schedule_to_start_error};
use crate::fold::activity::End;
use crate::fold::state::{Moment, RunState};
use crate::input::{QueryAnswer, TaskRef};
use crate::machine::own_browser::OwnBrowser;
use crate::query::{Query, QueryId};
use state::{BrowserWork, ScriptState};

/// What a script does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Open,
    /// An activity is in work.
    Wait,
    /// Nobody has proposed the next action yet.
    AwaitProposal,
    Act {
        step: u32,
    },
    Recover {
        step: u32,
    },
    /// The last activity has ended without an error of the executor: the host is asked for one.
    Explain,
    Close,
    Finish,
}

impl ScriptState {
    fn what_next(&self, run: &RunState) -> Next {
        let (Some(wave), Some(work)) = (run.waves.last(), self.activities.last()) else { return Next::Open };
        let Some(end) = wave.tasks.first().and_then(|activity| activity.end.as_ref()) else {
            return Next::Wait;
        };
        let succeeded = end.status == ResultStatus::Success;
        match work.activity {
            // A recovery does not decide about the action, whatever became of it.
            BrowserActivity::Recovery => Next::Act { step: work.step },
            // One that is opened again is opened for what was to be done next.
            BrowserActivity::Open if succeeded => self.go_on(work.step),
            BrowserActivity::Action if succeeded => self.go_on(work.step.saturating_add(1)),
            BrowserActivity::Close if succeeded => Next::Finish,
            BrowserActivity::Open
            | BrowserActivity::Action
            | BrowserActivity::Close
            | BrowserActivity::Observe
            | BrowserActivity::Unspecified => {
                self.not_begun(work, end).unwrap_or_else(|| self.after_failure(work))
            }
        }
    }

    fn after_failure(&self, work: &BrowserWork) -> Next {
        match work.after_failure {
            AfterFailure::Recover => Next::Recover { step: work.step },
            AfterFailure::Continue => self.go_on(work.step.saturating_add(1)),
            AfterFailure::Halt => Next::Finish,
            // The host has been asked already.
            AfterFailure::Unspecified | AfterFailure::Retry if work.decided => Next::Finish,
            AfterFailure::Unspecified | AfterFailure::Retry => Next::Explain,
        }
    }

    fn go_on(&self, step: u32) -> Next {
        if self.error.is_some() {
            return Next::Finish;
        }
        match self.action(step) {
            Some(_) => Next::Act { step },
            None if self.script.interactive && !self.closing => Next::AwaitProposal,
            None => Next::Close,
        }
    }

    /// After how long an idle session is closed, if it waits for a proposal after this action or after the opening.
    /// Milliseconds. Nobody waits for a proposal to a browser that is lost.
    fn idle_after(&self, next_step: u32) -> Option<i64> {
        let is_lost = matches!(self.browser, OwnBrowser::Lost { .. });
        let waits = !is_lost && self.go_on(next_step) == Next::AwaitProposal;
        waits.then(|| self.idle_timeout_ms())
    }
}

/// How the last activity ended.
fn last_end(run: &RunState) -> Option<&End> {
    run.waves.last()?.tasks.first()?.end.as_ref()
}

impl Kind for ScriptState {
    fn run_kind(&self) -> v1::RunKind {
        v1::RunKind::Script
    }

    fn next(&self, run: &RunState, _now: Moment) -> Vec<Step> {
        let next = self.what_next(run);
        if let Some(begun) = self.without_browser(run, next) {
            return vec![begun];
        }
        let begun = match next {
            Next::Open => self.begin(run, BrowserActivity::Open, None, None),
            Next::Act { step } => {
                let halt = failure::halt_before(self, step, activity::changes_something(self.action(step)));
                self.begin(run, BrowserActivity::Action, Some(step), halt)
            }
            Next::Recover { step } => self.begin(run, BrowserActivity::Recovery, Some(step), None),
            Next::Explain => match (self.activities.last(), last_end(run)) {
                (Some(work), Some(end)) => {
                    let step_index = (work.activity == BrowserActivity::Action).then_some(work.step);
                    let failure = self.lost_failure().unwrap_or_else(|| failure::unexplained(end));
                    self.begin(run, work.activity, step_index, Some(failure))
                }
                _ => Step::Wait,
            },
            Next::Close => self.begin(run, BrowserActivity::Close, None, None),
            Next::Finish => outcome::finish(self, run),
            Next::AwaitProposal | Next::Wait => Step::Wait,
        };
        vec![begun]
    }

    fn completed(&self, run: &RunState, task: TaskRef, output: v1::Payload, now: Moment) -> Verdict {
        outcome::reported(self, run, task, &output, now)
    }

    fn failed(&self, _: &RunState, _: TaskRef, error: v1::Error) -> Verdict {
        Verdict::attempt_failed(error)
    }

    fn attempt_too_late(&self, run: &RunState, task: TaskRef) -> v1::Error {
        retry::attempt_timeout_error(run.plan.retry_of(task).timeout_per_attempt().unwrap_or_default())
    }

    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error) {
        (ResultStatus::Timeout, schedule_to_start_error(run, task))
    }

    fn declares_tasks(&self) -> bool {
        false
    }

    /// Returns false, because a script has its own policy for failures.
    fn aborts_when_critical(&self) -> bool {
        false
    }

    fn asks_when_high(&self) -> bool {
        false
    }

    fn asks_at_deadline(&self) -> bool {
        false
    }

    fn outcome_may_be_given(&self) -> bool {
        false
    }

    fn outcome_given(&self, now: Moment) -> Vec<Body> {
        outcome::given(self, now).into_iter().collect()
    }

    /// Refuses: no person can run an ended action of a script again.
    fn may_run_again(&self, _: &RunState, _: TaskRef, name: &str) -> Result<(), Refusal> {
        let mut error = lifecycle::refused(TaskState::Failed, TaskState::Active);
        error.message =
            format!("{name:?} belongs to a script: start the script again, or propose the action again");
        error.suggested_action = None;
        error.options = vec!["abort".to_owned()];
        Err(Refusal::Rule(Box::new(error)))
    }

    fn open_query(&self, _: &RunState) -> Option<(QueryId, Query)> {
        None
    }

    fn answered(&self, _: &RunState, _: QueryAnswer, _: Moment) -> Result<Vec<Step>, Refusal> {
        Err(Refusal::Outdated)
    }

    fn digest(&self, run: &RunState, request_id: &str, command: &Command) -> String {
        proposal::digest(self, run, request_id, command)
    }

    fn command(&self, run: &RunState, command: Command, request_id: String) -> Result<Vec<Step>, Refusal> {
        match command {
            Command::Propose(action) => proposal::propose(self, run, *action, request_id),
            Command::CloseBrowser => proposal::close(self, request_id),
            command => Err(not_a_session(&command)),
        }
    }

    /// Closes a session to which nobody has proposed anything for too long.
    fn overdue(&self) -> Vec<Step> {
        vec![Step::Record(Body::BrowserCloseRequested(v1::BrowserCloseRequested {
            request_id: String::new(),
            idle: true,
        }))]
    }

    fn turn_has_come(&self, _: &RunState, _: v1::SessionContext) -> Result<Vec<Step>, Refusal> {
        Err(Refusal::Outdated)
    }

    fn session(&self) -> Option<&str> {
        None
    }

    fn awaits_turn(&self) -> bool {
        false
    }

    fn session_turn(&self, _: &RunState, _: &str) -> Option<v1::SessionTurn> {
        None
    }

    fn may_be_forked(&self) -> bool {
        self.has_no_browser()
    }

    fn uses_browser(&self) -> bool {
        true
    }

    fn has_open_browser(&self) -> bool {
        self.browser.may_be_open()
    }

    fn binding(&self) -> Option<Binding<'_>> {
        self.browser.binding()
    }

    fn cannot_begin(&self, _: &RunState, _: TaskRef) -> Option<v1::Error> {
        self.no_browser()
    }

    fn browser_lost(&self, worker: &str, reason: v1::BrowserLossReason) -> Result<Vec<Step>, Refusal> {
        let lost = self.browser.lost_by(worker, reason).ok_or(Refusal::Outdated)?;
        Ok(vec![Step::Record(lost)])
    }

    fn put_away(&self) -> Vec<Step> {
        self.browser.put_away()
    }

    fn blobs_of(&self, output: &v1::Payload) -> Vec<v1::BlobRef> {
        outcome::evidence_blobs(output)
    }

    fn result(&self, _: &RunState) -> Option<run_result::Work> {
        let outputs = self.outputs.iter();
        Some(run_result::Work::Script(Box::new(v1::ScriptResult {
            outputs: outputs
                .map(|(name, value)| v1::ActionOutput {
                    name: name.clone(),
                    value: value.clone(),
                    ..v1::ActionOutput::default()
                })
                .collect(),
            succeeded: self.succeeded,
            failed: self.failed,
            total: u32::try_from(self.script.actions.len()).unwrap_or(u32::MAX),
            error: self.error.clone(),
        })))
    }
}
