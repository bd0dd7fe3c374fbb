use capataz_router::{Catalogue, Message, Query, Role, Router};

use super::support::{Build, route, shop, spec, two_assistants};

// S001-RQ-09
#[test]
fn keywords_are_matched_as_written_and_in_their_order() {
    let decision = route(&two_assistants(), "Estoy PERDÍDO… me Siento solo");
    assert_eq!(decision.spec, "companion");
    assert_eq!(decision.keywords_matched, ["PERDÍDO", "Siento"]);
    assert!(!decision.is_fallback);
}

#[test]
fn two_keywords_a_pattern_and_an_intent_make_a_sure_decision() {
    let decision = route(&two_assistants(), "Me siento perdido");
    assert_eq!(decision.spec, "companion");
    assert!(decision.confidence > 0.8, "{}", decision.confidence);
    assert_eq!(decision.keywords_matched, ["siento", "perdido"]);
    assert_eq!(decision.patterns_matched, ["emotional_low"]);
    assert_eq!(decision.suggested_pattern.as_deref(), Some("emotional_low"));
    assert!(decision.breakdown.keyword > 0.5 * decision.confidence);
}

#[test]
fn a_text_full_of_keywords_lists_no_more_of_them_than_a_request_may_hold() {
    let words: Vec<String> = (0..1_200).map(|number| format!("k{number:04}")).collect();
    let keywords: Vec<&str> = words.iter().map(String::as_str).collect();
    let catalogue = Catalogue::new(vec![spec("a").keywords(&keywords), spec("b").the_default()]);
    let found = route(&catalogue, &words.join(" ")).keywords_matched;
    assert_eq!(found, words[..1_000], "those that come first in the text");
    assert_eq!(route(&catalogue, &words[..999].join(" ")).keywords_matched.len(), 999);
}

#[test]
fn another_inflection_of_a_keyword_is_found_and_counts_less() {
    let catalogue = Catalogue::new(vec![spec("a").keywords(&["siento"]), spec("b").keywords(&["otro"])]);
    let literal = route(&catalogue, "lo siento");
    let inflected = route(&catalogue, "lo sentimos");
    assert_eq!(inflected.keywords_matched, ["sentimos"]);
    assert!(inflected.confidence < literal.confidence);
    assert!(inflected.confidence > route(&catalogue, "lo demás").confidence);
}

#[test]
fn a_keyword_inside_of_another_word_is_none() {
    let catalogue = Catalogue::new(vec![spec("art").keywords(&["art"]), spec("rest").the_default()]);
    let decision = route(&catalogue, "start the party");
    assert_eq!(decision.keywords_matched, Vec::<String>::new());
    assert_eq!(decision.spec, "rest");
}

#[test]
fn a_heavier_keyword_wins_over_a_lighter_one() {
    let catalogue = Catalogue::new(vec![spec("a").weighted("plan", 1.0), spec("b").weighted("viaje", 2.0)]);
    assert_eq!(route(&catalogue, "un plan de viaje").spec, "b");
}

#[test]
fn a_keyword_of_several_words_is_matched_whole_and_across_punctuation() {
    let catalogue = Catalogue::new(vec![spec("a").keywords(&["fin de mes"]), spec("b").the_default()]);
    assert_eq!(route(&catalogue, "¿Fin, de MES?").keywords_matched, ["Fin, de MES"]);
    assert_eq!(route(&catalogue, "fin del mes").spec, "b");
}

#[test]
fn keywords_in_scripts_without_spaces_are_found() {
    let catalogue = Catalogue::new(vec![spec("orders").keywords(&["注文"]), spec("z").the_default()]);
    let decision = route(&catalogue, "私の注文はどこですか");
    assert_eq!((decision.spec.as_str(), decision.keywords_matched), ("orders", vec!["注文".to_owned()]));
}

