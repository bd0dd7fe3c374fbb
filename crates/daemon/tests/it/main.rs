//! The daemon over a real socket, with scripted workers that say exactly what a test wants.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bad_input;
mod leases;
mod requests;
mod scenarios;
mod streams;
mod support;
