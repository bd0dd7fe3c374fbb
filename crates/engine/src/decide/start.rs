//! A new run.

use std::collections::BTreeMap;

use bytes::BytesMut;
use capataz_contracts::v1::{self, event::Body, run_accepted::Work as Accepted};

use super::turn::{Turn, encode};
use super::{Decision, Refusal, advance};
use crate::fold::EVENT_FORMAT;
use crate::fold::state::{RunState, Wall};
use crate::snapshot::as_bytes;

/// What a run is to do.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Work {
    /// Validated and materialised ([`Plan::materialise`](crate::Plan::materialise)).
    Plan(#[serde(with = "as_bytes::one")] v1::Plan),
    /// Validated, with its request id filled in.
    Ask(#[serde(with = "as_bytes::one")] v1::Ask),
    /// Validated and materialised, with its run's id filled in.
    Script(#[serde(with = "as_bytes::one")] Box<v1::Script>),
}

/// What a run is started with.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StartRun {
    pub work: Work,
    pub labels: BTreeMap<String, String>,
    #[serde(with = "as_bytes::option")]
    pub parent: Option<v1::ParentRef>,
    /// What it has of its ancestors; `None` where it has none.
    #[serde(with = "as_bytes::option")]
    pub lineage: Option<v1::Lineage>,
}

/// Starts a run: accepts it and begins its first wave, asks for its route, or opens its browser.
///
/// # Errors
/// [`Refusal::Corrupt`] only, for a plan that was not materialised.
pub fn start(seed: u64, request: StartRun, now: Wall) -> Result<(RunState, Decision), Refusal> {
    let (kind, work) = match request.work {
        Work::Plan(plan) => (v1::RunKind::Plan, Accepted::Plan(plan)),
        Work::Ask(ask) => (v1::RunKind::Ask, Accepted::Ask(ask)),
        Work::Script(script) => (v1::RunKind::Script, Accepted::Script(*script)),
    };
    let accepted = v1::Event {
        seq: 1,
        at_ms: now.0,
        format: EVENT_FORMAT,
        elapsed_ms: 0,
        body: Some(Body::RunAccepted(v1::RunAccepted {
            kind: kind.into(),
            labels: request.labels,
            parent: request.parent,
            lineage: request.lineage,
            work: Some(work),
        })),
    };
    let mut buffer = BytesMut::new();
    encode(&accepted, &mut buffer);
    let mut state = RunState::begin(seed, accepted)?;
    let mut turn = Turn::beginning(&mut state, buffer);
    let handled = advance::advance(&mut turn);
    let decision = turn.finish(handled)?;
    Ok((state, decision))
}
