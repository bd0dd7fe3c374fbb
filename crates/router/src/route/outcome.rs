//! The conversion of sums to a decision.

use super::{FALLBACK_BELOW, Router, Scratch, Terms, Verdict, context, reason};
use crate::decision::{Alternative, Breakdown, Decision, Query};
use crate::logit::{Logit, logits, number};
use crate::model::exponential;
use crate::phrases::Owner;
use crate::spec::Spec;

/// The name of an unrecognised intent (seed 001, example 2).
const UNCLEAR: &str = "unclear";
/// The minimum score, in logits, of a recognised intent.
const EVIDENT: f64 = 0.5;
/// The minimum confidence at which a spec that is not the likeliest one gets an intent. Without this limit, a spec that
/// was requested by name would find its nearest intent in any text.
const LIKELY: f64 = 0.2;
/// The minimum confidence of an alternative that is listed.
const LEAST_ALTERNATIVE: f64 = 0.01;
const MOST_ALTERNATIVES: usize = 3;
/// The maximum number of keywords that a decision lists: the most that a request may hold (seed 001). A spec may have more of
/// them, and a text may contain all.
const MOST_KEYWORDS: usize = 1_000;
/// The unit of confidences, chosen so that their parts add up exactly.
const GRAIN: f64 = 1.0 / (1_u64 << 40) as f64;

impl Router {
    pub(super) fn decide(&self, query: &Query<'_>, scratch: &Scratch, verdict: &Verdict) -> Decision {
        let default = self.catalogue.specs().iter().position(|spec| spec.default);
        let winner = self.catalogue.specs().get(verdict.winner).map_or("", |spec| spec.id.as_str());
        let stays = context::current(query).is_some_and(|current| current == winner);
        let fallback = default.filter(|_| verdict.confidence < FALLBACK_BELOW && !stays);
        self.tell(query, scratch, verdict, fallback.unwrap_or(verdict.winner), fallback.is_some())
    }

    /// The decision for the spec at `chosen`.
    pub(super) fn tell(
        &self,
        query: &Query<'_>,
        scratch: &Scratch,
        verdict: &Verdict,
        chosen: usize,
        is_fallback: bool,
    ) -> Decision {
        let specs = self.catalogue.specs();
        let id = |place: usize| specs.get(place).map_or("", |spec| spec.id.as_str());
        let terms = scratch.terms.get(chosen).copied().unwrap_or_default();
        let confidence = whole(self.confidence_of(scratch, verdict, chosen));
        let spec = specs.get(chosen);
        let likely = chosen == verdict.winner || confidence >= LIKELY;
        let intent =
            spec.filter(|_| !is_fallback && likely).and_then(|spec| self.evident_intent(spec, &terms));
        let keywords_matched = keywords(query.text, scratch, chosen);
        let patterns_matched = spec.map_or_else(Vec::new, |spec| patterns(spec, scratch, chosen));
        let suggested_pattern = patterns_matched.first().cloned().or_else(|| {
            let spec = spec?;
            let name = intent?;
            spec.intents.iter().find(|intent| intent.name == name)?.pattern.clone()
        });
        let mut alternatives: Vec<Alternative> = scratch
            .best
            .iter()
            .filter(|place| **place != chosen)
            .map(|place| (place, whole(self.confidence_of(scratch, verdict, *place))))
            .filter(|(_, confidence)| *confidence >= LEAST_ALTERNATIVE)
            .map(|(place, confidence)| Alternative { spec: id(*place).to_owned(), confidence })
            .collect();
        alternatives.truncate(MOST_ALTERNATIVES);
        let reason = reason::Reason {
            keywords: &keywords_matched,
            patterns: &patterns_matched,
            intent,
            continues: terms.context > 0 && context::current(query) == Some(id(chosen)),
            history: terms.context > 0,
            fallback: is_fallback,
            likeliest: (chosen != verdict.winner).then(|| id(verdict.winner)),
            nothing: verdict.evidence.best <= 0.0,
            confidence,
        }
        .text();
        Decision {
            spec: id(chosen).to_owned(),
            confidence,
            reason,
            alternatives,
            is_fallback,
            detected_intent: intent.unwrap_or(UNCLEAR).to_owned(),
            keywords_matched,
            patterns_matched,
            suggested_pattern,
            breakdown: breakdown(confidence, &terms),
        }
    }

