//! A script: browser actions, one after the other (seed 002). A thin machine over the activity machine: to open the
//! browser, to perform an action, to recover and to close are waves of one task each, for the browser's host.
//!
//! What comes next is a function of the state alone ([`RunState::script_step`]), so that a restart takes it up again.

use std::collections::BTreeMap;
use std::time::Duration;

use capataz_contracts::v1;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::executor as limits;

use crate::activity::End;
use crate::snapshot::as_bytes;
use crate::state::{Phase, RunState, Timestamp};

/// What only a script has.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ScriptState {
    /// With every default filled in. Actions that are proposed are added to it.
    #[serde(with = "as_bytes::one")]
    pub(crate) script: v1::Script,
    /// One for each wave.
    pub(crate) activities: Vec<BrowserWork>,
    /// JSON texts by the names of the outputs.
    pub(crate) outputs: BTreeMap<String, String>,
    /// How often the browser came into a state, by the signature's parts.
    pub(crate) arrivals: BTreeMap<String, u32>,
    /// The state in which the browser was seen last, and the evidence of it.
    #[serde(with = "as_bytes::option")]
    pub(crate) last_state: Option<v1::StateSignature>,
    #[serde(with = "as_bytes::list")]
    pub(crate) last_evidence: Vec<v1::EvidenceRef>,
    /// Of the action in work.
    pub(crate) retries: u32,
    pub(crate) recoveries: u32,
    /// The code that the last recovery was for.
    pub(crate) recovering_from: String,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    /// Why the script ends.
    #[serde(with = "as_bytes::option")]
    pub(crate) error: Option<v1::ExecutorError>,
    pub(crate) closing: bool,
    /// When an interactive session that nobody uses is closed.
    pub(crate) idle_at: Option<Timestamp>,
}

/// Evidence of a state that is named again where the browser cannot be asked any more.
const LASTING_EVIDENCE: &[&str] = &["dom_snapshot_partial", "state_signature"];

/// What a wave of a script is for.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct BrowserWork {
    pub(crate) activity: i32,
    pub(crate) step: u32,
    /// What follows from its failure, in [`v1::AfterFailure`]; `None` before it has failed.
    pub(crate) after_failure: Option<i32>,
    /// Nothing is performed: it fails as the engine has decided.
    pub(crate) decided: bool,
}

/// What a script does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptStep {
    Open,
    /// An activity is in work.
    Wait,
    /// Nobody has proposed the next action yet.
    AwaitProposal,
    Act {
        step: u32,
    },
    Recover {
        step: u32,
    },
    /// The last activity has ended without an error of the executor: the host is asked for one.
    Explain,
    Close {
        ended_well: bool,
    },
    Finish,
}

impl ScriptState {
    pub(crate) fn new(script: v1::Script) -> Self {
        Self {
            script,
            activities: Vec::new(),
            outputs: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            last_state: None,
            last_evidence: Vec::new(),
            retries: 0,
            recoveries: 0,
            recovering_from: String::new(),
            succeeded: 0,
            failed: 0,
            error: None,
            closing: false,
            idle_at: None,
        }
    }

    pub(crate) fn begin(&mut self, activity: i32, step: u32, decided: bool) {
        if activity == v1::BrowserActivity::Action as i32 && !self.has_begun(step) {
            self.retries = 0;
            self.recoveries = 0;
        }
        self.activities.push(BrowserWork { activity, step, after_failure: None, decided });
    }

    /// Whether the action of this number is the one that began last.
    pub(crate) fn has_begun(&self, step: u32) -> bool {
        let is_action = |work: &&BrowserWork| work.activity == v1::BrowserActivity::Action as i32;
        self.activities.iter().rev().find(is_action).is_some_and(|work| work.step == step)
    }

    pub(crate) fn finished(&mut self, event: v1::ActionFinished) {
        let is_action = event.activity == v1::BrowserActivity::Action as i32;
        let changes = self.action(event.step_index).is_some_and(changes_something);
        if is_action {
            self.succeeded = self.succeeded.saturating_add(1);
        }
        if let Some(output) = event.output {
            self.outputs.insert(output.name, output.value);
        }
        self.see(event.state_before, event.state_after, &event.evidence, is_action && changes);
    }

    pub(crate) fn failed(&mut self, event: v1::ActionFailed) -> Option<()> {
        use v1::AfterFailure::{Continue, Halt, Recover, Retry};
        let error = event.error?;
        let is_action = event.activity == v1::BrowserActivity::Action as i32;
        let changes = error.step_index.and_then(|step| self.action(step));
        let changes = is_action && changes.is_some_and(changes_something);
        let ended =
            |after: Option<i32>| after.is_some_and(|after| after == Continue as i32 || after == Halt as i32);
        if let Some(work) = self.activities.last_mut().filter(|work| work.activity == event.activity) {
            if is_action && ended(Some(event.next)) && !ended(work.after_failure) {
                self.failed = self.failed.saturating_add(1);
            }
            work.after_failure = Some(event.next);
        }
        self.see(error.state_before.clone(), error.state_after.clone(), &error.evidence_refs, changes);
        match v1::AfterFailure::try_from(event.next).unwrap_or_default() {
            Retry if is_action => self.retries = self.retries.saturating_add(1),
            Recover => {
                self.recoveries = self.recoveries.saturating_add(1);
                self.recovering_from = error.error_code;
            }
            Halt => self.error = Some(error),
            _ => {}
        }
        Some(())
    }

