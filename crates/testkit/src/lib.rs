//! Development programs of the project. Nothing here is shipped.
//!
//! - [`bench`] measures the daemon as a process, and what its parts can do alone.
//! - [`sim`] drives the shard's core through faults in virtual time, and checks what it does against a model that sees
//!   only acknowledgements and the event stream.
//!
//! This crate holds no orchestration logic: whatever decides, stores or streams is the production code.

pub mod bench;
pub mod chaos;
pub mod sim;
