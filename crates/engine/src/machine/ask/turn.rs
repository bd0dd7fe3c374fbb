//! What an ask adds to its session when it has ended.

use capataz_contracts::{free, spec, v1};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::transition;

use super::context::json_of;
use super::request::keeper;
use super::state::{AskState, Call};
use super::{last_end, response_of};
use crate::fold::state::{RunState, WaveState};

/// Bytes of one message that a session keeps: as many as the excerpt of a large answer has of its text.
const MESSAGE_BYTES: usize = 4 * 1024;
const _: () = assert!(MESSAGE_BYTES == spec::TEXT_BYTES);
/// The end of a message that goes on.
const GOES_ON: &str = " […]";

/// The turn that the ask adds; `None` if it was cancelled before a spec answered.
pub(super) fn of(ask: &AskState, run: &RunState, run_id: &str) -> Option<v1::SessionTurn> {
    let end = last_end(run).filter(|_| run.outcome() != Some(v1::RunOutcome::Cancelled))?;
    let response = response_of(end);
    let text = |pointer: &str| {
        response.as_ref().and_then(|response| response.pointer(pointer)?.as_str().map(str::to_owned))
    };
    let mut messages = vec![v1::SessionMessage {
        role: v1::MessageRole::User.into(),
        text: cut(&ask.ask.text, false),
        spec: None,
        at_ms: run.created_at().0,
    }];
    if let Some(answer) = text("/response/text") {
        // Of a large answer there is its excerpt alone, which says nothing of where its texts were cut.
        let data = end.output.as_ref().and_then(|output| output.data.as_ref());
        let is_excerpt = matches!(data, Some(v1::payload::Data::Blob(_)));
        messages.push(v1::SessionMessage {
            role: v1::MessageRole::Assistant.into(),
            text: cut(&answer, is_excerpt),
            spec: ask.calls.last().map(|call| call.spec.clone()),
            at_ms: end.at.0,
        });
    }
    let (news, left_out) = keeper(ask, run).into_news();
    let (emotional_state, engagement_level) = news.states();
    let (preferences, preferences_json) = free::divide(news.preferences);
    Some(v1::SessionTurn {
        run_id: run_id.to_owned(),
        request_id: ask.request_id().to_owned(),
        messages,
        current_spec: moved_to(ask, run),
        emotional_state,
        engagement_level,
        preferences,
        custom: json_of(news.custom),
        transitions: ask.taken.clone(),
        suggestion: ask.suggestion().cloned(),
        preferences_json,
        left_out,
    })
}

/// The spec that this ask moves its session to; `None` where the session stays, wherever it is by then.
fn moved_to(ask: &AskState, run: &RunState) -> Option<String> {
    if run.outcome() != Some(v1::RunOutcome::Succeeded) {
        return None;
    }
    let mut led = ask.calls.iter().zip(&run.waves).filter(|(call, _)| holds(call));
    let answered = |wave: &WaveState| {
        let end = wave.tasks.first().and_then(|activity| activity.end.as_ref());
        end.is_some_and(|end| end.status == ResultStatus::Success)
    };
    let (call, _) = match ask.context.current_spec {
        Some(_) => led.rfind(|(_, wave)| answered(wave))?,
        // A session that nobody holds is held by the spec that was chosen, even if that spec failed and another one answered.
        None => {
            let there: Vec<_> = led.filter(|(call, _)| call.routing.is_some()).collect();
            there.iter().rev().find(|(_, wave)| answered(wave)).or(there.first()).copied()?
        }
    };
    Some(call.spec.clone()).filter(|spec| ask.context.current_spec.as_ref() != Some(spec))
}

/// Whether the session stays with a spec that was called so: the user chose it, a transition led to it, or the router was
/// sure enough. A default or a weaker choice holds nothing.
fn holds(call: &Call) -> bool {
    match call.reason {
        v1::CallReason::Explicit | v1::CallReason::Continued | v1::CallReason::Transition => true,
        v1::CallReason::Routed => {
            call.routing.as_ref().is_some_and(|routing| transition::holds_the_session(routing.confidence))
        }
        v1::CallReason::Fallback | v1::CallReason::Unspecified => false,
    }
}

/// The text as a session keeps it. One that is longer, or the excerpt of one, ends with a mark.
fn cut(text: &str, is_excerpt: bool) -> String {
    // An excerpt is cut before a whole character.
    let is_full = is_excerpt && text.len() + char::MAX.len_utf8() > MESSAGE_BYTES;
    if text.len() <= MESSAGE_BYTES && !is_full {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(MESSAGE_BYTES - GOES_ON.len())).unwrap_or(text);
    format!("{kept}{GOES_ON}")
}
