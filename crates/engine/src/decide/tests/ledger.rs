//! What holds after every step of every run.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::{ResultStatus, TaskOutcome};
use capataz_policy::lifecycle::TaskState;
use capataz_policy::severity::Severity;
use prost::Message;

use crate::decide::Decision;
use crate::effect::Effect;
use crate::fold::state::RunState;
use crate::input::TaskRef;

pub(super) const SEED: u64 = 7;

/// Follows a run from outside: its events as a store would have them, its effects as a runtime would.
///
/// An effect is unfinished
/// - `Enqueue`: until `Assign`, `Dequeue` or `Hold`; `Release` begins it for every task that waits;
/// - `Assign`: until the lease's `Accept` or `Revoke`;
/// - `Cancel`: until the lease's `Accept` or `Revoke`, or an `Extend` that withdraws it;
/// - `Route`: until `ask_routed`, or the run is told to end;
/// - `Finish`: for ever.
///
/// The others (`Extend`, `Accept`, `Refuse`, `Revoke`, `Dequeue`, `Hold`, `Release`) are finished when they are done:
/// who missed one learns it from the assignment, from its lease, or from the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) events: Vec<v1::Event>,
    settled: BTreeSet<(TaskRef, u32)>,
    results: BTreeMap<TaskRef, v1::TaskSettled>,
    live: BTreeMap<TaskRef, u64>,
    /// Every child that was ever named; those whose end was not heard; the task of the last one that was heard.
    named: BTreeSet<String>,
    children: BTreeMap<TaskRef, String>,
    heard: Option<TaskRef>,
    last_token: u64,
    queued: BTreeSet<TaskRef>,
    assigned: BTreeMap<TaskRef, u64>,
    cancelled: BTreeMap<TaskRef, (u64, v1::CancelReason)>,
    /// The run is told to end, or its wave is decided.
    stopping: bool,
    finished: bool,
    /// A spec is looked for.
    routing: bool,
}

pub(super) fn snapshot(state: &RunState) -> Vec<u8> {
    state.snapshot().expect("a state can be encoded")
}

pub(super) fn events_of(decision: &Decision) -> Vec<v1::Event> {
    decoded(&decision.events)
}

pub(super) fn decoded(bytes: &bytes::Bytes) -> Vec<v1::Event> {
    let mut bytes = bytes.clone();
    let mut events = Vec::new();
    while !bytes.is_empty() {
        events.push(v1::Event::decode_length_delimited(&mut bytes).expect("an event can be read"));
    }
    events
}

/// A state weighs at most so many times what its snapshot has.
const HEAVIEST: u64 = 12;

impl Ledger {
    #[track_caller]
    pub(super) fn observe(&mut self, state: &RunState, decision: &Decision) {
        let events = events_of(decision);
        assert_eq!(events.len(), decision.count as usize, "the count is that of the events");
        if let Some(first) = events.first() {
            assert_eq!(first.seq, decision.first_seq);
        }
        for event in events {
            self.event(state, event);
        }
        assert_eq!(state.seq(), self.events.len() as u64);
        for effect in &decision.effects {
            self.effect(state, effect);
        }
        self.compare_effects(state);
        assert_eq!(state.is_finished(), self.finished);
        assert!(!self.finished || state.next_deadline().is_none(), "a finished run has no timer");
    }

    /// What has happened in the run is the fork's past, and nothing of what it has begun outside is the fork's.
    pub(super) fn of_a_fork(&self) -> Self {
        Self {
            queued: BTreeSet::new(),
            assigned: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            routing: false,
            ..self.clone()
        }
    }

    /// The log and the snapshot both give this state. Slow; for runs of a few hundred events.
    #[track_caller]
    pub(super) fn compare_fold(&self, state: &RunState) {
        let bytes = snapshot(state);
        let folded = RunState::fold(SEED, self.events.iter().cloned()).expect("the log can be folded");
        assert_eq!(snapshot(&folded), bytes, "the fold of the log is the state");
        let read = RunState::from_snapshot(&bytes).expect("the snapshot can be read");
        assert_eq!(snapshot(&read), bytes, "a snapshot reads back");
        assert_eq!(read.outstanding(), state.outstanding());
        assert_eq!(read.next_deadline(), state.next_deadline());
        assert_eq!(state.bytes, state.counted(), "the count of bytes goes along");
        assert_eq!((folded.bytes, read.bytes), (state.bytes, state.bytes));
        let length = bytes.len() as u64;
        let allowed = length..=HEAVIEST * length;
        assert!(allowed.contains(&state.bytes()), "{} bytes, and a snapshot of {length}", state.bytes());
    }

