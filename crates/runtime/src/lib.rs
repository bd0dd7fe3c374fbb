//! The shard's sans-IO core and its tokio shell.
//!
//! - [`core`] decides who works on what and what leaves when; it does no I/O and reads no clock.
//! - [`feed`] streams events without gaps.
//! - [`shell`] is what connects them to threads, channels and the clock.
//!
//! Begin reading with [`core::Core`].

pub mod core;
pub mod feed;
pub mod shell;
