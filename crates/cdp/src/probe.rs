//! A test of whether a browser really starts on this machine: one is started, asked for a sum, and ended. One that runs
//! already is attached to, and left.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::time::Instant;

use crate::attach::{AttachError, AttachOptions, Attached, Endpoint};
use crate::browser::{Browser, Version};
use crate::error::{CallError, LaunchError};
use crate::options::LaunchOptions;
use crate::patience::within;

/// Longest wait for a polite end.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Longest wait for the first answers of a browser that runs already.
const RUNNING_LIMIT: Duration = Duration::from_secs(15);

/// A browser that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    pub version: Version,
    /// From the start of the process to its first answer.
    pub start: Duration,
    /// From there to the answer of a page's script.
    pub page: Duration,
    /// From there to the end of everything that was started.
    pub end: Duration,
}

/// Why a browser is of no use. It has ended, or is being killed.
#[derive(Debug, Error)]
pub enum ProbeError {
    #[error(transparent)]
    Launch(LaunchError),
    /// It starts, and no page can be used.
    #[error("a page does not answer")]
    Page(#[source] CallError),
    #[error("a page did not answer within {0:?}")]
    Silent(Duration),
    #[error("a page says that 1 + 1 is {0}")]
    WrongSum(serde_json::Value),
}

/// Starts a browser, has a page add two numbers, and ends it again.
///
/// # Errors
/// [`ProbeError`]
pub async fn probe(options: LaunchOptions) -> Result<Probed, ProbeError> {
    let limit = options.answer_limit;
    let begun = Instant::now();
    let browser = Browser::launch(options).await.map_err(ProbeError::Launch)?;
    let started = Instant::now();
    let sum = within(limit, sum(&browser)).await;
    let answered = Instant::now();
    let version = browser.version().clone();
    browser.close(CLOSE_LIMIT).await;
    match sum {
        Some(Ok(sum)) if sum == 2 => {
            Ok(Probed { version, start: started - begun, page: answered - started, end: answered.elapsed() })
        }
        Some(Ok(sum)) => Err(ProbeError::WrongSum(sum)),
        Some(Err(error)) => Err(ProbeError::Page(error)),
        None => Err(ProbeError::Silent(limit)),
    }
}

/// Attaches to a browser that a person runs, and leaves it again. Returns how long that took.
///
/// # Errors
/// [`AttachError`]
pub async fn probe_running(endpoint: Endpoint) -> Result<Duration, AttachError> {
    let begun = Instant::now();
    let options = AttachOptions { endpoint, proxy: None, download_folder: None, answer_limit: RUNNING_LIMIT };
    Attached::attach(options).await?.close(CLOSE_LIMIT).await;
    Ok(begun.elapsed())
}

/// The user that a browser is started as, and whether that is root, whose browsers have no sandbox.
pub fn user() -> (u32, bool) {
    let user = rustix::process::geteuid();
    (user.as_raw(), user.is_root())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    target_id: String,
}

#[derive(Deserialize)]
struct Evaluated {
    result: Value,
}

#[derive(Deserialize)]
struct Value {
    #[serde(default)]
    value: serde_json::Value,
}

async fn sum(browser: &Browser) -> Result<serde_json::Value, CallError> {
    let session = browser.connection().browser();
    let created: Created = session.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
    let page = session.attach(&created.target_id).await?;
    let question = json!({ "expression": "1 + 1", "returnByValue": true });
    let answer: Evaluated = page.call("Runtime.evaluate", question).await?;
    Ok(answer.result.value)
}
