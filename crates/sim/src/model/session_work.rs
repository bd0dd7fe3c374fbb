//! The state of a session's work as its stream tells it, and what it owes to the plans of the session (CONTRACTS §1.7).

use std::collections::BTreeSet;

use capataz_contracts::v1::{self, SessionStateCause as Cause};
use capataz_store::RunId;
use serde_json::{Map, Value};

use super::log::RunModel;

/// Entries of the history that are kept.
const HISTORY: usize = 100;

#[derive(Clone, Debug, Default)]
pub struct WorkModel {
    state: Map<String, Value>,
    /// States that users have brought, each with what was repaired of it.
    imported: Vec<(Map<String, Value>, Vec<String>)>,
    /// Failures that the session had counted when the plan at work began.
    errors_before: u64,
    ended: BTreeSet<RunId>,
}

impl WorkModel {
    /// Whether a user has brought this state, and these repairs are known, where there were some.
    #[must_use]
    pub fn had(&self, state: &str, repairs: &[String]) -> bool {
        let state = object(state);
        self.imported.iter().any(|(had, known)| *had == state && (repairs.is_empty() || known == repairs))
    }

    /// Takes one more writing of the state. `run` is the plan that it names, `active` the run whose turn it is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn written(
        &mut self,
        written: &v1::SessionStateWritten,
        run: Option<&RunModel>,
        active: Option<RunId>,
    ) -> Result<(), &'static str> {
        let fields = object(&written.fields);
        let is = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
        let (errors, history, number) = (self.errors(), self.history(), self.wave());
        if written.cause() == Cause::Imported {
            is(active.is_none() || self.flow_of() != active, "a plan is at work")?;
            is(written.run_id.is_empty(), "an import is of no run")?;
            is(
                self.state != fields || !written.repairs.is_empty(),
                "it was there, and nothing was repaired",
            )?;
            self.imported.push((fields.clone(), written.repairs.clone()));
            self.state = fields;
            return Ok(());
        }
        let Some(run) = run else { return Err("the run never was") };
        is(run.plan_has_turn(), "it is not the plan's turn")?;
        is(active == Some(run.run) || run.finished.is_some(), "another run is at work")?;
        is(!self.ended.contains(&run.run), "the plan has ended before")?;
        let of_plan = self.flow_of() == Some(run.run);
        self.state.extend(fields);
        is(self.state.get("version").is_some_and(Value::is_string), "it has no version")?;
        is(self.state.get("updated_at").is_some_and(Value::is_string), "it has no time")?;
        match written.cause() {
            Cause::RunBegun => {
                self.errors_before = errors;
                is(!of_plan && self.phase() == Some("initializing"), "a plan begins with another phase")
            }
            Cause::WaveBegun => {
                let now = self.wave();
                let goes_on = now > number && now <= run.waves.len();
                let went_back = now.checked_sub(1).is_some_and(|place| run.went_back_to.contains(&place));
                is(of_plan && (goes_on || went_back), "it is not the plan's wave")
            }
            Cause::Waiting => is(of_plan && self.wave() == number, "what it waits for changes the phase"),
            Cause::Verifying => is(
                of_plan && self.phase() == Some("verifying") && run.finished.is_some(),
                "results are judged before all of them are there",
            ),
            Cause::RunEnded => {
                self.ended.insert(run.run);
                let summary = run.summary();
                let failures = u64::from(summary.critical) + u64::from(summary.high);
                is(of_plan && self.state.get("current_flow") == Some(&Value::Null), "a flow is left")?;
                is(self.errors() == self.errors_before + failures, "failures are counted wrongly")?;
                is(self.state.get("pending_tasks") == Some(&Value::Array(Vec::new())), "tasks are left")?;
                let now = self.history();
                let Some((last, before)) = now.split_last() else { return Err("there is no history") };
                is(
                    history.ends_with(before) && before.len() == history.len().min(HISTORY - 1),
                    "history is lost",
                )?;
                let result = match run.finished.and_then(|outcome| v1::RunOutcome::try_from(outcome).ok()) {
                    Some(v1::RunOutcome::Succeeded) => "succeeded",
                    Some(v1::RunOutcome::SucceededWithFailures) => "succeeded_with_failures",
                    Some(v1::RunOutcome::Cancelled) => "cancelled",
                    _ => "failed",
                };
                let told = (last["command"].as_str(), last["result"].as_str(), last["run_id"].as_str());
                is(told == (Some("execute"), Some(result), Some(&run.run.to_string())), "it is another end")
            }
            Cause::Imported | Cause::Unspecified => Err("there is no cause"),
        }
    }

    /// Whether the state says where the plan is, once what the plan has done is durable.
    #[must_use]
    pub fn follows(&self, run: &RunModel) -> bool {
        if run.finished.is_some() {
            return self.ended.contains(&run.run);
        }
        let phase = match run.waves.len() {
            0 => "initializing".to_owned(),
            wave => format!("executing_wave_{wave}"),
        };
        let blocked = self.state.get("blocked_on").is_some_and(Value::is_string);
        self.flow_of() == Some(run.run) && self.phase() == Some(&*phase) && blocked == run.is_held()
    }

    fn flow(&self) -> Option<&Map<String, Value>> {
        self.state.get("current_flow")?.as_object()
    }

    fn flow_of(&self) -> Option<RunId> {
        self.flow()?.get("run_id")?.as_str()?.parse().ok()
    }

    fn phase(&self) -> Option<&str> {
        self.flow()?.get("phase")?.as_str()
    }

    /// The wave at work, from 1; 0 for none.
    fn wave(&self) -> usize {
        let number = self.phase().and_then(|phase| phase.strip_prefix("executing_wave_")?.parse().ok());
        number.unwrap_or(0)
    }

    fn errors(&self) -> u64 {
        self.state.get("errors").and_then(|errors| errors.get("count")?.as_u64()).unwrap_or(0)
    }

    fn history(&self) -> Vec<Value> {
        self.state.get("history").and_then(Value::as_array).cloned().unwrap_or_default()
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}
