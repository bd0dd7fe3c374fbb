//! What an ask is answered with where no spec gave a valid answer: a whole SpecResponse, with words for the user in the
//! user's language. The technical words are its `details` (CONTRACTS §2, "Failures").

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::apology::{self, Language};
use capataz_policy::retry;
use serde_json::json;

use super::state::AskState;
use crate::fold::activity::End;
use crate::fold::state::RunState;

/// The answer to an ask whose last call has ended so; `None` where it was cancelled.
pub(super) fn response(ask: &AskState, run: &RunState, end: &End) -> Option<v1::Payload> {
    let error = retry::original(end.error.as_ref()?);
    if end.status == ResultStatus::Cancelled {
        return None;
    }
    let violations = error.details.iter().map(|detail| detail.message.as_str());
    let technical: Vec<&str> = std::iter::once(error.message.as_str()).chain(violations).collect();
    let call = ask.calls.last()?;
    let answer = json!({
        "success": false,
        "spec": if call.spec.is_empty() { NO_SPEC } else { call.spec.as_str() },
        "request_id": ask.request_id(),
        "timestamp": end.at.0,
        "error": {
            "code": error.code,
            "message": apology::message(&error.code, language(ask)),
            "details": technical.join("; "),
            "recoverable": apology::is_recoverable(&error.code),
            // Nothing is left to be called, or it would have been.
            "fallback_spec": null,
        },
        "metadata": {
            "processing_time_ms": end.at.0.saturating_sub(run.created_at().0).max(0),
            "confidence": 0.0,
        },
    });
    Some(v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(answer.to_string().into())),
    })
}

/// The id in an answer for which there was no spec at all.
const NO_SPEC: &str = "none";

/// The user's language: the preference, else what the router has found in the text.
fn language(ask: &AskState) -> Language {
    let preferred = [&ask.ask.preferences, &ask.context.preferences];
    let preferred = preferred.iter().find_map(|preferences| preferences.get("language"));
    let found = || {
        let routings = ask.calls.iter().filter_map(|call| call.routing.as_ref());
        routings.map(|routing| &routing.language).find(|language| !language.is_empty())
    };
    preferred.or_else(found).map_or(Language::English, |tag| Language::of(tag))
}
