//! Plans of three tasks, for workers and for a command of the daemon.

use std::io::{Read, Write};
use std::time::Duration;

use capataz_client::worker::{Task, TaskError, TaskOutput as Output, Worker};
use capataz_contracts::v1;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Draft, KEY_LABEL, Occasion, Workload, key_of_work};
use crate::Outcome;
use crate::children::Programs;
use crate::journal::{Journal, now_us};
use crate::records::CommandRecord;
use crate::verdict::{self, Facts, Log, Verdict};
use crate::worker::execute;

/// The agent of all tasks that workers serve.
pub(crate) const AGENT: &str = "chaos";

/// The agent that the daemon serves by a command.
const PROCESS_AGENT: &str = "chaos-process";

/// What a task is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskInput {
    /// The run's idempotency key, and the task's name.
    pub(crate) key: String,
    pub(crate) task: String,
    pub(crate) milliseconds: u64,
    /// Attempts that fail, so that retries are under way when the daemon dies.
    #[serde(default)]
    pub(crate) failures: u32,
}

/// What a task answers: who it was, so that no answer can pass for another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskOutput {
    pub(crate) key: String,
    pub(crate) task: String,
    /// Absent from a command's answer, which knows of no leases.
    pub(crate) lease: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Plans;

impl Workload for Plans {
    fn share(&self) -> u64 {
        9
    }

    /// One agent that the daemon serves itself.
    fn configuration(&self, programs: &Programs) -> Outcome<String> {
        let journal = crate::commands_path(&programs.folder);
        let command = json!([programs.chaos, "command", "--journal", journal]);
        Ok(format!("[[agents]]\nname = \"{PROCESS_AGENT}\"\ncommand = {command}\nmax_concurrency = 4\n"))
    }

    fn serve(&self, worker: Worker, journal: &Journal) -> Worker {
        let journal = journal.clone();
        worker.agent(AGENT, move |task: Task| perform(task, journal.clone()))
    }

    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft> {
        let shape: &[&[&str]] = match rng.u32(0..3) {
            0 => &[&["a", "b", "c"]],
            1 => &[&["a"], &["b"], &["c"]],
            _ => &[&["a"], &["b", "c"]],
        };
        let by_process = rng.u32(0..100) < 15;
        let waves = shape.iter().enumerate().map(|(number, names)| v1::Wave {
            tasks: names
                .iter()
                .map(|name| task(rng, occasion.key, name, number > 0, by_process && *name == "a"))
                .collect(),
            ..v1::Wave::default()
        });
        let mut waves: Vec<v1::Wave> = waves.collect();
        if rng.u32(0..100) < 25 {
            let last = waves.iter_mut().flat_map(|wave| &mut wave.tasks).find(|task| task.name == CHILD);
            last.into_iter().for_each(|task| *task = child(rng, occasion.key));
        }
        let policy = v1::AggregationPolicy {
            kind: v1::AggregationKind::ContinueAll as i32,
            ..v1::AggregationPolicy::default()
        };
        let retry = v1::RetryPolicy { base_delay_ms: Some(200), ..v1::RetryPolicy::default() };
        let timeouts = v1::TimeoutPolicy { grace_ms: Some(1_000), ..v1::TimeoutPolicy::default() };
        let plan = v1::Plan {
            name: format!("chaos {}", occasion.index),
            waves,
            policy: Some(policy),
            retry: Some(retry),
            timeouts: Some(timeouts),
            ..v1::Plan::default()
        };
        Ok(Draft { request: v1::StartRunRequest::of_plan(plan), has_tasks: true })
    }

    fn is_own_output(&self, log: &Log, settled: &v1::TaskSettled) -> bool {
        if log.names_child(settled.wave, settled.task) {
            return is_output_of_child(verdict::inline(settled), &child_key(key_of_work(log), CHILD));
        }
        let output: Result<TaskOutput, _> = serde_json::from_slice(verdict::inline(settled));
        output.is_ok_and(|output| {
            output.key == key_of_work(log)
                && output.task == log.task_name(settled.wave, settled.task)
                && output.lease.is_none_or(|lease| settled.lease == Some(lease))
        })
    }

    fn judge(&self, facts: &Facts, verdict: &mut Verdict) {
        verdict::commands::judge(&facts.commands, &facts.logs, verdict);
    }
}

fn task(rng: &mut fastrand::Rng, key: &str, name: &str, follows: bool, by_process: bool) -> v1::Task {
    let milliseconds = if rng.u32(0..100) < 12 { rng.u64(1_500..3_000) } else { rng.u64(50..900) };
    let failures = u32::from(!by_process && rng.u32(0..100) < 8);
    let mut input = json!(TaskInput { key: key.to_owned(), task: name.to_owned(), milliseconds, failures });
    if follows && let Some(fields) = input.as_object_mut() {
        fields.insert("before".to_owned(), json!("${tasks.a.output}"));
    }
    let inline = v1::payload::Data::Inline(input.to_string().into());
    let effect = (!by_process && rng.u32(0..100) < 6).then_some(v1::Effect::AtMostOnce as i32);
    v1::Task {
        effect,
        name: name.to_owned(),
        agent: if by_process { PROCESS_AGENT } else { AGENT }.to_owned(),
        input: Some(v1::Payload { media_type: "application/json".to_owned(), data: Some(inline) }),
        ..v1::Task::default()
    }
}

