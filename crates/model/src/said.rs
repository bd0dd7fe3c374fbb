//! What a model has said, and what is gathered of it while it speaks.

/// The answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub text: String,
    pub finish: Finish,
    pub usage: Usage,
    /// The model that has answered, as the server calls it; empty where it does not say.
    pub model: String,
}

/// Why a model has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Complete,
    /// It has no tokens left: the answer is cut off.
    Length,
    /// The provider, or the model, does not answer that.
    Filtered,
    /// Another reason, in the server's word.
    Other(String),
}

/// The tokens of an answer, where the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Those that were read, those from a cache included.
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Those of `input_tokens` that came from a cache.
    pub cached_tokens: Option<u64>,
}

/// What was heard so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Usage,
    pub(crate) model: String,
    /// What is gathered is the input of a tool.
    pub(crate) is_input: bool,
    /// The number of its block, where the server says it.
    pub(crate) input: Option<u64>,
    /// The server has said that nothing follows.
    pub(crate) is_over: bool,
}

impl Heard {
    /// The answer; `None` where it was cut off before its end.
    pub(crate) fn said(self) -> Option<Said> {
        let finish = match (self.finish, self.is_over) {
            (Some(finish), _) => finish,
            (None, true) => Finish::Complete,
            (None, false) => return None,
        };
        // A tool without parameters is given nothing.
        let text = if self.is_input && self.text.is_empty() { "{}".to_owned() } else { self.text };
        Some(Said { text, finish, usage: self.usage, model: self.model })
    }
}
