//! The crew of `capataz demo`: its plan, its agents and their work; and the site of the example scripts.

pub mod agent;
pub mod crew;
pub mod site;
