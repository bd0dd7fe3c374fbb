//! What the state of a script has beside its waves: to open the browser, to perform an action, to recover and to close
//! are waves of one task each. Part of the fold.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, AfterFailure, BrowserActivity, event::Body};
use prost::encoding::message;

use crate::fold::state::{Moment, Timestamp};
use crate::fold::{bytes, digest};
use crate::machine::Applied;
use crate::machine::own_browser::OwnBrowser;
use crate::snapshot::{as_bytes, number};

/// The kinds of evidence that are named again when the browser can no longer be asked.
const LASTING_EVIDENCE: &[&str] = &["dom_snapshot_partial", "state_signature"];

/// The number of the field `actions` in a script.
const ACTIONS: u32 = 2;

/// What only a script has.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ScriptState {
    /// With every default filled in. Actions that are proposed are added to it.
    #[serde(with = "as_bytes::one")]
    pub(super) script: v1::Script,
    /// One for each wave; grows at its end only.
    pub(super) activities: Vec<BrowserWork>,
    /// JSON texts by the names of the outputs.
    pub(super) outputs: BTreeMap<String, String>,
    /// How often the browser came into a state, by the signature's parts.
    arrivals: BTreeMap<String, u32>,
    /// The state in which the browser was seen last, and the evidence of it.
    #[serde(with = "as_bytes::option")]
    pub(super) last_state: Option<v1::StateSignature>,
    #[serde(with = "as_bytes::list")]
    pub(super) last_evidence: Vec<v1::EvidenceRef>,
    /// Retries and recoveries of the action in work.
    pub(super) retries: u32,
    pub(super) recoveries: u32,
    /// The code that the last recovery was for.
    pub(super) recovering_from: String,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    /// Why the script ends.
    #[serde(with = "as_bytes::option")]
    pub(super) error: Option<v1::ExecutorError>,
    pub(super) closing: bool,
    /// When an interactive session that waits for a proposal is closed.
    pub(crate) idle_at: Option<Timestamp>,
    /// The run's own browser.
    pub(super) browser: OwnBrowser,
}

/// What a wave of a script is for.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct BrowserWork {
    #[serde(with = "number")]
    pub(super) activity: BrowserActivity,
    /// The place of the action: the one that is performed, or that a recovery or a new browser is for.
    pub(super) step: u32,
    /// The action is meant to change the page, or what is behind it.
    changes: bool,
    /// What follows from its failure; unspecified before it has failed.
    #[serde(with = "number")]
    pub(super) after_failure: AfterFailure,
    /// True when nothing is performed, because the engine has decided that the activity fails.
    pub(super) decided: bool,
}

impl ScriptState {
    pub(crate) fn new(script: v1::Script) -> Self {
        Self {
            script,
            activities: Vec::new(),
            outputs: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            last_state: None,
            last_evidence: Vec::new(),
            retries: 0,
            recoveries: 0,
            recovering_from: String::new(),
            succeeded: 0,
            failed: 0,
            error: None,
            closing: false,
            idle_at: None,
            browser: OwnBrowser::None,
        }
    }

    pub(crate) fn rename_run(&mut self, of: &str, own: &str) {
        if self.script.run_id == of {
            own.clone_into(&mut self.script.run_id);
        }
    }

    /// The policy by which its actions are performed.
    pub(crate) fn policy(&self) -> Option<&v1::ScriptPolicy> {
        self.script.policy.as_ref()
    }

    /// Returns whether no browser was opened for it, as far as anybody knows.
    pub(super) fn has_no_browser(&self) -> bool {
        let opens = |work: &BrowserWork| work.activity == BrowserActivity::Open;
        self.browser == OwnBrowser::None && self.last_state.is_none() && self.activities.iter().all(opens)
    }

    /// The bytes that it holds.
    pub(crate) fn bytes(&self) -> u64 {
        let actions = bytes::length(message::encoded_len_repeated(ACTIONS, &self.script.actions));
        let outputs = self.outputs.iter().map(|(name, value)| bytes::text(name) + bytes::text(value));
        let parts = [
            bytes::message(&self.script).saturating_sub(actions),
            bytes::messages(&self.script.actions),
            bytes::length(self.activities.len()).saturating_mul(bytes::ENTRY),
            outputs.sum(),
            self.arrivals.keys().map(|state| bytes::text(state)).sum(),
            self.changing_bytes(),
        ];
        parts.iter().sum()
    }

    /// The bytes of the parts that its events replace.
    pub(crate) fn changing_bytes(&self) -> u64 {
        let parts = [
            bytes::optional(self.last_state.as_ref()),
            bytes::messages(&self.last_evidence),
            bytes::text(&self.recovering_from),
            bytes::optional(self.error.as_ref()),
            self.browser.bytes(),
        ];
        parts.iter().sum()
    }

    pub(crate) fn apply(&mut self, body: Body, at: Moment) -> Option<Applied> {
        let mut applied = Applied::default();
        match body {
            Body::BrowserActivityStarted(event) => {
                self.idle_at = None;
                self.activity_begun(&event);
                applied.added_bytes = bytes::ENTRY;
                applied.wave = Some((event.number, event.wave?));
            }
            Body::BrowserOpened(event) => {
                self.idle_at = event.idle_in_ms.map(|wait| at.clock.plus(wait));
                self.browser.opened(event);
            }
            Body::ActionProposed(event) => {
                self.idle_at = None;
                let action = event.action?;
                applied.added_bytes = bytes::message(&action);
                self.script.actions.push(action);
                applied.request = Some((event.request_id, digest::propose(event.step_index)));
            }
            Body::ActionFinished(event) => self.action_finished(*event, at, &mut applied),
            Body::ActionFailed(event) => self.action_failed(*event, at, &mut applied)?,
            Body::BrowserCloseRequested(event) => {
                self.idle_at = None;
                self.closing = true;
                applied.request = Some((event.request_id, digest::CLOSE.to_owned()));
            }
            Body::BrowserClosed(event) => self.browser.closed(event),
            Body::BrowserLost(event) => {
                self.idle_at = None;
                self.browser.lost(event);
            }
            Body::StageFinished(_) => {}
            _ => return None,
        }
        Some(applied)
    }

