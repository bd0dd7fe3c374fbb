//! The rules of a run, told as runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod any;
mod asks;
mod bench;
mod bytes;
mod children;
mod damaged;
mod deadlines;
mod forks;
mod inputs;
mod judged;
mod largest;
mod leases;
mod ledger;
mod mode_answers;
mod mode_browsers;
mod modes;
mod pipelines;
mod properties;
mod questions;
mod retries;
mod rollback;
mod scripts;
mod sessions;
mod stopping;
mod take_over;
mod timeouts;
mod users;
mod waves;

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};

use super::{Decision, Fork, Refusal, StartRun, Work, decide, mark_of, start};
use crate::effect::Effect;
use crate::fold::state::{Moment, RunState, Timestamp, Wall};
use crate::input::{Answer, ChildNews, Input, Observed, Report, TaskRef};
use crate::plan::Plan;
use crate::view::ViewOptions;
use bench::Bench;
use ledger::{Ledger, SEED, events_of, snapshot};

/// An ordinary Unix time, in milliseconds.
const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;

/// A plan in one line: an optional policy, then waves parted by `|`, each with the names of its tasks. `a!` is critical,
/// `a@once` must run at most once. Every task has the agent of its own name.
fn plan(line: &str) -> v1::Plan {
    let (policy, waves) = match line.split_once(':') {
        Some((policy, waves)) => (Some(policy_named(policy)), waves),
        None => (None, line),
    };
    let task = |word: &str| {
        let (word, at_most_once) = word.strip_suffix("@once").map_or((word, false), |word| (word, true));
        let (name, critical) = word.strip_suffix('!').map_or((word, false), |name| (name, true));
        v1::Task {
            name: name.to_owned(),
            agent: name.to_owned(),
            critical,
            effect: at_most_once.then_some(v1::Effect::AtMostOnce as i32),
            ..v1::Task::default()
        }
    };
    let waves = waves
        .split('|')
        .map(|wave| v1::Wave { tasks: wave.split_whitespace().map(task).collect(), ..v1::Wave::default() });
    v1::Plan { name: "test".to_owned(), policy, waves: waves.collect(), ..v1::Plan::default() }
}

fn policy_named(name: &str) -> v1::AggregationPolicy {
    let (name, stop_when_decided) =
        name.strip_suffix(" early").map_or((name, None), |name| (name, Some(true)));
    let kind = match name {
        "quorum" => v1::AggregationKind::Quorum,
        "fail_fast" => v1::AggregationKind::FailFast,
        "continue_all" => v1::AggregationKind::ContinueAll,
        "critical_path" => v1::AggregationKind::CriticalPath,
        other => panic!("no such policy: {other}"),
    };
    v1::AggregationPolicy { kind: kind as i32, stop_when_decided, ..v1::AggregationPolicy::default() }
}

fn json(text: &str) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(text.to_owned().into())),
    }
}

fn failure(code: &str) -> v1::Error {
    v1::Error { code: code.to_owned(), message: "exit code 1".to_owned(), ..v1::Error::default() }
}

