use capataz_router::explain::TermKind;
use capataz_router::{Catalogue, Explanation, Message, Query, Role, Router};

use super::support::{Build, shop, spec, two_assistants};

#[track_caller]
fn check_sums(explanation: &Explanation) {
    for considered in &explanation.considered {
        let forwards: f64 = considered.terms.iter().map(|term| term.logit).sum();
        let backwards: f64 = considered.terms.iter().rev().map(|term| term.logit).sum();
        assert_eq!(forwards.to_bits() << 1, considered.total.to_bits() << 1, "{considered:?}");
        assert_eq!(backwards.to_bits() << 1, considered.total.to_bits() << 1, "{considered:?}");
    }
    let sum: f64 = explanation.calibration.iter().map(|term| term.value * term.weight).sum();
    assert_eq!(sum, explanation.calibration_sum);
}

#[test]
fn the_terms_of_every_spec_add_up_to_its_total_to_the_bit() {
    let mut specs = shop();
    specs.extend(two_assistants().specs().iter().cloned());
    let router = Router::train(&Catalogue::new(specs));
    let history = [
        Message { role: Role::User, text: "track my order", spec: None },
        Message { role: Role::Assistant, text: "on it", spec: Some("orders") },
        Message { role: Role::User, text: "and a refund", spec: None },
    ];
    for text in
        ["", "my my my order order", "me siento perdido, ¿y cómo empiezo?", "gift gift card", "注文 order"]
    {
        let query = Query { text, current_spec: Some("orders"), history: &history, language: Some("es") };
        for query in [query, Query { text, ..Query::default() }] {
            let explanation = router.explain(&query, Some("careers"));
            check_sums(&explanation);
            assert!(explanation.considered.iter().any(|considered| considered.spec == "careers"));
            assert_eq!(explanation.spec, router.route(&query).spec);
        }
    }
}

#[test]
fn the_calibration_leads_from_the_greatest_total_to_the_confidence() {
    let router = Router::train(&Catalogue::new(shop()));
    let explanation = router.explain(&Query { text: "track my order", ..Query::default() }, None);
    let probability = 1.0 / (1.0 + (-explanation.calibration_sum).exp());
    assert!((probability.min(explanation.most) - explanation.confidence).abs() < 1e-9);
    assert!(explanation.confidence < 1.0, "nobody is certain");
}

#[test]
fn terms_are_told_by_word_and_by_kind() {
    let router = Router::train(&two_assistants());
    let query = Query { text: "Me SIENTO perdido", current_spec: Some("companion"), ..Query::default() };
    let explanation = router.explain(&query, None);
    let companion = &explanation.considered[0];
    let of = |kind| -> Vec<&str> {
        companion.terms.iter().filter(|term| term.kind == kind).map(|term| term.what.as_str()).collect()
    };
    assert_eq!(of(TermKind::Keyword), ["SIENTO", "perdido"]);
    assert_eq!(of(TermKind::Pattern), ["emotional_low"]);
    assert_eq!(of(TermKind::Continuity), [""]);
    assert!(of(TermKind::Intent).contains(&"Me"));
    let shown = explanation.to_string();
    assert!(shown.contains("keyword SIENTO") && shown.contains("total"), "{shown}");
}

#[test]
fn the_fewest_words_whose_loss_changes_the_decision_are_named() {
    let catalogue = Catalogue::new(vec![
        spec("a").weighted("alpha", 3.0),
        spec("b").weighted("beta", 2.0),
        spec("c").weighted("gamma", 1.0),
    ]);
    let router = Router::train(&catalogue);
    let change = router.explain(&Query { text: "Alpha, beta!", ..Query::default() }, None).change;
    assert_eq!((change.without, change.without_leads_to), (vec!["Alpha".to_owned()], Some("b".to_owned())));
    // `a` wins the tie by its id when its keyword and that of `b` are gone, unless `gamma` is left.
    let change = router.explain(&Query { text: "alpha beta gamma", ..Query::default() }, None).change;
    assert_eq!(change.without, ["alpha"]);
}

#[test]
fn keywords_of_the_next_spec_that_would_make_it_answer_are_named() {
    let catalogue = Catalogue::new(vec![
        spec("a").weighted("alpha", 3.0),
        spec("b").weighted("beta", 1.0).weighted("delta", 1.5).weighted("zeta", 2.0),
    ]);
    let router = Router::train(&catalogue);
    let query = Query { text: "alpha beta", ..Query::default() };
    let change = router.explain(&query, None).change;
    assert_eq!(change.with, ["zeta", "delta"]);
    assert_eq!(change.with_leads_to.as_deref(), Some("b"));
    assert_eq!(router.route(&Query { text: "zeta delta alpha beta", ..query }).spec, "b");
}

#[test]
fn what_is_said_to_change_the_decision_does_change_it() {
    let router = Router::train(&Catalogue::new(shop()));
    for text in ["i want my money back for the gift card", "when does the store open", "track order refund"] {
        let explanation = router.explain(&Query { text, ..Query::default() }, None);
        let Some(leads_to) = explanation.change.without_leads_to else { continue };
        assert_ne!(leads_to, explanation.spec);
        let mut without = explanation.change.without.clone();
        let kept: Vec<&str> = text
            .split(' ')
            .filter(|word| {
                let gone = without.iter().position(|gone| gone == word);
                gone.map(|place| without.remove(place)).is_none()
            })
            .collect();
        assert_eq!(router.route(&Query { text: &kept.join(" "), ..Query::default() }).spec, leads_to);
    }
}