// S001-RQ-10
#[test]
fn patterns_match_by_phrase_and_by_expression_on_the_folded_text() {
    let decision = route(&two_assistants(), "¿Y CÓMO   arranco?");
    assert_eq!(decision.spec, "planner");
    assert_eq!(decision.patterns_matched, ["action_planning"]);
    assert_eq!(decision.suggested_pattern.as_deref(), Some("action_planning"));
    assert_eq!(route(&two_assistants(), "dime el siguiente paso").patterns_matched, ["action_planning"]);
}

// S001-RQ-08, S001-RQ-11
#[test]
fn an_intent_is_recognised_from_examples_and_suggests_its_pattern() {
    let decision = route(&two_assistants(), "dudo qué oferta de trabajo aceptar");
    assert_eq!(decision.spec, "planner");
    assert_eq!(decision.detected_intent, "decision_support");
    assert_eq!(decision.suggested_pattern.as_deref(), Some("decision_support_pattern"));
    assert!(decision.breakdown.intent > 0.0);
}

#[test]
fn gibberish_goes_to_the_default_spec_with_low_confidence() {
    let mut specs = shop();
    specs.push(spec("welcome").the_default());
    let router = Router::train(&Catalogue::new(specs));
    for text in ["", "   ", "…", "qwzx plfgh vvkrt", "🤷", "1234567890", "የኢትዮጵያ"] {
        let decision = router.route(&Query { text, ..Query::default() });
        assert_eq!(decision.spec, "welcome", "{text:?}");
        assert!(decision.is_fallback && decision.confidence < 0.3, "{text:?}: {}", decision.confidence);
        assert_eq!(decision.detected_intent, "unclear");
    }
    assert!(!router.route(&Query { text: "refund my order", ..Query::default() }).is_fallback);
}

#[test]
fn without_a_default_spec_the_best_one_answers_with_its_low_confidence() {
    let decision = route(&Catalogue::new(shop()), "qwzx plfgh vvkrt");
    assert!(!decision.is_fallback);
    assert!(decision.confidence < 0.3);
    assert!(decision.reason.starts_with("low confidence"), "{}", decision.reason);
}

#[test]
fn a_tie_goes_to_the_smaller_id() {
    let catalogue = Catalogue::new(vec![spec("b").keywords(&["pan"]), spec("a").keywords(&["pan"])]);
    let decision = route(&catalogue, "pan");
    assert_eq!(decision.spec, "a");
    assert_eq!(decision.alternatives.first().map(|other| other.spec.as_str()), Some("b"));
}

// S001-RQ-07
#[test]
fn alternatives_are_at_most_three_best_first_and_never_above_the_winner() {
    let router = Router::train(&Catalogue::new(shop()));
    for text in ["is the store open for my order", "gift", "i want to work with my money"] {
        let decision = router.route(&Query { text, ..Query::default() });
        let confidences: Vec<f64> = decision.alternatives.iter().map(|other| other.confidence).collect();
        assert!(confidences.len() <= 3);
        assert!(confidences.is_sorted_by(|one, other| one >= other), "{confidences:?}");
        assert!(confidences.iter().all(|confidence| *confidence <= decision.confidence));
        assert!(decision.alternatives.iter().all(|other| other.spec != decision.spec));
        assert!(decision.confidence + confidences.iter().sum::<f64>() <= 1.0 + 1e-9);
    }
}

#[test]
fn a_short_follow_up_stays_with_the_spec_of_the_conversation() {
    let router = Router::train(&two_assistants());
    let history = [
        Message { role: Role::User, text: "quiero cambiar de carrera", spec: None },
        Message { role: Role::Assistant, text: "…", spec: Some("planner") },
    ];
    for text in ["¿y eso?", "vale", "¿por dónde?"] {
        let alone = router.route(&Query { text, ..Query::default() });
        assert_eq!((alone.spec.as_str(), alone.is_fallback), ("companion", true), "{text}");
        let inside = router.route(&Query { text, history: &history, ..Query::default() });
        assert_eq!((inside.spec.as_str(), inside.is_fallback), ("planner", false), "{text}");
        assert!(inside.breakdown.context > 0.0);
        let told = router.route(&Query { text, current_spec: Some("planner"), ..Query::default() });
        assert_eq!(told.spec, "planner");
    }
}

