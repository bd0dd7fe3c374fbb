//! A trace: everything that a daemon's shards and its crew were told, in order, with the time of each input.
//!
//! [`Recording`] encodes it, one turn after the other; [`Replay`] makes the same [`Driver`](crate::Driver) and tells it
//! the same. Both cores are pure, so that the same build has the same outputs, turn by turn. A trace has no outputs but
//! their digests, which show whether they are the same.
//!
//! A trace has everything that the daemon was told, payloads and keys of requests among it: it is as secret as the log.
//!
//! # Format
//! [`MAGIC`], then records: a length of four bytes, least first, and as many bytes. The first record is the [`Header`].
//! Each other one is the input of a turn, and eight bytes of digest and four of the number of outputs follow it. The
//! encoding of inputs is that of the build that wrote it: no other build reads it for certain.
//!
//! A daemon that is killed leaves a record in pieces at the end. One that panics leaves an input without a digest: that
//! of the turn that did not end.

mod digest;
mod read;
mod write;

use capataz_store::ShardId;

use crate::shard::Config;

pub use read::{Replay, ReplayError, Replayed, Turn, Verdict, replay};
pub use write::{Recording, Unrecorded};

/// What every trace begins with; the number is that of the format.
pub const MAGIC: &[u8; 16] = b"capataz-trace 1\n";

/// Bytes of one record. A shard that is read has all of its unfinished runs in one.
pub const MAX_RECORD: usize = 256 * 1024 * 1024;

/// Bytes before a record.
const LENGTH: usize = 4;
/// Bytes after an input: the digest of the outputs and their number.
const CLOSING: usize = 12;

/// What a driver is made of.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Header {
    /// The version of the daemon.
    pub version: String,
    pub config: Config,
    pub shards: Vec<ShardId>,
}

impl Header {
    /// The header of a trace of this build.
    #[must_use]
    pub fn of_this_build(config: &Config, shards: &[ShardId]) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { version, config: config.clone(), shards: shards.to_vec() }
    }

    /// Whether this version wrote the trace. Builds of one version may still differ.
    #[must_use]
    pub fn is_of_this_version(&self) -> bool {
        self.version == env!("CARGO_PKG_VERSION")
    }
}
