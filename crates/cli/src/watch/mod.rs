//! Watching a run: events in, text out.
//!
//! [`lines`] and [`screen`] turn events and their fold ([`capataz_display::model`]) into text; all three are pure. [`follow`] and
//! [`live`] do the rest.

pub mod follow;
pub mod lines;
pub mod live;
pub mod screen;
pub mod script_lines;
