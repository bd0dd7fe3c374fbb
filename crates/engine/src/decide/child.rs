//! Tasks that are runs of their own: a child is named, and created after that; its end is heard exactly once.
//!
//! A child belongs to an attempt of its parent's task, and to no lease: waiting for it takes no slot of any worker. Its
//! name is in the parent's log before the child is there. Until the parent's log says that the child has ended, the child
//! is asked for, again and again ([`Effect::Child`]); what comes after that, or from the child of another attempt, is
//! outdated.

use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::{json, validate};
use capataz_policy::aggregation::ResultStatus;
use capataz_policy::codes::{self, Code};
use capataz_policy::lifecycle::TaskState;

use prost::Message;

use super::lease::milliseconds;
use super::start::text_of;
use super::turn::Turn;
use super::{Refusal, StartRun, Work, report, settle};
use crate::effect::Effect;
use crate::fold::activity::Child;
use crate::fold::state::{RunState, Wall};
use crate::input::{ChildNews, Observed, TaskRef};
use crate::planted::{self, Fault};

/// How many ancestors a run may have.
pub const MAX_DEPTH: u32 = 64;

/// Bytes of a plan: its first event has to fit into one message.
pub const MAX_PLAN_BYTES: usize = 3 * 1024 * 1024;

/// A child that its parent's log names, and of whose end that log does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedChild<'a> {
    /// Its id.
    pub run: &'a str,
    /// The parent does not wait for its end.
    pub detached: bool,
    /// It is to end; by force where that is true.
    pub cancelled: Option<bool>,
}

/// Lets a task wait for a slot of its agent, or begins the run that it is; neither while the run is held.
pub(super) fn enqueue(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    if !turn.state.may_lease() {
        return Ok(());
    }
    if turn.declared(task)?.child.is_some() {
        return begin(turn, task);
    }
    turn.effect(Effect::Enqueue { task });
    Ok(())
}

/// Begins the runs of the tasks that waited while the run was held.
pub(super) fn begin_all(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let is_child = |task: &TaskRef| turn.state.plan().task(*task).is_some_and(|task| task.child.is_some());
    let waiting: Vec<TaskRef> = turn.state.queued().filter(is_child).collect();
    for task in waiting {
        // One that cannot be may make a question of it, which holds those after it.
        if turn.state.is_queued(task) && turn.state.may_lease() {
            begin(turn, task)?;
        }
    }
    Ok(())
}

/// Names the child of the task's next attempt. One that cannot be is the failure of its task; whoever calls this looks at
/// the wave afterwards.
fn begin(turn: &mut Turn<'_>, task: TaskRef) -> Result<(), Refusal> {
    if let Some(error) = impossible(turn, task)? {
        return settle::fail_without_advance(
            turn,
            task,
            ResultStatus::Error,
            error,
            None,
            settle::Questioning::WhenHigh,
        );
    }
    turn.enters(task, TaskState::Active)?;
    let place = turn.declared(task)?.child.as_ref().and_then(|child| child.place);
    let run_id = drawn(turn.state.seed, turn.next_seq(), turn.now.wall, place);
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let (attempt, first) = (activity.next_attempt(), activity.started.is_none());
    let timeouts = turn.state.plan.timeouts_of(task);
    let (timeout, warning) = (milliseconds(timeouts.timeout()), timeouts.warning().map(milliseconds));
    let per_attempt = turn.state.plan.retry_of(task).timeout_per_attempt().map(milliseconds);
    turn.emit(Body::ChildNamed(v1::ChildNamed {
        wave: task.wave,
        task: task.task,
        attempt,
        run_id,
        deadline_ms: first.then(|| turn.wall_in(timeout)),
        deadline_in_ms: first.then_some(timeout),
        warn_before_ms: warning.filter(|_| first),
        attempt_deadline_ms: per_attempt.map(|limit| turn.wall_in(limit)),
        attempt_deadline_in_ms: per_attempt,
    }));
    turn.effect(Effect::Child { task });
    Ok(())
}

