//! An ask: a text that is routed to a spec (seed 001). A thin machine over the activity machine: each call of a spec is
//! a wave of one task, whose retries, deadlines and leases are those of every task.
//!
//! What comes next is a function of the state alone ([`RunState::ask_step`]), so that a restart takes it up again.

use std::collections::BTreeSet;

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::retry;
use capataz_policy::transition::{self, Band};
use serde_json::{Value, json};

use crate::activity::End;
use crate::snapshot::as_bytes;
use crate::state::{Phase, RunState};

/// Older messages are left out of the history of a SpecRequest until it fits. Bytes; what else it holds is bounded by
/// the limits of an ask and of a session, far below what one assignment may have.
pub(crate) const MAX_REQUEST: usize = 32 * 1024;
/// Automatic transitions that may follow one message of the user.
const MAX_AUTOMATIC: usize = 5;

/// What only an ask has.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AskState {
    #[serde(with = "as_bytes::one")]
    pub(crate) ask: v1::Ask,
    /// Its turn in its session has come. An ask without a session has begun when it was accepted.
    pub(crate) begun: bool,
    #[serde(with = "as_bytes::one")]
    pub(crate) context: v1::SessionContext,
    /// One for each wave.
    pub(crate) calls: Vec<Call>,
    /// The catalogue's default spec, as the last call found it.
    pub(crate) default_spec: Option<String>,
    /// What was made of the transition in the answer that came last.
    #[serde(with = "as_bytes::option")]
    pub(crate) considered: Option<v1::AskTransition>,
    /// Transitions that this ask has taken by itself.
    #[serde(with = "as_bytes::list")]
    pub(crate) taken: Vec<v1::SessionTransition>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Call {
    pub(crate) spec: String,
    pub(crate) reason: i32,
    #[serde(with = "as_bytes::option")]
    pub(crate) routing: Option<v1::Routing>,
}

/// What an ask does next.
#[derive(Clone, Debug, PartialEq)]
pub enum AskStep {
    /// Its turn in its session has not come.
    AwaitTurn { session: String },
    /// A spec is to be found and called: the named one, or the one that the router chooses.
    Route { spec: Option<String>, reason: v1::CallReason },
    /// A spec works on it.
    Wait,
    /// It is over; `transition` is what came of the one in the last answer.
    Finish { transition: Option<v1::AskTransition> },
}

impl AskState {
    pub(crate) fn new(ask: v1::Ask) -> Self {
        let begun = ask.session.is_none();
        let context = v1::SessionContext { preferences: ask.preferences.clone(), ..Default::default() };
        Self {
            ask,
            begun,
            context,
            calls: Vec::new(),
            default_spec: None,
            considered: None,
            taken: Vec::new(),
        }
    }

    pub(crate) fn request_id(&self) -> &str {
        self.ask.request_id.as_deref().unwrap_or_default()
    }
}

