//! The shipped specs, and the four examples of seed 001.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use capataz_router::lint::{Rule, lint};
use capataz_router::{Catalogue, Spec, SpecFileCode, template};
use serde_json::{Value, json};

const WHISPERS: &str = "whispers-of-the-wave";
const KIRO: &str = "kiro-adaptive-assistance";
const NOW: i64 = 1_700_000_150_000;

fn shipped() -> Catalogue {
    let files = [
        ("whispers-of-the-wave.toml", include_bytes!("../../../specs/whispers-of-the-wave.toml").as_slice()),
        (
            "kiro-adaptive-assistance.toml",
            include_bytes!("../../../specs/kiro-adaptive-assistance.toml").as_slice(),
        ),
    ];
    match Catalogue::read(&files) {
        Ok(catalogue) => catalogue,
        Err(errors) => {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"));
        }
    }
}

fn answer(request: &Value) -> Value {
    let catalogue = shipped();
    let spec = catalogue.find(request["spec"].as_str().unwrap()).unwrap();
    template::answer(spec, request, NOW)
}

fn request(id: &str, spec: &str, text: &str, confidence: f64, context: &Value) -> Value {
    json!({
        "id": id,
        "timestamp": 1_700_000_000_000_i64,
        "text": text,
        "spec": spec,
        "routing": { "confidence": confidence, "reason": "as the example says" },
        "context": context,
    })
}

#[test]
fn the_shipped_specs_have_no_findings() {
    let findings: Vec<String> = lint(&shipped()).iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn the_shipped_specs_are_complete_in_both_languages() {
    let catalogue = shipped();
    assert_eq!(catalogue.default_spec().map(|spec| spec.id.as_str()), Some(WHISPERS));
    for spec in catalogue.specs() {
        assert!(spec.intents.len() >= 8, "{}", spec.id);
        for intent in &spec.intents {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for (language, _) in &intent.examples {
                *counts.entry(language.as_deref().unwrap()).or_default() += 1;
            }
            assert!(counts["es"] >= 12 && counts["en"] >= 12, "{} {} {counts:?}", spec.id, intent.name);
            assert!(intent.pattern.is_some(), "{}", intent.name);
        }
        for pattern in &spec.patterns {
            let count = |language: &str| pattern.templates.get(language).map_or(0, Vec::len);
            assert!(count("es") > 0 && count("es") == count("en"), "{} {}", spec.id, pattern.name);
        }
    }
}

// S001-RS-08
#[test]
fn every_feeling_is_answered_with_a_whisper_and_a_wave_and_a_crisis_in_plain_words() {
    let catalogue = shipped();
    let whispers = catalogue.find(WHISPERS).unwrap();
    for pattern in &whispers.patterns {
        let is_plain = matches!(pattern.name.as_str(), "crisis" | "clarification");
        for template in pattern.templates.values().flatten() {
            let structured = template.structured.as_ref();
            assert_eq!(structured.is_none(), is_plain, "{}", pattern.name);
            let Some(structured) = structured else { continue };
            assert!(structured["whisper"].is_string() && structured["wave"].is_string(), "{}", pattern.name);
        }
    }
}

// S001-EX-01, S001-RS-11
#[test]
fn example_1_a_simple_emotional_request() {
    let context = json!({
        "detected_intent": "emotional_support",
        "keywords_matched": ["siento", "perdido"],
        "suggested_pattern": "emotional_low",
        "tone": "empathetic",
        "response_style": "poetic",
    });
    let answer = answer(&request("req-001", WHISPERS, "Hoy me siento muy perdida", 0.85, &context));
    assert_eq!(answer["success"], true);
    assert_eq!(answer["spec"], WHISPERS);
    assert_eq!(answer["request_id"], "req-001");
    assert_eq!(answer["timestamp"], NOW);
    assert_eq!(answer["response"]["format"], "markdown");
    assert!(answer["response"]["structured"]["whisper"].as_str().unwrap().starts_with('_'));
    assert!(answer["response"]["structured"]["wave"].is_string());
    assert_eq!(answer["metadata"]["pattern_used"], "emotional_low");
    assert_eq!(answer["metadata"]["confidence"], 0.85);
    for absent in ["transition", "error", "context_update"] {
        assert_eq!(answer.get(absent), None, "{absent}");
    }
}

// S001-EX-02
#[test]
fn example_2_a_suggested_transition() {
    let context = json!({
        "detected_intent": "unclear",
        "keywords_matched": ["decidir", "opciones"],
        "suggested_pattern": "clarification",
        "tone": "gentle",
    });
    let answer =
        answer(&request("req-002", WHISPERS, "Tengo que decidir, y las opciones son dos", 0.45, &context));
    assert_eq!(answer["success"], true);
    assert_eq!(answer["spec"], WHISPERS);
    assert_eq!(answer["request_id"], "req-002");
    assert_eq!(answer["response"]["format"], "markdown");
    assert_eq!(answer["response"].get("structured"), None);
    assert_eq!(answer["metadata"]["pattern_used"], "clarification");
    assert_eq!(answer["transition"]["suggest_spec"], KIRO);
    assert_eq!(answer["transition"]["confidence"], 0.8);
    assert_eq!(answer["transition"]["auto_transition"], false);
    assert!(answer["transition"]["reason"].is_string());
    for absent in ["error", "context_update"] {
        assert_eq!(answer.get(absent), None, "{absent}");
    }
}

// S001-ER-09, S001-EX-03
#[test]
fn example_3_a_recoverable_error() {
    let context = json!({
        "detected_intent": "unclear",
        "keywords_matched": [],
        "suggested_pattern": null,
        "tone": "neutral",
    });
    let answer = answer(&request("req-003", KIRO, "Ayúdame", 0.3, &context));
    assert_eq!(answer["success"], false);
    assert_eq!(answer["spec"], KIRO);
    assert_eq!(answer["request_id"], "req-003");
    assert_eq!(answer["error"]["code"], "INSUFFICIENT_CONTEXT");
    assert_eq!(answer["error"]["recoverable"], true);
    assert_eq!(answer["error"]["fallback_spec"], WHISPERS);
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("Con tan poco"), "in Spanish");
    assert_eq!(answer["error"]["details"], "Text length < 20 characters and no clear intent detected");
    assert_eq!(answer["metadata"]["pattern_used"], Value::Null);
    assert_eq!(answer["metadata"]["confidence"], 0.0);
    for absent in ["response", "transition", "context_update"] {
        assert_eq!(answer.get(absent), None, "{absent}");
    }
}

