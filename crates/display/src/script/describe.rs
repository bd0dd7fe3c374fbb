//! Actions, targets, conditions and the page's reactions, in the words of the DSL. Nothing here is escaped: each medium
//! escapes the text itself.

use capataz_contracts::json::print;
use capataz_contracts::v1;
use capataz_policy::executor as policy;
use serde_json::Value;

use crate::words::{counted, fill, words};

pub fn kind_name(kind: v1::ActionKind) -> &'static str {
    policy::kind_traits(kind).map_or("action", |traits| traits.name)
}

pub fn stage_name(stage: v1::ActionStage) -> &'static str {
    match stage {
        v1::ActionStage::Unspecified => "",
        v1::ActionStage::ProposalValidation => "proposal_validation",
        v1::ActionStage::Policy => "policy",
        v1::ActionStage::Precondition => "precondition",
        v1::ActionStage::Execution => "execution",
        v1::ActionStage::Postcondition => "postcondition",
        v1::ActionStage::Evidence => "evidence",
    }
}

pub fn severity_name(severity: v1::ExecutorSeverity) -> &'static str {
    match severity {
        v1::ExecutorSeverity::Unspecified => "",
        v1::ExecutorSeverity::Warning => "warning",
        v1::ExecutorSeverity::Error => "error",
        v1::ExecutorSeverity::Critical => "critical",
    }
}

pub fn criticality_name(criticality: v1::Criticality) -> &'static str {
    match criticality {
        v1::Criticality::Unspecified => "",
        v1::Criticality::Normal => "normal",
        v1::Criticality::Critical => "critical",
    }
}

/// An action in one line: `click role=button name="Save"`, `navigate https://example.com/`. Typed text is never
/// included, because it may be a secret; a reference to a secret is included.
pub fn action(action: &v1::Action) -> String {
    let mut parts = vec![kind_name(action.kind()).to_owned()];
    parts.extend(action.url.clone());
    parts.extend(action.target.as_ref().map(target));
    parts.extend(action.to.as_ref().map(|to| fill(words().act.onto, &[&target(to)])));
    parts.extend(
        action.by.as_ref().map(|by| fill(words().act.by_distance, &[&by.x.to_string(), &by.y.to_string()])),
    );
    parts.extend(
        action.at.as_ref().map(|at| fill(words().act.at_place, &[&at.x.to_string(), &at.y.to_string()])),
    );
    let held = action.modifiers().map(|key| enum_name(key.as_str_name(), "KEY_MODIFIER_"));
    let held: Vec<String> = held.collect();
    parts.extend(list(&held).map(|keys| fill(words().act.holding, &[&keys])));
    parts.extend(action.key.as_ref().map(|key| fill(words().act.pressing, &[key])));
    parts.extend(action.value.as_deref().map(typed));
    parts.extend(action.prompt_text.as_deref().map(|text| fill(words().act.answering, &[&typed(text)])));
    parts.extend(list(&action.options));
    parts.extend(list(&action.files));
    if action.extract.is_some() {
        let what = enum_name(action.extract().as_str_name(), "EXTRACT_KIND_");
        parts.push(match &action.attribute {
            Some(attribute) => format!("{what} {attribute}"),
            None => what,
        });
    }
    let conditions = action.conditions.iter().map(condition);
    parts.extend(list(&conditions.collect::<Vec<_>>()));
    parts.extend(action.output.as_ref().map(|output| fill(words().act.into_output, &[output])));
    parts.join(" ")
}

fn typed(value: &str) -> String {
    let is_reference = value.starts_with("${secret:") && value.find('}') == Some(value.len() - 1);
    if is_reference {
        return value.to_owned();
    }
    counted(value.chars().count() as u64, words().act.characters_one, words().act.characters_many)
}

fn list(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| items.join(", "))
}

/// A target in one line: `testid=save role=button name="Save" in frame css=#shop`.
pub fn target(target: &v1::Target) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, value: &Option<String>, quoted: bool| {
        if let Some(value) = value {
            parts.push(if quoted { format!("{name}={value:?}") } else { format!("{name}={value}") });
        }
    };
    part("testid", &target.testid, false);
    part("role", &target.role, false);
    part("name", &target.name, true);
    part("label", &target.label, true);
    part("css", &target.css, false);
    part("xpath", &target.xpath, false);
    part("text", &target.text, true);
    part("ref", &target.r#ref, false);
    parts.extend(target.nth.map(|nth| format!("nth={nth}")));
    parts.extend(target.near.as_ref().map(|near| fill(words().act.near, &[&format!("{near:?}")])));
    if let Some(container) = &target.within {
        parts.push(fill(words().act.within, &[&self::target(container)]));
    }
    for frame in target.frame.iter().rev() {
        parts.push(fill(words().act.in_frame, &[&self::target(frame)]));
    }
    parts.join(" ")
}

