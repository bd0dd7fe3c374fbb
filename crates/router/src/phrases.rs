//! The keywords and phrases of all specs, found in one pass over a text's words.
//!
//! A phrase matches if all of its words stand next to each other, regardless of case, accents and punctuation, but
//! never inside of a word. A keyword also matches in another inflection, with a lower weight.

use crate::hash::Hash;
use crate::logit::{Logit, logits};
use crate::spec::{Catalogue, Pattern};
use crate::text::{Folded, stem_hash};

/// The logits that a keyword of weight 1 adds to its spec.
const KEYWORD: f64 = 2.0;
/// The factor for another inflection.
const INFLECTED: f64 = 0.7;
/// The logits that a matching pattern adds.
const PATTERN: f64 = 3.0;

/// The logits that a matching pattern adds to its spec. A pattern that refuses the text adds none.
pub(crate) fn weight(pattern: &Pattern) -> f64 {
    if pattern.refusal.is_some() { 0.0 } else { PATTERN }
}

/// The owner of a phrase, by its place in its spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Keyword(usize),
    Pattern(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    hash: u64,
    stem: Option<u64>,
}

#[derive(Clone, Debug)]
struct Phrase {
    spec: usize,
    owner: Owner,
    words: Vec<Word>,
    literal: Logit,
    inflected: Logit,
}

/// The place where a phrase was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub spec: usize,
    pub owner: Owner,
    /// The first and the last token, both included.
    pub first: usize,
    pub last: usize,
    pub logit: Logit,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Phrases {
    phrases: Vec<Phrase>,
    /// The first word and the phrase, sorted.
    by_word: Vec<(u64, usize)>,
    by_stem: Vec<(u64, usize)>,
}

impl Phrases {
    pub(crate) fn new(catalogue: &Catalogue) -> Self {
        let mut phrases = Vec::new();
        for (spec, content) in catalogue.specs().iter().enumerate() {
            for (place, keyword) in content.keywords.iter().enumerate() {
                phrases.push(Phrase {
                    spec,
                    owner: Owner::Keyword(place),
                    words: words(&keyword.text),
                    literal: logits(KEYWORD * keyword.weight),
                    inflected: logits(KEYWORD * INFLECTED * keyword.weight),
                });
            }
            for (place, pattern) in content.patterns.iter().enumerate() {
                for phrase in &pattern.phrases {
                    phrases.push(Phrase {
                        spec,
                        owner: Owner::Pattern(place),
                        words: words(phrase),
                        literal: logits(weight(pattern)),
                        inflected: 0,
                    });
                }
            }
        }
        phrases.retain(|phrase| !phrase.words.is_empty());
        let first = |phrase: &Phrase| phrase.words.first().copied();
        let mut by_word: Vec<(u64, usize)> = Vec::new();
        let mut by_stem: Vec<(u64, usize)> = Vec::new();
        for (place, phrase) in phrases.iter().enumerate() {
            let Some(word) = first(phrase) else { continue };
            by_word.push((word.hash, place));
            if let (Owner::Keyword(_), Some(stem)) = (phrase.owner, word.stem) {
                by_stem.push((stem, place));
            }
        }
        by_word.sort_unstable();
        by_stem.sort_unstable();
        Self { phrases, by_word, by_stem }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }

    /// Finds all hits, in the order of the text. If a keyword or pattern has several hits, the one with the greatest
    /// weight is used, then the first.
    pub(crate) fn find(&self, folded: &Folded, hits: &mut Vec<Hit>) {
        hits.clear();
        if self.phrases.is_empty() {
            return;
        }
        for (first, token) in folded.tokens().iter().enumerate() {
            let text = folded.word(token);
            let hash = Hash::of_word(text);
            self.matches(&self.by_word, hash, folded, first, hits);
            if !self.by_stem.is_empty()
                && let Some(stem) = stem_hash(text)
            {
                self.matches(&self.by_stem, stem, folded, first, hits);
            }
        }
        hits.sort_unstable_by(|one, other| {
            let key = |hit: &Hit| (hit.spec, hit.owner, std::cmp::Reverse(hit.logit), hit.first, hit.last);
            key(one).cmp(&key(other))
        });
        hits.dedup_by_key(|hit| (hit.spec, hit.owner));
        // A word counts once, even if it matches several keywords of one family: the best match is used.
        let place = |hit: &Hit| (hit.spec, matches!(hit.owner, Owner::Pattern(_)), hit.first, hit.last);
        hits.sort_unstable_by_key(|hit| (place(hit), std::cmp::Reverse(hit.logit), hit.owner));
        hits.dedup_by(|later, kept| matches!(later.owner, Owner::Keyword(_)) && place(later) == place(kept));
        hits.sort_unstable_by_key(|hit| (hit.first, hit.last, hit.spec, hit.owner));
    }

    fn matches(&self, index: &[(u64, usize)], key: u64, folded: &Folded, first: usize, hits: &mut Vec<Hit>) {
        let start = index.partition_point(|(found, _)| *found < key);
        for (_, place) in index.iter().skip(start).take_while(|(found, _)| *found == key) {
            let Some(phrase) = self.phrases.get(*place) else { continue };
            if let Some(literal) = phrase.stands_at(folded, first) {
                let logit = if literal { phrase.literal } else { phrase.inflected };
                // A pattern without weight still counts as matched.
                if literal || logit > 0 {
                    let last = first + phrase.words.len() - 1;
                    hits.push(Hit { spec: phrase.spec, owner: phrase.owner, first, last, logit });
                }
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = self.phrases.iter().map(|phrase| phrase.words.len() * size_of::<Word>()).sum();
        let index = (self.by_word.len() + self.by_stem.len()) * size_of::<(u64, usize)>();
        words + index + self.phrases.len() * size_of::<Phrase>()
    }
}

impl Phrase {
    /// Returns whether the phrase stands at this place, and if so, whether literally.
    fn stands_at(&self, folded: &Folded, first: usize) -> Option<bool> {
        let mut literal = true;
        for (offset, word) in self.words.iter().enumerate() {
            let text = folded.word(folded.tokens().get(first + offset)?);
            if Hash::of_word(text) == word.hash {
                continue;
            }
            word.stem?;
            if stem_hash(text) != word.stem {
                return None;
            }
            literal = false;
        }
        Some(literal)
    }
}

fn words(text: &str) -> Vec<Word> {
    let folded = Folded::new(text);
    folded
        .tokens()
        .iter()
        .map(|token| {
            let word = folded.word(token);
            Word { hash: Hash::of_word(word), stem: stem_hash(word) }
        })
        .collect()
}

/// The share of a text's words that belong to keywords and phrases of one spec.
pub(crate) fn explained(hits: &[Hit], spec: usize, tokens: usize) -> f64 {
    // Hits are in the order of the text, so that each counts from the end of the earlier ones.
    let mut counted = 0;
    let mut end = 0;
    for hit in hits.iter().filter(|hit| hit.spec == spec) {
        let start = hit.first.max(end);
        counted += (hit.last + 1).saturating_sub(start);
        end = end.max(hit.last + 1);
    }
    if tokens == 0 { 0.0 } else { counted as f64 / tokens as f64 }
}
