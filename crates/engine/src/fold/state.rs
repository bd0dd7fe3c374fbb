//! The state of a run: the fold of its events.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1;
use capataz_policy::aggregation::Tally;

use super::activity::{Activity, Step};
use super::bytes::Count;
use crate::input::TaskRef;
use crate::machine::Machine;
use crate::plan::Plan;

/// A time by a run's own clock, in milliseconds. It begins with what the clock on the wall says when the run is accepted;
/// from then on it goes as fast as time does, and never backwards, whatever is done to the clock on the wall. Deadlines
/// are such times.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Timestamp(pub i64);

/// What the clock on the wall says, in Unix milliseconds. For people: somebody may set it, and nothing is computed from it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Wall(pub i64);

/// A moment of a run, by both clocks. Within a run neither goes backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Moment {
    pub clock: Timestamp,
    pub wall: Wall,
}

impl Moment {
    /// The moment at which a run is accepted: its own clock is set by the one on the wall.
    #[must_use]
    pub fn first(wall: Wall) -> Self {
        Self { clock: Timestamp(wall.0), wall }
    }

    /// What the clock on the wall will say, or said, at that time, if nobody sets it.
    #[must_use]
    pub fn wall_at(self, clock: Timestamp) -> Wall {
        Wall(self.wall.0.saturating_add(clock.0.saturating_sub(self.clock.0)))
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self { clock: self.clock.max(other.clock), wall: self.wall.max(other.wall) }
    }
}

impl Timestamp {
    #[must_use]
    pub fn plus(self, milliseconds: i64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds since then; negative where it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The log does not follow the rules by which it was written: it is damaged, or of a newer version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit the run before it: {detail}")]
pub struct CorruptLog {
    pub seq: u64,
    pub detail: &'static str,
}

/// Where the run stands as a whole.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Phase {
    Running,
    /// Ends as soon as nothing runs any more.
    Ending {
        /// The run aborts itself because of this error; `None` where a user cancelled.
        #[serde(with = "crate::snapshot::as_bytes::option")]
        error: Option<v1::Error>,
    },
    Finished {
        #[serde(with = "crate::snapshot::number")]
        outcome: v1::RunOutcome,
        #[serde(with = "crate::snapshot::as_bytes::option")]
        error: Option<v1::Error>,
        at: Wall,
    },
}

/// A run. Built by [`start`](crate::start()) and [`RunState::apply`] alone.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// Distinguishes this run's jitter from that of others.
    pub(crate) seed: u64,
    /// Sequence number of the newest event.
    pub(crate) seq: u64,
    /// When it was accepted, or the run that it was forked from: its own clock begins there.
    pub(crate) created_at: Wall,
    /// The newest event.
    pub(crate) last: Moment,
    /// The waves: those that a plan declares, or those that the machine has begun so far.
    pub(crate) plan: Box<Plan>,
    pub(crate) machine: Machine,
    /// Reads the events of an older format; `None` once this version has written one.
    pub(crate) upcaster: Option<Box<super::upcast::Upcaster>>,
    /// The machine's own deadline, while it is among the timers.
    pub(crate) machine_timer: Option<Timestamp>,
    /// When what the run has elsewhere is put away, while it waits for a person and nothing is in work.
    pub(crate) put_away_at: Option<Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) parent: Option<v1::ParentRef>,
    /// Where it was forked from another run.
    pub(crate) forked: Option<Forked>,
    /// What it has of its ancestors.
    pub(crate) lineage: v1::Lineage,
    pub(crate) phase: Phase,
    pub(crate) paused: bool,
    /// The time since which no task is leased, because a user paused the run or a question is open.
    pub(crate) held_since: Option<Timestamp>,
    /// The waves that have begun, in order; the last one is in work until the run ends.
    pub(crate) waves: Vec<WaveState>,
    /// JSON Schemas that leases have recorded, by their numbers.
    pub(crate) schemas: Vec<String>,
    pub(crate) questions: Vec<AskedQuestion>,
    /// Places in `questions` of those that nobody has answered, by their ids.
    pub(crate) unanswered: BTreeMap<String, usize>,
    /// How many of those hold the run as a whole.
    pub(crate) holding: usize,
    /// Deadlines that run on while the run is held.
    pub(crate) timers: BTreeSet<(Timestamp, TaskRef, Timer)>,
    /// Deadlines that stand still while the run is held.
    pub(crate) held_timers: BTreeSet<(Timestamp, TaskRef, Timer)>,
    /// Leases whose late results were refused and recorded.
    pub(crate) refused: BTreeSet<u64>,
    /// Tasks that somebody would have completed while they were in INIT, where that was recorded.
    pub(crate) refused_in_init: BTreeSet<TaskRef>,
    /// Requests that were carried out: what they asked for, and the number of the event that records it.
    pub(crate) requests: BTreeMap<String, (String, u64)>,
    /// Tasks of waves that have begun and were taken back, until they begin again. A task that was given up has its end.
    pub(crate) taken_back: BTreeMap<TaskRef, Activity>,
    pub(crate) notices: Vec<v1::Notice>,
    /// Notices beyond those that are kept.
    pub(crate) notices_omitted: u32,
    pub(crate) settled: u32,
    /// The bytes that all of this holds. They follow from the other fields, and are not part of a snapshot.
    pub(crate) bytes: Count,
    /// Leases given by this process; only a planted fault reads it.
    pub(crate) leases_since_load: u64,
}

