//! Held-out data for the calibration. Each round excludes some specs, and some examples of the others, from training.

use std::collections::BTreeSet;

use super::calibration::{Calibration, Evidence, Observation};
use super::corpus::{Corpus, Document};
use super::features::exponential;
use super::parameters::Parameters;
use super::train::{Shuffle, Trained};
use crate::logit::number;
use crate::phrases::{Hit, Phrases, explained};
use crate::text::Folded;

/// One of this many specs is held out in a round, and one of this many examples of each intent of the other specs. The
/// fewer are held out, the more similar the round's model is to the real one; but with few examples, one is a large
/// part.
const PARTS: usize = 5;
const EXAMPLE_PARTS: usize = 10;
/// The share of a text of ordinary language above which it is a text of the spec whose examples also have it.
const OF_A_SPEC: f64 = 0.8;

pub(super) fn calibrate(
    corpus: &Corpus,
    specs: usize,
    phrases: &Phrases,
    parameters: &Parameters,
) -> Calibration {
    let prior = Calibration::untried(parameters.calibration_prior);
    // Whole specs are held out, and stand for texts of no spec; if there are few specs, ordinary language does.
    let mut units: Vec<usize> = corpus.classes.iter().map(|class| class.spec).collect();
    units.dedup();
    let by_spec = corpus.background.is_empty();
    if (if by_spec { units.len() } else { corpus.classes.len() }) < parameters.fewest_to_hold_out {
        return prior;
    }
    let mut shuffle = Shuffle::new();
    shuffle.shuffle(&mut units);
    if !by_spec {
        units.clear();
    }
    // The place of each example among those of its class, in a shuffled order.
    let mut ranks = vec![0_usize; corpus.documents.len()];
    let mut counts = vec![0_usize; corpus.classes.len()];
    let mut order: Vec<usize> = (0..corpus.documents.len()).collect();
    shuffle.shuffle(&mut order);
    for place in order {
        let class = corpus.documents.get(place).map_or(0, |document| document.class);
        if let (Some(rank), Some(count)) = (ranks.get_mut(place), counts.get_mut(class)) {
            *rank = *count;
            *count += 1;
        }
    }
    let rounds = if corpus.documents.len() > parameters.many_examples {
        parameters.calibration_rounds_of_many
    } else {
        parameters.calibration_rounds
    };
    let mut observations = Vec::new();
    for round in 0..rounds.min(PARTS) {
        let held: BTreeSet<usize> = units.iter().skip(round).step_by(PARTS).copied().collect();
        let outside: Vec<bool> = corpus.classes.iter().map(|class| held.contains(&class.spec)).collect();
        let held_out = HeldOut { specs, outside, ranks: &ranks, round };
        observe(corpus, &held_out, phrases, parameters, &mut observations);
    }
    let share = if by_spec { parameters.out_of_scope_share } else { parameters.out_of_scope_share_of_few };
    Calibration::fit(&observations, share, parameters.calibration_prior, parameters.prior_strength)
}

/// The data that one round excludes from training.
struct HeldOut<'a> {
    specs: usize,
    /// For each class, true when all of it is held out and stands for texts of no spec.
    outside: Vec<bool>,
    /// For each document, its place among those of its class.
    ranks: &'a [usize],
    round: usize,
}

impl HeldOut<'_> {
    fn outside(&self, class: usize) -> bool {
        self.outside.get(class).copied().unwrap_or_default()
    }

    /// For each spec, returns whether it can be chosen: not where it is held out.
    fn takes_part(&self, corpus: &Corpus) -> Vec<bool> {
        let mut takes_part = vec![true; self.specs];
        for (class, _) in corpus.classes.iter().zip(&self.outside).filter(|(_, outside)| **outside) {
            if let Some(takes_part) = takes_part.get_mut(class.spec) {
                *takes_part = false;
            }
        }
        takes_part
    }

    /// The documents for training, and those for decisions.
    fn divide(&self, corpus: &Corpus) -> (Vec<usize>, Vec<usize>) {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (place, document) in corpus.documents.iter().enumerate() {
            let outside = self.outside(document.class);
            let rank = self.ranks.get(place).copied().unwrap_or_default();
            // The first example of an intent always stays, so that no intent is without examples. A name is not a text
            // that users write.
            let turn = rank % EXAMPLE_PARTS == self.round + 1;
            if !document.is_name && (outside || turn) {
                test.push(place);
            } else if !outside {
                train.push(place);
            }
        }
        (train, test)
    }
}

