//! Scripts from end to end: a daemon, a real Chromium, a site of two hosts (seed 002).
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod actions;
mod bench;
mod codes;
mod conditions;
mod executions;
mod forms;
mod kept;
mod loss;
mod proof;
mod repeatable;
mod rules;
mod session;
mod sessions;
