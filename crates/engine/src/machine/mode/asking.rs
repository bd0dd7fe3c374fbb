//! What people are asked: to approve a plan, to approve a call of a tool, and what planners and rules ask.

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::v1::{self, ExecutionMode, event::Body, question_subject::About};
use capataz_policy::codes;
use capataz_policy::mode::contract;
use capataz_policy::severity::Severity;

use super::Step;
use super::materialise::tools_of;
use super::memory;
use super::prompt::plan_value;
use super::state::{Call, Escalated, ModeState, Stage};
use crate::decide::{Refusal, refuse_with};
use crate::fold::state::RunState;
use crate::input::Answer;

const APPROVE: &str = "approve";
const EDIT: &str = "edit";
const REJECT: &str = "reject";
const CONTINUE: &str = "continue";
const COMPLETE: &str = "complete";
const ABORT: &str = "abort";
/// Characters of a call in the text of a question.
const SHOWN: usize = 1_000;

/// Asks a person to approve a revision of the plan.
pub(super) fn plan(state: &ModeState, plan: &v1::ModePlan) -> v1::Question {
    let steps = plan.steps.len();
    v1::Question {
        purpose: v1::QuestionPurpose::Plan.into(),
        text: format!("Revision {} of the plan has {steps} steps. Is it to be worked on?", plan.revision),
        options: [APPROVE, EDIT, REJECT].map(str::to_owned).to_vec(),
        about: Some(about_revision(plan.revision)),
        holds: v1::QuestionHold::Run.into(),
        value: Some(v1::AnswerType {
            media_type: JSON_MEDIA_TYPE.to_owned(),
            options: vec![EDIT.to_owned()],
            schema: contract::edit_schema(&tools_of(&state.run)),
        }),
        proposed: Some(super::json_text(plan_with_checkpoints(plan))),
        ..v1::Question::default()
    }
    .with_error(state.last_error())
}

fn plan_with_checkpoints(plan: &v1::ModePlan) -> String {
    let mut value = plan_value(plan);
    if let Some(object) = value.as_object_mut() {
        object.insert("checkpoints".to_owned(), serde_json::json!(plan.checkpoints));
    }
    value.to_string()
}

fn about_revision(revision: u32) -> v1::QuestionSubject {
    v1::QuestionSubject { about: Some(About::Revision(v1::RevisionSubject { revision })) }
}

trait WithError {
    fn with_error(self, error: Option<&v1::Error>) -> Self;
}

impl WithError for v1::Question {
    fn with_error(self, error: Option<&v1::Error>) -> Self {
        Self { error: error.cloned(), ..self }
    }
}

/// Asks a person to approve a call of a tool.
pub(super) fn tool(call: &Call) -> v1::Question {
    let parameters = &call.call.parameters;
    let shown = match parameters.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", parameters.get(..end).unwrap_or_default()),
        None => parameters.clone(),
    };
    v1::Question {
        purpose: v1::QuestionPurpose::Tool.into(),
        text: format!("Is {} to be called with {shown}?", call.call.tool),
        options: [APPROVE, REJECT, ABORT].map(str::to_owned).to_vec(),
        // Whoever approves a call can see all of it.
        proposed: Some(super::json_text(parameters.clone())),
        holds: v1::QuestionHold::Run.into(),
        ..v1::Question::default()
    }
}

/// Asks a person what a planner, or a rule, wants to be asked.
pub(super) fn escalation(state: &ModeState, asked: &v1::Escalation, completes: bool) -> v1::Question {
    let mut options: Vec<String> = Vec::new();
    if completes {
        options.push(COMPLETE.to_owned());
    }
    options.push(CONTINUE.to_owned());
    let own = [CONTINUE, ABORT];
    for option in &asked.options {
        if !own.contains(&option.as_str()) && !options.contains(option) {
            options.push(option.clone());
        }
    }
    options.push(ABORT.to_owned());
    v1::Question {
        purpose: v1::QuestionPurpose::Escalation.into(),
        text: format!("{}. {}", asked.reason.trim_end_matches('.'), asked.question),
        options,
        holds: v1::QuestionHold::Run.into(),
        ..v1::Question::default()
    }
    .with_error(state.last_error())
}

impl ModeState {
    fn last_error(&self) -> Option<&v1::Error> {
        self.execution.last.as_ref()?.error.as_ref()
    }
}

/// What is given with an answer has to be a plan that can be worked on, here and now.
pub(super) fn judge_answer(
    state: &ModeState,
    question: &v1::Question,
    answer: &Answer,
) -> Result<(), Refusal> {
    if question.purpose() != v1::QuestionPurpose::Plan || answer.option != EDIT {
        return Ok(());
    }
    let Some(value) = &answer.value else {
        let message = "the answer \"edit\" has the changed plan as its value".to_owned();
        return Err(Refusal::WrongValue { message });
    };
    match state.edited(value) {
        Ok(_) => Ok(()),
        Err(violations) => Err(Refusal::BreaksSchema { violations }),
    }
}

