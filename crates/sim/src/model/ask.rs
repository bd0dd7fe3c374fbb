//! An ask as its log tells it: which spec is called, why, and what becomes of its answers (CONTRACTS §2).

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, payload::Data};
use serde_json::{Map, Value};

use super::log::{RunModel, Step, WaveModel};
use crate::asks::spec_name;
use crate::invariant::{Invariant, Violation};
use crate::scenario::FOREIGN_SPEC;

/// Milliseconds in which no second transition between the same two specs follows.
const PING_PONG: i64 = 60_000;
/// Attempts of one spec.
pub(super) const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug, Default)]
pub struct AskModel {
    pub ask: v1::Ask,
    begun: bool,
    context: v1::SessionContext,
    calls: Vec<CallModel>,
    pub considered: Option<v1::AskTransition>,
    /// All decisions about transitions.
    told: Vec<v1::AskTransition>,
    pub taken: Vec<v1::SessionTransition>,
}

#[derive(Clone, Debug)]
struct CallModel {
    spec: String,
    reason: v1::CallReason,
    found: bool,
    confidence: f64,
    /// What the router alone would choose.
    alone: Option<v1::RouterChoice>,
    is_unsendable: bool,
    default_spec: String,
    /// What its spec answered last, where that can be read.
    answer: Option<Value>,
    /// Names of what that answer wanted to be kept, and the daemon's door had no room for.
    left_out: Vec<String>,
    /// The failure beneath all others.
    code: String,
    succeeded: Option<bool>,
    ended_at: i64,
}

/// What an ask adds to its session, in three parts, and the names of what there is no room for.
#[derive(Clone, Debug, Default)]
pub struct Update {
    pub user: Map<String, Value>,
    pub preferences: Map<String, Value>,
    pub custom: Map<String, Value>,
    pub left_out: Vec<String>,
}

/// Bytes that a session keeps of these three parts, each entry as it stands in a JSON object.
const ROOM: usize = 256 * 1024;

/// A JSON object of a context or an ask, out of its two fields.
#[must_use]
pub fn object(texts: &BTreeMap<String, String>, others: Option<&String>) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        texts.iter().map(|(key, text)| (key.clone(), text.clone().into())).collect();
    let others = others.map(|text| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default());
    all.extend(others.unwrap_or_default());
    all
}

/// The bytes of an entry beside others: `"key":value,`.
fn bytes((key, value): (&String, &Value)) -> usize {
    let alone: Map<String, Value> = [(key.clone(), value.clone())].into_iter().collect();
    Value::Object(alone).to_string().len() - 1
}

impl AskModel {
    pub fn new(ask: v1::Ask) -> Self {
        let context = v1::SessionContext {
            preferences: ask.preferences.clone(),
            preferences_json: ask.preferences_json.clone(),
            ..Default::default()
        };
        Self { begun: ask.session.is_none(), ask, context, ..Self::default() }
    }

    /// A fork belongs to no session, and needs no turn.
    pub fn leaves_session(&mut self) {
        self.ask.session = None;
        self.begun = true;
    }

    pub fn begin(&mut self, context: v1::SessionContext) -> bool {
        let first = !self.begun && self.calls.is_empty();
        self.begun = true;
        self.context = context;
        first
    }

    #[must_use]
    pub fn last_spec(&self) -> Option<&str> {
        self.calls.last().map(|call| call.spec.as_str())
    }

    #[must_use]
    pub fn answer_text(&self) -> Option<String> {
        let answer = self.calls.last()?.answer.as_ref()?;
        Some(answer.pointer("/response/text")?.as_str()?.to_owned())
    }

    /// The spec that an ask which has succeeded moves its session to: it was chosen by the user, by a transition, or by the
    /// router with at least 0.6; a fallback, a default or a weaker choice moves nothing.
    #[must_use]
    pub fn moves_to(&self) -> Option<&str> {
        let held = self.context.current_spec.as_deref();
        let mut answered = None;
        let mut first = None;
        for call in &self.calls {
            let counts = match call.reason {
                v1::CallReason::Fallback | v1::CallReason::Unspecified => false,
                v1::CallReason::Routed => call.confidence >= 0.6,
                v1::CallReason::Explicit | v1::CallReason::Continued | v1::CallReason::Transition => true,
            };
            if counts && call.succeeded == Some(true) {
                answered = Some(call.spec.as_str());
            }
            if counts && call.found && first.is_none() {
                first = Some(call.spec.as_str());
            }
        }
        // Where nobody held the session, it begins with the spec that was chosen, even if another one answered.
        let to = answered.or(first.filter(|_| held.is_none()))?;
        Some(to).filter(|to| held != Some(to))
    }

