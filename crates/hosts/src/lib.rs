//! Work that is done inside the daemon: commands, browsers, computed answers, analyses and planners without a model.
//!
//! Every kind of such work is a [`Serve`], and one [`Host`] makes a worker of it, which speaks the worker protocol as
//! any program on a socket does. So a shard knows no difference, and the rules of leases, cancels and results hold for
//! this work as for any other.
//!
//! - This crate decides nothing about runs: no retry, no timeout, no order of tasks.
//! - It knows neither the shard nor its core. What it needs of them comes through the ports of [`port`].
//! - Frames that it says went through the same checks as those of a socket.
//!
//! Begin reading with [`Serve`]; then `protocol.rs`, the worker as a state machine without input or output.

pub mod analysis;
pub mod browsers;
pub mod commands;
mod computed;
mod host;
pub mod models;
mod number;
mod patience;
mod payloads;
pub mod port;
mod protocol;
mod redact;
pub mod rules;
mod serve;

pub use computed::Computed;
pub use host::{Host, InvalidHost, Renewal};
pub use number::{HostNumber, HostNumberError};
pub use serve::{Answer, Order, Report, Reporter, Serve};