    #[track_caller]
    fn event(&mut self, state: &RunState, event: v1::Event) {
        assert_eq!(event.seq, self.events.len() as u64 + 1, "no gap in the numbers");
        let before = self.events.last().map_or(i64::MIN, |event| event.at_ms);
        assert!(event.at_ms >= before, "time does not go backwards");
        assert!(!self.finished, "nothing follows run_finished: {event:?}");
        let body = event.body.as_ref().expect("an event has a body");
        let begins = matches!(
            body,
            Body::TaskLeased(_)
                | Body::TaskLeaseLost(_)
                | Body::TaskAttemptFailed(_)
                | Body::TaskRetryDue(_)
                | Body::TaskExtended(_)
                | Body::TaskReactivated(_)
                | Body::TaskRolledBack(_)
                | Body::QuestionAsked(_)
                | Body::ChildNamed(_)
        );
        assert!(!(self.stopping && begins), "nothing begins anew in what is stopping: {event:?}");
        match body {
            Body::WaveDecided(_) | Body::RunCancelRequested(_) => {
                self.stopping = true;
                self.routing = false;
            }
            Body::AskRouted(_)
            | Body::TransitionConsidered(_)
            | Body::PhaseStarted(_)
            | Body::PhaseBlocked(_)
            | Body::PhaseCompleted(_)
            | Body::PipelineRolledBack(_)
            | Body::PlannerAsked(_)
            | Body::ToolObserved(_)
            | Body::ModeCheckpointed(_)
            | Body::ModeRolledBack(_) => self.routing = false,
            Body::WaveStarted(_) => {
                self.stopping = false;
                self.routing = false;
            }
            Body::TaskLeased(leased) => {
                let task = TaskRef { wave: leased.wave, task: leased.task };
                assert!(leased.lease > self.last_token, "fencing tokens increase");
                self.last_token = leased.lease;
                assert_eq!(self.live.insert(task, leased.lease), None, "one live lease for each task");
            }
            Body::ChildNamed(named) => {
                let task = TaskRef { wave: named.wave, task: named.task };
                assert!(self.named.insert(named.run_id.clone()), "each child has a name of its own");
                assert_eq!(self.children.insert(task, named.run_id.clone()), None, "one child at a time");
                self.queued.remove(&task);
            }
            Body::ChildEnded(ended) => {
                let task = TaskRef { wave: ended.wave, task: ended.task };
                assert_eq!(self.children.remove(&task), Some(ended.run_id.clone()), "it is heard once");
                self.heard = Some(task);
            }
            Body::TaskAttemptFailed(failed)
                if self.heard == Some(TaskRef { wave: failed.wave, task: failed.task }) => {}
            Body::TaskLeaseLost(v1::TaskLeaseLost { wave, task, .. })
            | Body::TaskAttemptFailed(v1::TaskAttemptFailed { wave, task, .. }) => {
                let gone = self.live.remove(&TaskRef { wave: *wave, task: *task });
                assert!(gone.is_some(), "only a live lease is lost or fails");
            }
            Body::QuestionAsked(asked) => {
                let purpose = asked.question.as_ref().map(v1::Question::purpose);
                if let (Some(wave), Some(task)) = (asked.wave, asked.task)
                    && purpose != Some(v1::QuestionPurpose::Timeout)
                {
                    self.live.remove(&TaskRef { wave, task });
                }
            }
            Body::TaskSettled(settled) => {
                let task = TaskRef { wave: settled.wave, task: settled.task };
                self.live.remove(&task);
                assert!(self.settled.insert((task, settled.activation)), "an activation settles once");
                self.results.insert(task, (**settled).clone());
            }
            Body::TaskReactivated(anew) => {
                self.routing = false;
                self.results.remove(&TaskRef { wave: anew.wave, task: anew.task });
            }
            Body::TaskRolledBack(back) => {
                self.routing = false;
                let first = TaskRef { wave: back.wave, task: back.task };
                let taken = |task: &TaskRef| *task == first || task.wave > back.wave;
                // What a person has given up has failed; what its wave has cancelled begins again with it.
                let given_up = |task: &TaskRef| {
                    state.known(*task).is_some_and(|activity| activity.state == TaskState::Deleted)
                };
                self.results.retain(|task, _| !taken(task) || given_up(task));
                self.live.retain(|task, _| !taken(task));
                assert!(!self.children.keys().any(taken), "a run at work is not taken back");
            }
            Body::WaveFinished(wave) => self.compare_evaluation(state, wave),
            Body::RunFinished(_) => {
                assert!(self.live.is_empty(), "nothing is leased when the run ends");
                assert!(self.children.is_empty(), "no child is waited for when the run ends");
                self.finished = true;
                self.routing = false;
            }
            _ => {}
        }
        self.events.push(event);
    }

