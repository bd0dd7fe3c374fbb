//! A pipeline: phases whose outputs are judged before they count (seed 003). Each beginning of a phase is a wave; what its tasks
//! are given, and what of their outputs goes on, are answers to queries.

mod blocked;
mod materialise;
pub(crate) mod state;

use std::collections::BTreeMap;

use capataz_contracts::json::JSON_MEDIA_TYPE;
use capataz_contracts::reference::{self, Grammar};
use capataz_contracts::v1::{self, CheckpointStatus, event::Body, payload::Data, run_result};
use capataz_policy::aggregation::{AggregationPolicy, ResultStatus};
use capataz_policy::codes;
use capataz_policy::lifecycle::{self, TaskState};
use capataz_policy::retry;
use serde_json::Value;

use super::{Command, Kind, Meaning, Step, Verdict, correction};
use crate::decide::{Refusal, not_a_session, refuse_with, schedule_to_start_error};
use crate::fold::digest;
use crate::fold::state::{Moment, RunState};
use crate::input::{Answer, Computed, QueryAnswer, TaskRef};
use crate::query::{Composition, KnownPhase, Query, QueryId, Summing};
use state::{PhaseState, PipelineState};

pub use materialise::materialise;

/// What a pipeline does next.
enum Next {
    /// What the tasks of this phase are given is to be found.
    Compose(usize),
    /// Tasks are at work, or a person decides.
    Wait,
    /// What of the outputs of this phase goes on is to be found.
    Summarize(usize),
    /// Tasks of this phase have failed.
    Block(usize),
    /// All phases are completed.
    Finish,
}

impl PipelineState {
    fn query_id(&self) -> QueryId {
        QueryId(self.decisions)
    }

    fn what_next(&self, run: &RunState) -> Next {
        let Some((place, phase)) = self.current() else { return Next::Finish };
        match phase.status {
            CheckpointStatus::Unspecified | CheckpointStatus::Pending => Next::Compose(place),
            CheckpointStatus::Blocked | CheckpointStatus::Completed => Next::Wait,
            CheckpointStatus::InProgress => {
                let Some(wave) = run.waves.get(phase.wave as usize) else { return Next::Wait };
                let ends = wave.tasks.iter().map(|activity| activity.end.as_ref().map(|end| end.status));
                let mut all_count = true;
                for end in ends {
                    match end {
                        None => return Next::Wait,
                        Some(status) => all_count &= status == ResultStatus::Success,
                    }
                }
                if all_count { Next::Summarize(place) } else { Next::Block(place) }
            }
        }
    }

    fn declared(&self, place: usize) -> Option<&v1::Phase> {
        self.pipeline.phases.get(place)
    }

    /// The phase that a task belongs to.
    fn phase_of(&self, task: TaskRef) -> Option<(usize, &PhaseState)> {
        let is_of = |phase: &PhaseState| phase.begun > 0 && phase.wave == task.wave;
        self.phases.iter().enumerate().find(|(_, phase)| is_of(phase))
    }

    fn rule_of(&self, task: TaskRef) -> Option<&v1::OutputRule> {
        let (place, _) = self.phase_of(task)?;
        self.declared(place)?.output.as_ref()
    }

    fn composition(&self, run: &RunState, place: usize) -> Option<Composition> {
        let (phase, declared) = (self.phases.get(place)?, self.declared(place)?);
        let template = declared.input.clone().unwrap_or_default();
        let mut wanted = serde_json::from_str(&template)
            .map(|template| reference::names(&template, Grammar::Phases))
            .unwrap_or_default();
        if let Some(list) = &declared.for_each {
            wanted.extend(reference::names(&Value::String(list.clone()), Grammar::Phases));
        }
        let wants = |name: &str, what: &str| wanted.contains(&format!("{name}.{what}"));
        let earlier = self.pipeline.phases.iter().zip(&self.phases).take(place);
        let known = earlier.map(|(declared, phase)| {
            let name = declared.name.as_str();
            let known = KnownPhase {
                summary: phase.payload.clone().filter(|_| wants(name, "summary")),
                outputs: if wants(name, "output") { outputs_of(run, phase) } else { Vec::new() },
                has_items: declared.for_each.is_some(),
            };
            (name.to_owned(), known)
        });
        Some(Composition {
            phases: known.collect(),
            template,
            for_each: declared.for_each.clone(),
            input: phase.of_run.as_ref().or(self.pipeline.input.as_ref()).cloned().unwrap_or_else(null),
            items: phase.open_items(),
            given: phase.input.clone(),
            overrides: BTreeMap::new(),
        })
    }

