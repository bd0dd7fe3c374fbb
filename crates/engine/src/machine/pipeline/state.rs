//! What the state of a pipeline has beside its waves: each beginning of a phase is a wave. Part of the fold.

use capataz_contracts::v1::{self, CheckpointStatus, event::Body};

use crate::fold::bytes;
use crate::fold::digest;
use crate::fold::state::{Moment, Wall};
use crate::input::TaskRef;
use crate::machine::Applied;
use crate::snapshot::{as_bytes, number};

/// The state that only pipelines have.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PipelineState {
    /// As it was accepted, with every default filled in.
    #[serde(with = "as_bytes::one")]
    pub(crate) pipeline: v1::Pipeline,
    /// One for each phase of the pipeline, in their order.
    pub(super) phases: Vec<PhaseState>,
    /// Events of its own so far. It numbers queries, so that what was asked before one of them is stale after it.
    pub(super) decisions: u64,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct PhaseState {
    #[serde(with = "number")]
    pub(super) status: CheckpointStatus,
    /// When it began first, and when it changed last.
    pub(super) created: Option<Wall>,
    pub(super) updated: Option<Wall>,
    /// How often it has begun.
    pub(super) begun: u32,
    /// For each item the task whose output counts. Empty until the phase has begun.
    pub(super) items: Vec<Option<TaskRef>>,
    /// The newest wave of the phase, and the items that its tasks are for.
    pub(super) wave: u32,
    pub(super) at_work: Vec<u32>,
    /// The agent and the input that a person has named, while the phase was blocked.
    pub(super) agent: Option<String>,
    #[serde(with = "as_bytes::option")]
    pub(super) input: Option<v1::Payload>,
    /// What people have named for single items.
    pub(super) given: Vec<Given>,
    /// The input of the run with which it began, where the run has another one by now.
    #[serde(with = "as_bytes::option")]
    pub(super) of_run: Option<v1::Payload>,
    /// The summary of a completed phase, the attempts of a blocked one.
    #[serde(with = "as_bytes::option")]
    pub(super) payload: Option<v1::Payload>,
    #[serde(with = "as_bytes::option")]
    pub(super) error: Option<v1::Error>,
}

/// What a person has named for an item.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Given {
    pub(super) item: u32,
    #[serde(with = "as_bytes::one")]
    pub(super) input: v1::Payload,
}

impl PhaseState {
    fn pending() -> Self {
        Self { status: CheckpointStatus::Pending, ..Self::default() }
    }

    /// The items that have no output that counts; `None` where nobody knows yet how many there are.
    pub(super) fn open_items(&self) -> Option<Vec<u32>> {
        let open = self.items.iter().zip(0u32..).filter(|(done, _)| done.is_none());
        (!self.items.is_empty()).then(|| open.map(|(_, item)| item).collect())
    }

    fn bytes(&self) -> u64 {
        let lists = (self.items.len() + self.at_work.len()) as u64 * bytes::ENTRY;
        let given = self.given.iter().map(|given| bytes::message(&given.input) + bytes::ENTRY);
        let parts = [
            lists,
            given.sum(),
            self.agent.as_deref().map_or(0, bytes::text),
            bytes::optional(self.input.as_ref()),
            bytes::optional(self.of_run.as_ref()),
            bytes::optional(self.payload.as_ref()),
            bytes::optional(self.error.as_ref()),
        ];
        parts.iter().sum()
    }
}