#[test]
fn a_clear_text_leaves_the_spec_of_the_conversation() {
    let router = Router::train(&two_assistants());
    let text = "me siento perdido y triste";
    let decision = router.route(&Query { text, current_spec: Some("planner"), ..Query::default() });
    assert_eq!(decision.spec, "companion");
    assert!(decision.confidence > 0.5);
}

#[test]
fn earlier_messages_of_the_user_speak_weakly() {
    let router = Router::train(&two_assistants());
    let history = [Message { role: Role::User, text: "tengo que decidir entre dos opciones", spec: None }];
    let text = "cuéntame algo";
    let alone = router.explain(&Query { text, ..Query::default() }, Some("planner"));
    let after = router.explain(&Query { text, history: &history, ..Query::default() }, Some("planner"));
    let total = |explanation: &capataz_router::Explanation| {
        explanation.considered.iter().find(|considered| considered.spec == "planner").unwrap().total
    };
    assert!(total(&after) > total(&alone) && total(&after) <= total(&alone) + 1.5);
}

#[test]
fn a_spec_that_does_not_speak_the_language_is_less_likely() {
    let router = Router::train(&two_assistants());
    let query = Query { text: "which laptop should i buy", ..Query::default() };
    let unknown = router.route(&query);
    let english = router.route(&Query { language: Some("en-GB"), ..query });
    assert_eq!(unknown.spec, "planner");
    let total = |query: &Query<'_>| {
        let explanation = router.explain(query, Some("planner"));
        explanation.considered.iter().find(|considered| considered.spec == "planner").unwrap().total
    };
    assert!(total(&Query { language: Some("en-GB"), ..query }) < total(&query));
    assert!(english.spec != "planner" || english.confidence <= unknown.confidence);
    let spanish = router.route(&Query { language: Some("es"), ..query });
    assert_eq!(spanish, unknown);
}

#[test]
fn a_catalogue_without_examples_routes_by_keywords_alone() {
    let catalogue = Catalogue::new(vec![
        spec("a").keywords(&["alpha", "beta"]),
        spec("b").keywords(&["gamma"]),
        spec("z").the_default(),
    ]);
    let one = route(&catalogue, "alpha it is");
    let two = route(&catalogue, "alpha beta it is");
    assert_eq!((one.spec.as_str(), two.spec.as_str()), ("a", "a"));
    assert!(0.3 < one.confidence && one.confidence < two.confidence && two.confidence < 1.0);
    assert_eq!(one.detected_intent, "unclear");
    assert_eq!(route(&catalogue, "nothing of it").spec, "z");
}

#[test]
fn an_empty_catalogue_and_a_single_spec_are_catalogues() {
    let decision = route(&Catalogue::new(Vec::new()), "hello");
    assert_eq!((decision.spec.as_str(), decision.confidence), ("", 0.0));
    let single = Catalogue::new(vec![spec("only").intent("greet", &["hello there", "good morning"])]);
    let (known, unknown) = (route(&single, "hello there"), route(&single, "qwxz"));
    assert_eq!((known.spec.as_str(), unknown.spec.as_str()), ("only", "only"));
    assert!(known.confidence > unknown.confidence);
}

// S001-RQ-06
#[test]
fn reasons_name_what_counted() {
    let router = Router::train(&two_assistants());
    let reason = |text| router.route(&Query { text, ..Query::default() }).reason;
    assert!(reason("me siento perdido").contains("keywords siento, perdido; pattern emotional_low"));
    assert_eq!(reason("zzz"), "nothing in the text speaks for a spec; the default one answers");
}
