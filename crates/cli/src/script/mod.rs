//! Scripts: reading their files.

pub mod source;
