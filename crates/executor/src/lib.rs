//! Deterministic browser actions: one is validated, its target found, its conditions checked, its input sent, and what
//! effect proved (seed 002).
//!
//! The executor performs ONE action. Retry, recovery and halts are the engine's. Nothing but the adapter to Chromium
//! knows DevTools; everything else sees a [`Page`](page::Page).
//!
//! Begin reading with [`dsl`] (what an action means, and which rules it keeps), then [`perform`] (its stages), with
//! [`evidence`] and [`redact`] beside it (what is kept of a page, and what never is).

pub mod allowlist;
pub mod browsers;
pub mod chromium;
pub mod dsl;
pub mod evidence;
pub mod keys;
pub mod page;
pub mod perform;
pub mod redact;

mod error;
mod text;
