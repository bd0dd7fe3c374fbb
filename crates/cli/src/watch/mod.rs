//! Watching a run: events in, text out.
//!
//! [`lines`], [`screen`] and [`view`] turn events and their fold ([`capataz_display::model`]) into text; all of them are pure.
//! [`keys`] reads what is pressed meanwhile: [`more_time`] is what one key does, and the others answer the questions of plans
//! ([`choosing`]). [`asking`] has the questions of other runs answered in lines. [`follow`] and [`live`] do the rest.

mod asking;
mod choosing;
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
