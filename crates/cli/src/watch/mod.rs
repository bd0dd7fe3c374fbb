//! Watching a run: events in, text out.
//!
//! [`lines`], [`screen`] and [`view`] turn events and their fold ([`capataz_display::model`]) into text; all of them are pure.
//! [`keys`] reads what is pressed meanwhile, [`more_time`] is what the one key does, and [`asking`] has questions answered. [`follow`] and
//! [`live`] do the rest.

mod asking;
pub mod follow;
pub mod keys;
pub mod lines;
pub mod live;
pub mod mode_lines;
mod more_time;
mod pipeline_lines;
pub mod screen;
pub mod script_lines;
mod view;
