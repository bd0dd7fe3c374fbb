//! A proof that holds before the action proves nothing: a form whose handler does nothing is never taken for one that was sent.

use std::time::Duration;

use capataz_contracts::v1::ActionStage;

use serde_json::{Value, json};

use super::support::Answer;
use super::{Script, Server};

/// A form that is heard of in `log` alone: its handler does nothing.
const IDLE: &str = r#"<!doctype html><title>Order</title><main><h1 data-testid=head data-state=open>Order 7</h1>
<form data-testid=form><label>Mail <input name=mail value="ana@example.com" autofocus></label>
<label><input type=checkbox checked> Agreed</label><label><input type=checkbox> Again</label>
<select size=2 aria-label=Size><option>S<option>M</select><button data-testid=send>Send</button></form></main><p data-testid=log></p><script>
addEventListener("submit", (event) => event.preventDefault());
for (const type of ["keydown", "mousedown", "click", "submit"])
  addEventListener(type, () => { document.querySelector("[data-testid=log]").textContent += type + ";"; });
</script>"#;

async fn opened(page: &str, policy: Value) -> (Server, Script) {
    let server = Server::with(&[("/", page)]).await;
    let mut script = Script::start(&server, policy).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    (server, script)
}

/// What sends the form, with the events that the page would get of it.
fn sending() -> [(Value, &'static str); 8] {
    let button = json!({"testid": "send"});
    [
        (json!({"kind": "submit", "target": button}), "mousedown;click;submit;"),
        (json!({"kind": "submit", "target": {"testid": "form"}}), "submit;"),
        (json!({"kind": "click", "target": button}), "mousedown;click;submit;"),
        // Enter in a field clicks the form's button.
        (json!({"kind": "press", "target": {"label": "Mail"}, "key": "Enter"}), "keydown;click;submit;"),
        // The focus is in that field: from the beginning, and after it.
        (json!({"kind": "press", "target": {"testid": "form"}, "key": "Enter"}), "keydown;click;submit;"),
        (json!({"kind": "press", "key": "Enter"}), "keydown;click;submit;"),
        (json!({"kind": "press", "target": {"label": "Size"}, "key": "Enter"}), "keydown;click;submit;"),
        (json!({"kind": "download", "target": button}), "mousedown;click;submit;"),
    ]
}

fn proved_by(action: &Value, proofs: Value) -> Value {
    let mut action = action.clone();
    action["post"] = proofs;
    action
}

/// The page has got these events so far and no others.
fn heard(events: &str) -> Value {
    let condition = json!({"kind": "text_equals", "target": {"testid": "log"}, "value": events});
    json!({"kind": "assert", "conditions": [condition]})
}

/// The action is refused before anything of it is sent, with this code and stage; the error's details.
async fn refused(script: &mut Script, action: Value, code: &str, stage: ActionStage) -> Value {
    let details = script.fails(action.clone(), code).await;
    let outcome = script.outcomes.last().unwrap();
    let error = outcome.error.as_ref().unwrap();
    assert_eq!((error.stage(), outcome.touched), (stage, false), "{action}");
    details
}

/// Conditions that hold on the page of the form, each strong enough to prove something where it did not hold before.
fn holding(server: &Server) -> Vec<Value> {
    let of_page = |kind: &str, value: &str| json!({"kind": kind, "value": value});
    let of = |target: Value, kind: &str, value: &str| json!({"kind": kind, "target": target, "value": value});
    let state = |kind: &str, value: &str| json!({"kind": kind, "target": {"testid": "head"}, "attribute": "data-state", "value": value});
    let count =
        |target: Value, count: u32| json!({"kind": "element_count_equals", "target": target, "count": count});
    let (head, mail) = (json!({"testid": "head"}), json!({"label": "Mail"}));
    vec![
        of_page("url_equals", &server.url("/")),
        of_page("url_matches", "^http://127[.]"),
        of_page("host_equals", "127.0.0.1"),
        of_page("host_equals", &server.entry()),
        of_page("host_matches", "^127[.]"),
        of_page("title_equals", "Order"),
        of_page("title_matches", "^Ord"),
        of(head.clone(), "text_equals", "Order 7"),
        of(head.clone(), "text_contains", "Order"),
        of(head, "text_matches", "[0-9]$"),
        of(mail.clone(), "value_equals", "ana@example.com"),
        of(mail.clone(), "value_contains", "@"),
        of(mail, "value_matches", "[.]com$"),
        state("attribute_equals", "open"),
        state("attribute_matches", "^op"),
        json!({"kind": "checked", "target": {"label": "Agreed"}}),
        json!({"kind": "unchecked", "target": {"label": "Again"}}),
        count(json!({"role": "main"}), 1),
        count(json!({"testid": "error"}), 0),
    ]
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_whose_handler_does_nothing_is_never_proved_sent_by_what_holds_before() {
    let (server, mut script) = opened(IDLE, json!({})).await;
    let proofs = holding(&server);
    for (action, _) in sending() {
        for proof in &proofs {
            let action = proved_by(&action, json!([proof]));
            let details =
                refused(&mut script, action.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
            assert_eq!(details["critical_reason"], "postcondition_already_true", "{action}");
            assert_eq!(details["postconditions"], json!([proof["kind"]]), "{action}");
        }
        // All of them together prove no more than one, also with a weak one that does not hold yet.
        let weak = json!({"kind": "visible", "target": {"testid": "sent"}});
        let all: Vec<Value> = proofs.iter().cloned().chain([weak]).collect();
        let action = proved_by(&action, json!(all));
        let details = refused(&mut script, action, "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
        assert_eq!(details["postconditions"].as_array().unwrap().len(), proofs.len());
    }
    script.passes(heard("")).await;

    // With a proof of what does not come the form is sent, and its handler has no effect.
    let mut events = String::new();
    for (action, sends) in sending() {
        let mut action = proved_by(&action, json!([{"kind": "title_equals", "value": "Sent"}]));
        action["timeout_ms"] = 3000.into();
        let code = if action["kind"] == "download" { "DOWNLOAD_FAILED" } else { "POSTCONDITION_FAILED" };
        script.fails(action, code).await;
        assert!(script.outcomes.last().unwrap().touched);
        events += sends;
        script.passes(heard(&events)).await;
    }
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nearly_every_page_fulfils_proves_no_form_sent() {
    let (_server, mut script) = opened(IDLE, json!({})).await;
    let visible = json!({"kind": "visible", "target": {"testid": "head"}});
    let vacuous = [
        json!({"kind": "url_matches", "value": "."}),
        json!({"kind": "url_matches", "value": "^http"}),
        json!({"kind": "host_matches", "value": ".+"}),
        json!({"kind": "title_matches", "value": "^.*$"}),
        json!({"kind": "text_contains", "value": "Order"}),
        json!({"kind": "text_contains", "target": {"testid": "head"}, "value": " "}),
        json!({"kind": "value_matches", "target": {"label": "Mail"}, "value": ".?"}),
        json!({"kind": "element_count_equals", "target": {"css": "main"}, "count": 1}),
        json!({"kind": "no_overlay"}),
        json!({"kind": "not", "condition": {"kind": "url_equals", "value": "about:blank"}}),
        visible,
    ];
    for proof in &vacuous {
        for (action, _) in sending() {
            let action = proved_by(&action, json!([proof]));
            // What is critical by its kind is refused as a proposal; of the others only the page tells that they send a form.
            if action["kind"] == "submit" {
                let details = refused(
                    &mut script,
                    action.clone(),
                    "INVALID_ACTIONSPEC",
                    ActionStage::ProposalValidation,
                )
                .await;
                assert_eq!(details["violated_rules"], json!(["U5"]), "{action}");
            } else {
                let details =
                    refused(&mut script, action.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy)
                        .await;
                assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{action}");
            }
        }
    }
    script.passes(heard("")).await;
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_may_be_declared_harmless_a_normal_click_on_a_form_is_proved_as_well() {
    let (_server, mut script) = opened(IDLE, json!({"lower_criticality": "forbid"})).await;
    let host = json!([{"kind": "host_equals", "value": "127.0.0.1"}]);
    for (action, _) in sending() {
        let mut action = proved_by(&action, host.clone());
        action["criticality"] = "normal".into();
        let details =
            refused(&mut script, action.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
        assert_eq!(details["critical_reason"], "postcondition_already_true", "{action}");
    }
    script.passes(heard("")).await;
    script.end().await;
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enter_for_a_focus_that_is_in_a_frame_or_a_shadow_root_is_proved_as_well() {
    let page = r#"<!doctype html><iframe srcdoc="<form><input data-testid=framed></form>"></iframe><div id=host></div>
<script>host.attachShadow({mode: "open", delegatesFocus: true}).innerHTML =
  "<form><input data-testid=shadowed></form>";</script>"#;
    let (server, mut script) = opened(page, json!({"lower_criticality": "forbid"})).await;
    let framed = json!({"testid": "framed", "frame": [{"css": "iframe"}]});
    for field in [framed, json!({"testid": "shadowed"})] {
        script.passes(json!({"kind": "press", "key": "Enter"})).await;
        script.passes(json!({"kind": "click", "target": field})).await;
        let action = json!({"kind": "press", "key": "Enter", "criticality": "normal"});
        let details = refused(&mut script, action, "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
        assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{field}");
        script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    }
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_that_comes_with_the_pointer_proves_nothing_of_a_click_that_is_tried_again() {
    // The button slides away under the pointer, which is when the page says that the order was sent.
    let slides = IDLE.replace(
        "</script>",
        r#"const send = document.querySelector("button");
send.style = "position: absolute; left: 300px; top: 100px; width: 100px; height: 30px";
send.addEventListener("pointerenter", () => {
  send.style.top = "200px";
  document.querySelector("h1").textContent = "Sent";
}, { once: true });
</script>"#,
    );
    let (_server, mut script) = opened(&slides, json!({})).await;
    let proof = json!([{"kind": "text_equals", "target": {"testid": "head"}, "value": "Sent"}]);
    let action = json!({"kind": "click", "target": {"testid": "send"}, "post": proof});
    let details = refused(&mut script, action, "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
    assert_eq!(details["critical_reason"], "postcondition_already_true");
    script.passes(heard("")).await;
    script.end().await;
}

/// A form whose box hands the focus on to the button in it, at once, after the key or before it.
fn forwarding(listener: &str) -> String {
    let script = format!(
        "const box = document.querySelector('[data-testid=box]'), send = document.querySelector('[data-testid=send]'); {listener}"
    );
    format!(
        r#"<!doctype html><title>Order</title><form data-testid=form><div data-testid=box tabindex=0>Quantity
<button data-testid=send>Send</button></div></form><p data-testid=log></p><script>{script}
addEventListener("submit", (event) => {{ event.preventDefault(); document.querySelector("[data-testid=log]").textContent = "sent"; }});
</script>"#
    )
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_judged_by_what_has_the_focus_when_it_arrives() {
    let hands_on = [
        ("box.addEventListener('focus', () => send.focus());", false),
        ("box.addEventListener('keydown', (event) => { if (event.target === box) send.focus(); });", true),
    ];
    for (listener, touched) in hands_on {
        let (server, mut script) = opened(&forwarding(listener), json!({})).await;
        let press = json!({"kind": "press", "target": {"testid": "box"}, "key": "Enter"});
        let details = script.fails(press.clone(), "ACTION_CRITICAL_BLOCKED").await;
        assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{listener}");
        let outcome = script.outcomes.last().unwrap();
        let error = outcome.error.as_ref().unwrap();
        assert_eq!((error.stage(), outcome.touched), (ActionStage::Policy, touched), "{listener}");
        script.passes(heard("")).await;
        script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
        let proof =
            |value: &str| json!([{"kind": "text_equals", "target": {"testid": "log"}, "value": value}]);
        if touched {
            let details = script.fails(proved_by(&press, proof("sent")), "ACTION_CRITICAL_BLOCKED").await;
            assert_eq!(details["critical_reason"], "focus_moved");
            script.passes(heard("")).await;
        } else {
            let details = script.fails(proved_by(&press, proof("")), "ACTION_CRITICAL_BLOCKED").await;
            assert_eq!(details["critical_reason"], "postcondition_already_true");
            script.passes(proved_by(&press, proof("sent"))).await;
        }
        script.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_that_hangs_is_asked_no_longer_than_the_action_may_take() {
    // A frame of another site has a process of its own, which hangs alone.
    let server = Server::start(|request| {
        let port = request.head.split("127.0.0.1:").nth(1).and_then(|rest| rest.split("\r\n").next());
        Some(Answer::html(match (request.path.as_str(), port) {
            ("/", Some(port)) => format!(
                r#"<!doctype html><iframe src="http://localhost:{port}/hangs"></iframe>
<button data-testid=hang onclick="frames[0].postMessage('', '*')">Hang</button>"#
            ),
            _ => "<p data-testid=there>There</p><script>onmessage = () => { for (;;); }</script>".to_owned(),
        }))
    })
    .await;
    let policy = json!({"allowlist": [format!("localhost:{}", server.port)]});
    let mut script = Script::start(&server, policy).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    let there = json!([{"kind": "visible", "target": {"testid": "there", "frame": [{"css": "iframe"}]}}]);
    script.passes(json!({"kind": "wait_for", "conditions": there})).await;
    script.passes(json!({"kind": "click", "target": {"testid": "hang"}})).await;
    let press = json!({"kind": "press", "key": "Enter", "timeout_ms": 1000});
    let mut outcome = script.perform(press.clone()).await;
    while outcome.error.is_none() {
        // The frame does not hang yet, and answers that nothing in it has the focus.
        outcome = script.perform(press.clone()).await;
    }
    // Everything that a critical error owes is there: in the pictures, the frame that hangs is masked as a whole.
    let error = outcome.error.unwrap();
    assert_eq!(error.error_code, "ACTION_CRITICAL_BLOCKED", "{error:?}");
    let kinds =
        ["dom_snapshot_partial", "state_signature", "html_full", "screenshot_before", "screenshot_after"];
    for kind in kinds {
        let piece = error.evidence_refs.iter().find(|piece| piece.kind == kind);
        let piece = piece.unwrap_or_else(|| panic!("{kind} is missing"));
        assert!(piece.redacted || !kind.starts_with("screenshot"), "{piece:?}");
    }
    let judged = outcome.stages.iter().find(|stage| !stage.passed).unwrap();
    assert_eq!(judged.stage(), ActionStage::Policy);
    assert!(Duration::from_micros(judged.duration_us) < Duration::from_secs(10), "{judged:?}");
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_without_a_target_is_judged_by_the_name_of_what_has_the_focus() {
    let page = r#"<!doctype html><button data-testid=delete onclick="log.textContent = 'deleted'">Delete</button>
<p id=log data-testid=log></p><script>document.querySelector("button").focus()</script>"#;
    let policy = json!({"critical": [{"name_matches": "^Delete$"}]});
    let (_server, mut script) = opened(page, policy).await;
    let press = json!({"kind": "press", "key": "Enter"});
    let details = refused(&mut script, press.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
    assert_eq!(details["critical_reason"], "missing_strong_postcondition");
    script.passes(heard("")).await;
    script.passes(proved_by(&press, heard("deleted")["conditions"].clone())).await;
    script.end().await;
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_focus_in_a_closed_shadow_root_of_a_plain_element_may_submit_anything() {
    let page = r#"<!doctype html><div data-testid=host></div><p data-testid=log></p><script>
const root = document.querySelector("[data-testid=host]").attachShadow({ mode: "closed" });
root.innerHTML = "<form><input></form>";
root.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  document.querySelector("[data-testid=log]").textContent = "sent";
});
root.querySelector("input").focus();
</script>"#;
    let (_server, mut script) = opened(page, json!({})).await;
    for press in [
        json!({"kind": "press", "key": "Enter"}),
        json!({"kind": "press", "key": "Enter", "target": {"testid": "host"}}),
    ] {
        let details =
            refused(&mut script, press.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
        assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{press}");
        script.passes(heard("")).await;
    }
    // A proof makes it an action like any other.
    let press = json!({"kind": "press", "key": "Enter"});
    script.passes(proved_by(&press, heard("sent")["conditions"].clone())).await;
    script.end().await;
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_focus_in_a_closed_shadow_root_of_an_element_that_takes_one_itself_may_submit_anything() {
    for attribute in ["tabindex=0", "contenteditable"] {
        let page = format!(
            r#"<!doctype html><div data-testid=host {attribute}></div><p data-testid=log></p><script>
const host = document.querySelector("[data-testid=host]");
const root = host.attachShadow({{ mode: "closed" }});
root.innerHTML = "<form><input></form>";
root.querySelector("form").addEventListener("submit", (event) => {{
  event.preventDefault();
  document.querySelector("[data-testid=log]").textContent = "sent";
}});
host.addEventListener("focus", () => root.querySelector("input").focus());
root.querySelector("input").focus();
</script>"#
        );
        let (_server, mut script) = opened(&page, json!({})).await;
        for press in [
            json!({"kind": "press", "key": "Enter"}),
            json!({"kind": "press", "key": "Enter", "target": {"testid": "host"}}),
        ] {
            let details =
                refused(&mut script, press.clone(), "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
            assert_eq!(details["critical_reason"], "missing_strong_postcondition", "{attribute} {press}");
            script.passes(heard("")).await;
        }
        let press = json!({"kind": "press", "key": "Enter"});
        script.passes(proved_by(&press, heard("sent")["conditions"].clone())).await;
        script.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_for_an_element_with_the_focus_and_without_a_shadow_root_is_harmless() {
    for element in ["tabindex=0", "contenteditable", r#"style="height: 40px; overflow: auto""#] {
        let page = format!(
            r#"<!doctype html><div data-testid=box {element}><p style="height: 400px">x</p></div><p data-testid=log></p><script>
const box = document.querySelector("[data-testid=box]");
const log = document.querySelector("[data-testid=log]");
box.addEventListener("keydown", (event) => {{ event.preventDefault(); log.textContent += event.key + ";"; }});
box.focus();
log.textContent = document.activeElement === box ? "focused;" : "";
</script>"#
        );
        let (_server, mut script) = opened(&page, json!({})).await;
        script.passes(heard("focused;")).await;
        script.passes(json!({"kind": "press", "key": "Enter"})).await;
        script.passes(heard("focused;Enter;")).await;
        script.passes(json!({"kind": "press", "key": "Enter", "target": {"testid": "box"}})).await;
        script.passes(heard("focused;Enter;Enter;")).await;
        script.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_leads_away_as_soon_as_it_is_heard_has_arrived() {
    let page = r#"<!doctype html><p data-testid=here>here</p><script>
addEventListener("keydown", () => { location = "/next"; });
</script>"#;
    for key in ["Enter", "a"] {
        let server = Server::with(&[("/", page), ("/next", "<p data-testid=next>next</p>")]).await;
        let mut script = Script::start(&server, json!({})).await;
        script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
        script.passes(json!({"kind": "press", "key": key})).await;
        let next = json!([{"kind": "visible", "target": {"testid": "next"}}]);
        script.passes(json!({"kind": "wait_for", "conditions": next})).await;
        script.end().await;
    }
}

// S002-RU-09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_stops_keys_before_anyone_hears_of_them_gets_none_that_would_submit() {
    let page = r#"<!doctype html><form><div data-testid=box tabindex=0><input name=field></div></form><p data-testid=log></p><script>
for (const type of ["keydown", "keypress", "keyup", "beforeinput"])
  addEventListener(type, (event) => event.stopImmediatePropagation(), true);
addEventListener("submit", (event) => {
  event.preventDefault();
  document.querySelector("[data-testid=log]").textContent = "sent";
});
const field = document.querySelector("input");
document.querySelector("[data-testid=box]").addEventListener("focus", () => field.focus());
</script>"#;
    let (_server, mut script) = opened(page, json!({})).await;
    let press = json!({"kind": "press", "key": "Enter", "target": {"testid": "box"}});
    let details = refused(&mut script, press, "ACTION_CRITICAL_BLOCKED", ActionStage::Policy).await;
    assert_eq!(details["critical_reason"], "missing_strong_postcondition");
    script.passes(heard("")).await;
    script.end().await;
}

/// A box that hands the focus on to one of so many buttons in it, to the next one each time.
fn swapping(buttons: usize) -> String {
    let all: String = (0..buttons).map(|number| format!("<button>{number}</button>")).collect();
    format!(
        r#"<!doctype html><div data-testid=box tabindex=0>{all}</div><p data-testid=log></p><p data-testid=turns>0</p><script>
const by = (id) => document.querySelector(`[data-testid=${{id}}]`);
const buttons = document.querySelectorAll("button");
let turns = 0;
by("box").addEventListener("focus", () => {{
  buttons[turns % buttons.length].focus();
  turns += 1;
  by("turns").textContent = turns;
}});
by("box").addEventListener("click", (event) => {{ by("log").textContent += event.target.textContent + ";"; }});
</script>"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_focus_does_not_stay_is_sent_three_times_at_most() {
    let press = json!({"kind": "press", "target": {"testid": "box"}, "key": "Enter", "timeout_ms": 20_000});
    // Both have been judged when the focus comes back to the first one.
    let (_server, mut script) = opened(&swapping(2), json!({})).await;
    script.passes(press.clone()).await;
    script.passes(heard("0;")).await;
    script.end().await;

    let (_server, mut script) = opened(&swapping(9), json!({})).await;
    let details = refused(&mut script, press, "PRECONDITION_FAILED", ActionStage::Execution).await;
    assert_eq!(details["reason"], "focus_does_not_stay", "{details}");
    script.passes(heard("")).await;
    let turns = json!([{"kind": "text_equals", "target": {"testid": "turns"}, "value": "3"}]);
    script.passes(json!({"kind": "assert", "conditions": turns})).await;
    script.end().await;
}
