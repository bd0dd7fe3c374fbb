//! The disk test: what the store keeps when the power goes, and when single calls to the file system fail.
//!
//! A small library in C is loaded before the program under test ([`preload`]). It writes down what the program does to the
//! files of its data folder, among what the program acknowledges, and makes a chosen call fail. From the record alone the
//! data folder is built as a disk may have it after a power cut at any moment ([`disk`], [`cut`]): without what was not
//! synced, with parts of it, in another order, torn between sectors, with names that are ahead of contents or behind them.
//! Then the store is opened on it, and held against what had been acknowledged before that moment ([`look`]).
//!
//! Begin with [`power`], the campaign of cuts, then [`faults`], the campaign of failing calls.
//!
//! - Nothing in the shipped program knows of it: there is no hook, and no test file system.
//! - The model of the disk is stricter than any file system in use. A file's name is durable only when its folder was
//!   synced after the name was made, and what a failed sync was to write counts as lost, also for later syncs.

#![expect(clippy::disallowed_types, reason = "it starts programs")]

pub mod cut;
pub mod disk;
pub mod facts;
pub mod faults;
pub mod look;
pub mod power;
pub mod preload;
pub mod record;
pub mod served;
pub mod work;

/// What a campaign fails with when it cannot be carried out; what it finds is in its report.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
