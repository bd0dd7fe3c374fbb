//! The crew of `capataz demo`: its plan, its agents, and what the agents do.

pub mod agent;
pub mod crew;
