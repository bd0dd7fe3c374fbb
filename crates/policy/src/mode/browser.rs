//! The tools by which a planner uses the browser of its run (CONTRACTS §5): one for each kind of action (seed 002), and one
//! that tells what the page shows.

use capataz_contracts::browser::{OBSERVE_TOOL as OBSERVE, TOOL_PREFIX as PREFIX};
use capataz_contracts::v1::{ActionKind, ConditionKind};
use serde_json::{Map, Value, json};

use crate::executor::kind_traits;

/// Characters of an outline, where nobody says how many, and at most.
pub const OUTLINE: u32 = 6_000;
pub const OUTLINE_MAX: u32 = 20_000;

/// What a planner is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    pub description: String,
    /// JSON Schema of its parameters.
    pub input_schema: String,
    /// A run goes back behind it.
    pub undoable: bool,
}

/// The kind of the action that a call of this tool is.
#[must_use]
pub fn kind_of(tool: &str) -> Option<ActionKind> {
    let name = tool.strip_prefix(PREFIX)?;
    kinds().find(|kind| kind_traits(*kind).is_some_and(|traits| traits.name == name))
}

/// Returns whether a tool of this name is one of the browser's.
#[must_use]
pub fn is_tool(name: &str) -> bool {
    name == OBSERVE || kind_of(name).is_some()
}

/// The names of all of them.
pub fn names() -> impl Iterator<Item = String> {
    let of_kinds = kinds().filter_map(kind_traits).map(|traits| format!("{PREFIX}{}", traits.name));
    std::iter::once(OBSERVE.to_owned()).chain(of_kinds)
}

fn kinds() -> impl Iterator<Item = ActionKind> {
    (1..).map_while(|number| ActionKind::try_from(number).ok())
}

/// The tool of this name.
#[must_use]
pub fn tool(name: &str) -> Option<BuiltIn> {
    if name == OBSERVE {
        let characters = json!({ "type": "integer", "minimum": 1, "maximum": OUTLINE_MAX });
        return Some(BuiltIn {
            description: "Tells what the page in the browser shows: an outline of what can be read and used, where each \
                          element has a reference such as d1e12."
                .to_owned(),
            input_schema: schema(&[], [("max_characters", characters)]),
            undoable: true,
        });
    }
    let kind = kind_of(name)?;
    let traits = kind_traits(kind)?;
    let (description, required, fields) = shape(kind)?;
    Some(BuiltIn {
        description: description.to_owned(),
        input_schema: schema(
            required,
            fields.iter().map(|field| (*field, field_schema(field))).chain(common()),
        ),
        // To look at another page changes nothing behind it.
        undoable: traits.repeatable || kind == ActionKind::Navigate,
    })
}

