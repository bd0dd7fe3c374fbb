//! Catalogues of two to four specs, in English and Spanish: what is meant for one of them goes there, and what is meant for none
//! is known to be. The texts in `tests/few` were written for this, before anything was measured on them.

use capataz_router::eval::{self, Row};
use capataz_router::{Catalogue, Query, Router};

/// Below it, a choice holds no session (seed 001).
const SURE: f64 = 0.6;

const ENGLISH: &str = include_str!("../few/out_of_scope.en.txt");
const SPANISH: &str = include_str!("../few/out_of_scope.es.txt");

/// Each with the texts that are for none of its specs.
const CATALOGUES: [(&str, &str, &[&str]); 8] = [
    ("bank", include_str!("../few/bank.tsv"), &[ENGLISH]),
    ("shop", include_str!("../few/shop.tsv"), &[ENGLISH]),
    ("home", include_str!("../few/home.tsv"), &[ENGLISH]),
    ("salud", include_str!("../few/salud.tsv"), &[SPANISH]),
    ("viajes", include_str!("../few/viajes.tsv"), &[SPANISH]),
    ("animo", include_str!("../few/animo.tsv"), &[SPANISH]),
    ("ciudad", include_str!("../few/ciudad.tsv"), &[SPANISH]),
    ("soporte", include_str!("../few/soporte.tsv"), &[ENGLISH, SPANISH]),
];

/// A decision about a text that is for this spec, or for none.
struct Decided {
    text: String,
    confidence: f64,
    right: bool,
    out_of_scope: bool,
}

fn decided(rows: &str, out_of_scope: &[&str]) -> Vec<Decided> {
    let rows = eval::read_tsv(&format!("text\tlabel\tsplit\n{rows}")).unwrap();
    let (train, valid): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.split == "train");
    let router = Router::train(&eval::catalogue(&train));
    let decide = |text: &str, label: Option<&str>| {
        let decision = router.route(&Query { text, ..Query::default() });
        Decided {
            text: text.to_owned(),
            confidence: decision.confidence,
            right: label == Some(&decision.spec),
            out_of_scope: label.is_none(),
        }
    };
    let inside = valid.iter().map(|row| decide(&row.text, Some(&row.label)));
    let outside = out_of_scope.iter().flat_map(|texts| texts.lines()).map(|text| decide(text, None));
    inside.chain(outside).collect()
}

/// Of 80 texts that are meant for neither of this repository's two specs, one for feelings and one for decisions, these get
/// a sure choice, that of the listener, whose business they are, more or less.
const FOR_THE_LISTENER: [&str; 4] = ["do you have feelings", "¿tienes sentimientos?", "hey you", "whatever"];

// S001-RQ-22
#[test]
fn the_shipped_specs_are_sure_of_no_ordinary_language_but_what_a_listener_may_answer() {
    let files = ["kiro-adaptive-assistance", "whispers-of-the-wave"].map(|id| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs").join(id);
        let path = path.with_extension("toml");
        (path.display().to_string(), std::fs::read(&path).unwrap())
    });
    let router = Router::train(&Catalogue::read(&files).unwrap());
    let texts: Vec<&str> = [ENGLISH, SPANISH].iter().flat_map(|texts| texts.lines()).collect();
    assert_eq!(texts.len(), 80);
    for text in texts {
        let decision = router.route(&Query { text, ..Query::default() });
        let is_of_listener = decision.spec == "whispers-of-the-wave" && FOR_THE_LISTENER.contains(&text);
        assert!(decision.confidence < SURE || is_of_listener, "{} is sure of {text:?}", decision.confidence);
    }
}

// S001-RQ-22
#[test]
fn of_few_specs_none_is_sure_of_ordinary_language_and_each_of_what_is_meant_for_it() {
    let mut all = Vec::new();
    for (name, rows, out_of_scope) in CATALOGUES {
        let decided = decided(rows, out_of_scope);
        let (outside, inside): (Vec<&Decided>, Vec<&Decided>) =
            decided.iter().partition(|decided| decided.out_of_scope);
        assert!(outside.len() >= 40 && inside.len() >= 10, "{name}");
        for decided in outside {
            assert!(
                decided.confidence < SURE,
                "{name}: {} is sure of {:?}",
                decided.confidence,
                decided.text
            );
        }
        let sure = inside.iter().filter(|decided| decided.right && decided.confidence >= SURE).count();
        assert!(sure * 10 >= inside.len() * 9, "{name}: {sure} of {} are surely right", inside.len());
        all.extend(decided);
    }
    // A confidence says how often a choice is right: of the sure ones most are, of the unsure ones hardly any.
    let share = |of: &dyn Fn(f64) -> bool| {
        let some: Vec<&Decided> = all.iter().filter(|decided| of(decided.confidence)).collect();
        some.iter().filter(|decided| decided.right).count() as f64 / some.len() as f64
    };
    assert!(share(&|confidence| confidence >= 0.9) >= 0.9);
    assert!(share(&|confidence| confidence >= SURE) >= SURE);
    assert!(share(&|confidence| confidence < 0.3) <= 0.3);
}
