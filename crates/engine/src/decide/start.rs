//! A new run.

use std::collections::BTreeMap;

use bytes::BytesMut;
use capataz_contracts::v1::{self, event::Body};

use super::turn::{Turn, encode};
use super::{Decision, Refusal, advance};
use crate::state::{RunState, Timestamp};

/// What a run is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Validated and materialised ([`Plan::materialise`](crate::Plan::materialise)).
    Plan(v1::Plan),
    /// Validated, with its request id filled in.
    Ask(v1::Ask),
    /// Validated and materialised, with its run's id filled in.
    Script(Box<v1::Script>),
}

/// What a run is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct StartRun {
    pub work: Work,
    pub labels: BTreeMap<String, String>,
    pub parent: Option<v1::ParentRef>,
}

/// Starts a run: accepts it and begins its first wave, asks for its route, or opens its browser.
///
/// # Errors
/// [`Refusal::Corrupt`] only, for a plan that was not materialised.
pub fn start(seed: u64, request: StartRun, now: Timestamp) -> Result<(RunState, Decision), Refusal> {
    let (kind, plan, ask, script) = match request.work {
        Work::Plan(plan) => (v1::RunKind::Plan, Some(plan), None, None),
        Work::Ask(ask) => (v1::RunKind::Ask, None, Some(ask), None),
        Work::Script(script) => (v1::RunKind::Script, None, None, Some(*script)),
    };
    let accepted = v1::Event {
        seq: 1,
        at_ms: now.0,
        body: Some(Body::RunAccepted(v1::RunAccepted {
            kind: kind as i32,
            plan,
            labels: request.labels,
            parent: request.parent,
            ask,
            script,
        })),
    };
    let mut buffer = BytesMut::new();
    encode(&accepted, &mut buffer);
    let mut state = RunState::begin(seed, accepted)?;
    let mut turn = Turn::beginning(&mut state, buffer);
    let handled = match kind {
        v1::RunKind::Ask | v1::RunKind::Script => advance::advance(&mut turn),
        _ => advance::begin_wave(&mut turn, 0).and_then(|()| advance::advance(&mut turn)),
    };
    let decision = turn.finish(handled)?;
    Ok((state, decision))
}
