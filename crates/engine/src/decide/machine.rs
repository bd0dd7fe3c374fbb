//! Inputs that the machine of a run understands: its turn in a session, the answer to a query, a command of its kind.

use capataz_contracts::v1;

use super::turn::Turn;
use super::{Refusal, advance};
use crate::input::QueryAnswer;
use crate::machine::Command;
use crate::query::QueryId;

/// Handles the input that the run's turn in its session has come.
pub(super) fn begin(turn: &mut Turn<'_>, context: v1::SessionContext) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    if !turn.state.goes_on() {
        return Err(Refusal::Outdated);
    }
    let steps = turn.state.rules().turn_has_come(turn.state, context)?;
    advance::carry_out(turn, steps)?;
    advance::advance(turn)
}

/// Handles the answer to a query. An answer to a query that is not open changes nothing.
pub(super) fn answered(turn: &mut Turn<'_>, query: QueryId, answer: QueryAnswer) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let open = turn.state.open_query_id();
    let stale = crate::planted::is(crate::planted::Fault::StaleAnswerAccepted);
    if open != Some(query) && !(stale && open.is_some()) {
        return Err(Refusal::Outdated);
    }
    let steps = turn.state.rules().answered(turn.state, answer, turn.now)?;
    advance::carry_out(turn, steps)?;
    advance::advance(turn)
}

/// A user's command to runs of one kind.
pub(super) fn command(turn: &mut Turn<'_>, command: Command, request_id: String) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let steps = turn.state.rules().command(turn.state, command, request_id)?;
    if advance::carry_out(turn, steps)? {
        advance::advance(turn)?;
    }
    Ok(())
}

/// The machine's own time is over.
pub(super) fn overdue(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let steps = turn.state.rules().overdue();
    advance::carry_out(turn, steps)?;
    advance::advance(turn)
}