/// A condition in one line: `text_equals testid=total "12"`.
pub fn condition(condition: &v1::Condition) -> String {
    let mut parts = vec![enum_name(condition.kind().as_str_name(), "CONDITION_KIND_")];
    parts.extend(condition.target.as_ref().map(target));
    parts.extend(condition.attribute.clone());
    parts.extend(condition.value.as_ref().map(|value| format!("{value:?}")));
    parts.extend(condition.count.map(|count| count.to_string()));
    parts.extend(condition.condition.as_ref().map(|inner| format!("({})", self::condition(inner))));
    parts.join(" ")
}

fn enum_name(name: &str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_ascii_lowercase()
}

/// The action as indented JSON, as it was written, with typed text left out.
pub fn as_json(action: &v1::Action) -> String {
    let mut action = action.clone();
    action.value = action.value.as_deref().map(typed);
    action.prompt_text = action.prompt_text.as_deref().map(typed);
    serde_json::to_string_pretty(&print("capataz.v1.Action", &action)).unwrap_or_default()
}

/// The parts in which two signatures differ: url, title, dom, anchors, inputs.
pub fn differences(before: &v1::StateSignature, after: &v1::StateSignature) -> Vec<&'static str> {
    let parts = [
        ("url", before.url == after.url),
        ("title", before.title == after.title),
        ("dom", before.dom_hash == after.dom_hash),
        ("anchors", before.anchors_hash == after.anchors_hash),
        ("inputs", before.inputs_hash == after.inputs_hash),
    ];
    parts.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
}

/// The page's change in one line: its new address, or the parts that differ.
pub fn transition(before: Option<&v1::StateSignature>, after: Option<&v1::StateSignature>) -> Option<String> {
    let texts = &words().act;
    let (before, after) = (before?, after?);
    let changed = differences(before, after);
    Some(if changed.is_empty() {
        texts.unchanged.to_owned()
    } else if changed.contains(&"url") {
        fill(texts.now_at, &[&after.url])
    } else {
        fill(texts.changed, &[&changed.join(", ")])
    })
}

/// Further reactions of the page: redirects, dialogs, tabs, downloads, refused requests. Each kind is one part.
pub fn changes(changes: &v1::PageChanges) -> Vec<String> {
    let texts = &words().act;
    let mut parts = Vec::new();
    if let Some(status) = changes.status.filter(|status| *status >= 400) {
        parts.push(fill(texts.status, &[&status.to_string()]));
    }
    let redirects = changes.redirects.len() as u64;
    if redirects > 0 {
        parts.push(counted(redirects, texts.redirects_one, texts.redirects_many));
    }
    for dialog in &changes.dialogs {
        let template = if dialog.accepted { texts.dialog_accepted } else { texts.dialog_dismissed };
        parts.push(fill(template, &[&dialog.kind, &format!("{:?}", dialog.message)]));
    }
    parts.extend(changes.new_tabs.iter().map(|url| fill(texts.new_tab, &[url])));
    parts.extend(changes.downloads.iter().map(|download| {
        fill(texts.download, &[&download.file_name, &download.state, &bytes(download.bytes)])
    }));
    let blocked = changes.blocked.len() as u64;
    if let Some(first) = changes.blocked.first() {
        let count = counted(blocked, texts.blocked_one, texts.blocked_many);
        parts.push(format!("{count} ({})", first.host));
    }
    parts
}

/// The result of an action that succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Success<'a> {
    pub state_before: Option<&'a v1::StateSignature>,
    pub state_after: Option<&'a v1::StateSignature>,
    pub resolution: Option<&'a v1::ResolutionRecord>,
    pub changes: Option<&'a v1::PageChanges>,
    pub output: Option<&'a v1::ActionOutput>,
}

