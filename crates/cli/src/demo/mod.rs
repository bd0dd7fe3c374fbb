//! The crew of `capataz demo`: its plan, its agents and their work.

pub mod agent;
pub mod crew;
