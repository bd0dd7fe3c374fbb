//! The reason of a decision, in words.

/// The maximum number of keywords in a reason; the decision lists all of them.
const MOST_NAMED: usize = 4;
/// The confidence below which a reason mentions that it is low (seed 001, example 2: 0.45 is low).
const LOW: f64 = 0.5;

pub(super) struct Reason<'a> {
    pub keywords: &'a [String],
    pub patterns: &'a [String],
    pub intent: Option<&'a str>,
    /// True when the conversation is already with this spec.
    pub continues: bool,
    /// True when earlier messages are evidence for the spec.
    pub history: bool,
    pub fallback: bool,
    /// The spec with the greatest sum, if another spec answers.
    pub likeliest: Option<&'a str>,
    pub nothing: bool,
    pub confidence: f64,
}

impl Reason<'_> {
    pub(super) fn text(&self) -> String {
        if self.fallback {
            return match self.likeliest {
                Some(likeliest) if !self.nothing => {
                    format!(
                        "no spec is likely enough (the likeliest is {likeliest}); the default spec answers"
                    )
                }
                _ => "nothing in the text speaks for a spec; the default one answers".to_owned(),
            };
        }
        let mut parts: Vec<String> = Vec::with_capacity(4);
        if let Some(intent) = self.intent {
            parts.push(format!("intent {intent}"));
        }
        if !self.keywords.is_empty() {
            let named = self.keywords.get(..self.keywords.len().min(MOST_NAMED)).unwrap_or_default();
            let word = if named.len() == 1 { "keyword" } else { "keywords" };
            parts.push(format!("{word} {}", named.join(", ")));
        }
        if let Some(pattern) = self.patterns.first() {
            parts.push(format!("pattern {pattern}"));
        }
        if self.continues {
            parts.push("the conversation so far".to_owned());
        } else if self.history {
            parts.push("earlier messages".to_owned());
        }
        let low = if self.confidence < LOW { "low confidence: " } else { "" };
        if parts.is_empty() { format!("{low}no strong sign") } else { format!("{low}{}", parts.join("; ")) }
    }
}
