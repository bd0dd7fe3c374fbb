//! What a worker has given back counts only once it was judged: by what the worker has declared of its outputs, and by what the
//! run's kind wants of them.

use capataz_contracts::v1::{self, SchemaViolation};
use capataz_policy::codes;
use capataz_policy::severity::Severity;

use super::Refusal;
use crate::fold::state::RunState;
use crate::input::{Report, TaskRef};
use crate::machine::{self, correction};
use crate::planted::{self, Fault};
use crate::query::{Judgement, Purpose, Rule, UNJUDGED, Verdict};

/// Violations that an error's message has.
const SHOWN: usize = 3;

impl RunState {
    /// What has to be judged before this output can be decided. `None` where nothing has to be, or it would not be heard.
    #[must_use]
    pub fn output_to_judge(
        &self,
        task: TaskRef,
        lease: u64,
        worker: &str,
        output: &v1::Payload,
    ) -> Option<Judgement> {
        let is_holder = self.lease_of(task) == Some((lease, worker));
        let skipped = planted::is(Fault::VerdictSkippedAfterRestart) && self.leases_since_load == 0;
        if !is_holder || self.is_finished() || skipped {
            return None;
        }
        let schemas: Vec<String> = self.rules().schemas_of(self, task).into_iter().cloned().collect();
        let rule = rule_of(self, task);
        if schemas.is_empty() && rule.is_none() {
            return None;
        }
        let purpose = Purpose::Output { task, lease };
        Some(Judgement { purpose, schemas, rule, value: output.clone(), found: Vec::new() })
    }

    /// What has to be found out before this report can be decided: whether an output passes; and, of one that is wrong in a way
    /// that only the run's kind knows, or that nobody could read, what the next attempt is given, where the log has no room for it.
    #[must_use]
    pub fn report_to_judge(
        &self,
        task: TaskRef,
        lease: u64,
        worker: &str,
        report: &Report,
    ) -> Option<Judgement> {
        match report {
            Report::Completed(output) => self.output_to_judge(task, lease, worker, output),
            Report::Judged(output, verdict) => {
                let passes = verdict.violations.is_empty() && verdict.judged.found.is_empty();
                // Most answers are right, and are read no further.
                if !passes || self.rules().found_beside(self, task, output).is_empty() {
                    return None;
                }
                let judged = self.output_to_judge(task, lease, worker, output)?;
                if verdict.judged == judged { to_correct(self, task, judged) } else { None }
            }
            Report::Failed(error) => unread(self, task, lease, worker, error),
            Report::Unread(..) | Report::Cancelled(_) => None,
        }
    }
}

/// The judgement by which the next attempt is told what the kind has against this output.
fn to_correct(state: &RunState, task: TaskRef, judged: Judgement) -> Option<Judgement> {
    let found = state.rules().found_beside(state, task, &judged.value);
    let is_too_long = !found.is_empty() && !correction::fits(state, task, &found, Some(&judged.value));
    is_too_long.then_some(Judgement { found, ..judged })
}

/// The judgement by which the next attempt is told that nobody could read the output of this one.
fn unread(state: &RunState, task: TaskRef, lease: u64, worker: &str, error: &v1::Error) -> Option<Judgement> {
    let value = v1::Payload::default();
    let judged = state.output_to_judge(task, lease, worker, &value)?;
    let found = state.rules().found_unread(task, error);
    let is_too_long = !found.is_empty() && !correction::fits(state, task, &found, None);
    is_too_long.then_some(Judgement { schemas: Vec::new(), found, ..judged })
}

/// What is wanted of a task's output beside schemas.
pub(super) fn rule_of(state: &RunState, task: TaskRef) -> Option<Rule> {
    state.rules().checks_of(task).map(|checks| Rule {
        checks: checks.into_iter().map(i32::from).collect(),
        input: state.plan.task(task).and_then(|declared| declared.input.clone()),
        attempt: state.activity(task).map_or(0, |activity| activity.attempt),
    })
}

