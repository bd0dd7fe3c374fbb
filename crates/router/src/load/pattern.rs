//! The table `[[patterns]]`: matching, answers, transitions and refusals.

use serde_json::Value;

use super::error::{Report, SpecFileCode as Code};
use super::reader::Node;
use crate::check::{self, limit};
use crate::spec::{Language, Pattern, Refusal, Template, Transition};

/// The parts of the file that patterns refer to. A part that is broken is `None`, so that its consequences are not
/// reported.
pub(super) struct Scope<'a> {
    pub id: Option<&'a str>,
    pub languages: Option<&'a [Language]>,
    pub codes: &'a [String],
}

/// Reads all patterns; `None` if the list itself cannot be read.
pub(super) fn read_all(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Vec<Pattern>> {
    let items = node.list(report, limit::PATTERNS)?;
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut expressions = Some(limit::EXPRESSIONS);
    for item in items {
        let Some(mut table) = item.table(report) else { continue };
        let name_node = table.require(report, "name", "a name such as `name = \"action_planning\"`");
        let name = name_node.as_ref().and_then(|node| node.checked_text(report, limit::NAME, check::name));
        if let (Some(node), Some(name)) = (&name_node, &name)
            && patterns.iter().any(|pattern| pattern.name == *name)
        {
            node.report(
                report,
                Code::Duplicate,
                format!("there is a pattern `{name}` above; rename one of them"),
            );
        }
        let phrases = table
            .take("phrases")
            .map(|node| node.texts(report, limit::PHRASES_PER_PATTERN, limit::PHRASE, check::matchable))
            .unwrap_or_default();
        let expressions = table
            .take("expressions")
            .map(|node| read_expressions(&node, &mut expressions, report))
            .unwrap_or_default();
        let templates = table
            .take("templates")
            .map(|node| node.by_language(report, scope.languages, read_templates))
            .unwrap_or_default();
        let transition = table.take("transition").and_then(|node| read_transition(&node, scope, report));
        let context_update = table.take("context_update").and_then(|node| read_context_update(&node, report));
        let refusal_node = table.take("error");
        let refusal = refusal_node.as_ref().and_then(|node| read_refusal(node, scope, report));
        table.finish(report);
        if let (Some(node), Some(refusal)) = (&refusal_node, &refusal)
            && refusal.below_characters.is_some()
            && templates.is_empty()
        {
            let message = "texts that are long enough are not refused, and there is no template for them; add one, or \
                           leave `below_characters` out";
            node.report(report, Code::NoTemplate, message);
        }
        patterns.push(Pattern {
            name: name.unwrap_or_default(),
            phrases,
            expressions,
            templates,
            transition,
            context_update,
            refusal,
        });
    }
    Some(patterns)
}

fn read_expressions(node: &Node<'_>, room: &mut Option<usize>, report: &mut Report<'_>) -> Vec<regex::Regex> {
    let Some(items) = node.list(report, limit::EXPRESSIONS_PER_PATTERN) else { return Vec::new() };
    let Some(left) = *room else { return Vec::new() };
    if items.len() > left {
        let message =
            format!("more than {} expressions in this spec; use phrases where they do", limit::EXPRESSIONS);
        node.report(report, Code::TooMany, message);
        *room = None;
        return Vec::new();
    }
    *room = Some(left - items.len());
    let expression = |item: &Node<'_>| {
        let text = item.text(report, limit::EXPRESSION)?;
        item.check(check::expression(&text), report)
    };
    items.iter().filter_map(expression).collect()
}

fn read_templates(node: &Node<'_>, report: &mut Report<'_>) -> Option<Vec<Template>> {
    let items = node.list(report, limit::TEMPLATES_PER_LANGUAGE)?;
    if items.is_empty() {
        node.report(report, Code::Empty, "no template; write one, or leave the language out");
        return None;
    }
    Some(items.iter().filter_map(|item| read_template(item, report)).collect())
}

