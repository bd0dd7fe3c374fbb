//! The commands for an interactive session: propose an action, close the browser.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;

use super::Next;
use super::state::ScriptState;
use crate::decide::{Refusal, not_a_session, refuse_with};
use crate::fold::digest;
use crate::fold::state::RunState;
use crate::machine::{Command, Step};

/// What the command asks for. A proposal that repeats an earlier one under the same request id is the action that was
/// proposed then.
pub(super) fn digest(script: &ScriptState, run: &RunState, request_id: &str, command: &Command) -> String {
    let action = match command {
        Command::Propose(action) => action,
        Command::CloseBrowser => return digest::CLOSE.to_owned(),
        Command::RollBack { .. } | Command::Checkpoint { .. } | Command::RollBackTo { .. } => {
            return String::new();
        }
    };
    let before = run.requests.get(request_id).map(|(digest, _)| digest.as_str()).unwrap_or_default();
    let mut proposed = script.script.actions.iter().zip(0u32..);
    let same = proposed.find(|(proposed, step)| *proposed == &**action && digest::propose(*step) == before);
    same.map(|_| before.to_owned()).unwrap_or_default()
}

/// Carries out the proposal of an action to an interactive session.
pub(super) fn propose(
    script: &ScriptState,
    run: &RunState,
    action: v1::Action,
    request_id: String,
) -> Result<Vec<Step>, Refusal> {
    if !script.script.interactive {
        return Err(not_a_session(&Command::Propose(Box::default())));
    }
    if !run.goes_on() || script.what_next(run) != Next::AwaitProposal {
        let message = "the session is not ready for an action: one is being performed, or it opens or closes";
        return Err(refuse_with(codes::STEP_IN_PROGRESS, message));
    }
    let step_index = u32::try_from(script.script.actions.len()).unwrap_or(u32::MAX);
    let proposed = v1::ActionProposed { step_index, action: Some(action), request_id };
    Ok(vec![Step::RecordRequest(Body::ActionProposed(Box::new(proposed)))])
}

/// Carries out the closing of an interactive session.
pub(super) fn close(script: &ScriptState, request_id: String) -> Result<Vec<Step>, Refusal> {
    if !script.script.interactive {
        return Err(not_a_session(&Command::CloseBrowser));
    }
    if script.closing {
        return Ok(vec![Step::AsBefore]);
    }
    let close = v1::BrowserCloseRequested { request_id, idle: false };
    Ok(vec![Step::RecordRequest(Body::BrowserCloseRequested(close))])
}
