//! The agreement between the engine and the host of browsers: work for it is a [`BrowserTask`](crate::v1::BrowserTask),
//! its answer a [`BrowserOutcome`](crate::v1::BrowserOutcome).

/// The agent that every activity of a browser is for; it is part of the daemon.
pub const BROWSER_AGENT: &str = "capataz.browser";
/// Media type of a task and of an outcome.
pub const BROWSER_MEDIA_TYPE: &str = "application/x-protobuf";
/// The largest outcome, in bytes: what an action took from a page is kept in the log with it.
pub const OUTCOME_BYTES_MAX: usize = 1024 * 1024;

/// What the names of the tools begin with by which an execution uses its browser; the kind of an action follows.
pub const TOOL_PREFIX: &str = "browser.";
/// All of them, in the request of an execution.
pub const ALL_TOOLS: &str = "browser.*";
/// The tool that goes to an address.
pub const NAVIGATE_TOOL: &str = "browser.navigate";
/// The tool that tells what the page shows.
pub const OBSERVE_TOOL: &str = "browser.observe";
