//! The core of a shard, from outside: what a turn says, keeps and reads.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod agents;
mod core_asks;
mod core_browsers;
mod core_commits;
mod core_connections;
mod core_crowd;
mod core_forks;
mod core_judged;
mod core_keys;
mod core_repeats;
mod core_rest;
mod core_sweeps;
mod core_touched;
mod core_turns;
mod damaged;
mod journal;
mod largest;
mod rebuild;
mod snapshots;
mod support;
mod trace;
mod watched;
