//! The contracts of planners (seed 004, "Especificación de prompts y respuestas") as JSON Schemas, with the tools of one run.

use capataz_contracts::v1::ExecutionMode;
use serde_json::{Map, Value, json};

/// Steps of a plan.
pub const STEPS_MAX: usize = 50;
/// Characters of what a planner says for people.
const WORDS_MAX: usize = 4_000;
/// Options that a planner proposes to a person.
const OPTIONS_MAX: usize = 8;
/// Characters of one of them.
const OPTION_MAX: usize = 200;

/// A tool, as a contract names it.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    pub name: &'a str,
    /// JSON Schema of its parameters; empty where anything is taken.
    pub input_schema: &'a str,
}

/// The schema of answers to prompts of this mode.
#[must_use]
pub fn answer_schema(mode: ExecutionMode, tools: &[Tool<'_>]) -> String {
    match mode {
        ExecutionMode::Unspecified | ExecutionMode::Simple => simple(tools),
        ExecutionMode::Planner => planner(tools, Plan::WhereDemanded),
        ExecutionMode::Supervised => supervised(tools),
    }
    .to_string()
}

/// The schema of answers that have to bring a plan. Empty where a mode has none.
#[must_use]
pub fn plan_schema(mode: ExecutionMode, tools: &[Tool<'_>]) -> String {
    match mode {
        ExecutionMode::Unspecified | ExecutionMode::Simple => String::new(),
        ExecutionMode::Planner => planner(tools, Plan::Needed).to_string(),
        ExecutionMode::Supervised => planner(tools, Plan::Created).to_string(),
    }
}

/// The schema of a plan that a person gives in place of a proposed one.
#[must_use]
pub fn edit_schema() -> String {
    object(&["steps"], [("steps", steps(1)), ("checkpoints", places())]).to_string()
}

/// Whether an answer has to bring a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// Only where the planner itself demands another one.
    WhereDemanded,
    Needed,
    /// The first one.
    Created,
}

fn simple(tools: &[Tool<'_>]) -> Value {
    let action = call(tools, "/properties/action", []);
    object(
        &["action", "reasoning", "continue", "confidence"],
        [
            ("action", action),
            ("reasoning", words()),
            ("continue", json!({ "type": "boolean" })),
            ("confidence", share()),
        ],
    )
}

fn planner(tools: &[Tool<'_>], plan: Plan) -> Value {
    let kinds = match plan {
        Plan::WhereDemanded => json!(["create", "modify", "continue"]),
        Plan::Needed => json!(["create", "modify"]),
        Plan::Created => json!(["create"]),
    };
    let update = object(
        &["type", "steps", "estimatedTime", "checkpoints"],
        [
            ("type", json!({ "enum": kinds })),
            // A plan that goes on as it is has no steps to tell.
            ("steps", steps(usize::from(plan != Plan::WhereDemanded))),
            ("estimatedTime", json!({ "type": "number", "minimum": 0 })),
            ("checkpoints", places()),
        ],
    );
    let action = call(tools, "/properties/nextAction", [("stepIndex", place())]);
    let mut required = vec!["nextAction", "replanRequired", "reasoning", "confidence"];
    if plan != Plan::WhereDemanded {
        required.push("planUpdate");
    }
    let mut schema = object(
        &required,
        [
            ("planUpdate", update),
            ("nextAction", action),
            ("replanRequired", json!({ "type": "boolean" })),
            ("reasoning", words()),
            ("confidence", share()),
        ],
    );
    if plan == Plan::WhereDemanded {
        let demanded =
            json!({ "required": ["replanRequired"], "properties": { "replanRequired": { "const": true } } });
        let brings = json!({
            "required": ["planUpdate"],
            "properties": { "planUpdate": { "properties": { "type": { "enum": ["create", "modify"] } } } },
        });
        set(&mut schema, "if", demanded);
        set(&mut schema, "then", brings);
    }
    schema
}

fn supervised(tools: &[Tool<'_>]) -> Value {
    let escalation = object(
        &["reason", "userQuestion", "suggestedOptions"],
        [
            ("reason", words()),
            ("userQuestion", words()),
            (
                "suggestedOptions",
                json!({
                    "type": "array",
                    "maxItems": OPTIONS_MAX,
                    "items": { "type": "string", "minLength": 1, "maxLength": OPTION_MAX },
                }),
            ),
        ],
    );
    let action = call(tools, "/properties/nextAction", [("justification", words())]);
    let mut schema = object(
        &["decision", "planAdherence", "reasoning", "confidence"],
        [
            ("decision", json!({ "enum": ["continue", "escalate", "pause", "complete"] })),
            ("nextAction", action),
            ("escalation", escalation),
            ("planAdherence", share()),
            ("reasoning", words()),
            ("confidence", share()),
        ],
    );
    let demands = |decision: &str, field: &str| {
        let decided =
            json!({ "required": ["decision"], "properties": { "decision": { "const": decision } } });
        json!({ "if": decided, "then": { "required": [field] } })
    };
    set(&mut schema, "allOf", json!([demands("continue", "nextAction"), demands("escalate", "escalation")]));
    schema
}

/// A call of one of the tools, with what else belongs to it. `at` is where it stands in the schema.
fn call<const N: usize>(tools: &[Tool<'_>], at: &str, others: [(&'static str, Value); N]) -> Value {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let mut required = vec!["tool", "parameters"];
    required.extend(others.iter().map(|(name, _)| *name));
    let mut properties = vec![("tool", json!({ "enum": names })), ("parameters", json!(true))];
    properties.extend(others);
    let mut schema = object(&required, properties);
    let declared = tools.iter().filter_map(|tool| {
        let parameters: Value = serde_json::from_str(tool.input_schema).ok()?;
        Some((tool.name, parameters))
    });
    let rules: Vec<Value> = declared
        .enumerate()
        .map(|(place, (name, mut parameters))| {
            embed(&mut parameters, &format!("{at}/allOf/{place}/then/properties/parameters"));
            json!({
                "if": { "required": ["tool"], "properties": { "tool": { "const": name } } },
                "then": { "properties": { "parameters": parameters } },
            })
        })
        .collect();
    if !rules.is_empty() {
        set(&mut schema, "allOf", Value::Array(rules));
    }
    schema
}

/// Makes a schema part of a larger one: what it refers to within itself lies below `at` then, and only the larger one is a
/// document with a name and a dialect.
fn embed(schema: &mut Value, at: &str) {
    if let Some(top) = schema.as_object_mut() {
        for key in ["$id", "$schema"] {
            top.remove(key);
        }
    }
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(object) => {
                for (key, inner) in object.iter_mut() {
                    match (key.as_str(), &mut *inner) {
                        ("$ref", Value::String(reference)) if reference.starts_with('#') => {
                            let pointer = reference.trim_start_matches('#').to_owned();
                            *reference = format!("#{at}{pointer}");
                        }
                        // What stands there is no schema.
                        ("const" | "enum" | "default" | "examples", _) => {}
                        _ => open.push(inner),
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The steps of a plan: so many at least.
fn steps(least: usize) -> Value {
    let expected = json!({ "anyOf": [
        { "type": "string" },
        object(&["schema"], [("schema", json!({ "type": ["object", "boolean"] }))]),
        object(&["equals"], [("equals", json!(true))]),
        object(&["contains"], [("contains", json!({ "type": "string", "minLength": 1 }))]),
        object(&["success"], [("success", json!({ "type": "boolean" }))]),
    ] });
    let step = object(
        &["id", "description", "tool", "parameters"],
        [
            ("id", json!({ "type": "string", "minLength": 1, "maxLength": 128 })),
            ("description", json!({ "type": "string", "maxLength": 2_000 })),
            ("tool", json!({ "type": "string", "minLength": 1, "maxLength": 128 })),
            ("parameters", json!(true)),
            ("expected", expected),
            ("dependsOn", json!({ "type": "array", "maxItems": STEPS_MAX, "items": { "type": "string" } })),
        ],
    );
    json!({ "type": "array", "minItems": least, "maxItems": STEPS_MAX, "items": step })
}

/// Places of steps.
fn places() -> Value {
    json!({ "type": "array", "maxItems": STEPS_MAX, "items": place() })
}

fn place() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": STEPS_MAX - 1 })
}

fn share() -> Value {
    json!({ "type": "number", "minimum": 0, "maximum": 1 })
}

fn words() -> Value {
    json!({ "type": "string", "maxLength": WORDS_MAX })
}

/// An object with these keys and no others.
fn object(required: &[&str], properties: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({
        "type": "object", "additionalProperties": false, "required": required, "properties": properties,
    })
}

fn set(schema: &mut Value, key: &str, value: Value) {
    if let Some(object) = schema.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}
