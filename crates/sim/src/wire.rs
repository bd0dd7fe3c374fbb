//! What joins the shards and the crew: it loses messages, and lets them come late, twice, or out of order.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_crew::link::Packet;
use capataz_crew::{Mono, ToCrew, ToShard};
use capataz_shard::driver::{Carried, Wire};
use capataz_store::ShardId;

use crate::rng::Rng;

/// The longest time for which one word of a worker holds an agent: ten minutes. Milliseconds.
const HELD_AT_MOST: i64 = 600_000;

/// What joins the shards and the crew.
pub(crate) struct Unreliable<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) faults: u32,
    pub(crate) usual: i64,
    /// With the delays of messages that do not arrive at once; and whether they may overtake others.
    pub(crate) kept: Vec<(i64, bool, Carried)>,
    pub(crate) sessions: &'a mut BTreeMap<ShardId, (u64, u64)>,
    pub(crate) now: Mono,
    /// Agents that a rate limit holds, until when.
    pub(crate) held: &'a mut BTreeMap<Arc<str>, Mono>,
    /// An agent for which a slot was offered while it was held.
    pub(crate) offered: Option<Arc<str>>,
}

impl Unreliable<'_> {
    /// Whether messages arrive at once, in the order in which they set out.
    fn is_direct(&self) -> bool {
        self.faults == 0 && self.usual == 0
    }

    /// A slot that is offered after the crew has heard of the limit.
    fn look_at_offer(&mut self, carried: &Carried) {
        if let Carried::ToShard { packet: Packet { body: ToShard::Offered { agent, .. }, .. }, .. } = carried
        {
            let is_held = self.held.get(agent).is_some_and(|until| *until > self.now);
            self.offered = self.offered.take().or_else(|| is_held.then(|| Arc::clone(agent)));
        }
    }
}

impl Wire for Unreliable<'_> {
    fn carry(&mut self, carried: Carried) -> Option<Carried> {
        if self.is_direct() {
            self.look_at_offer(&carried);
            return Some(carried);
        }
        let session = match &carried {
            Carried::ToCrew { shard, packet } => Some((*shard, packet.session)),
            Carried::ToShard { shard, packet } => Some((*shard, packet.session)),
            // No session joins two shards: each message is worth what it says.
            Carried::Kin(_) | Carried::Key(_) => None,
        };
        if let Some((shard, session)) = session {
            let (newest, _) = self.sessions.entry(shard).or_default();
            *newest = session.max(*newest);
        }
        // One that nothing follows for long is lost more often, so that it happens at all.
        let strikes = self.rng.per_mille(if session.is_none() { self.faults * 20 } else { self.faults });
        match if strikes { self.rng.below(3) } else { usize::MAX } {
            0 => {
                if let Some((shard, session)) = session {
                    self.sessions.entry(shard).or_default().1 = session;
                }
                return None;
            }
            1 => self.kept.push((self.rng.delay(self.usual, 3_000), true, carried.clone())),
            2 => {
                self.kept.push((self.rng.delay(self.usual, 3_000), true, carried));
                return None;
            }
            _ => {}
        }
        if self.usual == 0 {
            return Some(carried);
        }
        self.kept.push((self.rng.delay(self.usual, 400), false, carried));
        None
    }

    /// The crew hears of a limit; a slot that it offered before, in the same turn, it could not have kept.
    fn arrives(&mut self, carried: &Carried) {
        if !self.is_direct() {
            return;
        }
        if let Carried::ToCrew { packet: Packet { body: ToCrew::Limited { agent, for_ms }, .. }, .. } =
            carried
        {
            let until = self.now.plus((*for_ms).min(HELD_AT_MOST));
            let held = self.held.entry(Arc::clone(agent)).or_default();
            *held = until.max(*held);
        }
    }
}
