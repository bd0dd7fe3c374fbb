//! The program, tested as people use it, with a real browser.

mod kill;
mod kill_modes;
mod modes;
mod report;
mod reports;

// Shared with the tests that need no browser.
#[path = "../it/reported/mod.rs"]
mod reported;
#[path = "../it/served/mod.rs"]
mod served;
