//! A new run.

use std::collections::BTreeMap;

use bytes::BytesMut;
use capataz_contracts::v1::{self, event::Body};

use super::turn::{Turn, encode};
use super::{Decision, Refusal, advance};
use crate::state::{RunState, Timestamp};

/// What a run is started with. The plan was validated and materialised ([`Plan::materialise`](crate::Plan::materialise)).
#[derive(Clone, Debug, PartialEq)]
pub struct StartRun {
    pub plan: v1::Plan,
    pub labels: BTreeMap<String, String>,
    pub parent: Option<v1::ParentRef>,
}

/// Starts a run: accepts it and begins its first wave.
///
/// # Errors
/// [`Refusal::Corrupt`] only, for a plan that was not materialised.
pub fn start(seed: u64, request: StartRun, now: Timestamp) -> Result<(RunState, Decision), Refusal> {
    let accepted = v1::Event {
        seq: 1,
        at_ms: now.0,
        body: Some(Body::RunAccepted(v1::RunAccepted {
            kind: v1::RunKind::Plan as i32,
            plan: Some(request.plan),
            labels: request.labels,
            parent: request.parent,
        })),
    };
    let mut buffer = BytesMut::new();
    encode(&accepted, &mut buffer);
    let mut state = RunState::begin(seed, accepted)?;
    let mut turn = Turn::beginning(&mut state, buffer);
    let handled = advance::begin_wave(&mut turn, 0).and_then(|()| advance::advance(&mut turn));
    let decision = turn.finish(handled)?;
    Ok((state, decision))
}
