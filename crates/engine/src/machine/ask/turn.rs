//! What an ask adds to its session when it has ended.

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use serde_json::Value;

use super::request::{ContextUpdate, context_updates};
use super::state::AskState;
use super::{last_end, response_of};
use crate::fold::state::{RunState, WaveState};

/// Bytes of one message that a session keeps.
const MESSAGE_BYTES: usize = 4 * 1024;

/// The turn that the ask adds; `None` if it was cancelled before a spec answered.
pub(super) fn of(ask: &AskState, run: &RunState, run_id: &str) -> Option<v1::SessionTurn> {
    let end = last_end(run).filter(|_| run.outcome() != Some(v1::RunOutcome::Cancelled))?;
    let response = response_of(end);
    let text = |pointer: &str| {
        response.as_ref().and_then(|response| response.pointer(pointer)?.as_str().map(str::to_owned))
    };
    let mut messages = vec![v1::SessionMessage {
        role: v1::MessageRole::User.into(),
        text: cut(&ask.ask.text),
        spec: None,
        at_ms: run.created_at().0,
    }];
    if let Some(answer) = text("/response/text") {
        messages.push(v1::SessionMessage {
            role: v1::MessageRole::Assistant.into(),
            text: cut(&answer),
            spec: ask.calls.last().map(|call| call.spec.clone()),
            at_ms: end.at.0,
        });
    }
    let update = context_updates(run).reduce(ContextUpdate::and).unwrap_or_default();
    let custom = Some(update.custom).filter(|custom| !custom.is_empty());
    let suggested = |considered: &v1::AskTransition| considered.verdict() == v1::TransitionVerdict::Suggested;
    Some(v1::SessionTurn {
        run_id: run_id.to_owned(),
        request_id: ask.request_id().to_owned(),
        messages,
        current_spec: moved_to(ask, run),
        emotional_state: update.emotional_state,
        engagement_level: update.engagement_level,
        preferences: ask.ask.preferences.clone(),
        custom: custom.map(|custom| Value::Object(custom).to_string().into()).unwrap_or_default(),
        transitions: ask.taken.clone(),
        suggestion: ask.considered.clone().filter(suggested),
    })
}

/// The spec that this ask moves its session to; `None` where the session stays, wherever it is by then.
fn moved_to(ask: &AskState, run: &RunState) -> Option<String> {
    if run.outcome() != Some(v1::RunOutcome::Succeeded) {
        return None;
    }
    let mut led =
        ask.calls.iter().zip(&run.waves).filter(|(call, _)| call.reason != v1::CallReason::Fallback);
    let answered = |wave: &WaveState| {
        let end = wave.tasks.first().and_then(|activity| activity.end.as_ref());
        end.is_some_and(|end| end.status == ResultStatus::Success)
    };
    let (call, _) = match ask.context.current_spec {
        Some(_) => led.rfind(|(_, wave)| answered(wave))?,
        // A new session begins with the spec that was chosen for it, even if that spec failed and another one answered.
        None => {
            let there: Vec<_> = led.filter(|(call, _)| call.routing.is_some()).collect();
            there.iter().rev().find(|(_, wave)| answered(wave)).or(there.first()).copied()?
        }
    };
    Some(call.spec.clone()).filter(|spec| ask.context.current_spec.as_ref() != Some(spec))
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MESSAGE_BYTES)).unwrap_or(text).to_owned()
}
