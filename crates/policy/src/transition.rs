//! Transitions between specs: the visibility of a suggestion, the condition for an automatic transition, and the
//! protection against two specs handing a user back and forth (seed 001, "Reglas de Transición entre Specs").

use capataz_contracts::v1;

/// The confidence above which a suggestion is shown prominently, and may act automatically.
pub const PROMINENT: f64 = 0.8;
/// The confidence below which a suggestion is ignored.
pub const SUBTLE: f64 = 0.6;
/// The time in milliseconds during which no second transition between the same two specs follows.
pub const PING_PONG_WINDOW_MS: i64 = 60_000;
/// The maximum number of attempts of one spec at one request, including the first.
pub const MAX_ATTEMPTS: u32 = 3;
/// The time in milliseconds after which a spec without an answer has failed with PROCESSING_TIMEOUT.
pub const ANSWER_WITHIN_MS: i64 = 30_000;

/// The visibility of a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    Prominent,
    Subtle,
    Ignored,
}

impl Band {
    #[must_use]
    pub fn to_proto(self) -> v1::TransitionBand {
        match self {
            Self::Prominent => v1::TransitionBand::Prominent,
            Self::Subtle => v1::TransitionBand::Subtle,
            Self::Ignored => v1::TransitionBand::Ignored,
        }
    }
}

/// The band of a confidence: above 0.8 prominent, from 0.6 to 0.8 subtle, below 0.6 ignored.
#[must_use]
pub fn band(confidence: f64) -> Band {
    if confidence > PROMINENT {
        Band::Prominent
    } else if confidence >= SUBTLE {
        Band::Subtle
    } else {
        Band::Ignored
    }
}

/// Returns whether a spec that the router chose with this confidence holds the session: below it, the next message is
/// routed afresh.
#[must_use]
pub fn holds_the_session(confidence: f64) -> bool {
    confidence >= SUBTLE
}

/// Returns whether the transition happens without the user: it is declared automatic, and its confidence is above 0.8.
#[must_use]
pub fn acts_by_itself(automatic: bool, confidence: f64) -> bool {
    automatic && confidence > PROMINENT
}

/// Returns whether a transition `since_ms` ago forbids the wanted one: it was between the same two specs, in either
/// direction, less than a minute ago. Both transitions are pairs (from, to). What a clock that was set says to be still to
/// come forbids nothing.
#[must_use]
pub fn is_ping_pong(before: (&str, &str), wanted: (&str, &str), since_ms: i64) -> bool {
    let same = before == wanted || before == (wanted.1, wanted.0);
    same && (0..PING_PONG_WINDOW_MS).contains(&since_ms)
}

/// Returns whether a failure with this code goes to the user, instead of the default spec, if the spec names no other
/// one. It says nothing about attempts: whether the same spec is called again is its own `recoverable`.
#[must_use]
pub fn asks_the_user(code: &str) -> bool {
    matches!(code, "VALIDATION_ERROR" | "INSUFFICIENT_CONTEXT")
}

#[cfg(test)]
mod tests {
    use super::*;

    // S001-TR-08, S001-TR-09, S001-TR-10
    #[test]
    fn the_bands_meet_at_their_limits() {
        let bands =
            [(1.0, Band::Prominent), (0.81, Band::Prominent), (0.8, Band::Subtle), (0.6, Band::Subtle)];
        for (confidence, expected) in bands {
            assert_eq!(band(confidence), expected, "{confidence}");
        }
        assert_eq!(band(0.599), Band::Ignored);
        assert_eq!(band(0.0), Band::Ignored);
        assert_eq!(band(f64::NAN), Band::Ignored);
    }

    #[test]
    fn a_session_is_held_from_0_6_on() {
        assert!(holds_the_session(0.6) && holds_the_session(1.0));
        assert!(!holds_the_session(0.599) && !holds_the_session(0.0) && !holds_the_session(f64::NAN));
    }

    // S001-TR-04
    #[test]
    fn only_above_the_limit_a_transition_acts_by_itself() {
        assert!(acts_by_itself(true, 0.81));
        assert!(!acts_by_itself(true, 0.8));
        assert!(!acts_by_itself(false, 0.99));
    }

    // S001-TR-13, S001-TR-14
    #[test]
    fn within_a_minute_nobody_is_handed_back() {
        assert!(is_ping_pong(("a", "b"), ("a", "b"), 59_999));
        assert!(is_ping_pong(("a", "b"), ("b", "a"), 0));
        assert!(!is_ping_pong(("a", "b"), ("b", "a"), 60_000));
        // The clock was set back by 40 days since then.
        assert!(!is_ping_pong(("a", "b"), ("b", "a"), -40 * 24 * 60 * 60 * 1_000));
        assert!(!is_ping_pong(("a", "b"), ("a", "c"), 0));
    }

    // S001-ER-08
    #[test]
    fn what_only_the_user_can_mend_goes_to_no_default_spec() {
        for code in ["VALIDATION_ERROR", "INSUFFICIENT_CONTEXT"] {
            assert!(asks_the_user(code), "{code}");
        }
        for code in ["RATE_LIMIT", "INVALID_REQUEST", "FATAL_ERROR", "NO_SEATS_LEFT", ""] {
            assert!(!asks_the_user(code), "{code}");
        }
    }
}