fn read_template(node: &Node<'_>, report: &mut Report<'_>) -> Option<Template> {
    let markdown = || "markdown".to_owned();
    if node.is_text() {
        let text = node.checked_text(report, limit::TEMPLATE, check::template)?;
        return Some(Template { text, format: markdown(), structured: None });
    }
    let mut table = node.table(report)?;
    let text = table.require(report, "text", "what is answered: `text = \"…\"`");
    let text = text.and_then(|node| node.checked_text(report, limit::TEMPLATE, check::template));
    let format = table.take("format").and_then(|node| node.checked_text(report, limit::NAME, check::format));
    let structured = table.take("structured").and_then(|node| read_object(&node, report));
    table.finish(report);
    Some(Template { text: text?, format: format.unwrap_or_else(markdown), structured })
}

fn read_object(node: &Node<'_>, report: &mut Report<'_>) -> Option<Value> {
    // This call reports a value that is not a table.
    node.table(report)?;
    node.json(report)
}

fn read_transition(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Transition> {
    let mut table = node.table(report)?;
    let suggest_spec = table
        .require(report, "suggest_spec", "the id of the other spec")
        .and_then(|node| other_spec(&node, scope, report));
    let reason = table
        .require(report, "reason", "why the other spec may help")
        .and_then(|node| node.text(report, limit::DESCRIPTION));
    let confidence = table.require(report, "confidence", "a number from 0 to 1").and_then(|node| {
        let confidence = node.number(report)?;
        node.check(check::confidence(confidence), report).map(|()| confidence)
    });
    let auto_transition =
        table.take("auto_transition").and_then(|node| node.flag(report)).unwrap_or_default();
    let keywords = table
        .take("keywords")
        .map(|node| node.texts(report, limit::PHRASES_PER_PATTERN, limit::WORD, check::matchable))
        .unwrap_or_default();
    table.finish(report);
    Some(Transition {
        suggest_spec: suggest_spec?,
        reason: reason?,
        // `abs` removes a negative zero, which must not appear in an answer.
        confidence: confidence?.abs(),
        auto_transition,
        keywords,
    })
}

fn read_context_update(node: &Node<'_>, report: &mut Report<'_>) -> Option<Value> {
    let mut table = node.table(report)?;
    for key in ["emotional_state", "engagement_level"] {
        if let Some(node) = table.take(key) {
            node.text(report, limit::TITLE);
        }
    }
    if let Some(node) = table.take("custom") {
        node.table(report);
    }
    table.finish(report);
    node.json(report)
}

fn read_refusal(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<Refusal> {
    let mut table = node.table(report)?;
    let code = table.require(report, "code", "a code such as `INSUFFICIENT_CONTEXT`").and_then(|node| {
        node.checked_text(report, limit::NAME, |code| check::refusal_code(code, scope.codes))
    });
    let message = table.require(report, "message", "what the user is told: `message = { en = \"…\" }`");
    let message_place = message.clone();
    let message = message.map(|node| {
        node.by_language(report, scope.languages, |node, report| {
            node.checked_text(report, limit::TEMPLATE, check::template)
        })
    });
    if let (Some(node), Some(message)) = (&message_place, &message)
        && message.is_empty()
        && node.is_table()
    {
        node.report(report, Code::Empty, "no message; say in at least one language what the user is told");
    }
    // The same text gets the same refusal, so that another attempt is useful only if the file says so.
    let recoverable = table.take("recoverable").and_then(|node| node.flag(report)).unwrap_or(false);
    let fallback_spec = table.take("fallback_spec").and_then(|node| other_spec(&node, scope, report));
    let below_characters =
        table.take("below_characters").and_then(|node| node.count(report, 1, limit::CHARACTERS));
    table.finish(report);
    Some(Refusal { code: code?, message: message?, recoverable, fallback_spec, below_characters })
}

/// Reads the id of another spec.
fn other_spec(node: &Node<'_>, scope: &Scope<'_>, report: &mut Report<'_>) -> Option<String> {
    let id = node.checked_text(report, limit::NAME, check::spec_id)?;
    if scope.id == Some(id.as_str()) {
        node.report(
            report,
            Code::InvalidValue,
            "this is the spec itself; name another one, or leave the key out",
        );
        return None;
    }
    Some(id)
}
