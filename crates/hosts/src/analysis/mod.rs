//! Built-in agents that analyse a product by the paths and manifests of its sources, without a model (seed 003).
//!
//! | agent | input | output |
//! |---|---|---|
//! | [`SURFACE_CLASSIFICATION`] | `{sourceId, paths, manifests?}` | source context |
//! | [`DOMAIN_MAPPING`] | `{sources, surfaces?, productId?, version?, startedAt?}` | product context |
//! | [`FEATURE_EXTRACTION`] | `{sources, productContext?, startedAt?}` | feature map |
//! | [`NARRATIVE`] | `{surfaces?, featureMap?, productContext?}`, one of the first two | timeline interpretation |
//!
//! Each is a pure function of its input: no clock, no files, no order but that of names. Times come from `startedAt` in Unix
//! milliseconds, and are 0 without it. Texts are in the `language` of the input, `en` or `es`. Other keys of an input are passed over, such as the `correction` of a second attempt:
//! what is computed again is the same. Outputs pass the schemas in `schemas/` and the rules of
//! [`capataz_policy::surfaces`].
//!
//! Begin with [`analyse`]; [`Analysts`] serves the agents.

mod classify;
mod domains;
mod features;
mod input;
mod manifest;
mod narrative;
mod serve;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use capataz_contracts::v1;
use capataz_policy::codes;
use serde_json::Value;

pub use serve::{ANALYSIS_HOST, Analysts, agents};

pub const SURFACE_CLASSIFICATION: &str = "capataz.surface-classification";
pub const DOMAIN_MAPPING: &str = "capataz.domain-mapping";
pub const FEATURE_EXTRACTION: &str = "capataz.feature-extraction";
pub const NARRATIVE: &str = "capataz.narrative";

/// The agents in the order of the seed's phases.
pub const AGENTS: [&str; 4] = [SURFACE_CLASSIFICATION, DOMAIN_MAPPING, FEATURE_EXTRACTION, NARRATIVE];

/// The version of the outputs' shapes.
const OUTPUT_VERSION: &str = "v1.0";

/// The schemas of the outputs, in the order of [`AGENTS`].
pub const OUTPUT_SCHEMAS: [&str; 4] = [
    include_str!("../../../../schemas/source-context.json"),
    include_str!("../../../../schemas/product-context.json"),
    include_str!("../../../../schemas/feature-map.json"),
    include_str!("../../../../schemas/timeline-interpretation.json"),
];

/// The output of a built-in agent for an input.
///
/// # Errors
/// VALIDATION_ERROR with everything that is wrong with the input, or there is no such agent.
pub fn analyse(agent: &str, input: &Value) -> Result<Value, Box<v1::Error>> {
    match agent {
        SURFACE_CLASSIFICATION => classify::source_context(input),
        DOMAIN_MAPPING => domains::product_context(input),
        FEATURE_EXTRACTION => features::feature_map(input),
        NARRATIVE => narrative::timeline(input),
        other => Err(vec![format!("there is no built-in agent {other:?}")]),
    }
    .map_err(|faults| Box::new(codes::error(codes::VALIDATION_ERROR, faults.join("; "))))
}
