//! What people read of runs, errors, answers and scripts: pure functions from the contract's messages to text, in English
//! and in Spanish.
//!
//! Nothing here prints, reads the clock or knows where the messages come from. The command line and the daemon's
//! `RenderReport` say the same, because both call this. All texts are in [`words`].

pub mod actions;
pub mod agent_stats;
pub mod analytics;
pub mod answer;
pub mod at_once;
pub mod classified;
pub mod compact;
pub mod error;
pub mod executing;
pub mod explain;
pub mod failed;
pub mod format;
pub mod frame;
pub mod log;
pub mod memory;
pub mod mode;
pub mod model;
pub mod pace;
pub mod paint;
pub mod payload;
pub mod pipeline;
pub mod refusal;
pub mod report;
pub mod retry;
pub mod run;
pub mod script;
pub mod session;
pub mod special;
pub mod table;
pub mod wave;
pub mod words;
