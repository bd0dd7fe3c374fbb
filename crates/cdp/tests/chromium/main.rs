//! The client against a real Chromium. Without one these tests fail; a machine that has none leaves them out by name.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod attached;
mod commands;
mod ends;
mod floor;
mod launch;
mod support;
