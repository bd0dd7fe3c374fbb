//! A small parent for commands that must not outlive us.
//!
//! Between a program and a command that it starts stands the shim: the program's own executable, started again, which
//! holds one end of a socket and ends the command with everything that it started as soon as the other end closes. So
//! nothing that was started outlives the program for longer than it takes to kill it, however the program ended, and
//! [`await_orphans`] lets the next one wait until even that is over.
//!
//! This crate knows neither what the command is nor what its end means.
//!
//! Begin reading with [`Shim::start`], the parent's side, then [`shim_main`], the other one, and `protocol.rs` for what
//! they say to each other.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is what starts programs"
)]

mod abilities;
mod descendants;
mod given;
mod groups;
mod invocation;
mod orphans;
mod parent;
mod protocol;
mod stage;
mod strays;
mod supervise;

pub use abilities::Abilities;
pub use given::Given;
pub use groups::try_control_groups;
pub use invocation::{FIRST_PIPE, Invocation, SECOND_PIPE};
pub use orphans::{AwaitOrphansError, await_orphans};
pub use parent::{Reports, Shim, ShimCommand};
pub use protocol::{HEADER_BYTES, KILL, MAX_INPUT, Report, TERMINATE};
pub use strays::{LEASE_VARIABLE, LeaseMark, StraysError};
pub use supervise::shim_main;