impl RunState {
    /// The session that this ask is part of.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.ask.as_ref()?.ask.session.as_deref()
    }

    /// The text and the context by which the router is asked; `None` for a run that is no ask.
    #[must_use]
    pub fn ask_query(&self) -> Option<(&v1::Ask, &v1::SessionContext)> {
        self.ask.as_ref().map(|ask| (&ask.ask, &ask.context))
    }

    /// What this ask does next; `None` for a run that is no ask, or that ends.
    #[must_use]
    pub fn ask_step(&self) -> Option<AskStep> {
        let ask = self.ask.as_ref()?;
        if !matches!(self.phase, Phase::Running) || self.is_waiting() {
            return None;
        }
        if !ask.begun {
            return Some(AskStep::AwaitTurn { session: ask.ask.session.clone().unwrap_or_default() });
        }
        let Some(wave) = self.waves.last() else { return Some(self.first_call(ask)) };
        let Some(end) = wave.tasks.first().and_then(|activity| activity.end.as_ref()) else {
            return Some(AskStep::Wait);
        };
        if ask.considered.is_some() {
            // What was made of the answer's transition is recorded: nothing but the end is left.
            return Some(AskStep::Finish { transition: None });
        }
        Some(match end.status {
            ResultStatus::Success => self.after_answer(ask, end),
            _ => after_failure(ask, end),
        })
    }

    /// An explicit choice goes before the session's spec, and that before the router's choice.
    fn first_call(&self, ask: &AskState) -> AskStep {
        use v1::CallReason::{Continued, Explicit, Routed};
        let (spec, reason) = match (&ask.ask.spec, &ask.context.current_spec) {
            (Some(spec), _) => (Some(spec.clone()), Explicit),
            (None, Some(spec)) => (Some(spec.clone()), Continued),
            (None, None) => (None, Routed),
        };
        AskStep::Route { spec, reason }
    }

    /// The spec has answered: is the text to go to another one, or is this the answer?
    fn after_answer(&self, ask: &AskState, end: &End) -> AskStep {
        let finish = AskStep::Finish { transition: None };
        let Some(from) = ask.calls.last().map(|call| call.spec.as_str()) else { return finish };
        let Some(proposed) = response_of(end).as_ref().and_then(Proposed::read) else { return finish };
        let mut considered = proposed.considered(from);
        let taken = || ask.context.transitions.iter().chain(&ask.taken);
        let between = taken().any(|before| {
            transition::is_ping_pong(
                (&before.from, &before.to),
                (from, &proposed.to),
                end.at.0.saturating_sub(before.at_ms),
            )
        });
        let band = transition::band(proposed.confidence);
        let acts = transition::acts_by_itself(proposed.automatic, proposed.confidence);
        let verdict = if proposed.to == from {
            considered.note = "the spec suggests itself".to_owned();
            v1::TransitionVerdict::Ignored
        } else if band == Band::Ignored {
            considered.note = "the confidence is below 0.6".to_owned();
            v1::TransitionVerdict::Ignored
        } else if between {
            considered.note = format!(
                "a transition between these two was taken less than {} s ago",
                transition::PING_PONG_WINDOW_MS / 1000
            );
            v1::TransitionVerdict::Suppressed
        } else if acts && ask.taken.len() >= MAX_AUTOMATIC {
            considered.note = format!("{MAX_AUTOMATIC} automatic transitions followed one message");
            v1::TransitionVerdict::Suppressed
        } else if acts {
            return AskStep::Route { spec: Some(proposed.to), reason: v1::CallReason::Transition };
        } else {
            if proposed.automatic {
                considered.note = "not automatic: that needs a confidence above 0.8".to_owned();
            }
            v1::TransitionVerdict::Suggested
        };
        considered.verdict = verdict as i32;
        AskStep::Finish { transition: Some(considered) }
    }

    /// The transition that the last answer asks for by itself.
    pub(crate) fn automatic_transition(&self) -> Option<v1::AskTransition> {
        let ask = self.ask.as_ref()?;
        let end = self.waves.last()?.tasks.first()?.end.as_ref()?;
        let from = &ask.calls.last()?.spec;
        Some(Proposed::read(&response_of(end)?)?.considered(from))
    }

    /// The end of an ask, for whoever waits for it.
    pub(crate) fn ask_result(&self) -> Option<v1::AskResult> {
        let ask = self.ask.as_ref()?;
        let last = ask.calls.last();
        let end = self.last_end();
        let calls = ask.calls.iter().zip(&self.waves).map(|(call, wave)| {
            let activity = wave.tasks.first();
            let end = activity.and_then(|activity| activity.end.as_ref());
            v1::AskCall {
                spec: call.spec.clone(),
                reason: call.reason,
                attempts: activity.map_or(0, |activity| activity.attempt),
                error: end.and_then(|end| end.error.as_ref()).map(|error| retry::original(error).clone()),
            }
        });
        Some(v1::AskResult {
            spec: last.map(|call| call.spec.clone()).unwrap_or_default(),
            request_id: ask.request_id().to_owned(),
            response: end.and_then(|end| end.output.clone()),
            routing: last.and_then(|call| call.routing.clone()),
            transition: ask.considered.clone().filter(|_| end.is_some()),
            calls: calls.collect(),
        })
    }

    /// How the last call ended.
    pub(crate) fn last_end(&self) -> Option<&End> {
        self.waves.last()?.tasks.first()?.end.as_ref()
    }
}