fn observe(
    corpus: &Corpus,
    held_out: &HeldOut<'_>,
    phrases: &Phrases,
    parameters: &Parameters,
    observations: &mut Vec<Observation>,
) {
    let specs = held_out.specs;
    let spec_of = |class: usize| corpus.classes.get(class).map_or(0, |class| class.spec);
    let outside = |class: usize| held_out.outside(class);
    let takes_part = held_out.takes_part(corpus);
    let (train, test) = held_out.divide(corpus);
    let shorter = Parameters { fewest_passes: parameters.calibration_passes, ..parameters.clone() };
    let is_heard = |place: usize| place % shorter.calibration_rounds.max(1) == held_out.round;
    let (heard, background): (Vec<_>, Vec<_>) =
        corpus.background.iter().enumerate().partition(|(place, _)| is_heard(*place));
    let background: Vec<&Document> = background.into_iter().map(|(_, document)| document).collect();
    let ordinary = heard.into_iter().map(|(_, document)| document);
    let trained = Trained::new(corpus, &train, &background, &shorter);
    let mut scores = vec![0.0; trained.stride];
    let mut totals = vec![0.0; specs];
    let mut keywords = vec![0.0; specs];
    let mut folded = Folded::default();
    let mut hits: Vec<Hit> = Vec::new();
    let examples = test.iter().filter_map(|place| corpus.documents.get(*place));
    for document in examples.chain(ordinary) {
        let vector = trained.vector(corpus, &document.features);
        trained.scores(&vector, &mut scores);
        keywords.fill(0.0);
        hits.clear();
        if !phrases.is_empty() {
            folded.refill(&document.text);
            phrases.find(&folded, &mut hits);
            for hit in &hits {
                if let Some(keyword) = keywords.get_mut(hit.spec) {
                    *keyword += number(hit.logit);
                }
            }
        }
        // The best intent of each spec that can be chosen.
        totals.fill(f64::NEG_INFINITY);
        let mut best_class = vec![None; specs];
        for (class, score) in scores.iter().take(corpus.classes.len()).enumerate() {
            let spec = spec_of(class);
            if outside(class) {
                continue;
            }
            if let (Some(place), Some(best)) = (totals.get_mut(spec), best_class.get_mut(spec))
                && f64::from(*score) > *place
            {
                *place = f64::from(*score);
                *best = Some(class);
            }
        }
        for ((total, keyword), takes_part) in totals.iter_mut().zip(&keywords).zip(&takes_part) {
            if *takes_part {
                *total = if total.is_finite() { *total } else { 0.0 } + keyword;
            }
        }
        let Some((winner, best)) = greatest(&totals, None) else { continue };
        let of_background = scores.get(corpus.classes.len()).filter(|_| !background.is_empty());
        let of_background = of_background.map(|score| f64::from(*score));
        let second = greatest(&totals, Some(winner)).map(|(_, second)| second);
        let second = second.into_iter().chain(of_background).reduce(f64::max).unwrap_or_default();
        let sum: f32 = totals
            .iter()
            .chain(&of_background)
            .filter(|total| total.is_finite())
            .map(|total| exponential((*total - best) as f32))
            .sum();
        let others = keywords.iter().enumerate().filter(|(spec, _)| *spec != winner);
        let next_keyword = others.map(|(_, keyword)| *keyword).fold(0.0, f64::max);
        let class = best_class.get(winner).copied().flatten();
        let explained =
            if phrases.is_empty() { 0.0 } else { explained(&hits, winner, folded.tokens().len()) };
        let class_coverage = class.map_or(0.0, |class| f64::from(trained.class_coverage(&vector, class)));
        // A spec may be there for small talk, too.
        let is_ordinary = document.class == corpus.classes.len();
        if is_ordinary && class_coverage > OF_A_SPEC {
            continue;
        }
        let is_outside = is_ordinary || outside(document.class);
        observations.push(Observation {
            evidence: Evidence {
                best,
                margin: best - second,
                share: 1.0 / f64::from(sum),
                coverage: explained.max(f64::from(vector.coverage)),
                class_coverage: explained.max(class_coverage),
                keyword: keywords.get(winner).copied().unwrap_or_default() - next_keyword,
            },
            right: !is_outside && winner == spec_of(document.class),
            out_of_scope: is_outside,
        });
    }
}

fn greatest(totals: &[f64], without: Option<usize>) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (place, total) in totals.iter().enumerate() {
        if total.is_finite() && Some(place) != without && best.is_none_or(|(_, best)| *total > best) {
            best = Some((place, *total));
        }
    }
    best
}
