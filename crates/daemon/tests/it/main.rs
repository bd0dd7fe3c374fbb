//! The daemon over a real socket, with scripted workers that say exactly what a test wants.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod analytics;
mod ask_bad_input;
mod asks;
mod bad_input;
mod browsers;
mod children;
mod clock;
mod continued;
mod copies;
mod crowd;
mod damaged;
mod forks;
mod half_open;
mod health;
mod judged;
mod large_answers;
mod leases;
mod memory;
mod metrics;
mod mode_limits;
mod mode_people;
mod mode_tools;
mod model_faults;
mod models;
mod modes;
mod named;
mod pipelines;
mod profiles;
#[path = "../../../client/tests/it/proxy.rs"]
mod proxy;
mod requests;
mod rollback;
mod routing;
mod scenarios;
mod session_work;
mod sessions;
mod slow_readers;
mod streams;
mod support;
mod time_travel;
mod trace;
mod unfinished;
