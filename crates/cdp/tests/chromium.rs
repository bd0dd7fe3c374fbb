//! The client against a real Chromium. Without one these tests fail; a machine that has none leaves them out by name.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::path::PathBuf;
use std::time::Duration;

use capataz_cdp::{Browser, Done, LaunchOptions, Session, passed_environment};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Launched {
    browser: Browser,
    folder: TempDir,
}

impl Launched {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = LaunchOptions::new("/usr/bin/chromium", folder.path().join("profile"));
        options.environment = passed_environment(true, |name| std::env::var_os(name));
        Self { browser: Browser::launch(options).await.unwrap(), folder }
    }

    fn profile(&self) -> PathBuf {
        self.folder.path().join("profile")
    }

    async fn page(&self) -> Session {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Created {
            target_id: String,
        }
        let browser = self.browser.connection().browser();
        let created: Created =
            browser.call("Target.createTarget", json!({ "url": "about:blank" })).await.unwrap();
        browser.attach(&created.target_id).await.unwrap()
    }
}

async fn evaluate(page: &Session, expression: &str) -> Value {
    let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
    let answer: Value = page.call("Runtime.evaluate", params).await.unwrap();
    answer["result"]["value"].clone()
}

#[tokio::test]
async fn a_page_evaluates_and_the_profile_is_gone_after_the_close() {
    let launched = Launched::new().await;
    assert!(launched.browser.version().product.contains("Chrome/"), "{:?}", launched.browser.version());
    let page = launched.page().await;
    assert_eq!(evaluate(&page, "6 * 7").await, 42);
    let mut loads = page.subscribe(&["Page.loadEventFired"]);
    page.call::<Done>("Page.enable", ()).await.unwrap();
    page.call::<Done>("Page.navigate", json!({ "url": "data:text/html,<title>hello</title>" }))
        .await
        .unwrap();
    assert_eq!(&*loads.next().await.unwrap().method, "Page.loadEventFired");
    assert_eq!(evaluate(&page, "document.title").await, "hello");
    let profile = launched.profile();
    assert!(profile.join("data").is_dir());
    let ended = launched.browser.close(Duration::from_secs(20)).await;
    assert!(ended.status.unwrap().success(), "{ended}");
    assert!(!profile.exists());
}
