//! The SpecRequest of a call (seed 001, "Formato de Entrada"), and what answers ask to be kept.

use capataz_contracts::v1;
use serde_json::{Value, json};

use super::response_of;
use super::state::AskState;
use crate::fold::state::RunState;

/// Older messages are left out of the history of a SpecRequest until it fits. Bytes; what else it holds is bounded by
/// the limits of an ask and of a session, far below what one assignment may have.
pub(super) const MAX_REQUEST: usize = 32 * 1024;

/// The SpecRequest of the next call.
pub(super) fn spec_request(ask: &AskState, run: &RunState, routing: &v1::Routing, now_ms: i64) -> Vec<u8> {
    // The updates of earlier calls of this ask count, too.
    let mut context = ask.context.clone();
    for update in context_updates(run) {
        update.apply_to(&mut context);
    }
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

/// The values that the answers so far asked to be kept, in the order of the answers.
pub(super) fn context_updates(run: &RunState) -> impl Iterator<Item = ContextUpdate> {
    let ends = run.waves.iter().filter_map(|wave| wave.tasks.first()?.end.as_ref());
    ends.filter_map(|end| ContextUpdate::read(&response_of(end)?))
}

/// `context_update` of a response.
#[derive(Debug, Default)]
pub(super) struct ContextUpdate {
    pub(super) emotional_state: Option<String>,
    pub(super) engagement_level: Option<String>,
    pub(super) custom: serde_json::Map<String, Value>,
}

impl ContextUpdate {
    fn read(response: &Value) -> Option<Self> {
        let update = response.get("context_update")?.as_object()?;
        let text = |key: &str| update.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            emotional_state: text("emotional_state"),
            engagement_level: text("engagement_level"),
            custom: update.get("custom").and_then(Value::as_object).cloned().unwrap_or_default(),
        })
    }

    /// This update and the later one.
    pub(super) fn and(mut self, later: Self) -> Self {
        self.emotional_state = later.emotional_state.or(self.emotional_state);
        self.engagement_level = later.engagement_level.or(self.engagement_level);
        self.custom.extend(later.custom);
        self
    }

    fn apply_to(self, context: &mut v1::SessionContext) {
        let Self { emotional_state, engagement_level, custom } = self;
        context.emotional_state = emotional_state.or(context.emotional_state.take());
        context.engagement_level = engagement_level.or(context.engagement_level.take());
        if !custom.is_empty() {
            let mut kept: serde_json::Map<String, Value> =
                serde_json::from_slice(&context.custom).unwrap_or_default();
            kept.extend(custom);
            context.custom = Value::Object(kept).to_string().into();
        }
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
    let mut preferences = context.preferences.clone();
    preferences.extend(ask.preferences.clone());
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
    let mut custom: serde_json::Map<String, Value> =
        serde_json::from_slice(&context.custom).unwrap_or_default();
    custom.extend(ask.custom.iter().map(|(key, value)| (key.clone(), json!(value))));
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
