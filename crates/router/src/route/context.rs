//! Evidence for a spec from outside of the text: the conversation so far, and the user's language.

use super::{Router, Scratch, Sign, Terms};
use crate::decision::{Query, Role};
use crate::logit::{Logit, logits, number};
use crate::spec::Spec;

/// The logits for the session's current spec.
const CONTINUITY: f64 = 1.0;
/// Further logits for the current spec if the text is short: `¿Y cómo empiezo?` means little without its context.
const SHORT_FOLLOW_UP: f64 = 1.5;
/// The number of words up to which a text is short, and the number from which it is not short at all.
const SHORT_WORDS: usize = 3;
const LONG_WORDS: usize = 7;
/// The weights of the user's earlier messages, relative to the present one, the newest first.
const HISTORY: [f64; 2] = [0.2, 0.1];
/// The maximum logits that one earlier message can add or subtract.
const MOST_HISTORY: f64 = 1.0;
/// The logits for a spec that does not support the user's language.
const OTHER_LANGUAGE: f64 = -1.5;

/// The conversation's spec: the one that the caller names, else the one that answered last.
pub(super) fn current<'a>(query: &Query<'a>) -> Option<&'a str> {
    query.current_spec.or_else(|| query.history.iter().rev().find_map(|message| message.spec))
}

impl Router {
    pub(super) fn add_history(&self, query: &Query<'_>, scratch: &mut Scratch) {
        let texts = query.history.iter().rev().filter(|message| message.role == Role::User);
        for (message, share) in texts.zip(HISTORY) {
            self.read(message.text, scratch);
            // The terms are added up by spec first, because the bound applies to the message and not to each of its
            // signs.
            let mut terms = std::mem::take(&mut scratch.terms);
            scratch.terms.resize(terms.len(), Terms::default());
            self.add_signs(scratch, |terms, sign, logit| match sign {
                Sign::Intent(_) => terms.intent = logit,
                Sign::Keyword | Sign::Pattern => terms.keyword += logit,
            });
            for (terms, earlier) in terms.iter_mut().zip(&scratch.terms) {
                let weighed = share * number(earlier.total());
                terms.context += logits(weighed.clamp(-MOST_HISTORY, MOST_HISTORY));
            }
            scratch.terms = terms;
        }
    }

    pub(super) fn add_situation(&self, query: &Query<'_>, scratch: &mut Scratch) {
        let words = scratch.folded.tokens().len();
        for (spec, terms) in self.catalogue.specs().iter().zip(&mut scratch.terms) {
            terms.context += continuity(query, spec, words) + language(query, spec);
        }
    }
}

/// The logits for a spec because the conversation is with it; `words` is the number of words of the text.
pub(crate) fn continuity(query: &Query<'_>, spec: &Spec, words: usize) -> Logit {
    if current(query) != Some(spec.id.as_str()) {
        return 0;
    }
    let length = words.clamp(SHORT_WORDS, LONG_WORDS);
    let shortness = (LONG_WORDS - length) as f64 / (LONG_WORDS - SHORT_WORDS) as f64;
    logits(CONTINUITY + SHORT_FOLLOW_UP * shortness)
}

/// The logits against a spec because it does not support the user's language.
pub(crate) fn language(query: &Query<'_>, spec: &Spec) -> Logit {
    let Some(language) = query.language.map(primary) else { return 0 };
    let speaks = spec.languages.iter().any(|spoken| primary(spoken).eq_ignore_ascii_case(language));
    if speaks || spec.languages.is_empty() { 0 } else { logits(OTHER_LANGUAGE) }
}

/// The primary language: `es` for `es-MX`.
fn primary(language: &str) -> &str {
    language.split(['-', '_']).next().unwrap_or(language)
}
