//! Held-out data for the calibration. Each round excludes some specs, and some examples of the others, from training.

use std::collections::BTreeSet;

use super::calibration::{Calibration, Evidence, Observation};
use super::corpus::{Class, Corpus};
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

pub(super) fn calibrate(
    corpus: &Corpus,
    specs: usize,
    phrases: &Phrases,
    parameters: &Parameters,
) -> Calibration {
    let prior = Calibration::untried(parameters.calibration_prior);
    let mut taught: Vec<usize> = corpus.classes.iter().map(|class| class.spec).collect();
    taught.dedup();
    // Whole specs are held out; if there are few specs, intents are.
    let by_spec = taught.len() >= parameters.fewest_to_hold_out;
    let mut units: Vec<usize> = if by_spec { taught } else { (0..corpus.classes.len()).collect() };
    if units.len() < parameters.fewest_to_hold_out {
        return prior;
    }
    let mut shuffle = Shuffle::new();
    shuffle.shuffle(&mut units);
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
        let unit = |(place, class): (usize, &Class)| if by_spec { class.spec } else { place };
        let outside: Vec<bool> =
            corpus.classes.iter().enumerate().map(|class| held.contains(&unit(class))).collect();
        let held_out = HeldOut { specs, outside, ranks: &ranks, round, by_spec };
        observe(corpus, &held_out, phrases, parameters, &mut observations);
    }
    if !by_spec {
        // The texts of a held-out intent resemble the spec's other intents more than a text of no spec does.
        let outside = observations.iter().filter(|observation| observation.out_of_scope).count();
        let evidence = Evidence { share: 1.0 / specs as f64, ..Evidence::default() };
        let unknown = Observation { evidence, right: false, out_of_scope: true };
        observations.extend(std::iter::repeat_n(unknown, outside / 3));
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
    /// True when whole specs are held out, not single intents.
    by_spec: bool,
}

impl HeldOut<'_> {
    fn outside(&self, class: usize) -> bool {
        self.outside.get(class).copied().unwrap_or_default()
    }

    /// For each spec, returns whether it can be chosen; false only if all of its examples are held out.
    fn takes_part(&self, corpus: &Corpus) -> Vec<bool> {
        let mut takes_part = vec![true; self.specs];
        for held_out in [true, false] {
            for (class, _) in self.outside.iter().enumerate().filter(|(_, outside)| **outside == held_out) {
                let spec = corpus.classes.get(class).map_or(0, |class| class.spec);
                if let Some(takes_part) = takes_part.get_mut(spec) {
                    *takes_part = !held_out;
                }
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
    let trained = Trained::new(corpus, &train, &shorter);
    let mut scores = vec![0.0; trained.stride];
    let mut totals = vec![0.0; specs];
    let mut keywords = vec![0.0; specs];
    let mut folded = Folded::default();
    let mut hits: Vec<Hit> = Vec::new();
    for document in test.iter().filter_map(|place| corpus.documents.get(*place)) {
        let vector = trained.vector(corpus, &document.features);
        trained.scores(&vector, &mut scores);
        keywords.fill(0.0);
        hits.clear();
        // The keywords of a remaining spec would favour it in the texts of its own held-out intent; in texts of no spec
        // at all, they are rare.
        if !phrases.is_empty() && (held_out.by_spec || !outside(document.class)) {
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
        let second = greatest(&totals, Some(winner)).map_or(0.0, |(_, second)| second);
        let sum: f32 = totals
            .iter()
            .filter(|total| total.is_finite())
            .map(|total| exponential((*total - best) as f32))
            .sum();
        let others = keywords.iter().enumerate().filter(|(spec, _)| *spec != winner);
        let next_keyword = others.map(|(_, keyword)| *keyword).fold(0.0, f64::max);
        let class = best_class.get(winner).copied().flatten();
        let explained =
            if phrases.is_empty() { 0.0 } else { explained(&hits, winner, folded.tokens().len()) };
        let class_coverage = class.map_or(0.0, |class| f64::from(trained.class_coverage(&vector, class)));
        observations.push(Observation {
            evidence: Evidence {
                best,
                margin: best - second,
                share: 1.0 / f64::from(sum),
                coverage: explained.max(f64::from(vector.coverage)),
                class_coverage: explained.max(class_coverage),
                keyword: keywords.get(winner).copied().unwrap_or_default() - next_keyword,
            },
            right: winner == spec_of(document.class) && !outside(document.class),
            out_of_scope: outside(document.class),
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