/// What was found of an output.
#[derive(Default)]
pub(super) struct Found {
    /// None: the output counts.
    pub(super) violations: Vec<SchemaViolation>,
    /// The output as it counts, where it is another one than was given.
    pub(super) value: Option<v1::Payload>,
    pub(super) corrected: Option<v1::Payload>,
}

impl Found {
    /// What the kind has against an output; a judge has only made what the next attempt is given, if it could.
    fn against(verdict: &Verdict) -> Self {
        Self { violations: verdict.judged.found.clone(), value: None, corrected: corrected(verdict) }
    }
}

/// What was found of the output that the holder of a lease has given.
///
/// # Errors
/// [`Refusal::Unjudged`] where nobody has judged this very output.
pub(super) fn found(
    state: &RunState,
    task: TaskRef,
    lease: u64,
    worker: &str,
    output: &v1::Payload,
    verdict: Option<&Verdict>,
) -> Result<Found, Refusal> {
    if planted::is(Fault::OutputNotJudged) {
        return Ok(Found::default());
    }
    match state.output_to_judge(task, lease, worker, output) {
        None => Ok(Found::default()),
        Some(judgement) => match verdict {
            Some(verdict) if verdict.judged == judgement => Ok(Found {
                violations: verdict.violations.clone(),
                value: verdict.value.clone(),
                corrected: corrected(verdict),
            }),
            Some(verdict) if Some(&verdict.judged) == to_correct(state, task, judgement).as_ref() => {
                Ok(Found::against(verdict))
            }
            _ => Err(Refusal::Unjudged),
        },
    }
}

/// What was found of an output that nobody could read.
///
/// # Errors
/// [`Refusal::Unjudged`] where that was found of something else.
pub(super) fn found_unread(
    state: &RunState,
    task: TaskRef,
    lease: u64,
    worker: &str,
    error: &v1::Error,
    verdict: &Verdict,
) -> Result<Found, Refusal> {
    match unread(state, task, lease, worker, error) {
        Some(judgement) if judgement == verdict.judged => Ok(Found::against(verdict)),
        _ => Err(Refusal::Unjudged),
    }
}

fn corrected(verdict: &Verdict) -> Option<v1::Payload> {
    verdict.corrected.clone().filter(|_| !planted::is(Fault::CorrectionLost))
}

/// Whether nobody could judge the output.
pub(crate) fn is_unjudged(violations: &[SchemaViolation]) -> bool {
    violations.iter().any(|violation| violation.rule == UNJUDGED)
}

/// What it means that nobody could judge an output: the work is done, and done again only where it may be.
pub(crate) fn unjudged(error: v1::Error, is_once: bool) -> machine::Verdict {
    let meaning = machine::Meaning::AttemptFailed { error, output: None, may_pass: is_once.then_some(false) };
    machine::Verdict { record: Vec::new(), meaning }
}

/// The error of an output that breaks its schema.
pub(crate) fn broken(violations: &[SchemaViolation]) -> v1::Error {
    let is_of = |rule: &str| violations.iter().any(|violation| violation.rule == rule);
    let code = match () {
        () if is_of(UNJUDGED) => codes::SERVICE_UNAVAILABLE,
        () if is_of("syntax") => codes::PARSE_ERROR,
        () => codes::VALIDATION_ERROR,
    };
    let shown = violations.iter().take(SHOWN).map(|violation| {
        let SchemaViolation { path, rule, expected, found } = violation;
        let place = if path.is_empty() { "the output" } else { path.as_str() };
        format!("{place}: {rule}: expected {expected}, found {found}")
    });
    let mut message = format!("the output breaks its schema: {}", shown.collect::<Vec<_>>().join("; "));
    if let Some(more) = violations.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        message.push_str(&format!("; and {more} more"));
    }
    // What was found is in the message, and says nothing of how serious the failure is.
    v1::Error { severity: Severity::High.to_proto().into(), ..codes::error(code, message) }
}
