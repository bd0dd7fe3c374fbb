//! The two clocks: what comes in with every input.

use capataz_store::Millis;

/// A time by a clock that nobody can set: it goes forward only, at the speed of time. Milliseconds since some moment
/// before the process began. Means nothing to another process, and is never stored.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Mono(pub i64);

impl Mono {
    /// The end of time.
    pub const NEVER: Self = Self(i64::MAX);

    #[must_use]
    pub fn plus(self, milliseconds: i64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// Milliseconds since then; negative where it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What the clocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Now {
    /// The clock on the wall: for people, and for what passes while no process runs.
    pub wall: Millis,
    /// For everything else.
    pub mono: Mono,
}

impl Now {
    /// Both clocks say the same, as where somebody else keeps the time.
    #[must_use]
    pub fn alike(milliseconds: i64) -> Self {
        Self { wall: Millis(milliseconds), mono: Mono(milliseconds) }
    }

    /// Never earlier than `before`, by the clock that nobody can set.
    #[must_use]
    pub fn not_before(self, before: Self) -> Self {
        Self { wall: self.wall, mono: self.mono.max(before.mono) }
    }
}
