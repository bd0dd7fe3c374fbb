//! The decision about the transition in an answer (seed 001; CONTRACTS §2, "Transitions" and "Ping-pong").

use capataz_contracts::v1;
use capataz_policy::transition::{self, Band};
use serde_json::Value;

use super::response_of;
use super::state::AskState;
use crate::fold::activity::End;

/// Automatic transitions that may follow one message of the user.
const MAX_AUTOMATIC: usize = 5;

/// What follows from an answer.
pub(super) enum Considered {
    /// It holds no transition.
    Nothing,
    /// The transition is recorded, and has no consequence.
    Told(v1::AskTransition),
    /// The text goes to another spec, or that spec is suggested: if there is such a spec.
    Proposed { transition: v1::AskTransition, acts: bool },
}

/// Decides whether the text goes to another spec, or the answer stands.
pub(super) fn after_answer(ask: &AskState, end: &End) -> Considered {
    let Some(from) = ask.calls.last().map(|call| call.spec.as_str()) else { return Considered::Nothing };
    let Some(proposed) = response_of(end).as_ref().and_then(Proposed::read) else {
        return Considered::Nothing;
    };
    let mut considered = proposed.considered(from);
    let between = is_ping_pong(ask, (from, &proposed.to), end);
    let band = transition::band(proposed.confidence);
    let acts = transition::acts_by_itself(proposed.automatic, proposed.confidence);
    let verdict = if proposed.to == from {
        considered.note = "the spec suggests itself".to_owned();
        v1::TransitionVerdict::Ignored
    } else if band == Band::Ignored {
        considered.note = "the confidence is below 0.6".to_owned();
        v1::TransitionVerdict::Ignored
    } else if between {
        considered.note = taken_lately();
        v1::TransitionVerdict::Suppressed
    } else if acts && ask.taken.len() >= MAX_AUTOMATIC {
        considered.note = format!("{MAX_AUTOMATIC} automatic transitions followed one message");
        v1::TransitionVerdict::Suppressed
    } else {
        if proposed.automatic && !acts {
            considered.note = "not automatic: that needs a confidence above 0.8".to_owned();
        }
        return Considered::Proposed { transition: considered, acts };
    };
    considered.set_verdict(verdict);
    Considered::Told(considered)
}

fn is_ping_pong(ask: &AskState, wanted: (&str, &str), end: &End) -> bool {
    ask.context.transitions.iter().chain(&ask.taken).any(|before| {
        let since = end.at.0.saturating_sub(before.at_ms);
        transition::is_ping_pong((&before.from, &before.to), wanted, since)
    })
}

fn taken_lately() -> String {
    let seconds = transition::PING_PONG_WINDOW_MS / 1000;
    format!("a transition between these two was taken less than {seconds} s ago")
}

/// The router's own choice, where another spec holds the session: a suggestion in its band, which never acts by itself. Nothing
/// where an answer has suggested something that is as visible, or the text was handed over.
pub(super) fn of_the_router(ask: &AskState, end: &End) -> Option<v1::AskTransition> {
    let first = ask.calls.first().filter(|call| call.reason == v1::CallReason::Continued)?;
    let alone = first.routing.as_ref()?.alone.as_ref().filter(|alone| alone.spec != first.spec)?;
    let band = transition::band(alone.confidence);
    let is_told = ask.transitions.iter().any(|told| told.by_router);
    if is_told || !ask.taken.is_empty() || band == Band::Ignored {
        return None;
    }
    let prominent = band == Band::Prominent;
    let stands = |own: &v1::AskTransition| own.band() == v1::TransitionBand::Prominent || !prominent;
    if ask.suggestion().is_some_and(stands) {
        return None;
    }
    let (verdict, note) = if is_ping_pong(ask, (&first.spec, &alone.spec), end) {
        (v1::TransitionVerdict::Suppressed, taken_lately())
    } else {
        (v1::TransitionVerdict::Suggested, String::new())
    };
    Some(v1::AskTransition {
        from: first.spec.clone(),
        to: alone.spec.clone(),
        confidence: alone.confidence,
        automatic: false,
        band: band.to_proto().into(),
        verdict: verdict.into(),
        reason: alone.reason.clone(),
        note,
        by_router: true,
    })
}

/// What becomes of a proposed transition, now that it is known whether there is such a spec.
pub(super) fn decided(
    ask: &AskState,
    mut transition: v1::AskTransition,
    acts: bool,
    target: Result<(), &v1::Error>,
) -> v1::AskTransition {
    let tried = acts && ask.calls.iter().any(|call| call.spec == transition.to);
    let verdict = match target {
        Err(error) => {
            transition.note = error.message.clone();
            v1::TransitionVerdict::Ignored
        }
        Ok(()) if tried => {
            transition.note = "that spec was called for this text before".to_owned();
            v1::TransitionVerdict::Ignored
        }
        Ok(()) if acts => v1::TransitionVerdict::Taken,
        Ok(()) => v1::TransitionVerdict::Suggested,
    };
    transition.set_verdict(verdict);
    transition
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
            band: transition::band(self.confidence).to_proto().into(),
            verdict: v1::TransitionVerdict::Unspecified.into(),
            reason: self.reason.clone(),
            note: String::new(),
            by_router: false,
        }
    }
}
