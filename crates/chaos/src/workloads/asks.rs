//! Asks for two specs that workers serve. Most of them are in a few sessions that all clients share, so that asks wait
//! for their turn when the daemon dies.

use capataz_client::worker::{Task, TaskError, TaskOutput as Output, Worker};
use capataz_contracts::v1;
use serde_json::{Value, json};

use super::{Draft, Occasion, Workload};
use crate::Outcome;
use crate::children::Programs;
use crate::journal::Journal;
use crate::verdict::{self, Facts, Log, Verdict};
use crate::worker::execute;

/// The agent of all specs.
const AGENT: &str = "chaos-spec";

/// The first one is the default.
const SPECS: [&str; 2] = ["tides", "maps"];

/// The sessions of all clients.
pub(crate) const SESSIONS: [&str; 3] = ["harbour", "island", "lighthouse"];

#[derive(Debug)]
pub(super) struct Asks;

impl Workload for Asks {
    fn share(&self) -> u64 {
        6
    }

    fn configuration(&self, programs: &Programs) -> Outcome<String> {
        let folder = programs.folder.join("specs");
        std::fs::create_dir_all(&folder)?;
        for (number, spec) in SPECS.into_iter().enumerate() {
            let file = format!(
                "id = \"{spec}\"\ntitle = \"{spec}\"\nlanguages = [\"en\"]\ncontract_version = \"1.0.0\"\n\
                 agent = \"{AGENT}\"\nkeywords = [\"{spec}\"]\ndefault = {}\n",
                number == 0
            );
            std::fs::write(folder.join(format!("{spec}.toml")), file)?;
        }
        // The daemon looks for that folder where it is started.
        Ok(String::new())
    }

    fn serve(&self, worker: Worker, journal: &Journal) -> Worker {
        let journal = journal.clone();
        worker.agent(AGENT, move |task: Task| perform(task, journal.clone()))
    }

    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft> {
        let about = if rng.bool() { "tides" } else { "maps" };
        let text = format!("Tell me about {about}, {}", occasion.key);
        let session = rng.u32(0..100) < 75;
        let session = session.then(|| SESSIONS.get(rng.usize(0..SESSIONS.len())).map(ToString::to_string));
        let spec = (rng.u32(0..100) < 15).then(|| about.to_owned());
        let milliseconds = if rng.u32(0..100) < 10 { rng.u64(500..1_500) } else { rng.u64(10..300) };
        let failures = u32::from(rng.u32(0..100) < 8);
        let mut custom = vec![
            ("key", occasion.key.to_owned()),
            ("milliseconds", milliseconds.to_string()),
            ("failures", failures.to_string()),
        ];
        if rng.u32(0..100) < 25 {
            custom.push(("continue", if rng.bool() { "tides" } else { "maps" }.to_owned()));
            custom.push(("automatic", rng.bool().to_string()));
        }
        let custom = custom.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let ask = v1::Ask { text, session: session.flatten(), spec, custom, ..v1::Ask::default() };
        Ok(Draft { request: v1::StartRunRequest::of_ask(ask), has_tasks: false })
    }

    fn is_own_output(&self, log: &Log, settled: &v1::TaskSettled) -> bool {
        let Ok(output) = serde_json::from_slice::<Value>(verdict::inline(settled)) else { return false };
        let answer = &output["response"]["structured"];
        answer["key"] == log.key()
            && answer["spec"] == log.task_name(settled.wave, settled.task)
            && answer["lease"].as_u64() == settled.lease
    }

    fn judge(&self, facts: &Facts, verdict: &mut Verdict) {
        verdict::sessions::judge(facts, verdict);
    }
}

/// Whether the ask that is a child has the answer that was given for its key. Of whom a person has said that it has succeeded, that
/// has given nothing.
pub(super) fn is_output_of_child(output: &[u8], key: &str) -> bool {
    let Ok(output) = serde_json::from_slice::<Value>(output) else { return false };
    let Some(ask) = output.get("ask") else { return false };
    let answer = &ask["response"]["response"]["structured"];
    answer["key"] == key && answer["spec"] == ask["spec"] && answer["spec"].is_string()
}

/// Answers as the ask says: after a while, after attempts that fail, or with a spec that shall go on, of itself or where
/// the user accepts it. Who answered under which lease is in the answer, so that no answer can pass for another.
pub(super) async fn perform(task: Task, journal: Journal) -> Result<Output, TaskError> {
    let request: Value = task.input_json()?;
    let told = |name: &str| request["metadata"]["custom"][name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| told(name).parse::<u64>().unwrap_or_default();
    let lease = task.parent_ref().lease;
    let fails = u64::from(task.attempt()) <= number("failures");
    execute(&task, &journal, number("milliseconds"), !fails).await?;
    let spec = &request["spec"];
    // An ask of an execution has its key as its text.
    let key = match told("key") {
        key if key.is_empty() => request["text"].as_str().unwrap_or_default().to_owned(),
        key => key,
    };
    let mut answer = json!({
        "success": !fails,
        "spec": spec,
        "request_id": request["id"],
        "timestamp": request["timestamp"],
        "metadata": { "processing_time_ms": number("milliseconds"), "confidence": 0.9 },
    });
    if fails {
        answer["error"] = json!({
            "code": "NETWORK_ERROR",
            "message": "fails as it was told to",
            "recoverable": true,
        });
    } else {
        answer["response"] = json!({
            "text": format!("{key} under {lease}"),
            "format": "text",
            "structured": { "key": key, "spec": spec, "lease": lease },
        });
    }
    let next = told("continue");
    if !fails && !next.is_empty() && *spec != next.as_str() {
        answer["transition"] = json!({
            "suggest_spec": next,
            "reason": "as it was told to",
            "confidence": 0.9,
            "auto_transition": told("automatic") == "true",
        });
    }
    Output::json(answer)
}