/// Where a run was forked from another one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Forked {
    /// The other run.
    pub(crate) run: String,
    /// The last event that it has of that run.
    pub(crate) seq: u64,
    pub(crate) at: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) enum Timer {
    StartBy,
    Retry,
    Imminent,
    AttemptDeadline,
    Deadline,
    Grace,
    /// The machine's own.
    Machine,
    /// The run has waited for a person for too long to keep its browser open.
    PutAway,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct WaveState {
    pub(crate) tasks: Vec<Activity>,
    pub(crate) tally: Tally,
    /// The policy has decided and the rest of the wave was told to stop.
    pub(crate) stopping: bool,
    #[serde(with = "crate::snapshot::as_bytes::option")]
    pub(crate) evaluation: Option<v1::Evaluation>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct AskedQuestion {
    pub(crate) task: Option<TaskRef>,
    pub(crate) asked_at: Timestamp,
    #[serde(with = "crate::snapshot::as_bytes::one")]
    pub(crate) question: v1::Question,
}

impl AskedQuestion {
    pub(crate) fn is_open(&self) -> bool {
        self.question.answer.is_none()
    }

    pub(crate) fn holds_run(&self) -> bool {
        match self.question.holds() {
            v1::QuestionHold::Run | v1::QuestionHold::Unspecified => true,
            v1::QuestionHold::Task | v1::QuestionHold::Nothing => false,
        }
    }

    /// The life of a task that it is about.
    pub(crate) fn subject(&self) -> Option<&v1::TaskSubject> {
        match self.question.about.as_ref()?.about.as_ref()? {
            v1::question_subject::About::Task(subject) => Some(subject),
            v1::question_subject::About::Phase(_) | v1::question_subject::About::Revision(_) => None,
        }
    }
}

impl RunState {
    /// Sequence number of the newest event.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The task of another run that started this one.
    #[must_use]
    pub fn parent(&self) -> Option<&v1::ParentRef> {
        self.parent.as_ref()
    }

    /// When it was accepted, or forked.
    #[must_use]
    pub fn created_at(&self) -> Wall {
        self.forked.as_ref().map_or(self.created_at, |forked| forked.at.wall)
    }

    /// The same by the run's own clock.
    pub(crate) fn begun_at(&self) -> Timestamp {
        self.forked.as_ref().map_or(Timestamp(self.created_at.0), |forked| forked.at.clock)
    }

    /// Its events may change the memory of a session.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.rules().remembers()
    }

    /// The run that it was forked from, and the last event that it has of that run.
    #[must_use]
    pub fn forked_from(&self) -> Option<(&str, u64)> {
        self.forked.as_ref().map(|forked| (forked.run.as_str(), forked.seq))
    }

    /// The newest event.
    #[must_use]
    pub fn last(&self) -> Moment {
        self.last
    }

    /// The time by the run's own clock for one that takes the run up now, after nobody had it: what the clock on the wall
    /// says has passed since the newest event, and nothing where it says that time went backwards.
    #[must_use]
    pub fn taken_up_at(&self, wall: Wall) -> Timestamp {
        self.last.clock.plus(wall.0.saturating_sub(self.last.wall.0).max(0))
    }

    /// The labels that the run was accepted with.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished { .. })
    }

    /// Returns whether a task of this run may be leased now.
    #[must_use]
    pub fn may_lease(&self) -> bool {
        matches!(self.phase, Phase::Running) && self.held_since.is_none()
    }

    /// The next time at which [`Input::Tick`](crate::Input::Tick) is due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let running = self.timers.first().map(|(at, ..)| *at);
        let held = match self.held_since {
            Some(_) => None,
            None => self.held_timers.first().map(|(at, ..)| *at),
        };
        match (running, held) {
            (Some(running), Some(held)) => Some(running.min(held)),
            (one, other) => one.or(other),
        }
    }

    /// The tasks with a passed deadline, of those deadlines that run on while the run is held. Every lease whose time
    /// is over is among them.
    pub fn due(&self, now: Timestamp) -> impl Iterator<Item = TaskRef> {
        self.timers.iter().take_while(move |(at, ..)| *at <= now).map(|(_, task, _)| *task)
    }

    /// Returns whether the task waits for a slot of its agent.
    #[must_use]
    pub fn is_queued(&self, task: TaskRef) -> bool {
        self.activity(task).is_some_and(|activity| matches!(activity.step, Step::Queued { .. }))
    }

    /// Every task that waits for a slot, in order.
    pub fn queued(&self) -> impl Iterator<Item = TaskRef> {
        self.activities()
            .filter(|(_, activity)| matches!(activity.step, Step::Queued { .. }))
            .map(|(task, _)| task)
    }

    /// The names of the tasks that have not settled, in order.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = &str> {
        let is_open = |task: &TaskRef| self.known(*task).is_none_or(|activity| activity.end.is_none());
        self.plan.references().filter(move |(task, _)| is_open(task)).map(|(_, task)| task.name.as_str())
    }

    /// Every live lease: task, fencing token, worker.
    pub fn leases(&self) -> impl Iterator<Item = (TaskRef, u64, &str)> {
        self.activities().filter_map(|(task, activity)| {
            activity.lease().map(|lease| (task, lease.token, lease.worker.as_str()))
        })
    }

    /// The token and worker of the task's live lease.
    #[must_use]
    pub fn lease_of(&self, task: TaskRef) -> Option<(u64, &str)> {
        let lease = self.activity(task)?.lease()?;
        Some((lease.token, &lease.worker))
    }

    /// Number of the event that records this user's request.
    #[must_use]
    pub fn request_seq(&self, request_id: &str) -> Option<u64> {
        self.requests.get(request_id).map(|(_, seq)| *seq)
    }

    /// What the holder of the task's live lease has declared of the task's output.
    pub(crate) fn output_schema(&self, task: TaskRef) -> Option<&String> {
        let number = self.activity(task)?.lease()?.output_schema?;
        self.schemas.get(number as usize)
    }

    /// Whether the run has recorded that a completion of a task in INIT was refused.
    #[must_use]
    pub fn has_refused_completions(&self) -> bool {
        !self.refused_in_init.is_empty()
    }

    pub(crate) fn activity(&self, task: TaskRef) -> Option<&Activity> {
        self.waves.get(task.wave as usize)?.tasks.get(task.task as usize)
    }

    /// What is known of a task, also where its wave was taken back and has not begun again.
    pub(crate) fn known(&self, task: TaskRef) -> Option<&Activity> {
        self.activity(task).or_else(|| self.taken_back.get(&task))
    }

    /// Activities of the wave in work; those of earlier waves have all settled.
    pub(crate) fn activities(&self) -> impl Iterator<Item = (TaskRef, &Activity)> {
        let wave = self.current_wave();
        self.waves.last().into_iter().flat_map(move |state| {
            state.tasks.iter().zip(0u32..).map(move |(activity, task)| (TaskRef { wave, task }, activity))
        })
    }

    pub(crate) fn current_wave(&self) -> u32 {
        u32::try_from(self.waves.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The reason why no task of the wave in work begins anew; `None` while tasks may.
    pub(crate) fn stop_reason(&self) -> Option<v1::CancelReason> {
        match &self.phase {
            Phase::Ending { error: Some(_) } => Some(v1::CancelReason::Aborted),
            Phase::Ending { error: None } | Phase::Finished { .. } => Some(v1::CancelReason::RunCancelled),
            Phase::Running => {
                let stopping = self.waves.last().is_some_and(|wave| wave.stopping);
                stopping.then_some(v1::CancelReason::Policy)
            }
        }
    }

    /// Returns whether the machine is asked what comes next: no question holds the run, and it does not end.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self.phase, Phase::Running) && !self.is_waiting()
    }

    /// Returns whether an open question holds the run as a whole.
    pub(crate) fn is_waiting(&self) -> bool {
        self.holding > 0
    }

    /// The questions that nobody has answered, in the order of their ids.
    pub(crate) fn open_questions(&self) -> impl Iterator<Item = &AskedQuestion> {
        self.unanswered.values().filter_map(|place| self.questions.get(*place))
    }
}