    fn summing(&self, run: &RunState, place: usize) -> Option<Summing> {
        let (phase, declared) = (self.phases.get(place)?, self.declared(place)?);
        let mut outputs =
            phase.items.iter().map(|place| place.and_then(|task| output_of(run, task))).collect::<Vec<_>>();
        let newest = run.waves.get(phase.wave as usize)?;
        for (item, activity) in phase.at_work.iter().zip(&newest.tasks) {
            let output = activity.end.as_ref().and_then(|end| end.output.clone());
            *outputs.get_mut(*item as usize)? = output;
        }
        let composition = match declared.summarize() {
            v1::SummaryRule::Unspecified => None,
            v1::SummaryRule::Surfaces => {
                let overrides = phase.given.iter().map(|given| (given.item, given.input.clone())).collect();
                self.composition(run, place).map(|composition| Composition {
                    items: None,
                    given: None,
                    overrides,
                    ..composition
                })
            }
        };
        Some(Summing {
            rule: declared.summarize(),
            keys: declared.summary.clone(),
            outputs: outputs.into_iter().map(|output| output.unwrap_or_else(null)).collect(),
            has_items: declared.for_each.is_some(),
            inputs: composition,
        })
    }

    fn query(&self, run: &RunState) -> Option<Query> {
        match self.what_next(run) {
            Next::Compose(place) => Some(Query::Compose(Box::new(self.composition(run, place)?))),
            Next::Summarize(place) => Some(Query::Summarize(Box::new(self.summing(run, place)?))),
            Next::Wait | Next::Block(_) | Next::Finish => None,
        }
    }

    /// The event by which a phase begins, with what its tasks are given.
    fn begin(&self, run: &RunState, place: usize, inputs: Vec<v1::Payload>) -> Option<Body> {
        let (phase, declared) = (self.phases.get(place)?, self.declared(place)?);
        let all = u32::try_from(inputs.len()).ok()?;
        let (items, of) = match phase.open_items() {
            Some(open) => (open, u32::try_from(phase.items.len()).ok()?),
            None => ((0..all).collect(), all),
        };
        if items.len() != inputs.len() {
            return None;
        }
        let agent = phase.agent.as_ref().unwrap_or(&declared.agent);
        let again = phase.begun.checked_add(1)?;
        let task = |(item, input): (&u32, v1::Payload)| v1::Task {
            name: task_name(&declared.name, declared.for_each.is_some().then_some(*item), again),
            agent: agent.clone(),
            input: Some(input),
            effect: declared.effect,
            timeouts: declared.timeouts,
            retry: declared.retry.clone(),
            ..v1::Task::default()
        };
        let tasks = items.iter().zip(inputs).map(task).collect();
        let wave = v1::Wave {
            name: Some(declared.name.clone()),
            tasks,
            policy: Some(AggregationPolicy::all_of_them().to_proto()),
        };
        Some(Body::PhaseStarted(v1::PhaseStarted {
            phase: u32::try_from(place).ok()?,
            wave: u32::try_from(run.waves.len()).ok()?,
            tasks: Some(wave),
            items,
            of,
        }))
    }

    /// Where each phase stands, as seed 003 has it.
    fn checkpoints(&self, run_id: &str) -> Vec<v1::Checkpoint> {
        let phases = self.pipeline.phases.iter().zip(&self.phases);
        let checkpoint = |(declared, phase): (&v1::Phase, &PhaseState)| v1::Checkpoint {
            product_id: self.pipeline.product_id.clone().unwrap_or_default(),
            phase: declared.name.clone(),
            status: phase.status.into(),
            checkpoint_version: self.pipeline.checkpoint_version.clone().unwrap_or_default(),
            payload: phase.payload.clone(),
            created_at_ms: phase.created.map(|at| at.0),
            updated_at_ms: phase.updated.map(|at| at.0),
            run_id: run_id.to_owned(),
            error_message: phase.error.as_ref().map(|error| error.message.clone()),
        };
        phases.map(checkpoint).collect()
    }

    /// The place of the phase that begins anew where a person asks for this one; the one in work where none is named.
    fn rolled_back_to(&self, phase: &str) -> Result<usize, Refusal> {
        let place = match phase {
            "" => self.current().map(|(place, _)| place),
            phase => self.pipeline.phases.iter().position(|declared| declared.name == phase),
        };
        let Some(place) = place else {
            let known: Vec<&str> =
                self.pipeline.phases.iter().map(|declared| declared.name.as_str()).collect();
            let phase: String = phase.chars().take(64).collect();
            let message = format!("there is no phase {phase:?}; the phases are {}", known.join(", "));
            return Err(refuse_with(codes::PHASE_NOT_FOUND, &message));
        };
        let before =
            place.checked_sub(1).and_then(|before| Some((self.phases.get(before)?, self.declared(before)?)));
        match before {
            Some((state, _)) if state.status == CheckpointStatus::Completed => Ok(place),
            Some((_, declared)) => {
                let message =
                    format!("the phase {:?} has no completed checkpoint to go back to", declared.name);
                Err(refuse_with(codes::CHECKPOINT_NOT_FOUND, &message))
            }
            None => {
                let message =
                    "no phase comes before the first one, so that there is no checkpoint to go back to";
                Err(refuse_with(codes::CHECKPOINT_NOT_FOUND, message))
            }
        }
    }
}

