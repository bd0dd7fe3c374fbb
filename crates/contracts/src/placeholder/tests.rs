use serde_json::json;

use super::*;

fn values() -> (BTreeMap<String, String>, BTreeMap<String, Value>) {
    let variables = [
        ("who", "Ana"),
        ("odd", "a\"] .b+"),
        ("template", "${secret:P}"),
        ("dollar", "$"),
        ("rest", "{secret:P}"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let outputs = [
        ("text", json!("7 €")),
        ("table", json!([["a", "b"]])),
        ("nothing", Value::Null),
        ("long", json!("x".repeat(TEXT_MAX_BYTES))),
    ];
    (variables.into(), outputs.map(|(name, value)| (name.to_owned(), value)).into())
}

#[track_caller]
fn check(place: Place, text: &str, expected: Result<&str, &str>) {
    let (variables, outputs) = values();
    let inserted = insert(text, place, &variables, &outputs);
    let inserted = inserted.as_ref().map(String::as_str).map_err(|(rule, _)| *rule);
    assert_eq!(inserted, expected, "{text}");
}

#[test]
fn values_stand_in_their_places_as_a_whole_text_or_part_of_one() {
    check(Place::Plain, "${var:who}", Ok("Ana"));
    check(Place::Plain, "for ${var:who}: ${output:text}!", Ok("for Ana: 7 €!"));
    check(Place::Plain, "${output:table}", Ok("[[\"a\",\"b\"]]"));
    check(Place::Plain, "", Ok(""));
    check(Place::Plain, "$${var:who} $ {}", Ok("${var:who} $ {}"));
}

#[test]
fn what_has_no_value_or_no_meaning_is_refused() {
    check(Place::Plain, "${var:nobody}", Err("variable"));
    check(Place::Plain, "${output:who}", Err("output"));
    check(Place::Plain, "${output:nothing}", Err("output"));
    check(Place::Plain, "${secret:P}", Err("secret"));
    for malformed in ["${", "${}", "${var}", "${var:}", "${var:a b}", "${env:HOME}", "${var:who"] {
        check(Place::Plain, malformed, Err("placeholder"));
    }
    check(Place::Plain, "${output:long}.", Err("limit"));
    check(Place::Plain, &"${output:long}".repeat(600), Err("limit"));
}

#[test]
fn what_is_inserted_into_a_selector_or_a_pattern_means_itself() {
    check(Place::Css, "[title=\"${var:odd}\"]", Ok("[title=\"a\\22 \\5d \\20 \\2e b\\2b \"]"));
    check(Place::Pattern, "^${var:odd}$", Ok("^a\\\"\\]\\ \\.b\\+$"));
    check(Place::Xpath, "//a[.='${var:who}']", Err("placeholder"));
}

#[test]
fn secrets_stay_references_in_the_value_of_fill_and_nothing_inserted_becomes_one() {
    check(Place::Fill, "${var:who}:${secret:P}", Ok("Ana:${secret:P}"));
    check(Place::Fill, "${var:template}", Ok("$${secret:P}"));
    check(Place::Fill, "${var:dollar}${var:rest}", Ok("$${secret:P}"));
    check(Place::Fill, "${var:dollar}${secret:P}", Err("placeholder"));
    check(Place::Fill, "$${secret:P}", Ok("$${secret:P}"));
}

#[test]
fn an_action_is_substituted_as_a_whole_and_every_failure_is_named() {
    let (variables, outputs) = values();
    let target = |css: &str| Some(v1::Target { css: Some(css.to_owned()), ..v1::Target::default() });
    let condition = v1::Condition {
        kind: v1::ConditionKind::TextMatches as i32,
        value: Some("${var:odd}".to_owned()),
        target: target("#${var:who}"),
        ..v1::Condition::default()
    };
    let not = v1::Condition {
        kind: v1::ConditionKind::Not as i32,
        condition: Some(Box::new(condition)),
        ..v1::Condition::default()
    };
    let action = v1::Action {
        id: "a".to_owned(),
        kind: v1::ActionKind::Fill as i32,
        target: target("#${var:who}"),
        value: Some("${var:template}".to_owned()),
        post: vec![not],
        ..v1::Action::default()
    };
    let done = substitute(&action, &variables, &outputs).unwrap();
    assert_eq!(done.target, target("#Ana"));
    assert_eq!(done.value.as_deref(), Some("$${secret:P}"));
    let inner = done.post[0].condition.as_ref().unwrap();
    assert_eq!(inner.value.as_deref(), Some("a\\\"\\]\\ \\.b\\+"));
    assert_eq!(inner.target, target("#Ana"));

    let refused = substitute(&action, &BTreeMap::new(), &outputs).unwrap_err();
    let paths: Vec<&str> = refused.iter().map(|violation| violation.path.as_str()).collect();
    assert_eq!(paths, ["value", "target.css", "post[0].condition.value", "post[0].condition.target.css"]);
    assert!(refused.iter().all(|violation| violation.rule == "variable" && violation.action_id == "a"));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic_and_text_without_placeholders_stays(text in "(\\$|\\{|\\}|[a-z:]){0,20}") {
        let (variables, outputs) = values();
        for place in [Place::Plain, Place::Css, Place::Xpath, Place::Pattern, Place::Fill] {
            let inserted = insert(&text, place, &variables, &outputs);
            if place != Place::Fill && !text.contains("${") {
                proptest::prop_assert_eq!(inserted.as_ref(), Ok(&text));
            }
        }
    }

    #[test]
    fn no_value_can_make_a_secret_appear(values in proptest::collection::vec("(\\$|\\{|secret:P|\\}|\\$\\{secret:P\\}){0,4}", 3)) {
        let variables: BTreeMap<String, String> =
            ["a", "b", "c"].into_iter().map(str::to_owned).zip(values.iter().cloned()).collect();
        let template = insert("${var:a}${var:b}-${var:c}", Place::Fill, &variables, &BTreeMap::new()).unwrap();
        let segments = placeholders(&template).unwrap();
        let text: String = segments
            .iter()
            .map(|segment| match segment {
                Segment::Text(text) => *text,
                Segment::Placeholder(_) => "a secret",
            })
            .collect();
        proptest::prop_assert_eq!(text, format!("{}{}-{}", values[0], values[1], values[2]));
    }
}
