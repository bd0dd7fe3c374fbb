//! Runs as traces: the spans that follow from the log of events, and how they are sent.
//!
//! Nothing here is drawn or remembered elsewhere: [`Projection`] makes spans of events, and makes the same spans of the same
//! events whenever it is given them, so that whoever sends them may lose its place, and send some twice, without anything
//! being missing or known by two names. [`Exporter`] sends them by OTLP. What is not in the log, such as calls of the API,
//! are spans of `tracing`; [`Own`] sends those. Begin reading with [`Projection::apply`].

mod export;
mod own;
mod projection;
mod run;
mod span;
#[cfg(test)]
mod tests;

pub use export::{Endpoint, ExportError, Exporter, InvalidEndpoint};
pub use own::{Own, belongs_to};
pub use projection::{Past, Projection, Unknown};
pub use span::Span;