impl PipelineState {
    pub(crate) fn new(pipeline: v1::Pipeline) -> Self {
        let phases = pipeline.phases.iter().map(|_| PhaseState::pending()).collect();
        Self { pipeline, phases, decisions: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes::message(&self.pipeline).saturating_add(self.changing_bytes())
    }

    pub(crate) fn changing_bytes(&self) -> u64 {
        self.phases.iter().map(PhaseState::bytes).fold(0, u64::saturating_add)
    }

    /// The first phase that is not completed, with its place.
    pub(super) fn current(&self) -> Option<(usize, &PhaseState)> {
        self.phases.iter().enumerate().find(|(_, phase)| phase.status != CheckpointStatus::Completed)
    }

    /// The phases that begin from here on have this input. One that has begun keeps its items.
    pub(crate) fn work_on(&mut self, input: Option<v1::Payload>) {
        let Some(input) = input else { return };
        let before = self.pipeline.input.replace(input);
        let begun = |phase: &&mut PhaseState| !phase.items.is_empty();
        for phase in self.phases.iter_mut().filter(begun) {
            phase.of_run = phase.of_run.take().or_else(|| before.clone());
        }
    }

    pub(crate) fn apply(&mut self, body: Body, at: Moment) -> Option<Applied> {
        let mut applied = Applied::default();
        self.decisions = self.decisions.checked_add(1)?;
        match body {
            Body::PhaseStarted(event) => {
                let phase = self.phase(event.phase, at)?;
                phase.status = CheckpointStatus::InProgress;
                phase.begun = phase.begun.checked_add(1)?;
                phase.wave = event.wave;
                phase.items.resize(usize::try_from(event.of).ok()?, None);
                if phase.input.is_some() {
                    let tasks = event.tasks.as_ref().map(|wave| wave.tasks.as_slice()).unwrap_or_default();
                    let inputs = tasks.iter().map(|task| task.input.clone());
                    for (item, input) in event.items.iter().zip(inputs) {
                        phase.given.retain(|given| given.item != *item);
                        phase.given.extend(input.map(|input| Given { item: *item, input }));
                    }
                }
                phase.at_work = event.items;
                phase.payload = None;
                phase.error = None;
                applied.wave = Some((event.wave, event.tasks?));
            }
            Body::PhaseCompleted(event) => {
                let phase = self.phase(event.phase, at)?;
                let all: Vec<u32> = (0u32..).take(phase.at_work.len()).collect();
                phase.accept(&all)?;
                phase.status = CheckpointStatus::Completed;
                phase.payload = event.summary;
            }
            Body::PhaseBlocked(event) => {
                let phase = self.phase(event.phase, at)?;
                phase.accept(&event.accepted)?;
                phase.status = CheckpointStatus::Blocked;
                phase.payload = event.payload;
                phase.error = event.error;
            }
            Body::PhaseChanged(event) => {
                let phase = self.phase(event.phase, at)?;
                phase.status = CheckpointStatus::Pending;
                (phase.payload, phase.error) = (None, None);
                if event.anew {
                    phase.items.clear();
                    phase.given.clear();
                    phase.of_run = None;
                }
                phase.agent = event.agent.or(phase.agent.take());
                phase.input = event.input.or(phase.input.take());
            }
            Body::PipelineRolledBack(event) => {
                let from = usize::try_from(event.phase).ok()?;
                for phase in self.phases.get_mut(from..)? {
                    if phase.created.is_some() {
                        let (created, begun) = (phase.created, phase.begun);
                        *phase =
                            PhaseState { created, begun, updated: Some(at.wall), ..PhaseState::pending() };
                    }
                }
                applied.request = Some((event.request_id, digest::rollback_pipeline(&event.requested)))
                    .filter(|(id, _)| !id.is_empty());
            }
            _ => return None,
        }
        Some(applied)
    }

    fn phase(&mut self, place: u32, at: Moment) -> Option<&mut PhaseState> {
        let phase = self.phases.get_mut(usize::try_from(place).ok()?)?;
        phase.created.get_or_insert(at.wall);
        phase.updated = Some(at.wall);
        Some(phase)
    }
}

impl PhaseState {
    /// The outputs of these tasks of the newest wave count.
    fn accept(&mut self, tasks: &[u32]) -> Option<()> {
        for task in tasks {
            let item = *self.at_work.get(usize::try_from(*task).ok()?)?;
            *self.items.get_mut(usize::try_from(item).ok()?)? =
                Some(TaskRef { wave: self.wave, task: *task });
        }
        Some(())
    }
}
