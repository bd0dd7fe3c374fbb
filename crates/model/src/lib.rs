//! The wire protocols of language models, as far as agents need them: one prompt, one answer, read as a stream.
//!
//! Two protocols are spoken, each by a small module that passes over what it does not know: compatible servers leave fields
//! out and add others. Nothing is tried again here: what failed is a [`ModelError`], and whoever asked decides.
//!
//! Begin reading with [`Client::ask`].

mod anthropic;
mod client;
mod endpoint;
mod error;
mod openai;
mod said;
mod wire;

pub use client::{Ask, Client, Fit, Limits};
pub use endpoint::{Endpoint, Key, NotAKey, Problem, Protocol};
pub use error::ModelError;
pub use said::{Finish, Said, Usage};
