//! The states of a task, and the permitted transitions between them (seed 000, contract 2).
#![expect(clippy::result_large_err, reason = "a refusal is the contract's own error, and rare")]

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use capataz_contracts::v1;
use serde::{Deserialize, Serialize};

use crate::codes::{self, owned};
use crate::registry;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    /// The task was never leased in this activation.
    Init,
    /// The task was leased at least once; the state includes automatic retries.
    Active,
    Complete,
    /// The task ended with an error or a timeout, or was cancelled after its start.
    Failed,
    RolledBack,
    /// The task will never run (again): it was cancelled before its start, or given up.
    Deleted,
}

impl TaskState {
    pub const ALL: [Self; 6] =
        [Self::Init, Self::Active, Self::Complete, Self::Failed, Self::RolledBack, Self::Deleted];

    /// The states that may follow this one.
    #[must_use]
    pub const fn allowed(self) -> &'static [Self] {
        match self {
            Self::Init => &[Self::Active, Self::Failed, Self::Deleted],
            Self::Active => &[Self::Complete, Self::Failed, Self::RolledBack],
            Self::Complete => &[Self::RolledBack],
            Self::Failed => &[Self::Active, Self::Deleted],
            Self::RolledBack => &[Self::Init],
            Self::Deleted => &[],
        }
    }

    /// The name in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Active => "ACTIVE",
            Self::Complete => "COMPLETE",
            Self::Failed => "FAILED",
            Self::RolledBack => "ROLLED_BACK",
            Self::Deleted => "DELETED",
        }
    }

    /// Reads the name of a state, in any case; the names of older texts (`in_progress`, `completed`, `error`) count as well.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let aliases = [("IN_PROGRESS", Self::Active), ("COMPLETED", Self::Complete), ("ERROR", Self::Failed)];
        let names = Self::ALL.into_iter().map(|state| (state.as_str(), state)).chain(aliases);
        let mut found = names.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, state)| state)
    }

    /// The state as the contract's enum.
    #[must_use]
    pub const fn to_proto(self) -> v1::TaskState {
        match self {
            Self::Init => v1::TaskState::Init,
            Self::Active => v1::TaskState::Active,
            Self::Complete => v1::TaskState::Complete,
            Self::Failed => v1::TaskState::Failed,
            Self::RolledBack => v1::TaskState::RolledBack,
            Self::Deleted => v1::TaskState::Deleted,
        }
    }

    /// The state with the contract's number; `None` for the unspecified one and for numbers that it does not have.
    #[must_use]
    pub fn from_proto(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.to_proto() as i32 == number)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the new state.
///
/// # Errors
/// [`refused`] if `to` may not follow `from`.
pub fn transition(from: TaskState, to: TaskState) -> Result<TaskState, v1::Error> {
    if from.allowed().contains(&to) { Ok(to) } else { Err(refused(from, to)) }
}

/// The error INVALID_STATE_TRANSITION (HIGH). `reason` names the permitted states, `suggested_action` the shortest way
/// to the wanted state, as in `INIT -> ACTIVE -> COMPLETE`. The error never offers to force the transition.
#[must_use]
pub fn refused(from: TaskState, to: TaskState) -> v1::Error {
    let allowed = match from.allowed() {
        [] => format!("nothing may follow {from}"),
        allowed => format!("{from} may be followed by {}", joined(allowed, ", ")),
    };
    let steps = steps_to(from, to).filter(|steps| !steps.is_empty());
    let (suggested_action, options): (_, &[&str]) = match steps {
        Some(mut steps) => {
            steps.insert(0, from);
            (Some(joined(&steps, " -> ")), &["correct", "abort"])
        }
        None => (None, &["abort"]),
    };
    v1::Error {
        options: owned(options),
        suggested_action,
        reason: Some(allowed),
        ..codes::error(codes::INVALID_STATE_TRANSITION, format!("invalid transition: {from} -> {to}"))
    }
}

/// The shortest sequence of states that leads from one state to another; empty if both are equal, `None` if no sequence
/// exists.
#[must_use]
pub fn steps_to(from: TaskState, to: TaskState) -> Option<Vec<TaskState>> {
    let mut seen = BTreeSet::from([from]);
    let mut ways = VecDeque::from([Vec::new()]);
    while let Some(way) = ways.pop_front() {
        let here = way.last().copied().unwrap_or(from);
        if here == to {
            return Some(way);
        }
        for &next in here.allowed() {
            if seen.insert(next) {
                let mut longer = way.clone();
                longer.push(next);
                ways.push_back(longer);
            }
        }
    }
    None
}

