//! The tokio shell around a daemon's shards and its crew: threads, channels, the clock. It decides nothing.
//!
//! Three threads do the work: that of the shards (the driver and its timers), the writer's (group commit), and the
//! caller's runtime (sockets). Between them go bounded channels; where one is full, callers are told to come back. While
//! nothing else waits, a message is handled where it comes from, its commit included (`desk.rs`): a lone caller does not
//! pay for handing over and back.
//!
//! Begin reading with [`Runtime`], then `turning.rs`.

mod clock;
mod desk;
mod draining;
mod judging;
mod longest;
mod meters;
mod reads;
mod recorder;
mod runtime;
mod shared;
mod subscription;
mod turning;
mod writer;

pub use clock::{Clock, now};
pub use desk::Gathering;
pub use draining::AtWork;
pub use meters::{Counted, Meters, Numbered, Timing};
pub use reads::{Busy, Reads};
pub use recorder::Trace;
pub use runtime::{Options, Runtime, StartError, WorkerLink, WorkerSender};
pub use subscription::{CursorError, Item, News, Subscription};
pub use writer::draw;
