//! What comes next in a run: its machine names the steps, and this module carries them out.

use std::collections::BTreeMap;

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::aggregation::ResultStatus;

use super::turn::Turn;
use super::{Refusal, WITHDRAWN, cancel, child, pause, question, references, settle, take_over};
use crate::effect::Effect;
use crate::fold::state::Phase;
use crate::input::{ResolvedInput, TaskRef};
use crate::machine::Step;
use crate::planted::{self, Fault};

/// Asks the machine what comes next, and carries its steps out, until something is waited for.
pub(super) fn advance(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    loop {
        if turn.is_broken() || turn.state.is_finished() || turn.state.is_waiting() {
            return Ok(());
        }
        if let Phase::Ending { error } = &turn.state.phase {
            let error = error.clone();
            return end(turn, error);
        }
        let steps = turn.state.rules().next(turn.state, turn.now);
        if !carry_out(turn, steps)? {
            return Ok(());
        }
    }
}

/// Ends the run that was told to end, once nothing of it is in work.
fn end(turn: &mut Turn<'_>, error: Option<v1::Error>) -> Result<(), Refusal> {
    let wave = turn.state.waves.last();
    if wave.is_none_or(|wave| wave.tally.total() as usize >= wave.tasks.len()) {
        let outcome = match &error {
            Some(error) => turn.state.rules().outcome_when_aborted(error),
            None => v1::RunOutcome::Cancelled,
        };
        finish(turn, outcome, error);
    }
    Ok(())
}

/// Carries steps out, in order. Returns whether the machine is to be asked again at once.
pub(super) fn carry_out(turn: &mut Turn<'_>, steps: Vec<Step>) -> Result<bool, Refusal> {
    let mut goes_on = false;
    for step in steps {
        goes_on = true;
        match step {
            Step::Record(body) => turn.emit(body),
            Step::RecordRequest(body) => turn.emit_request(body),
            Step::AsBefore => {
                turn.set_request_seq(Some(turn.state.seq()));
                goes_on = false;
            }
            Step::Notice(kind, notice) => turn.notice(kind, notice, None),
            Step::BeginWave { wave, resolved } => begin_wave(turn, wave, resolved)?,
            Step::Begin(body) => {
                turn.emit(body);
                enqueue_all(turn)?;
                goes_on = false;
            }
            Step::FailBegun(error) => {
                let task = TaskRef { wave: turn.state.current_wave(), task: 0 };
                settle::fail(turn, task, ResultStatus::Error, error, None)?;
            }
            Step::StopWave { wave, evaluation } => cancel::stop_wave(turn, wave, evaluation)?,
            Step::Query(query, asked) => {
                turn.effect(Effect::Query { query, asked });
                goes_on = false;
            }
            Step::KeepBrowser { body, worker } => {
                turn.emit(body);
                turn.effect(Effect::KeepBrowser { worker });
                goes_on = false;
            }
            Step::Ask(asked) => {
                question::of_run(turn, *asked);
                goes_on = false;
            }
            Step::Withdraw(question_id) => turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
                question_id,
                answer: WITHDRAWN.to_owned(),
                ..v1::QuestionAnswered::default()
            })),
            Step::EndTasks(tasks, reason) => {
                for task in tasks {
                    if planted::is(Fault::RollbackKeepsLease) && turn.state.lease_of(task).is_some() {
                        continue;
                    }
                    let ending = settle::cancelled(turn, task, reason)?;
                    settle::settle_without_advance(turn, task, ending)?;
                }
                pause::release(turn)?;
            }
            Step::Wait => goes_on = false,
            Step::Finish { outcome, error } => {
                finish(turn, outcome, error);
                goes_on = false;
            }
        }
    }
    Ok(goes_on)
}

/// Begins a wave: the references of every task are resolved, and every task waits for a slot. A wave whose tasks all
/// failed at this has ended; the machine notices that when it is asked next.
fn begin_wave(turn: &mut Turn<'_>, wave: u32, resolved: Vec<ResolvedInput>) -> Result<(), Refusal> {
    turn.emit(Body::WaveStarted(v1::WaveStarted { wave }));
    if take_over::of_wave(turn, wave)? {
        return Ok(());
    }
    let tasks = turn.state.plan.wave(wave).map_or(0, |declared| declared.tasks.len());
    let mut references = references::References::default();
    let mut resolved: BTreeMap<u32, ResolvedInput> =
        resolved.into_iter().map(|resolved| (resolved.task, resolved)).collect();
    let mut unresolved = Vec::new();
    for index in 0..u32::try_from(tasks).unwrap_or(u32::MAX) {
        let task = TaskRef { wave, task: index };
        // Where the wave begins again, a task that was given up stays so.
        if !turn.state.is_queued(task) {
            continue;
        }
        let input = match resolved.remove(&index) {
            Some(outside) => references::take(turn, task, outside),
            None => references::resolve(turn, task, &mut references),
        };
        if let Err(message) = input {
            unresolved.push((task, message));
        }
    }
    // Each of these tasks fails alone. The policy decides about the wave when all of them are known.
    for (task, message) in unresolved {
        // A CRITICAL failure ends the run, and the tasks after it with the run.
        if turn.state.is_queued(task) {
            settle::fail_unresolved(turn, task, message)?;
        }
    }
    enqueue_all(turn)
}

/// Puts every waiting task into the queue of its agent, or begins the run that it is.
fn enqueue_all(turn: &mut Turn<'_>) -> Result<(), Refusal> {
    let queued: Vec<TaskRef> = turn.state.queued().collect();
    for task in queued {
        // A run that cannot begin may be a CRITICAL failure, which ends those after it.
        if turn.state.is_queued(task) {
            child::enqueue(turn, task)?;
        }
    }
    Ok(())
}

fn finish(turn: &mut Turn<'_>, outcome: v1::RunOutcome, error: Option<v1::Error>) {
    let summary = turn.state.error_summary();
    let taken_back = turn.state.taken_back.values();
    let activities = turn.state.waves.iter().flat_map(|wave| &wave.tasks).chain(taken_back);
    let begun = activities.filter(|activity| activity.was_active()).count();
    let not_started = turn.state.plan.task_count().saturating_sub(u32::try_from(begun).unwrap_or(u32::MAX));
    turn.emit(Body::RunFinished(v1::RunFinished {
        outcome: outcome.into(),
        error,
        summary: Some(summary),
        not_started,
    }));
    turn.effect(Effect::Finish);
}
