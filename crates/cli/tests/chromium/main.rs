//! The program, tested as people use it, with a real browser.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "start programs, and wait for what they show"
)]

mod doctor;
mod examples;
mod kill;
mod kill_modes;
mod modes;
mod report;
mod reports;
mod watched;

// Shared with the tests that need no browser.
#[path = "../it/reported/mod.rs"]
mod reported;
#[path = "../it/served/mod.rs"]
mod served;
#[path = "../it/terminal/mod.rs"]
mod terminal;
