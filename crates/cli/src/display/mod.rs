//! The appearance of results and errors: pure functions from the contract's messages to text.
//!
//! Nothing here prints, reads the clock or knows where the messages come from. All texts are in [`crate::text`].

pub mod actions;
pub mod answer;
pub mod error;
pub mod format;
pub mod frame;
pub mod paint;
pub mod payload;
pub mod retry;
pub mod run;
pub mod special;
pub mod table;
pub mod wave;
