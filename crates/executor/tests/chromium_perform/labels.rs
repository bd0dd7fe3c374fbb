//! Boxes and file inputs that are not displayed, used through the labels that people see in their place.

use capataz_executor::perform::Performer;
use serde_json::{Value, json};

use super::{Script, Server};

/// One box and one file input within their labels, whose texts are elements of their own, and one of each beside its label.
/// `log` has each change of one, and each click that a box gets.
const PAGE: &str = r#"<!doctype html><title>Settings</title><style>input { display: none } label { display: block }</style>
<label data-testid=wraps><input type=checkbox name=news data-testid=news> <span>News</span></label>
<label data-testid=names for=terms>Terms</label><input type=checkbox name=terms id=terms data-testid=terms>
<label data-testid=wraps-file><input type=file name=photo data-testid=photo> <span>Photo</span></label>
<label data-testid=names-file for=paper>Paper</label><input type=file name=paper id=paper data-testid=paper>
<p data-testid=log></p><script>
const say = (text) => { document.querySelector("[data-testid=log]").textContent += text + ";"; };
addEventListener("click", ({ target }) => { if (target.localName === "input") say(`click ${target.name}`); });
addEventListener("change", ({ target }) => {
  say(target.type === "file" ? `${target.name} ${Array.from(target.files, (file) => file.name)}` : `${target.name} ${target.checked}`);
});
</script>"#;

async fn opened(policy: Value) -> (Server, Script) {
    let server = Server::with(&[("/", PAGE)]).await;
    let mut script = Script::start(&server, policy).await;
    script.passes(json!({"kind": "navigate", "url": server.url("/")})).await;
    (server, script)
}

fn heard(events: &str) -> Value {
    let condition = json!({"kind": "text_equals", "target": {"testid": "log"}, "value": events});
    json!({"kind": "assert", "conditions": [condition]})
}

/// The ways to name a control: by itself, by what its label says, and by the label.
fn named(control: &str, text: &str, label: &str) -> [Value; 4] {
    [json!({"testid": control}), json!({"label": text}), json!({"testid": label}), json!({"text": text})]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_is_not_displayed_is_checked_and_unchecked_once_through_its_label() {
    let (_server, mut script) = opened(json!({})).await;
    let mut events = String::new();
    for (control, text, label) in [("news", "News", "wraps"), ("terms", "Terms", "names")] {
        for target in named(control, text, label) {
            for (kind, state, is_checked) in [("check", "checked", true), ("uncheck", "unchecked", false)] {
                let post = json!([{"kind": state, "target": {"testid": control}}]);
                let action = json!({"kind": kind, "target": target, "post": post});
                let outcome = script.passes(action.clone()).await;
                assert!(outcome.touched, "{action}");
                events += &format!("click {control};{control} {is_checked};");
                script.passes(heard(&events)).await;
                // What is so already is left alone.
                let outcome = script.passes(action.clone()).await;
                assert!(!outcome.touched, "{action}");
                script.passes(heard(&events)).await;
            }
        }
    }
    script.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_input_that_is_not_displayed_gets_the_file_once_through_its_label() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path().to_str().unwrap();
    let (_server, mut script) = opened(json!({"upload_folders": [folder]})).await;
    script.performer = Performer::new(script.performer.policy().clone(), vec![files.path().to_owned()]);
    let mut events = String::new();
    for (control, text, label) in [("photo", "Photo", "wraps-file"), ("paper", "Paper", "names-file")] {
        for (number, target) in named(control, text, label).into_iter().enumerate() {
            // An input that has the file already would not change.
            let name = format!("{control}-{number}.txt");
            let file = files.path().join(&name);
            std::fs::write(&file, "a").unwrap();
            let post = json!([{"kind": "upload_listed", "target": {"testid": control}}]);
            let action = json!({"kind": "upload", "target": target, "files": [file], "post": post});
            let outcome = script.passes(action.clone()).await;
            assert!(outcome.touched, "{action}");
            events += &format!("{control} {name};");
            script.passes(heard(&events)).await;
        }
    }
    script.end().await;
}
