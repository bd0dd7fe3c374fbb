use capataz_contracts::json;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(script: &Value) -> v1::Script {
    json::parse("capataz.v1.Script", script).unwrap()
}

/// A script of these actions, which may name the variable `who`.
fn script(actions: &[Value]) -> v1::Script {
    read(&json!({"name": "s", "variables": {"who": "Ana (1)"}, "actions": actions}))
}

fn found(violations: &[ScriptViolation]) -> Vec<(&str, &str)> {
    violations.iter().map(|violation| (violation.path.as_str(), violation.rule.as_str())).collect()
}

/// The action breaks exactly these rules, at these paths of its own.
#[track_caller]
fn check(action: Value, expected: &[(&str, &str)]) {
    let violations = check_script(&script(&[action]));
    let violations: Vec<ScriptViolation> = violations
        .into_iter()
        .map(|violation| ScriptViolation {
            path: violation.path.trim_start_matches("actions[0].").to_owned(),
            ..violation
        })
        .collect();
    assert_eq!(found(&violations), expected, "{violations:?}");
    assert!(violations.iter().all(|violation| violation.action_id == "a"));
}

fn with(mut action: Value, field: &str, value: Value) -> Value {
    action[field] = value;
    action
}

fn click(target: Value) -> Value {
    json!({"id": "a", "kind": "click", "target": target})
}

fn wait_for(condition: Value) -> Value {
    json!({"id": "a", "kind": "wait_for", "conditions": [condition]})
}

/// A critical action with this postcondition.
fn submit(post: Value) -> Value {
    json!({"id": "a", "kind": "submit", "target": {"testid": "form"}, "post": [post]})
}

#[test]
fn one_action_of_every_kind_breaks_no_rule() {
    let target = json!({"testid": "t"});
    let actions = [
        json!({"kind": "navigate", "url": "https://example.com/", "wait_until": "dom"}),
        json!({"kind": "back"}),
        json!({"kind": "reload"}),
        json!({"kind": "click", "target": target}),
        json!({"kind": "double_click", "target": target}),
        json!({"kind": "hover", "target": target}),
        json!({"kind": "fill", "target": target, "value": "${var:who} ${secret:PASSWORD}"}),
        json!({"kind": "press", "key": "Control+A"}),
        json!({"kind": "select", "target": target, "options": ["one"]}),
        json!({"kind": "check", "target": target}),
        json!({"kind": "uncheck", "target": target}),
        json!({"kind": "submit", "target": target, "post": [{"kind": "url_matches", "value": "/done$"}]}),
        json!({"kind": "upload", "target": target, "files": ["/f/a.txt"],
               "post": [{"kind": "upload_listed", "target": target}]}),
        json!({"kind": "download", "target": target, "output": "file"}),
        json!({"kind": "scroll_to", "target": target}),
        json!({"kind": "wait_for", "conditions": [{"kind": "visible", "target": target}]}),
        json!({"kind": "assert", "conditions": [{"kind": "title_equals", "value": "Done"}]}),
        json!({"kind": "extract", "target": target, "extract": "text", "output": "text"}),
        json!({"kind": "screenshot", "full_page": true}),
    ];
    let named =
        actions.into_iter().enumerate().map(|(index, action)| with(action, "id", json!(index.to_string())));
    assert_eq!(found(&check_script(&script(&named.collect::<Vec<_>>()))), []);
}

// S002-RU-04
#[test]
fn u2_label_and_text_are_matched_exactly_and_no_other_way() {
    check(click(json!({"label": "Name", "match": "exact"})), &[]);
    check(click(json!({"label": "Name", "match": "contains"})), &[("target.match", "U2")]);
    check(click(json!({"text": "Send", "match": "regex"})), &[("target.match", "U2")]);
    check(click(json!({"testid": "t", "match": "exact"})), &[("target.match", "fields")]);
    check(
        wait_for(json!({"kind": "visible", "target": {"text": "Done", "match": "contains"}})),
        &[("conditions[0].target.match", "U2")],
    );
}

