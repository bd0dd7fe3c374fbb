//! Loading a document, for callers that need no more of a navigation than its end.

use serde::Deserialize;
use serde_json::json;

use super::{CRASHED, Done, Session};
use crate::error::{CallError, NavigateError};

const COMMITTED: &str = "Page.frameNavigated";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    loader_id: Option<String>,
    error_text: Option<String>,
}

#[derive(Deserialize)]
struct Committed {
    frame: Frame,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    loader_id: String,
}

impl Session {
    /// Leads the target to another document and waits for an event of that document, such as `Page.loadEventFired`. An
    /// event of the document that was there before is not taken for it. Where the document stays, as for a fragment of
    /// its own, nothing is waited for.
    ///
    /// # Errors
    /// The browser could not load it, the page crashed while it loaded, or another [`CallError`]. There is no time limit.
    pub async fn navigate(&self, url: &str, until: &'static str) -> Result<(), NavigateError> {
        const METHOD: &str = "Page.navigate";
        // Reports of crashes are sure to come only after this. The browser carries commands out in their order.
        drop(self.send::<Done>("Inspector.enable", ()));
        let _: Done = self.call("Page.enable", ()).await?;
        let mut events = self.subscribe(&[COMMITTED, CRASHED, until]);
        let begun: Begun = self.call(METHOD, json!({ "url": url })).await?;
        if let Some(reason) = begun.error_text {
            return Err(NavigateError::NotLoaded { reason });
        }
        let Some(loader) = begun.loader_id else { return Ok(()) };
        let mut is_there = false;
        loop {
            let event = events.next().await?;
            match &*event.method {
                COMMITTED => {
                    is_there |= event.parse::<Committed>().is_ok_and(|event| event.frame.loader_id == loader);
                }
                // No further event of the document comes.
                CRASHED => return Err(CallError::Crashed { method: METHOD }.into()),
                _ if is_there => return Ok(()),
                _ => {}
            }
        }
    }
}
