//! The injected script on a real Chromium. Without one these tests fail; a machine that has none leaves them out by name.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod drawn;
mod facts;
mod guard;
mod input;
mod locate;
mod measure;
mod outline;
mod rest;
mod roles;
mod secrets;
mod settle;
mod state;
mod support;
