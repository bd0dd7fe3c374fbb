//! The limits of a script, read once from its policy. A script that was accepted has them all; the defaults are for one
//! that was made by hand.

use std::time::Duration;

use capataz_contracts::v1;
use capataz_policy::executor as defaults;

use super::state::ScriptState;

pub(super) struct Limits<'a> {
    policy: Option<&'a v1::ScriptPolicy>,
    backoff: Option<&'a v1::ScriptBackoff>,
}

impl<'a> Limits<'a> {
    pub(super) fn of(script: &'a ScriptState) -> Self {
        let policy = script.script.policy.as_ref();
        Self { policy, backoff: policy.and_then(|policy| policy.backoff.as_ref()) }
    }

    /// Actions that may begin.
    pub(super) fn max_steps(&self) -> u32 {
        self.policy.and_then(|policy| policy.max_steps).unwrap_or(defaults::MAX_STEPS)
    }

    /// How often a state may be seen again.
    pub(super) fn same_state_revisit(&self) -> u32 {
        self.policy.and_then(|policy| policy.same_state_revisit).unwrap_or(defaults::SAME_STATE_REVISIT)
    }

    pub(super) fn retry_limit(&self) -> u32 {
        self.policy.and_then(|policy| policy.retry_limit).unwrap_or(defaults::RETRY_LIMIT)
    }

    /// Retries of one action, which may have a limit of its own.
    pub(super) fn retry_limit_of(&self, action: &v1::Action) -> u32 {
        action.retry.as_ref().and_then(|retry| retry.limit).unwrap_or_else(|| self.retry_limit())
    }

    pub(super) fn recovery_limit(&self) -> u32 {
        self.policy.and_then(|policy| policy.recovery_limit).unwrap_or(defaults::RECOVERY_LIMIT)
    }

    /// Returns whether an action is tried again after this code.
    pub(super) fn is_retried(&self, action: &v1::Action, code: &str) -> bool {
        let listed = |codes: &[String]| codes.iter().any(|listed| listed == code);
        match &action.retry {
            Some(retry) if !retry.on.is_empty() => listed(&retry.on),
            _ => self.policy.is_some_and(|policy| listed(&policy.retry_on)),
        }
    }

    /// The first rule for the error's code counts.
    pub(super) fn recovery_for(&self, code: &str) -> Option<&'a v1::Recovery> {
        self.policy?.recovery.iter().find(|rule| rule.on.iter().any(|listed| listed == code))
    }

    /// Milliseconds.
    pub(super) fn backoff_base(&self) -> i64 {
        let own = self.backoff.and_then(|backoff| backoff.base_delay_ms);
        own.unwrap_or(milliseconds(defaults::BACKOFF_BASE))
    }

    pub(super) fn backoff_multiplier(&self) -> f64 {
        self.backoff.and_then(|backoff| backoff.multiplier).unwrap_or(defaults::BACKOFF_MULTIPLIER)
    }

    /// Milliseconds.
    pub(super) fn backoff_longest(&self) -> i64 {
        let own = self.backoff.and_then(|backoff| backoff.max_delay_ms);
        own.unwrap_or(milliseconds(defaults::BACKOFF_LONGEST))
    }

    /// The longest time that the executor takes for the action. Milliseconds.
    pub(super) fn longest_of(&self, action: Option<&v1::Action>) -> i64 {
        let own = action.and_then(|action| action.timeout_ms).unwrap_or_default();
        let of_actions = self.policy.and_then(|policy| policy.action_timeout_ms);
        let of_navigations = self.policy.and_then(|policy| policy.navigation_timeout_ms);
        own.max(of_actions.unwrap_or(milliseconds(defaults::ACTION_TIMEOUT)))
            .max(of_navigations.unwrap_or(milliseconds(defaults::NAVIGATION_TIMEOUT)))
    }
}

impl ScriptState {
    /// How long an interactive session waits for a proposal, and any browser for a person. Milliseconds.
    pub(super) fn idle_timeout_ms(&self) -> i64 {
        self.script.idle_timeout_ms.unwrap_or(milliseconds(defaults::IDLE_TIMEOUT))
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