    /// What the policy says of the settled tasks is what the wave ended with.
    #[track_caller]
    fn compare_evaluation(&self, state: &RunState, finished: &v1::WaveFinished) {
        let plan = state.plan();
        let outcomes = self.results.range(in_wave(finished.wave)).map(|(task, settled)| {
            let declared = plan.task(*task).expect("a settled task is in the plan");
            TaskOutcome {
                task: &declared.name,
                agent: &declared.agent,
                status: ResultStatus::from_proto(settled.status).expect("a result has a status"),
                critical: declared.critical,
                severity: Severity::from_proto(settled.severity),
            }
        });
        let expected = plan.policy_of(finished.wave).evaluate(outcomes);
        let actual = finished.evaluation.clone().expect("a finished wave has an evaluation");
        assert_eq!(sorted(actual), sorted(expected));
    }

    fn effect(&mut self, state: &RunState, effect: &Effect) {
        match effect {
            Effect::Enqueue { task } => {
                self.queued.insert(*task);
            }
            Effect::Dequeue { task } => {
                self.queued.remove(task);
            }
            Effect::Hold => self.queued.clear(),
            Effect::Release => self.queued.extend(state.queued()),
            Effect::Assign { task, lease } => {
                self.queued.remove(task);
                self.assigned.insert(*task, *lease);
            }
            Effect::Cancel { task, lease, reason, .. } => {
                self.cancelled.insert(*task, (*lease, *reason));
            }
            Effect::Extend { task, cancel_withdrawn: true, .. } => {
                self.cancelled.remove(task);
            }
            Effect::Accept { task, lease } | Effect::Revoke { task, lease } => {
                if self.assigned.get(task) == Some(lease) {
                    self.assigned.remove(task);
                    self.cancelled.remove(task);
                }
            }
            Effect::Query { .. } => self.routing = true,
            Effect::Extend { .. }
            | Effect::Refuse { .. }
            | Effect::Child { .. }
            | Effect::KeepBrowser { .. }
            | Effect::Finish => {}
        }
    }

    /// What the state calls unfinished is exactly what was begun and not finished.
    #[track_caller]
    fn compare_effects(&self, state: &RunState) {
        let mut queued = BTreeSet::new();
        let mut assigned = BTreeMap::new();
        let mut cancelled = BTreeMap::new();
        let mut children = BTreeSet::new();
        let mut finished = false;
        let mut routing = false;
        for effect in state.outstanding() {
            match effect {
                Effect::Enqueue { task } => assert!(queued.insert(task)),
                Effect::Assign { task, lease } => assert_eq!(assigned.insert(task, lease), None),
                Effect::Cancel { task, lease, reason, .. } => {
                    assert_eq!(cancelled.insert(task, (lease, reason)), None);
                }
                Effect::Finish => finished = true,
                Effect::Query { .. } => routing = true,
                Effect::Child { task } => assert!(children.insert(task)),
                other => panic!("{other:?} is never outstanding"),
            }
        }
        assert_eq!(queued, self.queued, "tasks that wait for a slot");
        assert_eq!(assigned, self.assigned, "leases");
        assert_eq!(cancelled, self.cancelled, "cancels");
        assert_eq!(children, self.children.keys().copied().collect(), "runs that are waited for");
        assert_eq!(finished, self.finished);
        assert_eq!(routing, self.routing, "a query waits for its answer");
    }
}

fn in_wave(wave: u32) -> std::ops::RangeInclusive<TaskRef> {
    TaskRef { wave, task: 0 }..=TaskRef { wave, task: u32::MAX }
}

/// The names come in the order of the results, which a user's retry changes.
fn sorted(mut evaluation: v1::Evaluation) -> v1::Evaluation {
    evaluation.failed_agents.sort();
    evaluation.critical_failures.sort();
    evaluation.optional_failures.sort();
    evaluation
}
