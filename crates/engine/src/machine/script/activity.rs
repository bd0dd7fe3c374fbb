//! The work that the browser's host is given. Each activity of a script is a wave of one task.

use capataz_contracts::browser::{BROWSER_AGENT, BROWSER_MEDIA_TYPE};
use capataz_contracts::placeholder;
use capataz_contracts::v1::{self, BrowserActivity, event::Body};
use capataz_policy::executor::kind_traits;
use prost::Message;

use super::limits::Limits;
use super::state::ScriptState;
use crate::fold::state::RunState;
use crate::machine::Step;
use crate::machine::own_browser::OwnBrowser;
use crate::plan::Plan;

/// The limit for opening, which may have to wait until another browser is closed. Milliseconds.
const OPEN_TIMEOUT_MS: i64 = 5 * 60_000;
/// The time that a host may need beyond an action's own limits. Milliseconds.
const HOST_SLACK_MS: i64 = 60_000;

/// Returns whether actions of this kind are meant to change the page or the application behind it.
pub(super) fn changes_something(action: Option<&v1::Action>) -> bool {
    action.and_then(|action| kind_traits(action.kind())).is_some_and(|traits| traits.changes)
}

impl ScriptState {
    /// Begins an activity of the browser. With a failure nothing is performed: the host says that the activity fails
    /// with it.
    pub(super) fn begin(
        &self,
        run: &RunState,
        activity: BrowserActivity,
        step_index: Option<u32>,
        failure: Option<v1::DecidedFailure>,
    ) -> Step {
        let number = u32::try_from(self.activities.len()).unwrap_or(u32::MAX);
        let action = match (activity, step_index) {
            (BrowserActivity::Action, Some(step)) => self.action(step).map(|action| self.filled_in(action)),
            (BrowserActivity::Recovery, Some(step)) => self.recovery_for(step),
            _ => None,
        };
        let opens = activity == BrowserActivity::Open;
        let restore = opens && matches!(self.browser, OwnBrowser::Kept { .. });
        let task = v1::BrowserTask {
            activity: activity.into(),
            step_index,
            action: action.clone(),
            name: self.script.name.clone(),
            policy: if opens { self.script.policy.clone() } else { None },
            browser: if opens { self.script.browser.clone() } else { None },
            last_state: self.last_state.clone(),
            last_evidence: self.last_evidence.clone(),
            interactive: self.script.interactive,
            keep_storage: activity == BrowserActivity::Close && self.error.is_none() && failure.is_none(),
            failure: failure.clone(),
            restore,
            show_page: restore && self.may_show_again(run),
            ..v1::BrowserTask::default()
        };
        let effect = match failure {
            // Reporting a decided failure has no effect.
            Some(_) => v1::Effect::AtLeastOnce,
            None => effect_of(activity, action.as_ref()),
        };
        let task = v1::Task {
            name: task_name(activity, action.as_ref()),
            agent: BROWSER_AGENT.to_owned(),
            input: Some(v1::Payload {
                media_type: BROWSER_MEDIA_TYPE.to_owned(),
                data: Some(v1::payload::Data::Inline(task.encode_to_vec().into())),
            }),
            effect: Some(effect.into()),
            timeouts: Some(timeouts_of(activity, action.as_ref(), &Limits::of(self))),
            retry: Some(self.retries_of(action.as_ref())),
            ..v1::Task::default()
        };
        let name = Some(wave_name(activity, step_index));
        let mut wave = v1::Wave { name, tasks: vec![task], policy: None };
        Plan::fill_policies(&mut wave);
        let declared = (activity == BrowserActivity::Action).then(|| self.action(step_index?)).flatten();
        Step::Begin(Body::BrowserActivityStarted(Box::new(v1::BrowserActivityStarted {
            activity: activity.into(),
            step_index,
            action,
            wave: Some(wave),
            number,
            failure,
            changes: changes_something(declared),
        })))
    }

