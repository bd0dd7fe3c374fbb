//! What the state of an ask has beside its waves: each call of a spec is a wave of one task. Part of the fold.

use capataz_contracts::v1::{self, event::Body};

use crate::fold::bytes;
use crate::fold::state::Moment;
use crate::machine::Applied;
use crate::snapshot::{as_bytes, number};

/// The state that only asks have. The parts that may be cut off later are append-only lists: `calls`, `taken`,
/// `transitions`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AskState {
    #[serde(with = "as_bytes::one")]
    pub(crate) ask: v1::Ask,
    /// True when the ask's turn in its session has come. An ask without a session begins when it is accepted.
    pub(super) begun: bool,
    #[serde(with = "as_bytes::one")]
    pub(crate) context: v1::SessionContext,
    /// One for each wave.
    pub(super) calls: Vec<Call>,
    /// The catalogue's default spec, as the last call found it.
    pub(super) default_spec: Option<String>,
    /// The decision about the transition in the last answer.
    #[serde(with = "as_bytes::option")]
    pub(super) considered: Option<v1::AskTransition>,
    /// The decisions about the transitions in all answers so far.
    #[serde(with = "as_bytes::list")]
    pub(super) transitions: Vec<v1::AskTransition>,
    /// Transitions that this ask has taken by itself.
    #[serde(with = "as_bytes::list")]
    pub(super) taken: Vec<v1::SessionTransition>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Call {
    pub(super) spec: String,
    #[serde(with = "number")]
    pub(super) reason: v1::CallReason,
    #[serde(with = "as_bytes::option")]
    pub(super) routing: Option<v1::Routing>,
}

impl AskState {
    pub(crate) fn new(ask: v1::Ask) -> Self {
        let begun = ask.session.is_none();
        let context = v1::SessionContext {
            preferences: ask.preferences.clone(),
            preferences_json: ask.preferences_json.clone(),
            ..Default::default()
        };
        Self {
            ask,
            begun,
            context,
            calls: Vec::new(),
            default_spec: None,
            considered: None,
            transitions: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// The bytes that it holds: few calls of bounded size, and a bounded context.
    pub(crate) fn bytes(&self) -> u64 {
        let calls = self
            .calls
            .iter()
            .map(|call| bytes::text(&call.spec) + bytes::ENTRY + bytes::optional(call.routing.as_ref()));
        let parts = [
            bytes::message(&self.ask),
            bytes::message(&self.context),
            calls.sum(),
            self.default_spec.as_deref().map_or(0, bytes::text),
            bytes::optional(self.considered.as_ref()),
            bytes::messages(&self.transitions),
            bytes::messages(&self.taken),
        ];
        parts.iter().sum()
    }

    /// What the session has given the ask by its turn, the ask keeps; and the id of its request, which an answer names that is
    /// on its way.
    pub(crate) fn leave_session(&mut self) {
        self.ask.session = None;
        self.begun = true;
    }

    pub(crate) fn apply(&mut self, body: Body, at: Moment) -> Option<Applied> {
        let mut applied = Applied::default();
        match body {
            Body::AskBegun(event) => {
                self.begun = true;
                self.context = event.context?;
            }
            Body::AskRouted(event) => {
                let reason = event.reason();
                self.calls.push(Call { spec: event.spec, reason, routing: event.routing });
                self.default_spec = Some(event.default_spec).filter(|spec| !spec.is_empty());
                self.considered = None;
                applied.wave = Some((event.call, event.wave?));
            }
            Body::TransitionConsidered(event) => {
                let considered = event.transition?;
                self.transitions.push(considered.clone());
                if considered.verdict() == v1::TransitionVerdict::Taken {
                    self.taken.push(v1::SessionTransition {
                        from: considered.from.clone(),
                        to: considered.to.clone(),
                        at_ms: at.wall.0,
                        automatic: true,
                    });
                }
                self.considered = Some(considered);
            }
            _ => return None,
        }
        Some(applied)
    }
}
