//! What the router promises: decisions, their reasons, their explanations, and that the same input gives the same bits.
#![expect(clippy::unwrap_used, reason = "tests")]

mod allocations;
mod determinism;
mod evaluation;
mod explanations;
mod properties;
mod routing;
mod support;
