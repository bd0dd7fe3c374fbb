//! The contracts of planners (seed 004, "Especificación de prompts y respuestas") as JSON Schemas, with the tools of one run.

mod embed;

use std::collections::BTreeMap;

use capataz_contracts::v1::ExecutionMode;
use embed::Embedding;
use serde_json::{Map, Value, json};

/// Steps of a plan.
pub const STEPS_MAX: usize = 50;
/// Characters of what a planner says for people.
const WORDS_MAX: usize = 4_000;
/// Bytes from which on a property that several tools take alike is defined once.
const SHARED_MIN: usize = 128;
/// The definition of a contract that says which parameters name what only an earlier step gives.
const LATER: &str = "later";
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
pub fn edit_schema(tools: &[Tool<'_>]) -> String {
    let plan = object(&["steps"], [("steps", steps(1, tools)), ("checkpoints", or_null(places()))]);
    with_definitions(plan, tools, true).to_string()
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
    let action = call(tools, []);
    let schema = object(
        &["action", "reasoning", "continue", "confidence"],
        [
            ("action", action),
            ("reasoning", words()),
            ("continue", json!({ "type": "boolean" })),
            ("confidence", share()),
        ],
    );
    with_definitions(schema, tools, false)
}

fn planner(tools: &[Tool<'_>], plan: Plan) -> Value {
    let kinds = match plan {
        Plan::WhereDemanded => json!(["create", "modify", "continue"]),
        Plan::Needed => json!(["create", "modify"]),
        Plan::Created => json!(["create"]),
    };
    // What a person is asked to approve can be carried out. Any other plan is the planner's own, and may say of its later steps
    // what only the earlier ones give.
    let held_to: &[Tool<'_>] = if plan == Plan::Created { tools } else { &[] };
    let update = object(
        &["type", "steps", "estimatedTime", "checkpoints"],
        [
            ("type", json!({ "enum": kinds })),
            // A plan that goes on as it is has no steps to tell.
            ("steps", steps(usize::from(plan != Plan::WhereDemanded), held_to)),
            ("estimatedTime", json!({ "type": "number", "minimum": 0 })),
            ("checkpoints", places()),
        ],
    );
    let action = call(tools, [("stepIndex", place())]);
    let mut required = vec!["nextAction", "replanRequired", "reasoning", "confidence"];
    if plan != Plan::WhereDemanded {
        required.push("planUpdate");
    }
    let mut schema = object(
        &required,
        [
            ("planUpdate", if plan == Plan::WhereDemanded { or_null(update) } else { update }),
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
            "properties": {
                "planUpdate": { "type": "object", "properties": { "type": { "enum": ["create", "modify"] } } },
            },
        });
        set(&mut schema, "if", demanded);
        set(&mut schema, "then", brings);
    }
    with_definitions(schema, tools, !held_to.is_empty())
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
    let action = call(tools, [("justification", words())]);
    let mut schema = object(
        &["decision", "planAdherence", "reasoning", "confidence"],
        [
            ("decision", json!({ "enum": ["continue", "escalate", "pause", "complete"] })),
            ("nextAction", or_null(action)),
            ("escalation", or_null(escalation)),
            ("planAdherence", share()),
            ("reasoning", words()),
            ("confidence", share()),
        ],
    );
    let demands = |decision: &str, field: &str| {
        let decided =
            json!({ "required": ["decision"], "properties": { "decision": { "const": decision } } });
        let is_there = json!({ "required": [field], "properties": { field: { "type": "object" } } });
        json!({ "if": decided, "then": is_there })
    };
    set(&mut schema, "allOf", json!([demands("continue", "nextAction"), demands("escalate", "escalation")]));
    with_definitions(schema, tools, false)
}

/// A call of one of the tools, with what else belongs to it.
fn call<const N: usize>(tools: &[Tool<'_>], others: [(&'static str, Value); N]) -> Value {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let mut required = vec!["tool", "parameters"];
    required.extend(others.iter().map(|(name, _)| *name));
    let mut properties = vec![("tool", json!({ "enum": names })), ("parameters", json!(true))];
    properties.extend(others);
    holding_to_tools(object(&required, properties), tools, &json!(true))
}

/// The tools that declare what they take, each with its schema and its place among them.
fn declared<'a>(tools: &'a [Tool<'_>]) -> impl Iterator<Item = (usize, &'a str, Value)> {
    let of_tools = tools.iter().filter_map(|tool| {
        let parameters: Value = serde_json::from_str(tool.input_schema).ok()?;
        Some((tool.name, parameters))
    });
    of_tools.enumerate().map(|(place, (name, parameters))| (place, name, parameters))
}

/// What has a `tool` and its `parameters`, with these as the tool takes them, wherever `when` holds of them.
fn holding_to_tools(mut schema: Value, tools: &[Tool<'_>], when: &Value) -> Value {
    let rule = |(place, name, _): (usize, &str, Value)| {
        json!({
            "if": { "required": ["tool"], "properties": { "tool": { "const": name }, "parameters": when } },
            "then": { "properties": { "parameters": { "$ref": format!("#{}", definition(place)) } } },
        })
    };
    let rules: Vec<Value> = declared(tools).map(rule).collect();
    if !rules.is_empty() {
        set(&mut schema, "allOf", Value::Array(rules));
    }
    schema
}

/// A contract with what its rules refer to: what each tool takes, once, and where steps are held to that, when they are not yet.
fn with_definitions(mut contract: Value, tools: &[Tool<'_>], has_steps: bool) -> Value {
    let mut definitions: Map<String, Value> = declared(tools)
        .map(|(place, _, mut parameters)| {
            Embedding::apply(&mut parameters, definition(place), format!("tool{place}-"));
            (place.to_string(), parameters)
        })
        .collect();
    define_once(&mut definitions);
    if !definitions.is_empty() {
        if has_steps {
            definitions.insert(LATER.to_owned(), later());
        }
        set(&mut contract, "$defs", Value::Object(definitions));
    }
    contract
}

/// Returns whether parameters of a step name, anywhere in them, what only an earlier step gives: a text with `${` in it.
#[must_use]
pub fn names_later(parameters: &Value) -> bool {
    match parameters {
        Value::String(text) => text.contains("${"),
        Value::Array(items) => items.iter().any(names_later),
        Value::Object(entries) => entries.values().any(names_later),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// [`names_later`] as a schema.
fn later() -> Value {
    let itself = json!({ "$ref": format!("#/$defs/{LATER}") });
    json!({ "anyOf": [
        { "type": "string", "pattern": r"\$\{" },
        { "type": "array", "contains": itself },
        { "type": "object", "not": { "additionalProperties": { "not": itself } } },
    ] })
}

/// Makes one definition of each property that several tools take alike, where it is large.
fn define_once(definitions: &mut Map<String, Value>) {
    // What refers to a place within itself stays as it is.
    let properties = |tool: &Value| match tool.to_string().contains("\"$ref\"") {
        true => Vec::new(),
        false => tool
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::values)
            .cloned()
            .collect(),
    };
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for property in definitions.values().flat_map(properties) {
        *uses.entry(property.to_string()).or_default() += 1;
    }
    let shared: BTreeMap<String, String> = uses
        .into_iter()
        .filter(|(text, uses)| *uses > 1 && text.len() >= SHARED_MIN)
        .zip(0..)
        .map(|((text, _), place): (_, u32)| (text, format!("shared{place}")))
        .collect();
    for tool in definitions.values_mut().filter(|tool| !properties(tool).is_empty()) {
        let taken = tool.get_mut("properties").and_then(Value::as_object_mut);
        for property in taken.into_iter().flat_map(Map::values_mut) {
            if let Some(name) = shared.get(&property.to_string()) {
                *property = json!({ "$ref": format!("#/$defs/{name}") });
            }
        }
    }
    let read = |(text, name): (String, String)| Some((name, serde_json::from_str(&text).ok()?));
    definitions.extend(shared.into_iter().filter_map(read));
}

/// Where a contract has what the tool at this place takes.
fn definition(place: usize) -> String {
    format!("/$defs/{place}")
}

/// The steps of a plan: so many at least, with what these tools take.
fn steps(least: usize, tools: &[Tool<'_>]) -> Value {
    let expected = json!({ "anyOf": [
        { "type": ["string", "null"] },
        object(&["schema"], [("schema", json!({ "type": ["object", "boolean"], "x-schema": true }))]),
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
            (
                "dependsOn",
                or_null(json!({ "type": "array", "maxItems": STEPS_MAX, "items": { "type": "string" } })),
            ),
        ],
    );
    // A step that needs what an earlier one gives is judged when it is done.
    let by_now = json!({ "not": { "$ref": format!("#/$defs/{LATER}") } });
    json!({ "type": "array", "minItems": least, "maxItems": STEPS_MAX, "items": holding_to_tools(step, tools, &by_now) })
}

/// What need not be there: `null` says the same as no key (CONTRACTS §0).
fn or_null(mut schema: Value) -> Value {
    let kinds = schema.get("type").map(|kind| json!([kind, "null"]));
    set(&mut schema, "type", kinds.unwrap_or_default());
    schema
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
