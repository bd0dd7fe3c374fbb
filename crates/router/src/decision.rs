//! What routing is asked, and what it answers (seed 001, "Routing context" and "Context blueprint").

/// Who said a message of a conversation.
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
    /// The spec that answered; only for [`Role::Assistant`].
    pub spec: Option<&'a str>,
}

/// What is to be routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pub text: &'a str,
    /// The spec that the session is with now.
    pub current_spec: Option<&'a str>,
    /// At most 20 messages, oldest first.
    pub history: &'a [Message<'a>],
    /// The user's language, where it is known: `es`, `en`, ….
    pub language: Option<&'a str>,
}

/// Another spec that was considered.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    pub spec: String,
    /// From 0 to 1.
    pub confidence: f64,
}

/// The parts of the confidence; each from 0 to 1, and `keyword + intent + context` is the confidence to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breakdown {
    pub keyword: f64,
    pub intent: f64,
    pub context: f64,
}

/// Which spec should answer, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub spec: String,
    /// From 0 to 1: how often a decision with this number is right.
    pub confidence: f64,
    /// In words, for people.
    pub reason: String,
    /// Best first, ties by spec id; at most 3, without the winner.
    pub alternatives: Vec<Alternative>,
    /// Nothing in the text speaks for a spec: the default one answers.
    pub is_fallback: bool,
    /// `unclear` where no intent was recognised.
    pub detected_intent: String,
    /// As written in the text, in its order.
    pub keywords_matched: Vec<String>,
    /// Names of the winner's patterns that match, in the order of the spec file.
    pub patterns_matched: Vec<String>,
    pub suggested_pattern: Option<String>,
    pub breakdown: Breakdown,
}
