//! Language models as agents: `[[models]]` of the configuration. A model is asked once for each assignment; trying again is the
//! shard's.
//!
//! Begin with [`ModelAgent`], which is what the configuration declares, and [`Models`], which serves them.

mod agent;
mod serve;
#[cfg(test)]
mod tests;

pub use agent::{ModelAgent, Price};
pub use serve::{MODEL_HOST, Models};