fn joined(states: &[TaskState], separator: &str) -> String {
    states.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(separator)
}

/// One transition of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// The earlier state; `None` for the first transition.
    pub from: Option<TaskState>,
    pub to: TaskState,
    /// The time in Unix milliseconds.
    pub at_ms: i64,
}

/// The states of a task with their times. There is always at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    transitions: Vec<Transition>,
}

impl History {
    /// A registered task in INIT.
    #[must_use]
    pub fn new(at_ms: i64) -> Self {
        Self { transitions: vec![Transition { from: None, to: TaskState::Init, at_ms }] }
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.transitions.last().map_or(TaskState::Init, |transition| transition.to)
    }

    /// Records a transition.
    ///
    /// # Errors
    /// Those of [`transition`]; the history stays unchanged.
    pub fn record(&mut self, to: TaskState, at_ms: i64) -> Result<TaskState, v1::Error> {
        let from = self.state();
        transition(from, to)?;
        self.transitions.push(Transition { from: Some(from), to, at_ms });
        Ok(to)
    }

    /// Checks that a finished task was active.
    ///
    /// # Errors
    /// INCOMPLETE_LIFECYCLE (MEDIUM) if the task ended COMPLETE or FAILED, or was rolled back, without ever being
    /// ACTIVE. A deleted task need not have been active.
    pub fn validate(&self, task: &str) -> Result<(), v1::Error> {
        let finished =
            matches!(self.state(), TaskState::Complete | TaskState::Failed | TaskState::RolledBack);
        if !finished || self.transitions.iter().any(|transition| transition.to == TaskState::Active) {
            return Ok(());
        }
        let actual: Vec<_> = self.transitions.iter().map(|transition| transition.to).collect();
        let (state, expected) = (self.state(), joined(&[TaskState::Init, TaskState::Active], " -> "));
        Err(v1::Error {
            reason: Some(format!("expected {expected} first, but it went {}", joined(&actual, " -> "))),
            ..codes::error(
                codes::INCOMPLETE_LIFECYCLE,
                format!("task {task:?} is {state} but never was ACTIVE"),
            )
        })
    }
}