/// A failed call: another spec, or the user.
fn after_failure(ask: &AskState, end: &End) -> AskStep {
    let finish = AskStep::Finish { transition: None };
    let code = end.error.as_ref().map_or("", |error| retry::original(error).code.as_str());
    let declared = response_of(end)
        .and_then(|response| response.pointer("/error/fallback_spec")?.as_str().map(str::to_owned));
    let tried: BTreeSet<&str> = ask.calls.iter().map(|call| call.spec.as_str()).collect();
    let default = ask.default_spec.clone().filter(|_| !transition::asks_the_user(code));
    let next = declared.into_iter().chain(default).find(|spec| !tried.contains(spec.as_str()));
    match next {
        Some(spec) => AskStep::Route { spec: Some(spec), reason: v1::CallReason::Fallback },
        None => finish,
    }
}

/// The response that a call has ended with; it was validated when it came.
pub(crate) fn response_of(end: &End) -> Option<Value> {
    match end.output.as_ref()?.data.as_ref()? {
        v1::payload::Data::Inline(bytes) => serde_json::from_slice(bytes).ok(),
        v1::payload::Data::Blob(_) => None,
    }
}

/// The transition of a valid response.
struct Proposed {
    to: String,
    reason: String,
    confidence: f64,
    automatic: bool,
}

impl Proposed {
    fn read(response: &Value) -> Option<Self> {
        let transition = response.get("transition")?.as_object()?;
        Some(Self {
            to: transition.get("suggest_spec")?.as_str()?.to_owned(),
            reason: transition.get("reason")?.as_str()?.to_owned(),
            confidence: transition.get("confidence")?.as_f64()?,
            automatic: transition.get("auto_transition")?.as_bool()?,
        })
    }

    fn considered(&self, from: &str) -> v1::AskTransition {
        v1::AskTransition {
            from: from.to_owned(),
            to: self.to.clone(),
            confidence: self.confidence,
            automatic: self.automatic,
            band: transition::band(self.confidence).to_proto() as i32,
            verdict: v1::TransitionVerdict::Unspecified as i32,
            reason: self.reason.clone(),
            note: String::new(),
        }
    }
}

impl RunState {
    /// The SpecRequest of a call (seed 001, "Formato de Entrada").
    pub(crate) fn spec_request(&self, routing: &v1::Routing, now_ms: i64) -> Vec<u8> {
        let Some(ask) = &self.ask else { return Vec::new() };
        // What earlier calls of this ask have asked to be kept, too.
        let mut context = ask.context.clone();
        for update in self.context_updates() {
            update.apply_to(&mut context);
        }
        let history = std::mem::take(&mut context.history);
        let mut history = history.as_slice();
        loop {
            let request = request_with(&ask.ask, &context, routing, history, now_ms).to_string().into_bytes();
            match history.split_first() {
                Some((_, rest)) if request.len() > MAX_REQUEST => history = rest,
                _ => return request,
            }
        }
    }

    /// What the answers so far ask to be kept, in their order.
    pub(crate) fn context_updates(&self) -> impl Iterator<Item = ContextUpdate> {
        let ends = self.waves.iter().filter_map(|wave| wave.tasks.first()?.end.as_ref());
        ends.filter_map(|end| ContextUpdate::read(&response_of(end)?))
    }
}

/// `context_update` of a response.
#[derive(Debug, Default)]
pub(crate) struct ContextUpdate {
    pub(crate) emotional_state: Option<String>,
    pub(crate) engagement_level: Option<String>,
    pub(crate) custom: serde_json::Map<String, Value>,
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
    pub(crate) fn and(mut self, later: Self) -> Self {
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
    history: &[v1::SessionMessage],
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
        if let Some(spec) = &context.current_spec {
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

/// What specs asked to be kept, and what came with the ask, which goes before it.
fn custom(ask: &v1::Ask, context: &v1::SessionContext) -> Value {
    let mut custom: serde_json::Map<String, Value> =
        serde_json::from_slice(&context.custom).unwrap_or_default();
    custom.extend(ask.custom.iter().map(|(key, value)| (key.clone(), json!(value))));
    Value::Object(custom)
}

fn message(message: &v1::SessionMessage) -> Value {
    let role = if message.role == v1::MessageRole::Assistant as i32 { "assistant" } else { "user" };
    let mut value = json!({ "role": role, "text": message.text, "timestamp": message.at_ms });
    if let Some(spec) = &message.spec {
        value["spec"] = json!(spec);
    }
    value
}
