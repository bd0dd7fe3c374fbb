use proptest::prelude::*;

use super::*;
use crate::spec::Catalogue;

const NOW: i64 = 1_700_000_000_500;

const FILE: &str = r#"
id = "demo"
title = "Demo"
languages = ["es", "en"]
contract_version = "1.0.0"
error_codes = ["CLOSED"]
fallback_pattern = "last"
limits = { min_characters = 3, max_characters = 60, too_long = { en = "too much" } }

[[patterns]]
name = "only-matched"
phrases = ["nothing to say"]

[[patterns]]
name = "first"
templates = { es = ["uno es", "dos es", "tres es"], en = ["one en", "two en", "three en"] }

[[patterns]]
name = "second"
transition = { suggest_spec = "other", reason = "why", confidence = 0.9, auto_transition = true, keywords = ["tide table"] }
context_update = { engagement_level = "high", custom = { topic = "{topic}", count = 3 } }

[[patterns.templates.en]]
text = "<p>{text}</p>"
format = "html"
structured = { parts = ["{keyword|none}", 7, { deep = "{intent|none}" }] }

[[patterns]]
name = "closed"
error = { code = "CLOSED", message = { es = "cerrado: {topic}" }, recoverable = false, fallback_spec = "other" }

[[patterns]]
name = "last"
templates = { en = ["said: {previous_user_text|nothing}"] }

[[intents]]
name = "ask"
pattern = "second"
"#;

fn spec() -> Spec {
    let catalogue = Catalogue::read(&[("demo.toml", FILE)]).unwrap();
    catalogue.find("demo").unwrap().clone()
}

fn request(text: &str) -> Value {
    json!({
        "id": "r1",
        "timestamp": NOW - 500,
        "text": text,
        "spec": "demo",
        "routing": { "confidence": 0.8, "reason": "x" },
        "context": { "detected_intent": "unclear" },
    })
}

/// The request with `value` added below a JSON pointer to an existing object.
fn with(mut request: Value, parent: &str, key: &str, value: Value) -> Value {
    request.pointer_mut(parent).unwrap()[key] = value;
    request
}

fn used(request: &Value) -> Value {
    answer(&spec(), request, NOW)["metadata"]["pattern_used"].clone()
}

fn text_of(request: &Value) -> String {
    answer(&spec(), request, NOW)["response"]["text"].as_str().unwrap().to_owned()
}

// S001-RS-11
#[test]
fn the_suggested_pattern_comes_before_the_matched_before_the_intents_before_the_fallback() {
    let mut asked = request("what is this");
    assert_eq!(used(&asked), "last");
    asked = with(asked, "/context", "detected_intent", "ask".into());
    assert_eq!(used(&asked), "second");
    asked = with(asked, "/context", "patterns_matched", json!(["gone", "first", "second"]));
    assert_eq!(used(&asked), "first");
    asked = with(asked, "/context", "suggested_pattern", "last".into());
    assert_eq!(used(&asked), "last");
}

#[test]
fn a_pattern_that_cannot_answer_is_passed_over() {
    let asked =
        with(request("what is this"), "/context", "patterns_matched", json!(["only-matched", "second"]));
    assert_eq!(used(&asked), "second");
    let mut without_fallback = spec();
    without_fallback.fallback_pattern = None;
    assert_eq!(answer(&without_fallback, &request("what is this"), NOW)["metadata"]["pattern_used"], "first");
}

// S001-BP-03
#[test]
fn the_confidence_is_routings_and_half_of_it_for_the_fallback() {
    let suggested = with(request("what is this"), "/context", "suggested_pattern", "first".into());
    assert_eq!(answer(&spec(), &suggested, NOW)["metadata"]["confidence"], 0.8);
    assert_eq!(answer(&spec(), &request("what is this"), NOW)["metadata"]["confidence"], 0.4);
}

// S001-BP-03
#[test]
fn times_are_those_that_were_given() {
    let answer_at = |now| answer(&spec(), &request("what is this"), now);
    assert_eq!(answer_at(NOW)["timestamp"], NOW);
    assert_eq!(answer_at(NOW)["metadata"]["processing_time_ms"], 500);
    // A clock that was set back does not give a negative time.
    assert_eq!(answer_at(NOW - 900)["metadata"]["processing_time_ms"], 0);
    assert_eq!(answer_at(-5)["timestamp"], 0);
}