    /// What the user may accept: of the answers since the text was last handed over the most visible suggestion, the earlier
    /// one of two alike.
    #[must_use]
    pub fn suggestion(&self) -> Option<&v1::AskTransition> {
        let mut best: Option<&v1::AskTransition> = None;
        for told in &self.told {
            if told.verdict() == v1::TransitionVerdict::Taken {
                best = None;
            }
            let goes_before = |best: &v1::AskTransition| told.confidence > 0.8 && best.confidence <= 0.8;
            if told.verdict() == v1::TransitionVerdict::Suggested && best.is_none_or(goes_before) {
                best = Some(told);
            }
        }
        best
    }

    /// Whether the request of the last call breaks the contract, so that nobody may get it.
    #[must_use]
    pub fn is_unsendable(&self) -> bool {
        self.calls.last().is_some_and(|call| call.is_unsendable)
    }

    /// What the session is to keep of the ask and of its answers.
    #[must_use]
    pub fn context_update(&self) -> Update {
        let context = &self.context;
        let states =
            [("emotional_state", &context.emotional_state), ("engagement_level", &context.engagement_level)];
        let states =
            states.into_iter().filter_map(|(key, state)| Some((key.to_owned(), state.clone()?.into())));
        let mut kept = [
            states.collect(),
            object(&context.preferences, context.preferences_json.as_ref()),
            serde_json::from_slice(&context.custom).unwrap_or_default(),
        ];
        let said = object(&self.ask.preferences, self.ask.preferences_json.as_ref());
        let mut wanted: Vec<(usize, String, Value)> =
            said.into_iter().map(|(key, value)| (1, key, value)).collect();
        let mut left_out: BTreeSet<String> =
            self.calls.iter().flat_map(|call| call.left_out.iter().cloned()).collect();
        for answer in self.calls.iter().filter_map(|call| call.answer.as_ref()) {
            let Some(news) = answer.get("context_update").and_then(Value::as_object) else { continue };
            for key in ["emotional_state", "engagement_level"] {
                if let Some(state) = news.get(key).filter(|state| state.is_string()) {
                    wanted.push((0, key.to_owned(), state.clone()));
                }
            }
            let custom = news.get("custom").and_then(Value::as_object).cloned().unwrap_or_default();
            wanted.extend(custom.into_iter().map(|(key, value)| (2, key, value)));
        }
        let mut news: [Map<String, Value>; 3] = Default::default();
        for (part, key, value) in wanted {
            let name = format!("{}{key}", ["", "preferences.", "custom."][part]);
            // What is as it was is not written again.
            if kept[part].get(&key) == Some(&value) {
                left_out.remove(&name);
                continue;
            }
            let all: usize = kept.iter().flatten().map(bytes).sum();
            let before = kept[part].get(&key).map_or(0, |value| bytes((&key, value)));
            let after = bytes((&key, &value));
            if all - before + after > ROOM && after > before {
                left_out.insert(name);
            } else {
                left_out.remove(&name);
                kept[part].insert(key.clone(), value.clone());
                news[part].insert(key, value);
            }
        }
        let [user, preferences, custom] = news;
        Update { user, preferences, custom, left_out: left_out.into_iter().collect() }
    }

    /// The spec of the last answer in the history.
    fn previous_spec(&self) -> Option<&str> {
        self.ask.session.as_ref()?;
        self.context.history.iter().rev().find_map(|message| message.spec.as_deref())
    }

    fn was_called(&self, spec: &str) -> bool {
        self.calls.iter().any(|call| call.spec == spec)
    }

    /// Where a failed call goes to, if anywhere; not before what becomes of a transition in its answer is known.
    fn fallback(&self) -> Option<&str> {
        let call = self.calls.last().filter(|call| call.succeeded == Some(false))?;
        if self.proposed().is_some() && self.considered.is_none() {
            return None;
        }
        let declared =
            call.answer.as_ref().and_then(|answer| answer.pointer("/error/fallback_spec")?.as_str());
        let asks_user = matches!(call.code.as_str(), "VALIDATION_ERROR" | "INSUFFICIENT_CONTEXT");
        let default = Some(call.default_spec.as_str()).filter(|spec| !spec.is_empty() && !asks_user);
        declared.into_iter().chain(default).find(|spec| !self.was_called(spec))
    }

    /// The transition in the last answer, be it a success or a failure.
    fn proposed(&self) -> Option<(&str, &Value)> {
        let call = self.calls.last().filter(|call| call.succeeded.is_some())?;
        let transition = call.answer.as_ref()?.get("transition").filter(|value| value.is_object())?;
        Some((call.spec.as_str(), transition))
    }

