//! What facts are made of.

use capataz_client::v1::{self, event::Body};

use super::CLIENT;
use crate::verdict::logs::Log;
use crate::verdict::{Facts, Verdict, judge};
use crate::workloads::{CLIENT_LABEL, KEY_LABEL};

pub(super) fn events(bodies: Vec<Body>) -> Vec<v1::Event> {
    (1..)
        .zip(bodies)
        .map(|(seq, body)| v1::Event { seq, at_ms: 0, format: 2, elapsed_ms: 0, body: Some(body) })
        .collect()
}

pub(super) fn accepted(work: v1::run_accepted::Work) -> Body {
    Body::RunAccepted(Box::new(v1::RunAccepted { work: Some(work), ..Default::default() }))
}

pub(super) fn finished(outcome: v1::RunOutcome) -> Body {
    Body::RunFinished(v1::RunFinished { outcome: outcome.into(), ..Default::default() })
}

/// A run with these events, whose waves have one task each.
pub(super) fn log(key: &str, tasks: &[&str], bodies: Vec<Body>) -> Log {
    let events = events(bodies);
    let outcome = match events.last().and_then(|event| event.body.as_ref()) {
        Some(Body::RunFinished(body)) => Some(body.outcome),
        _ => None,
    };
    let status = if outcome.is_some() { v1::RunStatus::Finished } else { v1::RunStatus::Running };
    let wave = |task: &&str| v1::WaveView {
        tasks: vec![v1::TaskView { name: (*task).to_owned(), ..Default::default() }],
        ..Default::default()
    };
    let view = v1::Run {
        status: status.into(),
        outcome,
        labels: [(CLIENT_LABEL, CLIENT), (KEY_LABEL, key)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        seq: events.len() as u64,
        waves: tasks.iter().map(wave).collect(),
        ..Default::default()
    };
    Log { view, events }
}

/// What each list of findings holds: lost, doubled, gaps, repeats, unexplained, wrong.
pub(super) fn found(facts: &Facts) -> ([usize; 6], Verdict) {
    let verdict = judge(facts);
    let found = [
        verdict.lost.len(),
        verdict.doubled.len(),
        verdict.gaps.len(),
        verdict.repeats.len(),
        verdict.unexplained.len(),
        verdict.wrong.len(),
    ];
    (found, verdict)
}
