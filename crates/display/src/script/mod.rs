//! Scripts: folding their events, and describing their actions.

pub mod describe;
pub mod fold;
#[cfg(any(test, feature = "stories"))]
pub mod tests;
