//! The examples of a catalogue, as the model sees them.

use std::collections::BTreeSet;

use super::ngrams::{self, Kind};
use super::parameters::Parameters;
use super::vocabulary::Interner;
use crate::spec::Catalogue;
use crate::text::Folded;

/// A class of the model: one intent of one spec, both by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub spec: usize,
    /// In the spec's own list of intents.
    pub intent: usize,
}

/// One example: a class, and how often it has which feature.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub class: usize,
    pub text: String,
    /// Feature and count, each feature once, in the order of the text.
    pub features: Vec<(u32, u16)>,
    /// The intent's name, read as an example: trained on, never held out.
    pub is_name: bool,
}

/// All examples, in an order that depends on nothing but themselves.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    /// By spec, then by the intent's name.
    pub classes: Vec<Class>,
    pub documents: Vec<Document>,
    /// By feature.
    pub hashes: Vec<u64>,
    pub kinds: Vec<Kind>,
}

impl Corpus {
    pub(crate) fn new(catalogue: &Catalogue, parameters: &Parameters) -> Self {
        let mut corpus = Self::default();
        let mut interner = Interner::default();
        // The last document that had a feature, and where in its list.
        let mut seen: Vec<(usize, usize)> = Vec::new();
        let mut folded = Folded::default();
        for (spec_place, spec) in catalogue.specs().iter().enumerate() {
            let mut intents: Vec<usize> = (0..spec.intents.len()).collect();
            intents.sort_by_key(|place| spec.intents.get(*place).map(|intent| intent.name.as_str()));
            for intent_place in intents {
                let Some(intent) = spec.intents.get(intent_place) else { continue };
                // Sorted and each once: neither order nor repetition in the file changes the model.
                let mut texts = BTreeSet::new();
                for (_, example) in &intent.examples {
                    folded.refill(example);
                    texts.insert(folded.text().to_owned());
                }
                if texts.is_empty() {
                    continue;
                }
                let name = words_of(&intent.name);
                if let Some(name) = &name {
                    texts.insert(name.clone());
                }
                let class = corpus.classes.len();
                corpus.classes.push(Class { spec: spec_place, intent: intent_place });
                for text in texts {
                    folded.refill(&text);
                    let number = corpus.documents.len();
                    let mut features: Vec<(u32, u16)> = Vec::new();
                    ngrams::visit(&folded, parameters, |ngram| {
                        let feature = interner.intern(ngram.hash);
                        let place = feature as usize;
                        if place == seen.len() {
                            seen.push((usize::MAX, 0));
                            corpus.kinds.push(ngram.kind);
                        }
                        let Some(last) = seen.get_mut(place) else { return };
                        if last.0 != number {
                            *last = (number, features.len());
                            features.push((feature, 0));
                        }
                        if let Some((_, count)) = features.get_mut(last.1) {
                            *count = count.saturating_add(1);
                        }
                    });
                    let is_name = Some(&text) == name.as_ref();
                    corpus.documents.push(Document { class, text, features, is_name });
                }
            }
        }
        corpus.hashes = interner.hashes().to_vec();
        corpus
    }
}

/// The words of an intent's name: `book_flight`, `alarm/cancelAlarm`.
fn words_of(name: &str) -> Option<String> {
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut lower = false;
    for character in name.chars() {
        if lower && character.is_uppercase() {
            spaced.push(' ');
        }
        lower = character.is_lowercase();
        spaced.push(character);
    }
    let folded = Folded::new(&spaced);
    (!folded.tokens().is_empty()).then(|| folded.text().to_owned())
}
