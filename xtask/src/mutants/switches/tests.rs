//! What texts become, written out by hand.

use super::*;

/// The mutants that begin where these words do for the first time, numbered from 1.
fn wanted<'a>(text: &str, mutants: &[(&'a str, &str, &'a str)]) -> Vec<Wanted<'a>> {
    let place = |words: &str| {
        let before = &text[..text.find(words).unwrap()];
        let line = before.matches('\n').count() + 1;
        (line, before.rsplit('\n').next().unwrap().chars().count() + 1)
    };
    let numbered = (1..).zip(mutants.iter().copied());
    numbered
        .map(|(number, (genre, words, replacement))| Wanted {
            number,
            genre,
            replacement,
            place: place(words),
        })
        .collect()
}

/// The text with these mutants, where `?N` is the question for a number.
fn switched(text: &str, mutants: &[(&str, &str, &str)]) -> String {
    let switched = put_in(text, &wanted(text, mutants)).unwrap();
    assert_eq!(switched.text.matches('\n').count(), text.matches('\n').count());
    syn::parse_file(&switched.text).unwrap();
    let mut text = switched.text;
    for number in 1..=9 {
        text = text.replace(&is(number), &format!("?{number}"));
    }
    text
}

fn has_none(text: &str, mutants: &[(&str, &str, &str)]) {
    assert_eq!(switched(text, mutants), text);
    assert!(put_in(text, &wanted(text, mutants)).unwrap().put_in.is_empty());
}

#[test]
fn a_function_returns_another_value_before_it_does_anything() {
    assert_eq!(
        switched(
            "fn f(a: u8) -> u8 {\n    // é\n    let b = a;\n    b\n}\n",
            &[("FnValue", "let b", "0"), ("FnValue", "let b", "1")]
        ),
        "fn f(a: u8) -> u8 {\n    // é\n    if ?1 { return 0; } if ?2 { return 1; } let b = a;\n    b\n}\n"
    );
    assert_eq!(
        switched("impl A { fn f(&self) { g() } }", &[("FnValue", "g()", "()")]),
        "impl A { fn f(&self) { if ?1 { return (); } g() } }"
    );
    assert_eq!(
        switched("trait A { fn f() -> bool { g() } }", &[("FnValue", "g()", "true")]),
        "trait A { fn f() -> bool { if ?1 { return true; } g() } }"
    );
}

#[test]
fn an_operator_is_another_one() {
    assert_eq!(
        switched("fn f() -> bool { a == b }", &[("BinaryOperator", "==", "!=")]),
        "fn f() -> bool { (if ?1 { a != b } else { a == b }) }"
    );
    assert_eq!(
        switched(
            "fn f() { if a < b { g(); } }",
            &[("BinaryOperator", "<", "=="), ("BinaryOperator", "<", ">")]
        ),
        "fn f() { if (if ?1 { a == b } else if ?2 { a > b } else { a < b }) { g(); } }"
    );
    assert_eq!(
        switched("fn f() { a.b += 1; }", &[("BinaryOperator", "+=", "-=")]),
        "fn f() { (if ?1 { a.b -= 1 } else { a.b += 1 }); }"
    );
    assert_eq!(
        switched("fn f() { g(0..a + 1, b as u64); }", &[("BinaryOperator", "+", "-")]),
        "fn f() { g(0..(if ?1 { a - 1 } else { a + 1 }), b as u64); }"
    );
}

#[test]
fn a_chain_means_what_its_text_would_mean() {
    // `a + b / c`, not `(a + b) / c`.
    assert_eq!(
        switched("fn f() { g(a + b - c) }", &[("BinaryOperator", "-", "/"), ("BinaryOperator", "+", "*")]),
        "fn f() { g((if ?2 { a * b - c } else if ?1 { a + b / c } else { a + b - c })) }"
    );
    // Two comparisons in a row are no expression.
    has_none("fn f() { g(a == b && c) }", &[("BinaryOperator", "&&", "==")]);
}

