//! The SpecRequest of a call (seed 001, "Formato de Entrada"), and what answers ask to be kept.

use capataz_contracts::{free, spec, v1};
use serde_json::{Value, json};

use super::context::Keeper;
use super::state::AskState;
use super::{excerpt_of, response_of};
use crate::fold::activity::End;
use crate::fold::session::object;
use crate::fold::state::RunState;
use crate::planted::{self, Fault};

/// The largest SpecRequest, in bytes: the contract's own limit. Older messages are left out of the history until it fits; what
/// else it holds is bounded by the limits of an ask and of a session, and far below.
const MAX_REQUEST: usize = 1024 * 1024;
const _: () = assert!(MAX_REQUEST == spec::MAX_BYTES);

/// The SpecRequest of the next call.
pub(super) fn spec_request(ask: &AskState, run: &RunState, routing: &v1::Routing, now_ms: i64) -> Vec<u8> {
    let mut context = ask.context.clone();
    // The updates of earlier calls of this ask count, too.
    keeper(ask, run).apply_to(&mut context);
    let history = std::mem::take(&mut context.history);
    // The spec that answered last, which need not be the one that the session is with.
    let previous_spec = history.iter().rev().find_map(|message| message.spec.as_deref());
    let mut history = history.as_slice();
    loop {
        let request = request_with(&ask.ask, &context, routing, (previous_spec, history), now_ms);
        let request = request.to_string().into_bytes();
        match history.split_first() {
            Some((_, rest)) if request.len() > MAX_REQUEST => history = rest,
            _ => return request,
        }
    }
}

/// The ask's context, with what the ask and the answers so far want to be kept, in the order of the answers.
pub(super) fn keeper(ask: &AskState, run: &RunState) -> Keeper {
    let mut keeper = Keeper::new(&ask.context, &ask.ask);
    let ends = run.waves.iter().filter_map(|wave| wave.tasks.first()?.end.as_ref());
    for update in ends.filter_map(ContextUpdate::of) {
        keeper.update(update);
    }
    keeper
}

/// `context_update` of a response.
#[derive(Debug, Default)]
pub(super) struct ContextUpdate {
    pub(super) emotional_state: Option<String>,
    pub(super) engagement_level: Option<String>,
    pub(super) custom: serde_json::Map<String, Value>,
    /// What the excerpt of a large answer has no more.
    pub(super) left_out: Vec<String>,
    pub(super) more_left_out: u32,
}

impl ContextUpdate {
    fn of(end: &End) -> Option<Self> {
        let response = response_of(end)?;
        let update = response.get("context_update")?.as_object()?;
        let excerpt = end.output.as_ref().and_then(excerpt_of);
        if planted::is(Fault::LargeAnswerLeavesNothing) && excerpt.is_some() {
            return None;
        }
        let text = |key: &str| update.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            emotional_state: text("emotional_state"),
            engagement_level: text("engagement_level"),
            custom: update.get("custom").and_then(Value::as_object).cloned().unwrap_or_default(),
            left_out: excerpt.map(|excerpt| excerpt.left_out.clone()).unwrap_or_default(),
            more_left_out: excerpt.map_or(0, |excerpt| excerpt.more_left_out),
        })
    }
}

fn request_with(
    ask: &v1::Ask,
    context: &v1::SessionContext,
    routing: &v1::Routing,
    (previous_spec, history): (Option<&str>, &[v1::SessionMessage]),
    now_ms: i64,
) -> Value {
    let alternatives: Vec<Value> = routing
        .alternatives
        .iter()
        .map(|other| json!({ "spec": other.spec, "confidence": other.confidence }))
        .collect();
    let breakdown = routing.confidence_breakdown.unwrap_or_default();
    let mut request = json!({
        "id": ask.request_id.as_deref().unwrap_or_default(),
        "timestamp": now_ms,
        "text": ask.text,
        "spec": routing.spec,
        "routing": {
            "confidence": routing.confidence,
            "reason": routing.reason,
            "alternatives": alternatives,
        },
        "context": {
            "detected_intent": routing.detected_intent,
            "keywords_matched": routing.keywords_matched,
            "patterns_matched": routing.patterns_matched,
            "tone": routing.tone,
            "response_style": routing.response_style,
            "spec_title": routing.spec_title,
            "spec_description": routing.spec_description,
            "confidence_breakdown": {
                "keyword": breakdown.keyword,
                "intent": breakdown.intent,
                "context": breakdown.context,
            },
        },
        "metadata": { "source": ask.source.as_deref().unwrap_or("api") },
    });
    if let Some(pattern) = &routing.suggested_pattern {
        request["context"]["suggested_pattern"] = json!(pattern);
    }
    if let Some(device) = &ask.device {
        request["metadata"]["device"] = json!(device);
    }
    if let Some(session) = &ask.session {
        request["metadata"]["session_id"] = json!(session);
        let mut conversation = json!({
            "message_count": context.message_count,
            "history": history.iter().map(message).collect::<Vec<Value>>(),
        });
        if let Some(spec) = previous_spec {
            conversation["previous_spec"] = json!(spec);
        }
        request["conversation"] = conversation;
    }
    request["metadata"]["custom"] = custom(ask, context);
    let mut user = serde_json::Map::new();
    if let Some(state) = &context.emotional_state {
        user.insert("emotional_state".to_owned(), json!(state));
    }
    if let Some(level) = &context.engagement_level {
        user.insert("engagement_level".to_owned(), json!(level));
    }
    // What the session has no room for is in this request nevertheless.
    let mut preferences = free::entries(&context.preferences, context.preferences_json.as_deref());
    preferences.extend(free::entries(&ask.preferences, ask.preferences_json.as_deref()));
    if !preferences.is_empty() {
        user.insert("preferences".to_owned(), json!(preferences));
    }
    if !user.is_empty() {
        request["user"] = Value::Object(user);
    }
    request
}

/// The values that specs asked to be kept, and those of the ask, which take precedence.
fn custom(ask: &v1::Ask, context: &v1::SessionContext) -> Value {
    let mut custom = object(&context.custom);
    custom.extend(free::entries(&ask.custom, ask.custom_json.as_deref()));
    Value::Object(custom)
}

fn message(message: &v1::SessionMessage) -> Value {
    let role = match message.role() {
        v1::MessageRole::Assistant => "assistant",
        v1::MessageRole::User | v1::MessageRole::Unspecified => "user",
    };
    let mut value = json!({ "role": role, "text": message.text, "timestamp": message.at_ms });
    if let Some(spec) = &message.spec {
        value["spec"] = json!(spec);
    }
    value
}
