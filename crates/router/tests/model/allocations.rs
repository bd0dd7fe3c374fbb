use capataz_router::{Catalogue, Query, Router, Scratch, Spec};

use super::support::{Build, spec};

/// Specs with a keyword and an intent of their own, and words that all of them share.
fn many(specs: usize) -> Catalogue {
    let one = |number: usize| -> Spec {
        let examples = [
            format!("please handle topic{number} for me"),
            format!("topic{number} is what i need"),
            format!("tell me about topic{number} now"),
        ];
        let examples: Vec<&str> = examples.iter().map(String::as_str).collect();
        spec(&format!("spec{number:04}")).keywords(&["common"]).intent("handle", &examples)
    };
    Catalogue::new((0..specs).map(one).collect())
}

fn allocations(router: &Router, text: &str) -> u64 {
    let mut scratch = Scratch::default();
    let query = Query { text, ..Query::default() };
    // The first decision allocates the memory that all later ones reuse.
    let first = router.route_with(&query, &mut scratch);
    let mut second = None;
    let counted = allocation_counter::measure(|| second = Some(router.route_with(&query, &mut scratch)));
    assert_eq!(Some(first), second);
    counted.count_total
}

/// The allocations of a decision's own texts: ids, reason, keywords and the lists that hold them.
const OWN_TEXTS: u64 = 20;

#[test]
fn the_memory_taken_for_a_decision_does_not_grow_with_the_specs() {
    let (few, many) = (Router::train(&many(6)), Router::train(&many(120)));
    for text in ["please handle topic3", "common topic1 and topic2, please", "nothing of it"] {
        let (few, many) = (allocations(&few, text), allocations(&many, text));
        assert!(few <= OWN_TEXTS && many <= OWN_TEXTS, "{text:?}: {few} with 6 specs, {many} with 120");
    }
}

#[test]
fn the_memory_taken_for_a_decision_does_not_grow_with_the_text() {
    let router = Router::train(&many(6));
    let text = "please handle topic3 and more of it ".repeat(400);
    assert!(allocations(&router, &text) <= OWN_TEXTS);
}
