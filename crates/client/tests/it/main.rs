//! The client and the worker SDK against a fake daemon on a real connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod calls;
mod daemon;
mod events;
mod executor;
mod proxy;
mod worker;
