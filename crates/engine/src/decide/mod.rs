//! Decides what one input does to a run. Each input is handled in a file of its own; this one only dispatches.

mod advance;
mod browser;
mod cancel;
mod child;
mod deadline;
mod extend;
mod fork;
pub(crate) mod judge;
mod lease;
mod lost;
mod machine;
mod pause;
mod question;
pub(crate) mod references;
mod repeated;
mod report;
mod resolve;
mod retry;
mod rollback;
mod settle;
mod start;
mod take_over;
#[cfg(test)]
mod tests;
mod tick;
pub(crate) mod turn;

pub(crate) use cancel::WITHDRAWN;
use capataz_contracts::v1;
use capataz_policy::codes::{self, Code};
use capataz_policy::lifecycle::{self, TaskState};

use crate::fold::state::{CorruptLog, Moment, RunState};
use crate::input::Input;
use crate::machine::Command;
use turn::Turn;

pub use child::{MAX_DEPTH, MAX_PLAN_BYTES, WantedChild, never_ends};
pub use fork::{Fork, NotForked};
pub use lease::mark_of;
pub(crate) use settle::Ending;
pub use start::{Needs, StartRun, Work, start};
pub(crate) use tick::schedule_to_start_error;
pub use turn::Decision;

/// Why an input changes nothing. Nothing was emitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The run has ended.
    #[error("the run has finished")]
    RunFinished,
    /// TASK_NOT_FOUND or INVALID_STATE_TRANSITION, with what would be allowed.
    #[error("{}", .0.message)]
    Rule(Box<v1::Error>),
    #[error("there is no question {question_id:?}")]
    QuestionNotFound { question_id: String },
    #[error("question {question_id:?} was answered with {answer:?}")]
    QuestionAnswered { question_id: String, answer: String },
    #[error("{answer:?} is not among the answers: {}", options.join(", "))]
    NotAnOption { answer: String, options: Vec<String> },
    /// The answer has a value that the question does not ask for, or lacks the one that it asks for.
    #[error("{message}")]
    WrongValue { message: String },
    /// The value of the answer breaks the schema of the question.
    #[error("the value breaks its schema in {} places", violations.len())]
    BreaksSchema { violations: Vec<v1::SchemaViolation> },
    /// The answer has a value that nobody has judged yet; see [`RunState::to_judge`].
    #[error("the value has not been judged by its schema")]
    Unjudged,
    /// The question has changed since the caller saw it.
    #[error("question {question_id:?} has changed since then; it is at revision {revision}")]
    QuestionRevised { question_id: String, revision: u32 },
    /// The request id was used for another request.
    #[error("request id {request_id:?} was used for another request")]
    RequestReused { request_id: String },
    /// The state has changed since the input was made, so that the input no longer applies. Only inputs of the runtime
    /// get this refusal.
    #[error("the input no longer applies")]
    Outdated,
    /// The engine wrote an event that it cannot fold: a defect.
    #[error(transparent)]
    Corrupt(#[from] CorruptLog),
}

impl Refusal {
    /// The task's lifecycle does not allow this step, or its wave is over.
    ///
    /// `why` gives the reason if the lifecycle allows the step, but another rule forbids it.
    fn transition(from: TaskState, to: TaskState, why: impl FnOnce() -> String) -> Self {
        let mut error = lifecycle::refused(from, to);
        if from.allowed().contains(&to) {
            error.message = why();
            error.suggested_action = None;
            error.options = vec!["abort".to_owned()];
        }
        Self::Rule(Box::new(error))
    }

    /// The same, without this option.
    fn without(mut self, option: &str) -> Self {
        if let Self::Rule(error) = &mut self {
            error.options.retain(|offered| offered != option);
        }
        self
    }

    /// The same, with this option before the others.
    fn or(mut self, option: &str) -> Self {
        if let Self::Rule(error) = &mut self {
            error.options.insert(0, option.to_owned());
        }
        self
    }
}

