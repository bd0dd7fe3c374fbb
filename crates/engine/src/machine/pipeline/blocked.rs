//! A blocked phase: what is known of its attempts, what a person may do about it, and the way back to a checkpoint.

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, CheckpointStatus, event::Body, payload::Data};
use capataz_contracts::validate::INLINE_MAX;
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes;
use capataz_policy::retry;
use capataz_policy::severity::Severity;
use serde_json::{Value, json};

use super::PipelineState;
use super::Step;
use super::state::PhaseState;
use crate::decide::{Refusal, refuse_with};
use crate::fold::state::{Phase, RunState};
use crate::input::{Answer, TaskRef};

/// The answers.
pub(super) const RETRY: &str = "retry";
const ROLLBACK: &str = "rollback";
const ABORT: &str = "abort";
/// Tasks whose attempts a blocked checkpoint tells, and attempts of each of them; the newest.
const TASKS_TOLD: usize = 16;
const ATTEMPTS_TOLD: usize = 8;
/// Characters of a message in a blocked checkpoint.
const MESSAGE: usize = 500;
/// What may be given with an answer that lets the phase go on.
const RETRY_VALUE: &str = r#"{"type":["object","null"],"additionalProperties":false,"properties":{"agent":{"type":"string","minLength":1,"maxLength":128},"input":true}}"#;

/// Tasks of the phase have failed for good.
pub(super) fn by_tasks(state: &PipelineState, run: &RunState, place: usize) -> Vec<Step> {
    let Some(phase) = state.phases.get(place) else { return vec![Step::Wait] };
    let Some(wave) = run.waves.get(phase.wave as usize) else { return vec![Step::Wait] };
    let (mut accepted, mut failed, mut first) = (Vec::new(), Vec::new(), None);
    for (activity, task) in wave.tasks.iter().zip(0u32..) {
        let Some(end) = &activity.end else { return vec![Step::Wait] };
        if end.status == ResultStatus::Success {
            accepted.push(task);
            continue;
        }
        let error = end.error.clone().unwrap_or_default();
        let item = phase.at_work.get(task as usize).copied().unwrap_or_default();
        failed.push(told(item, activity.attempt, &activity.attempts, &error));
        first.get_or_insert(error);
    }
    let cause = first.unwrap_or_default();
    by(state, place, cause, accepted, failed)
}

/// What is told of a failed item: its attempts, and what it failed with.
fn told(item: u32, attempt: u32, attempts: &[v1::AttemptRecord], error: &v1::Error) -> Value {
    let skipped = attempts.len().saturating_sub(ATTEMPTS_TOLD);
    let attempts = attempts.iter().skip(skipped).map(|record| {
        json!({
            "attempt": record.attempt,
            "error": record.error,
            "durationMs": record.duration_ms,
            "waitedMs": record.waited_ms,
        })
    });
    let original = retry::original(error);
    json!({
        "item": item,
        "attempts": attempt,
        "failed": attempts.collect::<Vec<_>>(),
        "code": original.code,
        "message": shortened(&original.message),
    })
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}

/// The phase is blocked because of this failure: the event, and the question.
pub(super) fn by(
    state: &PipelineState,
    place: usize,
    cause: v1::Error,
    accepted: Vec<u32>,
    mut failed: Vec<Value>,
) -> Vec<Step> {
    let (Some(phase), Some(declared), Ok(number)) =
        (state.phases.get(place), state.declared(place), u32::try_from(place))
    else {
        return vec![Step::Wait];
    };
    let mut message =
        format!("the phase {:?} is blocked: {}", declared.name, shortened(&retry::original(&cause).message));
    if failed.len() > 1 {
        message.push_str(&format!("; {} items have failed", failed.len()));
    }
    let mut error = v1::Error { cause: Some(Box::new(cause)), ..codes::error(codes::PHASE_BLOCKED, message) };
    error.severity = Severity::High.to_proto().into();
    error.can_continue = Some(true);
    let all = failed.len();
    failed.truncate(TASKS_TOLD);
    // What is told of them has its bound in bytes as well.
    let payload = loop {
        let mut told = json!({ "failed": failed });
        if let Some(told) = told.as_object_mut().filter(|_| failed.len() < all) {
            told.insert("moreFailed".to_owned(), json!(all - failed.len()));
        }
        let text = told.to_string();
        if text.len() <= INLINE_MAX || failed.pop().is_none() {
            break text;
        }
    };
    let mut options = vec![RETRY.to_owned()];
    if place > 0 {
        options.push(ROLLBACK.to_owned());
    }
    options.push(ABORT.to_owned());
    error.options.clone_from(&options);
    let is_accepted =
        |item: &u32| accepted.iter().any(|task| phase.at_work.get(*task as usize) == Some(item));
    let open = match phase.open_items() {
        Some(open) => open.into_iter().filter(|item| !is_accepted(item)).collect(),
        None => Vec::new(),
    };
    let subject = v1::PhaseSubject { phase: number, name: declared.name.clone(), items: open };
    let question = v1::Question {
        purpose: v1::QuestionPurpose::Phase.into(),
        text: format!("The phase {:?} is blocked. What is to be done?", declared.name),
        options,
        error: Some(error.clone()),
        about: Some(v1::QuestionSubject { about: Some(v1::question_subject::About::Phase(subject)) }),
        holds: v1::QuestionHold::Run.into(),
        value: Some(v1::AnswerType {
            media_type: JSON_MEDIA_TYPE.to_owned(),
            options: vec![RETRY.to_owned()],
            schema: RETRY_VALUE.to_owned(),
        }),
        ..v1::Question::default()
    };
    let blocked = v1::PhaseBlocked {
        phase: number,
        error: Some(error),
        payload: Some(super::json_text(payload)),
        accepted,
    };
    vec![Step::Record(Body::PhaseBlocked(blocked)), Step::Ask(Box::new(question))]
}

