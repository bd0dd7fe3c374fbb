//! The crew, sans-IO: workers' connections, the agents that they serve, their slots, and whose turn a free slot is.
//!
//! A [`Crew`] belongs to a daemon and serves all of its shards. It knows no run: a shard says how many tasks of a run
//! wait for an agent ([`ToCrew::Wanted`]), the crew offers a free slot to the run whose turn it is
//! ([`ToShard::Offered`]), the shard takes the slot for a lease or gives it back ([`ToCrew::Taken`],
//! [`ToCrew::Returned`]). Crew and shards are joined by these messages alone, which may come late, twice or never: see
//! [`link`].
//!
//! A slot that was offered belongs to the offer until the shard returns it, so that no worker ever has more assignments
//! than slots, whatever becomes of the messages.
//!
//! Begin reading with [`protocol`], then [`Crew::handle`].

mod agents;
mod clock;
mod connections;
mod crew;
mod door;
mod limits;
pub mod link;
pub mod protocol;
mod queues;
mod shards;
mod slots;
mod standing;
mod workers;

pub use agents::{AgentSnapshot, Known, KnownAgent};
pub use clock::{LOOK_AGAIN_MS, Mono, Now, stood_still};
pub use crew::{CloseReason, Config, Crew, Input, Output};
pub use door::{REMEMBERED_AGENTS, REMEMBERED_BYTES, Reserved};
pub use protocol::{
    Browsers, ConnectionId, Declared, Departure, Lease, OfferId, Said, Spurned, ToCrew, ToShard,
};