/// A name that no other task of the run has: names of phases have no dots.
fn task_name(phase: &str, item: Option<u32>, again: u32) -> String {
    let mut name = phase.to_owned();
    if let Some(item) = item {
        name.push_str(&format!(".{item}"));
    }
    if again > 1 {
        name.push_str(&format!(".again-{again}"));
    }
    name
}

fn null() -> v1::Payload {
    json_text("null".to_owned())
}

fn json_text(text: String) -> v1::Payload {
    v1::Payload { media_type: JSON_MEDIA_TYPE.to_owned(), data: Some(Data::Inline(text.into())) }
}

fn output_of(run: &RunState, task: TaskRef) -> Option<v1::Payload> {
    run.activity(task)?.end.as_ref()?.output.clone()
}

fn outputs_of(run: &RunState, phase: &PhaseState) -> Vec<v1::Payload> {
    let outputs = phase.items.iter().flatten().map(|task| output_of(run, *task).unwrap_or_else(null));
    outputs.collect()
}

impl Kind for PipelineState {
    fn run_kind(&self) -> v1::RunKind {
        v1::RunKind::Pipeline
    }

    fn next(&self, run: &RunState, _now: Moment) -> Vec<Step> {
        match self.what_next(run) {
            Next::Wait => vec![Step::Wait],
            Next::Block(place) => blocked::by_tasks(self, run, place),
            Next::Finish => vec![Step::Finish { outcome: v1::RunOutcome::Succeeded, error: None }],
            Next::Compose(_) | Next::Summarize(_) => match self.query(run) {
                Some(query) => vec![Step::Query(self.query_id(), query)],
                None => vec![Step::Wait],
            },
        }
    }

    fn schemas_of<'a>(&'a self, run: &'a RunState, task: TaskRef) -> Vec<&'a String> {
        let wanted = self.rule_of(task).and_then(|rule| rule.schema.as_ref());
        let declared = run.output_schema(task).filter(|declared| wanted != Some(*declared));
        wanted.into_iter().chain(declared).collect()
    }

    /// The schema of the phase; without one, the output has to be JSON all the same.
    fn contract_of(&self, task: TaskRef) -> Option<&str> {
        Some(self.rule_of(task).and_then(|rule| rule.schema.as_deref()).unwrap_or("true"))
    }

    fn checks_of(&self, task: TaskRef) -> Option<Vec<v1::OutputCheck>> {
        Some(self.rule_of(task).map(|rule| rule.checks().collect()).unwrap_or_default())
    }

    fn completed(&self, _: &RunState, _: TaskRef, output: v1::Payload, _: Moment) -> Verdict {
        Verdict::done(Some(output))
    }

    fn found_unread(&self, _: TaskRef, error: &v1::Error) -> Vec<v1::SchemaViolation> {
        correction::of_unread(error)
    }

    /// A rejected output is tried again whatever its code is (seed 003, "Retry + Backoff").
    fn rejected(
        &self,
        run: &RunState,
        task: TaskRef,
        violations: Vec<v1::SchemaViolation>,
        corrected: Option<v1::Payload>,
    ) -> Verdict {
        correction::judged(run, task, violations, corrected)
    }

    fn failed(&self, run: &RunState, task: TaskRef, error: v1::Error) -> Verdict {
        let found = self.found_unread(task, &error);
        if !found.is_empty() {
            return correction::rejected(run, task, found, None);
        }
        let is_of_schema =
            [codes::VALIDATION_ERROR.as_str(), codes::PARSE_ERROR.as_str()].contains(&error.code.as_str());
        let may_pass = is_of_schema.then_some(true);
        Verdict { record: Vec::new(), meaning: Meaning::AttemptFailed { error, output: None, may_pass } }
    }

    fn attempt_too_late(&self, run: &RunState, task: TaskRef) -> v1::Error {
        retry::attempt_timeout_error(run.plan.retry_of(task).timeout_per_attempt().unwrap_or_default())
    }

    fn not_taken(&self, run: &RunState, task: TaskRef) -> (ResultStatus, v1::Error) {
        (ResultStatus::Timeout, schedule_to_start_error(run, task))
    }

    fn declares_tasks(&self) -> bool {
        false
    }

