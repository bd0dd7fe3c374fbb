//! What pipelines may do: phases in order, outputs that count only once they have passed, and ways back.
//!
//! Inputs, summaries and grades are computed here by hand, from what workers said and people answered.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};
use capataz_engine::TaskRef;
use capataz_store::RunId;

use super::Model;
use super::log::{RunModel, Step};
use super::script::Kind;
use crate::invariant::{Invariant, Violation};
use crate::pipelines::{WORST, text};

#[derive(Clone, Debug)]
pub struct PipelineModel {
    pub pipeline: v1::Pipeline,
    phases: Vec<PhaseModel>,
    /// The input and its items, as text.
    input: String,
    items: Vec<String>,
    /// Tasks of which an output was rejected, with the newest lease of which it was.
    rejected: BTreeMap<TaskRef, u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stands {
    #[default]
    Pending,
    AtWork,
    Completed,
    Blocked,
}

#[derive(Clone, Debug, Default)]
struct PhaseModel {
    stands: Stands,
    /// Summaries of the outputs that count, by item.
    done: Vec<Option<String>>,
    wave: usize,
    at_work: Vec<u32>,
    summary: String,
    agent: Option<String>,
    /// The input and its items with which it began, where the run has others by now.
    own: Option<(String, Vec<String>)>,
}

impl PipelineModel {
    pub fn new(pipeline: v1::Pipeline) -> Self {
        let phases = pipeline.phases.iter().map(|_| PhaseModel::default()).collect();
        let (input, items) = (String::new(), Vec::new());
        let mut model = Self { pipeline, phases, input, items, rejected: BTreeMap::new() };
        model.reads_input();
        model
    }

    fn reads_input(&mut self) {
        text(self.pipeline.input.as_ref()).clone_into(&mut self.input);
        let list = self.input.strip_prefix("{\"items\":[").and_then(|rest| rest.strip_suffix("]}"));
        let items = list.unwrap_or_default().split(',').filter(|item| !item.is_empty());
        self.items = items.map(str::to_owned).collect();
    }

    /// Phases that begin from here on have another input, where there is one.
    pub(super) fn works_on(&mut self, input: Option<&v1::Payload>) {
        if let Some(input) = input {
            let before = (self.input.clone(), self.items.clone());
            self.pipeline.input = Some(input.clone());
            self.reads_input();
            for phase in self.phases.iter_mut().filter(|phase| !phase.done.is_empty()) {
                phase.own.get_or_insert_with(|| before.clone());
            }
        }
    }

    fn current(&self) -> Option<usize> {
        self.phases.iter().position(|phase| phase.stands != Stands::Completed)
    }

    /// The run's input, as the phase knows it.
    fn input_of(&self, place: usize) -> &String {
        let own = self.phases.get(place).and_then(|phase| phase.own.as_ref());
        own.map_or(&self.input, |(input, _)| input)
    }

    fn items_of(&self, place: usize) -> &[String] {
        let own = self.phases.get(place).and_then(|phase| phase.own.as_ref());
        own.map_or(&self.items, |(_, items)| items)
    }

    /// What the item of a phase is given.
    fn given(&self, place: usize, item: u32) -> String {
        let has_items = self.pipeline.phases.get(place).is_some_and(|phase| phase.for_each.is_some());
        let own = match has_items {
            true => self.items_of(place).get(item as usize).cloned().unwrap_or_default(),
            false => self.input_of(place).clone(),
        };
        if place == 0 {
            return own;
        }
        let before = self.phases.iter().take(place).enumerate();
        let before: Vec<String> =
            before.map(|(place, phase)| format!("\"phase-{place}\":{}", phase.summary)).collect();
        let key = if has_items { "item" } else { "input" };
        format!("{{\"{key}\":{own},\"phases\":{{{}}}}}", before.join(","))
    }

    pub fn is_blocked(&self) -> bool {
        self.phases.iter().any(|phase| phase.stands == Stands::Blocked)
    }

