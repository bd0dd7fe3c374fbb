//! Every tunable number of the model. The numbers are the same for all catalogues. They were chosen on the validation
//! parts of public sets of intents (see the crate's `eval`), never on rows that measure the result.

/// The parameters of features, training and calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The minimum length of character n-grams within a word, including its marks.
    pub shortest_piece: usize,
    /// The maximum length of character n-grams.
    pub longest_piece: usize,
    /// The weight of words, of pairs of neighbouring words and of pieces, in addition to their rarity.
    pub word_weight: f32,
    pub pair_weight: f32,
    pub piece_weight: f32,
    /// The part of the rarity that is counted in intents; the rest is counted in examples. A word that every example of
    /// one intent has is frequent, but informative.
    pub class_rarity: f32,
    /// The rarity of unseen features, as a share of the rarity of features that were seen once.
    pub unknown_weight: f32,
    /// The number of examples above which pieces and pairs that occur in one example only are dropped.
    pub prune_above: usize,
    /// The maximum number of features times intents; frequent features are kept first. It bounds the memory of
    /// catalogues with thousands of intents (four bytes each while training, one afterwards).
    pub most_cells: usize,
    /// The minimum number of passes over the examples. Few examples get more passes.
    pub fewest_passes: usize,
    pub most_passes: usize,
    /// The target for the number of examples times passes.
    pub updates: usize,
    /// The step of the first update. It falls linearly to zero.
    pub step: f32,
    /// The probability that is moved from the correct class to all classes.
    pub smoothing: f32,
    /// The logit that is subtracted from the correct class while training, so that it has to win clearly.
    pub margin: f32,
    /// The factor of the classes' centroids for the initial weights.
    pub centroid: f32,
    /// A class counts by its number of examples to the power of one minus this number.
    pub balance: f32,
    /// The size below which gradients are ignored. After the first pass, most classes are improbable.
    pub negligible: f32,
    /// The numbers of rounds of held-out data for calibration: with few examples, and with more than `many_examples`.
    pub calibration_rounds: usize,
    pub calibration_rounds_of_many: usize,
    pub many_examples: usize,
    /// The `fewest_passes` of those rounds. Their models need not be as good, only as confident.
    pub calibration_passes: usize,
    /// The minimum number of specs for holding out specs. With fewer, ordinary language is a class of its own; and with fewer
    /// intents, too, the calibration is `calibration_prior`.
    pub fewest_to_hold_out: usize,
    /// The share of the weight of texts of no spec in the calibration, where whole specs are held out, and where ordinary
    /// language stands for them: with few specs, every text of no spec has one of them as its likeliest.
    pub out_of_scope_share: f64,
    pub out_of_scope_share_of_few: f64,
    /// The number of rows of data that the prior counts for.
    pub prior_strength: f64,
    /// The calibration without any data, in the order of `calibration::Evidence::features`.
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
            out_of_scope_share: 0.06,
            out_of_scope_share_of_few: 0.5,
            prior_strength: 3.0,
            calibration_prior: [-1.6, 2.2, 0.7, 0.15, 0.4, 2.9, 0.8],
        }
    }
}