// S002-RU-05, S002-RU-06
#[test]
fn u3_a_place_is_counted_over_stable_locators_and_with_a_rationale() {
    let place =
        |target: Value| with(click(with(target, "nth", json!(1))), "rationale", json!("the second row"));
    for stable in [
        json!({"testid": "row"}),
        json!({"role": "row", "name": "Ana"}),
        json!({"label": "Name"}),
        json!({"css": "tr.row"}),
    ] {
        check(place(stable), &[]);
    }
    for unstable in [
        json!({"role": "row"}),
        json!({"xpath": "//tr"}),
        json!({"text": "Ana"}),
        json!({"testid": "row", "text": "Ana"}),
    ] {
        check(place(unstable), &[("target.nth", "U3")]);
    }
    // What is named inside a stable container is as stable.
    for container in
        [json!({"testid": "list"}), json!({"role": "row", "name": "Ana"}), json!({"css": "#list"})]
    {
        for inside in [json!({"text": "Open"}), json!({"testid": "open", "text": "Open"})] {
            check(place(with(inside, "within", container.clone())), &[]);
        }
        for unstable in
            [json!({"role": "button"}), json!({"xpath": "//a"}), json!({"text": "Open", "xpath": "//a"})]
        {
            check(place(with(unstable, "within", container.clone())), &[("target.nth", "U3")]);
        }
    }
    for unstable in [json!({"text": "Ana"}), json!({"role": "row"}), json!({"xpath": "//tr"})] {
        check(place(json!({"text": "Open", "within": unstable})), &[("target.nth", "U3")]);
    }
    let silent = click(json!({"testid": "row", "nth": 0}));
    check(silent.clone(), &[("target.nth", "U3")]);
    check(with(silent, "rationale", json!("  ")), &[("target.nth", "U3")]);
    check(click(json!({"xpath": "//tr", "nth": 0})), &[("target.nth", "U3"), ("target.nth", "U3")]);
    check(
        wait_for(json!({"kind": "element_count_equals", "count": 1, "target": {"css": "tr", "nth": 0}})),
        &[("conditions[0].target.nth", "fields"), ("conditions[0].target.nth", "U3")],
    );
}

// S002-RU-09, S002-RU-10
#[test]
fn u5_a_critical_action_needs_a_postcondition_that_proves_its_effect() {
    let one = json!({"testid": "t"});
    for strong in [
        json!({"kind": "url_equals", "value": "https://example.com/done"}),
        json!({"kind": "host_matches", "value": "^pay\\."}),
        json!({"kind": "title_equals", "value": "Done"}),
        json!({"kind": "text_contains", "target": one, "value": "Order 7"}),
        json!({"kind": "value_equals", "target": one, "value": ""}),
        json!({"kind": "attribute_equals", "target": one, "attribute": "data-state", "value": "sent"}),
        json!({"kind": "checked", "target": one}),
        json!({"kind": "element_count_equals", "target": {"role": "alert"}, "count": 0}),
        json!({"kind": "download_completed"}),
        json!({"kind": "upload_listed", "target": one, "value": "a.txt"}),
    ] {
        check(submit(strong), &[]);
    }
    for weak in [
        json!({"kind": "text_contains", "value": "Thanks"}),
        json!({"kind": "text_contains", "target": one, "value": ""}),
        json!({"kind": "url_matches", "value": ".*"}),
        json!({"kind": "visible", "target": one}),
        json!({"kind": "hidden", "target": one}),
        json!({"kind": "element_count_equals", "target": {"css": ".done"}, "count": 1}),
        json!({"kind": "element_count_equals", "target": {"testid": "t", "css": ".done"}, "count": 1}),
        json!({"kind": "no_overlay"}),
        json!({"kind": "not", "condition": {"kind": "url_equals", "value": "https://example.com/form"}}),
    ] {
        check(submit(weak), &[("post", "U5")]);
    }
    check(with(click(one.clone()), "criticality", json!("critical")), &[("post", "U5")]);
    check(json!({"id": "a", "kind": "submit", "target": one, "criticality": "normal"}), &[]);
}

