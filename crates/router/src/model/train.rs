//! Training: a multinomial logistic regression over n-grams, by stochastic gradient descent in a fixed order.

use super::corpus::{Corpus, Document};
use super::features::{exponential, frequency, rarity};
use super::ngrams::Kind;
use super::parameters::Parameters;

/// The alignment of rows. Weights are stored in rows, one for each feature, and a row's length is a multiple of this
/// number.
pub(crate) const LANES: usize = 32;

const NO_ROW: u32 = u32::MAX;

/// The result of training on some documents of a corpus.
#[derive(Debug, Default)]
pub(crate) struct Trained {
    /// The kept features of the corpus, by row. Frequent features come first, so that data that is used together is
    /// stored together.
    pub features: Vec<u32>,
    /// For each row, the weight of an occurrence before division by the text's length.
    pub values: Vec<f32>,
    /// The weight of an unknown n-gram for each kind, in the order of [`Kind`].
    pub unknown: [f32; 3],
    /// The number of rows of features that examples have, which come first. Behind them are those of ordinary language alone,
    /// which count as unknown.
    pub taught: usize,
    pub classes: usize,
    pub stride: usize,
    /// For each row, `stride` weights.
    pub weights: Vec<f32>,
    /// For each row, `stride / 8` bytes with the classes whose examples have the feature.
    pub seen: Vec<u8>,
    row_of_feature: Vec<u32>,
}

/// The known features of a document, and their share of its weight.
#[derive(Debug, Default)]
pub(crate) struct Vector {
    /// The rows and their values. With the unknown features, the squares of the values add up to one.
    pub entries: Vec<(u32, f32)>,
    pub coverage: f32,
}

impl Trained {
    /// Trains on `documents`, which are places in the corpus, in its order, and on these texts of ordinary language.
    pub(crate) fn new(
        corpus: &Corpus,
        documents: &[usize],
        background: &[&Document],
        parameters: &Parameters,
    ) -> Self {
        let mut trained = Self::rows(corpus, documents, background, parameters);
        let vectors: Vec<(usize, Vector)> = documents
            .iter()
            .filter_map(|place| corpus.documents.get(*place))
            .chain(background.iter().copied())
            .map(|document| (document.class, trained.vector(corpus, &document.features)))
            .collect();
        trained.mark_seen(&vectors);
        trained.start_at_centroids(&vectors, parameters);
        trained.descend(&vectors, parameters);
        trained
    }

    fn rows(corpus: &Corpus, documents: &[usize], background: &[&Document], parameters: &Parameters) -> Self {
        // What is frequent in ordinary language is not rare, however few examples there are.
        let mut ordinary = vec![0_u32; corpus.hashes.len()];
        for (feature, _) in background.iter().flat_map(|document| &document.features) {
            if let Some(count) = ordinary.get_mut(*feature as usize) {
                *count += 1;
            }
        }
        let ordinary = |feature: u32| ordinary.get(feature as usize).copied().unwrap_or_default();
        let mut counts = vec![0_u32; corpus.hashes.len()];
        let mut class_counts = vec![0_u32; corpus.hashes.len()];
        let mut last_class = vec![usize::MAX; corpus.hashes.len()];
        for document in documents.iter().filter_map(|place| corpus.documents.get(*place)) {
            for (feature, _) in &document.features {
                if let Some(count) = counts.get_mut(*feature as usize) {
                    *count += 1;
                }
                if let (Some(last), Some(count)) =
                    (last_class.get_mut(*feature as usize), class_counts.get_mut(*feature as usize))
                    && *last != document.class
                {
                    *last = document.class;
                    *count += 1;
                }
            }
        }
        let class_count = |feature: u32| class_counts.get(feature as usize).copied().unwrap_or_default();
        let (all, classes) = (documents.len() + background.len(), corpus.width());
        let rarity_of = |documents: u32, in_classes: u32| {
            let mix = parameters.class_rarity;
            (1.0 - mix) * rarity(documents, all) + mix * rarity(in_classes, classes)
        };
        let prune = documents.len() > parameters.prune_above;
        let kind = |feature: u32| corpus.kinds.get(feature as usize).copied().unwrap_or(Kind::Piece);
        let mut kept: Vec<(u32, u64, u32)> = (0_u32..)
            .zip(&counts)
            .filter(|(feature, count)| {
                **count >= 2 || **count == 1 && (!prune || kind(*feature) == Kind::Word)
            })
            .map(|(feature, count)| {
                let hash = corpus.hashes.get(feature as usize).copied().unwrap_or_default();
                (u32::MAX - count, hash, feature)
            })
            .collect();
        kept.sort_unstable();
        let stride = classes.next_multiple_of(LANES);
        kept.truncate(parameters.most_cells / stride.max(1));
        let taught = kept.len();
        let mut behind: Vec<(u32, u64, u32)> = (0_u32..)
            .zip(&counts)
            .filter(|(feature, count)| **count == 0 && ordinary(*feature) > 0)
            .map(|(feature, _)| {
                (u32::MAX, corpus.hashes.get(feature as usize).copied().unwrap_or_default(), feature)
            })
            .collect();
        behind.sort_unstable();
        kept.extend(behind);
        let unknown = [Kind::Word, Kind::Pair, Kind::Piece]
            .map(|kind| rarity_of(0, 0) * parameters.unknown_weight * kind.weight(parameters));
        let mut row_of_feature = vec![NO_ROW; corpus.hashes.len()];
        for (row, (_, _, feature)) in (0_u32..).zip(&kept) {
            if let Some(place) = row_of_feature.get_mut(*feature as usize) {
                *place = row;
            }
        }
        Self {
            values: kept
                .iter()
                .map(|(count, _, feature)| {
                    let count = u32::MAX - count + ordinary(*feature);
                    rarity_of(count, class_count(*feature)) * kind(*feature).weight(parameters)
                })
                .collect(),
            features: kept.iter().map(|(_, _, feature)| *feature).collect(),
            unknown,
            taught,
            classes,
            stride,
            weights: vec![0.0; kept.len() * stride],
            seen: vec![0; kept.len() * stride / 8],
            row_of_feature,
        }
    }

