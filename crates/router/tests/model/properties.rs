use std::sync::LazyLock;

use capataz_router::text::Folded;
use capataz_router::{Catalogue, Message, Query, Role, Router};
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use super::support::{Build, shop, spec, two_assistants};

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let mut specs = shop();
    specs.extend(two_assistants().specs().iter().cloned());
    specs.push(spec("文").keywords(&["注文", "заказ", "طلب"]).pattern("n", &[], &[r"\d{3}"]));
    Router::train(&Catalogue::new(specs))
});

/// Common words, words of other scripts, and any other strings.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(vec![
            "order", "refund", "siento", "perdido", "my", "gift card", "opciones", "¿Y cómo empiezo?", "注文", "طلب",
            "заказ", "e\u{301}", "👩‍👩‍👧", "🇪🇸", "\u{202e}", "\0", "a\u{300}\u{301}\u{302}", "हिन्दी", "123",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
        1 => "\\PC{0,12}",
    ];
    prop::collection::vec((piece, prop::sample::select(vec![" ", "", ", ", "\n", "…"])), 0..12)
        .prop_map(|pieces| pieces.into_iter().map(|(text, gap)| text + gap).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    // S001-RQ-13
    #[test]
    fn any_text_gets_a_decision_whose_numbers_hold_together(
        text in any_text(),
        earlier in any_text(),
        current in prop::option::of(prop::sample::select(vec!["orders", "planner", "nobody", ""])),
        language in prop::option::of(prop::sample::select(vec!["es", "en-US", "", "-"])),
    ) {
        let history = [
            Message { role: Role::User, text: &earlier, spec: None },
            Message { role: Role::Assistant, text: "…", spec: Some("refunds") },
        ];
        let query = Query { text: &text, current_spec: current, history: &history, language };
        let decision = ROUTER.route(&query);
        let breakdown = decision.breakdown;
        prop_assert!(ROUTER.catalogue().find(&decision.spec).is_some());
        prop_assert!((0.0..=1.0).contains(&decision.confidence));
        for part in [breakdown.keyword, breakdown.intent, breakdown.context] {
            prop_assert!((0.0..=1.0).contains(&part), "{breakdown:?}");
        }
        let sum = breakdown.keyword + breakdown.intent + breakdown.context;
        prop_assert_eq!(sum.to_bits(), decision.confidence.to_bits());
        for alternative in &decision.alternatives {
            prop_assert!((0.0..=1.0).contains(&alternative.confidence));
        }
        for keyword in &decision.keywords_matched {
            prop_assert!(text.contains(keyword.as_str()));
        }
        prop_assert_eq!(&decision, &ROUTER.route(&query));
    }

}

proptest! {
    // Each of these tests routes many changed texts.
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_terms_of_any_explanation_add_up(text in any_text()) {
        let explanation = ROUTER.explain(&Query { text: &text, ..Query::default() }, Some("orders"));
        for considered in &explanation.considered {
            let sum: f64 = considered.terms.iter().map(|term| term.logit).sum();
            prop_assert_eq!(sum, considered.total);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn case_accents_and_punctuation_do_not_change_where_a_text_goes(
        words in prop::collection::vec("[a-zñáéíóúüàèçößα-ωа-яё]{1,8}", 1..10),
        marks in prop::collection::vec(prop::sample::select(vec!["", ",", "!", "…", ")", "?!"]), 10),
    ) {
        let plain = words.join(" ");
        let expected = ROUTER.route(&Query { text: &plain, ..Query::default() });
        let punctuated: String =
            words.iter().zip(&marks).map(|(word, mark)| format!("¿{word}{mark} ")).collect();
        let unaccented: String =
            plain.nfd().filter(|character| !unicode_normalization::char::is_combining_mark(*character)).collect();
        for other in [plain.to_uppercase(), punctuated, unaccented, plain.nfd().collect()] {
            let decision = ROUTER.route(&Query { text: &other, ..Query::default() });
            prop_assert_eq!(&decision.spec, &expected.spec, "{} and {}", plain, other);
            prop_assert_eq!(decision.confidence.to_bits(), expected.confidence.to_bits());
        }
    }

    #[test]
    fn composed_and_decomposed_texts_fold_alike(text in any_text()) {
        let composed: String = text.nfc().collect();
        let decomposed: String = text.nfd().collect();
        let (one, other) = (Folded::new(&composed), Folded::new(&decomposed));
        prop_assert_eq!(one.text(), other.text());
    }

    #[test]
    fn tokens_lie_within_the_text_one_after_the_other(text in any::<String>()) {
        let folded = Folded::new(&text);
        let mut end = 0;
        for token in folded.tokens() {
            prop_assert!(token.start >= end && token.end > token.start);
            prop_assert!(text.get(token.source_start..token.source_end).is_some_and(|word| !word.is_empty()));
            end = token.end;
        }
    }
}

#[test]
fn a_text_of_a_megabyte_is_decided() {
    for text in
        ["order ".repeat(180_000), "é".repeat(600_000), "\u{301}".repeat(600_000), "🤷".repeat(260_000)]
    {
        let decision = ROUTER.route(&Query { text: &text, ..Query::default() });
        assert!((0.0..=1.0).contains(&decision.confidence));
    }
}