#[test]
fn a_mask_is_not_typed() {
    let fill = |value: &str| json!({"id": "a", "kind": "fill", "target": {"testid": "t"}, "value": value});
    check(fill("«secret»"), &[("value", "mask")]);
    check(fill("user «secret» 7"), &[("value", "mask")]);
    // What the page itself has masked by its element.
    check(fill("[redacted]"), &[("value", "mask")]);
    check(fill("Card [redacted], and «secret»"), &[("value", "mask")]);
    check(fill("redacted"), &[]);
    check(fill("${secret:PIN}"), &[]);
    let go = |url: &str| json!({"id": "a", "kind": "navigate", "url": url});
    check(go("https://example.com/?token=«secret»"), &[("url", "mask")]);
    let select =
        json!({"id": "a", "kind": "select", "target": {"testid": "t"}, "options": ["One", "«secret»"]});
    check(select, &[("options[1]", "mask")]);
    check(go("https://example.com/?card=[redacted]"), &[("url", "mask")]);
    let select = json!({"id": "a", "kind": "select", "target": {"testid": "t"}, "options": ["[redacted]"]});
    check(select, &[("options[0]", "mask")]);
}

#[test]
fn a_condition_that_nearly_every_page_fulfils_proves_nothing() {
    let one = || json!({"testid": "t"});
    let page = |kind: &str, value: &str| json!({"kind": kind, "value": value});
    let of = |kind: &str, value: &str| json!({"kind": kind, "target": one(), "value": value});
    let attribute = |kind: &str, value: &str| json!({"kind": kind, "target": one(), "attribute": "class", "value": value});
    for vacuous in [
        page("url_matches", "."),
        page("url_matches", ".+"),
        page("url_matches", "^http"),
        page("url_matches", "^https?://"),
        page("url_matches", "/"),
        page("url_matches", "[\\s\\S]+"),
        page("url_matches", "(?i)HTTP"),
        page("url_matches", "\\w"),
        page("url_matches", "[^ ]"),
        page("host_matches", "."),
        page("host_matches", "[a-z0-9]"),
        page("title_matches", "."),
        page("title_matches", "\\S"),
        page("title_matches", "^.{1,}$"),
        of("text_matches", "[\\s\\S]"),
        of("text_matches", "\\w"),
        of("text_contains", " "),
        of("text_contains", "\u{a0}"),
        of("value_matches", "."),
        of("value_contains", " "),
        of("value_contains", ""),
        attribute("attribute_matches", "(.|\n)"),
        attribute("attribute_contains", ""),
        attribute("attribute_contains", "\t"),
        of("upload_listed", ""),
        of("upload_listed", " "),
        page("download_completed", ""),
    ] {
        let violations = check_script(&script(&[submit(vacuous.clone())]));
        assert!(found(&violations).contains(&("actions[0].post", "U5")), "{vacuous}: {violations:?}");
    }
    // What is specific is a proof.
    for specific in [
        page("url_matches", "/done$"),
        page("host_matches", "^pay\\."),
        page("title_matches", "Thank"),
        of("text_matches", "^Order [0-9]+$"),
        of("value_contains", "@"),
    ] {
        check(submit(specific), &[]);
    }
}

#[test]
fn a_postcondition_whose_text_comes_from_an_output_counts_as_strong() {
    let extract =
        json!({"id": "x", "kind": "extract", "target": {"testid": "n"}, "extract": "text", "output": "n"});
    let post = json!({"kind": "text_equals", "target": {"testid": "t"}, "value": "${output:n}"});
    assert_eq!(found(&check_script(&script(&[extract, submit(post)]))), []);
}

#[test]
fn a_target_has_locators_that_mean_something() {
    check(click(json!({})), &[("target", "required")]);
    check(click(json!({"testid": ""})), &[("target.testid", "required")]);
    check(click(json!({"label": " \n "})), &[("target.label", "required")]);
    check(click(json!({"name": "Send"})), &[("target.name", "fields"), ("target", "required")]);
    check(click(json!({"css": "a\u{0}"})), &[("target.css", "limit")]);
    check(click(json!({"css": "x".repeat(9000)})), &[("target.css", "limit")]);
    let frame = json!({"css": "iframe"});
    check(click(json!({"testid": "t", "frame": vec![frame.clone(); 8]})), &[]);
    check(click(json!({"testid": "t", "frame": vec![frame.clone(); 9]})), &[("target.frame", "limit")]);
    check(
        click(json!({"testid": "t", "frame": [{"css": "iframe", "frame": [frame]}]})),
        &[("target.frame[0].frame", "nested")],
    );
}

