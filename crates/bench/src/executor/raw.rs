//! The protocol alone: a browser with one tab, and commands that check nothing.

use std::path::Path;
use std::time::Duration;

use capataz_cdp::{Browser, Done, LaunchOptions, Reply, Session};
use serde::Deserialize;
use serde_json::{Value, json};

use super::browsers::{HEIGHT, WIDTH};
use crate::Outcome;

#[derive(Debug)]
pub(super) struct RawPage {
    browser: Browser,
    session: Session,
}

impl RawPage {
    pub(super) async fn open(program: &Path, profile: &Path) -> Outcome<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            target_id: String,
        }
        let mut options = LaunchOptions::new(program, profile);
        options.environment = capataz_cdp::passed_environment(true, |name| std::env::var_os(name));
        let browser = Browser::launch(options).await?;
        let root = browser.connection().browser();
        let created: Created = root.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let session = root.attach(&created.target_id).await?;
        let size = json!({ "width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false });
        let _: Done = session.call("Emulation.setDeviceMetricsOverride", size).await?;
        let _: Done = session.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await?;
        Ok(Self { browser, session })
    }

    /// Loads a document to its end.
    pub(super) async fn navigate(&self, url: &str) -> Outcome<()> {
        Ok(self.session.navigate(url, "Page.loadEventFired").await?)
    }

    /// The value of an expression; a promise is waited for.
    pub(super) async fn evaluate(&self, expression: &str) -> Outcome<Value> {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer: Value = self.session.call("Runtime.evaluate", params).await?;
        if answer.get("exceptionDetails").is_some() {
            return Err(format!("{expression}: {answer}").into());
        }
        Ok(answer.pointer("/result/value").cloned().unwrap_or_default())
    }

    /// Move, press and release, sent one after the other without waiting between them.
    pub(super) async fn click(&self, (x, y): (f64, f64)) -> Outcome<()> {
        let kinds = [("mouseMoved", "none", 0), ("mousePressed", "left", 1), ("mouseReleased", "left", 1)];
        let sent = kinds.map(|(kind, button, count)| -> Reply<Done> {
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
            self.session.send("Input.dispatchMouseEvent", event)
        });
        for reply in sent {
            reply.await?;
        }
        Ok(())
    }

    /// A click in the centre of an element, once its box is the same in two frames.
    pub(super) async fn steady_click(&self, selector: &str) -> Outcome<()> {
        let script = format!(
            "(async (element) => {{ \
               let box = element.getBoundingClientRect(); \
               for (;;) {{ \
                 await new Promise(done => requestAnimationFrame(done)); \
                 const now = element.getBoundingClientRect(); \
                 if (now.x === box.x && now.y === box.y) return [now.x + now.width / 2, now.y + now.height / 2]; \
                 box = now; \
               }} \
             }})(document.querySelector('{selector}'))"
        );
        self.click(serde_json::from_value(self.evaluate(&script).await?)?).await
    }

    /// Focus, selection and text in the place of the old one.
    pub(super) async fn fill(&self, selector: &str, text: &str) -> Outcome<()> {
        self.evaluate(&format!(
            "(input => (input.focus(), input.select()))(document.querySelector('{selector}'))"
        ))
        .await?;
        let _: Done = self.session.call("Input.insertText", json!({ "text": text })).await?;
        Ok(())
    }

    /// Characters of the encoded picture.
    pub(super) async fn picture(&self) -> Outcome<usize> {
        let params = json!({ "format": "png", "optimizeForSpeed": true });
        let answer: Value = self.session.call("Page.captureScreenshot", params).await?;
        Ok(answer.get("data").and_then(Value::as_str).ok_or("no picture")?.len())
    }

    pub(super) async fn close(self) {
        self.browser.close(Duration::from_secs(10)).await;
    }
}
