//! Development programs of the project. Nothing here is shipped.
//!
//! - [`bench`] measures the daemon as a process, and what its parts can do alone.

pub mod bench;