    fn retries_of(&self, action: Option<&v1::Action>) -> v1::RetryPolicy {
        let limits = Limits::of(self);
        let limit = action.map_or(0, |action| limits.retry_limit_of(action)).saturating_sub(self.retries);
        v1::RetryPolicy {
            max_attempts: Some(limit.saturating_add(1)),
            base_delay_ms: Some(limits.backoff_base()),
            backoff_multiplier: Some(limits.backoff_multiplier()),
            max_delay_ms: Some(limits.backoff_longest()),
            ..v1::RetryPolicy::default()
        }
    }

    /// The action with variables and outputs in their places. A placeholder without a value stays as it
    /// is: the executor refuses it, with the state of the page as evidence.
    fn filled_in(&self, action: &v1::Action) -> v1::Action {
        let read = |(name, text): (&String, &String)| Some((name.clone(), serde_json::from_str(text).ok()?));
        let outputs = self.outputs.iter().filter_map(read).collect();
        placeholder::substitute(action, &self.script.variables, &outputs).unwrap_or_else(|_| action.clone())
    }

    /// The recovery before the next try of the action, as an action.
    fn recovery_for(&self, step: u32) -> Option<v1::Action> {
        let rule = Limits::of(self).recovery_for(&self.recovering_from)?;
        let kind = match rule.r#do() {
            v1::RecoveryKind::Reload => v1::ActionKind::Reload,
            v1::RecoveryKind::Back => v1::ActionKind::Back,
            v1::RecoveryKind::CloseOverlay | v1::RecoveryKind::Unspecified => v1::ActionKind::Click,
        };
        Some(v1::Action {
            id: self.action(step)?.id.clone(),
            kind: kind.into(),
            target: rule.target.clone(),
            rationale: Some(format!("recovery from {}", self.recovering_from)),
            criticality: Some(v1::Criticality::Normal.into()),
            repeatable: Some(true),
            ..v1::Action::default()
        })
    }
}

fn wave_name(activity: BrowserActivity, step_index: Option<u32>) -> String {
    let number = step_index.map_or(0, |step| step.saturating_add(1));
    match activity {
        BrowserActivity::Action => format!("action-{number}"),
        BrowserActivity::Recovery => format!("recovery-{number}"),
        BrowserActivity::Close => "close".to_owned(),
        BrowserActivity::Open | BrowserActivity::Observe | BrowserActivity::Unspecified => "open".to_owned(),
    }
}

pub(super) fn task_name(activity: BrowserActivity, action: Option<&v1::Action>) -> String {
    let id = action.map_or("", |action| action.id.as_str());
    match activity {
        BrowserActivity::Action => id.to_owned(),
        BrowserActivity::Recovery => format!("recovery:{id}"),
        BrowserActivity::Close => "browser:close".to_owned(),
        BrowserActivity::Open | BrowserActivity::Observe | BrowserActivity::Unspecified => {
            "browser:open".to_owned()
        }
    }
}

/// A critical action, or one that was not declared repeatable, is never repeated by itself where nobody knows what became
/// of it (CONTRACTS §3).
fn effect_of(activity: BrowserActivity, action: Option<&v1::Action>) -> v1::Effect {
    match (activity, action) {
        (BrowserActivity::Action, Some(action)) if !may_repeat(action) => v1::Effect::AtMostOnce,
        _ => v1::Effect::AtLeastOnce,
    }
}

/// Returns whether an action that was performed may be performed again.
pub(in crate::machine) fn may_repeat(action: &v1::Action) -> bool {
    let by_nature = || kind_traits(action.kind()).is_some_and(|traits| traits.repeatable);
    action.criticality() != v1::Criticality::Critical && action.repeatable.unwrap_or_else(by_nature)
}

/// Opening may have to wait for a browser that is in use. An action's own limits are the executor's; these are for a host
/// that does not come back.
fn timeouts_of(
    activity: BrowserActivity,
    action: Option<&v1::Action>,
    limits: &Limits<'_>,
) -> v1::TimeoutPolicy {
    let timeout_ms = match activity {
        BrowserActivity::Open => OPEN_TIMEOUT_MS,
        _ => limits.longest_of(action).saturating_mul(3).saturating_add(HOST_SLACK_MS),
    };
    v1::TimeoutPolicy { timeout_ms: Some(timeout_ms), grace_ms: Some(5_000), schedule_to_start_ms: None }
}