// S001-EX-04, S001-RS-09
#[test]
fn example_4_a_request_with_history() {
    let context = json!({
        "detected_intent": "action_planning",
        "keywords_matched": ["empiezo"],
        "suggested_pattern": "action_planning",
        "tone": "analytical",
        "response_style": "structured",
    });
    let mut request = request("req-004", KIRO, "¿Y por dónde empiezo?", 0.7, &context);
    request["conversation"] = json!({
        "previous_spec": KIRO,
        "message_count": 3,
        "history": [
            { "role": "user", "text": "Quiero dedicarme a otra cosa", "timestamp": 1_699_999_000_000_i64 },
            { "role": "assistant", "text": "Entiendo.", "spec": KIRO, "timestamp": 1_699_999_500_000_i64 },
        ],
    });
    let answer = answer(&request);
    assert_eq!(answer["success"], true);
    assert_eq!(answer["spec"], KIRO);
    assert_eq!(answer["request_id"], "req-004");
    assert_eq!(answer["response"]["format"], "markdown");
    assert!(answer["response"]["text"].as_str().unwrap().contains("«Quiero dedicarme a otra cosa»"));
    let sections = answer["response"]["structured"]["sections"].as_array().unwrap();
    assert!(sections.len() >= 2);
    for part in ["title", "content", "type"] {
        assert!(sections.iter().all(|section| section[part].is_string()), "{part}");
    }
    let actions = answer["response"]["structured"]["actions"].as_array().unwrap();
    for part in ["label", "description", "priority"] {
        assert!(!actions.is_empty() && actions.iter().all(|action| action[part].is_string()), "{part}");
    }
    assert_eq!(answer["metadata"]["pattern_used"], "action_planning");
    assert_eq!(answer["context_update"]["engagement_level"], "high");
    assert_eq!(answer["context_update"]["custom"]["stage"], "planning");
    assert_eq!(answer["context_update"]["custom"]["topic"], "Quiero dedicarme a otra cosa");
    for absent in ["transition", "error"] {
        assert_eq!(answer.get(absent), None, "{absent}");
    }
}