/// The name of an event's kind.
fn kind(event: &v1::Event) -> &'static str {
    match event.body.as_ref().expect("an event has a body") {
        Body::RunAccepted(_) => "run_accepted",
        Body::WaveStarted(_) => "wave_started",
        Body::TaskInputResolved(_) => "task_input_resolved",
        Body::TaskLeased(_) => "task_leased",
        Body::TaskLeaseLost(_) => "task_lease_lost",
        Body::TaskAttemptFailed(_) => "task_attempt_failed",
        Body::TaskRetryDue(_) => "task_retry_due",
        Body::TaskCancelRequested(_) => "task_cancel_requested",
        Body::TaskExtended(_) => "task_extended",
        Body::TaskSettled(_) => "task_settled",
        Body::TaskReactivated(_) => "task_reactivated",
        Body::TaskRolledBack(_) => "task_rolled_back",
        Body::PartialOutputKept(_) => "partial_output_kept",
        Body::ResultRefused(_) => "result_refused",
        Body::WaveDecided(_) => "wave_decided",
        Body::WaveFinished(_) => "wave_finished",
        Body::QuestionAsked(_) => "question_asked",
        Body::QuestionAnswered(_) => "question_answered",
        Body::QuestionRevised(_) => "question_revised",
        Body::ChildNamed(_) => "child_named",
        Body::ChildCancelRequested(_) => "child_cancel_requested",
        Body::ChildEnded(_) => "child_ended",
        Body::RunForked(_) => "run_forked",
        Body::RunPaused(_) => "run_paused",
        Body::RunResumed(_) => "run_resumed",
        Body::RunCancelRequested(_) => "run_cancel_requested",
        Body::RunFinished(_) => "run_finished",
        Body::Notice(_) => "notice",
        Body::PlanBegun(_) => "plan_begun",
        Body::AskBegun(_) => "ask_begun",
        Body::AskRouted(_) => "ask_routed",
        Body::TransitionConsidered(_) => "transition_considered",
        Body::SessionOpened(_) => "session_opened",
        Body::SessionTurn(_) => "session_turn",
        Body::SessionTransitionAccepted(_) => "session_transition_accepted",
        Body::SessionStateWritten(_) => "session_state_written",
        Body::BrowserActivityStarted(_) => "browser_activity_started",
        Body::BrowserOpened(_) => "browser_opened",
        Body::ActionProposed(_) => "action_proposed",
        Body::StageFinished(_) => "stage_finished",
        Body::ActionFinished(_) => "action_finished",
        Body::ActionFailed(_) => "action_failed",
        Body::BrowserCloseRequested(_) => "browser_close_requested",
        Body::BrowserClosed(_) => "browser_closed",
        Body::BrowserLost(_) => "browser_lost",
        Body::PhaseStarted(_) => "phase_started",
        Body::OutputRejected(_) => "output_rejected",
        Body::PhaseCompleted(_) => "phase_completed",
        Body::PhaseBlocked(_) => "phase_blocked",
        Body::PhaseChanged(_) => "phase_changed",
        Body::PipelineRolledBack(_) => "pipeline_rolled_back",
        Body::ModeBegun(_) => "mode_begun",
        Body::PlannerAsked(_) => "planner_asked",
        Body::PlannerAnswered(_) => "planner_answered",
        Body::PlanEdited(_) => "plan_edited",
        Body::PlanApproved(_) => "plan_approved",
        Body::PlanRejected(_) => "plan_rejected",
        Body::ToolsMissed(_) => "tools_missed",
        Body::ToolApproved(_) => "tool_approved",
        Body::ToolCalled(_) => "tool_called",
        Body::ToolObserved(_) => "tool_observed",
        Body::EscalationAnswered(_) => "escalation_answered",
        Body::ModeCheckpointed(_) => "mode_checkpointed",
        Body::ModeRolledBack(_) => "mode_rolled_back",
        Body::ModeCompleted(_) => "mode_completed",
        Body::SessionModeChosen(_) => "session_mode_chosen",
        Body::SessionMemoryForgotten(_) => "session_memory_forgotten",
    }
}

fn reported(task: TaskRef, lease: u64, worker: &str, report: Report) -> Input {
    Input::Report { task, lease, worker: worker.to_owned(), report, log: String::new(), usage: None }
}

fn extend(task: &str, by_ms: i64, request_id: &str) -> Input {
    Input::Extend { task: task.to_owned(), by_ms, request_id: request_id.to_owned() }
}

fn retry(task: &str, request_id: &str) -> Input {
    Input::Retry { task: task.to_owned(), request_id: request_id.to_owned() }
}

fn rollback(task: &str, cascade: bool, request_id: &str) -> Input {
    Input::Rollback { task: task.to_owned(), cascade, request_id: request_id.to_owned() }
}

fn resolve(question_id: &str, answer: &str, request_id: &str) -> Input {
    Input::Resolve {
        question_id: question_id.to_owned(),
        answer: answer.into(),
        request_id: request_id.to_owned(),
    }
}