    /// The confidence of a spec. The winner's is calibrated. The other specs share the rest in proportion to their
    /// softmax, and none exceeds the winner.
    fn confidence_of(&self, scratch: &Scratch, verdict: &Verdict, place: usize) -> f64 {
        if place == verdict.winner {
            return verdict.confidence;
        }
        let total = |place: usize| scratch.terms.get(place).map_or(0, Terms::total);
        let odds = f64::from(exponential(number(total(place) - total(verdict.winner)) as f32));
        let share = verdict.evidence.share;
        let rest = if share < 1.0 { (1.0 - verdict.confidence) * share * odds / (1.0 - share) } else { 0.0 };
        rest.min(verdict.confidence * odds)
    }

    fn evident_intent<'a>(&self, spec: &'a Spec, terms: &Terms) -> Option<&'a str> {
        let class = self.model.classes().get(terms.class?)?;
        (terms.intent >= logits(EVIDENT)).then_some(spec.intents.get(class.intent)?.name.as_str())
    }
}

/// The decision of a catalogue without specs.
pub(super) fn nobody() -> Decision {
    Decision {
        spec: String::new(),
        confidence: 0.0,
        reason: "There are no specs.".to_owned(),
        alternatives: Vec::new(),
        is_fallback: true,
        detected_intent: UNCLEAR.to_owned(),
        keywords_matched: Vec::new(),
        patterns_matched: Vec::new(),
        suggested_pattern: None,
        breakdown: Breakdown::default(),
    }
}

/// The matched keywords as written in the text, in its order.
fn keywords(text: &str, scratch: &Scratch, spec: usize) -> Vec<String> {
    let tokens = scratch.folded.tokens();
    let mut found: Vec<String> = Vec::new();
    for hit in scratch.hits.iter().filter(|hit| hit.spec == spec && matches!(hit.owner, Owner::Keyword(_))) {
        if found.len() == MOST_KEYWORDS {
            break;
        }
        let span = tokens.get(hit.first).zip(tokens.get(hit.last));
        let written = span.and_then(|(first, last)| text.get(first.source_start..last.source_end));
        if let Some(written) = written
            && !found.iter().any(|other| other == written)
        {
            found.push(written.to_owned());
        }
    }
    found
}

/// The matched patterns in the order of the spec file.
fn patterns(spec: &Spec, scratch: &Scratch, place: usize) -> Vec<String> {
    let matches = |pattern: usize| {
        scratch.matched.contains(&(place, pattern))
            || scratch.hits.iter().any(|hit| (hit.spec, hit.owner) == (place, Owner::Pattern(pattern)))
    };
    let all = spec.patterns.iter().enumerate();
    all.filter(|(pattern, _)| matches(*pattern)).map(|(_, pattern)| pattern.name.clone()).collect()
}

/// Rounds to a multiple of [`GRAIN`], within 0 and 1.
fn whole(confidence: f64) -> f64 {
    (confidence.clamp(0.0, 1.0) / GRAIN).floor() * GRAIN
}

/// Divides the confidence in proportion to the evidence. The rounding error goes to the greatest part. A confidence
/// without evidence is the expectation before reading the text, and goes to the context.
fn breakdown(confidence: f64, terms: &Terms) -> Breakdown {
    let keyword = (terms.keyword + terms.pattern).max(0);
    let intent = terms.intent.max(0);
    let context = terms.context.max(0);
    let all = keyword + intent + context;
    if all == 0 {
        return Breakdown { keyword: 0.0, intent: 0.0, context: confidence };
    }
    let part = |logit: Logit| whole(confidence * (logit as f64 / all as f64));
    let mut parts = Breakdown { keyword: part(keyword), intent: part(intent), context: part(context) };
    if keyword >= intent && keyword >= context {
        parts.keyword = confidence - parts.intent - parts.context;
    } else if intent >= context {
        parts.intent = confidence - parts.keyword - parts.context;
    } else {
        parts.context = confidence - parts.keyword - parts.intent;
    }
    parts
}
