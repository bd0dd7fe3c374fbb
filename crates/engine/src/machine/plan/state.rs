//! What the state of a plan has beside its waves. Part of the fold.

use capataz_contracts::v1::{self, event::Body};

use crate::machine::Applied;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PlanState {
    /// A HIGH failure pauses the run and asks.
    pub(super) pause_on_high: bool,
    /// The session that the plan belongs to.
    pub(super) session: Option<String>,
    /// The plan has, or had, its turn in its session.
    pub(super) has_turn: bool,
}

impl PlanState {
    pub(crate) fn accepted(plan: &v1::Plan) -> Self {
        Self {
            pause_on_high: plan.on_high() == v1::OnHigh::Pause,
            session: plan.session.clone(),
            has_turn: false,
        }
    }

    pub(crate) fn leave_session(&mut self) {
        self.session = None;
    }

    /// Folds an event that only plans have.
    pub(crate) fn apply(&mut self, body: Body) -> Option<Applied> {
        match body {
            Body::PlanBegun(_) => self.has_turn = true,
            _ => return None,
        }
        Some(Applied::default())
    }
}