    fn activity_begun(&mut self, event: &v1::BrowserActivityStarted) {
        let (activity, step) = (event.activity(), event.step_index.unwrap_or_default());
        if activity == BrowserActivity::Action && !self.has_begun(step) {
            self.retries = 0;
            self.recoveries = 0;
        }
        self.activities.push(BrowserWork {
            activity,
            step,
            changes: event.changes,
            after_failure: AfterFailure::Unspecified,
            decided: event.failure.is_some(),
        });
    }

    /// Returns whether the action of this number is the one that began last.
    pub(super) fn has_begun(&self, step: u32) -> bool {
        let mut actions =
            self.activities.iter().rev().filter(|work| work.activity == BrowserActivity::Action);
        actions.next().is_some_and(|work| work.step == step)
    }

    fn action_finished(&mut self, event: v1::ActionFinished, at: Moment, applied: &mut Applied) {
        let is_action = event.activity() == BrowserActivity::Action;
        if is_action {
            self.succeeded = self.succeeded.saturating_add(1);
        }
        if let Some(output) = event.output {
            applied.added_bytes += bytes::text(&output.name) + bytes::text(&output.value);
            if let Some(before) = self.outputs.get(&output.name) {
                applied.removed_bytes += bytes::text(&output.name) + bytes::text(before);
            }
            self.outputs.insert(output.name, output.value);
        }
        self.idle_at = event.idle_in_ms.map(|wait| at.clock.plus(wait));
        applied.added_bytes += self.arrive(event.state_after.as_ref(), is_action);
        self.see(event.state_before, event.state_after, &event.evidence);
    }

    fn action_failed(&mut self, event: v1::ActionFailed, at: Moment, applied: &mut Applied) -> Option<()> {
        let (next, activity) = (event.next(), event.activity());
        let error = event.error?;
        let is_action = activity == BrowserActivity::Action;
        let ended = |after: AfterFailure| matches!(after, AfterFailure::Continue | AfterFailure::Halt);
        if let Some(work) = self.activities.last_mut().filter(|work| work.activity == activity) {
            if is_action && ended(next) && !ended(work.after_failure) {
                self.failed = self.failed.saturating_add(1);
            }
            work.after_failure = next;
        }
        self.idle_at = event.idle_in_ms.map(|wait| at.clock.plus(wait));
        applied.added_bytes += self.arrive(error.state_after.as_ref(), is_action);
        self.see(error.state_before.clone(), error.state_after.clone(), &error.evidence_refs);
        match next {
            AfterFailure::Retry if is_action => self.retries = self.retries.saturating_add(1),
            AfterFailure::Recover => {
                self.recoveries = self.recoveries.saturating_add(1);
                self.recovering_from = error.error_code;
            }
            AfterFailure::Halt => self.error = Some(error),
            AfterFailure::Retry | AfterFailure::Continue | AfterFailure::Unspecified => {}
        }
        Some(())
    }

    /// Counts how often the browser comes into a state. Returns the bytes that were added.
    fn arrive(&mut self, after: Option<&v1::StateSignature>, is_action: bool) -> u64 {
        let changes = is_action && self.activities.last().is_some_and(|work| work.changes);
        let Some(after) = after.filter(|_| changes) else { return 0 };
        let state = state_key(after);
        let added = if self.arrivals.contains_key(&state) { 0 } else { bytes::text(&state) };
        let arrivals = self.arrivals.entry(state).or_default();
        *arrivals = arrivals.saturating_add(1);
        added
    }

    /// Records the last known state of the page, and its evidence.
    fn see(
        &mut self,
        before: Option<v1::StateSignature>,
        after: Option<v1::StateSignature>,
        evidence: &[v1::EvidenceRef],
    ) {
        self.last_state = after.or(before).or(self.last_state.take());
        let lasting: Vec<v1::EvidenceRef> = evidence
            .iter()
            .filter(|piece| LASTING_EVIDENCE.contains(&piece.kind.as_str()))
            .cloned()
            .collect();
        if !lasting.is_empty() {
            self.last_evidence = lasting;
        }
    }

    /// After how long of waiting for a person the browser is closed and its state kept. Milliseconds.
    pub(crate) fn keep_after(&self) -> Option<i64> {
        self.browser.keep_after()
    }

    pub(super) fn action(&self, step: u32) -> Option<&v1::Action> {
        self.script.actions.get(step as usize)
    }

    /// How often the browser has come back into the state in which it is.
    pub(super) fn revisits(&self) -> u32 {
        let arrivals = self.last_state.as_ref().and_then(|state| self.arrivals.get(&state_key(state)));
        arrivals.copied().unwrap_or_default().saturating_sub(1)
    }
}

/// The parts that the signatures of one state have in common (CONTRACTS §3), so without the picture.
fn state_key(state: &v1::StateSignature) -> String {
    format!("{} {} {} {}", state.url, state.dom_hash, state.anchors_hash, state.inputs_hash)
}
