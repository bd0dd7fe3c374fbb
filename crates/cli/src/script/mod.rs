//! Scripts: where their files come from, what their runs did, and the words for it.

pub mod describe;
pub mod fold;
pub mod source;
