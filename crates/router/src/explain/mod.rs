//! Explanations of routing decisions, exact to the last bit.
//!
//! Every considered spec is divided into terms. A term is a multiple of 2^-20 logits, so that the terms of a spec add
//! up to its total exactly, in any order.

mod change;

use std::fmt;

use serde::Serialize;

pub use change::Change;

use crate::decision::Query;
use crate::logit::{Logit, logits, number};
use crate::model::calibration::NAMES;
use crate::phrases::{self, Owner};
use crate::route::{FALLBACK_BELOW, Router, Scratch, Terms, Verdict, context};
use crate::spec::Spec;
use crate::text::Token;

/// A decision, divided into its terms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The spec that answers; the same as in the decision.
    pub spec: String,
    pub confidence: f64,
    pub is_fallback: bool,
    pub reason: String,
    /// The considered specs, best first, including the default spec and the requested one.
    pub considered: Vec<Considered>,
    /// The terms that turn the greatest total into a confidence.
    pub calibration: Vec<CalibrationTerm>,
    /// The sum of the calibration's terms. The probability that the greatest total is correct is `1 / (1 + e^-sum)`,
    /// but at most `most`.
    pub calibration_sum: f64,
    /// The maximum probability that the number of held-out decisions justifies.
    pub most: f64,
    /// The probability below which the default spec answers.
    pub fallback_below: f64,
    /// Changes that would have led to another spec.
    pub change: Change,
}

