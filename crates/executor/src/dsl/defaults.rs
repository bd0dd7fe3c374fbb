//! What a script means where it says nothing. The accepted script holds all of it, so that a log can be read without
//! knowing the defaults of its day.

use std::time::Duration;

use capataz_contracts::v1::{
    self, ActionKind, BlockedRequests, DialogAnswer, LowerCriticality, NewTabs, OnFailure, PageLog, Pictures,
    WaitUntil,
};
use capataz_policy::executor::{
    ACTION_TIMEOUT, BACKOFF_BASE, BACKOFF_LONGEST, BACKOFF_MULTIPLIER, IDLE_TIMEOUT, MAX_STEPS,
    NAVIGATION_TIMEOUT, RECOVERY_LIMIT, RETRY_LIMIT, SAME_STATE_REVISIT, kind_traits,
};

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 720;
const LOCALE: &str = "en-US";
const TIMEZONE: &str = "UTC";
const TESTID_ATTRIBUTE: &str = "data-testid";

/// Fills every default of a script in, those of its policy, its browser and its actions. Filling them in twice changes
/// nothing more.
pub fn materialise(script: &mut v1::Script) {
    let policy = script.policy.get_or_insert_default();
    // Whoever proposes an action to a session, such as a model, cannot call it harmless.
    let lower = if script.interactive { LowerCriticality::Forbid } else { LowerCriticality::Allow };
    policy.lower_criticality.get_or_insert(lower as i32);
    materialise_policy(policy);
    for action in &mut script.actions {
        materialise_action(action, policy);
    }
    let browser = script.browser.get_or_insert_default();
    browser.width.get_or_insert(WIDTH);
    browser.height.get_or_insert(HEIGHT);
    browser.locale.get_or_insert_with(|| LOCALE.to_owned());
    browser.timezone.get_or_insert_with(|| TIMEZONE.to_owned());
    if script.interactive {
        script.idle_timeout_ms.get_or_insert(milliseconds(IDLE_TIMEOUT));
    }
}

/// Fills the defaults of a policy in.
pub fn materialise_policy(policy: &mut v1::ScriptPolicy) {
    policy.blocked_requests.get_or_insert(BlockedRequests::Fail as i32);
    policy.max_steps.get_or_insert(MAX_STEPS);
    policy.same_state_revisit.get_or_insert(SAME_STATE_REVISIT);
    policy.retry_limit.get_or_insert(RETRY_LIMIT);
    policy.recovery_limit.get_or_insert(RECOVERY_LIMIT);
    policy.dialogs.get_or_insert(DialogAnswer::Dismiss as i32);
    policy.new_tabs.get_or_insert(NewTabs::Follow as i32);
    policy.testid_attribute.get_or_insert_with(|| TESTID_ATTRIBUTE.to_owned());
    policy.pictures.get_or_insert(Pictures::Always as i32);
    policy.page_log.get_or_insert(PageLog::Off as i32);
    policy.action_timeout_ms.get_or_insert(milliseconds(ACTION_TIMEOUT));
    policy.navigation_timeout_ms.get_or_insert(milliseconds(NAVIGATION_TIMEOUT));
    let backoff = policy.backoff.get_or_insert_default();
    backoff.base_delay_ms.get_or_insert(milliseconds(BACKOFF_BASE));
    backoff.multiplier.get_or_insert(BACKOFF_MULTIPLIER);
    backoff.max_delay_ms.get_or_insert(milliseconds(BACKOFF_LONGEST));
}

/// Fills the defaults of an action in, of a policy that has its own filled in. An action of no kind stays as it is.
pub fn materialise_action(action: &mut v1::Action, policy: &v1::ScriptPolicy) {
    let kind = ActionKind::try_from(action.kind).unwrap_or_default();
    let Some(traits) = kind_traits(kind) else { return };
    // What a click, a drag or a key does is known when its element is: where nothing is declared, that decides.
    let decides_late = match kind {
        ActionKind::Click
        | ActionKind::DoubleClick
        | ActionKind::Drag
        | ActionKind::Check
        | ActionKind::Uncheck
        | ActionKind::Press => true,
        // It begins with a click there.
        ActionKind::Download => action.target.is_some(),
        _ => false,
    };
    if !decides_late {
        action.criticality.get_or_insert(traits.criticality as i32);
    }
    action.repeatable.get_or_insert(traits.repeatable);
    action.on_failure.get_or_insert(OnFailure::Halt as i32);
    if matches!(kind, ActionKind::Navigate | ActionKind::Back | ActionKind::Forward | ActionKind::Reload) {
        action.wait_until.get_or_insert(WaitUntil::Load as i32);
    }
    if action.timeout_ms.is_none() {
        action.timeout_ms =
            if traits.navigates { policy.navigation_timeout_ms } else { policy.action_timeout_ms };
    }
    if action.dialogs.is_none() {
        action.dialogs = policy.dialogs;
    }
    let retry = action.retry.get_or_insert_default();
    if retry.on.is_empty() {
        retry.on.clone_from(&policy.retry_on);
    }
    if retry.limit.is_none() {
        retry.limit = policy.retry_limit;
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
