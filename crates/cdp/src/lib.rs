//! A thin client for Chromium's DevTools protocol, over a pipe, or over the port of a browser that somebody else runs.
//!
//! - [`Browser`] starts one Chromium with a profile of its own and ends it with everything that it started.
//! - [`attach`] gets a place of our own in a browser that a person runs, and leaves everything else there alone.
//! - [`Connection`] and [`Session`] send commands and hand out events; [`Events`] is one subscriber's view of them.
//! - [`find`] looks for a Chromium on this machine, and [`probe`] tries whether it starts.
//! - [`patience`] limits how long a browser is waited for.
//! - [`proxy`] keeps a browser from connecting to anything but the allowed destinations.
//!
//! This crate knows no page, no action and no rule: what is asked of the browser, and what its answers mean, is the
//! caller's business. It reads no environment variable. The browsers that it starts are spoken to over two inherited pipes
//! and never over a port, which any other user of the machine could connect to.
//!
//! Begin reading with [`Browser::launch`], then `connection/mod.rs`.

pub mod attach;
mod browser;
mod connection;
mod error;
pub mod find;
mod listener;
mod options;
pub mod patience;
pub mod probe;
mod process;
mod profile;
pub mod proxy;
mod stderr;

pub use browser::{Browser, Version};
pub use connection::{
    Backlog, Connection, Done, Event, EventError, Events, MESSAGE_LIMIT, QUEUE_BYTES, QUEUE_EVENTS,
    REQUEST_LIMIT, Reply, Session, SessionId,
};
pub use error::{CallError, LaunchError, Loss, NavigateError};
pub use options::{LaunchOptions, ShimOptions, WindowSize, passed_environment};
pub use process::Ended;
