//! The two longest turns of a process. A log that has each turn which was one of them when it ended has the two longest,
//! however the process ends.

/// Milliseconds, the longest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest([i64; 2]);

impl Longest {
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
    fn the_two_longest_are_told_whatever_their_order() {
        let mut longest = Longest::default();
        let told = [0, 3, 1, 9, 5, 5, 4, 9, 12].map(|lasted| longest.takes(lasted));
        assert_eq!(told, [false, true, true, true, true, false, false, true, true]);
    }
}
