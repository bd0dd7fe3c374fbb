//! Answers to questions that only a person can answer.

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes;
use capataz_policy::lifecycle::TaskState;

use super::deadline::{self, TERMINATE};
use super::judge::rule_of as judge_rule;
use super::question::{ABORT, FAILED, RETRY, SKIP, SUCCEEDED};
use super::turn::Turn;
use super::{Refusal, advance, cancel, pause, report, retry, settle};
use crate::fold::activity::{Activity, Step};
use crate::fold::state::{AskedQuestion, Phase, RunState, Timestamp};
use crate::input::{Answer, Input, TaskRef};
use crate::planted::{self, Fault};
use crate::query::{Judgement, Purpose, Verdict};

/// The answers that remain once the outcome is known to be a failure.
const FAILED_OPTIONS: &[&str] = &["retry", "skip", ABORT];

impl RunState {
    /// Judges what a user answers to a question, before anything else is looked at.
    ///
    /// # Errors
    /// The reason why it can be no answer, whatever the run's state is.
    pub fn judge(&self, input: &Input) -> Result<(), Refusal> {
        match input {
            Input::Resolve { question_id, answer, .. } => open(self, question_id).and_then(|asked| {
                judge(asked, answer)?;
                match to_judge(self, asked, answer) {
                    None => Ok(()),
                    // That nobody has judged it yet is not a reason to refuse it.
                    Some(judgement) => passes(&judgement, answer).or_else(|refusal| match refusal {
                        Refusal::Unjudged => Ok(()),
                        refusal => Err(refusal),
                    }),
                }
            }),
            _ => Ok(()),
        }
    }

    /// What has to be judged before this input can be decided: the value of an answer, by the schema of its question.
    /// `None` where nothing has to be, or the input has the verdict.
    #[must_use]
    pub fn to_judge(&self, input: &Input) -> Option<Judgement> {
        let Input::Resolve { question_id, answer, request_id } = input else { return None };
        if self.is_finished() || self.requests.contains_key(request_id) {
            return None;
        }
        let asked = open(self, question_id).ok()?;
        judge(asked, answer).ok()?;
        let judgement = to_judge(self, asked, answer)?;
        matches!(passes(&judgement, answer), Err(Refusal::Unjudged)).then_some(judgement)
    }
}

/// The value that counts if this answer does, where the question has a schema: the one that is given, else the one that the
/// question proposes, else null.
fn to_judge(state: &RunState, asked: &AskedQuestion, answer: &Answer) -> Option<Judgement> {
    let question = &asked.question;
    let takes = question.value.as_ref()?;
    // What a person says that a task has given back has to be what its kind wants.
    let task = asked.task.filter(|_| question.purpose() == v1::QuestionPurpose::Outcome);
    let rule = task.and_then(|task| judge_rule(state, task));
    if takes.schema.is_empty() && rule.is_none() {
        return None;
    }
    if !takes.options.is_empty() && !takes.options.contains(&answer.option) {
        return None;
    }
    let value = answer.value.clone().or_else(|| question.proposed.clone()).unwrap_or_else(null);
    Some(Judgement {
        purpose: Purpose::Answer { question_id: question.question_id.clone(), revision: question.revision },
        schemas: Some(takes.schema.clone()).filter(|schema| !schema.is_empty()).into_iter().collect(),
        rule,
        value,
        found: Vec::new(),
    })
}

/// Whether the answer has the verdict on this very value, and it is that the value passes.
fn passes(judgement: &Judgement, answer: &Answer) -> Result<(), Refusal> {
    let of_this =
        |verdict: &&Verdict| verdict.judged == *judgement || planted::is(Fault::VerdictOfAnotherValue);
    match answer.verdict.as_deref().filter(of_this) {
        None => Err(Refusal::Unjudged),
        Some(verdict) if verdict.violations.is_empty() => Ok(()),
        Some(verdict) => Err(Refusal::BreaksSchema { violations: verdict.violations.clone() }),
    }
}

fn null() -> v1::Payload {
    v1::Payload {
        media_type: JSON_MEDIA_TYPE.to_owned(),
        data: Some(v1::payload::Data::Inline("null".into())),
    }
}

fn open<'a>(state: &'a RunState, question_id: &str) -> Result<&'a AskedQuestion, Refusal> {
    let asked = state.questions.iter().find(|asked| asked.question.question_id == question_id);
    let Some(asked) = asked else {
        return Err(Refusal::QuestionNotFound { question_id: question_id.to_owned() });
    };
    match &asked.question.answer {
        None => Ok(asked),
        Some(answer) => {
            Err(Refusal::QuestionAnswered { question_id: question_id.to_owned(), answer: answer.clone() })
        }
    }
}