    /// What is known of the page from now on.
    fn see(
        &mut self,
        before: Option<v1::StateSignature>,
        after: Option<v1::StateSignature>,
        evidence: &[v1::EvidenceRef],
        changes: bool,
    ) {
        if let (Some(after), true) = (&after, changes) {
            let arrivals = self.arrivals.entry(state_key(after)).or_default();
            *arrivals = arrivals.saturating_add(1);
        }
        self.last_state = after.or(before).or(self.last_state.take());
        let lasting: Vec<v1::EvidenceRef> = evidence
            .iter()
            .filter(|piece| LASTING_EVIDENCE.contains(&piece.kind.as_str()))
            .cloned()
            .collect();
        if !lasting.is_empty() {
            self.last_evidence = lasting;
        }
    }

    pub(crate) fn policy(&self) -> v1::ScriptPolicy {
        self.script.policy.clone().unwrap_or_default()
    }

    pub(crate) fn action(&self, step: u32) -> Option<&v1::Action> {
        self.script.actions.get(step as usize)
    }

    /// How often the browser has come back into the state in which it is.
    pub(crate) fn revisits(&self) -> u32 {
        let arrivals = self.last_state.as_ref().and_then(|state| self.arrivals.get(&state_key(state)));
        arrivals.copied().unwrap_or_default().saturating_sub(1)
    }

    pub(crate) fn idle_timeout_ms(&self) -> i64 {
        self.script.idle_timeout_ms.unwrap_or(milliseconds(limits::IDLE_TIMEOUT))
    }
}

/// Whether the action is of a kind that is meant to change the page, or what is behind it.
pub(crate) fn changes_something(action: &v1::Action) -> bool {
    limits::kind_traits(action.kind()).is_some_and(|traits| traits.changes)
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What two signatures have in common where they are of one state (CONTRACTS §3): not the picture.
fn state_key(state: &v1::StateSignature) -> String {
    format!("{} {} {} {}", state.url, state.dom_hash, state.anchors_hash, state.inputs_hash)
}

impl RunState {
    /// What this script does next; `None` for a run that is no script, or that ends, or waits for a person.
    #[must_use]
    pub fn script_step(&self) -> Option<ScriptStep> {
        let script = self.script.as_ref()?;
        if !matches!(self.phase, Phase::Running) || self.is_waiting() {
            return None;
        }
        let (Some(wave), Some(work)) = (self.waves.last(), script.activities.last()) else {
            return Some(ScriptStep::Open);
        };
        let Some(end) = wave.tasks.first().and_then(|activity| activity.end.as_ref()) else {
            return Some(ScriptStep::Wait);
        };
        Some(script.after(work, end))
    }

    /// The end of a script, for whoever waits for it.
    pub(crate) fn script_result(&self) -> Option<v1::ScriptResult> {
        let script = self.script.as_ref()?;
        let outputs = script.outputs.iter();
        Some(v1::ScriptResult {
            outputs: outputs
                .map(|(name, value)| v1::ActionOutput { name: name.clone(), value: value.clone() })
                .collect(),
            succeeded: script.succeeded,
            failed: script.failed,
            total: u32::try_from(script.script.actions.len()).unwrap_or(u32::MAX),
            error: script.error.clone(),
        })
    }

    /// Whether this is a session to which actions are proposed.
    #[must_use]
    pub fn is_interactive(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.script.interactive)
    }
}

impl ScriptState {
    fn after(&self, work: &BrowserWork, end: &End) -> ScriptStep {
        use v1::BrowserActivity::{Action, Close, Open, Recovery};
        let succeeded = end.status == ResultStatus::Success;
        match v1::BrowserActivity::try_from(work.activity).unwrap_or_default() {
            // A recovery is no verdict on the action, whatever became of it.
            Recovery => ScriptStep::Act { step: work.step },
            Open if succeeded => self.next(0),
            Action if succeeded => self.next(work.step.saturating_add(1)),
            Close if succeeded => ScriptStep::Finish,
            _ => self.after_failure(work),
        }
    }

    fn after_failure(&self, work: &BrowserWork) -> ScriptStep {
        let after = work.after_failure.and_then(|after| v1::AfterFailure::try_from(after).ok());
        match after {
            Some(v1::AfterFailure::Recover) => ScriptStep::Recover { step: work.step },
            Some(v1::AfterFailure::Continue) => self.next(work.step.saturating_add(1)),
            Some(v1::AfterFailure::Halt) => ScriptStep::Finish,
            // The host was asked already.
            _ if work.decided => ScriptStep::Finish,
            _ => ScriptStep::Explain,
        }
    }

    fn next(&self, step: u32) -> ScriptStep {
        if self.error.is_some() {
            return ScriptStep::Finish;
        }
        match self.action(step) {
            Some(_) => ScriptStep::Act { step },
            None if self.script.interactive && !self.closing => ScriptStep::AwaitProposal,
            None => ScriptStep::Close { ended_well: true },
        }
    }
}