    /// What the router alone would have chosen, where another spec holds the session, is worth a word: surely enough, more
    /// visible than what the answers suggest, and not said before.
    fn has_routers_word(&self) -> bool {
        let Some(first) = self.calls.first().filter(|call| call.reason == v1::CallReason::Continued) else {
            return false;
        };
        let Some(alone) = first.alone.as_ref().filter(|alone| alone.spec != first.spec) else { return false };
        let said = self.told.iter().any(|told| told.by_router);
        let more_visible = |own: &v1::AskTransition| own.confidence <= 0.8 && alone.confidence > 0.8;
        let visible = self.suggestion().is_none_or(more_visible);
        alone.confidence >= 0.6 && !said && self.taken.is_empty() && visible
    }

    /// Whether the router may say this: it never acts by itself.
    fn of_the_router(&self, given: &v1::AskTransition) -> bool {
        let Some((first, alone)) = self.calls.first().and_then(|call| Some((call, call.alone.as_ref()?)))
        else {
            return false;
        };
        let ended_at = self.calls.last().map_or(0, |call| call.ended_at);
        let ping_pong = self.is_ping_pong(&first.spec, &alone.spec, ended_at);
        let verdict =
            if ping_pong { v1::TransitionVerdict::Suppressed } else { v1::TransitionVerdict::Suggested };
        let band =
            if alone.confidence > 0.8 { v1::TransitionBand::Prominent } else { v1::TransitionBand::Subtle };
        let open = self.proposed().is_some() && self.considered.is_none();
        self.has_routers_word()
            && !open
            && self.fallback().is_none()
            && !given.automatic
            && (given.from.as_str(), given.to.as_str()) == (first.spec.as_str(), alone.spec.as_str())
            && (given.confidence - alone.confidence).abs() < f64::EPSILON
            && given.verdict() == verdict
            && given.band() == band
    }

    fn is_ping_pong(&self, from: &str, to: &str, at: i64) -> bool {
        self.context.transitions.iter().chain(&self.taken).any(|before| {
            let same = (before.from.as_str(), before.to.as_str());
            (same == (from, to) || same == (to, from)) && (0..PING_PONG).contains(&(at - before.at_ms))
        })
    }
}

impl RunModel {
    /// The ask, which must be one and have begun.
    fn begun_ask(&mut self, what: &str) -> Result<&mut AskModel, Violation> {
        let text = self.at(format!("{what}, and no ask has begun"));
        match self.ask_mut().filter(|ask| ask.begun) {
            Some(ask) => Ok(ask),
            None => Invariant::AsksInOrder.broken(text),
        }
    }

    pub(super) fn ask_routed(&mut self, event: v1::AskRouted) -> Result<(), Violation> {
        let text = self.at(format!("{} is called as {:?}", event.spec, event.reason()));
        let idle = self.waves.last().is_none_or(WaveModel::has_settled) && self.ending.is_none();
        let in_order = event.call as usize == self.waves.len() && idle;
        Invariant::AsksInOrder.check(in_order, || text.clone())?;
        let ask = self.begun_ask("a call")?;
        let current = ask.context.current_spec.clone();
        let said = match event.reason() {
            v1::CallReason::Explicit => ask.calls.is_empty() && ask.ask.spec.as_ref() == Some(&event.spec),
            v1::CallReason::Continued => {
                ask.calls.is_empty() && ask.ask.spec.is_none() && current.as_ref() == Some(&event.spec)
            }
            // Also where the session's spec is gone.
            v1::CallReason::Routed => ask.calls.is_empty() && ask.ask.spec.is_none(),
            v1::CallReason::Transition => ask.considered.as_ref().is_some_and(|considered| {
                considered.verdict == v1::TransitionVerdict::Taken as i32 && considered.to == event.spec
            }),
            v1::CallReason::Fallback => ask.fallback() == Some(event.spec.as_str()),
            v1::CallReason::Unspecified => false,
        };
        let once = !ask.was_called(&event.spec) || event.spec.is_empty();
        Invariant::AsksInOrder.check(said && once, || format!("{text}: {ask:?}"))?;
        let input = event.wave.as_ref().and_then(|wave| wave.tasks.first()?.input.as_ref());
        if let Some(Data::Inline(bytes)) = input.and_then(|input| input.data.as_ref()) {
            let request: Value = serde_json::from_slice(bytes).unwrap_or_default();
            let asked = request["id"].as_str() == ask.ask.request_id.as_deref()
                && request["text"].as_str() == Some(&ask.ask.text)
                && request["spec"].as_str() == Some(&event.spec)
                && (ask.ask.session.is_none()
                    || request["conversation"]["message_count"] == ask.context.message_count)
                && request["conversation"]["previous_spec"].as_str() == ask.previous_spec();
            Invariant::AsksInOrder.check(asked, || format!("{text} with {request}"))?;
        }
        ask.considered = None;
        let confidence = event.routing.as_ref().map_or(0.0, |routing| routing.confidence);
        ask.calls.push(CallModel {
            confidence,
            alone: event.routing.as_ref().and_then(|routing| routing.alone.clone()),
            is_unsendable: !(0.0..=1.0).contains(&confidence),
            reason: event.reason(),
            found: event.routing.is_some(),
            spec: event.spec,
            default_spec: event.default_spec,
            answer: None,
            left_out: Vec::new(),
            code: String::new(),
            succeeded: None,
            ended_at: 0,
        });
        self.open_wave(event.wave.unwrap_or_default());
        Ok(())
    }

