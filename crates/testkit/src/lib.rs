//! Development programs of the project. Nothing here is shipped.
//!
//! - [`bench`] measures the daemon as a process, and what its parts can do alone.
//! - [`chaos`] kills the daemon, workers and streams under load, and looks for what was lost or doubled.
//! - [`sim`] drives the shard's core through faults in virtual time, and checks what it does against a model that sees
//!   only acknowledgements and the event stream.
//!
//! This crate holds no orchestration logic: whatever decides, stores or streams is the production code.

pub mod bench;
pub mod chaos;
pub mod sim;