// S002-RU-11
#[test]
fn a_container_has_the_rules_of_a_target_and_a_text_beside_needs_no_place() {
    let within = |container: Value| click(json!({"text": "Open", "within": container}));
    check(within(json!({"testid": "row"})), &[]);
    check(within(json!({})), &[("target.within", "required")]);
    check(within(json!({"text": "Ana", "match": "contains"})), &[("target.within.match", "U2")]);
    check(within(json!({"css": "tr", "nth": 1})), &[("target.within.nth", "U3")]);
    check(with(within(json!({"css": "tr", "nth": 1})), "rationale", json!("the second")), &[]);
    check(within(json!({"css": "tr", "frame": [{"css": "iframe"}]})), &[("target.within.frame", "nested")]);
    check(within(json!({"ref": "d1e1"})), &[("target.within.ref", "ref")]);
    let mut container = json!({"css": "div"});
    for _ in 0..3 {
        container = json!({"css": "div", "within": container});
    }
    check(within(container.clone()), &[]);
    check(
        within(json!({"css": "div", "within": container})),
        &[("target.within.within.within.within.within", "limit")],
    );
    let near = |target: Value| with(click(target), "rationale", json!("the second"));
    check(near(json!({"text": "Open", "near": "Order 17"})), &[]);
    check(near(json!({"text": "Open", "near": " "})), &[("target.near", "required")]);
    check(near(json!({"testid": "open", "near": "Order 17", "nth": 1})), &[("target.near", "only_one")]);
    check(near(json!({"near": "Order 17"})), &[("target", "required")]);
    check(near(json!({"text": "Open", "near": "${var:who}"})), &[]);
    check(near(json!({"text": "Open", "near": "${var:nobody}"})), &[("target.near", "variable")]);
}

#[test]
fn a_drag_ends_on_an_element_or_after_a_distance() {
    let drag = |field: &str, value: Value| {
        with(json!({"id": "a", "kind": "drag", "target": {"testid": "card"}}), field, value)
    };
    check(drag("to", json!({"testid": "done"})), &[]);
    check(drag("by", json!({"x": -40.0, "y": 0.0})), &[]);
    check(drag("at", json!({"x": 4.0, "y": 5.5})), &[("to", "only_one")]);
    check(with(drag("to", json!({"testid": "done"})), "by", json!({"x": 1.0})), &[("to", "only_one")]);
    check(drag("by", json!({"x": 0.0, "y": 0.0})), &[("by", "range")]);
    check(drag("by", json!({"x": 10_001.0, "y": 0.0})), &[("by", "range")]);
    check(drag("to", json!({})), &[("to", "required")]);
    check(drag("to", json!({"text": "x", "match": "regex"})), &[("to.match", "U2")]);
    check(drag("to", json!({"testid": "done", "nth": 1})), &[("to.nth", "U3")]);
    check(drag("to", json!({"label": "${var:nobody}"})), &[("to.label", "variable")]);
    check(with(click(json!({"testid": "t"})), "to", json!({"testid": "u"})), &[("to", "fields")]);
}

#[test]
fn the_pointer_goes_to_a_place_within_an_element_with_keys_that_are_held() {
    let at = |x: f64, y: f64| with(click(json!({"testid": "t"})), "at", json!({"x": x, "y": y}));
    check(at(0.0, 12.5), &[]);
    check(at(-1.0, 0.0), &[("at", "range")]);
    check(at(0.0, 10_001.0), &[("at", "range")]);
    for kind in ["click", "double_click", "right_click"] {
        let held =
            json!({"id": "a", "kind": kind, "target": {"testid": "t"}, "modifiers": ["control", "shift"]});
        check(held, &[]);
    }
    let twice = with(click(json!({"testid": "t"})), "modifiers", json!(["alt", "alt"]));
    check(twice, &[("modifiers[1]", "duplicate")]);
    let hover = json!({"id": "a", "kind": "hover", "target": {"testid": "t"}, "modifiers": ["meta"]});
    check(hover, &[("modifiers", "fields")]);
    check(json!({"id": "a", "kind": "right_click"}), &[("target", "required")]);
}

