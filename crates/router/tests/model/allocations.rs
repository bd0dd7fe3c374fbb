use capataz_router::{Catalogue, Query, Router, Scratch, Spec};

use super::support::{Build, spec};

/// Each with a keyword and an intent of its own, and all of them with something in common.
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

fn allocations(specs: usize, text: &str) -> u64 {
    let router = Router::train(&many(specs));
    let mut scratch = Scratch::default();
    let query = Query { text, ..Query::default() };
    // The first decision takes the memory that all later ones use again.
    let first = router.route_with(&query, &mut scratch);
    let mut second = None;
    let counted = allocation_counter::measure(|| second = Some(router.route_with(&query, &mut scratch)));
    assert_eq!(Some(first), second);
    counted.count_total
}

#[test]
fn the_memory_taken_for_a_decision_does_not_grow_with_the_specs() {
    for text in ["please handle topic3", "common topic1 and topic2, please", "nothing of it"] {
        let few = allocations(6, text);
        let many = allocations(300, text);
        assert!(many <= few, "{text:?}: {few} with 6 specs, {many} with 300");
        assert!(few <= 24, "{text:?}: {few}");
    }
}

#[test]
fn a_long_text_takes_no_memory_after_the_first_one() {
    let text = "please handle topic3 and more of it ".repeat(400);
    assert!(allocations(20, &text) <= 24);
}
