//! What speaks for a spec without standing in the text: the conversation so far, and the user's language.

use super::{Router, Scratch, Sign, Terms};
use crate::decision::{Query, Role};
use crate::logit::{Logit, logits, number};
use crate::spec::Spec;

/// For the spec that the session is with.
const CONTINUITY: f64 = 1.0;
/// On top of it where the text is short: `¿Y cómo empiezo?` says little without what came before.
const SHORT_FOLLOW_UP: f64 = 1.5;
/// Texts of so many words are short, and of so many no longer.
const SHORT_WORDS: usize = 3;
const LONG_WORDS: usize = 7;
/// Earlier messages of the user count this much of what they would count now: the newest first.
const HISTORY: [f64; 2] = [0.2, 0.1];
/// The most that one earlier message can add or take away.
const MOST_HISTORY: f64 = 1.0;
/// For a spec that does not speak the user's language.
const OTHER_LANGUAGE: f64 = -1.5;

/// The spec that the conversation is with: as the caller says, else the one that answered last.
pub(super) fn current<'a>(query: &Query<'a>) -> Option<&'a str> {
    query.current_spec.or_else(|| query.history.iter().rev().find_map(|message| message.spec))
}

impl Router {
    pub(super) fn add_history(&self, query: &Query<'_>, scratch: &mut Scratch) {
        let texts = query.history.iter().rev().filter(|message| message.role == Role::User);
        for (message, share) in texts.zip(HISTORY) {
            self.read(message.text, scratch);
            // Summed up by spec first: the bound is on the message, not on each of its signs.
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

/// What speaks for a spec because the conversation is with it; `words` are those of the text.
pub(crate) fn continuity(query: &Query<'_>, spec: &Spec, words: usize) -> Logit {
    if current(query) != Some(spec.id.as_str()) {
        return 0;
    }
    let length = words.clamp(SHORT_WORDS, LONG_WORDS);
    let shortness = (LONG_WORDS - length) as f64 / (LONG_WORDS - SHORT_WORDS) as f64;
    logits(CONTINUITY + SHORT_FOLLOW_UP * shortness)
}

/// What speaks against a spec because it does not speak the user's language.
pub(crate) fn language(query: &Query<'_>, spec: &Spec) -> Logit {
    let Some(language) = query.language.map(primary) else { return 0 };
    let speaks = spec.languages.iter().any(|spoken| primary(spoken).eq_ignore_ascii_case(language));
    if speaks || spec.languages.is_empty() { 0 } else { logits(OTHER_LANGUAGE) }
}

/// `es` of `es-MX`.
fn primary(language: &str) -> &str {
    language.split(['-', '_']).next().unwrap_or(language)
}
