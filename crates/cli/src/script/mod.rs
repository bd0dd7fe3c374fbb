//! Scripts: reading their files, folding their events, and describing their actions.

pub mod describe;
pub mod fold;
pub mod source;
