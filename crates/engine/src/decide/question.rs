//! Questions that only a person can answer: how they are asked, and revised while they are open.

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;
use capataz_policy::severity::Severity;

use super::turn::Turn;
use super::{Refusal, report, settle};
use crate::effect::Effect;
use crate::fold::state::RunState;
use crate::input::{Report, TaskRef};

/// Answers to a failure: those of the error that the engine can carry out.
pub(super) const RETRY: &[&str] = &["retry", "retry_manual", "fix_manual"];
pub(super) const SKIP: &str = "skip";
const LEAVE: &[&str] = &[SKIP, "terminate"];
pub(super) const ABORT: &str = "abort";
/// Answers to an unknown outcome.
pub(super) const SUCCEEDED: &str = "succeeded";
pub(super) const FAILED: &str = "failed";
const OUTCOME_OPTIONS: &[&str] = &["retry", SUCCEEDED, FAILED, ABORT];
/// The first revision of every question.
const FIRST_REVISION: u32 = 1;

/// Asks what to do about a HIGH failure (seed 000, contract 6).
pub(super) fn failure(turn: &mut Turn<'_>, task: TaskRef, error: v1::Error) {
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
    let question = v1::Question {
        purpose: v1::QuestionPurpose::Failure.into(),
        text: format!("Task {name:?} failed with {}. What now?", error.code),
        options,
        error: Some(error),
        holds: v1::QuestionHold::Run.into(),
        ..v1::Question::default()
    };
    ask(turn, task, None, question);
}

/// Asks what is to become of a task whose time is over, while its work is told to end. Nothing stands still meanwhile.
pub(super) fn deadline(turn: &mut Turn<'_>, task: TaskRef, error: v1::Error) {
    let name = turn.declared(task).map(|declared| declared.name.clone()).unwrap_or_default();
    let question = v1::Question {
        purpose: v1::QuestionPurpose::Timeout.into(),
        text: format!("The time of task {name:?} is over. What now?"),
        options: error.options.clone(),
        error: Some(error),
        holds: v1::QuestionHold::Nothing.into(),
        ..v1::Question::default()
    };
    ask(turn, task, None, question);
}

/// Asks a person what became of a lost lease of a task that must not be repeated automatically.
pub(super) fn outcome(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    if let Some(reason) = turn.state.stop_reason() {
        return settle::cancel(turn, task, reason, None, None);
    }
    let (lease, worker) = turn.state.lease_of(task).ok_or(Refusal::Outdated)?;
    let takes = turn.state.rules().outcome_may_be_given().then(|| output_of(turn.state, task));
    let holder = (lease, worker.to_owned());
    report::revoke_unanswered(turn, task, None);
    let name = turn.declared(task)?.name.clone();
    let options: Vec<String> = OUTCOME_OPTIONS.iter().map(|option| (*option).to_owned()).collect();
    let error = v1::Error {
        code: codes::OUTCOME_UNKNOWN.into(),
        message: format!(
            "the worker of task {name:?} is gone, and the task must run at most once (lease {lease})"
        ),
        severity: Severity::High.to_proto().into(),
        can_continue: Some(true),
        options: options.clone(),
        ..v1::Error::default()
    };
    let question = v1::Question {
        purpose: v1::QuestionPurpose::Outcome.into(),
        text: format!("What became of task {name:?}?"),
        options,
        error: Some(error),
        value: takes,
        holds: v1::QuestionHold::Run.into(),
        ..v1::Question::default()
    };
    ask(turn, task, Some(holder), question);
    Ok(())
}

/// The output that a person may name: what the kind wants of it or the worker of the lease has declared, else anything.
fn output_of(state: &RunState, task: TaskRef) -> v1::AnswerType {
    let options = vec![SUCCEEDED.to_owned()];
    match state.rules().schemas_of(state, task).first() {
        Some(schema) => {
            v1::AnswerType { media_type: JSON_MEDIA_TYPE.to_owned(), options, schema: (*schema).clone() }
        }
        // Only JSON can be judged.
        None if state.rules().checks_of(task).is_some() => {
            v1::AnswerType { media_type: JSON_MEDIA_TYPE.to_owned(), options, schema: String::new() }
        }
        None => v1::AnswerType { media_type: "*/*".to_owned(), options, schema: String::new() },
    }
}

/// Asks something about the run as a whole, which waits for the answer.
pub(super) fn of_run(turn: &mut Turn<'_>, question: v1::Question) {
    turn.emit(Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(v1::Question {
            question_id: question_id(turn),
            revision: FIRST_REVISION,
            asked_at_ms: turn.now.wall.0,
            ..question
        }),
        wave: None,
        task: None,
    })));
    turn.effect(Effect::Hold);
}

fn ask(turn: &mut Turn<'_>, task: TaskRef, holder: Option<(u64, String)>, question: v1::Question) {
    let name = turn.declared(task).map(|declared| declared.name.clone()).ok();
    let holds_run = question.holds() == v1::QuestionHold::Run;
    let (lease, worker) = holder.unwrap_or_default();
    let subject = v1::TaskSubject {
        wave: task.wave,
        task: task.task,
        activation: turn.state.activity(task).map_or(0, |activity| activity.activation),
        lease,
        worker,
    };
    turn.emit(Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(v1::Question {
            question_id: question_id(turn),
            task: name,
            about: Some(v1::QuestionSubject { about: Some(v1::question_subject::About::Task(subject)) }),
            revision: FIRST_REVISION,
            asked_at_ms: turn.now.wall.0,
            ..question
        }),
        wave: Some(task.wave),
        task: Some(task.task),
    })));
    if holds_run {
        turn.effect(Effect::Hold);
    }
}

/// The worker whose work has an unknown outcome has come back and says what became of it. It has lost its lease, so that a
/// person still decides; but the person knows more now than the one who saw the question before.
pub(super) fn heard(turn: &mut Turn<'_>, task: TaskRef, lease: u64, worker: &str, report: Report) {
    let about_it = turn.state.open_questions().find(|asked| {
        asked.task == Some(task)
            && asked.subject().is_some_and(|subject| subject.lease == lease && subject.worker == worker)
    });
    let Some(asked) = about_it else { return };
    let mut question = asked.question.clone();
    let name = question.task.clone().unwrap_or_default();
    let said = match report {
        Report::Completed(output) | Report::Judged(output, _) => {
            if question.value.is_some() {
                question.proposed = Some(output);
            }
            "that it is done".to_owned()
        }
        Report::Failed(error) | Report::Unread(error, _) => {
            let said = format!("that it failed with {}", error.code);
            if let Some(unknown) = &mut question.error {
                unknown.cause = Some(Box::new(error));
            }
            said
        }
        Report::Cancelled(_) => "that it stopped the work".to_owned(),
    };
    question.text =
        format!("What became of task {name:?}? Its worker {worker:?} has come back and says {said}.");
    question.revision = question.revision.saturating_add(1);
    turn.emit(Body::QuestionRevised(Box::new(v1::QuestionRevised { question: Some(question) })));
}

/// A name that no other question of the run has. An answer that was meant for another run, or for what a restored copy of this
/// one has lost, names none of its questions.
fn question_id(turn: &Turn<'_>) -> String {
    let seq = turn.next_seq();
    let tag = report::mixed(turn.state.seed ^ turn.now.wall.0.unsigned_abs(), seq) >> 44;
    format!("q{seq}-{tag:05x}")
}
