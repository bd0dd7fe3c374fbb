//! Calibration: converts scores to the probability that a decision is correct.
//!
//! The calibration is a small logistic regression over features of a decision. It is fitted on examples that the model
//! did not see: some of known specs, and some of specs that were held out entirely, which stand for texts of no spec.

/// The number of features of a decision, including the constant.
pub const FEATURES: usize = 7;

/// The facts on which a decision's confidence depends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The logit of the best spec, and the distance to the next one.
    pub best: f64,
    pub margin: f64,
    /// The best spec's share in the softmax over all specs.
    pub share: f64,
    /// The share of the text's weight that is known at all, and the share that examples of the best intent also have.
    pub coverage: f64,
    pub class_coverage: f64,
    /// The difference in logits between the keywords and patterns of the best spec and those of the next one.
    pub keyword: f64,
}

impl Evidence {
    pub(crate) fn features(&self) -> [f64; FEATURES] {
        [
            1.0,
            self.best / 4.0,
            self.margin / 4.0,
            self.share,
            self.coverage,
            self.class_coverage,
            self.keyword / 4.0,
        ]
    }
}

/// The names of the features in explanations.
pub const NAMES: [&str; FEATURES] =
    ["constant", "score", "margin", "share", "known", "known to the intent", "keywords beyond the next"];

/// A held-out decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub evidence: Evidence,
    pub right: bool,
    pub out_of_scope: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    pub weights: [f64; FEATURES],
    /// The number of decisions to which the calibration was fitted. After n correct decisions, the next one is correct
    /// with a probability of at most (n + 1) / (n + 2).
    pub observations: usize,
}

/// The number of decisions that a calibration without any data counts for.
const UNTRIED: usize = 18;

impl Calibration {
    /// Makes a calibration that was not fitted to data.
    pub(crate) const fn untried(weights: [f64; FEATURES]) -> Self {
        Self { weights, observations: UNTRIED }
    }

    #[must_use]
    pub fn logit(&self, evidence: &Evidence) -> f64 {
        self.weights.iter().zip(evidence.features()).map(|(weight, feature)| weight * feature).sum()
    }

    #[must_use]
    pub fn confidence(&self, evidence: &Evidence) -> f64 {
        logistic(self.logit(evidence)).min(self.most())
    }

    /// The maximum confidence of a decision.
    #[must_use]
    pub fn most(&self) -> f64 {
        let observations = self.observations as f64;
        (observations + 1.0) / (observations + 2.0)
    }

    /// Fits the weights by Newton's method on the penalised likelihood. The penalty draws the weights to those of the
    /// prior.
    pub(crate) fn fit(
        observations: &[Observation],
        out_of_scope_share: f64,
        prior: [f64; FEATURES],
        prior_strength: f64,
    ) -> Self {
        let outside = observations.iter().filter(|observation| observation.out_of_scope).count();
        let inside = observations.len() - outside;
        if inside == 0 || outside == 0 {
            return Self::untried(prior);
        }
        let rows = observations.len() as f64;
        let weight_outside = out_of_scope_share * rows / outside as f64;
        let weight_inside = (1.0 - out_of_scope_share) * rows / inside as f64;
        let mut weights = prior;
        for _ in 0..25 {
            let mut gradient = [0.0; FEATURES];
            let mut curvature = [[0.0; FEATURES]; FEATURES];
            for place in 0..FEATURES {
                if let (Some(slope), Some(weight), Some(prior)) =
                    (gradient.get_mut(place), weights.get(place), prior.get(place))
                {
                    *slope = prior_strength * (prior - weight);
                }
                if let Some(cell) = curvature.get_mut(place).and_then(|row| row.get_mut(place)) {
                    *cell = prior_strength;
                }
            }
            let current = Self { weights, observations: usize::MAX };
            for observation in observations {
                let features = observation.evidence.features();
                let probability = current.confidence(&observation.evidence);
                let weight = if observation.out_of_scope { weight_outside } else { weight_inside };
                let target = if observation.right { 1.0 } else { 0.0 };
                let bend = weight * probability * (1.0 - probability);
                for ((slope, row), feature) in gradient.iter_mut().zip(&mut curvature).zip(features) {
                    *slope += weight * (target - probability) * feature;
                    for (cell, other) in row.iter_mut().zip(features) {
                        *cell += bend * feature * other;
                    }
                }
            }
            let step = solve(curvature, gradient);
            let length: f64 = step.iter().map(|part| part.abs()).fold(0.0, f64::max);
            // Long steps are shortened: far from the solution, the likelihood is not the parabola that Newton's method
            // assumes.
            let scale = if length > 2.0 { 2.0 / length } else { 1.0 };
            for (weight, part) in weights.iter_mut().zip(step) {
                *weight += scale * part;
            }
            if length < 1e-9 {
                break;
            }
        }
        if weights.iter().all(|weight| weight.is_finite()) {
            Self { weights, observations: observations.len() }
        } else {
            Self::untried(prior)
        }
    }
}

pub(crate) fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Solves a positive definite system by Gaussian elimination; the penalty on the diagonal keeps the system definite.
fn solve(mut matrix: [[f64; FEATURES]; FEATURES], mut right: [f64; FEATURES]) -> [f64; FEATURES] {
    for pivot in 0..FEATURES {
        let Some(pivot_row) = matrix.get(pivot).copied() else { break };
        let (Some(diagonal), Some(value)) = (pivot_row.get(pivot).copied(), right.get(pivot).copied()) else {
            break;
        };
        for (place, (row, other)) in matrix.iter_mut().zip(&mut right).enumerate() {
            if place == pivot {
                continue;
            }
            let factor = row.get(pivot).copied().unwrap_or_default() / diagonal;
            for (cell, above) in row.iter_mut().zip(pivot_row) {
                *cell -= factor * above;
            }
            *other -= factor * value;
        }
    }
    let mut solution = [0.0; FEATURES];
    for (place, (part, value)) in solution.iter_mut().zip(right).enumerate() {
        let diagonal = matrix.get(place).and_then(|row| row.get(place)).copied().unwrap_or(1.0);
        *part = value / diagonal;
    }
    solution
}

/// The calibration for catalogues without any example. One keyword of weight 1 that makes up a third of a text gives a
/// confidence of about one half, two of them nine tenths, and none one tenth.
pub const KEYWORDS_ONLY: Calibration = Calibration::untried([-2.0, 0.0, 2.4, 0.0, 0.0, 1.0, 1.0]);
