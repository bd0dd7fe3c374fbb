//! Findings about a spec's answers: descriptions, templates, transitions, fallbacks.

use super::{Findings, Rule, Severity, about};
use crate::check;
use crate::spec::{Catalogue, Spec};

/// The confidence below which suggestions are ignored (seed 001, "Reglas de Prioridad").
const LEAST_SUGGESTION: f64 = 0.6;
/// The confidence up to which automatic transitions are only suggested (seed 001, "Transición Automática").
const AUTOMATIC_ABOVE: f64 = 0.8;

pub(super) fn lint(spec: &Spec, catalogue: &Catalogue, findings: &mut Findings) {
    if spec.description.trim().is_empty() {
        findings.push(about(
            spec,
            Rule::MissingDescription,
            Severity::Note,
            "description",
            "no description",
            "say in a sentence what it is for; the explanation of a decision shows it",
        ));
    }
    if spec.agent == "template" {
        languages(spec, findings);
    }
    for (index, pattern) in spec.patterns.iter().enumerate() {
        if let Some(transition) = &pattern.transition {
            let key = format!("patterns[{index}].transition");
            unknown(spec, catalogue, &transition.suggest_spec, &format!("{key}.suggest_spec"), findings);
            if transition.confidence < LEAST_SUGGESTION {
                let message =
                    format!("a suggestion of {} is below {LEAST_SUGGESTION}", transition.confidence);
                let advice = "the transition is ignored; raise the confidence, or remove the transition";
                findings.push(about(spec, Rule::WeakTransition, Severity::Warning, key, message, advice));
            } else if transition.auto_transition && transition.confidence <= AUTOMATIC_ABOVE {
                let message =
                    format!("automatic with {}, not above {AUTOMATIC_ABOVE}", transition.confidence);
                let advice = "the transition is only suggested; raise the confidence, or set `auto_transition = false`";
                findings.push(about(spec, Rule::WeakTransition, Severity::Warning, key, message, advice));
            }
        }
        if let Some(fallback) = pattern.refusal.as_ref().and_then(|refusal| refusal.fallback_spec.as_deref())
        {
            unknown(spec, catalogue, fallback, &format!("patterns[{index}].error.fallback_spec"), findings);
        }
    }
}

fn unknown(spec: &Spec, catalogue: &Catalogue, id: &str, key: &str, findings: &mut Findings) {
    if catalogue.find(id).is_some() {
        return;
    }
    let hint = check::did_you_mean(id, catalogue.specs().iter().map(|spec| spec.id.as_str()));
    let message = format!("there is no spec `{id}`{hint}");
    let advice = "correct the id, or add the spec";
    findings.push(about(spec, Rule::UnknownSpec, Severity::Warning, key, message, advice));
}

fn languages(spec: &Spec, findings: &mut Findings) {
    let answering = || spec.patterns.iter().enumerate().filter(|(_, pattern)| !pattern.templates.is_empty());
    for language in &spec.languages {
        let missing: Vec<usize> = answering()
            .filter(|(_, pattern)| !pattern.templates.contains_key(language))
            .map(|(index, _)| index)
            .collect();
        let advice = "write templates in this language; until then another language is used";
        if missing.len() == answering().count() {
            let message = format!("no template is in `{language}`, which the spec declares");
            findings.push(about(
                spec,
                Rule::LanguageWithoutTemplates,
                Severity::Warning,
                "languages",
                message,
                advice,
            ));
            continue;
        }
        for index in missing {
            let key = format!("patterns[{index}].templates");
            let message = format!("no template in `{language}`");
            findings.push(about(spec, Rule::LanguageWithoutTemplates, Severity::Note, key, message, advice));
        }
    }
    for (index, pattern) in spec.patterns.iter().enumerate() {
        let Some(refusal) = &pattern.refusal else { continue };
        for language in spec.languages.iter().filter(|language| !refusal.message.contains_key(*language)) {
            let key = format!("patterns[{index}].error.message");
            let message = format!("no message in `{language}`");
            let advice = "write the message in this language; until then another language is used";
            findings.push(about(spec, Rule::LanguageWithoutTemplates, Severity::Note, key, message, advice));
        }
    }
}
