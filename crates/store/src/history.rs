//! Marks and eras: which positions of a shard were written under which claim.
//!
//! Epochs and positions are counted, so two copies of the same data count alike: what one of them has given out would be
//! taken by the other for its own. A mark is drawn at random with each claim, so copies that are both used have
//! different histories from then on.

use crate::port::Position;

/// The number that a claim of a shard is known by, drawn at random by whoever claims. It is never 0, which stands for
/// what was written before there were marks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Mark(pub u32);

impl Mark {
    /// The mark of everything that was written before there were marks. No claim has it.
    pub const NONE: Self = Self(0);
}

/// The positions that were written, or may be written, under one mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Era {
    pub mark: Mark,
    pub first: Position,
    /// The last position of the era; `None` for the era of the newest claim, which goes on.
    pub last: Option<Position>,
}

impl Era {
    /// Returns whether the position is one of this era.
    #[must_use]
    pub fn contains(&self, position: Position) -> bool {
        position >= self.first && self.last.is_none_or(|last| position <= last)
    }
}

/// The eras of one shard that are still known, in the order of their positions.
///
/// Retention forgets eras, so that there may be positions between two eras, or before the first one, that belong to
/// none. No two eras have the same mark or a position in common.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct History {
    eras: Vec<Era>,
}

impl History {
    /// The history of these eras, in any order.
    #[must_use]
    pub fn new(mut eras: Vec<Era>) -> Self {
        eras.sort_by_key(|era| era.first);
        Self { eras }
    }

    /// The known eras, in the order of their positions.
    #[must_use]
    pub fn eras(&self) -> &[Era] {
        &self.eras
    }

    /// The mark of the newest claim; `None` for a shard that was never claimed and has no rows.
    #[must_use]
    pub fn newest(&self) -> Option<Mark> {
        self.eras.last().map(|era| era.mark)
    }

    /// The mark under which a position was written, or would be written next; `None` for position 0, and for a position
    /// whose era is forgotten.
    #[must_use]
    pub fn mark_of(&self, position: Position) -> Option<Mark> {
        let begun = self.eras.partition_point(|era| era.first <= position);
        let era = begun.checked_sub(1).and_then(|index| self.eras.get(index))?;
        era.contains(position).then_some(era.mark)
    }

    /// Returns whether a position that was given out under a mark is one of this history. Position 0 always is: nothing
    /// lies before it, so nothing can have been missed or lost.
    ///
    /// The era of the newest claim has no end. Whether a position in it was written yet, [`crate::Store::bounds`] says.
    #[must_use]
    pub fn contains(&self, mark: Mark, position: Position) -> bool {
        position == Position(0) || self.mark_of(position) == Some(mark)
    }

    /// Returns whether a claim of this history has the mark, or, for [`Mark::NONE`], whether it has rows from before
    /// there were marks.
    #[must_use]
    pub fn knows(&self, mark: Mark) -> bool {
        self.eras.iter().any(|era| era.mark == mark)
    }

    /// Forgets an era; its positions belong to none from now on.
    pub(crate) fn forget(&mut self, first: Position) {
        self.eras.retain(|era| era.first != first);
    }

    /// Begins the era of a claim. `newest` is the last position that was written. An era under which nothing was written
    /// is replaced.
    ///
    /// # Errors
    /// The mark cannot be that of a claim; the history is unchanged.
    pub fn begin(&mut self, mark: Mark, newest: Position) -> Result<(), Unmarked> {
        let written = |era: &&Era| era.first <= newest;
        if mark == Mark::NONE {
            return Err(Unmarked::Zero);
        }
        if self.eras.iter().filter(written).any(|era| era.mark == mark) {
            return Err(Unmarked::Known);
        }
        self.eras.retain(|era| written(&era));
        if let Some(last) = self.eras.last_mut().filter(|era| era.last.is_none()) {
            last.last = Some(newest);
        }
        self.eras.push(Era { mark, first: Position(newest.0.saturating_add(1)), last: None });
        Ok(())
    }
}

