//! The top level of a spec file: its keys, keywords, intents and limits.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::error::{Report, SpecFileCode as Code};
use super::pattern;
use super::reader::{Node, Table};
use crate::check::{self, limit};
use crate::fold;
use crate::spec::{Intent, Keyword, Language, Limits, Spec};

/// The name of the built-in agent.
const TEMPLATE_AGENT: &str = "template";

/// The contents of a file. The spec is complete only if nothing was reported.
pub(super) struct Read {
    pub spec: Spec,
    /// The line and column of the id, and the id, if it is valid.
    pub id: Option<((usize, usize), String)>,
    /// The line and column of `default`, if it is true.
    pub default: Option<(usize, usize)>,
}

pub(super) fn read(document: &DeTable<'_>, report: &mut Report<'_>) -> Read {
    let mut table = Table::root(document);
    let id_node = table.require(report, "id", "an id such as `id = \"trip-planner\"`");
    let id = id_node.as_ref().and_then(|node| node.checked_text(report, limit::NAME, check::spec_id));
    let place = id_node.as_ref().map(|node| report.place(node.span().start));
    let title = table.require(report, "title", "a title for people, such as `title = \"Trip planner\"`");
    let title = title.and_then(|node| node.text(report, limit::TITLE)).unwrap_or_default();
    let mut optional = |key, characters, otherwise: &str, report: &mut Report<'_>| {
        let text = table.take(key).and_then(|node| node.text(report, characters));
        text.unwrap_or_else(|| otherwise.to_owned())
    };
    let description = optional("description", limit::DESCRIPTION, "", report);
    let tone = optional("tone", limit::WORD, "neutral", report);
    let response_style = optional("response_style", limit::WORD, "plain", report);
    let languages =
        table.require(report, "languages", "the languages that it answers in: `languages = [\"en\"]`");
    let languages = languages.and_then(|node| read_languages(&node, report));
    let version = table.require(report, "contract_version", "`contract_version = \"1.0.0\"`");
    let contract_version = version
        .and_then(|node| node.checked_text(report, limit::NAME, check::contract_version))
        .unwrap_or_default();
    let capabilities = table
        .take("capabilities")
        .map(|node| unique(&node, report, limit::CAPABILITIES, check::name))
        .unwrap_or_default();
    let keywords = table.take("keywords").map(|node| read_keywords(&node, report)).unwrap_or_default();
    let error_codes = table
        .take("error_codes")
        .map(|node| unique(&node, report, limit::ERROR_CODES, check::own_code))
        .unwrap_or_default();
    let scope = pattern::Scope { id: id.as_deref(), languages: languages.as_deref(), codes: &error_codes };
    let patterns_node = table.take("patterns");
    let errors_before = report.count();
    let patterns = match &patterns_node {
        Some(node) => pattern::read_all(node, &scope, report),
        None => Some(Vec::new()),
    };
    let patterns_are_sound = report.count() == errors_before;
    let names: Option<Vec<&str>> =
        patterns.as_ref().map(|patterns| patterns.iter().map(|pattern| pattern.name.as_str()).collect());
    let intents = table
        .take("intents")
        .map(|node| read_intents(&node, languages.as_deref(), names.as_deref(), report))
        .unwrap_or_default();
    let agent_node = table.take("agent");
    let agent = match &agent_node {
        Some(node) => node.checked_text(report, limit::WORD, check::agent),
        None => Some(TEMPLATE_AGENT.to_owned()),
    };
    let fallback_node = table.take("fallback_pattern");
    let fallback_pattern =
        fallback_node.as_ref().and_then(|node| pattern_name(node, names.as_deref(), report));
    let limits =
        table.take("limits").map(|node| read_limits(&node, languages.as_deref(), report)).unwrap_or_default();
    let default_node = table.take("default");
    let default = default_node.as_ref().and_then(|node| node.flag(report)).unwrap_or_default();
    table.finish(report);

    if let (Some(TEMPLATE_AGENT), Some(patterns)) = (agent.as_deref(), &patterns) {
        let place = patterns_node.as_ref().or(agent_node.as_ref()).or(id_node.as_ref());
        let offset = place.map_or(0, |node| node.span().start);
        if patterns_are_sound && patterns.iter().all(|pattern| pattern.templates.is_empty()) {
            let message = "the agent `template` could never answer; give a pattern a template, or name the agent that \
                           serves this spec: `agent = \"…\"`";
            report.push(offset, "patterns", Code::NoTemplate, message);
        }
        if let (Some(node), Some(name)) = (&fallback_node, &fallback_pattern)
            && patterns_are_sound
            && patterns.iter().any(|pattern| pattern.name == *name && pattern.templates.is_empty())
        {
            let message = format!("the pattern `{name}` has no template and cannot answer; add a template");
            node.report(report, Code::NoTemplate, message);
        }
    }
    Read {
        id: place.zip(id.clone()),
        default: default_node.filter(|_| default).map(|node| report.place(node.span().start)),
        spec: Spec {
            id: id.unwrap_or_default(),
            title,
            description,
            languages: languages.unwrap_or_default(),
            tone,
            response_style,
            contract_version,
            capabilities,
            keywords,
            patterns: patterns.unwrap_or_default(),
            intents,
            agent: agent.unwrap_or_default(),
            error_codes,
            default,
            fallback_pattern,
            limits,
        },
    }
}