    pub(crate) fn vector(&self, corpus: &Corpus, features: &[(u32, u16)]) -> Vector {
        let mut vector = Vector::default();
        let mut known = 0.0_f32;
        let mut all = 0.0_f32;
        for (feature, count) in features {
            let place = *feature as usize;
            let row = self.row_of_feature.get(place).copied().unwrap_or(NO_ROW);
            let value = match self.values.get(row as usize) {
                Some(value) => *value,
                None => {
                    let kind = corpus.kinds.get(place).copied().unwrap_or(Kind::Piece);
                    self.unknown_value(kind)
                }
            } * frequency(*count);
            all += value * value;
            if (row as usize) < self.taught {
                known += value * value;
            }
            if row != NO_ROW {
                vector.entries.push((row, value));
            }
        }
        if all > 0.0 {
            let scale = 1.0 / all.sqrt();
            for (_, value) in &mut vector.entries {
                *value *= scale;
            }
            vector.coverage = known / all;
        }
        vector
    }

    pub(crate) fn unknown_value(&self, kind: Kind) -> f32 {
        let [word, pair, piece] = self.unknown;
        match kind {
            Kind::Word => word,
            Kind::Pair => pair,
            Kind::Piece => piece,
        }
    }

    /// Computes the score of every class. A few classes are processed at a time, so that their sums stay in registers.
    pub(crate) fn scores(&self, vector: &Vector, scores: &mut [f32]) {
        let (blocks, _) = self.weights.as_chunks::<LANES>();
        let blocks_of_row = self.stride / LANES;
        for (block, scores) in scores.chunks_exact_mut(LANES).enumerate() {
            let mut sums = [0.0_f32; LANES];
            for (row, value) in &vector.entries {
                let Some(weights) = blocks.get(*row as usize * blocks_of_row + block) else { continue };
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += weight * value;
                }
            }
            scores.copy_from_slice(&sums);
        }
    }

    /// The share of a document's weight that examples of the class also have.
    pub(crate) fn class_coverage(&self, vector: &Vector, class: usize) -> f32 {
        let bytes = self.stride / 8;
        vector
            .entries
            .iter()
            .filter(|(row, _)| {
                let byte = self.seen.get(*row as usize * bytes + class / 8);
                byte.is_some_and(|byte| byte & (1 << (class % 8)) != 0)
            })
            .map(|(_, value)| value * value)
            .sum()
    }

    fn mark_seen(&mut self, vectors: &[(usize, Vector)]) {
        let bytes = self.stride / 8;
        for (class, vector) in vectors {
            for (row, _) in &vector.entries {
                if let Some(byte) = self.seen.get_mut(*row as usize * bytes + class / 8) {
                    *byte |= 1 << (class % 8);
                }
            }
        }
    }

    fn start_at_centroids(&mut self, vectors: &[(usize, Vector)], parameters: &Parameters) {
        if parameters.centroid == 0.0 || self.classes == 0 {
            return;
        }
        let mut sizes = vec![0_u32; self.classes];
        for (class, _) in vectors {
            if let Some(size) = sizes.get_mut(*class) {
                *size += 1;
            }
        }
        for (class, vector) in vectors {
            let size = sizes.get(*class).copied().unwrap_or(1).max(1);
            for (row, value) in &vector.entries {
                if let Some(weight) = self.weights.get_mut(*row as usize * self.stride + class) {
                    *weight += parameters.centroid * value / size as f32;
                }
            }
        }
        if self.classes < 2 {
            return;
        }
        // The weights are centred, so that a positive score is evidence for a class and a negative score evidence
        // against it.
        for row in self.weights.chunks_exact_mut(self.stride) {
            let row = row.get_mut(..self.classes).unwrap_or_default();
            let mean = row.iter().sum::<f32>() / self.classes as f32;
            for weight in row {
                *weight -= mean;
            }
        }
    }

    fn descend(&mut self, vectors: &[(usize, Vector)], parameters: &Parameters) {
        if self.classes < 2 || vectors.is_empty() {
            return;
        }
        let importance = self.importance(vectors, parameters);
        let passes = (parameters.updates / vectors.len().max(1))
            .clamp(parameters.fewest_passes, parameters.most_passes.max(parameters.fewest_passes));
        let updates = (passes * vectors.len()) as f32;
        let mut order: Vec<usize> = (0..vectors.len()).collect();
        let mut shuffle = Shuffle::new();
        let mut scores = vec![0.0_f32; self.stride];
        let mut gradient: Vec<(usize, f32)> = Vec::with_capacity(self.classes);
        let mut update = 0_u32;
        for _ in 0..passes {
            shuffle.shuffle(&mut order);
            for (class, vector) in order.iter().filter_map(|place| vectors.get(*place)) {
                let step = parameters.step * (1.0 - update as f32 / updates);
                update += 1;
                self.scores(vector, &mut scores);
                if let Some(score) = scores.get_mut(*class) {
                    *score -= parameters.margin;
                }
                softmax(scores.get_mut(..self.classes).unwrap_or_default());
                let weight = importance.get(*class).copied().unwrap_or(1.0);
                let spread = parameters.smoothing / self.classes as f32;
                gradient.clear();
                for (other, probability) in scores.iter().take(self.classes).enumerate() {
                    let target = if other == *class { 1.0 - parameters.smoothing + spread } else { spread };
                    let difference = probability - target;
                    if difference.abs() > parameters.negligible {
                        gradient.push((other, -step * weight * difference));
                    }
                }
                self.follow(vector, &gradient, &mut scores);
            }
        }
    }

    fn follow(&mut self, vector: &Vector, gradient: &[(usize, f32)], dense: &mut [f32]) {
        let many = gradient.len() * 4 > self.classes;
        if many {
            dense.fill(0.0);
            for (class, change) in gradient {
                if let Some(place) = dense.get_mut(*class) {
                    *place = *change;
                }
            }
        }
        for (row, value) in &vector.entries {
            let start = *row as usize * self.stride;
            let Some(weights) = self.weights.get_mut(start..start + self.stride) else { continue };
            if many {
                for (weight, change) in weights.iter_mut().zip(dense.iter()) {
                    *weight += change * value;
                }
            } else {
                for (class, change) in gradient {
                    if let Some(weight) = weights.get_mut(*class) {
                        *weight += change * value;
                    }
                }
            }
        }
    }

    /// The importance of each class. A spec with many examples is not requested more often for that reason.
    fn importance(&self, vectors: &[(usize, Vector)], parameters: &Parameters) -> Vec<f32> {
        let mut sizes = vec![0_f32; self.classes];
        for (class, _) in vectors {
            if let Some(size) = sizes.get_mut(*class) {
                *size += 1.0;
            }
        }
        let filled = sizes.iter().filter(|size| **size > 0.0).count().max(1);
        let mean = vectors.len() as f32 / filled as f32;
        sizes
            .iter()
            .map(
                |size| {
                    if *size > 0.0 { (mean / size).powf(parameters.balance).clamp(0.25, 4.0) } else { 1.0 }
                },
            )
            .collect()
    }
}

/// Computes the softmax in place.
fn softmax(scores: &mut [f32]) {
    let best = scores.iter().copied().fold(f32::MIN, f32::max);
    for score in scores.iter_mut() {
        *score = exponential(*score - best);
    }
    let sum: f32 = scores.iter().sum();
    let scale = 1.0 / sum;
    for score in scores.iter_mut() {
        *score *= scale;
    }
}

/// A fixed sequence of permutations (xorshift64* with a fixed seed).
#[derive(Debug)]
pub(crate) struct Shuffle(u64);

impl Shuffle {
    pub(crate) fn new() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            let drawn = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
            items.swap(place, (drawn % (place as u64 + 1)) as usize);
        }
    }
}