/// The error for an unknown task name (CRITICAL). It suggests the nearest known names, by the rule for agents.
pub fn task_not_found(name: &str, known: impl IntoIterator<Item = impl AsRef<str>>) -> v1::Error {
    v1::Error {
        suggestions: registry::suggest_agents(name, known),
        ..codes::error(codes::TASK_NOT_FOUND, format!("there is no task {name:?}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::TaskState::{Active, Complete, Deleted, Failed, Init, RolledBack};
    use super::*;

    // S000-C2-05, S000-C2-07, S000-C2-08
    #[test]
    fn a_refusal_names_the_allowed_states_and_the_shortest_way() {
        #[track_caller]
        fn check(from: TaskState, to: TaskState, reason: &str, way: Option<&str>, options: &[&str]) {
            let error = transition(from, to).err().unwrap_or_default();
            assert_eq!(error.code, "INVALID_STATE_TRANSITION");
            assert_eq!(error.severity, v1::Severity::High as i32);
            assert_eq!(error.can_continue, Some(true));
            assert_eq!(error.message, format!("invalid transition: {from} -> {to}"));
            assert_eq!(error.reason.as_deref(), Some(reason));
            assert_eq!(error.suggested_action.as_deref(), way);
            assert_eq!(error.options, options);
        }
        let both: &[&str] = &["correct", "abort"];
        let init = "INIT may be followed by ACTIVE, FAILED, DELETED";
        check(Init, Complete, init, Some("INIT -> ACTIVE -> COMPLETE"), both);
        let complete = "COMPLETE may be followed by ROLLED_BACK";
        check(Complete, Active, complete, Some("COMPLETE -> ROLLED_BACK -> INIT -> ACTIVE"), both);
        check(Init, Init, init, None, &["abort"]);
        check(Deleted, Active, "nothing may follow DELETED", None, &["abort"]);
    }

    // S000-C2-18
    #[test]
    fn the_older_names_of_states_are_read() {
        for (name, state) in [
            ("init", Init),
            ("in_progress", Active),
            ("completed", Complete),
            ("error", Failed),
            ("ACTIVE", Active),
            ("Rolled_Back", RolledBack),
            ("DELETED", Deleted),
        ] {
            assert_eq!(TaskState::read(name), Some(state), "{name}");
        }
        assert_eq!(TaskState::read("done"), None);
    }

    #[test]
    fn a_failed_task_is_rolled_back_by_way_of_active() {
        assert_eq!(steps_to(Failed, RolledBack), Some(vec![Active, RolledBack]));
        assert_eq!(steps_to(Active, Active), Some(Vec::new()));
        assert_eq!(steps_to(Deleted, Init), None);
    }

    #[test]
    fn names_and_contract_numbers_read_back() {
        for state in TaskState::ALL {
            assert_eq!(TaskState::from_proto(state.to_proto() as i32), Some(state));
            assert_eq!(serde_json::to_value(state).ok(), Some(state.as_str().into()));
        }
        assert_eq!(TaskState::from_proto(0), None);
    }

    // S000-C2-03, S000-C2-06
    #[test]
    fn a_refused_step_leaves_the_history_as_it_was() {
        let mut history = History::new(1_000);
        assert!(history.record(Complete, 1_500).is_err());
        assert_eq!(history, History::new(1_000));
        assert_eq!(history.record(Active, 2_000).ok(), Some(Active));
        assert_eq!(history.record(Complete, 4_500).ok(), Some(Complete));
        assert_eq!(history.state(), Complete);
        assert!(history.validate("build").is_ok());
        let steps: Vec<_> = history.transitions.iter().map(|step| (step.from, step.to, step.at_ms)).collect();
        assert_eq!(
            steps,
            [(None, Init, 1_000), (Some(Init), Active, 2_000), (Some(Active), Complete, 4_500)]
        );
    }

    // S000-C2-10
    #[test]
    fn a_task_that_fails_without_having_been_active_has_an_incomplete_lifecycle() {
        let mut history = History::new(0);
        assert!(history.validate("build").is_ok());
        assert!(history.record(Failed, 1).is_ok());
        let error = history.validate("build").err().unwrap_or_default();
        assert_eq!(
            (error.code.as_str(), error.severity),
            ("INCOMPLETE_LIFECYCLE", v1::Severity::Medium as i32)
        );
        assert_eq!(error.message, "task \"build\" is FAILED but never was ACTIVE");
        assert_eq!(
            error.reason.as_deref(),
            Some("expected INIT -> ACTIVE first, but it went INIT -> FAILED")
        );
        assert!(history.record(Deleted, 2).is_ok());
        assert!(history.validate("build").is_ok());
    }

    // S000-C2-09
    #[test]
    fn an_unknown_task_is_critical_and_gets_near_names() {
        let error = task_not_found("biuld", ["build", "deploy-to-production"]);
        assert_eq!((error.code.as_str(), error.severity), ("TASK_NOT_FOUND", v1::Severity::Critical as i32));
        assert_eq!(error.can_continue, Some(false));
        assert_eq!(error.suggestions, ["build"]);
    }

    fn states() -> impl Strategy<Value = TaskState> {
        proptest::sample::select(TaskState::ALL.to_vec())
    }

    proptest! {
        // S000-C2-08
        #[test]
        fn a_suggested_way_can_be_gone_and_none_is_shorter(from in states(), to in states()) {
            let Some(way) = steps_to(from, to) else { return Ok(()) };
            let mut here = from;
            for step in &way {
                prop_assert_eq!(transition(here, *step).ok(), Some(*step));
                here = *step;
            }
            prop_assert_eq!(here, to);
            // Every state but the last is one step farther than the rest of the way says.
            if let Some((first, rest)) = way.split_first() {
                prop_assert_eq!(steps_to(*first, to).map(|steps| steps.len()), Some(rest.len()));
                for other in from.allowed() {
                    prop_assert!(steps_to(*other, to).is_none_or(|steps| steps.len() >= rest.len()));
                }
            }
        }

        // S000-C2-02
        #[test]
        fn a_history_holds_only_allowed_steps(attempts in proptest::collection::vec(states(), 0..30)) {
            let mut history = History::new(0);
            for (at_ms, to) in (1..).zip(attempts) {
                let before = history.state();
                prop_assert_eq!(history.record(to, at_ms).is_ok(), before.allowed().contains(&to));
            }
            for pair in history.transitions.windows(2) {
                let [one, next] = pair else { continue };
                prop_assert_eq!(next.from, Some(one.to));
                prop_assert!(one.to.allowed().contains(&next.to));
            }
        }
    }
}
