//! Every condition, on a page where it holds and on one where it does not.

use serde_json::json;

use super::page::{FakePage, element};
use super::*;

#[track_caller]
fn check(condition: Value, expected: bool) {
    let hidden = element("hidden").with(|facts| facts.visible = false);
    let field = element("field").with(|facts| {
        facts.enabled = false;
        facts.checked = Some(true);
        facts.text = " Order  7 ".to_owned();
        facts.value = Some("a  b".to_owned());
        facts.attributes.insert("href".to_owned(), "/x".to_owned());
    });
    let many = || element("many").with(|facts| facts.visible = false);
    let mut page = FakePage::new(vec![element("send"), hidden, field, many(), many()]);
    page.url = "https://example.com:8443/form?x=1".to_owned();
    page.title = "My  form".to_owned();
    let negated = json!({"kind": "not", "condition": condition});
    for (condition, expected) in [(condition, expected), (negated, !expected)] {
        let mut page = FakePage {
            url: page.url.clone(),
            title: page.title.clone(),
            elements: page.elements.clone(),
            ..FakePage::new(Vec::new())
        };
        page.text = "All  the text".to_owned();
        let action = json!({"kind": "assert", "conditions": [condition]});
        let done = case(page, action).run();
        assert_eq!(done.outcome.error.is_none(), expected, "{condition}");
    }
}

fn of(testid: &str, kind: &str) -> Value {
    json!({"kind": kind, "target": {"testid": testid}})
}

fn with_value(testid: &str, kind: &str, value: &str) -> Value {
    json!({"kind": kind, "target": {"testid": testid}, "value": value})
}

#[test]
fn states_of_elements() {
    check(of("send", "visible"), true);
    check(of("hidden", "visible"), false);
    check(of("none", "visible"), false);
    check(of("many", "visible"), false);
    check(of("hidden", "hidden"), true);
    check(of("none", "hidden"), true);
    check(of("many", "hidden"), true);
    check(of("send", "hidden"), false);
    check(of("send", "enabled"), true);
    check(of("field", "disabled"), true);
    check(of("none", "disabled"), false);
    check(of("field", "checked"), true);
    check(of("field", "unchecked"), false);
    check(of("send", "unchecked"), false);
}

#[test]
fn counts_of_elements() {
    for (testid, count) in [("none", 0), ("send", 1), ("many", 2)] {
        let counted = |count: u32| json!({"kind": "element_count_equals", "target": {"testid": testid}, "count": count});
        check(counted(count), true);
        check(counted(count + 1), false);
    }
}

#[test]
fn texts_values_and_attributes_of_elements() {
    check(with_value("field", "text_equals", "Order 7"), true);
    check(with_value("field", "text_equals", "order 7"), false);
    check(with_value("field", "text_contains", "der"), true);
    check(with_value("field", "text_matches", "^Order [0-9]$"), true);
    check(with_value("field", "value_equals", "a  b"), true);
    check(with_value("field", "value_equals", "a b"), false);
    check(with_value("field", "value_contains", "a"), true);
    check(with_value("field", "value_matches", "^b"), false);
    check(with_value("send", "value_equals", ""), false);
    let attribute = |kind: &str, name: &str, value: &str| json!({"kind": kind, "target": {"testid": "field"}, "attribute": name, "value": value});
    check(attribute("attribute_equals", "href", "/x"), true);
    check(attribute("attribute_contains", "href", "y"), false);
    check(attribute("attribute_matches", "href", "^/"), true);
    check(attribute("attribute_equals", "title", ""), false);
}

#[test]
fn the_page_itself() {
    let page = |kind: &str, value: &str| json!({"kind": kind, "value": value});
    check(page("url_equals", "https://example.com:8443/form?x=1"), true);
    check(page("url_equals", "https://example.com:8443/form"), false);
    check(page("url_matches", "/form"), true);
    check(page("host_equals", "Example.com"), true);
    check(page("host_equals", "example.com:8443"), true);
    check(page("host_equals", "example.com:80"), false);
    check(page("host_matches", "^example\\.com$"), true);
    check(page("title_equals", "My form"), true);
    check(page("title_matches", "other"), false);
    check(page("text_contains", "All the"), true);
    check(page("text_equals", "All the"), false);
    check(json!({"kind": "download_completed"}), false);
}
