//! What was really sent to a page: told by its host, never by the engine.

use capataz_contracts::v1;
use capataz_engine::TaskRef;
use capataz_store::RunId;

use super::Model;
use super::script::Kind;
use crate::invariant::{Invariant, Violation};

/// Kinds that only read.
const READ: [v1::ActionKind; 6] = [
    v1::ActionKind::Hover,
    v1::ActionKind::ScrollTo,
    v1::ActionKind::WaitFor,
    v1::ActionKind::Assert,
    v1::ActionKind::Extract,
    v1::ActionKind::Screenshot,
];

pub(super) fn changes(action: &v1::Action) -> bool {
    !READ.contains(&action.kind())
}

/// A critical action, or one that was not declared repeatable; what only reads may be repeated.
pub(super) fn once_only(action: &v1::Action) -> bool {
    let critical = action.criticality == Some(v1::Criticality::Critical as i32);
    critical || !action.repeatable.unwrap_or(!changes(action))
}

impl Model {
    /// A host says what it has sent to its page.
    pub fn reported(&mut self, run: RunId, token: u64, outcome: &v1::BrowserOutcome) {
        let Some(model) = self.runs.get_mut(&run) else { return };
        if let Some(error) = &outcome.error {
            model.host_errors.borrow_mut().insert(token, error.clone());
        }
        if let Kind::Script(script) = &mut model.kind {
            script.touched.insert(token, outcome.touched);
        }
    }

    /// An action was really sent to a page.
    pub fn performed(&mut self, run: RunId, task: TaskRef, token: u64, step: u32) -> Result<(), Violation> {
        let Some(model) = self.runs.get_mut(&run) else { return Ok(()) };
        let live = model.live(task).is_some_and(|(live, _)| live == token);
        if model.is_mode() {
            return model.mode_performed(task, token);
        }
        let Kind::Script(script) = &mut model.kind else { return Ok(()) };
        // Under a lease that is over it is one of the outcomes that nobody knows, and that a person is asked about.
        if !live || !script.action(step).is_some_and(once_only) {
            return Ok(());
        }
        let before = script.performed.entry(step).or_default();
        let first = before.iter().all(|other| *other == token);
        before.insert(token);
        Invariant::ActionsOnce.check(first, || {
            format!("run {run}: action {step} is performed again under lease {token}: {before:?}")
        })
    }
}