#[test]
fn what_is_typed_and_what_a_prompt_is_answered_with_are_texts_without_secrets() {
    let types =
        |value: &str| json!({"id": "a", "kind": "type", "target": {"label": "Notes"}, "value": value});
    check(types("and ${var:who}"), &[]);
    check(types("${secret:TOKEN}"), &[("value", "secret")]);
    check(json!({"id": "a", "kind": "type", "target": {"label": "Notes"}}), &[("value", "required")]);
    let prompted = |text: &str| with(click(json!({"testid": "t"})), "prompt_text", json!(text));
    check(with(prompted("Ben"), "dialogs", json!("accept")), &[]);
    check(prompted("Ben"), &[("prompt_text", "fields")]);
    check(with(prompted("Ben"), "dialogs", json!("dismiss")), &[("prompt_text", "fields")]);
    check(with(prompted("${secret:TOKEN}"), "dialogs", json!("accept")), &[("prompt_text", "secret")]);
    check(with(prompted("a «secret»"), "dialogs", json!("accept")), &[("prompt_text", "mask")]);
    check(with(prompted("a [redacted]"), "dialogs", json!("accept")), &[("prompt_text", "mask")]);
    check(json!({"id": "a", "kind": "forward", "wait_until": "dom"}), &[]);
    check(json!({"id": "a", "kind": "forward", "url": "https://example.com/"}), &[("url", "fields")]);
}

#[test]
fn references_are_for_interactive_sessions_and_stand_alone() {
    check(click(json!({"ref": "e1"})), &[("target.ref", "ref")]);
    let propose = |target: Value| {
        let action: v1::Action = json::parse("capataz.v1.Action", &click(target)).unwrap();
        let violations = check_action(&action, true, &BTreeMap::new(), &BTreeSet::new());
        violations.into_iter().map(|violation| (violation.path, violation.rule)).collect::<Vec<_>>()
    };
    assert_eq!(propose(json!({"ref": "e1"})), []);
    let refused = vec![("target.ref".to_owned(), "ref".to_owned())];
    assert_eq!(propose(json!({"ref": "e1", "testid": "t"})), refused);
    assert_eq!(propose(json!({"ref": "e1", "frame": [{"css": "iframe"}]})), refused);
}

#[test]
fn every_kind_refuses_the_fields_that_it_does_not_have_and_misses_those_that_it_needs() {
    check(json!({"id": "a", "kind": "navigate"}), &[("url", "required")]);
    check(json!({"id": "a", "kind": "back", "url": "https://example.com/"}), &[("url", "fields")]);
    check(json!({"id": "a", "kind": "fill"}), &[("value", "required"), ("target", "required")]);
    check(json!({"id": "a", "kind": "press"}), &[("key", "required")]);
    check(json!({"id": "a", "kind": "assert"}), &[("conditions", "required")]);
    check(
        with(click(json!({"testid": "t"})), "value", json!("${secret:P}")),
        &[("value", "fields"), ("value", "secret")],
    );
    check(json!({"id": "a", "kind": "download"}), &[("target", "only_one")]);
    let extract = json!({"id": "a", "kind": "extract", "target": {"testid": "t"}, "output": "o"});
    check(with(extract.clone(), "extract", json!("attribute")), &[("attribute", "required")]);
    let text = with(extract.clone(), "extract", json!("text"));
    check(with(text, "attribute", json!("href")), &[("attribute", "fields")]);
    check(extract, &[("extract", "required")]);
    check(json!({"id": "a"}), &[("kind", "required")]);
}

#[test]
fn every_condition_refuses_the_fields_that_it_does_not_have_and_misses_those_that_it_needs() {
    check(wait_for(json!({"kind": "visible"})), &[("conditions[0].target", "required")]);
    check(wait_for(json!({"kind": "url_equals"})), &[("conditions[0].value", "required")]);
    check(
        wait_for(json!({"kind": "title_equals", "value": "x", "count": 1})),
        &[("conditions[0].count", "fields")],
    );
    check(
        wait_for(
            json!({"kind": "attribute_equals", "target": {"testid": "t"}, "value": "v", "attribute": "a b"}),
        ),
        &[("conditions[0].attribute", "attribute")],
    );
    check(wait_for(json!({"value": "x"})), &[("conditions[0].kind", "required")]);
    check(wait_for(json!({"kind": "not"})), &[("conditions[0].condition", "required")]);
    let nested = |depth: usize| {
        let innermost = json!({"kind": "title_equals", "value": "x"});
        (1..depth).fold(innermost, |inner, _| json!({"kind": "not", "condition": inner}))
    };
    check(wait_for(nested(8)), &[]);
    let too_deep = format!("conditions[0]{}", ".condition".repeat(8));
    check(wait_for(nested(9)), &[(&too_deep, "depth")]);
    let many = json!({"id": "a", "kind": "assert", "conditions": vec![nested(1); 33]});
    check(many, &[("conditions", "limit")]);
}

