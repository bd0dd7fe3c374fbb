//! What events of format 1, those without `Event.format`, left to tables, as those tables were then. It left to the fold: whether and when TIMEOUT_IMMINENT is given,
//! what kind of notice an error is, which actions change something, and when an idle session is closed.

use capataz_contracts::v1::{
    self, ActionKind, AfterFailure, BrowserActivity, NoticeKind, event::Body, run_accepted::Work,
};
use serde_json::{Map, Value};

use crate::fold::state::Timestamp;

/// TIMEOUT_IMMINENT was given this long before a deadline, where the time was longer than that. Milliseconds.
const WARN_BEFORE_MS: i64 = 60_000;
/// When a session was closed to which nobody proposed anything, where its script did not say. Milliseconds.
const IDLE_TIMEOUT_MS: i64 = 5 * 60_000;
/// Bytes of what specs asked to be kept in a session; an answer that would have exceeded them was left out.
const CUSTOM_BYTES: usize = 8 * 1024;

/// What has to be known of a run's earlier events to read its later ones.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Upcaster {
    /// How long an interactive session waits; `None` for other runs. Milliseconds.
    idle_timeout_ms: Option<i64>,
    /// Actions of the script so far.
    actions: u32,
    closing: bool,
    halted: bool,
    /// The action that was begun last, from 0.
    step: u32,
}

impl Upcaster {
    pub(super) fn new(accepted: &v1::RunAccepted) -> Self {
        let Some(Work::Script(script)) = &accepted.work else { return Self::default() };
        let idle_timeout_ms = script.idle_timeout_ms.unwrap_or(IDLE_TIMEOUT_MS);
        Self {
            idle_timeout_ms: script.interactive.then_some(idle_timeout_ms),
            actions: u32::try_from(script.actions.len()).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    /// Adds what the present format says.
    pub(super) fn raise(&mut self, body: &mut Body, at: Timestamp) {
        match body {
            Body::TaskLeased(event) => {
                let limit = event.deadline_ms.map(|deadline| deadline.saturating_sub(at.0));
                event.warn_before_ms = limit.filter(|limit| *limit > WARN_BEFORE_MS).map(|_| WARN_BEFORE_MS);
            }
            Body::Notice(event) => {
                let code = event.notice.as_ref().map_or("", |notice| notice.code.as_str());
                event.set_kind(notice_kind(code));
            }
            Body::BrowserActivityStarted(event) => {
                let is_action = event.activity() == BrowserActivity::Action;
                let kind = event.action.as_ref().map(v1::Action::kind);
                event.changes = is_action && kind.is_some_and(changes_something);
                self.step = event.step_index.unwrap_or_default();
            }
            Body::BrowserOpened(event) => event.idle_at_ms = self.idle_at(0, at),
            Body::ActionProposed(_) => self.actions = self.actions.saturating_add(1),
            Body::ActionFinished(event) if event.activity() == BrowserActivity::Action => {
                event.idle_at_ms = self.idle_at(event.step_index.saturating_add(1), at);
            }
            Body::ActionFailed(event) => match event.next() {
                AfterFailure::Continue => {
                    event.idle_at_ms = self.idle_at(self.step.saturating_add(1), at);
                }
                AfterFailure::Halt => self.halted = true,
                AfterFailure::Unspecified | AfterFailure::Retry | AfterFailure::Recover => {}
            },
            Body::BrowserCloseRequested(_) => self.closing = true,
            _ => {}
        }
    }

    /// When the session is closed, where it waits for the action of this number to be proposed.
    fn idle_at(&self, step: u32, at: Timestamp) -> Option<i64> {
        let waits = step >= self.actions && !self.closing && !self.halted;
        self.idle_timeout_ms.filter(|_| waits).map(|timeout| at.plus(timeout).0)
    }
}

fn notice_kind(code: &str) -> NoticeKind {
    match code {
        "RETRY_SUCCESS" => NoticeKind::RetrySuccess,
        "TIMEOUT_IMMINENT" => NoticeKind::TimeoutImminent,
        "AGENT_ABSENT" => NoticeKind::AgentAbsent,
        "OPTIONAL_AGENT_FAILED" => NoticeKind::OptionalAgentFailed,
        "INCOMPLETE_LIFECYCLE" => NoticeKind::IncompleteLifecycle,
        "PARTIAL_SUCCESS" => NoticeKind::PartialSuccess,
        _ => NoticeKind::Unspecified,
    }
}

/// The kinds of action that were meant to change the page, or what is behind it.
fn changes_something(kind: ActionKind) -> bool {
    match kind {
        ActionKind::Navigate
        | ActionKind::Back
        | ActionKind::Reload
        | ActionKind::Click
        | ActionKind::DoubleClick
        | ActionKind::Fill
        | ActionKind::Press
        | ActionKind::Select
        | ActionKind::Check
        | ActionKind::Uncheck
        | ActionKind::Submit
        | ActionKind::Upload
        | ActionKind::Download => true,
        // Kinds that no log of this format has.
        ActionKind::Forward | ActionKind::RightClick | ActionKind::Drag | ActionKind::Type => true,
        ActionKind::Unspecified
        | ActionKind::Hover
        | ActionKind::ScrollTo
        | ActionKind::WaitFor
        | ActionKind::Assert
        | ActionKind::Extract
        | ActionKind::Screenshot => false,
    }
}

/// Leaves out what would not have fitted into the session.
pub(super) fn session_turn(turn: &mut v1::SessionTurn, kept: &[u8]) {
    if turn.custom.is_empty() {
        return;
    }
    let mut custom: Map<String, Value> = serde_json::from_slice(kept).unwrap_or_default();
    custom.extend(serde_json::from_slice::<Map<String, Value>>(&turn.custom).unwrap_or_default());
    if Value::Object(custom).to_string().len() > CUSTOM_BYTES {
        turn.custom.clear();
    }
}
