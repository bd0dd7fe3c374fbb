//! Pages that move or exchange the target under the pointer: what was stopped before anything received it is tried again.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE_MS, Script, Server};

/// The target in a form with another button beside it. `log` has what the buttons receive, and `hovers` how often the pointer
/// has come upon the target. `react` is called each time.
fn reacting(react: &str) -> String {
    let page = r#"<!doctype html><title>Restless</title><style>button { position: absolute; width: 120px; height: 30px }</style>
<form action="/sent"><button data-testid=target style="left: 40px; top: 100px">Send</button></form>
<button data-testid=wrong style="left: 40px; top: 100px; z-index: -1">Delete</button>
<p data-testid=log></p><p data-testid=hovers>0</p><script>
const by = (id) => document.querySelector(`[data-testid=${id}]`);
const wrong = by("wrong");
for (const type of ["pointerdown", "mousedown", "pointerup", "mouseup", "click"])
  addEventListener(type, ({ target }) => { if (target.localName === "button") by("log").textContent += `${type} ${target.dataset.testid};`; });
let hovers = 0;
const watch = (target) => target.addEventListener("pointerenter", () => {
  hovers += 1;
  by("hovers").textContent = hovers;
  REACT
});
/** Another element of the same name, somewhere else. */
const anew = (target, left) => {
  const other = target.cloneNode(true);
  other.style.left = left;
  watch(other);
  return other;
};
watch(by("target"));
</script>"#;
    page.replace("REACT", react)
}

/// The target slides away to the right each of the first times.
fn slides(times: u32) -> String {
    reacting(&format!("if (hovers <= {times}) target.style.left = `${{40 + 150 * hovers}}px`;"))
}

/// Another button takes the target's place, and a new target comes beside it.
const IS_EXCHANGED: &str = "if (hovers === 1) { wrong.style.zIndex = 0; target.parentNode.append(anew(target, '400px')); target.remove(); }";

/// Another button takes the target's place for some frames.
const IS_COVERED: &str = "if (hovers === 1) {
  wrong.style.zIndex = 1;
  let frames = 0;
  const step = () => { if (frames++ < 20) requestAnimationFrame(step); else wrong.style.zIndex = -1; };
  step();
}";

/// The target has gone for some frames.
const IS_GONE: &str = "if (hovers === 1) {
  const { parentNode } = target;
  target.remove();
  let frames = 0;
  const step = () => { if (frames++ < 20) requestAnimationFrame(step); else parentNode.append(anew(target, '40px')); };
  step();
}";

const ONE_CLICK: &str = "pointerdown target;mousedown target;pointerup target;mouseup target;click target;";

/// An element reads like this.
fn reads(testid: &str, text: &str) -> Value {
    json!([{"kind": "text_equals", "target": {"testid": testid}, "value": text}])
}

async fn opened(page: String) -> (Server, Script) {
    let server = Server::with(&[("/", &page), ("/sent?", "<!doctype html><title>Sent</title>")]).await;
    let mut script = Script::start(&server, json!({})).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    (server, script)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_on_what_slides_or_is_exchanged_under_the_pointer_arrives_once_and_where_it_is_meant() {
    let stays = |page: String| page.replace("action=\"/sent\"", "onsubmit=\"return false\"");
    for page in [slides(1), slides(3), reacting(IS_EXCHANGED), reacting(IS_COVERED), reacting(IS_GONE)] {
        let (_server, mut script) = opened(stays(page.clone())).await;
        // The action says nothing of its time, nor of being tried again.
        let click = json!({"kind": "click", "target": {"testid": "target"}, "post": reads("log", ONE_CLICK)});
        let outcome = script.passes(click).await;
        assert!(outcome.touched, "{page}");
        assert_eq!(outcome.stages.len(), 6, "{page}");
        let at = outcome.resolution.unwrap().x;
        let is = script.opened.found(&super::css("[data-testid=target]")).await.1.rect.x;
        assert_eq!(at, Some(is), "it says where the target was clicked: {page}");
        let hovers = script.opened.text_of("[data-testid=hovers]").await;
        assert_ne!(hovers, "1", "the first try was stopped: {page}");
        script.passes(json!({"kind": "assert", "conditions": reads("log", ONE_CLICK)})).await;
        script.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_whose_button_slides_or_is_exchanged_under_the_pointer_is_sent_once() {
    for page in [slides(2), reacting(IS_EXCHANGED)] {
        let (server, mut script) = opened(page).await;
        let proof = json!([{"kind": "title_equals", "value": "Sent"}]);
        let submit = json!({"kind": "submit", "target": {"testid": "target"}, "post": proof});
        assert!(script.passes(submit).await.touched);
        assert_eq!(server.hits("/sent?"), 1);
        script.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_on_what_never_comes_to_rest_under_the_pointer_ends_with_its_time_and_nothing_receives_it() {
    // To and fro, and another button is wherever the target was.
    let flees = reacting(
        "wrong.style.left = target.style.left; wrong.style.zIndex = 1; target.style.left = hovers % 2 ? '400px' : '40px';",
    );
    let (_server, mut script) = opened(flees).await;
    // A machine may be too slow for a second try within the shorter limit.
    for limit in [Duration::from_secs(4), Duration::from_secs(60)] {
        let click = json!({"kind": "click", "target": {"testid": "target"}, "timeout_ms": limit.as_millis() as u64,
                           "post": [{"kind": "title_equals", "value": "Sent"}]});
        let began = Instant::now();
        let outcome = script.perform(click.clone()).await;
        let took = began.elapsed();
        script.passes(json!({"kind": "assert", "conditions": reads("log", "")})).await;
        let tries: u32 = script.opened.text_of("[data-testid=hovers]").await.parse().unwrap();
        if tries < 2 {
            continue;
        }
        let details = script.failed(&click, &outcome, "PRECONDITION_FAILED");
        assert!(!outcome.touched, "{outcome:?}");
        assert!(["moved", "moving"].contains(&details["reason"].as_str().unwrap()), "{details}");
        // It has all of its own time, and nothing of the time that actions have without one.
        assert!(took >= limit && took.as_millis() < PATIENCE_MS as u128, "{took:?}");
        return script.end().await;
    }
    panic!("it was not tried again");
}