/// Reads the languages; `None` if rules about languages would report only consequences of an error.
fn read_languages(node: &Node<'_>, report: &mut Report<'_>) -> Option<Vec<Language>> {
    let items = node.list(report, limit::LANGUAGES)?;
    if items.is_empty() {
        node.report(report, Code::Empty, "no language; name at least one, such as `languages = [\"en\"]`");
        return None;
    }
    let languages = unique(node, report, limit::LANGUAGES, check::language);
    (languages.len() == items.len()).then_some(languages)
}

/// Reads a list without repeated names.
fn unique(
    node: &Node<'_>,
    report: &mut Report<'_>,
    items: usize,
    check: impl Fn(&str) -> Result<(), check::Broken>,
) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in node.list(report, items).unwrap_or_default() {
        let Some(name) = item.checked_text(report, limit::NAME, &check) else { continue };
        if names.contains(&name) {
            item.report(
                report,
                Code::Duplicate,
                format!("`{name}` is already in this list; remove one of them"),
            );
        } else {
            names.push(name);
        }
    }
    names
}

fn read_keywords(node: &Node<'_>, report: &mut Report<'_>) -> Vec<Keyword> {
    let mut keywords = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for item in node.list(report, limit::KEYWORDS).unwrap_or_default() {
        let (text_node, weight) = if item.is_text() {
            (Some(item), 1.0)
        } else {
            let Some(mut table) = item.table(report) else { continue };
            let text = table.require(report, "text", "the keyword: `{ text = \"…\", weight = 2.0 }`");
            let weight = table.take("weight").and_then(|node| {
                let weight = node.number(report)?;
                node.check(check::weight(weight), report).map(|()| weight)
            });
            table.finish(report);
            (text, weight.unwrap_or(1.0))
        };
        let Some(text_node) = text_node else { continue };
        let Some(text) = text_node.checked_text(report, limit::WORD, check::matchable) else { continue };
        if let Some(first) = seen.get(&fold::phrase(&text)) {
            let message = format!("`{text}` matches the same texts as `{first}` above; remove one of them");
            text_node.report(report, Code::Duplicate, message);
            continue;
        }
        seen.insert(fold::phrase(&text), text.clone());
        keywords.push(Keyword { text, weight });
    }
    keywords
}

