//! What was repaired of the state of a session before one of its plans began (seed 000, scenario 7).

use capataz_contracts::v1::{self, SessionStateCause as Cause, event::Body};
use capataz_policy::session;
use capataz_shard::{LoadError, session_stream};
use capataz_store::Store;
use prost::Message;

use super::runs::export_page;

/// Adds it to a plan of a session that has ended without success.
///
/// # Errors
/// The session's log cannot be read. One that is damaged tells nothing.
pub(super) fn add(store: &dyn Store, view: &mut v1::Run) -> Result<(), LoadError> {
    use v1::RunOutcome::{Succeeded, SucceededWithFailures};
    let has_ended = view.status() == v1::RunStatus::Finished;
    let is_told = has_ended && !matches!(view.outcome(), Succeeded | SucceededWithFailures);
    let Some(name) = view.session.clone().filter(|_| is_told) else { return Ok(()) };
    let (stream, mut after) = (session_stream(&name), 0);
    let mut mended = None;
    loop {
        let (page, damage) = export_page(store, stream, &mut after)?;
        if page.is_empty() || damage.is_some() {
            return Ok(());
        }
        for event in page {
            let Ok(v1::Event { body: Some(Body::SessionStateWritten(written)), .. }) =
                v1::Event::decode(event)
            else {
                continue;
            };
            match written.cause() {
                Cause::Imported => mended = session::mended(&written.repairs),
                Cause::RunBegun if written.run_id == view.run_id => {
                    view.session_repaired = mended.map(|code| code.as_str().to_owned());
                    return Ok(());
                }
                Cause::RunBegun => mended = None,
                _ => {}
            }
        }
    }
}