    pub fn is_completed(&self) -> bool {
        self.current().is_none()
    }
}

/// The grade that an output has, if it passes.
fn grade(output: Option<&v1::Payload>) -> Option<u64> {
    let said = text(output);
    let grade: u64 = said.split_once("\"grade\":")?.1.strip_suffix('}')?.parse().ok()?;
    let is_json = output.is_some_and(|output| output.media_type == "application/json");
    (is_json && grade <= WORST).then_some(grade)
}

/// Whether an output breaks what every phase wants.
pub(super) fn breaks(output: Option<&v1::Payload>) -> bool {
    grade(output).is_none()
}

impl Model {
    /// A worker is given the next attempt of a task of a phase.
    pub fn phase_given(
        &self,
        run: RunId,
        task: TaskRef,
        token: u64,
        corrected: bool,
    ) -> Result<(), Violation> {
        let Some(model) = self.run(run) else { return Ok(()) };
        let Kind::Pipeline(pipeline) = &model.kind else { return Ok(()) };
        // One that was on its way for long is of a lease before.
        let was_rejected = pipeline.rejected.get(&task).is_some_and(|rejected| *rejected < token);
        Invariant::CorrectionsAreGiven
            .check(corrected || !was_rejected, || model.at(format!("{task} is given no correction")))
    }
}

impl RunModel {
    fn pipeline(&mut self) -> Result<&mut PipelineModel, Violation> {
        let text = self.at("a phase of something else");
        match &mut self.kind {
            Kind::Pipeline(pipeline) => Ok(pipeline),
            _ => Invariant::PhasesInOrder.broken(text),
        }
    }

    /// Between the ends of what was at work and the way back there is nothing else.
    pub(super) fn goes_back_at_once(&mut self, body: &Body) -> Result<(), Violation> {
        let is_back = matches!(body, Body::PipelineRolledBack(_) | Body::ModeRolledBack(_));
        let is_part = is_back || matches!(body, Body::TaskSettled(_));
        let text = self.at(format!("work was ended for a way back, and then comes {body:?}"));
        Invariant::RollbackEndsWork.check(!self.goes_back || is_part, || text)?;
        if is_back {
            self.goes_back = false;
        }
        Ok(())
    }

    /// Whether a worker may be told this schema, where the run is a pipeline: it is that of a phase.
    pub(super) fn is_schema_of_a_phase(&self, told: &str) -> bool {
        let Kind::Pipeline(pipeline) = &self.kind else { return true };
        let of = |phase: &v1::Phase| phase.output.as_ref().and_then(|rule| rule.schema.clone());
        // Whatever is JSON passes a phase without one.
        pipeline.pipeline.phases.iter().any(|phase| of(phase).as_deref().unwrap_or("true") == told)
    }

    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    pub(super) fn pipeline_outcome(&self) -> Option<v1::RunOutcome> {
        match &self.kind {
            Kind::Pipeline(pipeline) if pipeline.is_completed() => Some(v1::RunOutcome::Succeeded),
            _ => None,
        }
    }

    pub(super) fn phase_started(&mut self, event: v1::PhaseStarted) -> Result<(), Violation> {
        let text_of = self.at(format!("phase {} begins as wave {}", event.phase, event.wave));
        let is_free = self.holding_questions().next().is_none()
            && self.ending.is_none()
            && event.wave as usize == self.waves.len()
            && self.waves.iter().flat_map(|wave| &wave.tasks).all(|task| task.step == Step::Settled);
        let wave = event.tasks.unwrap_or_default();
        let place = event.phase as usize;
        let pipeline = self.pipeline()?;
        let is_next = pipeline.current() == Some(place);
        let has_items = pipeline.pipeline.phases.get(place).is_some_and(|phase| phase.for_each.is_some());
        let all = if has_items { pipeline.items_of(place).len() } else { 1 };
        let expected: Vec<String> = event.items.iter().map(|item| pipeline.given(place, *item)).collect();
        let given: Vec<&str> = wave.tasks.iter().map(|task| text(task.input.as_ref())).collect();
        let declared = pipeline.pipeline.phases.get(place).map(|phase| phase.agent.clone());
        let Some(phase) = pipeline.phases.get_mut(place) else {
            return Invariant::PhasesInOrder.broken(text_of);
        };
        if phase.done.len() != all {
            phase.done = vec![None; all];
        }
        let open = phase.done.iter().zip(0u32..).filter(|(done, _)| done.is_none()).map(|(_, item)| item);
        let open: Vec<u32> = open.collect();
        let agent = phase.agent.clone().or(declared);
        let right_agent = wave.tasks.iter().all(|task| Some(&task.agent) == agent.as_ref());
        let is_pending = phase.stands == Stands::Pending;
        Invariant::PhasesInOrder.check(
            is_free
                && is_next
                && is_pending
                && event.items == open
                && event.of as usize == all
                && right_agent,
            || format!("{text_of}: {:?} of {}, open {open:?} of {all}", event.items, event.of),
        )?;
        Invariant::PhasesGetWhatCounts.check(given == expected, || {
            format!("{text_of}: it is given {given:?}, expected {expected:?}")
        })?;
        phase.stands = Stands::AtWork;
        phase.wave = event.wave as usize;
        phase.at_work = event.items;
        self.open_wave(wave);
        Ok(())
    }

