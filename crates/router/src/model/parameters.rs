//! Every number of the model that could have been another one. They are the same for all catalogues; they were chosen
//! on the validation parts of public sets of intents (see the crate's `eval`), never on rows that measure the result.

/// The shape of features, training and calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Character n-grams within a word, its edges included, have from this many characters …
    pub shortest_piece: usize,
    /// … to this many.
    pub longest_piece: usize,
    /// What a word, a pair of neighbouring words, and a piece of a word weigh beside their rarity.
    pub word_weight: f32,
    pub pair_weight: f32,
    pub piece_weight: f32,
    /// Rarity is counted in intents this much, and in examples for the rest: a word that every example of one intent has
    /// is frequent, and tells much.
    pub class_rarity: f32,
    /// Rarity of what was never seen, as a share of the rarity of what was seen once.
    pub unknown_weight: f32,
    /// With more examples than this, pieces and pairs that occur in one example only are not kept.
    pub prune_above: usize,
    /// Features times intents that are kept at most, the frequent features first: bounds the memory of catalogues with
    /// thousands of intents (four bytes each while training, one afterwards).
    pub most_cells: usize,
    /// Passes over the examples: at least `fewest_passes`, more where there are few examples.
    pub fewest_passes: usize,
    pub most_passes: usize,
    /// Examples times passes that training aims at.
    pub updates: usize,
    /// Step of the first update; it falls linearly to zero.
    pub step: f32,
    /// Probability that is taken from the right class and spread over all.
    pub smoothing: f32,
    /// Logit by which the right class is made to look worse while training, so that it has to win clearly.
    pub margin: f32,
    /// Weights start as this many times the classes' centroids.
    pub centroid: f32,
    /// A class counts by its number of examples to the power of one minus this.
    pub balance: f32,
    /// Gradients below this are not followed: after the first pass most classes are out of the question.
    pub negligible: f32,
    /// Rounds of held-out data for calibration: with few examples, and with more than `many_examples`.
    pub calibration_rounds: usize,
    pub calibration_rounds_of_many: usize,
    pub many_examples: usize,
    /// `fewest_passes` in those rounds: their models need not be as good, only as sure.
    pub calibration_passes: usize,
    /// So many specs there have to be for some to be held out, else so many intents; where there are fewer of both, the
    /// calibration is `calibration_prior`.
    pub fewest_to_hold_out: usize,
    /// Share of the weight that texts of no spec have in the calibration.
    pub out_of_scope_share: f64,
    /// How many rows of data the prior counts for.
    pub prior_strength: f64,
    /// Calibration where there are no data for one, in the order of `calibration::Evidence::features`.
    pub calibration_prior: [f64; crate::model::calibration::FEATURES],
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            shortest_piece: 2,
            longest_piece: 3,
            word_weight: 1.0,
            pair_weight: 1.0,
            piece_weight: 0.6,
            class_rarity: 0.4,
            unknown_weight: 0.7,
            prune_above: 2000,
            most_cells: 1 << 26,
            fewest_passes: 4,
            most_passes: 20,
            updates: 30_000,
            step: 4.0,
            smoothing: 0.015,
            margin: 1.0,
            centroid: 8.0,
            balance: 0.5,
            negligible: 1e-3,
            calibration_rounds: 3,
            calibration_rounds_of_many: 1,
            many_examples: 3000,
            calibration_passes: 3,
            fewest_to_hold_out: 5,
            out_of_scope_share: 0.14,
            prior_strength: 2.0,
            calibration_prior: [-2.9, 1.2, 1.4, 1.1, 0.2, 1.1, 0.8],
        }
    }
}
