//! The plan machine: after each settled task, does the wave go on, has it ended, what comes next?

use capataz_contracts::json::is_json;
use capataz_contracts::reference;
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::{self, AggregationKind, ResultStatus, WaveDecision};
use capataz_policy::codes;

use super::turn::Turn;
use super::{Refusal, ask, cancel, script, settle};
use crate::effect::Effect;
use crate::input::TaskRef;
use crate::state::Phase;

/// Largest input inline, and largest sum of the inputs that a wave's references make. Bytes.
const MAX_INLINE: usize = 32 * 1024;
const MAX_RESOLVED: usize = 16 * 1024 * 1024;

/// Begins a wave: every task waits for a slot, its references resolved. Whether the wave has ended with that, the next
/// [`advance`] tells.
pub(super) fn begin_wave(turn: &mut Turn<'_>, wave: u32) -> Result<(), Refusal> {
    turn.emit(Body::WaveStarted(v1::WaveStarted { wave }));
    let tasks = turn.state.plan.wave(wave).map_or(0, |declared| declared.tasks.len());
    let mut resolved_bytes = 0;
    let mut unresolved = Vec::new();
    for index in 0..u32::try_from(tasks).unwrap_or(u32::MAX) {
        let task = TaskRef { wave, task: index };
        if let Err(message) = resolve(turn, task, &mut resolved_bytes) {
            unresolved.push((task, message));
        }
    }
    // They fail alone; what that means, the policy decides when all of them are known.
    for (task, message) in unresolved {
        settle::fail_unresolved(turn, task, message)?;
    }
    if turn.state.may_lease() {
        let queued: Vec<TaskRef> = turn.state.queued().collect();
        for task in queued {
            turn.effect(Effect::Enqueue { task });
        }
    }
    Ok(())
}

/// Records the task's input with its references resolved, where it holds any.
pub(super) fn resolve(turn: &mut Turn<'_>, task: TaskRef, resolved_bytes: &mut usize) -> Result<(), String> {
    if let Some(input) = resolve_input(turn, task, resolved_bytes)? {
        let (wave, task) = (task.wave, task.task);
        turn.emit(Body::TaskInputResolved(v1::TaskInputResolved { wave, task, input: Some(input) }));
    }
    Ok(())
}

/// The input with its references resolved; `None` where it holds none.
fn resolve_input(
    turn: &Turn<'_>,
    task: TaskRef,
    resolved_bytes: &mut usize,
) -> Result<Option<v1::Payload>, String> {
    let Some(input) = turn.state.plan.task(task).and_then(|declared| declared.input.as_ref()) else {
        return Ok(None);
    };
    let Some(v1::payload::Data::Inline(bytes)) = &input.data else { return Ok(None) };
    if !is_json(&input.media_type) || !may_hold_references(bytes) {
        return Ok(None);
    }
    let template: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if !reference::needs_resolving(&template) {
        return Ok(None);
    }
    // The whole input is one whole output: it is passed on as it is, a blob included.
    if let Some(name) = whole_output(&template) {
        let output = output_of(turn, name).ok_or_else(|| no_output(name))?;
        if let Some(v1::payload::Data::Inline(bytes)) = &output.data {
            take_room(resolved_bytes, bytes.len())?;
        }
        return Ok(Some(output.clone()));
    }
    let mut lookup = |name: &str| {
        let output = output_of(turn, name)?;
        match &output.data {
            Some(v1::payload::Data::Inline(bytes)) if is_json(&output.media_type) => {
                serde_json::from_slice(bytes).ok()
            }
            Some(v1::payload::Data::Inline(bytes)) => {
                std::str::from_utf8(bytes).ok().map(|text| serde_json::Value::String(text.to_owned()))
            }
            _ => None,
        }
    };
    let value = reference::resolve(&template, &mut lookup)
        .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let bytes = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
    take_room(resolved_bytes, bytes.len())?;
    Ok(Some(v1::Payload {
        media_type: input.media_type.clone(),
        data: Some(v1::payload::Data::Inline(bytes.into())),
    }))
}

/// Counts the bytes of one more resolved input.
fn take_room(resolved_bytes: &mut usize, bytes: usize) -> Result<(), String> {
    let all = resolved_bytes.saturating_add(bytes);
    if bytes > MAX_INLINE || all > MAX_RESOLVED {
        return Err(format!(
            "the resolved input has {bytes} bytes, at most {MAX_INLINE} for a task and {MAX_RESOLVED} for a wave"
        ));
    }
    *resolved_bytes = all;
    Ok(())
}

/// A cheap look before the input is parsed. `$` and `{` may also be written as \u0024 and \u007b.
fn may_hold_references(input: &[u8]) -> bool {
    input.windows(2).any(|pair| pair == b"${" || pair == b"\\u")
}

/// The task whose whole output the template is.
fn whole_output(template: &serde_json::Value) -> Option<&str> {
    let segments = reference::scan(template.as_str()?).ok()?;
    match segments.as_slice() {
        [reference::Segment::Ref { task, path }] if path.is_empty() => Some(*task),
        _ => None,
    }
}