    pub(super) fn output_rejected(&mut self, event: &v1::OutputRejected) -> Result<(), Violation> {
        let task = super::log::place(event.wave, event.task);
        let text_of = self.at(format!("an output of {task} is rejected"));
        if self.is_mode() {
            let leased = matches!(self.in_work(task)?.step, Step::Leased(_));
            return Invariant::OutputsPassTheirSchema.check(leased, || text_of);
        }
        let given = text(event.input.as_ref());
        let is_last = event.attempt >= self.max_attempts(task);
        let told = is_last && event.input.is_none()
            || given.contains("\"correction\":{") && given.contains("\"/grade\"")
            || given.contains("\"correction\":{") && given.contains("\"required\"");
        Invariant::CorrectionsAreGiven
            .check(told, || format!("{text_of}, and the next attempt has {given}"))?;
        let Step::Leased(token) = self.in_work(task)?.step else {
            return Invariant::OutputsPassTheirSchema.broken(text_of);
        };
        let broken = self.broken.borrow().contains(&token);
        Invariant::OutputsPassTheirSchema.check(broken, || text_of)?;
        self.pipeline()?.rejected.insert(task, token);
        Ok(())
    }

    pub(super) fn phase_completed(&mut self, event: &v1::PhaseCompleted) -> Result<(), Violation> {
        let text_of = self.at(format!("phase {} is completed", event.phase));
        let place = event.phase as usize;
        let is_free = self.ending.is_none() && self.holding_questions().next().is_none();
        let done = self.outputs_of_phase(place)?;
        let pipeline = self.pipeline()?;
        let has_items = pipeline.pipeline.phases.get(place).is_some_and(|phase| phase.for_each.is_some());
        let is_next = pipeline.current() == Some(place);
        let Some(phase) = pipeline.phases.get_mut(place) else {
            return Invariant::PhasesInOrder.broken(text_of);
        };
        for (item, summary) in phase.at_work.iter().zip(done) {
            if let Some(place) = phase.done.get_mut(*item as usize) {
                *place = summary;
            }
        }
        let all: Option<Vec<String>> = phase.done.iter().cloned().collect();
        let Some(all) = all.filter(|_| is_next && is_free && phase.stands == Stands::AtWork) else {
            return Invariant::PhasesInOrder.broken(format!("{text_of} without all of its outputs"));
        };
        let summary = if has_items { format!("[{}]", all.join(",")) } else { all.join("") };
        let given = text(event.summary.as_ref());
        Invariant::PhasesGetWhatCounts
            .check(given == summary, || format!("{text_of} with {given}, expected {summary}"))?;
        (phase.stands, phase.summary) = (Stands::Completed, summary);
        Ok(())
    }

    /// What counts of the tasks in the newest wave of a phase: a summary for each that has succeeded.
    fn outputs_of_phase(&mut self, place: usize) -> Result<Vec<Option<String>>, Violation> {
        let wave = self.pipeline()?.phases.get(place).map_or(0, |phase| phase.wave);
        let tasks = self.waves.get(wave).map(|wave| wave.tasks.clone()).unwrap_or_default();
        let success = v1::ResultStatus::Success as i32;
        let summary = |task: &super::log::TaskModel| {
            let succeeded = task.result.as_ref().is_some_and(|result| result.status == success);
            task.grade.filter(|_| succeeded).map(|grade| format!("{{\"grade\":{grade}}}"))
        };
        Ok(tasks.iter().map(summary).collect())
    }