/// A refusal with this code.
pub(crate) fn refuse_with(code: Code, message: &str) -> Refusal {
    Refusal::Rule(Box::new(codes::error(code, message.to_owned())))
}

/// The refusal of a command that only interactive sessions of a browser understand.
pub(crate) fn not_a_session(command: &Command) -> Refusal {
    let message = match command {
        Command::Propose(_) => "actions are proposed to interactive sessions only",
        Command::CloseBrowser => "only interactive sessions are closed; others are cancelled",
        Command::RollBack { .. } => {
            let message =
                "only pipelines are rolled back to a phase; tasks of plans are taken back one by one";
            return refuse_with(codes::CHECKPOINT_NOT_FOUND, message);
        }
        Command::Checkpoint { .. } | Command::RollBackTo { .. } => {
            let message = "only runs in an execution mode have checkpoints of their own";
            return refuse_with(codes::CHECKPOINT_NOT_FOUND, message);
        }
    };
    refuse_with(codes::SESSION_NOT_INTERACTIVE, message)
}

/// Handles one input. The events of the decision are applied to `state` already; its effects may run when they are
/// durable, except that queueing is the caller's own memory and may follow at once.
///
/// # Errors
/// A [`Refusal`]; then `state` is unchanged, but for [`Refusal::Corrupt`], after which it must not be used.
pub fn decide(state: &mut RunState, input: Input, now: Moment) -> Result<Decision, Refusal> {
    let mut turn = Turn::new(state, now);
    let handled = dispatch(&mut turn, input);
    turn.finish(handled)
}

fn dispatch(turn: &mut Turn<'_>, input: Input) -> Result<(), Refusal> {
    if turn.repeats(&input)? {
        return Ok(());
    }
    match input {
        Input::Lease { task, worker, mark, output_schema, cancel_is_final } => {
            lease::handle(turn, task, worker, mark, output_schema, cancel_is_final)
        }
        Input::LeaseLost { task, lease, reason } => lost::handle(turn, task, lease, reason),
        Input::Report { task, lease, worker, report, log, usage } => {
            turn.log = log;
            turn.usage = usage;
            report::handle(turn, task, lease, worker, report)
        }
        Input::SessionTurn { context } => machine::begin(turn, context),
        Input::Answered { query, answer } => machine::answered(turn, query, answer),
        Input::AgentAbsent { task } => lease::absent(turn, task),
        Input::Tick { observed } => tick::handle(turn, observed),
        Input::Child { task, run_id, news } => child::handle(turn, task, &run_id, news),
        Input::BrowserLost { worker, reason } => browser::lost(turn, &worker, reason),
        Input::LimitExceeded { limit } => cancel::limit_exceeded(turn, limit),
        Input::Cancel { reason, force, request_id } => cancel::handle(turn, reason, force, request_id),
        Input::Pause { request_id } => pause::pause(turn, request_id),
        Input::Resume { request_id } => pause::resume(turn, request_id),
        Input::Extend { task, by_ms, request_id } => extend::handle(turn, &task, by_ms, request_id),
        Input::Retry { task, request_id } => retry::handle(turn, &task, request_id),
        Input::Rollback { task, cascade, request_id } => rollback::handle(turn, &task, cascade, request_id),
        Input::Resolve { question_id, answer, request_id } => {
            resolve::handle(turn, question_id, answer, request_id)
        }
        Input::Propose { action, request_id } => machine::command(turn, Command::Propose(action), request_id),
        Input::RollbackPipeline { phase, request_id } => {
            machine::command(turn, Command::RollBack { phase }, request_id)
        }
        Input::Checkpoint { reason, request_id } => {
            machine::command(turn, Command::Checkpoint { reason }, request_id)
        }
        Input::RollbackExecution { checkpoint, request_id } => {
            machine::command(turn, Command::RollBackTo { checkpoint }, request_id)
        }
        Input::CloseBrowser { request_id } => machine::command(turn, Command::CloseBrowser, request_id),
    }
}
