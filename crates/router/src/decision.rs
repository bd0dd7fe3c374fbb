//! The input and the output of routing (seed 001, "Routing context" and "Context blueprint").

/// The author of a message in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

/// One earlier message of the conversation, oldest first in [`Query::history`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub role: Role,
    pub text: &'a str,
    /// The spec that answered; set only for [`Role::Assistant`].
    pub spec: Option<&'a str>,
}

/// The input of a routing decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pub text: &'a str,
    /// The session's current spec.
    pub current_spec: Option<&'a str>,
    /// At most 20 messages, oldest first.
    pub history: &'a [Message<'a>],
    /// The user's language, if it is known: `es`, `en`, ….
    pub language: Option<&'a str>,
}

/// Another spec that was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    pub spec: String,
    /// The confidence from 0 to 1.
    pub confidence: f64,
}

/// The parts of the confidence, each from 0 to 1. The sum `keyword + intent + context` equals the confidence to the
/// bit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breakdown {
    pub keyword: f64,
    pub intent: f64,
    pub context: f64,
}

/// The spec that should answer, and the reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub spec: String,
    /// The confidence from 0 to 1: the expected share of correct decisions among those with this number.
    pub confidence: f64,
    /// The reason in words, for people.
    pub reason: String,
    /// At most 3 further specs, best first, ties by spec id.
    pub alternatives: Vec<Alternative>,
    /// True when nothing in the text indicates a spec, so that the default spec answers.
    pub is_fallback: bool,
    /// The recognised intent, or `unclear`.
    pub detected_intent: String,
    /// The matched keywords as written in the text, in its order.
    pub keywords_matched: Vec<String>,
    /// The names of the winner's patterns that match, in the order of the spec file.
    pub patterns_matched: Vec<String>,
    pub suggested_pattern: Option<String>,
    pub breakdown: Breakdown,
}
