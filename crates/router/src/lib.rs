//! Routing: finds the spec that should answer a text, with the reasons (seed 001).
//!
//! This crate is pure: no clock, no randomness, no I/O. The same files and the same text give the same bits.
//!
//! - [`spec`] holds the checked contents of a spec file. [`Catalogue`] is all of them.
//! - [`load`] reads spec files by the rules of `check`; [`lint`] finds valid but unwise contents.
//! - [`decision`] holds the input and the output of routing.
//! - [`text`] folds texts: case, accents and punctuation do not matter.
//! - [`model`] learns intents from examples; [`route`] adds keywords, patterns and context, and decides.
//! - [`explain`] takes a decision apart into its terms.
//! - [`eval`] measures a catalogue on labelled rows.
//! - [`template`] is the agent that answers from a spec's own templates.

mod check;
pub mod decision;
pub mod eval;
pub mod explain;
mod fold;
mod hash;
mod language;
pub mod lint;
pub mod load;
mod logit;
pub mod model;
mod phrases;
pub mod route;
pub mod spec;
pub mod template;
pub mod text;

pub use decision::{Alternative, Breakdown, Decision, Message, Query, Role};
pub use explain::Explanation;
pub use load::{SpecFileCode, SpecFileError};
pub use route::{Router, Scratch};
pub use spec::{Catalogue, Intent, Keyword, Language, Limits, Pattern, Refusal, Spec, Template, Transition};