#[test]
fn texts_that_are_read_as_something_must_be_that() {
    check(wait_for(json!({"kind": "url_matches", "value": "("})), &[("conditions[0].value", "regex")]);
    let huge = json!({"kind": "url_matches", "value": "(a{1000}){1000}"});
    check(wait_for(huge), &[("conditions[0].value", "regex")]);
    for url in ["/path", "data:text/html,x", "javascript:alert(1)", "file:///etc/passwd", "https://"] {
        check(json!({"id": "a", "kind": "navigate", "url": url}), &[("url", "url")]);
    }
    check(json!({"id": "a", "kind": "press", "key": "Ctrl+A"}), &[("key", "key")]);
    for limit in [0, 3_600_001] {
        check(with(click(json!({"testid": "t"})), "timeout_ms", json!(limit)), &[("timeout_ms", "range")]);
    }
}

#[test]
fn placeholders_name_what_there_is_where_it_may_stand() {
    let css = |text: &str| click(json!({"css": text}));
    check(css("[title=\"${var:who}\"]"), &[]);
    check(css("${var:nobody}"), &[("target.css", "variable")]);
    check(css("${output:later}"), &[("target.css", "output")]);
    check(css("${secret:P}"), &[("target.css", "secret")]);
    check(css("${whatever}"), &[("target.css", "placeholder")]);
    check(css("$${whatever}"), &[]);
    check(click(json!({"xpath": "//a[.='${var:who}']"})), &[("target.xpath", "placeholder")]);
    check(json!({"id": "a", "kind": "navigate", "url": "${var:who}"}), &[("url", "url")]);
    let matches = json!({"kind": "title_matches", "value": "^${var:who}$"});
    check(wait_for(matches), &[]);
}

#[test]
fn outputs_are_those_of_earlier_actions() {
    let extract =
        json!({"id": "x", "kind": "extract", "target": {"testid": "n"}, "extract": "text", "output": "n"});
    let fill = json!({"id": "f", "kind": "fill", "target": {"testid": "t"}, "value": "${output:n}"});
    assert_eq!(found(&check_script(&script(&[extract.clone(), fill.clone()]))), []);
    assert_eq!(found(&check_script(&script(&[fill, extract.clone()]))), [("actions[0].value", "output")]);
    assert_eq!(
        found(&check_script(&script(&[extract.clone(), with(extract, "id", json!("y"))]))),
        [("actions[1].output", "duplicate")]
    );
}

#[test]
fn a_script_goes_on_after_no_critical_failure_and_repeats_only_what_may_be() {
    let critical = submit(json!({"kind": "title_equals", "value": "Done"}));
    check(with(critical, "on_failure", json!("continue")), &[("on_failure", "critical")]);
    let retried = |code: &str| with(click(json!({"testid": "t"})), "retry", json!({"on": [code]}));
    check(retried("TARGET_NOT_FOUND"), &[]);
    check(retried("TARGET_LOST"), &[("retry.on[0]", "code")]);
    check(retried("BROWSER_LOST"), &[("retry.on[0]", "code")]);
}

#[test]
fn a_script_has_a_name_actions_and_ids_of_their_own() {
    let same = click(json!({"testid": "t"}));
    assert_eq!(
        found(&check_script(&script(&[same.clone(), same.clone()]))),
        [("actions[1].id", "duplicate")]
    );
    assert_eq!(found(&check_script(&v1::Script::default())), [("name", "required"), ("actions", "required")]);
    let interactive = read(&json!({"name": "s", "interactive": true, "actions": [same]}));
    assert_eq!(found(&check_script(&interactive)), [("actions", "fields")]);
}

