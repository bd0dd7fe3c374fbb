//! The rules of the contract that types cannot state. Each check reports all violations at once, at most 100 and then
//! how many more (rule `truncated`).
//!
//! Policies are not validated here: retry, timeout and aggregation rules belong to the policies themselves, and whether
//! an agent exists to the registry.

mod ask;
mod browser;
mod executor_error;
mod hello;
mod mode;
mod payload;
mod pipeline;
mod plan;
mod references;
mod request;
mod script;
mod script_policy;
mod worker_frame;

pub use ask::{CONTEXT_MAX, TEXT_MAX, entry_bytes};
pub use browser::{open_browser, propose, storage_state};
pub use executor_error::executor_error;
pub use hello::{AGENTS_BYTES_MAX, AGENTS_MAX, DESCRIPTION_MAX, PROTOCOL, SLOTS_MAX, hello};
pub use mode::{ALL_AGENTS, MODE_STEPS_MAX, TOOLS_MAX, WORKSPACE_MAX, mode, query};
pub use payload::{INLINE_MAX, payload};
pub use pipeline::{
    PHASE_INPUT_MAX, PHASE_ITEMS_MAX, PHASES_MAX, PIPELINE_BYTES_MAX, PIPELINE_INPUT_MAX, SUMMARY_KEYS_MAX,
    pipeline,
};
pub use plan::{PlanLimits, plan};
pub use request::{
    RESERVED_LABELS, accept_transition, ask, continue_run, event_filter, fork_run, labels, list_runs,
    session, start_run,
};
pub use script::{
    ACTION_BYTES_MAX, ACTIONS_MAX, CONDITION_DEPTH_MAX, FRAMES_MAX, SCRIPT_BYTES_MAX, action, script,
};
pub use worker_frame::{FRAME_MAX, LOG_MAX, worker_frame};

use crate::path::Path;
use crate::violation::Violations;

/// Limits of scripts, for whoever reads them further.
pub mod script_limits {
    pub use super::script::RETRIES_MAX;
    pub use super::script_policy::{ALLOWLIST_MAX, ITEMS_MAX, MULTIPLIER_MAX, STEPS_MAX};
}

/// The longest name of anything, in characters.
pub const NAME_MAX: usize = 128;

/// 1 to 128 characters, none of them a control character.
fn name(name: &str, what: &str, path: &Path<'_>, violations: &mut Violations) {
    if let Some((rule, message)) = wrong_name(name, what) {
        violations.push(path, rule, message);
    }
}

fn wrong_name(name: &str, what: &str) -> Option<(&'static str, String)> {
    // Characters are counted only up to the limit: a name can be as long as a message.
    if name.is_empty() {
        Some(("required", format!("{what} is missing")))
    } else if name.chars().nth(NAME_MAX).is_some() {
        Some(("length", format!("{what} is longer than {NAME_MAX} characters")))
    } else if name.chars().any(char::is_control) {
        Some(("characters", format!("{what} has control characters")))
    } else {
        None
    }
}

/// Why no worker can serve an agent of this name: the rule and a message; `None` where one can.
#[must_use]
pub fn wrong_agent_name(name: &str) -> Option<(&'static str, String)> {
    wrong_name(name, "the agent's name")
}

/// An optional enum that is set must be a known value, and not the unspecified one.
fn optional_enum<E: TryFrom<i32>>(value: Option<i32>, path: &Path<'_>, violations: &mut Violations) {
    match value {
        None => {}
        Some(0) => violations.push(path, "enum", "set, but to no value; leave it out"),
        Some(number) if E::try_from(number).is_err() => {
            violations.push(path, "enum", format!("there is no value {number}"));
        }
        Some(_) => {}
    }
}

/// An enum that has a default where it is unspecified.
fn defaulted_enum<E: TryFrom<i32>>(value: i32, path: &Path<'_>, violations: &mut Violations) {
    if E::try_from(value).is_err() {
        violations.push(path, "enum", format!("there is no value {value}"));
    }
}
