//! Watching a run: events in, text out.
//!
//! [`model`] folds events, [`lines`] and [`screen`] turn them and the fold into text; all three are pure. [`follow`] and
//! [`live`] do the rest.

pub mod follow;
pub mod lines;
pub mod live;
pub mod model;
pub mod screen;
pub mod script_lines;
