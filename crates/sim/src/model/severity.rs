//! One severity for each failure, by a table of the simulator's own (seed 000, contract 6).

use capataz_contracts::v1;

use super::log::{RunModel, place};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};

/// What scripted workers say of their failures, and how severe that is where the plan does not say it.
pub(crate) const SCRIPTED: &[(&str, v1::Severity)] = &[
    ("STATE_CORRUPTED", v1::Severity::Critical),
    (SAYS_CRITICAL, v1::Severity::Critical),
    ("TESTS_FAILED", v1::Severity::High),
    ("VALIDATION_ERROR", v1::Severity::High),
    ("NETWORK_ERROR", v1::Severity::High),
    ("RATE_LIMIT", v1::Severity::High),
    ("SERVICE_UNAVAILABLE", v1::Severity::High),
    ("TIMEOUT", v1::Severity::High),
    ("E_UNHEARD_OF", v1::Severity::High),
    ("LINT_WARNINGS", v1::Severity::Medium),
    (SAYS_LOW, v1::Severity::Low),
];
/// Codes that no table knows; the worker declares the severity.
pub(crate) const SAYS_CRITICAL: &str = "E_SAYS_CRITICAL";
pub(crate) const SAYS_LOW: &str = "E_SAYS_LOW";
/// The message of each of them. No pattern matches it.
pub(crate) const MESSAGE: &str = "as scripted";

/// What runs say of tasks by themselves. The seed has two of these; the others are as serious as what nobody knows.
const OWN: &[(&str, v1::Severity)] = &[
    ("TASK_TIMEOUT", v1::Severity::High),
    ("TIMEOUT", v1::Severity::High),
    ("INPUT_UNRESOLVED", v1::Severity::High),
    ("SESSION_HELD", v1::Severity::High),
    // Of an output that breaks its schema.
    ("VALIDATION_ERROR", v1::Severity::High),
    ("SCHEDULE_TO_START_TIMEOUT", v1::Severity::High),
    ("OUTCOME_UNKNOWN", v1::Severity::High),
    ("WORKER_LOST", v1::Severity::High),
    ("TASK_CANCELLED", v1::Severity::Medium),
];

/// The run's own words for the end of all attempts; the failure is the innermost error.
const WRAPPERS: &[&str] = &["RETRY_EXHAUSTED", "NON_RETRYABLE_ERROR", "TOTAL_TIMEOUT_EXCEEDED"];

impl RunModel {
    /// The failure of a task or of one of its attempts.
    pub(super) fn failure(
        &mut self,
        at: (u32, u32),
        error: &v1::Error,
        counted: i32,
    ) -> Result<(), Violation> {
        let task = place(at.0, at.1);
        let mut failure = error;
        while let Some(cause) = failure.cause.as_deref().filter(|_| WRAPPERS.contains(&failure.code.as_str()))
        {
            failure = cause;
        }
        let declared = self.declared(task).and_then(|task| task.severity).filter(|severity| *severity != 0);
        let said = SCRIPTED.iter().find(|(code, _)| *code == failure.code && failure.message == MESSAGE);
        let own = OWN.iter().find(|(code, _)| *code == failure.code);
        let by_code = said.or(own).map(|(_, severity)| *severity as i32);
        let told = self.in_work(task)?.told.take();
        let expected = declared.or(told).or(by_code).unwrap_or_default();
        let one = error.severity == counted && counted == expected && counted != 0;
        Invariant::OneSeverity.check(one, || {
            let text =
                format!("{} of {task} is told as {}, counted as {counted}", failure.code, error.severity);
            self.at(format!("{text}, expected {expected}"))
        })
    }

    /// A plan's task has failed.
    pub(super) fn failed(&mut self, severity: i32) {
        let is_critical = severity == v1::Severity::Critical as i32;
        self.must_abort |= is_critical && matches!(self.kind, Kind::Plan { .. }) && self.ending.is_none();
    }

    /// Nothing but notices, and what becomes of its deadline and its output, comes between a CRITICAL failure and the end that
    /// it brings.
    pub(super) fn aborts(&self, body: &v1::event::Body) -> Result<(), Violation> {
        use v1::event::Body;
        let follows = match body {
            Body::Notice(_) | Body::RunCancelRequested(_) | Body::PartialOutputKept(_) => true,
            Body::QuestionAnswered(event) => {
                self.questions.get(&event.question_id).is_some_and(|asked| asked.at_deadline)
            }
            _ => false,
        };
        Invariant::CriticalAborts.check(!self.must_abort || follows, || {
            self.at("a CRITICAL failure is followed by something else than the end of the run")
        })
    }
}

/// How severe an event is for a subscriber that names the least severity: as its error is, or the failure of its task.
pub(super) fn of_event(event: &v1::Event) -> i32 {
    use v1::event::Body;
    let of = |error: &Option<v1::Error>| error.as_ref().map_or(0, |error| error.severity);
    let of_question = |asked: &Option<v1::Question>| asked.as_ref().map_or(0, |asked| of(&asked.error));
    match &event.body {
        Some(Body::TaskAttemptFailed(event)) => of(&event.error),
        Some(Body::TaskSettled(event)) => of(&event.error).max(event.severity),
        Some(Body::RunCancelRequested(event)) => of(&event.error),
        Some(Body::RunFinished(event)) => of(&event.error),
        // A completion of what was never begun is an error; a late one is none.
        Some(Body::ResultRefused(event)) if event.error.is_some() => v1::Severity::High as i32,
        Some(Body::Notice(event)) => of(&event.notice),
        Some(Body::QuestionAsked(event)) => of_question(&event.question),
        Some(Body::QuestionRevised(event)) => of_question(&event.question),
        // Seed 002 has three words for it.
        Some(Body::ActionFailed(event)) => match event.error.as_ref().map(v1::ExecutorError::severity) {
            Some(v1::ExecutorSeverity::Critical) => v1::Severity::Critical as i32,
            Some(v1::ExecutorSeverity::Error) => v1::Severity::High as i32,
            Some(v1::ExecutorSeverity::Warning) => v1::Severity::Medium as i32,
            _ => 0,
        },
        Some(Body::BrowserLost(_)) => v1::Severity::High as i32,
        // A person has to decide.
        Some(Body::PhaseBlocked(_)) => v1::Severity::High as i32,
        Some(Body::ToolObserved(event)) => event.error.as_ref().map_or(0, |error| error.severity),
        _ => 0,
    }
}