#[test]
fn an_operand_has_a_switch_within_that_of_its_operator() {
    assert_eq!(
        switched("fn f() { g((a + b) * c) }", &[("BinaryOperator", "+", "-"), ("BinaryOperator", "*", "/")]),
        "fn f() { g((if ?2 { (a + b) / c } else { ((if ?1 { a - b } else { a + b })) * c })) }"
    );
    assert_eq!(
        switched("fn f() { !a && b }", &[("BinaryOperator", "&&", "||"), ("UnaryOperator", "!", "")]),
        "fn f() { (if ?1 { !a || b } else { (if ?2 { a } else { !a }) && b }) }"
    );
    assert_eq!(
        switched("fn f() { a == b }", &[("FnValue", "a ==", "true"), ("BinaryOperator", "==", "!=")]),
        "fn f() { if ?1 { return true; } (if ?2 { a != b } else { a == b }) }"
    );
}

#[test]
fn what_is_written_once_more_is_on_one_line_and_lines_stay() {
    assert_eq!(
        switched("fn f() { a // é\n  && b }", &[("BinaryOperator", "&&", "||")]),
        "fn f() { (if ?1 { a || b } else { a // é\n  && b }) }"
    );
    has_none("fn f() { a == \"x\ny\" }", &[("BinaryOperator", "==", "!=")]);
}

#[test]
fn characters_of_many_bytes_move_no_place() {
    assert_eq!(
        switched("fn f() { g(\"aé→\", a + b) }", &[("BinaryOperator", "+", "-")]),
        "fn f() { g(\"aé→\", (if ?1 { a - b } else { a + b })) }"
    );
    assert_eq!(offset("é\naéb\n", (2, 3)), Some(6));
    assert_eq!(offset("é\n", (3, 1)), None);
    assert_eq!(offset("é\n", (0, 1)), None);
}

#[test]
fn an_expression_that_begins_with_a_block_is_no_statement() {
    assert_eq!(
        switched("fn f() { let a = if b { 1 } else { 2 } + 3; }", &[("BinaryOperator", "+", "-")]),
        "fn f() { let a = (if ?1 { (if b { 1 } else { 2 } - 3) } else { (if b { 1 } else { 2 } + 3) }); }"
    );
}

#[test]
fn an_operator_is_left_out() {
    assert_eq!(
        switched("fn f() { g(-a.b, !c) }", &[("UnaryOperator", "!", ""), ("UnaryOperator", "-", "")]),
        "fn f() { g((if ?2 { a.b } else { -a.b }), (if ?1 { c } else { !c })) }"
    );
}

#[test]
fn an_arm_is_left_out_where_another_one_takes_everything() {
    let text = "fn f() { match a { B(b) | C(b) => b, _ => 0 } }";
    assert_eq!(
        switched(text, &[("MatchArm", "B(b)", "")]),
        "fn f() { match a { B(b) | C(b) if !?1 => b, _ => 0 } }"
    );
    has_none("fn f() { match a { B => 1, _ if c => 0 } }", &[("MatchArm", "B", "")]);
}

#[test]
fn a_guard_is_true_or_false() {
    let text = "fn f() { match a { B if c == d => 1, _ => 0 } }";
    assert_eq!(
        switched(
            text,
            &[
                ("MatchArmGuard", "c ==", "true"),
                ("MatchArmGuard", "c ==", "false"),
                ("BinaryOperator", "==", "!=")
            ]
        ),
        "fn f() { match a { B if ?1 || !?2 && ((if ?3 { c != d } else { c == d })) => 1, _ => 0 } }"
    );
    assert_eq!(
        switched(text, &[("MatchArmGuard", "c ==", "false")]),
        "fn f() { match a { B if !?1 && (c == d) => 1, _ => 0 } }"
    );
    has_none("fn f() { match a { B if let C = d => 1, _ => 0 } }", &[("MatchArmGuard", "let C", "true")]);
}

