use capataz_router::{Catalogue, Decision, Query, Router, Spec};

use super::support::{Build, shop, spec, two_assistants};

/// A fixed sequence of numbers, for permutations and texts.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            let other = self.below(place + 1);
            items.swap(place, other);
        }
    }
}

fn specs() -> Vec<Spec> {
    let mut specs = shop();
    specs.extend(two_assistants().specs().iter().cloned());
    specs.push(
        spec("mixed")
            .keywords(&["order", "gift"])
            .intent("b", &["one two three"])
            .intent("a", &["four five six", "seven eight nine", "my order of gifts"]),
    );
    specs
}

fn texts(count: usize) -> Vec<String> {
    let mut numbers = Numbers(7);
    let mut words: Vec<String> = specs()
        .iter()
        .flat_map(|spec| spec.intents.iter())
        .flat_map(|intent| intent.examples.iter())
        .flat_map(|(_, text)| text.split(' ').map(str::to_owned))
        .collect();
    words.extend(["siento", "opciones", "zzz", "42", "注文", "¿Y?"].map(str::to_owned));
    (0..count)
        .map(|_| {
            let length = 1 + numbers.below(9);
            (0..length).map(|_| words[numbers.below(words.len())].as_str()).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// A decision with every bit of its numbers.
fn bits(decision: &Decision) -> (String, u64) {
    let Decision { confidence, breakdown, .. } = decision;
    let numbers = [*confidence, breakdown.keyword, breakdown.intent, breakdown.context];
    let alternatives = decision.alternatives.iter().map(|other| other.confidence);
    let mixed = numbers
        .into_iter()
        .chain(alternatives)
        .fold(0_u64, |all, number| all.rotate_left(7) ^ number.to_bits());
    (format!("{decision:?}"), mixed)
}

#[test]
fn ten_thousand_decisions_are_the_same_bits_in_whatever_order_the_files_were() {
    let texts = texts(10_000);
    let decide = |specs: Vec<Spec>| -> Vec<(String, u64)> {
        let router = Router::train(&Catalogue::new(specs));
        texts.iter().map(|text| bits(&router.route(&Query { text, ..Query::default() }))).collect()
    };
    let expected = decide(specs());
    let mut shuffled = specs();
    let mut numbers = Numbers(99);
    numbers.shuffle(&mut shuffled);
    for spec in &mut shuffled {
        numbers.shuffle(&mut spec.intents);
        numbers.shuffle(&mut spec.keywords);
        for intent in &mut spec.intents {
            numbers.shuffle(&mut intent.examples);
            // A repeated example counts once.
            let again = intent.examples[0].clone();
            intent.examples.push(again);
        }
    }
    let other = decide(shuffled);
    for ((text, one), other) in texts.iter().zip(&expected).zip(&other) {
        assert_eq!(one, other, "{text}");
    }
}

#[test]
fn a_router_is_shared_by_threads_and_answers_them_the_same() {
    fn shared<T: Send + Sync>(_: &T) {}
    let router = Router::train(&Catalogue::new(specs()));
    shared(&router);
    let texts = texts(300);
    let decide = || -> Vec<_> {
        texts.iter().map(|text| bits(&router.route(&Query { text, ..Query::default() }))).collect()
    };
    let expected = decide();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(decide)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}
