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

/// By how much a core may be called too late before it counts as having stood still. Milliseconds.
const LATE_MS: i64 = 100;

/// After how long who seems silent is looked at again: what had arrived is read first. Milliseconds.
pub const LOOK_AGAIN_MS: i64 = 100;

/// For how long a core has listened to nobody, because its thread, its process or its machine stood still: it is called
/// now, after `before`, and was to be woken at `due`. Since when it stood still it cannot know; the earliest moment counts.
#[must_use]
pub fn stood_still(before: Mono, now: Mono, due: Option<Mono>) -> Option<i64> {
    let late = now.since(due?);
    (late >= LATE_MS).then(|| now.since(before))
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
