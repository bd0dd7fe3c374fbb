//! Surfaces: which part of a product the paths of a source count for, what a source context must keep beside its schema,
//! and the summary of all sources (seed 003).
//!
//! - [`surface_of`] is the rule for one path, and [`Signals`] counts the paths of a source by it.
//! - [`check_source_context`] finds what a JSON Schema cannot say about a source context.
//! - [`summarize`] makes the summary; it is the same to the byte for any order of its entries.
//! - [`Prefixes`] finds the bucket that a path counts for: the longest one, in whole segments.
//!
//! Everything here takes time in proportion to its input, and reports at most [`REPORTED_MAX`] violations.

mod check;
mod prefix;
mod report;
mod rules;
mod summary;
#[cfg(test)]
mod tests;

use std::fmt;

pub use check::{BUCKETS_REQUIRED, check_source_context};
pub use prefix::{Prefixes, prefix_fault};
pub use report::REPORTED_MAX;
pub use rules::{Signals, surface_of, surface_of_folder};
pub use summary::{SAMPLE_PATHS, entry, share, summarize};

/// A surface of a product. The order is that of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surface {
    Docs,
    Experiments,
    Infra,
    MarketingSurface,
    ProductCore,
    /// Nothing tells which one.
    Unknown,
}

impl Surface {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Docs,
        Self::Experiments,
        Self::Infra,
        Self::MarketingSurface,
        Self::ProductCore,
        Self::Unknown,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docs => "docs",
            Self::Experiments => "experiments",
            Self::Infra => "infra",
            Self::MarketingSurface => "marketing_surface",
            Self::ProductCore => "product_core",
            Self::Unknown => "unknown",
        }
    }

    /// The surface of this name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        Self::ALL.into_iter().find(|surface| surface.name() == name)
    }

    /// Its place in [`Self::ALL`], for counts of all of them.
    const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A number for each surface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u128; 6]);

impl Counts {
    pub fn add(&mut self, surface: Surface, number: u128) {
        if let Some(count) = self.0.get_mut(surface.index()) {
            *count = count.saturating_add(number);
        }
    }

    #[must_use]
    pub fn of(&self, surface: Surface) -> u128 {
        self.0.get(surface.index()).copied().unwrap_or_default()
    }

    #[must_use]
    pub fn total(&self) -> u128 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The surface with the greatest number, the first one of several; `None` where all numbers are 0.
    #[must_use]
    pub fn dominant(&self) -> Option<Surface> {
        let greatest = self.0.iter().copied().max().filter(|greatest| *greatest > 0)?;
        Surface::ALL.into_iter().find(|surface| self.of(*surface) == greatest)
    }

    /// The surfaces with their numbers, the greatest one first, without those of number 0.
    #[must_use]
    pub fn ranked(&self) -> Vec<(Surface, u128)> {
        let all = Surface::ALL.into_iter().map(|surface| (surface, self.of(surface)));
        let mut ranked: Vec<_> = all.filter(|(_, number)| *number > 0).collect();
        ranked.sort_by_key(|(surface, number)| (std::cmp::Reverse(*number), *surface));
        ranked
    }
}
