//! What the state of a plan has beside its waves. Part of the fold.

use capataz_contracts::v1;

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PlanState {
    /// A HIGH failure pauses the run and asks.
    pub(super) pause_on_high: bool,
}

impl PlanState {
    pub(crate) fn accepted(plan: &v1::Plan) -> Self {
        Self { pause_on_high: plan.on_high() == v1::OnHigh::Pause }
    }
}