/// The seed's own example requests and responses.
const ORIGINALS: &str = "../contracts/tests/fixtures/seed-001";

/// Compares everything except texts and numbers.
#[track_caller]
fn agrees(answer: &Value, expected: &Value, name: &str) {
    let fields = [
        "/success",
        "/spec",
        "/request_id",
        "/response/format",
        "/metadata/pattern_used",
        "/error/code",
        "/error/recoverable",
        "/error/fallback_spec",
        "/transition/suggest_spec",
        "/transition/auto_transition",
        "/transition/confidence",
        "/context_update/engagement_level",
        "/context_update/custom/stage",
    ];
    for field in fields {
        let field_of = |value: &Value| value.pointer(field).cloned().unwrap_or_default();
        assert_eq!(field_of(answer), field_of(expected), "{name} {field}");
    }
    for object in [
        "",
        "/response",
        "/response/structured",
        "/error",
        "/transition",
        "/context_update",
        "/context_update/custom",
    ] {
        let keys = |value: &Value| -> Vec<String> {
            let object = value.pointer(object).and_then(Value::as_object);
            let mut keys: Vec<String> =
                object.map(|object| object.keys().cloned().collect()).unwrap_or_default();
            keys.sort();
            keys
        };
        assert_eq!(keys(answer), keys(expected), "{name} {object}");
    }
}

// S001-EX-05
#[test]
fn the_originals_of_the_examples_are_answered_as_they_say() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(ORIGINALS);
    for name in ["1-emotional", "2-suggested-transition", "3-recoverable-error", "4-conversation"] {
        let read = |part: &str| -> Value {
            let path = folder.join(format!("{name}.{part}.json"));
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        agrees(&answer(&read("request")), &read("response"), name);
    }
}

/// The examples of an intent, by language.
fn examples<'a>(spec: &'a Spec, language: &str) -> Vec<&'a str> {
    let all = spec.intents.iter().flat_map(|intent| &intent.examples);
    all.filter(|(named, _)| named.as_deref() == Some(language)).map(|(_, text)| text.as_str()).collect()
}

#[test]
fn answers_to_the_examples_are_in_the_language_of_the_examples() {
    let catalogue = shipped();
    for spec in catalogue.specs() {
        for (language, sign) in [("es", "es"), ("en", "en")] {
            let examples = examples(spec, language);
            let expected = &spec.patterns[0].templates[sign][0].text;
            let right = examples
                .iter()
                .filter(|text| {
                    let context = json!({ "suggested_pattern": spec.patterns[0].name });
                    let answer = template::answer(spec, &request("r", &spec.id, text, 0.5, &context), NOW);
                    answer["response"]["text"] == expected.as_str()
                })
                .count();
            assert!(
                right * 100 >= examples.len() * 97,
                "{} {language}: {right} of {}",
                spec.id,
                examples.len()
            );
        }
    }
}

const MANUAL: &str = include_str!("../../../docs/specs.md");

#[test]
fn the_worked_example_of_the_manual_is_as_good_as_it_says() {
    let (_, example) = MANUAL.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let catalogue = Catalogue::read(&[("pool-desk.toml", example)]).unwrap();
    let findings: Vec<String> = lint(&catalogue).iter().map(ToString::to_string).collect();
    // The example refers to one other spec, which this catalogue does not have.
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("city-desk"), "{findings:?}");
    let spec = catalogue.find("pool-desk").unwrap();
    let mut asked = request("r", "pool-desk", "Where do I renew my passport?", 0.2, &json!({}));
    let answer = template::answer(spec, &asked, NOW);
    assert!(answer["response"]["text"].as_str().unwrap().contains("\"Where do I renew my passport\""));
    assert_eq!(answer["transition"]["suggest_spec"], "city-desk");
    asked["text"] = "Hello".into();
    assert_eq!(template::answer(spec, &asked, NOW)["error"]["code"], "INSUFFICIENT_CONTEXT");
}

#[test]
fn the_manual_names_every_code_and_every_rule() {
    for code in SpecFileCode::ALL {
        assert!(MANUAL.contains(&format!("`{code}`")), "{code}");
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
    }
    for rule in Rule::ALL {
        let name = serde_json::to_value(rule).unwrap();
        assert!(MANUAL.contains(&format!("| `{}` |", name.as_str().unwrap())), "{name}");
    }
}
