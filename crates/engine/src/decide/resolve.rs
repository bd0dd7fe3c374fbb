//! Questions that only a person can answer, and their answers.

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::severity::Severity;

use super::turn::Turn;
use super::{Refusal, advance, cancel, pause, report, retry, settle};
use crate::effect::Effect;
use crate::fold::activity::Step;
use crate::fold::digest;
use crate::fold::state::Timestamp;
use crate::input::TaskRef;

/// Answers to a failure: those of the error that the engine can carry out.
const RETRY: &[&str] = &["retry", "retry_manual", "fix_manual"];
const LEAVE: &[&str] = &["skip", "terminate"];
const ABORT: &str = "abort";
/// Answers to an unknown outcome.
const SUCCEEDED: &str = "succeeded";
const FAILED: &str = "failed";
const OUTCOME_OPTIONS: &[&str] = &["retry", SUCCEEDED, FAILED, ABORT];
/// The answers that remain once the outcome is known to be a failure.
const FAILED_OPTIONS: &[&str] = &["retry", "skip", ABORT];

/// Asks what to do about a HIGH failure (seed 000, contract 6).
pub(super) fn ask_failure(turn: &mut Turn<'_>, task: TaskRef, error: v1::Error) {
    let mut options: Vec<String> = error
        .options
        .iter()
        .filter(|option| RETRY.contains(&option.as_str()) || LEAVE.contains(&option.as_str()))
        .cloned()
        .collect();
    if options.is_empty() {
        options = vec!["retry".to_owned(), "skip".to_owned()];
    }
    options.push(ABORT.to_owned());
    let name = turn.declared(task).map(|declared| declared.name.clone()).unwrap_or_default();
    ask(turn, task, format!("Task {name:?} failed with {}. What now?", error.code), options, error);
}

/// Asks a person what became of a lost lease of a task that must not be repeated automatically.
pub(super) fn ask_outcome(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    if let Some(reason) = turn.state.stop_reason() {
        return settle::cancel(turn, task, reason, None, None);
    }
    let (lease, _) = turn.state.lease_of(task).ok_or(Refusal::Outdated)?;
    report::revoke_unanswered(turn, task, None);
    let name = turn.declared(task)?.name.clone();
    let error = v1::Error {
        code: "OUTCOME_UNKNOWN".to_owned(),
        message: format!(
            "the worker of task {name:?} is gone, and the task must run at most once (lease {lease})"
        ),
        severity: Severity::High.to_proto().into(),
        can_continue: Some(true),
        options: OUTCOME_OPTIONS.iter().map(|option| (*option).to_owned()).collect(),
        ..v1::Error::default()
    };
    let options = error.options.clone();
    ask(turn, task, format!("What became of task {name:?}?"), options, error);
    Ok(())
}

fn ask(turn: &mut Turn<'_>, task: TaskRef, text: String, options: Vec<String>, error: v1::Error) {
    let question_id = format!("q{}", turn.next_seq());
    let name = turn.declared(task).map(|declared| declared.name.clone()).ok();
    turn.emit(Body::QuestionAsked(v1::QuestionAsked {
        question: Some(v1::Question {
            question_id,
            text,
            options,
            task: name,
            error: Some(error),
            asked_at_ms: turn.now.wall.0,
            answer: None,
        }),
        wave: Some(task.wave),
        task: Some(task.task),
    }));
    turn.effect(Effect::Hold);
}

pub(super) fn handle(
    turn: &mut Turn<'_>,
    question_id: String,
    answer: String,
    request_id: String,
) -> Result<(), Refusal> {
    if turn.repeats(&request_id, &digest::resolve(&question_id, &answer))? {
        return Ok(());
    }
    turn.refuse_finished()?;
    let asked = turn.state.questions.iter().find(|asked| asked.question.question_id == question_id);
    let Some(asked) = asked else { return Err(Refusal::QuestionNotFound { question_id }) };
    if let Some(answer) = &asked.question.answer {
        return Err(Refusal::QuestionAnswered { question_id, answer: answer.clone() });
    }
    if !asked.question.options.contains(&answer) {
        return Err(Refusal::NotAnOption { answer, options: asked.question.options.clone() });
    }
    let (task, asked_at) = (asked.task, asked.asked_at);
    let error = asked.question.error.clone().unwrap_or_default();
    turn.emit_request(Body::QuestionAnswered(v1::QuestionAnswered {
        question_id,
        answer: answer.clone(),
        request_id,
    }));
    if answer == ABORT {
        return cancel::abort(turn, error);
    }
    pause::release(turn);
    let Some(task) = task else { return advance::advance(turn) };
    let asking = turn.state.activity(task).is_some_and(|activity| matches!(activity.step, Step::Asking));
    if asking {
        resolve_outcome(turn, task, &answer, error, asked_at)
    } else {
        resolve_failure(turn, task, &answer)
    }
}

fn resolve_failure(turn: &mut Turn<'_>, task: TaskRef, answer: &str) -> Result<(), Refusal> {
    if RETRY.contains(&answer) {
        let request_seq = turn.request_seq();
        retry::reactivate(turn, task, String::new())?;
        turn.set_request_seq(request_seq);
    }
    advance::advance(turn)
}

fn resolve_outcome(
    turn: &mut Turn<'_>,
    task: TaskRef,
    answer: &str,
    mut error: v1::Error,
    asked_at: Timestamp,
) -> Result<(), Refusal> {
    match answer {
        SUCCEEDED => {
            let null = v1::Payload {
                media_type: "application/json".to_owned(),
                data: Some(v1::payload::Data::Inline("null".into())),
            };
            settle::complete(turn, task, Some(null), None)
        }
        FAILED => {
            error.options = FAILED_OPTIONS.iter().map(|option| (*option).to_owned()).collect();
            settle::fail_without_advance(turn, task, ResultStatus::Error, error, None, settle::Ask::Never)?;
            advance::advance(turn)
        }
        _ => report::run_again(turn, task, asked_at),
    }
}
