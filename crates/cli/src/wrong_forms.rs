//! Documents that are right but for their form in one place: of all rules, none speaks of it.

use capataz_contracts::plan_file::Format;
use capataz_contracts::{Violation, json, v1};
use serde_json::{Value, json};

use crate::{pipeline_source, plan_source, script};

/// What leads from a document to a place in it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item(usize),
}

type Place = Vec<Step>;

/// Every place of the document but the document itself.
fn places(value: &Value, here: &[Step], found: &mut Vec<Place>) {
    let below = |step: Step| here.iter().cloned().chain([step]).collect::<Place>();
    let parts: Vec<(Place, &Value)> = match value {
        Value::Object(object) => {
            object.iter().map(|(key, value)| (below(Step::Key(key.clone())), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (below(Step::Item(index)), item)).collect()
        }
        _ => Vec::new(),
    };
    for (place, value) in parts {
        places(value, &place, found);
        found.push(place);
    }
}

fn at<'v>(document: &'v mut Value, place: &[Step]) -> &'v mut Value {
    place.iter().fold(document, |value, step| match step {
        Step::Key(key) => &mut value[key.as_str()],
        Step::Item(index) => &mut value[*index],
    })
}

/// The document with another form at this place, in each of several ways.
fn mistaken(document: &Value, place: &[Step]) -> Vec<Value> {
    let mut all = Vec::new();
    for other in [json!(7), json!(-7), json!("no such thing"), json!([7]), json!({"zzzzzzzz": 7})] {
        let mut mistaken = document.clone();
        *at(&mut mistaken, place) = other;
        all.push(mistaken);
    }
    if let Some((Step::Key(key), parent)) = place.split_last() {
        let swapped: String = key.chars().rev().collect();
        for other in [format!("{key}x"), swapped, "zzzzzzzz".to_owned()] {
            let mut mistaken = document.clone();
            let object = at(&mut mistaken, parent).as_object_mut().unwrap();
            let value = object.remove(key).unwrap();
            object.entry(other).or_insert(value);
            all.push(mistaken);
        }
        let mut mistaken = document.clone();
        at(&mut mistaken, parent).as_object_mut().unwrap().insert("zzzzzzzz".to_owned(), json!(7));
        all.push(mistaken);
    }
    all
}

/// Makes one mistake of form at each place of the document, which is right. `form` tells those of form alone, `all` tells all.
#[track_caller]
fn check(
    document: &Value,
    form: impl Fn(&Value) -> Vec<String>,
    all: impl Fn(&[u8]) -> Vec<String>,
    at_least: usize,
) {
    assert_eq!(all(document.to_string().as_bytes()), Vec::<String>::new());
    let mut found = Vec::new();
    places(document, &[], &mut found);
    let mut mistakes = 0;
    for place in &found {
        for wrong in mistaken(document, place) {
            let of_form = form(&wrong);
            if !of_form.is_empty() {
                mistakes += 1;
                assert_eq!(all(wrong.to_string().as_bytes()), of_form, "{place:?}\n{wrong:#}");
            }
        }
    }
    assert!(mistakes >= at_least, "{mistakes} mistakes at {} places", found.len());
}

fn in_short(violations: Vec<Violation>) -> Vec<String> {
    violations.into_iter().map(|violation| format!("{} {}", violation.path, violation.rule)).collect()
}

#[test]
fn no_rule_of_plans_speaks_of_what_cannot_be_read() {
    let of_ask =
        json!({"name": "asked", "run": {"ask": {}, "labels": {"of": "x"}}, "input": "what is there?"});
    let inner = json!({"name": "inner", "waves": [
        {"tasks": [{"name": "one", "agent": "x"}]},
        {"tasks": [{"name": "two", "agent": "y", "input": {"of": "${tasks.one.output.title}"}}]},
    ]});
    let document = json!({
        "name": "p",
        "on_high": "pause",
        "session": "s",
        "commands": ["git"],
        "policy": {"kind": "quorum", "quorum_threshold": 0.5, "critical_agents": ["x"]},
        "timeouts": {"timeout": "5m", "grace_ms": 5},
        "retry": {"max_attempts": 3, "base_delay": "1s", "max_delay": "2s", "retryable": ["TIMEOUT"]},
        "waves": [
            {"name": "first", "tasks": [
                {"name": "a", "agent": "x", "effect": "at_most_once", "severity": "HIGH", "critical": true},
                of_ask,
            ]},
            {
                "policy": {"kind": "critical_path", "critical_agents": ["y"]},
                "tasks": [
                    {"name": "b", "agent": "y", "retry": {"delays_ms": [1, 2]}, "timeouts": {"timeout": "1m"},
                        "input": {"of": "${tasks.a.output}", "by": ["${tasks.asked.output}"]}},
                    {"name": "c", "run": {"plan": inner}},
                    {"name": "d", "agent": "z", "input": {"$media_type": "text/plain", "$text": "x"}},
                ],
            },
        ],
    });
    check(
        &document,
        |document| {
            let read = json::parse::<v1::Plan>("capataz.v1.Plan", document);
            in_short(read.err().unwrap_or_default())
        },
        |bytes| in_short(plan_source::parse(bytes, Format::Json).err().unwrap_or_default()),
        200,
    );
}