    pub(super) fn considered(&mut self, given: v1::AskTransition) -> Result<(), Violation> {
        let text = self.at(format!("{given:?}"));
        let at = self.last_at;
        let ask = self.begun_ask("a transition")?;
        // Among them is the router's, of a spec that there was.
        let may_exist = given.verdict != v1::TransitionVerdict::Suggested as i32 || is_drawn(&given.to);
        Invariant::Transitions.check(may_exist, || format!("{text}, of a spec that never is"))?;
        if given.by_router {
            Invariant::Transitions.check(ask.of_the_router(&given), || format!("{text}: {ask:?}"))?;
            ask.told.push(given.clone());
            ask.considered = Some(given);
            return Ok(());
        }
        let Some((from, proposed)) = ask.proposed().filter(|_| ask.considered.is_none()) else {
            return Invariant::Transitions.broken(format!("{text}, and no answer holds one"));
        };
        let confidence = proposed["confidence"].as_f64().unwrap_or_default();
        let automatic = proposed["auto_transition"].as_bool().unwrap_or_default();
        let copied = given.from == from
            && proposed["suggest_spec"].as_str() == Some(&given.to)
            && (given.confidence - confidence).abs() < f64::EPSILON
            && given.automatic == automatic;
        let band = if confidence > 0.8 {
            v1::TransitionBand::Prominent
        } else if confidence >= 0.6 {
            v1::TransitionBand::Subtle
        } else {
            v1::TransitionBand::Ignored
        };
        let ended_at = ask.calls.last().map_or(0, |call| call.ended_at);
        let ping_pong = ask.is_ping_pong(&given.from, &given.to, ended_at);
        let acts = automatic && confidence > 0.8;
        let itself = given.from == given.to;
        let counts = confidence >= 0.6 && !itself;
        let allowed = match given.verdict() {
            v1::TransitionVerdict::Taken => {
                counts && acts && !ping_pong && ask.taken.len() < 5 && !ask.was_called(&given.to)
            }
            v1::TransitionVerdict::Suggested => counts && !acts && !ping_pong,
            v1::TransitionVerdict::Suppressed => counts && (ping_pong || acts && ask.taken.len() >= 5),
            // There is no such spec; or the one that it would hand the text to was called before.
            v1::TransitionVerdict::Ignored => !counts || !ping_pong && (acts || !given.note.is_empty()),
            v1::TransitionVerdict::Unspecified => false,
        };
        Invariant::Transitions
            .check(copied && allowed && given.band() == band, || format!("{text}: {ask:?}"))?;
        if given.verdict() == v1::TransitionVerdict::Taken {
            let (from, to) = (given.from.clone(), given.to.clone());
            ask.taken.push(v1::SessionTransition { from, to, at_ms: at, automatic: true });
        }
        ask.told.push(given.clone());
        ask.considered = Some(given);
        Ok(())
    }

