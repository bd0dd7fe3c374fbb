//! The promises of the router: decisions, their reasons, their explanations, and the same bits for the same input.
#![expect(clippy::unwrap_used, reason = "tests")]

mod allocations;
mod determinism;
mod drawn;
mod evaluation;
mod explanations;
mod few;
mod properties;
mod routing;
mod support;
