//! Targets in containers, beside texts and by another attribute, with what their errors say.

use serde_json::{Value, json};

use super::{Script, Server};

const PEOPLE: &str = r#"<!doctype html><title>People</title>
<ul data-cy=list><li>Ana <button data-cy=pick>Pick</button></li><li><span>Ben</span> <button data-cy=pick>Pick</button></li></ul>
<div data-cy=twin></div><div data-cy=twin></div><p data-cy=picked>nobody</p>
<script>for (const button of document.querySelectorAll("button"))
  button.onclick = () => { document.querySelector("[data-cy=picked]").textContent = button.parentElement.textContent; };</script>"#;

fn picked(who: &str) -> Value {
    json!([{"kind": "text_equals", "target": {"testid": "picked"}, "value": format!("{who} Pick")}])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_is_found_beside_a_text_in_a_container_and_by_the_attribute_of_the_policy() {
    let server = Server::with(&[("/", PEOPLE)]).await;
    let mut script = Script::start(&server, json!({"testid_attribute": "data-cy"})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let target = json!({"testid": "pick", "near": "Ben", "within": {"testid": "list"}});
    let outcome = script.passes(json!({"kind": "click", "target": target, "post": picked("Ben")})).await;
    let found = outcome.resolution.unwrap();
    assert_eq!((found.locator.as_str(), found.count), ("testid", 1));
    let target = json!({"text": "Pick", "nth": 0, "within": {"testid": "list"}});
    let action =
        json!({"kind": "click", "target": target, "post": picked("Ana"), "rationale": "Ana is the first"});
    script.passes(action).await;
    let count = |container: &str, count: u32| {
        let target = json!({"testid": "pick", "within": {"testid": container}});
        json!({"kind": "assert", "conditions": [{"kind": "element_count_equals", "target": target, "count": count}]})
    };
    script.passes(count("list", 2)).await;
    script.passes(count("nothing", 0)).await;
    // Of which container it is to be true, nobody knows.
    script.fails(count("twin", 0), "POSTCONDITION_FAILED").await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_of_the_page_is_nearly_the_target_is_told_and_never_used() {
    const CART: &str = "<button onclick='document.querySelector(`p`).textContent = `paid`'>Pay now</button>
        <button>Pay later</button><p data-testid=state>not yet</p><iframe srcdoc='<button>Pay there</button>'></iframe>";
    let state = |value: &str| json!([{"kind": "text_equals", "target": {"testid": "state"}, "value": value}]);
    let server = Server::with(&[("/", CART)]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let click = |target: Value| json!({"kind": "click", "target": target, "timeout_ms": 500});
    let details = script.fails(click(json!({"role": "button", "name": "Pay Now"})), "TARGET_NOT_FOUND").await;
    let near: Vec<&str> =
        details["near"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let [first, second, third] = near[..] else { panic!("{near:?}") };
    assert!(
        first.starts_with("button \"Pay now\"") && second.starts_with("button \"Pay later\""),
        "{near:?}"
    );
    assert!(third.starts_with("button \"Pay there\""), "{near:?}");
    script.passes(json!({"kind": "assert", "conditions": state("not yet")})).await;
    let right = json!({"role": "button", "name": "Pay now"});
    script.passes(json!({"kind": "click", "target": right, "post": state("paid")})).await;
    let details = script.fails(click(json!({"text": "Unsubscribe"})), "TARGET_NOT_FOUND").await;
    assert_eq!(details["near"], json!([]));
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_fifty_thousand_elements_that_changes_all_the_time_fails_with_all_its_evidence() {
    const CROWD: &str = "<p data-testid=count></p><div id=crowd></div><script>
        document.getElementById('crowd').innerHTML = '<i></i>'.repeat(50000) + '<button>Pay now</button>';
        setInterval(() => { document.querySelector('p').textContent = performance.now(); }, 5);</script>";
    let server = Server::with(&[("/", CROWD)]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let missing =
        json!({"kind": "click", "target": {"role": "button", "name": "Pay Now"}, "timeout_ms": 500});
    let details = script.fails(missing, "TARGET_NOT_FOUND").await;
    // It is read in time, or it is not: what is told is never anything else.
    let near = details["near"].as_array().unwrap();
    assert!(near.iter().all(|line| line == "button \"Pay now\"") && near.len() <= 1, "{near:?}");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_names_the_part_of_the_target_that_is_not_there_exactly_once() {
    let server = Server::with(&[("/", PEOPLE)]).await;
    let mut script = Script::start(&server, json!({"testid_attribute": "data-cy"})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let click = |target: Value| json!({"kind": "click", "target": target, "timeout_ms": 1000});
    let details = script.fails(click(json!({"text": "Pick"})), "TARGET_NOT_UNIQUE").await;
    assert_eq!((&details["count_observed"], &details["part_missing"]), (&json!(2), &Value::Null));
    let container = json!({"testid": "pick", "within": {"testid": "twin"}});
    let details = script.fails(click(container), "TARGET_NOT_UNIQUE").await;
    assert_eq!((&details["count_observed"], &details["part_missing"]), (&json!(2), &json!("within")));
    assert_eq!(details["matches_sample"].as_array().unwrap().len(), 2);
    let container = json!({"testid": "pick", "within": {"testid": "gone", "within": {"css": "ul"}}});
    let details = script.fails(click(container), "TARGET_NOT_FOUND").await;
    assert_eq!((&details["count_observed"], &details["part_missing"]), (&json!(0), &json!("within")));
    let details = script.fails(click(json!({"testid": "pick", "near": "Pick"})), "TARGET_NOT_UNIQUE").await;
    assert_eq!(details["part_missing"], "near");
    let unreadable = json!({"text": "Pick", "within": {"css": "li!!"}});
    let details = script.fails(click(unreadable), "INVALID_ACTIONSPEC").await;
    assert_eq!(details["validation_errors"][0]["path"], "target.within.css");
    script.end().await;
}
