//! What was repaired of the state of a session before one of its plans began (seed 000, scenario 7).

use capataz_contracts::v1::{self, RunOutcome, SessionStateCause as Cause, event::Body};
use capataz_engine::RunState;
use capataz_policy::session;
use capataz_shard::{LoadError, session_stream};
use capataz_store::Store;
use prost::Message;

use super::export::export_page;

/// The code of what was repaired before a plan of a session that has ended without success.
///
/// # Errors
/// The session's log cannot be read. One that is damaged tells nothing.
pub(super) fn of(store: &dyn Store, run: &str, state: &RunState) -> Result<Option<String>, LoadError> {
    let has_failed = state
        .outcome()
        .is_some_and(|outcome| !matches!(outcome, RunOutcome::Succeeded | RunOutcome::SucceededWithFailures));
    let Some(name) = state.session().filter(|_| has_failed && state.declares_tasks()) else {
        return Ok(None);
    };
    let (stream, mut after) = (session_stream(name), 0);
    let mut mended = None;
    loop {
        let (page, damage) = export_page(store, stream, &mut after)?;
        if page.is_empty() || damage.is_some() {
            return Ok(None);
        }
        for event in page {
            let Ok(v1::Event { body: Some(Body::SessionStateWritten(written)), .. }) =
                v1::Event::decode(event)
            else {
                continue;
            };
            match written.cause() {
                Cause::Imported => mended = session::mended(&written.repairs),
                Cause::RunBegun if written.run_id == run => {
                    return Ok(mended.map(|code| code.as_str().to_owned()));
                }
                Cause::RunBegun => mended = None,
                _ => {}
            }
        }
    }
}
