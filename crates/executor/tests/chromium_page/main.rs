//! The adapter against a real Chromium and servers of the tests' own. Without a browser these tests fail; a machine that
//! has none leaves them out by the name of this file.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod allowlist;
mod departures;
mod dialogs;
mod files;
mod frames;
mod input;
mod loss;
mod measure;
mod navigation;
mod observation;
mod page_log;
mod pictures;
mod storage;
mod support;
mod tabs;