#[test]
fn what_a_let_hangs_on_stays_and_its_operands_do_not() {
    let text = "fn f() { if let A = b && c < d && e { g() } }";
    has_none(text, &[("BinaryOperator", "&&", "||")]);
    assert_eq!(
        switched(text, &[("BinaryOperator", "&& e", "||"), ("BinaryOperator", "<", ">")]),
        "fn f() { if let A = b && (if ?2 { c > d } else { c < d }) && e { g() } }"
    );
    has_none("fn f() { if a && b && let C = d { g() } }", &[("BinaryOperator", "&&", "||")]);
}

#[test]
fn what_is_known_when_it_is_compiled_has_no_switch() {
    let plus = [("BinaryOperator", "+", "-")];
    has_none("const fn f() -> u8 { a + b }", &plus);
    has_none("const fn f() -> u8 { a + b }", &[("FnValue", "a + b", "0")]);
    has_none("const A: u8 = 1 + 2;", &plus);
    has_none("static A: u8 = 1 + 2;", &plus);
    has_none("impl A { const B: u8 = 1 + 2; }", &plus);
    has_none("enum A { B = 1 + 2 }", &plus);
    has_none("fn f(a: [u8; 1 + 2]) { g::<{ 1 + 2 }>() }", &plus);
    has_none("fn f() { [0; 1 + 2] }", &plus);
    has_none("fn f() { const { 1 + 2 } }", &plus);
    has_none("fn f() { match a { -1 => 0, _ => 1 } }", &[("UnaryOperator", "-", "")]);
}

#[test]
fn what_is_no_plain_expression_has_no_switch() {
    has_none("fn f() { g!(a + b) }", &[("BinaryOperator", "+", "-")]);
    has_none("fn f() -> impl A { g() }", &[("FnValue", "g()", "b()")]);
    has_none("fn f() -> Option<Box<impl A>> { g() }", &[("FnValue", "g()", "None")]);
    has_none("fn f() { A { b: 1, ..c } }", &[("StructField", "b:", "")]);
    has_none("fn f() { #[a] b += 1; }", &[("BinaryOperator", "+=", "-=")]);
}

#[test]
fn bytes_lead_to_the_mutants_that_they_are_of() {
    let text = "fn f() { g(a + b) }\nfn h() { !c }";
    let mutants = [("BinaryOperator", "+", "-"), ("BinaryOperator", "+", "*"), ("UnaryOperator", "!", "")];
    let switched = put_in(text, &wanted(text, &mutants)).unwrap().framed("// top\n", "// end\n");
    assert!(switched.text.starts_with("// top\nfn f()") && switched.text.ends_with("!c }) }// end\n"));
    assert_eq!(switched.put_in, BTreeSet::from([1, 2, 3]));
    let at = |words: &str| {
        let start = switched.text.find(words).unwrap();
        start..start + words.len()
    };
    assert_eq!(switched.around(&at("a - b")), BTreeSet::from([1]));
    assert_eq!(switched.around(&at("a * b")), BTreeSet::from([2]));
    // The original is of no mutant, and behind a switch of two.
    assert_eq!(switched.around(&at("a + b")), BTreeSet::new());
    assert_eq!(switched.within(&at("a + b")), BTreeSet::new());
    assert_eq!(switched.behind(&at("a + b")), BTreeSet::from([1, 2]));
    assert_eq!(switched.behind(&at("!c")), BTreeSet::from([3]));
    assert_eq!(switched.behind(&at("fn f()")), BTreeSet::new());
    // What is around all of a switch.
    let all = at("fn f()").start..at("fn h()").start;
    assert_eq!(switched.around(&all), BTreeSet::new());
    assert_eq!(switched.within(&all), BTreeSet::from([1, 2]));
}

#[test]
fn the_module_that_is_asked_is_rust_and_named_as_it_is_asked() {
    let file = syn::parse_file(&format!("{TOP}//! A crate.\n{}", module())).unwrap();
    assert_eq!(file.items.len(), 1);
    assert!(module().contains("pub mod mutant_switch {") && module().contains("pub fn is(number: u32)"));
    assert!(module().contains(&format!("\"{VARIABLE}\"")));
}
