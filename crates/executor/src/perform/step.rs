//! What is known about an action while it is performed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capataz_contracts::v1::{self, ActionStage, Criticality, StageRecord};

use super::policy::may_be_lowered;
use super::{Clock, Performer, Secrets, Task};
use crate::dsl::{Action, Policy};
use crate::error::{Failure, Phase, criticality_of};
use crate::evidence::{Piece, Seen};
use crate::page::{Element, FailedDocument, Look, Node, Page, PageError, Struck};
use crate::redact::Redactor;

/// The pause after which a page that shows no change is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(super) struct Step<'a, P> {
    pub(super) page: &'a mut P,
    pub(super) policy: &'a Policy,
    pub(super) redactor: &'a mut Redactor,
    pub(super) upload_folders: &'a [PathBuf],
    pub(super) secrets: &'a dyn Secrets,
    pub(super) clock: &'a dyn Clock,
    pub(super) task: &'a Task,
    pub(super) stages: Vec<StageRecord>,
    /// Declared, by nature, or raised by the policy.
    pub(super) criticality: Criticality,
    /// The page before anything was sent to it.
    pub(super) before: Option<Seen>,
    pub(super) after: Option<Seen>,
    pub(super) element: Option<Element>,
    /// What the pointer would use within the element.
    pub(super) struck: Option<Arc<Struck>>,
    /// The look at the target that has shown whether its selector can be read; it is the first that counts.
    pub(super) first_look: Option<Look>,
    /// Where there is more than one: the first of those that match.
    pub(super) matches: Vec<Node>,
    pub(super) resolution: Option<v1::ResolutionRecord>,
    /// What the page did since the last action, as it has it: not redacted.
    pub(super) changes: v1::PageChanges,
    /// The newest document that did not come.
    pub(super) failed_document: Option<FailedDocument>,
    /// The downloads that an earlier action has begun: how many have ended before the input, and the paths of the others.
    pub(super) earlier_downloads: (usize, Vec<String>),
    /// Where the page was, if a URL tells of a failed sign-in.
    pub(super) url_before: String,
    /// Texts that tell of a failed sign-in and were there before.
    pub(super) auth_texts_before: Vec<String>,
    pub(super) touched: bool,
    /// A click was stopped before anything received it.
    pub(super) was_stopped: bool,
    /// Evidence beyond that of failures.
    pub(super) pieces: Vec<Piece>,
    pub(super) output: Option<v1::ActionOutput>,
}

/// Longest time for an answer beyond the end of an action's own time: the last look at a page is to be answered, too.
const LAST_READ: Duration = Duration::from_secs(2);

/// A moment after which nothing is waited for any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Duration);

impl Deadline {
    /// The time that is left; `None` if there is none.
    pub(super) fn left(self, clock: &dyn Clock) -> Option<Duration> {
        self.0.checked_sub(clock.monotonic()).filter(|left| !left.is_zero())
    }
}

/// Where an action failed, and why.
pub(super) type Failed = (ActionStage, Failure);

impl<'a, P: Page> Step<'a, P> {
    pub(super) fn new(
        performer: &'a mut Performer,
        page: &'a mut P,
        task: &'a Task,
        secrets: &'a dyn Secrets,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            page,
            policy: &performer.policy,
            redactor: &mut performer.redactor,
            upload_folders: &performer.upload_folders,
            secrets,
            clock,
            task,
            stages: Vec::new(),
            criticality: criticality_of(&task.action, may_be_lowered(&performer.policy, task)),
            before: None,
            after: None,
            element: None,
            struck: None,
            first_look: None,
            matches: Vec::new(),
            resolution: None,
            changes: v1::PageChanges::default(),
            failed_document: None,
            url_before: String::new(),
            earlier_downloads: (0, Vec::new()),
            auth_texts_before: Vec::new(),
            touched: false,
            was_stopped: false,
            pieces: Vec::new(),
            output: None,
        }
    }

    /// The limit of what comes before the input, and again of what is waited for after it.
    pub(super) fn timeout(&self, action: &Action) -> Duration {
        action.timeout.unwrap_or(if action.traits.navigates {
            self.policy.navigation_timeout
        } else {
            self.policy.action_timeout
        })
    }

    pub(super) fn deadline(&self, action: &Action) -> Deadline {
        Deadline(self.clock.monotonic().saturating_add(self.timeout(action)))
    }

    /// What is read of the page from now on has no more time than the action.
    pub(super) fn limit_reads(&mut self, deadline: Deadline) {
        let left = deadline.left(self.clock).unwrap_or_default();
        self.page.limit_reads(Some(left + LAST_READ));
    }

    /// Waits for a change of the page, or for a moment: downloads and requests change no document. False where no time
    /// is left.
    pub(super) async fn wait(&mut self, deadline: Deadline) -> Result<bool, PageError> {
        let Some(left) = deadline.left(self.clock) else { return Ok(false) };
        self.page.changed(left.min(LOOK_AGAIN)).await?;
        Ok(true)
    }

    /// What began before the input proves nothing of it, though it may end after it.
    pub(super) fn note_downloads(&mut self) {
        self.absorb();
        self.earlier_downloads = (self.changes.downloads.len(), self.page.pending_downloads());
    }

    /// The downloads that have ended and were begun by this action; of one that only waits, all.
    pub(super) fn own_downloads(&self) -> impl Iterator<Item = &v1::DownloadRecord> {
        let (ended, pending) = &self.earlier_downloads;
        let new = self.changes.downloads.iter().skip(*ended);
        new.filter(|download| download.path.is_empty() || !pending.contains(&download.path))
    }

    /// True if the action sends something to the page; a picture is then taken before it.
    pub(super) fn sends(action: &Action) -> bool {
        use v1::ActionKind::{Hover, ScrollTo};
        action.traits.changes || matches!(action.kind, Hover | ScrollTo)
    }
}

/// The failure of an action whose page could not be read in this phase.
pub(super) fn read_failed(error: &PageError, phase: Phase) -> Failure {
    match error {
        PageError::Lost { reason } => Failure::lost(reason),
        error => {
            let args = serde_json::json!({"observed": error.to_string()});
            Failure::of_condition(phase, "page_readable", args).caused_by(error)
        }
    }
}