    /// A failure blocks its phase, and a person decides.
    fn aborts_when_critical(&self) -> bool {
        false
    }

    fn asks_when_high(&self) -> bool {
        false
    }

    fn asks_at_deadline(&self) -> bool {
        false
    }

    fn outcome_may_be_given(&self) -> bool {
        true
    }

    /// A person has answered so to the question about a blocked phase.
    fn outcome_when_aborted(&self, error: &v1::Error) -> v1::RunOutcome {
        let is_blocked = error.code == codes::PHASE_BLOCKED.as_str();
        if is_blocked { v1::RunOutcome::Blocked } else { v1::RunOutcome::Failed }
    }

    fn may_run_again(&self, _: &RunState, _: TaskRef, name: &str) -> Result<(), Refusal> {
        let mut error = lifecycle::refused(TaskState::Failed, TaskState::Active);
        error.message =
            format!("{name:?} belongs to a phase: its phase goes on when its question is answered");
        error.suggested_action = None;
        error.options = vec!["abort".to_owned()];
        Err(Refusal::Rule(Box::new(error)))
    }

    fn open_query(&self, run: &RunState) -> Option<(QueryId, Query)> {
        Some((self.query_id(), self.query(run)?))
    }

    fn open_query_id(&self, run: &RunState) -> Option<QueryId> {
        let is_open = matches!(self.what_next(run), Next::Compose(_) | Next::Summarize(_));
        is_open.then(|| self.query_id())
    }

    fn answered(&self, run: &RunState, answer: QueryAnswer, _: Moment) -> Result<Vec<Step>, Refusal> {
        let QueryAnswer::Computed(computed) = answer else { return Err(Refusal::Outdated) };
        match (self.what_next(run), computed) {
            (Next::Compose(place), Computed::Inputs(inputs)) => {
                let body = self.begin(run, place, inputs).ok_or(Refusal::Outdated)?;
                Ok(vec![Step::Begin(body)])
            }
            (Next::Summarize(place), Computed::Summary(summary)) => {
                let phase = u32::try_from(place).map_err(|_| Refusal::Outdated)?;
                let completed = v1::PhaseCompleted { phase, summary: Some(summary) };
                Ok(vec![Step::Record(Body::PhaseCompleted(completed))])
            }
            (Next::Compose(place), Computed::Failed(error)) => {
                Ok(blocked::by(self, place, error, Vec::new(), Vec::new()))
            }
            (Next::Summarize(place), Computed::Failed(error)) => {
                let tasks = self.phases.get(place).map_or(0, |phase| phase.at_work.len());
                let accepted = (0u32..).take(tasks).collect();
                Ok(blocked::by(self, place, error, accepted, Vec::new()))
            }
            _ => Err(Refusal::Outdated),
        }
    }

    fn digest(&self, _: &RunState, _: &str, command: &Command) -> String {
        match command {
            Command::RollBack { phase } => digest::rollback_pipeline(phase),
            _ => String::new(),
        }
    }

    fn command(&self, run: &RunState, command: Command, request_id: String) -> Result<Vec<Step>, Refusal> {
        match command {
            Command::RollBack { phase } => {
                let place = self.rolled_back_to(&phase)?;
                blocked::roll_back(run, place, request_id, phase)
            }
            command => Err(not_a_session(&command)),
        }
    }

    fn person_answered(
        &self,
        run: &RunState,
        question: &v1::Question,
        answer: &str,
        value: Option<&v1::Payload>,
    ) -> Result<Vec<Step>, Refusal> {
        blocked::answered(self, run, question, answer, value)
    }

    fn judge_answer(&self, question: &v1::Question, answer: &Answer) -> Result<(), Refusal> {
        blocked::judge_answer(question, answer)
    }

    fn overdue(&self) -> Vec<Step> {
        Vec::new()
    }

    fn turn_has_come(&self, _: &RunState, _: v1::SessionContext) -> Result<Vec<Step>, Refusal> {
        Err(Refusal::Outdated)
    }

    fn session(&self) -> Option<&str> {
        None
    }

    fn awaits_turn(&self) -> bool {
        false
    }

    fn session_turn(&self, _: &RunState, _: &str) -> Option<v1::SessionTurn> {
        None
    }

    fn uses_browser(&self) -> bool {
        false
    }

    fn blobs_of(&self, _: &v1::Payload) -> Vec<v1::BlobRef> {
        Vec::new()
    }

    fn checkpoints(&self, run_id: &str) -> Vec<v1::Checkpoint> {
        self.checkpoints(run_id)
    }

    fn result(&self, _: &RunState) -> Option<run_result::Work> {
        Some(run_result::Work::Pipeline(v1::PipelineResult { checkpoints: self.checkpoints("") }))
    }
}
