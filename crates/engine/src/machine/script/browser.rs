//! A browser is its run's own: which worker has it, and what follows where it is lost, or closed while the run waited for a
//! person. Nothing that was to be done in it is done in another one.

use capataz_contracts::v1::{self, BrowserActivity};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::executor::code::BROWSER_LOST;
use capataz_policy::severity::Severity;
use serde_json::json;

use super::Next;
use super::activity::may_repeat;
use super::state::{BrowserWork, ScriptState};
use crate::fold::activity::End;
use crate::fold::state::RunState;
use crate::machine::Step;
use crate::machine::own_browser::{OwnBrowser, how_lost};

impl ScriptState {
    /// The error of the activity that waits, where the browser that it was for is not there. What was decided to fail
    /// needs none, and what was kept is still to be opened.
    pub(super) fn no_browser(&self) -> Option<v1::Error> {
        let work = self.activities.last()?;
        if work.decided {
            return None;
        }
        let message = match &self.browser {
            OwnBrowser::None | OwnBrowser::Open { .. } => return None,
            OwnBrowser::Kept { .. } if work.activity == BrowserActivity::Open => return None,
            OwnBrowser::Kept { .. } => {
                "it had not begun when the browser was closed, and begins anew when that is open again"
                    .to_owned()
            }
            OwnBrowser::Lost { worker, reason } => how_lost(worker, *reason),
        };
        Some(v1::Error {
            code: BROWSER_LOST.to_owned(),
            message,
            severity: Severity::High.to_proto().into(),
            can_continue: Some(matches!(self.browser, OwnBrowser::Kept { .. })),
            ..v1::Error::default()
        })
    }

    /// What follows an activity that was taken back before it began, because its browser was closed meanwhile.
    pub(super) fn not_begun(&self, work: &BrowserWork, end: &End) -> Option<Next> {
        let taken_back = end.error.as_ref().is_some_and(|error| error.code == BROWSER_LOST);
        if !taken_back || work.decided || !matches!(self.browser, OwnBrowser::Kept { .. }) {
            return None;
        }
        match work.activity {
            BrowserActivity::Action => Some(Next::Act { step: work.step }),
            BrowserActivity::Close => Some(Next::Close),
            BrowserActivity::Open
            | BrowserActivity::Recovery
            | BrowserActivity::Observe
            | BrowserActivity::Unspecified => None,
        }
    }

    /// What begins instead of that which is next, where there is no browser for it: one that was kept is opened again, and
    /// what needs one that is lost fails.
    pub(super) fn without_browser(&self, run: &RunState, next: Next) -> Option<Step> {
        let (activity, step) = match next {
            Next::Act { step } => (BrowserActivity::Action, Some(step)),
            Next::Recover { step } => (BrowserActivity::Recovery, Some(step)),
            Next::Close => (BrowserActivity::Close, None),
            // Nobody is to propose anything to a browser that is not there.
            Next::AwaitProposal if matches!(self.browser, OwnBrowser::Lost { .. }) => {
                (BrowserActivity::Close, None)
            }
            Next::Open | Next::Wait | Next::AwaitProposal | Next::Explain | Next::Finish => return None,
        };
        match &self.browser {
            OwnBrowser::None | OwnBrowser::Open { .. } => None,
            // There is nothing to be closed, and nobody has asked for what it kept.
            OwnBrowser::Kept { .. } if activity == BrowserActivity::Close && !self.names_storage() => {
                let outcome = match self.failed {
                    0 => v1::RunOutcome::Succeeded,
                    _ => v1::RunOutcome::SucceededWithFailures,
                };
                Some(Step::Finish { outcome, error: None })
            }
            OwnBrowser::Kept { .. } => {
                let end = u32::try_from(self.script.actions.len()).unwrap_or(u32::MAX);
                Some(self.begin(run, BrowserActivity::Open, Some(step.unwrap_or(end)), None))
            }
            OwnBrowser::Lost { .. } => Some(self.begin(run, activity, step, self.lost_failure())),
        }
    }

    /// Returns whether the page that was shown may be loaded again. Its address may stand for whatever was done since a
    /// navigation named it, as a link or a form does that ends in a GET: nobody is asked before it is loaded, so each of
    /// these actions has to be one that may be repeated.
    pub(super) fn may_show_again(&self, run: &RunState) -> bool {
        for (work, wave) in self.activities.iter().zip(&run.waves).rev() {
            let Some(task) = wave.tasks.first() else { return false };
            // What nobody was given has sent nothing to the page.
            if work.decided || task.attempt == 0 {
                continue;
            }
            let action = match work.activity {
                BrowserActivity::Action => self.action(work.step),
                BrowserActivity::Open | BrowserActivity::Close => continue,
                // A recovery may have gone back to a page of which nothing is known here.
                BrowserActivity::Recovery | BrowserActivity::Observe | BrowserActivity::Unspecified => None,
            };
            let Some(action) = action.filter(|action| may_repeat(action)) else { return false };
            let succeeded = task.end.as_ref().is_some_and(|end| end.status == ResultStatus::Success);
            match action.kind() {
                v1::ActionKind::Navigate if succeeded => return true,
                v1::ActionKind::Back | v1::ActionKind::Forward => return false,
                _ => {}
            }
        }
        false
    }

    /// Returns whether the storage state is to be kept under a name when the script has ended well.
    fn names_storage(&self) -> bool {
        self.script.browser.as_ref().is_some_and(|browser| browser.storage_state.is_some())
    }

    /// The failure of whatever is to be done in a browser that is lost.
    pub(super) fn lost_failure(&self) -> Option<v1::DecidedFailure> {
        let OwnBrowser::Lost { worker, reason } = &self.browser else { return None };
        let message = how_lost(worker, *reason);
        let details = json!({ "reason": message, "worker": worker });
        Some(v1::DecidedFailure {
            error_code: BROWSER_LOST.to_owned(),
            message,
            details: Some(details.to_string()),
        })
    }
}