/// What is given with an answer has to be read here and now.
pub(super) fn judge_answer(question: &v1::Question, answer: &Answer) -> Result<(), Refusal> {
    let is_blob = matches!(answer.value.as_ref().and_then(|value| value.data.as_ref()), Some(Data::Blob(_)));
    if question.purpose() != v1::QuestionPurpose::Phase {
        return Ok(());
    }
    // As it is written down it may be longer than it was given.
    let (_, input) = changes(answer.value.as_ref());
    let is_large =
        matches!(input.and_then(|input| input.data), Some(Data::Inline(text)) if text.len() > INLINE_MAX);
    if is_blob || is_large {
        let message =
            "the value of this answer has at most 32 KiB; give a larger input another way".to_owned();
        return Err(Refusal::WrongValue { message });
    }
    Ok(())
}

/// What a person wants to be done about a blocked phase.
pub(super) fn answered(
    state: &PipelineState,
    run: &RunState,
    question: &v1::Question,
    answer: &str,
    value: Option<&v1::Payload>,
) -> Result<Vec<Step>, Refusal> {
    let Some(v1::question_subject::About::Phase(subject)) =
        question.about.as_ref().and_then(|subject| subject.about.as_ref())
    else {
        return Ok(Vec::new());
    };
    let place = usize::try_from(subject.phase).map_err(|_| Refusal::Outdated)?;
    let is_blocked = state.phases.get(place).is_some_and(|phase| phase.status == CheckpointStatus::Blocked);
    match answer {
        RETRY if is_blocked => {
            let (agent, input) = changes(value);
            let open = state.phases.get(place).and_then(PhaseState::open_items);
            let is_whole = open.is_some_and(|open| open.is_empty());
            let anew = is_whole && (agent.is_some() || input.is_some());
            let changed = v1::PhaseChanged { phase: subject.phase, agent, input, anew };
            Ok(vec![Step::Record(Body::PhaseChanged(changed))])
        }
        ROLLBACK if is_blocked => roll_back(run, place, String::new(), String::new()),
        // Only what was offered is an answer.
        _ => Err(Refusal::Outdated),
    }
}

/// The agent and the input that the phase goes on with, where they are others. The value has passed its schema.
fn changes(value: Option<&v1::Payload>) -> (Option<String>, Option<v1::Payload>) {
    let Some(Data::Inline(bytes)) = value.and_then(|value| value.data.as_ref()) else { return (None, None) };
    let Ok(Value::Object(mut given)) = serde_json::from_slice::<Value>(bytes) else { return (None, None) };
    let agent = given.remove("agent").and_then(|agent| agent.as_str().map(str::to_owned));
    (agent, given.remove("input").map(|input| super::json_text(input.to_string())))
}

/// The steps back to the checkpoint before this phase. What is at work or waits is ended first, so that its late results are
/// refused.
pub(super) fn roll_back(
    run: &RunState,
    place: usize,
    request_id: String,
    requested: String,
) -> Result<Vec<Step>, Refusal> {
    if !matches!(run.phase, Phase::Running) {
        let message = "the run is about to end, and does not go back any more";
        return Err(refuse_with(codes::CHECKPOINT_NOT_FOUND, message));
    }
    let phase = u32::try_from(place).map_err(|_| Refusal::Outdated)?;
    let mut steps: Vec<Step> =
        run.open_questions().map(|asked| Step::Withdraw(asked.question.question_id.clone())).collect();
    let unsettled = run.activities().filter(|(_, activity)| activity.end.is_none());
    let ended: Vec<TaskRef> = unsettled.map(|(task, _)| task).collect();
    steps.push(Step::EndTasks(ended, v1::CancelReason::RolledBack));
    let body =
        Body::PipelineRolledBack(v1::PipelineRolledBack { phase, request_id: request_id.clone(), requested });
    steps.push(if request_id.is_empty() { Step::Record(body) } else { Step::RecordRequest(body) });
    Ok(steps)
}
