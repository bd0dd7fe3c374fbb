//! A thin client for Chromium's DevTools protocol, over a pipe.
//!
//! - [`Browser`] starts one Chromium with a profile of its own and ends it with everything that it started.
//! - [`Connection`] and [`Session`] send commands and hand out events; [`Events`] is one subscriber's view of them.
//!
//! This crate knows no page, no action and no rule: what is asked of the browser, and what its answers mean, is the
//! caller's business. It reads no environment variable. It speaks over two inherited pipes and never over a port, which
//! any other user of the machine could connect to.
//!
//! Begin reading with [`Browser::launch`], then `connection/mod.rs`.

mod browser;
mod connection;
mod error;
mod options;
mod profile;
mod stderr;

pub use browser::{Browser, Ended, Version};
pub use connection::{
    Connection, Done, Event, EventError, Events, MESSAGE_LIMIT, QUEUE_BYTES, QUEUE_EVENTS, REQUEST_LIMIT,
    Reply, Session, SessionId,
};
pub use error::{CallError, LaunchError, Loss};
pub use options::{LaunchOptions, WindowSize, passed_environment};