/// What an action of the kind does, the parameters that it needs, and those that it takes (docs/actions.md).
fn shape(kind: ActionKind) -> Option<(&'static str, &'static [&'static str], &'static [&'static str])> {
    let target: &[&str] = &["target"];
    Some(match kind {
        ActionKind::Unspecified => return None,
        ActionKind::Navigate => {
            ("Goes to an address, in the browser of the run.", &["url"], &["url", "wait_until"])
        }
        ActionKind::Back => ("Goes back in the history of the tab.", &[], &["wait_until"]),
        ActionKind::Forward => ("Goes forward in the history of the tab.", &[], &["wait_until"]),
        ActionKind::Reload => ("Loads the page again.", &[], &["wait_until"]),
        ActionKind::Click => {
            ("Clicks an element.", target, &["target", "at", "modifiers", "dialogs", "prompt_text"])
        }
        ActionKind::DoubleClick => ("Clicks an element twice.", target, &["target", "at", "modifiers"]),
        ActionKind::RightClick => {
            ("Clicks an element with the right button.", target, &["target", "at", "modifiers"])
        }
        ActionKind::Drag => (
            "Drags an element to another one, or by an offset.",
            target,
            &["target", "to", "by", "at", "modifiers"],
        ),
        ActionKind::Hover => ("Moves the pointer onto an element.", target, &["target", "at"]),
        ActionKind::Fill => ("Replaces the text of an input.", &["target", "value"], &["target", "value"]),
        ActionKind::Type => (
            "Adds text to an input, without replacing what is there.",
            &["target", "value"],
            &["target", "value"],
        ),
        ActionKind::Press => ("Presses a key, such as Enter or Control+A.", &["key"], &["key", "target"]),
        ActionKind::Select => {
            ("Chooses options of a select element.", &["target", "options"], &["target", "options"])
        }
        ActionKind::Check => ("Checks a check box or a radio button.", target, target),
        ActionKind::Uncheck => ("Unchecks a check box.", target, target),
        ActionKind::Submit => (
            "Clicks what submits a form. `post` has to say what proves that it was submitted.",
            &["target", "post"],
            &["target", "dialogs", "prompt_text"],
        ),
        ActionKind::Upload => (
            "Gives files to an input of files. `post` has to say what proves that they were taken.",
            &["target", "files", "post"],
            &["target", "files"],
        ),
        ActionKind::Download => (
            "Downloads a file: from an address, or by clicking an element.",
            &[],
            &["url", "target", "output"],
        ),
        ActionKind::ScrollTo => ("Scrolls an element into view.", target, target),
        ActionKind::WaitFor => ("Waits until conditions hold.", &["conditions"], &["conditions"]),
        ActionKind::Assert => ("Fails unless conditions hold.", &["conditions"], &["conditions"]),
        ActionKind::Extract => (
            "Gives the text of an element, its value, an attribute, or the rows of a table.",
            target,
            &["target", "extract", "attribute", "output"],
        ),
        ActionKind::Screenshot => ("Takes a picture, which is kept as evidence.", &[], &["full_page"]),
    })
}

/// What every action takes.
fn common() -> impl Iterator<Item = (&'static str, Value)> {
    ["rationale", "pre", "post", "timeout_ms"].into_iter().map(|field| (field, field_schema(field)))
}

/// Targets as planners may write them.
const TARGETS: [&str; 4] = [
    r#"{"ref":"d1e12"}"#,
    r#"{"role":"button","name":"Save"}"#,
    r#"{"label":"E-mail"}"#,
    r#"{"text":"Edit","within":{"testid":"orders"},"nth":0}"#,
];
/// Conditions as planners may write them.
const CONDITIONS: [&str; 3] = [
    r#"{"kind":"visible","target":{"text":"Saved"}}"#,
    r#"{"kind":"url_matches","value":"/orders/[0-9]+$"}"#,
    r#"{"kind":"not","condition":{"kind":"visible","target":{"role":"alert"}}}"#,
];

fn field_schema(field: &str) -> Value {
    let list = |items: Value| json!({ "type": "array", "minItems": 1, "items": items });
    match field {
        "target" | "to" => target(),
        "at" | "by" => json!({
            "type": "object", "required": ["x", "y"],
            "properties": { "x": { "type": "number" }, "y": { "type": "number" } },
        }),
        "conditions" => list(condition(true)),
        "pre" | "post" => list(condition(false)),
        "options" | "files" | "modifiers" => list(json!({ "type": "string" })),
        "extract" => json!({ "enum": ["text", "value", "attribute", "table"] }),
        "dialogs" => json!({ "enum": ["accept", "dismiss"] }),
        "full_page" => json!({ "type": "boolean" }),
        "timeout_ms" => json!({ "type": ["integer", "string"] }),
        _ => json!({ "type": "string" }),
    }
}

/// One element (seed 002, section 5). What may be combined, the executor says.
fn target() -> Value {
    let text = json!({ "type": "string" });
    let other = json!({ "type": "object" });
    json!({
        "type": "object",
        "description": format!(
            "the one element that is meant, such as {}; `within` is a target around it, `near` a text beside it, `frame` the \
             targets of its iframes, `nth` counts from 0",
            TARGETS.join(" or "),
        ),
        "minProperties": 1,
        "additionalProperties": false,
        "properties": {
            "ref": text, "testid": text, "role": text, "name": text, "label": text, "text": text, "css": text, "xpath": text,
            "nth": { "type": "integer", "minimum": 0 },
            "match": { "enum": ["exact", "contains", "regex"] },
            "near": text, "within": other, "frame": { "type": "array", "items": other },
        },
    })
}

/// A condition (seed 002, section 7). All its kinds are told where it is what the tool is about: a planner is told of many
/// tools in each prompt.
fn condition(with_kinds: bool) -> Value {
    let kind = match with_kinds {
        true => json!({ "enum": condition_kinds().collect::<Vec<_>>() }),
        false => json!({ "type": "string", "description": "as of browser.wait_for" }),
    };
    json!({
        "type": "object",
        "description": format!("such as {}", CONDITIONS.join(" or ")),
        "required": ["kind"],
        "additionalProperties": false,
        "properties": {
            "kind": kind,
            "target": { "type": "object" },
            "value": { "type": "string" },
            "count": { "type": "integer", "minimum": 0 },
            "attribute": { "type": "string" },
            "condition": { "type": "object" },
        },
    })
}

/// The names of the kinds of conditions, as documents write them.
fn condition_kinds() -> impl Iterator<Item = String> {
    let kinds = (1..).map_while(|number| ConditionKind::try_from(number).ok());
    kinds.map(|kind| kind.as_str_name().trim_start_matches("CONDITION_KIND_").to_lowercase())
}

fn schema<'a>(required: &[&str], fields: impl IntoIterator<Item = (&'a str, Value)>) -> String {
    let properties: Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
        .to_string()
}

