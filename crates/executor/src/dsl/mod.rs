//! The DSL: what scripts, policies and actions mean, and the rules that they keep (seed 002, section 4; CONTRACTS §3).
//!
//! A script is checked as a whole before anything is started ([`check_script`]); each action is read once more when it
//! is about to be performed, with the values of variables and outputs in their places.

mod action;
mod check;
mod condition;
mod defaults;
mod findings;
mod policy;
mod reader;
mod target;

pub use check::{check_action, check_script};
pub use defaults::{materialise, materialise_action, materialise_policy};
pub use policy::Policy;
pub use target::RESOLUTION_ORDER;

pub(crate) use action::Action;
pub(crate) use check::{read_action, violated_rules};
pub(crate) use condition::{Condition, Matcher, Test, kind_name};