    pub(super) fn phase_blocked(&mut self, event: &v1::PhaseBlocked) -> Result<(), Violation> {
        let text_of = self.at(format!("phase {} is blocked", event.phase));
        let place = event.phase as usize;
        let is_free = self.ending.is_none() && self.holding_questions().next().is_none();
        let settled =
            self.waves.last().is_some_and(|wave| wave.tasks.iter().all(|task| task.step == Step::Settled));
        let done = self.outputs_of_phase(place)?;
        let accepted: Vec<u32> =
            done.iter().zip(0u32..).filter(|(done, _)| done.is_some()).map(|(_, task)| task).collect();
        let pipeline = self.pipeline()?;
        let is_next = pipeline.current() == Some(place);
        let Some(phase) = pipeline.phases.get_mut(place) else {
            return Invariant::PhasesInOrder.broken(text_of);
        };
        // What cannot be computed blocks a phase before its work, or after all of it.
        let is_uncomputed = event.error.as_ref().is_some_and(|error| {
            error
                .cause
                .as_ref()
                .is_some_and(|cause| cause.code == "SERVICE_UNAVAILABLE" && cause.cause.is_none())
        });
        let right = match phase.stands {
            Stands::Pending => is_uncomputed && event.accepted.is_empty(),
            Stands::AtWork => {
                let is_short = accepted.len() < phase.at_work.len();
                settled && accepted == event.accepted && (is_short || is_uncomputed)
            }
            Stands::Completed | Stands::Blocked => false,
        };
        Invariant::PhasesInOrder
            .check(is_next && is_free && right, || format!("{text_of}, accepted {:?}", event.accepted))?;
        if phase.stands == Stands::Pending {
            phase.stands = Stands::Blocked;
            return Ok(());
        }
        for (item, summary) in phase.at_work.iter().zip(done) {
            if let Some(place) = phase.done.get_mut(*item as usize) {
                *place = summary;
            }
        }
        phase.stands = Stands::Blocked;
        Ok(())
    }

    pub(super) fn phase_changed(&mut self, event: v1::PhaseChanged) -> Result<(), Violation> {
        let text_of = self.at(format!("phase {} goes on", event.phase));
        let answered = self.questions.values().any(|question| question.answer.as_deref() == Some("retry"));
        let held = self.holding_questions().next().is_some();
        let phase = self.pipeline()?.phases.get_mut(event.phase as usize);
        match phase.filter(|phase| phase.stands == Stands::Blocked && answered && !held) {
            Some(phase) => {
                phase.stands = Stands::Pending;
                if event.anew {
                    phase.done.clear();
                    phase.own = None;
                }
                phase.agent = event.agent.or(phase.agent.take());
                Ok(())
            }
            None => Invariant::PhasesInOrder.broken(text_of),
        }
    }

    pub(super) fn pipeline_rolled_back(&mut self, event: v1::PipelineRolledBack) -> Result<(), Violation> {
        let text_of = self.at(format!("it goes back to before phase {}", event.phase));
        let settled = self.waves.iter().flat_map(|wave| &wave.tasks).all(|task| task.step == Step::Settled);
        let live = self.leases.values().any(|lease| lease.end.is_none());
        Invariant::RollbackEndsWork
            .check(settled && !live, || format!("{text_of} with work that goes on"))?;
        let held = self.holding_questions().next().is_some();
        let place = event.phase as usize;
        let pipeline = self.pipeline()?;
        let before = place.checked_sub(1).and_then(|before| pipeline.phases.get(before));
        let is_there = before.is_some_and(|before| before.stands == Stands::Completed);
        Invariant::PhasesInOrder.check(is_there && !held, || text_of)?;
        for phase in pipeline.phases.iter_mut().skip(place) {
            *phase = PhaseModel::default();
        }
        self.request(event.request_id)
    }

    /// The grade with which a task of a phase has succeeded.
    pub(super) fn note_grade(
        &mut self,
        task: TaskRef,
        output: Option<&v1::Payload>,
    ) -> Result<(), Violation> {
        if self.is_pipeline() {
            let grade = grade(output);
            self.in_work(task)?.grade = grade;
        }
        Ok(())
    }
}