/// The task that is a run of its own in some plans.
const CHILD: &str = "c";

/// The key of a child: a run of its own has a key of its own, so that one that is created twice shows.
pub(super) fn child_key(parent: &str, place: &str) -> String {
    format!("{parent}/{place}")
}

/// Whether the tasks of a child have given what was answered for its key, each in its own name. Of whom a person has said that
/// it has succeeded, that has given nothing.
pub(super) fn is_output_of_child(output: &[u8], key: &str) -> bool {
    let Ok(output) = serde_json::from_slice::<serde_json::Value>(output) else { return false };
    let is_own = |task: &serde_json::Value| {
        let given = &task["output"];
        given.is_null() || given["key"] == key && given["task"] == task["name"] && task["name"].is_string()
    };
    output["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty() && tasks.iter().all(is_own))
}

/// A plan of one task or two that is the child of an execution. It has its key as its name, for a tool gives no labels.
pub(super) fn small(rng: &mut fastrand::Rng, key: &str) -> v1::Plan {
    let shape: &[&[&str]] = match rng.u32(0..3) {
        0 => &[&["a"]],
        1 => &[&["a", "b"]],
        _ => &[&["a"], &["b"]],
    };
    let waves = shape.iter().enumerate().map(|(number, names)| v1::Wave {
        tasks: names.iter().map(|name| task(rng, key, name, number > 0, false)).collect(),
        ..v1::Wave::default()
    });
    let waves = waves.collect();
    let retry = v1::RetryPolicy { base_delay_ms: Some(200), ..v1::RetryPolicy::default() };
    v1::Plan { name: key.to_owned(), waves, retry: Some(retry), ..v1::Plan::default() }
}

fn child(rng: &mut fastrand::Rng, key: &str) -> v1::Task {
    let key = child_key(key, CHILD);
    let inner = v1::Task { effect: None, ..task(rng, &key, CHILD, false, false) };
    let once = v1::RetryPolicy { max_attempts: Some(1), ..v1::RetryPolicy::default() };
    let plan = v1::Plan {
        name: "chaos child".to_owned(),
        waves: vec![v1::Wave { tasks: vec![inner], ..v1::Wave::default() }],
        ..v1::Plan::default()
    };
    let run = v1::ChildRun {
        work: Some(v1::child_run::Work::Plan(plan)),
        labels: [(KEY_LABEL.to_owned(), key)].into(),
        ..v1::ChildRun::default()
    };
    v1::Task { name: CHILD.to_owned(), run: Some(Box::new(run)), retry: Some(once), ..v1::Task::default() }
}

async fn perform(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let input: TaskInput = task.input_json()?;
    let lease = task.parent_ref().lease;
    let fails = task.attempt() <= input.failures;
    execute(&task, &journal, input.milliseconds, !fails).await?;
    if fails {
        return Err(TaskError::new("NETWORK_ERROR", "fails as it was told to"));
    }
    Output::json(TaskOutput { key: input.key, task: input.task, lease: Some(lease) })
}

/// The command of the process agent: input on the standard input, output on the standard output. A journal line at the
/// beginning and one at the end of each execution, each written at once.
///
/// # Errors
/// The input is not what a chaos plan has, or the journal cannot be written.
pub fn command(journal: &std::path::Path) -> Outcome<()> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let input: TaskInput = serde_json::from_str(&input)?;
    let mut file = std::fs::File::options().create(true).append(true).open(journal)?;
    let mut write = |record: &CommandRecord| -> Outcome<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(file.sync_data()?)
    };
    let (key, task, process) = (input.key.clone(), input.task.clone(), std::process::id());
    write(&CommandRecord::Began { at: now_us(), process, key, task })?;
    std::thread::sleep(Duration::from_millis(input.milliseconds.min(1_000)));
    let (key, task) = (input.key.clone(), input.task.clone());
    write(&CommandRecord::Ended { at: now_us(), process, key, task })?;
    let output = TaskOutput { key: input.key, task: input.task, lease: None };
    println!("{}", serde_json::to_string(&output)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_three_tasks() -> Outcome<()> {
        for index in 0..50 {
            let mut rng = fastrand::Rng::with_seed(index);
            let draft = Plans.draft(&mut rng, &Occasion { index, key: "k", site: "" })?;
            let plan = draft.request.plan().cloned().unwrap_or_default();
            assert_eq!(plan.waves.iter().map(|wave| wave.tasks.len()).sum::<usize>(), 3);
        }
        Ok(())
    }
}