/// The reason why a mark cannot be that of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmarked {
    #[error("a claim's mark is not 0")]
    Zero,
    #[error("an earlier claim has the same mark")]
    Known,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The history of claims, each a mark and the last position that was written before it.
    fn history(claims: &[(u32, u64)]) -> History {
        let mut history = History::default();
        for (mark, newest) in claims {
            history.begin(Mark(*mark), Position(*newest)).unwrap();
        }
        history
    }

    fn era(mark: u32, first: u64, last: impl Into<Option<u64>>) -> Era {
        Era { mark: Mark(mark), first: Position(first), last: last.into().map(Position) }
    }

    #[test]
    fn an_era_ends_where_the_next_one_begins() {
        let history = history(&[(7, 0), (5, 3), (9, 4)]);
        assert_eq!(history.eras(), [era(7, 1, 3), era(5, 4, 4), era(9, 5, None)]);
        assert_eq!(history.newest(), Some(Mark(9)));
        let marks = [0, 1, 3, 4, 5, 1_000].map(|position| history.mark_of(Position(position)).map(|m| m.0));
        assert_eq!(marks, [None, Some(7), Some(7), Some(5), Some(9), Some(9)]);
    }

    #[test]
    fn an_era_without_positions_is_replaced() {
        assert_eq!(history(&[(7, 0), (5, 0), (7, 0)]).eras(), [era(7, 1, None)]);
        assert_eq!(history(&[(7, 0), (5, 2), (9, 2)]).eras(), [era(7, 1, 2), era(9, 3, None)]);
    }

    #[test]
    fn a_position_is_of_the_history_under_its_own_mark_only() {
        let history = history(&[(7, 0), (5, 3)]);
        for (mark, position, expected) in [
            (7, 1, true),
            (7, 3, true),
            (7, 4, false),
            (5, 3, false),
            (5, 4, true),
            (5, u64::MAX, true),
            (6, 2, false),
            (0, 2, false),
            (6, 0, true),
            (0, 0, true),
        ] {
            assert_eq!(history.contains(Mark(mark), Position(position)), expected, "{mark} {position}");
        }
        assert_eq!([7, 5, 6, 0].map(|mark| history.knows(Mark(mark))), [true, true, false, false]);
    }

    #[test]
    fn what_is_forgotten_belongs_to_nobody() {
        // The eras of positions 1 to 3 and 6 to 8 are forgotten.
        let history = History::new(vec![era(9, 9, None), era(5, 4, 5)]);
        let marks = [1, 3, 4, 5, 6, 8, 9].map(|position| history.mark_of(Position(position)).map(|m| m.0));
        assert_eq!(marks, [None, None, Some(5), Some(5), None, None, Some(9)]);
        assert!(!history.contains(Mark::NONE, Position(2)));
        assert!(!history.contains(Mark(5), Position(7)));
    }

    #[test]
    fn what_was_written_before_marks_is_an_era_of_its_own() {
        let mut history = History::new(vec![era(0, 1, None)]);
        assert!(history.knows(Mark::NONE) && history.contains(Mark::NONE, Position(4)));
        history.begin(Mark(3), Position(4)).unwrap();
        assert_eq!(history.eras(), [era(0, 1, 4), era(3, 5, None)]);
    }

    #[test]
    fn a_mark_is_given_once() {
        let mut history = history(&[(7, 0), (5, 3)]);
        let before = history.clone();
        assert_eq!(history.begin(Mark(0), Position(9)), Err(Unmarked::Zero));
        assert_eq!(history.begin(Mark(7), Position(9)), Err(Unmarked::Known));
        assert_eq!(history.begin(Mark(5), Position(9)), Err(Unmarked::Known));
        assert_eq!(history, before);
        // Nothing was written under it, so nobody can have heard of it.
        history.begin(Mark(5), Position(3)).unwrap();
        assert_eq!(history, before);
    }

    #[test]
    fn copies_that_are_both_used_have_a_common_past_and_different_futures() {
        let common = history(&[(7, 0), (5, 3)]);
        let (mut one, mut other) = (common.clone(), common);
        one.begin(Mark(1), Position(6)).unwrap();
        other.begin(Mark(2), Position(6)).unwrap();
        for history in [&one, &other] {
            assert!(history.contains(Mark(5), Position(6)));
            assert!(!history.contains(Mark(5), Position(7)), "the copy was made at 6");
        }
        assert!(one.contains(Mark(1), Position(7)) && !other.contains(Mark(1), Position(7)));
        assert!(other.contains(Mark(2), Position(7)) && !one.contains(Mark(2), Position(7)));
    }
}
