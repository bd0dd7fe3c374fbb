//! How long turns last, and the two longest of a process. A log that has each turn which was one of them when it ended has the
//! two longest, however the process ends.

use std::time::Duration;

use capataz_crew::Mono;

use crate::meters::Begun;

/// A turn, from the moment at which somebody has the shards to the moment at which they are given back, without the commits
/// that are made in it.
#[derive(Debug)]
pub(crate) struct Turn {
    begun: Begun,
    at: Mono,
    /// What does not count.
    apart: (Duration, i64),
}

impl Turn {
    pub(crate) fn begins(now: Mono) -> Self {
        Self { begun: Begun::now(), at: now, apart: (Duration::ZERO, 0) }
    }

    /// What lasted so long does not count.
    pub(crate) fn leaves_out(&mut self, took: Duration, lasted_ms: i64) {
        let (apart, apart_ms) = &mut self.apart;
        (*apart, *apart_ms) = (apart.saturating_add(took), apart_ms.saturating_add(lasted_ms));
    }

    /// How long it has lasted: as the machine measures it, and in milliseconds as the shards know the time.
    pub(crate) fn ends(self, now: Mono) -> (Duration, i64) {
        let (apart, apart_ms) = self.apart;
        (self.begun.took().saturating_sub(apart), now.since(self.at).saturating_sub(apart_ms).max(0))
    }
}

/// Milliseconds, the longest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest([i64; 2]);

impl Longest {
    #[cfg(test)]
    pub(crate) fn longest_ms(self) -> i64 {
        self.0[0]
    }

    /// Whether a turn lasted longer than all before it but one.
    pub(crate) fn takes(&mut self, lasted_ms: i64) -> bool {
        let Self([longest, second]) = *self;
        if lasted_ms <= second {
            return false;
        }
        *self = Self([longest.max(lasted_ms), longest.min(lasted_ms)]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_in_a_turn_does_not_count() {
        let mut turn = Turn::begins(Mono(1_000));
        turn.leaves_out(Duration::from_secs(3_600), 200);
        turn.leaves_out(Duration::ZERO, 30);
        assert_eq!(turn.ends(Mono(1_290)), (Duration::ZERO, 60));
    }

    #[test]
    fn the_two_longest_are_told_whatever_their_order() {
        let mut longest = Longest::default();
        let told = [0, 3, 1, 9, 5, 5, 4, 9, 12].map(|lasted| longest.takes(lasted));
        assert_eq!(told, [false, true, true, true, true, false, false, true, true]);
    }
}
