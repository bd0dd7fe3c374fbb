//! The state of a session while a plan is at work in it: the phase follows the plan, what is pending and what it waits for
//! are named, its failures are counted, and its end is an entry of the history (seed 000, contract 7).

use serde_json::{Map, Value, json};

use super::repair::iso;

/// The command whose phases a plan goes through.
const COMMAND: &str = "execute";
/// Entries of the history that are kept, the newest ones.
const HISTORY: usize = 100;
/// Tasks that are named as pending, the first ones.
pub const PENDING: usize = 100;

/// How far a plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has its turn in the session.
    Begun,
    /// This wave is at work, from 1.
    Wave(u32),
    /// The last wave has ended.
    Verifying,
    Ended(Result),
}

/// How a plan has ended, as the history tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    Succeeded,
    SucceededWithFailures,
    Failed,
    Cancelled,
}

impl Result {
    const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::SucceededWithFailures => "succeeded_with_failures",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The command that a person would give next.
    const fn suggested_next(self) -> &'static str {
        match self {
            Self::Succeeded | Self::SucceededWithFailures => "verify-work",
            Self::Failed => "debug",
            Self::Cancelled => COMMAND,
        }
    }
}

impl Stage {
    /// The phase of `current_flow`.
    #[must_use]
    pub fn phase(self) -> String {
        match self {
            Self::Begun => "initializing".to_owned(),
            Self::Wave(number) => format!("executing_wave_{number}"),
            Self::Verifying => "verifying".to_owned(),
            Self::Ended(_) => "done".to_owned(),
        }
    }
}

/// Where a plan stands, as its session is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    pub run_id: &'a str,
    pub stage: Stage,
    /// What it waits for.
    pub blocked_on: Option<String>,
    /// The tasks that have not settled, in order.
    pub pending: Vec<&'a str>,
    /// Its failures of severity HIGH and above, so far.
    pub failures: u64,
}

