//! The slots that are in use: each belongs to one offer, from the offer to its return.

use std::collections::BTreeMap;
use std::sync::Arc;

use capataz_store::ShardId;

use crate::clock::Mono;
use crate::queues::Place;
use crate::{ConnectionId, OfferId};

/// A slot in use.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) connection: ConnectionId,
    /// `None` for a lease that a worker came back with, until its shard has said of whom it is.
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) place: Place,
    /// The shard has taken it; before that it is on offer.
    pub(crate) is_taken: bool,
    /// When it was offered.
    pub(crate) since: Mono,
    /// The worker has not taken what it was given.
    pub(crate) is_spurned: bool,
}

/// All slots in use. An offer's number is used once.
#[derive(Default)]
pub(crate) struct Slots {
    issued: u64,
    slots: BTreeMap<OfferId, Slot>,
}

impl Slots {
    pub(crate) fn add(&mut self, slot: Slot) -> OfferId {
        self.issued += 1;
        let offer = OfferId(self.issued);
        self.slots.insert(offer, slot);
        offer
    }

    pub(crate) fn get(&self, offer: OfferId) -> Option<&Slot> {
        self.slots.get(&offer)
    }

    pub(crate) fn get_mut(&mut self, offer: OfferId) -> Option<&mut Slot> {
        self.slots.get_mut(&offer)
    }

    pub(crate) fn remove(&mut self, offer: OfferId) -> Option<Slot> {
        self.slots.remove(&offer)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OfferId, &Slot)> {
        self.slots.iter().map(|(offer, slot)| (*offer, slot))
    }

    /// The connections that have slots of the shard.
    pub(crate) fn connections_of(&self, shard: ShardId) -> Vec<ConnectionId> {
        let of_shard = self.slots.values().filter(|slot| slot.place.shard == shard);
        let mut connections: Vec<ConnectionId> = of_shard.map(|slot| slot.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        connections
    }

    /// Tasks at work, by agent.
    pub(crate) fn running(&self) -> BTreeMap<Arc<str>, u32> {
        let mut running = BTreeMap::new();
        for agent in self.slots.values().filter(|slot| slot.is_taken).filter_map(|slot| slot.agent.as_ref()) {
            let count: &mut u32 = running.entry(Arc::clone(agent)).or_default();
            *count = count.saturating_add(1);
        }
        running
    }
}