/// Why the task's run can never be.
fn impossible(turn: &Turn<'_>, task: TaskRef) -> Result<Option<v1::Error>, Refusal> {
    let lineage = turn.state.lineage_of_children();
    if lineage.depth > MAX_DEPTH {
        let message = format!("a run has at most {MAX_DEPTH} ancestors");
        return Ok(Some(codes::error(codes::CHILD_TOO_DEEP, message)));
    }
    let child = turn.declared(task)?.child.as_deref();
    let input = turn.state.activity(task).and_then(|activity| activity.input.as_ref());
    let input = input.or(turn.declared(task)?.input.as_ref());
    if let Some((plan, input)) = child.and_then(|child| child.plan()).zip(input) {
        let inherits = |wave: &v1::Wave| wave.tasks.iter().filter(|task| task.input.is_none()).count();
        let bytes = plan
            .waves
            .first()
            .map_or(0, inherits)
            .saturating_mul(input.encoded_len())
            .saturating_add(plan.encoded_len());
        if bytes > MAX_PLAN_BYTES {
            let message =
                format!("with this input the run's plan has {bytes} bytes; at most {MAX_PLAN_BYTES}");
            return Ok(Some(codes::error(codes::INPUT_UNRESOLVED, message)));
        }
    }
    let of_plan = child.and_then(|child| child.plan()).and_then(|plan| plan.session.as_ref());
    let ask = child.and_then(|child| child.ask());
    let session = of_plan.or_else(|| ask.and_then(|ask| ask.session.as_ref()));
    if let Some(session) = session.filter(|session| lineage.sessions.contains(session)) {
        let message = format!("an ancestor has its turn in session {session:?}, and waits for this run");
        return Ok(Some(codes::error(codes::SESSION_HELD, message)));
    }
    let Some(ask) = ask else { return Ok(None) };
    if ask.text.is_empty() {
        let Some(text) = input.and_then(text_of) else {
            let message = "the input is no text, and an ask needs one".to_owned();
            return Ok(Some(codes::error(codes::INPUT_UNRESOLVED, message)));
        };
        let asked = v1::Ask { text, ..v1::Ask::default() };
        if let Some(violation) = validate::ask(&asked).first() {
            let message = format!("as the text of an ask: {}", violation.message);
            return Ok(Some(codes::error(codes::INPUT_UNRESOLVED, message)));
        }
    }
    Ok(None)
}

/// A UUID of version 7 that differs from run to run and from event to event, and is the same in every replay.
fn drawn(seed: u64, seq: u64, now: Wall, place: Option<u32>) -> String {
    let millis = u64::try_from(now.0).unwrap_or(0) & 0xFFFF_FFFF_FFFF;
    let (high, low) = (report::mixed(seed, seq), report::mixed(!seed, seq));
    let high = millis << 16 | 0x7000 | high & 0x0FFF;
    let mut low = low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000;
    if let Some(place) = place {
        low = low & !0xFF | u64::from(place & 0xFF);
    }
    let (first, second, third) = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF);
    format!("{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}", low >> 48, low & 0xFFFF_FFFF_FFFF)
}

/// Asks the task's run to end. The task ends when that is acknowledged.
pub(super) fn cancel(turn: &mut Turn<'_>, task: TaskRef, reason: v1::CancelReason, force: bool) {
    let Some(child) = turn.state.activity(task).and_then(|activity| activity.child()) else { return };
    // One that is detached goes on, and the parent only wants to know that it is there.
    let told = child.cancel.is_some_and(|cancel| cancel.force || !force);
    if told || child.detached {
        return;
    }
    turn.emit(Body::ChildCancelRequested(v1::ChildCancelRequested {
        wave: task.wave,
        task: task.task,
        run_id: child.run_id.clone(),
        reason: child.cancel.map_or(reason, |cancel| cancel.reason).into(),
        force,
    }));
    turn.effect(Effect::Child { task });
}

/// What is heard of a child. It counts once.
pub(super) fn handle(
    turn: &mut Turn<'_>,
    task: TaskRef,
    run_id: &str,
    news: ChildNews,
) -> Result<(), Refusal> {
    turn.refuse_finished()?;
    let counts_twice = planted::is(Fault::ChildEndCountedTwice);
    let child = turn.state.activity(task).and_then(|activity| activity.child());
    let Some(child) = child.filter(|child| child.run_id == run_id || counts_twice) else {
        return Err(Refusal::Outdated);
    };
    if matches!(news, ChildNews::Started) && !child.detached {
        return Err(Refusal::Outdated);
    }
    let (cancel, run_id) = (child.cancel, run_id.to_owned());
    let outcome = match &news {
        ChildNews::Started => None,
        ChildNews::Ended { outcome, .. } => *outcome,
    };
    turn.emit(Body::ChildEnded(v1::ChildEnded {
        wave: task.wave,
        task: task.task,
        run_id: run_id.clone(),
        outcome: outcome.map(Into::into),
    }));
    let (error, output) = match news {
        ChildNews::Started => {
            let output = serde_json::json!({ "run_id": run_id }).to_string();
            return settle::complete(turn, task, Some(json_payload(output)), None);
        }
        ChildNews::Ended { error, output, .. } => (error, output),
    };
    if let Some(cancel) = cancel {
        return stopped(turn, task, cancel.reason, output);
    }
    match outcome {
        Some(v1::RunOutcome::Succeeded | v1::RunOutcome::SucceededWithFailures) => {
            settle::complete(turn, task, output, None)
        }
        Some(v1::RunOutcome::Cancelled) => {
            let message = format!("run {run_id} was cancelled");
            report::attempt_failed(turn, task, codes::error(codes::TASK_CANCELLED, message), None)
        }
        Some(v1::RunOutcome::Failed | v1::RunOutcome::Blocked | v1::RunOutcome::Unspecified) | None => {
            let error = error.unwrap_or_else(|| {
                codes::error(codes::UNKNOWN_ERROR, format!("run {run_id} failed without an error"))
            });
            report::attempt_failed_as(turn, task, error, None, output, None)
        }
    }
}