fn judge(asked: &AskedQuestion, answer: &Answer) -> Result<(), Refusal> {
    let question = &asked.question;
    let takes = question
        .value
        .as_ref()
        .filter(|takes| takes.options.is_empty() || takes.options.contains(&answer.option));
    let is_whole = takes.is_some_and(|takes| takes.options.is_empty());
    let is_answer = question.options.contains(&answer.option) || is_whole && answer.option.is_empty();
    if !is_answer {
        return Err(Refusal::NotAnOption {
            answer: answer.option.clone(),
            options: question.options.clone(),
        });
    }
    let wrong = |message: String| Err(Refusal::WrongValue { message });
    match (takes, &answer.value) {
        (Some(_), None) if answer.option.is_empty() => wrong("the question asks for a value".to_owned()),
        (_, None) => Ok(()),
        (None, Some(_)) => wrong(format!("the answer {:?} has no value", answer.option)),
        (Some(takes), Some(value)) if !is_of_type(&value.media_type, &takes.media_type) => wrong(format!(
            "the value has media type {:?}, and {:?} is asked for",
            value.media_type, takes.media_type
        )),
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Whether a media type, without its parameters, is the one that is asked for.
fn is_of_type(given: &str, asked: &str) -> bool {
    let essence = given.split(';').next().unwrap_or_default().trim();
    asked == "*/*" || essence.eq_ignore_ascii_case(asked)
}

pub(super) fn handle(
    turn: &mut Turn<'_>,
    question_id: String,
    given: Answer,
    request_id: String,
) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let asked = open(turn.state, &question_id)?;
    judge(asked, &given)?;
    let mut counted = None;
    if let Some(judgement) = to_judge(turn.state, asked, &given) {
        passes(&judgement, &given)?;
        counted = given.verdict.as_ref().and_then(|verdict| verdict.value.clone());
    }
    turn.state.rules().judge_answer(&asked.question, &given)?;
    let revision = asked.question.revision;
    let outdated = given.revision.is_some_and(|given| given != revision);
    if outdated && !planted::is(Fault::OldRevisionAnswered) {
        return Err(Refusal::QuestionRevised { question_id, revision });
    }
    let (task, asked_at) = (asked.task, asked.asked_at);
    let about = asked.question.clone();
    let at_deadline = task.filter(|_| asked.question.purpose() == v1::QuestionPurpose::Timeout);
    if let Some(task) = at_deadline {
        deadline::may(turn, task, &given.option)?;
    }
    let gives_up = answer_gives_up(turn, task, &given.option);
    let error = asked.question.error.clone().unwrap_or_default();
    let value = counted.or_else(|| given.value.clone()).or_else(|| asked.question.proposed.clone());
    let Answer { option: answer, value: given, .. } = given;
    turn.emit_request(Body::QuestionAnswered(v1::QuestionAnswered {
        question_id,
        answer: answer.clone(),
        request_id,
        value: given,
        revision,
        gives_up,
    }));
    if answer == ABORT {
        let is_about_an_error = !error.code.is_empty();
        let error = if is_about_an_error { error } else { aborted() };
        return cancel::abort(turn, error);
    }
    if let Some(task) = at_deadline {
        return deadline::answered(turn, task, &answer);
    }
    pause::release(turn)?;
    // A run that could not begin when the question let go may have ended everything else.
    if !matches!(turn.state.phase, Phase::Running) {
        return advance::advance(turn);
    }
    let Some(task) = task else {
        let steps = turn.state.rules().person_answered(turn.state, &about, &answer, value.as_ref())?;
        let request_seq = turn.request_seq();
        advance::carry_out(turn, steps)?;
        turn.set_request_seq(request_seq);
        return advance::advance(turn);
    };
    let asking =
        turn.state.activity(task).is_some_and(|activity| matches!(activity.step, Step::Asking { .. }));
    if asking {
        resolve_outcome(turn, task, &answer, value, error, asked_at)
    } else {
        resolve_failure(turn, task, &answer)
    }
}

/// Whether the answer gives up the task that has failed, where the lifecycle allows that (seed 000, contract 2).
pub(super) fn answer_gives_up(turn: &Turn<'_>, task: Option<TaskRef>, answer: &str) -> bool {
    let activity = task.and_then(|task| turn.state.activity(task));
    let may_be =
        |activity: &Activity| activity.is_settled() && activity.state.allowed().contains(&TaskState::Deleted);
    answer == SKIP && activity.is_some_and(may_be) && !planted::is(Fault::SkippedIsNotDeleted)
}

fn resolve_failure(turn: &mut Turn<'_>, task: TaskRef, answer: &str) -> Result<(), Refusal> {
    if answer == TERMINATE {
        deadline::keep_partial(turn, task);
    }
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
    value: Option<v1::Payload>,
    mut error: v1::Error,
    asked_at: Timestamp,
) -> Result<(), Refusal> {
    match answer {
        SUCCEEDED => {
            let told = match planted::is(Fault::GivenOutcomeUntold) {
                true => Vec::new(),
                false => turn.state.rules().outcome_given(turn.now),
            };
            for body in told {
                turn.emit(body);
            }
            settle::complete(turn, task, Some(value.unwrap_or_else(null)), None)
        }
        FAILED => {
            error.options = FAILED_OPTIONS.iter().map(|option| (*option).to_owned()).collect();
            settle::fail_without_advance(
                turn,
                task,
                ResultStatus::Error,
                error,
                None,
                settle::Questioning::Never,
            )?;
            advance::advance(turn)
        }
        answer if RETRY.contains(&answer) => report::run_again(turn, task, asked_at),
        // Only what was offered is an answer.
        _ => Err(Refusal::Outdated),
    }
}

/// The error of a run that a person has ended where nothing had failed.
fn aborted() -> v1::Error {
    codes::error(codes::TASK_CANCELLED, "a person has chosen to abort the run".to_owned())
}
