//! Phases of pipelines: one begins when the one before it is completed, and after an output that was rejected the agent is
//! told what was wrong with it.

use capataz_contracts::v1::{self, event::Body, payload::Data};
use serde_json::Value;

use super::{Facts, Verdict};
use crate::workloads::Kind;

pub(crate) fn judge(facts: &Facts, verdict: &mut Verdict) {
    for (run, log) in facts.logs.iter().filter(|(_, log)| log.kind() == Some(Kind::Pipelines)) {
        let mut completed = 0;
        for event in &log.events {
            match &event.body {
                Some(Body::PhaseStarted(started)) if started.phase != completed => {
                    let text =
                        format!("run {run}: phase {} begins when {completed} are completed", started.phase);
                    verdict.doubled.push(text);
                }
                Some(Body::PhaseCompleted(done)) => {
                    if done.phase != completed {
                        verdict.doubled.push(format!("run {run}: phase {} is completed again", done.phase));
                    }
                    completed = done.phase + 1;
                }
                Some(Body::PipelineRolledBack(back)) => completed = back.phase,
                Some(Body::OutputRejected(rejected)) if !has_correction(rejected) => {
                    verdict.lost.push(format!("run {run}: what was wrong with an output is not told"));
                }
                _ => {}
            }
        }
    }
}

fn has_correction(rejected: &v1::OutputRejected) -> bool {
    let Some(Data::Inline(text)) = rejected.input.as_ref().and_then(|input| input.data.as_ref()) else {
        return false;
    };
    let Ok(input) = serde_json::from_slice::<Value>(text) else { return false };
    input["correction"]["violations"][0]["path"] == "/grade"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(input: &str) -> v1::OutputRejected {
        let data = Some(Data::Inline(input.to_owned().into()));
        let input = Some(v1::Payload { media_type: "application/json".to_owned(), data });
        v1::OutputRejected { input, ..v1::OutputRejected::default() }
    }

    #[test]
    fn a_correction_names_the_place() {
        assert!(has_correction(&rejected(r#"{"correction":{"violations":[{"path":"/grade"}]}}"#)));
        assert!(!has_correction(&rejected(r#"{"correction":{"violations":[]}}"#)));
        assert!(!has_correction(&rejected(r#"{"key":"k"}"#)));
        assert!(!has_correction(&v1::OutputRejected::default()));
    }
}
