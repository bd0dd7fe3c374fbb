//! Measures over rows and their decisions.

use super::rows::OUT_OF_SCOPE;

/// A row and its decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    pub label: String,
    pub spec: String,
    pub confidence: f64,
}

impl Scored {
    #[must_use]
    pub fn out_of_scope(&self) -> bool {
        self.label == OUT_OF_SCOPE
    }

    #[must_use]
    pub fn right(&self) -> bool {
        self.label == self.spec
    }
}

/// The rule for choosing the threshold of confidence below which a text counts as out of scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The rule maximises the number of correct rows, with out of scope as one more label (Larson et al. 2019). If few
    /// rows are out of scope, this rule spares those in scope.
    Larson,
    /// The rule maximises the mean of accuracy in scope and recall out of scope.
    Balanced,
}

/// The smallest of the best thresholds: a row with a lower confidence is out of scope. The threshold is 0 if no row is.
#[must_use]
pub fn choose_threshold(scored: &[Scored], rule: Rule) -> f64 {
    let outside = scored.iter().filter(|row| row.out_of_scope()).count();
    let inside = scored.len() - outside;
    if outside == 0 || inside == 0 {
        return 0.0;
    }
    let mut rows: Vec<&Scored> = scored.iter().collect();
    rows.sort_by(|one, other| one.confidence.total_cmp(&other.confidence));
    let right = rows.iter().filter(|row| row.right()).count();
    let value = |kept: usize, refused: usize| match rule {
        Rule::Larson => (kept + refused) as f64 / scored.len() as f64,
        Rule::Balanced => kept as f64 / inside as f64 + refused as f64 / outside as f64,
    };
    let (mut kept, mut refused) = (right, 0);
    let mut best = (value(kept, refused), 0.0);
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        if row.out_of_scope() {
            refused += 1;
        } else if row.right() {
            kept -= 1;
        }
        let next = rows.peek().map_or(1.0, |next| next.confidence);
        // Rows with equal confidence are on the same side. A threshold lies halfway between two different confidences.
        if next > row.confidence && value(kept, refused) > best.0 {
            best = (value(kept, refused), row.confidence.midpoint(next));
        }
    }
    best.1
}

/// The probability that a row in scope has a higher confidence than one out of scope; ties count half. `None` without
/// both kinds.
#[must_use]
pub fn auroc(scored: &[Scored]) -> Option<f64> {
    let mut rows: Vec<(f64, bool)> = scored.iter().map(|row| (row.confidence, row.out_of_scope())).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let outside = rows.iter().filter(|(_, outside)| *outside).count();
    let inside = rows.len() - outside;
    if outside == 0 || inside == 0 {
        return None;
    }
    let (mut below, mut wins) = (0_usize, 0.0);
    for tied in rows.chunk_by(|one, other| one.0 == other.0) {
        let tied_outside = tied.iter().filter(|(_, outside)| *outside).count();
        let tied_inside = (tied.len() - tied_outside) as f64;
        wins += tied_inside * (below as f64 + tied_outside as f64 / 2.0);
        below += tied_outside;
    }
    Some(wins / (inside as f64 * outside as f64))
}

/// The expected calibration error over ten equal bins: the mean difference between the confidence and the share of
/// correct decisions. A row that is out of scope never counts as correct.
#[must_use]
pub fn calibration_error(scored: &[Scored]) -> f64 {
    const BINS: usize = 10;
    let mut bins = [(0_usize, 0.0_f64, 0_usize); BINS];
    for row in scored {
        let place = ((row.confidence * BINS as f64) as usize).min(BINS - 1);
        if let Some((rows, confidence, right)) = bins.get_mut(place) {
            *rows += 1;
            *confidence += row.confidence;
            *right += usize::from(row.right());
        }
    }
    let all = scored.len().max(1) as f64;
    bins.iter().map(|(_, confidence, right)| (confidence - *right as f64).abs() / all).sum()
}
