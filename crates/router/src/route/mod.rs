//! The router: every piece of evidence for a spec is a term of one sum, and the spec with the greatest sum answers.
//!
//! The terms of a spec are the score of its best intent, its keywords, its patterns, and the context, all in logits.
//! The calibration converts the greatest sum to the confidence.

pub(crate) mod context;
mod outcome;
mod reason;

use std::ops::Range;
use std::sync::Mutex;

use crate::decision::{Decision, Query};
use crate::language::{self, ExampleWords};
use crate::logit::{Logit, logits, number};
use crate::model::{Calibration, Evidence, Model, Parameters, exponential};
use crate::model::{ModelScratch, calibration::KEYWORDS_ONLY};
use crate::phrases::{self, Hit, Owner, Phrases, explained};
use crate::spec::Catalogue;
use crate::text::Folded;

/// The confidence below which the default spec answers, if there is one and the session has no current spec.
pub const FALLBACK_BELOW: f64 = 0.3;

/// The maximum number of memory areas that are kept for later decisions, one for each concurrent thread.
const MOST_POOLED: usize = 64;

/// The router, which decides the spec that answers. It is trained once, never changed, and shared by all threads.
#[derive(Debug)]
pub struct Router {
    catalogue: Catalogue,
    model: Model,
    phrases: Phrases,
    /// For each spec, its classes.
    classes: Vec<Range<usize>>,
    /// The specs and patterns with regular expressions.
    expressions: Vec<(usize, usize)>,
    example_words: ExampleWords,
    pool: Mutex<Vec<Scratch>>,
}

/// The terms of one spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The class of the best intent, and its score.
    pub class: Option<usize>,
    pub intent: Logit,
    pub keyword: Logit,
    pub pattern: Logit,
    pub context: Logit,
}

impl Terms {
    pub(crate) fn total(&self) -> Logit {
        self.intent + self.keyword + self.pattern + self.context
    }
}

/// Memory for one decision at a time. A router has a pool of them; a thread with many decisions may keep its own.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(crate) folded: Folded,
    pub(crate) model: ModelScratch,
    pub(crate) hits: Vec<Hit>,
    /// The patterns whose regular expressions match, as spec and pattern.
    pub(crate) matched: Vec<(usize, usize)>,
    /// The terms of each spec.
    pub(crate) terms: Vec<Terms>,
    /// The odds of each spec relative to the winner.
    odds: Vec<f32>,
    /// The best specs, best first, starting with the winner of the sum.
    pub(crate) best: Vec<usize>,
}

/// The result of the sums, before the decision whether the default spec answers instead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    pub winner: usize,
    pub evidence: Evidence,
    pub confidence: f64,
}

/// The winner and the alternatives that a decision lists.
const LISTED: usize = 4;

impl Router {
    /// Trains a router. Any checked catalogue is valid, including one without examples.
    #[must_use]
    pub fn train(catalogue: &Catalogue) -> Self {
        Self::train_with(catalogue, &Parameters::default())
    }

