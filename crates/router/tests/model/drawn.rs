//! How near the confidence is to what is right, on sets that are drawn: what a text is about is certain in some and is hardly to
//! be told in others, so that a confidence can be right only by knowing how unsure it is.

use std::time::Duration;

use capataz_router::eval::{self, OUT_OF_SCOPE, Options, Row};
use capataz_router::model::Parameters;

/// The largest calibration error that is borne in the mean of the sets: over ten equal bins, the mean distance between the confidence and the share
/// of decisions that are right.
const MOST: f64 = 0.05;

/// What is borne in one of them: five examples of an intent say little of how the next texts will be.
const MOST_OF_ONE: f64 = 0.1;

/// Numbers by Knuth's MMIX generator: the same on every machine.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn happens(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A word of no language, a different one for each number.
fn word(number: usize) -> String {
    const BEGINS: [&str; 12] = ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te"];
    const ENDS: [&str; 12] =
        ["ban", "cer", "dil", "fos", "gum", "lar", "men", "nis", "pol", "run", "sat", "ter"];
    format!("{}{}{}", BEGINS[number % 12], BEGINS[number / 12 % 12], ENDS[number / 144 % 12])
}

/// A set of intents of which texts have words of their own, words that all have, and so many per cent of words of another one.
struct Set {
    intents: usize,
    examples: usize,
    of_another: usize,
    out_of_scope: usize,
}

impl Set {
    const OWN: usize = 9;
    const COMMON: usize = 40;

    fn text(&self, draws: &mut Draws, about: usize) -> String {
        let length = 3 + draws.below(5);
        let words = (0..length).map(|_| {
            if draws.happens(35) {
                return word(draws.below(Self::COMMON));
            }
            let of = if draws.happens(self.of_another) { draws.below(self.intents) } else { about };
            word(Self::COMMON + of * Self::OWN + draws.below(Self::OWN))
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn rows(&self, draws: &mut Draws, of_each: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        for about in 0..self.intents {
            for _ in 0..of_each {
                let (text, label) = (self.text(draws, about), format!("intent_{about}"));
                rows.push(Row { text, label, split: String::new() });
            }
        }
        rows
    }

    /// Texts of intents that no spec has.
    fn of_none(&self, draws: &mut Draws) -> Vec<Row> {
        let beyond = Self { intents: self.intents + 10, ..*self };
        let texts = (0..self.out_of_scope).map(|n| beyond.text(draws, self.intents + n % 10));
        texts.map(|text| Row { text, label: OUT_OF_SCOPE.to_owned(), split: String::new() }).collect()
    }

    /// The calibration error, and the share of texts of the intents that are decided right.
    fn measured(&self, seed: u64) -> (f64, f64) {
        let mut draws = Draws(seed);
        let train = self.rows(&mut draws, self.examples);
        let mut valid = self.rows(&mut draws, 2_000 / self.intents);
        valid.extend(self.of_none(&mut draws));
        let report = eval::evaluate(&Options {
            train: &train,
            valid: &valid,
            test: Some(&valid),
            shots: None,
            parameters: &Parameters::default(),
            clock: &|| Duration::ZERO,
        });
        (report.calibration_error, report.accuracy)
    }
}

#[test]
fn confidences_are_near_the_share_that_is_right_however_hard_texts_are_to_tell_apart() {
    let sets = [
        ((40, 10, 10, 0), 0.85..0.97),
        ((40, 10, 50, 0), 0.45..0.65),
        ((40, 10, 80, 0), 0.05..0.20),
        ((12, 20, 50, 0), 0.50..0.70),
        ((77, 5, 50, 0), 0.35..0.55),
        ((40, 10, 30, 400), 0.70..0.85),
    ];
    let mut errors = Vec::new();
    for ((intents, examples, of_another, out_of_scope), of_these_right) in sets {
        let set = Set { intents, examples, of_another, out_of_scope };
        for seed in 1..=3 {
            let (error, right) = set.measured(seed);
            let what = format!("{intents} intents, {of_another} per cent of another one, seed {seed}");
            assert!(of_these_right.contains(&right), "{what}: {right:.2} are right");
            assert!(error <= MOST_OF_ONE, "{what}: {error:.3}, and {right:.2} are right");
            errors.push(error);
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    assert!(mean <= MOST, "a mean calibration error of {mean:.3}: {errors:.3?}");
}
