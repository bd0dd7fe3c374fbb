//! What must never happen, from end to end: a click that goes elsewhere, a request to another host, a secret that is kept,
//! a page that takes the daemon with it (seed 002). A daemon, a real Chromium, a site of two hosts.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod allowlist;
mod attached;
mod bad_browsers;
mod bad_pages;
#[allow(dead_code, reason = "each of the binaries uses its part of it")]
#[path = "../chromium_scripts/bench.rs"]
mod bench;
#[path = "../it/support/kept_log.rs"]
mod kept_log;
mod persons_browser;
mod races;
mod secrets;
#[allow(dead_code, reason = "each of the binaries uses its part of it")]
#[path = "../chromium_scripts/session.rs"]
mod session;
mod support;