/// The fields of the state that have other values at this point of the plan, at `now_ms`, in Unix milliseconds. The fields of a
/// state that is empty are all of those that a session begins with.
#[must_use]
pub fn changes(state: &Map<String, Value>, progress: &Progress<'_>, now_ms: i64) -> Map<String, Value> {
    let before = state;
    let initial = if state.is_empty() { super::initial(now_ms) } else { Map::new() };
    let value = |field: &str| before.get(field).or_else(|| initial.get(field));
    let flow = value("current_flow")
        .and_then(Value::as_object)
        .filter(|flow| flow.get("run_id").and_then(Value::as_str) == Some(progress.run_id));
    let now = iso(now_ms);
    let mut state = initial.clone();
    let mut set = |field: &str, value: Value| state.insert(field.to_owned(), value);

    // What the flow has counted before is in the session's count already. A person's retry takes a failure back.
    let counted = flow.and_then(|flow| flow.get("errors")).and_then(Value::as_u64).unwrap_or(0);
    let errors = value("errors").and_then(Value::as_object).cloned().unwrap_or_default();
    let count = errors.get("count").and_then(Value::as_u64).unwrap_or(0);
    let count = count.saturating_sub(counted).saturating_add(progress.failures);
    let mut errors = errors;
    errors.insert("count".to_owned(), json!(count));
    set("errors", Value::Object(errors));

    let started_at = flow.and_then(|flow| flow.get("started_at")).cloned().unwrap_or_else(|| json!(now));
    let pending: Vec<&str> = progress.pending.iter().take(PENDING).copied().collect();
    set("pending_tasks", json!(pending));
    set("blocked_on", json!(progress.blocked_on));
    match progress.stage {
        Stage::Ended(result) => {
            set("current_flow", Value::Null);
            let entry = json!({
                "command": COMMAND,
                "completed_at": now,
                "result": result.name(),
                "run_id": progress.run_id,
            });
            let mut history = value("history").and_then(Value::as_array).cloned().unwrap_or_default();
            history.push(entry);
            let surplus = history.len().saturating_sub(HISTORY);
            history.drain(..surplus);
            set("history", Value::Array(history));
            set("suggested_next", json!(result.suggested_next()));
        }
        Stage::Begun | Stage::Wave(_) | Stage::Verifying => {
            let flow = json!({
                "command": COMMAND,
                "phase": progress.stage.phase(),
                "started_at": started_at,
                "run_id": progress.run_id,
                "errors": progress.failures,
            });
            set("current_flow", flow);
            set("suggested_next", Value::Null);
        }
    }
    state.retain(|field, value| before.get(field) != Some(&*value));
    // A clock that was set back makes no session older than it is.
    let updated = before.get("updated_at").and_then(Value::as_str);
    let updated = updated.filter(|updated| super::milliseconds(updated) >= now_ms);
    state.insert("updated_at".to_owned(), json!(updated.map_or(now, str::to_owned)));
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::violations;

    const RUN: &str = "0199aaaa-bbbb-7ccc-8ddd-112233445566";
    /// 2024-01-20T15:00:00Z.
    const NOON: i64 = 1_705_762_800_000;

    fn at(stage: Stage) -> Progress<'static> {
        Progress { run_id: RUN, stage, blocked_on: None, pending: Vec::new(), failures: 0 }
    }

    #[track_caller]
    fn after(state: &mut Map<String, Value>, progress: &Progress<'_>, seconds: i64) {
        let changed = changes(state, progress, NOON + seconds * 1_000);
        state.extend(changed);
        assert_eq!(violations(state), []);
    }

    // S000-C7-27, S000-IN-07
    #[test]
    fn a_plan_of_two_waves_goes_through_the_phases_of_execute_and_is_in_the_history() {
        let mut state = Map::new();
        after(&mut state, &at(Stage::Begun), 0);
        assert_eq!(state["version"], "1.0.0");
        assert_eq!(state["created_at"], "2024-01-20T15:00:00.000Z");
        let flow = json!({
            "command": "execute",
            "phase": "initializing",
            "started_at": "2024-01-20T15:00:00.000Z",
            "run_id": RUN,
            "errors": 0,
        });
        assert_eq!(state["current_flow"], flow);
        let first = Progress { pending: vec!["review", "test", "report"], ..at(Stage::Wave(1)) };
        after(&mut state, &first, 1);
        assert_eq!(state["current_flow"]["phase"], "executing_wave_1");
        assert_eq!(state["pending_tasks"], json!(["review", "test", "report"]));
        let second = Progress { pending: vec!["report"], failures: 1, ..at(Stage::Wave(2)) };
        after(&mut state, &second, 20);
        assert_eq!(state["current_flow"]["phase"], "executing_wave_2");
        assert_eq!(state["current_flow"]["started_at"], "2024-01-20T15:00:00.000Z");
        assert_eq!(state["errors"], json!({ "count": 1 }));
        after(&mut state, &Progress { failures: 1, ..at(Stage::Verifying) }, 30);
        assert_eq!(state["current_flow"]["phase"], "verifying");
        let ended = Stage::Ended(Result::SucceededWithFailures);
        after(&mut state, &Progress { failures: 1, ..at(ended) }, 30);
        assert_eq!(state["current_flow"], Value::Null);
        assert_eq!(state["pending_tasks"], json!([]));
        assert_eq!(state["errors"], json!({ "count": 1 }), "each failure counts once");
        assert_eq!(state["suggested_next"], "verify-work");
        assert_eq!(state["updated_at"], "2024-01-20T15:00:30.000Z");
        let entry = json!({
            "command": "execute",
            "completed_at": "2024-01-20T15:00:30.000Z",
            "result": "succeeded_with_failures",
            "run_id": RUN,
        });
        assert_eq!(state["history"], json!([entry]));
    }

    #[test]
    fn what_a_plan_waits_for_is_named_until_it_goes_on() {
        let mut state = Map::new();
        after(&mut state, &at(Stage::Begun), 0);
        let blocked = Progress { blocked_on: Some("q5: go on?".to_owned()), ..at(Stage::Wave(1)) };
        after(&mut state, &blocked, 1);
        assert_eq!(state["blocked_on"], "q5: go on?");
        after(&mut state, &at(Stage::Wave(1)), 2);
        assert_eq!(state["blocked_on"], Value::Null);
    }

    #[test]
    fn what_a_session_knew_is_kept_and_only_what_changes_is_told() {
        let Value::Object(mut state) = json!({
            "version": "2.1",
            "created_at": "2024-01-19T00:00:00Z",
            "updated_at": "2024-01-20T14:00:00Z",
            "current_flow": { "command": "plan", "phase": "planning", "started_at": "2024-01-20T13:00:00Z" },
            "context": { "project_type": "brownfield", "tech_stack": ["nextjs"] },
            "history": [{ "command": "plan", "completed_at": "2024-01-20T13:50:00Z", "result": "created" }],
            "errors": { "count": 3, "last": "E" },
            "note": "of ours",
        }) else {
            panic!("an object")
        };
        let begun = changes(&state, &at(Stage::Begun), NOON);
        let told: Vec<&str> = begun.keys().map(String::as_str).collect();
        let expected = ["blocked_on", "current_flow", "pending_tasks", "suggested_next", "updated_at"];
        assert_eq!(told, expected);
        state.extend(begun);
        after(&mut state, &Progress { failures: 2, ..at(Stage::Ended(Result::Failed)) }, 60);
        assert_eq!(state["errors"], json!({ "count": 5, "last": "E" }));
        assert_eq!(state["history"].as_array().map(Vec::len), Some(2));
        assert_eq!(state["suggested_next"], "debug");
        assert_eq!((&state["version"], &state["note"]), (&json!("2.1"), &json!("of ours")));
        assert_eq!(state["context"]["project_type"], "brownfield");
    }

    #[test]
    fn a_failure_that_a_retry_has_taken_back_counts_no_more() {
        let mut state = Map::new();
        after(&mut state, &at(Stage::Begun), 0);
        after(&mut state, &Progress { failures: 2, ..at(Stage::Wave(1)) }, 1);
        after(&mut state, &Progress { failures: 1, ..at(Stage::Ended(Result::SucceededWithFailures)) }, 2);
        assert_eq!(state["errors"], json!({ "count": 1 }));
    }

    // S000-C7-27
    #[test]
    fn a_clock_that_was_set_back_leaves_a_valid_state() {
        let mut state = Map::new();
        after(&mut state, &at(Stage::Begun), 0);
        after(&mut state, &at(Stage::Wave(1)), -3_600);
        assert_eq!(state["updated_at"], "2024-01-20T15:00:00.000Z");
    }

    #[test]
    fn a_time_that_is_finer_than_ours_is_kept_where_it_is_later() {
        let Value::Object(mut state) = json!({
            "version": "1.0.0",
            "created_at": "2024-01-20T15:00:00.000900Z",
            "updated_at": "2024-01-20T15:00:00.000900Z",
        }) else {
            panic!("an object")
        };
        after(&mut state, &at(Stage::Begun), -5);
        assert_eq!(state["updated_at"], "2024-01-20T15:00:00.000900Z");
        after(&mut state, &at(Stage::Wave(1)), 0);
        assert_eq!(state["updated_at"], "2024-01-20T15:00:00.000900Z");
    }

    #[test]
    fn lists_have_their_bounds_and_the_newest_of_the_history_stays() {
        let names: Vec<String> = (0..250).map(|number| format!("t{number}")).collect();
        let mut state = Map::new();
        let pending = Progress { pending: names.iter().map(String::as_str).collect(), ..at(Stage::Begun) };
        after(&mut state, &pending, 0);
        assert_eq!(state["pending_tasks"].as_array().map(Vec::len), Some(100));
        for second in 1..=150 {
            after(&mut state, &at(Stage::Begun), second);
            after(&mut state, &at(Stage::Ended(Result::Cancelled)), second);
        }
        let history = state["history"].as_array().cloned().unwrap_or_default();
        assert_eq!(history.len(), 100);
        assert_eq!(
            history.last().map(|entry| &entry["completed_at"]),
            Some(&json!("2024-01-20T15:02:30.000Z"))
        );
        assert_eq!(state["suggested_next"], "execute");
    }
}
