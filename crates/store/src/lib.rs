//! The durable log of all runs: the port [`Store`], its memory and SQLite adapters, blobs and read models.
//!
//! Only the adapters in this crate know SQL. The store does not know what events mean: it keeps the bytes that it
//! receives, in order, and the few columns that a list needs. It makes no decision and reads no clock.
//!
//! Begin reading with [`port`]; [`memory`] is its simplest implementation.

mod blob;
#[cfg(feature = "builders")]
pub mod builders;
mod checksum;
#[cfg(feature = "conformance")]
pub mod conformance;
mod derived;
pub mod folders;
mod history;
pub mod memory;
mod page;
pub mod port;
mod quarantine;
mod remembered;
mod removals;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use memory::MemoryStore;
pub use port::*;
#[cfg(feature = "sqlite")]
pub use sqlite::{Migrated, SqliteOptions, SqliteStore};