    /// A call has ended, or one of its attempts.
    pub(super) fn call_ended(
        &mut self,
        output: Option<&v1::Payload>,
        error: Option<&v1::Error>,
        succeeded: Option<bool>,
    ) -> Result<(), Violation> {
        let text = self.at(format!("the call ends: {error:?}"));
        let at = self.last_at;
        let attempt = self.waves.last().and_then(|wave| wave.tasks.first()).map_or(0, |task| task.attempt);
        let stopped = self.ending.is_some();
        let Some(ask) = self.ask_mut() else { return Ok(()) };
        let request_id = ask.ask.request_id.as_deref();
        let Some(call) = ask.calls.last_mut() else { return Invariant::AsksInOrder.broken(text) };
        let Some(succeeded) = succeeded else {
            // Another attempt follows: only where the spec says that it may pass, or did not answer.
            let answer = read(output);
            let recoverable =
                answer.as_ref().and_then(|answer| answer.pointer("/error/recoverable")?.as_bool());
            // An answer that breaks the contract is the daemon's FATAL_ERROR, which nobody has called recoverable.
            let broken = recoverable.is_none() && error.is_some_and(|error| error.code == "FATAL_ERROR");
            return Invariant::AttemptsCounted
                .check(recoverable.unwrap_or(!broken), || format!("{text} is tried again"));
        };
        // What breaks the contract is recorded as well, and says nothing.
        call.answer = read(output).filter(|answer| keeps_the_contract(answer, &call.spec, request_id));
        call.left_out = call.answer.as_ref().and(output).map(dropped).unwrap_or_default();
        call.succeeded = Some(succeeded);
        call.ended_at = at;
        let mut error = error;
        while let Some(inner) = error.and_then(|error| error.cause.as_deref()) {
            error = Some(inner);
        }
        call.code = error.map(|error| error.code.clone()).unwrap_or_default();
        // What a spec calls recoverable goes elsewhere only after its third attempt, whatever its code is.
        let recoverable =
            call.answer.as_ref().and_then(|answer| answer.pointer("/error/recoverable")?.as_bool());
        let given_up = recoverable != Some(true) || attempt >= ATTEMPTS || stopped;
        Invariant::AttemptsCounted.check(given_up, || format!("{text} after attempt {attempt}"))?;
        // The notes of a long answer are small enough, whether the call has failed or not.
        Invariant::SessionTurns
            .check(call.left_out.is_empty(), || format!("{text} without {:?}", call.left_out))?;
        if succeeded {
            let valid = call.answer.as_ref().is_some_and(|answer| {
                answer["success"] == true
                    && answer["spec"].as_str() == Some(&call.spec)
                    && answer["request_id"].as_str() == ask.ask.request_id.as_deref()
            });
            return Invariant::AsksInOrder.check(valid, || format!("{text}: {ask:?}"));
        }
        Ok(())
    }

    /// The outcome that an ask ends with which nobody has ended.
    pub(super) fn ask_outcome(&self) -> Option<v1::RunOutcome> {
        let ask = self.ask()?;
        let call = ask.calls.last()?;
        let open = ask.proposed().is_some() && ask.considered.is_none();
        let taken = ask
            .considered
            .as_ref()
            .is_some_and(|considered| considered.verdict == v1::TransitionVerdict::Taken as i32);
        if open || taken || ask.fallback().is_some() || ask.has_routers_word() {
            return None;
        }
        Some(if call.succeeded? { v1::RunOutcome::Succeeded } else { v1::RunOutcome::Failed })
    }

    /// A spec that is not there fails without anybody being asked.
    pub(super) fn may_fail_unasked(&self, code: &str) -> bool {
        let call = self.ask().and_then(|ask| ask.calls.last());
        match code {
            "SPEC_NOT_AVAILABLE" | "PROCESSING_TIMEOUT" => call.is_some(),
            "INCOMPATIBLE_VERSION" => call.is_some_and(|call| call.found),
            "INVALID_REQUEST" => call.is_some_and(|call| call.is_unsendable),
            _ => false,
        }
    }
}

impl WaveModel {
    pub(super) fn has_settled(&self) -> bool {
        self.tasks.iter().all(|task| task.step == Step::Settled)
    }
}

/// Whether the scripted answer is one to this request; see `host::answer` for what is wrong with the others.
fn keeps_the_contract(answer: &Value, spec: &str, request_id: Option<&str>) -> bool {
    answer["spec"].as_str() == Some(spec)
        && answer["request_id"].as_str() == request_id
        && answer["metadata"].is_object()
}

/// Whether a catalogue may ever have this spec.
fn is_drawn(spec: &str) -> bool {
    (0..=FOREIGN_SPEC).any(|index| spec_name(index) == spec)
}

/// What the excerpt of a long answer says that it lacks.
fn dropped(output: &v1::Payload) -> Vec<String> {
    let Some(Data::Blob(blob)) = &output.data else { return Vec::new() };
    blob.answer.as_ref().map(|excerpt| excerpt.left_out.clone()).unwrap_or_default()
}

fn read(output: Option<&v1::Payload>) -> Option<Value> {
    match output?.data.as_ref()? {
        Data::Inline(bytes) => serde_json::from_slice(bytes).ok(),
        Data::Blob(blob) => serde_json::from_str(&blob.answer.as_ref()?.response).ok(),
    }
}
