//! The contract between the daemon, its clients and its workers: types generated from `proto/`, their JSON form and
//! their validation.
//!
//! This crate is the only one that knows how the contract is written as JSON. It does no I/O, reads no clock and holds
//! no policy. Begin reading with `proto/capataz/v1/run_service.proto`, then [`json`] and [`validate`].

#[allow(clippy::all, clippy::pedantic, missing_debug_implementations, rustdoc::all)]
mod generated {
    include!("generated/capataz.v1.rs");
}

/// Generated from `proto/capataz/v1`.
pub mod v1 {
    pub use crate::generated::*;
    pub use crate::wire::{DeliveredEvent, ExportRunResponse, SubscribeResponse};
}

mod as_written;
mod braces;
pub mod browser;
mod canonical;
#[cfg(any(feature = "client", feature = "server"))]
mod codec;
mod document;
pub mod duration;
pub mod free;
mod gaps;
mod head;
mod in_part;
pub mod json;
pub mod log;
mod path;
pub mod pipeline_file;
pub mod placeholder;
pub mod plan_file;
pub mod reference;
pub mod script_file;
pub mod spec;
pub mod trace;
pub mod validate;
pub mod version;
mod violation;
pub mod wire;
pub mod within;
mod work;

pub use canonical::canonical;
pub use head::EventHead;
pub use in_part::InPart;
pub use violation::Violation;

/// The encoded `FileDescriptorSet` of `proto/`, for reflection and for the JSON form.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptor.binpb");