impl Success<'_> {
    /// The result in one line: `click: found by role: button "Save"; now at …; total = 12`.
    pub fn of(&self, kind: v1::ActionKind) -> String {
        // An action that only reads cannot change the page, so that an unchanged page is not mentioned.
        let changes = policy::kind_traits(kind).is_some_and(|traits| traits.changes);
        let parts = self.parts(changes);
        match parts.is_empty() {
            true => kind_name(kind).to_owned(),
            false => format!("{}: {}", kind_name(kind), parts.join("; ")),
        }
    }

    /// The parts of the line: how the element was found, the page's change where it matters, its further reactions, the
    /// output.
    pub fn parts(&self, changes_matter: bool) -> Vec<String> {
        let mut parts: Vec<String> = self.resolution.map(resolution).into_iter().collect();
        if changes_matter {
            parts.extend(transition(self.state_before, self.state_after));
        }
        parts.extend(self.changes.into_iter().flat_map(changes));
        parts.extend(self.output.map(|named| {
            fill(words().script_lines.output, &[&named.name, &output(&named.value)]) + masked(named)
        }));
        parts
    }
}

/// The resolution of a target: `found by role: button "Save" (not by testid)`.
pub fn resolution(record: &v1::ResolutionRecord) -> String {
    let texts = &words().act;
    let mut text = fill(texts.found_by, &[&record.locator, short_element(&record.element)]);
    if !record.tried.is_empty() {
        text.push_str(&fill(texts.not_by, &[&record.tried.join(", ")]));
    }
    text
}

/// Shortens `button "Save" html > body > button` to `button "Save"`, because the reader of a line knows the page.
fn short_element(element: &str) -> &str {
    let named = element.rfind("\" ").and_then(|end| element.get(..=end)).unwrap_or(element);
    named.strip_suffix(" \"\"").unwrap_or(named)
}

pub fn after_failure(next: v1::AfterFailure) -> &'static str {
    let texts = &words().act;
    match next {
        v1::AfterFailure::Unspecified => "",
        v1::AfterFailure::Retry => texts.then_retry,
        v1::AfterFailure::Recover => texts.then_recover,
        v1::AfterFailure::Continue => texts.then_continue,
        v1::AfterFailure::Halt => texts.then_halt,
    }
}

/// The output of an action as text. A JSON string loses its quotation marks.
pub fn output(value: &str) -> String {
    match serde_json::from_str(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => value.to_owned(),
    }
}

/// What is said behind an output where something in it is masked.
pub fn masked(output: &v1::ActionOutput) -> &'static str {
    if output.redacted { words().act.masked } else { "" }
}

/// A number of bytes: `12 bytes`, `3.4 KiB`.
pub fn bytes(count: u64) -> String {
    const KIB: f64 = 1024.0;
    match count {
        0..1_024 => fill(words().act.bytes, &[&count.to_string()]),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / KIB),
        _ => format!("{:.1} MiB", count as f64 / (KIB * KIB)),
    }
}

/// The address of a code's documentation.
pub fn page_of(code: &str) -> Option<String> {
    policy::lookup(code).map(|entry| format!("docs/errors/{}.md", entry.code))
}

