//! The model of intents: it computes a score for every intent from a text's n-grams, and the confidence of such a
//! score.

mod background;
pub mod calibration;
mod corpus;
mod features;
pub(crate) mod ngrams;
mod parameters;
mod rounds;
mod train;
mod vocabulary;
mod weights;

pub use calibration::{Calibration, Evidence};
pub use parameters::Parameters;

use std::collections::BTreeMap;

pub(crate) use corpus::Class;
use corpus::{Corpus, Document};
pub(crate) use features::exponential;
use features::frequency;
use ngrams::Kind;
use train::Trained;
use vocabulary::Vocabulary;
use weights::Weights;

use crate::logit::Logit;
use crate::phrases::Phrases;
use crate::spec::Catalogue;
use crate::text::Folded;

/// A model, trained once and never changed.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    parameters: Parameters,
    /// The classes by spec, then by the intent's name.
    classes: Vec<Class>,
    vocabulary: Vocabulary,
    /// For each row, the weight of an occurrence before division by the text's length.
    values: Vec<f32>,
    unknown: [f32; 3],
    /// The number of rows of features that examples have.
    taught: usize,
    /// The class of ordinary language, behind all others.
    ordinary: Option<usize>,
    weights: Weights,
    /// For each row, `stride / 8` bytes with the classes whose examples have the feature.
    seen: Vec<u8>,
    calibration: Calibration,
}

/// A known n-gram of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feature {
    pub hash: u64,
    pub row: u32,
    pub kind: Kind,
    pub count: u16,
    /// The feature's share of the text's weight, as a length. The squares of all shares, including unknown n-grams, add
    /// up to one.
    pub value: f32,
    pub coefficient: i16,
}

/// The number of every n-gram that no example has.
const UNKNOWN: u32 = u32::MAX;

/// Reusable memory for scoring.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelScratch {
    /// The place in `features` plus one, and the round that wrote the entry. The length is a power of two.
    places: Vec<(u32, u32)>,
    round: u32,
    pub features: Vec<Feature>,
    /// The rows and coefficients of the known features.
    known: Vec<(u32, i16)>,
    /// The score of each class, in the units of [`Weights`].
    scores: Vec<i16>,
    pub coverage: f32,
}

impl Model {
    pub(crate) fn train(catalogue: &Catalogue, phrases: &Phrases, parameters: &Parameters) -> Self {
        let corpus = Corpus::new(catalogue, parameters);
        let documents: Vec<usize> = (0..corpus.documents.len()).collect();
        let background: Vec<&Document> = corpus.background.iter().collect();
        let trained = Trained::new(&corpus, &documents, &background, parameters);
        let calibration = rounds::calibrate(&corpus, catalogue.specs().len(), phrases, parameters);
        let hashes: Vec<u64> = trained
            .features
            .iter()
            .map(|feature| corpus.hashes.get(*feature as usize).copied().unwrap_or_default())
            .collect();
        Self {
            parameters: parameters.clone(),
            vocabulary: Vocabulary::new(&hashes),
            weights: Weights::new(&trained),
            values: trained.values,
            unknown: trained.unknown,
            taught: trained.taught,
            ordinary: (!corpus.background.is_empty()).then_some(corpus.classes.len()),
            seen: trained.seen,
            classes: corpus.classes,
            calibration,
        }
    }

    pub(crate) fn classes(&self) -> &[Class] {
        &self.classes
    }

    pub(crate) fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The tokens of each known feature of a scored text, one entry for each occurrence; a pair has both of its tokens.
    pub(crate) fn places(&self, folded: &Folded, scratch: &ModelScratch) -> Vec<(Feature, Vec<usize>)> {
        let mut places: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        ngrams::visit(folded, &self.parameters, |ngram| {
            let tokens = places.entry(ngram.hash).or_default();
            if ngram.kind == Kind::Pair {
                tokens.push(ngram.token - 1);
            }
            tokens.push(ngram.token);
        });
        let known = scratch.features.iter().filter(|feature| feature.row != UNKNOWN);
        known.map(|feature| (*feature, places.remove(&feature.hash).unwrap_or_default())).collect()
    }

    /// Scores every class.
    pub(crate) fn score(&self, folded: &Folded, scratch: &mut ModelScratch) {
        self.collect(folded, scratch);
        self.weights.sum(&scratch.known, &mut scratch.scores);
    }