#[test]
fn the_language_is_the_users_then_the_texts_then_the_conversations_then_the_specs() {
    let first = |text: &str| with(request(text), "/context", "suggested_pattern", "first".into());
    let is_spanish = |request: &Value| text_of(request).ends_with(" es");
    assert!(is_spanish(&first("hmm")));
    assert!(!is_spanish(&first("what is this")));
    assert!(is_spanish(&first("¿y esto qué es?")));
    let mut history = first("hmm");
    history["conversation"] = json!({ "history": [
        { "role": "user", "text": "what is this" },
        { "role": "assistant", "text": "¿y esto qué es?" },
    ] });
    assert!(!is_spanish(&history));
    for (language, spanish) in [("es", true), ("ES-mx", true), ("es_AR", true), ("en", false), ("de", false)]
    {
        let mut asked = first("what is this");
        asked["user"] = json!({ "preferences": { "language": language } });
        assert_eq!(is_spanish(&asked), spanish, "{language}");
    }
}

#[test]
fn a_pattern_without_the_language_answers_in_one_that_it_has() {
    let asked = with(request("¿y esto qué es?"), "/context", "suggested_pattern", "last".into());
    assert_eq!(text_of(&asked), "said: nothing");
}

#[test]
fn the_id_of_the_request_chooses_among_the_templates() {
    let asked = |id: &str| {
        let asked = with(request("what is this"), "/context", "suggested_pattern", "first".into());
        with(asked, "", "id", id.into())
    };
    let texts: std::collections::BTreeSet<String> =
        (0..40).map(|at| text_of(&asked(&format!("r{at}")))).collect();
    assert_eq!(texts.len(), 3);
    assert_eq!(text_of(&asked("r7")), text_of(&asked("r7")));
}

#[test]
fn placeholders_are_filled_in_text_structure_and_context_and_kept_from_being_markup() {
    let mut asked = with(request("is <b> a tag?"), "/context", "suggested_pattern", "second".into());
    asked["context"]["keywords_matched"] = json!(["", "tag & co"]);
    asked["context"]["detected_intent"] = "ask_me".into();
    let answer = answer(&spec(), &asked, NOW);
    assert_eq!(answer["response"]["text"], "<p>is &lt;b&gt; a tag?</p>");
    assert_eq!(
        answer["response"]["structured"],
        json!({ "parts": ["tag &amp; co", 7, { "deep": "ask me" }] })
    );
    assert_eq!(answer["context_update"]["custom"], json!({ "topic": "is <b> a tag", "count": 3 }));
}

// S001-BP-04
#[test]
fn a_transition_with_keywords_is_proposed_only_where_one_was_said() {
    let answer_to = |text: &str, keywords: Value| {
        let asked = with(request(text), "/context", "suggested_pattern", "second".into());
        answer(&spec(), &with(asked, "/context", "keywords_matched", keywords), NOW)
    };
    assert_eq!(answer_to("what is this", json!([])).get("transition"), None);
    let transition =
        json!({ "suggest_spec": "other", "reason": "why", "confidence": 0.9, "auto_transition": true });
    assert_eq!(answer_to("the Tide-Table, please", json!([]))["transition"], transition);
    assert_eq!(answer_to("what is this", json!(["tide table"]))["transition"], transition);
    assert_eq!(answer_to("riptide table", json!([])).get("transition"), None);
}

#[test]
fn what_a_pattern_refuses_is_its_error() {
    let asked = with(request("what is this"), "/context", "suggested_pattern", "closed".into());
    let answer = answer(&spec(), &asked, NOW);
    assert_eq!(answer["success"], false);
    assert_eq!(
        answer["error"],
        json!({
            "code": "CLOSED",
            "message": "cerrado: what is this",
            "details": "Refused by the spec and no clear intent detected",
            "recoverable": false,
            "fallback_spec": "other",
        })
    );
    assert_eq!(answer["metadata"]["pattern_used"], Value::Null);
}

#[test]
fn a_refusal_of_short_texts_lets_long_ones_through() {
    let mut spec = spec();
    let refusal =
        spec.patterns[3].refusal.clone().map(|refusal| Refusal { below_characters: Some(5), ..refusal });
    spec.patterns[1].refusal = refusal;
    let success = |text: &str| {
        let asked = with(request(text), "/context", "suggested_pattern", "first".into());
        answer(&spec, &asked, NOW)["success"].clone()
    };
    assert_eq!(success("ñañá"), false);
    assert_eq!(success("ñañás"), true);
}

#[test]
fn a_text_beyond_the_limits_is_a_validation_error() {
    let error = |text: &str| answer(&spec(), &request(text), NOW)["error"].clone();
    assert_eq!(
        error(" ok "),
        json!({
            "code": "VALIDATION_ERROR",
            "message": "Es muy breve. ¿Puedes contar un poco más?",
            "details": "Text length < 3 characters",
            "recoverable": true,
            "fallback_spec": null,
        })
    );
    assert_eq!(error("sip"), Value::Null);
    let long = error(&"what ".repeat(20));
    assert_eq!(
        (long["message"].as_str(), long["details"].as_str()),
        (Some("too much"), Some("Text length > 60 characters"))
    );
}