fn no_output(name: &str) -> String {
    format!("task {name:?} has no output")
}

/// The output of a task that succeeded. What a task left behind that failed or was cancelled is not its output.
fn output_of<'a>(turn: &'a Turn<'_>, name: &str) -> Option<&'a v1::Payload> {
    let task = turn.state.plan.find(name)?;
    let end = turn.state.activity(task)?.end.as_ref()?;
    end.output.as_ref().filter(|_| end.status == ResultStatus::Success)
}

/// Looks at the wave in work after something in it has settled or begun anew, and goes on as far as that leads.
pub(super) fn advance(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    while step(turn)? {}
    Ok(())
}

/// Goes on by one step; whether another one may follow.
fn step(turn: &mut Turn<'_>) -> Result<bool, Refusal> {
    if turn.is_broken() || turn.state.is_finished() || turn.state.is_waiting() {
        return Ok(false);
    }
    let wave = turn.state.current_wave();
    let current = turn.state.waves.last();
    let (size, settled) = current.map_or((0, 0), |state| (state.tasks.len(), state.tally.total() as usize));
    if let Phase::Ending { error } = &turn.state.phase {
        if settled >= size {
            let error = error.clone();
            let outcome = if error.is_some() { v1::RunOutcome::Failed } else { v1::RunOutcome::Cancelled };
            finish(turn, outcome, error);
        }
        return Ok(false);
    }
    if turn.state.ask.is_some() {
        return ask::step(turn);
    }
    if turn.state.script.is_some() {
        return script::step(turn);
    }
    let Some(state) = current else { return Ok(false) };
    let policy = turn.state.plan.policy_of(wave);
    match policy.decide(&state.tally, size) {
        WaveDecision::CancelRest if settled < size => {
            if state.stopping {
                return Ok(false);
            }
            let evaluation = state.tally.evaluation(policy);
            cancel::stop_wave(turn, wave, evaluation)?;
            // The wave is decided once.
            Ok(turn.state.stop_reason().is_some())
        }
        WaveDecision::Wait if settled < size => Ok(false),
        _ => {
            finish_wave(turn, wave)?;
            Ok(true)
        }
    }
}

fn finish_wave(turn: &mut Turn<'_>, wave: u32) -> Result<(), Refusal> {
    let Some(state) = turn.state.waves.last() else { return Ok(()) };
    let evaluation = state.tally.evaluation(turn.state.plan.policy_of(wave));
    let should_continue = evaluation.should_continue;
    turn.emit(Body::WaveFinished(v1::WaveFinished { wave, evaluation: Some(evaluation.clone()) }));
    if !should_continue {
        let error = wave_error(turn, wave, &evaluation);
        finish(turn, v1::RunOutcome::Failed, Some(error));
        return Ok(());
    }
    if (wave as usize) + 1 < turn.state.plan.waves.len() {
        return begin_wave(turn, wave + 1);
    }
    let failures = turn.state.waves.iter().any(|wave| wave.tally.failures() > 0);
    if failures {
        let (successes, total) = turn.state.waves.iter().fold((0, 0), |(successes, total), wave| {
            (successes + wave.tally.successes(), total + wave.tally.total())
        });
        turn.notice(aggregation::partial_success(successes, total), None);
        finish(turn, v1::RunOutcome::SucceededWithFailures, None);
    } else {
        finish(turn, v1::RunOutcome::Succeeded, None);
    }
    Ok(())
}

/// Why a wave ends its run.
fn wave_error(turn: &Turn<'_>, wave: u32, evaluation: &v1::Evaluation) -> v1::Error {
    match turn.state.plan.policy_of(wave).kind() {
        AggregationKind::Quorum => aggregation::quorum_not_met(evaluation),
        AggregationKind::CriticalPath => {
            let critical = evaluation.critical_failures.first().map_or("", String::as_str);
            aggregation::critical_agent_failed(critical)
        }
        AggregationKind::FailFast | AggregationKind::ContinueAll => first_failure(turn)
            .unwrap_or_else(|| codes::error(codes::UNKNOWN_ERROR, "a task failed".to_owned())),
    }
}

/// The error of the task that failed first.
fn first_failure(turn: &Turn<'_>) -> Option<v1::Error> {
    let ended = turn.state.activities().filter_map(|(_, activity)| activity.end.as_ref());
    let failed = ended.filter(|end| matches!(end.status, ResultStatus::Error | ResultStatus::Timeout));
    failed.min_by_key(|end| end.at).and_then(|end| end.error.clone())
}

pub(super) fn finish(turn: &mut Turn<'_>, outcome: v1::RunOutcome, error: Option<v1::Error>) {
    let summary = turn.state.error_summary();
    let activities = turn.state.waves.iter().flat_map(|wave| &wave.tasks);
    let begun = activities.filter(|activity| activity.was_active()).count();
    let not_started = turn.state.plan.task_count().saturating_sub(u32::try_from(begun).unwrap_or(u32::MAX));
    turn.emit(Body::RunFinished(v1::RunFinished {
        outcome: outcome as i32,
        error,
        summary: Some(summary),
        not_started,
    }));
    turn.effect(Effect::Finish);
}
