//! One shard, sans-IO: its runs, leases, timers and sessions, what leaves when, and how events are read.
//!
//! - [`Shard`] decides who works on what and what leaves when. It never blocks, never reads a clock, and knows neither
//!   sockets nor SQL. Workers are the crew's: the two are joined by messages alone (`capataz_crew::protocol`).
//! - [`Driver`] joins a daemon's shards and its crew: every change of any of them is one [`driver::Input`].
//! - [`journal`] is the writer's part: what is committed together, in which order, and how a shard is claimed and read.
//! - [`keys`] registers the keys of runs that live in another shard than their keys.
//! - [`feed`] streams events without gaps.
//! - [`rebuild`] holds the rows that queries read against the log, and makes them again.
//! - [`trace`] writes every input down, and replays it.
//!
//! The tokio shell, the simulator and the tests drive this same code. Its rules:
//!
//! - Nothing leaves before it is durable: what a turn wants to send waits for the commit of the turn's append, in order.
//! - The state runs ahead of the log by the appends in flight. When one of them fails, the runs that it touches are
//!   thrown away and read again from the store.
//! - Queues, slots, liveness and progress are memory: they are rebuilt from state and from what workers say.
//!
//! Begin reading with [`Driver::handle`], then [`Shard::handle`].

mod api;
mod browsers;
mod claim;
mod commits;
mod cursor;
mod draining;
pub mod driver;
mod family;
pub mod feed;
pub mod forks;
mod forms;
pub mod journal;
mod judging;
pub mod keys;
mod leases;
mod load;
mod outbox;
pub mod phases;
pub mod projection;
mod quarantine;
mod queues;
mod readings;
pub mod rebuild;
mod recovery;
pub mod replay;
mod requests;
mod resting;
mod returns;
mod runs;
mod sessions;
pub mod shard;
mod spans;
mod sweeps;
mod tail;
mod timers;
pub mod topics;
mod touched;
pub mod trace;
mod turns;
mod workers;

pub use capataz_crew::protocol::place;

pub use api::{
    Answer, CommandReply, Declined, ImportReply, ImportSession, ModeChosen, Request, StartReply,
    StartRequest, TransitionReply, WaitReply,
};
pub use driver::{Driver, Input, Output};
pub use family::{FoundRun, Kin, WantedRun};
pub use keys::{KeyFact, KeyQuery, KeyTalk};
pub use load::{Damage, LoadError};
pub use outbox::AppendId;
pub use readings::{Ages, Earlier};
pub use recovery::blob_hash;
pub use sessions::{
    IdleSessions, SESSION_LABEL, SESSION_SNAPSHOT_FORMAT, key_stream, run_id, session_stream,
};
pub use shard::{Config, Published, Recovered, ReplyId, Shard};
pub use sweeps::Sweeping;
pub use touched::Touched;
pub use turns::{Chosen, Found, Route, find};
