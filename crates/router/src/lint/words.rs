//! Findings about the keywords, patterns and examples of a spec.

use std::collections::{BTreeMap, BTreeSet};

use super::{FEW_EXAMPLES, Findings, Rule, Severity, about};
use crate::spec::{Catalogue, Pattern, Spec};
use crate::{fold, language};

/// The maximum number of other places that a finding names.
const MOST_OTHERS: usize = 3;

/// The names, followed by how many of `count` are not listed.
fn listed(names: &[String], count: usize) -> String {
    let more = count.saturating_sub(names.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// The places where each folded keyword and example occurs: the specs, and for examples the intents.
pub(super) struct Shared {
    keywords: BTreeMap<String, BTreeSet<String>>,
    examples: BTreeMap<String, BTreeSet<(String, String)>>,
}

impl Shared {
    pub(super) fn of(catalogue: &Catalogue) -> Self {
        let mut keywords: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut examples: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        for spec in catalogue.specs() {
            for keyword in &spec.keywords {
                keywords.entry(fold::phrase(&keyword.text)).or_default().insert(spec.id.clone());
            }
            for intent in &spec.intents {
                for (_, example) in &intent.examples {
                    let places = examples.entry(fold::phrase(example)).or_default();
                    places.insert((spec.id.clone(), intent.name.clone()));
                }
            }
        }
        Self { keywords, examples }
    }
}

pub(super) fn lint(spec: &Spec, shared: &Shared, findings: &mut Findings) {
    let matches_by_itself =
        spec.patterns.iter().any(|pattern| !pattern.phrases.is_empty() || !pattern.expressions.is_empty());
    let has_examples = spec.intents.iter().any(|intent| !intent.examples.is_empty());
    if spec.keywords.is_empty() && !matches_by_itself && !has_examples {
        findings.push(about(
            spec,
            Rule::NothingToMatch,
            Severity::Warning,
            "",
            "no keyword, no pattern that matches and no example",
            "give it intents with examples; they teach the most",
        ));
    }
    keywords(spec, shared, findings);
    intents(spec, shared, findings);
    patterns(spec, findings);
}

fn keywords(spec: &Spec, shared: &Shared, findings: &mut Findings) {
    for (index, keyword) in spec.keywords.iter().enumerate() {
        let key = format!("keywords[{index}]");
        let words = fold::words(&keyword.text);
        let is_common = |language: &String| words.iter().all(|word| language::is_common(word, language));
        if let Some(language) = spec.languages.iter().find(|language| is_common(language)) {
            let message = format!("`{}` is in nearly every text in `{language}`", keyword.text);
            let advice = "remove it, or make it a longer phrase";
            findings.push(about(
                spec,
                Rule::StopWordKeyword,
                Severity::Warning,
                key.clone(),
                message,
                advice,
            ));
        }
        let specs = shared.keywords.get(&words.join(" "));
        let count = specs.map_or(0, BTreeSet::len).saturating_sub(1);
        let others: Vec<String> =
            specs.into_iter().flatten().filter(|id| **id != spec.id).take(MOST_OTHERS).cloned().collect();
        if !others.is_empty() {
            let message = format!("`{}` is a keyword of {} too", keyword.text, listed(&others, count));
            let advice = "keep it in the spec that it belongs to, or lower its weight elsewhere";
            findings.push(about(spec, Rule::SharedKeyword, Severity::Note, key, message, advice));
        }
    }
}

fn intents(spec: &Spec, shared: &Shared, findings: &mut Findings) {
    for (index, intent) in spec.intents.iter().enumerate() {
        let count = intent.examples.len();
        if count < FEW_EXAMPLES {
            let message = format!("the intent `{}` has {count} examples", intent.name);
            let advice = "write at least five that differ in their words, better twelve for each language";
            findings.push(about(
                spec,
                Rule::FewExamples,
                Severity::Warning,
                format!("intents[{index}].examples"),
                message,
                advice,
            ));
        }
        let here = (spec.id.clone(), intent.name.clone());
        let folded: BTreeMap<String, &str> =
            intent.examples.iter().map(|(_, example)| (fold::phrase(example), example.as_str())).collect();
        for (phrase, example) in folded {
            let places = shared.examples.get(&phrase);
            let count = places.map_or(0, BTreeSet::len).saturating_sub(1);
            let others: Vec<String> = places
                .into_iter()
                .flatten()
                .filter(|place| **place != here)
                .take(MOST_OTHERS)
                .map(|(spec, intent)| format!("{spec} ({intent})"))
                .collect();
            if !others.is_empty() {
                let message = format!("`{example}` is an example of {} too", listed(&others, count));
                let advice = "keep it in one intent; the model cannot learn both";
                findings.push(about(
                    spec,
                    Rule::IdenticalExample,
                    Severity::Warning,
                    format!("intents[{index}].examples"),
                    message,
                    advice,
                ));
            }
        }
    }
    let by_language: BTreeSet<&str> = spec
        .intents
        .iter()
        .flat_map(|intent| &intent.examples)
        .filter_map(|(language, _)| language.as_deref())
        .collect();
    // Examples without a language may be in any language.
    let all_are_named =
        spec.intents.iter().flat_map(|intent| &intent.examples).all(|(named, _)| named.is_some());
    if !all_are_named || by_language.is_empty() {
        return;
    }
    for language in spec.languages.iter().filter(|language| !by_language.contains(language.as_str())) {
        let message = format!("no example is in `{language}`, which the spec declares");
        let advice = "write examples in this language, or remove it from `languages`";
        findings.push(about(
            spec,
            Rule::LanguageWithoutExamples,
            Severity::Warning,
            "languages",
            message,
            advice,
        ));
    }
}

fn patterns(spec: &Spec, findings: &mut Findings) {
    // The folded phrases of earlier patterns, each with the first pattern that has it.
    let mut earlier: BTreeMap<String, &str> = BTreeMap::new();
    for (index, pattern) in spec.patterns.iter().enumerate() {
        let named = spec.intents.iter().any(|intent| intent.pattern.as_deref() == Some(&pattern.name))
            || spec.fallback_pattern.as_deref() == Some(&pattern.name);
        if pattern.phrases.is_empty() && pattern.expressions.is_empty() {
            if !named {
                let message = format!("nothing leads to the pattern `{}`", pattern.name);
                let advice = "add phrases, or name it in an intent or as `fallback_pattern`";
                let key = format!("patterns[{index}]");
                findings.push(about(spec, Rule::UnreachablePattern, Severity::Warning, key, message, advice));
            }
        } else if let Some(winner) = subsumed_by(pattern, &earlier) {
            let message = format!("where `{}` matches, `{winner}` above matches first", pattern.name);
            let advice = "put the more specific pattern first, or give it phrases of its own";
            let severity = if named { Severity::Note } else { Severity::Warning };
            findings.push(about(
                spec,
                Rule::SubsumedPattern,
                severity,
                format!("patterns[{index}].phrases"),
                message,
                advice,
            ));
        }
        for (place, expression) in pattern.expressions.iter().enumerate() {
            if asks_for_unfolded(expression.as_str()) {
                let message = format!("`{}` requires a capital, an accent or a sign", expression.as_str());
                let advice = "texts are matched in lower case, without accents and punctuation; write the expression in this form";
                let key = format!("patterns[{index}].expressions[{place}]");
                findings.push(about(
                    spec,
                    Rule::UnmatchableExpression,
                    Severity::Warning,
                    key,
                    message,
                    advice,
                ));
            }
        }
        for phrase in &pattern.phrases {
            earlier.entry(fold::phrase(phrase)).or_insert(&pattern.name);
        }
    }
}

/// The earlier pattern that matches every text with any of this pattern's phrases, if there is one for each phrase.
fn subsumed_by<'a>(pattern: &Pattern, earlier: &BTreeMap<String, &'a str>) -> Option<&'a str> {
    if !pattern.expressions.is_empty() {
        return None;
    }
    let mut winner = None;
    for phrase in &pattern.phrases {
        let words = fold::words(phrase);
        let parts = (0..words.len()).flat_map(|from| (from + 1..=words.len()).map(move |to| (from, to)));
        let mut found = parts.filter_map(|(from, to)| earlier.get(&words.get(from..to)?.join(" ")));
        let first = found.next()?;
        winner.get_or_insert(*first);
    }
    winner
}

/// Returns whether an expression contains characters that folding removes: capitals, accents, signs. Classes (`\W`,
/// `\p{Lu}`) are ignored.
fn asks_for_unfolded(expression: &str) -> bool {
    let parsed = regex_syntax::parse(expression);
    parsed.is_ok_and(|parsed| has_unfolded_literal(&parsed))
}

fn has_unfolded_literal(expression: &regex_syntax::hir::Hir) -> bool {
    use regex_syntax::hir::HirKind;
    match expression.kind() {
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).is_ok_and(|text| {
            let words: String = text.chars().filter(|letter| *letter != ' ').collect();
            fold::phrase(&words) != words
        }),
        HirKind::Repetition(repetition) => repetition.min > 0 && has_unfolded_literal(&repetition.sub),
        HirKind::Capture(capture) => has_unfolded_literal(&capture.sub),
        HirKind::Concat(parts) => parts.iter().any(has_unfolded_literal),
        // It is enough if one of the alternatives can match.
        HirKind::Alternation(parts) => parts.iter().all(has_unfolded_literal),
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
