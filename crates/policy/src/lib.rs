//! The policies of the error contracts: which names are known, which states a task may go through, how long a task may
//! take, when it is retried, how severe a failure is, and whether a wave goes on (seed 000, contracts 1 to 6); and what the
//! surfaces of a product are (seed 003).
//!
//! Everything here is a pure function or a plain value. A result never depends on a clock or on randomness: times and
//! random draws are arguments. This crate does no I/O and knows neither runs nor workers. Errors have the contract's
//! own type, with a code of [`codes`]; a translation for people starts from the code, not from the English message.
//!
//! Begin reading with [`codes`] and [`severity`]; then [`retry`] and [`aggregation`], which decide the most.

pub mod aggregation;
pub mod apology;
pub mod codes;
pub mod executor;
pub mod lifecycle;
pub mod mode;
pub mod obligations;
pub mod planted;
pub mod registry;
pub mod retry;
pub mod session;
pub mod severity;
pub mod surfaces;
pub mod timeout;
pub mod transition;

mod check;
mod near;
mod text;