/// One spec with the terms for and against it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Considered {
    pub spec: String,
    /// The intent with the greatest score, if the spec has intents.
    pub intent: Option<String>,
    /// The exact sum of the terms, in logits.
    pub total: f64,
    /// The terms of the text in its order, then those of the context. Terms of zero are left out.
    pub terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    pub kind: TermKind,
    /// The word or keyword as written in the text, or the pattern's name; empty for terms of the context.
    pub what: String,
    /// The logits of the term. A negative term is evidence against the spec.
    pub logit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TermKind {
    /// The contribution of a word, its parts and its neighbours to the intent.
    Intent,
    Keyword,
    Pattern,
    /// The user's earlier messages.
    History,
    /// The session's current spec.
    Continuity,
    /// A penalty, because the spec does not support the user's language.
    Language,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationTerm {
    pub name: &'static str,
    pub value: f64,
    pub weight: f64,
}

impl Router {
    /// Explains the decision, including the requested spec, whatever its rank.
    #[must_use]
    pub fn explain(&self, query: &Query<'_>, spec: Option<&str>) -> Explanation {
        self.pooled(|scratch| self.explain_with(query, spec, scratch))
    }

    fn explain_with(&self, query: &Query<'_>, asked: Option<&str>, scratch: &mut Scratch) -> Explanation {
        let decision = self.route_with(query, scratch);
        let verdict = self.judge(query, scratch);
        let specs = self.catalogue().specs();
        let mut places = scratch.best.clone();
        for id in [Some(decision.spec.as_str()), asked].into_iter().flatten() {
            if let Ok(place) = specs.binary_search_by(|spec| spec.id.as_str().cmp(id))
                && !places.contains(&place)
            {
                places.push(place);
            }
        }
        let considered = places
            .into_iter()
            .filter_map(|place| {
                let terms = scratch.terms.get(place)?;
                Some(self.take_apart(query, specs.get(place)?, place, terms, scratch))
            })
            .collect();
        let (calibration, calibration_sum) = self.calibration_terms(verdict.as_ref());
        let change = self.change(query, &decision, scratch);
        Explanation {
            spec: decision.spec,
            confidence: decision.confidence,
            is_fallback: decision.is_fallback,
            reason: decision.reason,
            considered,
            calibration,
            calibration_sum,
            most: self.calibration().most(),
            fallback_below: FALLBACK_BELOW,
            change,
        }
    }

    fn calibration_terms(&self, verdict: Option<&Verdict>) -> (Vec<CalibrationTerm>, f64) {
        let Some(verdict) = verdict else { return (Vec::new(), 0.0) };
        let calibration = self.calibration();
        let features = verdict.evidence.features();
        let terms = NAMES.iter().zip(features).zip(calibration.weights);
        (
            terms.map(|((name, value), weight)| CalibrationTerm { name, value, weight }).collect(),
            calibration.logit(&verdict.evidence),
        )
    }

    fn take_apart(
        &self,
        query: &Query<'_>,
        spec: &Spec,
        place: usize,
        terms: &Terms,
        scratch: &Scratch,
    ) -> Considered {
        let mut parts: Vec<(TermKind, String, Logit)> = Vec::new();
        let tokens = scratch.folded.tokens();
        let written = |first: &Token, last: &Token| {
            query.text.get(first.source_start..last.source_end).unwrap_or_default().to_owned()
        };
        let mut intent = None;
        if let Some(class) = terms.class {
            let name = self.model().classes().get(class).and_then(|class| spec.intents.get(class.intent));
            intent = name.map(|intent| intent.name.clone());
            for (token, logit) in tokens.iter().zip(self.by_word(class, scratch)) {
                parts.push((TermKind::Intent, written(token, token), logit));
            }
        }
        for hit in scratch.hits.iter().filter(|hit| hit.spec == place) {
            let (kind, what) = match hit.owner {
                Owner::Keyword(_) => {
                    let span = tokens.get(hit.first).zip(tokens.get(hit.last));
                    (TermKind::Keyword, span.map_or_else(String::new, |(first, last)| written(first, last)))
                }
                Owner::Pattern(pattern) => (TermKind::Pattern, pattern_name(spec, pattern)),
            };
            parts.push((kind, what, hit.logit));
        }
        for (_, pattern) in scratch.matched.iter().filter(|(matched, _)| *matched == place) {
            let weight = spec.patterns.get(*pattern).map_or(0.0, phrases::weight);
            parts.push((TermKind::Pattern, pattern_name(spec, *pattern), logits(weight)));
        }
        let continuity = context::continuity(query, spec, tokens.len());
        let language = context::language(query, spec);
        for (kind, logit) in [
            (TermKind::History, terms.context - continuity - language),
            (TermKind::Continuity, continuity),
            (TermKind::Language, language),
        ] {
            parts.push((kind, String::new(), logit));
        }
        parts.retain(|(_, _, logit)| *logit != 0);
        let terms_of = parts.into_iter().map(|(kind, what, logit)| Term { kind, what, logit: number(logit) });
        Considered { spec: spec.id.clone(), intent, total: number(terms.total()), terms: terms_of.collect() }
    }

    /// The score of one class, by word. The contribution of an n-gram is divided among its words.
    pub(crate) fn by_word(&self, class: usize, scratch: &Scratch) -> Vec<Logit> {
        let mut words = vec![0; scratch.folded.tokens().len()];
        for (feature, tokens) in self.model().places(&scratch.folded, &scratch.model) {
            let contribution = self.model().contribution(&feature, class);
            let Ok(count) = Logit::try_from(tokens.len()) else { continue };
            if count == 0 {
                continue;
            }
            // The division leaves a remainder of less than one unit for each word; the first words take it.
            let (part, rest) = (contribution / count, contribution % count);
            for (place, token) in (0..).zip(tokens) {
                let share = if place < rest.abs() { part + rest.signum() } else { part };
                if let Some(word) = words.get_mut(token) {
                    *word += share;
                }
            }
        }
        words
    }
}

fn pattern_name(spec: &Spec, pattern: usize) -> String {
    spec.patterns.get(pattern).map_or_else(String::new, |pattern| pattern.name.clone())
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fallback = if self.is_fallback { ", the default" } else { "" };
        writeln!(formatter, "{} ({:.2}{fallback}): {}", self.spec, self.confidence, self.reason)?;
        for considered in &self.considered {
            let intent = considered.intent.as_deref().map(|intent| format!(", intent {intent}"));
            writeln!(formatter, "\n{}{}", considered.spec, intent.unwrap_or_default())?;
            for term in &considered.terms {
                let kind = match term.kind {
                    TermKind::Intent => "word",
                    TermKind::Keyword => "keyword",
                    TermKind::Pattern => "pattern",
                    TermKind::History => "earlier messages",
                    TermKind::Continuity => "same conversation",
                    TermKind::Language => "other language",
                };
                writeln!(formatter, "  {:>+8.3}  {kind} {}", term.logit, term.what)?;
            }
            writeln!(formatter, "  {:>+8.3}  total", considered.total)?;
        }
        writeln!(formatter, "\nfrom the greatest total to the confidence")?;
        for term in &self.calibration {
            let product = term.value * term.weight;
            writeln!(formatter, "  {product:>+8.3}  {} {:.3} x {:.3}", term.name, term.value, term.weight)?;
        }
        writeln!(formatter, "  {:>+8.3}  sum", self.calibration_sum)?;
        write!(formatter, "{}", self.change)
    }
}
