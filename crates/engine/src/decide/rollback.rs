//! A user takes a task back to its beginning, and with it what was built on it (seed 000, contract 2).

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::lifecycle::{self, TaskState};

use super::cancel::WITHDRAWN;
use super::turn::Turn;
use super::{Refusal, advance, child, pause, references, settle};
use crate::effect::Effect;
use crate::fold::activity::{Activity, Step};
use crate::fold::state::Phase;
use crate::input::TaskRef;
use crate::planted::{self, Fault};

/// What a caller can do who wants what was built on a task taken back with it.
const CASCADE: &str = "cascade";
/// What a caller can do who wants the steps taken that a refusal names.
pub(super) const CORRECT: &str = "correct";

/// Names in a message; of more it says how many there are.
const MOST_NAMED: usize = 5;

pub(super) fn handle(
    turn: &mut Turn<'_>,
    name: &str,
    cascade: bool,
    request_id: String,
) -> Result<(), Refusal> {
    let task = turn.find(name)?;
    turn.refuse_finished()?;
    turn.state.rules().may_be_taken_back(name)?;
    let state = turn.state.known(task).map_or(TaskState::Init, |activity| activity.state);
    let refuse = |why: String| Err(Refusal::transition(state, TaskState::RolledBack, || why));
    if !state.allowed().contains(&TaskState::RolledBack) {
        return refuse(String::new());
    }
    // What is being stopped is on its way to an end that the policy, or a person, has decided.
    if !matches!(turn.state.phase, Phase::Running)
        || turn.state.waves.last().is_some_and(|wave| wave.stopping)
    {
        return refuse(format!(
            "task {name:?} is not taken back while its run, or a wave of it, is being stopped"
        ));
    }
    let later = begun_after(turn, task);
    if !later.is_empty() && !cascade {
        let names = named(turn, &later);
        let why =
            format!("tasks of later waves have begun, and go back with {name:?} only on demand: {names}");
        return Err(Refusal::transition(state, TaskState::RolledBack, || why).or(CASCADE));
    }
    let at_work =
        |task: &TaskRef| turn.state.activity(*task).is_some_and(|activity| activity.child().is_some());
    if let Some(at_work) = std::iter::once(task).chain(later.iter().copied()).find(at_work) {
        let run = turn.state.child(at_work).map_or("", |child| child.run);
        let of = named(turn, &[at_work]);
        return refuse(format!("task {of} is the run {run}, which is at work: wait until it has ended"));
    }
    let taken: Vec<TaskRef> = std::iter::once(task).chain(later).collect();
    let taken_back = taken.iter().map(|task| taken_back(turn, *task)).collect::<Result<Vec<_>, _>>()?;
    let_go(turn, task);
    turn.emit_request(Body::TaskRolledBack(v1::TaskRolledBack {
        wave: task.wave,
        task: task.task,
        taken_back,
        cascade,
        request_id,
    }));
    let held = turn.state.held_since.is_some();
    withdraw_questions(turn, task);
    if turn.state.activity(task).is_some_and(|activity| activity.input.is_none())
        && let Err(message) = references::resolve(turn, task, &mut references::References::default())
    {
        settle::fail_unresolved(turn, task, message)?;
    }
    match held {
        // What waited for an answer to these questions waits for it no more.
        true => pause::release(turn)?,
        false if turn.state.is_queued(task) => child::enqueue(turn, task)?,
        false => {}
    }
    advance::advance(turn)
}

/// A refusal that offers to take the task back offers what would be taken: by itself, with what was built on it, or not at all.
pub(super) fn offered(turn: &Turn<'_>, task: TaskRef, refusal: Refusal) -> Refusal {
    let Refusal::Rule(mut error) = refusal else { return refusal };
    let is_stopping = turn.state.waves.last().is_some_and(|wave| wave.stopping);
    let later = begun_after(turn, task);
    let is_run =
        |task: &TaskRef| turn.state.activity(*task).is_some_and(|activity| activity.child().is_some());
    let may_be = matches!(turn.state.phase, Phase::Running)
        && !is_stopping
        && !std::iter::once(&task).chain(&later).any(is_run);
    let offers = std::mem::take(&mut error.options).into_iter().filter_map(|option| match &*option {
        CORRECT if !may_be => None,
        CORRECT if !later.is_empty() => Some(CASCADE.to_owned()),
        _ => Some(option),
    });
    error.options = offers.collect();
    Refusal::Rule(error)
}

/// The tasks of later waves that have begun, and that the lifecycle lets begin anew. A task that was given up stays so.
fn begun_after(turn: &Turn<'_>, task: TaskRef) -> Vec<TaskRef> {
    let has_begun = |activity: &Activity| !matches!(activity.state, TaskState::Init | TaskState::Deleted);
    let waves = turn.state.waves.iter().zip(0u32..).skip(task.wave as usize + 1);
    let tasks = waves.flat_map(|(state, wave)| {
        state.tasks.iter().zip(0u32..).map(move |(activity, task)| (TaskRef { wave, task }, activity))
    });
    tasks.filter(|(_, activity)| has_begun(activity)).map(|(task, _)| task).collect()
}

fn named(turn: &Turn<'_>, tasks: &[TaskRef]) -> String {
    let names = tasks.iter().take(MOST_NAMED).filter_map(|task| turn.state.plan().task(*task));
    let names: Vec<String> = names.map(|task| format!("{:?}", task.name)).collect();
    match tasks.len().saturating_sub(MOST_NAMED) {
        0 => names.join(", "),
        more => format!("{}, … (+{more})", names.join(", ")),
    }
}

/// The way of a task back to INIT.
fn taken_back(turn: &Turn<'_>, task: TaskRef) -> Result<v1::TaskTakenBack, Refusal> {
    let activity = turn.state.activity(task).ok_or(Refusal::Outdated)?;
    let states = lifecycle::steps_to(activity.state, TaskState::RolledBack).unwrap_or_default();
    let states = states.into_iter().chain([TaskState::Init]);
    Ok(v1::TaskTakenBack {
        wave: task.wave,
        task: task.task,
        activation: match planted::is(Fault::TakenBackIsNotNew) {
            true => activity.activation,
            false => activity.activation.saturating_add(1),
        },
        states: states.map(|state| state.to_proto().into()).collect(),
    })
}

/// The task, and those of later waves, leave their queues and their workers.
fn let_go(turn: &mut Turn<'_>, task: TaskRef) {
    let in_work: Vec<TaskRef> = turn.state.activities().map(|(task, _)| task).collect();
    for other in in_work {
        if other != task && other.wave == task.wave {
            continue;
        }
        match turn.state.activity(other).map(|activity| &activity.step) {
            Some(Step::Queued { .. }) => turn.effect(Effect::Dequeue { task: other }),
            Some(Step::Leased(lease)) => {
                let lease = lease.token;
                turn.effect(Effect::Revoke { task: other, lease });
            }
            Some(Step::Child(_) | Step::Backoff { .. } | Step::Asking { .. } | Step::Settled) | None => {}
        }
    }
}

/// What was asked about tasks that begin anew needs no answer. No question is open about a task of a later wave that does not.
fn withdraw_questions(turn: &mut Turn<'_>, task: TaskRef) {
    let of_them = |of: TaskRef| of == task || of.wave > task.wave;
    let of_them = turn.state.open_questions().filter(|asked| asked.task.is_some_and(of_them));
    let open: Vec<String> = of_them.map(|asked| asked.question.question_id.clone()).collect();
    for question_id in open {
        turn.emit(Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer: WITHDRAWN.to_owned(),
            ..v1::QuestionAnswered::default()
        }));
    }
}
