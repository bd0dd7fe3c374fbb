//! The examples of a catalogue, in the model's form.

use std::collections::BTreeSet;

use super::background;
use super::ngrams::{self, Kind};
use super::parameters::Parameters;
use super::vocabulary::Interner;
use crate::spec::Catalogue;
use crate::text::Folded;

/// A class of the model: one intent of one spec, both by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub spec: usize,
    /// The place in the spec's own list of intents.
    pub intent: usize,
}

/// One example: its class, and the counts of its features.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub class: usize,
    pub text: String,
    /// The features with their counts, each feature once, in the order of the text.
    pub features: Vec<(u32, u16)>,
    /// True when the example is the intent's name, which is trained on but never held out.
    pub is_name: bool,
}

/// All examples, in an order that depends only on the examples.
#[derive(Debug, Default)]
pub(crate) struct Corpus {
    /// The classes by spec, then by the intent's name.
    pub classes: Vec<Class>,
    pub documents: Vec<Document>,
    /// Texts of ordinary language, where few specs have examples. They are a class of their own, behind all others.
    pub background: Vec<Document>,
    /// The hash of each feature.
    pub hashes: Vec<u64>,
    pub kinds: Vec<Kind>,
}

impl Corpus {
    pub(crate) fn new(catalogue: &Catalogue, parameters: &Parameters) -> Self {
        let mut corpus = Self::default();
        let mut reading = Reading::default();
        for (spec_place, spec) in catalogue.specs().iter().enumerate() {
            let mut intents: Vec<usize> = (0..spec.intents.len()).collect();
            intents.sort_by_key(|place| spec.intents.get(*place).map(|intent| intent.name.as_str()));
            for intent_place in intents {
                let Some(intent) = spec.intents.get(intent_place) else { continue };
                // The texts are sorted and unique, so that neither order nor repetition in the file changes the model.
                let mut texts = BTreeSet::new();
                for (_, example) in &intent.examples {
                    texts.insert(reading.folded(example));
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
                    let is_name = Some(&text) == name.as_ref();
                    let document = reading.document(class, text, parameters);
                    corpus.documents.push(Document { is_name, ..document });
                }
            }
        }
        if (1..parameters.fewest_to_hold_out).contains(&corpus.taught_specs()) {
            let class = corpus.classes.len();
            for text in background::texts() {
                let text = reading.folded(text);
                corpus.background.push(reading.document(class, text, parameters));
            }
        }
        corpus.hashes = reading.interner.hashes().to_vec();
        corpus.kinds = reading.kinds;
        corpus
    }

    /// The number of specs that have examples.
    pub(crate) fn taught_specs(&self) -> usize {
        let mut specs: Vec<usize> = self.classes.iter().map(|class| class.spec).collect();
        specs.dedup();
        specs.len()
    }

    /// The number of classes, with that of ordinary language.
    pub(crate) fn width(&self) -> usize {
        self.classes.len() + usize::from(!self.background.is_empty())
    }
}

/// Texts as they become documents.
#[derive(Default)]
struct Reading {
    interner: Interner,
    kinds: Vec<Kind>,
    /// For each feature, the last document that had it, and the place in that document's list.
    seen: Vec<(usize, usize)>,
    documents: usize,
    folded: Folded,
}

impl Reading {
    fn folded(&mut self, text: &str) -> String {
        self.folded.refill(text);
        self.folded.text().to_owned()
    }

    fn document(&mut self, class: usize, text: String, parameters: &Parameters) -> Document {
        let Self { interner, kinds, seen, documents, folded } = self;
        folded.refill(&text);
        let number = *documents;
        *documents += 1;
        let mut features: Vec<(u32, u16)> = Vec::new();
        ngrams::visit(folded, parameters, |ngram| {
            let feature = interner.intern(ngram.hash);
            let place = feature as usize;
            if place == seen.len() {
                seen.push((usize::MAX, 0));
                kinds.push(ngram.kind);
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
        Document { class, text, features, is_name: false }
    }
}

/// The words of an intent's name, such as `book_flight` or `alarm/cancelAlarm`.
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
