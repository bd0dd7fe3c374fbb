//! Pipelines for the workers: a phase for each of a few items, then one of what goes on of them. Some outputs are rejected
//! until they are corrected, and some runs go back to their checkpoint while work goes on.

use capataz_client::worker::{Task, TaskError, TaskOutput as Output, Worker};
use capataz_contracts::v1::{self, payload::Data};
use serde_json::{Value, json};

use super::{Draft, Occasion, Workload, key_of_work};
use crate::Outcome;
use crate::children::Programs;
use crate::journal::Journal;
use crate::verdict::{self, Facts, Log, Verdict};
use crate::worker::execute;

/// The agent of all phases.
const AGENT: &str = "chaos-phase";
/// What every output has to be.
const SCHEMA: &str = r#"{"type":"object","required":["key","lease","grade"],"properties":{"grade":{"type":"integer","maximum":6}}}"#;
/// A grade that passes, and one that does not.
const GOOD: u64 = 3;
const BAD: u64 = 7;

#[derive(Debug)]
pub(super) struct Pipelines;

impl Workload for Pipelines {
    fn share(&self) -> u64 {
        4
    }

    fn configuration(&self, _: &Programs) -> Outcome<String> {
        Ok(String::new())
    }

    fn serve(&self, worker: Worker, journal: &Journal) -> Worker {
        let journal = journal.clone();
        worker.agent(AGENT, move |task: Task| perform(task, journal.clone()))
    }

    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft> {
        let items = (0..rng.u64(1..4)).map(|_| how(rng));
        let input = json!({ "key": occasion.key, "items": items.collect::<Vec<_>>() });
        let of_item = json!({ "key": "${input.key}", "how": "${item}" });
        let of_all =
            json!({ "key": "${input.key}", "how": "${input.items.0}", "grades": "${phases.sort.summary}" });
        let pipeline = v1::Pipeline {
            name: "chaos".to_owned(),
            phases: vec![phase("sort", &of_item, Some("${input.items}")), phase("sum", &of_all, None)],
            input: Some(payload(&input)),
            ..v1::Pipeline::default()
        };
        Ok(Draft { request: v1::StartRunRequest::of_pipeline(pipeline), has_tasks: false })
    }

    fn is_own_output(&self, log: &Log, settled: &v1::TaskSettled) -> bool {
        let Ok(output) = serde_json::from_slice::<Value>(verdict::inline(settled)) else { return false };
        output["key"] == key_of_work(log)
            && output["task"] == log.task_name(settled.wave, settled.task)
            && output["lease"].as_u64() == settled.lease
            && output["grade"] == GOOD
    }

    fn judge(&self, facts: &Facts, verdict: &mut Verdict) {
        verdict::phases::judge(facts, verdict);
    }
}

/// How one output is made.
fn how(rng: &mut fastrand::Rng) -> Value {
    json!({
        "milliseconds": if rng.u32(0..100) < 10 { rng.u64(500..1_500) } else { rng.u64(10..300) },
        "is_bad_at_first": rng.u32(0..100) < 30,
    })
}

fn phase(name: &str, input: &Value, for_each: Option<&str>) -> v1::Phase {
    v1::Phase {
        name: name.to_owned(),
        agent: AGENT.to_owned(),
        input: Some(input.to_string()),
        for_each: for_each.map(str::to_owned),
        output: Some(v1::OutputRule { schema: Some(SCHEMA.to_owned()), checks: Vec::new() }),
        summary: vec!["grade".to_owned()],
        ..v1::Phase::default()
    }
}

fn payload(input: &Value) -> v1::Payload {
    let data = Some(Data::Inline(input.to_string().into()));
    v1::Payload { media_type: "application/json".to_owned(), data }
}

/// A pipeline of one phase that is the child of an execution. It has its key as its name, for a tool gives no labels.
pub(super) fn small(rng: &mut fastrand::Rng, key: &str) -> v1::Pipeline {
    let of_all = json!({ "key": "${input.key}", "how": "${input.how}" });
    v1::Pipeline {
        name: key.to_owned(),
        phases: vec![phase("one", &of_all, None)],
        input: Some(payload(&json!({ "key": key, "how": how(rng) }))),
        ..v1::Pipeline::default()
    }
}

/// Gives a grade: a bad one at first where it was told so, a good one once it was told what was wrong.
async fn perform(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let input: Value = task.input_json()?;
    let lease = task.parent_ref().lease;
    let milliseconds = input["how"]["milliseconds"].as_u64().unwrap_or_default();
    let is_bad = input["how"]["is_bad_at_first"] == true && input.get("correction").is_none();
    execute(&task, &journal, milliseconds, !is_bad).await?;
    let grade = if is_bad { BAD } else { GOOD };
    Output::json(json!({ "key": input["key"], "task": task.name(), "lease": lease, "grade": grade }))
}
