//! Requests of users that come again: an id means one request, whatever has become of its run since.

use super::Refusal;
use crate::fold::digest;
use crate::fold::state::RunState;
use crate::input::Input;
use crate::machine::Command;

impl RunState {
    /// Number of the event that records this very request, where it was carried out before.
    ///
    /// # Errors
    /// [`Refusal::RequestReused`] if another request was carried out under its id.
    pub fn repeated(&self, input: &Input) -> Result<Option<u64>, Refusal> {
        let request_id = input.request_id();
        let Some((before, seq)) = self.requests.get(request_id) else { return Ok(None) };
        if self.digest_of(input).as_ref() == Some(before) {
            return Ok(Some(*seq));
        }
        Err(Refusal::RequestReused { request_id: request_id.to_owned() })
    }

    /// What a user's request asks for; `None` where it is about a task that is not there.
    fn digest_of(&self, input: &Input) -> Option<String> {
        Some(match input {
            Input::Cancel { .. } => digest::CANCEL.to_owned(),
            Input::Pause { .. } => digest::PAUSE.to_owned(),
            Input::Resume { .. } => digest::RESUME.to_owned(),
            Input::Extend { task, by_ms, .. } => digest::extend(self.plan.find(task)?, *by_ms),
            Input::Retry { task, .. } => digest::retry(self.plan.find(task)?),
            Input::Rollback { task, cascade, .. } => digest::rollback(self.plan.find(task)?, *cascade),
            Input::Resolve { question_id, answer, .. } => {
                digest::resolve(question_id, &answer.option, answer.value.as_ref())
            }
            input => self.rules().digest(self, input.request_id(), &command(input)?),
        })
    }
}

/// The command that only runs of one kind understand; `None` of any other input.
fn command(input: &Input) -> Option<Command> {
    Some(match input {
        Input::Propose { action, .. } => Command::Propose(action.clone()),
        Input::CloseBrowser { .. } => Command::CloseBrowser,
        Input::RollbackPipeline { phase, .. } => Command::RollBack { phase: phase.clone() },
        Input::Checkpoint { reason, .. } => Command::Checkpoint { reason: reason.clone() },
        Input::RollbackExecution { checkpoint, .. } => Command::RollBackTo { checkpoint: checkpoint.clone() },
        _ => return None,
    })
}