    /// Collects the distinct n-grams of the text with their weights in it.
    fn collect(&self, folded: &Folded, scratch: &mut ModelScratch) {
        scratch.features.clear();
        scratch.known.clear();
        scratch.coverage = 0.0;
        if self.values.is_empty() {
            return;
        }
        scratch.begin();
        ngrams::visit(folded, &self.parameters, |ngram| scratch.count(ngram.hash, ngram.kind));
        let mut known = 0.0_f32;
        let mut all = 0.0_f32;
        let [word, pair, piece] = self.unknown;
        for feature in &mut scratch.features {
            let found = self.vocabulary.find(feature.hash);
            feature.row = found.unwrap_or(UNKNOWN);
            let value = match found.and_then(|row| self.values.get(row as usize)) {
                Some(value) => *value,
                None => match feature.kind {
                    Kind::Word => word,
                    Kind::Pair => pair,
                    Kind::Piece => piece,
                },
            };
            feature.value = value * frequency(feature.count);
            let square = feature.value * feature.value;
            all += square;
            if (feature.row as usize) < self.taught {
                known += square;
            }
        }
        if all > 0.0 {
            let scale = 1.0 / all.sqrt();
            for feature in &mut scratch.features {
                feature.value *= scale;
                if feature.row != UNKNOWN {
                    feature.coefficient = self.weights.coefficient(feature.row, feature.value);
                    scratch.known.push((feature.row, feature.coefficient));
                }
            }
            scratch.coverage = known / all;
        }
    }

    pub(crate) fn logit(&self, scratch: &ModelScratch, class: usize) -> Logit {
        self.weights.logit(scratch.scores.get(class).copied().unwrap_or_default())
    }

    /// The score of ordinary language, which competes with the specs where they are few.
    pub(crate) fn ordinary(&self, scratch: &ModelScratch) -> Option<Logit> {
        self.ordinary.map(|class| self.logit(scratch, class))
    }

    /// The contribution of one feature to one class.
    pub(crate) fn contribution(&self, feature: &Feature, class: usize) -> Logit {
        if feature.row == UNKNOWN {
            return 0;
        }
        self.weights.contribution(feature.row, feature.coefficient, class)
    }

    /// The share of the text's weight that examples of the class also have.
    pub(crate) fn class_coverage(&self, scratch: &ModelScratch, class: usize) -> f32 {
        let bytes = self.weights.stride() / 8;
        scratch
            .features
            .iter()
            .filter(|feature| feature.row != UNKNOWN)
            .filter(|feature| {
                let byte = self.seen.get(feature.row as usize * bytes + class / 8);
                byte.is_some_and(|byte| byte & (1 << (class % 8)) != 0)
            })
            .map(|feature| feature.value * feature.value)
            .sum()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.vocabulary.memory_bytes()
            + self.weights.memory_bytes()
            + self.values.len() * size_of::<f32>()
            + self.seen.len()
            + self.classes.len() * size_of::<Class>()
    }
}

impl ModelScratch {
    fn begin(&mut self) {
        if self.places.is_empty() {
            self.places.resize(1024, (0, 0));
        }
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.places.fill((0, 0));
            self.round = 1;
        }
    }

    /// Counts an occurrence of an n-gram.
    fn count(&mut self, hash: u64, kind: Kind) {
        if self.features.len() * 2 >= self.places.len() {
            self.grow();
        }
        let mask = self.places.len() - 1;
        let mut place = (hash >> 20) as usize & mask;
        while let Some(slot) = self.places.get_mut(place) {
            if slot.1 != self.round {
                *slot = (self.features.len() as u32, self.round);
                self.features.push(Feature {
                    hash,
                    row: UNKNOWN,
                    kind,
                    count: 1,
                    value: 0.0,
                    coefficient: 0,
                });
                return;
            }
            if let Some(feature) = self.features.get_mut(slot.0 as usize)
                && feature.hash == hash
            {
                feature.count = feature.count.saturating_add(1);
                return;
            }
            place = (place + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let length = self.places.len() * 2;
        self.places.clear();
        self.places.resize(length, (0, 0));
        self.round = 1;
        for (number, feature) in (0_u32..).zip(&self.features) {
            let mut place = (feature.hash >> 20) as usize & (length - 1);
            while self.places.get(place).is_some_and(|slot| slot.1 == 1) {
                place = (place + 1) & (length - 1);
            }
            if let Some(slot) = self.places.get_mut(place) {
                *slot = (number, 1);
            }
        }
    }
}