#[test]
fn no_rule_of_pipelines_speaks_of_what_cannot_be_read() {
    let document = json!({
        "name": "p",
        "product_id": "shop",
        "input": {"sources": ["a"]},
        "phases": [
            {"name": "read", "agent": "x", "effect": "at_most_once", "summary": ["title"],
                "output": {"schema": {"type": "object"}},
                "timeouts": {"timeout": "1m"}, "retry": {"delays_ms": [1]}},
            {"name": "each", "agent": "x", "for_each": "${input.sources}", "input": {"one": "${item}"}},
            {"name": "tell", "agent": "y", "input": {"of": "${phases.read.summary}"}},
        ],
    });
    let parse = |bytes: &[u8]| pipeline_source::parse(bytes, Format::Json, None);
    check(
        &document,
        |document| {
            let read = json::parse::<v1::Pipeline>("capataz.v1.Pipeline", document);
            let of_form = read.err().unwrap_or_default();
            // A text is the name of a file, which is not there.
            let is_file = document["phases"][0]["output"]["schema"].is_string();
            if is_file { Vec::new() } else { in_short(of_form) }
        },
        |bytes| in_short(parse(bytes).and_then(|read| read.whole()).err().unwrap_or_default()),
        80,
    );
}

#[test]
fn no_rule_of_scripts_speaks_of_what_cannot_be_read() {
    let visible = json!({"kind": "visible", "target": {"testid": "done"}});
    let document = json!({
        "name": "s",
        "variables": {"shop": "https://shop.example", "card": "Report"},
        "policy": {
            "allowlist": ["shop.example"],
            "pictures": "on_failure",
            "max_steps": 10,
            "retry_on": ["NAVIGATION_TIMEOUT"],
            "backoff": {"base_delay": "1s", "multiplier": 2.0, "max_delay": "10s"},
            "auth_failed": {"login_url": "/login"},
            "critical": [{"host": "shop.example"}],
            "redaction": {"patterns": ["[0-9]{16}"]},
        },
        "browser": {"width": 800, "locale": "es"},
        "actions": [
            {"id": "open", "kind": "navigate", "url": "${var:shop}/board",
                "wait_until": "dom", "timeout": "15s"},
            {"id": "title", "kind": "extract", "target": {"role": "link", "name": "Source"},
                "extract": "attribute", "attribute": "href", "output": "source", "on_failure": "continue"},
            {"id": "move", "kind": "drag", "to": {"testid": "done"},
                "target": {"text": "${var:card}", "within": {"testid": "to-do"}}, "post": [visible]},
            {"id": "third", "kind": "click", "rationale": "The list has no names.",
                "target": {"label": "Buy", "nth": 2, "match": "exact"},
                "dialogs": "accept", "prompt_text": "x"},
            {"id": "send", "kind": "submit", "criticality": "critical",
                "target": {"role": "button", "name": "Send ${output:source}"},
                "post": [{"kind": "title_equals", "value": "Sent"}]},
            {"id": "report", "kind": "download", "target": {"label": "CSV"}, "output": "report"},
            {"id": "end", "kind": "assert", "conditions": [{"kind": "not", "condition": visible}]},
        ],
    });
    check(
        &document,
        |document| {
            let read = json::parse::<v1::Script>("capataz.v1.Script", document);
            in_short(read.err().unwrap_or_default())
        },
        |bytes| {
            let violations = script::source::parse(bytes, Format::Json, &[]).violations;
            violations.iter().map(|found| format!("{} {}", found.path, found.rule)).collect()
        },
        300,
    );
}
