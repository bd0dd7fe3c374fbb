//! Held-out data for the calibration: in each round some specs, and some examples of the others, are not trained on.

use super::calibration::{Calibration, Evidence, Observation};
use super::corpus::Corpus;
use super::features::exponential;
use super::parameters::Parameters;
use super::train::{Shuffle, Trained};
use crate::logit::number;
use crate::phrases::{Hit, Phrases, explained};
use crate::text::Folded;

/// One of this many specs is held out in a round, and one of this many examples of each intent of the others. The fewer
/// are held out, the more the round's model is like the real one; where examples are few, one is a lot.
const PARTS: usize = 5;
const EXAMPLE_PARTS: usize = 10;

pub(super) fn calibrate(
    corpus: &Corpus,
    specs: usize,
    phrases: &Phrases,
    parameters: &Parameters,
) -> Calibration {
    let prior = Calibration { weights: parameters.calibration_prior };
    let mut taught: Vec<usize> = corpus.classes.iter().map(|class| class.spec).collect();
    taught.dedup();
    if taught.len() < parameters.fewest_specs_to_calibrate {
        return prior;
    }
    let mut shuffle = Shuffle::new();
    shuffle.shuffle(&mut taught);
    // Each example's place among those of its class, in a shuffled order.
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
        let mut held_spec = vec![false; specs];
        for spec in taught.iter().skip(round).step_by(PARTS) {
            if let Some(held) = held_spec.get_mut(*spec) {
                *held = true;
            }
        }
        observe(corpus, &held_spec, &ranks, round, phrases, parameters, &mut observations);
    }
    Calibration::fit(
        &observations,
        parameters.out_of_scope_share,
        parameters.calibration_prior,
        parameters.prior_strength,
    )
}

fn observe(
    corpus: &Corpus,
    held_spec: &[bool],
    ranks: &[usize],
    round: usize,
    phrases: &Phrases,
    parameters: &Parameters,
    observations: &mut Vec<Observation>,
) {
    let spec_of = |class: usize| corpus.classes.get(class).map_or(0, |class| class.spec);
    let outside = |class: usize| held_spec.get(spec_of(class)).copied().unwrap_or_default();
    let mut train = Vec::new();
    let mut test = Vec::new();
    for (place, document) in corpus.documents.iter().enumerate() {
        let rank = ranks.get(place).copied().unwrap_or_default();
        if document.is_name {
            if !outside(document.class) {
                train.push(place);
            }
        } else if outside(document.class) {
            test.push(place);
        } else if rank % EXAMPLE_PARTS == round + 1 {
            // The first example of an intent stays, so that none is without any.
            test.push(place);
        } else {
            train.push(place);
        }
    }
    let trained = Trained::new(corpus, &train, parameters);
    let mut scores = vec![0.0; trained.stride];
    let mut specs = vec![0.0; held_spec.len()];
    let mut keywords = vec![0.0; held_spec.len()];
    let mut folded = Folded::default();
    let mut hits: Vec<Hit> = Vec::new();
    for document in test.iter().filter_map(|place| corpus.documents.get(*place)) {
        let vector = trained.vector(corpus, &document.features);
        trained.scores(&vector, &mut scores);
        keywords.fill(0.0);
        if !phrases.is_empty() {
            folded.refill(&document.text);
            phrases.find(&folded, &mut hits);
            for hit in &hits {
                if let Some(keyword) = keywords.get_mut(hit.spec) {
                    *keyword += number(hit.logit);
                }
            }
        }
        // The best intent of each spec that takes part.
        specs.fill(f64::NEG_INFINITY);
        let mut best_class = vec![None; held_spec.len()];
        for (class, score) in scores.iter().take(corpus.classes.len()).enumerate() {
            let spec = spec_of(class);
            if outside(class) {
                continue;
            }
            if let (Some(place), Some(best)) = (specs.get_mut(spec), best_class.get_mut(spec))
                && f64::from(*score) > *place
            {
                *place = f64::from(*score);
                *best = Some(class);
            }
        }
        for ((total, keyword), held) in specs.iter_mut().zip(&keywords).zip(held_spec) {
            if !held {
                *total = if total.is_finite() { *total } else { 0.0 } + keyword;
            }
        }
        let Some((winner, best)) = greatest(&specs, None) else { continue };
        let second = greatest(&specs, Some(winner)).map_or(0.0, |(_, second)| second);
        let sum: f32 = specs
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
            right: winner == spec_of(document.class),
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