#[test]
fn a_policy_is_checked_with_everything_in_it() {
    let refused = |policy: Value| {
        let script = read(&json!({"name": "s", "interactive": true, "policy": policy}));
        let violations = check_script(&script);
        let found = found(&violations).into_iter();
        found.map(|(path, rule)| format!("{path} {rule}")).collect::<Vec<_>>()
    };
    assert_eq!(refused(json!({"allowlist": ["example.com", "*.example.com", "127.0.0.1:80"]})), [""; 0]);
    assert_eq!(refused(json!({"allowlist": ["https://example.com"]})), ["policy.allowlist[0] allowlist"]);
    assert_eq!(
        refused(json!({
            "max_steps": 0,
            "retry_on": ["NO_SUCH_CODE"],
            "backoff": {"multiplier": 0.5, "base_delay_ms": 99999999},
            "recovery": [{"on": [], "do": "close_overlay"}, {"on": ["OVERLAY_BLOCKING"], "do": "reload", "target": {"testid": "t"}}],
            "critical": [{}, {"name_matches": "("}, {"host": "a b"}],
            "auth_failed": {"texts": [" "], "login_url": "["},
            "upload_folders": ["relative"],
            "redaction": {"selectors": [""], "patterns": ["("]},
            "overlays": [{"testid": "${var:x}"}],
        })),
        [
            "policy.max_steps range",
            "policy.backoff.base_delay_ms range",
            "policy.backoff.multiplier range",
            "policy.recovery[0].on required",
            "policy.critical[0] required",
            "policy.auth_failed.texts[0] blank",
            "policy.redaction.selectors[0] blank",
            "policy.retry_on[0] code",
            "policy.recovery[0].target required",
            "policy.recovery[1].target fields",
            "policy.critical[1].name_matches regex",
            "policy.critical[2].host allowlist",
            "policy.auth_failed.login_url regex",
            "policy.upload_folders[0] upload_folder",
            "policy.redaction.patterns[0] regex",
            "policy.overlays[0].testid placeholder",
        ]
    );
}

#[test]
fn violations_beyond_a_hundred_are_counted() {
    let actions: Vec<Value> =
        (0..150).map(|index| json!({"id": index.to_string(), "kind": "navigate"})).collect();
    let violations = check_script(&script(&actions));
    assert_eq!(violations.len(), 101);
    let last = violations.last().unwrap();
    assert_eq!((last.rule.as_str(), last.message.as_str()), ("truncated", "… and 50 more"));
}

#[test]
fn what_the_shape_says_is_not_said_twice_and_names_its_action() {
    let violations = check_script(&script(&[json!({"id": "a b", "kind": "back"})]));
    assert_eq!(found(&violations), [("actions[0].id", "characters")]);
    assert_eq!(violations[0].action_id, "a b");
    let huge = script(&vec![click(json!({"testid": "t"})); 1001]);
    assert_eq!(found(&check_script(&huge)), [("actions", "limit")]);
}

#[test]
fn a_rule_that_is_broken_twice_is_named_once_in_order() {
    let action = with(click(json!({"text": "x", "nth": 1, "match": "regex"})), "rationale", json!("why"));
    let violations = check_script(&script(&[action.clone(), with(action, "id", json!("b"))]));
    assert_eq!(violated_rules(&violations), ["U2", "U3"]);
}

#[test]
fn defaults_are_filled_in_once_and_break_no_rule() {
    let mut script = script(&[
        click(json!({"testid": "t"})),
        json!({"id": "b", "kind": "navigate", "url": "https://example.com/"}),
        json!({"id": "c", "kind": "upload", "target": {"testid": "t"}, "files": ["/f/a"],
               "post": [{"kind": "upload_listed", "target": {"testid": "t"}}]}),
    ]);
    crate::dsl::materialise(&mut script);
    let once = script.clone();
    crate::dsl::materialise(&mut script);
    assert_eq!(script, once);
    assert_eq!(found(&check_script(&script)), []);
    let timeouts: Vec<_> = script.actions.iter().map(|action| action.timeout_ms).collect();
    assert_eq!(timeouts, [Some(10_000), Some(30_000), Some(10_000)]);
    let criticality: Vec<_> = script.actions.iter().map(|action| action.criticality).collect();
    // What a click does is known when its element is.
    assert_eq!(criticality, [None, Some(1), Some(2)]);
    let policy = script.policy.unwrap();
    assert_eq!(policy.lower_criticality(), v1::LowerCriticality::Allow);
    let mut session = v1::Script { interactive: true, ..v1::Script::default() };
    crate::dsl::materialise(&mut session);
    assert_eq!(session.policy.unwrap().lower_criticality(), v1::LowerCriticality::Forbid);
    assert_eq!(
        (policy.max_steps, policy.same_state_revisit, policy.retry_limit, policy.recovery_limit),
        (Some(100), Some(3), Some(2), Some(2))
    );
}

