//! What an ask and the answers to it want to be kept, and what there is room for (CONTRACTS §2): a context has up to 256 KiB.
//! What does not fit is left out key by key, and named.

use std::collections::BTreeSet;

use capataz_contracts::validate::{CONTEXT_MAX, entry_bytes};
use capataz_contracts::{free, v1};
use serde_json::{Map, Value};

use super::request::ContextUpdate;
use crate::fold::session::object;

/// The name of the mood and of the attention in contexts and updates.
const EMOTIONAL_STATE: &str = "emotional_state";
const ENGAGEMENT_LEVEL: &str = "engagement_level";

/// A context to which more is added, within its limit.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The mood and the attention of the user.
    user: Map<String, Value>,
    preferences: Map<String, Value>,
    custom: Map<String, Value>,
    bytes: usize,
    /// What changed.
    news: News,
    left_out: BTreeSet<String>,
    /// Keys that nobody has named.
    more_left_out: u32,
}

/// What has other values than before.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) user: Map<String, Value>,
    pub(super) preferences: Map<String, Value>,
    pub(super) custom: Map<String, Value>,
}

#[derive(Clone, Copy)]
enum Part {
    User,
    Preferences,
    Custom,
}

impl Keeper {
    /// The context that an ask has found, with what the ask itself says of the user.
    pub(super) fn new(context: &v1::SessionContext, ask: &v1::Ask) -> Self {
        let states =
            [(EMOTIONAL_STATE, &context.emotional_state), (ENGAGEMENT_LEVEL, &context.engagement_level)];
        let states =
            states.into_iter().filter_map(|(key, state)| Some((key.to_owned(), state.clone()?.into())));
        let mut keeper = Self {
            user: states.collect(),
            preferences: free::entries(&context.preferences, context.preferences_json.as_deref()),
            custom: object(&context.custom),
            bytes: 0,
            news: News::default(),
            left_out: BTreeSet::new(),
            more_left_out: 0,
        };
        let parts = [&keeper.user, &keeper.preferences, &keeper.custom];
        keeper.bytes = parts.into_iter().flatten().map(|(key, value)| entry_bytes(key, value)).sum();
        for (key, value) in free::entries(&ask.preferences, ask.preferences_json.as_deref()) {
            keeper.keep(Part::Preferences, key, value);
        }
        keeper
    }

    /// Adds what an answer wants to be kept.
    pub(super) fn update(&mut self, update: ContextUpdate) {
        let ContextUpdate { emotional_state, engagement_level, custom, left_out, more_left_out } = update;
        self.left_out.extend(left_out);
        self.more_left_out = self.more_left_out.saturating_add(more_left_out);
        for (key, state) in [(EMOTIONAL_STATE, emotional_state), (ENGAGEMENT_LEVEL, engagement_level)] {
            if let Some(state) = state {
                self.keep(Part::User, key.to_owned(), state.into());
            }
        }
        for (key, value) in custom {
            self.keep(Part::Custom, key, value);
        }
    }

    fn keep(&mut self, part: Part, key: String, value: Value) {
        let (kept, news, prefix) = match part {
            Part::User => (&mut self.user, &mut self.news.user, ""),
            Part::Preferences => (&mut self.preferences, &mut self.news.preferences, "preferences."),
            Part::Custom => (&mut self.custom, &mut self.news.custom, "custom."),
        };
        let name = format!("{prefix}{key}");
        if kept.get(&key) == Some(&value) {
            self.left_out.remove(&name);
            return;
        }
        let before = kept.get(&key).map_or(0, |value| entry_bytes(&key, value));
        let after = entry_bytes(&key, &value);
        let bytes = self.bytes - before + after;
        if bytes > CONTEXT_MAX && after > before {
            self.left_out.insert(name);
            return;
        }
        self.left_out.remove(&name);
        self.bytes = bytes;
        news.insert(key.clone(), value.clone());
        kept.insert(key, value);
    }

    /// The context with all that was kept. The rest of it is as it was.
    pub(super) fn apply_to(self, context: &mut v1::SessionContext) {
        let text = |key: &str| self.user.get(key).and_then(Value::as_str).map(str::to_owned);
        context.emotional_state = text(EMOTIONAL_STATE);
        context.engagement_level = text(ENGAGEMENT_LEVEL);
        (context.preferences, context.preferences_json) = free::divide(self.preferences);
        context.custom = json_of(self.custom);
    }

    /// What changed, and what was left out.
    pub(super) fn into_news(self) -> (News, Option<v1::LeftOut>) {
        let left_out = free::left_out(self.left_out)
            .map(|named| v1::LeftOut { more: named.more.saturating_add(self.more_left_out), ..named });
        (self.news, left_out)
    }
}

impl News {
    /// The mood and the attention, where they changed.
    pub(super) fn states(&self) -> (Option<String>, Option<String>) {
        let text = |key: &str| self.user.get(key).and_then(Value::as_str).map(str::to_owned);
        (text(EMOTIONAL_STATE), text(ENGAGEMENT_LEVEL))
    }
}

/// The text of an object; no bytes where it is empty.
pub(super) fn json_of(object: Map<String, Value>) -> bytes::Bytes {
    if object.is_empty() { bytes::Bytes::new() } else { Value::Object(object).to_string().into() }
}