fn read_intents(
    node: &Node<'_>,
    languages: Option<&[Language]>,
    patterns: Option<&[&str]>,
    report: &mut Report<'_>,
) -> Vec<Intent> {
    let mut intents: Vec<Intent> = Vec::new();
    // The number of examples that the spec may still have; `None` once it was exceeded, which is reported once.
    let mut room = Some(limit::EXAMPLES);
    for item in node.list(report, limit::INTENTS).unwrap_or_default() {
        let Some(mut table) = item.table(report) else { continue };
        let name_node = table.require(report, "name", "a name such as `name = \"book_a_trip\"`");
        let name =
            name_node.as_ref().and_then(|node| node.checked_text(report, limit::NAME, check::intent_name));
        if let (Some(node), Some(name)) = (&name_node, &name)
            && intents.iter().any(|intent| intent.name == *name)
        {
            let message = format!("there is an intent `{name}` above; merge their examples");
            node.report(report, Code::Duplicate, message);
        }
        let examples = table.take("examples").map(|node| read_examples(&node, languages, &mut room, report));
        let pattern = table.take("pattern").and_then(|node| pattern_name(&node, patterns, report));
        table.finish(report);
        intents.push(Intent {
            name: name.unwrap_or_default(),
            examples: examples.unwrap_or_default(),
            pattern,
        });
    }
    intents
}

/// Reads a list of strings, or one list for each language.
fn read_examples(
    node: &Node<'_>,
    languages: Option<&[Language]>,
    room: &mut Option<usize>,
    report: &mut Report<'_>,
) -> Vec<(Option<Language>, String)> {
    if !node.is_table() {
        return read_utterances(node, room, report).into_iter().map(|text| (None, text)).collect();
    }
    let by_language =
        node.by_language(report, languages, |node, report| Some(read_utterances(node, room, report)));
    by_language
        .into_iter()
        .flat_map(|(language, texts)| texts.into_iter().map(move |text| (Some(language.clone()), text)))
        .collect()
}

fn read_utterances(node: &Node<'_>, room: &mut Option<usize>, report: &mut Report<'_>) -> Vec<String> {
    let Some(left) = *room else { return Vec::new() };
    let Some(items) = node.list(report, usize::MAX) else { return Vec::new() };
    if items.len() > left {
        let message = format!(
            "more than {} examples in this spec; keep those that differ most, or split the spec",
            limit::EXAMPLES
        );
        node.report(report, Code::TooMany, message);
        *room = None;
        return Vec::new();
    }
    *room = Some(left - items.len());
    items.iter().filter_map(|item| item.checked_text(report, limit::EXAMPLE, check::matchable)).collect()
}

/// Reads the name of a pattern of this file.
fn pattern_name(node: &Node<'_>, patterns: Option<&[&str]>, report: &mut Report<'_>) -> Option<String> {
    let name = node.text(report, limit::NAME)?;
    let Some(patterns) = patterns else { return Some(name) };
    if !patterns.contains(&name.as_str()) {
        let hint = check::did_you_mean(&name, patterns.iter().copied());
        let hint =
            if hint.is_empty() { "; add it to `[[patterns]]`, or name another one".to_owned() } else { hint };
        node.report(report, Code::UnknownPattern, format!("this spec has no pattern `{name}`{hint}"));
    }
    Some(name)
}

fn read_limits(node: &Node<'_>, languages: Option<&[Language]>, report: &mut Report<'_>) -> Limits {
    let otherwise = Limits::default();
    let Some(mut table) = node.table(report) else { return otherwise };
    let min = table.take("min_characters").and_then(|node| node.count(report, 1, limit::CHARACTERS));
    let max_node = table.take("max_characters");
    let max = max_node.as_ref().and_then(|node| node.count(report, 1, limit::CHARACTERS));
    let mut messages = |key| {
        let node: Option<Node<'_>> = table.take(key);
        node.map(|node| {
            node.by_language(report, languages, |node, report| node.text(report, limit::TEMPLATE))
        })
        .unwrap_or_default()
    };
    let (too_short, too_long) = (messages("too_short"), messages("too_long"));
    table.finish(report);
    let limits = Limits {
        min_characters: min.unwrap_or(otherwise.min_characters),
        max_characters: max.unwrap_or(otherwise.max_characters),
        too_short,
        too_long,
    };
    if limits.min_characters > limits.max_characters {
        let message = format!(
            "no text has at least {} and at most {} characters; swap the two",
            limits.min_characters, limits.max_characters
        );
        max_node.as_ref().unwrap_or(node).report(report, Code::OutOfRange, message);
    }
    limits
}