    /// Trains a router with other parameters than the tuned ones, for experiments.
    #[must_use]
    pub fn train_with(catalogue: &Catalogue, parameters: &Parameters) -> Self {
        let phrases = Phrases::new(catalogue);
        let model = Model::train(catalogue, &phrases, parameters);
        let mut classes = vec![0..0; catalogue.specs().len()];
        for (place, class) in model.classes().iter().enumerate() {
            if let Some(range) = classes.get_mut(class.spec) {
                *range = if range.end == 0 { place..place + 1 } else { range.start..place + 1 };
            }
        }
        let mut expressions = Vec::new();
        for (spec, content) in catalogue.specs().iter().enumerate() {
            for (pattern, content) in content.patterns.iter().enumerate() {
                if !content.expressions.is_empty() {
                    expressions.push((spec, pattern));
                }
            }
        }
        Self {
            catalogue: catalogue.clone(),
            model,
            phrases,
            classes,
            expressions,
            example_words: ExampleWords::new(catalogue),
            pool: Mutex::new(Vec::new()),
        }
    }

    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The calibration that was fitted to this catalogue.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        if self.model.classes().is_empty() { &KEYWORDS_ONLY } else { self.model.calibration() }
    }

    /// Decides with memory from the router's own pool.
    #[must_use]
    pub fn route(&self, query: &Query<'_>) -> Decision {
        self.pooled(|scratch| self.route_with(query, scratch))
    }

    /// Decides. With a used scratch, only the decision's own texts allocate memory.
    #[must_use]
    pub fn route_with(&self, query: &Query<'_>, scratch: &mut Scratch) -> Decision {
        match self.judge(query, scratch) {
            Some(verdict) => self.decide(query, scratch, &verdict),
            None => outcome::nobody(),
        }
    }

    /// Describes one spec, whatever its rank; `None` if the catalogue does not have this spec.
    #[must_use]
    pub fn consider(&self, query: &Query<'_>, spec: &str) -> Option<Decision> {
        let chosen = self.catalogue.specs().binary_search_by(|other| other.id.as_str().cmp(spec)).ok()?;
        self.pooled(|scratch| {
            let verdict = self.judge(query, scratch)?;
            Some(self.tell(query, scratch, &verdict, chosen, false))
        })
    }

    /// The approximate memory of the model in bytes, without the catalogue's own texts.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.model.memory_bytes() + self.phrases.memory_bytes() + self.example_words.memory_bytes()
    }

    /// The language of what the user has written, as far as English and Spanish can be told: that of the text, else that of
    /// the user's messages before it. It has no part in any decision.
    #[must_use]
    pub fn spoken(&self, query: &Query<'_>) -> Option<&'static str> {
        language::spoken(query.text, query.history, &self.example_words)
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn pooled<T>(&self, work: impl FnOnce(&mut Scratch) -> T) -> T {
        let pooled = self.pool.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop();
        let mut scratch = pooled.unwrap_or_default();
        let result = work(&mut scratch);
        let mut pool = self.pool.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if pool.len() < MOST_POOLED {
            pool.push(scratch);
        }
        result
    }

    /// Adds up the terms of every spec; `None` if there are no specs.
    pub(crate) fn judge(&self, query: &Query<'_>, scratch: &mut Scratch) -> Option<Verdict> {
        scratch.terms.clear();
        scratch.terms.resize(self.catalogue.specs().len(), Terms::default());
        // The history comes first, because it uses the memory that the text itself needs afterwards.
        self.add_history(query, scratch);
        self.read(query.text, scratch);
        self.add_signs(scratch, |terms, sign, logit| match sign {
            Sign::Intent(class) => {
                terms.class = Some(class);
                terms.intent = logit;
            }
            Sign::Keyword => terms.keyword += logit,
            Sign::Pattern => terms.pattern += logit,
        });
        self.add_situation(query, scratch);
        rank(&scratch.terms, &mut scratch.best);
        let winner = *scratch.best.first()?;
        let mut odds = std::mem::take(&mut scratch.odds);
        let evidence = self.evidence(scratch, winner, &mut odds);
        scratch.odds = odds;
        let confidence = self.calibration().confidence(&evidence);
        Some(Verdict { winner, evidence, confidence })
    }

    /// Folds a text, scores every intent, and finds keywords and patterns.
    fn read(&self, text: &str, scratch: &mut Scratch) {
        scratch.folded.refill(text);
        self.model.score(&scratch.folded, &mut scratch.model);
        self.phrases.find(&scratch.folded, &mut scratch.hits);
        scratch.matched.clear();
        for (spec, pattern) in &self.expressions {
            let by_phrase =
                scratch.hits.iter().any(|hit| (hit.spec, hit.owner) == (*spec, Owner::Pattern(*pattern)));
            let content = self.catalogue.specs().get(*spec).and_then(|spec| spec.patterns.get(*pattern));
            let matches = content.is_some_and(|pattern| {
                pattern.expressions.iter().any(|expression| expression.is_match(scratch.folded.text()))
            });
            if matches && !by_phrase {
                scratch.matched.push((*spec, *pattern));
            }
        }
    }

    /// Adds the evidence of the current text for each spec.
    fn add_signs(&self, scratch: &mut Scratch, mut add: impl FnMut(&mut Terms, Sign, Logit)) {
        let Scratch { terms, model, hits, matched, .. } = scratch;
        for (terms, classes) in terms.iter_mut().zip(&self.classes) {
            let mut best: Option<(usize, Logit)> = None;
            for class in classes.clone() {
                let logit = self.model.logit(model, class);
                if best.is_none_or(|(_, best)| logit > best) {
                    best = Some((class, logit));
                }
            }
            if let Some((class, logit)) = best {
                add(terms, Sign::Intent(class), logit);
            }
        }
        for hit in hits.iter() {
            if let Some(terms) = terms.get_mut(hit.spec) {
                let sign = if matches!(hit.owner, Owner::Keyword(_)) { Sign::Keyword } else { Sign::Pattern };
                add(terms, sign, hit.logit);
            }
        }
        for (spec, pattern) in matched.iter() {
            let content = self.catalogue.specs().get(*spec).and_then(|spec| spec.patterns.get(*pattern));
            if let (Some(terms), Some(pattern)) = (terms.get_mut(*spec), content) {
                add(terms, Sign::Pattern, logits(phrases::weight(pattern)));
            }
        }
    }

    fn evidence(&self, scratch: &Scratch, winner: usize, odds: &mut Vec<f32>) -> Evidence {
        let total = |spec: &usize| scratch.terms.get(*spec).map(Terms::total);
        let best = total(&winner).unwrap_or_default();
        let ordinary = self.model.ordinary(&scratch.model);
        // A single spec that competes with nothing else does so with an imaginary one whose sum is zero.
        let second =
            scratch.best.get(1).and_then(total).into_iter().chain(ordinary).max().unwrap_or_default();
        // All odds are computed in one loop without a branch, so that the machine computes several at once.
        odds.clear();
        odds.extend(scratch.terms.iter().map(|terms| number(terms.total() - best) as f32));
        odds.iter_mut().for_each(|odds| *odds = exponential(*odds));
        let of_ordinary = ordinary.map_or(0.0, |ordinary| exponential(number(ordinary - best) as f32));
        let sum: f32 = odds.iter().sum::<f32>() + of_ordinary;
        let keyword = |terms: &Terms| terms.keyword + terms.pattern;
        let terms = scratch.terms.get(winner).copied().unwrap_or_default();
        let next_keyword = if scratch.hits.is_empty() && scratch.matched.is_empty() {
            0
        } else {
            let others = scratch.terms.iter().enumerate().filter(|(spec, _)| *spec != winner);
            others.map(|(_, terms)| keyword(terms)).fold(0, Logit::max)
        };
        let explained = explained(&scratch.hits, winner, scratch.folded.tokens().len());
        let class_coverage =
            terms.class.map_or(0.0, |class| f64::from(self.model.class_coverage(&scratch.model, class)));
        Evidence {
            best: number(best),
            margin: number(best - second),
            share: 1.0 / f64::from(sum),
            coverage: explained.max(f64::from(scratch.model.coverage)),
            class_coverage: explained.max(class_coverage),
            keyword: number(keyword(&terms) - next_keyword),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Sign {
    Intent(usize),
    Keyword,
    Pattern,
}

/// The places of the best specs. Ties go to the smaller id, which is the smaller place.
fn rank(terms: &[Terms], best: &mut Vec<usize>) {
    best.clear();
    for (spec, content) in terms.iter().enumerate() {
        let total = content.total();
        let beaten = best.last().and_then(|last| terms.get(*last)).is_some_and(|last| total > last.total());
        if best.len() >= LISTED && !beaten {
            continue;
        }
        let place =
            best.partition_point(|other| terms.get(*other).is_some_and(|other| other.total() >= total));
        best.insert(place, spec);
        best.truncate(LISTED);
    }
}
