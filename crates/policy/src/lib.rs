//! The policies of the error contracts: what is known, which steps a task may take, how long it may take, when it is
//! tried again, how bad a failure is, and whether a wave goes on (seed 000, contracts 1 to 6).
//!
//! Everything here is a pure function or a plain value. This crate reads no clock that a result could depend on, draws
//! no randomness that reaches a result, does no I/O and knows neither runs nor workers: times, draws and results come
//! in as arguments. Errors come out as the contract's own type, with a code of [`codes`]; who needs to show one to a
//! person translates the code, not the English message.
//!
//! Begin reading with [`codes`] and [`severity`]; then [`retry`] and [`aggregation`], which decide the most.

pub mod aggregation;
pub mod codes;
pub mod executor;
pub mod lifecycle;
pub mod registry;
pub mod retry;
pub mod severity;
pub mod timeout;
pub mod transition;

mod check;
mod text;
