//! Routing: a text in, the spec that should answer it out, with the reasons (seed 001).
//!
//! Pure: no clock, no randomness, no I/O. The same files and the same text give the same bits.
//!
//! - [`spec`] holds what a spec file says, after it was checked. [`Catalogue`] is all of them.
//! - [`decision`] holds what routing is asked and what it answers.

pub mod decision;
pub mod spec;

pub use decision::{Alternative, Breakdown, Decision, Message, Query, Role};
pub use spec::{Catalogue, Intent, Keyword, Language, Pattern, Spec, Template};