#[cfg(test)]
mod tests {
    use capataz_contracts::{json as contract, v1, validate};

    use super::*;

    #[test]
    fn there_is_a_tool_for_each_kind_of_action_and_one_that_looks() {
        let names: Vec<String> = names().collect();
        // 23 kinds, as docs/actions.md lists them.
        assert_eq!(names.len(), 24);
        for name in &names {
            let tool = tool(name).unwrap();
            let schema: Value = serde_json::from_str(&tool.input_schema).unwrap();
            for required in schema["required"].as_array().unwrap() {
                assert!(schema["properties"][required.as_str().unwrap()].is_object(), "{name}: {required}");
            }
        }
        assert_eq!(kind_of("browser.double_click"), Some(ActionKind::DoubleClick));
        for none in ["browser.", "browser.*", "browser.observe", "click", "browser.unspecified"] {
            assert_eq!(kind_of(none), None, "{none}");
        }
    }

    #[test]
    fn what_only_looks_can_be_gone_behind_and_what_changes_something_cannot() {
        let undoable = |name: &str| tool(&format!("browser.{name}")).unwrap().undoable;
        for looks in
            ["observe", "navigate", "hover", "scroll_to", "wait_for", "assert", "extract", "screenshot"]
        {
            assert!(undoable(looks), "{looks}");
        }
        for changes in ["click", "fill", "press", "submit", "upload", "back", "reload", "download", "drag"] {
            assert!(!undoable(changes), "{changes}");
        }
    }

    /// The list of docs/actions.md, which is that of seed 002.
    #[test]
    fn the_kinds_of_conditions_are_told_as_documents_write_them() {
        let kinds: Vec<String> = condition_kinds().collect();
        assert_eq!(kinds.len(), 26);
        for known in ["element_count_equals", "visible", "url_matches", "host_equals", "no_overlay", "not"] {
            assert!(kinds.iter().any(|kind| kind == known), "{known}");
        }
    }

    #[test]
    fn what_a_planner_is_shown_of_targets_and_conditions_can_be_written_so() {
        let check = |kind: &str, field: &str, schema: &Value, example: &str| {
            let example: Value = serde_json::from_str(example).unwrap();
            let known = &schema["properties"];
            assert!(example.as_object().unwrap().keys().all(|key| known.get(key).is_some()), "{example}");
            let value = if field == "conditions" { json!([example]) } else { example };
            let action = json!({ "id": "a", "kind": kind, field: value });
            let action: v1::Action = contract::parse("capataz.v1.Action", &action).unwrap();
            assert_eq!(validate::action(&action), [], "{action:?}");
        };
        for example in TARGETS {
            check("click", "target", &target(), example);
        }
        for example in CONDITIONS {
            check("wait_for", "conditions", &condition(true), example);
        }
    }

    /// A planner is told of all of them with each step.
    #[test]
    fn all_tools_together_are_told_in_some_thousand_tokens() {
        let told: usize = names().filter_map(|name| tool(&name)).map(|tool| tool.input_schema.len()).sum();
        assert!(told < 60_000, "{told} bytes");
    }
}