prop_compose! {
    fn any_target()(
        texts in proptest::collection::vec(proptest::option::of(any_text()), 9),
        nth in proptest::option::of(any::<u32>()),
        mode in proptest::option::of(-1..5_i32),
    ) -> v1::Target {
        let mut texts = texts.into_iter();
        let mut next = || texts.next().flatten();
        v1::Target {
            testid: next(), role: next(), name: next(), label: next(), css: next(), xpath: next(), text: next(),
            r#ref: next(), nth, frame: Vec::new(), r#match: mode, within: None, near: next(),
        }
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,12}",
        "(\\$|\\{|\\}|var:|output:|secret:|who|n){0,8}",
        Just("https://example.com/".to_owned()),
        Just("[a-z]+".to_owned()),
    ]
}

prop_compose! {
    fn any_condition()(
        kind in -1..30_i32,
        target in proptest::option::of(any_target()),
        value in proptest::option::of(any_text()),
        count in proptest::option::of(any::<u32>()),
        attribute in proptest::option::of(any_text()),
    ) -> v1::Condition {
        v1::Condition { kind, target, value, count, attribute, condition: None }
    }
}

prop_compose! {
    fn any_action()(
        id in any_text(),
        kind in -1..26_i32,
        to in proptest::option::of(any_target()),
        offsets in proptest::collection::vec(proptest::option::of((any::<f64>(), any::<f64>())), 2),
        modifiers in proptest::collection::vec(-1..6_i32, 0..3),
        target in proptest::option::of(any_target()),
        texts in proptest::collection::vec(proptest::option::of(any_text()), 7),
        lists in proptest::collection::vec(proptest::collection::vec(any_text(), 0..3), 3),
        conditions in proptest::collection::vec(proptest::collection::vec(any_condition(), 0..3), 3),
        numbers in proptest::collection::vec(proptest::option::of(-1..5_i32), 5),
        timeout_ms in proptest::option::of(any::<i64>()),
        full_page: bool,
    ) -> v1::Action {
        let (mut texts, mut lists) = (texts.into_iter(), lists.into_iter());
        let (mut conditions, mut numbers) = (conditions.into_iter(), numbers.into_iter());
        let mut text = || texts.next().flatten();
        let mut list = || lists.next().unwrap_or_default();
        let mut some_conditions = || conditions.next().unwrap_or_default();
        let mut number = || numbers.next().flatten();
        let offset = |index: usize| offsets[index].map(|(x, y)| v1::Offset { x, y });
        v1::Action {
            id, kind, target, full_page, timeout_ms,
            rationale: text(), url: text(), value: text(), key: text(), attribute: text(), output: text(),
            options: list(), files: list(), retry: Some(v1::ActionRetry { limit: None, on: list() }),
            conditions: some_conditions(), pre: some_conditions(), post: some_conditions(),
            criticality: number(), extract: number(), wait_until: number(), on_failure: number(), dialogs: number(),
            repeatable: None, to, by: offset(0), at: offset(1), modifiers, prompt_text: text(),
        }
    }
}

proptest! {
    #[test]
    fn no_action_makes_the_check_panic_and_what_it_passes_can_be_performed(action in any_action()) {
        let variables = BTreeMap::from([("who".to_owned(), "Ana ${secret:n}".to_owned())]);
        let violations = check_action(&action, true, &variables, &BTreeSet::new());
        if violations.is_empty() {
            let substituted = capataz_contracts::placeholder::substitute(&action, &variables, &BTreeMap::new()).unwrap();
            let read = read_action(&substituted, true);
            // Characters that look like an output are taken for one that has no value.
            prop_assume!(!format!("{substituted:?}").contains("${output:"));
            prop_assert!(read.is_ok(), "{:?}", read.unwrap_err());
        } else {
            prop_assert!(violations.iter().all(|violation| !violation.rule.is_empty() && !violation.message.is_empty()));
        }
    }
}