// S001-BP-01
#[test]
fn a_request_that_is_not_valid_gets_all_that_is_wrong_with_it() {
    let details = |request: &Value| {
        let answer = answer(&spec(), request, NOW);
        assert_eq!(answer["error"]["code"], "INVALID_REQUEST");
        assert_eq!((&answer["success"], &answer["error"]["recoverable"]), (&json!(false), &json!(false)));
        answer["error"]["details"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        details(&json!({ "id": "r1", "spec": null, "context": {} })),
        "Missing required field: timestamp; Missing required field: text; Missing required field: spec; Missing \
         required field: routing"
    );
    let mut asked = request(" \n ");
    asked["spec"] = "other".into();
    asked["routing"]["confidence"] = 1.5.into();
    asked["timestamp"] = (-1).into();
    asked["id"] = "".into();
    asked["context"] = "x".into();
    assert_eq!(details(&asked).split("; ").count(), 6);
    assert_eq!(answer(&spec(), &json!([]), NOW)["request_id"], "unknown");
}

#[test]
fn a_spec_that_can_say_nothing_says_that() {
    let mut spec = spec();
    spec.patterns.clear();
    let answer = answer(&spec, &request("what is this"), NOW);
    assert_eq!(answer["error"]["code"], "CAPABILITY_NOT_SUPPORTED");
}

/// The contract's rules for any response (seed 001, "Validación de Response", and the ranges of its fields).
fn is_valid(answer: &Value) -> Result<(), TestCaseError> {
    let confidence = answer["metadata"]["confidence"].as_f64().unwrap_or(f64::NAN);
    prop_assert!((0.0..=1.0).contains(&confidence), "{answer}");
    prop_assert!(answer["metadata"]["processing_time_ms"].as_i64().is_some_and(|time| time >= 0), "{answer}");
    prop_assert!(answer["timestamp"].as_i64().is_some_and(|time| time >= 0), "{answer}");
    prop_assert_eq!(&answer["spec"], "demo");
    prop_assert!(answer["request_id"].as_str().is_some_and(|id| !id.is_empty()));
    let success = answer["success"].as_bool();
    prop_assert_eq!(success, Some(answer.get("response").is_some()));
    prop_assert_eq!(success, Some(answer.get("error").is_none()));
    if let Some(error) = answer.get("error") {
        prop_assert!(
            error["code"].is_string() && error["message"].is_string() && error["recoverable"].is_boolean()
        );
    }
    if let Some(response) = answer.get("response") {
        prop_assert!(response["text"].is_string());
        prop_assert!(matches!(response["format"].as_str(), Some("text" | "markdown" | "html")));
    }
    if let Some(transition) = answer.get("transition") {
        prop_assert_eq!(transition.as_object().map(serde_json::Map::len), Some(4));
    }
    Ok(())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(vec!["first", "second", "closed", "last", "user", "es", "en-GB", "demo", "ask"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

const PLACES: [(&str, &str); 14] = [
    ("", "id"),
    ("", "timestamp"),
    ("", "text"),
    ("", "spec"),
    ("/routing", "confidence"),
    ("", "context"),
    ("/context", "suggested_pattern"),
    ("/context", "patterns_matched"),
    ("/context", "keywords_matched"),
    ("/context", "detected_intent"),
    ("", "conversation"),
    ("/conversation", "history"),
    ("", "user"),
    ("/user", "preferences"),
];

proptest! {
    #[test]
    fn any_json_gets_a_valid_answer(request in any_json(), now in any::<i64>()) {
        is_valid(&answer(&spec(), &request, now))?;
    }

    #[test]
    fn any_damage_to_a_request_gets_a_valid_answer(
        changes in prop::collection::vec((0..PLACES.len(), any_json()), 0..5),
        text in ".{0,80}",
        now in any::<i64>(),
    ) {
        let mut asked = request(&text);
        asked["conversation"] = json!({ "history": [{ "role": "user", "text": text }] });
        asked["user"] = json!({ "preferences": { "language": "es" } });
        for (place, value) in changes {
            let (parent, key) = PLACES[place];
            if let Some(object) = asked.pointer_mut(parent).and_then(Value::as_object_mut) {
                object.insert(key.to_owned(), value);
            }
        }
        let once = answer(&spec(), &asked, now);
        is_valid(&once)?;
        prop_assert_eq!(once, answer(&spec(), &asked, now));
    }
}