/// The lines of a JSON object, as `key: value`, each value on one line.
pub fn details(text: &str) -> Vec<(String, String)> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object
            .into_iter()
            .map(|(key, value)| {
                let shown = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                (key, shown)
            })
            .collect(),
        Ok(other) => vec![(String::new(), other.to_string())],
        Err(_) => vec![(String::new(), text.to_owned())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> v1::Action {
        let document = serde_json::from_str(text).expect("JSON");
        capataz_contracts::json::parse("capataz.v1.Action", &document).expect("an action")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(action(&parsed(text)), expected);
    }

    #[test]
    fn an_action_is_told_in_the_words_of_its_script() {
        check(
            r#"{"id": "a", "kind": "navigate", "url": "https://a.example/"}"#,
            "navigate https://a.example/",
        );
        check(
            r#"{"id": "a", "kind": "click", "target": {"role": "button", "name": "Save", "nth": 1, "frame": [{"css": ".a"}, {"css": ".b"}]}}"#,
            "click role=button name=\"Save\" nth=1 in frame css=.b in frame css=.a",
        );
        check(
            r#"{"id": "a", "kind": "extract", "target": {"testid": "total"}, "extract": "attribute", "attribute": "href", "output": "link"}"#,
            "extract testid=total attribute href as link",
        );
        check(
            r#"{"id": "a", "kind": "wait_for", "conditions": [{"kind": "not", "condition": {"kind": "title_equals", "value": "x"}}, {"kind": "element_count_equals", "target": {"css": "li"}, "count": 3}]}"#,
            "wait_for not (title_equals \"x\"), element_count_equals css=li 3",
        );
        check(r#"{"id": "a", "kind": "press", "key": "Enter"}"#, "press key Enter");
        let drag = r#"{"id": "a", "kind": "drag", "target": {"text": "Card", "within": {"testid": "to-do"}}, "to": {"css": ".done", "near": "Done"}, "at": {"x": 4, "y": 5.5}, "modifiers": ["shift", "alt"]}"#;
        check(
            drag,
            "drag text=\"Card\" within testid=to-do onto css=.done near \"Done\" at 4, 5.5 holding shift, alt",
        );
        let spanish = crate::words::Language::Spanish.within(|| action(&parsed(drag)));
        assert_eq!(
            spanish,
            "drag text=\"Card\" dentro de testid=to-do sobre css=.done junto a \"Done\" en el punto 4, 5.5 manteniendo shift, alt"
        );
        check(
            r#"{"id": "a", "kind": "drag", "target": {"testid": "handle"}, "by": {"x": -40, "y": 0}}"#,
            "drag testid=handle by -40, 0",
        );
        check(
            r#"{"id": "a", "kind": "click", "target": {"testid": "ask"}, "dialogs": "accept", "prompt_text": "Ben"}"#,
            "click testid=ask answering 3 characters",
        );
    }

    #[test]
    fn an_element_is_told_without_its_place() {
        assert_eq!(short_element("button \"Save\" html > body > button"), "button \"Save\"");
        assert_eq!(short_element("status \"\" html > body > output"), "status");
        assert_eq!(short_element("button \"Close\" div#cookies > button"), "button \"Close\"");
        assert_eq!(short_element("button"), "button");
    }

    #[test]
    fn what_is_typed_is_not_said() {
        let fill = |value: &str| {
            action(&v1::Action {
                kind: v1::ActionKind::Fill as i32,
                value: Some(value.to_owned()),
                ..v1::Action::default()
            })
        };
        assert_eq!(fill("hunter2"), "fill 7 characters");
        assert_eq!(fill("${secret:A}"), "fill ${secret:A}");
        assert_eq!(fill("${secret:A}hunter2}"), "fill 19 characters");
    }

    #[test]
    fn a_change_of_state_is_where_the_page_is_or_what_is_different() {
        let state = |url: &str, dom: &str| v1::StateSignature {
            url: url.to_owned(),
            dom_hash: dom.to_owned(),
            ..v1::StateSignature::default()
        };
        let told = |before: &v1::StateSignature, after: &v1::StateSignature| {
            transition(Some(before), Some(after)).unwrap_or_default()
        };
        assert_eq!(told(&state("a", "1"), &state("b", "2")), "now at b");
        assert_eq!(told(&state("a", "1"), &state("a", "2")), "changed: dom");
        assert_eq!(told(&state("a", "1"), &state("a", "1")), "page unchanged");
        assert_eq!(transition(Some(&state("a", "1")), None), None);
    }

    #[test]
    fn an_output_that_has_a_mask_is_marked() {
        let given = |redacted: bool| {
            let value = r#""Card [redacted]""#.to_owned();
            let output = v1::ActionOutput { name: "card".to_owned(), value, redacted };
            let success = Success {
                state_before: None,
                state_after: None,
                resolution: None,
                changes: None,
                output: Some(&output),
            };
            success.of(v1::ActionKind::Extract)
        };
        assert_eq!(given(true), "extract: card = Card [redacted] (masked)");
        let spanish = crate::words::Language::Spanish.within(|| given(true));
        assert_eq!(spanish, "extract: card = Card [redacted] (enmascarada)");
        assert_eq!(given(false), "extract: card = Card [redacted]");
    }

    #[test]
    fn outputs_and_details_are_texts() {
        assert_eq!(output("\"12\""), "12");
        assert_eq!(output("[[1]]"), "[[1]]");
        assert_eq!(output("no JSON"), "no JSON");
        let pairs = details(r#"{"host": "a", "allowlist": ["b"]}"#);
        assert_eq!(pairs, [("allowlist".into(), "[\"b\"]".into()), ("host".into(), "a".into())]);
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(3_482), "3.4 KiB");
    }
}