/// The child has ended as it was told to. What it gave back no longer counts as a success.
fn stopped(
    turn: &mut Turn<'_>,
    task: TaskRef,
    reason: v1::CancelReason,
    output: Option<v1::Payload>,
) -> Result<(), Refusal> {
    match reason {
        v1::CancelReason::Timeout => {
            let observed = Observed { last_frame: None, partial_output: output };
            settle::time_out(turn, task, observed, None)
        }
        v1::CancelReason::AttemptTimeout => {
            let error = turn.state.rules().attempt_too_late(turn.state, task);
            report::attempt_failed(turn, task, error, None)
        }
        reason => settle::cancel(turn, task, reason, output, None),
    }
}

fn json_payload(text: String) -> v1::Payload {
    v1::Payload {
        media_type: json::JSON_MEDIA_TYPE.to_owned(),
        data: Some(v1::payload::Data::Inline(text.into())),
    }
}

impl RunState {
    /// The child that the task waits for.
    #[must_use]
    pub fn child(&self, task: TaskRef) -> Option<WantedChild<'_>> {
        let Child { run_id, detached, cancel, .. } = self.activity(task)?.child()?;
        Some(WantedChild { run: run_id, detached: *detached, cancelled: cancel.map(|cancel| cancel.force) })
    }

    /// Every child of whose end this run does not know.
    pub fn children(&self) -> impl Iterator<Item = (TaskRef, WantedChild<'_>)> {
        self.activities().filter_map(|(task, _)| Some((task, self.child(task)?)))
    }

    /// What the task's child is to be started with. `parent` is the id of this run, `traceparent` the span of the task that
    /// waits for the child.
    #[must_use]
    pub fn child_start(&self, parent: &str, task: TaskRef, traceparent: String) -> Option<StartRun> {
        let (activity, declared) = (self.activity(task)?, self.plan.task(task)?);
        let child = activity.child()?;
        let run = declared.child.as_deref()?;
        let input = activity.input.as_ref().or(declared.input.as_ref());
        let work = Work::of_child(run.clone(), &child.run_id, input)?;
        Some(StartRun {
            work,
            labels: run.labels.clone(),
            parent: Some(v1::ParentRef {
                run_id: parent.to_owned(),
                task: declared.name.clone(),
                lease: 0,
                activation: activity.activation,
                attempt: activity.attempt,
            }),
            lineage: Some(v1::Lineage { traceparent, ..self.lineage_of_children() }),
        })
    }

    /// The span that the run belongs to, as a `traceparent`; empty where it is the root of a trace.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.lineage.traceparent
    }

    /// What the children of this run have of their ancestors, without the span that they belong to.
    #[must_use]
    pub fn lineage_of_children(&self) -> v1::Lineage {
        let mut lineage = v1::Lineage { traceparent: String::new(), ..self.lineage.clone() };
        lineage.depth = lineage.depth.saturating_add(1);
        lineage.sessions.extend(self.session().filter(|_| !self.is_finished()).map(str::to_owned));
        lineage
    }

    /// The run that this one is a task of, and the task's name; `None` where no run waits for this one.
    #[must_use]
    pub fn waiting_parent(&self) -> Option<&v1::ParentRef> {
        self.parent.as_ref().filter(|parent| parent.lease == 0 && parent.attempt > 0)
    }

    /// What the parent of this finished run hears. Its output has at most `max_output` bytes.
    #[must_use]
    pub fn ending(&self, max_output: usize) -> Option<ChildNews> {
        let whole = self.result(max_output)?;
        let print = |result: &v1::RunResult| json::print("capataz.v1.RunResult", result).to_string();
        let mut text = print(&whole);
        if text.len() > max_output {
            let mut shorter = self.result(0)?;
            text = print(&shorter);
            // Names of what was left out are no reason to lose the answer.
            if text.len() > max_output && shorter.count_left_out() {
                text = print(&shorter);
            }
        }
        let output = (text.len() <= max_output).then(|| json_payload(text));
        let blobs = whole.blobs().cloned().collect();
        Some(ChildNews::Ended { outcome: Some(whole.outcome()), error: whole.error, output, blobs })
    }
}

/// What the parent of a run hears that cannot be worked on, or could not be started.
#[must_use]
pub fn never_ends(code: Code, message: String) -> ChildNews {
    let error = Some(codes::error(code, message));
    ChildNews::Ended { outcome: None, error, output: None, blobs: Vec::new() }
}
