//! Watching whether the page rests, so that its picture can be taken ahead of the next act.

use capataz_executor::chromium::script::function;
use serde_json::{Value, json};

use crate::support::{LIMIT, Page};

/// Counts, where the script is, the observers that are at work and the frames that are asked for. `atWork` tells of those
/// that are left after some frames.
const COUNTED: &str = "(() => {
  const { observe, disconnect } = MutationObserver.prototype;
  const ask = requestAnimationFrame;
  const observers = new Set();
  let frames = 0;
  MutationObserver.prototype.observe = function (...given) { observers.add(this); observe.apply(this, given); };
  MutationObserver.prototype.disconnect = function () { observers.delete(this); disconnect.call(this); };
  globalThis.requestAnimationFrame = (run) => { frames += 1; return ask(run); };
  const pass = async (count) => { for (let n = 0; n < count; n += 1) await new Promise((done) => ask(done)); };
  globalThis.observers = observers;
  globalThis.atWork = async () => {
    await pass(2);
    const before = frames;
    await pass(3);
    return { observers: observers.size, frames: frames - before };
  };
})()";

fn at_work(page: &Page) -> Value {
    page.script("atWork()")
}

fn nothing() -> Value {
    json!({ "observers": 0, "frames": 0 })
}

/// A call that waits for the page to come to rest, of which the answer is in `waiting`.
fn wait_for_rest(page: &Page) {
    page.script(&format!("globalThis.waiting = capataz.comesToRest({LIMIT}); 0"));
}

fn redaction() -> Value {
    json!({ "selectors": [] })
}

#[test]
fn an_act_and_what_comes_before_it_end_the_wait_for_a_page_that_does_not_rest() {
    let page = Page::with(
        "<form onsubmit='return false'><button id=a type=button>A</button><input id=i value=x>
        <select id=s><option>1<option>2</select></form><p id=p></p><script>let n = 0;
        (function forever() { p.textContent = n += 1; requestAnimationFrame(forever); })()</script>",
    );
    page.script(COUNTED);
    let [button, input, select, form] = ["#a", "#i", "#s", "form"].map(|css| page.handle(css));
    for (called, arguments) in [
        (function::SETTLE, json!([button, LIMIT])),
        (function::BEFORE_PICTURE, json!([redaction()])),
        (function::ARM, json!([button])),
        (function::READY_TO_FILL, json!([input, ["beforeinput"]])),
        (function::CLEAR, json!([input])),
        (function::SELECT_OPTIONS, json!([select, ["2"]])),
        (function::SUBMIT, json!([form])),
        (function::BRING, json!([button])),
    ] {
        wait_for_rest(&page);
        assert_ne!(at_work(&page)["frames"], 0, "{called}: the page is watched in each frame");
        page.run(called, &arguments);
        assert_eq!(at_work(&page), nothing(), "{called}");
        assert_eq!(page.script("waiting"), Value::Null, "{called}");
    }
}

#[test]
fn a_page_that_has_come_to_rest_is_watched_until_an_act() {
    let page = Page::with("<button id=a>A</button>");
    page.script(COUNTED);
    let button = page.handle("#a");
    let token = page.run(function::COMES_TO_REST, &json!([LIMIT]));
    assert!(token.is_u64(), "{token}");
    let rests = || page.run(function::RESTS, &json!([token]));
    assert_eq!(rests(), true);
    // A picture that was taken by then shows the page as it is before the act.
    page.run(function::SETTLE, &json!([button, LIMIT]));
    assert_eq!(rests(), true);
    page.run(function::BEFORE_PICTURE, &json!([redaction()]));
    assert_eq!(rests(), true);
    page.run(function::ARM, &json!([button]));
    assert_eq!(rests(), false);
    assert_eq!(at_work(&page), nothing());
}

#[test]
fn nothing_is_watched_before_the_next_frame() {
    let page = Page::with("<button>A</button>");
    page.script(COUNTED);
    let begun = format!("globalThis.waiting = capataz.comesToRest({LIMIT}); observers.size");
    assert_eq!(page.script(&begun), 0);
    assert!(page.script("waiting").is_u64());
}
