//! The parts of a story.

use capataz_contracts::v1;
use capataz_display::executing::Spent;
use capataz_display::{error, model};

use super::{MOST_MOMENTS, MOST_SPANS};

/// A wave, by what it is to the kind of its run.
#[derive(Debug, Default)]
pub struct Wave {
    pub name: String,
    pub part: Part,
    pub policy: v1::AggregationKind,
    pub began_at_ms: Option<i64>,
    pub evaluation: Option<v1::Evaluation>,
    pub tasks: Vec<Task>,
}

/// What a wave is to the kind of its run.
#[derive(Debug, Default)]
pub enum Part {
    /// A wave of a plan, or an activity of a script's browser.
    #[default]
    Wave,
    /// The call of a spec, without its tasks.
    Call(Box<v1::AskRouted>),
    /// The beginning of a phase: its place, and whether the phase began before.
    Phase { place: u32, again: bool },
    /// A question to the planner, without its tasks.
    Planner(Box<v1::PlannerAsked>),
    /// The call of a tool, for this step of the plan.
    Tool { step: Option<u32> },
}

/// A task, by all of its lives.
#[derive(Debug, Default)]
pub struct Task {
    pub name: String,
    pub agent: String,
    pub critical: bool,
    pub max_attempts: u32,
    /// Waits and tries, in order, without gaps while the task is to be done.
    pub spans: Vec<Span>,
    /// Spans beyond the most that are kept.
    pub spans_left_out: usize,
    pub moments: Vec<Moment>,
    /// What all of its attempts took of models.
    pub spent: Spent,
    /// The end of its newest life.
    pub settled: Option<Settled>,
}

/// A part of a task's time.
#[derive(Debug)]
pub struct Span {
    pub from_ms: i64,
    /// `None` as long as it goes on.
    pub until_ms: Option<i64>,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    /// The task waits for a worker.
    Queued,
    /// The task waits between two attempts.
    BackOff,
    Tried(Box<Try>),
}

/// A worker, or a run of its own, at work on a task.
#[derive(Debug)]
pub struct Try {
    pub activation: u32,
    pub attempt: u32,
    pub by: By,
    pub end: End,
    pub error: Option<v1::Error>,
    /// The end of what the agent logged.
    pub log: String,
    /// Where the output breaks its rule.
    pub violations: Vec<v1::SchemaViolation>,
}

#[derive(Debug)]
pub enum By {
    Worker(String),
    Run(String),
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Open,
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    Lost(v1::LeaseLossReason),
    TakenBack,
}

/// The end of a task's life.
#[derive(Debug)]
pub struct Settled {
    pub at_ms: i64,
    pub status: v1::ResultStatus,
    pub attempts: u32,
    pub duration_ms: i64,
    pub error: Option<v1::Error>,
    pub severity: v1::Severity,
    pub log: String,
    /// The output, if there is one and room for it.
    pub output: Option<v1::Payload>,
    pub output_bytes: u64,
    pub taken_over: bool,
}

/// A question, and what was answered.
#[derive(Debug)]
pub struct Asked {
    pub question: v1::Question,
    pub asked_at_ms: i64,
    pub place: Option<(usize, usize)>,
    pub answered: Option<Answered>,
}

#[derive(Debug)]
pub struct Answered {
    pub at_ms: i64,
    pub answer: String,
    /// Nobody has to answer any more.
    pub is_withdrawn: bool,
    pub value: Option<v1::Payload>,
}

/// Something that happened at one time.
#[derive(Debug)]
pub struct Moment {
    pub at_ms: i64,
    pub what: Happened,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    StopAsked(v1::CancelReason),
    Extended { by_ms: i64 },
    LateResult { worker: String },
    CompletionRefused { worker: String, why: String },
    TimeoutImminent,
    RetriedByHand,
    TakenBack,
    PartialKept,
    RunCancelled { reason: String },
    Forked { run_id: String, seq: u64 },
    PhaseRolledBack { phase: String },
    Checkpoint { id: String },
    WentBack { id: String },
    PlanChanged { revision: u32 },
    PlanApproved { revision: u32 },
    PlanRejected { revision: u32 },
}

impl Wave {
    pub(super) fn of(wave: &model::Wave) -> Self {
        let tasks = wave.tasks.iter().map(|task| Task {
            name: task.name.clone(),
            agent: task.agent.clone(),
            critical: task.critical,
            max_attempts: task.max_attempts,
            ..Task::default()
        });
        Self {
            name: wave.name.clone(),
            policy: wave.policy.kind(),
            tasks: tasks.collect(),
            ..Self::default()
        }
    }
}

impl Task {
    /// Begins a span; one that is open ends then.
    pub(super) fn begin(&mut self, at_ms: i64, what: What) {
        self.end(at_ms, |_| {});
        if self.spans.len() < MOST_SPANS {
            self.spans.push(Span { from_ms: at_ms, until_ms: None, what });
        } else {
            self.spans_left_out += 1;
        }
    }

    /// Ends the open span, if there is one. A try is told how.
    pub(super) fn end(&mut self, at_ms: i64, tell: impl FnOnce(&mut Try)) {
        let Some(open) = self.spans.last_mut().filter(|span| span.until_ms.is_none()) else { return };
        open.until_ms = Some(at_ms);
        if let What::Tried(tried) = &mut open.what {
            tell(tried);
        }
    }

    /// The try that goes on.
    pub(super) fn current(&mut self) -> Option<&mut Try> {
        let open = self.spans.last_mut().filter(|span| span.until_ms.is_none())?;
        match &mut open.what {
            What::Tried(tried) => Some(tried),
            What::Queued | What::BackOff => None,
        }
    }

    pub(super) fn remember(&mut self, at_ms: i64, what: Happened) {
        if self.moments.len() < MOST_MOMENTS {
            self.moments.push(Moment { at_ms, what });
        }
    }

    pub fn tries(&self) -> impl Iterator<Item = (&Span, &Try)> {
        self.spans.iter().filter_map(|span| match &span.what {
            What::Tried(tried) => Some((span, tried.as_ref())),
            What::Queued | What::BackOff => None,
        })
    }

    pub fn is_open(&self) -> bool {
        self.spans.last().is_some_and(|span| span.until_ms.is_none())
    }

    pub fn has_succeeded(&self) -> bool {
        self.settled.as_ref().is_some_and(|settled| settled.status == v1::ResultStatus::Success)
    }

    pub fn has_failed(&self) -> bool {
        let bad = [v1::ResultStatus::Error, v1::ResultStatus::Timeout];
        self.settled.as_ref().is_some_and(|settled| bad.contains(&settled.status))
    }

    /// The severity of its failure; the least one where it has not failed.
    pub fn severity(&self) -> v1::Severity {
        let Some(settled) = &self.settled else { return v1::Severity::Unspecified };
        match (settled.severity, &settled.error) {
            (v1::Severity::Unspecified, Some(failure)) => error::severity(failure),
            (severity, _) => severity,
        }
    }
}