/// What follows from an answer.
pub(super) fn answered(
    state: &ModeState,
    run: &RunState,
    question: &v1::Question,
    answer: &str,
    value: Option<&v1::Payload>,
) -> Result<Vec<Step>, Refusal> {
    match (question.purpose(), &state.stage) {
        (v1::QuestionPurpose::Plan, Stage::Proposed) => plan_answered(state, question, answer, value),
        (v1::QuestionPurpose::Tool, Stage::Wanted(call)) => {
            Ok(vec![Step::Record(tool_answered(state, call, answer))])
        }
        (v1::QuestionPurpose::Escalation, Stage::Escalated(asked)) => {
            Ok(escalation_answered(state, run, question, asked, answer))
        }
        // A planner that could not be asked, or a plan that departs too far.
        (v1::QuestionPurpose::Escalation, _) => {
            Ok(vec![Step::Record(told(state, question, &question.text, answer))])
        }
        _ => Err(Refusal::Outdated),
    }
}

fn plan_answered(
    state: &ModeState,
    question: &v1::Question,
    answer: &str,
    value: Option<&v1::Payload>,
) -> Result<Vec<Step>, Refusal> {
    let revision = state.execution.plan.as_ref().map_or(0, |plan| plan.revision);
    if question.about.as_ref() != Some(&about_revision(revision)) {
        return Err(Refusal::Outdated);
    }
    match answer {
        APPROVE => Ok(vec![Step::Record(Body::PlanApproved(v1::PlanApproved {
            revision,
            remembered: Some(memory::feedback(
                state,
                "the plan was approved",
                Some(true),
                &["plan", "approved"],
            )),
        }))]),
        EDIT => {
            let edited = value.map(|value| state.edited(value));
            let plan = match edited {
                Some(Ok(plan)) => plan,
                // It was judged before.
                Some(Err(_)) | None => return Err(Refusal::Outdated),
            };
            let remembered = Some(memory::plan(state, &plan, "edited by a person"));
            Ok(vec![Step::Record(Body::PlanEdited(v1::PlanEdited { plan: Some(plan), remembered }))])
        }
        REJECT => Ok(vec![Step::Record(Body::PlanRejected(v1::PlanRejected {
            revision,
            remembered: Some(memory::feedback(
                state,
                "the plan was rejected",
                Some(false),
                &["plan", "rejected"],
            )),
        }))]),
        _ => Err(Refusal::Outdated),
    }
}

fn tool_answered(state: &ModeState, call: &Call, answer: &str) -> Body {
    if answer == APPROVE {
        let text = format!("a call of {} was approved", call.call.tool);
        return Body::ToolApproved(v1::ToolApproved {
            call: Some(call.call.clone()),
            remembered: Some(memory::feedback(state, &text, Some(true), &[&call.call.tool, "approved"])),
        });
    }
    let message = format!("a person has rejected the call of {}", call.call.tool);
    let mut error = codes::error(codes::TOOL_REJECTED, message.clone());
    error.severity = Severity::Medium.to_proto().into();
    let remembered = memory::feedback(state, &message, Some(false), &[&call.call.tool, "rejected"]);
    state.not_made(call, error, remembered)
}

fn escalation_answered(
    state: &ModeState,
    run: &RunState,
    question: &v1::Question,
    asked: &Escalated,
    answer: &str,
) -> Vec<Step> {
    if asked.completes && answer == COMPLETE {
        return vec![Step::Record(super::completed(state, run))];
    }
    vec![Step::Record(told(state, question, &asked.escalation.reason, answer))]
}

/// What a person has answered.
fn told(state: &ModeState, question: &v1::Question, reason: &str, answer: &str) -> Body {
    let text = format!("asked: {reason}; answered: {answer}");
    Body::EscalationAnswered(v1::EscalationAnswered {
        reason: reason.to_owned(),
        answer: answer.to_owned(),
        deviation: state.execution.deviation(),
        remembered: Some(memory::feedback(state, &text, None, &[answer, reason])),
        question_id: question.question_id.clone(),
    })
}

/// The call has to be approved by a person before it is made.
pub(super) fn needs_approval(state: &ModeState, call: &Call) -> bool {
    let demanded = state.tool(&call.call.tool).is_some_and(|tool| tool.needs_approval);
    if !demanded || call.approved {
        return false;
    }
    // Whoever has approved the plan has approved its own words.
    let step = call.call.step_index.and_then(|place| state.execution.plan_steps().get(place as usize));
    let is_approved = state.mode() == ExecutionMode::Supervised && state.execution.approved;
    !(is_approved && step.is_some_and(|step| step.parameters == call.call.parameters))
}

/// The checkpoint to go back to.
///
/// # Errors
/// There is none of this name, or the run cannot go back there.
pub(super) fn checkpoint<'a>(
    state: &'a ModeState,
    checkpoint_id: &str,
) -> Result<&'a super::state::Kept, Refusal> {
    let Some(kept) = state.checkpoints.iter().find(|kept| kept.id == checkpoint_id) else {
        let known: Vec<&str> = state.checkpoints.iter().map(|kept| kept.id.as_str()).collect();
        let named: String = checkpoint_id.chars().take(64).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("there is no checkpoint {named:?}; there are: {known}");
        return Err(refuse_with(codes::CHECKPOINT_NOT_FOUND, &message));
    };
    match &kept.irreversible {
        None => Ok(kept),
        Some(tool) => {
            let message = format!(
                "the run does not go back to checkpoint {:?}: {tool} was called since then, and what it did cannot be undone",
                kept.id
            );
            Err(refuse_with(codes::ROLLBACK_NOT_POSSIBLE, &message))
        }
    }
}
